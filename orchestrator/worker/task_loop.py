"""The shell worker: an MCP client of its own relay that runs each task's shell command visibly in its pane.

It runs in an agent's pane and takes its identity from the environment. It uses only the tools ``wait_for_command``
and ``emit_event``; `shell_command` runs the commands and `task_file` writes the files.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest
from orchestrator.base.final_states import TERMINAL
from orchestrator.trust.provenance import Provenance
from orchestrator.worker.pane_keys import PaneKeys, Presses
from orchestrator.worker.pane_output import PaneOutput
from orchestrator.worker.relay_client import CallRefused, RelayClient, WorkerEnded
from orchestrator.worker.shell_command import (
    BadPayload,
    Guard,
    Running,
    ShellJob,
    plain_lines,
    read_payload,
)
from orchestrator.worker.task_file import VARIABLE, TaskFiles

WAIT_MS = 45_000
REPORT_EVERY_S = 1.0
KEPT_OUTCOMES = 100
CANCEL_LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))
TIMEOUT_LADDER = ((signal.SIGTERM, 3.0),)
BY_HUMAN = {"canceled_by": "human", "reason": "it was interrupted in its pane"}
SECRETS = ("ORCHESTRATOR_AGENT_SECRET", "ORCHESTRATOR_AGENT_EPOCH")
NOT_PASSED_ON = frozenset({*SECRETS, VARIABLE})


@dataclass(frozen=True)
class WorkerIdentity:
    """The agent this worker serves: ``project`` is a real path, ``cwd`` the directory it was started in."""

    agent_id: str
    project: Path
    cwd: Path


class Worker:
    """The loop of one agent: pull a command, run it, report exactly one outcome, pull again."""

    def __init__(
        self,
        identity: WorkerIdentity,
        link: RelayClient,
        pane: PaneOutput,
        guard: Guard,
        files: TaskFiles,
        *,
        keys: PaneKeys,
    ) -> None:
        self._me, self._link, self._pane, self._guard, self._files = identity, link, pane, guard, files
        self._keys = keys
        self._outcomes: dict[tuple[str, int], tuple[str, dict[str, Any]]] = {}
        self._running: Running | None = None

    def kill_running(self) -> None:
        """Kill the running command, if there is one."""
        if self._running is not None:
            self._running.kill(signal.SIGKILL)

    async def serve(self) -> int:
        """Work until the ``stop`` command; raises ``WorkerEnded`` if the daemon ends this worker."""
        cursor: dict[str, Any] = {}
        await self._link.opened()
        self._idle()
        while True:
            arguments = {"agent_id": self._me.agent_id, "timeout_ms": WAIT_MS, **cursor}
            answer = await self._link.call("wait_for_command", arguments)
            cursor = {"cursor": answer["cursor"]} if isinstance(answer.get("cursor"), str) else {}
            if answer.get("status") != "command":
                continue
            command = answer["command"]
            if command["kind"] == "stop":
                failpoints.passed("worker:stop")
                self._pane.say(f"{self._me.agent_id}: stopped by the master")
                return 0
            try:
                await self._obey(command)
            except CallRefused as refused:
                self._pane.say(f"orchestrator: {refused}", "33")
            self._idle()

    def _idle(self) -> None:
        self._pane.now(f"{self._me.agent_id}: idle", "idle")

    async def _obey(self, command: dict[str, Any]) -> None:
        kind, task_id, attempt = command["kind"], str(command.get("task_id")), int(command.get("attempt", 1))
        if kind == "cancel":
            known = [outcome for (task, _), outcome in self._outcomes.items() if task == task_id]
            kind, payload = known[-1] if known else ("canceled", {"reason": "it was not running in this worker"})
            await self._emit(kind, task_id, payload)
            return
        if kind != "task":
            raise WorkerEnded(f"the daemon sent a command of an unknown kind, {kind!r}; restart the agent", 3)
        key = (task_id, attempt)
        if key not in self._outcomes:
            presses = self._keys.begin(task_id)
            try:
                failpoints.passed("worker:ack:before")
                ack = await self._emit("ack", task_id)
                failpoints.passed("worker:ack:after")
                self._outcomes[key] = await self._outcome(command, task_id, attempt, ack, presses)
            finally:
                self._keys.end()
            while len(self._outcomes) > KEPT_OUTCOMES:
                del self._outcomes[next(iter(self._outcomes))]
        kind, payload = self._outcomes[key]
        failpoints.passed("worker:end:before")
        await self._emit(kind, task_id, payload)
        failpoints.passed("worker:end:after")

    async def _outcome(
        self, command: Mapping[str, Any], task_id: str, attempt: int, ack: Mapping[str, Any], presses: Presses
    ) -> tuple[str, dict[str, Any]]:
        try:
            job = read_payload(command.get("payload"), self._me.cwd, self._me.project)
        except BadPayload as bad:
            self._pane.say(f"── {task_id}: {bad}", "31")
            return "error", {"code": bad.code, "message": str(bad)}
        again = f" (attempt {attempt})" if attempt > 1 else ""
        self._pane.now(f"{self._me.agent_id}: {job.command}")
        self._pane.say(f"── {task_id}{again} " + "─" * 20, "1;36")
        self._pane.say(f"$ {job.command}", "1")
        if ack.get("cancel_requested"):
            return "canceled", {"reason": "canceled before it started"}
        if presses.any:
            return "canceled", BY_HUMAN | {"reason": "it was interrupted in its pane before it started"}
        log = self._artifacts(command) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', task_id)}-a{attempt}.log"
        try:
            try:
                self._running = self._start(job, command.get("payload"), log)
                failpoints.passed("worker:started")
            except (OSError, ValueError) as error:
                self._pane.say(f"── {task_id}: cannot start: {error}", "31")
                return "error", {"code": "start_failed", "message": f"the command could not be started: {error}"}
            kind, payload = await self._attend(self._running, job, task_id, presses)
        finally:
            self.kill_running()
            self._files.remove()
        payload["artifact"] = str(log.relative_to(self._me.project))
        if self._running.artifact_error is not None:
            payload["artifact_error"] = self._running.artifact_error
        self._running = None
        outcome = f"── {task_id}: {kind}, {_exit_text(payload)}, {payload['duration_s']} s"
        self._pane.say(outcome, "32" if kind == "result" else "33" if kind == "canceled" else "31")
        return kind, payload

    def _start(self, job: ShellJob, payload: Any, log: Path) -> Running:
        """Start the command with its task file; OSError or ValueError when it cannot be started."""
        env = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON} | dict(job.env)
        script = None
        self._guard.begin()
        try:
            written = self._files.write(payload, job.command if job.private else None)
            env[VARIABLE], script = str(written.payload), written.script
        except OSError as error:  # for example a full disk: most commands do not read the file
            if job.needs_file:
                raise
            self._pane.say(f"orchestrator: {VARIABLE} is not set: {error}", "33")
        return Running(job, env, log, self._pane, self._guard, script=script)

    async def _attend(
        self, running: Running, job: ShellJob, task_id: str, presses: Presses
    ) -> tuple[str, dict[str, Any]]:
        exited = asyncio.ensure_future(running.wait())
        canceled = asyncio.create_task(self._report(running, task_id))
        pressed = asyncio.create_task(presses.next())
        watched = {exited, canceled, pressed}
        ended, _ = await asyncio.wait(watched, timeout=job.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        why: dict[str, Any] = {}
        kind = ""
        if canceled in ended and not exited.done():
            canceled.result()  # raises WorkerEnded, if the report ended with it
        if exited.done() or (pressed in ended and running.over()):
            code = await exited  # a command that has ended before it was interrupted keeps its outcome
        elif pressed in ended:
            failpoints.passed("worker:interrupted")
            kind, why = "canceled", dict(BY_HUMAN)
            code = await running.stop(exited, CANCEL_LADDER, presses)
        elif canceled in ended:
            kind, code = "canceled", await running.stop(exited, CANCEL_LADDER, presses)
        else:
            kind, code = "error", await running.stop(exited, TIMEOUT_LADDER, presses)
            why = {"code": "timed_out", "message": f"the command ran longer than {job.timeout_s} s"}
        for task in (canceled, pressed):
            task.cancel()
        await asyncio.gather(canceled, pressed, return_exceptions=True)
        if not kind and code == 0:
            kind = "result"
        elif not kind and code > 0:
            kind, why = "error", {"code": "exit_status", "message": f"the command ended with exit code {code}"}
        elif not kind:
            kind, why = "error", {"code": "signal", "message": f"{_signal_name(code)} ended the command"}
        payload = {
            **why,
            "exit_code": code if code >= 0 else None,
            **({"signal": _signal_name(code)} if code < 0 else {}),
            "duration_s": round(time.monotonic() - running.began, 3),
            "last_lines": plain_lines(running.tail),
            "output_bytes": running.output_bytes,
        }
        return kind, payload

    async def _report(self, running: Running, task_id: str) -> None:
        """Report progress or a heartbeat once a second; returns when the master has canceled the task."""
        seen = 0
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            now = running.output_bytes
            try:
                if now > seen:
                    last = plain_lines(running.tail)[-1:]
                    news = {"bytes": now, "last_line": last[0][-200:] if last else ""}
                    answer = await self._emit("progress", task_id, news)
                else:
                    answer = await self._emit("heartbeat", task_id)
            except CallRefused:
                continue
            seen = now
            if answer.get("cancel_requested"):
                return

    async def _emit(self, kind: str, task_id: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        arguments: dict[str, Any] = {"agent_id": self._me.agent_id, "task_id": task_id, "type": kind}
        if payload is not None:
            arguments["payload"] = payload
        if kind in TERMINAL:
            arguments["done"] = True
        return await self._link.call("emit_event", arguments)

    def _artifacts(self, command: Mapping[str, Any]) -> Path:
        own = f".agents/agents/{self._me.agent_id}/artifacts"
        directory = (self._me.project / str(command.get("artifacts") or own)).resolve()
        return directory if directory.is_relative_to(self._me.project) else self._me.project / own


def main(server: Sequence[str] | None = None) -> int:
    """Work as the agent that the environment names; the exit code.

    0 after ``stop`` or the agent's end, 3 when replaced or not accepted, 6 when the agent's log is corrupt,
    128+n on signal n. ``server`` is a command that replaces our relay. Raises BadRequest ``not_an_agent`` outside an
    agent's environment.
    """
    agent_id, project = os.environ.get("ORCHESTRATOR_AGENT_ID"), os.environ.get("ORCHESTRATOR_PROJECT")
    if not agent_id or not project or not os.environ.get("ORCHESTRATOR_AGENT_SECRET"):
        raise BadRequest(
            "not_an_agent",
            "orchestrator worker runs only inside an agent's pane",
            "orchestrator agent create NAME --role ROLE --engine shell",
        )
    identity = WorkerIdentity(agent_id, Path(project).resolve(), Path.cwd())
    relay = [sys.executable, "-P", "-m", "orchestrator", "mcp", "--agent", "--project", project]
    pane = PaneOutput()
    keys = PaneKeys(agent_id, pane)
    pane.say(f"orchestrator: agent {agent_id}")
    pane.now(f"{agent_id}: starting", "starting")
    engine = identity.project / ".agents" / "agents" / agent_id / "engine"
    files = TaskFiles(engine)
    seal = Provenance(identity.project / ".agents").seal("agent", agent_id, "worker")
    guard = Guard(engine / "worker.json", files.prefix, seal)
    if (left := guard.end_previous()) is not None:
        pane.say(f"orchestrator: ended process group {left} of an earlier launch", "33")
    files.remove_previous()
    link = RelayClient(server or relay, pane.say)
    worker = Worker(identity, link, pane, guard, files, keys=keys)

    def end(number: int, _frame: FrameType | None) -> None:
        worker.kill_running()
        files.remove()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    code = asyncio.run(_work(worker, link, pane, keys))
    pane.close()
    return code


async def _work(worker: Worker, link: RelayClient, pane: PaneOutput, keys: PaneKeys) -> int:
    keys.listen(asyncio.get_running_loop())
    connection = asyncio.create_task(link.keep())
    try:
        return await worker.serve()
    except WorkerEnded as end:
        pane.say(f"orchestrator: {end}", "33")
        return end.code
    except CallRefused as refused:  # even the question for commands
        pane.say(f"orchestrator: {refused}", "33")
        return 3
    finally:
        connection.cancel()
        await asyncio.gather(connection, return_exceptions=True)


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _exit_text(payload: Mapping[str, Any]) -> str:
    if payload["exit_code"] is not None:
        return f"exit {payload['exit_code']}"
    return str(payload["signal"])
