"""The launch stub in a real pane: it waits for its release, checks the pane's tag, and becomes the CLI."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from orchestrator.edge import launch_stub, project_location
from orchestrator.trust.provenance import Provenance
from tests.fakes.relays import BOUND_S
from tests.support.sealed_files import state_of
from tests.support.tmux_server import private_server, until

pytestmark = pytest.mark.tmux
__all__ = ["private_server"]

CLI = """
import json, os, sys
said = {"pid": os.getpid(), "env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "tty": os.isatty(1)}
with open(sys.argv[1] + ".half", "w") as file:
    json.dump(said, file)
os.rename(sys.argv[1] + ".half", sys.argv[1])
input()
"""
# Asks the kernel, not Python, which would ignore SIGPIPE itself.
SIGNALS = ["sh", "-c", "grep SigIgn /proc/$$/status > signals; exec cat"]


class Desk:
    """A project with one agent's launch file, and panes to launch in."""

    def __init__(self, base, server):
        self.root = base / "project"
        self.state = base / "state"
        self.engine = self.root / ".agents" / "agents" / "lint-1" / "engine"
        self.engine.mkdir(parents=True)
        self.file = self.engine / "launch.json"
        self.provenance = Provenance(self.root / ".agents")
        with state_of({"ORCHESTRATOR_STATE_DIR": str(self.state)}):
            self.provenance.establish()
        self.server = server
        self.out = self.root / "out.json"
        server.start()
        server.run("set-option", "-g", "remain-on-exit", "on")

    def write(self, **other):
        launched = {
            "epoch": 2, "argv": [sys.executable, "-c", CLI, str(self.out), "a b", "$HOME;`x`"], "cwd": str(self.root),
            "env": {
                "PATH": os.environ["PATH"], "ONLY": "this", "TERM": "overridden",
                "ORCHESTRATOR_STATE_DIR": str(self.state),
            }, "secret": "s",
            **other,
        }  # fmt: skip
        self.put({k: v for k, v in launched.items() if v is not None})

    def put(self, content):
        """A launch file as the daemon writes it."""
        self.file.write_text(json.dumps(self.provenance.sealed(content, "agent", "lint-1", "launch")))
        self.file.chmod(0o600)

    def pane(self, agent="lint-1", epoch="2"):
        command = project_location.own_command(
            "launch", agent, epoch, "--project", str(self.root), "--state", str(self.state)
        )
        extra = ["-e", "ORCHESTRATOR_SECRET_OF_THE_PANE=x"]
        shown = self.server.run(
            "split-window", "-d", "-P", "-F", "#{pane_id} #{pane_pid}", *extra, "--", "sh", "-c",
            'exec "$@"; :', "sh", *command,
        )  # fmt: skip
        pane, pid = shown.split()
        return pane, int(pid)

    def tag(self, pane, agent="lint-1"):
        self.server.run("set-option", "-p", "-t", pane, "@orchestrator_agent", agent)

    def release(self, epoch=2):
        half = self.engine / "go.half"
        half.write_text(f"{epoch}\n")
        half.replace(self.engine / "go")

    def ended(self, pane):
        """Exit status and last words of a dead pane."""

        def dead_status():
            dead, status, server = self.server.show(pane, "#{pane_dead} #{pane_dead_status} #{pid}").split(" ")
            if dead == "1" and not status:  # tmux 3.3a now and then misses a child's end, until it is told again
                os.kill(int(server), signal.SIGCHLD)
            return status

        status = until(dead_status)
        text = self.server.run("capture-pane", "-p", "-J", "-t", pane)
        assert "Traceback" not in text
        return int(status), " ".join(text.split())


@pytest.fixture
def desk(tmp_path, private_server):
    return Desk(tmp_path.resolve(), private_server)


def test_the_cli_gets_the_files_argv_directory_and_environment_and_keeps_the_panes_pid(desk):
    desk.write()
    pane, pid = desk.pane()
    desk.tag(pane)
    desk.release()
    said = json.loads(until(lambda: desk.out.exists() and desk.out.read_text()))
    assert said["pid"] == pid
    assert said["cwd"] == str(desk.root)
    assert said["argv"][1:] == [str(desk.out), "a b", "$HOME;`x`"], "no shell looks at the words"
    assert said["tty"]
    (place,) = (desk.state / "launched").iterdir()
    (line,) = [json.loads(one) for one in place.read_text().splitlines()]
    assert (line["agent"], line["project"], line["pid"]) == ("lint-1", str(desk.root), pid)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    # Python itself may add LC_CTYPE in its own process; from 3.6 on tmux adds COLORTERM.
    assert {*said["env"]} - {"LC_CTYPE", "COLORTERM"} == {
        "PATH", "ONLY", "TERM", "TMUX", "TMUX_PANE", "ORCHESTRATOR_STATE_DIR",
    }  # fmt: skip
    assert said["env"]["TMUX_PANE"] == pane
    assert said["env"]["TERM"] == desk.server.run("show-options", "-gv", "default-terminal")


def test_nothing_of_an_agent_runs_that_could_not_be_written_down(desk):
    (desk.state / "launched").touch()
    desk.write()
    pane, _ = desk.pane()
    desk.tag(pane)
    desk.release()
    status, text = desk.ended(pane)
    assert status == 126
    assert "cannot be recorded as an agent" in text
    assert not desk.out.exists()


def test_nothing_runs_before_the_release_of_this_epoch(desk):
    desk.write()
    go, aside = desk.engine / "go", desk.engine / "aside"
    os.mkfifo(go)  # it shows when the stub looks
    os.link(go, aside)
    pane, _ = desk.pane()
    desk.tag(pane)

    def looked(said=b""):
        try:
            pipe = os.open(aside, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return os.write(pipe, said) == len(said)
        except BrokenPipeError:  # it had just looked away
            return False
        finally:
            os.close(pipe)

    for said in (b"", b"1", b"3", b"22", b"two"):
        until(lambda said=said: looked(said))
    assert not desk.out.exists()
    desk.release()
    until(lambda: looked() or desk.out.exists())
    until(desk.out.exists)


def test_a_release_that_came_first_is_not_lost(desk):
    desk.write()
    desk.release()
    # The pane that was never tagged shows that the stub went on without waiting.
    pane, _ = desk.pane()
    status, words = desk.ended(pane)
    assert status == launch_stub.REFUSED
    assert "has the tag" in words


def test_signals_that_python_ignores_are_not_ignored_in_the_cli(desk):
    desk.write(argv=SIGNALS)
    pane, _ = desk.pane()
    desk.tag(pane)
    desk.release()
    path = desk.root / "signals"
    mask = int(until(lambda: path.exists() and path.read_text()).split()[1], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not mask >> (number - 1) & 1, "an ignored signal survives exec"


def test_a_pane_of_another_agent_is_not_taken(desk):
    desk.write()
    pane, _ = desk.pane()
    desk.tag(pane, "other")
    desk.release()
    status, words = desk.ended(pane)
    assert status == launch_stub.REFUSED
    assert "agent lint-1 was not started" in words
    assert not desk.out.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"epoch": 3}, {"epoch": None}, {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"env": {"A": 1}}, {"env": None},
        {"cwd": None}, {"cwd": ""}, {"epoch": "2"},
    ],
)  # fmt: skip
def test_a_file_of_another_launch_or_of_a_wrong_form_is_refused(desk, other):
    desk.write(**other)
    with pytest.raises(launch_stub.Refusal) as refused:
        launch_stub.read_launch(desk.root, "lint-1", 2)
    assert refused.value.status == launch_stub.REFUSED


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o602])
def test_a_file_open_to_others_is_refused(desk, mode):
    desk.write()
    desk.file.chmod(mode)
    with pytest.raises(launch_stub.Refusal) as refused:
        launch_stub.read_launch(desk.root, "lint-1", 2)
    assert refused.value.status == launch_stub.REFUSED


