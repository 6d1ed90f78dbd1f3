"""doctor --fix over real files: what is damaged is quarantined and written anew, whenever it is cut off."""

import itertools
import json
import os

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import file_models, record_types, records
from orchestrator.journal.log_reader import read_all
from orchestrator.team.recovery import damage_report
from orchestrator.team.roster import delivery, offline_view
from orchestrator.team.roster.broadcast import digest
from tests.support.damaged_team import Died, Life, dying

pytestmark = pytest.mark.anyio
AGENTS = ("a1", "a2")


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def worked(root):
    """Two agents: one result each, then `a1` holds t2 with t3 behind it, `a2` is idle."""
    life = Life(root)
    for name in AGENTS:
        await life.team.agent(name)
        await life.task(name, f"{name}.t1", {"n": 1})
        await wait(life, name)
        await emit(life, name, "result", {"of": name})
    await life.task("a1", "a1.t2", {"n": 2})
    await life.task("a1", "a1.t3", {"n": 3})
    await wait(life, "a1", "w:2")
    await emit(life, "a1", "ack", req="e:2")
    await life.end()


async def wait(life, name, req="w:1"):
    life.roster.agents[name].secret = "s"
    return await delivery.wait_for_command(life.roster, name, 1, timeout_s=0, age_s=0, req=f"{name}:{req}")


async def emit(life, name, kind, payload=None, req="e:1"):
    return await delivery.emit_event(
        life.roster, name, 1, kind=kind, task_id=None, payload=payload, done=None, req=f"{name}:{req}"
    )


def log(root, name, agent="a1"):
    return root / ".agents" / "agents" / agent / f"{name}.jsonl"


def broadcast(root):
    return root / ".agents" / "run" / "run-1" / "broadcast.jsonl"


def written(path, kinds):
    return list(read_all(path, kinds))


def hurt(path, needle, how=lambda line: line.replace(b'"v":1', b'"v":7')):
    """Damage the first line that holds the needle; its number."""
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if needle in line)
    lines[at] = how(lines[at])
    path.write_bytes(b"".join(lines))
    return at + 1


