"""The command line's link to the daemon, against a daemon of forty lines that does what a test scripts."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Conflict, Corrupt, Environment, NotReady
from orchestrator.edge import daemon_connection, project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces import daemon_client as links
from orchestrator.faces.daemon_client import DaemonClient, error_from, marker

Answer = Callable[[dict], list[dict]]
DIE = {"die": True}
HELLO = {"proto": 1, "version": "0.1.0", "install": "/x", "pid": 4711, "boot": "b00"}


class FakeDaemon:
    """Serves one connection after the other; ``answers[n]`` scripts the n-th, the last one all further ones."""

    def __init__(
        self, place: Project, *answers: Answer, hello: dict = HELLO, greets: threading.Event | None = None
    ) -> None:
        self.hellos: list[dict] = []
        self.asked: list[list[dict]] = []
        self._answers, self._hello, self._greets = answers, hello, greets
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(marker(place, project_location.SOCKET)))
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.asked.append([])
            # Around the file's end too: it tries once more to write what a link that has left did not take.
            with contextlib.suppress(OSError), sock, sock.makefile("rwb") as file:
                self._talk(file, self._answers[min(len(self.asked), len(self._answers)) - 1])

    def _talk(self, file, answer: Answer) -> None:
        for line in file:
            message = json.loads(line)
            if "hello" in message:
                self.hellos.append(message["hello"])
                if self._greets is not None:
                    self._greets.wait(10)
                out = [{"hello": self._hello}]
            elif message.get("method") == "initialize":
                out = [{"id": message["id"], "result": {"protocolVersion": "2025-06-18"}}]
            elif "id" not in message:
                continue
            else:
                self.asked[-1].append(message)
                out = answer(message)
            for reply in out:
                if reply is DIE:
                    return
                file.write(json.dumps({"jsonrpc": "2.0", **reply}).encode() + b"\n")
            file.flush()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def result(message: dict, **content: object) -> list[dict]:
    return [{"id": message["id"], "result": {"structuredContent": content, "content": [], "isError": False}}]


def failure(message: dict, error: dict) -> list[dict]:
    return [{"id": message["id"], "result": {"structuredContent": {"error": error}, "content": [], "isError": True}}]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    base = tmp_path / "run"
    base.mkdir(mode=0o700)
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base))
    for name in (*project_location.AGENT_ENV, "ORCHESTRATOR_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(links, "RETURN_S", 60.0)  # the fake daemon is a thread that a busy machine may keep waiting
    root = tmp_path / "p"
    (root / ".git").mkdir(parents=True)
    return project_location.named_project(root)


@pytest.fixture
def daemon(place: Project) -> Iterator[Callable[..., FakeDaemon]]:
    made: list[FakeDaemon] = []

    def make(*answers: Answer, **settings: dict) -> FakeDaemon:
        made.append(FakeDaemon(place, *answers, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_tool_call_returns_its_structured_answer_past_progress_and_notifications(place, daemon) -> None:
    noise = [
        {"method": "notifications/progress", "params": {}},
        {"id": 77, "result": {}},
        {"method": "ping", "id": 2},
    ]
    fake = daemon(lambda message: [*noise, *result(message, agents=[])])
    with DaemonClient(place, start=False) as link:
        assert link.tool("agent_list", {"scope": "all"}) == {"agents": []}
        assert link.daemon["pid"] == 4711
    (asked,) = fake.asked[0]
    assert (asked["method"], asked["params"]) == ("tools/call", {"name": "agent_list", "arguments": {"scope": "all"}})


def test_the_hello_says_who_and_where_we_are(place, daemon, monkeypatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/x,1,0")
    monkeypatch.setenv("TMUX_PANE", "%7")
    fake = daemon(result)
    DaemonClient(place, start=False).close()
    (hello,) = fake.hellos
    assert (hello["kind"], hello["toolsets"], hello["proto"]) == (
        "cli",
        ["team", "squad"],
        project_location.PROTO,
    )
    assert (hello["tmux"], hello["tmux_pane"], hello["project"]) == ("/tmp/x,1,0", "%7", str(place.root))
    assert os.getppid() in hello["pids"]
    assert (hello["boot"], hello["pending"], hello["agent"]) == (1, [], None)


def test_a_request_survives_two_deaths_with_the_same_connection_and_request_id(place, daemon) -> None:
    fake = daemon(lambda _: [DIE], lambda _: [DIE], lambda message: result(message, ok=True))
    with DaemonClient(place, start=False) as link:
        assert link.tool("task_cancel", {"agent_id": "a", "task_id": "t"}) == {"ok": True}
    assert len({hello["conn"] for hello in fake.hellos}) == 1
    assert [hello["boot"] for hello in fake.hellos] == [1, 2, 3]
    first, second, third = (asked[0] for asked in fake.asked)
    assert first == second == third
    assert [pending[0] for pending in fake.hellos[2]["pending"]] == [first["id"]]
    assert fake.hellos[2]["pending"][0][1] >= 0


def test_a_later_call_after_a_restart_has_an_id_of_its_own(place, daemon) -> None:
    fake = daemon(lambda message: [*result(message, n=1)], lambda message: result(message, n=2))
    with DaemonClient(place, start=False) as link:
        link.tool("agent_list", {})
        link.tool("agent_list", {})
    assert [message["id"] for message in fake.asked[0]] == [2, 3]


def test_a_stop_is_not_sent_again_when_the_daemon_ends_over_it(place, daemon) -> None:
    fake = daemon(lambda _: [DIE])
    with DaemonClient(place, start=False, survive=False) as link, pytest.raises(NotReady):
        link.ask("orchestrator/stop", {})
    assert len(fake.hellos) == 1


@pytest.mark.parametrize(
    ("kind", "code", "cls"),
    [
        ("BadRequest", "unknown_agent", BadRequest), ("Conflict", "task_exists", Conflict),
        ("NotReady", "queue_full", NotReady), ("Environment", "no_room", Environment),
        ("Corrupt", "corrupt_log", Corrupt),
    ],
)  # fmt: skip
def test_an_error_answer_becomes_the_same_error_here(place, daemon, kind, code, cls) -> None:
    sent = {"kind": kind, "code": code, "message": "m", "next_step": "n", "agent_id": "a"}
    daemon(lambda message: failure(message, sent))
    with DaemonClient(place, start=False) as link, pytest.raises(cls) as caught:
        link.tool("agent_get", {"agent_id": "a"})
    assert caught.value.as_dict() == sent


def test_a_code_of_a_newer_daemon_keeps_its_kind_and_text() -> None:
    error = error_from({"kind": "Conflict", "code": "from_the_future", "message": "m", "next_step": "n"})
    assert (type(error), error.message, error.facts["reported_code"]) == (Conflict, "m", "from_the_future")


def test_a_refused_hello_is_the_daemons_error(place, daemon) -> None:
    error = {"kind": "Conflict", "code": "proto_mismatch", "message": "m", "next_step": "n"}
    daemon(result, hello={"error": error})
    with pytest.raises(Conflict) as caught:
        DaemonClient(place, start=False)
    assert caught.value.code == "proto_mismatch"


def test_a_protocol_error_is_an_error_of_ours(place, daemon) -> None:
    daemon(lambda message: [{"id": message["id"], "error": {"code": -32603, "message": "broken"}}])
    with DaemonClient(place, start=False) as link, pytest.raises(Environment):
        link.ask("orchestrator/status", {})


def test_a_refusal_that_names_no_request_ends_the_wait(place, daemon) -> None:
    daemon(lambda _: [{"id": None, "error": {"code": -32700, "message": "not JSON"}}])
    with DaemonClient(place, start=False) as link, pytest.raises(Environment) as caught:
        link.ask("orchestrator/status", {})
    assert caught.value.code == "internal"


def test_a_reader_never_starts_a_daemon(place, monkeypatch) -> None:
    monkeypatch.setattr(daemon_connection, "try_start", lambda *_: pytest.fail("a daemon was started"))
    with pytest.raises(NotReady) as caught:
        DaemonClient(place, start=False)
    assert caught.value.code == "daemon_down"


def test_a_caller_starts_a_daemon_where_none_runs(place, daemon, monkeypatch) -> None:
    monkeypatch.setattr(
        daemon_connection, "try_start", lambda *_: bool(daemon(lambda message: result(message, ok=True)))
    )
    with DaemonClient(place, start=True) as link:
        assert link.tool("agent_list", {}) == {"ok": True}


def test_a_stopped_daemon_is_not_started_again(place, monkeypatch) -> None:
    monkeypatch.setattr(daemon_connection, "try_start", lambda *_: pytest.fail("a daemon was started"))
    marker(place, project_location.STOPPED).touch()
    with pytest.raises(NotReady) as caught:
        DaemonClient(place, start=True)
    assert caught.value.code == "daemon_stopped"


def test_a_daemon_that_is_only_restarted_is_waited_for(place, daemon, monkeypatch) -> None:
    monkeypatch.setattr(
        daemon_connection, "try_start", lambda *_: bool(daemon(lambda message: result(message, ok=True)))
    )
    marker(place, project_location.STOPPED).touch()
    marker(place, project_location.RESTARTING).touch()
    with DaemonClient(place, start=True) as link:
        assert link.tool("agent_list", {}) == {"ok": True}


def test_a_daemon_that_accepts_and_greets_late_is_none_that_is_away(place, monkeypatch) -> None:
    over, greets = threading.Event(), threading.Event()
    welcomed = DaemonClient._welcomed

    def late(self, deadline):
        over.set()
        return welcomed(self, deadline)

    monkeypatch.setattr(DaemonClient, "_welcomed", late)
    daemon = FakeDaemon(place, lambda message: result(message, ok=True), greets=greets)
    threading.Thread(target=lambda: over.wait(10) and greets.set()).start()
    with DaemonClient(place, start=False, return_s=0.0) as link:  # its time is over before it greets
        assert link.tool("agent_list", {}) == {"ok": True}
    daemon.close()


def test_why_a_daemon_cannot_start_reaches_the_caller(place, monkeypatch) -> None:
    error = {"kind": "BadRequest", "code": "bad_config", "message": "m", "next_step": "n", "key": "k"}
    marker(place, project_location.FAILED).write_text(json.dumps(error))
    tried: list[object] = []
    monkeypatch.setattr(daemon_connection, "try_start", lambda *given: bool(tried.append(given)))
    with pytest.raises(BadRequest) as caught:
        DaemonClient(place, start=True)
    assert caught.value.as_dict() == error
    assert len(tried) == 1, "the same start would fail the same way"


def test_a_daemon_that_never_comes_up_ends_the_wait_with_the_log(place, monkeypatch) -> None:
    monkeypatch.setattr(links, "START_S", 0.0)
    monkeypatch.setattr(daemon_connection, "try_start", lambda *_: False)
    with pytest.raises(Environment) as caught:
        DaemonClient(place, start=True)
    assert str(marker(place, project_location.LOG)) in caught.value.next_step


def test_the_home_directory_gets_no_daemon(tmp_path, place) -> None:
    with pytest.raises(BadRequest) as caught:
        DaemonClient(Project(place.root, "none"), start=True)
    assert caught.value.code == "no_project"


def test_a_daemon_that_answers_nothing_ends_the_wait(place, daemon, monkeypatch) -> None:
    daemon(lambda _: [])
    with DaemonClient(place, start=False) as link:
        monkeypatch.setattr(links, "ANSWER_S", 0.01)
        with pytest.raises(NotReady):
            link.tool("agent_list", {})


def test_a_daemon_of_an_older_installation_that_knows_no_such_request_is_named():
    error = links._of_protocol({"code": -32601, "message": "Method not found"})
    assert error.code == "proto_mismatch"
    assert "restart" in error.next_step
