"""Opens the logs of a project: each agent is folded from its checkpoint and the later records, or from the beginning.

Reads the journal, decides nothing: the roster decides which agents it takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.config.keys import Config
from orchestrator.core import state
from orchestrator.core.record_types import BROADCAST_TYPES, INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log import Journal
from orchestrator.journal.log_reader import page
from orchestrator.journal.positions import Position, WrongPosition
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.journal.segments import log_files
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_fold import located
from orchestrator.team.roster.broadcast import TeamRun, cut_short, open_runs
from orchestrator.team.roster.checkpoints import Checkpoints, KnownAgent
from orchestrator.trust.seals import Seal

log = structlog.get_logger()

TYPES = {"inbox": INBOX_TYPES, "outbox": OUTBOX_TYPES}


@dataclass
class TeamLoading:
    """How the logs of a project are opened; ``notes`` collects what was repaired, for the log and for status."""

    paths: Paths
    syncer: Syncer
    config: Callable[[], Config]
    checkpoints: Checkpoints
    notes: list[str] = field(default_factory=list)

    def runs(self, *, clean: bool) -> dict[str, TeamRun | OrchestratorError]:
        """Every run of the project, or why it cannot be read."""
        config = self.config()
        return open_runs(
            self.paths,
            self.syncer,
            config.durability,
            clean=clean,
            segment_bytes=config.segment_bytes,
            known=self.checkpoints.run,
        )

    def agent(self, agent_id: str, runs: dict[str, TeamRun], *, clean: bool) -> AgentEntry:
        """The agent with its logs open; raises why they cannot be trusted, with none open.

        ``Environment`` foreign_data where a record was not written on this machine: then nothing is changed. An agent
        that is still ``new`` has no record: its call was never answered.
        """
        check_id(agent_id, "agent id")
        if os.path.lexists(mirror := self.paths.mirror(agent_id)):
            raise Environment("foreign_data", f"{mirror}: the agent is of another host", file=str(mirror))
        known = self.checkpoints.agent(agent_id)
        # One of each log for all that is read here: what was accepted of another host's is compared once.
        seals = {name: self._seal(agent_id, name) for name in TYPES}
        if known is None:
            self._check_own(agent_id, seals)
        entry = None if known is None else self._from(known, seals, clean=clean)
        behind = 1  # nothing is known: a checkpoint is due as soon as it is quiet
        if known is not None and entry is not None:
            behind = sum(journal.last_seq - known.positions[name].seq for name, journal in entry.logs.items())
        else:
            entry = AgentEntry(agent_id)
            self._open(entry, seals, clean=clean)
        try:
            if known is not None:
                self._check_known(entry, known)
            self._check_ref(entry, runs)
        except OrchestratorError:
            close(entry)
            raise
        if entry.state.life == "deleted":
            entry.rest()  # also when all of it had to be folded: there may be more of them than descriptors
        self.checkpoints.went_on(entry, behind)
        return entry

    def _check_own(self, agent_id: str, seals: dict[str, Seal]) -> None:
        """Raise foreign_data before a log is opened to be written, which may repair its end."""
        for name, types in TYPES.items():
            path = self.paths.agent_dir(agent_id) / f"{name}.jsonl"
            page(path, types, 0, (1, 1), seal=seals[name])

    def _seal(self, agent_id: str, log_name: str) -> Seal:
        """The seal of one of the agent's logs; Environment foreign_data while nothing here is of this machine."""
        seal = self.paths.provenance.seal("agent", agent_id, log_name)
        if seal is None:
            where = self.paths.agent_dir(agent_id)
            raise Environment("foreign_data", f"{where} was not written on this machine", file=str(where))
        return seal

    def born(self, agent_id: str) -> AgentEntry:
        """A new agent, with logs that hold nothing yet."""
        entry = AgentEntry(agent_id)
        self._open(entry, {name: self._seal(agent_id, name) for name in TYPES}, clean=True)
        return entry

    def _from(self, known: KnownAgent, seals: dict[str, Seal], *, clean: bool) -> AgentEntry | None:
        """The agent of a checkpoint; None if the logs do not continue where it ends, or differ from it."""
        entry = AgentEntry(known.agent.agent_id)
        entry.state = known.agent
        try:
            self._open(entry, seals, clean=clean, positions=known.positions)
        except (WrongPosition, Corrupt) as error:
            # Whether the log or the checkpoint is wrong, the whole log tells.
            log.warning("checkpoint not used", agent=entry.agent_id, reason=str(error))
            return None
        return entry

    def _open(
        self,
        entry: AgentEntry,
        seals: dict[str, Seal],
        *,
        clean: bool,
        positions: dict[str, Position] | None = None,
    ) -> None:
        config, directory = self.config(), self.paths.agent_dir(entry.agent_id)
        for name, types in TYPES.items():
            path = directory / f"{name}.jsonl"
            try:
                journal = Journal.open(
                    path,
                    syncer=self.syncer,
                    types=types,
                    durability=config.durability,
                    clean=clean,
                    on_record=partial(state.apply, entry.state, name),
                    segment_bytes=config.segment_bytes,
                    start=positions[name] if positions else None,
                    rest=entry.state.life == "deleted",
                    seal=seals[name],
                )
            except BaseException as error:
                close(entry)
                if isinstance(error, Corrupt):
                    raise located(error, path) from None
                raise
            if journal.repaired is not None:
                self.notes.append(f"{journal.path}: {journal.repaired}")
                log.warning("torn tail cut off", path=str(journal.path), repair=str(journal.repaired))
            entry.logs[name] = journal

    def _check_known(self, entry: AgentEntry, known: KnownAgent) -> None:
        """Raise Corrupt if these are the logs of the checkpoint and they end before what was on the disk then."""
        same = entry.state.spec.get("crc") == known.agent.spec.get("crc")
        if not (same and known.lasting and self.config().durability == "fsync"):
            return
        for name, journal in entry.logs.items():
            if journal.last_seq < known.positions[name].seq:
                raise cut_short(journal.path, journal.last_seq, known.positions[name].seq)

    def _check_ref(self, entry: AgentEntry, runs: dict[str, TeamRun]) -> None:
        if entry.state.fleet:
            return  # it may have come back without what it could not ship; its mirror says what this disk has lost
        run = runs.get(entry.run_id)
        ref, outbox = run.refs.get(entry.agent_id, 0) if run else 0, entry.outbox
        if ref > outbox.last_seq:
            raise Corrupt(
                "corrupt_log",
                f"{outbox.path}: the broadcast knows record {ref}, the log ends at {outbox.last_seq}",
                file=str(outbox.path),
                line=outbox.last_seq,
            )


