"""Logs of another host's agent: taken over whole or not at all, and kept as copies that nobody takes for agents."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.core import decisions, fleet_rules
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log import Journal
from orchestrator.journal.log_lines import encode
from orchestrator.journal.log_reader import page
from orchestrator.journal.project_files import Paths
from orchestrator.journal.segments import log_files
from orchestrator.journal.syncer import Syncer
from orchestrator.team.recovery import damage_report, team_adoption
from orchestrator.team.recovery.verification import verify
from orchestrator.team.roster import delivery, mirrored_logs, offline_view
from orchestrator.team.roster.agent_fold import folded
from orchestrator.team.roster.mirrored_logs import AgentOwner, drop_replica, fence_off, open_replica, take_over
from orchestrator.team.roster.run_records import run_records
from orchestrator.team.worktrees import inspection
from orchestrator.trust import accepted_logs
from orchestrator.trust.seals import Seal
from tests.support.damaged_team import Died, Life, dying
from tests.support.faulty_disk import FaultyIO
from tests.support.team import Team

OWNER = AgentOwner("shop", "box", 1)
TYPES = {"inbox": INBOX_TYPES, "outbox": OUTBOX_TYPES}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))


async def told(roster, task, kind):
    await delivery.emit_event(
        roster, "a1", 1, kind=kind, task_id=task, payload=None, done=None, req=f"a:{kind}-{task}"
    )


def lines(log):
    return [line for _, line in log.raw_since(0, 10_000, 1 << 30)]


@pytest.fixture
async def mirror(tmp_path, anyio_backend):
    """What another host's agent a1 wrote: one task done, one held, one waiting."""
    life = Life(tmp_path / "far")
    entry = await life.team.agent("a1")
    for task in ("t1", "t2", "t3"):
        await life.task("a1", task, {"command": task})
    for task, kinds in (("t1", ("ack", "result")), ("t2", ("ack",))):
        await delivery.wait_for_command(life.roster, "a1", 1, timeout_s=0, age_s=0, req=f"a:wait-{task}")
        for kind in kinds:
            await told(life.roster, task, kind)
    logs = {name: lines(log) for name, log in entry.logs.items()}
    await life.end()
    return logs


def taken(root, mirror, **more):
    root.mkdir(exist_ok=True)
    return take_over(Paths(root), "a1", mirror["inbox"], mirror["outbox"], **more)


def content(paths, name, agent="a1"):
    return content_of(paths.agent_dir(agent) / f"{name}.jsonl")


def content_of(path):
    return b"".join(file.read_bytes() for file in log_files(path)).splitlines()


def published(root, mirror):
    """A run of this host whose broadcast repeats everything of that mirror."""
    team = Team(root)
    team.run()
    run = team.roster.runs["run-1"]
    for record in map(json.loads, mirror["outbox"]):
        if record["type"] in BROADCAST_TYPES:
            run.queue("a1", record)
    run.flush()
    team.close()


def replica(root, mirror, owner=OWNER):
    root.mkdir(exist_ok=True)
    copy = open_replica(Paths(root), "a1", owner, Syncer(pytest.fail, threads=0))
    for name, log in copy.logs.items():
        copy.extend(name, mirror[name][log.last_seq :])
    return copy


@contextmanager
def counted_macs(monkeypatch):
    counts = {"macs": 0, "digests": 0}
    mac, prefix_of = Seal.mac, accepted_logs.prefix_of

    def counting(self, body):
        counts["macs"] += 1
        return mac(self, body)

    def comparing(some):
        counts["digests"] += 1
        return prefix_of(some)

    with monkeypatch.context() as patch:
        patch.setattr(Seal, "mac", counting)
        patch.setattr("orchestrator.trust.seals.prefix_of", comparing)
        yield counts


