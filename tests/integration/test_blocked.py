"""An agent whose CLI does not go on says why, everywhere; one that does not get ready is failed and cleared away.

The real daemon, the real row of Codex, and in its place a program that shows what the real one was seen to show.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.stage import Stage, alive, lines_of, until

SCREENS = Path(__file__).parents[1] / "screens" / "codex"
TRUST, LIMIT = SCREENS / "trust-folder.txt", SCREENS / "rate_limit-usage.txt"
LONG = "ready_timeout_s = 600\n"  # that the test takes its time must not fail the agent

# Shows the screen that FAKE_SCREEN names, notes its pid and its arguments, and stays for ever, or ends with FAKE_EXIT.
CLI = f"""#!{sys.executable}
import json, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # closing the pane alone does not end it
if sys.argv[1:] == ["--version"]:
    sys.exit(print("codex-cli 9.9.9"))
with open(os.environ["FAKE_NOTES"], "a") as file:
    file.write(json.dumps({{"pid": os.getpid(), "argv": sys.argv[1:]}}) + "\\n")
lines = open(os.environ["FAKE_SCREEN"]).read().split("\\n")
print("\\x1b[2J\\x1b[H" + "\\n".join(line for line in lines if not line.startswith("#")), flush=True)
if "FAKE_EXIT" in os.environ:
    sys.exit(int(os.environ["FAKE_EXIT"]))
while True:
    signal.pause()
"""


class Place:
    """A stage whose PATH has a `codex` of ours, and a master on it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.bin = stage.base / "bin"
        self.bin.mkdir()
        self.notes = stage.base / "notes"
        self.program(CLI)
        self.boss = stage.begun({**stage.env, "PATH": f"{self.bin}{os.pathsep}{stage.env['PATH']}"})

    def program(self, text: str) -> None:
        file = self.bin / "codex"
        file.write_text(text)
        file.chmod(0o755)

    def create(self, screen: Path, ready_wait_ms: int = 0, **more: str) -> dict:
        return self.boss.outcome(self.boss.answer(self.creating(screen, ready_wait_ms, **more)))

    def creating(self, screen: Path, ready_wait_ms: int, **more: str) -> int:
        """Ask for the agent without waiting; the call's id."""
        env = {"FAKE_SCREEN": str(screen), "FAKE_NOTES": str(self.notes), **more}
        asked = {"name": "c", "role": "r", "engine": "codex", "env": env, "ready_wait_ms": ready_wait_ms}
        return self.boss.start("agent_create", asked)

    def time_out(self) -> None:
        """Let the time to get ready be over, once the dialog stands: how fast it comes is the machine's matter."""
        until(self.launches)  # from then on there is a pane
        run, panes = self.stage.server.run, self.stage.tagged
        until(lambda: any("Trust this folder?" in run("capture-pane", "-p", "-t", pane) for pane in panes()))
        file = self.stage.root / ".agents" / "config.toml"
        new = file.with_name("config.new")
        new.write_text(file.read_text().replace(LONG, "ready_timeout_s = 4\n"))
        new.replace(file)  # the daemon follows it, and must not meet half a file

    def launches(self) -> list[dict]:
        return lines_of(self.notes)

    def meta(self) -> dict:
        return self.boss.tool("agent_get", {"agent_id": "c"})["meta"]

    def broadcast(self) -> list[dict]:
        (run,) = self.stage.run_files()[-1:]
        return self.boss.tool("broadcast_read", {"run_id": run["run_id"]})["events"]

    def speak(self) -> object:
        """A client with the identity of the agent's current life."""
        launch = json.loads((self.stage.root / ".agents/agents/c/engine/launch.json").read_text())
        return self.stage.begun(launch["env"], "--agent", "--project", str(self.stage.root))

    def border(self) -> str:
        return self.stage.server.run("list-panes", "-a", "-F", "#{@orchestrator_line}")


@pytest.fixture
def place(make_stage):
    def make(config: str = "") -> Place:
        return Place(make_stage(config))

    return make


