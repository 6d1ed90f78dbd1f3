"""A start from checkpoints knows what a start from the logs knows, whatever becomes of the cache between the two."""

import asyncio
import os
import random
import shutil
from collections import deque
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.base.errors import Conflict, Environment
from orchestrator.core import state, supervision
from orchestrator.journal.cache import BrokenCache, Cache
from orchestrator.journal.log_lines import encode
from orchestrator.journal.project_files import Paths
from orchestrator.team.life import agent_commands
from orchestrator.team.recovery.team_adoption import seal_files
from orchestrator.team.roster import checkpoints, delivery
from orchestrator.team.roster.agent_fold import folded
from orchestrator.team.roster.checkpoints import QUIET_S, RETRY_S, SAVE_AFTER
from tests.support.pure_team import essence
from tests.support.team import Team

AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def anyio_backend():
    return "asyncio"


pytestmark = pytest.mark.anyio


async def enqueue(team, task_id, agent="a1", payload=None, req=None):
    return await delivery.enqueue(
        team.roster, agent, task_id=task_id, payload=payload or {"of": task_id}, req=req or f"m:{agent}:{task_id}"
    )


async def wait(team, agent="a1", epoch=1, req="w"):
    return (
        await delivery.wait_for_command(team.roster, agent, epoch, timeout_s=0, age_s=0, req=f"{agent}:{req}")
    ).get("command")


async def emit(team, kind, agent="a1", task_id=None, epoch=1, req=None):
    return await delivery.emit_event(
        team.roster, agent, epoch, kind=kind, task_id=task_id, payload={"k": kind}, done=None,
        req=f"{agent}:{req or kind}",
    )  # fmt: skip


async def work(team, names, agent="a1", kind="result"):
    """Enqueue the tasks and end them, one after the other."""
    for name in names:
        await enqueue(team, name, agent)
        await wait(team, agent, req=f"w{name}")
        await emit(team, kind, agent, req=f"e{name}")


async def history(team):
    """Two agents with something of everything: ended, canceled, queued and running tasks, a block, a lost life."""
    await team.agent("a1")
    await team.agent("a2", max_restarts=3)
    await work(team, [f"t{n}" for n in range(10)])
    await work(team, ["e1"], kind="error")
    await work(team, ["u1"], "a2")
    for name in ("q1", "q2", "q3"):
        await enqueue(team, name)
    await delivery.cancel(team.roster, "a1", task_id="q2", req="m:c")
    await wait(team, req="wq1")
    await emit(team, "ack", req="aq1")
    a2 = team.roster.agents["a2"]
    await enqueue(team, "lost", "a2")
    await wait(team, "a2", req="wl")
    drafts = supervision.exited(a2.state, at=AT, how="exit", reason="x", code=1)
    await team.roster.commit(a2, drafts)


async def ended(team):
    """The clean end of a daemon."""
    await team.clock.advance(1.0)
    await team.roster.flush()
    team.close()


def killed(team):
    """The end by kill -9, with all that was written in the page cache."""
    for run in team.roster.runs.values():
        run.journal.close()
    team.roster.checkpoints._cache = None  # its WAL stays as it is
    team.close()


@pytest.fixture
def applied(monkeypatch):
    """How many records were folded."""
    count = {"n": 0}
    real = state.apply

    def apply(agent, log, record):
        count["n"] += 1
        real(agent, log, record)

    monkeypatch.setattr(state, "apply", apply)
    return count


def knows(team):
    """What the team's agents are, by their state and by their logs alone; both must say the same."""
    told = {}
    for name, entry in team.roster.agents.items():
        fresh, last = folded(team.paths, name)
        alike = essence(entry.state) | {"finished": None, "calls": None}
        assert alike == essence(fresh) | {"finished": None, "calls": None}
        assert entry.outbox.last_seq == last
        assert {task: entry.state.ended(task) for task in fresh.finished} == fresh.finished
        assert set(entry.state.finished) <= set(fresh.finished)
        assert entry.state.ended("never") is None
        told[name] = essence(fresh)
    return told


