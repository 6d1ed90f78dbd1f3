"""Whatever comes through the daemon's door costs that connection only: noise, silence, floods, and clients that do not read."""

import contextlib
import json
import socket

import psutil
import pytest

from tests.crash.raw import INITIALIZE, Raw, connections, hello, log, quiet, started
from tests.support.stage import until

MB = 1 << 20
GENEROUS = 200 * MB  # one line may have 64 MiB, and exists a few times while it is looked at


@pytest.fixture
def served(make_stage):
    """A stage whose daemon runs, with one client that must not notice anything."""
    stage = make_stage()
    daemon = started(stage)
    with Raw(stage) as other:
        other.begin()
        yield stage, daemon, other
        assert "result" in other.answer(other.ask("tools/list")), "the others are served as before"
        assert stage.daemon() == daemon.pid
        assert "Traceback" not in log(stage)


def rss(daemon):
    return daemon.memory_info().rss


# -- before the hello -------------------------------------------------------------------------------------------

HELLOS = {
    "nothing but a newline": b"\n",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "binary": bytes(range(256)).replace(b"\n", b"") * 100 + b"\n",
    "NULs": b"\0" * 5000 + b"\n",
    "a number": b"17\n",
    "a list": b"[1]\n",
    "deep": b'{"hello":' * 50_000 + b"\n",
    "half": b'{"hello":{"proto":1,"conn":"a"\n',
    "huge number": b'{"hello":{"proto":1,"conn":"a","project":"/","boot":1' + b"0" * 5000 + b"}}\n",
}


def test_what_is_no_hello_is_told_so_and_ends_that_connection_only(served, faults):
    stage, _, _ = served
    for name, data in HELLOS.items():
        with Raw(stage, greets=False) as one:
            one.sock.sendall(data)
            assert one.line()["hello"]["error"]["code"] == "bad_argument", name
            assert one.line() is None, name
        faults("world")


def test_a_hello_with_values_nobody_has_is_refused_or_served_and_never_a_bug(served, faults):
    stage, _, _ = served
    strange = {
        "pending": [["\ud800", 1], [10**30, 5]],
        "boot": 10**400,
        "project": "\ud800\0",
        "cwd": "/\udcff\0",
        "pids": [10**300],
        "tmux": "\0,\0,\0",
        "toolsets": ["\ud800"] * 1000,
        "env": {"ENGINE": "\ud800"},
        "kind": "\ud800",
        "proto": 10**50,
    }
    for name, value in strange.items():
        with Raw(stage, **{name: value}) as one:
            said = one.line()["hello"]
            assert "proto" in said or said["error"]["code"] in ("bad_argument", "proto_mismatch"), name
            if "proto" in said:
                assert "result" in one.answer(one.ask("initialize", INITIALIZE)), name
                one.answer(one.ask("tools/call", {"name": "agent_list", "arguments": {}}))
        faults("world")


def test_a_first_line_without_end_costs_a_megabyte_and_is_told(served, faults):
    stage, daemon, _ = served
    before = rss(daemon)
    ones = [Raw(stage, greets=False) for _ in range(10)]
    for one in ones:
        one.pour(b"x" * (8 * MB))
        assert one.line()["hello"]["error"]["code"] == "bad_argument"
        one.sock.close()
        faults("world")
    assert rss(daemon) - before < 60 * MB


def test_who_says_nothing_and_who_leaves_are_forgotten(served, faults):
    stage, daemon, _ = served
    before = daemon.num_fds()
    silent = [Raw(stage, greets=False) for _ in range(20)]
    halves = [Raw(stage, greets=False) for _ in range(20)]
    for one in halves:
        one.sock.sendall(json.dumps(hello(stage)).encode()[:50])
    for _ in range(20):
        Raw(stage, greets=False).sock.close()
        Raw(stage).sock.close()
    halves[0].sock.shutdown(socket.SHUT_WR)  # half-open: it listens, and will never speak
    assert halves[0].line()["hello"]["error"]["code"] == "bad_argument"
    # The daemon gives them 15 s.
    for one in (*silent, *halves[1:]):
        assert one.line()["hello"]["error"]["code"] == "bad_argument"
        one.sock.close()
    halves[0].sock.close()
    until(lambda: daemon.num_fds() <= before)
    faults("world", 80)


# -- after it ---------------------------------------------------------------------------------------------------


