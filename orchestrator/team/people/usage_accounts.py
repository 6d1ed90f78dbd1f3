"""Tokens and cost of the agents: reads what their CLIs record, when something happened, and says what it adds up to.

Transcripts are read in threads, at the end of a turn or task, and every `EVERY_S` while somebody looks or a budget is
set. Nothing of it reaches the journal: figures are for people, and no task depends on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import Rounds, Timer, rfc3339
from orchestrator.base.waiting import call_off
from orchestrator.core.inbox_items import InboxItem, item_id, of_agent
from orchestrator.core.model_usage import ModelRequest, Prices, UsageSums
from orchestrator.core.state import Task
from orchestrator.engines.definition import Engine
from orchestrator.engines.table import ENGINES
from orchestrator.engines.usage_reading import TranscriptUsage
from orchestrator.journal.project_files import Paths
from orchestrator.team.people.transcript_reading import TranscriptPosition, read_on
from orchestrator.team.people.usage_account import UsageAccount
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.roster.transcripts import transcript_of

log = structlog.get_logger()

EVERY_S = 5.0
SETTLE_S = 2.0
"""Seconds after which is read again: Claude Code writes the last answer of a turn after it has run its hook."""
SEEK_S = 30.0
"""Seconds between two searches for transcripts of an agent to which nothing happened."""
READERS = 2
FILES_MAX = 1000
TASKS = 256
"""How many of an agent's last tasks a request can still be assigned to by its time."""
NOT_FOUND = "its transcript was not found"


class TaskSpan(NamedTuple):
    """From when until when an agent had a task; empty: since before this daemon, or still."""

    task_id: str
    begin: str
    end: str


class _UsageReading(NamedTuple):
    """What a thread needs to know to read an agent's figures."""

    agent_id: str
    engine: str
    usage: TranscriptUsage | None
    sessions: tuple[str, ...]
    seek: bool
    reported: tuple[ModelRequest, ...]
    session: str
    epoch: int
    at: str
    lease: Callable[[], Task | None]


@dataclass(eq=False)
class _AgentUsage:
    """The figures of one agent. ``transcripts`` belong to the thread that reads."""

    account: UsageAccount
    mark: tuple[Any, ...] = ()
    tasks: tuple[TaskSpan, ...] = ()  # replaced as a whole: the thread reads it after the transcript
    reported: list[ModelRequest] = field(default_factory=list)  # by its plugin, not counted yet
    transcripts: dict[Path, tuple[str, TranscriptPosition]] = field(default_factory=dict)
    threads: set[str] = field(default_factory=set)  # further sessions that its transcripts name
    wanted: bool = False
    seek: bool = False
    sought_at: float | None = None
    reading: asyncio.Task[None] | None = None
    settling: Timer | None = None


