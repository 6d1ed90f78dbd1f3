"""Parses the address of a tmux server, checks its version, classifies its errors. Imports no libtmux."""

from __future__ import annotations

import re
from typing import NamedTuple

from orchestrator.base.errors import Environment

MINIMUM = (3, 3)


class TmuxSocket(NamedTuple):
    """A tmux server: by socket ``path`` (-S), by ``name`` (-L), or the user's default server.

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
    """A running server; a restarted server differs although its socket is the same."""

    pid: int
    start_time: int


def from_env(value: str) -> TmuxSocket:
    """The server that ``$TMUX`` (``path,pid,session``) names; an empty value is the default server."""
    path = value.rsplit(",", 2)[0]
    return TmuxSocket(path=path) if path else TmuxSocket()


def supported(version: str) -> bool:
    """Whether a version is new enough; a version without numbers (``master``) counts as new."""
    numbers = re.search(r"(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= MINIMUM


def refuse_old(version: str) -> None:
    """Raise Environment ``no_tmux`` for a version that is too old."""
    if not supported(version):
        step = "install tmux {}.{} or newer; a server that already runs keeps its version until it ends"
        raise Environment("no_tmux", f"tmux {version.removeprefix('tmux ')} is too old", step.format(*MINIMUM))


def is_gone(error: Environment) -> bool:
    """Whether the server, or the pane, window or session the command named, does not exist any more."""
    return bool(error.facts.get("server_gone") or error.facts.get("missing"))