async def test_a_clean_end_leaves_nothing_to_fold(tmp_path, applied):
    team = Team(tmp_path)
    await history(team)
    before = knows(team)
    await ended(team)
    applied["n"] = 0
    again = Team(tmp_path).load(clean=True)
    assert applied["n"] == 0
    run = again.roster.runs["run-1"]
    was = team.roster.runs["run-1"]
    assert (run.refs, run.born, run.since) == (was.refs, was.born, 0)
    assert run.born
    assert all(not entry.state.finished for entry in again.roster.agents.values())
    assert knows(again) == before
    again.close()


async def test_after_a_kill_only_what_came_behind_the_checkpoint_is_folded(tmp_path, applied):
    team = Team(tmp_path)
    await history(team)
    await team.roster.checkpoints.finish()
    await emit(team, "result", req="q1")
    await enqueue(team, "later")
    before = knows(team)
    killed(team)
    applied["n"] = 0
    again = Team(tmp_path).load()
    assert 0 < applied["n"] <= 4
    assert knows(again) == before
    assert set(again.roster.agents["a1"].state.finished) == {"q1"}
    again.close()


async def test_a_duplicate_of_a_task_that_left_memory_is_still_one(tmp_path):
    team = Team(tmp_path)
    await team.agent()
    await work(team, ["t1"])
    await team.roster.checkpoints.finish()
    agent = team.roster.agents["a1"].state
    for _ in range(2):
        assert not agent.finished
        answer = await enqueue(team, "t1", req="m:again")
        assert answer == {"position": 1, "task_id": "t1", "state": "result", "duplicate": True}
        with pytest.raises(Conflict) as other:
            await enqueue(team, "t1", payload={"else": 1}, req="m:else")
        assert other.value.code == "task_exists"
        with pytest.raises(Conflict) as late:
            await delivery.cancel(team.roster, "a1", task_id="t1", req="m:c")
        assert late.value.facts["outcome"] == "result"
        assert (await emit(team, "error", task_id="t1", req="late"))["duplicate"]
        await ended(team)
        team = Team(tmp_path).load(clean=True)
        agent = team.roster.agents["a1"].state
    team.close()


# -- whatever becomes of the cache ------------------------------------------------------------------------------


def removed(cache, other):
    cache.unlink()


def emptied(cache, other):
    cache.write_bytes(b"")


def made_noise(cache, other):
    cache.write_bytes(random.Random(1).randbytes(cache.stat().st_size))


def another_project(cache, other):
    shutil.copy(other / ".agents/cache.sqlite", cache)


def older(cache, other):
    shutil.copy(cache.with_name("older"), cache)


