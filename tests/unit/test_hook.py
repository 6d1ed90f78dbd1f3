"""The hook program by itself: what it costs, what it tells, and that nothing it meets breaks a turn of a CLI."""

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from orchestrator.edge import cli_hook as hook
from orchestrator.edge import project_location
from orchestrator.trust import state_dir
from tests.support.hooks import HOOK, Hook, stop
from tests.support.stage import BOUND_S, until

RSS_MAX_KB = (12_000_000 if sys.version_info < (3, 12) else 13_000_000) // 1024  # the interpreter itself grew by then
SOON_S = 25.0  # less than RETRY_S, the time that a hook which waits for a daemon takes

# The hook as the CLI starts it, but that it would wait for the end of its stdin longer than any test.
ENDLESS = "import sys; sys.path.insert(0, sys.argv[1]); from orchestrator.edge import cli_hook as hook; hook.STDIN_S = 3600.0; hook.main()"


class Door:
    """A project, its run directory, and somebody who answers at its socket as told."""

    def __init__(self, base):
        self.root = base / "project"
        self.root.mkdir()
        self.base = base / "run"
        self.base.mkdir(mode=0o700)
        self.env = {"PATH": os.environ["PATH"], "ORCHESTRATOR_RUN_BASE": str(self.base), "HOME": str(base)}
        self.agent = {
            **self.env,
            "ORCHESTRATOR_PROJECT": str(self.root),
            "ORCHESTRATOR_AGENT_ID": "a",
            "ORCHESTRATOR_AGENT_EPOCH": "2",
            "ORCHESTRATOR_AGENT_SECRET": "s" * 32,
        }
        self.heard = []
        self.open = []
        self.listener = None
        self.listeners = []
        self.threads = []
        self.hooks = []

    @property
    def place(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ORCHESTRATOR_RUN_BASE", str(self.base))
            return project_location.run_dir(self.root)

    def listen(self, *answers, close=False):
        """Answer each connection's lines with these; None keeps it waiting."""
        path = self.place / "socket"
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listeners.append(self.listener)
        self.threads.append(threading.Thread(target=self._serve, args=(self.listener, answers, close), daemon=True))
        self.threads[-1].start()

    def _serve(self, listener, answers, close):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                self.open.append(sock)
                with sock.makefile("rb") as file:
                    hello, told = file.readline(), file.readline()
                if not told:  # shut, or the hook gone, before it could speak
                    continue
                sock.sendall(b'{"hello":{"proto":1}}\n')
                self.heard.append((json.loads(hello)["hello"], json.loads(told)))
                for answer in answers:
                    if answer is not None:
                        sock.sendall(json.dumps(answer).encode() + b"\n")
                if close:
                    sock.shutdown(socket.SHUT_RDWR)

    def shut(self):
        """The daemon dies: nobody listens, every connection ends."""
        self.listener.shutdown(socket.SHUT_RDWR)
        for sock in self.open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        """Close every socket, and wait for the threads that served them."""
        for listener in self.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self.threads:
            thread.join(5)
        for sock in self.open:
            sock.close()

    def hook(self, env=None, event=None):
        one = Hook(self.agent if env is None else env, stop() if event is None else event, self.root)
        self.hooks.append(one)
        return one


@pytest.fixture
def door(tmp_path):
    door = Door(tmp_path)
    yield door
    for one in door.hooks:
        one.kill()
    door.close()


def held(door, **kwargs):
    """A hook that is held."""
    door.listen(None)
    one = door.hook(**kwargs)
    until(lambda: door.heard)
    return one


def test_a_held_hook_fits_into_its_budget(door):
    one = held(door)
    assert one.rss_kb() <= RSS_MAX_KB
    assert one.held


def test_a_huge_event_is_told_and_costs_no_memory_while_it_is_held(door):
    event = json.dumps(stop(transcript="x" * (8 << 20), last_assistant_message='"hook_event_name":"No"')).encode()
    one = held(door, event=event)
    assert door.heard[0][1]["event"] == "Stop"
    assert door.heard[0][1]["session"] == "s-1"
    assert one.rss_kb() <= RSS_MAX_KB


def test_it_says_who_speaks_and_what_happened_and_nothing_a_human_wrote(door):
    door.listen({"answer": "none"})
    event = stop(prompt="my secret", transcript_path="/t", message="m" * 500, details={"a": 1}, cwd=str(door.root))
    assert door.hook(event=event).said() == {}
    hello, told = door.heard[0]
    assert (hello["kind"], hello["project"], hello["boot"]) == ("hook", os.path.realpath(door.root), 1)
    assert hello["agent"] == {"id": "a", "epoch": 2, "secret": "s" * 32}
    assert os.getpid() in hello["pids"]
    data = {"cwd": str(door.root), "transcript_path": "/t", "stop_hook_active": False}
    data |= {"message": "m" * 300, "details": {"a": 1}}
    assert told == {"event": "Stop", "session": "s-1", "data": data}


def permission(door, **facts):
    """The event with which a CLI asks for a permission."""
    return {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "cwd": str(door.root), **facts}


def told_of(door, event, **facts):
    """What a hook that is answered tells of an event."""
    event = permission(door, hook_event_name=event, **facts)
    assert door.hook(event=event).said() == {}
    return door.heard[-1][1]["data"]


def test_it_says_the_whole_of_what_a_permission_is_asked_for(door):
    door.listen({"answer": "none"})
    asked = {"file_path": "/x", "content": "c" * 500_000, "n": 1, "edits": ["\u202ee" * 9000]}
    told = told_of(door, "PermissionRequest", tool_input=asked)
    assert told == {"cwd": str(door.root), "tool_name": "Bash", "tool_input": asked}


def test_of_a_request_too_long_to_be_read_it_says_that_it_is_cut(door):
    door.listen({"answer": "none"})
    told = told_of(
        door, "PermissionRequest", tool_input={"file_path": "/x", "content": '"path": "/y"' + "c" * (2 << 20)}
    )
    assert told == {"cwd": str(door.root), "tool_name": "Bash", "tool_input": {"file_path": "/x"}, "cut": True}
    for before in ("", "x" * (hook.ASKED_CUT - 2)):  # an escape may be where the text is cut
        told = told_of(door, "PermissionRequest", tool_input={"command": before + '"make"\n' * (1 << 20)})
        shown = told["tool_input"]["command"]
        assert told["cut"] and shown.startswith(before) and 2000 < len(shown) <= hook.ASKED_CUT


def test_of_any_other_event_it_cuts_long_values(door):
    door.listen({"answer": "none"})
    asked = {"command": "touch a", "timeout": 5, "questions": [{"question": "Which?"}]}
    assert told_of(door, "Notification", tool_input=asked)["tool_input"] == asked
    told = told_of(door, "Notification", tool_input={"path": "/x", "content": "c" * 100_000, "edits": ["e" * 9000]})
    assert told["tool_input"]["path"] == "/x"
    assert len(json.dumps(told)) < 10_000


def test_a_held_request_of_one_mebibyte_costs_no_more_than_its_text(door):
    one = held(door, event=permission(door, tool_input={"command": "c" * (1_000_000)}))
    assert one.rss_kb() <= RSS_MAX_KB + 3 * 1024


def test_it_prints_what_the_daemon_decides(door):
    output = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    door.listen(None, {"answer": "decide", "output": output})
    assert door.hook(event=permission(door)).said() == output


@pytest.mark.parametrize(
    "word", [{"answer": "release"}, {"answer": "decide"}, {"answer": "decide", "output": "allow"}]
)
def test_any_other_word_leaves_the_question_to_the_cli(door, word):
    door.listen(word)
    assert door.hook(event=permission(door)).said() == {}


def test_a_request_comes_back_to_the_next_daemon_as_the_same(door):
    one = held(door, event=permission(door, tool_input={"command": "make"}))
    door.shut()
    door.listen({"answer": "decide", "output": {"yes": 1}})
    assert one.said() == {"yes": 1}
    (first, told), (second, again) = door.heard
    assert (first["conn"], first["boot"], second["boot"]) == (second["conn"], 1, 2)
    assert told == again


def test_a_request_does_not_wait_for_a_daemon_that_was_stopped_by_hand(door):
    one = held(door, event=permission(door))
    (door.place / "stopped").touch()
    door.shut()
    assert one.said(SOON_S) == {}
    assert door.hook(event=permission(door)).said(SOON_S) == {}


def test_a_wake_blocks_the_end_of_the_turn_and_a_release_does_not(door):
    door.listen({"answer": "wake", "reason": "call now"})
    assert door.hook().said() == {"decision": "block", "reason": "call now"}
    door.shut()
    door.listen({"answer": "release"})
    assert door.hook().said() == {}


def test_a_daemon_that_refuses_the_hello_lets_the_turn_end(door):
    door.listen({"hello": {"error": {"code": "proto_mismatch"}}})
    assert door.hook().said() == {}


def test_the_secret_comes_from_the_launch_file_where_the_cli_strips_it(door):
    place = door.root / ".agents/agents/a/engine"
    place.mkdir(parents=True)
    (place / "launch.json").write_text(json.dumps({"epoch": 2, "secret": "from the file"}))
    del door.agent["ORCHESTRATOR_AGENT_SECRET"]
    door.listen({"answer": "none"})
    assert door.hook().said() == {}
    assert door.heard[0][0]["agent"]["secret"] == "from the file"
    (place / "launch.json").write_text(json.dumps({"epoch": 3, "secret": "of another life"}))
    assert door.hook().said() == {}
    assert door.heard[1][0]["agent"]["secret"] == ""


@pytest.mark.parametrize(
    "event", [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b"{}" * 9, b"[" * 100_000], ids=range(8)
)
def test_rubbish_on_stdin_lets_the_turn_end(door, event):
    door.listen({"answer": "wake", "reason": "never"})
    assert door.hook(event=event).said() == {}


def test_a_stdin_that_stays_open_behind_the_event_holds_nothing_up(door):
    door.listen({"answer": "none"})
    process = subprocess.Popen(
        [*HOOK[:2], "-c", ENDLESS, str(Path(__file__).resolve().parents[2])], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env=door.agent, cwd=door.root,
    )  # fmt: skip
    process.stdin.write(json.dumps(stop()).encode() + b"\n")
    process.stdin.flush()
    assert process.wait(BOUND_S) == 0
    assert json.loads(process.stdout.read()) == {}
    process.stdin.close()
    process.stdout.close()


def test_without_a_daemon_a_human_waits_for_nothing(door):
    assert door.hook(env=door.env).said(SOON_S) == {}
    assert door.hook(event={"hook_event_name": "UserPromptSubmit"}).said(SOON_S) == {}
    assert list(door.base.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_run_directory_that_others_may_enter_is_not_spoken_to(door, mode):
    door.listen({"answer": "wake", "reason": "from a stranger"})
    door.place.chmod(mode)
    assert door.hook().said(SOON_S) == {}
    assert door.heard == []


def test_a_run_directory_that_is_a_link_is_not_spoken_to(door):
    door.listen({"answer": "wake", "reason": "from a stranger"})
    place = door.place
    place.rename(place.with_name("elsewhere"))
    place.symlink_to(place.with_name("elsewhere"))
    assert door.hook().said(SOON_S) == {}
    assert door.heard == []


@pytest.mark.parametrize("first", ["open to others", "dead, and the word says so", "dead, and a stranger's word"])
def test_a_daemon_in_the_state_directory_is_found(door, first):
    made = door.place
    door.base.chmod(0o755)
    door.listen({"answer": "wake", "reason": "call"})
    if first != "open to others":
        door.base.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(made / "socket"))
        (door.root / ".agents").mkdir()
        (door.root / ".agents" / "lock").write_text("state 1\n" if "says" in first else "tmp 1\n")
    env = {**door.agent, "ORCHESTRATOR_STATE_DIR": os.environ["ORCHESTRATOR_STATE_DIR"]}
    assert door.hook(env=env).said(SOON_S) == {"decision": "block", "reason": "call"}


def test_a_lock_that_is_a_pipe_is_not_waited_for(door):
    (door.root / ".agents").mkdir()
    os.mkfifo(door.root / ".agents" / "lock")
    door.listen({"answer": "wake", "reason": "call"})
    assert door.hook().said(SOON_S) == {"decision": "block", "reason": "call"}


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_at_once(door, sign):
    one = held(door)
    one.process.send_signal(sign)
    assert one.process.wait(SOON_S) == -sign


def test_it_ends_when_nobody_reads_its_answer_any_more(door):
    one = held(door)
    one.process.stdout.close()
    assert one.process.wait(SOON_S) == 0


def test_it_ends_when_its_parent_has_gone(door, tmp_path):
    door.listen(None)
    code = (
        "import subprocess,sys,os;"
        "p=subprocess.Popen(sys.argv[2:],stdin=subprocess.PIPE);"
        "open(sys.argv[1],'w').write(str(p.pid));"  # before the event: once the hook is heard, it is written
        f"p.stdin.write({json.dumps(stop())!r}.encode());p.stdin.close();"
        "sys.stdin.read()"
    )
    pid_file = tmp_path / "pid"
    out, into = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(pid_file), *HOOK], stdin=subprocess.PIPE, stdout=into, env=door.agent,
        cwd=door.root,
    )  # fmt: skip
    os.close(into)
    until(lambda: door.heard)
    parent.kill()
    parent.wait()
    parent.stdin.close()
    # Its end of the pipe, the last one, closes with it.
    until(lambda: select.select([out], [], [], 0.1)[0])
    assert os.read(out, 100) in (b"", b"{}\n")
    until(lambda: not Path(f"/proc/{pid_file.read_text()}").exists() or _zombie(pid_file.read_text()))
    os.close(out)


