"""All records of a team run that can be read, and which are missing. Reads files only, also damaged ones.

Also of ended runs, of deleted agents whose files remain, and of damaged logs: what a log has lost is taken from the
broadcast, which repeats the ends of tasks and the changes of agents.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_lines import Record
from orchestrator.journal.log_reader import page
from orchestrator.journal.project_files import ID, Paths, check_id, read_json
from orchestrator.journal.segments import log_exists
from orchestrator.team.roster.broadcast import run_file
from orchestrator.team.roster.log_salvage import LogGap, salvaged


@dataclass
class AgentRecords:
    """One agent's records in the order of their numbers, and what is missing.

    ``note`` is what gc has left of an agent whose data it removed. A record that was taken from the broadcast has the
    key ``ref``, and of the others' keys only those that the broadcast repeats.
    """

    agent_id: str
    inbox: list[Record] = field(default_factory=list)
    outbox: list[Record] = field(default_factory=list)
    gaps: list[LogGap] = field(default_factory=list)
    note: dict[str, Any] | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """What the agent was created with, by its first record or by gc's note; empty if neither is there."""
        first = self.outbox[0] if self.outbox else {}
        return first if first.get("type") == "starting" and "name" in first else self.note or {}


@dataclass
class RunRecords:
    """The records of one team run: ``file`` is run.json (empty if it cannot be read), agents in order of creation."""

    run_id: str
    file: dict[str, Any]
    agents: list[AgentRecords]
    gaps: list[LogGap]


Keep = Callable[[str, Record], Record]
"""Makes of an agent's record what is kept of it, so that large payloads need not stay in memory."""


def run_records(root: Path, run_id: str, keep: Keep) -> RunRecords:
    """All that can be read of the run; ``keep`` gets the agent's id and each of its records.

    BadRequest ``unknown_run`` if no file knows the run, ``bad_id`` for what cannot be an id.
    """
    paths = Paths(root)
    check_id(run_id, "run_id")
    file, gaps = _run_file(paths, run_id)
    # The broadcast first: it repeats records that are in the outboxes already.
    log = _name(paths, paths.broadcast(run_id))
    digests = salvaged(paths.broadcast(run_id), BROADCAST_TYPES, _without_payload, log)
    gaps += digests.gaps
    last_refs: dict[str, int] = {}
    for digest in digests.records:
        agent_id = str(digest.get("agent_id"))
        last_refs[agent_id] = max(last_refs.get(agent_id, 0), digest.get("ref", 0))
    agents = [
        _agent(paths, agent_id, last_refs.get(agent_id, 0), keep)
        for agent_id in sorted(_members(paths, run_id, last_refs))
    ]
    if not (file or agents or digests.records):
        _refuse(paths, run_id)
    if damaged := {agent.agent_id: agent for agent in agents if agent.gaps}:
        digests = salvaged(
            paths.broadcast(run_id), BROADCAST_TYPES, lambda record: keep(str(record.get("agent_id")), record)
        )
        _fill(damaged, digests.records)
    agents.sort(key=lambda agent: (str(agent.spec.get("at") or agent.spec.get("created_at") or "~"), agent.agent_id))
    return RunRecords(run_id, file, agents, gaps)


def _refuse(paths: Paths, run_id: str) -> None:
    if paths.collected(paths.run_dir(run_id)).exists():
        raise BadRequest("unknown_run", f"run {run_id!r} has ended, and gc has removed its data")
    raise BadRequest("unknown_run", f"no team run has the id {run_id!r}", "list them: orchestrator runs")


def _run_file(paths: Paths, run_id: str) -> tuple[dict[str, Any], list[LogGap]]:
    path = paths.run_json(run_id)
    try:
        if os.path.lexists(path):
            return run_file(paths, run_id), []
        why = "the run's file is missing"
    except OrchestratorError as error:
        why = f"the run's file cannot be read: {error.message}"
    return {}, [LogGap(_name(paths, path), 1, None, why)]


def _members(paths: Paths, run_id: str, known: Iterable[str]) -> set[str]:
    """The agents of the run: whose first record, meta file or note of gc says so, and those of its broadcast."""
    members = {agent_id for agent_id in known if ID.fullmatch(agent_id) and ".." not in agent_id}
    if paths.agents.is_dir():
        for entry in paths.agents.iterdir():
            if paths.may_be_agent(entry) and _run_of(paths, entry.name) == run_id:
                members.add(entry.name)
    return members


def _run_of(paths: Paths, agent_id: str) -> str | None:
    first: list[Record] = []
    with contextlib.suppress(OrchestratorError):
        first = page(paths.outbox(agent_id), OUTBOX_TYPES, 0, (1, 1))
    if first and first[0]["type"] == "starting":
        return str(first[0].get("run_id"))
    for path in (paths.meta(agent_id), paths.collected(paths.agent_dir(agent_id))):
        content = _json(path)
        if content.get("run_id"):
            return str(content["run_id"])
    return None


def _agent(paths: Paths, agent_id: str, last_ref: int, keep: Keep) -> AgentRecords:
    agent = AgentRecords(agent_id)
    outbox, inbox = _name(paths, paths.outbox(agent_id)), _name(paths, paths.inbox(agent_id))
    note = _json(paths.collected(paths.agent_dir(agent_id)))
    if note:
        agent.note = note
        why = f"gc removed the data of this agent at {note.get('collected_at', 'an unknown time')}"
        agent.gaps = [LogGap(_name(paths, paths.agent_dir(agent_id)), 1, None, why)]
        return agent
    if not log_exists(paths.outbox(agent_id)):
        agent.gaps = [LogGap(outbox, 1, None, "the log is not there")]
    # The outbox first: every task that it names is in the inbox already.
    events = salvaged(paths.outbox(agent_id), OUTBOX_TYPES, partial(keep, agent_id), outbox)
    asked = salvaged(paths.inbox(agent_id), INBOX_TYPES, partial(keep, agent_id), inbox)
    agent.outbox, agent.inbox = events.records, asked.records
    agent.gaps += [*asked.gaps, *events.gaps]
    last = agent.outbox[-1]["seq"] if agent.outbox else 0
    if last_ref > last and not any(gap.log == outbox and gap.last_seq is None for gap in agent.gaps):
        agent.gaps.append(
            LogGap(outbox, last + 1, last_ref, "the log ends here, and the broadcast knows later records")
        )
    if not agent.spec:
        agent.note = _json(paths.meta(agent_id)) or None
    return agent


def _fill(agents: dict[str, AgentRecords], digests: list[Record]) -> None:
    """Take the missing records of these agents from the broadcast, as far as it repeats them."""
    have = {agent_id: {record["seq"] for record in agent.outbox} for agent_id, agent in agents.items()}
    for digest in digests:
        agent_id, ref = str(digest.get("agent_id")), digest.get("ref")
        if agent_id in agents and ref not in have[agent_id]:
            have[agent_id].add(ref)
            agents[agent_id].outbox.append({**digest, "seq": ref})
    for agent in agents.values():
        agent.outbox.sort(key=lambda record: int(record["seq"]))


def _without_payload(record: Record) -> Record:
    return {key: value for key, value in record.items() if key != "payload"}


def _name(paths: Paths, path: Path) -> str:
    return str(path.relative_to(paths.root))


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
    except OrchestratorError:
        return {}
    return content if isinstance(content, dict) else {}
