"""The clean end of a daemon: whatever was written before it is durable, and the broadcast repeats it."""

import asyncio

import pytest

from orchestrator.core import decisions
from orchestrator.team.recovery.verification import verify
from tests.support.faulty_disk import HeldSyncer
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio
AT = "2026-01-01T00:00:00.001Z"


async def test_what_became_durable_at_the_very_end_is_in_the_broadcast(tmp_path):
    syncer = HeldSyncer()
    team = Team(tmp_path, syncer=syncer)

    async def done(work):
        task = asyncio.ensure_future(work)
        while not task.done():
            await settle()
            syncer.run()
        return await task

    entry = await done(team.agent(ready=False))
    team.roster.write(entry, decisions.ready(entry.state, at=AT, req=None))
    await done(team.roster.flush())
    assert team.roster.runs["run-1"].refs == {"a1": entry.outbox.last_seq}
    team.close()
    assert verify(tmp_path, live=False, settled=True).violations == []
