"""Holds the turn-end hook of an idle master until its team has news, which saves model turns.

Only for the CLI that leads a live run; other hooks are answered at once. What a master has been shown is kept in
memory per run: after a restart of the daemon news may be repeated but never lost, and a new master gets all of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.base.waiting import call_off, wait_until
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.core.screens import Screen
from orchestrator.engines.definition import Engine
from orchestrator.engines.table import ENGINES, engine_of_client
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.masters import MasterConnection, master_of
from orchestrator.team.wake.parking import HookChannel, HookEvent

log = structlog.get_logger()

NEWS = TERMINAL | {"failed", "blocked", "stalled", "exited", "late"}
"""Records that wake a master; it reads other records when it looks."""
LOOK_EVERY_S = 2.0
HOLD_S = 12 * 3600.0


@dataclass(eq=False)
class _HeldMaster:
    run: TeamRun
    channel: HookChannel
    row: Engine | None
    task: asyncio.Task[None] | None = None


class HeldMasters:
    """The held masters of a roster. ``leaders`` lists the connections of masters right now."""

    def __init__(
        self, roster: Roster, team_panes: TeamPanes, leaders: Callable[[], Iterable[MasterConnection]]
    ) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._leaders = leaders
        self._held: dict[str, _HeldMaster] = {}
        self._tasks = BackgroundTasks()
        self._closed = False

    async def close(self) -> None:
        """Stop answering: the hooks reconnect to the next daemon."""
        self._closed = True
        await call_off(self._tasks)

    async def heard(self, origin: ConnectionOrigin, channel: HookChannel, hook_event: HookEvent) -> None:
        """Handle one event of a CLI that is no agent; answered at once unless the CLI leads a live, busy run."""
        if self._closed:
            return
        kind = next(
            (row.hook_events[hook_event.event] for row in ENGINES.values() if hook_event.event in row.hook_events), ""
        )
        if kind not in ("turn_end", "prompt", "interrupt") or not any(run.live for run in self._roster.runs.values()):
            channel.none()
            return
        leader = self._leader(origin)
        run = await self._run_of(leader) if leader is not None else None
        if leader is None or run is None:
            channel.none()
        elif kind != "turn_end":
            self._let_go(run)
            channel.none()
        else:
            self._turn_ended(run, leader, channel)

    def gone(self, channel: HookChannel) -> None:
        """The connection ended."""
        channel.answered = True
        if self._closed:
            return
        for held in list(self._held.values()):
            if held.channel is channel:
                self._let_go(held.run)

    # -- who leads ----------------------------------------------------------------------------------------------

    def _leader(self, origin: ConnectionOrigin) -> MasterConnection | None:
        """The master whose CLI started this hook; at most one shell may be between the CLI and its hook or relay."""
        return next((leader for leader in self._leaders() if _same_cli(origin.pids, leader.origin.pids)), None)

    async def _run_of(self, leader: MasterConnection) -> TeamRun | None:
        try:
            place = await self._team_panes.place_of(leader.origin, make=False)
            run = await self._team_panes.run_at(place) if place is not None else None
            if place is not None and run is not None:
                await self._team_panes.led_from(run, place, master_of(leader.origin, leader.name))
            return run
        except OrchestratorError as error:
            log.warning("a master's hook was answered at once: its run was not found", **error.as_dict())
            return None

    # -- the end of a turn --------------------------------------------------------------------------------------

    def _turn_ended(self, run: TeamRun, leader: MasterConnection, channel: HookChannel) -> None:
        self._let_go(run)
        news = self._news(run)
        if news is not None:
            self._wake(run, channel, news)
        elif not self._expects(run):
            log.info("a master's turn has ended: no news to wait for", run=run.run_id)
            channel.none()
        else:
            log.info("a master's turn has ended: held until its team has news", run=run.run_id)
            row = engine_of_client(leader.name)
            held = self._held[run.run_id] = _HeldMaster(run, channel, row)
            held.task = self._tasks.start(self._hold(held))

    def _expects(self, run: TeamRun) -> bool:
        """Whether news may come: an agent is working, or its last end is not in the broadcast yet."""
        entries = self._roster.members(run.run_id)
        at_work = any(entry.live and entry.state.unfinished for entry in entries)
        return run.live and (at_work or self._roster.has_unwritten(run))

    def _news(self, run: TeamRun) -> dict[str, Any] | None:
        """The first record after the master's position that is worth a turn."""
        seq = max(run.read, run.woken)
        while True:
            records, more = run.journal.since(seq, 200, 1 << 20)
            for record in records:
                known = record["ref"] <= run.read_of.get(record["agent_id"], 0)
                if record["type"] in NEWS and not known:
                    return record
            if not more or not records:
                return None
            seq = records[-1]["seq"]

    async def _hold(self, held: _HeldMaster) -> None:
        run, clock = held.run, self._roster.clock
        until = clock.monotonic() + HOLD_S

        def look() -> bool | None:
            return True if self._news(run) is not None or not self._expects(run) else None

        while True:
            pause = LOOK_EVERY_S if held.row is not None and held.row.human_queued else HOLD_S
            await wait_until(look, run.journal.signal, min(until, clock.monotonic() + pause), clock)
            news = self._news(run)
            if news is not None:
                self._held.pop(run.run_id, None)
                self._wake(run, held.channel, news)
                return
            if clock.monotonic() >= until or not self._expects(run) or await self._human(held):
                self._held.pop(run.run_id, None)
                log.info("a master is held no longer", run=run.run_id)
                held.channel.release()
                return

    async def _human(self, held: _HeldMaster) -> bool:
        """Whether a person's message waits in the queue of the master's CLI, or its turn has already ended (Esc)."""
        row = held.row
        if row is None:
            return False
        screen = await self._team_panes.look_at_master(held.run)
        return screen is not None and wants_out(row, screen)

    def _wake(self, run: TeamRun, channel: HookChannel, news: dict[str, Any]) -> None:
        run.woken = run.journal.visible_seq  # only once: a model that does not read must not loop
        log.info("a master is woken", run=run.run_id, seq=news["seq"])
        channel.wake(news_message(run.run_id, run.read, news))

    def _let_go(self, run: TeamRun) -> None:
        held = self._held.pop(run.run_id, None)
        if held is not None:
            if held.task is not None:
                held.task.cancel()
            held.channel.release()


def _same_cli(hook: Sequence[int], relay: Sequence[int]) -> bool:
    """Whether both have the same parent, ignoring one shell of either; a common shell is not enough."""
    return bool(relay and hook) and (relay[0] in hook[:2] or hook[0] in relay[:2])


def wants_out(row: Engine, screen: Screen) -> bool:
    """Whether the screen of a held CLI shows that a person waits for it."""
    return row.human_waits(screen) or bool(row.title_idle and re.search(row.title_idle, screen.title))


def news_message(run_id: str, since: int, news: dict[str, Any]) -> str:
    """The message that wakes a master: where to read, and one example; never an agent's own text."""
    kind = "a late end" if news["type"] == "late" else str(news["type"])
    what = f"{kind} of task {news['task_id']}" if news.get("task_id") else kind
    return (
        f"Your team has news: agent {news['agent_id']}: {what}. "
        f'Call broadcast_read with since_seq={since} and run_id="{run_id}", then continue.'
    )
