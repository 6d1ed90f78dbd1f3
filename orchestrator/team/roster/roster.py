"""The team in memory: every agent with its logs and its folded state, every run with its broadcast.

The only place where drafts become records: `write` appends and folds them, adds the records that follow from them
(`supervision.settle`), and publishes them to the run's broadcast once they are durable. Uses the journal, not tmux.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.errors import BadRequest, Conflict, Environment, OrchestratorError
from orchestrator.base.waiting import Signal
from orchestrator.config.keys import Config
from orchestrator.core import state, supervision
from orchestrator.core.agent_ids import slug
from orchestrator.core.record_types import BROADCAST_TYPES, UNSYNCED, Draft
from orchestrator.edge.temporary_directories import TemporaryDirectories, name_of_agent
from orchestrator.journal import segments
from orchestrator.journal.project_files import (
    Paths,
    check_id,
    ensure_agents_dir,
    ensure_home,
    failure,
    make_dir,
    of_the_machine,
)
from orchestrator.journal.project_lock import ProjectClaim, claim, taken
from orchestrator.journal.segments import log_exists
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster import agent_names
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun, open_run
from orchestrator.team.roster.checkpoints import Checkpoints
from orchestrator.team.roster.fleet_link import FleetLink
from orchestrator.team.roster.loading import TeamLoading, close, remove_unborn, unpublished
from orchestrator.team.roster.mirrored_logs import remove_unfinished
from orchestrator.trust import lock_word

log = structlog.get_logger()

PUT_BACK = "put it back, or give the files up: orchestrator daemon restart"
PUBLISH_AFTER_S = 0.005
"""What ends within these few milliseconds in a team shares one write and one sync of the broadcast."""


@dataclass(eq=False)
class Roster:
    """All agents and runs of one project.

    ``corrupt`` holds, per agent or run id, why its files cannot be trusted: damaged, or (foreign_data) not written on
    this machine. Nothing is done for those; the rest of the team works on.
    ``replicas`` are the agents of own runs that another host of the fleet owns: they are read here, and ``fleet``
    carries what is asked of them. ``listeners`` are called with an agent whose records have become visible,
    ``replica_listeners`` with such a replica. ``place`` is the word (`lock_word`) for
    where this daemon is met; ``on_refused`` is called when another daemon has the project's files.
    """

    root: Path
    paths: Paths
    clock: Clock
    syncer: Syncer
    config: Callable[[], Config]
    place: str = ""
    on_refused: Callable[[], None] = lambda: None
    # What the project's configuration file says that does not count, because nobody has allowed its content.
    withheld: Callable[[], Mapping[str, Any]] = dict
    agents: dict[str, AgentEntry] = field(default_factory=dict)
    replicas: dict[str, AgentEntry] = field(default_factory=dict)
    runs: dict[str, TeamRun] = field(default_factory=dict)
    corrupt: dict[str, OrchestratorError] = field(default_factory=dict)
    by_req: dict[str, str] = field(default_factory=dict)
    listeners: list[Callable[[AgentEntry], None]] = field(default_factory=list)
    replica_listeners: list[Callable[[AgentEntry], None]] = field(default_factory=list)
    fleet: FleetLink | None = None
    checkpoints: Checkpoints = field(init=False)
    temporary: TemporaryDirectories = field(init=False)
    loading: TeamLoading = field(init=False)
    _lock: ProjectClaim | None = None

    def __post_init__(self) -> None:
        self.temporary = TemporaryDirectories(self.root)
        self.checkpoints = Checkpoints(self.paths, self.clock, lambda: self.config().durability)
        self.loading = TeamLoading(self.paths, self.syncer, self.config, self.checkpoints)

    @property
    def notes(self) -> list[str]:
        """What loading repaired, for the log and for status."""
        return self.loading.notes

    # -- reading what is on disk --------------------------------------------------------------------------------

    def load(self, *, clean: bool) -> None:
        """Fold every log of the project; a corrupt agent is set aside with file and line.

        Conflict ``daemon_running`` when another daemon writes these files; Environment when the disk is full or
        read-only or the like: that will pass, and no agent is to blame.
        """
        if not (self.paths.agents.is_dir() or self.paths.runs.is_dir()):
            return  # nothing of ours yet: a lock file would be the first thing we litter
        self._lock = claim(self.paths, self.place)
        self.checkpoints.open()
        for run_id, run_or_error in self.loading.runs(clean=clean).items():
            if isinstance(run_or_error, TeamRun):
                self.runs[run_id] = run_or_error
                self.checkpoints.went_on(run_or_error, min(run_or_error.since, 1))
            elif of_the_machine(run_or_error):
                raise run_or_error
            else:
                self.corrupt[run_id] = run_or_error
        if not self.paths.agents.is_dir():
            return
        remove_unfinished(self.paths)
        for directory in sorted(self.paths.agents.iterdir()):
            if not self.paths.may_be_agent(directory) or self.paths.is_collected(directory):
                continue
            if self.paths.is_replica(directory):
                continue  # another host supervises it
            if log_exists(directory / "outbox.jsonl"):
                self._load_agent(directory.name, clean=clean)
            elif self.paths.provenance.identity is not None:
                remove_unborn(self.paths, directory.name)
        self.checkpoints.only({*self.agents, *self.corrupt}, {*self.runs, *self.corrupt})
        self.publish_missing()
        for entry in self.agents.values():
            try:
                self.write(entry, [])
            except OrchestratorError as error:
                # The disk is full: what follows from the records is settled with the agent's next write.
                log.warning("agent not settled", agent=entry.agent_id, **error.as_dict())

    def _load_agent(self, agent_id: str, *, clean: bool) -> None:
        try:
            entry = self.loading.agent(agent_id, self.runs, clean=clean)
        except OrchestratorError as error:
            if of_the_machine(error):
                raise
            log.warning("agent set aside", agent=agent_id, **error.as_dict())
            self.corrupt[agent_id] = error
            return
        if entry.state.life == "new":
            # Its directory was made, its intent never became durable: the call was never answered.
            close(entry)
            self.checkpoints.forget(agent_id)
            remove_unborn(self.paths, agent_id)
            return
        self.add(entry)

    def publish_missing(self) -> None:
        """Add to the broadcasts what a crash left out, in order of (`at`, agent, `ref`).

        If the clock went back, an agent's records keep their order: a later record never counts as earlier.
        """
        missing: list[tuple[str, str, int, dict[str, Any], TeamRun]] = []
        for entry in self.everyone():
            run, at = self.runs.get(entry.run_id), ""
            if run is None:
                continue
            if self._is_uncertain(entry):
                entry.untold = deque(unpublished(entry, run))
                entry.news_seq = max(entry.news_seq, *(record["seq"] for record in entry.untold), 0)
                self.tell(entry)
                continue
            for record in unpublished(entry, run):
                at = max(at, record["at"])
                missing.append((at, entry.agent_id, record["seq"], record, run))
        for _, agent_id, _, record, run in sorted(missing, key=lambda item: item[:3]):
            run.queue(agent_id, record)
        for run in self.runs.values():
            self._publish(run)

    # -- what gc and doctor --fix do to an agent ----------------------------------------------------------------

    def forget_collected(self, agent_id: str) -> None:
        """Drop an agent from memory and close its logs, because its files will be removed or rewritten."""
        entry = self.agents.pop(agent_id, None)
        self.corrupt.pop(agent_id, None)
        self.by_req = {req: owner for req, owner in self.by_req.items() if owner != agent_id}
        self.checkpoints.forget(agent_id)
        if entry is None:
            return
        close(entry)
        entry.state = state.Agent(agent_id)  # whoever still holds the entry finds nothing to do
        entry.unpublished.clear()
        entry.untold.clear()
        entry.changed.notify()

    def set_aside(self, agent_id: str, error: OrchestratorError) -> None:
        """Stop trusting the agent's files, as if its log had been found damaged at the start."""
        self.forget_collected(agent_id)
        self.corrupt[agent_id] = error

    def take_up(self, agent_id: str) -> AgentEntry | None:
        """Load the agent from its files, as at a start; None, and why in ``corrupt``, when they cannot be trusted."""
        self.corrupt.pop(agent_id, None)
        self._load_agent(agent_id, clean=False)
        entry = self.agents.get(agent_id)
        run = self.runs.get(entry.run_id) if entry is not None else None
        if entry is not None and run is not None:
            entry.unpublished.extend(unpublished(entry, run))
            self._seen(entry)
        return entry

    # -- the agents ---------------------------------------------------------------------------------------------

    def entry(self, agent_id: str) -> AgentEntry:
        """The agent of that id; BadRequest ``unknown_agent``, or why its files cannot be trusted."""
        check_id(agent_id, "agent_id")
        if agent_id in self.corrupt:
            raise self.corrupt[agent_id]
        entry = self.agents.get(agent_id)
        if entry is None:
            gone = self.paths.is_collected(self.paths.agent_dir(agent_id))
            message = f"agent {agent_id!r} was deleted, and gc has removed its data" if gone else ""
            raise agent_names.unknown(agent_id, self._named(), message)
        return entry

    def posted(self, agent_id: str) -> FleetLink | None:
        """The fleet, if calls for this agent go through it; None for a local agent.

        BadRequest ``no_fleet`` for an agent of a fleet while the daemon belongs to none.
        """
        if self.fleet is not None:
            return self.fleet if self.fleet.serves(agent_id) else None
        entry = self.agents.get(agent_id)
        if entry is not None and entry.state.fleet:
            project = entry.state.fleet.get("project")
            raise BadRequest("no_fleet", f"{agent_id} belongs to fleet {project!r}, and this daemon to none")
        return None

    async def reading(self, agent_id: str) -> AgentEntry:
        """The agent for a call that only reads: an own one, a replica, or any of the fleet. Raises as `entry`."""
        if agent_id in self.replicas:
            return self.replicas[agent_id]
        known = agent_id in self.agents or agent_id in self.corrupt
        if known or self.fleet is None or not self.fleet.serves(agent_id):
            return self.entry(agent_id)
        return await self.fleet.reading(agent_id)

    def everyone(self) -> list[AgentEntry]:
        """All agents that can be read here, own ones and replicas."""
        return [*self.agents.values(), *self.replicas.values()]

    def shown(self, agent_id: str) -> AgentEntry | None:
        """The own agent or the replica of that id."""
        return self.agents.get(agent_id) or self.replicas.get(agent_id)

    def members(self, run_id: str) -> list[AgentEntry]:
        """All agents of the run, also those that other hosts own."""
        return [entry for entry in self.everyone() if entry.run_id == run_id]

    @contextlib.contextmanager
    def naming_successor(self, entry: AgentEntry) -> Iterator[None]:
        """Add to a Conflict ``agent_ended`` of this agent which agent has its name now."""
        try:
            yield
        except Conflict as error:
            rows = self._named()
            own = next((row for row in rows if row["agent_id"] == entry.agent_id), None)
            raise agent_names.with_successor(error, agent_names.successor(rows, own) if own else "") from None

    def _named(self) -> list[agent_names.Row]:
        return agent_names.rows_of(entry.state for entry in self.agents.values())

    def add(self, entry: AgentEntry) -> None:
        """Take an opened agent in; from now on its records reach broadcast and listeners when durable."""
        self.agents[entry.agent_id] = entry
        entry.artifacts = str(self.paths.artifacts(entry.agent_id))
        req = entry.state.spec.get("req")
        if req:
            self.by_req[req] = entry.agent_id
        entry.inbox.signal = _Hook(lambda: self._durable_inbox(entry))
        entry.outbox.signal = _Hook(lambda: self._seen(entry))

    def add_replica(self, entry: AgentEntry) -> None:
        """Take in an agent that another host owns; its records reach the broadcast as they are mirrored."""
        self.replicas[entry.agent_id] = entry
        entry.artifacts = str(self.paths.artifacts(entry.agent_id))
        entry.outbox.signal = _Hook(lambda: self._seen(entry))
        run = self.runs.get(entry.run_id)
        if run is not None:
            entry.unpublished.extend(unpublished(entry, run))
            self._seen(entry)

    def begin_broadcast_anew(self, run: TeamRun, gen: int) -> None:
        """Set the run's broadcast aside and derive a new one from the logs of its agents.

        Raises Environment if the disk refuses; nothing more is added to the broadcast then until the next try.
        """
        config, path = self.config(), self.paths.broadcast(run.run_id)
        run.journal.close()
        try:
            segments.set_aside(path, f"before-{gen}")
        except OSError as error:
            raise failure(path, error) from error
        opened = open_run(
            self.paths, run.run_id, run.file, self.syncer, config.durability, clean=True,
            segment_bytes=config.segment_bytes,
        )  # fmt: skip
        run.journal, run.refs, run.born = opened.journal, opened.refs, opened.born
        run.forget_unwritten()
        run.new_master()
        self.checkpoints.forget_run(run.run_id)
        self.publish_missing()

    def fill_up(self, entry: AgentEntry, log_name: Literal["inbox", "outbox"], lines: Sequence[bytes]) -> None:
        """Append own lines that the disk has lost to an own log, from its mirror, and fold them.

        Corrupt or foreign_data if they do not follow on its last, or were not written here.
        """
        for record in entry.logs[log_name].extend(lines, sync=True):
            state.apply(entry.state, log_name, record)
            entry.due[log_name] = record["seq"]
            if log_name == "outbox" and record["type"] in BROADCAST_TYPES:
                entry.unpublished.append(record)

    def mirror(self, entry: AgentEntry, log_name: Literal["inbox", "outbox"], lines: Sequence[bytes]) -> None:
        """Append mirrored lines to a replica's log and fold them; Corrupt if they do not follow on its last."""
        for record in entry.logs[log_name].extend(lines, sync=False):
            state.apply(entry.state, log_name, record)
            if log_name == "outbox" and record["type"] in BROADCAST_TYPES:
                entry.unpublished.append(record)
        self._seen(entry)

    def is_foreign(self, name: str) -> bool:
        """Whether the agent or run of that id is set aside because it was not written on this machine."""
        error = self.corrupt.get(name)
        return error is not None and error.code == "foreign_data"

    def new_id(self, name: str) -> str:
        """The slug of the name, or with -2, -3 … when taken; ids are never reused."""
        base = slug(name)
        candidate, n = base, 1
        while candidate in self.agents or candidate in self.corrupt or self.paths.agent_dir(candidate).exists():
            n += 1
            candidate = f"{base[: 62 - len(str(n))]}-{n}"
        return candidate

    async def create(
        self, agent_id: str, starting: Draft, prepare: Callable[[AgentEntry], None] | None = None
    ) -> AgentEntry:
        """Make the agent's directory and write its intent; returns once that is durable.

        ``prepare`` writes what the intent relies on; it must exist after a crash that follows the intent.
        """
        self.begin_writing()
        entry: AgentEntry | None = None
        try:
            for directory in (
                self.paths.agent_dir(agent_id), self.paths.artifacts(agent_id), self.paths.engine_dir(agent_id)
            ):  # fmt: skip
                await asyncio.to_thread(make_dir, directory)
            entry = self.loading.born(agent_id)
            self.add(entry)
            if prepare is not None:
                await asyncio.to_thread(prepare, entry)
            await self.commit(entry, [starting])
        except OrchestratorError:
            self._forget(agent_id, entry)
            raise
        if "req" in starting.fields:
            self.by_req[starting.fields["req"]] = agent_id
        return entry

    def missing(self) -> list[str]:
        """The open logs that are no longer in their place: removed or moved away."""
        journals = [run.journal for run in self.runs.values() if run.live]
        journals += [log for entry in self.agents.values() if entry.live for log in entry.logs.values()]
        return [str(journal.path) for journal in journals if not journal.in_place()]

    def begin_writing(self) -> None:
        """Make `.agents/` and claim it; called before the first thing of a run or an agent is written.

        Environment ``io_failed`` if the files of a run have disappeared: new files would not be found with them.
        """
        for run in self.runs.values():
            if run.live and not run.journal.in_place():
                raise Environment("io_failed", f"{run.journal.path} has gone while the daemon wrote it", PUT_BACK)
        ensure_home(self.paths)
        self._claim()  # before the identity: another daemon's must not be written over
        ensure_agents_dir(self.paths)
        self.checkpoints.open()

    def keep_claim(self) -> None:
        """Make sure, now and then, that the files are still this daemon's; Conflict ``daemon_running`` otherwise."""
        if self.paths.agents.is_dir() or self.paths.runs.is_dir():  # a squad makes them too
            self._claim()
        elif self._lock is None and lock_word.held(self.paths.home / "lock"):
            raise taken(self.paths)

    @property
    def token(self) -> str:
        """The token that this daemon wrote into `.agents/lock`; "" if there is none."""
        return self._lock.token if self._lock is not None else ""

    def _claim(self) -> None:
        if self._lock is not None and not self._lock.in_place():
            self._lock.release()  # it was removed or replaced with the rest: another daemon would not see it
            self._lock = None
        if self._lock is None:
            try:
                self._lock = claim(self.paths, self.place)
            except Conflict:
                self.on_refused()
                raise

    def _forget(self, agent_id: str, entry: AgentEntry | None) -> None:
        """Undo an agent whose intent was not stored: nothing of it may be seen."""
        if entry is not None:
            self.agents.pop(agent_id, None)
            self.by_req.pop(str(entry.state.spec.get("req")), None)
            close(entry)
            self.checkpoints.forget(agent_id)
            self.temporary.end(name_of_agent(agent_id))
        if entry is None or not any(journal.last_seq for journal in entry.logs.values()):
            remove_unborn(self.paths, agent_id, torn=True)

    # -- writing ------------------------------------------------------------------------------------------------

    def write(self, entry: AgentEntry, drafts: list[Draft]) -> list[dict[str, Any]]:
        """Append the drafts and all records that follow from them, fold them, and return the drafts' records.

        Synchronous, so nothing happens between a decision and its records. A failed append raises Environment and
        leaves the state of the records before it; the next write settles what is missing.
        """
        entry.writing = True
        try:
            written = self._append(entry, drafts)
            while supervision.unsettled(entry.state):
                more = supervision.settle(entry.state, rfc3339(self.clock.now()), entry.inbox.visible_seq)
                if not more:
                    break
                self._append(entry, more)
        finally:
            entry.writing = False
        if entry.unpublished and entry.unpublished[0]["seq"] <= entry.outbox.visible_seq:
            self._seen(entry)  # visible at once: durability = "os"
        entry.changed.notify()
        return written

    def _append(self, entry: AgentEntry, drafts: list[Draft]) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        for draft in drafts:
            sync = draft.type not in UNSYNCED
            journal = entry.logs[draft.log]
            # The line is on disk before it is folded; the fold cannot fail, for the decision came from this state.
            failpoints.passed(f"{draft.log}:{draft.type}:before")
            (record,) = journal.append([draft.fields], sync=sync)
            failpoints.passed(f"{draft.log}:{draft.type}:after")
            state.apply(entry.state, draft.log, record)
            if sync:
                entry.due[draft.log] = record["seq"]
            if draft.log == "outbox" and draft.type in BROADCAST_TYPES:
                entry.unpublished.append(record)
            written.append(record)
        self.checkpoints.went_on(entry, len(written))
        return written

    async def commit(self, entry: AgentEntry, drafts: list[Draft]) -> list[dict[str, Any]]:
        """`write`, then wait until everything decided about this agent so far is durable."""
        written = self.write(entry, drafts)
        await self.durable(entry)
        return written

    async def durable(self, entry: AgentEntry) -> None:
        """Wait for the syncs of what was written; nothing is answered before."""
        due = entry.due
        await entry.inbox.synced(due["inbox"])
        await entry.outbox.synced(due["outbox"])

    def _durable_inbox(self, entry: AgentEntry) -> None:
        """Records of the inbox became visible: what had to wait for that is settled."""
        agent = entry.state
        held = entry.writing or entry.filling_up
        if not held and (agent.cancels or agent.refusals or agent.life == "stopped") and agent.unfinished:
            try:
                self.write(entry, [])
            except OrchestratorError as error:
                # The disk is full: it is settled with the agent's next write.
                log.warning("agent not settled", agent=entry.agent_id, **error.as_dict())
        self._seen(entry)

    def _seen(self, entry: AgentEntry) -> None:
        """Records of the agent became visible: add them to the broadcast, then wake the waiters."""
        visible = entry.outbox.visible_seq
        run = self.runs.get(entry.run_id)
        while entry.unpublished and entry.unpublished[0]["seq"] <= visible:
            record = entry.unpublished.popleft()
            entry.news_seq = record["seq"]
            if run is not None:
                entry.untold.append(record)
        self.tell(entry)
        entry.changed.notify()
        for listener in self.listeners if entry.remote is None else self.replica_listeners:
            listener(entry)

    def tell(self, entry: AgentEntry) -> None:
        """Add to the broadcast what is certain of the agent.

        Of an own agent that may move, that is what its mirror has: if this host is lost, the rest will not have
        happened, and its task may end in another way elsewhere.
        """
        run, certain = self.runs.get(entry.run_id), self.certain_seq(entry)
        while run is not None and entry.untold and entry.untold[0]["seq"] <= certain:
            if not run.unwritten:
                self.clock.timer(PUBLISH_AFTER_S, partial(self._publish, run))
            run.queue(entry.agent_id, entry.untold.popleft())

    def certain_seq(self, entry: AgentEntry) -> int:
        """Number of the last outbox record that the loss of this host cannot undo."""
        if not self._is_uncertain(entry):
            return entry.outbox.visible_seq
        return self.fleet.mirrored(entry) if self.fleet is not None else 0

    @staticmethod
    def _is_uncertain(entry: AgentEntry) -> bool:
        return entry.may_move and entry.remote is None

    def _publish(self, run: TeamRun) -> None:
        try:
            self.checkpoints.went_on(run, run.flush())
        except OrchestratorError as error:
            # The disk is full: the records are safe in the outboxes, and told again until there is room.
            if not run.delayed:  # said once: the log may lie on the same disk
                log.warning("broadcast delayed", run=run.run_id, **error.as_dict())
            run.delayed = True
            self.clock.timer(1.0, lambda: self._publish(run))
        else:
            run.delayed = False

    def has_unwritten(self, run: TeamRun) -> bool:
        """Whether records of the run's agents are still on their way into what its broadcast shows."""
        agents = self.members(run.run_id)
        written = run.journal.visible_seq < run.journal.last_seq
        return written or bool(run.unwritten) or any(entry.unpublished or entry.untold for entry in agents)

    def close(self) -> None:
        """Close every log; await `flush` before for a clean end."""
        for entry in self.everyone():
            for journal in entry.logs.values():
                journal.close()
        for run in self.runs.values():
            run.journal.close()
        self.checkpoints.close()
        if self._lock is not None:
            self._lock.release()

    async def flush(self) -> None:
        """Make everything written so far durable, and save the checkpoints of a clean end."""
        # The agents' first: what becomes durable now is still to be published.
        logs = [journal for entry in self.agents.values() for journal in entry.logs.values()]
        await asyncio.gather(*(journal.synced(journal.last_seq) for journal in logs))
        for run in self.runs.values():
            self._publish(run)
        await asyncio.gather(*(run.journal.synced(run.journal.last_seq) for run in self.runs.values()))
        await self.checkpoints.finish()


class _Hook(Signal):
    """The journal's signal, with one listener that runs before the waiters wake."""

    def __init__(self, first: Callable[[], None]) -> None:
        super().__init__()
        self._first = first

    def notify(self) -> None:
        self._first()
        super().notify()


def payload_bytes(payload: Any, limit: int, next_step: str = "") -> int:
    """The size of a payload as JSON; BadRequest ``payload_too_large`` over the limit, with that next step."""
    try:
        size = len(orjson.dumps(payload))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise BadRequest("bad_argument", f"the payload is not JSON: {error}") from None
    if size > limit:
        message = f"the payload has {size} bytes as JSON; at most {limit} are allowed (max_payload_bytes)"
        raise BadRequest("payload_too_large", message, next_step)
    return size
