"""Watches the screens of silent agents: records what blocks them, and fails a CLI that does not get ready.

It runs every `EVERY_S`, only while there are agents to watch: starting, silent, parked, or blocked by something on
their screen. One tmux invocation per run captures all of them. It never types and never decides that an agent is idle
or busy; the engine defines what a screen means (`core.screens`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Rounds, Timer, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.platform import processes
from orchestrator.base.waiting import call_off
from orchestrator.core import blocked, supervision
from orchestrator.core.record_types import Draft
from orchestrator.core.screens import QUESTIONS, SCREEN_KINDS, Screen, ScreenFinding, explain, seconds_left
from orchestrator.engines.definition import Engine
from orchestrator.engines.screen_dialogs import dialog_of
from orchestrator.team.life import cli_logs
from orchestrator.team.life.readiness import cause_of
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

EVERY_S = 2.0
STOPPED_EVERY = 2
PANES_EVERY = 5
"""Number of looks between two checks: for suspended processes, and for panes that are gone."""
GONE_LOOKS, UNSEEN_LOOKS = 2, 5
"""Number of looks without a dialog after which it has gone; of an unseen dialog, which may be slow to come."""
SILENT_S = 5.0
"""Seconds without a call, outside wait_for_command, after which an agent's screen is inspected."""


@dataclass
class _WatchedLaunch:
    """One launch of an agent as seen by the looks. ``last`` and ``stale`` are from the previous look."""

    epoch: int
    began: float
    last: str | None = None  # the kind that the screen explained; "" for none, None before the first look
    stale: bool = False
    stopped: int | None = None  # its process that was suspended in the previous look
    judged: bool = False  # it is being failed, because it did not get ready
    reported: ScreenFinding | None = (
        None  # by a hook, in better words than the screen's; kept while the screen shows the same
    )
    dialog: str = ""  # the item of the inbox whose dialog is looked for
    dialog_seen: bool = False
    without_dialog: int = 0  # consecutive looks that show the input line in the dialog's place