# -- takeover -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("segment_bytes", [400, 1 << 20], ids=["many files", "one file"])
async def test_a_taken_over_agent_is_loaded_as_it_was_and_goes_on(tmp_path, mirror, segment_bytes):
    state = taken(tmp_path / "near", mirror, segment_bytes=segment_bytes)
    assert (state.life, state.lease.task_id, [*state.unfinished]) == ("ready", "t2", ["t2", "t3"])
    team = Team(tmp_path / "near").load()
    assert team.roster.corrupt == {}
    entry = team.roster.agents["a1"]
    assert {name: content(team.paths, name) for name in mirror} == mirror
    assert entry.state.lease.task_id == "t2"
    await told(team.roster, "t2", "result")
    team.close()
    # Its own line has its own seal, and is asked for it.
    again = Team(tmp_path / "near").load()
    assert again.roster.corrupt == {}
    assert [*again.roster.agents["a1"].state.unfinished] == ["t3"]
    again.close()
    assert folded(again.paths, "a1", own=True)[0].outcomes["result"] == 2
    assert team_adoption.foreign_agents(again.paths) == []
    assert offline_view.agent(tmp_path / "near", "a1")["reason"] == offline_view.NO_DAEMON
    assert damage_report.of_agent(tmp_path / "near", "a1") is None


@pytest.mark.anyio
@pytest.mark.parametrize("log", ["inbox", "outbox"])
async def test_changed_accepted_lines_are_foreign_to_every_reader(tmp_path, mirror, log):
    taken(tmp_path / "near", mirror)
    paths = Paths(tmp_path / "near")
    path = paths.agent_dir("a1") / f"{log}.jsonl"
    changed = [json.loads(line) for line in content(paths, log)]
    for record in changed[1:]:
        record["at"] = "2026-02-02T00:00:00.000Z"
    path.write_bytes(b"".join(
        encode({key: value for key, value in record.items() if key not in ("v", "seq", "mac", "crc")}, record["seq"])[1]
        for record in changed
    ))  # fmt: skip
    team = Team(tmp_path / "near").load()
    assert {name: error.code for name, error in team.roster.corrupt.items()} == {"a1": "foreign_data"}
    assert team.roster.agents == {}
    team.close()
    with pytest.raises(Environment) as refused:
        folded(paths, "a1", own=True)
    assert refused.value.code == "foreign_data"
    seal = paths.provenance.seal("agent", "a1", log)
    with pytest.raises(Environment):
        page(path, TYPES[log], 0, (1, 1), seal=seal)
    assert team_adoption.foreign_agents(paths) == ["a1"]
    assert offline_view.agent(tmp_path / "near", "a1")["reason"] == offline_view.FOREIGN


@pytest.mark.anyio
async def test_a_line_behind_the_accepted_ones_needs_the_own_seal(tmp_path, mirror):
    taken(tmp_path / "near", {"inbox": mirror["inbox"], "outbox": mirror["outbox"][:-1]})
    with Paths(tmp_path / "near").outbox("a1").open("ab") as file:
        file.write(mirror["outbox"][-1] + b"\n")
    team = Team(tmp_path / "near").load()
    assert team.roster.corrupt["a1"].code == "foreign_data"
    assert team.roster.corrupt["a1"].facts["line"] == len(mirror["outbox"])
    team.close()


