"""What may pass the relay's wire: big lines, bad lines, slow readers, a client that leaves; only MCP on stdout."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from orchestrator.__main__ import INTERNAL
from orchestrator.daemon.hello import HELLO_MAX
from orchestrator.edge.wire_format import Cut, WireLines
from tests.fakes.relays import BOUND_S, HERE, Bench, until

MIB = 1 << 20


@pytest.fixture
def bench(tmp_path, monkeypatch):
    one = Bench(tmp_path, monkeypatch)
    yield one
    one.close()


def test_five_megabytes_pass_in_both_directions_and_again_after_a_crash(bench):
    one = bench.client()
    one.call(1, "big", size=5 * MIB)
    assert one.answer(1)["result"]["text"] == "x" * (5 * MIB)
    one.call(2, "hold", lives=1, text="y" * (5 * MIB))
    until(lambda: [fact for fact in bench.effects("line") if fact["size"] > 5 * MIB])
    bench.kill()
    assert one.answer(2)["result"] == {"starts": 2}
    sizes = [fact["size"] for fact in bench.effects("line") if fact["size"] > 5 * MIB]
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]


def test_a_client_that_does_not_read_costs_a_bounded_amount_of_memory_and_loses_nothing(bench):
    one = bench.client()
    one.call("warm", "effect")
    one.answer("warm")
    one.reading.clear()
    count, size = 60, MIB
    for key in range(count):
        one.call(key, "big", size=size)
    process = psutil.Process(one.process.pid)
    relay = next((c for c in process.children() if c.is_running()), process)
    quiet = [0, -1]

    def settled():  # nothing has moved for a while: the relay reads no more
        now = relay.memory_info().rss
        quiet[0], quiet[1] = (quiet[0] + 1, now) if now == quiet[1] else (0, now)
        return quiet[0] > 60

    until(settled)
    assert relay.memory_info().rss < 70 * MIB
    one.reading.set()
    for key in range(count):
        assert len(one.answer(key)["result"]["text"]) == size


def test_requests_beyond_the_limit_wait_in_the_clients_pipe_while_no_daemon_runs(bench):
    (bench.run / "stopped").touch()
    one = bench.client(HIGH=100_000)
    os.set_blocking(one.process.stdin.fileno(), False)
    written = 0
    line = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"y": "y" * 1000}}).encode()

    def full():
        nonlocal written
        key = b'{"id":%d,' % (written + 1)
        put = one.process.stdin.write(key + line[1:] + b"\n")
        if put is None:
            return True
        assert put == len(key + line), "a pipe takes small writes whole"
        written += 1
        return False

    idle = [0]

    def stuck():
        idle[0] = idle[0] + 1 if full() else 0
        return idle[0] > 50

    until(stuck)
    assert written * len(line) < 100_000 + 2 * 65536 + (1 << 18) + 70_000
    (bench.run / "stopped").unlink()
    for key in range(1, written + 1):
        one.answer(key)


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        (b"hello", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}', -32700, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, 1),
        (b"[" * 100_000, -32700, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"3", -32600, None),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":"a","method":5}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0"}', -32600, None),
    ],
)
def test_a_line_the_daemon_could_not_take_is_answered_and_the_next_one_works(bench, line, code, key):
    one = bench.client()
    one.raw(line + b"\r\n\n")
    refused = one.take()
    assert (refused["id"], refused["error"]["code"]) == (key, code)
    one.send(id="next", method="ping")
    assert "result" in one.answer("next")
    assert [fact["message"]["id"] for fact in bench.effects("line")] == ["next"]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": "x" * 300_000}}, 1),
        ({"method": "x", "params": {"text": "x" * 300_000}, "jsonrpc": "2.0", "id": "a"}, "a"),
        ({"method": "x", "params": {"text": "x" * 300_000}, "id": 7, "more": {}}, None),
        ({"text": "x" * 300_000}, None),
    ],
)
def test_a_line_over_the_limit_is_answered_and_skipped(bench, line, key):
    one = bench.client(MAX_LINE=1000)
    one.raw(json.dumps(line).encode() + b"\n")
    refused = one.take()
    assert (refused["id"], refused["error"]["code"]) == (key, -32600)
    one.send(id="next", method="ping")
    assert "result" in one.answer("next")


def test_a_line_over_the_limit_costs_no_memory():
    lines = WireLines(1000)
    for _ in range(100):
        assert lines.feed(b"x" * 1000) == []
    assert sum(len(part) for part in lines.parts) <= 1000
    assert lines.feed(b"\nnext\n") == [Cut(b"x" * 500, b"x" * 500), b"next"]


def test_half_a_character_does_not_cost_the_request_its_answer(bench):
    one = bench.client()
    one.raw(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"effect","arguments":{"n":"a\\ud83d"}}}\n'
    )
    assert one.answer(1)["result"] == {"n": "a?"}
    one.raw(
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"effect","arguments":{"n":"\\ud83d\\ude00"}}}\n'
    )
    assert one.answer(2)["result"] == {"n": "\U0001f600"}


def test_a_second_request_with_an_open_id_is_not_run(bench):
    one = bench.client()
    one.call(1, "hold")
    one.call(1, "effect")
    refused = one.take()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    one.send(id=2, method="ping")
    one.answer(2)
    assert bench.effects("effect") == []


MALFORMED = [
    (1, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":' + b"[" * 200 + b"]" * 200 + b"}}"),
    (1 << 64, b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}'),
    ("\ud83d", b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}'),
    (4, b'{"jsonrpc":"2.0","id":4,"method":"ping","params":[]}'),
    (5, b'{"jsonrpc":"2.0","id":5,"method":"ping","params":"x"}'),
    (6, b'{"jsonrpc":"2.0","id":6,"method":"ping","error":{"code":1,"message":"x"}}'),
    (7.5, b'{"jsonrpc":"2.0","id":7.5,"method":"ping"}'),
    (8, b'{"jsonrpc":"2.0","id":8,"method":"ping","params":{"n":' + b"9" * 5000 + b"}}"),
]


def test_what_is_malformed_is_answered_by_the_relay_and_no_daemon_ever_gets_it(bench):
    one = bench.client()
    one.handshake()
    for key, line in MALFORMED:
        one.raw(line + b"\n")
        assert one.answer(key)["error"]["code"] in (-32700, -32600, -32602)
    bench.kill()
    one.send(id="next", method="ping")
    one.answer("next")
    assert bench.starts() == 2
    assert {fact["message"]["method"] for fact in bench.effects("line")} == {
        "initialize", "notifications/initialized", "ping",
    }  # fmt: skip
    assert [fact["message"]["id"] for fact in bench.effects("line") if fact["message"]["method"] == "ping"] == [
        "next"
    ]
    assert [m.get("id") for m in one.rest()] == ["init", *(key for key, _ in MALFORMED), "next"]


def test_a_malformed_request_takes_no_answer_from_an_open_one_of_its_id(bench):
    one = bench.client()
    one.call(1, "hold", lives=1)
    until(lambda: bench.lines("tools/call"))
    one.raw(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n')
    assert one.take()["id"] is None
    bench.kill()
    assert one.answer(1)["result"] == {"starts": 2}
    assert [m["id"] for m in one.rest()] == [None, 1]


def test_a_malformed_notification_or_response_is_never_answered(bench):
    one = bench.client()
    for line in (
        b'{"jsonrpc":"2.0","method":"x","params":[]}',
        b'{"jsonrpc":"2.0","method":"x","params":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ):
        one.raw(line + b"\n")
    one.send(id=1, method="ping")
    one.answer(1)
    assert len(one.rest()) == 1


def test_the_daemon_is_told_when_the_answer_to_its_question_is_malformed(bench):
    one = bench.client()
    one.call(1, "ask")
    question = one.take()
    assert question["method"] == "elicitation/create"
    one.raw(b'{"jsonrpc":"2.0","id":"%s","result":{"n":NaN}}\n' % question["id"].encode())
    [told] = until(lambda: [f["message"] for f in bench.effects("line") if f["message"].get("id") == question["id"]])
    assert told["error"]["code"] == -32700


def test_the_hello_to_a_new_daemon_stays_small_however_much_waits(bench):
    (bench.run / "stopped").touch()
    one = bench.client()
    line = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
    one.raw(b"".join(line % key for key in range(60_000)))
    (bench.run / "stopped").unlink()
    one.answer(59_999)
    assert all(len(json.dumps(fact["hello"])) < HELLO_MAX / 2 for fact in bench.effects("hello"))
    assert [m["id"] for m in one.rest()] == list(range(60_000))


def test_a_cancel_with_the_digits_of_an_id_ends_what_the_daemon_ends(bench):
    one = bench.client()
    one.call(7, "hold")
    until(lambda: bench.lines("tools/call"))
    one.send(method="notifications/cancelled", params={"requestId": "7"})
    until(lambda: bench.lines("notifications/cancelled"))
    bench.kill()
    one.send(id=8, method="ping")
    one.answer(8)
    assert len(bench.lines("tools/call")) == 1


def test_a_client_that_writes_and_leaves_at_once_still_gets_its_answers(bench):
    one = bench.client(DRAIN_S=BOUND_S)  # a busy machine may take longer than 2 s to start the daemon
    one.send(id=1, method="initialize", params={"protocolVersion": "2025-06-18"})
    one.raw(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')  # the last line is not terminated
    assert [m["id"] for m in one.rest()] == [1, 2]


def test_a_relay_ends_with_its_client_also_with_a_call_under_way(bench):
    one = bench.client()
    one.handshake()
    one.call(1, "hold")
    until(lambda: bench.lines("tools/call"))
    one.rest()
    assert until(lambda: bench.effects("gone"))
    assert bench.alive()


def test_a_relay_ends_with_its_client_also_without_a_daemon(bench):
    (bench.run / "stopped").touch()
    one = bench.client()
    one.send(id=1, method="ping")
    assert one.rest() == []


def test_a_relay_ends_when_nobody_reads_its_answers_any_more(bench):
    one = subprocess.Popen(
        [sys.executable, str(HERE / "patched_relay.py"), "{}"], cwd=bench.root, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    one.stdout.close()
    one.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    one.stdin.flush()
    assert one.wait(BOUND_S) == 0
    one.stdin.close()


def test_a_keyboard_interrupt_is_for_the_client(bench):
    one = bench.client()
    one.send(id=1, method="ping")
    one.answer(1)
    os.kill(one.process.pid, signal.SIGINT)
    one.send(id=2, method="ping")
    one.answer(2)


def real(bench, tmp_path, code):
    """The relay as a CLI starts it, with `code` run by a site hook at its start."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(code)
    path = f"{site}{os.pathsep}{HERE.parents[1]}"
    (bench.run / "stopped").touch()
    command = [sys.executable, "-P", "-m", "orchestrator", "mcp"]
    # An unbuffered print before our first line of code cannot be caught by anyone.
    return bench.client(argv=command, env={"PYTHONPATH": path, "PYTHONUNBUFFERED": ""})


