"""Who starts the daemon, how often, and what a client hears while none comes up."""

import fcntl
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base import errors
from orchestrator.edge import daemon_connection, project_location, relay, wire_format
from orchestrator.engines.table import ENGINES
from tests.fakes.relays import BOUND_S, HERE, Bench, until

MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SHORT = {"ERR_AFTER": 0.3, "COMING_AFTER": 0.3, "INIT_AFTER": 0.3}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    one = Bench(tmp_path, monkeypatch)
    yield one
    one.close()


def known(error):
    """The error, after checking that the product's table knows it."""
    assert errors.CODES[error["code"]][0].kind == error["kind"]
    assert error["message"]
    assert error["next_step"]
    return error


@pytest.mark.parametrize("stale", [False, True])
def test_thirty_relays_at_once_start_exactly_one_daemon(bench, stale):
    bench.behave(load_s=0.2)
    if stale:
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(bench.run / "socket"))
        left.close()
        (bench.run / "lock").touch(mode=0o600)
    relays = [bench.client() for _ in range(30)]
    for one in relays:
        one.send(id=1, method="initialize", params={"protocolVersion": "2025-06-18"})
    for one in relays:
        assert "result" in one.answer(1)
    assert bench.starts() == 1
    bench.kill()
    for one in relays:
        one.send(id=2, method="ping")
    for one in relays:
        one.answer(2)
    assert bench.starts() == 2
    assert len({fact["hello"]["conn"] for fact in bench.effects("hello")}) == 30


