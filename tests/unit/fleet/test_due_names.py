"""Names for which there is work are worked off together, and an error neither loses work nor ends the loop."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from orchestrator.base.errors import Environment, NotReady
from orchestrator.fleet.due_names import AGAIN_S, DueNames
from tests.support.team import FakeClock, settle

pytestmark = pytest.mark.anyio


class Work:
    """Notes the names of each call; each of ``errors`` is raised by one call, in order."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.errors: list[Exception] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, names):
        self.calls.append(names)
        await self.may_end.wait()
        if self.errors:
            raise self.errors.pop(0)


@asynccontextmanager
async def begun():
    work, clock = Work(), FakeClock()
    due = DueNames(work, "testing", clock)
    due.begin()
    try:
        yield due, work, clock
    finally:
        await due.close()


async def test_names_go_together_once_each_and_in_the_order_in_which_they_came():
    async with begun() as (due, work, _):
        due.add(["b", "a"])
        due.add(["c", "b"])
        await settle()
        assert work.calls == [["b", "a", "c"]]


async def test_names_that_come_meanwhile_wait_for_the_next_call():
    async with begun() as (due, work, _):
        work.may_end.clear()
        due.add(["a"])
        await settle()
        due.add(["a", "b"])
        await settle()
        assert work.calls == [["a"]]
        work.may_end.set()
        await settle()
        assert work.calls == [["a"], ["a", "b"]]


async def test_work_that_is_about_no_agent_is_done_once_without_names():
    async with begun() as (due, work, _):
        due.add([])
        await settle()
        assert work.calls == []
        due.wake()
        await settle()
        assert work.calls == [[]]


async def test_with_the_database_away_names_are_left_to_the_next_renewal():
    async with begun() as (due, work, clock):
        work.errors.append(NotReady("fleet_away", "the database is away"))
        due.add(["a"])
        await clock.advance(AGAIN_S)
        assert work.calls == [["a"]]
        due.add(["b"])
        await settle()
        assert work.calls == [["a"], ["b"]]


async def test_what_was_refused_is_tried_again_after_a_pause_before_what_came_since():
    async with begun() as (due, work, clock):
        work.errors.append(Environment("io_failed", "the disk is full"))
        due.add(["a"])
        await settle()
        due.add(["b"])
        await settle()
        assert work.calls == [["a"]]
        await clock.advance(AGAIN_S)
        assert work.calls == [["a"], ["a", "b"]]


async def test_after_a_bug_other_names_are_worked_off_without_the_one_that_caused_it():
    async with begun() as (due, work, clock):
        work.errors.append(KeyError("a"))
        due.add(["a"])
        await settle()
        due.add(["b"])
        await settle()
        assert work.calls == [["a"]]
        await clock.advance(AGAIN_S)
        assert work.calls == [["a"], ["b"]]


async def test_closing_ends_work_that_is_under_way():
    async with begun() as (due, work, _):
        work.may_end.clear()
        due.add(["a"])
        await settle()
        await due.close()
        work.may_end.set()
        due.add(["b"])
        await settle()
        assert work.calls == [["a"]]