def test_prints_of_a_site_hook_and_of_imports_do_not_reach_the_client(bench, tmp_path):
    code = """
import atexit, builtins
print("printed at start")
real = builtins.__import__
def noisy(name, *rest, **more):
    if name == "orchestrator" or name.startswith("orchestrator."):
        print("importing", name, flush=name == "orchestrator.edge.project_location")
    return real(name, *rest, **more)
builtins.__import__ = noisy
atexit.register(print, "printed at exit")
"""
    one = real(bench, tmp_path, code)
    one.raw(b"nonsense\n")
    assert one.take()["error"]["code"] == -32700
    assert len(one.rest()) == 1
    for said in (b"printed at start", b"importing orchestrator.edge.project_location", b"printed at exit"):
        assert said in one.err


def test_a_bug_in_the_relay_shows_one_line_and_no_traceback(bench, tmp_path):
    code = "import select\ndef broken(*a): raise RuntimeError('boom')\nselect.select = broken\n"
    one = real(bench, tmp_path, code)
    assert one.process.wait(BOUND_S) == INTERNAL
    for thread in one.threads:
        thread.join(BOUND_S)
    assert one.arrived.empty()
    assert one.err.count(b"\n") == 1
    assert b"boom" in one.err
    assert b"Traceback" not in one.err