def _zombie(pid):
    with contextlib.suppress(OSError):
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


def test_it_comes_back_to_the_next_daemon_with_the_same_event(door):
    one = held(door)
    door.shut()
    door.listen({"answer": "wake", "reason": "call"})
    assert one.said() == {"decision": "block", "reason": "call"}
    (first, told), (second, again) = door.heard
    assert (first["boot"], second["boot"]) == (1, 2)
    assert first["conn"] == second["conn"]
    assert told == again


def test_it_stays_while_the_daemon_is_stopped_by_hand(door):
    one = held(door)
    (door.place / "stopped").touch()
    door.shut()
    before = cpu(one)
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(2)
    assert cpu(one) - before < 50  # ticks of 10 ms: it does not spin
    (door.place / "stopped").unlink()
    door.listen({"answer": "release"})
    assert one.said() == {}


def cpu(one):
    fields = Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("event", ["Stop", "PermissionRequest"])
def test_it_gives_up_on_a_daemon_that_does_not_come_back(door, monkeypatch, event):
    for name, value in door.agent.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hook, "RETRY_S", 0.05)
    monkeypatch.setattr(hook, "PACE_S", 0.01)
    door.listen(close=True)
    death = threading.Thread(target=lambda: (until(lambda: door.heard), door.shut()))
    death.start()
    assert hook.answer(stop(hook_event_name=event)) == "{}"
    death.join()
    assert door.heard


