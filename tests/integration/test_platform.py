"""Systems: the portable form on Linux, one that names no peer, and those on which nothing works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import EXIT_CODES, Environment
from orchestrator.base.platform import basic_facts
from tests.support.portable import sitecustomize
from tests.support.stage import until

PORTABLE = {
    basic_facts.VARIABLE: basic_facts.PORTABLE,
    "PYTHONPATH": str(Path(sitecustomize.__file__).parent),
}
COMMANDS = [
    ("doctor",), ("daemon", "start"), ("daemon", "run"), ("daemon", "stop"), ("mcp",), ("launch", "a", "1"), ("worker",), ("show",),
    ("status",), ("agent", "list"), ("task", "add", "a", "x"), ("up",), ("top",), ("web",), ("verify",), ("setup",), ("--version",),
    ("--help",), ("nonsense",), (),
]  # fmt: skip
PRETENDED = """
import sys
sys.platform = "win32"
sys.modules["fcntl"] = sys.modules["pwd"] = sys.modules["termios"] = None
sys.argv = ["orchestrator", *sys.argv[1:]]
from orchestrator.__main__ import main
sys.exit(main())
"""


ON_A_MAC = """
import sys
real, sys.platform = sys.platform, "darwin"
from orchestrator.base.platform import basic_facts
sys.platform = real
sys.argv = ["orchestrator", *sys.argv[1:]]
from orchestrator.__main__ import main
sys.exit(main())
"""


def created(wire):
    return wire.tool("agent_create", {"name": "builder", "role": "builds"})


def test_without_the_pid_of_a_peer_nobody_is_a_master_and_the_daemon_can_be_stopped(stage):
    """The one test in which LOCAL_PEERPID has no stand-in; the others in the portable form have one."""
    stage.env |= PORTABLE | {sitecustomize.WITHOUT_PEERS: "1"}
    wire = stage.begun()
    pid = until(stage.daemon)
    refused = created(wire)
    assert refused["error"]["code"] == "origin_unknown"
    assert "error" not in wire.tool("agent_list", {})
    assert not (stage.root / ".agents" / "agents").exists()
    shown = stage.cli("daemon", "status", "--json")
    assert json.loads(shown.stdout)["pid"] == pid
    stopped = stage.cli("daemon", "stop", "--json")
    assert (stopped.returncode, json.loads(stopped.stdout)["pid"]) == (0, pid)
    assert stage.daemon() is None


def test_the_portable_form_runs_an_agent_and_reads_nothing_that_only_linux_has(stage):
    stage.env |= PORTABLE
    wire = stage.begun()
    assert "error" not in created(wire)
    wire.tool("task_enqueue", {"agent_id": "builder", "task": {"payload": {"command": "echo done"}}})
    until(lambda: "result" in stage.types("builder"))
    assert stage.cli("daemon", "stop").returncode == 0
    assert "Refused" not in (stage.run_dir() / "log").read_text()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words) or "alone")
def test_where_it_cannot_work_every_command_says_so_in_one_sentence_and_leaves_nothing(stage, command):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRETENDED, *command], env=stage.env, cwd=stage.root, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (EXIT_CODES[Environment], "")
    sentence, step = done.stderr.splitlines()
    assert "win32" in sentence and "WSL" in step
    assert list(stage.run_base.iterdir()) == []


def test_json_has_the_error_and_the_hook_has_nothing_to_say(stage):
    run = [sys.executable, "-P", "-c", PRETENDED]
    for words, code in (("status --json", 5), ("hook", 0)):
        done = subprocess.run(
            [*run, *words.split()],
            env=stage.env,
            cwd=stage.root,
            input="{}",
            capture_output=True,
            text=True,
            check=False,
        )
        answer = json.loads(done.stdout)
        assert (done.returncode, done.stderr) == (code, "")
        assert answer == {} if words == "hook" else answer["error"]["code"] == "system_unsupported"


def test_a_form_that_nobody_knows_is_refused(stage):
    done = stage.cli("status", "--json", env={**stage.env, basic_facts.VARIABLE: "plan9"})
    assert json.loads(done.stdout)["error"]["code"] == "system_unsupported"
    hook = subprocess.run(
        [sys.executable, "-IS", str(Path(basic_facts.__file__).parents[2] / "hook.py")],
        env={**stage.env, basic_facts.VARIABLE: "plan9"}, input='{"hook_event_name": "Stop"}', capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (hook.returncode, hook.stdout, hook.stderr) == (0, "{}\n", "")


def test_doctor_says_on_a_mac_that_it_is_untried_and_nothing_of_it_elsewhere(stage):
    run = [sys.executable, "-P", "-c", ON_A_MAC, "doctor", "--json"]
    done = subprocess.run(run, env=stage.env, cwd=stage.root, capture_output=True, text=True, check=False)
    (note,) = [row for row in json.loads(done.stdout)["findings"] if row["check"] == "system"]
    assert (note["level"], "docs/platforms.md" in note["next_step"]) == ("note", True)
    here = json.loads(stage.cli("doctor", "--json").stdout)["findings"]
    assert basic_facts.VARIABLE in stage.env or not [row for row in here if row["check"] == "system"]
