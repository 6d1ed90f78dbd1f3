"""Which process is at the other end of a connection, and its rights: master, reader, agent, or none.

The kernel names the process, and its ancestors are read here; the handshake can only take rights away. Reads /proc
and the file of launches. Each call proves by itself which agent it speaks for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.platform.ancestry import OF_OURS, lines_of
from orchestrator.base.platform.processes import environ_of, start_time
from orchestrator.daemon.door import HasOptions, Hello, peer
from orchestrator.edge import project_location
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.launched import Launched
from orchestrator.trust.origin import UNKNOWN, KnownProcesses, ProcessOrigin, judge

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)  # Linux 6.5
SPARE = 3
"""Descriptors kept for a look: the peer's, a file of /proc, the file of launches."""
MEMBER_DEPTH = 16
"""How many of the pids that a hello names are looked at."""

Role = Literal["master", "reader", "agent", "refused"]


class Peer(NamedTuple):
    """The process that connected: its pid (0: unknown), its line of ancestors with itself first, and its origin."""

    pid: int = 0
    line: tuple[int, ...] = ()
    origin: ProcessOrigin = UNKNOWN


class Rights(NamedTuple):
    """The rights of a connection; ``why`` it has no more, if there is a reason."""

    role: Role
    why: BadRequest | None = None


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
        pid, _ = peer(sock)
        try:
            held = _held(sock)
        except ProcessLookupError:
            return Peer(pid)
        try:
            lines = lines_of(pid) if pid > 0 else ()
            if held is not None and _ended(held):
                lines = ()  # what was read may be of another process with that pid
        finally:
            if held is not None:
                os.close(held)
        if not lines:
            return Peer(pid)
        return Peer(pid, tuple(one.pid for one in lines[0].processes), judge(lines, self.known()))

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
                first, *above = [(one.pid, one.start) for one in lines[0].processes]
                agent = (str(self._roster.root), entry.agent_id)
                known.add(KnownProcesses({first: agent}, frozenset(), frozenset(above), first[1]))
        return known

    def living(self) -> dict[int, str]:
        """The agents of this project by the pids of their CLIs."""
        agents = self._roster.agents.values()
        return {entry.pid: entry.agent_id for entry in agents if entry.pid and entry.process == "alive"}


def rights(
    hello: Hello,
    found: Peer,
    root: Path,
    living: Mapping[int, str],
    own: Collection[str] | None = None,
) -> Rights:
    """What the hello's connection may be. ``living`` are the agents here by pid; ``own`` those whose socket it is.

    An agent's claim counts unless the process comes from another agent; everybody else must come from outside to
    change anything, and gets nothing from inside, nor on an agent's own socket.
    """
    origin, claim = found.origin, hello.agent
    others = origin.other_than((str(root), claim.id)) if claim is not None else origin.agents
    named = _named(hello.pids, living) - {claim.id if claim is not None else ""}
    if claim is not None and (others or named):
        whom = min({*named, *(agent_id for _, agent_id in others)})
        return Rights("refused", BadRequest("not_an_agent", f"this process runs in agent {whom}, not in {claim.id}"))
    if origin.kind == "member" or _names_member(hello.pids):
        next_step = "finish your own task and return its result"
        return Rights("refused", BadRequest("not_for_agents", "this process runs in a squad member", next_step))
    if claim is not None and (own is None or claim.id in own):
        return Rights("agent")
    if "agent" in hello.toolsets:
        return Rights(
            "refused", BadRequest("not_an_agent", "this relay was started with --agent outside of an agent")
        )
    if others or named:
        return Rights("refused", BadRequest("not_for_agents", "this process runs in an agent's pane"))
    if own is not None:
        whom = ", ".join(sorted(own)) or "(deleted)"
        return Rights("refused", BadRequest("not_an_agent", f"this socket serves agent {whom} only"))
    if origin.kind == "outside":
        return Rights("master")
    return Rights("reader", unknown())


def unknown() -> BadRequest:
    """Why a process of unknown origin may not change anything."""
    return BadRequest("origin_unknown", "this process may come from an agent, so it can only read")


def barring(role: Role | str, why: OrchestratorError | None) -> Callable[..., Awaitable[dict[str, Any]]]:
    """What answers, in the place of a method of the command line, a connection that may not use it."""
    error = why or (
        unknown() if role == "reader" else BadRequest("not_for_agents", "agents may not use this command")
    )

    async def refuse(**_given: Any) -> dict[str, Any]:
        raise error

    return refuse


def _named(pids: Collection[int], living: Mapping[int, str]) -> set[str]:
    """The agents that a hello itself names as those its process runs in."""
    found = {living[pid] for pid in pids if pid in living}
    for pid in list(pids)[:1]:
        mark = environ_of(pid).get(project_location.AGENT_ENV[0])
        found |= {mark} if mark else set()
    return found


def _names_member(pids: Collection[int]) -> bool:
    return any(project_location.MEMBER_ENV in environ_of(pid) for pid in list(pids)[:MEMBER_DEPTH])


def _held(sock: HasOptions) -> int | None:
    """A descriptor of the very process that connected; None where the kernel has none to give.

    ``ProcessLookupError`` when that process is gone, ``OSError`` when no descriptor is left.
    """
    try:
        return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4), sys.byteorder, signed=True)
    except OSError as error:
        if error.errno in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            return None
        if error.errno in (errno.EINVAL, errno.ENODATA):
            raise ProcessLookupError(errno.ESRCH, "the process that connected is gone") from error
        raise


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
