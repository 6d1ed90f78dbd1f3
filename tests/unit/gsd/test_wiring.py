"""What a connection asks about its project: from where, for how long, and what it is told meanwhile."""

import asyncio

import pytest

from orchestrator.core.connection import ConnectionOrigin
from orchestrator.gsd import wiring as gsd_wiring
from orchestrator.gsd.questions import Questions
from orchestrator.gsd.wiring import GsdWiring
from orchestrator.protocol.tool_calls import Call, Client

pytestmark = pytest.mark.anyio


class Fake:
    """A reading process that remembers what it is asked, and answers when told to."""

    pid = 1

    def __init__(self):
        self.asked = []
        self.go = asyncio.Event()
        self.go.set()

    async def ask(self, question, place, arguments, within_s):
        self.asked.append((question, place, arguments, within_s))
        await self.go.wait()
        return {"project_root": "/p"}

    def look_around(self, needed=False):
        self.needed = needed


def client(**more):
    return Client(ConnectionOrigin("c", "/work", None, None, None, ()), "relay", "master", ("gsd",), **more)


async def test_a_question_carries_the_connections_own_place():
    fake = Fake()
    await Questions(fake, client(env={"GSD_PROJECT_ROOT": "/p"})).ask("q", {"a": 1}, None, named="x")
    question, place, arguments, _ = fake.asked[0]
    assert (question, arguments) == ("q", {"a": 1})
    assert place == {"cwd": "/work", "named": "x", "variable": "/p", "roots": ()}


@pytest.mark.parametrize(
    ("limit", "age", "within"),
    [(None, 0.0, 60.0), (40, 0.0, 25.0), (40, 20.0, 5.0), (40, 39.0, 1.0), (3600, 0.0, 60.0), (None, 10.0, 50.0)],
)
async def test_it_is_answered_before_its_client_gives_up(limit, age, within):
    fake = Fake()
    await Questions(fake, client(call_limit_s=limit)).ask("q", {}, None, age_s=age)
    assert fake.asked[0][3] == within


async def test_the_project_of_a_connection_is_that_of_its_own_place_not_a_named_one():
    questions = Questions(Fake(), client())
    await questions.ask("q", {}, None, named="/other")
    assert questions.root == ""
    await questions.ask("q", {}, None)
    assert questions.root == "/p"


async def test_a_call_that_lasts_says_what_it_waits_for(monkeypatch):
    monkeypatch.setattr(gsd_wiring, "TELL_S", 0.0)
    wiring, told = GsdWiring(), asyncio.Queue()
    fake = wiring.reader = Fake()
    fake.go.clear()
    tool = wiring.tools(client())["gsd_phase_status"]
    call = Call(client(), "r", 0.0, told.put_nowait)
    running = asyncio.create_task(tool.run(call, tool.arguments()))
    assert "reading" in await told.get()
    fake.go.set()
    assert await running == {"project_root": "/p"}
    assert fake.asked[0][:3] == (
        "gsd_phase_status", {"cwd": "/work", "named": "", "variable": "", "roots": ()}, {"phase": ""},
    )  # fmt: skip


async def test_who_listens_for_changes_keeps_the_process_and_begins_another_when_it_is_gone():
    wiring = GsdWiring()
    fake = wiring.reader = Fake()
    one = client()
    questions = wiring.questions(one)
    wiring.look_around()
    assert fake.needed is False
    questions.watch()
    await asyncio.wait(questions._tasks)
    wiring.look_around()
    assert fake.needed is True
    fake.pid = None
    wiring.look_around()
    await asyncio.wait(questions._tasks)
    assert [question for question, *_ in fake.asked] == ["watch", "watch"]
    wiring.part(one)
    wiring.look_around()
    assert fake.needed is False
