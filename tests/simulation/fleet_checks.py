"""The invariants of a fleet, checked on the model's tables and on all hosts' disks: at each step, and at the end.

``losses`` says of which agents something may be missing: a failover to a copy that is older than the last commit loses
what was committed since, a disk that was restored or given up what it had not shipped. Of others nothing may.
"""

from __future__ import annotations

import contextvars
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from orchestrator.base.final_states import TERMINAL
from orchestrator.core.invariants import RESTORED_GAP, Violation
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.fleet.database_functions import UNBROKEN_S, PostAnswer
from orchestrator.fleet.fleet_agent_ids import fleet_id, own_entry
from orchestrator.journal.log_reader import read_all
from orchestrator.journal.project_files import Paths
from orchestrator.journal.segments import log_files
from orchestrator.team.recovery.verification import verify
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from tests.simulation.fleet_actors import RUN
from tests.simulation.fleet_host import PROJECT
from tests.support.fleet_model import Step
from tests.support.fleet_rows import Agent, Project
from tests.support.fleet_rules import GAP_S

if TYPE_CHECKING:
    from tests.simulation.fleet_world import FleetWorld

LOGS = ("inbox", "outbox")


@dataclass
class FleetEvidence:
    """What actors were told, and what the database has shown."""

    world: FleetWorld
    made: list[str] = field(default_factory=list)
    accepted: list[tuple[str, str, str]] = field(default_factory=list)  # agent, task, req
    ends: list[tuple[str, str, str]] = field(default_factory=list)  # agent, task, type
    works: dict[tuple[str, str], tuple[int, int, bool, int]] = field(
        default_factory=dict
    )  # epoch, attempt, acknowledged, fence
    begun: dict[tuple[str, str], None] = field(default_factory=dict)
    decided: dict[tuple[str, str, int], int] = field(default_factory=dict)  # agent, task, epoch -> the fence then
    losses: dict[str, None] = field(default_factory=dict)
    run_lost: bool = False  # a failover has forgotten which host is the home of the run
    _fences: dict[str, int] = field(default_factory=dict)
    _numbers: dict[tuple[str, int], None] = field(default_factory=dict)
    _away_since: float = -math.inf
    _back_at: float = -math.inf  # after an outage in which every host has missed renewals
    _unsure: dict[str, int] = field(
        default_factory=dict
    )  # agent -> the fence whose deliveries a power cut may have taken

    # -- what CLIs see ------------------------------------------------------------------------------------------

    def handed_out(self, agent_id: str, epoch: int, command: dict[str, Any]) -> None:
        """A CLI was given a task: a second time only with a mark."""
        key, attempt = (fleet_id(agent_id), command["task_id"]), command["attempt"]
        self.begun[key] = None
        before = self.works.get(key)
        if before is not None and attempt < before[1] and self.decided.get((*key, epoch), before[3]) < before[3]:
            return  # its host was stopped on the way to it; the launch that was given it meanwhile had the mark
        if before is not None and key[0] not in self.losses:
            marked = attempt > before[1] or command.get("redelivered") or (before[0] == epoch and not before[2])
            assert marked, f"{key} was given to launch {before[0]} and, without a mark, to launch {epoch}"
        self.works[key] = (epoch, attempt, False, self.world.row(agent_id).fence)

    def reported(self, agent_id: str, epoch: int, kind: str, task_id: str, answer: dict[str, Any]) -> None:
        """A report was answered; a final answer of an agent that moves is in the mirror by then."""
        key = (fleet_id(agent_id), task_id)
        if kind in TERMINAL and not answer.get("duplicate") and not answer.get("provisional"):
            self.ends.append((agent_id, task_id, kind))
            row = self.world.row(agent_id)
            if row.on_host_lost == "move" and key[0] not in self.losses:
                there = row.outcome(task_id)
                assert there == kind, f"{agent_id}: {kind} of {task_id} was answered, and the mirror has {there!r}"
        elif kind == "ack" and key in self.works and self.works[key][0] == epoch:
            self.works[key] = (*self.works[key][:2], True, self.works[key][3])

    def power_was_cut(self, host: str) -> None:
        """It may take deliveries and reports under way of the agents there, until another host has them."""
        for key, work in list(self.works.items()):
            row = self.world.row(key[0])
            if row.host == host and row.fence == work[3]:
                del self.works[key]

    def delivered(self, host: str, label: str, entry: AgentEntry, command: dict[str, Any]) -> None:
        """A task is being handed out, now: never by a copy, and never of an agent that moves by another than its owner."""
        row = self.world.row(entry.agent_id)
        task_id = command["task_id"]
        self.decided[fleet_id(entry.agent_id), task_id, entry.state.epoch] = row.fence
        assert host == label, f"{label}, a copy of {host}, hands out {task_id} of {entry.agent_id}"
        if row.on_host_lost == "move":
            self.world.loop.call_soon(self.world.trouble.delivered, host, context=contextvars.Context())
            assert row.host == host, f"{host} hands out {task_id} of {entry.agent_id}, which {row.host} owns"
            assert entry.state.fence == row.fence, (
                f"{host} hands out {task_id} of {entry.agent_id} under fence {entry.state.fence}, and {row.fence} holds"
            )

    # -- what the database does ---------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        """After each step of the database: no number comes twice, no fence falls, nobody is taken over too early."""
        if isinstance(step.answer, Exception) or step.function not in ("move", "ship", "post"):
            return
        if step.function == "post":
            self._accepted_as(step.arguments[0].agent, step.answer)
            return
        for name, agent in self.world.agents.items():
            assert agent.fence >= self._fences.get(name, 0), f"the fence of {name} has fallen"
            self._fences[name] = agent.fence
        if step.function == "move" and step.answer:
            (dead,) = step.arguments
            lease_until = self.world.model.tables.projects[PROJECT].hosts[dead].lease_until
            assert lease_until is not None and lease_until < step.caller.now, f"{dead} is taken over under its lease"
            since_outage_s = self.world.loop.time() - self._back_at
            assert since_outage_s >= UNBROKEN_S, f"{dead} is taken over {since_outage_s} s after an outage"
            self.world.note(f"moved by {step.caller.host}: {[tuple(one) for one in step.answer]}")

    def _accepted_as(self, agent: str, answer: PostAnswer) -> None:
        """A queue uses no number twice, also when it has forgotten what had it before."""
        if answer.status == "accepted":
            assert (agent, answer.seq) not in self._numbers, f"{agent}: post {answer.seq} is another one than before"
            self._numbers[agent, answer.seq] = None

    def read(self, run: TeamRun, events: list[dict[str, Any]]) -> None:
        """Somebody has been shown these records of a run's broadcast: a power cut may not take them any more."""
        for event in events:
            assert event["seq"] <= run.journal.synced_seq, (
                f"record {event['seq']} of the broadcast is not durable yet"
            )

    def database_stops(self) -> None:
        """The database will be away from now on."""
        if not self.world.model.away:
            self._away_since = self.world.loop.time()

    def database_starts(self) -> None:
        """The database is there again: who lives has its time to renew before anybody declares it lost."""
        now = self.world.loop.time()
        if self.world.model.away and now - self._away_since > GAP_S:
            self._back_at = now

    def database_went_back(self, earlier: Project, later: Project) -> None:
        """The database has lost what it committed between two copies."""
        self._fences.clear()
        known = earlier.agents
        self._numbers = {number: None for number in self._numbers if number[0] in known}  # others may be made anew
        self.losses |= dict.fromkeys(name for name, agent in later.agents.items() if known.get(name) != agent)
        self.run_lost = self.run_lost or earlier.runs != later.runs

    def disk_went_back(self, host: str) -> None:
        """A host has lost what it did last, or all."""
        self.losses |= dict.fromkeys(name for name, agent in self.world.agents.items() if agent.host == host)


