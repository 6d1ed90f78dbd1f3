"""Runs one task's shell command: starts it in its own session, streams its output, stops it, ends it with the worker.

Touches processes, the task's artifact file, the pane (our own stdout) and the agent's ``engine/worker.json``.
Knows nothing of MCP. The standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.base.platform import child_ends
from orchestrator.base.platform.process_facts import boot_id, stat_of
from orchestrator.trust.seals import Seal
from orchestrator.worker.pane_keys import Presses
from orchestrator.worker.pane_output import CONTROL, PaneOutput
from orchestrator.worker.task_file import VARIABLE

CHUNK = 65_536
TAIL_BYTES = 8_192
MAX_LINES = 20
MAX_LINE_BYTES = 4_096
DRAIN_S = 5.0

# When the worker dies, the command and all its children must end. PR_SET_PDEATHSIG reaches only the shell and needs
# code between fork and exec. So this process reads a pipe from the worker and, at its end, kills the group named
# last. Then it removes the worker's task files, whose paths begin with its argument.
GUARD = (
    'group=; while read -r next; do group=$next; done; [ -z "$group" ] || kill -s KILL -- "-$group"; '
    '[ -z "$1" ] || rm -f -- "$1"*'
)
# The command waits for one line, written after its group is recorded: if the worker is killed in
# between, the shell reads end of file and exits. stdin is the gate because dash redirects only descriptors 0 to 9.
GATE = 'read -r go || exit 125; exec /bin/sh -c "$1" </dev/null'
GATE_OF_SCRIPT = 'read -r go || exit 125; exec /bin/sh "$1" </dev/null'

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_KEYS = ("command", "cwd", "timeout_s", "env", "input", "private")


class BadPayload(Exception):
    """The shell engine cannot run a task's payload; ``code`` goes into the ``error`` event."""

    def __init__(self, message: str, code: str = "bad_payload") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class ShellJob:
    """A checked payload: ``cwd`` exists inside the project, ``timeout_s`` None means no limit.

    ``private``: the command runs from a file, so no command line shows it. ``needs_file``: the task cannot run
    without its task file.
    """

    command: str
    cwd: Path
    timeout_s: float | None
    env: Mapping[str, str]
    private: bool = False
    needs_file: bool = False


def read_payload(payload: Any, agent_cwd: Path, project: Path) -> ShellJob:
    """The job of a payload, an object with ``command`` and any of the other keys; ``BadPayload`` names a wrong key.

    ``input`` may be any JSON: the command reads it from the task file.
    """
    if not isinstance(payload, dict):
        raise BadPayload('the payload must be an object such as {"command": "make test"}')
    unknown = sorted(str(key) for key in payload if key not in _KEYS)
    if unknown:
        raise BadPayload(f"unknown key {unknown[0]!r} in the payload; known keys: {', '.join(_KEYS)}")
    command, timeout_s, env = payload.get("command"), payload.get("timeout_s"), payload.get("env", {})
    private = payload.get("private", False)
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise BadPayload("'command' must be a non-empty string for /bin/sh, without NUL")
    if not isinstance(private, bool):
        raise BadPayload("'private' must be true or false")
    if timeout_s is not None and not (_is_number(timeout_s) and timeout_s > 0):
        raise BadPayload("'timeout_s' must be a number of seconds above 0")
    if not isinstance(env, dict) or not all(_is_variable(name, value) for name, value in env.items()):
        raise BadPayload("'env' must be an object of strings; a name must not be empty or contain '='")
    if VARIABLE in env:
        raise BadPayload(f"'env' must not set {VARIABLE}: the worker sets it to the path of the task file")
    cwd = _directory(payload.get("cwd", "."), agent_cwd, project)
    return ShellJob(command, cwd, timeout_s, env, private, private or "input" in payload)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_variable(name: Any, value: Any) -> bool:
    if not (isinstance(name, str) and isinstance(value, str)):
        return False
    return bool(name) and "=" not in name and "\0" not in name + value


def _directory(cwd: Any, agent_cwd: Path, project: Path) -> Path:
    if not isinstance(cwd, str) or not cwd or "\0" in cwd:
        raise BadPayload("'cwd' must be a directory, relative to the agent's working directory")
    directory = (agent_cwd / cwd).resolve()
    if not directory.is_relative_to(project.resolve()):
        raise BadPayload(f"'cwd' must be inside the project: {cwd!r}", "path_escape")
    if not directory.is_dir():
        raise BadPayload(f"'cwd' is not a directory: {cwd!r}")
    return directory


def without_escapes(line: bytes) -> str:
    """One line of raw output as a terminal would leave it: without escapes, and only what was drawn last."""
    return _shown(_ESCAPE.sub("", line.decode("utf-8", "replace")).removesuffix("\n"))


def _shown(line: str) -> str:
    return CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()


def plain_lines(tail: bytes) -> list[str]:
    """The last lines of raw output as text for JSON: at most 20 lines and 4 KB, without escapes and redraws."""
    text = _ESCAPE.sub("", tail.decode("utf-8", "replace"))
    lines = [_shown(line) for line in text.split("\n")]
    kept: list[str] = []
    room = MAX_LINE_BYTES
    for line in reversed([line for line in lines if line][-MAX_LINES:]):
        short = line.encode()[-room:].decode("utf-8", "ignore")
        room -= len(short.encode())
        kept.append(short)
        if room <= 0:
            break
    return kept[::-1]


