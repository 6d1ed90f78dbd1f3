"""What is remembered for a run that is being created is forgotten where no run comes of it."""

import asyncio

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import Environment
from orchestrator.spawn.database import Database
from orchestrator.spawn.run_data import Reply, RunRequest
from orchestrator.spawn.runs import RunCreation, SpawnRuns


class Prompt:
    """Answers at once."""

    resumes = False

    async def call(self, ask):
        return Reply("yes", model=ask.model)


@pytest.fixture
def play(tmp_path):
    """Runs a coroutine with a service, what was remembered, what was forgotten."""

    def run(body):
        async def whole():
            kept, forgotten = [], []
            runs = SpawnRuns(tmp_path, SystemClock(), {"engine": Prompt()}, lambda _: None, forgotten.append)
            asked = RunRequest(task="Tea?", mode="single", engines=("claude",))
            env = {"SMART_SPAWN_MCP_HOME": str(tmp_path / "home"), "SMART_SPAWN_API_URL": "off"}
            try:
                await body(runs, RunCreation(asked, env, "conn:1", kept.append), kept, forgotten)
            finally:
                await runs.close()

        asyncio.run(whole())

    return run


def test_a_call_that_is_sent_again_remembers_nothing_for_a_second_run(play):
    async def body(runs, request, kept, forgotten):
        first = (await runs.create(request))["run_id"]
        assert (await runs.create(request))["run_id"] == first
        again = next(one for one in kept if one != first)
        assert again in forgotten

    play(body)


def test_a_run_that_cannot_be_stored_leaves_nothing_in_memory(play, monkeypatch):
    async def body(runs, request, kept, forgotten):
        await runs.listed(request.env, None, None)
        with monkeypatch.context() as patch:

            async def refuse(*_):
                raise Environment("disk_full", "no room")

            patch.setattr(Database, "write", refuse)
            with pytest.raises(Environment):
                await runs.create(request)
        assert kept == forgotten

    play(body)
