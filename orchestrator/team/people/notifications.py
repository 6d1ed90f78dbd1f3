"""Notify people: an agent needs somebody, an agent or a task has failed, all tasks of a run have ended.

`core.notices` decides which notices are due. This module collects them for a moment, holds them back while the
agent's pane is in front of a person, and sends them as `notify` says. Nothing waits for them. A channel that fails
is logged once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

import orjson
import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Timer, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.core.inbox_items import InboxItem
from orchestrator.core.notices import Announcements, Notice, RunWork, announcement
from orchestrator.core.screens import QUESTIONS
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.people import notification_programs
from orchestrator.team.people.notification_programs import NotificationProgram, ProgramCall
from orchestrator.team.roster import agent_names
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import clients
from orchestrator.tmux.clients import AttachedClient
from orchestrator.tmux.server_address import TmuxSocket

log = structlog.get_logger()

LOOK_S = 0.25
"""Many changes share one look at what needs somebody."""
BATCH_S = 2.0
"""What becomes due within this time is announced together."""
AGAIN_S = 5.0
"""Pause before the next look whether a pane is still in front of a person."""


class _AgentNews(NamedTuple):
    """An agent's part: its run, its items, whether it waits for somebody, its tasks."""

    run_id: str
    notices: tuple[Notice, ...]
    needs_human: bool
    work: RunWork


class _Terminal(NamedTuple):
    """An attached client of a tmux server, the runs whose notices it gets, and the runs that it does not show."""

    socket: TmuxSocket
    client: AttachedClient
    runs: set[str]
    far: set[str]


class _ShownCount(NamedTuple):
    """The count that the status line of a run's sessions has."""

    window_id: str
    agents: int


