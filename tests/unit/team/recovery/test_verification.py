"""`orchestrator verify` turned red: every kind of violation is planted into good files and found where it stands."""

import json
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.base.final_states import TERMINAL
from orchestrator.cli import app
from orchestrator.cli import verify as command
from orchestrator.core import invariants, mirror_invariants, record_types
from orchestrator.journal.project_files import Paths
from orchestrator.team.recovery.verification import verify
from orchestrator.team.roster import delivery
from tests.support.team import Team

WORDS = Path(__file__).resolve().parents[3] / "fixtures" / "core" / "violations.json"
V1 = Path(__file__).resolve().parents[3] / "logs" / "v1"
POLICIES = {"restart": "on-failure", "max_restarts": 1, "restart_window_s": 600.0, "max_attempts": 2}
RUN = {
    "v": 1, "run_id": "run-1", "created_at": "2026-01-01T00:00:00.000Z", "tmux_socket": "/none", "server_pid": 1,
    "server_start": 1, "window_id": "@1", "master_pane": "%0", "session": "s", "agents": {}, "ended_at": None,
}  # fmt: skip


def spec():
    return {"name": "a", "role": "r", "engine": "shell", "run_id": "run-1", "cwd": "/p", "policies": dict(POLICIES)}


def at(second):
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000Z"


def rec(kind, task=None, /, *, epoch=1, by="orchestrator", **more):
    named = {"task_id": task} if task else {}
    return {"type": kind, "epoch": epoch, **named, **more, "by": by}


def ask(kind, task=None, /, **more):
    named = {"task_id": task} if task else {}
    return {"type": kind, "epoch": 1, **named, **more}


class Files:
    """A good project, to be spoilt before ``write`` seals it: lists of records per log; ``told`` is the broadcast."""

    def __init__(self, root):
        self.root = root
        self.inbox = {
            "a1": [
                ask("task", "t1", req="m:1", position=1),
                ask("task", "t2", req="m:2", position=2),
                ask("task", "t3", req="m:3", position=3),
                ask("cancel", "t3", req="m:4"),
                ask("stop", req="m:5"),
            ],
            "a2": [ask("task", "u1", req="m:6", position=1), ask("task", "u2", req="m:7", position=2)],
        }
        self.outbox = {
            "a1": [
                rec("starting", **spec(), req="m:0"),  # 1
                rec("ready", by="agent"),
                rec("delivered", "t1", attempt=1, req="w:1"),
                rec("ack", "t1", by="agent", req="e:1"),
                rec("progress", "t1", by="agent", req="e:2", payload={"n": 1}),  # 5
                rec("result", "t1", by="agent", req="e:3", attempt=1, payload={"n": 1.5}),
                rec("delivered", "t2", attempt=1, req="w:2"),
                rec("ack", "t2", by="agent", req="e:4"),
                rec("exited", reason="its program exited with 1", code=1),
                rec("requeued", "t2", attempt=2, reason="its program exited with 1"),  # 10
                rec("cancel_requested", "t3"),
                rec("canceled", "t3", attempt=1, payload={"reason": "canceled"}),
                rec("restarted", epoch=2, reason="its program exited with 1"),
                rec("ready", epoch=2, by="agent"),
                rec("delivered", "t2", epoch=2, attempt=2, req="w:3"),  # 15
                rec("error", "t2", epoch=2, by="agent", req="e:5", attempt=2, payload={"long": "x" * 3000}),
                rec("stopped", epoch=2, how="stopped by itself"),
                rec("deleted", epoch=2),
            ],
            "a2": [
                rec("starting", **spec(), req="m:8"),
                rec("ready", by="agent"),
                rec("blocked", reason="asks", kind="permission"),
                rec("delivered", "u1", attempt=1, req="w:4"),
                rec("ack", "u1", by="agent", req="e:6"),
            ],
        }
        self.told = None

    def digest(self):
        told = []
        for agent, log in self.outbox.items():
            for seq, one in enumerate(log, 1):
                if one["type"] not in record_types.BROADCAST_TYPES:
                    continue
                kept = {key: one[key] for key in ("type", "epoch", "task_id", "by", "reason", "kind") if key in one}
                if len(json.dumps(one.get("payload"))) > 2048:
                    kept["payload_bytes"] = len(json.dumps(one["payload"]))
                elif "payload" in one:
                    kept["payload"] = one["payload"]
                told.append({"at": one.get("at", at(seq)), "agent_id": agent, "ref": seq, **kept})
        return told

    def write(self):
        home = self.root / ".agents"
        (home / "run" / "run-1").mkdir(parents=True)
        (home / "run" / "run-1" / "run.json").write_text(json.dumps(RUN))
        write_log(home / "run" / "run-1" / "broadcast.jsonl", self.digest() if self.told is None else self.told)
        for agent in self.outbox:
            (home / "agents" / agent).mkdir(parents=True)
            write_log(home / "agents" / agent / "inbox.jsonl", self.inbox.get(agent, []))
            write_log(home / "agents" / agent / "outbox.jsonl", self.outbox[agent])