@pytest.mark.anyio
async def test_what_was_accepted_counts_for_its_log_alone_and_lies_outside_the_project(tmp_path, mirror):
    taken(tmp_path / "near", mirror)
    paths = Paths(tmp_path / "near")
    place = paths.provenance.identity.place / "accepted"
    assert sorted(file.name for file in place.iterdir()) == ["a1.inbox.json", "a1.outbox.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    shutil.copytree(paths.agent_dir("a1"), paths.agent_dir("a2"))
    shutil.copytree(tmp_path / "near", tmp_path / "copy")
    near, copy = Team(tmp_path / "near").load(), Team(tmp_path / "copy").load()
    assert [*near.roster.agents] == ["a1"]
    assert near.roster.corrupt["a2"].code == "foreign_data"
    assert {name: error.code for name, error in copy.roster.corrupt.items()} == dict.fromkeys(
        ("a1", "a2"), "foreign_data"
    )
    near.close()
    copy.close()


@pytest.mark.anyio
async def test_damaged_accepted_lines_are_not_given_up_by_a_repair(tmp_path, mirror):
    taken(tmp_path / "near", mirror)
    paths = Paths(tmp_path / "near")
    life = Life(tmp_path / "near")
    data = bytearray(paths.outbox("a1").read_bytes())
    data[-40] ^= 1
    paths.outbox("a1").write_bytes(bytes(data))
    answer = await life.repairing.run()
    assert [error["code"] for error in answer["left"]] == ["foreign_data"]
    assert paths.outbox("a1").read_bytes() == bytes(data)
    assert damage_report.of_agent(tmp_path / "near", "a1").code == "foreign_data"
    await life.end()
    # Once a human has adopted what is intact, it is an own log with an own damaged line.
    team_adoption.seal_files(paths)
    again = Life(tmp_path / "near")
    assert again.roster.corrupt["a1"].code == "corrupt_log"
    answer = await again.repairing.run()
    assert answer["left"] == []
    assert [*again.roster.agents] == ["a1"]
    await again.end()


@pytest.mark.anyio
async def test_damage_behind_the_accepted_lines_is_repaired_and_those_stay_as_they_are(tmp_path, mirror):
    taken(tmp_path / "near", mirror)
    life = Life(tmp_path / "near")
    entry = life.roster.agents["a1"]
    await life.task("a1", "t4")
    await life.task("a1", "t5")
    await life.roster.commit(entry, [])
    await life.end()
    life.paths.cache.unlink()
    kept = content(life.paths, "inbox")
    path = life.paths.inbox("a1")
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"tX"', 1))
    again = Life(tmp_path / "near")
    assert again.roster.corrupt["a1"].code == "corrupt_log"
    answer = await again.repairing.run()
    assert answer["left"] == []
    assert content(again.paths, "inbox")[: len(mirror["inbox"])] == mirror["inbox"]
    assert len(content(again.paths, "inbox")) >= len(kept)
    assert again.roster.corrupt == {}
    await again.end()


@pytest.mark.anyio
async def test_lines_that_are_no_logs_are_refused_and_leave_nothing(tmp_path, mirror):
    for wrong in (
        {**mirror, "outbox": mirror["outbox"][1:]},
        {**mirror, "outbox": []},
        {**mirror, "inbox": mirror["inbox"][::-1]},
        {**mirror, "inbox": []},
        {"inbox": mirror["outbox"], "outbox": mirror["inbox"]},
    ):
        with pytest.raises(Corrupt):
            taken(tmp_path / "near", wrong)
        assert [*Paths(tmp_path / "near").agents.iterdir()] == []


@pytest.mark.anyio
async def test_an_agent_of_this_host_is_never_replaced(tmp_path, mirror):
    life = Life(tmp_path / "near")
    await life.team.agent("a1")
    await life.end()
    before = content(life.paths, "outbox")
    for act in (lambda: taken(tmp_path / "near", mirror), lambda: replica(tmp_path / "near", mirror)):
        with pytest.raises(Environment) as refused:
            act()
        assert refused.value.code == "io_failed"
    assert drop_replica(life.paths, "a1") is None
    assert content(life.paths, "outbox") == before
    again = Team(tmp_path / "near").load()
    assert [*again.roster.agents] == ["a1"]
    again.close()


@pytest.mark.anyio
@pytest.mark.parametrize("given", [True, False])
async def test_the_worktree_of_a_moved_agent_is_the_one_that_it_was_given_here(tmp_path, mirror, given):
    """The former owner's record names a directory of that machine; git must not work in it here."""
    first = json.loads(mirror["outbox"][0])
    plain = {key: value for key, value in first.items() if key not in ("v", "seq", "mac", "crc")}
    away = {"path": "/away/w", "tree": "/away", "branch": "orchestrator/a1", "base": "0" * 40}
    there = encode({**plain, "worktree": away}, 1)[1][:-1]
    taken(tmp_path / "near", {**mirror, "outbox": [there, *mirror["outbox"][1:]]})
    assert inspection.place_of(tmp_path / "near", "a1") is None
    life = Life(tmp_path / "near")
    entry = life.roster.agents["a1"]
    here = {**away, "tree": str(tmp_path / "near"), "branch": "orchestrator/a1-f2"}
    placed = {"cwd": "/", "worktree": here} if given else {"cwd": "/"}
    while drafts := fleet_rules.moved(
        entry.state, at=life.at(), fence=2, host="rack", lost_host="box", placed=placed
    ):
        await life.roster.commit(entry, drafts)
    place = inspection.place_of(tmp_path / "near", "a1")
    assert (place and place.branch) == (here["branch"] if given else None)
    await life.end()


STEPS = ["written", "accepted", "replica-dropped", "done"]


@pytest.mark.anyio
@pytest.mark.parametrize("with_replica", [False, True])
@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
async def test_a_crash_in_a_takeover_leaves_the_whole_agent_or_none(
    tmp_path, mirror, monkeypatch, step, with_replica
):
    if with_replica:
        replica(tmp_path / "near", mirror).close()
    with monkeypatch.context() as patch:
        died = dying(patch, "takeover:", step)
        with pytest.raises(Died):
            taken(tmp_path / "near", mirror)
        assert died.seen == [f"takeover:{name}" for name in STEPS[:step]]
    team = Team(tmp_path / "near").load()
    assert team.roster.corrupt == {}
    assert [*team.roster.agents] == (["a1"] if step == len(STEPS) else [])
    assert [path.name for path in team.paths.agents.iterdir() if path.name.startswith(".")] == []
    team.close()
    if step == len(STEPS):
        return
    taken(tmp_path / "near", mirror)
    again = Team(tmp_path / "near").load()
    assert [*again.roster.agents] == ["a1"]
    again.close()


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["rename", "fsync", "open", "pwrite"])
async def test_a_disk_that_refuses_a_takeover_leaves_no_agent_and_it_can_be_repeated(tmp_path, mirror, call):
    for at in itertools.count(1):
        io = FaultyIO({(call, at): 28})
        try:
            taken(tmp_path / "near", mirror, io=io)
        except OrchestratorError:
            team = Team(tmp_path / "near").load()
            assert (team.roster.agents, team.roster.corrupt) == ({}, {})
            team.close()
        else:
            break
    assert at > 1
    taken_over = Team(tmp_path / "near").load()
    assert [*taken_over.roster.agents] == ["a1"]
    taken_over.close()


