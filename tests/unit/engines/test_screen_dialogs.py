"""Permission dialogs on screens: their text, the keys of their answers, and what must never be answered by a key."""

import pytest

from orchestrator.core.screens import Screen
from orchestrator.engines.screen_dialogs import dialog_of
from orchestrator.engines.table import ENGINES
from tests.unit.engines.test_table import SCREENS, screen_of

RECORDED = {
    "claude/permission-bash": ({"approve": "1", "deny": "3"}, False),
    "claude/permission-narrow": ({"approve": "1", "deny": "3"}, False),
    "claude/permission-write": ({"approve": "1", "deny": "3"}, True),  # a screen may show a part of a file only
    "codex/permission-command": ({"approve": "1", "deny": "3"}, False),
    "codex/permission-edit": ({"approve": "1", "deny": "3"}, True),  # it names the file, not the change
    "codex/permission-mcp_tool": ({"approve": "1", "deny": "4"}, False),
    "gemini/permission-edit": ({"approve": "1", "deny": "4"}, False),
    "gemini/permission-shell": ({"approve": "1", "deny": "2"}, False),
}


def dialog(name, change=lambda lines: lines):
    engine = name.split("/")[0]
    screen = screen_of(SCREENS / f"{name}.txt")
    return dialog_of(ENGINES[engine].dialogs, screen._replace(lines=tuple(change(list(screen.lines)))))


@pytest.mark.parametrize("name", RECORDED)
def test_each_recorded_dialog_names_the_keys_of_its_answers(name):
    assert (dialog(name).keys, dialog(name).cut) == RECORDED[name]


def test_no_other_recorded_screen_has_a_dialog_that_a_key_answers():
    others = [
        f"{path.parent.name}/{path.stem}"
        for path in sorted(SCREENS.glob("*/*.txt"))
        if f"{path.parent.name}/{path.stem}" not in RECORDED
    ]
    assert len(others) > 100
    assert [name for name in others if dialog(name) is not None] == []


def test_the_digest_is_that_of_the_whole_dialog_and_of_nothing_else():
    one = dialog("claude/permission-bash")
    above = dialog("claude/permission-bash", lambda lines: ["another word", *lines[1:]])
    other = dialog("claude/permission-bash", lambda lines: [x.replace("touch", "chmod") for x in lines])
    assert one.digest == above.digest != other.digest
    assert "touch /etc/zzz-not && rm -rf /etc/zzz-not" in one.text


def insert(lines, *more):
    at = next(n for n, line in enumerate(lines) if line.startswith(" touch"))
    return [*lines[: at + 1], *more, *lines[at + 1 :]]


@pytest.mark.parametrize(
    "lines",
    [
        (" ❯ 1. No", "   2. Yes"),
        ("   2. Yes", "   3. Yes"),
        ("   1. Yes", "   2. No", "   3. Yes"),
        (" Do you want to proceed?", " ❯ 1. No", "   2. Yes", " Esc to cancel"),
    ],
)
def test_a_list_in_what_is_asked_for_cannot_change_what_a_key_means(lines):
    """The command is the agent's word: its list must not be taken for the dialog's."""
    assert dialog("claude/permission-bash", lambda shown: insert(shown, *lines)).keys == {"approve": "1", "deny": "3"}


def test_a_list_without_its_first_lines_is_no_list():
    lines = lambda shown: [line for line in shown if "1. Yes" not in line]  # noqa: E731
    assert dialog("claude/permission-bash", lines) is None


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x1b", "\u2066"])
def test_a_text_that_hides_characters_is_cut(hidden):
    assert dialog("claude/permission-bash", lambda shown: insert(shown, f" echo {hidden}x")).cut


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claude/permission-bash", " ↑ 49 more lines"),
        ("codex/permission-command", "    [… 104 lines] ^a view all"),
        ("gemini/permission-shell", "│ ... first 12 lines hidden ...                        │"),
    ],
)
def test_a_text_that_the_cli_shows_in_part_is_cut(name, line):
    def change(lines):
        at = next(n for n in range(len(lines) - 1, -1, -1) if "1. " in lines[n])
        return [*lines[:at], line, *lines[at:]]

    assert dialog(name, change).cut


def test_a_dialog_whose_beginning_has_left_the_screen_is_none():
    assert dialog("gemini/permission-shell", lambda lines: lines[-12:]) is None
    assert dialog_of(ENGINES["claude"].dialogs, Screen()) is None
