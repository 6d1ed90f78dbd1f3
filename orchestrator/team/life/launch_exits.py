"""How a launch of a CLI ended, and the process of each launch, so that it is recognized without its pane.

A process is identified by pid, start time and boot together: pids are reused, and start times restart with each boot.
Reads and writes `engine/process.json`; the decisions are pure.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import NamedTuple

import orjson

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.platform import process_facts, processes
from orchestrator.core.record_types import EXITS
from orchestrator.journal.project_files import Paths, read_json, replace


class LaunchEnd(NamedTuple):
    """The end of a launch, as in the `exited` record. ``how`` is a key of `record_types.EXITS`."""

    how: str
    reason: str
    code: int | None = None
    signal: int | None = None


class RecordedLaunch(NamedTuple):
    """The process that was an agent's CLI in one epoch."""

    pid: int
    start: int
    boot_id: str
    epoch: int

    def alive(self) -> bool:
        """Whether this same process still runs."""
        return self.boot_id == process_facts.boot_id() and process_facts.alive(self.pid, self.start)

    def reused(self) -> bool:
        """Whether its pid now belongs to another process."""
        now = process_facts.start_time(self.pid)
        return now is not None and (now != self.start or self.boot_id != process_facts.boot_id())


def record(paths: Paths, agent_id: str, pid: int, epoch: int) -> None:
    """Record the process of this epoch; does nothing if it has ended or is already recorded."""
    start = process_facts.start_time(pid)
    if start is None:
        return
    now = RecordedLaunch(pid, start, process_facts.boot_id(), epoch)
    if recorded(paths, agent_id) != now:
        content = paths.provenance.sealed(now._asdict(), "agent", agent_id, "process")
        replace(paths.process(agent_id), orjson.dumps(content), mode=0o600)


def recorded(paths: Paths, agent_id: str) -> RecordedLaunch | None:
    """The process recorded last; None if there is none or the file cannot be trusted."""
    try:
        content = read_json(paths.process(agent_id))
    except OrchestratorError:
        return None
    if not paths.provenance.owns(content, "agent", agent_id, "process"):
        return None  # a file not written here names no process of ours
    numbers = [content.get(name) for name in ("pid", "start", "epoch")]
    if not all(type(number) is int and number > 0 for number in numbers):
        return None
    pid, start, epoch = numbers
    return RecordedLaunch(pid, start, str(content.get("boot_id", "")), epoch)


def foreign(paths: Paths, agent_id: str, epoch: int, pane_pid: int) -> LaunchEnd | None:
    """How the launch ended, if its pane now runs another program; None if it does not."""
    launch = recorded(paths, agent_id)
    if launch is None or launch.epoch != epoch or (launch.pid == pane_pid and not launch.reused()):
        return None
    if launch.alive():
        return LaunchEnd("pane_closed", "its pane was given to another program")
    return LaunchEnd("vanished", "its program ended, and its pane runs another program now")


def of_status(code: int | None, signal: int | None) -> LaunchEnd:
    """The end of a program, from the exit status that its pane shows."""
    if signal is not None:
        return LaunchEnd("signal", f"its program was ended by {processes.signal_name(signal)}", None, signal)
    if code is not None:
        return LaunchEnd("exit", f"its program exited with {code}", code, None)
    return LaunchEnd("exit", "its program ended")


def without_pane(epoch: int, *, server: bool, launch: RecordedLaunch | None, status: int | None) -> LaunchEnd:
    """The end of a launch whose pane is gone.

    ``server``: its tmux server still lives. ``status``: the wait status of its process, if known.
    """
    code = signal = None
    if status is not None:
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    mine = launch if launch is not None and launch.epoch == epoch else None
    if not server:
        return LaunchEnd("tmux_gone", "the tmux server is gone", code, signal)
    if mine is not None and mine.alive():
        return LaunchEnd("pane_closed", "its pane was closed; its program still ran")
    if signal is not None and processes.signal_name(signal) != "SIGHUP":
        name = processes.signal_name(signal)
        return LaunchEnd("vanished", f"its program was ended by {name} and its pane went with it", None, signal)
    if mine is not None and code is signal is None and mine.reused():
        return LaunchEnd("pid_reused", f"{EXITS['pid_reused']} ({mine.pid})")
    # A pane outlives its program (remain-on-exit), so a missing pane was closed by someone; a program that gets
    # SIGHUP may still exit with its own code.
    exit_text = f"; its program exited with {code}" if code is not None else ""
    return LaunchEnd("pane_closed", f"its pane was closed{exit_text}", code, signal)


def seconds_since(at: str, now: datetime) -> float:
    """Seconds since ``at`` (RFC 3339); 0 for the future and for invalid text."""
    try:
        return max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
