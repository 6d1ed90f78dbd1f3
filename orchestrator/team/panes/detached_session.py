"""Our own session outside tmux, in which agents are when their master is in no pane: its name, its making, its end.

Every function of it that touches tmux blocks, but `DetachedSession.end`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.base.errors import Environment
from orchestrator.base.platform import process_facts
from orchestrator.core.agent_ids import ascii_form
from orchestrator.edge import project_location
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import splits
from orchestrator.tmux.panes import PaneInfo
from orchestrator.tmux.server_address import TmuxSocket, refuse_old
from orchestrator.tmux.servers import tmux

FOLLOW, WATCH = ("broadcast", "--follow", "--of-this-pane"), ("status", "--watch")
"""What the first pane of a session of ours shows: the team's broadcast, or the agents of this host."""


@dataclass(frozen=True)
class MasterWindow:
    """The master's pane on its server; ``detached``: the session is ours, the master runs outside tmux.

    ``made``: this look made the session.
    """

    socket: TmuxSocket
    pane: PaneInfo
    detached: bool
    made: bool = False


class DetachedSession:
    """The project's session outside tmux; each run of another home has one of its own."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def name(self, run_id: str = "") -> str:
        """The name of the session: the project's name and a hash of its path.

        Each run of another home has its own session, named by the end of its ``run_id``.
        """
        root = self._roster.root
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:6]
        project = ascii_form(root.name)[:24] or "project"
        return f"orchestrator-{project}-{digest}" + (f"-{run_id[-6:]}" if run_id else "")

    def window(self, *, make: bool, name: str = "", shown: Sequence[str] = FOLLOW) -> MasterWindow | None:
        """The session's window, whose first pane runs our command ``shown``; None if it is not to be made."""
        config, name = self._roster.config(), name or self.name()
        socket = TmuxSocket(name=config.tmux_socket or None)
        if make:
            refuse_old(tmux(socket).version())  # before our session starts a server
        try:
            existing = splits.find_detached(socket, name)
        except Environment:
            existing = None
        if existing is not None or not make:
            return MasterWindow(socket, existing, detached=True) if existing is not None else None
        pane = splits.make_detached(
            socket,
            name,
            project_location.own_command(*shown),
            str(self._roster.root),
            width=config.session_width,
            height=config.session_height,
        )
        return MasterWindow(socket, pane, detached=True, made=True)

    async def end(self, before: int | None = None) -> None:
        """End the session if the user has put no pane into it; one made after ``before`` stays.

        ``before`` is a moment as in `process_facts.start_time`.
        """
        place = await asyncio.to_thread(self.window, make=False)
        if place is None or (before is not None and (process_facts.start_time(place.pane.pid) or 0) > before):
            return
        await asyncio.to_thread(splits.end_detached, place.socket, place.pane.session_name)


def attach_command(run: TeamRun) -> str | None:
    """The command that shows a detached run to a person; None inside tmux."""
    if not run.file.get("detached"):
        return None
    name = run.file.get("tmux_name")
    return f"tmux {'-L ' + name + ' ' if name else ''}attach -t {run.file['session']}"
