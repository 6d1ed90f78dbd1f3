"""The agents' own sockets in the run directory: one for each agent that is not deleted, next to the project's.

Has no rules: it only reports on which agent's socket a connection arrived. Touches the sockets of the run directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import structlog

from orchestrator.base.waiting import call_off
from orchestrator.edge.project_location import AGENT_SOCKET, agent_socket
from orchestrator.protocol.traffic import listen
from orchestrator.team.roster.agent_entry import AgentEntry

log = structlog.get_logger()

BACKLOG = 64
Serve = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Open:
    """One listening socket and the agents it is for: names are short, so that two may share one."""

    def __init__(self, path: Path, sock: socket.socket) -> None:
        self.path, self.sock = path, sock
        self.agents: set[str] = set()
        status = path.lstat()
        self._inode = status.st_dev, status.st_ino
        self.task: asyncio.Task[None] | None = None
        self.server: asyncio.Server | None = None

    def in_place(self) -> bool:
        """Whether its path still leads here."""
        try:
            status = self.path.lstat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._inode

    def close(self) -> None:
        """Stop listening; accepted connections continue."""
        if self.in_place():
            with contextlib.suppress(OSError):
                self.path.unlink()
        if self.task is not None:
            self.task.cancel()
        if self.server is not None:
            self.server.close()
        self.sock.close()


class AgentSockets:
    """The sockets of a daemon's agents. ``serve`` gets a socket's name and the streams of each connection."""

    def __init__(self, directory: Path, serve: Serve) -> None:
        self._directory = directory
        self._serve = serve
        self._open: dict[str, _Open] = {}
        self._failed: set[str] = set()
        self._closed = False

    def begin(self, agents: Iterable[AgentEntry]) -> None:
        """Remove what a daemon that was killed has left, and open those of the agents there are."""
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                if AGENT_SOCKET.fullmatch(path.name) and path.is_socket():
                    path.unlink()
        self.follow(agents)

    def follow(self, agents: Iterable[AgentEntry]) -> None:
        """Open missing sockets, and close those of deleted agents."""
        wanted: dict[str, set[str]] = {}
        for entry in agents:
            if entry.live:
                wanted.setdefault(agent_socket(entry.agent_id), set()).add(entry.agent_id)
        for name, opened in list(self._open.items()):
            if name not in wanted or not opened.in_place():
                opened.close()
                del self._open[name]
        for name, ids in wanted.items():
            self._have(name, ids)

    def seen(self, entry: AgentEntry) -> None:
        """An agent has changed: it was made, or it was deleted."""
        name = agent_socket(entry.agent_id)
        opened = self._open.get(name)
        if entry.live:
            if opened is None or entry.agent_id not in opened.agents:
                self._have(name, {entry.agent_id, *(opened.agents if opened is not None else ())})
        elif opened is not None and entry.agent_id in opened.agents:
            opened.agents.discard(entry.agent_id)
            if not opened.agents:
                opened.close()
                del self._open[name]

    def agents_of(self, name: str) -> frozenset[str]:
        """The agents whose socket it is."""
        opened = self._open.get(name)
        return frozenset(opened.agents) if opened is not None else frozenset()

    async def close(self) -> None:
        """Close all of them; records that become durable afterwards open none again."""
        self._closed = True
        tasks = [opened.task for opened in self._open.values() if opened.task is not None]
        for opened in self._open.values():
            opened.close()
        self._open.clear()
        await call_off(tasks)

    def _have(self, name: str, ids: set[str]) -> None:
        if self._closed:
            return
        opened = self._open.get(name)
        if opened is None:
            try:
                opened = _Open(self._directory / name, _listening(self._directory / name))
            except OSError as error:
                if name not in self._failed:  # its relay uses the project's, and it is tried again
                    log.warning("an agent's own socket was not opened", agents=sorted(ids), error=str(error))
                self._failed.add(name)
                return
            self._failed.discard(name)
            self._open[name] = opened
            opened.task = asyncio.get_running_loop().create_task(self._listen(name, opened))
        opened.agents = ids

    async def _listen(self, name: str, opened: _Open) -> None:
        opened.server = await listen(partial(self._serve, name), opened.sock, BACKLOG)


def _listening(path: Path) -> socket.socket:
    """A fresh socket at the path. Others never reach it: its directory is ours alone from the beginning."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        os.chmod(path, 0o600)  # noqa: PTH101 - no umask: threads make files meanwhile
        sock.setblocking(False)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