def seal(record):
    body = json.dumps(record, separators=(",", ":")).encode()[:-1]
    return body + f',"crc":"{zlib.crc32(body):08x}"}}\n'.encode()


def write_log(path, records):
    path.write_bytes(b"".join(seal({"v": 1, "seq": n, "at": at(n), **one}) for n, one in enumerate(records, 1)))


def place(root, name):
    folder = (
        ".agents/run/run-1" if name in ("broadcast.jsonl", "run.json") else f".agents/agents/{name.split('/')[0]}"
    )
    return root / folder / name.split("/")[-1]


def raw(name, change):
    """Spoil lines of a file as they stand on the disk."""

    def spoil(root):
        path = place(root, name)
        lines = path.read_bytes().splitlines(keepends=True)
        change(lines)
        path.write_bytes(b"".join(lines))

    return spoil


def swap(number, data):
    return lambda lines: lines.__setitem__(number - 1, data)


def resealed(number, **more):
    """The line again with other keys, sealed."""

    def change(lines):
        record = {key: value for key, value in json.loads(lines[number - 1]).items() if key != "crc"}
        lines[number - 1] = seal({**record, **more})

    return change


def flipped(lines):
    lines[3] = lines[3].replace(b'"ack"', b'"acK"')


def unsealed(lines):
    record = json.loads(lines[3])
    del record["crc"]
    lines[3] = json.dumps(record).encode() + b"\n"


def out(agent, number, *records):
    """Put records before line ``number`` of an outbox."""

    def change(files):
        files.outbox[agent][number - 1 : number - 1] = records

    return change


def undelivered(*records):
    """What a2 did instead of being handed its first task."""
    return lambda files: files.outbox["a2"].__setitem__(slice(3, None), records)


def told(change):
    def spoil(files):
        files.told = files.digest()
        change(files.told)

    return spoil


