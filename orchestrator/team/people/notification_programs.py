"""The programs that bring a notification to a person outside tmux: the desktop's own, and the user's command.

Each gets a bounded time and a small environment, without the keys of the daemon's own. Of each kind at most one runs;
what comes meanwhile is sent together after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.platform.basic_facts import MACOS
from orchestrator.base.secret_masks import one_line
from orchestrator.base.waiting import call_off
from orchestrator.core.notices import Notice

LIMIT_S = 10.0
WAITING_MAX = 200
"""How many notices wait for a program that is busy; older ones are dropped."""
_KEPT = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}  # fmt: skip
_SCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


class ProgramFailed(Exception):
    """Why a program brought no notification: one sentence for the daemon's log."""


class ProgramCall(NamedTuple):
    """One start of a program: its words, no shell between, and what it reads."""

    argv: Sequence[str]
    stdin: bytes = b""


class NotificationProgram:
    """One kind of program.

    ``call`` makes the call for notices that are announced together, or None to start nothing. ``report`` is called
    with the reason of each failure, and with "" when it works.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Notice]], ProgramCall | None],
        report: Callable[[str], None],
        limit_s: float = LIMIT_S,
    ) -> None:
        self._call = call
        self._report = report
        self._limit_s = limit_s
        self._waiting: list[Notice] = []
        self._running = False
        self._tasks = BackgroundTasks()

    def send(self, notices: Sequence[Notice]) -> None:
        """Announce these as soon as the program is free; returns at once."""
        self._waiting = [*self._waiting, *notices][-WAITING_MAX:]
        if not self._running:
            self._running = True
            self._tasks.start(self._run())

    async def close(self) -> None:
        """End what runs."""
        await call_off(self._tasks)

    async def _run(self) -> None:
        try:
            while self._waiting:
                notices, self._waiting = self._waiting, []
                try:
                    call = self._call(notices)
                    if call is not None:
                        await run(call, self._limit_s)
                        self._report("")
                except ProgramFailed as failure:
                    self._report(str(failure))
        finally:
            self._running = False


async def run(call: ProgramCall, limit_s: float) -> None:
    """Run the program to its end; after ``limit_s`` seconds its process group is killed.

    Its output is read by nobody. Raises ``ProgramFailed`` if it cannot be started, fails or is too slow.
    """
    with tempfile.TemporaryFile() as stdin:  # not a pipe: a program that reads nothing holds nobody up
        stdin.write(call.stdin)
        stdin.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *_expanded(call.argv),
                stdin=stdin,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=program_environment(os.environ),
                cwd=_home(),  # not the project: a program must not load what lies there
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise _failure(call, f"cannot be started: {reason}") from None
    try:
        await asyncio.wait_for(process.wait(), limit_s)
    except TimeoutError:
        raise _failure(call, f"did not end within {limit_s:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise _failure(call, f"ended with exit status {process.returncode}")


def desktop_call(title: str, text: str) -> ProgramCall:
    """The call that shows a notification of this desktop. Raises ``ProgramFailed`` if it has no program for that."""
    if MACOS and (program := shutil.which("osascript")):
        return ProgramCall([program, *(word for line in _SCRIPT for word in ("-e", line)), "--", title, text])
    program = shutil.which("notify-send")
    if program is None:
        raise ProgramFailed("notify-send is not installed")
    # The text of a notification is markup; its title is not.
    return ProgramCall([program, "--app-name=orchestrator", "--", title, html.escape(text, quote=False)])


def program_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that such a program needs; the session bus of the user also where the daemon was not given it."""
    kept = {name: value for name, value in env.items() if name in _KEPT or name.startswith(("LC_", "XDG_"))}
    runtime = Path(kept.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if "DBUS_SESSION_BUS_ADDRESS" not in kept and (runtime / "bus").exists():
        kept["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={runtime}/bus"
    return kept


def _expanded(argv: Sequence[str]) -> list[str]:
    program, *rest = argv
    return [str(Path(program).expanduser()) if program.startswith("~/") else program, *rest]


def _home() -> Path:
    home = Path.home()
    return home if home.is_dir() else Path("/")


def _failure(call: ProgramCall, what: str) -> ProgramFailed:
    return ProgramFailed(f"{one_line(str(call.argv[0]), 200)} {what}")