@pytest.mark.anyio
async def test_taken_over_again_only_the_newest_accepted_lines_count(tmp_path, mirror):
    taken(tmp_path / "near", {"inbox": [], "outbox": mirror["outbox"][:2]})
    paths = Paths(tmp_path / "near")
    assert not (paths.provenance.identity.place / "accepted" / "a1.inbox.json").exists()
    old = fence_off(paths, "a1", 2)
    taken(tmp_path / "near", mirror)
    team = Team(tmp_path / "near").load()
    assert [*team.roster.agents] == ["a1"]
    team.close()
    shutil.rmtree(paths.agent_dir("a1"))
    old.rename(paths.agent_dir("a1"))
    stale = Team(tmp_path / "near").load()
    assert stale.roster.corrupt["a1"].code == "foreign_data"
    stale.close()


def test_only_a_takeover_writes_what_was_accepted():
    package = Path(mirrored_logs.__file__).parents[2]
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\baccepted_logs\b", path.read_text("utf-8")) and path.name != "accepted_logs.py"
    }
    assert users == {
        "trust/provenance.py",
        "trust/seals.py",
        "team/roster/mirrored_logs.py",
        "team/roster/replica_files.py",
    }
    assert "accepted_logs.stored(" in (package / "trust" / "provenance.py").read_text("utf-8")
    assert not re.search(r"\b(store|forget)\b", (package / "trust" / "provenance.py").read_text("utf-8"))


# -- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_only_a_log_that_was_taken_over_is_compared_and_once_per_opening(tmp_path, mirror, monkeypatch):
    life = Life(tmp_path / "near")
    await life.team.agent("own")
    await life.end()
    with counted_macs(monkeypatch) as counts:
        Team(tmp_path / "near").load().close()
    assert counts["digests"] == 0
    taken(tmp_path / "near", mirror)
    (tmp_path / "near" / ".agents" / "cache.sqlite").unlink()
    with counted_macs(monkeypatch) as counts:
        life = Life(tmp_path / "near")
    assert counts["digests"] == 2  # one for each log
    await told(life.roster, "t2", "result")  # as after every takeover there is an own record of the broadcast
    await life.end()
    with counted_macs(monkeypatch) as counts:
        team = Team(tmp_path / "near").load()
        assert team.roster.corrupt == {}
        assert counts["digests"] == 0  # the checkpoint was made of what was compared
        entry = team.roster.agents["a1"]
        entry.outbox.since(0, 1, 1)
        entry.outbox.since(0, 100, 1 << 20)
        entry.outbox.tail(1, 1 << 20)
        assert counts["digests"] == 1
    team.close()


