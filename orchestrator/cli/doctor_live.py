"""Test each installed CLI as an agent of a temporary project: ``orchestrator doctor --live``.

The agent must return a word in the result of its first task. Then it is left idle until it parks, woken by a second
task, and that task is canceled. Touches a temporary project, its run directory and a private tmux server, and ends
everything it started, also after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.cli.demo_project import DemoProject, end
from orchestrator.cli.doctor_finding import DoctorFinding
from orchestrator.edge import project_location
from orchestrator.faces.daemon_client import DaemonClient

if TYPE_CHECKING:
    from orchestrator.engines.definition import Engine

READY_S = 120.0  # some CLIs install parts of themselves at their first start
TASK_S = 120.0  # a model may think long about a first task
PARK_S = 45.0
PAGE_MS = 10_000
LINES = 12
# A short wait, so that agents park soon; no restarts.
CONFIG = """\
# written by orchestrator doctor --live
tmux_socket = "{socket}"
wait_cap_ms = 3000
park_after = 1
restart = "never"
ready_timeout_s = {ready}
"""


class _CheckFailed(Exception):
    """The expected event that did not happen, in one sentence."""


@dataclass
class Trial:
    """What one engine showed. Times are seconds; None: not reached."""

    row: Engine
    ready_s: float | None = None
    round_trip_s: float | None = None
    parked: bool = False
    wake_s: float | None = None
    canceled: bool = False
    failure: str = ""
    next_step: str = ""
    last_lines: list[str] = field(default_factory=list)

    def finding(self) -> DoctorFinding:
        """The trial as one line and its figures."""
        done = []
        if self.ready_s is not None:
            done.append(f"ready after {self.ready_s:.1f} s")
        if self.round_trip_s is not None:
            done.append(f"answered after {self.round_trip_s:.1f} s")
        if self.parked and self.wake_s is not None:
            done.append(f"parked, and woken within {self.wake_s:.1f} s")
        elif self.wake_s is not None:
            polls = "it does not park" if self.row.parks == "no" else "it did not park"
            done.append(f"{polls}, next task within {self.wake_s:.1f} s")
        if self.canceled:
            done.append("canceled on request")
        done.append(f"a tool call may last {self.row.tool_limit_s:.0f} s")
        figures = {
            "ready_s": self.ready_s,
            "round_trip_s": self.round_trip_s,
            "parked": self.parked,
            "wake_s": self.wake_s,
            "canceled": self.canceled,
            "tool_limit_s": self.row.tool_limit_s,
            "last_lines": self.last_lines,
        }
        level = "bad" if self.failure else "note" if self.row.parks != "no" and not self.parked else "ok"
        message = "; ".join([self.failure, *done] if self.failure else done)
        return DoctorFinding(f"live {self.row.name}", level, message, self.next_step, figures=figures)


def chosen(names: list[str]) -> list[Engine]:
    """The engines to test: those named, else all installed ones. BadRequest for an unknown name."""
    from orchestrator.engines.table import ENGINES, engine  # noqa: PLC0415

    rows = [engine(name) for name in names] or [
        row for row in ENGINES.values() if row.name == "shell" or (row.program and shutil.which(row.program))
    ]
    for row in rows:
        if row.name == "command":
            raise BadRequest("bad_argument", "doctor cannot test engine command: it has no command line of its own")
    return rows


def live(names: list[str], say: Callable[[str], None]) -> list[DoctorFinding]:
    """Test the engines one after another; one finding each. KeyboardInterrupt is raised after cleaning up."""
    rows = chosen(names)
    turns = [row.name for row in rows if row.program]
    if turns:
        say(f"this costs a few model turns of: {', '.join(turns)}")
    # Ctrl-C is what cleans up, so it must work also where the shell that started us ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    home = Path(tempfile.mkdtemp(prefix="orchestrator-live-")).resolve()
    place = DemoProject(home, f"orchestrator-live-{os.getpid()}")
    findings = []
    try:
        (place.project / ".agents").mkdir(parents=True)
        config = CONFIG.format(socket=place.tmux_socket, ready=READY_S)
        (place.project / ".agents" / "config.toml").write_text(config, "utf-8")
        for row in rows:
            say(f"testing {row.name}")
            findings.append(_try(row, place).finding())
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # cleaning up is bounded; let it finish
        with _environment_of(place):
            pids = end(place)
        shutil.rmtree(home, ignore_errors=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pids:
        step = f"inspect them: ps -p {','.join(pids)}"
        findings.append(DoctorFinding("live", "bad", f"{len(pids)} processes were still running at the end", step))
    return findings


@contextlib.contextmanager
def _environment_of(place: DemoProject) -> Iterator[None]:
    """For a while this process is outside tmux, in the throw-away project, and without settings of its own."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("TMUX") or (name.startswith("ORCHESTRATOR_") and name not in project_location.PLACES):
            del os.environ[name]
    os.environ["ORCHESTRATOR_PROJECT"] = str(place.project)
    os.environ["ORCHESTRATOR_TRUST"] = "true"  # the folder is empty; its own file's word would need to be allowed
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _exported() -> dict[str, str]:
    """What the user's shell exports: a daemon would look at our parent, which need not have it all."""
    return {
        name: value
        for name, value in os.environ.items()
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not name.startswith("ORCHESTRATOR_")
    }


