"""The team runs: run.json and the broadcast log, a digest of ended tasks and changes of agents.

A broadcast record repeats one outbox record (``ref`` is its seq). It is written after that record is durable, in the
order of the agent's outbox, so an agent's last ``ref`` shows what is missing after a crash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from orchestrator.base import failpoints
from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.core.record_types import BROADCAST_PAYLOAD_BYTES, BROADCAST_TYPES
from orchestrator.journal.log_reader import place
from orchestrator.journal.positions import Position, WrongPosition
from orchestrator.journal.project_files import Paths, check_id, failure, make_dir, read_json, replace
from orchestrator.journal.syscalls import REAL
from orchestrator.trust.provenance import Provenance
from orchestrator.trust.seals import KEY

if TYPE_CHECKING:
    from orchestrator.journal.log import Journal
    from orchestrator.journal.syncer import Syncer


@dataclass(eq=False)
class TeamRun:
    """One team run: ``file`` is run.json as a dict, ``refs`` the last published outbox seq of each agent."""

    run_id: str
    path: Path
    file: dict[str, Any]
    journal: Journal
    provenance: Provenance
    refs: dict[str, int] = field(default_factory=dict)
    born: str = ""  # the crc of its first record, which identifies the run
    since: int = 0  # records after its checkpoint when it was opened
    unwritten: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # to be published with the next flush
    _last: dict[str, int] = field(default_factory=dict)  # the last seq of each agent in ``unwritten``
    delayed: bool = False  # its digest could not be written (disk full) and is retried
    read: int = 0  # the seq up to which its master has read, since the daemon started
    read_of: dict[str, int] = field(default_factory=dict)  # the same for the events of single agents
    woken: int = 0  # the seq up to which its master was woken, since the daemon started

    @property
    def live(self) -> bool:
        return self.file.get("ended_at") is None

    def new_master(self) -> None:
        """Another CLI leads the run from now on: it has read nothing yet."""
        self.read = self.woken = 0
        self.read_of.clear()

    def save(self) -> None:
        """Write run.json atomically and durably."""
        write_run_file(self.path, self.file, self.provenance)

    def queue(self, agent_id: str, record: dict[str, Any]) -> None:
        """Queue a durable outbox record for the next `flush`; a ``ref`` that is already published is skipped."""
        if record["seq"] > self._last.get(agent_id, self.refs.get(agent_id, 0)):
            self._last[agent_id] = record["seq"]
            self.unwritten.append((agent_id, record))

    def flush(self) -> int:
        """Append the queued records in one write and return their number; they stay queued if it raises."""
        count = len(self.unwritten)
        if count:
            failpoints.passed("broadcast:append:before")
            written = self.journal.append(
                [digest(agent_id, record) for agent_id, record in self.unwritten], sync=True
            )
            failpoints.passed("broadcast:append:after")
            self.born = self.born or written[0]["crc"]
            for agent_id, record in self.unwritten:
                self.refs[agent_id] = record["seq"]
            self.forget_unwritten()
        return count

    def forget_unwritten(self) -> None:
        """Drop the records that `flush` would write."""
        self.unwritten.clear()
        self._last.clear()


class KnownRun(NamedTuple):
    """The cached facts of a run's broadcast: ``refs`` and ``born`` at the cached position.

    ``lasting``: everything before the position was on the disk, so a log that ends before it has lost records.
    ``gen`` is that of run.json then: which of the run's broadcasts it was.
    """

    refs: dict[str, int]
    born: str
    position: Position
    lasting: bool
    gen: int | None


def digest(agent_id: str, record: dict[str, Any]) -> dict[str, Any]:
    """The broadcast form of an outbox record; a large payload is replaced by its size. Pure."""
    out: dict[str, Any] = {
        "at": record["at"],
        "type": record["type"],
        "agent_id": agent_id,
        "ref": record["seq"],
        "epoch": record["epoch"],
    }
    if record.get("task_id") is not None:
        out |= {key: record[key] for key in ("task_id", "title") if record.get(key)}
    out["by"] = record["by"]
    if record.get("payload") is not None:
        size = len(orjson.dumps(record["payload"]))
        if size <= BROADCAST_PAYLOAD_BYTES:
            out["payload"] = record["payload"]
        else:
            out["payload_bytes"] = size
    out |= {key: record[key] for key in ("reason", "kind", "until") if record.get(key)}
    return out


def open_run(
    paths: Paths,
    run_id: str,
    file: dict[str, Any],
    syncer: Syncer,
    durability: Literal["fsync", "os"],
    *,
    clean: bool,
    segment_bytes: int | None = None,
    known: KnownRun | None = None,
) -> TeamRun:
    """Open the broadcast of the run with the run.json ``file``, folding the refs after the ``known`` position.

    Raises Corrupt if the log has lost records that were on the disk when they were cached.
    """
    from orchestrator.journal.log import Journal  # noqa: PLC0415  (the command line, which only reads, does without asyncio)

    path = paths.broadcast(run_id)
    if known is not None and known.gen != file.get("gen"):
        known = None  # of a former broadcast; a power cut brings it back, for the cache is not synced
    refs = dict(known.refs) if known else {}
    first = [known.born] if known else []

    def fold(record: dict[str, Any]) -> None:
        refs[record["agent_id"]] = record["ref"]
        if not first:
            first.append(record["crc"])

    try:
        journal = Journal.open(
            path,
            syncer=syncer,
            types=BROADCAST_TYPES,
            durability=durability,
            clean=clean,
            on_record=fold,
            segment_bytes=segment_bytes,
            start=known.position if known else None,
            seal=paths.provenance.seal("run", run_id, "broadcast"),
        )
    except WrongPosition:
        run = open_run(paths, run_id, file, syncer, durability, clean=clean, segment_bytes=segment_bytes)
        assert known is not None
        if (
            not file.get("home")  # else this host may have died while it set the former broadcast aside
            and known.lasting
            and durability == "fsync"
            and run.born == known.born
            and run.journal.last_seq < known.position.seq
        ):
            run.journal.close()
            raise cut_short(path, run.journal.last_seq, known.position.seq) from None
        return run
    since = journal.last_seq - (known.position.seq if known else 0)
    return TeamRun(run_id, paths.run_json(run_id), file, journal, paths.provenance, refs, "".join(first), since)


def cut_short(path: Path, last: int, known: int) -> Corrupt:
    """The error for a log that ends before a record which was on the disk."""
    file, line = place(path, last)
    return Corrupt(
        "corrupt_log",
        f"{file}: the log ends with record {last}, and record {known} was on the disk already: records were lost",
        "orchestrator doctor shows file and line; if you restored an older copy, stop the daemon and remove "
        ".agents/cache.sqlite",
        file=str(file),
        line=line,
        seq=last,
    )


def new_run(
    paths: Paths,
    run_id: str,
    file: dict[str, Any],
    syncer: Syncer,
    durability: Literal["fsync", "os"],
    *,
    segment_bytes: int | None = None,
) -> TeamRun:
    """Make the directory and the files of a new run, durably; on an error nothing is left."""
    directory = paths.run_dir(run_id)
    run = None
    try:
        make_dir(directory)
        _make_lasting(paths.runs)
        run = open_run(paths, run_id, file, syncer, durability, clean=True, segment_bytes=segment_bytes)
        run.save()
    except OrchestratorError:
        if run is not None:
            run.journal.close()
        with contextlib.suppress(OSError):  # leftovers name no run and are skipped
            paths.run_json(run_id).unlink(missing_ok=True)
            paths.broadcast(run_id).unlink(missing_ok=True)
            directory.rmdir()
        raise
    return run


def _make_lasting(runs: Path) -> None:
    """Sync the names of the runs: a daemon may have died when it had made this run's directory, before it did.

    After a power cut the run would be gone. A run of a fleet has the same id when it is made again.
    """
    try:
        REAL.fsync_dir(runs)
    except OSError as error:
        raise failure(runs, error) from error


def open_runs(
    paths: Paths,
    syncer: Syncer,
    durability: Literal["fsync", "os"],
    *,
    clean: bool,
    segment_bytes: int | None = None,
    known: Callable[[str], KnownRun | None] = lambda _: None,
) -> dict[str, TeamRun | OrchestratorError]:
    """Every run of the project, or the error that prevents reading it."""
    runs: dict[str, TeamRun | OrchestratorError] = {}
    if not paths.runs.is_dir():
        return runs
    for directory in sorted(paths.runs.iterdir()):
        run_id = directory.name
        if not (directory / "run.json").is_file() or paths.is_collected(directory):
            continue
        try:
            check_id(run_id, "run id")
            file = own_run_file(paths, run_id)
            runs[run_id] = open_run(
                paths, run_id, file, syncer, durability, clean=clean, segment_bytes=segment_bytes, known=known(run_id)
            )
        except OrchestratorError as error:
            runs[run_id] = error
    return runs


def write_run_file(path: Path, file: dict[str, Any], provenance: Provenance) -> None:
    """Write run.json atomically and durably, with the seal of this machine."""
    sealed = provenance.sealed(file, "run", path.parent.name)
    replace(path, orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n", mode=0o600)


def own_run_file(paths: Paths, run_id: str) -> dict[str, Any]:
    """As `run_file`, but raises Environment foreign_data for a file that was not written on this machine.

    Its pids, panes and paths belong to another machine.
    """
    file = run_file(paths, run_id)
    if not paths.provenance.owns(file, "run", run_id):
        path = paths.run_json(run_id)
        raise Environment("foreign_data", f"{path} was not written on this machine", file=str(path))
    return {key: value for key, value in file.items() if key != KEY}


def run_file(paths: Paths, run_id: str) -> dict[str, Any]:
    """run.json of a run, of any origin; Corrupt if it is not in our format."""
    path = paths.run_json(run_id)
    content = read_json(path)
    if not isinstance(content, dict) or content.get("v") != 1 or content.get("run_id") != run_id:
        raise Corrupt("corrupt_log", f"{path}: not a run file of this version", file=str(path), line=1)
    return content