def test_a_link_a_pipe_and_a_missing_file_are_refused(desk):
    desk.write()
    desk.file.rename(desk.engine / "real.json")
    desk.file.symlink_to(desk.engine / "real.json")
    for prepare in (lambda: None, desk.file.unlink, lambda: os.mkfifo(desk.file, 0o600)):
        prepare()
        with pytest.raises(launch_stub.Refusal) as refused:
            launch_stub.read_launch(desk.root, "lint-1", 2)
        assert refused.value.status == launch_stub.REFUSED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(desk):
    desk.write()
    os.chown(desk.file, 65534, -1)
    with pytest.raises(launch_stub.Refusal):
        launch_stub.read_launch(desk.root, "lint-1", 2)


@pytest.mark.parametrize("agent_id", ["", ".", "..", "../lint-1", "a/b", "a\0b"])
def test_an_id_that_is_a_path_is_refused(desk, agent_id):
    desk.write()
    with pytest.raises(launch_stub.Refusal):
        launch_stub.read_launch(desk.root, agent_id, 2)


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"argv": ["no-such-program-anywhere"]}, launch_stub.NOT_FOUND),
        ({"argv": ["/"]}, launch_stub.NOT_STARTED),
        ({"argv": ["a\0b"]}, launch_stub.NOT_STARTED),
        ({"cwd": "/no/such/directory"}, launch_stub.NOT_STARTED),
    ],
)
def test_a_cli_that_cannot_be_started_is_named_in_one_sentence(desk, other, status):
    desk.write(**other)
    pane, _ = desk.pane()
    desk.tag(pane)
    desk.release()
    got, words = desk.ended(pane)
    assert got == status
    assert "orchestrator: agent lint-1 was not started: " in words


def test_a_daemon_that_never_releases_is_not_waited_for_for_ever(desk, monkeypatch):
    monkeypatch.setattr(launch_stub, "WAIT_S", 0.05)
    desk.release(epoch=1)
    with pytest.raises(launch_stub.Refusal) as refused:
        launch_stub.wait_for_release(desk.root, "lint-1", 2)
    assert refused.value.status == launch_stub.NOT_RELEASED


def test_a_release_that_cannot_be_read_is_reported_at_once(desk):
    (desk.engine / "go").mkdir()
    with pytest.raises(launch_stub.Refusal) as refused:
        launch_stub.wait_for_release(desk.root, "lint-1", 2)
    assert refused.value.status == launch_stub.NOT_RELEASED


def test_wrong_arguments_show_the_usage(desk):
    for arguments in ([], ["a", "x", "--project", "/"], ["a", "1", "--root", "/"], ["a", "1"]):
        done = subprocess.run(
            project_location.own_command("launch", *arguments), capture_output=True, text=True, timeout=BOUND_S
        )
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: orchestrator launch")
    done = subprocess.run(
        project_location.own_command("launch", "--help"), capture_output=True, text=True, timeout=BOUND_S
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: orchestrator launch")
