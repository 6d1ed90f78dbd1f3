"""Gives the same calls to the model and to another database of a fleet, and compares every answer.

At the end every host reads all that the functions show, so that the content of every table is compared as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_model import FleetModel, ModelSession
from tests.support.fleet_programs import BASES, HOSTS, NAMES, Op
from tests.support.fleet_rows import Agent
from tests.support.team import Alarm

VERSIONS = {"a": 1, "b": 2, "c": 1}
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SetClock:
    """A clock that a program sets; nothing waits for it."""

    at: datetime = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - START).total_seconds()

    def timer(self, delay: float, callback: Callable[[], None]) -> Alarm:
        raise AssertionError("no call of a program waits")


class FleetUnderTest(Protocol):
    """One database with an empty project whose hosts are `HOSTS`; each method acts on that project alone."""

    def session(self, host: str) -> functions.FleetDatabase: ...
    async def set_time(self, at: datetime) -> None: ...
    async def drain(self, host: str, draining: bool) -> None: ...
    async def give_up(self, host: str) -> None: ...


class ModelFleet:
    """The model as a fleet under test."""

    def __init__(self, project: str, model: FleetModel | None = None) -> None:
        self.clock = SetClock()
        self.model = model or FleetModel(self.clock)
        self.clock = self.model.clock  # type: ignore[assignment]
        self.project = project
        for host in HOSTS:
            self.model.add_host(project, host)
        self._sessions = {host: ModelSession(self.model, project, host) for host in HOSTS}

    def session(self, host: str) -> functions.FleetDatabase:
        return self._sessions[host]

    async def set_time(self, at: datetime) -> None:
        self.clock.at = at

    async def drain(self, host: str, draining: bool) -> None:
        self.model.drain(self.project, host, draining=draining)

    async def give_up(self, host: str) -> None:
        self.model.give_up(self.project, host)

    def agent(self, name: str) -> Agent | None:
        return self.model.tables.projects[self.project].agents.get(name)


@dataclass
class Comparison:
    """Runs one program on the model and on another database; raises AssertionError at the first difference."""

    model: ModelFleet
    other: FleetUnderTest
    at: datetime = START
    asked: list[tuple[int, int]] = field(default_factory=list)  # ids of the same question in both
    boots: dict[str, str] = field(default_factory=dict)

    async def run(self, program: list[Op]) -> None:
        await self._set_time(0)
        for n, op in enumerate(program):
            await getattr(self, f"_{op.name}")(f"step {n}: {op}", op.host, dict(op.choices))
        await self._all_content()

    async def _both(
        self, where: str, host: str, call: Callable[[functions.FleetDatabase, int], Awaitable[Any]]
    ) -> tuple[Any, Any]:
        """Make the call in both and compare; ``call`` gets the database and 0 for the model, 1 for the other."""
        answers = [await _answer(call(one.session(host), n)) for n, one in enumerate((self.model, self.other))]
        model, other = (_plain(answer) for answer in answers)
        assert model == other, f"{where}\n  model: {model}\n  other: {other}"
        return answers[0], answers[1]

    async def _set_time(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        for one in (self.model, self.other):
            await one.set_time(self.at)

    async def _time(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._set_time(choices["seconds"])

    async def _join(self, where: str, host: str, choices: dict[str, Any]) -> None:
        facts = functions.HostFacts(
            f"i-{host}" + ("-copy" if choices["copy"] else ""), choices["boot"], "1.0", VERSIONS[host],
            {"engines": ["shell"], "places": 2}, choices["repository"],
        )  # fmt: skip
        joined, _ = await self._both(where, host, lambda one, _: one.join(facts))
        if isinstance(joined, functions.Joined):
            self.boots[host] = choices["boot"]

    def _request(self, host: str, **more: Any) -> functions.BeatRequest:
        caps = {"engines": list(more.pop("engines", ("shell", "codex"))), "places": more.pop("places", 2)}
        return functions.BeatRequest(f"i-{host}", self.boots.get(host, "1"), caps, **more)

    async def _beat(self, where: str, host: str, choices: dict[str, Any]) -> None:
        known = dict.fromkeys(HOSTS, choices.pop("known"))
        request = self._request(host, known_views=known, **choices)
        await self._both(where, host, lambda one, n: self._whole_beat(one, n, request))

    async def _beats(self, where: str, host: str, choices: dict[str, Any]) -> None:
        for _ in range(choices["rounds"]):
            await self._set_time(functions.BEAT_S)
            for each in choices["others"]:
                await self._both(where, each, lambda one, n, each=each: self._whole_beat(one, n, self._request(each)))

    async def _create(self, where: str, host: str, choices: dict[str, Any]) -> None:
        agents = [
            functions.NewFleetAgent(
                new["base"], new["taken"], new["to"], new["engine"], new["lost"], f"{host}:{new['req']}", {"é": new["req"]}
            )
            for new in {new["req"]: new for new in choices["new"]}.values()
        ]  # fmt: skip
        await self._both(where, host, lambda one, _: one.create(choices["run"], agents))

    async def _post(self, where: str, host: str, kind: Any, choices: dict[str, Any]) -> None:
        body = {"of": choices["req"]} | ({"title": f"é\0{choices['req']}"} if choices["req"] % 2 else {})
        post = functions.NewPost(
            choices["agent"], kind, f"{host}:{kind}:{choices['req']}", body, choices.get("task"),
            choices.get("limit", 0), choices.get("force", False),
        )  # fmt: skip
        await self._both(where, host, lambda one, _: one.post(post))

    async def _task(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._post(where, host, "task", choices)

    async def _done(self, where: str, host: str, choices: dict[str, Any]) -> None:
        """A task is posted, its owner ships the end, and it is posted and canceled again."""
        name, task_id = choices["agent"], choices["task"]
        await self._post(where, host, "task", {**choices, "limit": 9})
        agent = self.model.agent(name)
        if agent is not None:
            line = functions.ShippedLine(agent.end("outbox") + 1, choices["type"], task_id, task_id)
            part = functions.LogPart(name, agent.fence, "ready", (), (line,))
            await self._both(where, agent.host, lambda one, _: one.ship([part]))
        for kind in ("task", "cancel"):
            await self._post(where, host, kind, {**choices, "req": choices["req"] + 1, "limit": 9})

    async def _cancel(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._post(where, host, "cancel", choices)

    async def _restart(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._post(where, host, "restart", choices)

    async def _stop(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._post(where, host, "stop", choices)

    async def _take(self, where: str, host: str, choices: dict[str, Any]) -> None:
        after = dict.fromkeys(NAMES, choices["after"])
        await self._both(where, host, lambda one, _: one.take(after, choices["each"]))
        await self._both(where, host, lambda one, _: one.untaken(after, choices["each"]))

    async def _ship(self, where: str, host: str, choices: dict[str, Any]) -> None:
        known = {name: self.model.agent(name) for name, *_ in choices["parts"]}
        first = next((agent for agent in known.values() if agent), None)
        if first is not None and not choices["stranger"]:
            host = first.host
        parts = []
        for name, fence, inbox, outbox, life, in_lines, out_lines in choices["parts"]:
            agent = known[name]
            ends = (agent.end("inbox"), agent.end("outbox")) if agent else (0, 0)
            parts.append(
                functions.LogPart(
                    name, (agent.fence if agent else 1) + fence, life,
                    _shipped(ends[0] + 1 + inbox, in_lines, inbox=True), _shipped(ends[1] + 1 + outbox, out_lines, inbox=False),
                )
            )  # fmt: skip
        await self._both(where, host, lambda one, _: one.ship(parts))

    async def _ownership(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._both(where, host, lambda one, _: one.ownership(NAMES))

    async def _move(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._both(where, host, lambda one, _: one.move(choices["dead"]))

    async def _lose(self, where: str, host: str, choices: dict[str, Any]) -> None:
        """One host is silent until another one may declare it lost; then it is ``back``, or not."""
        dead = choices["dead"]
        left = tuple(each for each in HOSTS if each != dead)
        await self._beats(where, host, {"others": left, "rounds": 13})
        if choices["given_up"]:
            await self._give_up(where, dead, {})
        await self._move(where, host if host != dead else left[0], {"dead": dead})
        if choices["back"]:
            await self._both(where, dead, lambda one, n: self._whole_beat(one, n, self._request(dead)))

    async def _read(self, where: str, host: str, choices: dict[str, Any]) -> None:
        asked = (choices["agent"], choices["log"], choices["after"], choices["lines"], choices["bytes"])
        await self._both(where, host, lambda one, _: one.read(*asked))

    async def _read_new(self, where: str, host: str, choices: dict[str, Any]) -> None:
        after = dict.fromkeys(NAMES, (choices["inbox"], choices["outbox"]))
        await self._both(where, host, lambda one, _: one.read_new(after))

    async def _late(self, where: str, host: str, choices: dict[str, Any]) -> None:
        lines = list({line[:2]: functions.LateLine(*line) for line in choices["lines"]}.values())
        await self._both(where, host, lambda one, _: one.late(choices["agent"], choices["fence"], lines))

    async def _late_lines(self, where: str, host: str, choices: dict[str, Any]) -> None:
        asked = (choices["agent"], choices["after"], choices["lines"], choices["bytes"])
        await self._both(where, host, lambda one, _: one.late_lines(*asked))

    async def _take_run(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._both(where, host, lambda one, _: one.take_run(choices["run"], choices["gen"]))

    async def _forget(self, where: str, host: str, choices: dict[str, Any]) -> None:
        await self._both(where, host, lambda one, _: one.forget(choices["agents"]))

    async def _ask(self, where: str, host: str, choices: dict[str, Any]) -> None:
        ids: list[Any] = [0, 0]

        async def call(one: functions.FleetDatabase, n: int) -> int:
            ids[n] = await one.ask(choices["to"], "peek", choices["body"], choices["wait"])
            return 0

        await self._both(where, host, call)
        if all(ids):
            self.asked.append((ids[0], ids[1]))

    async def _asks(self, where: str, host: str, choices: dict[str, Any]) -> None:
        async def call(one: functions.FleetDatabase, n: int) -> Any:
            return self._numbered(await one.asks(), n)

        await self._both(where, host, call)

    def _numbered(self, asks: Any, n: int) -> list[Any]:
        order = {ids[n]: number for number, ids in enumerate(self.asked)}
        return [ask._replace(id=order[ask.id]) for ask in asks]

    async def _answer(self, where: str, host: str, choices: dict[str, Any]) -> None:
        ids = self.asked[-1 - choices["ask"]] if choices["ask"] < len(self.asked) else (999_999, 999_999)
        await self._both(where, host, lambda one, n: one.answer(ids[n], choices["answer"]))

    async def _answered(self, where: str, host: str, choices: dict[str, Any]) -> None:
        ids = self.asked[-1 - choices["ask"]] if choices["ask"] < len(self.asked) else (999_999, 999_999)
        await self._both(where, host, lambda one, n: one.answered(ids[n]))

    async def _drain(self, where: str, host: str, choices: dict[str, Any]) -> None:
        for one in (self.model, self.other):
            await one.drain(host, choices["draining"])

    async def _give_up(self, where: str, host: str, choices: dict[str, Any]) -> None:
        for one in (self.model, self.other):
            await one.give_up(host)

    async def _all_content(self) -> None:
        """Every row, as the functions show it: each host binds again, renews, takes and reads all."""
        await self._set_time(60)
        names = [f"{base}-{n}" if n > 1 else base for base in BASES for n in range(1, 9)]
        for host in HOSTS:
            where = f"the content at the end, read by {host}"
            await self._join(where, host, {"boot": "9", "copy": False, "repository": ""})
            await self._both(where, host, lambda one, n, host=host: self._whole_beat(one, n, self._request(host)))
            await self._both(where, host, lambda one, _: one.take(dict.fromkeys(names, 0)))
        for name in names:
            where = f"the content of {name} at the end"
            for log in ("inbox", "outbox"):
                await self._both(where, "a", lambda one, _, name=name, log=log: one.read(name, log, 0, 999, 1 << 20))
            await self._both(where, "a", lambda one, _, name=name: one.late_lines(name, 0, 999, 1 << 20))
        await self._both("the fences at the end", "a", lambda one, _: one.ownership(names))

    async def _whole_beat(
        self, one: functions.FleetDatabase, n: int, request: functions.BeatRequest
    ) -> functions.Beat:
        """The beat with questions named by their order: ids differ between two databases."""
        beat = await one.beat(request)
        return dataclasses.replace(beat, asks=tuple(self._numbered(beat.asks, n)))


def _shipped(seq: int, lines: list[tuple[str, str, str]], *, inbox: bool) -> tuple[functions.ShippedLine, ...]:
    shipped = []
    for n, (drawn, task_id, text) in enumerate(lines):
        kind = "task" if inbox else "ack" if drawn == "task" else drawn
        named = task_id if kind in TERMINAL or inbox else None
        shipped.append(functions.ShippedLine(max(1, seq) + n, kind, named, f'{{"type":"{kind}","text":"{text}"}}'))
    return tuple(shipped)


async def _answer(call: Awaitable[Any]) -> Any:
    """The answer, or the code of the error."""
    try:
        return await call
    except OrchestratorError as error:
        return f"{error.kind} {error.code}"


def _plain(answer: Any) -> Any:
    """An answer in a form that is equal in both: other identities of the database, seconds rounded to microseconds."""
    if isinstance(answer, functions.Joined):
        return (answer.project, answer.host)
    if isinstance(answer, functions.Beat):
        heads = (answer.own, answer.homes, answer.hosts, answer.runs, answer.views, answer.asks)
        return [_plain(part) for part in heads]
    if isinstance(answer, float):
        return round(answer, 6)
    if isinstance(answer, list | tuple):
        return [_plain(part) for part in answer]
    if isinstance(answer, Mapping):
        return {key: _plain(value) for key, value in answer.items()}
    return answer