class Guard:
    """Ends the command's process group with the worker: by a guard process and a record in ``engine/worker.json``.

    The guard process also removes the files whose paths begin with ``files`` (empty: none).
    """

    def __init__(self, record: Path, files: str = "", seal: Seal | None = None) -> None:
        """``seal`` signs the record. A record without a valid seal is ignored."""
        self._record, self._files, self._seal = record, files, seal
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the guard process before the command; raises OSError if it cannot be started."""
        self._name_group("\n")

    def watch(self, pid: int) -> None:
        """From now on the group dies with the worker, even if that is killed with SIGKILL."""
        with contextlib.suppress(OSError):
            self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._record.touch(mode=0o600)
            record = {"pid": pid, "started": _started(pid), "boot": boot_id()}
            self._record.write_text(json.dumps(record if self._seal is None else self._seal.sealed(record)))
        self._name_group(f"{pid}\n")

    def rest(self) -> None:
        """Stop guarding: the group has ended."""
        self._name_group("\n")
        with contextlib.suppress(OSError):
            self._record.unlink()

    def end_previous(self) -> int | None:
        """Kill the group that an earlier launch of this worker left running; returns its id, or None."""
        try:
            left = json.loads(self._record.read_text())
            if self._seal is None or not self._seal.holds(left):
                return None
            pid, started, boot = int(left["pid"]), left["started"], left["boot"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self._record.unlink(missing_ok=True)
        # A leader with another start time is another process with a reused pid. Without a leader, the pid
        # cannot have been reused while members of its session live.
        if pid <= 1 or boot != boot_id() or _started(pid) not in {started, None}:
            return None
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            return None
        return pid

    def _name_group(self, line: str) -> None:
        for _ in range(2):
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", GUARD, "sh", self._files],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,  # the pane's SIGHUP must not reach it
                )
            to_guard = self._process.stdin
            assert to_guard is not None
            try:
                to_guard.write(line.encode())
                to_guard.flush()
            except BrokenPipeError:  # the guard was killed: repeat with a new one
                with contextlib.suppress(OSError):
                    to_guard.close()
                self._process.wait()
                self._process = None
            else:
                return


class Running:
    """A running command. ``output_bytes`` so far; ``tail``: the last 8 KB; ``artifact_error``: text or None."""

    def __init__(
        self,
        job: ShellJob,
        env: Mapping[str, str],
        log: Path,
        pane: PaneOutput,
        guard: Guard,
        *,
        script: Path | None = None,
    ) -> None:
        """Start the command; raises OSError if that fails (command too long, directory not accessible, no memory).

        ``script``: the file that holds the job's command; None gives the command to the shell on its command line.
        """
        self.output_bytes = 0
        self.tail = b""
        self.artifact_error: str | None = None
        self.began = time.monotonic()
        self._pane, self._guard = pane, guard
        self._hurry = False
        self._log = self._open(log)
        self._process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                *([GATE, "sh", job.command] if script is None else [GATE_OF_SCRIPT, "sh", str(script)]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=job.cwd,
            env=dict(env),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        guard.watch(self.pid)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()
        self._out = self._process.stdout.fileno()
        self._wake, self._waker = os.pipe()
        self._pump_thread = threading.Thread(target=self._pump, name="pump", daemon=True)
        self._pump_thread.start()

    def kill(self, number: int) -> None:
        """Send a signal to the whole group; does nothing if it has ended."""
        if self._process.returncode is None:  # once reaped, the pid may be another process's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def wait(self) -> int:
        """The exit code, or the negative signal number; ends the command's background processes too."""
        await asyncio.to_thread(child_ends.wait_for, self.pid)
        # Not reaped yet, so the group id cannot have been reused.
        self.kill(signal.SIGKILL)
        await asyncio.to_thread(self._drain)
        code = self._process.wait()
        self._guard.rest()
        return code

    def over(self) -> bool:
        """Whether the command has ended, even if its output has not been read to the end."""
        return child_ends.is_over(self.pid)

    async def stop(self, exited: asyncio.Future[int], ladder: Sequence[tuple[int, float]], presses: Presses) -> int:
        """Signal the group step by step, each with its grace in seconds, until it has ended.

        Each press ends the grace of the current step; a hard one skips all steps but SIGKILL.
        """
        for number, grace in ladder:
            if presses.hard:
                break
            self.kill(number)
            pressed = asyncio.create_task(presses.next())
            awaited: list[asyncio.Future[Any]] = [exited, pressed]
            await asyncio.wait(awaited, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            pressed.cancel()
            if exited.done():
                break
        self.kill(signal.SIGKILL)
        return await exited

    def _open(self, log: Path) -> int | None:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self.artifact_error = str(error)
            return None

    def _pump(self) -> None:
        while True:
            ready, _, _ = select.select([self._out, self._wake], [], [])
            if self._out not in ready:
                break
            chunk = os.read(self._out, CHUNK)
            if not chunk:
                break
            self._keep(chunk)
            self.tail = (self.tail + chunk)[-TAIL_BYTES:]
            self.output_bytes += len(chunk)
            while not self._hurry and not self._pane.put(chunk, timeout=0.2):
                pass

    def _keep(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            while view and self._log is not None:
                view = view[os.write(self._log, view) :]
        except OSError as error:  # for example a full disk: the command continues, and the outcome holds the error
            self.artifact_error = str(error)
            self._close_log()

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _drain(self) -> None:
        """Read to the end, for a limited time: the pane may be stopped, and a process may have left the group."""
        self._pump_thread.join(DRAIN_S)
        self._hurry = True
        self._pump_thread.join(1.0)
        os.write(self._waker, b".")
        self._pump_thread.join()
        self._close_log()
        os.close(self._wake)
        os.close(self._waker)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _started(pid: int) -> int | None:
    """When it was started (`ProcessStat.start`), also of a zombie; None if there is no such process."""
    stat = stat_of(pid)
    return None if stat is None else stat.start
