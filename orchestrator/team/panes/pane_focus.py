"""With layout = "focus": which agent of a window has the large pane, and the change when it disturbs no person.

Acts on tmux through `team_panes`; moves no cursor and makes no pane the active one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Timer
from orchestrator.base.errors import OrchestratorError
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import status_of
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import panes

log = structlog.get_logger()

EVERY_S = 0.25
AGAIN_S = 3.0
"""Pause before the next try while a person is in the window."""
TYPED_S = 10.0
"""How long after a key press a person counts as typing."""


class Candidate(NamedTuple):
    """An agent's pane in a window: whether it needs somebody or works, and since when (RFC 3339)."""

    pane_id: str
    needs: bool
    busy: bool
    since: str


def chosen(current: str, candidates: Sequence[Candidate]) -> str:
    """The pane that should be large: ``current`` as long as it exists and no other pane needs somebody more.

    Else the pane that has needed somebody longest, else the busy pane that has changed last; "" if no pane is
    preferred. Pure.
    """
    now = next((candidate for candidate in candidates if candidate.pane_id == current), None)
    needy = [candidate for candidate in candidates if candidate.needs]
    if now is not None and (now.needs or not needy):
        return current
    if needy:
        return min(needy, key=lambda candidate: candidate.since).pane_id
    busy = [candidate for candidate in candidates if candidate.busy]
    return max(busy, key=lambda candidate: candidate.since).pane_id if busy else ""


class PaneFocus:
    """Keeps the large panes of a roster's live runs where they are needed."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._settled: dict[str, list[Candidate]] = {}  # by run id: what the panes are arranged for
        self._due: Timer | None = None
        self._tasks = BackgroundTasks()

    def seen(self, _entry: AgentEntry | None = None) -> None:
        """Note that an agent has changed; many changes share one look."""
        if self._roster.config().layout == "focus" and self._due is None:
            self._due = self._roster.clock.timer(EVERY_S, self._start)

    def _start(self) -> None:
        self._due = None
        self._tasks.start(self._look())

    async def _look(self) -> None:
        settled = True
        for run in [run for run in self._roster.runs.values() if run.live]:
            candidates = [
                self._candidate(self._roster.agents[agent_id], pane_id)
                for agent_id, pane_id in run.file["agents"].items()
                if pane_id and agent_id in self._roster.agents
            ]
            if self._settled.get(run.run_id) == candidates:
                continue
            try:
                done = await self._adjust(run, candidates)
            except OrchestratorError as error:
                log.debug("large pane not changed", run=run.run_id, **error.as_dict())
                done = False
            if done:
                self._settled[run.run_id] = candidates
            settled &= done
        if not settled and self._due is None:
            self._due = self._roster.clock.timer(AGAIN_S, self._start)

    def _candidate(self, entry: AgentEntry, pane_id: str) -> Candidate:
        agent = entry.state
        status, _ = status_of(entry, self._roster.clock)
        proof = agent.proofs.get({"stalled": "stalled", "busy": "lease"}.get(status, "life"))
        since = (
            agent.blocked.since if status == "blocked" and agent.blocked is not None else proof.at if proof else ""
        )
        return Candidate(pane_id, status in ("blocked", "stalled"), status == "busy", since)

    async def _adjust(self, run: TeamRun, candidates: Sequence[Candidate]) -> bool:
        """Make the chosen panes large; False if a person is in a window that should change."""
        team_panes = self._team_panes
        async with team_panes.lock(run):
            if not run.live or not await team_panes.same_server(run):
                return True
            socket = team_panes.socket_of(run)
            window_of = {info.pane_id: info.window_id for info in await asyncio.to_thread(panes.list_panes, socket)}
            since = self._roster.clock.now() - timedelta(seconds=TYPED_S)
            typed = await asyncio.to_thread(panes.typed_in, socket, since.timestamp())
            done, before = True, team_panes.large.get(run.run_id, {})
            large = team_panes.large[run.run_id] = {}
            for window in dict.fromkeys(window_of.values()):
                here = [candidate for candidate in candidates if window_of.get(candidate.pane_id) == window]
                now, old = chosen(before.get(window, ""), here), before.get(window, "")
                if not now:
                    continue
                large[window] = now
                if now == old:
                    continue
                disturbs = any(candidate.pane_id in typed for candidate in here)
                if disturbs or not await team_panes.arrange(run, window, unless_watched=True):
                    done = False
                    large[window] = old
            return done

    def close(self) -> None:
        """Stop changing panes."""
        if self._due is not None:
            self._due.cancel()
        self._tasks.cancel()