def test_the_daemon_stands_alone_and_holds_nothing_of_the_relay(bench):
    reading, leaked = os.pipe()
    command = [sys.executable, str(HERE / "patched_relay.py"), "{}"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    relay = subprocess.Popen(
        command, cwd=bench.root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[leaked]
    )
    os.close(leaked)
    relay.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    relay.stdin.flush()
    assert json.loads(relay.stdout.readline())["id"] == 1
    relay.communicate(timeout=BOUND_S)
    start = bench.effects("start")[0]
    assert bench.alive() == [start["pid"]]
    assert start["cwd"] == "/"
    assert os.getsid(start["pid"]) not in (os.getsid(0), relay.pid)
    assert start["ppid"] not in (relay.pid, os.getpid())
    # A CLI that leaked a pipe into its relay must see it end with the relay, not with the daemon.
    assert select.select([reading], [], [], BOUND_S)[0], "the daemon holds the pipe"
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_the_run_directory_is_private_and_the_project_stays_untouched(bench):
    one = bench.client()
    one.send(id=1, method="ping")
    one.answer(1)
    assert stat.S_IMODE(bench.run.stat().st_mode) == 0o700
    assert stat.S_IMODE((bench.run / "socket").stat().st_mode) == 0o600
    assert stat.S_IMODE((bench.run / "lock").stat().st_mode) == 0o600
    assert [path.name for path in bench.root.iterdir()] == [".git"]


def test_a_relay_finds_the_daemon_again_after_the_run_directory_was_removed_under_both(bench):
    one = bench.client()
    one.send(id=1, method="ping")
    one.answer(1)
    for name in ("lock", "socket"):
        (bench.run / name).unlink()
    bench.kill()
    one.send(id=2, method="ping")
    one.answer(2)
    assert bench.starts() == 2


def test_a_socket_removed_under_a_live_daemon_starts_no_second_one(bench):
    one = bench.client()
    one.send(id=1, method="ping")
    one.answer(1)
    (bench.run / "socket").unlink()
    two = bench.client(ERR_AFTER=0.3, INIT_AFTER=3600)
    two.send(id=1, method="ping")
    assert known(two.answer(1)["error"]["data"]["error"])["code"] == "daemon_down"
    assert bench.starts() == 1
    bench.kill()
    two.send(id=2, method="initialize", params={})  # the kind that may wait until the next daemon is up
    assert "result" in two.answer(2)


def test_a_lock_cleaned_between_open_and_flock_is_not_taken_for_the_lock(bench, monkeypatch):
    real = fcntl.flock

    def cleaned(fd, operation):
        real(fd, operation)
        (bench.run / "lock").unlink()
        (bench.run / "lock").touch()

    monkeypatch.setattr(daemon_connection.fcntl, "flock", cleaned)
    assert daemon_connection.claim(bench.run) is None


def test_only_one_process_can_claim_the_door(bench):
    lock, listener = daemon_connection.claim(bench.run)
    assert daemon_connection.claim(bench.run) is None
    listener.close()
    os.close(lock)
    lock, listener = daemon_connection.claim(bench.run)
    listener.close()
    os.close(lock)


def test_a_daemon_that_cannot_start_is_reported_late_and_in_its_own_words(bench):
    fail = {"kind": "BadRequest", "code": "bad_config", "message": "config.toml line 3", "next_step": "fix it"}
    bench.behave(fail=fail)
    one = bench.client(FAILED_PACE_S=0.1, **SHORT)
    until(lambda: bench.starts() > 1)  # it has seen the first one fail, which a busy machine may do after the limit
    one.call(1, "effect")
    answer = one.answer(1)
    assert "error" not in answer
    assert answer["result"]["isError"] is True
    assert known(answer["result"]["structuredContent"]["error"]) == fail
    assert "config.toml line 3" in answer["result"]["content"][0]["text"]
    assert "resultType" not in answer["result"]
    one.send(id="i", method="initialize", params={})
    refused = one.answer("i")["error"]
    assert refused["code"] == -32000
    assert known(refused["data"]["error"]) == fail
    one.send(id="m", method="tools/call", params={"name": "effect", **MODERN})
    assert one.answer("m")["result"]["resultType"] == "complete"
    # The same relay works once the cause is gone.
    bench.behave()
    one.call(2, "effect", n=1)
    until(lambda: bench.effects("ready"))
    two = bench.client()
    two.call(1, "effect", n=2)
    assert two.answer(1)["result"] == {"n": 2}


def test_a_known_failure_is_not_tried_again_at_once_by_anyone(bench):
    bench.behave(fail={"kind": "BadRequest", "code": "bad_config", "message": "m", "next_step": "n"})
    relays = [bench.client(FAILED_PACE_S=60, **SHORT) for _ in range(5)]
    # A busy machine may take longer than the limit to start the daemon, and nobody would know yet why it fails.
    until(lambda: (bench.run / "failed").exists() and not bench.alive())
    for one in relays:
        one.send(id=1, method="ping")
    for one in relays:
        assert one.answer(1)["error"]["data"]["error"]["code"] == "bad_config"
    assert bench.starts() == 1


def test_relays_hold_while_the_daemon_is_stopped_by_hand(bench):
    (bench.run / "stopped").touch()
    one = bench.client(**SHORT)
    one.call(1, "effect")
    assert known(one.answer(1)["result"]["structuredContent"]["error"])["code"] == "daemon_stopped"
    assert bench.starts() == 0
    assert not (bench.run / "lock").exists()
    two = bench.client()
    two.send(id=1, method="initialize", params={})
    (bench.run / "stopped").unlink()
    assert "result" in two.answer(1)


def stopped(answer):
    return known(answer["result"]["structuredContent"]["error"])["code"] == "daemon_stopped"


def test_a_call_is_refused_at_once_while_the_daemon_is_stopped_by_hand(bench):
    one = bench.client(ERR_AFTER=3600, INIT_AFTER=3600)
    one.handshake()
    (bench.run / "stopped").touch()
    bench.kill_seen_by(one)
    one.call(1, "effect")
    assert stopped(one.answer(1))
    # A model that calls again and again is slowed down: each refusal costs it a request.
    for key in range(2, relay.FREE_REFUSALS + 1):
        one.call(key, "effect")
        assert stopped(one.answer(key))
    one.call("slow", "effect", n=1)
    until(lambda: one.unread() == 0)
    (bench.run / "stopped").unlink()
    assert one.answer("slow")["result"] == {"n": 1}
    (bench.run / "stopped").touch()
    bench.kill_seen_by(one)
    one.call("again", "effect")
    assert stopped(one.answer("again"))


def test_a_call_that_a_daemon_may_have_carried_out_waits_for_the_next_one(bench):
    one = bench.client(ERR_AFTER=3600)
    one.call(1, "hold")
    until(lambda: bench.lines("tools/call"))
    (bench.run / "stopped").touch()
    bench.kill_seen_by(one)
    one.call(2, "effect")
    assert stopped(one.answer(2))
    (bench.run / "stopped").unlink()
    until(lambda: [line["id"] for line in bench.lines("tools/call")] == [1, 1])
    assert 1 not in [message.get("id") for message in one.rest()]


def test_its_refusal_says_that_it_may_have_taken_effect(bench):
    one = bench.client(ERR_AFTER=0.3)
    one.call(1, "hold")
    until(lambda: bench.lines("tools/call"))
    (bench.run / "stopped").touch()
    bench.kill()
    refused = one.answer(1)
    assert stopped(refused)
    assert "took effect" in refused["result"]["structuredContent"]["error"]["next_step"]
    one.call(2, "effect")
    assert "took effect" not in one.answer(2)["result"]["structuredContent"]["error"]["next_step"]


def test_calls_wait_while_the_daemon_is_only_restarted(bench):
    (bench.run / "restarting").touch()
    (bench.run / "stopped").touch()
    one = bench.client(ERR_AFTER=3600)
    one.call(1, "effect", n=1)
    until(lambda: one.unread() == 0)
    (bench.run / "stopped").unlink()
    (bench.run / "restarting").unlink()
    assert one.answer(1)["result"] == {"n": 1}


def test_an_agents_calls_wait_while_the_daemon_is_stopped(bench):
    """Its loop would go on at once, and each turn of it is a model request."""
    (bench.run / "stopped").touch()
    one = bench.client("--agent", ERR_AFTER=3600)
    one.call(1, "effect", n=1)
    until(lambda: one.unread() == 0)
    (bench.run / "stopped").unlink()
    assert one.answer(1)["result"] == {"n": 1}


def test_a_request_waits_for_a_daemon_as_long_as_its_kind_may(bench):
    (bench.run / "stopped").touch()
    one = bench.client(ERR_AFTER=0.2, INIT_AFTER=3600)
    one.send(id="slow", method="initialize", params={})
    one.send(id="slow too", method="server/discover", params={})
    one.send(id="fast", method="tools/list", params={})
    one.answer("fast")
    assert len(one.received) == 1
    (bench.run / "stopped").unlink()
    assert "result" in one.answer("slow")
    assert "result" in one.answer("slow too")


def test_the_limits_leave_clients_and_models_the_time_they_need():
    assert relay.ERR_AFTER >= 20
    shortest = min(row.call_limit_s for row in ENGINES.values() if row.call_limit_s)
    assert shortest >= relay.COMING_AFTER + relay.CALL_MARGIN_S
    assert 25 <= relay.INIT_AFTER < 30


@pytest.mark.parametrize("mode", ["garbage", "die"])
def test_a_daemon_without_a_hello_counts_as_none(bench, mode):
    bench.behave(hello=mode)
    one = bench.client(**SHORT)
    one.send(id=1, method="ping")
    assert known(one.answer(1)["error"]["data"]["error"])["code"] == "daemon_down"
    bench.behave()
    if mode == "garbage":
        bench.kill()
    one = bench.client()
    one.send(id=2, method="ping")
    assert "result" in one.answer(2)


def test_a_daemon_that_does_not_answer_the_hello_is_left_and_tried_again(bench):
    bench.behave(hello="silent")
    one = bench.client(
        HELLO_S=0.2, ERR_AFTER=3600, COMING_AFTER=3600
    )  # each hello in vain makes the pause before the next one longer
    one.send(id=1, method="ping")
    until(lambda: len(bench.effects("hello")) >= 3)
    bench.behave()
    bench.kill()
    assert "result" in one.answer(1)


def test_a_daemon_that_holds_the_door_open_is_waited_for_longer_than_one_that_is_not_there(bench):
    bench.behave(hello="silent")
    one = bench.client(HELLO_S=0.2, ERR_AFTER=0.3, COMING_AFTER=3600)
    one.call(1, "effect")
    until(lambda: len(bench.effects("hello")) >= 4)  # given up three times, and met again
    assert one.received == [] and one.arrived.empty()
    two = bench.client(HELLO_S=0.2, ERR_AFTER=0.3, COMING_AFTER=0.4)
    two.call(1, "effect")
    assert known(two.answer(1)["result"]["structuredContent"]["error"])["code"] == "daemon_down"


@pytest.mark.parametrize(
    ("method", "coming", "reason", "call_limit_s", "seconds"),
    [
        ("tools/call", False, None, None, relay.ERR_AFTER),
        ("tools/call", True, None, None, relay.COMING_AFTER),
        ("tools/call", True, {"code": "bad_config"}, None, relay.ERR_AFTER),
        ("tools/call", True, None, 600, relay.COMING_AFTER),
        ("tools/call", True, None, 50, 35.0),
        ("tools/call", True, None, 10, relay.ERR_AFTER),
        ("initialize", True, None, None, relay.INIT_AFTER),
    ],
)
def test_how_long_a_request_waits_for_a_daemon(tmp_path, method, coming, reason, call_limit_s, seconds):
    one = relay.Relay(project_location.Project(tmp_path, "git"), ["team"], 0, 1, call_limit_s)
    one.coming, one.reason = coming, reason
    request = wire_format.Pending(1, method, None, b"")
    assert one._due(request) == request.arrived + seconds


def test_an_installation_that_does_not_fit_is_reported_in_the_daemons_words(bench):
    refusal = {"kind": "Conflict", "code": "proto_mismatch", "message": "1.0 in /a, 2.0 in /b", "next_step": "n"}
    bench.behave(hello=refusal)
    one = bench.client(**LONG)  # a refusal for good is told at once; a request makes the relay ask for it anew
    until(lambda: bench.effects("refused"))
    one.call(1, "effect")
    assert known(one.answer(1)["result"]["structuredContent"]["error"]) == refusal
    bench.behave()
    bench.kill()
    one.call(2, "effect", n=3)
    two = bench.client()
    two.call(1, "effect", n=4)
    assert two.answer(1)["result"] == {"n": 4}


MISMATCH = {"kind": "Conflict", "code": "proto_mismatch", "message": "1.0 in /a, 2.0 in /b", "next_step": "n"}
LONG = {"ERR_AFTER": 3600, "COMING_AFTER": 3600, "INIT_AFTER": 3600}


def test_a_mismatch_of_protocols_is_told_at_the_first_refusal_to_all_that_wait(bench):
    bench.behave(hello=MISMATCH)
    one = bench.client(**LONG, BACKOFF=[0.05, 0.2, 0.5, 1.0, 3600, 3600])
    one.send(id="i", method="initialize", params={"protocolVersion": "2025-06-18"})
    refused = one.answer("i")["error"]
    assert refused["code"] == -32000
    assert known(refused["data"]["error"]) == MISMATCH
    assert len(bench.effects("refused")) <= 2  # one before it had the request, or one more of its own after a second
    one.call(2, "effect")  # a new request asks anew
    assert known(one.answer(2)["result"]["structuredContent"]["error"]) == MISMATCH
    assert 2 <= len(bench.effects("refused")) <= 3
    assert bench.effects("line") == []


def test_after_a_mismatch_the_next_request_works_as_soon_as_the_other_daemon_has_ended(bench):
    bench.behave(hello=MISMATCH)
    one = bench.client(**LONG, BACKOFF=[3600] * 6 + [1.0])
    one.send(id="i", method="initialize", params={"protocolVersion": "2025-06-18"})
    one.answer("i")
    one.send(method="notifications/initialized")
    until(lambda: one.unread() == 0)
    bench.behave()
    bench.kill()
    one.call(2, "effect", n=5)
    assert one.answer(2)["result"] == {"n": 5}
    assert bench.lines("initialize") == [], "what failed is not replayed"
    bench.kill()
    one.call(3, "effect", n=6)
    assert one.answer(3)["result"] == {"n": 6}
    assert bench.lines("initialize") == []
    assert [m["id"] for m in one.rest() if "id" in m] == ["i", 2, 3]


def test_a_relay_that_was_refused_looks_again_by_itself(bench):
    bench.behave(hello=MISMATCH)
    one = bench.client(**LONG, BACKOFF=[0.01, 0.01, 0.01, 1.0, 0.01, 0.01])
    one.send(id=1, method="ping")
    one.answer(1)
    until(lambda: len(bench.effects("refused")) >= 3)
    assert len(one.received) == 1


def test_another_refusal_is_waited_out(bench):
    bench.behave(hello={**MISMATCH, "kind": "BadRequest", "code": "bad_argument"})
    one = bench.client(**LONG, BACKOFF=[0.01, 0.01, 0.01, 1.0, 0.01, 0.01])
    one.send(id=1, method="initialize", params={})
    until(lambda: len(bench.effects("refused")) >= 2)
    assert one.received == [] and one.arrived.empty()
    bench.behave()
    bench.kill()
    assert "result" in one.answer(1)


def test_run_directories_open_to_others_are_refused(bench):
    bench.run.chmod(0o777)
    other = bench.base / "other"
    other.mkdir()
    one = bench.client(**SHORT, env={"ORCHESTRATOR_STATE_DIR": str(other)})
    one.call(1, "effect")
    error = known(one.answer(1)["result"]["structuredContent"]["error"])
    assert error["code"] == "run_dir_unsafe"
    assert str(bench.run) in error["message"]
    assert str(other) in error["message"]
    assert list(other.iterdir()) == []
    assert list(bench.run.iterdir()) == []
    bench.run.chmod(0o700)
    one.call(2, "effect")
    until(bench.alive)


def test_a_relay_without_a_project_is_served_too(bench):
    one = bench.client(cwd="/")
    one.send(id=1, method="ping")
    assert "result" in one.answer(1)
    one.rest()
    effects = project_location.run_dir(Path("/")) / "effects.jsonl"
    os.kill(json.loads(effects.read_text().splitlines()[0])["pid"], signal.SIGKILL)


def test_the_project_can_be_named_and_wrong_flags_are_refused(bench):
    one = bench.client("--project", str(bench.root), cwd="/")
    one.send(id=1, method="ping")
    one.answer(1)
    assert bench.effects("hello")[0]["hello"]["project"] == str(bench.root)
    for wrong in (
        ["--toolset", "x"],
        ["--project", str(bench.root / "none")],
        ["--toolsets"],
        ["--toolsets", "team,squat"],
        *(["--call-limit", wrong] for wrong in ("", "0", "-5", "1.5", "x", "86401", "9" * 50)),
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", "mcp", *wrong], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=BOUND_S,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stdout == b""
        assert b"Usage: orchestrator mcp" in done.stderr
        assert b"Traceback" not in done.stderr


def test_every_daemon_is_told_how_long_the_client_lets_a_call_run(bench):
    one = bench.client("--call-limit", "600")
    one.send(id=1, method="ping")
    one.answer(1)
    bench.kill()
    one.send(id=2, method="ping")
    one.answer(2)
    assert [fact["hello"]["call_limit_s"] for fact in bench.effects("hello")] == [600, 600]


def test_no_daemon_is_started_for_a_client_that_has_gone(bench):
    one = bench.client(LINGER_S=3600)
    one.call(1, "hold")
    until(lambda: bench.lines("tools/call"))
    one.raw(b"no JSON, and not terminated: answered once the relay has met the end")
    one.process.stdin.close()
    assert one.take()["error"]["code"] == -32700
    bench.kill()
    one.rest()
    assert bench.starts() == 1
