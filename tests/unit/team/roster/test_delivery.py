"""The delivery protocol over real journals and a clock that moves by hand."""

import asyncio
import json

import pytest
import structlog

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import records, supervision
from orchestrator.core.record_drafts import inbox_draft
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import SysIO
from orchestrator.team.roster import agent_views, broadcast, delivery
from tests.support.pure_team import BUDGET
from tests.support.team import FakeClock, Team, settle


@pytest.fixture
def anyio_backend():
    return "asyncio"


pytestmark = pytest.mark.anyio


@pytest.fixture
def team(tmp_path):
    team = Team(tmp_path)
    yield team
    team.close()


def wait(team, timeout_s=45.0, age_s=0.0, agent="a1", epoch=1, req="w:1"):
    return asyncio.ensure_future(
        delivery.wait_for_command(team.roster, agent, epoch, timeout_s=timeout_s, age_s=age_s, req=req)
    )


async def emit(team, kind, task_id=None, payload=None, req="e:1", epoch=1):
    return await delivery.emit_event(
        team.roster, "a1", epoch, kind=kind, task_id=task_id, payload=payload, done=None, req=req
    )


async def enqueue(team, task_id, payload=None, req=None):
    return await delivery.enqueue(team.roster, "a1", task_id=task_id, payload=payload, req=req or f"m:{task_id}")


def outbox(team, agent="a1"):
    lines = team.paths.outbox(agent).read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for record in found:
        records.OUTBOX.validate_python(record)
    return found


async def test_a_waiting_agent_gets_a_task_as_soon_as_it_is_enqueued(team):
    await team.agent()
    call = wait(team)
    await settle()
    assert not call.done()
    answer = await enqueue(team, "t1", {"command": "true"})
    assert answer == {"position": 1, "task_id": "t1", "state": "queued"}
    got = await call
    assert got["status"] == "command"
    assert got["command"]["payload"] == {"command": "true"}
    assert "t1" in got["reminder"]


async def test_a_task_has_a_title_in_events_broadcast_and_views(team):
    await team.agent()
    await enqueue(team, "t1", {"command": "make check\nmake test"})
    await delivery.enqueue(team.roster, "a1", task_id="t2", payload={"task": "x"}, req="m:t2", title="Review it")
    await wait(team)
    entry = team.roster.entry("a1")
    assert agent_views.row(team.roster, entry)["running_task_title"] == "make check make test"
    titles = [task["title"] for task in agent_views.meta_of(team.roster, entry)["tasks"]]
    assert titles == ["make check make test", "Review it"]
    await emit(team, "error", "t1", {"message": "exit 2"})
    end = outbox(team)[-1]
    assert (end["type"], end["title"]) == ("error", "make check make test")
    assert broadcast.digest("a1", end)["title"] == end["title"]
    assert agent_views.row(team.roster, entry)["last_task"] == {
        "task_id": "t1", "title": "make check make test", "outcome": "error", "reason": "exit 2", "at": end["at"],
    }  # fmt: skip


async def test_a_task_of_an_old_log_is_titled_by_its_payload_or_its_id(team):
    await team.agent()
    entry = team.roster.entry("a1")
    for task_id, payload in (("t1", {"goal": "write docs"}), ("t2", None)):
        fields = {"task_id": task_id, "payload": payload, "position": 1}
        draft = inbox_draft(entry.state, "task", "2026-01-01T00:00:00.000Z", None, **fields)
        await team.roster.commit(entry, [draft])
    titles = [task["title"] for task in agent_views.meta_of(team.roster, entry)["tasks"]]
    assert titles == ["write docs", "t2"]


async def test_a_wait_ends_at_its_timeout_and_not_before(team):
    await team.agent()
    call = wait(team, timeout_s=60.0)
    await team.clock.advance(59.9)
    assert not call.done()
    await team.clock.advance(0.1)
    assert (await call)["status"] == "timeout"


async def test_a_poll_answers_at_once(team):
    await team.agent()
    assert (await wait(team, timeout_s=0.0))["status"] == "timeout"
    await enqueue(team, "t1")
    assert (await wait(team, timeout_s=0.0))["status"] == "command"


