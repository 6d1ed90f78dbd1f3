"""The first line of a connection: what a relay says is what the daemon reads, and what else is refused."""

import json
import os

import pytest

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.daemon.hello import HELLO_MAX, AgentClaim, negotiate, read_hello
from orchestrator.edge import daemon_connection, project_location


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return project


def line(**more):
    return json.dumps({"hello": {"proto": 1, "conn": "ab", "project": "/p", **more}}).encode() + b"\n"


def test_what_a_relay_says_is_what_the_daemon_reads(root, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "a")
    monkeypatch.setenv("ORCHESTRATOR_AGENT_EPOCH", "3")
    monkeypatch.setenv("ORCHESTRATOR_AGENT_SECRET", "hush")
    monkeypatch.setenv("STATE_MODE", "x")
    monkeypatch.delenv("SMART_SPAWN_MCP_HOME", raising=False)  # of whoever runs the tests
    monkeypatch.setenv("TMUX", "/t,1,0")
    monkeypatch.chdir(root)
    place = project_location.find_project(root)
    said = daemon_connection.handshake_line(
        place, kind="relay", conn="ab" * 8, boot=4, toolsets=["team"], pending=[("1", 5), (1, 6)]
    )
    hello = read_hello(said)
    assert (hello.proto, hello.version, hello.install) == (
        project_location.PROTO,
        project_location.VERSION,
        project_location.INSTALL,
    )
    assert (hello.project, hello.cwd, hello.conn, hello.boot, hello.kind) == (
        str(root), str(root), "ab" * 8, 4, "relay",
    )  # fmt: skip
    assert hello.toolsets == ("team",)
    assert hello.pending == (("1", 5), (1, 6))
    assert hello.agent == AgentClaim("a", 3, "hush")
    assert hello.env == {"STATE_MODE": "x"}
    assert hello.tmux == "/t,1,0"
    assert hello.pids[0] == os.getppid()
    assert hello.call_limit_s is None
    assert (
        read_hello(
            daemon_connection.handshake_line(place, kind="relay", conn="ab" * 8, call_limit_s=600)
        ).call_limit_s
        == 600
    )


def test_secrets_and_keys_are_never_shown(root):
    hello = read_hello(line(agent={"id": "a", "epoch": 1, "secret": "hush"}, env={"OPENROUTER_API_KEY": "key-1"}))
    assert "hush" not in repr(hello)
    assert "key-1" not in repr(hello)


def test_a_short_hello_gets_defaults_and_unknown_keys_pass():
    hello = read_hello(line(future={"x": 1}, env={"PATH": "/bin", "ENGINE": "e"}, tmux=None))
    assert (hello.boot, hello.kind, hello.toolsets, hello.pending, hello.agent) == (1, "relay", (), (), None)
    assert hello.env == {"ENGINE": "e"}


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"\n", b"GET / HTTP/1.1\r\n", b"\xff\xfe\n", b"[]\n", b"3\n", b'{"hello": 3}\n', b'{"hello": {}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n', b"[" * 100_000,
        line(proto="1"), line(proto=True), line(proto=-1), line(conn=""), line(conn="x" * 65), line(conn=1),
        line(project=None), line(boot="2"), line(toolsets="team"), line(toolsets=[1]), line(pids=["1"]),
        line(pending=[["a"]]), line(pending=[[None, 1]]), line(pending=[[True, 1]]), line(pending=[["a", -1]]),
        line(pending={"a": 1}), line(agent="a"), line(agent={"id": "a"}), line(env=[]), line(env={"A": 1}),
        line(call_limit_s="60"), line(call_limit_s=0), line(call_limit_s=True), line(call_limit_s=1.5),
        line(cwd=1), line(tmux=["x"]), line(cwd="x" * HELLO_MAX),
    ],
)  # fmt: skip
def test_a_first_line_that_is_no_hello_is_a_bad_argument(bad):
    with pytest.raises(BadRequest) as refused:
        read_hello(bad)
    assert refused.value.code == "bad_argument"


def test_the_same_proto_is_served_whatever_the_version():
    hello = read_hello(line(version="9.9", install="/elsewhere"))
    assert negotiate(hello, 1, idle=False) == "serve"


def test_only_an_idle_daemon_gives_way_and_only_to_a_newer_one():
    newer, older = read_hello(line(proto=3, version="9", install="/new")), read_hello(line(proto=1))
    assert negotiate(newer, 2, idle=True) == "yield"
    for refused in (negotiate(newer, 2, idle=False), negotiate(older, 2, idle=True)):
        assert isinstance(refused, Conflict)
        assert refused.code == "proto_mismatch"
    text = negotiate(newer, 2, idle=False).message
    assert "/new" in text
    assert project_location.INSTALL in text
