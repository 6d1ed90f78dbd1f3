"""A process of a squad member gets no master's tools, changes no team, and no hook of it is held."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.platform.ancestry import lines_of
from orchestrator.base.platform.processes import environ_of
from orchestrator.daemon import handshake, hook_connections, peers
from orchestrator.daemon.hello import read_hello
from orchestrator.edge.project_location import MEMBER_ENV
from orchestrator.protocol.traffic import Incoming
from orchestrator.trust.admission import admission
from orchestrator.trust.origin import UNKNOWN, KnownProcesses, ProcessOrigin, judge
from tests.support.stage import ORPHAN, RELAY, Wire, until

MARKED = {MEMBER_ENV: "m-1"}


@pytest.fixture
def member():
    """The pid of a process that was started as a squad member is."""
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, **MARKED})
    until(lambda: MEMBER_ENV in environ_of(process.pid))  # the kernel shows none while it executes its program
    yield process.pid
    process.kill()
    process.wait()


def client_of(pid, living=None, origin=None, **said):
    """The client that a hello makes which comes from a process; ``living`` are agents by pid."""
    hello = {"proto": 1, "conn": "ab", "project": "/p", "toolsets": ["team"], **said}
    read = read_hello(json.dumps({"hello": hello}).encode())
    lines = lines_of(pid)
    line = tuple(one.pid for one in lines[0].processes) if lines else ()
    found = peers.Peer(pid, line, origin or judge(lines, KnownProcesses()))
    return handshake.client_of(read, found, admission(peers.arrival(read, found, Path("/p"), living or {})), "now")


@pytest.mark.parametrize("kind", ["relay", "cli", "hook"])
def test_a_process_at_or_below_a_member_is_refused_and_told_why(kind, member):
    us = os.getpid()
    for peer, pids in ((member, []), (us, [member]), (us, [us] * 9 + [member])):
        client = client_of(peer, kind=kind, pids=pids)
        assert (client.rights, client.origin.leads) == ("refused", False)
        assert client.why_refused.code == "not_for_agents"
        assert "squad member" in client.why_refused.message
    free = client_of(us, kind=kind, pids=[os.getppid()])
    assert (free.rights, free.origin.leads, free.why_refused) == ("master", kind == "relay", None)


def test_an_agents_pane_is_told_from_a_squad_member():
    inside = ProcessOrigin("agent", frozenset({("/p", "a")}))
    for more in ({"living": {7: "a"}, "pids": [5, 7]}, {"origin": inside}):
        refused = client_of(os.getpid(), kind="relay", **more).why_refused
        assert refused.code == "not_for_agents"
        assert "agent's pane" in refused.message


def test_a_process_that_claims_an_agent_is_one_unless_it_comes_from_another_or_from_a_member(member):
    claim = {"id": "a", "epoch": 1, "secret": "s"}
    inside = {name: ProcessOrigin("agent", frozenset({("/p", name)})) for name in ("a", "b")}
    elsewhere = ProcessOrigin("agent", frozenset({("/q", "a")}))
    for origin in (None, inside["a"], UNKNOWN):
        assert client_of(os.getpid(), kind="relay", agent=claim, origin=origin).rights == "agent"
    for more in ({"origin": inside["b"]}, {"origin": elsewhere}, {"living": {7: "b"}, "pids": [7]}):
        client = client_of(os.getpid(), kind="relay", agent=claim, **more)
        assert (client.rights, client.why_refused.code) == ("refused", "not_an_agent")
    client = client_of(member, kind="relay", agent=claim)
    assert (client.rights, client.why_refused.code) == ("refused", "not_for_agents")


def test_a_process_of_unknown_origin_reads_and_what_it_brings_is_not_kept():
    client = client_of(os.getpid(), origin=UNKNOWN, kind="relay", env={"OPENROUTER_API_KEY": "k"})
    assert (client.rights, client.origin.leads, client.why_refused, dict(client.env)) == ("reader", False, None, {})
    gone = client_of(1 << 30, kind="cli")
    assert (gone.rights, gone.origin.pids) == ("reader", ())


def test_the_pids_of_an_origin_are_those_that_the_kernel_tells():
    assert client_of(os.getpid(), kind="relay", pids=[1, 2, 3]).origin.pids[0] == os.getppid()
    assert client_of(os.getpid(), kind="cli", pids=[1, 2, 3]).origin.pids[:2] == (os.getpid(), os.getppid())


def test_a_hello_that_names_endless_ancestors_costs_no_endless_look(monkeypatch):
    looked = []
    monkeypatch.setattr(peers, "environ_of", lambda pid: looked.append(pid) or {})
    assert client_of(os.getpid(), kind="relay", pids=list(range(2, 50_000))).rights == "master"
    assert len(looked) <= peers.MEMBER_DEPTH + 1


def test_what_the_relay_was_told_of_calls_is_known_of_its_client():
    assert client_of(os.getpid(), kind="relay", call_limit_s=600).call_limit_s == 600
    assert client_of(os.getpid(), kind="relay").call_limit_s is None


@pytest.mark.anyio
async def test_a_members_hook_is_answered_at_once(member):
    client = client_of(os.getpid(), kind="hook", pids=[member])
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    with theirs:
        theirs.sendall(b'{"event": "Stop", "session": "s"}\n')
        theirs.shutdown(socket.SHUT_WR)
        theirs.settimeout(60)
        await asyncio.wait_for(hook_connections.serve(client, Incoming(reader, 1 << 20), writer, None, None), 60)
        await writer.drain()
        assert json.loads(theirs.recv(1000)) == {"answer": "none"}
        writer.transport.abort()


@pytest.mark.parametrize("own", [True, False], ids=["its own mark", "its ancestor's mark"])
def test_a_relay_of_a_member_has_no_tools_over_stdio(own, stage):
    env = {**stage.env, **MARKED}
    argv = [] if own else ["env", "-u", MEMBER_ENV]
    command = [sys.executable, "-I", "-S", "-c", ORPHAN, str(stage.base / "member.pid"), *argv, *RELAY]
    wire = Wire(command, env, stage.root, stage.base / "stderr")
    stage.wires.append(wire)
    wire.begin()
    assert wire.ask("tools/list")["result"]["tools"] == []
    error = wire.tool("agent_create", {"name": "a", "role": "r"})["error"]
    assert error["code"] == "not_for_agents"
    assert "squad member" in error["message"]
    other = stage.begun()
    assert other.ask("tools/list")["result"]["tools"], "nobody else is refused"


def test_a_command_of_a_member_changes_nothing(stage):
    done = stage.cli("agent", "create", "x", "--role", "r", "--json", env={**stage.env, **MARKED})
    assert done.returncode == 2
    assert "not_for_agents" in done.stdout + done.stderr
    assert "squad member m-1" in done.stdout + done.stderr