class UsageAccounts:
    """The figures of a roster's agents. ``changed`` is called with an agent whose figures have changed."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.changed: Callable[[AgentEntry], None] = lambda _entry: None
        self._agents: dict[str, _AgentUsage] = {}
        self._over: dict[str, tuple[str, str]] = {}  # run -> id of its budget item, since when
        self._watched = False
        self._due: Timer | None = None
        self._rounds = Rounds(roster.clock, EVERY_S)
        self._readers = asyncio.Semaphore(READERS)
        self._tasks = BackgroundTasks()
        self._closed = False

    async def close(self) -> None:
        """Stop reading; a thread that reads ends with its file."""
        self._closed = True
        for timer in (self._due, *(ours.settling for ours in self._agents.values())):
            if timer is not None:
                timer.cancel()
        await call_off(self._tasks)

    def watched(self, is_open: bool) -> None:
        """Whether a face is open."""
        self._watched = is_open
        if is_open:
            for entry in self._roster.agents.values():
                if entry.live:
                    self._want(entry)
        self._arm()

    # -- what happens -------------------------------------------------------------------------------------------

    def seen(self, entry: AgentEntry) -> None:
        """Something may have happened to the agent; its figures are read if a turn or task began or ended."""
        if entry.engine is None or not reports(entry.engine):
            return
        agent, ours = entry.state, self._of(entry)
        ended = agent.last_end.seq if agent.last_end is not None else 0
        lease = (agent.lease.task_id, agent.lease.lent) if agent.lease is not None else None
        mark = lease, ended, agent.life, agent.epoch, entry.turn, entry.session
        if mark == ours.mark:
            return
        self._note_tasks(entry, ours)
        has_just_ended, ours.mark = bool(ours.mark), mark
        if entry.live or has_just_ended:
            self._want(entry, seek=True)
            self._settle(entry, ours)
        self._arm()

    def reported(self, entry: AgentEntry, message: Mapping[str, Any]) -> None:
        """Take a model request as a plugin inside the CLI reports it."""
        row = entry.engine
        request = row.reported_usage(message) if row is not None and row.reported_usage is not None else None
        if request is not None:
            self._of(entry).reported.append(request)
            self._want(entry)

    def _settle(self, entry: AgentEntry, ours: _AgentUsage) -> None:
        def again() -> None:
            ours.settling = None
            self._want(entry)

        if ours.settling is None and not self._closed:
            ours.settling = self._roster.clock.timer(SETTLE_S, again)

    def _note_tasks(self, entry: AgentEntry, ours: _AgentUsage) -> None:
        lease, ended = entry.state.lease, entry.state.last_end
        last = ours.tasks[-1] if ours.tasks else None
        if not ours.mark and ended is not None:
            ours.tasks = (TaskSpan(ended.task_id, "", ended.at),)
        elif last is not None and not last.end and (lease is None or (lease.task_id, lease.lent) != last[:2]):
            at = ended.at if ended is not None and ended.task_id == last.task_id else self._at()
            ours.tasks = (*ours.tasks[:-1], last._replace(end=at))
        ours.tasks = _with_lease(ours.tasks, lease)

    # -- reading ------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._follows and self._due is None and not self._closed:
            self._due = self._rounds.begin(self._tick)

    @property
    def _follows(self) -> bool:
        return self._watched or self._roster.config().budget_usd > 0

    def _tick(self) -> None:
        self._due = None
        for agent_id in self._agents.keys() - self._roster.agents.keys():
            del self._agents[agent_id]  # gc has removed its files
        for entry in self._roster.agents.values():
            if self._follows and entry.turn != "parked" and entry.process != "gone" and entry.live:
                self._want(entry)
        for run_id in {entry.run_id for entry in self._roster.agents.values() if entry.live}:
            self._check_budget(run_id)  # prices and the budget may have changed
        self._arm()

    def _want(self, entry: AgentEntry, *, seek: bool = False) -> None:
        row, ours = entry.engine, self._of(entry)
        if row is None or not reports(row) or self._closed:
            return
        ours.wanted = True
        ours.seek |= seek
        if ours.reading is None or ours.reading.done():
            ours.reading = self._tasks.start(self._read(entry, ours))

    async def _read(self, entry: AgentEntry, ours: _AgentUsage) -> None:
        while ours.wanted and not self._closed:
            ours.wanted = False
            async with self._readers:
                reading = self._facts(entry, ours)
                if reading is None:
                    return
                try:
                    changed, more = await asyncio.to_thread(_read, self._roster.paths, ours, reading)
                except Exception:
                    log.exception("bug while reading the usage of an agent", agent=entry.agent_id)
                    return
            ours.wanted |= more
            if changed or reading.seek:
                self._check_budget(entry.run_id)
                self.changed(entry)
        if not entry.live and ours.settling is None:
            ours.account.rest()
            ours.transcripts.clear()

    def _facts(self, entry: AgentEntry, ours: _AgentUsage) -> _UsageReading | None:
        row, agent, now = entry.engine, entry.state, self._roster.clock.monotonic()
        if row is None:
            return None
        seek = ours.seek or not ours.transcripts or now - (ours.sought_at or 0.0) >= SEEK_S
        ours.seek, reported, ours.reported = False, tuple(ours.reported), []
        if seek:
            ours.sought_at = now
        sessions = dict.fromkeys(filter(None, (agent.resume, agent.session, entry.session)))
        return _UsageReading(
            entry.agent_id, row.name, row.usage, tuple(sessions), seek, reported,
            entry.session or agent.session or "", agent.epoch, self._at(), lambda: agent.lease,
        )  # fmt: skip

    # -- what it adds up to -------------------------------------------------------------------------------------

    def usage_of(self, entry: AgentEntry) -> dict[str, Any] | None:
        """The agent's figures (`usage_view`); None while they are not known yet."""
        row, ours = entry.engine, self._of(entry)
        if row is None:
            return None
        if not reports(row):
            return usage_view(row, UsageSums(), self._prices())
        if ours.sought_at is None:
            self._want(entry)
            return None
        if not ours.account.is_loaded and ours.account.is_new:
            return None
        has_begun = entry.state.life != "starting" and entry.process != "gone"
        missing = row.usage is not None and not ours.transcripts and ours.account.is_new and has_begun
        return usage_view(row, ours.account.sums, self._prices(), NOT_FOUND if missing else "")

    def items(self, entry: AgentEntry) -> list[InboxItem]:
        """The item of a team run that has cost more than ``budget_usd``, at the run's first agent.

        A dismissed item stays dismissed for this run and this budget, however much more is spent, and whichever agent
        has the record.
        """
        over = self._over.get(entry.run_id)
        if over is None or self._first_of(entry.run_id) is not entry:
            return []
        if any(over[0] in other.state.answers for other in self._of_run(entry.run_id)):
            return []
        text = f"the agents of {entry.run_id} have cost about ${self._cost_of(entry.run_id):.2f}: over budget_usd"
        item = InboxItem(over[0], "budget", entry.agent_id, text, over[1], holds=False, answers=("dismiss",))
        return [of_agent(item, entry.state)]

    def _check_budget(self, run_id: str) -> None:
        budget = self._roster.config().budget_usd
        first = self._first_of(run_id)
        if budget:
            for entry in self._of_run(run_id):
                if self._of(entry).sought_at is None:  # it ended before this daemon began
                    self._want(entry)
        if first is None or not budget or self._cost_of(run_id) <= budget:
            self._over.pop(run_id, None)
            return
        budget_item = item_id("budget", run_id, budget)
        if self._over.get(run_id, ("", ""))[0] != budget_item:
            self._over[run_id] = budget_item, self._at()
            self.changed(first)

    def _first_of(self, run_id: str) -> AgentEntry | None:
        """The run's first agent that is not deleted: its records keep what is answered to the run's item."""
        members = (entry for entry in self._of_run(run_id) if entry.live)
        return min(members, key=lambda entry: (entry.state.created_at or "", entry.agent_id), default=None)

    def _cost_of(self, run_id: str) -> float:
        """The known cost of the run, deleted agents included."""
        prices = self._prices()
        return sum(self._of(entry).account.sums.known_cost(prices) for entry in self._of_run(run_id))

    def _of_run(self, run_id: str) -> Iterator[AgentEntry]:
        return (entry for entry in self._roster.agents.values() if entry.run_id == run_id)

    def _prices(self) -> Prices:
        return cast("Prices", self._roster.config().prices)

    def _of(self, entry: AgentEntry) -> _AgentUsage:
        ours = self._agents.get(entry.agent_id)
        if ours is None:
            ours = self._agents[entry.agent_id] = _AgentUsage(UsageAccount(self._roster.paths.usage(entry.agent_id)))
        return ours

    def _at(self) -> str:
        return rfc3339(self._roster.clock.now())