def halved(cache, other):
    os.truncate(cache, cache.stat().st_size // 2)


def a_directory(cache, other):
    cache.unlink()
    cache.mkdir()


def a_link(cache, other):
    cache.unlink()
    cache.symlink_to(other / "nowhere/cache")


@pytest.mark.parametrize(
    "mischief", [removed, emptied, made_noise, another_project, older, halved, a_directory, a_link]
)
@pytest.mark.parametrize("clean", [True, False])
async def test_nothing_depends_on_the_cache(tmp_path, mischief, clean):
    home, other = tmp_path / "p", tmp_path / "other"
    home.mkdir(), other.mkdir()
    stranger = Team(other)
    await stranger.agent("a2")  # its run begins with another record: real runs have ids of their own
    await stranger.agent("a1")
    for name in ("a1", "a2"):
        await work(stranger, [f"x{n}" for n in range(30)], name)
    await ended(stranger)

    team = Team(home)
    await team.agent("a1")
    await ended(team)
    shutil.copy(home / ".agents/cache.sqlite", home / ".agents/older")
    shutil.rmtree(home / ".agents/agents"), shutil.rmtree(home / ".agents/run")
    (home / ".agents/cache.sqlite").unlink()
    team = Team(home)
    await history(team)
    before = knows(team)
    await ended(team)
    mischief(home / ".agents/cache.sqlite", other)

    for _ in range(2):
        team = Team(home).load(clean=clean)
        assert not team.roster.corrupt
        assert knows(team) == before
        assert (await enqueue(team, "t3", req="m:again"))["duplicate"]
        assert team.roster.agents["a1"].state.ended("x3") is None
        await ended(team)


async def test_a_new_task_is_looked_for_once_in_the_cache(tmp_path, monkeypatch):
    """And what was missing then is found as soon as it has left memory."""
    team = Team(tmp_path)
    entry = await team.agent()
    await work(team, ["t1"])
    await team.roster.checkpoints.finish()
    asked = []
    real = Cache.find
    monkeypatch.setattr(Cache, "find", lambda self, owner, key: asked.append(key) or real(self, owner, key))
    await enqueue(team, "t2")
    assert asked == ["t2"]
    await wait(team, req="w2")
    await emit(team, "result", req="e2")
    await team.roster.checkpoints.finish()
    assert not entry.state.finished
    assert (await enqueue(team, "t2", req="m:again"))["duplicate"]
    team.close()


async def test_an_older_copy_of_the_cache_only_means_more_to_fold(tmp_path, applied):
    team = Team(tmp_path)
    await team.agent("a1")
    await work(team, ["t1", "t2"])
    await ended(team)
    shutil.copy(tmp_path / ".agents/cache.sqlite", tmp_path / "older")
    team = Team(tmp_path).load(clean=True)
    await work(team, ["t3", "t4"])
    before = knows(team)
    await ended(team)
    shutil.copy(tmp_path / "older", tmp_path / ".agents/cache.sqlite")
    applied["n"] = 0
    team = Team(tmp_path).load(clean=True)
    assert applied["n"] == 6  # two tasks, each asked for, handed out and ended
    assert knows(team) == before
    team.close()


@pytest.mark.parametrize("seed", range(6))
async def test_a_cache_with_changed_bytes_changes_no_answer(tmp_path, seed):
    team = Team(tmp_path)
    await history(team)
    before = knows(team)
    await ended(team)
    file = tmp_path / ".agents/cache.sqlite"
    good, dice = file.read_bytes(), random.Random(seed)
    for _ in range(8):
        spoilt = bytearray(good)
        for _ in range(dice.choice([1, 4, 40])):
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
        file.write_bytes(spoilt)
        team = Team(tmp_path).load(clean=True)
        assert not team.roster.corrupt
        assert knows(team) == before
        team.close()


async def test_a_cache_that_breaks_while_the_daemon_runs_is_given_up_without_harm(tmp_path):
    team = Team(tmp_path)
    await history(team)
    await team.roster.checkpoints.finish()
    agent = team.roster.agents["a1"].state
    assert not agent.finished
    team.roster.checkpoints._cache._writer.execute("UPDATE archived SET next = 'zz'")
    before = len(folded(team.paths, "a1")[0].finished)
    assert (await enqueue(team, "t1", req="m:again"))["duplicate"]
    assert len(agent.finished) == before
    assert not (tmp_path / ".agents/cache.sqlite").exists()
    await emit(team, "result", req="q1")
    await work(team, ["u2"], "a1")
    knows(team)  # the other agent's tasks too
    await ended(team)
    again = Team(tmp_path).load(clean=True)
    knows(again)
    again.close()


async def test_an_agent_whose_files_went_away_with_the_cache_is_not_called_unknown(tmp_path):
    team = Team(tmp_path)
    await history(team)
    await team.roster.checkpoints.finish()
    home, aside = tmp_path / ".agents", tmp_path / "aside"
    home.rename(aside)
    team.roster.checkpoints._cache._writer.execute("UPDATE archived SET next = 'zz'")
    with pytest.raises(Environment) as caught:
        await enqueue(team, "t1", req="m:gone")
    assert caught.value.code == "io_failed"
    aside.rename(home)
    assert (await enqueue(team, "t1", req="m:again"))["duplicate"], "it is known again once its files are back"
    team.close()


async def test_a_checkpoint_that_contradicts_its_log_is_not_used(tmp_path, monkeypatch):
    """Should the cache ever tell a lie that passes every check, the log is folded whole."""
    team = Team(tmp_path)
    await team.agent()
    await work(team, ["t1"])
    await enqueue(team, "t2")
    await ended(team)
    team = Team(tmp_path).load(clean=True)
    real = state.Agent.ended
    lie = state.Finished(1, 1, "result", 1)
    await wait(team, req="w2")
    await emit(team, "result", req="e2")
    await enqueue(team, "t3")
    before = knows(team)
    killed(team)
    monkeypatch.setattr(state.Agent, "ended", lambda self, t: lie if self.archive and t == "t3" else real(self, t))
    again = Team(tmp_path).load()
    monkeypatch.undo()
    assert not again.roster.corrupt
    assert knows(again) == before
    again.close()


# -- a log that ends before its checkpoint ----------------------------------------------------------------------


async def cut(tmp_path, log, durability="fsync", lines=1):
    """A team whose log lost its last lines after a clean end; the log."""
    team = Team(tmp_path, durability=durability)
    await team.agent()
    await work(team, ["t1", "t2"])
    await enqueue(team, "t3")
    await ended(team)
    path = tmp_path / ".agents" / log
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))
    return path


