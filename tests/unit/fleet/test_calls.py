"""Questions of other hosts: each is answered once, also after a database that numbers them anew."""

import asyncio
from types import SimpleNamespace

from orchestrator.fleet.calls import HostCalls
from orchestrator.fleet.database_functions import Ask


class Database:
    """Keeps what is answered."""

    def __init__(self):
        self.answers = []

    async def answer(self, ask_id, answer):
        self.answers.append((ask_id, answer["answer"]))

    def tell(self, host, kind):
        """Nobody listens."""


async def peek(by_host, body):
    return f"{by_host} {body['agent']}"


def asked(*rounds):
    """What is answered to these questions; None: the database was restored."""
    database = Database()

    async def run():
        calls = HostCalls(database, SimpleNamespace(), {"peek": peek})
        for asks in rounds:
            if asks is None:
                calls.begin_anew()
            else:
                calls.asked(tuple(Ask(number, "a", "peek", {"agent": agent}, 5.0) for number, agent in asks))
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        await calls.close()

    asyncio.run(run())
    return database.answers


def test_a_question_is_answered_once():
    assert asked([(1, "x")], [(1, "x"), (2, "x")]) == [(1, "a x"), (2, "a x")]


def test_a_number_that_a_restored_database_gives_again_is_another_question():
    assert asked([(1, "x")], [(1, "y")]) == [(1, "a x"), (1, "a y")]
    assert asked([(1, "x")], None, [(1, "x")]) == [(1, "a x"), (1, "a x")]