@pytest.mark.anyio
async def test_from_a_checkpoint_too_no_changed_accepted_line_is_handed_out(tmp_path, mirror):
    taken(tmp_path / "near", mirror)
    life = Life(tmp_path / "near")
    await life.task("a1", "t4")
    await life.end()
    paths = life.paths
    first, rest = paths.inbox("a1").read_bytes().split(b"\n", 1)
    record = {key: value for key, value in json.loads(first).items() if key not in ("v", "seq", "mac", "crc")}
    forged = encode({**record, "req": "m:" + "x" * (len(record["req"]) - 2)}, 1)[1]
    assert forged != first + b"\n"
    padded = encode({**record, "req": "m:" + "x" * (len(record["req"]) - 2 + len(first) + 1 - len(forged))}, 1)[1]
    assert len(padded) == len(first) + 1
    paths.inbox("a1").write_bytes(padded + rest)
    team = Team(tmp_path / "near").load()
    entry = team.roster.agents["a1"]
    with pytest.raises(Environment) as refused:
        entry.inbox.since(0, 1, 1 << 20)
    assert refused.value.code == "foreign_data"
    assert entry.inbox.since(len(mirror["inbox"]), 9, 1 << 20)[0][0]["task_id"] == "t4"
    team.close()


def test_a_long_log_costs_nothing_more_at_a_start_from_its_checkpoint(tmp_path):
    """Bytes read and MACs made at an opening do not grow with the accepted lines before the position."""
    costs = []
    for count in (2_000, 20_000):
        path = tmp_path / f"{count}" / "outbox.jsonl"
        path.parent.mkdir()
        log = Journal.open(path, syncer=Syncer(pytest.fail, threads=0), types=OUTBOX_TYPES, durability="os")
        growing = accepted_logs.GrowingPrefix()
        for start in range(1, count, 500):
            batch = [
                encode({"at": "t", "type": "ack", "task_id": "t"}, seq)[1][:-1] for seq in range(start, start + 500)
            ]
            log.extend(batch, sync=False)
            for line in batch:
                growing.add(line)
        position = log.position()
        log.close()
        identity = mirrored_identity(tmp_path)
        seal = Seal(identity, "agent", "a1", "outbox", accepted=growing.prefix)
        io = FaultyIO()
        again = Journal.open(
            path, syncer=Syncer(pytest.fail, threads=0), types=OUTBOX_TYPES, start=position, io=io, seal=seal
        )
        assert again.last_seq == count
        assert seal.trusted_seq is None
        costs.append(io.bytes_read)
        again.close()
    assert costs[1] <= costs[0] + 100


def mirrored_identity(root):
    from orchestrator.trust import identity

    (root / "home").mkdir(exist_ok=True)
    return identity.establish(root / "home")


# -- replicas -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_replica_is_read_by_all_and_loaded_by_nobody(tmp_path, mirror):
    copy = replica(tmp_path / "near", mirror)
    assert (copy.state.life, copy.state.lease.task_id) == ("ready", "t2")
    assert lines(copy.outbox) == mirror["outbox"]
    copy.close()
    root = tmp_path / "near"
    for clean in (False, True):
        team = Team(root).load(clean=clean)
        assert (team.roster.agents, team.roster.corrupt) == ({}, {})
        assert team.roster.new_id("a1") == "a1-2"
        team.close()
    paths = Paths(root)
    assert {name: content(paths, name) for name in mirror} == mirror
    assert mirrored_logs.owner_of(paths, "a1") == OWNER
    [row] = offline_view.agents(root)
    assert (row["agent_id"], row["status"]) == ("a1", "unknown")
    assert "host box" in row["reason"]
    assert offline_view.agent(root, "a1")["worktree"] is None
    assert [one["type"] for one in offline_view.events(root, "a1", 0, 2)["events"]] == ["starting", "ready"]
    [agent] = run_records(root, "run-1", lambda _, record: record).agents
    assert (len(agent.inbox), len(agent.outbox)) == (len(mirror["inbox"]), len(mirror["outbox"]))
    assert team_adoption.foreign_agents(paths) == []
    assert damage_report.of_agent(root, "a1") is None
    report = verify(root, live=False, settled=True)
    assert report.violations == []
    assert report.checked["records"] == len(mirror["inbox"]) + len(mirror["outbox"])