@pytest.mark.parametrize(("greets", "size"), [(0, 1), (0, 1_000_000), (1, 1), (3, 1)])
def test_a_daemon_that_hangs_leaves_the_question_to_the_cli(door, monkeypatch, greets, size):
    """It accepts, because the system does that for it, and says nothing: at once, or after it was greeted and asked."""
    for name, value in door.agent.items():
        monkeypatch.setenv(name, value)
    hangs_s = 0.3
    waits = {"GREET_S": 30.0 if greets else hangs_s, "LOOK_S": 0.05, "RETRY_S": hangs_s, "PACE_S": 0.01}
    for name, seconds in waits.items():
        monkeypatch.setattr(hook, name, seconds)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(door.place / "socket"))
    listener.listen()
    door.listeners.append(listener)
    seen = []

    def serve():
        with contextlib.suppress(OSError):
            for _ in range(greets):
                sock, _ = listener.accept()
                door.open.append(sock)
                seen.append(json.loads(sock.makefile("rb").readline())["hello"]["conn"])
                sock.sendall(b'{"hello":{"proto":1}}\n')
            hook.GREET_S = hangs_s  # a machine that kept the greetings waiting has changed nothing

    door.threads.append(threading.Thread(target=serve, daemon=True))
    door.threads[-1].start()
    assert hook.answer(permission(door, tool_input={"command": "x" * size})) == "{}"
    assert len(seen) == greets and seen[1:] == ["look"] * (greets - 1)