class ScreenWatch:
    """The looks at the screens of a roster's agents.

    ``on_look`` is called periodically, to look for panes that are gone.
    ``on_human`` is called when a person's message waits in the queue of a parked agent's CLI, ``on_stale`` when two
    looks at a parked agent's title show that its turn has ended; both may be called again at every look.
    ``on_dialog`` is called when its screen shows another permission dialog than before, or none any more.
    ``waits_with_dialog`` names the item of the inbox that waits while an agent shows a dialog for it;
    ``on_dialog_gone`` is called when the dialog has gone. ``on_screen`` is called with each screen that is judged.
    """

    def __init__(self, roster: Roster, team_panes: TeamPanes, tend: Callable[[AgentEntry], None]) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._tend = tend
        self.on_human: Callable[[AgentEntry], None] | None = None
        self.on_stale: Callable[[AgentEntry], None] | None = None
        self.on_dialog: Callable[[AgentEntry], None] | None = None
        self.on_screen: Callable[[AgentEntry, Screen], None] = lambda _entry, _screen: None
        self.waits_with_dialog: Callable[[AgentEntry], str] = lambda _entry: ""
        self.on_dialog_gone: Callable[[AgentEntry], None] | None = None
        self._lives: dict[str, _WatchedLaunch] = {}
        self._rounds = Rounds(roster.clock, EVERY_S)
        self._due: Timer | None = None
        self._look: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()
        self._closed = False
        self._looks = 0
        self.on_look: Callable[[], Coroutine[Any, Any, None]] | None = None

    def begin(self, entry: AgentEntry) -> None:
        """Start the agent's time to get ready: its process of this epoch runs. Counts once per epoch."""
        life, epoch = self._lives.get(entry.agent_id), entry.state.epoch
        if life is None or life.epoch != epoch:
            self._lives[entry.agent_id] = _WatchedLaunch(epoch, self._roster.clock.monotonic())
            entry.finding = entry.seen = None
        self._arm()

    def answered(self, entry: AgentEntry) -> None:
        """Its question has just been answered: what its screen still shows of it must be seen twice to count."""
        life = self._lives.get(entry.agent_id)
        if life is not None:
            life.reported, life.last = None, None

    def _arm(self) -> None:
        if self._due is None and not self._closed:
            self._due = self._rounds.begin(self._tick)

    def _tick(self) -> None:
        self._due = None
        missed_s = self._rounds.missed_s()
        for life in self._lives.values():
            life.began += missed_s
        looked_at: list[AgentEntry] = []
        for agent_id, life in list(self._lives.items()):
            entry = self._roster.agents.get(agent_id)
            if entry is None or entry.state.life not in ("starting", "ready") or entry.process == "gone":
                del self._lives[agent_id]
                continue
            if self._overdue(entry, life):
                life.judged = True
                self._tasks.start(self._give_up(entry, life))
            elif self._wanted(entry, life):
                looked_at.append(entry)
            else:
                life.last, life.stale = None, False  # two looks must be consecutive
        if self._lives:
            self._arm()
            self._looks += 1
            if self._looks % STOPPED_EVERY == 0:
                self._tasks.start(self._look_for_stopped())
            if self._looks % PANES_EVERY == 0 and self.on_look is not None:
                self._tasks.start(self.on_look())
        if looked_at and (self._look is None or self._look.done()):
            self._look = self._tasks.start(self._look_at(looked_at))

    async def _look_for_stopped(self) -> None:
        """Record agents with a suspended process once two looks agree, and record when it continues."""
        watched = {
            entry.pid: entry
            for agent_id in self._lives
            if (entry := self._roster.agents.get(agent_id)) is not None and entry.pid is not None
        }
        stopped = await asyncio.to_thread(processes.stopped_below, watched.keys())
        for pid, entry in watched.items():
            life = self._lives.get(entry.agent_id)
            if life is None or entry.pid != pid:
                continue
            before, life.stopped = life.stopped, stopped.get(pid)
            at = self._at()
            drafts: list[Draft] = []
            if life.stopped is None:
                drafts = blocked.unblock(entry.state, {blocked.STOPPED}, at=at, reason="it was continued")
            elif life.stopped == before:
                what = processes.command_of(life.stopped)[:60]
                reason = f"its process {life.stopped} ({what}) was stopped; kill -CONT {life.stopped} continues it"
                drafts = blocked.block(entry.state, blocked.STOPPED, reason, at=at)
            try:
                self._roster.write(entry, drafts)
            except OrchestratorError as error:
                log.warning("a stopped process was not recorded", agent=entry.agent_id, **error.as_dict())

    async def close(self) -> None:
        """Stop looking."""
        self._closed = True
        if self._due is not None:
            self._due.cancel()
        await call_off(self._tasks)

    # -- what is looked at --------------------------------------------------------------------------------------

    def _wanted(self, entry: AgentEntry, life: _WatchedLaunch) -> bool:
        agent, row = entry.state, entry.engine
        if row is None or entry.pane_id is None or agent.stop_asked:
            return False
        if entry.finding is not None or not SCREEN_KINDS.isdisjoint(agent.blocks) or self.waits_with_dialog(entry):
            return True
        if entry.waiting is not None:
            return False
        if entry.turn == "parked":
            return bool(row.human_queued or row.title_idle)
        if not row.patterns:
            return False
        last = max(entry.last_call or 0.0, life.began)
        return agent.life == "starting" or self._roster.clock.monotonic() - last > SILENT_S

    async def _look_at(self, entries: list[AgentEntry]) -> None:
        by_run: dict[str, list[AgentEntry]] = {}
        for entry in entries:
            by_run.setdefault(entry.run_id, []).append(entry)
        for run_id, members in by_run.items():
            run = self._roster.runs.get(run_id)
            screens = await self._team_panes.look(run, members) if run is not None else {}
            for entry in members:
                screen, life = screens.get(entry.agent_id), self._lives.get(entry.agent_id)
                if screen is None or screen.dead or life is None or life.epoch != entry.state.epoch:
                    continue
                try:
                    await self._judge(entry, life, screen)
                except OrchestratorError as error:
                    log.warning("what blocks an agent was not recorded", agent=entry.agent_id, **error.as_dict())
                except Exception:
                    log.exception("bug while looking", agent=entry.agent_id)

    async def _judge(self, entry: AgentEntry, life: _WatchedLaunch, screen: Screen) -> None:
        """Judge one look at one agent, which may have called or ended meanwhile."""
        row = entry.engine
        logged = await self._logged(entry, row) if row is not None and row.log and entry.turn != "parked" else None
        if row is None or not self._wanted(entry, life):
            return
        if entry.turn == "parked" and entry.finding is None and not _asks(row, screen):
            self._parked(entry, life, row, screen)
            # It reached the end of its turn, whatever its screen still shows.
            await self._roster.commit(
                entry, blocked.unblock(entry.state, SCREEN_KINDS, at=self._at(), reason="it is parked")
            )
            return
        self.on_screen(entry, screen)
        seen = explain(row.patterns, screen)
        now = logged if seen is None else self._dated(seen, self._roster.clock.now())
        entry.seen, hook_finding = now, entry.finding
        asks = seen is not None and seen.kind == "permission"
        dialog, before = dialog_of(row.dialogs, screen) if asks else None, entry.dialog
        entry.dialog = dialog
        if dialog != before and self.on_dialog is not None:
            self.on_dialog(entry)
        if self._dialog_gone(entry, life, row, screen, now) and self.on_dialog_gone is not None:
            self.on_dialog_gone(entry)
            return
        kind = now.kind if now is not None else ""
        twice, life.last = life.last == kind, kind
        if hook_finding is None and not twice:
            return
        # The CLI's own hook is believed until the screen shows the same; then the screen shows when it is over.
        if hook_finding is not None:
            life.reported = hook_finding
            if _same(hook_finding.kind, kind):
                entry.finding = None
        elif life.reported is not None and not _same(life.reported.kind, kind):
            life.reported = None
        drafts = blocked.explained(entry.state, life.reported or now, at=self._at())
        if drafts:
            await self._roster.commit(entry, drafts)

    def _dialog_gone(
        self, entry: AgentEntry, life: _WatchedLaunch, row: Engine, screen: Screen, now: ScreenFinding | None
    ) -> bool:
        """Whether a dialog that the CLI shows while its hook waits has gone: its input line is back, twice."""
        item = self.waits_with_dialog(entry)
        if item != life.dialog:
            life.dialog, life.dialog_seen, life.without_dialog = item, False, 0
        if not item or (now is not None and now.kind in QUESTIONS):
            life.dialog_seen, life.without_dialog = bool(item), 0
            return False
        back = row.composer is not None and row.composer(screen) != "other"
        life.without_dialog = life.without_dialog + 1 if back else 0
        return life.without_dialog >= (GONE_LOOKS if life.dialog_seen else UNSEEN_LOOKS)

    def _parked(self, entry: AgentEntry, life: _WatchedLaunch, row: Engine, screen: Screen) -> None:
        if row.human_waits(screen):
            if self.on_human is not None:
                self.on_human(entry)
            return
        stale = bool(row.title_idle and re.search(row.title_idle, screen.title))
        if stale and life.stale and self.on_stale is not None:
            self.on_stale(entry)
        life.stale = stale

    async def _logged(self, entry: AgentEntry, row: Engine) -> ScreenFinding | None:
        """What the CLI's own log explains since the agent's last call."""
        path = self._roster.paths.engine_dir(entry.agent_id) / row.log
        logged = row.explain_log(await asyncio.to_thread(cli_logs.end_of, path))
        now, called = self._roster.clock.now(), entry.last_call_wall
        if logged is not None:
            at = datetime.fromisoformat(logged.at)
            if (called is None or at > called) and timedelta() <= now - at <= timedelta(seconds=logged.holds_s):
                return self._dated(logged.finding, at)
        await asyncio.to_thread(cli_logs.empty_if_long, path)
        return None

    @staticmethod
    def _dated(finding: ScreenFinding, at: datetime) -> ScreenFinding:
        """The finding with the time of its end, if the CLI says how far away it was ``at`` that time."""
        left_s = seconds_left(finding.until) if finding.until else None
        return finding if left_s is None else finding._replace(until=rfc3339(at + timedelta(seconds=left_s)))

    def _at(self) -> str:
        return rfc3339(self._roster.clock.now())

    # -- readiness ----------------------------------------------------------------------------------------------

    def _overdue(self, entry: AgentEntry, life: _WatchedLaunch) -> bool:
        agent = entry.state
        if agent.life != "starting" or agent.stop_asked or life.epoch != agent.epoch or life.judged:
            return False
        return self._roster.clock.monotonic() - life.began >= self._ready_within_s(entry)

    def _ready_within_s(self, entry: AgentEntry) -> float:
        row = entry.engine
        return self._roster.config().ready_timeout_s * (row.slow_start if row else 1.0)

    async def _give_up(self, entry: AgentEntry, life: _WatchedLaunch) -> None:
        """Fail the agent with the likely cause and its pane's last lines; `tend` ends its process."""
        try:
            run = self._roster.runs.get(entry.run_id)
            screen, lines = None, []
            if run is not None and entry.pane_id is not None:
                screen = (await self._team_panes.look(run, [entry])).get(entry.agent_id)
                lines = await self._team_panes.last_lines(run, entry.pane_id)
            cause = await cause_of(self._roster, entry, screen)
            agent = entry.state
            if agent.epoch != life.epoch or agent.stop_asked or agent.life != "starting":
                return
            seconds = self._ready_within_s(entry)
            reason = f"{cause}; not ready within {seconds:g} s"
            drafts = supervision.failed(
                agent, at=self._at(), reason=reason, code="not_ready", cause=cause, last_lines=lines
            )
            await self._roster.commit(entry, drafts)
        except OrchestratorError as error:
            log.warning("agent not failed", agent=entry.agent_id, **error.as_dict())
        finally:
            life.judged = False  # a failed write is tried again
            self._tend(entry)


def _asks(row: Engine, screen: Screen) -> bool:
    """Whether a dialog stands in the input line's place: a subagent may ask while the turn is over."""
    seen = explain(row.patterns, screen)
    hidden = row.composer is not None and row.composer(screen) == "other"
    return hidden and seen is not None and seen.kind in QUESTIONS


def _same(reported: str, shown: str) -> bool:
    """Whether a hook and the screen name the same thing."""
    return reported == shown or {reported, shown} <= QUESTIONS
