"""A model of the fleet's database for the seeded simulation: its tables, a clock, and a network that fails.

`FleetModel` is the database, `ModelSession` a host's connection to it: it implements `FleetDatabase`. Each function is
one atomic step of `fleet_tables.py`. `Faults` decides about every call: it is done, not done, done and not told, or done
after it was given up; how long request and answer take; and which news are lost, late or come twice. Partitions,
outages and a failover are methods of `FleetModel`.

Deterministic: time is the clock's, chance is the `random.Random` of `SeededFaults`, no set is iterated.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from orchestrator.base.clock import Clock
from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.base.waiting import elapse
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_rows import Host, Project
from tests.support.fleet_rules import Caller
from tests.support.fleet_tables import FleetTables

Outcome = Literal["told", "not_done", "untold", "late"]
Cut = Literal["all", "answers"]
NAMES_IN_NEWS = 100


class Fate(NamedTuple):
    """What happens to one call. Its request takes ``before_s``, its answer ``after_s``.

    ``late``: the call is given up with `fleet_away` and done ``after_s`` later, as by a server that was slow.
    ``survives``: the request is done even if the process that sent it dies on the way.
    """

    outcome: Outcome = "told"
    before_s: float = 0.0
    after_s: float = 0.0
    survives: bool = False


class Faults(Protocol):
    """Decides about calls and news; asked once for each, in the order in which they are made."""

    def call(self, host: str, function: str) -> Fate: ...

    def news(self, sender: str, receiver: str, kind: functions.NewsKind) -> Sequence[float]:
        """The delays of the copies that arrive: none if the news is lost."""


class NoFaults:
    """Everything is done at once and told."""

    def call(self, host: str, function: str) -> Fate:
        return Fate()

    def news(self, sender: str, receiver: str, kind: functions.NewsKind) -> Sequence[float]:
        return (0.0,)


@dataclass
class SeededFaults:
    """Faults at these rates, all drawn from ``random``."""

    random: random.Random
    not_done: float = 0.0
    untold: float = 0.0
    late: float = 0.0
    survives: float = 0.5
    max_delay_s: float = 0.0
    news_lost: float = 0.0
    news_twice: float = 0.0
    news_max_delay_s: float = 0.0

    def call(self, host: str, function: str) -> Fate:
        drawn = self.random.random()
        before_s, after_s = (self.random.random() * self.max_delay_s for _ in range(2))
        outcome: Outcome = "told"
        for name, rate in (("not_done", self.not_done), ("untold", self.untold), ("late", self.late)):
            if 0 <= drawn < rate:
                outcome = name
            drawn -= rate
        return Fate(outcome, before_s, after_s, self.random.random() < self.survives)

    def news(self, sender: str, receiver: str, kind: functions.NewsKind) -> Sequence[float]:
        lost, twice = self.random.random() < self.news_lost, self.random.random() < self.news_twice
        delays = [self.random.random() * self.news_max_delay_s for _ in range(2)]
        return () if lost else delays[: 1 + twice]


class Step(NamedTuple):
    """One call that the database has done, for an auditor."""

    caller: Caller
    function: str
    arguments: tuple[Any, ...]
    answer: Any  # or the OrchestratorError that refused it


class FleetModel:
    """One database with all its hosts. The methods are what its administrator and fate do to it."""

    def __init__(self, clock: Clock, faults: Faults | None = None, tables: FleetTables | None = None) -> None:
        self.clock = clock
        self.faults = faults or NoFaults()
        self.tables = tables or FleetTables()
        self.sessions: list[ModelSession] = []
        self.on_step: Callable[[Step], None] = lambda _step: None
        self.away = False
        self.connections = 0
        """Raised by an outage: what was sent before is not told, and not done unless it was done before."""
        self._cuts: dict[tuple[str, str], Cut] = {}

    # -- what an administrator does ------------------------------------------------------------------------------

    def add_host(self, project: str, host: str) -> None:
        """Make a host and its role; an existing one is bound anew by its next `join`."""
        self.tables.projects.setdefault(project, Project()).hosts[host] = Host()

    def drain(self, project: str, host: str, *, draining: bool = True) -> None:
        self.tables.projects[project].hosts[host].draining = draining

    def give_up(self, project: str, host: str) -> None:
        """`host remove --lost`: its agents move with the next `move`, or go to the home of their run to be ended."""
        self.tables.projects[project].hosts[host].lost = True

    # -- what happens to it --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The database is away for all until `start`; calls on the way are not told."""
        self.away = True
        self.connections += 1

    def start(self) -> None:
        self.away = False

    def cut(self, project: str, host: str, what: Cut = "all") -> None:
        """Cut a host off. ``answers``: its requests arrive and are done, but neither answers nor news reach it."""
        self._cuts[project, host] = what

    def heal(self, project: str, host: str) -> None:
        self._cuts.pop((project, host), None)

    def copy(self) -> FleetTables:
        """The content of now, for a later `restore`."""
        return copy.deepcopy(self.tables)

    def restore(self, earlier: FleetTables, *, incarnation: str | None = None) -> None:
        """Fail over to a copy: another timeline, or another ``incarnation`` after a restore from a backup.

        What was committed since the copy is gone, and so are all questions: their table is unlogged. The first call
        raises the numbers of all queues.
        """
        timeline, next_ask = self.tables.timeline, self.tables.next_ask
        self.tables = copy.deepcopy(earlier)
        self.tables.timeline = timeline + 1
        self.tables.incarnation = incarnation or self.tables.incarnation
        self.tables.next_ask = next_ask
        for project in self.tables.projects.values():
            project.asks.clear()
        self.connections += 1

    # -- for sessions --------------------------------------------------------------------------------------------

    def takes_requests(self, session: ModelSession, connection: int) -> bool:
        cut = self._cuts.get((session.project, session.host))
        return not self.away and connection == self.connections and cut != "all"

    def tells(self, session: ModelSession, connection: int) -> bool:
        cut = self._cuts.get((session.project, session.host))
        return not self.away and connection == self.connections and cut is None

    def do(self, caller: Caller, function: str, arguments: tuple[Any, ...]) -> Any:
        """Do one step. Raises what refuses it."""
        answer: Any
        try:
            answer = getattr(self.tables, function)(caller, *arguments)
        except OrchestratorError as error:
            self.on_step(Step(caller, function, arguments, error))
            raise
        self.on_step(Step(caller, function, arguments, answer))
        return answer

    def spread(self, sender: ModelSession, host: str, news: functions.News) -> None:
        if not self.takes_requests(sender, self.connections):
            return
        for delay in self.faults.news(sender.host, host, news.kind):
            self.clock.timer(delay, lambda: self._bring(sender.project, host, news))

    def _bring(self, project: str, host: str, news: functions.News) -> None:
        for session in list(self.sessions):
            if (session.project, session.host) == (project, host) and self.tells(session, self.connections):
                session.on_news(news)


