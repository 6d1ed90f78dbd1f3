"""What must be true of a project's plain files after any crash: read here without the product's own readers.

The record models are the product's, for they are what the schemas are made from; everything else is read with
``json`` and ``zlib``, so that a fault shared by writer and reader would show.
"""

import json
import zlib
from collections import Counter

from orchestrator.core import events
from tests.fakes.relays import until

TERMINAL = {"result", "error", "canceled"}
SEAL = len(',"crc":"00000000"}')


def read_log(path, model):
    """Every record of a whole log: each line complete, sealed, numbered from 1 without a gap, and of the schema."""

    def whole():
        data = path.read_bytes()
        return [data] if not data or data.endswith(b"\n") else None

    [data] = until(whole)  # a daemon at work may be in the middle of a line that crosses a page
    records = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        record = json.loads(line)
        assert record["crc"] == f"{zlib.crc32(line[:-SEAL]):08x}", f"{path}:{number}: bad crc"
        assert record["seq"] == number, f"{path}:{number}: seq {record['seq']}"
        model.validate_python(record)
        records.append(record)
    return records


class Found:
    """The logs of a project: ``inbox[agent]``, ``outbox[agent]``, ``broadcast[run]``, ``runs[run]``.

    A daemon may be at work: what follows from something is read before it, so that nothing is seen without its cause.
    """

    def __init__(self, root):
        self.inbox, self.outbox, self.broadcast, self.runs = {}, {}, {}, {}
        agents, runs = root / ".agents" / "agents", root / ".agents" / "run"
        assert not list(root.glob(".agents/**/*.torn")), "kill -9 tears no line: a record is one write"
        for directory in sorted(runs.iterdir()) if runs.is_dir() else []:
            if (directory / "run.json").exists():
                self.runs[directory.name] = json.loads((directory / "run.json").read_text())
                events.RunFile.model_validate(self.runs[directory.name])
                self.broadcast[directory.name] = read_log(directory / "broadcast.jsonl", events.BROADCAST)
        for directory in sorted(agents.iterdir()) if agents.is_dir() else []:
            if directory.is_dir():
                self.outbox[directory.name] = read_log(directory / "outbox.jsonl", events.OUTBOX)
                self.inbox[directory.name] = read_log(directory / "inbox.jsonl", events.INBOX)

    def ends(self, agent_id, task_id):
        return [r for r in self.outbox[agent_id] if r["type"] in TERMINAL and r.get("task_id") == task_id]

    def task(self, task_id):
        """(agent, terminal event or None) of a task; it must exist once."""
        [agent_id] = [
            a for a, log in self.inbox.items() for r in log if r["type"] == "task" and r["task_id"] == task_id
        ]
        ends = self.ends(agent_id, task_id)
        return agent_id, ends[0] if ends else None


def check(root, ledger=None, *, ended=False, broadcast=True):
    """Fail unless the files of a project tell a possible and complete story.

    ``ended``: every agent was deleted and the daemon has stopped, so nothing may be open any more.
    ``broadcast`` False: a daemon may still be about to publish, so the digest may lag behind.
    """
    runs = ledger.read_text() if ledger is not None and ledger.exists() else ""  # first, as `Found` says
    found = Found(root)
    for agent_id, log in found.outbox.items():
        try:
            check_agent(found.inbox[agent_id], log, ended)
        except AssertionError as error:
            story = [(r["type"], r.get("task_id"), r["epoch"]) for r in log]
            raise AssertionError(f"{agent_id}: {error}\n{story}") from error
    check_ledger(found, runs)
    for run_id, told in found.broadcast.items():
        check_broadcast(found, run_id, told, broadcast or ended)
    if ended:
        for agent_id, log in found.outbox.items():
            meta = json.loads((root / ".agents" / "agents" / agent_id / "meta.json").read_text())
            assert (meta["status"], meta["last_event_seq"]) == ("deleted", len(log)), (
                f"{agent_id}: meta.json is behind"
            )
        for run_id, run in found.runs.items():
            assert run["ended_at"] is not None, f"{run_id} was never ended"
            assert run["agents"] == {}, f"{run_id} still lists panes"
    return found


