"""What must hold of a team's logs, whatever happened: with what callers were told, and by the product's own checker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.base.final_states import TERMINAL
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES, UNSYNCED
from orchestrator.core.state import Agent
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.project_files import Paths
from orchestrator.team.recovery.verification import verify
from orchestrator.team.roster.agent_fold import folded


@dataclass
class Evidence:
    """What actors were told: accepted tasks, reported ends, records by agent ("" is the broadcast)."""

    made: list[str] = field(default_factory=list)
    accepted: list[tuple[str, str, str]] = field(default_factory=list)  # agent, task, req
    ends: list[tuple[str, str, str]] = field(default_factory=list)  # agent, task, type
    seen: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    works: dict[tuple[str, str], tuple[int, int, bool]] = field(default_factory=dict)  # epoch, attempt, acknowledged
    begun: set[tuple[str, str]] = field(default_factory=set)

    def handed_out(self, agent_id: str, epoch: int, command: dict[str, Any]) -> None:
        """A CLI was given a task: a second time only with a mark."""
        key = (agent_id, command["task_id"])
        self.begun.add(key)
        before = self.works.get(key)
        attempt = command["attempt"]
        if before is not None:
            marked = attempt > before[1] or command.get("redelivered") or (before[0] == epoch and not before[2])
            assert marked, f"{key} was given to launch {before[0]} and, without a mark, to launch {epoch}"
        self.works[key] = (epoch, attempt, False)

    def reported(self, agent_id: str, epoch: int, kind: str, task_id: str, answer: dict[str, Any]) -> None:
        """A report was answered."""
        key = (agent_id, task_id)
        if kind in TERMINAL and not answer.get("duplicate"):
            self.ends.append((agent_id, task_id, kind))
        elif kind == "ack" and key in self.works and self.works[key][0] == epoch:
            self.works[key] = (*self.works[key][:2], True)

    def power_was_cut(self) -> None:
        """It may take deliveries and reports under way, and the last records of these types that readers saw."""
        self.works.clear()
        for name, records in self.seen.items():
            while name and records and records[max(records)]["type"] in UNSYNCED:
                del records[max(records)]


def check(root: Path, evidence: Evidence, states: dict[str, Agent]) -> None:
    """Raise AssertionError at the first thing that is wrong after a clean end."""
    report = verify(root, live=False, settled=True)
    assert report.ok, f"verify: {report.violations[0]}"
    paths = Paths(root)
    logs: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for agent_id in sorted(states):
        inbox = list(read_all(paths.inbox(agent_id), INBOX_TYPES))
        outbox = list(read_all(paths.outbox(agent_id), OUTBOX_TYPES))
        logs[agent_id] = inbox, outbox
        _check_agent(agent_id, inbox, outbox)
        _check_fold(paths, states[agent_id])
    assert set(evidence.made) <= set(states), f"made and gone: {set(evidence.made) - set(states)}"
    for agent_id, task_id, req in evidence.accepted:
        stored = [record for record in logs[agent_id][0] if record.get("req") == req]
        assert len(stored) == 1, f"{agent_id}: call {req} was accepted, and is recorded {len(stored)} times"
        assert stored[0]["task_id"] == task_id, f"{agent_id}: {req} was accepted as {task_id}"
    for agent_id, task_id, kind in evidence.ends:
        stored = [r for r in logs[agent_id][1] if r.get("task_id") == task_id and r["type"] == kind]
        assert stored, f"{agent_id}: the {kind} of {task_id} was answered, and is not there"
    for agent_id, task_id in sorted(evidence.begun):
        known = any(r.get("task_id") == task_id for r in logs[agent_id][0])
        assert known, f"{agent_id}: {task_id} was given to a CLI, and was never asked for"
    broadcast = list(read_all(paths.broadcast("run-1"), BROADCAST_TYPES))
    _check_seen(evidence, {**{name: outbox for name, (_, outbox) in logs.items()}, "": broadcast})
    for agent_id, (_, outbox) in logs.items():
        repeated = [record["ref"] for record in broadcast if record["agent_id"] == agent_id]
        due = [record["seq"] for record in outbox if record["type"] in BROADCAST_TYPES]
        assert repeated == due, f"the broadcast of {agent_id} is {repeated}, not {due}"


def _check_agent(agent_id: str, inbox: list[dict[str, Any]], outbox: list[dict[str, Any]]) -> None:
    asked = [record["task_id"] for record in inbox if record["type"] == "task"]
    assert len(asked) == len(set(asked)), f"{agent_id}: a task was stored twice"
    ends = Counter(record["task_id"] for record in outbox if record["type"] in TERMINAL)
    for task_id in asked:
        assert ends[task_id] == 1, f"{agent_id}: {task_id} has ended {ends[task_id]} times"
    first = list(dict.fromkeys(record["task_id"] for record in outbox if record["type"] == "delivered"))
    order = [asked.index(task_id) for task_id in first]
    assert order == sorted(order), f"{agent_id}: first deliveries are not in the order of the queue: {first}"


def _check_fold(paths: Paths, live: Agent) -> None:
    """The logs alone say what the daemon knew."""
    again = folded(paths, live.agent_id)[0]
    for name in ("life", "epoch", "outcomes", "stop_asked", "restart_asked", "restarts", "cancels"):
        assert getattr(again, name) == getattr(live, name), f"{live.agent_id}: {name} differs after a fold"


def _check_seen(evidence: Evidence, logs: dict[str, list[dict[str, Any]]]) -> None:
    for name, records in evidence.seen.items():
        stored = {record["seq"]: record for record in logs[name]}
        for seq, event in records.items():
            there = stored.get(seq)
            assert there is not None, f"record {seq} of {name or 'the broadcast'} was read, and is gone"
            for key in ("type", "task_id", "at", "epoch"):
                assert event.get(key) == there.get(key), f"record {seq} of {name or 'the broadcast'} has changed"
