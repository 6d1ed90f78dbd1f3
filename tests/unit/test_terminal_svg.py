"""Terminal screens as SVG: cells, colours, wide letters, and which row is shown when."""

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "tools" / "terminal_svg.py"
SPEC = importlib.util.spec_from_file_location("terminal_svg", PATH)
svg = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(svg)
SPACE = "{http://www.w3.org/2000/svg}"


def texts(markup):
    return [(float(e.get("x")), e.text) for e in ET.fromstring(markup).iter(f"{SPACE}text")]


def test_a_row_is_split_where_its_style_changes_and_wide_letters_stand_alone():
    (row,) = svg.rows("ab\x1b[1;31mc d\x1b[0m한글!", 20)
    assert [(run.column, run.columns, run.text) for run in row] == [
        (0, 2, "ab"), (2, 3, "c d"), (5, 2, "한"), (7, 2, "글"), (9, 1, "!"),
    ]  # fmt: skip
    assert row[1].style == svg.Style(fg="#ff7b72", bold=True)


def test_a_style_goes_on_in_the_next_row_and_codes_that_are_no_style_are_dropped():
    first, second = svg.rows("\x1b[38;5;208;48;2;1;2;300mx\n\x1b[?25l\x1b]0;title\x07y\x1b[49;39m", 9)
    assert first[0].style == second[0].style == svg.Style(fg="#ff8700", bg="#0102ff")
    assert second[0].text == "y"


def test_what_is_beyond_the_width_is_not_drawn():
    assert [run.text for run in svg.rows("한" * 9, 5)[0]] == ["한", "한"]


def test_a_picture_is_one_xml_with_escaped_text_and_no_motion():
    markup = svg.picture("a<b>&\x1b[7mc", 10, 2, 'say "x" & <y>')
    assert [text for _, text in texts(markup)] == ["a<b>&", "c"]
    assert "animation" not in markup


def test_no_rule_hides_the_colour_and_the_weight_of_a_text():
    markup = svg.picture("\x1b[1;31mx\x1b[0;7my", 10, 1, "t")
    drawn = [(e.get("fill"), e.get("font-weight")) for e in ET.fromstring(markup).iter(f"{SPACE}text")]
    assert drawn == [("#ff7b72", "bold"), (svg.BACKGROUND, None)]
    assert re.findall(r"\btext{([^}]*)}", markup) == ["white-space:pre"]


def test_a_recording_shows_each_row_during_its_seconds_and_still_rows_always():
    markup = svg.recording([svg.Frame(0, "top\none"), svg.Frame(5, "top\ntwo")], 10, 2, "t", 20)
    assert [text for _, text in texts(markup)] == ["top", "one", "two"]
    groups = [group.get("class") for group in ET.fromstring(markup).iter(f"{SPACE}g")]
    assert groups == [None, "s0", "s1"]
    keys = dict(re.findall(r"@keyframes (s\d){((?:[0-9.]+%{[a-z:]+})+)}", markup))
    assert keys == {
        "s0": "0.000%{visibility:visible}25.000%{visibility:hidden}",
        "s1": "0.000%{visibility:hidden}25.000%{visibility:visible}",
    }
