"""Any damage to an agent's two logs: what is saved folds, loses no task it can still read, and ends none twice."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import Corrupt
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import blocked, decisions, records, state, supervision
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.core.screens import ScreenFinding
from orchestrator.journal.log_lines import decode, encode, intact
from orchestrator.team.recovery.agent_repair import UNKNOWN, DamagedLog, OutsideFacts, repaired_logs
from orchestrator.team.roster.broadcast import digest
from tests.support.pure_team import Desk, essence

TYPES = {"inbox": INBOX_TYPES, "outbox": OUTBOX_TYPES}
SPEC = {"name": "a", "role": "r", "engine": "shell", "run_id": "run-1", "cwd": "/p", "policies": {}}
AT = "2026-02-01T00:00:00.000Z"
QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


class Drawn:
    """The choices of an example that was found once."""

    def __init__(self, choices):
        self._choices = iter(choices)

    def draw(self, _strategy):
        return next(self._choices)


def history(seed: int, steps: int) -> Desk:
    """A life with every kind of record, the same for the same seed."""
    dice, desk, count = random.Random(seed), Desk(), 0
    desk.start(max_restarts=50, max_attempts=3)
    desk.ready()
    for _ in range(steps):
        agent = desk.agent
        kind = dice.choice(
            ["task", "task", "wait", "wait", "ack", "progress", "end", "end", "cancel", "exit", "block", "back"]
        )
        if kind == "task" and len(agent.unfinished) < 4:
            count += 1
            desk.enqueue(f"t{count}", {"n": count})
        elif kind == "wait" and agent.life == "ready":
            desk.wait()
        elif kind in ("ack", "progress") and agent.lease and agent.life == "ready":
            desk.emit(kind)
        elif kind == "end" and agent.lease and agent.life == "ready":
            desk.emit(dice.choice(sorted(TERMINAL)), payload={"of": agent.lease.task_id})
        elif kind == "cancel" and agent.unfinished:
            desk.cancel(dice.choice(sorted(agent.unfinished)))
        elif kind == "exit" and agent.life in ("ready", "starting") and dice.random() < 0.4:
            desk.exit(code=1)
        elif kind == "block" and agent.life == "ready":
            desk.write(blocked.explained(agent, dice.choice([ScreenFinding("login", "x"), None]), at=desk.at()))
        elif kind == "back":
            desk.ready()
    if seed % 5 == 0:
        desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
        desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=()))
        if seed % 2:
            desk.write(supervision.deleted(desk.agent, at=desk.at()))
    return desk


def sealed(records):
    return [
        encode({k: v for k, v in record.items() if k not in ("v", "seq", "crc")}, seq)
        for seq, record in enumerate(records, 1)
    ]


def lines_of(data: bytes) -> list[bytes]:
    *lines, rest = data.split(b"\n")
    return [*lines, rest] if rest and intact(rest, INBOX_TYPES | OUTBOX_TYPES, Path("x")) else lines


def folded(made) -> state.Agent:
    agent = state.Agent("a1")
    for log in ("inbox", "outbox"):
        lines = [line[:-1] for line in getattr(made, log)]
        for record in decode(lines, 1, TYPES[log], Path(log)):
            (records.INBOX if log == "inbox" else records.OUTBOX).validate_python(record)
            state.apply(agent, log, record)
    return agent


def written(made, log):
    return list(decode([line[:-1] for line in getattr(made, log)], 1, TYPES[log], Path(log)))


def saved(inbox: bytes, outbox: bytes, told, epoch=1):
    hurt = DamagedLog(lines_of(inbox), "inbox.q", "inbox, line 1"), DamagedLog(lines_of(outbox), "outbox.q", "outbox")
    return repaired_logs("a1", *hurt, OutsideFacts(told, dict(SPEC), epoch), AT)


def check(made, inbox: bytes, outbox: bytes, told) -> state.Agent:
    agent = folded(made)
    assert agent.life in ("failed", "stopped", "deleted")
    assert agent.lease is None
    have = Counter(r["task_id"] for r in written(made, "inbox") if r["type"] == "task")
    assert all(n == 1 for n in have.values()), "a task stands twice"
    asked = {}
    for line in lines_of(inbox):
        record = intact(line, INBOX_TYPES, Path("x"))
        if record and record["type"] == "task":
            asked.setdefault(record["task_id"], record)
    stored = {r["task_id"]: r for r in written(made, "inbox") if r["type"] == "task"}
    for task_id, record in asked.items():
        assert stored[task_id]["payload"] == record["payload"], "an accepted task is lost"
    ends = Counter(r["task_id"] for r in written(made, "outbox") if r["type"] in TERMINAL)
    assert all(n == 1 for n in ends.values()), "a task ended twice"
    kept = {r["task_id"]: r for r in written(made, "outbox") if r["type"] in TERMINAL}
    for line in lines_of(outbox):
        record = intact(line, OUTBOX_TYPES, Path("x"))
        if record and record["type"] in TERMINAL:
            end = kept[record["task_id"]]
            assert all(end.get(key) == record.get(key) for key in ("type", "payload", "by")), "an outcome is lost"
    for record in told:
        if record["type"] in TERMINAL:
            assert kept[record["task_id"]]["type"] == record["type"], "an outcome that was told is lost"
    handed = {
        r["task_id"]
        for line in lines_of(outbox)
        if (r := intact(line, OUTBOX_TYPES, Path("x"))) and r["type"] in ("delivered", "ack", "progress")
    }
    requeued = {r["task_id"] for r in written(made, "outbox") if r["type"] == "requeued"}
    for task in agent.unfinished.values():
        assert not task.lost, "a task without its payload could be handed out"
        assert task.task_id not in handed or task.task_id in requeued, "what may have been done would be done again"
    return agent


def broadcast(desk, upto=None):
    told = [digest("a1", r) for r in desk.logs["outbox"][:upto] if r["type"] in BROADCAST_TYPES]
    return [record for record, _ in (encode(one, seq) for seq, one in enumerate(told, 1))]


def files(desk):
    return {log: [line for _, line in sealed(desk.logs[log])] for log in ("inbox", "outbox")}


@QUICK
@example(seed=59, steps=58, data=Drawn(([], 1, "outbox", 1637, "cut out", 300)))
@given(seed=st.integers(0, 400), steps=st.integers(3, 60), data=st.data())
def test_flipped_and_deleted_bytes_lose_nothing_that_can_be_read(seed, steps, data):
    desk = history(seed, steps)
    whole = {log: b"".join(lines) for log, lines in files(desk).items()}
    told = data.draw(st.sampled_from([broadcast(desk), broadcast(desk, len(desk.logs["outbox"]) // 2), []]))
    hurt = dict(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        log = data.draw(st.sampled_from(["inbox", "outbox", "outbox"]))
        if not hurt[log]:
            continue
        at = data.draw(st.integers(0, len(hurt[log]) - 1))
        how = data.draw(st.sampled_from(["flip", "cut out", "nuls"]))
        size = data.draw(st.sampled_from([1, 2, 40, 300])) if how != "flip" else 1
        raw = bytearray(hurt[log])
        if how == "flip":
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "nuls":
            raw[at : at + size] = bytes(len(raw[at : at + size]))
        else:
            del raw[at : at + size]
        hurt[log] = bytes(raw)
    made = saved(hurt["inbox"], hurt["outbox"], told)
    agent = check(made, hurt["inbox"], hurt["outbox"], told)
    assert agent.epoch >= max([r["epoch"] for r in told], default=1)
    # Once more over what was made: nothing to be done any more.
    again = saved(b"".join(made.inbox), b"".join(made.outbox), told)
    assert (again.inbox, again.outbox) == (made.inbox, made.outbox)
    # And when the first time ended between its two files.
    for inbox, outbox in ((b"".join(made.inbox), hurt["outbox"]), (hurt["inbox"], b"".join(made.outbox))):
        check(saved(inbox, outbox, told), inbox, outbox, told)


@QUICK
@given(seed=st.integers(0, 400), steps=st.integers(3, 60), data=st.data())
def test_lines_lost_at_the_end_are_told_by_the_broadcast(seed, steps, data):
    desk = history(seed, steps)
    lines, told = files(desk), broadcast(desk)
    cut = data.draw(st.integers(0, len(lines["outbox"])))
    outbox, inbox = b"".join(lines["outbox"][:cut]), b"".join(lines["inbox"])
    made = saved(inbox, outbox, told)
    check(made, inbox, outbox, told)
    stood = {r["seq"]: r for r in written(made, "outbox")}
    for record in told:
        assert stood[record["ref"]]["type"] == record["type"], "the broadcast repeats what stands there"


def test_undamaged_logs_stay_as_they_are_but_for_the_end_of_the_life():
    for seed in range(60):
        desk = history(seed, 60)
        lines = files(desk)
        made = saved(b"".join(lines["inbox"]), b"".join(lines["outbox"]), broadcast(desk))
        assert made.inbox == lines["inbox"]
        assert made.outbox[: len(lines["outbox"])] == lines["outbox"]
        assert made.lost == 0


@pytest.mark.parametrize("seed", range(12))
def test_every_record_lost_alone_is_told_again_or_replaced(seed):
    """One bad line at every place: all the others stand as they did."""
    desk = history(seed, 40)
    lines, told = files(desk), broadcast(desk)
    before = {r["task_id"]: r["type"] for r in desk.logs["outbox"] if r["type"] in TERMINAL}
    for log in ("inbox", "outbox"):
        for at in range(len(lines[log])):
            hurt = {name: list(some) for name, some in lines.items()}
            hurt[log][at] = hurt[log][at].replace(b'"at":"2026', b'"at":"2027')
            inbox, outbox = b"".join(hurt["inbox"]), b"".join(hurt["outbox"])
            made = saved(inbox, outbox, told)
            agent = check(made, inbox, outbox, told)
            kept = getattr(made, log)
            same = [n for n in range(len(lines[log])) if n != at and kept[n] != lines[log][n]]
            assert same == [], (log, at, desk.logs[log][at]["type"], same)
            after = {r["task_id"]: r["type"] for r in written(made, "outbox") if r["type"] in TERMINAL}
            assert before.items() <= after.items()
            assert agent.epoch == desk.agent.epoch


def test_a_task_that_may_have_been_handed_out_is_not_run_again():
    desk = Desk()
    desk.start()
    desk.ready()
    for name in ("t1", "t2", "t3"):
        desk.enqueue(name)
    desk.wait()
    lines = files(desk)
    hurt = lines["outbox"][-1].replace(b"delivered", b"delivereD")
    made = saved(b"".join(lines["inbox"]), b"".join([*lines["outbox"][:-1], hurt]), broadcast(desk))
    agent = folded(made)
    assert list(agent.unfinished) == ["t2", "t3"]
    assert made.unknown == ["t1"]
    [end] = [r for r in written(made, "outbox") if r["type"] == "error"]
    assert end["payload"]["code"] == UNKNOWN and end["payload"]["quarantined"] == "outbox.q"


def test_a_task_whose_record_is_damaged_is_never_handed_out_without_its_payload():
    desk = Desk()
    desk.start()
    desk.ready()
    desk.enqueue("t1", {"n": 1})
    desk.enqueue("t2", {"n": 2})
    desk.wait()
    lines = files(desk)
    hurt = [lines["inbox"][0].replace(b'"n":1', b'"n":7'), lines["inbox"][1]]
    made = saved(b"".join(hurt), b"".join(lines["outbox"]), broadcast(desk))
    agent = folded(made)
    assert made.rebuilt == ["t1"] and made.unknown == ["t1"]
    assert list(agent.unfinished) == ["t2"] and agent.unfinished["t2"].payload == {"n": 2}


def test_a_line_of_a_newer_version_is_not_ours_to_judge():
    desk = history(1, 20)
    lines = files(desk)
    _, line = encode({"at": AT, "type": "pondered", "epoch": 1, "by": "agent"}, len(lines["outbox"]) + 1)
    with pytest.raises(Corrupt) as refused:
        saved(b"".join(lines["inbox"]), b"".join(lines["outbox"]) + line, [])
    assert refused.value.code == "unknown_version"


def test_essence_is_kept_where_only_a_word_of_the_screen_is_lost():
    desk = Desk()
    desk.start()
    desk.ready()
    desk.write(blocked.explained(desk.agent, ScreenFinding("login", "x"), at=desk.at()))
    desk.write(blocked.explained(desk.agent, None, at=desk.at()))
    desk.enqueue("t1", 1)
    desk.wait()
    desk.emit("result", payload=5)
    lines = files(desk)
    hurt = [line.replace(b'"blocked"', b'"bl0cked"') for line in lines["outbox"]]
    made = saved(b"".join(lines["inbox"]), b"".join(hurt), [])
    assert essence(folded(made))["finished"] == desk.agent.finished
    assert [r["type"] for r in written(made, "outbox")].count("lost") == 1