def garbled(line):
    return b"\0" * (len(line) // 2) + line[len(line) // 2 :]


def sound(root, agents=AGENTS):
    """Every log folds, and the broadcast tells exactly what the outboxes say."""
    due, told = {}, {}
    for name in agents:
        assert damage_report.of_agent(root, name) is None
        out = written(log(root, "outbox", name), record_types.OUTBOX_TYPES)
        for record in out:
            records.OUTBOX.validate_python(record)
        for record in written(log(root, "inbox", name), record_types.INBOX_TYPES):
            records.INBOX.validate_python(record)
        due[name] = [digest(name, r) for r in out if r["type"] in record_types.BROADCAST_TYPES]
    for record in written(broadcast(root), record_types.BROADCAST_TYPES):
        told.setdefault(record["agent_id"], []).append({k: record[k] for k in record if k not in ("v", "seq", "crc")})
    keys = ("type", "ref", "task_id", "epoch", "at")
    shorter = {n: [{k: r.get(k) for k in keys} for r in rows] for n, rows in told.items()}
    assert shorter == {n: [{k: r.get(k) for k in keys} for r in rows] for n, rows in due.items()}
    return {r["task_id"]: r for name in agents for r in written(log(root, "outbox", name), record_types.OUTBOX_TYPES)
            if r["type"] in TERMINAL}  # fmt: skip


async def fixed(root, tended=True):
    """What a repair has done. Without ``tended`` no agent is found to have ended with its tmux server meanwhile."""
    life = Life(root)
    if not tended:
        life.supervisor.tend = lambda entry: None
    told = await life.repairing.run()
    await life.end()
    assert (await again(root)) == []
    return told


async def again(root):
    """A restart is clean, and there is nothing more to mend."""
    life = Life(root)
    assert life.roster.corrupt == {}
    told = await life.repairing.run()
    await life.end()
    assert told["left"] == []
    return told["done"]


async def test_a_damaged_outbox_is_kept_and_its_agent_is_failed_with_every_outcome_it_had(tmp_path):
    await worked(tmp_path)
    before = log(tmp_path, "outbox").read_bytes()
    line = hurt(log(tmp_path, "outbox"), b'"result"', garbled)
    damaged = log(tmp_path, "outbox").read_bytes()
    wrong = damage_report.of_agent(tmp_path, "a1")
    assert wrong.code == "corrupt_log" and "--fix" in wrong.next_step and wrong.facts["line"] == line
    assert log(tmp_path, "outbox").read_bytes() == damaged, "looking changes nothing"
    told = await fixed(tmp_path)
    assert told["left"] == []
    [kept] = log(tmp_path, "outbox").parent.glob("outbox.jsonl.quarantine-*")
    assert kept.read_bytes() == damaged
    ends = sound(tmp_path)
    assert ends["a1.t1"]["payload"] == {"of": "a1"}, "the broadcast knew it"
    assert ends["a1.t2"]["payload"]["code"] == "outcome_unknown"
    assert "a1.t3" not in ends, "it was never handed out"
    row = offline_view.agent(tmp_path, "a1")
    assert row["status"] == "failed" and "outbox.jsonl, line" in row["reason"]
    assert [task["task_id"] for task in row["tasks"]] == ["a1.t3"]
    assert offline_view.agent(tmp_path, "a2")["status"] == "unknown"
    # What was whole stands where it stood: who has read up to a number reads on.
    new = log(tmp_path, "outbox").read_bytes().splitlines()
    assert [n for n, old in enumerate(before.splitlines(), 1) if new[n - 1] != old] == [line]


def split(path, *firsts):
    """The log in several files; ``firsts`` are the seqs that the sealed ones are named by, the last the live one's."""
    lines = path.read_bytes().splitlines(keepends=True)
    for first, following in itertools.pairwise(firsts):
        path.with_name(f"{path.stem}.{first:012d}.jsonl").write_bytes(b"".join(lines[first - 1 : following - 1]))
    path.write_bytes(b"".join(lines[firsts[-1] - 1 :]))


async def test_a_damaged_outbox_costs_the_sound_inbox_none_of_its_files(tmp_path):
    await worked(tmp_path)
    inbox = log(tmp_path, "inbox")
    before = written(inbox, record_types.INBOX_TYPES)
    split(inbox, 1, 2, 3)
    hurt(log(tmp_path, "outbox"), b'"result"', garbled)
    await fixed(tmp_path)
    sound(tmp_path)
    assert written(inbox, record_types.INBOX_TYPES)[: len(before)] == before


async def test_a_file_of_a_log_with_a_wrong_name_costs_no_record(tmp_path):
    await worked(tmp_path)
    outbox = log(tmp_path, "outbox")
    before = written(outbox, record_types.OUTBOX_TYPES)
    split(outbox, 1, 3, 5)
    outbox.with_name("outbox.000000000003.jsonl").rename(outbox.with_name("outbox.000000000004.jsonl"))
    kept = [line + b"\n" for line in damage_report.lines_of(outbox, record_types.OUTBOX_TYPES)]
    assert not damage_report.is_same(outbox, kept), "its lines are all there, and no reader finds them"
    await fixed(tmp_path)
    sound(tmp_path)
    assert written(outbox, record_types.OUTBOX_TYPES)[: len(before)] == before
    assert len(list(outbox.parent.glob("outbox.*.quarantine-*"))) == 3, "each file is kept as it was"


async def test_a_repair_does_not_tell_twice_what_is_on_its_way_into_the_broadcast(tmp_path):
    life = Life(tmp_path)
    await life.team.agent("a1")
    assert life.roster.runs["run-1"].unwritten, "it waits for its moment"
    await life.repairing.run()
    await life.end()
    sound(tmp_path, ["a1"])


async def test_a_damaged_inbox_loses_no_task_that_can_be_read(tmp_path):
    await worked(tmp_path)
    hurt(log(tmp_path, "inbox"), b'"a1.t2"', garbled)
    await fixed(tmp_path)
    ends = sound(tmp_path)
    assert ends["a1.t2"]["payload"]["code"] == "outcome_unknown"
    [left] = offline_view.agent(tmp_path, "a1")["tasks"]
    assert left["task_id"] == "a1.t3"
    stored = {
        r["task_id"]: r for r in written(log(tmp_path, "inbox"), record_types.INBOX_TYPES) if r["type"] == "task"
    }
    assert stored["a1.t3"]["payload"] == {"n": 3}
    assert stored["a1.t2"]["lost"] is True and stored["a1.t2"]["payload"] is None


async def test_lines_lost_at_the_end_come_back_as_far_as_the_broadcast_knows_them(tmp_path):
    await worked(tmp_path)
    path = log(tmp_path, "outbox", "a2")
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:2]))
    assert damage_report.of_agent(tmp_path, "a2").code == "corrupt_log"
    await fixed(tmp_path)
    assert sound(tmp_path)["a2.t1"]["payload"] == {"of": "a2"}
    assert offline_view.agent(tmp_path, "a2")["status"] == "failed"