def named_wrong(root):
    path = place(root, "a1/outbox.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.with_name("outbox.000000000001.jsonl").write_bytes(b"".join(lines[:4]))
    path.with_name("outbox.000000000006.jsonl").write_bytes(b"".join(lines[4:9]))
    path.write_bytes(b"".join(lines[9:]))


def two_relaunches(files):
    again = (
        rec("exited", epoch=2, reason="x"),
        rec("restarted", epoch=3, reason="x"),
        rec("ready", epoch=3, by="agent"),
    )
    files.outbox["a1"][14:14] = again
    for one in files.outbox["a1"][17:]:
        one["epoch"] = 3


def never(files):
    files.outbox["a1"][0]["policies"] = {**POLICIES, "restart": "never"}


def later_task_first(files):
    log = files.outbox["a1"]
    log[6:12] = [
        rec("delivered", "t3", attempt=1),
        rec("result", "t3", attempt=1, by="agent"),
        rec("exited", reason="x"),
    ]
    for one in log[11:13]:  # t2, after the relaunch
        one["attempt"] = 1


ANSWERED = [
    {"agent_id": "a1", "task_id": "t1"},
    {"agent_id": "a1", "task_id": "t1", "outcome": "result"},
    {"log": "outbox", "agent_id": "a1", "seq": 18},
    {"log": "inbox", "agent_id": "a2", "seq": 2},
    {"log": "broadcast", "run_id": "run-1", "seq": 14},
]
A1, A2, TOLD = "a1/outbox.jsonl", "a2/outbox.jsonl", "broadcast.jsonl"
# id: kind, what spoils the records, what spoils the files, file, line, task, other kinds that this is too
PLANTED = {
    "not json": ("bad_line", None, raw(A1, swap(4, b"garbage\n")), A1, 4, None, ()),
    "no object": ("bad_line", None, raw(A1, swap(4, b"[1]\n")), A1, 4, None, ()),
    "NULs": ("bad_line", None, raw(A1, swap(4, b"\0" * 40 + b"\n")), A1, 4, None, ()),
    "flipped bit": ("bad_crc", None, raw(A1, flipped), A1, 4, "t1", ()),
    "no seal": ("bad_crc", None, raw(A1, unsealed), A1, 4, "t1", ()),
    "flipped bit in the broadcast": ("bad_crc", None, raw(TOLD, lambda lines: swap(2, lines[1].replace(b"r", b"R", 1))(lines)), TOLD, 2, None, ()),
    "lost line": ("seq_gap", None, raw(A1, lambda lines: lines.pop(3)), A1, 4, "t1", ()),
    "lost first line": ("seq_gap", None, raw("a1/inbox.jsonl", lambda lines: lines.pop(0)), "a1/inbox.jsonl", 1, "t2", ()),
    "line twice": ("seq_repeat", None, raw(A1, lambda lines: lines.insert(4, lines[3])), A1, 5, "t1", ()),
    "line moved": ("seq_repeat", None, raw(A1, lambda lines: lines.insert(6, lines.pop(3))), A1, 7, "t1", ("seq_gap",)),
    "newer type": ("unknown_record", None, raw(A1, resealed(4, type="dreamed")), A1, 4, "t1", ()),
    "newer version": ("unknown_record", None, raw(A1, resealed(4, v=2)), A1, 4, "t1", ()),
    "not for a broadcast": ("unknown_record", None, raw(TOLD, resealed(4, type="ack")), TOLD, 4, None, ()),
    "unknown key": ("schema", None, raw(A1, resealed(4, mood="good")), A1, 4, "t1", ()),
    "number as text": ("schema", None, raw(A1, resealed(4, seq="4")), A1, 4, "t1", ()),
    "run.json": ("schema", None, lambda root: place(root, "run.json").write_text("{}"), "run.json", 1, None, ()),
    "file named wrong": ("segment", None, named_wrong, "a1/outbox.000000000006.jsonl", 1, "t1", ()),
    "no inbox": ("missing_log", None, lambda root: place(root, "a1/inbox.jsonl").unlink(), "a1/inbox.jsonl", None, None, ()),
    "no broadcast": ("missing_log", None, lambda root: place(root, TOLD).unlink(), TOLD, None, None, ()),
    "no run.json": ("missing_log", None, lambda root: place(root, "run.json").unlink(), "run.json", None, None, ()),
    "no intent": ("no_intent", lambda f: f.outbox["a2"].pop(0), None, A2, 1, None, ()),
    "second intent": ("no_intent", out("a1", 3, rec("starting", **spec())), None, A1, 3, None, ()),
    "record of the life before": ("wrong_epoch", out("a1", 15, rec("blocked", reason="x")), None, A1, 15, None, ()),
    "life skipped": ("wrong_epoch", out("a2", 6, rec("exited", reason="x"), rec("restarted", epoch=3, reason="x")), None, A2, 7, None, ()),
    "ready twice": ("two_ready", out("a1", 3, rec("ready", by="agent")), None, A1, 3, None, ()),
    "exited twice": ("life", out("a1", 10, rec("exited", reason="again")), None, A1, 10, None, ()),
    "stopped twice": ("life", out("a1", 18, rec("stopped", epoch=2, how="x")), None, A1, 18, None, ()),
    "never stopped": ("life", lambda f: f.outbox["a1"].pop(16), None, A1, 17, None, ()),
    "too many relaunches": ("too_many_lives", two_relaunches, None, A1, 16, None, ()),
    "relaunched against its policy": ("too_many_lives", never, None, A1, 13, None, ()),
    "after its end": ("behind_deleted", out("a1", 19, rec("blocked", epoch=2, reason="x")), None, A1, 19, None, ()),
    "run without files": ("unknown_run", lambda f: f.outbox["a2"][0].update(run_id="run-9"), None, A2, 1, None, ("unknown_agent",)),
    "asked twice": ("task_twice", lambda f: f.inbox["a1"].append(ask("task", "t1", req="m:9", position=1)), None, "a1/inbox.jsonl", 6, "t1", ()),
    "post left out": ("post_order", lambda f: f.inbox["a1"][0].update(ref=3, by_host="b"), None, "a1/inbox.jsonl", 1, "t1", ()),
    "enqueued twice by one call": ("call_twice", lambda f: f.inbox["a2"].append(ask("task", "u3", req="m:7", position=3)), None, "a2/inbox.jsonl", 3, "u3", ()),
    "enqueued twice in two agents": ("call_twice", lambda f: f.inbox["a2"].append(ask("task", "u3", req="m:2", position=3)), None, "a2/inbox.jsonl", 3, "u3", ()),
    "made twice by one call": ("call_twice", lambda f: f.outbox["a2"][0].update(req="m:0"), None, A2, 1, None, ()),
    "reported twice by one call": ("call_twice", out("a1", 6, rec("progress", "t1", by="agent", req="e:2")), None, A1, 6, "t1", ()),
    "canceled and never asked": ("not_asked", lambda f: f.inbox["a1"].insert(3, ask("cancel", "t9", req="m:9")), None, "a1/inbox.jsonl", 4, "t9", ()),
    "event of nobody's task": ("not_asked", out("a1", 5, rec("progress", "t9", by="agent")), None, A1, 5, "t9", ()),
    "two at once": ("overlap", out("a1", 5, rec("delivered", "t2", attempt=1)), None, A1, 5, "t2", ("not_held",)),
    "ack of another task": ("not_held", out("a1", 5, rec("ack", "t2", by="agent")), None, A1, 5, "t2", ()),
    "requeued and not held": ("not_held", out("a1", 11, rec("requeued", "t2", attempt=3, reason="x")), None, A1, 11, "t2", ("attempt",)),
    "result without a hand-out": ("undelivered_result", undelivered(rec("result", "u1", by="agent", attempt=1)), None, A2, 4, "u1", ()),
    "result nobody reported": ("undelivered_result", undelivered(rec("result", "u1", attempt=1)), None, A2, 4, "u1", ()),
    "error without a hand-out": ("undelivered_result", undelivered(rec("error", "u1", by="agent", attempt=1)), None, A2, 4, "u1", ()),
    "no hand-out in its second life": ("undelivered_result", lambda f: f.outbox["a1"].pop(14), None, A1, 15, "t2", ()),
    "result of a younger task": ("not_held", undelivered(rec("result", "u2", by="agent", attempt=1)), None, A2, 4, "u2", ()),
    "delivered with a later attempt": ("attempt", lambda f: f.outbox["a1"][2].update(attempt=2), None, A1, 3, "t1", ("attempt",)),
    "requeued with the same attempt": ("attempt", lambda f: f.outbox["a2"].append(rec("requeued", "u1", attempt=3, reason="x")), None, A2, 6, "u1", ()),
    "ended in another attempt": ("attempt", lambda f: f.outbox["a1"][15].update(attempt=1), None, A1, 16, "t2", ()),
    "younger task first": ("not_fifo", later_task_first, None, A1, 7, "t3", ()),
    "ended twice": ("two_ends", out("a1", 7, rec("error", "t1", attempt=1)), None, A1, 7, "t1", ()),
    "progress after the end": ("after_end", out("a1", 8, rec("progress", "t1", by="agent")), None, A1, 8, "t1", ()),
    "handed out after the end": ("after_end", out("a1", 7, rec("delivered", "t1", attempt=1)), None, A1, 7, "t1", ()),
    "left open": ("open_task", lambda f: f.inbox["a1"].append(ask("task", "t4", req="m:9", position=1)), None, A1, 18, "t4", ()),
    "told in another order": ("broadcast_order", told(lambda log: log.insert(1, log.pop(2))), None, TOLD, 3, None, ("broadcast_missing",)),
    "told twice": ("broadcast_order", told(lambda log: log.insert(1, log[0])), None, TOLD, 2, None, ()),
    "told otherwise": ("broadcast_differs", told(lambda log: log[2].update(type="error")), None, TOLD, 3, "t1", ()),
    "told another time": ("broadcast_differs", told(lambda log: log[2].update(at=at(59))), None, TOLD, 3, "t1", ()),
    "told another payload": ("broadcast_differs", told(lambda log: log[2].update(payload={"n": 2})), None, TOLD, 3, "t1", ()),
    "told another reason": ("broadcast_differs", told(lambda log: log[3].update(reason="x")), None, TOLD, 4, None, ()),
    "small payload left out": ("broadcast_differs", told(lambda log: (log[2].pop("payload"), log[2].update(payload_bytes=9))), None, TOLD, 3, "t1", ()),
    "told what is no event": ("broadcast_differs", told(lambda log: log.insert(2, {**log[1], "ref": 4})), None, TOLD, 3, None, ()),
    "left out": ("broadcast_missing", told(lambda log: log.pop(2)), None, TOLD, 3, None, ()),
    "end left out": ("broadcast_missing", told(lambda log: log.pop(-1)), None, A2, 3, None, ()),
    "more told than happened": ("broadcast_ref", lambda f: (told(list)(f), f.outbox["a2"].__delitem__(slice(2, None))), None, TOLD, 14, None, ()),
    "stranger": ("unknown_agent", told(lambda log: log.append({**log[0], "agent_id": "nobody"})), None, TOLD, 15, None, ()),
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def look(root, **options):
    return verify(root, **{"live": False, "settled": True, **options})


def test_a_good_project_is_clean(files):
    files.write()
    report = look(files.root)
    assert report.violations == []
    assert report.notes == report.left_out == []
    assert report.checked == {"agents": 2, "runs": 1, "tasks": 5, "ended": 3, "answers": 0, "records": 44}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found_where_it_stands(files, name):
    kind, before, after, file, line, task, also = PLANTED[name]
    if before:
        before(files)
    files.write()
    if after:
        after(files.root)
    found = look(files.root).violations
    where = str(place(files.root, file))
    assert [(one.line, one.task) for one in found if one.kind == kind and one.file == where][:1] == [(line, task)], (
        found
    )
    assert {one.kind for one in found} - {kind} == set(also) - {kind}
    [first, *_] = [one for one in found if one.kind == kind]
    assert first.message
    agent = file.split("/")[0] if "/" in file else None
    assert first.agent == agent or file in (TOLD, "run.json")


def words(root, found):
    """Every field of the violations, files relative; not the words of libraries, which change with their versions."""
    return [
        {
            key: value.replace(f"{root}/", "") if isinstance(value, str) else value
            for key, value in one._asdict().items()
            if value is not None and not (key == "message" and one.kind in ("bad_line", "schema", "unknown_record"))
        }
        for one in found
    ]


def planted(root, name):
    files = Files(root)
    _, before, after, *_ = PLANTED[name]
    if before:
        before(files)
    files.write()
    if after:
        after(files.root)
    return json.loads(json.dumps(words(root, look(root).violations)))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_reported_in_these_words(tmp_path, name):
    """`python -m tests.unit.team.recovery.test_verification` writes them anew; read the difference before you commit it."""
    assert planted(tmp_path, name) == json.loads(WORDS.read_text("utf-8"))[name]


def test_every_kind_is_planted():
    assert {row[0] for row in PLANTED.values()} | {"answered_missing"} == set(invariants.KINDS)


def test_every_kind_is_documented_as_the_code_says():
    page = (Path(__file__).resolve().parents[4] / "docs" / "recovery.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page.partition("### Kinds")[2], re.MULTILINE)
    assert dict(rows) == {**invariants.KINDS, **mirror_invariants.MIRROR_KINDS}


def test_every_violation_is_reported_and_not_the_first_of_a_file_only(files):
    for name in ("ready twice", "asked twice", "ended twice", "enqueued twice in two agents"):
        PLANTED[name][1](files)
    files.write()
    PLANTED["flipped bit in the broadcast"][2](files.root)
    kinds = [one.kind for one in look(files.root).violations]
    assert sorted(kinds) == ["bad_crc", "call_twice", "task_twice", "two_ends", "two_ready"]


# -- an end without a hand-out --------------------------------------------------------------------------------------

UNDELIVERED = rec("result", "u1", by="agent", attempt=1)


@pytest.mark.parametrize("state", [{"settled": False}, {"live": True}, {"live": True, "settled": False}])
def test_an_end_without_a_hand_out_is_a_note_where_the_log_was_not_closed_cleanly(files, state):
    undelivered(UNDELIVERED)(files)
    files.write()
    report = look(files.root, **state)
    assert report.violations == []
    [note] = report.notes
    assert f"{place(files.root, A2)}, line 4" in note


def test_what_the_orchestrator_ends_in_the_queue_needs_no_hand_out(files):
    undelivered(rec("canceled", "u1", attempt=1), rec("error", "u2", attempt=1))(files)
    files.write()
    assert look(files.root).violations == []


def test_a_lost_record_may_be_the_hand_out_but_not_one_of_an_earlier_life(files):
    gap = rec("lost", quarantined="outbox.jsonl.quarantine-20260101T000000Z")
    undelivered(gap, UNDELIVERED)(files)
    files.write()
    report = look(files.root)
    assert report.violations == report.notes == []
    shutil.rmtree(files.root / ".agents")
    again = (rec("exited", reason="x"), rec("restarted", epoch=2, reason="x"), rec("ready", epoch=2, by="agent"))
    undelivered(gap, *again, {**UNDELIVERED, "epoch": 2})(files)
    files.write()
    assert [one.kind for one in look(files.root).violations] == ["undelivered_result"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", sorted(TERMINAL))
async def test_a_hand_out_that_the_power_took_is_recorded_with_the_end_and_nothing_is_violated(tmp_path, kind):
    """The disk has lost what was not synced, and the agent has not: it reports to the next daemon."""
    team = Team(tmp_path)
    await team.agent("a1")
    await delivery.enqueue(team.roster, "a1", task_id="t1", payload=1, req="m:1")
    handed = await delivery.wait_for_command(team.roster, "a1", 1, timeout_s=0, age_s=0, req="w:1")
    assert handed["command"]["task_id"] == "t1"
    await team.roster.flush()
    team.close()
    log = Paths(tmp_path).outbox("a1")
    *kept, last = log.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["type"] == "delivered"
    log.write_bytes(b"".join(kept))
    Paths(tmp_path).cache.unlink(missing_ok=True)

    again = Team(tmp_path).load()
    told = await delivery.emit_event(
        again.roster, "a1", 1, kind=kind, task_id="t1", payload=None, done=None, req="e:1"
    )
    await again.roster.flush()
    again.close()
    stored = [json.loads(line) for line in log.read_bytes().splitlines()][-2:]
    assert [(one["type"], one.get("assumed")) for one in stored] == [("delivered", True), (kind, None)]
    assert told["seq"] == stored[1]["seq"]
    report = look(tmp_path)
    assert report.violations == report.notes == []


# -- what is no violation -------------------------------------------------------------------------------------------


def test_a_restart_by_hand_does_not_count_and_gives_a_new_budget(files):
    files.inbox["a1"].insert(4, ask("restart", req="m:9"))
    two_relaunches(files)
    files.outbox["a1"][15]["asked"] = 5
    again = (rec("exited", epoch=3, reason="x"), rec("restarted", epoch=4, reason="x"))
    files.outbox["a1"][17:17] = again
    for one in files.outbox["a1"][19:]:
        one["epoch"] = 4
    files.write()
    assert look(files.root).violations == []


def test_a_relaunch_before_the_window_does_not_count(files):
    two_relaunches(files)
    files.outbox["a1"][15]["at"] = at(13 + 600)
    files.write()
    assert look(files.root).violations == []


@pytest.mark.parametrize(("window", "kinds"), [(4.0, ["too_many_lives"]), (2.0, [])])
def test_the_window_of_the_agents_policies_counts(files, window, kinds):
    """The first relaunch is record 13, the second record 16: three seconds later."""
    files.outbox["a1"][0]["policies"]["restart_window_s"] = window
    two_relaunches(files)
    files.write()
    assert [one.kind for one in look(files.root).violations] == kinds


def test_a_number_of_restarts_that_is_not_set_is_the_default(files):
    del files.outbox["a1"][0]["policies"]["max_restarts"]
    two_relaunches(files)
    files.write()
    assert look(files.root).violations == []


@pytest.mark.parametrize("kind", ["blocked", "unblocked", "stalled", "recovered"])
def test_a_condition_may_name_a_task_that_has_ended(files, kind):
    files.outbox["a1"].insert(7, rec(kind, "t1", reason="x"))
    files.write()
    assert look(files.root).violations == []


def test_a_human_may_take_note_of_a_task_that_has_ended(files):
    who = {"face": "cli", "user": "ada", "acts_as": "human"}
    files.outbox["a1"].insert(
        16, rec("answered", "t2", epoch=2, item="0badf00d", kind="error", decision="dismiss", who=who)
    )
    files.write()
    assert look(files.root).violations == []


@pytest.mark.parametrize("second", [16, 13 + 599])
def test_policies_without_a_window_have_that_of_the_configuration(files, second):
    del files.outbox["a1"][0]["policies"]["restart_window_s"]
    two_relaunches(files)
    files.outbox["a1"][15]["at"] = at(second)
    files.write()
    assert [one.kind for one in look(files.root).violations] == ["too_many_lives"]


def test_a_resume_that_came_to_nothing_costs_no_restart(files):
    two_relaunches(files)
    files.outbox["a1"][12]["resume"] = "session"
    files.outbox["a1"].pop(13)
    files.write()
    assert look(files.root).violations == []


def test_a_pane_closed_before_its_launch_was_ready_costs_a_restart(files):
    two_relaunches(files)
    files.outbox["a1"][14]["how"] = "pane_closed"
    files.outbox["a1"][15]["pane_closed"] = True
    del files.outbox["a1"][13]  # the ready of launch 2
    files.write()
    assert [one.kind for one in look(files.root).violations] == ["too_many_lives"]


@pytest.mark.parametrize(("how", "kinds"), [("pane_closed", []), ("signal", ["too_many_lives"])])
def test_only_a_closed_pane_costs_no_restart_whatever_the_relaunch_says(files, how, kinds):
    two_relaunches(files)
    files.outbox["a1"][14]["how"] = how
    files.outbox["a1"][15]["pane_closed"] = True
    files.write()
    assert [one.kind for one in look(files.root).violations] == kinds


def test_a_log_in_segments_is_one_log(files):
    files.write()
    for name, cuts in ((A1, (4, 9)), ("a1/inbox.jsonl", (1,)), (TOLD, (5,))):
        path = place(files.root, name)
        lines = path.read_bytes().splitlines(keepends=True)
        for begin, end in zip((0, *cuts), cuts, strict=False):
            path.with_name(f"{path.stem}.{begin + 1:012}.jsonl").write_bytes(b"".join(lines[begin:end]))
        path.write_bytes(b"".join(lines[cuts[-1] :]))
    report = look(files.root)
    assert report.violations == []
    assert report.checked["records"] == 44
    place(files.root, "a1/outbox.000000000005.jsonl").unlink()
    assert {one.kind for one in look(files.root).violations} == {"seq_gap"}


def test_an_unfinished_last_line_is_a_note_but_not_at_the_end_of_a_finished_file(files):
    files.write()
    path = place(files.root, A2)
    with path.open("ab") as file:
        file.write(b'{"v":1,"seq":6')
    report = look(files.root)
    assert report.violations == []
    assert "unfinished" in report.notes[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.with_name("outbox.000000000001.jsonl").write_bytes(b"".join(lines[:3])[:-1])
    path.write_bytes(b"".join(lines[3:5]))
    assert ("bad_line", 3) in [(one.kind, one.line) for one in look(files.root).violations]


def test_a_log_that_doctor_set_aside_is_a_note(files):
    files.write()
    path = place(files.root, A1)
    path.rename(path.with_name("outbox.jsonl.quarantine-20260101T000000Z"))
    report = look(files.root)
    assert report.violations == []
    assert "set aside" in report.notes[0]


@pytest.mark.parametrize("home", ["", "b"])
def test_an_agent_that_has_moved_away_leaves_what_was_told_of_it_at_a_host_that_is_not_its_home(files, home):
    files.write()
    shutil.move(files.root / ".agents/agents/a1", files.root / ".agents/agents/a1.fenced-1")
    if home:
        place(files.root, "run.json").write_text(json.dumps(RUN | {"home": home, "gen": 1}))
    assert {one.kind for one in look(files.root).violations} == (set() if home else {"unknown_agent"})


def test_what_gc_removed_is_skipped(files):
    files.write()
    for name in ("inbox", "outbox"):
        place(files.root, f"a1/{name}.jsonl").unlink()
    place(files.root, "a1/collected.json").write_text("{}")
    said = files.root / "answered"
    said.write_text(json.dumps(ANSWERED[0]) + "\n")
    report = look(files.root, answered=said)
    assert report.violations == []
    assert "gc" in report.notes[0]


def test_an_agent_that_was_never_born_and_foreign_files_are_no_matter(files):
    files.write()
    agents = files.root / ".agents" / "agents"
    (agents / "unborn").mkdir()
    (agents / "unborn" / "inbox.jsonl").touch()
    (agents / "unborn" / "outbox.jsonl").touch()
    (agents / "other-tool.md").write_text("hello")
    (agents / "notes").mkdir()
    (agents / "link").symlink_to(agents / "a1")
    (files.root / ".agents" / "run" / "run-2").mkdir()
    (files.root / ".agents" / "run" / "run-2" / "broadcast.jsonl").touch()
    assert look(files.root).violations == []


def test_a_broadcast_whose_home_is_another_host_is_not_compared_with_agents_that_come_and_go(files):
    files.write()
    place = next((files.root / ".agents" / "run").glob("*/run.json"))
    place.write_text(json.dumps({**json.loads(place.read_text()), "home": "b"}))
    shutil.rmtree(next((files.root / ".agents" / "agents").iterdir()))
    report = look(files.root)
    assert report.violations == []
    assert any("home" in what for what in report.left_out)


def test_what_a_daemon_has_under_way_is_left_out_and_named(files):
    files.told = files.digest()[:-1]
    files.write()
    with place(files.root, A2).open("ab") as file:
        file.write(b'{"v":1')
    report = look(files.root, live=True)
    assert report.violations == report.notes == []
    assert {line.split(":")[0] for line in report.left_out} == {
        "broadcast_missing",
        "unfinished lines",
        "missing_log",
    }


def test_what_a_killed_daemon_had_no_time_to_tell_is_a_note(files):
    files.told = files.digest()[:-1]
    files.write()
    report = look(files.root, settled=False)
    assert report.violations == []
    assert report.notes == ["1 records are not in the broadcast: the daemon was killed, and the next start adds them"]


def test_the_live_file_may_become_a_segment_while_it_is_read(files, monkeypatch):
    from orchestrator.team.recovery import log_audit

    files.write()
    path = place(files.root, A1)
    opened = log_audit._opened

    def rotate(name, stack):
        found = opened(name, stack)
        if name == path:
            path.rename(path.with_name("outbox.000000000001.jsonl"))
            path.touch()
        return found

    monkeypatch.setattr(log_audit, "_opened", rotate)
    report = look(files.root)
    assert report.violations == []
    assert report.checked["records"] == 44


def test_the_live_file_may_lose_its_name_for_a_moment_and_get_it_back(files, monkeypatch):
    from orchestrator.team.recovery import log_audit

    files.write()
    path, away = place(files.root, A1), place(files.root, "a1/outbox.000000000001.jsonl")
    opened, lost = log_audit._opened, []

    def lose(name, stack):
        if name != path or lost:
            return opened(name, stack)
        lost.append(1)
        path.rename(away)
        try:
            return opened(name, stack)
        finally:
            away.rename(path)

    monkeypatch.setattr(log_audit, "_opened", lose)
    report = look(files.root)
    assert lost
    assert report.violations == []
    assert report.checked["records"] == 44


def test_one_run_is_checked_alone(files):
    files.write()
    home = files.root / ".agents"
    other = Files(files.root / "other")
    PLANTED["ready twice"][1](other)
    for one in other.outbox.values():
        one[0].update(run_id="run-2")
    other.outbox = {f"b{n}": log for n, log in enumerate(other.outbox.values())}
    other.write()
    for agent in other.outbox:
        (other.root / ".agents" / "agents" / agent).rename(home / "agents" / agent)
    (other.root / ".agents" / "run" / "run-1").rename(home / "run" / "run-2")
    (home / "run" / "run-2" / "run.json").write_text(json.dumps({**RUN, "run_id": "run-2"}))
    assert look(files.root, run="run-1").violations == []
    assert look(files.root, run="run-1").checked["agents"] == 2
    assert "two_ready" in {one.kind for one in look(files.root, run="run-2").violations}
    with pytest.raises(BadRequest, match="run-3"):
        look(files.root, run="run-3")


def test_logs_of_version_1_are_clean(tmp_path):
    started = json.loads((V1 / "outbox.jsonl").read_text().splitlines()[0])
    told = json.loads((V1 / "broadcast.jsonl").read_text().splitlines()[0])
    agent = tmp_path / ".agents" / "agents" / told["agent_id"]
    run = tmp_path / ".agents" / "run" / started["run_id"]
    shutil.copytree(V1, agent)
    run.mkdir(parents=True)
    (agent / "broadcast.jsonl").rename(run / "broadcast.jsonl")
    (run / "run.json").write_text(json.dumps({**RUN, "run_id": started["run_id"]}))
    report = look(tmp_path)
    assert report.violations == []
    assert report.checked["agents"] == report.checked["runs"] == 1


# -- the caller's word ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "task"),
    [
        ({"agent_id": "a1", "task_id": "t9"}, "t9"),
        ({"agent_id": "a9", "task_id": "t1"}, "t1"),
        ({"agent_id": "a2", "task_id": "u1", "outcome": "result"}, "u1"),
        ({"agent_id": "a1", "task_id": "t1", "outcome": "error"}, "t1"),
        ({"log": "outbox", "agent_id": "a1", "seq": 19}, None),
        ({"log": "inbox", "agent_id": "a2", "seq": 3}, None),
        ({"log": "broadcast", "run_id": "run-1", "seq": 15}, None),
        ({"log": "broadcast", "run_id": "run-7", "seq": 1}, None),
    ],
)
def test_what_a_caller_was_told_must_be_there(files, answer, task):
    files.write()
    said = files.root / "answered"
    lines = [json.dumps(one) for one in [*ANSWERED, answer]]
    said.write_text("\n".join(lines[:-1]) + "\n" + '{"agent_id": "a1", "task')  # the last one was never said
    report = look(files.root, answered=said)
    assert report.violations == []
    assert report.checked["answers"] == len(ANSWERED)
    said.write_text("\n".join(lines) + "\n")
    [found] = look(files.root, answered=said).violations
    assert (found.kind, found.file, found.line, found.task) == ("answered_missing", str(said), len(lines), task)


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", "{}", '{"task_id": "t"}', '{"agent_id": "a"}', '{"log": "outbox", "seq": 1}',
     '{"log": "outbox", "agent_id": "a", "seq": 0}', '{"agent_id": "a", "task_id": "t", "outcome": "well"}',
     '{"agent_id": "a", "task_id": "t", "mood": 1}', '{"log": "outbox", "agent_id": "a", "seq": 1, "task_id": "t"}'],
)  # fmt: skip
def test_an_answered_file_that_is_none_is_refused_with_its_line(files, line):
    files.write()
    said = files.root / "answered"
    said.write_text(json.dumps(ANSWERED[0]) + "\n" + line + "\n")
    with pytest.raises(BadRequest, match="line 2"):
        look(files.root, answered=said)
    with pytest.raises(Environment):
        look(files.root, answered=files.root / "nowhere")


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(files, monkeypatch, tmp_path):
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "runs"))
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(files.root))
    return files


