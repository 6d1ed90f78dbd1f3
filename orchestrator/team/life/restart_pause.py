"""When an agent may be restarted: its restart budget, and the timer for the pause before the next launch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from orchestrator.base.clock import Timer, rfc3339
from orchestrator.core import supervision
from orchestrator.team.life.launch_exits import seconds_since
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster


class RestartPauses:
    """The pauses of a roster's agents; ``tend`` is called when a pause is over."""

    def __init__(self, roster: Roster, tend: Callable[[AgentEntry], None]) -> None:
        self._roster = roster
        self._tend = tend
        self._timers: dict[str, Timer] = {}

    def budget(self, entry: AgentEntry) -> supervision.RestartBudget:
        """The restarts that the agent's policy allows now."""
        config = self._roster.config()
        window = float(entry.state.policies.get("restart_window_s", config.restart_window_s))
        began = self._roster.clock.now() - timedelta(seconds=window)
        return supervision.RestartBudget(rfc3339(began), config.restart_backoff_s)

    def left(self, entry: AgentEntry, budget: supervision.RestartBudget) -> float:
        """Seconds until the next launch may begin; `tend` is called again then. Counted once per exit."""
        clock, agent = self._roster.clock, entry.state
        due = entry.relaunch_at
        pause = supervision.pause_s(agent, budget)
        if agent.restart_due or not pause:
            due = None
        elif due is None or due[0] != agent.epoch:
            # The daemon may have been down meanwhile; a changed clock never makes the pause longer.
            since = seconds_since(str((agent.exited or {}).get("at", "")), clock.now())
            due = (agent.epoch, clock.monotonic() + max(0.0, pause - since))
        entry.relaunch_at = due
        wait_s = 0.0 if due is None else due[1] - clock.monotonic()
        timer = self._timers.pop(entry.agent_id, None)
        if timer is not None:
            timer.cancel()
        if wait_s > 0:
            self._timers[entry.agent_id] = clock.timer(wait_s, lambda: self._tend(entry))
            entry.changed.notify()
        return wait_s

    def close(self) -> None:
        """Stop waiting."""
        for timer in self._timers.values():
            timer.cancel()
