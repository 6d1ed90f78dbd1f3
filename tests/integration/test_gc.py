"""gc: what it removes is old and ours, what it leaves is everybody else's, and a second run finds nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.clock import SystemClock, rfc3339
from orchestrator.base.errors import BadRequest
from orchestrator.base.platform import process_facts, processes
from orchestrator.cli.gc import seconds
from orchestrator.core import file_models, record_types
from orchestrator.journal.log_reader import read_all
from orchestrator.team.recovery import orphans
from orchestrator.team.recovery.garbage_collection import AgentLaunch as Place
from orchestrator.team.recovery.garbage_collection import GarbageData, kept_for_now, plan_data, plan_processes
from orchestrator.team.recovery.orphans import ProvenProcess
from orchestrator.team.roster import offline_view
from orchestrator.team.worktrees import worktrees
from tests.support.damaged_team import Died, Life, dying
from tests.support.stage import alive, until

NOW = "2026-03-10T00:00:00.000Z"
DAY = 86400.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


# -- the plan -------------------------------------------------------------------------------------------------------


def agent(name, ended_at, **more):
    return GarbageData("agent", name, ended_at, rest=(3, 300), **more)


def names(items):
    return [(item.kind, item.name) for item in items]


@pytest.mark.parametrize(
    ("ended_at", "due"),
    [
        ("2026-03-03T00:00:00.000Z", True),  # just old enough
        ("2026-03-03T00:00:00.001Z", False),
        ("2026-03-11T00:00:00.000Z", False),  # in the future: some clock was wrong
        (None, False),  # not deleted
    ],
)
def test_an_agent_goes_when_its_last_record_is_old_enough(ended_at, due):
    assert bool(plan_data([agent("a", ended_at)], NOW, 7 * DAY, artifacts=False)) is due


def test_what_is_kept_is_counted_with_the_times_until_which():
    young, younger = "2026-03-09T00:00:00.000Z", "2026-03-09T12:00:00.000Z"
    data = [
        agent("a", young, artifacts=(1, 50)), agent("b", younger), agent("c", "2026-01-01T00:00:00.000Z"), agent("d", None),
        agent("e", None, collected=True), GarbageData("run", "r", younger, rest=(1, 10)),
    ]  # fmt: skip
    assert kept_for_now(data, NOW, 7 * DAY) == {
        "agents": 2, "runs": 1, "bytes": 660,
        "until": "2026-03-16T00:00:00.000Z", "until_all": "2026-03-16T12:00:00.000Z",
    }  # fmt: skip
    assert kept_for_now([], NOW, DAY) == {"agents": 0, "runs": 0, "bytes": 0, "until": None, "until_all": None}
    assert kept_for_now(data, NOW, 1e13)["until"] is None


def test_with_age_0_what_ended_in_the_future_stays_all_the_same():
    assert plan_data([agent("a", "2026-03-10T00:00:00.001Z")], NOW, 0.0, artifacts=False) == []
    assert plan_data([agent("a", NOW)], NOW, 0.0, artifacts=False) != []


def test_a_run_goes_after_all_of_its_agents_and_at_its_own_age():
    old, young = "2026-01-01T00:00:00.000Z", "2026-03-09T00:00:00.000Z"
    run = GarbageData("run", "r", old, rest=(2, 20), members=frozenset({"a", "b"}))
    both = [agent("a", old), agent("b", old)]
    assert names(plan_data([*both, run], NOW, DAY * 7, artifacts=False))[-1] == ("run", "r")
    assert names(plan_data([agent("a", old), agent("b", young), run], NOW, DAY * 7, artifacts=False)) == [
        ("agent", "a")
    ]
    fresh = GarbageData("run", "r", young, rest=(2, 20), members=frozenset({"a", "b"}))
    assert ("run", "r") not in names(plan_data([*both, fresh], NOW, DAY * 7, artifacts=False))


def test_artifacts_stay_until_they_are_asked_for():
    one = GarbageData("agent", "a", "2026-01-01T00:00:00.000Z", rest=(3, 300), artifacts=(2, 50))
    [item] = plan_data([one], NOW, 0.0, artifacts=False)
    assert item.bytes == 300 and "2 files in artifacts/" in item.note
    assert names(plan_data([one], NOW, 0.0, artifacts=True)) == [("agent", "a"), ("artifacts", "a")]
    left = GarbageData("agent", "a", None, collected=True, artifacts=(2, 50))
    assert plan_data([left], NOW, 0.0, artifacts=False) == []
    assert names(plan_data([left], NOW, 0.0, artifacts=True)) == [("artifacts", "a")]


def test_a_process_is_ended_only_with_an_agent_that_is_over_or_has_gone_on():
    lives = {"gone": Place("deleted", 1), "broken": Place("failed", 1), "on": Place("ready", 3)}
    recorded = [
        ProvenProcess(1, 1, "gone", 1), ProvenProcess(2, 1, "broken", 1), ProvenProcess(3, 1, "on", 2), ProvenProcess(4, 1, "on", 3),
        ProvenProcess(5, 1, "unheard-of", 1),
    ]  # fmt: skip
    inherited = [
        ProvenProcess(6, 1, "gone", 1), ProvenProcess(7, 1, "broken", 1), ProvenProcess(8, 1, "on", 1), ProvenProcess(9, 1, "unheard-of", 1),
        ProvenProcess(1, 1, "gone", 1),
    ]  # fmt: skip
    assert [item.proven.pid for item in plan_processes(recorded, inherited, lives)] == [1, 2, 3, 6]


@pytest.mark.parametrize(
    ("age", "means"), [("7d", 7 * DAY), ("12h", 43200.0), ("30m", 1800.0), ("1.5s", 1.5), ("0", 0.0), ("0d", 0.0)]
)
def test_an_age_is_a_number_with_its_unit(age, means):
    assert seconds(age) == means


@pytest.mark.parametrize("age", ["7x", "-1d", "7", "week", "1e3d", "", "99999999999d"])
def test_an_age_that_is_none_is_refused(age):
    with pytest.raises(BadRequest) as refused:
        seconds(age)
    assert refused.value.code == "bad_argument"


# -- the team's data, in one process --------------------------------------------------------------------------------


async def team(root):
    """Two deleted agents, one with artifacts, and the run that ended with them."""
    life = Life(root)
    for name in ("a1", "a2"):
        await life.deleted(name)
    await life.run_over()
    (life.paths.artifacts("a2") / "made.txt").write_text("work")
    for name in ("outbox.000000000001.jsonl", "outbox.jsonl.torn", "inbox.jsonl.quarantine-20260101T000000Z"):
        (life.paths.agent_dir("a1") / name).write_text("")
    await life.end()
    (life.paths.agent_dir("a1") / "outbox.000000000001.jsonl").unlink()  # a log with such a name is read
    return root


def listing(root):
    return {path.relative_to(root): path.stat().st_size for path in (root / ".agents").rglob("*") if path.is_file()}


@pytest.mark.anyio
async def test_a_dry_run_removes_nothing_and_counts_what_would_go(tmp_path):
    await team(tmp_path)
    life = Life(tmp_path)
    before = listing(tmp_path)
    items = await life.gc(apply=False)
    assert [(one["kind"], one["name"], one["done"]) for one in items] == [
        ("agent", "a1", False), ("agent", "a2", False), ("run", "run-1", False),
    ]  # fmt: skip
    of_a1 = [size for path, size in before.items() if path.parent.match(".agents/agents/a1")]
    assert (items[0]["files"], items[0]["bytes"]) == (len(of_a1), sum(of_a1))
    assert listing(tmp_path) == before
    assert await life.gc(apply=False, age_s=DAY) == [], "not old enough"
    await life.end()


@pytest.mark.anyio
async def test_what_is_removed_leaves_its_id_taken_and_its_artifacts_there(tmp_path):
    await team(tmp_path)
    life = Life(tmp_path)
    assert all(one["done"] for one in await life.gc())
    home = tmp_path / ".agents"
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    kept = ["agents/a1/collected.json", "agents/a2/artifacts/made.txt", "agents/a2/collected.json"]
    assert [path for path in left if path.startswith(("agents", "run"))] == kept
    note = json.loads((home / "agents/a1/collected.json").read_text())
    file_models.CollectedFile.model_validate(note)
    assert (note["name"], note["finished"]["canceled"], note["run_id"]) == ("a1", 1, "run-1")
    assert life.roster.agents == {} and life.roster.runs == {} and life.roster.by_req == {}
    assert life.roster.new_id("a1") == "a1-2"
    with pytest.raises(BadRequest) as refused:
        life.roster.entry("a1")
    assert refused.value.code == "unknown_agent" and "gc" in refused.value.message
    assert await life.gc() == []
    assert [one["kind"] for one in await life.gc(artifacts=True)] == ["artifacts"]
    assert await life.gc(artifacts=True) == []
    await life.end()
    after = Life(tmp_path)
    assert after.roster.agents == {} and after.roster.corrupt == {} and after.roster.runs == {}
    assert after.roster.new_id("a2") == "a2-2"
    assert offline_view.agents(tmp_path) == [] and offline_view.runs(tmp_path) == []
    with pytest.raises(BadRequest, match="gc has removed"):
        offline_view.agent(tmp_path, "a1")
    await after.end()


@pytest.mark.anyio
async def test_a_run_that_goes_on_keeps_telling_of_an_agent_that_was_collected(tmp_path):
    life = Life(tmp_path)
    await life.deleted("a1")
    await life.team.agent("a2")
    await life.clock.advance(1)
    assert [(one["kind"], one["name"]) for one in await life.gc()] == [("agent", "a1")]
    await life.task("a2", "t")
    await life.end()
    after = Life(tmp_path)
    told = [r["agent_id"] for r in read_all(after.paths.broadcast("run-1"), record_types.BROADCAST_TYPES)]
    assert told.count("a1") == 5 and set(told) == {"a1", "a2"}  # starting, ready, stopped, canceled, deleted
    assert list(after.roster.agents) == ["a2"]
    assert [one["what"] for one in (await after.repairing.run())["done"]] == []
    await after.end()


@pytest.mark.anyio
async def test_nothing_of_a_living_or_a_damaged_agent_goes(tmp_path):
    life = Life(tmp_path)
    for name in ("busy", "ended", "hurt"):
        await life.team.agent(name)
    entry = life.roster.agents["ended"]
    from orchestrator.core import supervision

    await life.roster.commit(entry, supervision.exited(entry.state, at=life.at(), how="exit", reason="x", code=1))
    await life.end()
    path = life.paths.outbox("hurt")
    path.write_bytes(path.read_bytes().replace(b'"ready"', b'"reedy"'))
    life = Life(tmp_path)
    assert list(life.roster.corrupt) == ["hurt"]
    before = listing(tmp_path)
    assert await life.gc() == []
    assert listing(tmp_path) == before
    await life.end()


@pytest.mark.anyio
async def test_a_kill_at_any_step_leaves_what_the_next_run_finishes(tmp_path, monkeypatch):
    async def story(root, at):
        root.mkdir()
        await team(root)
        with monkeypatch.context() as patch:
            counted = dying(patch, "gc:", at)
            life = Life(root)
            try:
                await life.gc(artifacts=True)
            except Died:
                await life.die()
            else:
                await life.end()
        return counted.seen

    steps = await story(tmp_path / "0", 0)
    assert {"gc:agent-marked", "gc:agent-file", "gc:artifacts", "gc:run-marked", "gc:run-file"} <= set(steps)
    for at in range(1, len(steps) + 1):
        root = tmp_path / str(at)
        await story(root, at)
        life = Life(root)
        assert life.roster.corrupt == {}, "half-removed is no damage"
        assert all(one["done"] for one in await life.gc(artifacts=True))
        assert await life.gc(artifacts=True) == []
        home = root / ".agents"
        assert sorted(path.name for path in (home / "agents").iterdir()) == ["a1", "a2"]
        assert [path.name for path in (home / "agents").glob("*/*")] == ["collected.json"] * 2
        assert list((home / "run").iterdir()) == []
        await life.end()


def git(root, *words):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.mark.anyio
async def test_an_agent_stays_as_long_as_its_worktree_holds_work(tmp_path):
    (tmp_path / "file").write_text("x")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "first")
    life = Life(tmp_path)
    await life.deleted("a1")
    made = worktrees.make(tmp_path, "a1", worktrees.plan(tmp_path, tmp_path))
    life.roster.agents["a1"].state.spec["worktree"] = made
    tree = Path(made["path"])
    work = tree / "work"
    work.write_text("not committed")
    [item] = await life.gc(apply=False)
    assert "kept" in item["note"]
    [item] = await life.gc()
    assert (item["done"], item["error"]["code"]) == (False, "worktree_dirty")
    assert work.exists() and not life.paths.collected(life.paths.agent_dir("a1")).exists()
    work.unlink()
    [item] = await life.gc(apply=False)
    assert item["note"] == "its worktree goes too"
    assert [one["done"] for one in await life.gc()] == [True]
    assert tree.name not in [path.name for path in tree.parent.iterdir()]
    await life.end()


# -- processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper():
    """Programs that sleep, each in a session of its own, with what is asked for in their environment."""
    made = []

    def start(**env):
        words = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
        made.append(subprocess.Popen(words, env={**os.environ, **env}, start_new_session=True))
        # Until then it is the picture of this process, with another environment.
        until(lambda: orphans.processes.environ_of(made[-1].pid).items() >= env.items() or None)
        return made[-1].pid

    yield start
    for process in made:
        process.kill()
        process.wait()


def record_process(life, agent_id, pid, *, start=None, boot=None, epoch=1):
    place = life.paths.engine_dir(agent_id)
    place.mkdir(exist_ok=True)
    began = process_facts.start_time(pid) if start is None else start
    said = {"pid": pid, "start": began, "boot_id": boot or process_facts.boot_id(), "epoch": epoch}
    sealed = life.paths.provenance.sealed(said, "agent", agent_id, "process")
    (place / "process.json").write_text(json.dumps(sealed))


@pytest.mark.anyio
async def test_a_process_that_outlived_its_agent_is_ended_and_a_reused_pid_never(tmp_path, sleeper):
    life = Life(tmp_path, SystemClock())
    strangers = [sleeper() for _ in range(3)]
    mine = sleeper()
    for name in ("reused", "other-boot", "nonsense", "mine"):
        await life.deleted(name)
    record_process(life, "reused", strangers[0], start=process_facts.start_time(strangers[0]) - 1)
    record_process(life, "other-boot", strangers[1], boot="00000000-0000-0000-0000-000000000000")
    (life.paths.engine_dir("nonsense") / "process.json").write_text(f'{{"pid": {strangers[2]}}}')
    record_process(life, "mine", mine)
    items = await life.gc(apply=False, age_s=DAY)
    assert [(one["kind"], one["name"]) for one in items] == [("process", f"{mine} of mine")]
    assert alive(mine)
    [item] = await life.gc(age_s=DAY)
    assert item["done"] and not alive(mine)
    assert all(alive(pid) for pid in strangers)
    assert await life.gc(age_s=DAY) == []
    await life.end()


@pytest.mark.anyio
async def test_what_a_deleted_agent_has_started_is_ended_and_what_others_have_is_not(tmp_path, sleeper):
    life = Life(tmp_path, SystemClock())
    await life.deleted("gone")
    await life.team.agent("here")
    root = str(tmp_path)
    ours = sleeper(ORCHESTRATOR_AGENT_ID="gone", ORCHESTRATOR_PROJECT=root)
    others = [
        sleeper(ORCHESTRATOR_AGENT_ID="here", ORCHESTRATOR_PROJECT=root),
        sleeper(ORCHESTRATOR_AGENT_ID="gone", ORCHESTRATOR_PROJECT=f"{root}/other"),
        sleeper(ORCHESTRATOR_AGENT_ID="never-heard-of", ORCHESTRATOR_PROJECT=root),
        sleeper(ORCHESTRATOR_AGENT_ID="gone"),
    ]
    [item] = await life.gc(age_s=DAY)
    assert item["name"] == f"{ours} of gone"
    until(lambda: not alive(ours))
    assert all(alive(pid) for pid in others)
    # The same once its data is gone: its id is still known.
    await life.gc()
    late = sleeper(ORCHESTRATOR_AGENT_ID="gone", ORCHESTRATOR_PROJECT=root)
    assert [one["kind"] for one in await life.gc()] == ["process"]
    until(lambda: not alive(late))
    await life.end()


@pytest.mark.anyio
async def test_a_tmux_server_that_an_agent_has_started_is_left(tmp_path, sleeper, monkeypatch):
    life = Life(tmp_path, SystemClock())
    await life.deleted("gone")
    pid = sleeper(ORCHESTRATOR_AGENT_ID="gone", ORCHESTRATOR_PROJECT=str(tmp_path))
    monkeypatch.setattr(processes, "SPARED", b"python")
    assert await life.gc(age_s=DAY) == []
    assert alive(pid)
    await life.end()


@pytest.mark.anyio
async def test_an_end_that_finds_another_process_under_the_pid_does_nothing(tmp_path, sleeper):
    life = Life(tmp_path, SystemClock())
    pid = sleeper()
    found = ProvenProcess(pid, process_facts.start_time(pid) - 1, "a", 1)
    assert await orphans.end(found, 0.0, life.clock) == "gone already"
    assert alive(pid)
    await life.end()


def test_the_stamp_of_now_is_what_records_carry():
    from datetime import UTC, datetime

    assert rfc3339(datetime(2026, 3, 10, tzinfo=UTC)) == NOW
