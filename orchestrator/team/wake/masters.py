"""Which CLI leads a team run, and what happens to the team when that CLI has ended.

The CLI's process is recorded in run.json (pid and start time), so that a later daemon detects its end too. Looks
at processes; accesses panes and files only through `run_windows`. Ends agents by a callback, as agent_delete does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.platform import process_facts, processes
from orchestrator.base.waiting import call_off, elapse
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.team.panes.detached_session import MasterWindow
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.trust.relay_holders import SHELLS

log = structlog.get_logger()

LOOK_EVERY_S = 2.0
GONE = "the master has gone"
"""The reason in the stop records of a team that ends with its master."""


@dataclass(frozen=True)
class MasterConnection:
    """A master's connection: the name of its CLI and where it comes from."""

    name: str
    origin: ConnectionOrigin


def master_of(origin: ConnectionOrigin, client: str) -> dict[str, Any] | None:
    """The CLI of a master's connection, as in run.json; None for any other connection or if the CLI has ended.

    It is the relay's parent, or the parent of the shell if the CLI started the relay with ``sh -c``.
    """
    if not origin.leads or not origin.pids:
        return None
    pid = origin.pids[0]
    if len(origin.pids) > 1 and _carries(pid, origin.pids[1]):
        pid = origin.pids[1]
    start = process_facts.start_time(pid)
    return None if start is None else {"pid": pid, "start": start, "client": client}


def _carries(pid: int, parent: int) -> bool:
    """Whether the process is a shell that its parent started for one command, in its own session."""
    words = processes.command_of(pid).split(" ")
    if os.path.basename(words[0]) not in SHELLS or not words[1:2] or words[1] != "-c":  # noqa: PTH119 - one word
        return False
    try:
        return os.getsid(pid) == os.getsid(parent)
    except OSError:
        return False


def judge(
    policy: Literal["keep", "stop"], *, other: bool, gone_s: float, grace_s: float
) -> Literal["follow", "keep", "wait", "stop"]:
    """What to do about a run whose master has been gone for ``gone_s``; ``other``: another CLI is in its window.

    Pure. ``follow``: the other CLI leads now. ``keep``: the team continues without a master. ``wait``: a master may
    still come.
    """
    if other:
        return "follow"
    if policy == "keep":
        return "keep"
    return "stop" if gone_s >= grace_s else "wait"


@dataclass
class _LostMaster:
    """A master that is gone: its process, since when (monotonic), and the policy when that was logged."""

    master: tuple[int, int]
    since: float
    policy: str = ""


class Masters:
    """The masters of a roster's runs. ``leaders`` lists their connections now; ``stop`` asks one agent to end."""

    def __init__(
        self,
        roster: Roster,
        team_panes: TeamPanes,
        leaders: Callable[[], Iterable[MasterConnection]],
        stop: Callable[[AgentEntry], Awaitable[None]],
    ) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._leaders = leaders
        self._stop = stop
        self._used: dict[str, set[str]] = {}  # connection -> the runs it is known to use
        self._gone: dict[str, _LostMaster] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start checking the masters, every `LOOK_EVERY_S`."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._watch()))

    async def close(self) -> None:
        """Stop checking."""
        await call_off(self._tasks)

    async def used(self, leader: MasterConnection, run: TeamRun | None) -> None:
        """Note that a connection uses a run: a master in the run's own window leads the run from now on.

        tmux is asked once per connection and run; a failed query or write changes nothing.
        """
        conn = leader.origin.conn
        if run is None or not run.live or not leader.origin.leads or run.run_id in self._used.get(conn, ()):
            return
        self._used.setdefault(conn, set()).add(run.run_id)
        try:
            place = await self._place_in(run, leader.origin)
            if place is not None:
                await self._team_panes.led_from(run, place, master_of(leader.origin, leader.name))
        except OrchestratorError as error:
            self._used[conn].discard(run.run_id)
            log.warning("a run's master was not noted", run=run.run_id, **error.as_dict())

    async def _place_in(self, run: TeamRun, origin: ConnectionOrigin) -> MasterWindow | None:
        """The connection's pane if it is in the run's window."""
        place = await self._team_panes.place_of(origin, make=False)
        return place if place is not None and await self._team_panes.run_at(place) is run else None

    # -- the end of a master ------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await elapse(LOOK_EVERY_S, self._roster.clock)
            try:
                await self.look()
            except OrchestratorError as error:
                # tmux hangs or the disk is full: checked again later; every decision made is written.
                log.warning("masters not looked after", **error.as_dict())
            except Exception:
                log.exception("bug while looking after masters")

    async def look(self) -> None:
        """Check the master of every live run once, and act if it has ended."""
        connected = {leader.origin.conn for leader in self._leaders()}
        self._used = {conn: runs for conn, runs in self._used.items() if conn in connected}
        live = {run.run_id for run in self._roster.runs.values() if run.live and run.file.get("master")}
        self._gone = {run_id: gone for run_id, gone in self._gone.items() if run_id in live}
        for run_id in sorted(live):
            await self._look_at(self._roster.runs[run_id])

    async def _look_at(self, run: TeamRun) -> None:
        config, now = self._roster.config(), self._roster.clock.monotonic()
        master = (int(run.file["master"]["pid"]), int(run.file["master"]["start"]))
        if process_facts.alive(*master):
            self._gone.pop(run.run_id, None)
            return
        gone = self._gone.get(run.run_id)
        if gone is None or gone.master != master:
            gone = self._gone[run.run_id] = _LostMaster(master, now)
        if gone.policy == config.on_master_exit == "keep":
            return  # already logged; the next master is noted when it uses the run
        follower = await self._follower(run)
        if follower is not None:
            await self._team_panes.led_from(run, *follower)
        verdict = judge(
            config.on_master_exit,
            other=follower is not None,
            gone_s=now - gone.since,
            grace_s=config.master_grace_s,
        )
        if verdict == "follow":
            return
        if gone.policy != config.on_master_exit:
            log.info("a run's master has gone", run=run.run_id, pid=master[0], on_master_exit=config.on_master_exit)
            gone.policy = config.on_master_exit
        if verdict == "stop":
            await self._end_team(run)

    async def _follower(self, run: TeamRun) -> tuple[MasterWindow, dict[str, Any]] | None:
        """Another living CLI in the run's window, the newest connection first."""
        for leader in reversed(list(self._leaders())):
            master = master_of(leader.origin, leader.name)
            if master is None:
                continue
            try:
                place = await self._place_in(run, leader.origin)
            except OrchestratorError:
                continue  # its pane cannot be known, or its tmux server is gone
            if place is not None:
                return place, master
        return None

    async def _end_team(self, run: TeamRun) -> None:
        agents = [entry for entry in self._roster.members(run.run_id) if entry.live]
        for entry in agents:
            if not entry.state.stop_asked:
                log.info("an agent is ended: its master has gone", run=run.run_id, agent=entry.agent_id)
                await self._stop(entry)
