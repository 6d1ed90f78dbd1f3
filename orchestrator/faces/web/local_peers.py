"""Who is at the other end of a request: a human's program, a program that may only read, or one that gets nothing.

A token can be read from a screen, and every process of this user can reach the port. So a program on this machine
must not come from an agent, a squad member or an AI CLI that leads, as the kernel shows it. Looks at processes and
reads the files of launches.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Literal, NamedTuple

from orchestrator.base.errors import BadRequest, NotReady, OrchestratorError
from orchestrator.base.platform import tcp_peers
from orchestrator.base.platform.ancestry import lines_of
from orchestrator.base.platform.tcp_peers import Address
from orchestrator.trust.admission import origin_unknown
from orchestrator.trust.human_origin import human_origin
from orchestrator.trust.launched import Launched
from orchestrator.trust.relay_holders import RelayHolders

PeerRights = Literal["all", "read", "none"]
MOST_KNOWN = 64
MOST_WAITING = 100


class WebPeer(NamedTuple):
    """What a program may do whatever its token says; ``why`` is the error that explains a restriction.

    ``pid`` is 0 for another machine, or if it is not known.
    """

    rights: PeerRights
    why: OrchestratorError | None = None
    pid: int = 0


class LocalPeers:
    """Judges connections, from any thread.

    ``behind_proxy``: programs of other users of this machine may be the proxy, so they are let in with their token.
    """

    def __init__(self, *, behind_proxy: bool = False) -> None:
        self._behind_proxy = behind_proxy
        self._launched, self._holders = Launched(), RelayHolders()
        self._lock = threading.Lock()
        self._known: dict[int, None] = {}

    def judge(self, client: Address, server: Address) -> WebPeer:
        """The peer of the connection from ``client`` to ``server`` as it is now.

        A connection from this machine whose process cannot be identified gets nothing. Blocks for as long as it takes
        to look at all processes.
        """
        with self._lock:
            return self._judge(client, server)

    def _judge(self, client: Address, server: Address) -> WebPeer:
        try:
            socket = tcp_peers.socket_of(client, server)
            if socket is None or socket.inode == 0:
                return _unidentified() if tcp_peers.is_here(client[0]) else WebPeer("all")
            if socket.uid != os.geteuid():
                return WebPeer("all") if self._behind_proxy else _other_user()
            holders = socket.holders or tcp_peers.holders_of(socket.inode, first=tuple(self._known))
        except (OSError, ValueError):
            return _unidentified()
        if holders.pids:
            return min((self._of(pid) for pid in holders.pids), key=_severity)
        # The process is one of those that hide their descriptors, as sshd's do: all of them must be a human's.
        judged = [self._of(pid) for pid in holders.hidden]
        return min(judged, key=_severity, default=_unidentified())._replace(pid=0)

    def _of(self, pid: int) -> WebPeer:
        try:
            lines = lines_of(pid)
            origin = human_origin(lines, self._launched.known(), self._holders.known()) if lines else None
        except OSError:
            return _unidentified()
        if origin is None:
            return _unidentified()
        if origin.kind == "inside":
            return WebPeer("none", BadRequest("not_for_agents", "this program runs in an agent or squad member"), pid)
        if origin.kind == "master":
            return WebPeer("none", BadRequest("not_allowed_to_answer", "this program runs below an AI CLI"), pid)
        if origin.kind == "unknown":
            return WebPeer("read", origin_unknown(), pid)
        self._known.pop(pid, None)
        self._known[pid] = None
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return WebPeer("all", None, pid)


class PeerQueues:
    """Judges connections one after the other. Those with a valid token never wait for the others.

    A look at all processes takes long, and every program on this machine can cause it.
    """

    def __init__(self, peers: LocalPeers) -> None:
        self._peers = peers
        self._queues = {True: _Queue(), False: _Queue()}

    async def judge(self, client: Address, server: Address, *, token: bool) -> WebPeer:
        """As `LocalPeers.judge`; NotReady ``web_busy`` if ``MOST_WAITING`` wait already."""
        queue = self._queues[token]
        if queue.waiting >= MOST_WAITING:
            raise NotReady("web_busy", "too many programs connect at once")
        queue.waiting += 1
        try:
            async with queue.turn:
                return await asyncio.to_thread(self._peers.judge, client, server)
        finally:
            queue.waiting -= 1


class _Queue:
    def __init__(self) -> None:
        self.turn, self.waiting = asyncio.Lock(), 0


def own_origin_kind() -> Literal["human", "master", "inside", "unknown"]:
    """Where this very process comes from."""
    try:
        lines = lines_of(os.getpid())
        return human_origin(lines, Launched().known(), RelayHolders().known()).kind if lines else "unknown"
    except OSError:
        return "unknown"


def _severity(peer: WebPeer) -> int:
    return ("none", "read", "all").index(peer.rights)


def _unidentified() -> WebPeer:
    return WebPeer("none", BadRequest("web_refused", "the program that asks cannot be identified on this machine"))


def _other_user() -> WebPeer:
    return WebPeer("none", BadRequest("web_refused", "the program that asks belongs to another user of this machine"))
