"""The border line above each agent's pane: its text, and its update soon after a change.

Writes lines through `tmux.borders`, and only in windows whose borders we turned on.
"""

from __future__ import annotations

import asyncio

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Timer
from orchestrator.base.errors import OrchestratorError
from orchestrator.core import glyphs
from orchestrator.core.attention import NEEDS_HUMAN, said, state_word
from orchestrator.core.glyphs import STATUS, status_sign
from orchestrator.core.inbox_items import in_order, recorded_items
from orchestrator.core.task_words import short_line
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster import agent_names
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import status_of, title_of_task
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import borders
from orchestrator.tmux.borders import BorderLine

log = structlog.get_logger()

EVERY_S = 0.25
REASON_MAX = 60
TITLE_MAX = 40


class BorderLines:
    """Keeps the border lines of a roster's live runs up to date."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._shown: dict[str, BorderLine] = {}
        self._due: Timer | None = None
        self._tasks = BackgroundTasks()

    def repaint(self, _entry: AgentEntry | None = None) -> None:
        """Update the border lines soon; many changes share one tmux call."""
        if self._due is None:
            self._due = self._roster.clock.timer(EVERY_S, self._start)

    def _start(self) -> None:
        self._due = None
        self._tasks.start(self._paint())

    async def _paint(self) -> None:
        agents = [entry.state for entry in self._roster.agents.values() if entry.live]
        names = agent_names.shown_names(agent_names.rows_of(agents))
        for run in list(self._roster.runs.values()):
            if not run.live or (run.file["changed"] is None and not run.file.get("windows")):
                continue
            lines: dict[str, BorderLine] = {}
            for agent_id, pane_id in run.file["agents"].items():
                entry = self._roster.agents.get(agent_id)
                if entry is not None:
                    status, reason = status_of(entry, self._roster.clock)
                    line = border_line(entry, status, reason, name=names.get(agent_id, agent_id))
                    if self._shown.get(pane_id) != line:
                        lines[pane_id] = line
            if not lines:
                continue
            try:
                await asyncio.to_thread(borders.set_line, TeamPanes.socket_of(run), lines)
                self._shown.update(lines)
            except OrchestratorError as error:
                log.debug("border lines not painted", run=run.run_id, **error.as_dict())

    def close(self) -> None:
        """Stop updating."""
        if self._due is not None:
            self._due.cancel()
        self._tasks.cancel()


def border_line(entry: AgentEntry, status: str, reason: str = "", *, name: str = "") -> BorderLine:
    """The line above the pane: the agent's name or id, state, what it waits for, task, queue depth, role. Pure.

    Sign, word and colour are the same in all faces. The most important part comes first, because a narrow pane cuts
    the end: if the agent needs somebody, this is the sign.
    """
    state = entry.state
    waits = next((item for item in in_order(recorded_items(state)) if item.holds), None)
    name, color = name or entry.agent_id, ""
    if status in NEEDS_HUMAN or waits is not None:
        glyph = STATUS[status] if status == "failed" else glyphs.NEEDS_HUMAN
        word = state_word({"status": status, "needs_human": True, "waits_for": waits and {"kind": waits.kind}})
        why = waits.text if waits is not None else reason
        color = glyph.color
        parts = [f"{glyph.sign} {name}", said(word, why if len(why) <= REASON_MAX else why[: REASON_MAX - 1] + "…")]
    else:
        parts = [name, f"{status_sign(status)} {status}"]
    lease = state.lease
    if lease is not None:
        title = short_line(title_of_task(lease), TITLE_MAX)
        parts.append(title + (" (cancel requested)" if lease.cancel_requested else ""))
    queued = len(state.unfinished) - (1 if lease is not None else 0)
    if queued:
        parts.append(f"{queued} queued")
    parts.append(str(state.spec.get("role", "")))
    return BorderLine(" " + " · ".join(part for part in parts if part) + " ", color)
