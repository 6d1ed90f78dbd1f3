"""What must be true of a project's plain files after any crash: what `orchestrator verify` says, and the tests' own.

The tests know more than the files: a ledger of what agents really ran, and whether everything is over by now.
"""

import json
from collections import Counter

from orchestrator.base.final_states import TERMINAL
from orchestrator.team.recovery.verification import verify
from tests.fakes.relays import until


def read_log(directory, name):
    """Every record of a log, its numbered files included."""
    place = directory / f"{name}.jsonl"

    def whole():
        files = [*sorted(directory.glob(f"{name}.*.jsonl")), place]
        data = [path.read_bytes() for path in files if path.exists()]
        return [b"".join(data)] if all(one.endswith(b"\n") or not one for one in data) else None

    [data] = until(whole)  # a daemon at work may be in the middle of a line that crosses a page
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


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
                self.broadcast[directory.name] = read_log(directory, "broadcast")
        for directory in sorted(agents.iterdir()) if agents.is_dir() else []:
            if directory.is_dir():
                self.outbox[directory.name] = read_log(directory, "outbox")
                self.inbox[directory.name] = read_log(directory, "inbox")

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
    report = verify(root, live=not (broadcast or ended), settled=True)
    found = Found(root)
    stories = {
        a: [(r["seq"], r["type"], r.get("task_id"), r["epoch"]) for r in log] for a, log in found.outbox.items()
    }
    assert report.ok, (report.violations, {one.agent: stories.get(one.agent) for one in report.violations})
    check_ledger(found, runs)
    for agent_id, log in found.outbox.items():
        assert log or not ended, f"{agent_id}: a directory without an intent"
        assert sum(r["type"] == "stop" for r in found.inbox[agent_id]) <= 1, f"{agent_id} was asked to stop twice"
        if ended:
            assert log[-1]["type"] == "deleted", f"{agent_id} ends with {log[-1]['type']}"
            meta = json.loads((root / ".agents" / "agents" / agent_id / "meta.json").read_text())
            assert (meta["status"], meta["last_event_seq"]) == ("deleted", len(log)), (
                f"{agent_id}: meta.json is behind"
            )
    if ended:
        for run_id, run in found.runs.items():
            assert run["ended_at"] is not None, f"{run_id} was never ended"
            assert run["agents"] == {}, f"{run_id} still lists panes"
    return found


def check_ledger(found, lines):
    """No attempt was run twice, and none that was never handed out."""
    runs = Counter(tuple(line.split()) for line in lines.splitlines())
    attempts = {}
    for log in found.outbox.values():
        for r in log:
            if r["type"] == "delivered":
                attempts[r["task_id"]] = max(r["attempt"], attempts.get(r["task_id"], 0))
    for (task, attempt), count in runs.items():
        assert count == 1, f"attempt {attempt} of {task} ran {count} times"
        assert int(attempt) <= attempts.get(task, 0), f"{task} ran in an attempt that was never handed out"