class Clock:
    """The time of a hook, which passes in its pauses only: a machine that keeps it waiting changes nothing."""

    now = 0.0

    @classmethod
    def monotonic(cls):
        return cls.now


def test_a_daemon_stopped_by_hand_is_waited_for_as_long_as_it_takes(door, monkeypatch):
    for name, value in door.agent.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hook, "time", Clock)
    monkeypatch.setattr(Clock, "now", 0.0)
    door.listen(close=True)
    (door.place / "stopped").touch()
    rounds = []

    def gone(_parent, seconds):
        rounds.append(1)
        if len(rounds) == 1:
            door.shut()
        if len(rounds) == 100:
            (door.place / "stopped").unlink()
        Clock.now += seconds
        return False

    monkeypatch.setattr(hook, "gone", gone)
    assert hook.answer(stop()) == "{}"
    # The time for which any other daemon is waited for begins anew in each of them.
    assert 100 * hook.PACE_S > 2 * hook.RETRY_S
    assert len(rounds) > 100


def test_a_master_finds_the_daemon_above_its_directory_and_of_the_main_tree_of_a_worktree(door, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(door.base))
    monkeypatch.setenv("HOME", "/nowhere")
    deep = door.root / "a" / "b"
    deep.mkdir(parents=True)
    git = door.root / ".git"
    (git / "worktrees" / "w").mkdir(parents=True)
    (git / "worktrees" / "w" / "commondir").write_text("../..\n")
    tree = door.root.parent / "w"
    (git / "worktrees" / "w" / "gitdir").write_text(f"{tree}/.git\n")
    (tree / "src").mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {git}/worktrees/w\n")
    assert hook.project_of(str(deep)) is None
    door.listen(None)
    for cwd in (deep, tree / "src"):
        assert hook.project_of(str(cwd)) == os.path.realpath(door.root), cwd
    assert hook.main_tree(str(tree)) == str(project_location.find_project(tree).root)
    assert hook.project_of("/") is None


