"""The status of a team as lines for a width: never wrapped, who needs a human first, failures visible."""

from datetime import UTC, datetime

import pytest

from orchestrator.base.text_width import columns_of, cut
from orchestrator.core import glyphs
from orchestrator.core.attention import in_order, totals
from orchestrator.faces.status_lines import footer, status_lines
from orchestrator.faces.text_table import Column, lines_of

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def row(agent_id, status="idle", **more):
    return {
        "agent_id": agent_id, "name": agent_id, "status": status, "reason": "", "queue_depth": 0,
        "running_task_id": None, "running_task_title": None, "attempt": None, "since": "2026-01-02T11:57:00.000Z",
        "finished": {"result": 0, "error": 0, "canceled": 0}, "last_task": None, "cancel_requested": False,
    } | more  # fmt: skip


def busy(agent_id, title, **more):
    return row(agent_id, "busy", running_task_id="t-1", running_task_title=title, attempt=1) | more


def ended(outcome, title, reason=""):
    return {"task_id": "t-9", "title": title, "outcome": outcome, "reason": reason, "at": "2026-01-02T11:57:00.000Z"}


EIGHT = [
    busy("builder", "make everything and then all of it again from the beginning " * 3, attempt=2),
    row("asker", "blocked", reason="asks to use Bash(rm -rf build && make everything anew in a long command line)"),
    busy("korean", "테스트를 모두 실행하고 결과를 보고하세요 " * 4),
    row("tester", last_task=ended("error", "make lint", "the command ended with exit code 2")),
    row(
        "dead", "failed", reason="its program exited with 1; not ready within 90 s", since="2026-01-02T10:00:00.000Z"
    ),
    row("new", "starting", reason="waiting for its first wait_for_command"),
    busy("a-very-long-name-of-an-agent-that-nobody-types", "x", queue_depth=12),
    row("quiet", "parked", last_task=ended("result", "make docs")),
]


@pytest.mark.parametrize("width", [20, 36, 48, 60, 80, 89, 90, 120, 220])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_each_agent_has_one_line_that_fits_the_terminal(width, ascii_only):
    lines = [line.text for line in status_lines(EIGHT, width, NOW, ascii_only=ascii_only)]
    assert len(lines) == 1 + len(EIGHT)
    assert max(columns_of(line) for line in lines) <= width
    assert columns_of(footer(totals(EIGHT), width, ascii_only=ascii_only)) <= width


def test_a_narrow_pane_shows_who_what_and_how_long():
    lines = [line.text for line in status_lines(EIGHT, 36, NOW)]
    asker = next(line for line in lines if "asker" in line)
    assert asker.startswith("◐ asker")
    assert "asks to use" in asker
    assert asker.endswith("3m")


def test_nothing_is_cut_without_a_width():
    shown = "\n".join(line.text for line in status_lines(EIGHT, None, NOW))
    assert EIGHT[0]["running_task_title"].strip() in shown
    assert EIGHT[1]["reason"] in shown
    assert "…" not in shown


def test_who_needs_a_human_comes_first_then_the_busy_the_idle_the_ended_and_the_oldest_first():
    order = [each["agent_id"] for each in in_order([*EIGHT, row("leaving", "stopping")])]
    assert order[:2] == ["dead", "asker"]
    assert set(order[2:6]) == {"builder", "korean", "new", "a-very-long-name-of-an-agent-that-nobody-types"}
    assert set(order[6:8]) == {"tester", "quiet"}
    assert order[8:] == ["leaving"]


def test_an_idle_agent_whose_last_task_failed_says_so():
    (_, line) = status_lines([EIGHT[3]], 120, NOW)
    assert "○ idle" in line.text
    assert "✕ make lint" in line.text
    assert "exit code 2" in line.text
    assert (
        footer(totals([EIGHT[3] | {"finished": {"result": 1, "error": 3, "canceled": 1}}]), 80)
        == "1 agent · 1 idle · 1 ✓ 3 ✕ 1 ⊘"
    )


def test_the_footer_counts_the_team():
    assert footer(totals(EIGHT), None) == "8 agents · 2 need you · 4 busy · 2 idle"
    assert footer(totals(EIGHT[:2]), None, ascii_only=True) == "2 agents - 1 needs you - 1 busy"


def test_an_attempt_is_shown_from_the_second_on():
    for width in (None, 59, 40):
        shown = "\n".join(line.text for line in status_lines(EIGHT[:1], width, NOW))
        assert "attempt 2: " in shown, width
    assert "attempt" not in "\n".join(line.text for line in status_lines(EIGHT[2:3], 120, NOW))


def test_how_long_is_that_of_the_wait():
    waits = {"kind": "permission", "text": "asks", "since": "2026-01-02T11:59:50.000Z", "until": None, "item": "1"}
    (_, line) = status_lines([busy("a", "x", waits_for=waits, needs_human=True)], 80, NOW)
    assert line.text.endswith("10s")


def test_a_given_name_stands_for_the_id():
    (_, line) = status_lines([row("w-2")], 80, NOW, names={"w-2": "w"})
    assert "w-2" not in line.text


def test_every_status_and_outcome_has_a_sign_of_one_column_and_one_in_ascii():
    assert {columns_of(glyph.sign) for glyph in (*glyphs.STATUS.values(), *glyphs.OUTCOME.values())} == {1}
    assert all(glyph.ascii.isascii() for glyph in (*glyphs.STATUS.values(), *glyphs.OUTCOME.values()))


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("테스트", 6, "테스트"), ("테스트", 5, "테스…"), ("테스트", 4, "테…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"), ("a b", 2, "a…"), ("abc", 1, "…"), ("abc", 0, ""), ("", 0, ""),
    ],
)  # fmt: skip
def test_a_text_is_cut_between_letters_and_wide_ones_count_two(text, width, shown):
    assert cut(text, width) == shown


def test_a_column_without_content_is_left_out_and_room_goes_where_it_is_needed():
    columns = [Column("A", ["x", "y"]), Column("EMPTY", ["", ""]), Column("LONG", ["z" * 50, ""], least=4)]
    assert lines_of(columns, 20) == ["A LONG", f"x {'z' * 17}…", "y"]
    assert lines_of(columns, None) == ["A  LONG", f"x  {'z' * 50}", "y"]
