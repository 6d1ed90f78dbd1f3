"""Agents that hold a task: records those that have stalled, and ends tasks that exceed their time limit.

It runs every `EVERY_S`, only while an agent holds a task. An agent is `stalled` when neither a call nor a change of
its screen was seen for `stall_after_s`; the state ends by itself. A task over its time limit is canceled softly, then
its agent is restarted. Durations are monotonic: clock changes and a sleeping machine do not affect them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from orchestrator.base.clock import Rounds, Timer, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.core import supervision
from orchestrator.core.screens import Screen
from orchestrator.team.life import launch_exits
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

EVERY_S = 1.0
LOOKS = 10
"""Number of looks at the screen within the time after which a silent agent is stalled; at most one in 30 s."""


@dataclass
class _Lease:
    """A task held by one launch; monotonic times."""

    key: tuple[str, int, int]  # task, attempt, epoch
    began: float
    asked: float | None = None  # when the agent could first learn of its cancel
    moved: float = 0.0  # when its screen last changed
    looked: float | None = None
    picture: bytes = b""

    def missed(self, seconds: float) -> None:
        """Ignore these seconds without a look, for silence and for the grace of a cancel.

        They count for the task's time limit, as time without a daemon does.
        """
        self.moved += seconds
        if self.asked is not None:
            self.asked += seconds


class Deadlines:
    """The leases of a roster's agents; ``tend`` is called for an agent whose launch must end."""

    def __init__(self, roster: Roster, team_panes: TeamPanes, tend: Callable[[AgentEntry], None]) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._tend = tend
        self._leases: dict[str, _Lease] = {}
        self._rounds = Rounds(roster.clock, EVERY_S)
        self._due: Timer | None = None
        self._look: asyncio.Task[None] | None = None
        self._closed = False

    def seen(self, _entry: AgentEntry) -> None:
        """Note that an agent has changed: it may hold a task."""
        self._arm()

    async def close(self) -> None:
        """Stop looking."""
        self._closed = True
        if self._due is not None:
            self._due.cancel()
        if self._look is not None:
            await call_off([self._look])

    def _arm(self) -> None:
        if self._due is None and not self._closed:
            self._due = self._rounds.begin(self._tick)

    def _lease(self, entry: AgentEntry) -> _Lease | None:
        agent, clock = entry.state, self._roster.clock
        task = agent.lease
        if task is None or agent.life != "ready":
            self._leases.pop(entry.agent_id, None)
            return None
        key = (task.task_id, task.attempt, agent.epoch)
        lease = self._leases.get(entry.agent_id)
        if lease is None or lease.key != key:
            now = clock.monotonic()
            # While no daemon ran, time counts for the task's limit, not for silence.
            lease = _Lease(key, now - launch_exits.seconds_since(task.lent or "", clock.now()), moved=now)
            self._leases[entry.agent_id] = lease
        return lease

    def _tick(self) -> None:
        self._due = None
        missed_s = self._rounds.missed_s()
        if missed_s:
            for held in self._leases.values():
                held.missed(missed_s)
            self._arm()
            return
        looks: list[tuple[AgentEntry, _Lease]] = []
        for agent_id, entry in self._roster.agents.items():
            lease = self._lease(entry)
            if lease is None or self._held(entry):
                continue
            try:
                self._overtime(entry, lease)
                if self._silent(entry, lease):
                    looks.append((entry, lease))
            except OrchestratorError as error:
                log.warning("a task's time was not looked after", agent=agent_id, **error.as_dict())
        if looks and (self._look is None or self._look.done()):
            self._look = asyncio.get_running_loop().create_task(self._look_at(looks))
        if self._leases:
            self._arm()

    def _held(self, entry: AgentEntry) -> bool:
        """Whether nothing may be recorded of an agent, because it is not clear whose it is or what it has done."""
        return bool(entry.state.fleet) and (self._roster.fleet is None or self._roster.fleet.holds(entry))

    def _at(self) -> str:
        return rfc3339(self._roster.clock.now())

    # -- tasks with a time limit --------------------------------------------------------------------------------

    def _overtime(self, entry: AgentEntry, lease: _Lease) -> None:
        task, now = entry.state.lease, self._roster.clock.monotonic()
        if task is None or task.timeout_s is None:
            return
        if task.cancel_requested and lease.asked is None:
            lease.asked = now
        drafts = supervision.overtime(
            entry.state,
            at=self._at(),
            ran_s=now - lease.began,
            asked_s=None if lease.asked is None else now - lease.asked,
            grace_s=self._roster.config().timeout_grace_s,
        )
        if drafts:
            self._roster.write(entry, drafts)
            log.info("a task is out of time", agent=entry.agent_id, task=task.task_id, then=drafts[0].type)
            if supervision.must_end(entry.state):
                self._tend(entry)

    # -- silence ------------------------------------------------------------------------------------------------

    def _stall_after_s(self, entry: AgentEntry) -> float:
        row = entry.engine
        own = entry.state.policies.get("stall_after_s")
        configured = float(own) if own is not None else self._roster.config().stall_after_s
        return max(configured, row.stall_after_s) if row is not None else configured

    def _silent(self, entry: AgentEntry, lease: _Lease) -> bool:
        """Whether a look at the screen is due; never for an agent whose silence is already explained."""
        now, limit = self._roster.clock.monotonic(), self._stall_after_s(entry)
        if entry.waiting is not None or entry.state.blocks or entry.pane_id is None:
            lease.moved = now
            return False
        pace = min(limit / LOOKS, 30.0)
        # The first look comes soon: later looks are compared with it.
        due = now - lease.looked >= pace if lease.looked is not None else now - lease.moved >= EVERY_S
        return due and now - (entry.last_call or 0.0) >= EVERY_S

    async def _look_at(self, wanted: list[tuple[AgentEntry, _Lease]]) -> None:
        for run_id in dict.fromkeys(entry.run_id for entry, _ in wanted):
            run = self._roster.runs.get(run_id)
            members = [(entry, lease) for entry, lease in wanted if entry.run_id == run_id]
            seen = await self._team_panes.look(run, [entry for entry, _ in members]) if run is not None else {}
            for entry, lease in members:
                screen = seen.get(entry.agent_id)
                if screen is None or screen.dead or self._leases.get(entry.agent_id) is not lease:
                    continue  # an unseen screen does not count as unchanged
                try:
                    self._judge(entry, lease, screen)
                except OrchestratorError as error:
                    log.warning("a silent agent was not recorded", agent=entry.agent_id, **error.as_dict())

    def _judge(self, entry: AgentEntry, lease: _Lease, screen: Screen) -> None:
        now = self._roster.clock.monotonic()
        picture = hashlib.sha256("\n".join(screen.lines).encode("utf-8", "surrogatepass")).digest()
        moved = bool(lease.picture) and picture != lease.picture
        if moved or not lease.picture:
            lease.moved = now
        lease.picture, lease.looked = picture, now
        if moved:
            self._roster.write(
                entry, supervision.recovered(entry.state, at=self._at(), reason="its screen has changed")
            )
        still = now - max(lease.moved, entry.last_call or 0.0)
        limit = self._stall_after_s(entry)
        if still >= limit:
            reason = f"no call and no change on its screen for {limit:g} s"
            self._roster.write(entry, supervision.stalled(entry.state, at=self._at(), reason=reason))
