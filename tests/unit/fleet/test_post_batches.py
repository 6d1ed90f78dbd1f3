"""Posts that come while another is under way share one call; each gets its own answer or its own error."""

import asyncio

import pytest

from orchestrator.base.errors import BadRequest, NotReady
from orchestrator.base.waiting import give_way
from orchestrator.fleet import post_batches
from orchestrator.fleet.post_batches import PostBatches

pytestmark = pytest.mark.anyio


class Connection:
    """Answers a post with its name; a call waits for ``release``."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.release = asyncio.Event()
        self.refused: dict[str, Exception] = {}

    async def call(self, query, values):
        names = values[0] if query == post_batches.POST_SEVERAL else [values[0]]
        self.calls.append(list(names))
        await self.release.wait()
        for name in names:
            if name in self.refused:
                raise self.refused[name]
        return [(name,) for name in names]


def post(name, body="{}"):
    return name, "task", f"req-{name}", None, body, 9, False


async def begun(batches, *posts):
    tasks = [asyncio.get_running_loop().create_task(batches.send(each)) for each in posts]
    await give_way()
    await give_way()
    return tasks


async def test_what_comes_meanwhile_goes_together_and_in_order():
    connection = Connection()
    batches = PostBatches(connection)
    first = await begun(batches, post("a"))
    rest = await begun(batches, *map(post, "bcd"))
    connection.release.set()
    assert await asyncio.gather(*first, *rest) == [("a",), ("b",), ("c",), ("d",)]
    assert connection.calls == [["a"], ["b", "c", "d"]]


async def test_who_was_answered_may_post_at_once():
    connection = Connection()
    connection.release.set()
    batches = PostBatches(connection)
    for name in "abc":
        assert await batches.send(post(name)) == (name,)
    assert connection.calls == [["a"], ["b"], ["c"]]


async def test_a_transaction_has_a_bound(monkeypatch):
    monkeypatch.setattr(post_batches, "POSTS", 3)
    monkeypatch.setattr(post_batches, "BODY_CHARACTERS", 100)
    connection = Connection()
    batches = PostBatches(connection)
    tasks = await begun(batches, post("a"))
    tasks += await begun(batches, *map(post, "bcde"), post("f", "x" * 200), post("g"))
    connection.release.set()
    await asyncio.gather(*tasks)
    assert connection.calls == [["a"], ["b", "c", "d"], ["e", "f"], ["g"]]


async def test_a_post_that_nobody_waits_for_any_more_is_not_sent():
    connection = Connection()
    batches = PostBatches(connection)
    (first,) = await begun(batches, post("a"))
    later = await begun(batches, post("b"), post("c"))
    later[0].cancel()
    connection.release.set()
    assert await asyncio.gather(first, later[1]) == [("a",), ("c",)]
    assert connection.calls == [["a"], ["c"]]


async def test_one_that_the_server_refuses_costs_the_others_nothing():
    connection = Connection()
    connection.refused["c"] = BadRequest("bad_argument", "not this one")
    batches = PostBatches(connection)
    tasks = await begun(batches, post("a"))
    tasks += await begun(batches, *map(post, "bcd"))
    connection.release.set()
    *_, refused, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert (refused.code, last) == ("bad_argument", ("d",))


async def test_with_the_database_away_each_gets_an_error_of_its_own_and_the_next_are_sent():
    connection = Connection()
    connection.refused = dict.fromkeys("bc", NotReady("fleet_away", "gone", sent=True))
    batches = PostBatches(connection)
    tasks = await begun(batches, post("a"))
    tasks += await begun(batches, *map(post, "bc"))
    connection.release.set()
    _, one, other = await asyncio.gather(*tasks, return_exceptions=True)
    assert one is not other
    assert [(each.code, each.facts) for each in (one, other)] == [("fleet_away", {"sent": True})] * 2
    assert await batches.send(post("d")) == ("d",)


async def test_a_bug_reaches_who_waits_and_stops_nothing():
    connection = Connection()
    connection.refused["a"] = RuntimeError("bug")
    connection.release.set()
    batches = PostBatches(connection)
    with pytest.raises(RuntimeError):
        await batches.send(post("a"))
    assert await batches.send(post("b")) == ("b",)
