"""The words that all faces use for what a row says."""

import pytest

from orchestrator.core.glyphs import NEEDS_HUMAN, STATUS
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.faces.row_words import (
    cost_text,
    diff_text,
    ended_text,
    outcome_texts,
    run_state,
    short_number,
    state_of,
    tokens_text,
    totals_parts,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (10_000, "10k"), (999_999, "999k"),
        (1_000_000, "1.0M"), (12_345_678, "12M"), (1_000_000_000, "1.0G"), (34_000_000_000, "34G"),
    ],
)  # fmt: skip
def test_a_number_has_four_characters_at_most(number, text):
    assert short_number(number) == text


def test_a_cost_that_is_not_known_is_a_dash_and_no_model_costs_nothing():
    assert cost_text({"cost_usd": 0.412, "unknown": ""}) == "$0.41"
    assert cost_text({"cost_usd": 0.0}) == "$0.00"
    assert cost_text({"cost_usd": None, "unknown": "no price"}) == "\u2013"
    assert cost_text({"cost_usd": 0.0, "unknown": NO_MODEL}) == cost_text({}) == cost_text(None) == ""


def test_tokens_are_all_that_were_used():
    assert tokens_text({"input": 1000, "cached": 200, "output": 30}) == "1.2k"
    assert tokens_text({"input": None, "cached": 0, "output": 7}) == "7"
    assert tokens_text({"input": 0}) == tokens_text({}) == tokens_text(None) == ""


def test_a_change_is_lines_added_and_removed():
    assert diff_text({"files": 1, "added": 1200, "removed": 3}) == "+1.2k\u22123"
    assert diff_text({"files": 1, "added": 0, "removed": 3}, ascii_only=True) == "+0-3"
    assert diff_text({"files": 1, "added": 0, "removed": 0}) == "1 file"  # git knows no lines of a file not yet added
    assert diff_text({"files": 12, "added": 0, "removed": 0}) == "12 files"
    assert diff_text({"added": None, "removed": 1}) == "+0\u22121"
    assert diff_text({"files": 0, "added": 0, "removed": 0}) == diff_text(None) == ""


def test_cancels_are_counted_only_where_there_are_any():
    assert outcome_texts({"result": 4, "error": 1, "canceled": 0}) == "4/1"
    assert outcome_texts({"canceled": 2}) == "0/0/2"
    assert ended_text({"canceled": 2, "result": 4, "error": 0}) == "4 ✓ 2 ⊘"
    assert ended_text({"result": 4, "error": 1}, ascii_only=True) == "4 ok 1 error"
    assert ended_text({}) == ""


@pytest.mark.parametrize(
    ("row", "glyph", "word"),
    [
        ({"status": "busy"}, STATUS["busy"], "busy"),
        ({"status": "busy", "needs_human": True, "state": "asks"}, NEEDS_HUMAN, "asks"),
        ({"status": "blocked", "waits_for": {"kind": "login"}}, NEEDS_HUMAN, "login"),
        ({"status": "failed"}, STATUS["failed"], "failed"),
        ({"status": "of tomorrow"}, STATUS["unknown"], "of tomorrow"),
    ],
)
def test_a_state_is_what_the_agent_waits_for_or_its_status(row, glyph, word):
    assert state_of(row) == (glyph.sign, word, glyph.color)
    assert state_of(row, ascii_only=True) == (glyph.ascii, word, glyph.color)


@pytest.mark.parametrize(
    ("status", "like"),
    [
        ("completed", "idle"), ("done", "idle"), ("failed", "failed"), ("canceled", "deleted"),
        ("cancelled", "deleted"), ("queued", "starting"), ("planning", "starting"), ("waiting", "starting"),
        ("running", "busy"),
    ],
)  # fmt: skip
def test_a_run_has_the_sign_of_an_agent_in_the_like_state(status, like):
    glyph = STATUS[like]
    assert run_state({"status": status}) == (glyph.sign, status, glyph.color)
    assert run_state({"status": status}, ascii_only=True).sign == glyph.ascii
    assert run_state({}).word == "unknown"


def test_the_totals_leave_out_what_there_is_none_of():
    usage = {"requests": 3, "cost_usd": 1.84, "cost_unknown": 2}
    totals = {
        "agents": 13, "need_you": 2, "busy": 7, "idle": 3, "unknown": 1, "ended": 0, "usage": usage,
        "finished": {"result": 41, "error": 3, "canceled": 0},
    }  # fmt: skip
    assert totals_parts({"totals": totals}) == [
        "13 agents", "2 need you", "7 busy", "3 idle", "1 unknown", "41 ✓ 3 ✕", "$1.84 + 2 unknown",
    ]  # fmt: skip
    assert totals_parts({"totals": {"agents": 1, "need_you": 1, "ended": 1}}) == ["1 agent", "1 needs you", "1 ended"]
    assert totals_parts({"totals": {"usage": {**usage, "cost_unknown": 0}}}) == ["0 agents", "$1.84"]
    assert totals_parts({"totals": {"usage": {**usage, "requests": 0}}}) == ["0 agents"]
    assert totals_parts({"totals": {"usage": {**usage, "cost_usd": None}}}) == totals_parts({}) == ["0 agents"]