@pytest.mark.parametrize("needle", [b'"starting"', b'"ready"', b'"result"'])
async def test_a_damaged_broadcast_is_told_again_byte_for_byte(tmp_path, needle):
    await worked(tmp_path)
    before = broadcast(tmp_path).read_bytes()
    hurt(broadcast(tmp_path), needle, garbled)
    told = await fixed(tmp_path, tended=False)
    assert broadcast(tmp_path).read_bytes() == before
    assert [one["what"] for one in told["done"]] == ["broadcast"]
    sound(tmp_path)
    assert offline_view.agent(tmp_path, "a1")["status"] == "unknown", "its agents work on"


async def test_broadcast_and_outbox_damaged_at_once_still_agree_afterwards(tmp_path):
    await worked(tmp_path)
    hurt(log(tmp_path, "outbox"), b'"result"', garbled)
    hurt(broadcast(tmp_path), b'"a1.t1"', garbled)
    await fixed(tmp_path)
    ends = sound(tmp_path)
    assert ends["a1.t1"]["payload"]["code"] == "outcome_unknown"


async def test_a_run_file_that_cannot_be_read_is_replaced_and_says_what_is_lost(tmp_path):
    await worked(tmp_path)
    path = tmp_path / ".agents" / "run" / "run-1" / "run.json"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(OrchestratorError):
        damage_report.check_run(tmp_path, "run-1")
    told = await fixed(tmp_path)
    assert any(one["what"] == "run" and "tmux window is no longer known" in one["did"] for one in told["done"])
    file_models.RunFile.model_validate(json.loads(path.read_text()))
    sound(tmp_path)


async def test_the_first_line_lost_is_made_from_what_the_agent_showed(tmp_path):
    await worked(tmp_path)
    hurt(log(tmp_path, "outbox"), b'"starting"', garbled)
    await fixed(tmp_path)
    row = offline_view.agent(tmp_path, "a1")
    assert (row["name"], row["role"], row["engine"], row["run_id"]) == ("a1", "r", "shell", "run-1")
    assert sound(tmp_path)["a1.t1"]["payload"] == {"of": "a1"}


async def test_an_agent_that_was_deleted_stays_deleted(tmp_path):
    life = Life(tmp_path)
    await life.deleted("a1")
    await life.run_over()
    await life.end()
    hurt(log(tmp_path, "outbox"), b'"ready"', garbled)
    await fixed(tmp_path)
    assert offline_view.agent(tmp_path, "a1")["status"] == "deleted"


async def test_an_agent_that_was_being_stopped_is_ended(tmp_path):
    await worked(tmp_path)
    life = Life(tmp_path)
    entry = life.roster.agents["a1"]
    await life.supervisor.team_panes.end_if_empty(life.roster.runs["run-1"])
    from orchestrator.core import decisions

    await life.roster.commit(entry, decisions.stop(entry.state, force=False, req="m:s", at=life.at()))
    await life.end()
    hurt(log(tmp_path, "outbox"), b'"ready"', garbled)
    life = Life(tmp_path)
    await life.repairing.run()
    entry = life.roster.agents["a1"]
    await life.supervisor.settled(entry, life.clock.monotonic() + 60)
    assert entry.state.life == "deleted"
    await life.end()
    ends = sound(tmp_path)
    assert ends["a1.t3"]["type"] == "canceled"


async def test_a_log_of_a_newer_version_is_left_alone(tmp_path):
    await worked(tmp_path)
    hurt(log(tmp_path, "outbox"), b'"starting"', garbled)
    from orchestrator.journal.log_lines import encode

    with log(tmp_path, "outbox").open("ab") as file:
        file.write(encode({"at": "2026-01-01T00:00:00.000Z", "type": "pondered", "epoch": 1, "by": "agent"}, 9)[1])
    before = log(tmp_path, "outbox").read_bytes()
    life = Life(tmp_path)
    told = await life.repairing.run()
    await life.end()
    assert [error["code"] for error in told["left"]] == ["unknown_version"]
    assert log(tmp_path, "outbox").read_bytes() == before


async def test_a_log_damaged_under_the_daemon_is_found_and_mended_without_a_restart(tmp_path):
    await worked(tmp_path)
    life = Life(tmp_path)
    assert life.roster.corrupt == {}
    hurt(log(tmp_path, "outbox"), b'"result"', garbled)
    told = await life.repairing.run()
    assert [one["agent_id"] for one in told["done"] if one["what"] == "agent"] == ["a1"]
    assert life.roster.agents["a1"].state.life == "failed"
    assert life.roster.agents["a2"].state.life == "ready"
    await life.task("a2", "a2.t2")
    await life.end()
    assert (await again(tmp_path)) == []
    sound(tmp_path)


