"""Tasks that are kept until they end."""

import asyncio

import pytest

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.waiting import call_off


@pytest.mark.anyio
async def test_a_task_is_kept_until_it_has_ended_however_it_ends():
    async def fail():
        raise ValueError("no")

    tasks = BackgroundTasks()
    good, bad = tasks.start(asyncio.sleep(0, "done")), tasks.start(fail())
    assert set(tasks) == {good, bad}
    assert await good == "done"
    with pytest.raises(ValueError, match="no"):
        await bad
    await asyncio.sleep(0)
    assert not list(tasks)


@pytest.mark.anyio
async def test_canceled_tasks_are_kept_until_they_have_ended():
    tasks = BackgroundTasks()
    task = tasks.start(asyncio.Event().wait())
    await asyncio.sleep(0)
    tasks.cancel()
    assert list(tasks) == [task]
    await call_off(tasks)
    assert task.cancelled()
    assert not list(tasks)