def check_mirror(name: str, agent: Agent, timelines: int) -> None:
    """What must hold of one agent's posts and mirror alone."""
    last = 0
    for post in agent.posts:
        _check_number(name, "post", post.seq, last, timelines)
        last = post.seq
    for log, rows in agent.logs.items():
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), f"the {log} of {name} has a gap"
        fences = [row.fence for row in rows]
        assert fences == sorted(fences), f"the {log} of {name}: its fences fall: {fences}"
    records = {log: [orjson.loads(row.line) for row in rows] for log, rows in agent.logs.items()}
    last = records["outbox"][0].get("ref", 0) if records["outbox"] else 0
    for record in records["inbox"]:
        if ref := record.get("ref"):
            _check_number(name, "ref", ref, last, timelines)
            last = ref
    asked = [
        record["task_id"] for record in records["inbox"] if record["type"] == "task" and "duplicate" not in record
    ]
    assert len(asked) == len(set(asked)), f"{name}: a task was stored twice"
    first = list(dict.fromkeys(record["task_id"] for record in records["outbox"] if record["type"] == "delivered"))
    order = [asked.index(task_id) for task_id in first]
    assert order == sorted(order), f"{name}: first deliveries are not in the order of the posts: {first}"
    ends = Counter(record["task_id"] for record in records["outbox"] if record["type"] in TERMINAL)
    twice = [task_id for task_id, count in ends.items() if count > 1]
    assert not twice, f"{name}: {twice} have ended twice"
    _check_epochs(name, agent, records["outbox"])