async def test_the_age_of_a_resent_wait_counts(team):
    await team.agent()
    call = wait(team, timeout_s=60.0, age_s=50.0)
    await team.clock.advance(10.0)
    assert (await call)["status"] == "timeout"


async def test_a_second_wait_ends_the_first_with_a_timeout(team):
    await team.agent()
    first = wait(team)
    await settle()
    second = wait(team)
    await settle()
    assert (await first)["status"] == "timeout"
    await enqueue(team, "t1")
    assert (await second)["command"]["task_id"] == "t1"


async def test_a_client_that_vanishes_in_a_wait_loses_nothing(team):
    entry = await team.agent()
    call = wait(team)
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert entry.waiting is None
    await enqueue(team, "t1")
    assert (await wait(team))["command"]["task_id"] == "t1"
    vanished = wait(team)
    await settle()
    assert (await vanished)["command"]["task_id"] == "t1"


async def test_each_answer_has_another_cursor(team):
    await team.agent()
    cursors = {(await wait(team, timeout_s=0.0))["cursor"] for _ in range(20)}
    assert len(cursors) == 20


async def test_ready_is_written_by_the_first_wait_once(team):
    await team.agent(ready=False)
    for _ in range(3):
        await wait(team, timeout_s=0.0)
    assert [r["type"] for r in outbox(team)] == ["starting", "ready"]


async def test_ten_tasks_end_in_ten_terminal_events_in_order_and_never_overlap(team):
    await team.agent()
    for n in range(10):
        assert (await enqueue(team, f"t{n}"))["position"] == n + 1
        await enqueue(team, f"t{n}", req=f"again:{n}")
    for n in range(10):
        got = await wait(team)
        assert got["command"]["task_id"] == f"t{n}"
        await emit(team, "ack", req=f"e:{n}a")
        await emit(team, "result", payload={"n": n}, req=f"e:{n}r")
    held, ends = None, []
    for record in outbox(team):
        if record["type"] == "delivered":
            assert held in (None, record["task_id"])
            held = record["task_id"]
        if record["type"] in TERMINAL:
            assert held == record["task_id"]
            held = None
            ends.append(record["task_id"])
    assert ends == [f"t{n}" for n in range(10)]


async def test_parallel_emit_and_wait_of_one_turn_do_not_redeliver(team):
    await team.agent()
    await enqueue(team, "t1")
    await enqueue(team, "t2")
    await wait(team)
    await emit(team, "ack")
    call = wait(team)
    await team.clock.advance(1.0)
    assert not call.done()
    await emit(team, "result", req="e:2")
    assert (await call)["command"]["task_id"] == "t2"
    assert not [r for r in outbox(team) if r.get("redelivered")]


async def test_an_acked_task_is_redelivered_after_two_seconds_and_blocked_after_three_times(team):
    entry = await team.agent()
    await enqueue(team, "t1")
    await wait(team)
    await emit(team, "ack")
    for _ in range(3):
        call = wait(team)
        await team.clock.advance(2.0)
        assert (await call)["command"]["redelivered"] is True
    call = wait(team, timeout_s=45.0)
    await team.clock.advance(44.0)
    assert not call.done()
    assert entry.state.blocked.reason == "no terminal event"
    await team.clock.advance(1.0)
    assert (await call)["status"] == "timeout"


async def test_a_cancel_reaches_a_waiting_agent_at_once(team):
    await team.agent()
    await enqueue(team, "t1")
    await wait(team)
    await emit(team, "ack")
    call = wait(team)
    await settle()
    assert (await delivery.cancel(team.roster, "a1", task_id="t1", req="m:c"))["state"] == "cancel_requested"
    assert (await call)["command"] == {"kind": "cancel", "task_id": "t1"}
    page = await delivery.events_read(team.roster, "a1", since_seq=0, max_events=100, wait_s=0)
    assert page["events"][-1]["type"] == "cancel_requested"
    assert (await emit(team, "canceled", req="e:9"))["ok"]


