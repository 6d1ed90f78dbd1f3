"""Where a connection to the daemon comes from, as a plain value that every feature can use. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConnectionOrigin:
    """What the handshake says of its sender; used to find the master's pane."""

    conn: str
    cwd: str
    tmux: str | None = None
    tmux_pane: str | None = None
    tty: str | None = None
    pids: tuple[int, ...] = ()
    leads: bool = False  # the relay of a CLI that may lead a team: no command line, no hook, no agent