def test_with_focus_a_blocked_agent_gets_the_large_pane_when_nobody_is_in_the_window(place):
    here = place(
        'layout = "focus"\nmin_pane_width = 60\nmin_pane_height = 12\nsession_width = 120\nsession_height = 40\n'
        + LONG
    )
    boss, server = here.boss, here.stage.server
    made = boss.tool("agents_create", {"agents": [{"name": f"w{n}", "role": "r"} for n in range(5)]})["agents"]
    panes = [row["tmux_pane_id"] for row in made]

    def large() -> list[str]:
        rows = server.run("list-panes", "-t", panes[0], "-F", "#{pane_id} #{pane_height}").split("\n")[1:]
        return [pane for pane, height in (row.split(" ") for row in rows) if int(height) >= 12]

    assert large() == panes[:1]
    server.run("copy-mode", "-t", panes[0])
    here.create(TRUST)
    until(lambda: here.meta()["status"] == "blocked")
    mine = here.meta()["tmux_pane_id"]
    active = server.show(server.show(mine, "#{window_id}"), "#{pane_id}")
    assert large() == panes[:1], "a person reads in copy mode"
    server.run("send-keys", "-X", "-t", panes[0], "cancel")
    until(lambda: large() == [mine])
    assert server.panes(mine)[1:] == [*panes, mine]
    assert server.show(server.show(mine, "#{window_id}"), "#{pane_id}") == active
    assert boss.tool("agent_delete", {"agent_id": "c", "force": True, "confirm": "c"})["ok"]


def test_a_dialog_is_shown_everywhere_and_goes_away_with_the_first_call(place):
    here = place(f"border = true\n{LONG}")
    made = here.create(TRUST)
    assert made["ready"] is False
    until(lambda: here.meta()["status"] == "blocked")
    meta = here.meta()
    assert meta["reason"] == "asks whether this folder is trusted"
    assert (meta["blocked"]["kind"], meta["blocked"]["until"]) == ("trust", None)
    (row,) = here.boss.tool("agent_list", {"scope": "all"})["agents"]
    assert (row["status"], row["reason"]) == ("blocked", meta["reason"])
    shown = here.stage.cli("status").stdout
    assert "◐ trust" in shown and meta["reason"] in shown
    until(lambda: f"trust: {meta['reason']}" in here.border())
    told = until(lambda: [e for e in here.broadcast() if e["type"] == "blocked"])
    assert (told[0]["kind"], told[0]["reason"]) == ("trust", meta["reason"])
    agent = here.speak()
    # The call is held while its effects are looked at: the dialog stands, and some seconds of silence would tell of it.
    call = agent.start("wait_for_command", {"agent_id": "c", "timeout_ms": 45_000})
    until(lambda: here.stage.types("c")[-1] == "unblocked")
    assert here.stage.types("c") == ["starting", "blocked", "ready", "unblocked"]
    assert here.meta()["blocked"] is None
    assert agent.tool("wait_for_command", {"agent_id": "c", "timeout_ms": 0})["status"] == "timeout"
    assert agent.outcome(agent.answer(call))["status"] == "timeout"  # the next call ends it
    here.boss.tool("agent_delete", {"agent_id": "c", "force": True, "confirm": "c"})


def test_a_silent_agents_limit_is_told_with_its_end(place):
    here = place(LONG)
    here.create(LIMIT)
    until(here.launches)
    agent = here.speak()
    agent.tool("wait_for_command", {"agent_id": "c", "timeout_ms": 0})
    until(lambda: here.meta()["status"] == "blocked")
    found = here.meta()["blocked"]
    end = re.search(r"try again at (.+?)\.$", LIMIT.read_text(), re.MULTILINE)[1]
    assert (found["kind"], found["until"]) == ("rate_limit", end)
    told = until(lambda: [e for e in here.broadcast() if e["type"] == "blocked"])
    assert told[0]["until"] == end
    here.boss.tool("agent_delete", {"agent_id": "c", "force": True, "confirm": "c"})