def test_its_run_directory_and_names_are_the_projects(door, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(door.base))
    assert hook.run_dirs(str(door.root)) == []  # it makes nothing
    project_location.run_dir(door.root)
    assert hook.run_dirs(str(door.root)) == [str(door.place)]
    assert hook.state_dir() == str(state_dir.state_dir())
    monkeypatch.delenv("ORCHESTRATOR_STATE_DIR")
    assert hook.state_dir() == str(state_dir.state_dir())
    assert project_location.PROTO == hook.PROTO
    assert (hook.AGENT_ID, hook.AGENT_EPOCH, hook.AGENT_SECRET) == project_location.AGENT_ENV
    assert project_location.hook_command() == HOOK
    assert project_location.SOCKET == "socket"
    for agent_id in ("a", "builder-2"):
        assert hook.agent_socket(agent_id) == project_location.agent_socket(agent_id)
        assert project_location.AGENT_SOCKET.fullmatch(project_location.agent_socket(agent_id))
        assert len(project_location.agent_socket(agent_id)) <= len(project_location.SOCKET), "its path is as short"


@pytest.mark.parametrize("content", [None, "", "another-boot", "this"])
def test_a_stop_by_hand_means_to_it_what_it_means_to_the_product(door, monkeypatch, content):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(door.base))
    directory = project_location.run_dir(door.root)
    if content == "this":
        project_location.write_stopped(directory)
    elif content is not None:
        (directory / project_location.STOPPED).write_text(content)
    assert hook.is_stopped(str(directory)) is project_location.is_stopped(directory) is (content in ("", "this"))


def test_the_command_of_the_package_does_the_same(door):
    command = [sys.executable, "-P", "-m", "orchestrator", "hook"]
    door.listen({"answer": "wake", "reason": "call"})
    env = {**door.agent, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(
        command,
        input=json.dumps(stop()).encode(),
        capture_output=True,
        env=env,
        cwd=door.root,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout) == {"decision": "block", "reason": "call"}


def at_rest(door, one):
    """Whether it has taken all that was said to it, the greeting after its own words, and sleeps."""
    untaken = array.array("i", [0])
    fcntl.ioctl(door.open[-1], termios.TIOCOUTQ, untaken)
    return not untaken[0] and Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_nothing_polls_while_it_is_held(door):
    one = held(door)
    until(lambda: at_rest(door, one))
    before = cpu(one)
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(2)
    assert cpu(one) == before
