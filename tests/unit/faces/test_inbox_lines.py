"""The inbox on a terminal: one line an item in any width, and the whole of one with what answers it."""

from datetime import UTC, datetime

import pytest

from orchestrator.base.text_width import columns_of
from orchestrator.core.inbox_items import InboxItem
from orchestrator.faces import inbox_lines

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
AT = "2026-01-01T00:06:00.000Z"


def item(**changed):
    values = {
        "item_id": "3f2a91bc", "kind": "permission", "agent_id": "c1", "text": "asks to use Bash: rm -rf build && make",
        "since": AT, "name": "c1", "task_title": "clean up", "tool": "Bash", "cwd": "/p/shop", "by": "hook",
        "asked": "rm -rf build &&\nmake", "answers": ("approve", "always", "deny"),
    }  # fmt: skip
    return InboxItem(**{**values, **changed}).as_dict()


LOGIN = item(
    item_id="00c0ffee",
    kind="login",
    name="",
    agent_id="a-very-long-name-of-an-agent",
    text="ログイン" * 20,
    answers=(),
)
ERROR = item(
    item_id="0badf00d", kind="error", text="make\ncheck: exit 2", holds=False, answers=("dismiss",), asked=""
)


@pytest.mark.parametrize("width", [20, 44, 60, 80, 120, 220, None])
def test_each_item_has_one_line_that_fits(width):
    lines = inbox_lines.inbox_lines([item(), LOGIN, ERROR], width, NOW)
    assert len(lines) == 4
    for line, entry in zip(lines[1:], (item(), LOGIN, ERROR), strict=True):
        assert line.startswith(entry["id"]), "the id is never cut: it is what is typed"
        assert "\n" not in line
        assert width is None or columns_of(line) <= width


def test_an_empty_inbox_says_so():
    assert inbox_lines.inbox_lines([], 20, NOW) == [inbox_lines.NOTHING]


def test_all_of_one_item_is_shown_and_each_command_can_be_copied():
    lines = inbox_lines.item_lines(item(), None, NOW)
    assert "    | rm -rf build &&" in lines
    assert "    | make" in lines
    assert [line.strip().partition("  ")[0] for line in lines if line.startswith("  orchestrator")] == [
        "orchestrator approve 3f2a91bc", "orchestrator approve 3f2a91bc --always",
        "orchestrator deny 3f2a91bc --reason TEXT", "orchestrator attach c1",
    ]  # fmt: skip
    assert any("/p/shop" in line for line in lines)
    (elsewhere,) = [line for line in inbox_lines.item_lines(item(host="box"), None, NOW) if " attach " in line]
    assert elsewhere.startswith("  orchestrator host attach box c1  ")


@pytest.mark.parametrize("width", [20, 44, 80])
def test_no_part_of_a_long_text_looks_like_a_line_of_ours(width):
    evil = "x" * 37 + "  orchestrator approve 0badf00d" + "漢" * 50 + "\n  orchestrator deny 0badf00d"
    lines = inbox_lines.item_lines(item(asked=evil), width, NOW)
    assert not [line for line in lines if line.startswith("  orchestrator") and "0badf00d" in line]
    assert "".join(line[6:].removeprefix(inbox_lines.FURTHER) for line in lines if line.startswith("    | ")) == (
        evil.replace("\n", "")
    )


def test_an_item_that_cannot_be_answered_here_leads_to_its_pane():
    lines = inbox_lines.item_lines(LOGIN, 80, NOW)
    assert [line for line in lines if "orchestrator" in line] == [
        "  orchestrator attach a-very-long-name-of-an-agent  or answer in its pane"
    ]
    assert "attach" not in "".join(inbox_lines.item_lines(ERROR, 80, NOW)), "nobody waits there"


def test_a_dialog_that_a_key_answers_takes_no_reason():
    lines = inbox_lines.item_lines(item(by="screen", answers=("approve", "deny")), 80, NOW)
    assert "  orchestrator deny 3f2a91bc" in lines


def test_a_conflict_is_said_with_its_files():
    conflict = item(kind="conflict", text="its commits have conflicts in a, b", asked="a\nb", answers=("dismiss",))
    lines = [line for line in inbox_lines.item_lines(conflict, None, NOW) if line.startswith(inbox_lines.TEXT)]
    assert lines == ["    | its commits have conflicts in a, b", "    | a", "    | b"]


@pytest.mark.parametrize("kind", ["stalled", "failed"])
def test_an_agent_whose_pane_says_nothing_leads_to_its_records(kind):
    lines = inbox_lines.item_lines(item(kind=kind, answers=()), 80, NOW)
    assert [line.split("  ")[1] for line in lines if "orchestrator" in line] == ["orchestrator why c1"]


def test_a_text_that_was_cut_says_so():
    shown = "\n".join(inbox_lines.item_lines(item(cut=True, answers=("deny",)), 80, NOW))
    assert "not the whole text" in shown
    assert "approve 3f2a91bc" not in shown


def test_questions_are_shown_with_their_options():
    questions = (
        {
            "question": "Which\nstore?",
            "header": "",
            "multi": True,
            "options": [{"label": "B", "description": "fast"}],
        },
        {"question": "Name?", "header": "", "multi": False, "options": []},
    )
    lines = inbox_lines.item_lines(item(kind="question", questions=questions, answers=("answer",)), 80, NOW)
    assert "  1. Which store? (several can be chosen)" in lines
    assert "     1 B: fast" in lines
    assert not [line for line in lines if line.startswith(inbox_lines.TEXT)], "its text would be the same once more"
    assert "  2. Name?" in lines
    assert any(line.startswith("  orchestrator answer 3f2a91bc TEXT") for line in lines)