class ModelSession:
    """`FleetDatabase` for one host of one project, on a `FleetModel`.

    A host's process that dies: cancel the tasks that call, then `close`. A call that is cancelled before its request
    has arrived is still done if its `Fate` says so.
    """

    def __init__(self, model: FleetModel, project: str, host: str) -> None:
        self.model = model
        self.project = project
        self.host = host
        self.on_news: Callable[[functions.News], None] = lambda _news: None
        self.closed = False
        model.sessions.append(self)

    def close(self) -> None:
        """No news come any more, and calls raise `fleet_away`."""
        self.closed = True
        if self in self.model.sessions:
            self.model.sessions.remove(self)

    def tell(self, host: str, kind: functions.NewsKind, agents: Iterable[str] = ()) -> None:
        names = tuple(sorted(dict.fromkeys(agents)))
        if not self.closed:
            named = names if len(names) <= NAMES_IN_NEWS else ()
            self.model.spread(self, host, functions.News(kind, named))

    async def _call(self, function: str, *arguments: Any) -> Any:
        model = self.model
        arguments = copy.deepcopy(arguments)  # a request says what held when it was sent
        connection = model.connections
        fate = model.faults.call(self.host, function)
        due = model.clock.monotonic() + fate.before_s

        def do() -> Any:
            return model.do(Caller(self.project, self.host, model.clock.now()), function, arguments)

        def do_unheard() -> None:
            if model.takes_requests(self, connection):
                try:
                    do()
                except OrchestratorError:
                    return  # nobody listens any more

        if self.closed or not model.takes_requests(self, connection):
            raise self._away(function)
        try:
            if fate.before_s > 0:
                await elapse(fate.before_s, model.clock)
        except asyncio.CancelledError:
            if fate.survives:
                model.clock.timer(max(0.0, due - model.clock.monotonic()), do_unheard)
            raise
        if fate.outcome == "late":
            model.clock.timer(fate.after_s, do_unheard)
        if fate.outcome in ("late", "not_done") or not model.takes_requests(self, connection):
            raise self._away(function)
        answer: Any = None
        refused: OrchestratorError | None = None
        try:
            answer = do()
        except OrchestratorError as error:
            refused = error
        if fate.after_s > 0:
            await elapse(fate.after_s, model.clock)
        if fate.outcome == "untold" or self.closed or not model.tells(self, connection):
            raise self._away(function)
        if refused is not None:
            raise refused
        return answer

    def _away(self, function: str) -> NotReady:
        return NotReady("fleet_away", f"the database of the fleet did not answer {function}")

    async def join(self, facts: functions.HostFacts) -> functions.Joined:
        joined: functions.Joined = await self._call("join", facts)
        return joined

    async def beat(self, request: functions.BeatRequest) -> functions.Beat:
        beat: functions.Beat = await self._call("beat", request)
        return beat

    async def create(self, run_id: str, agents: Sequence[functions.NewFleetAgent]) -> list[functions.PlacedAgent]:
        placed: list[functions.PlacedAgent] = await self._call("create", run_id, agents)
        return placed

    async def post(self, post: functions.NewPost) -> functions.PostAnswer:
        answer: functions.PostAnswer = await self._call("post", post)
        return answer

    async def take(self, after: Mapping[str, int], each: int = functions.POSTS_A_ROUND) -> list[functions.Post]:
        posts: list[functions.Post] = await self._call("take", after, each)
        return posts

    async def untaken(self, after: Mapping[str, int], each: int) -> list[functions.UntakenPost]:
        posts: list[functions.UntakenPost] = await self._call("untaken", after, each)
        return posts

    async def ship(self, parts: Sequence[functions.LogPart]) -> list[functions.ShipAnswer]:
        answers: list[functions.ShipAnswer] = await self._call("ship", parts)
        return answers

    async def ownership(self, agents: Sequence[str]) -> dict[str, functions.Ownership]:
        owners: dict[str, functions.Ownership] = await self._call("ownership", agents)
        return owners

    async def move(self, dead: str) -> list[functions.MovedAgent]:
        moved: list[functions.MovedAgent] = await self._call("move", dead)
        return moved

    async def read(
        self, agent: str, log: functions.LogName, after: int, lines: int, max_bytes: int
    ) -> list[functions.MirroredLine]:
        mirrored: list[functions.MirroredLine] = await self._call("read", agent, log, after, lines, max_bytes)
        return mirrored

    async def read_new(self, after: Mapping[str, tuple[int, int]]) -> list[functions.NewLines]:
        new: list[functions.NewLines] = await self._call("read_new", after)
        return new

    async def late(self, agent: str, fence: int, lines: Sequence[functions.LateLine]) -> None:
        await self._call("late", agent, fence, lines)

    async def late_lines(self, agent: str, after: int, lines: int, max_bytes: int) -> list[functions.KeptLateLine]:
        kept: list[functions.KeptLateLine] = await self._call("late_lines", agent, after, lines, max_bytes)
        return kept

    async def take_run(self, run_id: str, gen: int) -> functions.RunHomeRow:
        run: functions.RunHomeRow = await self._call("take_run", run_id, gen)
        return run

    async def forget(self, agents: Sequence[str]) -> list[str]:
        gone: list[str] = await self._call("forget", agents)
        return gone

    async def ask(self, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        ask_id: int = await self._call("ask", to_host, verb, body, wait_s)
        return ask_id

    async def asks(self) -> list[functions.Ask]:
        asks: list[functions.Ask] = await self._call("asks")
        return asks

    async def answer(self, ask_id: int, answer: Any) -> None:
        await self._call("answer", ask_id, answer)

    async def answered(self, ask_id: int) -> tuple[bool, Any]:
        found: tuple[bool, Any] = await self._call("answered", ask_id)
        return found