@pytest.mark.parametrize(("log", "line"), [("agents/a1/inbox.jsonl", 2), ("agents/a1/outbox.jsonl", 5)])
async def test_lost_records_that_were_on_the_disk_are_said_plainly(tmp_path, log, line):
    path = await cut(tmp_path, log)
    (tmp_path / ".agents/run/run-1/run.json").unlink()  # the broadcast would show the outbox's loss too
    for _ in range(2):  # and not only once
        team = Team(tmp_path).load(clean=True)
        error = team.roster.corrupt["a1"]
        assert (error.code, error.facts["file"], error.facts["line"]) == ("corrupt_log", str(path), line)
        await ended(team)
    (tmp_path / ".agents/cache.sqlite").unlink()  # what the error says to do when the loss was meant
    team = Team(tmp_path).load(clean=True)
    assert not team.roster.corrupt
    team.close()


async def test_a_broadcast_that_lost_records_is_said_plainly(tmp_path):
    path = await cut(tmp_path, "run/run-1/broadcast.jsonl")
    team = Team(tmp_path).load(clean=True)
    error = team.roster.corrupt["run-1"]
    assert (error.code, error.facts["file"], error.facts["line"]) == ("corrupt_log", str(path), 3)
    team.close()


@pytest.mark.parametrize(
    ("known", "now", "trusted"),
    [
        ({}, {}, False),
        ({"gen": 2}, {"gen": 2}, False),
        ({}, {"gen": 2}, True),  # another broadcast: a power cut has brought back the checkpoint of the former one
        (
            {"gen": 2},
            {"gen": 2, "home": "b"},
            True,
        ),  # not the run's broadcast, or not for long: see `fleet.run_homes`
    ],
)
async def test_a_broadcast_that_is_begun_anew_has_lost_no_records(tmp_path, known, now, trusted):
    team = Team(tmp_path)
    await team.agent()
    await work(team, ["t1", "t2"])
    run = team.roster.runs["run-1"]
    run.file |= known
    run.save()
    await ended(team)
    path = tmp_path / ".agents/run/run-1/broadcast.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    run.file |= now
    run.save()
    team = Team(tmp_path).load(clean=True)
    assert ("run-1" not in team.roster.corrupt) == trusted
    if trusted:
        assert path.read_bytes().count(b"\n") == len(lines)
    team.close()


async def test_with_durability_os_lost_records_are_lost_and_the_rest_goes_on(tmp_path):
    await cut(tmp_path, "agents/a1/inbox.jsonl", "os")
    team = Team(tmp_path, durability="os").load()
    assert not team.roster.corrupt
    knows(team)
    assert "duplicate" not in await enqueue(team, "t3")
    await ended(team)
    assert not Team(tmp_path, durability="os").load(clean=True).roster.corrupt


# -- when it is saved -------------------------------------------------------------------------------------------


async def saved(team):
    """Wait for the thread that saves, if there is one."""
    while team.roster.checkpoints._saver is not None:
        await asyncio.wait([team.roster.checkpoints._saver])


async def test_an_agent_that_went_quiet_is_saved_a_moment_later(tmp_path):
    team = Team(tmp_path)
    entry = await team.agent()
    await work(team, ["t1"])
    await team.clock.advance(QUIET_S / 2)
    await saved(team)
    assert set(entry.state.finished) == {"t1"}
    await team.clock.advance(2 * QUIET_S)
    await saved(team)
    assert not entry.state.finished
    assert entry.state.ended("t1").outcome == "result"
    team.close()


async def test_an_agent_that_never_is_quiet_is_saved_all_the_same(tmp_path):
    team = Team(tmp_path, durability="os")
    entry = await team.agent()
    most = 0
    for n in range(SAVE_AFTER):
        await work(team, [f"t{n}"])
        await team.clock.advance(0.1)
        await saved(team)
        most = max(most, len(entry.state.finished))
    assert 100 < most < SAVE_AFTER / 2
    knows(team)
    team.close()


