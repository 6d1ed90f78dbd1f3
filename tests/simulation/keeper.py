"""Makes the decisions of the supervisor, which drives tmux and stays out, by the same functions of `core.supervision`."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import timedelta
from typing import Any, Protocol

from orchestrator.base import entropy
from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.core import supervision
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

GRACE_S = 15.0


class Machine(Protocol):
    """Where CLIs run: ``clis`` has the last one of each agent."""

    chance: random.Random
    clock: Clock
    clis: dict[str, Any]

    def launch(self, agent_id: str, epoch: int, secret: str) -> None: ...


class Keeper:
    """Takes the next step of each agent of one daemon."""

    def __init__(self, machine: Machine, roster: Roster) -> None:
        self.machine = machine
        self.roster = roster
        self._again: dict[str, tuple[int, float]] = {}  # when the next launch may begin
        self._asked: dict[str, float] = {}  # since when an agent is to stop

    async def keep(self) -> None:
        """Take each agent's next step, again and again."""
        while True:
            await asyncio.sleep(0.05 + self.machine.chance.random() * 0.4)
            for entry in list(self.roster.agents.values()):
                with contextlib.suppress(OrchestratorError):  # the disk is full: decided, and tried again
                    await self._step(entry)

    async def _step(self, entry: AgentEntry) -> None:
        machine, agent, at = self.machine, entry.state, rfc3339(self.machine.clock.now())
        cli = machine.clis.get(entry.agent_id)
        here = cli is not None and cli.epoch == agent.epoch
        lives = here and cli.process.alive and not cli.given_up
        commit, now = self.roster.commit, machine.clock.monotonic()
        if agent.life in ("new", "deleted"):
            return
        fleet = self.roster.fleet
        if agent.fleet and (fleet is None or fleet.holds(entry)):
            return
        if agent.life == "stopped":
            if not agent.fleet or (fleet is not None and await fleet.all_taken(entry)):
                await commit(entry, supervision.deleted(entry.state, at=at))
        elif agent.stop_asked:
            since = self._asked.setdefault(entry.agent_id, now)
            if lives and not agent.stop_force and not entry.told_stop and now < since + GRACE_S:
                return
            if lives:
                cli.process.die()
            await commit(entry, supervision.stopped(agent, at=at, rungs=[supervision.EndingStep("stop", 1.0)]))
        elif agent.life in ("starting", "ready"):
            if how := supervision.must_end(agent):
                if lives:
                    cli.process.die()
                await commit(entry, supervision.exited(agent, at=at, how=how, reason=f"ended: {how}"))
            elif cli is None or cli.epoch < agent.epoch:
                entry.secret = entropy.token_hex(16)
                machine.launch(entry.agent_id, agent.epoch, entry.secret)
            elif not lives:
                await commit(entry, supervision.exited(agent, at=at, how="exit", reason="exited", code=1))
        else:
            await self._relaunch(entry, at, now)

    async def _relaunch(self, entry: AgentEntry, at: str, now: float) -> None:
        agent = entry.state
        window = timedelta(seconds=float(agent.policies.get("restart_window_s", 600.0)))
        budget = supervision.RestartBudget(rfc3339(self.machine.clock.now() - window), 1.0)
        epoch, due = self._again.get(entry.agent_id, (0, 0.0))
        if epoch != agent.epoch:
            due = now + supervision.pause_s(agent, budget)
            self._again[entry.agent_id] = (agent.epoch, due)
        if agent.restart_due or now >= due:
            await self.roster.commit(entry, supervision.after_exit(agent, at=at, budget=budget))