def _check_number(name: str, what: str, number: int, last: int, timelines: int) -> None:
    """One after the last; a restored database goes on far behind, and may have forgotten the last numbers."""
    gap = number - last - 1
    skipped = timelines > 1 and gap >= RESTORED_GAP
    assert gap == 0 or skipped, f"{name}: {what} {number} follows {last}"


def _check_epochs(name: str, agent: Agent, outbox: list[dict[str, Any]]) -> None:
    """A fence begins an epoch, and what an epoch's CLI did was shipped under its fence."""
    fence, epoch = 0, 0
    for row, record in zip(agent.logs["outbox"], outbox, strict=True):
        begun = record["fleet"]["fence"] if record["type"] == "starting" else record.get("fence")
        if begun is not None:
            assert begun > fence, f"{name}: fence {begun} follows {fence}"
            assert record["epoch"] > epoch, f"{name}: fence {begun} begins no epoch"
            fence = begun
        epoch = record["epoch"]
        if record["by"] == "agent" or (record["type"] == "delivered" and "assumed" not in record):
            assert row.fence == fence, f"{name}: {record['type']} of epoch {epoch} was shipped under {row.fence}"


def check_end(world: FleetWorld) -> None:
    """Everything, once all is quiet and all daemons have ended cleanly."""
    evidence, rosters = world.evidence, {name: host.roster for name, host in world.live_hosts.items()}
    for name, agent in world.agents.items():
        check_mirror(name, agent, world.model.tables.timeline)
        if agent.host not in rosters:  # it was deleted there, and burnt down with its host
            assert agent.life == "deleted", f"{name} is left with {agent.host}"
            continue
        _check_owner(world, name, agent, rosters[agent.host])
    _check_calls(world)
    if not evidence.run_lost:
        _check_broadcast(world, rosters[world.home.name])
    for roster in rosters.values():
        report = verify(roster.root, live=False, settled=True)
        home = roster is rosters[world.home.name]
        wrong = [v for v in report.violations if not _was_forgotten(world, v, home=home)]
        assert not wrong, f"verify on {roster.root.parent.name}: {wrong[0]}"


def _was_forgotten(world: FleetWorld, violation: Violation, *, home: bool) -> bool:
    """Whether it is of what a home told, and what the database or a disk has lost; or what a former home told."""
    lost = world.evidence.run_lost or fleet_id(violation.agent or "") in world.evidence.losses
    return (violation.kind.startswith("broadcast_") and lost) or (
        violation.kind == "unknown_agent" and (lost or not home)
    )