async def test_events_read_gives_the_delta_and_waits_for_news(team):
    await team.agent()
    first = await delivery.events_read(team.roster, "a1", since_seq=0, max_events=1, wait_s=0)
    assert first["more"]
    assert first["last_seq"] == 1
    second = await delivery.events_read(team.roster, "a1", since_seq=1, max_events=100, wait_s=0)
    assert [r["type"] for r in second["events"]] == ["ready"]
    call = asyncio.ensure_future(
        delivery.events_read(team.roster, "a1", since_seq=second["last_seq"], max_events=100, wait_s=30)
    )
    await settle()
    assert not call.done()
    await enqueue(team, "t1")
    await wait(team)
    assert (await call)["events"][0]["type"] == "delivered"


async def test_since_seq_beyond_the_end_is_refused(team):
    await team.agent()
    with pytest.raises(BadRequest) as caught:
        await delivery.events_read(team.roster, "a1", since_seq=99, max_events=1, wait_s=0)
    assert caught.value.code == "bad_argument"


async def test_large_answers_are_paged(team):
    await team.agent()
    for n in range(20):
        await enqueue(team, f"t{n}")
        await wait(team)
        await emit(team, "result", payload="x" * 1500, req=f"e:{n}")
    seq, seen = 0, []
    while True:
        page = await delivery.events_read(team.roster, "a1", since_seq=seq, max_events=1000, wait_s=0)
        assert len(json.dumps(page)) < 14_000
        seen += [r["task_id"] for r in page["events"] if r["type"] == "result"]
        seq = page["last_seq"]
        if not page["more"]:
            break
    assert seen == [f"t{n}" for n in range(20)]


async def test_the_broadcast_repeats_terminal_and_lifecycle_records_in_order(team):
    await team.agent()
    await enqueue(team, "t1")
    await wait(team)
    await emit(team, "result", payload={"big": "x" * 5000})
    await team.clock.advance(0.01)
    page = await delivery.broadcast_read(team.roster, team.roster.runs["run-1"], since_seq=0, max_events=10, wait_s=0)
    assert [(r["type"], r["ref"]) for r in page["events"]] == [("starting", 1), ("ready", 2), ("result", 4)]
    assert "payload" not in page["events"][-1]
    assert page["events"][-1]["payload_bytes"] > 5000
    for line in team.paths.broadcast("run-1").read_text().splitlines():
        records.BROADCAST.validate_python(json.loads(line))


async def test_a_payload_over_the_limit_is_refused_and_nothing_written(team):
    await team.agent()
    before = team.paths.inbox("a1").read_bytes()
    with pytest.raises(BadRequest) as caught:
        await enqueue(team, "t1", "x" * 300_000)
    assert caught.value.code == "payload_too_large"
    assert team.paths.inbox("a1").read_bytes() == before


async def test_two_clients_enqueuing_at_once_get_distinct_positions(team):
    await team.agent()
    answers = await asyncio.gather(*(enqueue(team, f"t{n}", req=f"c{n % 2}:{n}") for n in range(50)))
    assert sorted(a["position"] for a in answers) == list(range(1, 51))


async def test_a_restart_goes_on_where_the_records_stand(team, tmp_path):
    await team.agent()
    await enqueue(team, "t1", {"p": 1})
    await enqueue(team, "t2")
    await wait(team)
    await emit(team, "ack")
    await delivery.cancel(team.roster, "a1", task_id="t2", req="m:c")
    team.close()
    again = Team(tmp_path, FakeClock(2000.0)).load()
    entry = again.roster.entry("a1")
    assert entry.state.lease.task_id == "t1"
    assert entry.state.finished["t2"].outcome == "canceled"
    call = wait(again)
    await again.clock.advance(2.0)
    assert (await call)["command"]["redelivered"]
    assert (await emit(again, "result"))["ok"]
    assert await enqueue(again, "t1", {"p": 1}, req="m:t1") == {"position": 1, "task_id": "t1", "state": "result"}
    again.close()


@pytest.mark.parametrize("log", ["outbox", "inbox"])
async def test_what_a_crash_kept_from_the_broadcast_is_published_on_restart(team, tmp_path, log):
    await team.agent()
    await enqueue(team, "t1")
    await enqueue(team, "t2")
    await wait(team)
    await emit(team, "result")
    await team.clock.advance(0.01)
    team.close()
    path = team.paths.broadcast("run-1")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1]))
    again = Team(tmp_path).load()
    page = await delivery.broadcast_read(
        again.roster, again.roster.runs["run-1"], since_seq=0, max_events=10, wait_s=0
    )
    assert [r["type"] for r in page["events"]] == ["starting", "ready", "result"]
    again.close()
    third = Team(tmp_path).load()
    assert third.roster.runs["run-1"].journal.last_seq == 3
    third.close()


