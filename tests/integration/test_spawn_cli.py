"""Spawn runs from the command line, against a real daemon and a stand-in of the model API."""

import json
import os
import pty
import signal
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

from tests.support import spawn_stage
from tests.support.spawn_stage import KEY, do
from tests.support.stage import BOUND_S, readable, until

STEPS = "1. Collect the facts about tea.\n2. Write an outline of them.\n3. Write the article."


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


class Done:
    """What a command said and ended with."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()
        assert KEY not in self.out + self.err

    @property
    def json(self):
        return json.loads(self.out)


def start(scene, *words, **more):
    """A spawn command that goes on."""
    argv = [sys.executable, "-P", "-m", "orchestrator", "spawn", *words]
    env = {name: value for name, value in {**scene.env, **more.pop("env", {})}.items() if value}
    return subprocess.Popen(argv, env=env, cwd=scene.stage.root, **more)


def spawn(scene, *words, given="", **env):
    """A spawn command that has ended."""
    process = start(scene, *words, env=env, stdin=-1, stdout=-1, stderr=-1)
    out, err = process.communicate(given.encode())
    return Done(subprocess.CompletedProcess(words, process.returncode, out, err))


def made(scene, *words):
    """The id of a run that a command has created."""
    done = spawn(scene, "create", *words)
    assert done.code == 0, done.err
    return done.out.strip()


class Followed:
    """A command that follows a run, and the lines it has written so far."""

    def __init__(self, scene, path, *words):
        self.path = path
        with path.open("wb") as file:
            self.process = start(scene, *words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def says(self, text):
        return until(lambda: text in self.said and self.said)

    @property
    def said(self):
        return self.path.read_text()

    def ends(self):
        return self.process.wait(60)


# -- from the task to the answer --------------------------------------------------------------------------------------


def test_a_run_is_created_followed_read_and_drawn(scene, fake, tmp_path):
    done = spawn(scene, "create", "Say what is true.", "--mode", "collective", "--count", "2", "--wait")
    assert done.code == 0, done.err
    (run_id,) = [row["run_id"] for row in spawn(scene, "list", "--json").json["runs"]]
    assert done.err.splitlines()[0] == f"run {run_id}"
    assert done.err.splitlines()[-1] == "completed; 2 of 2 nodes answered"
    assert done.out.encode().strip() == scene.file(run_id, "merged.md").read_bytes().strip()

    short = run_id[:6]
    assert spawn(scene, "result", short).out == done.out
    raw = spawn(scene, "result", short, "--raw")
    assert raw.out.startswith(done.out)
    assert all(f"--- collective-{n}\n" in raw.out for n in (1, 2))
    shown = spawn(scene, "status", short).out
    assert "collective, completed, 3 of 3 nodes done" in shown
    assert "planned by local" in shown

    answer = tmp_path / "answer.md"
    assert spawn(scene, "artifact", short, "merged", "-o", str(answer)).code == 0
    assert answer.read_bytes() == scene.file(run_id, "merged.md").read_bytes()
    assert spawn(scene, "artifact", short, "plan").json["runId"] == run_id

    page, picture = tmp_path / "run.html", tmp_path / "run.svg"
    assert spawn(scene, "graph", short, "-o", str(page)).code == spawn(scene, "graph", short, "-o", str(picture)).code
    xml.dom.minidom.parse(str(picture))
    for file in (page, picture):
        text = file.read_text()
        assert "collective-1" in text
        assert not [place for place in ("src=", "<script", "@import", "url(http", "<link") if place in text]


def test_a_task_comes_from_stdin_and_every_node_is_told_the_context_of_a_file(scene, fake, tmp_path):
    facts = tmp_path / "facts.md"
    facts.write_text("Tea is a plant.")
    done = spawn(scene, "create", "-", "--mode", "plan", "--context", f"@{facts}", "--wait", given=STEPS)
    assert done.code == 0, done.err
    asked = [call for call in fake.calls() if not call.merges]
    assert len(asked) == 3
    assert all("Tea is a plant." in call.prompt for call in asked)


def test_each_nodes_own_answer_stands_in_the_order_of_the_plan(scene, fake):
    fake.rule(hold="gate", times=1, per="all")
    run_id = made(scene, "Say what is true.", "--mode", "collective", "--count", "2")
    until(lambda: scene.rows("SELECT id FROM nodes WHERE run_id = ? AND status = 'completed'", run_id))
    fake.release("gate")
    said = spawn(scene, "result", run_id, "--wait", "--raw").out
    assert said.index("--- collective-1") < said.index("--- collective-2")


def test_an_answer_longer_than_one_page_is_printed_whole(scene, fake):
    fake.rule(answer="é" * 90_000 + "!")
    done = spawn(scene, "create", "t", "--mode", "single", "--wait")
    assert (done.code, done.out) == (0, "é" * 90_000 + "!\n")


def test_a_failed_run_is_exit_1_with_its_reason_said_once(scene, fake):
    done = spawn(scene, "create", do(status=401), "--mode", "single", "--wait")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].count("told to fail with 401") == 1
    run_id = done.err.split()[1]
    assert spawn(scene, "result", run_id, "--wait").code == 1
    assert spawn(scene, "status", run_id).code == 0
    done = spawn(scene, "create", "t", "--mode", "single", "--wait", MODEL_ALLOWLIST="no-such/*")
    assert done.code == 1
    assert done.err.splitlines()[-1].count("no model is left") == 1


# -- while it runs ----------------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_the_run_to_be_followed_again_and_canceled(scene, fake, tmp_path):
    first = Followed(scene, tmp_path / "first", "create", do(hold="gate"), "--mode", "single", "--wait")
    said = first.says("running: single")
    run_id = said.split()[1]
    first.process.send_signal(signal.SIGINT)
    assert first.ends() == 130
    assert f"orchestrator spawn cancel {run_id}" in first.said
    assert spawn(scene, "result", run_id).code == 4
    again = Followed(scene, tmp_path / "again", "status", run_id, "--follow")
    again.says("running: single")
    assert spawn(scene, "cancel", run_id).code == 0
    assert again.ends() == 1
    assert "single, canceled" in again.said
    assert spawn(scene, "cancel", run_id).code == 3, "it has ended"


def test_the_daemons_death_is_not_noticed_by_who_follows(scene, fake, tmp_path):
    followed = Followed(scene, tmp_path / "said", "create", do(hold="gate"), "--mode", "single", "--wait")
    followed.says("running: single")
    until(lambda: fake.waiting("gate"))
    before = len(fake.calls())
    scene.stage.kill_daemon()
    until(lambda: len(fake.calls()) > before)
    fake.release("gate")
    assert followed.ends() == 0
    assert "completed; 1 of 1 nodes answered" in followed.said
    run_id = followed.said.split()[1]
    assert "re-run 1x" in spawn(scene, "status", run_id).out


def test_a_daemon_stopped_by_hand_ends_the_following_and_the_run_goes_on_with_the_next_one(scene, fake, tmp_path):
    followed = Followed(scene, tmp_path / "said", "create", do(hold="gate"), "--mode", "single", "--wait")
    run_id = followed.says("running: single").split()[1]
    assert scene.stage.cli("daemon", "stop", env=scene.env).returncode == 0
    assert followed.ends() == 4
    assert "orchestrator daemon start" in followed.said
    assert scene.stage.cli("daemon", "start", env=scene.env).returncode == 0
    fake.release("gate")
    assert spawn(scene, "result", run_id, "--wait").code == 0


def test_a_run_that_waits_for_its_key_says_so_to_who_looks_with_another(scene, fake, tmp_path):
    run_id = made(scene, do(hold="gate"), "--mode", "single")
    until(lambda: fake.waiting("gate"))
    scene.stage.kill_daemon()
    other = "sk-or-v1-ffffffffffffffffffffffffffffffff"
    done = until(lambda: _waiting(spawn(scene, "status", run_id, OPENROUTER_API_KEY=other)))
    assert done.code == 0
    fake.release("gate")
    assert spawn(scene, "result", run_id, "--wait").code == 0, "this one's key is the right one"


def _waiting(done):
    return done if "waiting for the key it was created with" in done.out else None


def test_on_a_terminal_a_bar_is_drawn_over_itself(scene, fake):
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": ""}
    words = ("create", do(hold="gate"), "--mode", "single", "--wait")
    process = start(scene, *words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    while "running: single" not in said.decode(errors="replace"):
        assert readable(ours, BOUND_S), said
        said += os.read(ours, 1 << 16)
    assert "━" in said.decode()
    fake.release("gate")
    while block := _read(ours):
        said += block
    os.close(ours)
    assert process.wait(60) == 0
    assert "completed; 1 of 1 nodes answered" in said.decode().splitlines()[-1]


def _read(fd):
    """What a terminal still gives; nothing once its other side is closed."""
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "env", "code", "said"),
    [
        ("create t --mode single", {"OPENROUTER_API_KEY": ""}, 2, "OPENROUTER_API_KEY is not set"),
        ("create t --mode poem", {}, 2, "'collective'"),
        ("create t --mode single --engine nosuch", {}, 2, "no engine is called 'nosuch'"),
        ("create t --mode single --agent nosuch", {}, 2, "no agent is called 'nosuch'"),
        ("create t --mode single --context @/no/such", {}, 5, "/no/such"),
        ("create t --mode single", {"MAX_USD_PER_RUN": "much"}, 2, "MAX_USD_PER_RUN is 'much'"),
        ("create t --mode single", {"ORCHESTRATOR_AGENT_ID": "a1"}, 2, "inside agent a1"),
        ("status nosuch", {}, 2, "no spawn run is called 'nosuch'"),
        ("artifact nosuch plan", {}, 2, "no spawn run is called 'nosuch'"),
        ("list", {"SMART_SPAWN_MCP_HOME": "relative"}, 2, "SMART_SPAWN_MCP_HOME is 'relative'"),
    ],
)
def test_what_cannot_be_done_is_said_at_once_and_makes_no_run(scene, words, env, code, said):
    done = spawn(scene, *words.split(), **env)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert not scene.file().exists()


def test_a_connection_with_variables_that_are_wrong_leaves_no_bug_in_the_daemons_log(scene):
    spawn(scene, "list", SMART_SPAWN_MCP_HOME="relative")
    log = Path(scene.stage.run_dir()) / "log"
    assert "SMART_SPAWN_MCP_HOME is 'relative'" in until(
        lambda: "was left alone" in log.read_text() and log.read_text()
    )
    scene.stage.cli(
        "daemon", "stop", env=scene.env
    )  # what a task raised that nobody asked, is told at the latest now
    scene.stage.cli("daemon", "start", env=scene.env)
    assert "Traceback" not in log.read_text()


def test_health_says_what_is_missing_and_fails_for_it(scene, fake):
    done = spawn(scene, "health", OPENROUTER_API_KEY="")
    assert done.code == 1
    assert "no   openrouter_configured: OPENROUTER_API_KEY is not set" in done.out
    done = spawn(scene, "health", SMART_SPAWN_API_URL="http://127.0.0.1:9")
    assert done.code == 0, "every mode works without the Smart Spawn API"
    assert "no   smart_spawn_api_reachable" in done.out