def _check_owner(world: FleetWorld, name: str, agent: Agent, roster: Roster) -> None:
    """The mirror is the owner's logs, byte for byte; every post was taken once; every task has ended once."""
    entry = own_entry(roster, name)
    assert entry is not None, f"{agent.host} owns {name}, and does not have it"
    for log in LOGS:
        there = [row.line.encode() for row in agent.logs[log]]
        here = lines_of(roster.paths, entry.agent_id, log)
        assert here == there, (
            f"the {log} of {name} at {agent.host} is not its mirror: {len(here)}, {len(there)} lines"
        )
    inbox, outbox = (
        list(read_all(getattr(roster.paths, log)(entry.agent_id), types))
        for log, types in (("inbox", INBOX_TYPES), ("outbox", OUTBOX_TYPES))
    )
    taken = [outbox[0]["ref"], *(record["ref"] for record in inbox if "ref" in record)]
    posted = [post.seq for post in agent.posts]
    if name not in world.evidence.losses:
        assert taken == posted, f"{name}: posts {posted} were taken as {taken}"
    ends = [record["task_id"] for record in outbox if record["type"] in TERMINAL]
    asked = [record["task_id"] for record in inbox if record["type"] == "task" and "duplicate" not in record]
    assert sorted(ends) == sorted(asked), f"{name}: {asked} were asked for, and {ends} have ended"
    if agent.closing:
        assert entry.state.life == "deleted", f"{name} was to be deleted"


def lines_of(paths: Paths, agent_id: str, log: str) -> list[bytes]:
    """The lines of a log, as they are on the disk."""
    lines: list[bytes] = []
    for file in log_files(getattr(paths, log)(agent_id)):
        lines += file.read_bytes().splitlines()
    return lines


def _check_calls(world: FleetWorld) -> None:
    evidence = world.evidence
    gone = {fleet_id(name) for name in evidence.made} - set(world.agents) - set(evidence.losses)
    assert not gone, f"made and gone: {gone}"
    for agent_id, task_id, req in evidence.accepted:
        if fleet_id(agent_id) in evidence.losses:
            continue
        stored = [post for post in world.row(agent_id).posts if post.req == req]
        if not stored:  # under the id of a task that was there
            stored = [post for post in world.row(agent_id).posts if post.task_id == task_id]
        assert len(stored) == 1, f"{agent_id}: call {req} was accepted, and is posted {len(stored)} times"
        assert stored[0].task_id == task_id, f"{agent_id}: {req} was accepted as {task_id}"
    for agent_id, task_id, kind in evidence.ends:
        if fleet_id(agent_id) in evidence.losses:
            continue
        there = world.row(agent_id).outcome(task_id)
        assert there == kind, f"{agent_id}: the {kind} of {task_id} was answered, and it has ended in {there!r}"
    for agent_id, task_id in evidence.begun:
        known = any(post.task_id == task_id for post in world.row(agent_id).posts)
        assert known or agent_id in evidence.losses, (
            f"{agent_id}: {task_id} was given to a CLI, and was never asked for"
        )


def _check_broadcast(world: FleetWorld, home: Roster) -> None:
    broadcast = list(read_all(home.paths.broadcast(RUN), BROADCAST_TYPES))
    for name, agent in world.agents.items():
        if name in world.evidence.losses:
            continue
        repeated = [(record["ref"], record["type"]) for record in broadcast if fleet_id(record["agent_id"]) == name]
        due = [(row.seq, row.type) for row in agent.logs["outbox"] if row.type in BROADCAST_TYPES]
        assert repeated == due, f"the broadcast of {name} is {repeated}, not {due}"
    stored = {record["seq"]: record for record in broadcast}
    for seq, event in world.reader.seen.items():
        there = stored.get(seq)
        assert there is not None, f"record {seq} of the broadcast was read, and is gone"
        for key in ("type", "task_id", "at", "epoch"):
            assert event.get(key) == there.get(key), f"record {seq} of the broadcast has changed"