@pytest.mark.anyio
async def test_a_replica_goes_on_after_a_restart_and_is_made_anew_when_it_is_damaged_or_of_another_project(
    tmp_path, mirror
):
    half = {name: some[: len(some) // 2] for name, some in mirror.items()}
    replica(tmp_path / "near", half).close()
    same = open_replica(Paths(tmp_path / "near"), "a1", OWNER, Syncer(pytest.fail, threads=0))
    assert {name: log.last_seq for name, log in same.logs.items()} == {name: len(some) for name, some in half.items()}
    same.close()
    again = replica(tmp_path / "near", half, AgentOwner("shop", "rack", 2))
    assert again.outbox.last_seq == len(half["outbox"])
    assert again.state.life == "ready"
    again.close()
    paths = Paths(tmp_path / "near")
    assert mirrored_logs.owner_of(paths, "a1") == AgentOwner("shop", "rack", 2)
    damaged = bytearray(paths.outbox("a1").read_bytes())
    damaged[20] ^= 1
    paths.outbox("a1").write_bytes(bytes(damaged))
    assert verify(tmp_path / "near", live=False, settled=True).violations
    assert "database" in damage_report.of_agent(tmp_path / "near", "a1").next_step
    anew = open_replica(paths, "a1", OWNER, Syncer(pytest.fail, threads=0))
    assert (anew.outbox.last_seq, anew.inbox.last_seq, anew.state.life) == (0, 0, "new")
    anew.extend("inbox", mirror["inbox"])
    anew.extend("outbox", mirror["outbox"])
    anew.close()
    other = open_replica(paths, "a1", AgentOwner("other", "box", 1), Syncer(pytest.fail, threads=0))
    assert other.outbox.last_seq == 0
    other.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "how", ["a line more", "a line less", "a line changed", "no note", "a note of another log", "a pipe"]
)
async def test_a_replica_that_a_stranger_has_changed_is_made_anew_and_tells_nobody_anything(tmp_path, mirror, how):
    half = {"inbox": mirror["inbox"], "outbox": mirror["outbox"][:4]}
    replica(tmp_path / "near", half).close()
    paths = Paths(tmp_path / "near")
    path, note = paths.outbox("a1"), paths.outbox("a1").with_suffix(".mirrored")
    if how == "a line more":
        path.write_bytes(path.read_bytes() + mirror["outbox"][4] + b"\n")
    elif how == "a line less":
        path.write_bytes(b"".join(line + b"\n" for line in half["outbox"][:-1]))
    elif how == "a line changed":
        record = json.loads(half["outbox"][-1])
        plain = {key: value for key, value in record.items() if key not in ("v", "seq", "mac", "crc")}
        path.write_bytes(b"".join([*(line + b"\n" for line in half["outbox"][:-1]), encode(plain, record["seq"])[1]]))
    elif how == "a pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "no note":
        note.unlink()
    else:
        note.write_bytes(paths.inbox("a1").with_suffix(".mirrored").read_bytes())
    assert offline_view.agent(tmp_path / "near", "a1")["reason"] == offline_view.FOREIGN
    if how == "a pipe":
        return
    again = open_replica(paths, "a1", OWNER, Syncer(pytest.fail, threads=0))
    assert (again.outbox.last_seq, again.inbox.last_seq, again.state.life) == (0, 0, "new")
    again.close()


@pytest.mark.anyio
async def test_lines_that_cannot_follow_are_refused_and_the_replica_can_be_dropped(tmp_path, mirror):
    copy = replica(tmp_path / "near", {"inbox": [], "outbox": mirror["outbox"][:2]})
    for log, wrong in (("outbox", mirror["outbox"][3:]), ("outbox", mirror["outbox"][2:3])):
        with pytest.raises(Corrupt):
            copy.extend(log, wrong)
    copy.close()
    paths = Paths(tmp_path / "near")
    drop_replica(paths, "a1")
    assert [*paths.agents.iterdir()] == []


@pytest.mark.anyio
async def test_the_replica_of_an_agent_that_moves_here_makes_room_for_the_agent(tmp_path, mirror):
    replica(tmp_path / "near", {name: some[:1] for name, some in mirror.items()}).close()
    taken(tmp_path / "near", mirror)
    team = Team(tmp_path / "near").load()
    assert [*team.roster.agents] == ["a1"]
    assert not team.paths.mirror("a1").exists()
    team.close()


@pytest.mark.anyio
async def test_a_strangers_replica_is_foreign_and_never_becomes_an_agent(tmp_path, mirror):
    replica(tmp_path / "near", mirror).close()
    shutil.copytree(tmp_path / "near", tmp_path / "copy")
    team = Team(tmp_path / "copy").load()
    assert team.roster.corrupt["a1"].code == "foreign_data"
    team.close()
    paths = Paths(tmp_path / "copy")
    [row] = team_adoption.preview(paths)
    assert "another host" in row["does"]
    team_adoption.seal_files(paths)
    again = Team(tmp_path / "copy").load()
    assert (again.roster.agents, again.roster.corrupt) == ({}, {})
    assert team_adoption.foreign_agents(again.paths) == []
    again.close()


@pytest.mark.anyio
async def test_a_copy_that_is_behind_its_broadcast_is_a_note_of_verify(tmp_path, mirror):
    published(tmp_path / "near", mirror)
    replica(tmp_path / "near", {"inbox": mirror["inbox"], "outbox": mirror["outbox"][:3]}).close()
    report = verify(tmp_path / "near", live=False, settled=True)
    assert report.violations == []
    assert any("may be behind" in note for note in report.notes)


@pytest.mark.anyio
async def test_a_broadcast_is_rebuilt_from_a_replica_that_is_unchanged_and_from_no_other(tmp_path, mirror):
    published(tmp_path / "near", mirror)
    replica(tmp_path / "near", mirror).close()
    paths = Paths(tmp_path / "near")
    whole = content_of(paths.broadcast("run-1"))
    paths.broadcast("run-1").write_bytes(b"\n".join([whole[0], b"{", *whole[2:], b""]))
    rebuilt = [json.loads(line) for line in damage_report.rebuilt_broadcast(paths, "run-1")]
    assert [(one["seq"], one["type"]) for one in rebuilt] == [
        (one["seq"], one["type"]) for one in map(json.loads, whole)
    ]
    paths.outbox("a1").with_suffix(".mirrored").unlink()
    assert len(damage_report.rebuilt_broadcast(paths, "run-1")) == len(whole) - 1


# -- directories that were set aside --------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_fenced_directory_is_no_agent_and_gc_removes_it_when_it_is_old(tmp_path):
    life = Life(tmp_path / "near")
    await life.team.agent("a1")
    await life.end()
    paths = life.paths
    (paths.artifacts("a1") / "note.txt").write_text("kept")
    aside = fence_off(paths, "a1", 3)
    assert fence_off(paths, "a1", 3) == aside
    assert aside.name == "a1.fenced-3"
    paths.agent_dir("a1").mkdir()
    assert fence_off(paths, "a1", 3).name == "a1.fenced-4"
    (paths.agents / "a1.fenced-4").rmdir()
    assert offline_view.agent_ids(tmp_path / "near") == []
    assert run_records(tmp_path / "near", "run-1", lambda _, record: record).agents[0].gaps
    kinds = {fault.kind for fault in verify(tmp_path / "near", live=False, settled=True).violations}
    assert kinds <= {"unknown_agent"}
    again = Life(tmp_path / "near")
    assert (again.roster.agents, again.roster.corrupt) == ({}, {})
    moved = again.clock.now().timestamp()
    os.utime(aside, (moved - 50, moved - 50))
    assert await again.gc(age_s=60) == []
    [item] = await again.gc(age_s=40, apply=False)
    assert (item["kind"], item["name"]) == ("fenced agent", "a1.fenced-3")
    assert aside.exists()
    await again.gc(age_s=40)
    assert [path.name for path in aside.iterdir()] == ["artifacts"]
    assert await again.gc(age_s=40) == []
    await again.gc(age_s=0, artifacts=True)
    await again.gc(age_s=-1)
    await again.end()


@pytest.mark.anyio
async def test_gc_of_a_taken_over_agent_forgets_what_was_accepted(tmp_path, mirror):
    from orchestrator.core import supervision

    taken(tmp_path / "near", mirror)
    life = Life(tmp_path / "near")
    entry = life.roster.agents["a1"]
    await life.roster.commit(entry, decisions.stop(entry.state, force=True, req="m:stop", at=life.at()))
    await life.roster.commit(entry, supervision.stopped(entry.state, at=life.at(), rungs=()))
    await life.roster.commit(entry, supervision.deleted(entry.state, at=life.at()))
    place = life.paths.provenance.identity.place / "accepted"
    assert len([*place.iterdir()]) == 2
    await life.gc()
    assert [*place.iterdir()] == []
    await life.end()
