"""One tmux server, with our guest rules: bounded calls, an explicit socket, guarded commands.

Every call of ours to tmux goes through ``invoke``, the seam that tests replace. The socket is always named on the
command line and ``$TMUX`` is taken out of the environment, so a daemon that was started inside one tmux server never
speaks to it by accident. libtmux is loaded by what needs its objects (`libtmux_objects.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment
from orchestrator.base.platform.process_facts import start_time
from orchestrator.tmux.command_words import escaped, source
from orchestrator.tmux.server_address import ServerIdentity, TmuxSocket

if TYPE_CHECKING:
    import libtmux

TIMEOUT = 10.0

_GONE = re.compile(r"no server running|error connecting to|lost server|server exited|no sessions", re.IGNORECASE)
_MISSING = re.compile(r"(can't find|no such) (pane|window|session)|no current target", re.IGNORECASE)
# "no current target" is what a server says that has no session at all, for example none yet.
_FULL = re.compile(r"no space for (a )?new pane")  # tmux 3.7 says "size or position no space for a new pane"


def _start(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIMEOUT,
        check=False,
        env=env,
    )


invoke: Callable[[Sequence[str]], subprocess.CompletedProcess[str]] = _start


class Tmux:
    """One tmux server; `pane` and `window` give libtmux's own objects, bound to it without asking tmux.

    What raises ``Environment`` raises ``no_tmux`` (not installed, no answer within 10 s, or no server: fact
    ``server_gone``), ``no_room`` (a pane is too small to split), else ``tmux_failed`` with tmux's own sentence (fact
    ``missing`` where a pane, window or session does not exist).
    """

    def __init__(self, socket: TmuxSocket) -> None:
        self.socket = socket

    def run(self, *words: str) -> str:
        """Run one command; returns what it printed, without the last newline."""
        return self._printed([words])

    def chain(self, *commands: Sequence[str]) -> str:
        """Run several commands in one invocation; tmux runs nothing in between.

        A command that fails keeps the later commands from running. Returns what they printed.
        """
        return self._printed(commands)

    def guarded(self, target: str, condition: str, *commands: Sequence[str]) -> str:
        """Run the commands if the format ``condition`` is true for ``target`` at that moment; one invocation.

        Returns what they printed; empty if the condition was false.
        """
        return self.run("if-shell", "-F", "-t", target, condition, source(*commands))

    def pane(self, pane_id: str) -> libtmux.Pane:
        """The pane as an object of libtmux; whether it exists, its first command shows."""
        from orchestrator.tmux import libtmux_objects  # noqa: PLC0415 - libtmux: 30 ms that most calls need not pay

        return libtmux_objects.pane(self.socket, self.run, pane_id)

    def window(self, window_id: str) -> libtmux.Window:
        """The window as an object of libtmux; whether it exists, its first command shows."""
        from orchestrator.tmux import libtmux_objects  # noqa: PLC0415 - see `pane`

        return libtmux_objects.window(self.socket, self.run, window_id)

    def identity(self) -> ServerIdentity:
        """Pid and start time (`ProcessStat.start`) of the server's process."""
        pid = int(self.run("display-message", "-p", "#{pid}"))
        started = start_time(pid)
        if started is None:
            raise Environment("no_tmux", "tmux has no server: it just ended", server_gone=True)
        return ServerIdentity(pid, started)

    def ending(self) -> bool:
        """Whether the server has no session: one that is being killed closes them all, and then answers a while."""
        return not self.run("list-sessions", "-F", "#{session_id}")

    def version(self) -> str:
        """The version of the running server (``3.3a``), else of the installed program."""
        try:
            return self.run("display-message", "-p", "#{version}")
        except Environment as error:
            if not error.facts.get("server_gone"):
                raise
        from orchestrator.tmux import libtmux_objects  # noqa: PLC0415 - see `pane`

        return libtmux_objects.installed_version()

    def _printed(self, commands: Sequence[Sequence[str]]) -> str:
        words: list[str] = []
        for command in commands:
            words += [";"] if words else []
            words += map(escaped, command)
        argv = ["tmux", "-u", *self.socket.flags(), *words]
        try:
            done = invoke(argv)
            failpoints.passed(f"tmux:{commands[0][0]}")
        except FileNotFoundError:
            raise Environment("no_tmux", "tmux is not installed") from None
        except subprocess.TimeoutExpired:
            raise Environment(
                "no_tmux", f"tmux did not answer within {TIMEOUT:.0f} s", "look whether its server hangs"
            ) from None
        except OSError as error:
            raise Environment(
                "tmux_failed",
                f"tmux could not be run: {error.strerror}",
                "see the limits of processes and open files",
            ) from None
        if done.returncode != 0:
            raise failure(done.stderr.strip())
        return done.stdout.removesuffix("\n")


def failure(sentence: str) -> Environment:
    """What a failed command means, from tmux's sentence on stderr. Pure."""
    if _GONE.search(sentence):
        return Environment("no_tmux", f"tmux has no server: {sentence}", "start tmux again", server_gone=True)
    if _FULL.search(sentence):
        return Environment("no_room", "tmux has no space for a new pane")
    error = Environment("tmux_failed", f"tmux refused: {sentence or 'no reason given'}")
    if _MISSING.search(sentence):
        error.facts["missing"] = True
    return error
