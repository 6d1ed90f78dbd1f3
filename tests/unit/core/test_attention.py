"""Who needs a human, in which word, and in which order people see agents."""

import pytest

from orchestrator.core.attention import in_order, needs_human, state_word, totals


def row(agent_id, status="idle", since="2026-01-01T00:05", **more):
    return {"agent_id": agent_id, "status": status, "since": since, **more}


def waiting(agent_id, kind, since, status="busy"):
    return row(agent_id, status, needs_human=True, waits_for={"kind": kind, "since": since})


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("permission", "asks"), ("question", "asks"), ("dialog", "asks"), ("login", "login"), ("trust", "trust"),
        ("rate_limit", "limit"), ("failed", "busy"), ("", "busy"),
    ],
)  # fmt: skip
def test_what_an_agent_waits_for_is_its_state(kind, word):
    assert state_word(waiting("a", kind, "")) == word


@pytest.mark.parametrize("status", ["blocked", "stalled", "failed"])
def test_an_agent_that_stands_still_needs_a_human_whatever_the_inbox_says(status):
    assert needs_human(row("a", status))
    assert state_word(row("a", status, waits_for=None)) == status


def test_a_wait_that_holds_nobody_is_no_state():
    assert state_word(row("a", waits_for={"kind": "login"})) == "idle"


def test_who_waits_longest_comes_first_then_the_busy_the_idle_and_the_ended():
    rows = [
        row("deleted", "deleted", "2026-01-01T00:00"), row("parked", "parked", "2026-01-01T00:01"),
        row("odd", "new word", "2026-01-01T00:03"), row("idle", "idle", "2026-01-01T00:02"),
        row("exited", "exited", "2026-01-01T00:03"), row("busy-b", "busy"), row("busy-a", "busy"),
        row("never", "failed", None), waiting("asks", "permission", "2026-01-01T00:09"),
        waiting("asks first", "login", "2026-01-01T00:08", status="blocked"),
    ]  # fmt: skip
    assert [one["agent_id"] for one in in_order(rows)] == [
        "asks first", "asks", "never", "exited", "busy-a", "busy-b", "parked", "idle", "odd", "deleted",
    ]  # fmt: skip


def test_each_agent_is_counted_once_and_each_outcome_in_its_place():
    finished = {"result": 2, "error": 1, "canceled": 0}
    rows = [
        row("a", "stopping", finished=finished), row("b", "busy", finished={"result": 1, "canceled": 3}),
        row("c", "busy"), waiting("d", "login", ""), row("e", finished=None), row("f", "parked"), row("g", "unknown"),
    ]  # fmt: skip
    counted = totals(rows)
    assert counted.pop("finished") == {"result": 3, "error": 1, "canceled": 3}
    assert counted.pop("usage")["requests"] == 0
    assert counted == {"agents": 7, "need_you": 1, "busy": 2, "idle": 2, "unknown": 1, "ended": 1}