async def test_the_first_checkpoint_after_a_start_without_a_cache_never_holds_the_loop(tmp_path, monkeypatch):
    """However many tasks had ended: one turn of the loop takes one agent, and lets go of a piece of its tasks."""
    monkeypatch.setattr(checkpoints, "PIECE", 10)
    team = Team(tmp_path)
    for name in ("a1", "a2", "a3"):
        await team.agent(name)
        await work(team, [f"t{n}" for n in range(55)], name)
    before = knows(team)
    killed(team)
    checkpoints.discard(team.paths)
    again = Team(tmp_path).load()
    turns, taken, held = 0, [], []
    real = checkpoints.snapshot.plain
    monkeypatch.setattr(checkpoints.snapshot, "plain", lambda agent: taken.append(turns) or real(agent))
    saving = asyncio.create_task(again.roster.checkpoints.finish())
    while not saving.done():
        held.append(sum(len(entry.state.finished) for entry in again.roster.agents.values()))
        turns += 1
        await asyncio.sleep(0)  # one turn of the loop
    assert len(taken) == len(set(taken)) == 3
    assert (held[0], held[-1]) == (165, 0)
    assert max(earlier - later for earlier, later in pairwise(held)) <= 10
    assert knows(again) == before
    await ended(again)


async def test_no_room_for_the_cache_keeps_all_in_memory_until_there_is(tmp_path, monkeypatch):
    team = Team(tmp_path)
    entry = await team.agent()
    await work(team, ["t1"])
    tries = []

    def save(self, *args):
        tries.append(1)
        raise OSError("database or disk is full")

    with monkeypatch.context() as full:
        full.setattr(Cache, "save", save)
        await team.clock.advance(3 * QUIET_S)
        await saved(team)
        assert len(tries) == 1, "it is not tried again and again"
        assert set(entry.state.finished) == {"t1"}
        await work(team, ["t2"])
    await team.clock.advance(RETRY_S + 2 * QUIET_S)
    await saved(team)
    assert not entry.state.finished
    knows(team)
    await ended(team)
    knows(again := Team(tmp_path).load(clean=True))
    again.close()


async def test_without_a_cache_everything_works_from_memory(tmp_path, monkeypatch):
    def broken(path, form, seal):
        raise BrokenCache("no")

    monkeypatch.setattr(Cache, "open", broken)
    team = Team(tmp_path)
    await history(team)
    assert len(team.roster.agents["a1"].state.finished) == 12
    before = knows(team)
    await ended(team)
    again = Team(tmp_path).load(clean=True)
    assert knows(again) == before
    again.close()


async def test_a_cache_given_up_while_records_become_durable_is_not_written_to(tmp_path, monkeypatch):
    team = Team(tmp_path)
    await team.agent()
    await work(team, ["t1"])
    kept = team.roster.checkpoints

    async def durable(one):
        kept._give_up(BrokenCache("no"))
        return True

    monkeypatch.setattr(checkpoints, "_durable", durable)
    await kept.finish()
    assert kept.agent("a1") is None
    assert (await enqueue(team, "t1", req="m:again"))["duplicate"], "it is kept in memory"
    team.close()


async def test_nothing_is_saved_that_is_not_durable(tmp_path):
    """A checkpoint is taken in the middle of a sync: what it holds is on the disk before it is in the cache."""
    team = Team(tmp_path)
    await team.agent()
    await work(team, ["t1"])
    await enqueue(team, "t2")
    await wait(team, req="w2")  # `delivered` is written and not synced
    outbox = team.roster.agents["a1"].outbox
    assert outbox.position().seq < outbox.last_seq
    await team.roster.checkpoints.finish()
    assert outbox.position().seq == outbox.last_seq
    team.close()


# -- deleted agents ---------------------------------------------------------------------------------------------


async def delete(team, name):
    entry = team.roster.agents[name]
    team.roster.write(entry, agent_commands.decisions.stop(entry.state, force=False, req=f"d:{name}", at=AT))
    await team.roster.commit(entry, supervision.stopped(entry.state, at=AT, rungs=[]))
    await team.roster.commit(entry, supervision.deleted(entry.state, at=AT))


