"""Logs of several files in a team: agents are found, folded and shown whatever file their records are in."""

from __future__ import annotations

import pytest

from orchestrator.base.errors import Corrupt
from orchestrator.core.record_types import OUTBOX_TYPES
from orchestrator.journal.log import Journal
from orchestrator.journal.segments import full_path, log_files
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster import offline_view
from tests.support.team import Team


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_an_agent_whose_logs_have_no_live_file_is_an_agent(tmp_path):
    first = Team(tmp_path)
    entry = await first.agent("a1")
    await first.agent("a2")
    before = [entry.outbox.since(0, 100, 1 << 20)[0], entry.inbox.last_seq]
    await first.clock.advance(0.01)
    first.close()
    # What a crash leaves between the two names of a rotation.
    for log in (first.paths.outbox("a1"), first.paths.broadcast("run-1")):
        log.rename(full_path(log, 1))
    assert [row["agent_id"] for row in offline_view.agents(tmp_path)] == ["a1", "a2"]
    assert offline_view.events(tmp_path, "a1", 0, 100)["last_seq"] == len(before[0])
    assert offline_view.broadcast(tmp_path, "run-1", 0, 100)["events"]
    assert offline_view.verify_broadcast(tmp_path, "run-1") == 4

    again = Team(tmp_path).load()
    entry = again.roster.agents["a1"]
    assert [entry.outbox.since(0, 100, 1 << 20)[0], entry.inbox.last_seq] == before
    assert again.roster.corrupt == {}
    assert again.roster.runs["run-1"].refs == {"a1": 2, "a2": 2}
    again.close()


@pytest.mark.anyio
async def test_a_record_that_cannot_follow_is_named_by_file_and_line_in_that_file(tmp_path):
    first = Team(tmp_path)
    await first.agent("a1")
    first.close()
    path = first.paths.outbox("a1")
    seal = first.paths.provenance.seal("agent", "a1", "outbox")
    log = Journal.open(path, syncer=Syncer(pytest.fail, threads=0), types=OUTBOX_TYPES, segment_bytes=1, seal=seal)
    spec = {"at": "2026-01-01T00:00:00.000Z", "epoch": 1, "by": "agent"}
    log.append(
        [{**spec, "type": "ack", "task_id": "t-none"}, {**spec, "type": "ack", "task_id": "t-none"}], sync=True
    )
    log.append([{**spec, "type": "ack", "task_id": "t-none"}], sync=True)
    log.close()
    assert [file.name for file in log_files(path)][-2:] == ["outbox.000000000003.jsonl", "outbox.jsonl"]
    again = Team(tmp_path).load()
    again.close()
    with pytest.raises(Corrupt) as alone:
        offline_view.agent(tmp_path, "a1")
    for error in (again.roster.corrupt["a1"], alone.value):
        assert error.facts == {"file": str(full_path(path, 3)), "line": 1, "seq": 3}
