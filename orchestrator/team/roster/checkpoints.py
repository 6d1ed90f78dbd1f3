"""Checkpoints of agents and runs in the project's cache: a start folds only the records after them.

A checkpoint is saved in a thread: at a clean end, while a log grows for long, and shortly after a log went quiet.
Only durable records are saved. With the checkpoint an agent's ended tasks leave memory; `Agent.ended` then reads the
cache.

The cache is never required. If it cannot be opened, written or trusted, one warning is logged, and the logs are
folded into memory instead: correct, only slower and larger.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import orjson
import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import Clock, Timer
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.waiting import give_way
from orchestrator.core import record_types, snapshot, state, task_words
from orchestrator.edge import project_location
from orchestrator.journal import cache as store_cache
from orchestrator.journal.cache import BrokenCache, Cache, CacheItem
from orchestrator.journal.log import Journal
from orchestrator.journal.positions import Position
from orchestrator.journal.project_files import Paths
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_fold import folded
from orchestrator.team.roster.broadcast import KnownRun, TeamRun

log = structlog.get_logger()

QUIET_S = 5.0
SAVE_AFTER = 500
"""Number of new records after which a busy agent or run gets another checkpoint."""
BYTES_PER_RECORD = 256
"""Assumed record size: a large checkpoint (many queued payloads) is saved less often than a small one."""
RETRY_S = 60.0
AT_ONCE = 8
"""Checkpoints in one transaction of the cache; each is taken in a turn of its own of the event loop."""
PIECE = 1000
"""Ended tasks that are handled in one turn: after a start without a cache there may be any number."""
PAUSE_S = 0.002
"""Between the pieces that the thread stores: it and the event loop share one interpreter."""


class KnownAgent(NamedTuple):
    """The cached facts of an agent: its state at the cached positions.

    ``lasting``: everything before the positions was on the disk, so a log that ends before them has lost records.
    """

    agent: state.Agent
    positions: dict[str, Position]
    lasting: bool


@dataclass(eq=False)
class _CheckpointOwner:
    """An agent or run, and its progress since its checkpoint."""

    what: AgentEntry | TeamRun
    unsaved: int = 0
    save_after: int = SAVE_AFTER
    quiet_at: float = 0.0


@dataclass(eq=False)
class _Checkpoint:
    """The data of one owner that is being saved.

    ``finished`` are the agent's ended tasks, to which the agent adds while they are saved, and ``ended`` the ids of
    those that are saved; None for a run.
    """

    name: str
    owner: _CheckpointOwner
    body: bytes
    anew: bool
    logs: list[tuple[Journal, int]]
    finished: dict[str, state.Finished]
    ended: list[str] | None
    unsaved: int

    def item(self, pause: Callable[[], object]) -> CacheItem:
        """The item for the cache; read in the thread, piece by piece, because there may be many tasks."""
        return CacheItem(self.name, self.body, None if self.ended is None else self._archived(pause), self.anew)

    def _archived(self, pause: Callable[[], object]) -> Iterator[tuple[str, bytes]]:
        # One sort of all would keep the interpreter from the event loop until its end.
        sorted_pieces = []
        for piece in _pieces(self.ended or ()):
            sorted_pieces.append(sorted(piece))
            pause()
        for task_id in merge(*sorted_pieces):
            yield task_id, orjson.dumps(snapshot.plain_finished(self.finished[task_id]))


class Checkpoints:
    """The checkpoints of one project; ``durability`` is that of its logs. Belongs to the event loop."""

    def __init__(self, paths: Paths, clock: Clock, durability: Callable[[], str]) -> None:
        self._paths = paths
        self._clock = clock
        self._durability = durability
        self._cache: Cache | None = None
        self._owners: dict[str, _CheckpointOwner] = {}
        self._behind: dict[str, None] = {}  # owners with records since their checkpoint, in order
        self._gone: set[str] = set()
        self._timer: Timer | None = None
        self._look_at = 0.0  # when the timer fires
        self._retry_at = 0.0
        self._warned = False
        self._saver: asyncio.Task[None] | None = None
        self._hurry = threading.Event()  # set: the thread makes no pauses, because something waits for its end

    def open(self) -> None:
        """Open the cache unless it is open; `.agents` must exist, be claimed, and have its identity."""
        seal = self._paths.provenance.seal("cache")
        if self._cache is not None or self._warned or seal is None:
            return
        try:
            self._cache = Cache.open(self._paths.cache, _form(), seal)
        except BrokenCache as error:
            self._warn(str(error))

    def close(self) -> None:
        """Close the cache; for a clean end await `finish` first."""
        self._hurry.set()
        self._behind.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    # -- reading ------------------------------------------------------------------------------------------------

    def agent(self, agent_id: str) -> KnownAgent | None:
        """The agent's checkpoint; None if there is none that can be trusted."""
        body = self._body(_agent(agent_id))
        if body is None:
            return None
        agent = snapshot.made(body["state"])
        agent.archive = self._archive(agent)
        positions = {name: Position(*fields) for name, fields in body["marks"].items()}
        return KnownAgent(agent, positions, body["lasting"])

    def run(self, run_id: str) -> KnownRun | None:
        """The run's checkpoint; None if there is none that can be trusted."""
        body = self._body(_run(run_id))
        if body is None:
            return None
        return KnownRun(body["refs"], body["born"], Position(*body["mark"]), body["lasting"], body["gen"])

    def _body(self, owner: str) -> dict[str, Any] | None:
        if self._cache is None:
            return None
        try:
            content = self._cache.checkpoint(owner)
        except BrokenCache as error:
            self._give_up(error)
            return None
        body: dict[str, Any] | None = None if content is None else orjson.loads(content)
        return body

    def _archive(self, agent: state.Agent) -> Callable[[str], state.Finished | None]:
        owner = _agent(agent.agent_id)
        missing = ""  # the id that was looked for last, if there was none: a new task is looked for three times

        def look(task_id: str) -> state.Finished | None:
            nonlocal missing
            if task_id == missing:
                return None
            if self._cache is not None:
                try:
                    content = self._cache.find(owner, task_id)
                    if content is not None:
                        return snapshot.made_finished(orjson.loads(content))
                    missing = task_id
                    return None
                except BrokenCache as error:
                    self._give_up(error)
            # From now on the logs are folded into memory completely: a task must not run twice.
            try:
                agent.finished = folded(self._paths, agent.agent_id)[0].finished
            except BadRequest:  # the agent is known, but its files disappeared with the cache
                path = self._paths.outbox(agent.agent_id)
                raise Environment("io_failed", f"{path} has gone while the daemon wrote it", file=str(path)) from None
            agent.archive = None
            return agent.finished.get(task_id)

        return look

    # -- what has to be saved -----------------------------------------------------------------------------------

    def went_on(self, what: AgentEntry | TeamRun, records: int = 1) -> None:
        """Note that records of the agent or run were written; its checkpoint follows, now or when it is quiet."""
        if not records:
            return
        name = _run(what.run_id) if isinstance(what, TeamRun) else _agent(what.agent_id)
        owner = self._owners.get(name)
        if owner is None or owner.what is not what:
            owner = self._owners[name] = _CheckpointOwner(what)
        owner.unsaved += records
        owner.quiet_at = self._clock.monotonic() + QUIET_S
        self._behind[name] = None
        self._look_in(0.0 if owner.unsaved >= owner.save_after else QUIET_S)

    def only(self, agents: set[str], runs: set[str]) -> None:
        """Remove all other agents and runs from the cache with the next save."""
        if self._cache is None:
            return
        try:
            self._gone |= (
                set(self._cache.owners()) - {_agent(name) for name in agents} - {_run(name) for name in runs}
            )
        except BrokenCache as error:
            self._give_up(error)

    def forget(self, agent_id: str) -> None:
        """Drop the agent's checkpoint: its files were collected or rewritten."""
        self._forget(_agent(agent_id))

    def forget_run(self, run_id: str) -> None:
        """As `forget`, for a run's broadcast."""
        self._forget(_run(run_id))

    def _forget(self, name: str) -> None:
        self._owners.pop(name, None)
        self._behind.pop(name, None)
        if self._cache is None:
            discard(self._paths)  # whatever made it unusable, the next start must not trust it
            return
        try:
            if self._cache.checkpoint(name) is not None:
                self._hurry.set()
                self._cache.save([], [name])
        except (OSError, BrokenCache) as error:
            self._give_up(error)
            discard(self._paths)

    def _look_in(self, seconds: float) -> None:
        at = self._clock.monotonic() + seconds
        if self._timer is not None:
            if self._look_at <= at:
                return
            self._timer.cancel()
        self._look_at = at
        self._timer = self._clock.timer(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._saver is None and self._due():
            self._saver = asyncio.get_running_loop().create_task(self._save_due())
        elif self._behind:
            self._look_in(QUIET_S)

    def _due(self) -> list[str]:
        now = self._clock.monotonic()
        if now < self._retry_at:
            return []
        due = [
            name
            for name in self._behind
            if now >= (owner := self._owners[name]).quiet_at or owner.unsaved >= owner.save_after
        ]
        return due[:AT_ONCE]

    # -- saving -------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Save all unsaved owners: for a clean end, when everything is durable."""
        self._hurry.set()
        while self._saver is not None:
            await asyncio.wait([self._saver])
        self._retry_at = 0.0
        self._saver = asyncio.get_running_loop().create_task(self._save_all())
        await self._saver

    async def _save_all(self) -> None:
        try:
            while (self._behind or (self._gone and self._cache is not None)) and self._retry_at == 0.0:
                await self._save(sorted(self._behind)[:AT_ONCE])
        finally:
            self._saver = None

    async def _save_due(self) -> None:
        self._hurry.clear()
        try:
            while due := self._due():
                await self._save(due)
        finally:
            self._saver = None
            if self._behind:
                self._look_in(QUIET_S)

    async def _save(self, names: list[str]) -> None:
        for name in names:
            self._behind.pop(name, None)
        if self._cache is None:
            self._unsaved(names)
            return
        checkpoints = []
        for name in names:
            if (checkpoint := self._take(name)) is not None:
                checkpoints.append(checkpoint)
            await give_way()
        synced = await asyncio.gather(*(_durable(checkpoint) for checkpoint in checkpoints))
        checkpoints = [checkpoint for checkpoint, durable in zip(checkpoints, synced, strict=True) if durable]
        gone, cache = sorted(self._gone), self._cache
        if cache is None:  # given up or closed while the records became durable
            self._unsaved(names)
            return
        try:
            await asyncio.to_thread(_write, cache, checkpoints, gone, lambda: self._hurry.wait(PAUSE_S))
        except OSError as error:
            self._warn(str(error))
            self._retry_at = self._clock.monotonic() + RETRY_S
            for checkpoint in checkpoints:
                if self._owners.get(checkpoint.name) is checkpoint.owner:
                    self._behind[checkpoint.name] = None
        except BrokenCache as error:
            self._give_up(error)
        else:
            self._gone.difference_update(gone)
            for checkpoint in checkpoints:
                if self._owners.get(checkpoint.name) is checkpoint.owner:
                    await self._saved(checkpoint)
                else:  # its files were rewritten meanwhile
                    self._forget(checkpoint.name)

    def _unsaved(self, names: list[str]) -> None:
        """Release what waits for a checkpoint that will not be saved."""
        for owner in filter(None, map(self._owners.get, names)):
            owner.unsaved = 0
            _rest(owner)

    def _take(self, name: str) -> _Checkpoint | None:
        owner = self._owners.get(name)
        if owner is None:  # forgotten while others were taken
            return None
        what, lasting = owner.what, self._durability() == "fsync"
        if isinstance(what, TeamRun):
            logs = {"broadcast": what.journal}
            about: dict[str, Any] = {
                "refs": what.refs, "born": what.born, "mark": what.journal.end(), "gen": what.file.get("gen"),
            }  # fmt: skip
            finished: dict[str, state.Finished] = {}
            ended = None
        else:
            snapshot.trim(what.state)
            logs = what.logs
            about = {"state": snapshot.plain(what.state), "marks": {n: journal.end() for n, journal in logs.items()}}
            finished = what.state.finished
            ended = list(finished)
        try:
            body = orjson.dumps({**about, "lasting": lasting}, default=_listed)
        except orjson.JSONEncodeError as error:  # a payload nested too deeply for orjson
            log.info("no checkpoint", owner=name, reason=str(error))
            return None
        anew = isinstance(what, AgentEntry) and what.state.archive is None
        ends = [(journal, journal.last_seq) for journal in logs.values()]
        return _Checkpoint(name, owner, body, anew, ends, finished, ended, owner.unsaved)

    async def _saved(self, checkpoint: _Checkpoint) -> None:
        owner, what = checkpoint.owner, checkpoint.owner.what
        owner.unsaved -= checkpoint.unsaved
        owner.save_after = max(SAVE_AFTER, len(checkpoint.body) // BYTES_PER_RECORD)
        if isinstance(what, AgentEntry) and self._cache is not None:
            agent = what.state
            agent.archive = self._archive(agent)  # a new one: what was missing in the old one may now be there
            for piece in _pieces(checkpoint.ended or ()):
                for task_id in piece:
                    checkpoint.finished.pop(task_id, None)
                await give_way()
        _rest(owner)

    # -- when it does not work ----------------------------------------------------------------------------------

    def _give_up(self, error: Exception) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            self._warn(str(error))
            cache.close()

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "the cache is not used; all is kept in memory, and the next start takes longer", reason=reason
            )


def discard(paths: Paths) -> None:
    """Remove the project's cache; only while no daemon runs."""
    store_cache.discard(paths.cache)


def _agent(agent_id: str) -> str:
    return f"agent:{agent_id}"


def _run(run_id: str) -> str:
    return f"run:{run_id}"


def _rest(owner: _CheckpointOwner) -> None:
    what = owner.what
    if isinstance(what, AgentEntry) and what.state.life == "deleted" and not owner.unsaved:
        what.rest()


async def _durable(checkpoint: _Checkpoint) -> bool:
    """Wait until everything taken is on the disk; False if it cannot be."""
    try:
        for journal, seq in checkpoint.logs:
            await journal.synced(seq)
    except OrchestratorError:
        return False  # the log was closed, or the daemon is about to exit
    return True


def _listed(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, set) else list(value)  # the same bytes in every process


def _pieces(task_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (task_ids[at : at + PIECE] for at in range(0, len(task_ids), PIECE))


def _write(cache: Cache, checkpoints: list[_Checkpoint], gone: list[str], pause: Callable[[], object]) -> None:
    failpoints.passed("cache:save:before")
    items = [checkpoint.item(pause) for checkpoint in checkpoints]
    cache.save(items, gone, lambda: failpoints.passed("cache:save:commit"), pause)
    failpoints.passed("cache:save:after")


def _form() -> int:
    """A number that changes with the meaning of a checkpoint: a hash of the sources of the fold and of this file."""
    try:
        sources = [Path(str(module.__file__)).read_bytes() for module in (state, task_words, record_types, snapshot)]
        sources.append(Path(__file__).read_bytes())
    except OSError:
        sources = [project_location.VERSION.encode()]
    return crc32(b"\0".join(sources)) & 0x7FFFFFFF
