"""The windows of team runs: the window of a master, the run of a window, their end.

Finds and records windows; `team_panes` handles what is inside a window. Every tmux call runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog

from orchestrator.base import entropy, failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Conflict, Environment, OrchestratorError
from orchestrator.base.platform import process_facts
from orchestrator.base.waiting import elapse
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.journal.project_files import check_id
from orchestrator.team.panes import master_pane
from orchestrator.team.panes.detached_session import FOLLOW, WATCH, DetachedSession, MasterWindow
from orchestrator.team.roster.broadcast import TeamRun, new_run
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import borders, member_tags, panes, splits
from orchestrator.tmux.server_address import TmuxSocket, refuse_old
from orchestrator.tmux.servers import tmux

log = structlog.get_logger()

SAVED_AGAIN_S = 2.0


class RunWindows:
    """The windows of a roster's runs."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.detached = DetachedSession(roster)
        self._locks: dict[str, asyncio.Lock] = {}
        self._making = asyncio.Lock()
        self._late: dict[str, asyncio.Task[None]] = {}  # by run id: its run.json could not be written yet
        self.large: dict[str, dict[str, str]] = {}  # by run and window id: the pane that stays large (pane_focus)
        self.placing = asyncio.Lock()  # held while agents enter a run, and while a run is checked for being empty

    # -- finding the window -------------------------------------------------------------------------------------

    async def place_of(self, origin: ConnectionOrigin, *, make: bool) -> MasterWindow | None:
        """The master's pane: by ancestry, else $TMUX_PANE, else its tty; outside tmux our session.

        With ``make`` the detached session is created if there is none, and a tmux that is too old is refused;
        otherwise None is returned.
        """
        return await asyncio.to_thread(self._place_of, origin, make)

    def _place_of(self, origin: ConnectionOrigin, make: bool) -> MasterWindow | None:
        socket = master_pane.socket_of(origin)
        if socket is not None:
            pane = master_pane.pane_of(socket, origin)
            if pane is not None:
                if make:
                    refuse_old(tmux(socket).version())
                return MasterWindow(socket, pane, detached=False)
        return self.detached.window(make=make)

    async def run_at(self, place: MasterWindow) -> TeamRun | None:
        """The live run of that window, on that instance of the tmux server."""
        return next((run for run in await self.runs_at(place) if run.live), None)

    async def runs_at(self, place: MasterWindow) -> list[TeamRun]:
        """All runs that this window has had: a restarted tmux server reuses window ids."""
        server = await asyncio.to_thread(lambda: tmux(place.socket).identity())
        here = {"window_id": place.pane.window_id, "server_pid": server.pid, "server_start": server.start_time}
        return [run for run in self._roster.runs.values() if here.items() <= run.file.items()]

    async def run_for(self, place: MasterWindow, master: dict[str, Any] | None) -> TeamRun:
        """The live run of that window, or a new run; the caller's pane (and its CLI, if it is one) leads it now."""
        async with self._making:
            run = await self.run_at(place)
            if run is None:
                return await self._new_run(place, master)
            await self.led_from(run, place, master)
            return run

    async def led_from(self, run: TeamRun, place: MasterWindow, master: dict[str, Any] | None) -> None:
        """Record in run.json the pane and the CLI (`masters.master_of`) that lead the run from now on.

        Without a CLI only the pane changes. Written only on a change; a new CLI starts with nothing read. Raises the
        disk's error if it cannot be written, and then changes nothing.
        """
        now: dict[str, Any] = {"master_pane": place.pane.pane_id}
        before = run.file.get("master") or {}
        other = master is not None and any(master[key] != before.get(key) for key in ("pid", "start"))
        if master is not None:
            now["master"] = {**master, "client": master["client"] or ("" if other else before.get("client", ""))}
        if all(run.file.get(key) == value for key, value in now.items()):
            return
        async with self.lock(run):
            old = run.file
            run.file = {**old, **now}
            try:
                await asyncio.to_thread(run.save)
            except OrchestratorError:
                run.file = old
                raise
        if other:
            log.info("a master leads", run=run.run_id, **now)
            run.new_master()

    async def run_of_fleet(self, run_id: str, home: str) -> TeamRun:
        """The run of that id with a window here: its own, or a session outside tmux if its home is another host.

        That session is made again if it has ended. ``home`` is the host whose master leads the run. A run that is new
        here notes it: also this host is the home only once it has written the broadcast (`fleet.run_homes`).
        """
        check_id(run_id, "run_id")  # it comes from another host, and becomes a path
        async with self._making:
            run = self._roster.runs.get(run_id)
            if run is not None and run.live and (self._is_here(home) or not await self._gone(run)):
                return run
            name = self.detached.name(run_id)
            place = await asyncio.to_thread(self.detached.window, make=True, name=name, shown=self._program(home))
            assert place is not None
            if run is None:
                return await self._new_run(place, None, run_id, home)
            async with self.lock(run):
                await self._move(run, place)
            return run

    async def _new_run(
        self, place: MasterWindow, master: dict[str, Any] | None, run_id: str = "", home: str = ""
    ) -> TeamRun:
        roster = self._roster
        now = roster.clock.now()
        run_id = run_id or f"run-{now:%Y%m%d-%H%M%S}-{entropy.token_hex(3)}"
        server = await asyncio.to_thread(lambda: tmux(place.socket).identity())
        path = await asyncio.to_thread(
            lambda: tmux(place.socket).run("display-message", "-p", "-t", place.pane.pane_id, "#{socket_path}")
        )
        file: dict[str, Any] = {
            "v": 1,
            "run_id": run_id,
            "created_at": rfc3339(now),
            "tmux_socket": path,
            "tmux_name": place.socket.name,
            "server_pid": server.pid,
            "server_start": server.start_time,
            "window_id": place.pane.window_id,
            "master_pane": place.pane.pane_id,
            "master": master,
            "session": place.pane.session_name,
            "detached": place.detached,
            "changed": None,
            "agents": {},
            "ended_at": None,
        }
        if home:
            file["home"] = home
        roster.begin_writing()
        config = roster.config()
        make = partial(new_run, segment_bytes=config.segment_bytes)
        run = await asyncio.to_thread(make, roster.paths, run_id, file, roster.syncer, config.durability)
        roster.runs[run_id] = run
        return run

    async def save(self, run: TeamRun) -> None:
        """Write run.json after a change in tmux; a write that the disk refuses is retried later."""
        try:
            await asyncio.to_thread(run.save)
        except OrchestratorError as error:
            log.warning("run.json delayed", run=run.run_id, **error.as_dict())
            if run.run_id not in self._late:
                self._late[run.run_id] = asyncio.get_running_loop().create_task(self._save_late(run))

    async def _save_late(self, run: TeamRun) -> None:
        saved = False
        while not saved:
            await elapse(SAVED_AGAIN_S, self._roster.clock)
            with contextlib.suppress(OrchestratorError):
                async with self.lock(run):
                    await asyncio.to_thread(run.save)
                saved = True
        del self._late[run.run_id]

    @staticmethod
    def socket_of(run: TeamRun) -> TmuxSocket:
        return TmuxSocket(path=run.file["tmux_socket"])

    async def same_server(self, run: TeamRun) -> bool:
        """Whether the run's tmux server still runs; a restarted server reuses pane ids."""
        try:
            server = await asyncio.to_thread(lambda: tmux(self.socket_of(run)).identity())
        except Environment:
            return False
        return (server.pid, server.start_time) == (run.file["server_pid"], run.file["server_start"])

    async def standing(self, run: TeamRun) -> bool:
        """Whether the run's tmux server runs and is not being killed: then a pane that is gone was closed by hand."""
        try:
            return await self.same_server(run) and not await asyncio.to_thread(tmux(self.socket_of(run)).ending)
        except Environment as error:
            if error.facts.get("server_gone"):
                return False
            raise

    def _is_here(self, home: str) -> bool:
        fleet = self._roster.fleet
        return not home or (fleet is not None and home == fleet.host)

    def _program(self, home: str) -> Sequence[str]:
        """The broadcast is written at the home; elsewhere this host's own agents can be shown."""
        return FOLLOW if self._is_here(home) else WATCH

    def lock(self, run: TeamRun) -> asyncio.Lock:
        """The lock for reading and changing the run's panes and our changes to its window."""
        return self._locks.setdefault(run.run_id, asyncio.Lock())

    # -- a window that is gone ----------------------------------------------------------------------------------

    async def ready_for(self, run: TeamRun, agent_id: str, *, now: bool = True) -> str:
        """Prepare a new pane for an agent whose pane is gone; "" or why none can be made.

        Our own session outside tmux is recreated if it has ended, unless no pane is wanted ``now``; a window of the
        user is not.
        """
        async with self.lock(run):
            gone, home = await self._gone(run), str(run.file.get("home") or "")
            if gone and not (run.file["detached"] or home):
                return gone
            if gone and now:  # one that was adopted has no session yet
                name = run.file["session"] or self.detached.name(run.run_id)
                place = await asyncio.to_thread(self.detached.window, make=True, name=name, shown=self._program(home))
                assert place is not None
                await self._move(run, place)
            if run.file["agents"].pop(agent_id, None) is not None:
                await asyncio.to_thread(run.save)
        return ""

    async def _gone(self, run: TeamRun) -> str:
        if not await self.same_server(run):
            return "the tmux server is gone"
        try:
            await asyncio.to_thread(panes.list_panes, self.socket_of(run), run.file["window_id"])
        except Environment as error:
            if error.facts.get("missing"):
                return "its window is gone"
            raise
        return ""

    async def go_on_at(self, run: TeamRun, origin: ConnectionOrigin) -> None:
        """Ensure that the run has a window: its own, else the caller's; Conflict if another team works in that."""
        async with self._making:
            if not await self._gone(run):
                return
            place = await self.place_of(origin, make=True)
            assert place is not None
            there = await self.run_at(place)
            if there is not None and there is not run:
                raise Conflict(
                    "window_taken", f"this window belongs to {there.run_id}; {run.run_id} cannot continue here"
                )
            async with self.lock(run):
                await self._move(run, place)

    async def _move(self, run: TeamRun, place: MasterWindow) -> None:
        server = await asyncio.to_thread(lambda: tmux(place.socket).identity())
        shown = ("display-message", "-p", "-t", place.pane.pane_id, "#{socket_path}")
        run.file |= {
            "tmux_socket": await asyncio.to_thread(lambda: tmux(place.socket).run(*shown)),
            "tmux_name": place.socket.name,
            "server_pid": server.pid,
            "server_start": server.start_time,
            "window_id": place.pane.window_id,
            "master_pane": place.pane.pane_id,
            "session": place.pane.session_name,
            "detached": place.detached,
            "changed": None,
            "windows": [],
            # The panes of the old server are gone; on the new server their ids may belong to other panes.
            "agents": dict.fromkeys(run.file["agents"], ""),
            "ended_at": None,
        }
        await asyncio.to_thread(run.save)
        log.info("a run continues in another window", run=run.run_id, window=place.pane.window_id)

    # -- the end of a run ---------------------------------------------------------------------------------------

    async def end_if_empty(self, run: TeamRun) -> None:
        """End the run if its last agent has left; no agent can enter it meanwhile."""
        async with self.placing:
            await self.end_run_of_nobody(run)

    async def end_run_of_nobody(self, run: TeamRun) -> None:
        """As `end_if_empty`, for a caller that holds ``placing``.

        Our changes to the window are reverted, and our own session is ended.
        """
        async with self.lock(run):
            fleet = self._roster.fleet
            awaited = fleet is not None and fleet.creating(run.run_id)
            if not run.live or awaited or any(entry.live for entry in self._roster.members(run.run_id)):
                return
            if await self.same_server(run):
                socket = self.socket_of(run)
                window, changed = run.file["window_id"], run.file["changed"]
                # If members are still shown, the window is restored when the last of them is hidden.
                if changed is not None and not await asyncio.to_thread(member_tags.list_members, socket, window):
                    await asyncio.to_thread(borders.restore_window, socket, window, changed)
                await self.leave_windows(run)
                if run.file["detached"]:
                    await asyncio.to_thread(splits.end_detached, socket, run.file["session"])
            failpoints.passed("window:restored")
            run.file["changed"] = None
            run.file["ended_at"] = rfc3339(self._roster.clock.now())
            await self.save(run)

    async def leave_windows(self, run: TeamRun) -> None:
        """Restore the further windows that no agent of the run is in any more. The caller holds `lock`."""
        further: list[str] = run.file.get("windows", [])
        if not further:
            return
        socket, ours = self.socket_of(run), set(run.file["agents"].values())
        try:
            every = await asyncio.to_thread(panes.list_panes, socket)
        except Environment as error:
            if error.facts.get("server_gone"):
                return
            raise
        held = {info.window_id for info in every if info.pane_id in ours}
        for window_id in [window_id for window_id in further if window_id not in held]:
            await asyncio.to_thread(borders.restore_window, socket, window_id)
            further.remove(window_id)

    async def end_abandoned_session(self) -> None:
        """After a start that was not clean: end our session outside tmux unless a run may live in it.

        Its daemon died before it could make the run.
        """
        roster = self._roster
        async with self.placing:  # an agent being created makes a run in it
            # A run that cannot be read may be the one that lives in our session.
            if roster.corrupt or any(run.live for run in roster.runs.values()):
                return
            try:
                # A second daemon of the project, from another run directory, makes its runs in the same session.
                roster.keep_claim()
                await self.detached.end(process_facts.start_time(os.getpid()))
            except OrchestratorError as error:
                log.warning("our session outside tmux was not ended", **error.as_dict())
            except Exception:
                log.exception("bug while ending our session outside tmux")