def test_who_waits_for_a_cli_that_does_not_get_ready_is_told_the_cause_and_nothing_is_left(place):
    here = place(LONG)
    call = here.creating(TRUST, ready_wait_ms=110_000)
    here.time_out()
    error = here.boss.outcome(here.boss.answer(call))["error"]
    assert (error["kind"], error["code"], error["agent_id"]) == ("Environment", "not_ready", "c")
    assert error["cause"].startswith("it asks whether its folder is trusted")
    assert "codex 9.9.9 is not a version we have tested" in error["cause"]
    assert any("Trust this folder?" in line for line in error["last_lines"])
    assert all(line.strip() for line in error["last_lines"]) and len(error["last_lines"]) <= 12
    (launch,) = here.launches()
    until(lambda: not alive(launch["pid"]))
    until(lambda: "deleted" in here.stage.types("c"))
    types = [kind for kind in here.stage.types("c") if kind != "blocked"]  # told, if there was time for two looks
    assert types == ["starting", "failed", "stopped", "deleted"]


def test_who_does_not_wait_learns_it_from_the_broadcast_and_the_agent_stays_until_deleted(place):
    here = place(LONG)
    pane = here.create(TRUST)["tmux_pane_id"]
    here.time_out()
    told = until(lambda: [e for e in here.broadcast() if e["type"] == "failed"])
    assert told[0]["reason"].startswith("it asks whether") and "not ready within 4 s" in told[0]["reason"]
    (launch,) = here.launches()
    until(lambda: not alive(launch["pid"]))
    until(lambda: pane not in here.stage.tagged())
    assert here.meta()["status"] == "failed"
    assert here.boss.tool("task_enqueue", {"agent_id": "c", "task": {}})["error"]["code"] == "agent_ended"
    assert here.boss.tool("agent_delete", {"agent_id": "c"})["status"] == "deleted"


@pytest.mark.parametrize(
    ("program", "more", "cause"),
    [
        (CLI, {"FAKE_EXIT": "1"}, "it asks whether its folder is trusted"),
        ("#!/no/such/interpreter\n", {}, "its program was not found"),
    ],
)
def test_a_cli_that_ends_before_it_is_ready_is_not_launched_again(place, program, more, cause):
    here = place()
    here.program(program)
    error = here.create(TRUST, ready_wait_ms=110_000, **more)["error"]
    assert error["code"] == "launch_failed"
    assert cause in error["message"]
    assert error["last_lines"]
    until(lambda: "deleted" in here.stage.types("c"))
    types = [kind for kind in here.stage.types("c") if kind != "blocked"]  # if it ends slowly
    assert types == ["starting", "exited", "failed", "stopped", "deleted"]


def test_a_next_life_goes_on_with_the_session_and_without_it_when_that_does_not_work(place):
    here = place(f"{LONG}max_restarts = 1\n")
    here.create(TRUST)
    until(here.launches)
    agent = here.speak()
    agent.tool("wait_for_command", {"agent_id": "c", "timeout_ms": 0}, threadId="thread-7")
    assert here.meta()["session"] == "thread-7"
    (ready,) = [record for record in here.stage.records("c") if record["type"] == "ready"]
    assert ready["session"] == "thread-7"

    os.kill(here.launches()[-1]["pid"], signal.SIGKILL)
    second = until(lambda: here.launches()[1:])[0]
    assert second["argv"][0] == "resume" and "thread-7" in second["argv"]

    os.kill(second["pid"], signal.SIGKILL)
    third = until(lambda: here.launches()[2:])[0]
    assert "resume" not in third["argv"] and "thread-7" not in third["argv"]
    restarted = [record for record in here.stage.records("c") if record["type"] == "restarted"]
    assert [record.get("resume") for record in restarted] == ["thread-7", None]

    os.kill(third["pid"], signal.SIGKILL)
    until(lambda: here.stage.types("c")[-1] == "failed")
    here.boss.tool("agent_delete", {"agent_id": "c"})