def close(entry: AgentEntry) -> None:
    """Close the logs of an agent that is not taken in."""
    for journal in entry.logs.values():
        journal.close()


def unpublished(entry: AgentEntry, run: TeamRun) -> list[dict[str, Any]]:
    """The agent's records that are missing in the broadcast, in order."""
    missing: list[dict[str, Any]] = []
    seq = run.refs.get(entry.agent_id, 0)
    while seq < entry.outbox.last_seq:
        batch, _ = entry.outbox.since(seq, 1000, 1 << 24)
        if not batch:
            break
        missing += [record for record in batch if record["type"] in BROADCAST_TYPES]
        seq = batch[-1]["seq"]
    return missing


def remove_unborn(paths: Paths, agent_id: str, *, torn: bool = False) -> None:
    """Remove what was made for an agent whose intent was not stored, so that its id is free again.

    A log with any content stays, unless the content is known to be a part of the intent (``torn``).
    """
    directory = paths.agent_dir(agent_id)
    try:
        logs = [*log_files(paths.inbox(agent_id)), *log_files(paths.outbox(agent_id))]
        if not torn and any(path.stat().st_size for path in logs):
            return
        if logs and not paths.engine_dir(agent_id).is_symlink():
            paths.launch(agent_id).unlink(missing_ok=True)
        of_replica = [*directory.glob(".mirror.json.*.tmp"), *directory.glob("*.mirrored")]  # one that was not made
        for path in (*logs, *of_replica):
            path.unlink()
        for path in (directory / "artifacts", directory / "engine", directory):
            if path.is_dir():
                path.rmdir()  # refuses what is not empty: somebody else's files stay
    except OSError as error:
        log.info("a directory without records stays", path=str(directory), reason=error.strerror)
