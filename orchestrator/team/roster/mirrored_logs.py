"""Logs that the fleet's mirror has of another host's agent: kept here as a replica, or of an agent that moves here.

A replica is a cache: whoever finds it damaged drops it, and the lines are read from the mirror again. A takeover
writes the former owner's lines into a new directory, and keeps what was accepted of them as their seal. Writes no
record of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import orjson

from orchestrator.base import failpoints
from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.core import state
from orchestrator.journal.log import SEGMENT_BYTES, Journal
from orchestrator.journal.log_lines import Record
from orchestrator.journal.project_files import (
    Paths,
    check_id,
    ensure_agents_dir,
    failure,
    make_dir,
    replace,
)
from orchestrator.journal.removal import remove
from orchestrator.journal.segments import log_exists, log_files
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import REAL, SysIO
from orchestrator.team.roster.agent_fold import located
from orchestrator.team.roster.loading import TYPES
from orchestrator.team.roster.replica_files import AgentOwner, as_noted, note_of, owner_of
from orchestrator.trust import accepted_logs
from orchestrator.trust.accepted_logs import AcceptedPrefix, GrowingPrefix
from orchestrator.trust.seals import Seal
from orchestrator.trust.state_dir import StateDirUnsafe

AT_ONCE = 500
_UNFINISHED = re.compile(r"\.(.+)\.(?:taking|dropped)")


# -- an agent that moves to this host -------------------------------------------------------------------------------


def take_over(
    paths: Paths,
    agent_id: str,
    inbox: Iterable[bytes],
    outbox: Iterable[bytes],
    *,
    segment_bytes: int = SEGMENT_BYTES,
    io: SysIO = REAL,
) -> state.Agent:
    """Make the agent's directory of the mirrored lines (without newlines); its state. `take_up` can load it.

    The caller has checked the fence and what this host accepts. A replica in its place is dropped; anything else
    there is not touched: Environment ``io_failed``. Corrupt if the lines are no logs of an agent. Nothing counts
    before the directory has its name, the last step: after an error, or a crash before that, the call is repeated.
    """
    check_id(agent_id, "agent_id")
    ensure_agents_dir(paths)
    directory, taking = paths.agent_dir(agent_id), paths.agents / f".{agent_id}.taking"
    _check_free(paths, directory)
    remove(taking, io)
    try:
        for place in (taking, taking / "artifacts", taking / "engine"):
            make_dir(place, io=io)
        agent = state.Agent(agent_id)
        prefixes = {
            name: _written(taking / f"{name}.jsonl", agent, lines, segment_bytes, io)
            for name, lines in (("inbox", inbox), ("outbox", outbox))
        }
        if agent.life == "new":
            raise Corrupt("corrupt_log", f"the mirror has no first record of agent {agent_id}", line=1)
        failpoints.passed("takeover:written")
        _accept(paths, agent_id, prefixes)
        failpoints.passed("takeover:accepted")
        drop_replica(paths, agent_id, io)
        failpoints.passed("takeover:replica-dropped")
        _rename(taking, directory, io)
        failpoints.passed("takeover:done")
    except OrchestratorError:
        with contextlib.suppress(OrchestratorError):
            remove(taking, io)
        raise
    return agent


def _written(path: Path, agent: state.Agent, lines: Iterable[bytes], segment_bytes: int, io: SysIO) -> AcceptedPrefix:
    """Write one log durably and fold it; what there is to accept of it."""
    syncer = Syncer(lambda _error: None, threads=0)
    journal = Journal.open(
        path, syncer=syncer, types=TYPES[path.stem], io=io, durability="os", segment_bytes=segment_bytes
    )
    growing, rest = GrowingPrefix(), iter(lines)
    try:
        while batch := list(islice(rest, AT_ONCE)):
            _fold(agent, journal, journal.extend(batch, sync=False))
            for line in batch:
                growing.add(line)
    finally:
        journal.close()
    try:
        for file in log_files(path, io):
            fd = io.open(file, os.O_RDONLY)
            try:
                io.fsync(fd)
            finally:
                io.close(fd)
        io.fsync_dir(path.parent)
    except OSError as error:
        raise failure(path, error) from error
    return growing.prefix


def _accept(paths: Paths, agent_id: str, prefixes: dict[str, AcceptedPrefix]) -> None:
    identity = paths.provenance.identity
    assert identity is not None, "ensure_agents_dir has given the directory an identity"
    try:
        for name, prefix in prefixes.items():
            accepted_logs.store(identity, agent_id, name, prefix)
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error
    except OSError as error:
        raise failure(identity.place, error) from error


def forget_accepted(paths: Paths, agent_id: str) -> None:
    """Drop the seal of a taken-over agent whose data gc has removed."""
    identity = paths.provenance.identity
    try:
        if identity is not None:
            accepted_logs.forget(identity, agent_id)
    except OSError as error:
        raise failure(identity.place if identity else paths.home, error) from error


def _fold(agent: state.Agent, journal: Journal, records: Sequence[Record]) -> None:
    for record in records:
        try:
            state.apply(agent, journal.path.stem, record)
        except Corrupt as error:
            raise located(error, journal.path) from None


# -- a replica ------------------------------------------------------------------------------------------------------


class ReplicaLog(Journal):
    """A log of a replica. Beside it stands what this host has written of it, with a seal of this host.

    The lines have the seal of the host that wrote them. They count only if the log ends where the note says, and
    is by its digest what this host wrote: a stranger's line would be repeated to the masters.
    """

    _note: Path | None = None
    _seal_of_note: Seal
    _growing: GrowingPrefix

    def countersign(self, seal: Seal) -> bool:
        """Compare the log with its note, and keep that up to date; False if the log is not what the note says."""
        growing = as_noted(self.path, seal)
        if growing is None:
            return False
        self._note, self._seal_of_note, self._growing = note_of(self.path), seal, growing
        return True

    def extend(self, lines: Sequence[bytes], *, sync: bool) -> list[Record]:
        """As of every journal; the note follows the lines."""
        records = super().extend(lines, sync=sync)
        if records and self._note is not None:
            for line in lines:
                self._growing.add(line)
            note = orjson.dumps(self._seal_of_note.sealed({"v": 1, **self._growing.prefix._asdict()}))
            # Written over in place, not replaced: seq only grows. An old note costs no more than reading all again.
            with contextlib.suppress(OSError):
                fd = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    os.pwrite(fd, note, 0)
                finally:
                    os.close(fd)
        return records


class Replica:
    """The open logs of another host's agent, and the state that they fold to; make one with `open_replica`.

    Nothing in it is durable: after a crash it has lost its end, or is damaged and made anew.
    """

    def __init__(self, agent_id: str, owner: AgentOwner) -> None:
        self.agent_id = agent_id
        self.owner = owner
        self.state = state.Agent(agent_id)
        self.logs: dict[str, Journal] = {}

    @property
    def inbox(self) -> Journal:
        return self.logs["inbox"]

    @property
    def outbox(self) -> Journal:
        return self.logs["outbox"]

    def extend(self, log: str, lines: Sequence[bytes]) -> list[Record]:
        """Add the next mirrored lines (without newlines) to a log. After a Corrupt, close the replica and drop it."""
        journal = self.logs[log]
        records = journal.extend(lines, sync=False)
        _fold(self.state, journal, records)
        return records

    def close(self) -> None:
        """Close the logs."""
        for journal in self.logs.values():
            journal.close()


def open_replica(
    paths: Paths, agent_id: str, owner: AgentOwner, syncer: Syncer, *, segment_bytes: int | None = SEGMENT_BYTES
) -> Replica:
    """The replica of that agent; an empty one if there was none, or if it is damaged or of another project.

    Environment ``io_failed`` if an agent of this host has the id. The caller compares its end with the mirror's.
    """
    check_id(agent_id, "agent_id")
    ensure_agents_dir(paths)
    directory = paths.agent_dir(agent_id)
    _check_free(paths, directory)
    known = owner_of(paths, agent_id)
    if known is not None and known.project != owner.project:
        drop_replica(paths, agent_id)
        known = None
    if known != owner:
        make_dir(directory)
        content = {"v": 1, "agent_id": agent_id, **owner._asdict()}
        sealed = paths.provenance.sealed(content, "mirror", agent_id)
        replace(paths.mirror(agent_id), orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n", mode=0o600)
    else:
        _make_lasting(directory)
    try:
        return _opened(paths, Replica(agent_id, owner), syncer, segment_bytes)
    except Corrupt:
        drop_replica(paths, agent_id)
    return open_replica(paths, agent_id, owner, syncer, segment_bytes=segment_bytes)


def _make_lasting(directory: Path, io: SysIO = REAL) -> None:
    """Sync the names in a directory that another daemon made: it may have died before it did.

    After a power cut there would be logs without `mirror.json`, in the place of an agent of this host.
    """
    try:
        io.fsync_dir(directory)
    except OSError as error:
        raise failure(directory, error) from error


def _opened(paths: Paths, replica: Replica, syncer: Syncer, segment_bytes: int | None) -> Replica:
    try:
        for name, types in TYPES.items():

            def apply(record: Record, log: str = name) -> None:
                state.apply(replica.state, log, record)

            log_opened = ReplicaLog.open(
                paths.agent_dir(replica.agent_id) / f"{name}.jsonl", syncer=syncer, types=types, durability="os",
                on_record=apply, segment_bytes=segment_bytes,
            )  # fmt: skip
            replica.logs[name] = log_opened
            _countersign(paths, replica.agent_id, log_opened)
    except BaseException:
        replica.close()
        raise
    return replica


def _countersign(paths: Paths, agent_id: str, log: ReplicaLog) -> None:
    seal = paths.provenance.seal("mirror", agent_id, log.path.stem)
    if seal is None or not log.countersign(seal):
        raise Corrupt("corrupt_log", f"{log.path} is not what this host wrote", line=1)


def drop_replica(paths: Paths, agent_id: str, io: SysIO = REAL) -> None:
    """Remove the replica of the agent, if there is one; nobody may have it open."""
    directory, dropped = paths.agent_dir(agent_id), paths.agents / f".{agent_id}.dropped"
    if paths.is_replica(directory):
        remove(dropped, io)
        # Never half of it under its own name: without mirror.json it would be taken for an agent of this host.
        _rename(directory, dropped, io)
        remove(dropped, io)


# -- directories that are no agents ---------------------------------------------------------------------------------


def fence_off(paths: Paths, agent_id: str, fence: int, io: SysIO = REAL) -> Path:
    """Set aside the directory of an agent that has moved to another host; where it is now. Harmless again.

    Nothing more may be written to its logs. It no longer counts as an agent, and gc removes it when it is old enough.
    """
    directory = paths.agent_dir(check_id(agent_id, "agent_id"))
    aside = paths.agents / f"{agent_id}.fenced-{fence}"
    if not directory.exists() and aside.exists():
        return aside
    while aside.exists():  # the same fence may be set aside twice: a takeover that was cut off is taken back
        fence += 1
        aside = paths.agents / f"{agent_id}.fenced-{fence}"
    try:
        os.utime(directory)  # gc goes by it
    except OSError as error:
        raise failure(aside, error) from error
    _rename(directory, aside, io)
    return aside


def remove_unfinished(paths: Paths) -> None:
    """Remove what a crash left of a takeover or of a replica that was being dropped; before the agents are loaded."""
    for directory in _unfinished(paths):
        remove(directory)


def _unfinished(paths: Paths) -> Iterator[Path]:
    for directory in sorted(paths.agents.iterdir()):
        if _UNFINISHED.fullmatch(directory.name) and directory.is_dir() and not directory.is_symlink():
            yield directory


def _check_free(paths: Paths, directory: Path) -> None:
    """Raise Environment if an agent of this host, or what is left of one, has the name."""
    mirror = os.path.lexists(paths.mirror(directory.name))
    taken = log_exists(paths.outbox(directory.name)) or paths.collected(directory).exists() or mirror
    if directory.is_symlink() or (taken and not paths.is_replica(directory)):
        raise Environment("io_failed", f"{directory} is in the way: it is no replica", file=str(directory))


def _rename(source: Path, target: Path, io: SysIO) -> None:
    try:
        if target.exists():  # empty: checked before
            target.rmdir()
        io.rename(source, target)
        try:
            io.fsync_dir(target.parent)
        except OSError:
            with contextlib.suppress(OSError):
                io.rename(target, source)
            raise
    except OSError as error:
        raise failure(target, error) from error