def test_the_command_ends_with_0_or_6_and_says_the_same_in_json(here, capsys):
    here.write()
    assert app.main(["verify"]) == 0
    assert "no violations" in capsys.readouterr().out
    PLANTED["line twice"][2](here.root)
    assert app.main(["verify"]) == 6
    where = str(place(here.root, A1))
    shown = capsys.readouterr().out
    assert f"✕ seq_repeat: {where}:5: record 4 where record 5 is expected (agent a1, task t1)" in shown
    assert "1 violations" in shown
    assert "· not checked: attempt, life, no_intent" in shown
    assert app.main(["verify", "--json"]) == 6
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["live"], len(told["left_out"])) == (False, False, 1)
    assert told["violations"] == [
        {"kind": "seq_repeat", "message": "record 4 where record 5 is expected", "file": where, "line": 5, "seq": 4,
         "agent": "a1", "task": "t1", "run": None}
    ]  # fmt: skip
    assert app.main(["verify", "--run", "run-9"]) == 2
    assert app.main(["verify", "--answered", str(here.root / "nowhere")]) == 5


def test_the_command_on_a_project_without_a_team_is_clean(here, capsys):
    assert app.main(["verify"]) == 0
    assert "0 agents" in capsys.readouterr().out
    assert not (here.root / ".agents").exists()