def reports(row: Engine) -> bool:
    """Whether a CLI of that engine reports its model requests."""
    return row.usage is not None or row.reported_usage is not None


def usage_view(row: Engine, sums: UsageSums, prices: Prices, missing: str = "") -> dict[str, Any]:
    """The figures of an agent of that engine, (`UsageSums.view`); ``unknown`` also says if it reports none."""
    return sums.view(prices, missing if reports(row) else row.no_usage)


def recorded_usage(paths: Paths, agent_id: str, engine: str, prices: Prices) -> dict[str, Any] | None:
    """The figures of an agent from its file, without a daemon; None if its engine is not known. Blocks."""
    row = ENGINES.get(engine)
    if row is None:
        return None
    account = UsageAccount(paths.usage(agent_id))
    account.load()
    return usage_view(row, account.sums, prices)


def _read(paths: Paths, ours: _AgentUsage, reading: _UsageReading) -> tuple[bool, bool]:
    """Count what is new of an agent, in a thread: whether anything was, and whether there is more to read."""
    account = ours.account
    account.load()
    if reading.seek and reading.usage is not None:
        _seek(paths, ours, reading, reading.usage)
    had_none = account.is_new

    def facts(request: ModelRequest, session: str) -> dict[str, Any]:
        at = request.at or reading.at
        # A delivery is visible here only after its record is durable; that may be at the end of the task.
        task_id = task_at(at, _with_lease(ours.tasks, reading.lease()), since_before=not had_none)
        return {"at": at, "task_id": task_id, "session": session, "epoch": reading.epoch}

    changed = account.add(reading.reported, partial(facts, session=reading.session))
    more = False
    for path, (session, position) in ours.transcripts.items():
        if reading.usage is None:
            break
        requests, goes_on = read_on(path, position, reading.usage)
        changed |= account.add(requests, partial(facts, session=session))
        more |= goes_on
    named = {thread for _, position in ours.transcripts.values() for thread in position.threads} - ours.threads
    if named and reading.usage is not None and len(ours.threads) < FILES_MAX:
        ours.threads |= named
        _seek(paths, ours, reading, reading.usage)
        more = True
    return changed, more


def _seek(paths: Paths, ours: _AgentUsage, reading: _UsageReading, usage: TranscriptUsage) -> None:
    for session in (*reading.sessions, *sorted(ours.threads)):
        transcript = transcript_of(paths, reading.agent_id, reading.engine, session)
        if transcript is None:
            continue
        further: list[Path] = []
        if usage.further:
            try:
                further = sorted(transcript.parent.glob(usage.further.format(session=session)))
            except OSError:  # removed meanwhile, or not ours to read
                further = []
        for path in (transcript, *further):
            if len(ours.transcripts) < FILES_MAX:
                ours.transcripts.setdefault(path, (session, TranscriptPosition()))


def _with_lease(tasks: tuple[TaskSpan, ...], lease: Task | None) -> tuple[TaskSpan, ...]:
    if lease is None or not lease.lent or (tasks and not tasks[-1].end):
        return tasks
    return (*tasks[1 - TASKS :], TaskSpan(lease.task_id, lease.lent, ""))


def task_at(at: str, tasks: tuple[TaskSpan, ...], *, since_before: bool) -> str | None:
    """The task that the agent had at that time; None if it had none.

    ``since_before``: the first span may have begun at any time; else nothing is known of the time before.
    """
    when = datetime.fromisoformat(at)
    for span in reversed(tasks):
        if span.end and datetime.fromisoformat(span.end) < when:
            return None
        if span.begin and datetime.fromisoformat(span.begin) <= when:
            return span.task_id
        if not span.begin:
            return span.task_id if since_before else None
    return None
