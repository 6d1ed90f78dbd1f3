"""The daemon: the one process per project that owns the files, serves connections and supervises agents.

Starts and stops everything else and has no rules of its own. It touches the run directory (through `door`) and all
layers below.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import math
import os
import secrets
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from orchestrator.base.clock import SystemClock, rfc3339
from orchestrator.base.errors import BadRequest, Conflict, Environment, OrchestratorError
from orchestrator.base.platform.ancestry import OF_OURS
from orchestrator.base.platform.peer_credentials import is_own_user
from orchestrator.base.waiting import call_off, elapse
from orchestrator.config.file_watch import ConfigState, watch
from orchestrator.daemon import door, handshake, hook_connections, peers
from orchestrator.daemon.agent_sockets import AgentSockets
from orchestrator.daemon.features import Features
from orchestrator.daemon.hello import HELLO_MAX, negotiate, read_hello
from orchestrator.daemon.message_loops import serve
from orchestrator.daemon.peers import Peer, Peers
from orchestrator.daemon.run_base_sweep import RunBaseSweep
from orchestrator.daemon.sessions import build
from orchestrator.edge import project_location
from orchestrator.journal.project_files import Paths
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import REAL
from orchestrator.protocol.offers import AdminMethods
from orchestrator.protocol.tool_calls import Client
from orchestrator.protocol.traffic import MAX_LINE, Incoming, Stalled, TooLong, listen, waiting
from orchestrator.protocol.wait_turns import WaitTurns
from orchestrator.team.roster.roster import PUT_BACK, Roster
from orchestrator.trust import lock_word
from orchestrator.trust.admission import admission

log = structlog.get_logger()

DOOR_CHECK_S = 2.0
BACKLOG = 512
WORKERS = 8
SAY_AGAIN_S = 60.0
LOOK_AGAIN_S = 0.05
QUIET_S = 1.0
"""After a start; then begins what no caller waits for, so that it delays no first answer."""
FAILED_SYNC_STATUS = 74
ELSEWHERE = "another daemon writes the project's files"


class Daemon:
    """One project's daemon; `run` serves until it is asked to end."""

    def __init__(self, root: Path, opened: door.Door, state: ConfigState) -> None:
        self.root = root
        self.door = opened
        self.configured = state
        self.boot_id = secrets.token_hex(3)
        self.clock = SystemClock()
        self.began = time.monotonic()
        self.started_at = rfc3339(self.clock.now())
        REAL.reserve()
        self.syncer = Syncer(self._sync_failed)
        self.roster = Roster(
            root,
            Paths(root),
            self.clock,
            self.syncer,
            lambda: state.current.config,
            withheld=lambda: state.current.withheld,
            place=project_location.word_of(opened.directory),
            on_refused=partial(self.end, ELSEWHERE),
        )
        self.peers = Peers(self.roster)
        self.own_sockets = AgentSockets(opened.directory, self._accept_own)
        self.clients: dict[Client, asyncio.StreamWriter] = {}
        self.turns = WaitTurns()
        self.features = Features(
            self.roster,
            state,
            lambda: self.clients,
            str(opened.directory / project_location.LOG),
            boot=self.boot_id,
            launches=self.peers.known,
        )
        self.idle_since = time.monotonic()
        self._said_full = -math.inf
        self._run_base_sweep = RunBaseSweep(root, opened.directory)
        self._missing: list[str] = []
        self.ending = asyncio.Event()
        self.why = ""

    # -- the life of the daemon ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Load, serve, supervise; returns when the daemon shall end, with everything durable."""
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, self.end, signal.Signals(sign).name)
        loop.set_exception_handler(self._trouble)
        self._take_threads(loop)
        clean = self._was_clean()
        self.roster.load(clean=clean)
        self.roster.listeners.append(self.own_sockets.seen)
        self.own_sockets.begin(self.roster.agents.values())
        await self.features.begin(clean=clean)
        listener = await listen(self._accept, self.door.listener, BACKLOG)
        self.door.clear_failed()
        # What start-up made lives as long as the daemon: keep the collector from walking it again and again.
        gc.freeze()
        gc.enable()
        follower = asyncio.create_task(self._follow_up(clean=clean))
        log.info(
            "ready", pid=os.getpid(), agents=len(self.roster.agents), seconds=round(time.monotonic() - self.began, 3)
        )
        while not self.ending.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), DOOR_CHECK_S)
            self._look_around()
        log.info("ending", why=self.why)
        self._run_base_sweep.close()
        # Before any connection ends: the hooks shall come back to the next daemon, not take the end for an Esc.
        await self.features.team.release()
        # Sockets first: a graceful end of the streams would make the SDK answer every open request with an error,
        # and the relays would pass it on instead of re-sending.
        for writer in self.clients.values():
            writer.transport.abort()
        listener.close()
        await self.own_sockets.close()
        self.peers.close()
        await call_off([follower])
        await self.features.close()
        await self.roster.flush()
        ended = self.roster.token
        self.roster.close()
        self.syncer.close()
        if self.door.still_ours():  # else another daemon may have begun, and the word would be taken for its own
            (self.door.directory / project_location.CLEAN).touch(mode=0o600)
            (self.door.directory / project_location.CLEAN).write_text(ended)

    async def _follow_up(self, *, clean: bool) -> None:
        """Begin what no caller waits for, and follow the configuration's files from then on.

        What has changed in them since the start is found by the first look.
        """
        await elapse(QUIET_S, self.clock)
        await self.features.follow_up(clean=clean)
        await watch(self.root, dict(os.environ), self._reconfigured, state=self.configured)

    def end(self, why: str) -> None:
        """Ask the daemon to end."""
        self.why = self.why or why
        self.ending.set()

    def _was_clean(self) -> bool:
        """Whether the last daemon closed its logs properly; checked once per start.

        The last daemon may have run elsewhere, so the mark here counts only with the token in `.agents/lock`.
        """
        try:
            ended = (self.door.directory / project_location.CLEAN).read_text("ascii", "replace")
            (self.door.directory / project_location.CLEAN).unlink()
        except FileNotFoundError:
            return False
        return ended != "" and ended == lock_word.token(self.roster.paths.home / "lock")

    def _look_around(self) -> None:
        if not self.door.still_ours():
            self.end("lock or socket was removed or replaced")
        if not self.root.is_dir():
            self.end("the project's directory is gone")
        try:
            self.roster.keep_claim()
        except Conflict:
            self.end(ELSEWHERE)
        except OrchestratorError as error:  # the next write reports it
            log.debug("the project's files are not claimed", **error.as_dict())
        missing = self.roster.missing()
        if missing != self._missing and missing:
            log.warning("files of the team have gone", files=len(missing), first=missing[0], next=PUT_BACK)
        self._missing = missing
        self.own_sockets.follow(self.roster.agents.values())
        self.features.look_around()
        self._run_base_sweep.look_around()
        now = time.monotonic()
        if self.clients or self.features.at_work or self.features.fleet is not None:
            self.idle_since = now  # a host of a fleet must be there when something is posted to it
        limit = self.configured.current.config.idle_exit_s
        if limit and now - self.idle_since > limit:
            self.end("idle")

    def _take_threads(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start every thread this daemon will ever need: later, the system may have none to give.

        A pool that cannot start a thread keeps the work all the same, and does it at some time, unexpected.
        """
        pool = ThreadPoolExecutor(WORKERS, "work")
        together = threading.Barrier(WORKERS)  # or the first thread would do the work of all
        try:
            for _ in range(WORKERS):
                pool.submit(together.wait)
            self.syncer.begin()
        except RuntimeError as error:
            together.abort()
            raise Environment(
                "daemon_failed", f"the system has no thread to give: {error}", "see the limit of processes"
            ) from error
        loop.set_default_executor(pool)

    def _trouble(self, loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        """Log what asyncio reports. If no descriptor is left, it accepts nothing for a second, and callers wait."""
        error = facts.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(facts)
            return
        now = time.monotonic()
        if now - self._said_full > SAY_AGAIN_S:
            self._said_full = now
            log.warning("no file descriptor is left; new connections wait", connections=len(self.clients))

    def _sync_failed(self, error: Exception) -> None:
        # Never retried and never gone over: what the kernel dropped must not be built on (fsyncgate).
        log.critical("a sync failed; the daemon exits", error=str(error))
        os._exit(FAILED_SYNC_STATUS)

    def _reconfigured(self, state: ConfigState) -> None:
        if state.error is not None:
            log.warning("configuration not taken over", **state.error.as_dict())
        else:
            log.info("configuration reloaded")

    # -- connections --------------------------------------------------------------------------------------------

    async def _accept_own(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._accept(reader, writer, name)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: str = "") -> None:
        """Serve a connection; ``own`` is the name of the agents' own socket by which it came."""
        client: Client | None = None
        try:
            sock: socket.socket = writer.get_extra_info("socket")
            if not is_own_user(sock):
                return
            peer = await self._judged(sock)  # before its hello: what it is now counts
            incoming = Incoming(reader, HELLO_MAX)
            line = await handshake.first_line(incoming, writer)
            if line is None:
                return
            client = await self._welcome(line, writer, peer, own)
            if client is None:
                return
            self.clients[client] = writer
            self.features.came(client)
            incoming.limit = MAX_LINE
            await self._serve(client, incoming, writer)
        except Stalled:
            who = client.agent_id or client.name or client.kind if client is not None else "?"
            log.warning("connection dropped: it does not read", client=who, bytes_waiting=waiting(writer))
        except (OSError, TooLong) as error:
            log.debug("connection ended", error=str(error))
        except asyncio.CancelledError:
            pass  # the daemon ends; asyncio would print what a stream's task was canceled with
        except Exception:
            log.exception("bug in a connection")
        finally:
            if client is not None:
                self.clients.pop(client, None)
            self.idle_since = time.monotonic()
            writer.transport.abort()

    async def _judged(self, sock: socket.socket) -> Peer:
        """The peer of a connection; if no descriptor is left for the check, the connection waits for one."""
        until = time.monotonic() + handshake.HELLO_S
        while True:
            try:
                return self.peers.at(sock)
            except OSError as error:
                if error.errno not in OF_OURS or time.monotonic() >= until:
                    raise
            await elapse(LOOK_AGAIN_S, self.clock)

    async def _welcome(self, line: bytes, writer: asyncio.StreamWriter, peer: Peer, own: str) -> Client | None:
        """Answer the hello; None when the connection is not served."""
        try:
            hello = read_hello(line)
            idle = not self.clients and not self.features.at_work
            verdict = negotiate(hello, project_location.PROTO, idle)
            if verdict == "yield":
                self.end("a newer installation takes over")
                return None
            if isinstance(verdict, Conflict):
                raise verdict
            if Path(hello.project) != self.root:
                raise BadRequest("bad_argument", f"this daemon serves {self.root}, not {hello.project}")
        except OrchestratorError as error:
            await handshake.refuse(writer, error)
            return None
        writer.write(handshake.ours(self.boot_id))
        whose = self.own_sockets.agents_of(own) if own else None
        admitted = admission(peers.arrival(hello, peer, self.root, self.peers.living(), whose))
        return handshake.client_of(hello, peer, admitted, rfc3339(self.clock.now()))

    async def _serve(self, client: Client, incoming: Incoming, writer: asyncio.StreamWriter) -> None:
        features = self.features
        if client.kind == "hook":
            hears = hook_connections.Listeners(features.team.parking, features.team.held_masters)
            await hook_connections.serve(client, incoming, writer, self.roster, hears)
            return
        admin = self._admin(client) if client.kind == "cli" else {}
        server, resources, calls = build(client, features.offers(client), admin)
        features.spawn.welcome(client)
        try:
            listed = partial(features.team.listed_tools, client)
            await serve(server, incoming, writer, self.boot_id, listed, calls=calls, turns=self.turns)
        finally:
            features.part(client)
            if resources is not None:
                resources.close()

    # -- what only the command line asks ------------------------------------------------------------------------

    def _admin(self, client: Client) -> AdminMethods:
        """The methods of the command line; a connection that may not use one gets the reason."""
        offered: AdminMethods = {"status": self.status, "stop": self.stop, **self.features.admin(client)}
        if client.rights == "master":
            return offered
        barred = {name: peers.barring(client.rights, client.why_refused) for name in offered}
        return {**barred, "status": self.status} if client.rights == "reader" else barred

    async def status(self) -> dict[str, Any]:
        """`orchestrator daemon status`."""
        error = self.configured.error
        return {
            "pid": os.getpid(),
            "socket": str(self.door.directory / "socket"),
            "project": str(self.root),
            "version": project_location.VERSION,
            "proto": project_location.PROTO,
            "install": project_location.INSTALL,
            "started_at": self.started_at,
            "uptime_s": round(time.monotonic() - self.began, 3),
            "connections": [
                {
                    "conn": client.origin.conn,
                    "kind": client.kind,
                    "role": client.rights,
                    "agent_id": client.agent_id,
                    "client": client.name,
                    "pid": client.origin.pids[0] if client.origin.pids else None,
                    "toolsets": list(client.toolsets),
                    "since": client.since,
                }
                for client in self.clients
            ],
            "agents": {"total": len(self.roster.agents), "live": self.features.team.live_agents},
            "runs": [
                {"run_id": run.run_id, "live": run.live, "agents": sorted(run.file["agents"])}
                for run in self.roster.runs.values()
            ],
            "corrupt": {name: error.as_dict() for name, error in self.roster.corrupt.items()},
            "missing": self.roster.missing(),
            "notes": self.roster.notes,
            "fleet": self.features.fleet_state(),
            "config_error": error.as_dict() if error else None,
            "log": str(self.door.directory / "log"),
        }

    async def stop(self) -> dict[str, Any]:
        """`orchestrator daemon stop`: the answer leaves before the sockets are aborted."""
        asyncio.get_running_loop().call_later(0.05, self.end, "asked to stop")
        return {"ok": True}
