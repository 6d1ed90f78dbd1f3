"""Which process is at the other end of a connection, and where it comes from: what decides its rights.

The kernel names the process, and its ancestors are read here. Looks at processes and reads the file of launches.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.platform import peer_credentials
from orchestrator.base.platform.ancestry import OF_OURS, lines_of
from orchestrator.base.platform.peer_credentials import HasOptions
from orchestrator.base.platform.process_facts import start_time
from orchestrator.base.platform.processes import environ_of
from orchestrator.daemon.hello import Hello
from orchestrator.edge import project_location
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.admission import Arrival, Rights, origin_unknown
from orchestrator.trust.launched import Launched
from orchestrator.trust.origin import UNKNOWN, KnownProcesses, ProcessOrigin, judge

SPARE = 3
"""Descriptors kept for a look: the peer's, what shows a process, the file of launches."""
MEMBER_DEPTH = 16
"""How many of the pids that a hello names are looked at."""


class Peer(NamedTuple):
    """The process that connected: its pid (0: unknown), its line of ancestors with itself first, and its origin.

    ``start`` is its start time (`ProcessStat.start`); 0: unknown.
    """

    pid: int = 0
    line: tuple[int, ...] = ()
    origin: ProcessOrigin = UNKNOWN
    start: int = 0


class Peers:
    """Judges the connections of one daemon; what it has learned is kept until it ends."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._launched = Launched()
        self._noted: set[tuple[str, int]] = set()
        own = start_time(os.getpid())
        self._launched.known().add(KnownProcesses(leaders={(os.getpid(), own or 0)}))
        self._spare: list[int] = []
        self._reserve()

    def at(self, sock: HasOptions) -> Peer:
        """The process that connected, judged as it is now; raises ``OSError`` when no descriptor is left to look."""
        try:
            return self._at(sock)
        except OSError as error:
            if error.errno not in OF_OURS:
                raise
        # All that could be had went to connections that wait for this very look.
        while self._spare:
            os.close(self._spare.pop())
        try:
            return self._at(sock)
        finally:
            self._reserve()

    def close(self) -> None:
        """Give the spare descriptors back."""
        while self._spare:
            os.close(self._spare.pop())

    def _reserve(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._spare) < SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _at(self, sock: HasOptions) -> Peer:
        pid = peer_credentials.credentials_of(sock).pid
        try:
            held = peer_credentials.pidfd_of(sock)
        except ProcessLookupError:
            return Peer(pid)
        try:
            lines = lines_of(pid) if pid > 0 else ()
            if held is not None and peer_credentials.has_ended(held):
                lines = ()  # what was read may be of another process with that pid
        finally:
            if held is not None:
                os.close(held)
        if not lines:
            return Peer(pid)
        line = lines[0].processes
        return Peer(pid, tuple(process.pid for process in line), judge(lines, self.known()), line[0].start)

    def known(self) -> KnownProcesses:
        """All launches of this user, and the agents of this project whose launch is in no file."""
        known = self._launched.known()
        for entry in self._roster.agents.values():
            pid = entry.pid
            if pid is None or entry.process != "alive" or (entry.agent_id, pid) in self._noted:
                continue
            self._noted.add((entry.agent_id, pid))
            lines = lines_of(pid)
            if lines:
                first, *above = [(process.pid, process.start) for process in lines[0].processes]
                agent = (str(self._roster.root), entry.agent_id)
                known.add(KnownProcesses({first: agent}, frozenset(), frozenset(above), first[1]))
        return known

    def living(self) -> dict[int, str]:
        """The agents of this project by the pids of their CLIs."""
        agents = self._roster.agents.values()
        return {entry.pid: entry.agent_id for entry in agents if entry.pid and entry.process == "alive"}


def arrival(
    hello: Hello, peer: Peer, root: Path, living: Mapping[int, str], socket_of: Collection[str] | None = None
) -> Arrival:
    """What decides the rights of the hello's connection; ``living`` are the agents of the project at ``root`` by pid.

    ``socket_of`` are the agents whose own socket it came by; None: it came by the project's.
    """
    return Arrival(
        project=str(root),
        origin=peer.origin,
        claimed=hello.agent.id if hello.agent is not None else None,
        agent_tools="agent" in hello.toolsets,
        named=frozenset(_named(hello.pids, living)),
        names_member=_names_member(hello.pids),
        socket_of=None if socket_of is None else frozenset(socket_of),
    )


def barring(rights: Rights, why: OrchestratorError | None) -> Callable[..., Awaitable[dict[str, Any]]]:
    """What answers, in the place of a method of the command line, a connection that may not use it."""
    error = why or (
        origin_unknown() if rights == "reader" else BadRequest("not_for_agents", "agents may not use this command")
    )

    async def refuse(**_given: Any) -> dict[str, Any]:
        raise error

    return refuse


def _named(pids: Collection[int], living: Mapping[int, str]) -> set[str]:
    """The agents that a hello itself names as those its process runs in."""
    agents = {living[pid] for pid in pids if pid in living}
    for pid in list(pids)[:1]:
        mark = environ_of(pid).get(project_location.AGENT_ENV[0])
        agents |= {mark} if mark else set()
    return agents


def _names_member(pids: Collection[int]) -> bool:
    return any(project_location.MEMBER_ENV in environ_of(pid) for pid in list(pids)[:MEMBER_DEPTH])