def check_agent(inbox, outbox, ended):
    assert outbox, "a directory without an intent"
    assert outbox[0]["type"] == "starting", "the intent comes first"
    kinds = Counter(r["type"] for r in outbox)
    assert kinds["starting"] == 1
    assert kinds["stopped"] <= 1 and kinds["deleted"] <= 1 and kinds["failed"] <= 1
    assert sum(r["type"] == "stop" for r in inbox) <= 1
    tasks = [r["task_id"] for r in inbox if r["type"] == "task"]
    assert len(tasks) == len(set(tasks)), "a task was asked for twice"
    requests = [r["req"] for r in inbox if "req" in r]
    assert len(requests) == len(set(requests)), "one call was carried out twice"
    epoch, lease, attempt = 1, None, dict.fromkeys(tasks, 1)
    ready, over, first = Counter(), set(), []
    for r in outbox:
        kind, task = r["type"], r.get("task_id")
        epoch += kind == "restarted"
        assert r["epoch"] == epoch, f"{kind} of epoch {r['epoch']} in epoch {epoch}"
        ready[epoch] += kind == "ready"
        if kind in ("blocked", "unblocked"):
            continue
        if task is not None:
            assert task in attempt, f"{task} was never asked for"
            assert task not in over, f"{kind} after the end of {task}"
        if kind == "delivered":
            assert lease in (None, task), f"{task} was handed out while {lease} was held"
            assert r["attempt"] == attempt[task]
            lease = task
            first += [task] if task not in first else []
        elif kind in ("ack", "progress"):
            assert lease == task, f"{kind} for {task} while {lease} was held"
        elif kind == "requeued":
            assert lease == task
            attempt[task] += 1
            assert r["attempt"] == attempt[task]
            lease = None
        elif kind in TERMINAL:
            assert r["attempt"] == attempt[task]
            over.add(task)
            lease = None if lease == task else lease
        elif kind == "deleted":
            assert r is outbox[-1], "records behind the last one"
    assert max(ready.values(), default=0) <= 1, "two ready records in one life"
    assert first == [task for task in tasks if task in first], "not FIFO"
    if ended:
        assert outbox[-1]["type"] == "deleted", f"it ends with {outbox[-1]['type']}"
        assert over == set(tasks), f"never ended: {set(tasks) - over}"


def check_ledger(found, lines):
    runs = Counter(tuple(line.split()) for line in lines.splitlines())
    attempts = {}
    for log in found.outbox.values():
        for r in log:
            if r["type"] == "delivered":
                attempts[r["task_id"]] = max(r["attempt"], attempts.get(r["task_id"], 0))
    for (task, attempt), count in runs.items():
        assert count == 1, f"attempt {attempt} of {task} ran {count} times"
        assert int(attempt) <= attempts.get(task, 0), f"{task} ran in an attempt that was never handed out"


def check_broadcast(found, run_id, told, complete):
    told_of = {}
    for r in told:
        told_of.setdefault(r["agent_id"], []).append(r)
    for agent_id, outbox in found.outbox.items():
        if outbox[0]["run_id"] != run_id:
            assert agent_id not in told_of, f"{run_id} tells of {agent_id}"
            continue
        due = [r for r in outbox if r["type"] in events.BROADCAST_TYPES]
        have = told_of.get(agent_id, [])
        assert [r["ref"] for r in have] == [r["seq"] for r in due[: len(have)]], f"{run_id}: {agent_id} out of order"
        for r, original in zip(have, due, strict=False):
            same = all(r.get(key) == original.get(key) for key in ("type", "at", "epoch", "task_id", "by"))
            assert same, f"{run_id}:{r['seq']} is not what it repeats"
        if complete:
            assert len(have) == len(due), (
                f"{run_id}: {[r['type'] for r in due[len(have) :]]} of {agent_id} never told"
            )
