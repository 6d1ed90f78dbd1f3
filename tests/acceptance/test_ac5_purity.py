"""AC5: nothing but MCP messages ever comes out of the relay's stdout; `Wire.close` checks every byte of every test."""

import json
import os

from tests.support.stage import BOUND_S, Wire, until

NOISE = """
import atexit, sys
print("noise from a site hook")
sys.stdout.write("half a line")
atexit.register(print, "noise at the end")
"""


def test_the_purity_check_sees_every_kind_of_noise(tmp_path):
    script = 'import sys; sys.stdout.write(\'{"jsonrpc":"2.0","method":"x"}\\nnoise\\n[1]\\n{}\\nhalf\')'
    wire = Wire(["python3", "-c", script], dict(os.environ), tmp_path, tmp_path / "stderr")
    wire.process.wait(BOUND_S)
    wire.kill()
    assert wire.foreign() == [b"half", b"noise", b"[1]", b"{}"]


def test_noise_of_imports_and_bad_lines_of_a_client_never_reach_stdout(stage):
    hooks = stage.base / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(NOISE)
    wire = stage.wire({**stage.env, "PYTHONPATH": str(hooks)})
    wire.begin()
    for line in (b"no json", b"[]", b"{}", b"\xff\xfe", b'{"jsonrpc":"2.0","id":{},"method":"x"}', b"", b"NaN"):
        wire.write(line + b"\n")
    # The daemon, the agent and its command are started with the same noise.
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    task = {"task_id": "t", "payload": {"command": "python3 -c 'print(1)'"}}
    assert wire.tool("task_enqueue", {"agent_id": "a", "task": task})["position"] == 1
    until(lambda: "result" in stage.types("a"))
    assert "error" in wire.ask("no/such/method")
    assert b"noise" in wire.errors.read_bytes(), "it went to stderr"
    wire.close()
    assert wire.foreign() == []
    assert len(wire.messages) > 5


def test_a_daemon_that_is_killed_again_and_again_leaves_no_trace_on_stdout_and_every_call_one_answer(stage):
    wire = stage.begun()
    assert wire.tool("agent_create", {"name": "a", "role": "r"})["ready"]
    keys = []
    for number in range(4):
        for part in range(5):
            task = {"task_id": f"t{number}-{part}", "payload": {"command": "true"}}
            keys.append(wire.start("task_enqueue", {"agent_id": "a", "task": task}))
        keys.append(wire.request("tools/list"))
        stage.kill_daemon()
    answers = [wire.answer(key) for key in keys]
    assert all("result" in answer for answer in answers)
    assert all(not answer["result"].get("isError") for answer in answers)
    until(lambda: stage.types("a").count("result") == 20)
    assert [len(wire.answers(key)) for key in keys] == [1] * len(keys)
    assert [r["task_id"] for r in stage.records("a", "inbox")] == [f"t{n}-{m}" for n in range(4) for m in range(5)]


def test_a_daemon_that_cannot_start_is_told_late_as_an_mcp_error_and_a_repair_is_noticed(make_stage):
    broken, breaking = make_stage('enginee = "shell"\n'), make_stage()
    config = breaking.root / ".agents" / "config.toml"
    good = config.read_text()
    running = breaking.begun()
    config.write_text(good + "no_such_key = 1\n")
    breaking.kill_daemon()
    call = running.start("agent_list")
    # In the first 20 seconds an answer would only make a model call again; what is repaired by then is no error.
    mended = breaking.wire()
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = broken.wire()
    hello = first.request("initialize", info)
    for stage in (broken, breaking):
        failed = until(lambda stage=stage: (p := stage.run_dir() / "failed").exists() and json.loads(p.read_text()))
        assert failed["code"] == "bad_config"
    assert first.raw == b""
    error = running.outcome(running.answer(call))["error"]
    assert error["code"] == "bad_config"
    assert "no_such_key" in error["message"]
    # Asked only now, for a slow machine needs a part of its 25 seconds to start a daemon; one more fails meanwhile.
    late = mended.request("initialize", info)
    (breaking.run_dir() / "failed").unlink()
    until((breaking.run_dir() / "failed").exists)
    assert mended.raw == b""
    config.write_text(good)
    assert mended.answer(late)["result"]["serverInfo"]["name"] == "orchestrator"
    assert running.tool("agent_list") == {"agents": []}
    refused = first.answer(hello)["error"]
    assert refused["data"]["error"]["code"] == "bad_config"
    assert "enginee" in refused["message"]
    assert first.process.poll() is None, "the relay never leaves before its client"