async def test_small_leftovers_are_tidied_and_others_files_are_not(tmp_path):
    await worked(tmp_path)
    home = tmp_path / ".agents"
    agent = home / "agents" / "a1"
    mine = agent / ".meta.json.9999999-1.tmp"
    others = [home / ".config.toml.swp.tmp", agent / "artifacts" / ".x.9999999-1.tmp", agent / ".x.abc-1.tmp"]
    busy = agent / f".meta.json.{os.getppid()}-1.tmp"
    for path in (mine, busy, *others):
        path.write_text("{")
    link = agent / ".link.9999999-1.tmp"
    link.symlink_to(others[0])
    secret = agent / "engine" / "launch.json"
    secret.write_text("{}")
    secret.chmod(0o644)
    told = await fixed(tmp_path)
    assert [one["file"] for one in told["done"]] == [str(mine), str(secret)]
    assert not mine.exists() and busy.exists() and link.is_symlink() and all(path.exists() for path in others)
    assert secret.stat().st_mode & 0o777 == 0o600


DAMAGES = {
    "outbox": [("outbox", b'"result"')],
    "inbox": [("inbox", b'"a1.t2"')],
    "both": [("outbox", b'"ready"'), ("inbox", b'"a1.t1"')],
    "cut": [],
}


@pytest.mark.parametrize("which", [*DAMAGES, "broadcast", "run"])
async def test_a_kill_at_any_step_leaves_what_the_next_run_finishes(tmp_path, monkeypatch, which):
    def damage(root):
        for name, needle in DAMAGES.get(which, []):
            hurt(log(root, name), needle, garbled)
        if which == "cut":  # whole lines: only the outbox shows that they were there
            path = log(root, "inbox")
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
        if which == "broadcast":
            hurt(broadcast(root), b'"ready"', garbled)
        if which == "run":
            (root / ".agents" / "run" / "run-1" / "run.json").write_text("{")

    async def story(root, at):
        await worked(root)
        damage(root)
        with monkeypatch.context() as patch:
            counted = dying(patch, "fix:", at)
            life = Life(root)
            try:
                await life.repairing.run()
            except Died:
                await life.die()
            else:
                await life.end()
        return counted.seen

    count = len(await story(tmp_path / "0", 0))
    assert count >= 2
    for at in range(1, count + 1):
        root = tmp_path / str(at)
        await story(root, at)
        life = Life(root)
        assert "a1" not in life.roster.agents or which in ("broadcast", "run") or at == count, (
            "half-mended is damaged"
        )
        told = await life.repairing.run()
        assert told["left"] == []
        await life.end()
        assert (await again(root)) == []
        ends = sound(root)
        assert set(ends) >= {"a1.t1", "a2.t1"}
        if which in DAMAGES:
            assert ends["a1.t2"]["payload"]["code"] == "outcome_unknown"
            assert offline_view.agent(root, "a1")["status"] == "failed"


@pytest.mark.parametrize("cut", ["inbox", "outbox", "broadcast"])
async def test_a_log_that_lost_records_which_were_on_the_disk_is_mended_and_stays_mended(tmp_path, cut):
    """Only the checkpoint shows this loss: once the log is written anew it must be believed again, also after kill -9."""
    life = Life(tmp_path)
    await life.team.agent("a1")
    await life.task("a1", "a1.t1", {"n": 1})
    await wait(life, "a1")
    await emit(life, "a1", "ack")
    for number in (2, 3):
        await life.task("a1", f"a1.t{number}", {"n": number})
    await life.clock.advance(1.0)
    await life.roster.flush()
    life.team.close()
    path = broadcast(tmp_path) if cut == "broadcast" else log(tmp_path, cut)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    life = Life(tmp_path)
    set_aside = "run-1" if cut == "broadcast" else "a1"
    assert life.roster.corrupt[set_aside].code == "corrupt_log"
    assert (await life.repairing.run())["left"] == []
    assert life.roster.corrupt == {}
    life.team.close()  # without its clean end
    await again(tmp_path)
    sound(tmp_path, ("a1",))
    assert {r["task_id"] for r in written(log(tmp_path, "inbox"), record_types.INBOX_TYPES)} >= {"a1.t1", "a1.t2"}