def test_the_command_knows_a_daemon_by_its_locks_and_takes_none(here, capsys):
    from orchestrator.journal.project_files import Paths
    from orchestrator.journal.project_lock import claim

    here.told = here.digest()[:-1]
    here.write()
    assert app.main(["verify"]) == 0  # there is no word of a good end: the daemon was killed
    assert "killed" in capsys.readouterr().out
    place_here = command.project_here()
    lock = claim(Paths(here.root), "tmp")
    lock.release()
    left = command.project_location.run_dir(place_here.root) / "clean"
    left.write_text("of another daemon")
    assert app.main(["verify"]) == 0, "it was left by a daemon before the last one"
    left.write_text(lock.token)
    assert app.main(["verify"]) == 6
    capsys.readouterr()
    lock = claim(Paths(here.root), "tmp")
    try:
        assert app.main(["verify", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["live"]
        assert told["left_out"]
    finally:
        lock.release()
    left.write_text(lock.token)
    assert app.main(["verify"]) == 6


def test_a_daemon_that_starts_while_the_files_are_read_is_noticed(here, capsys, monkeypatch):
    here.told = here.digest()[:-1]
    here.write()
    asked = []
    monkeypatch.setattr(command, "ended_well", lambda _: True)
    monkeypatch.setattr(command, "daemon_at_work", lambda _: bool(asked) or asked.append(1))
    assert app.main(["verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["live"]


if __name__ == "__main__":
    kept = {}
    for name in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            kept[name] = planted(Path(root).resolve(), name)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found, ensure_ascii=False)}" for name, found in kept.items())
    WORDS.write_text("{\n" + lines + "\n}\n", "utf-8")
