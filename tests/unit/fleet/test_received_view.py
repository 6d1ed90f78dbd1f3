"""What another host shows of its agents reaches people only in the shape and with the characters of an honest one."""

import pytest

from orchestrator.fleet.received_view import items_of, row_of

ROW = {
    "status": "idle", "epoch": 2, "reason": "between two calls", "screen_line": "$", "more": 1,
    "usage": {"input": 1, "cached": 0, "output": 2, "requests": 1, "cost_usd": 0.5, "models": ["m"], "unknown": ""},
    "diff": {"files": 1, "added": 2, "removed": 0},
}  # fmt: skip
ITEM = {
    "id": "0a1b2c3d", "kind": "question", "agent_id": "w", "name": "w", "run_id": "r", "task_id": None,
    "task_title": None, "since": "2026-01-01T00:00:00.000Z", "until": None, "holds": True, "text": "which?",
    "tool": "Ask", "cwd": "/x", "asked": "one\ntwo", "by": "hook", "cut": False, "host": "", "answers": ["answer"],
    "questions": [{"question": "q?", "header": "", "multi": True, "options": [{"label": "a", "description": ""}]}],
}  # fmt: skip


def test_what_an_honest_host_shows_stays():
    view = {"agents": {"w": ROW}, "items": [ITEM, ITEM | {"agent_id": "x"}]}
    assert row_of(view, "w") == {key: value for key, value in ROW.items() if key != "more"}
    (item,) = items_of(view, "w")
    assert item == ITEM


@pytest.mark.parametrize("rows", [
    None, [], "w", {"w": []}, {"w": {}}, {"w": ROW | {"status": 7}}, {"w": ROW | {"epoch": "x"}},
    {"w": ROW | {"usage": {"input": "many"}}}, {"w": ROW | {"diff": {"files": -1}}}, {"w": ROW | {"usage": 3}},
])  # fmt: skip
def test_a_row_of_another_shape_shows_nothing(rows):
    assert row_of({"agents": rows}, "w") == {}


@pytest.mark.parametrize("items", [
    None, {}, "x", [7], [{}], [ITEM | {"kind": "order"}], [ITEM | {"text": 7}], [ITEM | {"asked": []}],
    [{key: value for key, value in ITEM.items() if key != "id"}], [ITEM | {"answers": ["rm -rf"]}],
    [ITEM | {"holds": "perhaps"}], [ITEM | {"by": "me"}],
])  # fmt: skip
def test_an_item_of_another_shape_is_none(items):
    assert items_of({"items": items}, "w") == []


def test_a_question_of_another_shape_is_not_shown_as_one():
    (item,) = items_of({"items": [ITEM | {"questions": [{"question": 7}]}]}, "w")
    assert item["questions"] == []


def test_no_control_character_and_no_secret_reaches_a_terminal():
    said = "\x1b]0;x\x07 \u202e --token=abcdef1234567890"
    row = row_of({"agents": {"w": ROW | {"reason": said, "screen_line": said, "status": "idle\r"}}}, "w")
    (item,) = items_of({"items": [ITEM | {"text": said, "asked": said + "\nmore", "name": said}]}, "w")
    shown = [row["reason"], row["screen_line"], row["status"], item["text"], item["name"], *item["asked"].split("\n")]
    assert all(text.isprintable() and "abcdef1234567890" not in text for text in shown)
    assert item["asked"].endswith("\nmore")