def _try(row: Engine, place: DemoProject) -> Trial:
    trial = Trial(row)
    pane = ""
    try:
        with _environment_of(place), DaemonClient(project_location.named_project(place.project), start=True) as link:
            created = link.tool(
                "agent_create",
                {
                    "name": f"live-{row.name}",
                    "role": "tester",
                    "engine": row.name,
                    "env": _exported(),
                    "ready_wait_ms": 45_000,
                },
                wait_s=45,
            )
            pane = str(created.get("tmux_pane_id") or "")
            try:
                _go_through(link, str(created["agent_id"]), trial)
            finally:
                trial.last_lines = _screen(place, pane)
                link.tool("agent_delete", {"agent_id": created["agent_id"]}, wait_s=30)
    except _CheckFailed as error:
        trial.failure, trial.next_step = str(error), "see the last lines of its pane below"
    except OrchestratorError as error:
        trial.failure, trial.next_step = trial.failure or error.message, error.next_step
        trial.last_lines = list(error.facts.get("last_lines") or trial.last_lines or _screen(place, pane))
    if not trial.failure:
        trial.last_lines = []
    return trial


def _go_through(link: DaemonClient, agent_id: str, trial: Trial) -> None:
    events = _Events(link, agent_id)
    bound = READY_S * trial.row.slow_start + 5  # the daemon's own limit is reached first and gives the cause
    ready = events.until(lambda event: event["type"] in {"ready", "failed"}, bound, "did not get ready")
    if ready["type"] == "failed":
        raise _CheckFailed(f"failed to start: {ready.get('reason') or ready.get('payload') or ''}")
    trial.ready_s = events.at(ready) - events.at(events.first)

    word = secrets.token_hex(4)
    asked_at = time.time()
    first = _enqueue(link, agent_id, _asking(trial.row, word))
    result = events.until(lambda event: _ends(event, first), TASK_S, "did not answer its first task")
    if result["type"] != "result" or word not in json.dumps(result.get("payload")):
        text = json.dumps(result.get("payload"), ensure_ascii=False)[:200]
        raise _CheckFailed(f"ended its first task in {result['type']}, and the word is not in it: {text}")
    trial.round_trip_s = events.at(result) - asked_at

    if trial.row.parks != "no":
        with contextlib.suppress(_CheckFailed):
            events.until(lambda event: event["type"] == "parked", PARK_S, "did not park")
            trial.parked = True
    asked_at = time.time()
    second = _enqueue(link, agent_id, _holding(trial.row))
    delivery = events.until(
        lambda event: event["type"] == "delivered" and event.get("task_id") == second, TASK_S, "was not woken"
    )
    trial.wake_s = events.at(delivery) - asked_at
    events.until(
        lambda event: event.get("task_id") == second and event["type"] in {"ack", "progress", *TERMINAL},
        TASK_S,
        "did not take its second task",
    )
    link.tool("task_cancel", {"agent_id": agent_id, "task_id": second})
    ended = events.until(lambda event: _ends(event, second), TASK_S, "did not end a canceled task")
    payload = ended.get("payload")
    trial.canceled = ended["type"] == "canceled" or (isinstance(payload, dict) and payload.get("canceled") is True)
    if not trial.canceled:
        raise _CheckFailed(f"ended a canceled task in {ended['type']}")


