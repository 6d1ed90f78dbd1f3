"""The table of top at every width: nothing is wrapped or wider than the terminal, and what matters is there."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.text_width import columns_of
from orchestrator.faces.row_words import diff_text, short_number, state_of, totals_parts
from orchestrator.faces.top.team_layout import (
    agent_cells,
    has_second_line,
    matching,
    row_line,
    run_cells,
    title_line,
    waits_line,
    widths_for,
)
from tests.support.top_team import AT, agent, asking, busy, item, snapshot

NOW = datetime(2026, 1, 2, 3, 8, tzinfo=UTC)
RUN = {"kind": "spawn", "id": "r-1234567890", "title": "compare", "status": "running", "since": AT, "done": 2, "failed": 0,
       "total": 5, "wave": 1, "waves": 3, "cost_usd": 0.12, "needs_human": False}  # fmt: skip
USED = {"input": 1000, "cached": 2000, "output": 10, "requests": 1, "cost_usd": 0.41, "models": [], "unknown": ""}


def text_of(parts):
    return "".join(text for text, _ in parts)


def team():
    rows = [
        asking("c1", item("1", "c1"), queue_depth=1, usage=USED),
        busy("w01", "make check", diff={"files": 2, "added": 12, "removed": 3}) | {"attempt": 2},
        agent("unit", last_task={"task_id": "t", "title": "lint", "outcome": "error", "reason": "exit 2", "at": AT}),
    ]
    return [agent_cells(row, row["name"]) for row in rows] + [run_cells(RUN)]


@pytest.mark.parametrize("width", [20, 30, 44, 59, 60, 80, 92, 120, 150, 220])
def test_no_line_is_wider_than_the_terminal_and_each_names_its_agent(width):
    rows = team()
    widths = widths_for(rows, width)
    assert columns_of(title_line(widths)) <= width
    for row in rows:
        line = text_of(row_line(row, widths, NOW, chosen=False))
        assert columns_of(line) <= width
        assert row.cells["agent"][:2] in line
        assert row.state.sign in line
        assert has_second_line(row, widths) == (bool(row.waits) and width >= 60)
        assert columns_of(text_of(waits_line(row, widths))) <= width


@given(name=st.text(max_size=40), title=st.text(max_size=80), asked=st.text(max_size=80), width=st.integers(8, 240))
def test_any_text_stays_on_its_line_and_acts_on_no_terminal(name, title, asked, width):
    row = asking("c1", item("1", "c1", text=asked), host=name) | {"running_task_title": title}
    cells = agent_cells(row, name)
    widths = widths_for([cells], width)
    for parts in (row_line(cells, widths, NOW, chosen=True), waits_line(cells, widths)):
        line = text_of(parts)
        assert line.isprintable()
        if width >= 20:
            assert columns_of(line) <= width


def test_a_narrow_row_says_what_the_agent_waits_for_instead_of_its_task():
    rows = team()
    line = text_of(row_line(rows[0], widths_for(rows, 59), NOW, chosen=True))
    assert line.startswith("▶ ◐ asks")
    assert "asks to use" in line
    assert "3m" in line


def test_a_wide_table_shows_cost_diff_and_tokens():
    rows = team()
    widths = widths_for(rows, 120)
    lines = [text_of(row_line(row, widths, NOW, chosen=False)) for row in rows]
    assert "$0.41" in lines[0]
    assert "3.0k" in lines[0]
    assert "+12\u22123" in lines[1]
    assert "attempt 2: " in lines[1]
    assert "✕ lint: exit 2" in lines[2]
    assert "2/5, wave 1/3: compare" in lines[3]


def test_hosts_have_a_column_only_if_a_row_has_a_host():
    assert "HOST" not in title_line(widths_for(team(), 120))
    rows = [agent_cells(agent("a", host="green"), "a")]
    assert "HOST" in title_line(widths_for(rows, 120))


def test_ascii_signs_stand_in_where_no_others_can_be_shown():
    rows = [agent_cells(asking("c1", item("1", "c1")), "c1", ascii_only=True)]
    line = text_of(row_line(rows[0], widths_for(rows, 80), NOW, chosen=True, ascii_only=True))
    assert line.isascii()


def test_a_filter_looks_in_every_column_and_needs_me_keeps_those_that_wait():
    rows = team()
    assert [row.key for row in matching(rows, "MAKE check", needs_me=False)] == ["agent:w01"]
    assert [row.key for row in matching(rows, "", needs_me=True)] == ["agent:c1"]
    assert matching(rows, "rm -rf w01", needs_me=False) == []


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (asking("a", item("1", "a")), "asks"),
        (asking("a", item("1", "a", "login")), "login"),
        (asking("a", item("1", "a", "rate_limit")), "limit"),
        (agent("a", "failed", needs_human=True), "failed"),
        (busy("a", "x"), "busy"),
        (agent("a", "never heard of"), "never heard of"),
    ],
)
def test_the_state_is_what_the_agent_waits_for_else_its_status(row, word):
    assert state_of(row).word == word
    assert state_of(row, ascii_only=True).sign.isascii()


def test_totals_are_words_and_numbers():
    rows = [asking("c1", item("1", "c1"), finished={"result": 3, "error": 1}, usage=USED), busy("b", "x")]
    assert totals_parts(snapshot(rows)) == ["2 agents", "1 needs you", "1 busy", "3 ✓ 1 ✕", "$0.41"]


def test_numbers_are_short():
    assert [short_number(n) for n in (0, 999, 1000, 12_345, 3_400_000, 2_000_000_000)] == [
        "0", "999", "1.0k", "12k", "3.4M", "2.0G",
    ]  # fmt: skip
    assert diff_text({"files": 0, "added": 0, "removed": 0}) == ""
