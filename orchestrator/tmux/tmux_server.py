"""One tmux invocation: which server, which words, what came back. Starts the ``tmux`` program, nothing else.

Every call of ours to tmux goes through ``invoke``, the seam that tests replace. The socket is always named on
the command line and ``$TMUX`` is taken out of the environment, so a daemon started inside one tmux server
never speaks to it by accident.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment
from orchestrator.base.platform.processes import start_time

TIMEOUT = 10.0
MINIMUM = (3, 2)

_GONE = re.compile(r"no server running|error connecting to|lost server|server exited|no sessions", re.IGNORECASE)
_MISSING = re.compile(r"(can't find|no such) (pane|window|session)|no current target", re.IGNORECASE)
# "no current target" is what a server says that has no session at all, for example none yet.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class TmuxSocket(NamedTuple):
    """A tmux server: by socket ``path`` (-S), by ``name`` (-L), or the user's default one.

    ``config`` is the file a server reads if this call starts it; None means the user's own.
    """

    path: str | None = None
    name: str | None = None
    config: str | None = None

    def flags(self) -> list[str]:
        """The words between ``tmux`` and the command."""
        flags = ["-S", self.path] if self.path else ["-L", self.name] if self.name else []
        return [*flags, "-f", self.config] if self.config else flags


class ServerIdentity(NamedTuple):
    """A running server; a restarted one differs although the socket is the same."""

    pid: int
    start_time: int


def from_env(value: str) -> TmuxSocket:
    """The server that ``$TMUX`` (``path,pid,session``) names; an empty value is the default server."""
    path = value.rsplit(",", 2)[0]
    return TmuxSocket(path=path) if path else TmuxSocket()


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


def run(socket: TmuxSocket, *args: str) -> str:
    """One tmux command; its words reach tmux as they are. Returns stdout without its last newline.

    ``Environment``: ``no_tmux`` (not installed, no answer within 10 s, or no server: fact ``server_gone``),
    ``no_room`` (a pane is too small to split), else ``tmux_failed`` with tmux's own sentence (fact
    ``missing`` where pane, window or session does not exist).
    """
    return chain(socket, args)


def chain(socket: TmuxSocket, *commands: Sequence[str]) -> str:
    """Several commands in one invocation, which tmux runs without anything in between.

    A command that fails keeps the later ones from running. Returns and raises as ``run``.
    """
    words: list[str] = []
    for command in commands:
        words += [";"] if words else []
        words += [_word(word) for word in command]
    try:
        done = invoke(["tmux", "-u", *socket.flags(), *words])
        failpoints.passed(f"tmux:{commands[0][0]}")
    except FileNotFoundError:
        raise Environment("no_tmux", "tmux is not installed") from None
    except subprocess.TimeoutExpired:
        raise Environment(
            "no_tmux", f"tmux did not answer within {TIMEOUT:.0f} s", "look whether its server hangs"
        ) from None
    except OSError as error:
        raise Environment(
            "tmux_failed", f"tmux could not be run: {error.strerror}", "see the limits of processes and open files"
        ) from None
    if done.returncode != 0:
        raise _failure(done.stderr.strip())
    return done.stdout.removesuffix("\n")


def _word(word: str) -> str:
    # tmux takes a last ";" of any word for a separator, also behind "--".
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def _failure(sentence: str) -> Environment:
    if _GONE.search(sentence):
        return Environment("no_tmux", f"tmux has no server: {sentence}", "start tmux again", server_gone=True)
    if "no space for new pane" in sentence:
        return Environment("no_room", "tmux has no space for a new pane")
    error = Environment("tmux_failed", f"tmux refused: {sentence or 'no reason given'}")
    if _MISSING.search(sentence):
        error.facts["missing"] = True
    return error


def source(command: Sequence[str]) -> str:
    """The command as text of tmux's own language, for commands that take commands (``if-shell``)."""
    return " ".join(_quoted(word) for word in command)


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    # Single quotes are literal, except that tmux drops the blanks after a newline in any quotes.
    return "'" + word.replace("'", "'\\''").replace("\n", "'\"\\n\"'") + "'"


def literal(text: str) -> str:
    """The text as part of a format, where ``#``, ``,`` and ``}`` would have a meaning."""
    return text.replace("#", "##").replace(",", "#,").replace("}", "#}")


def start_words(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> list[str]:
    """The last words of a command that starts ``argv`` in a pane, with no shell between."""
    # tmux gives a single word to a shell and starts several directly; env(1) execs, so the pid stays.
    words = argv if len(argv) > 1 else ["env", *argv]
    variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    return ["-c", cwd.replace("#", "##"), *variables, "--", *words]


def server_identity(socket: TmuxSocket) -> ServerIdentity:
    """Pid and start time (clock ticks since boot) of the server's process; raises as ``run``."""
    pid = int(run(socket, "display-message", "-p", "#{pid}"))
    started = start_time(pid)
    if started is None:
        raise Environment("no_tmux", "tmux has no server: it just ended", server_gone=True)
    return ServerIdentity(pid, started)


def version(socket: TmuxSocket) -> str:
    """The version of the running server (``3.3a``), else of the installed program; raises as ``run``."""
    try:
        return run(socket, "display-message", "-p", "#{version}")
    except Environment as error:
        if not error.facts.get("server_gone"):
            raise
    from libtmux import exc  # noqa: PLC0415 - 150 ms that only a machine without a server pays
    from libtmux.common import get_version_str  # noqa: PLC0415

    try:
        return get_version_str()  # knows OpenBSD's tmux, which has no -V
    except exc.TmuxCommandNotFound:
        raise Environment("no_tmux", "tmux is not installed") from None
    except exc.LibTmuxException as error:
        raise Environment("tmux_failed", f"tmux does not tell its version: {error}") from None


def supported(version: str) -> bool:
    """Whether a version is new enough; one without numbers (``master``) is taken for new."""
    numbers = re.search(r"(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= MINIMUM