class _Events:
    """An agent's events, each looked at once and in order."""

    def __init__(self, link: DaemonClient, agent_id: str) -> None:
        self._link = link
        self._agent_id = agent_id
        self._since = 0
        self._unread: list[dict[str, Any]] = []
        self.first: dict[str, Any] = {}

    def until(self, wanted: Callable[[dict[str, Any]], bool], bound_s: float, failure: str) -> dict[str, Any]:
        """The next event that is wanted; fails after ``bound_s``, and at once when the agent's CLI has ended."""
        end_at, blocked = time.monotonic() + bound_s, ""
        while True:
            while self._unread:
                event = self._unread.pop(0)
                self.first = self.first or event
                if wanted(event):
                    return event
                if event["type"] in {"exited", "failed"}:
                    raise _CheckFailed(f"{failure}: {event['type']} {event.get('reason') or ''}".rstrip())
                if event["type"] in {"blocked", "unblocked"}:
                    blocked = f"; blocked: {event.get('reason')}" if event["type"] == "blocked" else ""
            if time.monotonic() >= end_at:
                raise _CheckFailed(f"{failure} within {bound_s:.0f} s{blocked}")
            arguments = {"agent_id": self._agent_id, "since_seq": self._since, "wait_ms": PAGE_MS}
            page = self._link.tool("events_read", arguments, wait_s=PAGE_MS / 1000)
            self._since = page["last_seq"]
            self._unread = list(page["events"])

    @staticmethod
    def at(event: dict[str, Any]) -> float:
        """When it happened, in seconds of the clock on the wall."""
        return datetime.fromisoformat(event["at"]).timestamp()


def _ends(event: dict[str, Any], task_id: str) -> bool:
    return event["type"] in TERMINAL and event.get("task_id") == task_id


def _enqueue(link: DaemonClient, agent_id: str, payload: dict[str, Any]) -> str:
    return str(link.tool("task_enqueue", {"agent_id": agent_id, "task": {"payload": payload}})["task_id"])


def _asking(row: Engine, word: str) -> dict[str, Any]:
    """A task whose result holds the word."""
    if row.name == "shell":
        return {"command": f"echo {word}"}
    return {
        "instruction": f'Use no tool but emit_event. Report the result with the payload {{"nonce": "{word}"}}.',
        "nonce": word,
    }


def _holding(row: Engine) -> dict[str, Any]:
    """A task that does not end before it is canceled."""
    if row.name == "shell":
        return {"command": "sleep 600"}
    return {
        "instruction": "Use no tool but emit_event. Ack, then emit progress again and again, at most 30 times. As "
        "soon as an answer says cancel_requested, emit canceled.",
        "hold": "until canceled",
    }


def _screen(place: DemoProject, pane: str) -> list[str]:
    from orchestrator.tmux import panes  # noqa: PLC0415
    from orchestrator.tmux.server_address import TmuxSocket  # noqa: PLC0415

    try:
        lines = panes.capture(TmuxSocket(name=place.tmux_socket), pane, 2 * LINES) if pane else []
    except OrchestratorError:
        return []
    return [line for line in lines if line.strip()][-LINES:]
