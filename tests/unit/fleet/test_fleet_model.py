"""The model of the fleet's database keeps the contract of `FleetDatabase`: every status and refusal of each function."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_model import Fate, FleetModel, ModelSession, NoFaults, SeededFaults
from tests.support.fleet_rules import microseconds
from tests.support.team import FakeClock

pytestmark = pytest.mark.anyio

P = "shop"
CAPS = {"engines": ["shell"], "places": 2}


class Fleet:
    """A model with hosts a, b and c that have joined and renewed."""

    def __init__(self, faults=None) -> None:
        self.clock = FakeClock()
        self.model = FleetModel(self.clock, faults)
        self.hosts: dict[str, ModelSession] = {}
        self.reqs = itertools.count()
        for name in "abc":
            self.model.add_host(P, name)
            self.hosts[name] = ModelSession(self.model, P, name)

    async def begin(self) -> Fleet:
        for name in self.hosts:
            await self.join(name)
            await self.beat(name, fresh=True)
        return self

    def __getattr__(self, name: str) -> ModelSession:
        return self.hosts[name]

    async def join(self, name: str, instance: str = "", boot: str = "1", log_v: int = 1, repository: str = "r"):
        facts = functions.HostFacts(instance or f"i-{name}", boot, "1.0", log_v, CAPS, repository)
        return await self.hosts[name].join(facts)

    async def beat(self, name: str, instance: str = "", boot: str = "1", **more):
        request = functions.BeatRequest(instance or f"i-{name}", boot, more.pop("caps", CAPS), **more)
        return await self.hosts[name].beat(request)

    async def beats(self, names: str, seconds: int) -> None:
        for _ in range(0, seconds, 2):
            await self.clock.advance(2)
            for name in names:
                await self.beat(name)

    async def create(
        self, at: str = "a", host: str | None = "b", lost: str = "wait", **more
    ) -> functions.PlacedAgent:
        new = functions.NewFleetAgent(
            base=more.get("base", "w"), taken=more.get("taken", ()), host=host, engine=more.get("engine", "shell"),
            on_host_lost=lost, req=more.get("req", f"r{next(self.reqs)}"), body={"role": "x"},
        )  # fmt: skip
        return (await self.hosts[at].create(more.get("run_id", "run-1"), [new]))[0]

    async def task(self, task_id: str, at: str = "a", agent: str = "w", req: str = "", limit: int = 10, body=None):
        return await self.hosts[at].post(
            functions.NewPost(agent, "task", req or f"q-{task_id}", body or {"of": task_id}, task_id, limit)
        )

    async def ask_for(self, kind: str, at: str = "a", agent: str = "w", **more):
        return await self.hosts[at].post(functions.NewPost(agent, kind, more.pop("req", f"q-{kind}"), {}, **more))

    async def ship(self, at: str = "b", agent: str = "w", fence: int = 1, life: str = "ready", inbox=(), outbox=()):
        part = functions.LogPart(agent, fence, life, tuple(inbox), tuple(outbox))
        return (await self.hosts[at].ship([part]))[0]


def line(seq: int, kind: str = "ack", task_id: str | None = None, text: str = "") -> functions.ShippedLine:
    return functions.ShippedLine(seq, kind, task_id, text or f'{{"seq": {seq}, "type": "{kind}"}}')


@pytest.fixture
async def fleet():
    return await Fleet().begin()


async def refused(call) -> str:
    with pytest.raises(OrchestratorError) as caught:
        await call
    return caught.value.code


# -- hosts --------------------------------------------------------------------------------------------------------


async def test_join_binds_a_host_to_its_instance_and_boot(fleet):
    assert await fleet.join("a") == functions.Joined(P, "a", fleet.model.tables.incarnation, 1)
    assert await refused(fleet.join("a", instance="copy")) == "host_taken"
    assert await refused(fleet.join("a", boot="2")) == "host_taken"
    await fleet.clock.advance(15)
    await fleet.join("a", boot="2")
    assert await refused(fleet.beat("a")) == "host_taken"
    assert await refused(fleet.join("a", instance="copy")) == "host_taken"


async def test_join_refuses_strangers(fleet):
    stranger = ModelSession(fleet.model, P, "z")
    fleet.hosts["z"] = stranger
    assert await refused(fleet.join("z")) == "host_unknown"
    assert await refused(fleet.join("a", repository="other")) == "project_taken"
    assert (await fleet.join("a", repository="")).host == "a"
    for schema, code in ((2, "schema_newer"), (0, "schema_older")):
        fleet.model.tables.schema = schema
        assert await refused(fleet.join("a")) == code


async def test_a_beat_renews_the_lease_and_returns_the_heads(fleet):
    fleet.model.add_host(P, "d")
    await fleet.create()
    await fleet.task("t1")
    await fleet.clock.advance(4)
    mine = await fleet.beat("a")
    assert [(row.host, row.lease_left_s, row.places, row.agents) for row in mine.hosts] == [
        ("a", 15.0, 2, 0), ("b", 11.0, 2, 1), ("c", 11.0, 2, 0), ("d", None, 0, 0),
    ]  # fmt: skip
    assert mine.own == ()
    assert mine.homes == (functions.HomeAgent("w", "run-1", "b", 1, 2, 0, 0),)
    assert mine.runs == (functions.RunHomeRow("run-1", "a", 1),)
    await fleet.create(host="a", base="own")
    assert [one.agent for one in (await fleet.beat("a")).homes] == ["w"]
    theirs = await fleet.beat("b")
    assert theirs.own == (functions.OwnAgent("w", "run-1", "a", 1, 2, 0, 0, "wait", False),)
    assert (theirs.homes, theirs.runs) == ((), ())
    assert await refused(fleet.beat("a", instance="copy")) == "host_taken"


async def test_a_beat_brings_views_once_and_open_questions(fleet):
    await fleet.create()
    await fleet.beat("b", view=[{"agent": "w"}])
    assert (await fleet.beat("a")).views == (functions.HostView("b", 1, [{"agent": "w"}]),)
    assert (await fleet.beat("a", known_views={"b": 1})).views == ()
    await fleet.beat("b", view=[])
    assert (await fleet.beat("a", known_views={"b": 1})).views == (functions.HostView("b", 2, []),)
    assert (await fleet.beat("b")).views == ()
    # The home of no agent there learns only what can start there, each time.
    assert (await fleet.beat("c", known_views={"b": 2})).views == (
        functions.HostView("b", 0, {"engines": ["shell"]}),
    )
    ask_id = await fleet.b.ask("a", "peek", {"n": 1}, 5)
    assert (await fleet.beat("a")).asks == (functions.Ask(ask_id, "b", "peek", {"n": 1}, 5.0),)


# -- create -------------------------------------------------------------------------------------------------------


async def test_create_finds_a_free_id_and_answers_a_resent_call(fleet):
    assert await fleet.create(req="r1") == functions.PlacedAgent("w", "b", "", False)
    assert await fleet.create(req="r1") == functions.PlacedAgent("w", "b", "", True)
    assert (await fleet.create(req="r2", taken=("w-2", "w-3"))).agent == "w-4"
    assert [(post.seq, post.kind, post.body) for post in await fleet.b.take({"w": 0})] == [
        (1, "create", {"role": "x"})
    ]


async def test_create_refuses_hosts_that_cannot_take_an_agent(fleet):
    fleet.model.drain(P, "c")
    await fleet.clock.advance(14)
    await fleet.beat("a")
    await fleet.beat("c")
    await fleet.clock.advance(2)
    for host, why in (("z", "host_unknown"), ("b", "host_away"), ("c", "host_draining")):
        assert await fleet.create(host=host) == functions.PlacedAgent("", host, why, False)
    assert (await fleet.create(host="a", engine="codex")) == functions.PlacedAgent("", "a", "engine_missing", False)
    assert (await fleet.create(host=None, engine="codex")) == functions.PlacedAgent("", "", "no_host", False)
    assert (await fleet.create(host=None)).host == "a"
    assert await refused(fleet.create(at="c", host="c")) == "not_home"


async def test_any_takes_the_host_with_most_free_places(fleet):
    places = [(await fleet.create(host=None)).host for _ in range(6)]
    assert places == ["a", "b", "c", "a", "b", "c"]
    assert (await fleet.create(host=None)).why == "no_host"
    assert (await fleet.create(host="a")).why == ""  # a named host decides itself
    await fleet.ship("b", "w-2", life="stopped")
    assert (await fleet.create(host=None)).host == "b"


# -- post and take ------------------------------------------------------------------------------------------------


async def test_tasks_are_numbered_and_answered_the_same_when_sent_again(fleet):
    await fleet.create()
    first = await fleet.task("t1")
    assert first == functions.PostAnswer("accepted", "b", 2, 1, 0, "new")
    second = await fleet.task("t2", at="c")
    assert (second.seq, second.position, second.unfinished) == (3, 2, 1)
    again = await fleet.task("t1")
    assert (again.status, again.seq, again.position) == ("again", 2, 1)
    known = await fleet.task("t1", req="other")
    assert (known.status, known.seq, known.position, known.body, known.outcome) == (
        "known_task",
        2,
        1,
        {"of": "t1"},
        "",
    )
    await fleet.ship(outbox=[line(1, "result", "t1")])
    assert (await fleet.task("t1", req="other")).outcome == "result"
    assert (await fleet.task("t3")).unfinished == 1


async def test_posts_are_refused_by_name(fleet):
    assert await fleet.task("t1") == functions.PostAnswer("no_agent", "")
    await fleet.create()
    await fleet.task("t1", limit=1)
    assert (await fleet.task("t2", limit=1)).status == "queue_full"
    assert (await fleet.ask_for("cancel", task_id="t9")).status == "unknown_task"
    assert (await fleet.ask_for("cancel", task_id="t1")).status == "accepted"
    await fleet.ship(outbox=[line(1, "canceled", "t1")])
    over = await fleet.ask_for("cancel", task_id="t1", req="later")
    assert (over.status, over.outcome) == ("task_over", "canceled")


async def test_a_stop_closes_the_queue(fleet):
    await fleet.create()
    await fleet.task("t1")
    assert (await fleet.ask_for("stop")).status == "accepted"
    assert (await fleet.ask_for("stop")).status == "again"
    assert (await fleet.task("t2")).status == "agent_ended"
    assert (await fleet.ask_for("restart")).status == "agent_ended"
    assert (await fleet.ask_for("stop", req="other")).status == "agent_ended"
    assert (await fleet.ask_for("stop", req="forced", force=True)).status == "accepted"
    assert (await fleet.task("t1", req="other")).status == "known_task"


@pytest.mark.parametrize(
    ("life", "kind", "status"),
    [
        ("failed", "task", "agent_ended"), ("failed", "restart", "accepted"), ("failed", "stop", "accepted"),
        ("stopped", "task", "agent_ended"), ("stopped", "restart", "agent_ended"), ("stopped", "stop", "accepted"),
        ("deleted", "task", "agent_ended"), ("deleted", "stop", "agent_ended"), ("exited", "task", "accepted"),
    ],
)  # fmt: skip
async def test_the_mirrored_life_refuses_posts(fleet, life, kind, status):
    await fleet.create()
    await fleet.ship(life=life)
    answer = await fleet.ask_for(kind, limit=1, task_id="t" if kind == "task" else None)
    assert (answer.status, answer.life) == (status, life)


async def test_take_returns_posts_of_own_agents_only(fleet):
    await fleet.create()
    await fleet.create(host="c")
    for n in range(3):
        await fleet.task(f"t{n}")
    taken = await fleet.b.take({"w": 1, "w-2": 0, "none": 0}, each=2)
    assert [(post.agent, post.seq, post.task_id, post.by_host) for post in taken] == [
        ("w", 2, "t0", "a"), ("w", 3, "t1", "a"),
    ]  # fmt: skip
    assert taken[0].at == "2026-01-01T00:16:40.000Z"


# -- the mirror ---------------------------------------------------------------------------------------------------


async def test_ship_stores_dense_records_of_the_owner(fleet):
    await fleet.create()
    assert (await fleet.ship(inbox=[line(1), line(2)])) == functions.ShipAnswer("w", "stored", 2, 0, 1, "b")
    assert (await fleet.ship(inbox=[line(4)])).status == "gap"
    assert (await fleet.ship(inbox=[line(2), line(3)])).status == "gap"
    assert (await fleet.ship(inbox=[line(2, text="other"), line(3)])).status == "forked"
    assert (await fleet.ship(at="c", inbox=[line(3)])) == functions.ShipAnswer("w", "fenced", 2, 0, 1, "b")
    assert (await fleet.ship(fence=2, inbox=[line(3)])).status == "fenced"
    assert (await fleet.ship(agent="none")) == functions.ShipAnswer("none", "fenced", 0, 0, 0, "")
    assert (await fleet.ship(inbox=[line(3)], outbox=[line(1, "result", "t")])).status == "stored"
    assert (await fleet.ship(outbox=[line(2, "error", "t")])).status == "forked"
    twice = [line(2, "error", "u"), line(3, "result", "u")]
    assert (await fleet.ship(outbox=twice)) == functions.ShipAnswer("w", "forked", 3, 1, 1, "b")


async def test_one_misfit_part_leaves_the_others(fleet):
    await fleet.create()
    await fleet.create()
    parts = [functions.LogPart("w", 9, "ready"), functions.LogPart("w-2", 1, "ready", (line(1),))]
    assert [answer.status for answer in await fleet.b.ship(parts)] == ["fenced", "stored"]


async def test_read_returns_the_mirror_in_pieces(fleet):
    await fleet.create()
    await fleet.ship(inbox=[line(seq, text="é" * 5) for seq in (1, 2, 3)])
    assert [row.seq for row in await fleet.a.read("w", "inbox", 0, 2, 1000)] == [1, 2]
    assert [row.seq for row in await fleet.a.read("w", "inbox", 1, 9, 20)] == [2, 3]
    assert await fleet.a.read("w", "inbox", 1, 9, 1) == [functions.MirroredLine(2, 1, "é" * 5)]
    assert await fleet.a.read("w", "outbox", 0, 9, 9) == await fleet.a.read("none", "inbox", 0, 9, 9) == []


async def test_read_new_returns_what_follows_in_several_mirrors(fleet):
    await fleet.create()
    await fleet.create()
    await fleet.ship(inbox=[line(seq, text="i") for seq in range(1, 103)], outbox=[line(1, text="o")])
    (new,) = await fleet.a.read_new({"w-2": (0, 0), "w": (1, 0), "none": (0, 0)})
    assert [row.seq for row in new.inbox] == list(range(2, 102))
    assert (new.agent, new.outbox) == ("w", (functions.MirroredLine(1, 1, "o"),))
    assert await fleet.a.read_new({"w": (102, 1)}) == []


async def test_late_lines_are_kept_once(fleet):
    await fleet.create()
    lines = [functions.LateLine("outbox", 2, "x"), functions.LateLine("inbox", 3, "y")]
    for _ in range(2):
        await fleet.c.late("w", 1, lines)
    await fleet.c.late("none", 1, lines)
    await fleet.b.late("w", 2, lines[:1])
    kept = [(1, 1, "c", *lines[0]), (2, 1, "c", *lines[1]), (3, 2, "b", *lines[0])]
    assert await fleet.a.late_lines("w", 0, 9, 9) == kept
    assert await fleet.a.late_lines("w", 1, 1, 9) == kept[1:2]
    assert await fleet.a.late_lines("w", 0, 9, 0) == [functions.KeptLateLine(*row[:5], "") for row in kept]
    assert await fleet.a.late_lines("none", 0, 9, 9) == []
    assert [row.late for row in (await fleet.beat("b")).own] == [3]


async def test_forget_removes_deleted_agents_of_the_own_home(fleet):
    await fleet.create()
    await fleet.create()
    await fleet.ship(agent="w-2", life="deleted")
    assert await fleet.b.forget(["w-2"]) == []
    assert await fleet.a.forget(["w", "w-2", "none"]) == ["w-2"]
    assert await fleet.a.ownership(["w", "w-2"]) == {"w": functions.Ownership("b", 1)}
    assert (await fleet.create()).agent == "w-2"


# -- moves --------------------------------------------------------------------------------------------------------


async def test_a_host_is_not_declared_lost_too_early(fleet):
    assert await refused(fleet.a.move("z")) == "host_unknown"
    await fleet.beats("ac", 20)
    assert await refused(fleet.a.move("b")) == "host_alive"
    await fleet.beats("ac", 2)
    assert await fleet.a.move("b") == []
    await fleet.beat("a", fresh=True)
    assert await refused(fleet.a.move("b")) == "too_early"
    await fleet.beats("a", 18)
    assert await refused(fleet.a.move("b")) == "too_early"
    await fleet.beats("a", 2)
    assert await fleet.a.move("b") == []


async def test_renewals_with_a_gap_are_not_unbroken(fleet):
    await fleet.beats("ac", 14)
    await fleet.clock.advance(5.5)
    await fleet.beats("ac", 20)
    assert await refused(fleet.a.move("b")) == "too_early"
    await fleet.beats("a", 2)
    assert await fleet.a.move("b") == []


async def test_a_mover_must_be_alive_and_of_one_boot(fleet):
    await fleet.beats("ac", 22)
    await fleet.clock.advance(15)
    assert await refused(fleet.a.move("b")) == "too_early"
    await fleet.beats("a", 24)
    assert await fleet.a.move("b") == []
    await fleet.clock.advance(15)
    await fleet.join("a", boot="2")
    await fleet.beat("a", boot="2")
    assert await refused(fleet.a.move("b")) == "too_early"


async def test_a_host_that_was_given_up_gets_no_agents_until_it_joins(fleet):
    fleet.model.give_up(P, "a")
    fleet.model.drain(P, "b")
    fleet.model.drain(P, "c")
    assert (await fleet.create(host=None)).why == "no_host"
    await fleet.join("a")
    assert (await fleet.create(host=None)).host == "a"


async def test_an_outage_breaks_the_renewals_of_all(fleet):
    await fleet.create(lost="move")
    await fleet.beats("abc", 30)
    await fleet.clock.advance(40)
    await fleet.beat("a")
    assert await refused(fleet.a.move("b")) == "too_early"


async def test_move_agents_go_to_a_host_that_can_run_them(fleet):
    await fleet.create(lost="move")
    await fleet.create(lost="wait")
    await fleet.beat("b", caps=CAPS | {"engines": ["codex"]})
    await fleet.create(lost="move", engine="codex")
    await fleet.beat("b")
    await fleet.create(lost="move", base="gone")
    await fleet.ship(agent="gone", life="deleted")
    await fleet.beats("ac", 22)
    fleet.model.drain(P, "a")
    assert await fleet.a.move("b") == [functions.MovedAgent("w", "c", 2, False)]
    assert (await fleet.ship(at="b", inbox=[line(1)])).status == "fenced"
    assert (await fleet.ship(at="c", fence=2, inbox=[line(1)])).status == "stored"
    fleet.model.give_up(P, "b")
    assert await fleet.a.move("b") == [
        functions.MovedAgent("w-2", "a", 2, True), functions.MovedAgent("w-3", "a", 2, True),
    ]  # fmt: skip
    assert [own.ends for own in (await fleet.beat("a")).own] == [True, True]
    assert (await fleet.task("t1", agent="w-2")).status == "agent_ended"
    fleet.model.drain(P, "a", draining=False)
    await fleet.beats("c", 24)
    await fleet.beat("c", caps=CAPS | {"engines": ["codex"]})
    assert await fleet.c.move("a") == []  # they end, so no other host begins them


async def test_logs_move_only_to_a_host_that_reads_them(fleet):
    await fleet.join("b", log_v=2)
    await fleet.create(lost="move")
    await fleet.beats("ac", 22)
    assert await fleet.a.move("b") == []
    await fleet.join("c", log_v=2)
    assert await fleet.a.move("b") == [functions.MovedAgent("w", "c", 2, False)]


async def test_a_run_whose_home_is_lost_ends_its_agents_at_the_next_home(fleet):
    await fleet.create(at="b", host="b")
    await fleet.beats("ac", 22)
    fleet.model.give_up(P, "b")
    assert await fleet.a.move("b") == []
    assert await fleet.c.take_run("run-1", 1) == functions.RunHomeRow("run-1", "c", 2)
    assert await fleet.a.take_run("run-1", 1) == functions.RunHomeRow("run-1", "c", 2)
    assert await refused(fleet.a.take_run("run-9", 1)) == "unknown_run"
    assert await fleet.a.move("b") == [functions.MovedAgent("w", "c", 2, True)]
    assert (await fleet.beat("c")).runs == (functions.RunHomeRow("run-1", "c", 2),)
    await fleet.clock.advance(16)
    assert (await fleet.beat("b")).runs == (functions.RunHomeRow("run-1", "c", 2),)
    assert await refused(fleet.create(at="b", host="b")) == "not_home"


# -- questions ----------------------------------------------------------------------------------------------------


async def test_a_question_is_answered_once_and_taken_once(fleet):
    assert await refused(fleet.a.ask("z", "peek", None, 1)) == "host_unknown"
    ask_id = await fleet.a.ask("b", "peek", {"lines": 3}, 10)
    assert [one.id for one in await fleet.b.asks()] == [ask_id]
    assert await fleet.c.asks() == []
    assert await fleet.a.answered(ask_id) == (False, None)
    await fleet.c.answer(ask_id, "forged")
    await fleet.b.answer(ask_id, {"text": "x"})
    await fleet.b.answer(ask_id, "second")
    assert await fleet.b.asks() == []
    assert await fleet.b.answered(ask_id) == (False, None)
    assert await fleet.a.answered(ask_id) == (True, {"text": "x"})
    assert await fleet.a.answered(ask_id) == (False, None)


async def test_a_question_that_is_over_gets_no_answer(fleet):
    ask_id = await fleet.a.ask("b", "peek", None, 3)
    await fleet.clock.advance(3)
    assert await fleet.b.asks() == []
    await fleet.b.answer(ask_id, "late")
    assert await fleet.a.answered(ask_id) == (False, None)


# -- failures -----------------------------------------------------------------------------------------------------


class Script(NoFaults):
    """These fates, one after the other; then none."""

    def __init__(self, *fates: Fate, news: tuple[float, ...] = (0.0,)) -> None:
        self.fates = list(fates)
        self.delays = news

    def call(self, host, function):
        return self.fates.pop(0) if self.fates else Fate()

    def news(self, sender, receiver, kind):
        return self.delays


@pytest.mark.parametrize(("outcome", "status"), [("not_done", "accepted"), ("untold", "again")])
async def test_a_call_that_is_not_answered_was_done_or_not(fleet, outcome, status):
    await fleet.create()
    fleet.model.faults = Script(Fate(outcome))
    assert await refused(fleet.task("t1")) == "fleet_away"
    assert (await fleet.task("t1")).status == status


async def test_a_slow_server_does_a_call_after_it_was_given_up(fleet):
    await fleet.create()
    fleet.model.faults = Script(Fate("late", after_s=2))
    assert await refused(fleet.task("t1")) == "fleet_away"
    assert len(await fleet.b.take({"w": 1})) == 0
    await fleet.clock.advance(2)
    assert len(await fleet.b.take({"w": 1})) == 1


async def test_a_closed_connection_brings_no_answer(fleet):
    await fleet.create()
    fleet.model.faults = Script(Fate(after_s=1))
    call = asyncio.ensure_future(refused(fleet.task("t1")))
    await fleet.clock.advance(0.5)
    fleet.a.close()
    await fleet.clock.advance(0.5)
    assert await call == "fleet_away"


@pytest.mark.parametrize("survives", [True, False])
async def test_the_request_of_a_process_that_dies_is_done_or_not(fleet, survives):
    await fleet.create()
    fleet.model.faults = Script(Fate(before_s=1, survives=survives))
    call = asyncio.ensure_future(fleet.task("t1"))
    await fleet.clock.advance(0.5)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    fleet.a.close()
    await fleet.clock.advance(0.5)
    assert len(await fleet.b.take({"w": 1})) == survives
    assert await refused(fleet.task("t2")) == "fleet_away"


async def test_a_cut_host_is_not_served_and_hears_nothing(fleet):
    heard: list[functions.News] = []
    fleet.b.on_news = heard.append
    await fleet.create()
    fleet.model.cut(P, "b")
    fleet.a.tell("b", "posts", ["w"])
    await fleet.clock.advance(1)
    assert await refused(fleet.ship(inbox=[line(1)])) == "fleet_away"
    fleet.model.cut(P, "b", "answers")
    assert await refused(fleet.ship(inbox=[line(1)])) == "fleet_away"
    fleet.model.heal(P, "b")
    assert (await fleet.ship(inbox=[line(1)])).in_seq == 1
    assert heard == []
    fleet.a.tell("b", "posts", ["w", "w"])
    await fleet.clock.advance(1)
    assert heard == [functions.News("posts", ("w",))]


async def test_news_are_lost_late_or_come_twice(fleet):
    heard: list[functions.News] = []
    fleet.b.on_news = heard.append
    for delays in ((), (1.0, 3.0)):
        fleet.model.faults = Script(news=delays)
        fleet.a.tell("b", "log", [f"w-{n}" for n in range(101)])
        await fleet.clock.advance(2)
        assert heard == [functions.News("log", ())] * (len(delays) // 2)
    await fleet.clock.advance(2)
    assert len(heard) == 2


async def test_an_outage_leaves_calls_on_the_way_unanswered(fleet):
    await fleet.create()
    fleet.model.faults = Script(Fate(after_s=2), Fate(before_s=2))
    calls = [asyncio.ensure_future(refused(fleet.task(name))) for name in ("t1", "t2")]
    await fleet.clock.advance(1)
    fleet.model.stop()
    assert await refused(fleet.task("t3")) == "fleet_away"
    fleet.model.start()
    await fleet.clock.advance(2)
    assert await asyncio.gather(*calls) == ["fleet_away"] * 2
    assert [post.task_id for post in await fleet.b.take({"w": 1})] == ["t1"]


async def test_a_failover_to_an_older_copy_uses_no_number_twice(fleet):
    await fleet.create()
    await fleet.task("t1")
    await fleet.a.ask("b", "peek", None, 9)
    earlier = fleet.model.copy()
    await fleet.task("t2")
    ask_id = await fleet.a.ask("b", "peek", None, 9)
    fleet.model.restore(earlier)
    assert (await fleet.join("a")).timeline == 2
    first = microseconds(fleet.clock.now()) + 1
    again = await fleet.task("t2")
    assert (again.status, again.seq) == ("accepted", first)
    assert await fleet.b.asks() == []
    assert await fleet.a.ask("b", "peek", None, 9) > ask_id
    assert [post.seq for post in await fleet.b.take({"w": 0})] == [1, 2, first]
    # Of the same copy once more: what was accepted since the first failover is lost, and its numbers are too.
    await fleet.clock.advance(1)
    fleet.model.restore(earlier)
    await fleet.join("a")
    assert (await fleet.task("t3")).seq > first
    fleet.model.restore(fleet.model.copy(), incarnation="other")
    assert (await fleet.beat("a")).incarnation == "other"
    assert earlier.projects[P].agents["w"].last_post == 2


async def test_the_same_seed_makes_the_same_faults():
    async def told(seed: int) -> list[str]:
        fleet = await Fleet().begin()
        await fleet.create(req="c")
        fleet.model.faults = SeededFaults(
            random.Random(seed), 0.2, 0.2, 0.2, max_delay_s=1, news_lost=0.3, news_twice=0.3
        )
        steps: list[str] = []
        fleet.model.on_step = lambda step: steps.append(f"{step.function} {step.caller.now} {step.answer}")
        fleet.b.on_news = lambda news: steps.append(str(news))
        calls = [asyncio.ensure_future(fleet.task(f"t{n}")) for n in range(30)]
        for _ in range(30):
            fleet.a.tell("b", "posts", ["w"])
        await fleet.clock.advance(5)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return steps + [str(answer) for answer in answers]

    assert await told(1) == await told(1) != await told(2)
    lost = sum("did not answer" in line for line in await told(3))
    assert 0 < lost < 30