async def test_an_outbox_that_lost_lines_the_broadcast_knows_is_corrupt_and_the_rest_works(team, tmp_path):
    await team.agent("a1")
    await team.agent("b1")
    await enqueue(team, "t1")
    await wait(team)
    await emit(team, "result")
    await team.clock.advance(0.01)
    team.close()
    path = team.paths.outbox("a1")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    again = Team(tmp_path).load()
    assert again.roster.corrupt["a1"].code == "corrupt_log"
    with pytest.raises(Exception, match="outbox"):
        again.roster.entry("a1")
    assert await delivery.enqueue(again.roster, "b1", task_id="x", payload=None, req="m:x")
    again.close()


async def test_a_call_of_an_older_life_is_refused_and_leaves_no_record(team):
    entry = await team.agent()
    before = len(outbox(team))
    with pytest.raises(Conflict) as caught:
        await emit(team, "result", epoch=0)
    assert caught.value.code == "replaced"
    assert len(outbox(team)) == before
    assert entry.state.epoch == 1


async def test_nothing_is_answered_or_delivered_before_it_is_durable(tmp_path):
    """Hold the sync back: the enqueue must not answer and the task must not be handed out."""
    held = []

    class Held(Syncer):
        def submit(self, job, done):
            held.append((job, done))

    team = Team(tmp_path, syncer=Syncer(lambda e: None, threads=0))
    await team.agent()
    syncer = Held(lambda e: None, threads=0)
    entry = team.roster.entry("a1")
    for journal in entry.logs.values():
        journal._syncer = syncer
    call, answer = wait(team), asyncio.ensure_future(enqueue(team, "t1"))
    await settle()
    assert not answer.done()
    assert not call.done()
    job, done = held.pop()
    job()
    done(None)
    await settle()
    assert answer.done()
    assert call.done()
    await answer
    team.close()


async def test_a_full_disk_fails_the_call_and_the_next_one_works(team, monkeypatch):
    entry = await team.agent()

    def pwrite(self, fd, data, offset):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(SysIO, "pwrite", pwrite)
        with pytest.raises(Environment) as caught:
            await enqueue(team, "t1")
    assert caught.value.code == "disk_full"
    assert not entry.state.unfinished
    assert (await enqueue(team, "t1"))["position"] == 1


async def test_a_late_end_of_an_old_life_is_refused_and_leaves_a_note_and_no_record(team):
    entry = await team.agent()
    await delivery.enqueue(team.roster, "a1", task_id="t1", payload=1, req="c:1")
    assert (await wait(team))["command"]["task_id"] == "t1"
    at = "2026-01-01T00:00:00.000Z"
    await team.roster.commit(entry, supervision.exited(entry.state, at=at, how="signal", reason="r", signal=9))
    await team.roster.commit(entry, supervision.after_exit(entry.state, at=at, budget=BUDGET))
    before = entry.outbox.last_seq
    with structlog.testing.capture_logs() as noted, pytest.raises(Conflict) as caught:
        await emit(team, "result", "t1", epoch=1)
    assert caught.value.code == "replaced"
    assert entry.outbox.last_seq == before
    [note] = noted
    assert (note["agent"], note["life"], note["what"], note["task"]) == ("a1", 1, "result", "t1")


async def test_an_end_that_comes_after_the_tasks_end_leaves_a_note_and_no_record(team):
    entry = await team.agent()
    await delivery.enqueue(team.roster, "a1", task_id="t1", payload=1, req="c:1")
    await wait(team)
    await emit(team, "result", "t1")
    before = entry.outbox.last_seq
    with structlog.testing.capture_logs() as noted:
        assert (await emit(team, "error", "t1", req="e:2"))["duplicate"]
    assert entry.outbox.last_seq == before
    assert [(note["task"], note["type"]) for note in noted] == [("t1", "error")]