class Notifications:
    """The notifications of a roster's runs. ``items`` gives what of an agent waits for a human."""

    def __init__(self, roster: Roster, items: Callable[[AgentEntry], Sequence[InboxItem]]) -> None:
        self._roster = roster
        self._items = items
        self._announcements = Announcements()
        self._of: dict[str, _AgentNews] = {}  # by agent
        self._changed: set[str] = set()
        self._begun = roster.clock.now(), roster.clock.monotonic()
        self._look_due: Timer | None = None
        self._batch_due: Timer | None = None
        self._shown: dict[str, _ShownCount] = {}  # by run
        self._announcing = self._counting = False
        self._failing: dict[str, str] = {}  # by channel: why it failed last
        self._tasks = BackgroundTasks()
        self._desktop = NotificationProgram(self._desktop_call, lambda reason: self._report("desktop", reason))
        self._command = NotificationProgram(self._command_call, lambda reason: self._report("command", reason))
        self._closed = False

    def begin(self) -> None:
        """Begin, after the agents of an earlier daemon were taken over; what began before this daemon is known."""
        self._changed = {entry.agent_id for entry in self._roster.everyone()}
        self._look()

    def seen(self, entry: AgentEntry) -> None:
        """Note that an agent has changed; returns at once."""
        self._changed.add(entry.agent_id)
        if self._look_due is None and not self._closed:
            self._look_due = self._roster.clock.timer(LOOK_S, self._look)

    async def close(self) -> None:
        """Stop notifying, and take the counts out of the status lines."""
        self._closed = True
        for timer in (self._look_due, self._batch_due):
            if timer is not None:
                timer.cancel()
        await call_off(self._tasks)
        await asyncio.gather(self._desktop.close(), self._command.close())
        for run_id in [run_id for run_id, shown in self._shown.items() if shown.agents]:
            await self._count(run_id, 0)

    # -- what is due --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._look_due = None
        self._of = {agent_id: news for agent_id, news in self._of.items() if self._roster.shown(agent_id)}
        for agent_id in self._changed:
            entry = self._roster.shown(agent_id)
            if entry is not None:
                self._of[agent_id] = self._news(entry)
        self._changed = set()
        self._announcements.seen(
            [notice for news in self._of.values() for notice in news.notices], self._works(), self._started()
        )
        if self._announcements.waiting and self._batch_due is None:
            self._batch_due = self._roster.clock.timer(BATCH_S, self._start)
        self._recount()

    def _started(self) -> str:
        """When this daemon began; by the wall clock of now, if that was set back: nothing new must look old."""
        clock, (at, monotonic) = self._roster.clock, self._begun
        return rfc3339(min(at, clock.now() - timedelta(seconds=clock.monotonic() - monotonic)))

    def _news(self, entry: AgentEntry) -> _AgentNews:
        agent = entry.state
        items = self._items(entry) if entry.live else []
        # A hook that comes back to the next daemon makes a new item of a question that an old record shows.
        asked_since = min((block.since for block in agent.blocks.values() if block.kind in QUESTIONS), default="~")
        notices = tuple(
            Notice(
                "failed" if item.kind in ("failed", "error") else "needs_human",
                entry.run_id,
                item.text,
                entry.agent_id,
                item.name or entry.agent_id,
                item.item_id,
                item.kind,
                min(item.since, asked_since) if item.kind in ("permission", "question", "dialog") else item.since,
                item.host,
            )
            for item in items
        )
        done = agent.outcomes
        work = RunWork(len(agent.unfinished), done.get("result", 0), done.get("error", 0))
        return _AgentNews(entry.run_id, notices, any(item.holds for item in items), work)

    def _works(self) -> dict[str, RunWork]:
        works: dict[str, RunWork] = {}
        for news in self._of.values():
            before = works.get(news.run_id, RunWork(0, 0, 0))
            works[news.run_id] = RunWork(*map(sum, zip(before, news.work, strict=True)))
        return works

    # -- sending ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._batch_due = None
        if self._announcing:  # tmux hangs
            self._batch_due = self._roster.clock.timer(AGAIN_S, self._start)
        elif not self._closed:
            self._announcing = True
            self._tasks.start(self._announce())

    async def _announce(self) -> None:
        try:
            await self._send()
        finally:
            self._announcing = False

    async def _send(self) -> None:
        wanted = set(self._roster.config().notify)
        terminals = await self._terminals() if wanted else []
        notices = self._named(self._announcements.due(self._in_front(terminals)))
        if self._announcements.waiting and self._batch_due is None:
            self._batch_due = self._roster.clock.timer(AGAIN_S, self._start)
        if not notices:
            return
        if "desktop" in wanted:
            self._desktop.send(notices)
        if "command" in wanted:
            self._command.send(notices)
        for terminal in terminals:
            here = [notice for notice in notices if notice.run_id in terminal.runs]
            if here and "bell" in wanted:
                rung = await asyncio.to_thread(clients.ring, terminal.client)
                self._report("bell", "" if rung else f"{terminal.client.name} could not be rung")
            if here and "tmux" in wanted:
                await self._show(terminal, here)

    async def _terminals(self) -> list[_Terminal]:
        """The terminals that show a session with the window of a run; where there is none, all of its tmux server."""
        concerned: dict[TmuxSocket, list[TeamRun]] = {}
        for run in self._roster.runs.values():
            if self._announcements.concerns(run.run_id):
                concerned.setdefault(TeamPanes.socket_of(run), []).append(run)
        terminals = []
        for socket, runs in concerned.items():
            try:
                every = await asyncio.to_thread(clients.attached, socket)
            except OrchestratorError as error:
                self._report("tmux", error.message)
                continue
            watched = {window for client in every for window in client.windows}
            for client in every:
                windows = {run.run_id: run.file["window_id"] for run in runs}
                near = {run_id for run_id, window in windows.items() if window in client.windows}
                far = {run_id for run_id, window in windows.items() if window not in watched}
                terminals.append(_Terminal(socket, client, near | far, far))
        return terminals

    def _in_front(self, terminals: Sequence[_Terminal]) -> set[str]:
        """The agents whose pane is the active one of a terminal that is not known to be in the background.

        A program that controls tmux is attached too, and shows nobody a pane.
        """
        seen = [terminal for terminal in terminals if terminal.client.focused and not terminal.client.control]
        front = {(terminal.socket, terminal.client.pane_id) for terminal in seen}
        agents = set()
        for entry in self._roster.agents.values():
            run = self._roster.runs.get(entry.run_id)
            if run is not None and entry.pane_id and (TeamPanes.socket_of(run), entry.pane_id) in front:
                agents.add(entry.agent_id)
        return agents

    def _named(self, notices: Iterable[Notice]) -> list[Notice]:
        """The notices with the names that tell the agents apart now."""
        agents = [entry.state for entry in self._roster.everyone() if entry.live]
        names = agent_names.shown_names(agent_names.rows_of(agents))
        return [notice._replace(name=names.get(notice.agent_id, notice.name)) for notice in notices]

    async def _show(self, terminal: _Terminal, notices: Sequence[Notice]) -> None:
        client = terminal.client
        elsewhere = all(notice.run_id in terminal.far for notice in notices)
        project = str(self._roster.root) if elsewhere else ""
        line = announcement(notices).line(client.width, ascii_only=not client.utf8, project=project)
        try:
            await asyncio.to_thread(clients.show_message, terminal.socket, client, line)
        except OrchestratorError as error:
            self._report("tmux", error.message)
        else:
            self._report("tmux", "")

    def _desktop_call(self, notices: Sequence[Notice]) -> ProgramCall:
        said = announcement(notices)
        title = f"{said.sign.sign} {self._roster.root.name}"
        return notification_programs.desktop_call(title, f"{said.text}\n{said.link}")

    def _command_call(self, notices: Sequence[Notice]) -> ProgramCall | None:
        argv = self._roster.config().notify_command
        if not argv:
            raise notification_programs.ProgramFailed("notify_command is not set")
        said = announcement(notices)
        message = {
            "v": 1,
            "project": str(self._roster.root),
            "title": self._roster.root.name,
            "text": said.text,
            "link": said.link,
            "need_you": self._needing().total(),
            "notices": [notice.as_dict() for notice in notices],
        }
        return ProgramCall(argv, orjson.dumps(message) + b"\n")

    def _report(self, channel: str, reason: str) -> None:
        if reason and self._failing.get(channel) != reason:
            log.warning("not notified", channel=channel, reason=reason)
        self._failing[channel] = reason

    # -- the count in the status line ---------------------------------------------------------------------------

    def _needing(self) -> Counter[str]:
        """By run the number of agents that need somebody."""
        return Counter(news.run_id for news in self._of.values() if news.needs_human)

    def _recount(self) -> None:
        if not self._counting and self._outdated():
            self._counting = True
            self._tasks.start(self._count_all())

    def _outdated(self) -> dict[str, int]:
        """The runs whose status lines show another count, with the count they should show."""
        needing = self._needing() if "tmux" in self._roster.config().notify else Counter[str]()
        counts = {run_id: needing[run_id] if run.live else 0 for run_id, run in self._roster.runs.items()}
        outdated, started = {}, self._started()
        for run_id, count in counts.items():
            run, shown = self._roster.runs[run_id], self._shown.get(run_id)
            if shown is None:  # a killed daemon may have left the count of a run that this daemon ended at its start
                wrong = run.live or str(run.file["ended_at"]) >= started
            else:
                wrong = shown.agents != count or (run.live and shown.window_id != run.file["window_id"])
            if wrong:
                outdated[run_id] = count
        return outdated

    async def _count_all(self) -> None:
        try:
            while outdated := self._outdated():
                for run_id, count in outdated.items():
                    await self._count(run_id, count)
        finally:
            self._counting = False

    async def _count(self, run_id: str, count: int) -> None:
        run = self._roster.runs[run_id]
        window = run.file["window_id"]
        try:
            await asyncio.to_thread(clients.set_needs, TeamPanes.socket_of(run), window, run_id, count)
        except OrchestratorError as error:
            self._report("tmux", error.message)
        self._shown[run_id] = _ShownCount(window, count)