async def test_a_deleted_agent_rests_and_still_answers(tmp_path):
    team = Team(tmp_path)
    entry = await team.agent()
    await work(team, [f"t{n}" for n in range(30)])
    await delete(team, "a1")
    assert not entry.outbox.rests
    await team.clock.advance(2 * QUIET_S)
    await saved(team)
    for _ in range(2):
        assert entry.inbox.rests
        assert entry.outbox.rests
        assert len(entry.state.calls) < 30
        assert (await enqueue(team, "t3", req="m:again"))["duplicate"]
        page = await delivery.events_read(team.roster, "a1", since_seq=0, max_events=1000, wait_s=0)
        assert page["events"][0]["type"] == "starting"
        with pytest.raises(Conflict):
            await enqueue(team, "new")
        assert entry.outbox.rests
        await ended(team)
        team = Team(tmp_path).load()
        entry = team.roster.agents["a1"]
    team.close()


def graveyard(root, count):
    """The logs of ``count`` deleted agents."""
    for n in range(count):
        name = f"a{n}"
        directory = root / ".agents/agents" / name
        directory.mkdir(parents=True)
        spec = {"name": name, "role": "r", "engine": "shell", "cwd": "/", "run_id": "run-1", "policies": {}}
        happened = [
            {"type": "starting", **spec, "req": f"c:{n}"}, {"type": "ready"},
            {"type": "delivered", "task_id": "t", "attempt": 1}, {"type": "result", "task_id": "t", "attempt": 1},
            {"type": "stopped", "how": "x"}, {"type": "deleted"},
        ]  # fmt: skip
        outbox = [{"at": AT, "epoch": 1, **record, "by": "orchestrator"} for record in happened]
        inbox = [
            {"at": AT, "type": "task", "epoch": 1, "task_id": "t", "payload": n, "position": 1},
            {"at": AT, "type": "stop", "epoch": 1},
        ]
        for log, records in (("inbox", inbox), ("outbox", outbox)):
            lines = [encode(record, seq)[1] for seq, record in enumerate(records, 1)]
            (directory / f"{log}.jsonl").write_bytes(b"".join(lines))
    seal_files(Paths(root))


async def test_a_thousand_deleted_agents_hold_no_descriptors(tmp_path):
    graveyard(tmp_path, 1000)

    def descriptors():
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    for clean in (False, True):
        before = descriptors()
        team = Team(tmp_path).load(clean=clean)
        assert len(team.roster.agents) == 1000
        assert not team.roster.corrupt
        assert descriptors() < before + 30
        assert (await enqueue(team, "t", "a500", payload=500))["duplicate"]
        await ended(team)
    assert all(not entry.state.finished for entry in team.roster.agents.values())


# -- memory -----------------------------------------------------------------------------------------------------


def reachable(root):
    """How many values hang on an object, through containers and objects of ours."""
    seen, todo = set(), [root]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            todo += one
        elif is_dataclass(one):
            todo += [getattr(one, field.name) for field in fields(one) if field.name != "archive"]
        elif type(one).__module__.startswith(("orchestrator.team", "orchestrator.journal")):
            todo += vars(one).values()
    return len(seen)


async def test_memory_does_not_grow_with_finished_tasks(tmp_path):
    page, kept = 300, {"durability": "os", "segment_bytes": 1 << 20}
    team = Team(tmp_path, **kept)
    entry = await team.agent()
    sizes, count = [], 0
    while count < 40 * page:
        for _ in range(page):
            await work(team, [f"t{count}"])
            count += 1
            await team.clock.advance(0.01)
        await saved(team)
        sizes.append(reachable(team.roster))
    assert max(sizes[20:]) < 1.1 * max(sizes[5:10]), sizes
    assert sum(not alarm.canceled for alarm in team.clock.alarms) < 5
    assert len(entry.state.finished) < 1000
    assert entry.state.outcomes["result"] == count
    assert entry.state.ended("t17").outcome == "result"
    assert len(list(team.paths.agent_dir("a1").glob("outbox.*.jsonl"))) > 3
    await ended(team)
    again = Team(tmp_path, **kept).load(clean=True)
    assert reachable(again.roster) < 2 * max(sizes)  # read from a file, equal words are values of their own
    assert (await enqueue(again, f"t{count - 1}", req="m:again"))["duplicate"]
    again.close()