def test_a_relay_works_without_a_stderr(bench, tmp_path):
    script = 'exec 2>&-; exec "$0" -P -m orchestrator mcp'
    (bench.run / "stopped").touch()
    one = bench.client(argv=["sh", "-c", script, sys.executable])
    one.raw(b"nonsense\n")
    assert one.take()["error"]["code"] == -32700
    assert len(one.rest()) == 1


def test_a_client_that_never_reads_stderr_does_not_block_the_relay(bench):
    reading, writing = os.pipe()
    one = subprocess.Popen(
        [sys.executable, str(HERE / "patched_relay.py"), "{}"], cwd=bench.root, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=writing, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    malformed = b'{"jsonrpc":"2.0","method":"x","params":[]}\n'  # of each the relay says on stderr that it drops it
    one.stdin.write(malformed * 2000 + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    one.stdin.flush()
    assert json.loads(one.stdout.readline())["id"] == 2
    one.stdin.close()
    assert one.wait(BOUND_S) == 0
    one.stdout.close()
    os.close(reading)
    os.close(writing)


def test_a_relay_loads_nothing_heavy():
    code = "import sys; import orchestrator.__main__, orchestrator.edge.relay; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "subprocess", "dataclasses", "inspect", "typing_extensions", "mcp", "pydantic", "logging"}
    assert not heavy & set(done.stdout.split())
    ours = {name for name in done.stdout.split() if name.startswith("orchestrator.")}
    assert ours == {f"orchestrator.{name}" for name in (
        "__main__", "base", "base.platform", "base.platform.basic_facts", "base.toolsets", "edge",
        "edge.project_location", "edge.daemon_connection", "edge.relay", "edge.request_limits", "edge.wire_format",
        "trust", "trust.lock_word", "trust.state_dir",
    )}  # fmt: skip


def test_every_package_on_the_relays_way_is_empty():
    package = Path(__file__).resolve().parents[2] / "orchestrator"
    assert not any(line.startswith(("import", "from")) for line in (package / "__init__.py").read_text().splitlines())
