"""The pictures and screens that `make pictures` writes: there, linked, well-formed, and of no machine."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from tools import docs

PICTURES, SCREENS = docs.ROOT / "docs" / "pictures", docs.ROOT / "docs" / "screens"
SIZES = ("80x24", "120x40", "220x60")
MADE = {
    **dict.fromkeys((f"screens/{what}-{size}.txt" for what in ("status", "window") for size in SIZES), 20_000),
    "screens/blocked.txt": 20_000,
    "pictures/window.svg": 60_000,
    "pictures/recording.svg": 400_000,
    "pictures/top.svg": 300_000,
    "pictures/top.cast": 300_000,
}
"""Each file, and the bytes that it may have."""
OF_A_MACHINE = re.compile(r"https?://|(?<![\w~])/(?:home|root|tmp|usr|var|work|mnt|Users)\b|\w@\w|localhost|op-\w{8}")


@pytest.mark.parametrize("name", MADE)
def test_it_is_there_and_linked_and_small(name):
    path = docs.ROOT / "docs" / name
    assert 0 < path.stat().st_size <= MADE[name]
    pages = [page for page in docs.pages() if f"({name})" in page.read_text("utf-8").replace("(docs/", "(")]
    assert pages, f"no page links {name}"


def test_nothing_else_is_there():
    assert {f"screens/{path.name}" for path in SCREENS.iterdir()} == {
        name for name in MADE if name.startswith("screens/")
    }


def shown(name):
    """The texts of a picture, or the lines of a screen."""
    text = (docs.ROOT / "docs" / name).read_text("utf-8")
    if name.endswith(".cast"):
        return [piece for line in text.splitlines()[1:] for piece in json.loads(line)[2].split("\r\n")]
    if not name.endswith(".svg"):
        return text.split("\n")
    root = ET.fromstring(text)
    assert not [
        one.tag
        for one in root.iter()
        if one.tag.rpartition("}")[2] not in {"svg", "title", "style", "rect", "g", "text"}
    ]
    return [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", MADE)
def test_it_names_no_host_and_no_path_of_a_machine(name):
    assert [line for line in shown(name) if OF_A_MACHINE.search(line)] == []


@pytest.mark.parametrize("size", SIZES)
def test_a_status_shows_each_kind_of_agent_on_one_line(size):
    lines = [line for line in shown(f"screens/status-{size}.txt") if line[:1] in set("◐●○◌")]
    assert sorted(line.split()[1] for line in lines) == sorted(["asks", *["busy"] * 3, *["idle"] * 3, "parked"])
    assert any("✕ make integration-tests" in line for line in lines)
    assert max(map(len, lines)) <= int(size.partition("x")[0])


def test_the_recording_of_top_shows_a_question_its_answer_and_the_timeline():
    for name in ("pictures/top.svg", "pictures/top.cast"):
        texts = "\n".join(shown(name))
        assert all(text in texts for text in ("asks", "Enter: approve", "approved", "h/l move")), name


def test_the_recording_and_the_picture_show_the_question_and_the_recording_its_end():
    for name in ("pictures/window.svg", "pictures/recording.svg"):
        assert any("Do you want to proceed?" in line for line in shown(name))
        assert any("◐ asks" in line for line in shown(name))
    assert any("merged 1 commit of orchestrator/coder" in line for line in shown("pictures/recording.svg"))