def test_lines_that_are_no_messages_are_answered_and_the_connection_goes_on(served, faults):
    stage, _, _ = served
    noise = [
        b"\xff\xfe\xfd",
        b"\0\0\0",
        b"{",
        b"[]",
        b"3",
        b'"text"',
        b"{}",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ]
    with Raw(stage) as one:
        one.begin()
        for line in noise:
            one.sock.sendall(line + b"\n")
            error = one.line()
            assert error["id"] == (1 if b'"id":1' in line else None), line[:40]
            assert error["error"]["code"] in (-32700, -32600), line[:40]
            faults("world")
        one.sock.sendall(b"\n\n" + b'{"jsonrpc":"2.0","id":"other-daemon:7","result":{}}\n')
        one.send_line({"jsonrpc": "2.0", "id": 10**30, "method": "tools/call", "params": {"name": "agent_list"}})
        assert one.line()["error"]["code"] == -32600
        one.send_line({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "\0", "arguments": 1}})
        assert "error" in one.answer(7)
        assert "result" in one.answer(one.ask("tools/list"))


def test_a_hundred_megabytes_on_one_line_are_refused_in_words_and_forgotten(served, faults):
    stage, daemon, _ = served
    before = rss(daemon)
    for _ in range(3):
        with Raw(stage) as one:
            one.begin()
            assert not one.pour(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + b"x" * (100 * MB))
            error = one.line()
            assert (error["id"], error["error"]["code"]) == (None, -32600)
            assert one.line() is None
        faults("world")
    until(lambda: connections(stage) == 1)
    assert rss(daemon) - before < GENEROUS


def test_two_hundred_clients_at_once_are_all_served_and_leave_nothing(make_stage, faults):
    stage = make_stage()
    daemon = started(stage)
    with Raw(stage) as warm:  # what the first client makes the daemon load stays loaded
        warm.begin()
        warm.answer(warm.ask("tools/list"))
    descriptors = quiet(stage, daemon)
    grown = []
    for _ in range(3):
        ones = [Raw(stage) for _ in range(200)]
        for one in ones:
            one.ask("initialize", INITIALIZE)
            one.ask("tools/list")
        assert all(len(one.answer(2)["result"]["tools"]) >= 9 for one in ones)
        for one in ones:
            one.sock.close()
        until(lambda: quiet(stage, daemon) <= descriptors)
        grown.append(rss(daemon))
        faults("world", 200)
    assert grown[2] - grown[0] < 20 * MB, grown


def test_the_relay_refuses_the_same_in_words_and_forgets_it(make_stage, faults):
    stage = make_stage()
    daemon = started(stage)
    wire = stage.begun()
    relay = next(one for one in psutil.process_iter() if is_relay(one, wire))
    before = rss(daemon), rss(relay)
    for data in (b"\xff\xfe\n", b"\0\0\n", b"[" * 100_000 + b"\n", b"17\n", b"{}\n", b"\n\n"):
        wire.write(data)
        faults("world")
    wire.write(b'{"jsonrpc":"2.0","id":"long","method":"x","params":{"a":"')
    for _ in range(100):
        wire.write(b"x" * MB)
    wire.write(b'"}}\n')
    assert len(wire.ask("tools/list", {})["result"]["tools"]) >= 9
    told = [one["error"]["code"] for one in list(wire.messages) if one.get("id") is None and "error" in one]
    assert sorted(told) == [-32700, -32700, -32700, -32600, -32600]
    assert wire.answer("long")["error"]["code"] == -32600
    assert rss(daemon) - before[0] < 20 * MB
    assert rss(relay) - before[1] < 100 * MB
    faults("world")


def is_relay(process, wire):
    """Whether it is the relay below the CLI of that wire."""
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        return process.ppid() == int(wire.pid_file.read_text())
    return False


# -- who does not read ------------------------------------------------------------------------------------------


def test_a_client_that_never_reads_is_read_no_more_and_costs_little(served, faults):
    stage, daemon, other = served
    before = rss(daemon)
    line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{}}\n'
    with Raw(stage) as one:
        one.begin()
        flood = b"".join(line % key for key in range(1000))
        took = one.fill(flood)
        assert took < 4 * MB, "what it asks waits on its side"
        assert rss(daemon) - before < 60 * MB
        assert "result" in other.answer(other.ask("tools/list"))
        # It reads after all: nothing was lost.
        answers = took // len(line % 100) // 2
        for _ in range(answers):
            assert "result" in one.line()
    until(lambda: connections(stage) == 1)
    faults("world")
