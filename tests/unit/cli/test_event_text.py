"""Records as text: a line each in a pipe, and on a terminal whole results as blocks."""

import json

from orchestrator.cli.event_text import EventText, event_lines
from orchestrator.faces.payload_text import block
from tests.integration.test_cli_offline import happened, log

AT = "2026-01-02T03:04:05.678Z"


def record(kind, payload=None, **more):
    return {"v": 1, "seq": 7, "at": AT, "epoch": 1, "type": kind, "task_id": "t-1", "payload": payload, **more}


def test_a_long_result_is_a_block_on_a_terminal_and_one_whole_line_in_a_pipe():
    payload = {"exit_code": 2, "last_lines": ["first " + "x" * 200, "last"], "more": {"deep": [1, {"a": "b"}]}}
    head, *rest = event_lines(record("error", payload), "t-1", terminal=True)
    assert head.split() == ["7", head.split()[1], "error", "t-1"]
    assert all(line.startswith("      ") for line in rest)
    assert "first " + "x" * 200 in "\n".join(rest)
    (line,) = event_lines(record("error", payload), "t-1", terminal=False)
    assert line.endswith(json.dumps(payload))


def test_a_short_payload_stays_on_its_line():
    (line,) = event_lines(record("result", {"exit_code": 0}), "t-1", terminal=True)
    assert line.endswith('result     t-1 {"exit_code": 0}')
    assert len(event_lines(record("result", "one\ntwo"), "t-1", terminal=True)) == 3


def test_a_generated_id_is_shown_as_the_title_also_in_later_records(capsys, tmp_path):
    task = "t-0123456789ab"
    events = EventText(tmp_path, "builder")
    events.show([record("delivered", title="make test") | {"task_id": task}, record("ack") | {"task_id": task}])
    events.show([record("ack", title="named") | {"task_id": "mine"}])
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split()[2:4] == ["delivered", "make"]
    assert second.split()[2:] == ["ack", "make", "test"]
    assert third.split()[2:] == ["ack", "mine"]


def test_what_the_daemon_has_cut_is_read_whole_from_the_log(capsys, tmp_path):
    whole = {"text": "x" * 20_000}
    log(
        tmp_path / ".agents/agents/builder/outbox.jsonl",
        happened("starting"),
        happened("result", task_id="t-1", payload=whole),
    )
    cut = record("result", {"cut": True, "bytes": 20_011, "begins": "x"}) | {"seq": 2}
    EventText(tmp_path, "builder").show([cut], as_json=True)
    assert json.loads(capsys.readouterr().out)["payload"] == whole
    digest = record("result") | {"agent_id": "builder", "ref": 2, "payload_bytes": 20_011}
    EventText(tmp_path).show([digest], as_json=True)
    assert json.loads(capsys.readouterr().out)["payload"] == whole
    EventText(tmp_path / "elsewhere", "builder").show([cut], as_json=True)
    assert json.loads(capsys.readouterr().out)["payload"]["cut"] is True


def test_a_block_shows_every_part_of_a_payload():
    assert block({"a": 1, "text": "one\ntwo", "list": ["x", {"y": None}], "empty": {}}) == [
        "a: 1", "text:", "  one", "  two", "list:", "  x", "  -", "    y: null", "empty: {}",
    ]  # fmt: skip
    assert block("") == [""]
    assert block(None) == ["null"]
