"""Garbage collection (`gc`): which data, processes and panes are no longer needed, and their removal.

The plan is pure: facts in, items out. Its execution touches the files of deleted agents and ended runs, and ends
processes and panes that are proven to be ours (`orphans`, tags). Every step may be interrupted: `collected.json` is
written first and marks data that is being removed, so the next run finds the rest. It stays, because it also marks
the id as taken.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base import failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.base.platform import file_trees, process_facts
from orchestrator.journal.project_files import FENCED, replace
from orchestrator.journal.removal import measure, remove
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.recovery import orphans
from orchestrator.team.recovery.orphans import ProvenProcess
from orchestrator.team.roster import screen_files
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.mirrored_logs import forget_accepted
from orchestrator.team.roster.roster import Roster
from orchestrator.team.worktrees import inspection, worktrees

SETTLED_S = 10.0
"""How long gc waits for the end of what is being done for an agent."""
OVER = "its agent was deleted"


@dataclass(frozen=True)
class GarbageData:
    """The directory of an agent or a run: its kind, when it ended or moved away, its size.

    ``ended_at`` is None if it has not ended; ``collected``: gc has begun with it; ``rest``: files except
    `collected.json` and artifacts; ``members`` of a run are its agents that still have data.
    """

    kind: str  # agent | replica (of an agent on another host) | fenced agent (one that has moved away) | run
    name: str
    ended_at: str | None
    collected: bool = False
    rest: tuple[int, int] = (0, 0)  # files, bytes
    artifacts: tuple[int, int] = (0, 0)
    members: frozenset[str] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class AgentLaunch:
    """The state of an agent: its life and its epoch."""

    life: str
    epoch: int


@dataclass(frozen=True)
class GarbageItem:
    """One thing to remove.

    ``kind`` is process, pane, temporary directory, agent, replica, fenced agent, artifacts or run.
    """

    kind: str
    name: str
    why: str
    files: int = 0
    bytes: int = 0
    note: str = ""
    proven: ProvenProcess | None = field(default=None, repr=False)
    pane: tuple[str, str] = ("", "")  # run id, agent id

    def row(self) -> dict[str, Any]:
        """What the caller is answered."""
        return {key: value for key, value in asdict(self).items() if key not in ("proven", "pane")}


# -- the plan -------------------------------------------------------------------------------------------------------


def plan_data(data: Iterable[GarbageData], now: str, age_s: float, *, artifacts: bool) -> list[GarbageItem]:
    """What of the agents' and runs' data is old enough; a run goes only when all of its agents have gone.

    Nothing that ended in the future is touched: then a clock was wrong, and no age is known.
    """
    items: list[GarbageItem] = []
    gone: set[str] = set()
    directories = list(data)
    for agent in (directory for directory in directories if directory.kind != "run"):
        due = agent.collected or _old(agent.ended_at, now, age_s)
        if due and (agent.rest[0] or not agent.collected):
            files, size = agent.rest
            note = agent.note
            if agent.artifacts[0] and not artifacts:
                count, artifact_bytes = agent.artifacts
                remark = f"{count} files in artifacts/ stay ({artifact_bytes} bytes); --artifacts removes them"
                note = f"{note}; {remark}" if note else remark
            how = "moved to another host" if agent.kind == "fenced agent" else "deleted"
            why = "its removal was interrupted" if agent.collected else f"{how} at {agent.ended_at}"
            items.append(GarbageItem(agent.kind, agent.name, why, files, size, note))
        if due and artifacts and agent.artifacts[0]:
            items.append(GarbageItem("artifacts", agent.name, "asked for", *agent.artifacts))
        if due:
            gone.add(agent.name)
    for run in (directory for directory in directories if directory.kind == "run"):
        if run.collected:
            items.append(GarbageItem("run", run.name, "its removal was interrupted", *run.rest))
        elif _old(run.ended_at, now, age_s) and run.members <= gone:
            items.append(
                GarbageItem("run", run.name, f"ended at {run.ended_at}, all its agents are collected", *run.rest)
            )
    return items


def kept_for_now(data: Iterable[GarbageData], now: str, age_s: float) -> dict[str, Any]:
    """What has ended and is not old enough: ``{agents, runs, bytes, until, until_all}``.

    The times (RFC 3339) are when the first and the last of it becomes old enough; None if nothing is kept, or for
    longer than there are dates.
    """
    waiting = [item for item in data if item.ended_at is not None and not item.collected]
    waiting = [item for item in waiting if not _old(item.ended_at, now, age_s)]
    ends = sorted(datetime.fromisoformat(str(item.ended_at)) for item in waiting)
    return {
        "agents": sum(item.kind == "agent" for item in waiting),
        "runs": sum(item.kind == "run" for item in waiting),
        "bytes": sum(item.rest[1] + item.artifacts[1] for item in waiting),
        "until": _later(ends[0], age_s) if ends else None,
        "until_all": _later(ends[-1], age_s) if ends else None,
    }


def _later(at: datetime, seconds: float) -> str | None:
    try:
        return rfc3339(at + timedelta(seconds=seconds))
    except OverflowError:
        return None


def _old(at: str | None, now: str, age_s: float) -> bool:
    if at is None:
        return False
    passed = (datetime.fromisoformat(now) - datetime.fromisoformat(at)).total_seconds()
    return passed >= max(0.0, age_s)


def plan_processes(
    recorded: Iterable[ProvenProcess], inherited: Iterable[ProvenProcess], lives: Mapping[str, AgentLaunch]
) -> list[GarbageItem]:
    """Processes whose agent has ended or is at a later launch; processes without proof are left out.

    ``recorded`` are proven by the agents' own files, ``inherited`` by their environment: the latter may be any
    program that an agent has started, and are ended only if the agent is deleted.
    """
    items: dict[tuple[int, int], GarbageItem] = {}
    for process in recorded:
        now = lives.get(process.agent_id)
        if now is None:
            continue
        if now.life in FINAL_LIVES:
            why = f"its agent is {now.life}"
        elif process.epoch < now.epoch:
            why = f"it belongs to launch {process.epoch} of its agent, which is at launch {now.epoch}"
        else:
            continue
        items[process.pid, process.began] = GarbageItem(
            "process", f"{process.pid} of {process.agent_id}", why, proven=process
        )
    for process in inherited:
        now = lives.get(process.agent_id)
        if now is not None and now.life == "deleted":
            item = GarbageItem("process", f"{process.pid} of {process.agent_id}", OVER, proven=process)
            items.setdefault((process.pid, process.began), item)
    return [items[key] for key in sorted(items)]


# -- the facts and the acts -----------------------------------------------------------------------------------------


class GarbageCollection:
    """gc over the team that a supervisor tends."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._roster: Roster = supervisor.roster
        self._at_work = asyncio.Lock()

    async def run(self, *, apply: bool, age_s: float, artifacts: bool) -> dict[str, Any]:
        """What gc would remove, or with ``apply`` has removed: ``{applied, older_than_s, items, bytes, kept}``.

        Each item has ``done``; an item that could not be removed has an ``error`` and does not stop the others.
        """
        async with self._at_work:
            rows: list[dict[str, Any]] = []
            for items in (self._processes, self._panes, self._temporary):
                rows += [await self._collect_item(item, apply=apply) for item in await items()]
            data = await asyncio.to_thread(self._data)
            now = rfc3339(self._roster.clock.now())
            for item in plan_data(data, now, age_s, artifacts=artifacts):
                rows.append(await self._collect_item(item, apply=apply))
        return {
            "applied": apply,
            "older_than_s": age_s,
            "items": rows,
            "bytes": sum(row["bytes"] for row in rows),
            "kept": kept_for_now(data, now, age_s),
        }

    async def _collect_item(self, item: GarbageItem, *, apply: bool) -> dict[str, Any]:
        row = {**item.row(), "done": False}
        if not apply:
            return row
        acts = {
            "process": self._end_process,
            "pane": self._close_pane,
            "temporary directory": self._remove_temporary,
            "agent": self._collect_agent,
            "replica": self._collect_replica,
            "fenced agent": self._remove_fenced,
            "artifacts": self._remove_artifacts,
            "run": self._collect_run,
        }
        try:
            await acts[item.kind](item)
        except OrchestratorError as error:
            return {**row, "error": error.as_dict()}
        return {**row, "done": True}

    def _directories(self, place: Path) -> list[Path]:
        if not place.is_dir():
            return []
        return [path for path in sorted(place.iterdir()) if path.is_dir() and not path.is_symlink()]

    def _collected(self) -> set[str]:
        paths = self._roster.paths
        return {path.name for path in self._directories(paths.agents) if paths.is_collected(path)}

    def _lives(self) -> dict[str, AgentLaunch]:
        lives = {
            name: AgentLaunch(entry.state.life, entry.state.epoch) for name, entry in self._roster.agents.items()
        }
        return {**{name: AgentLaunch("deleted", 0) for name in self._collected()}, **lives}

    def _data(self) -> list[GarbageData]:
        roster, paths = self._roster, self._roster.paths
        data: list[GarbageData] = []
        for path in self._directories(paths.agents):
            collected, entry = paths.is_collected(path), roster.agents.get(path.name)
            ended = entry is not None and entry.state.life == "deleted" and entry.agent_id not in roster.corrupt
            if not (collected or ended):
                continue
            ended_at = _deleted_at(entry) if entry is not None and ended else None
            note = _worktree_note(roster.root, entry) if entry is not None else ""
            artifacts = self._artifacts(path.name)
            data.append(GarbageData("agent", path.name, ended_at, collected, self._rest(path), artifacts, note=note))
        for name, replica in roster.replicas.items():
            if replica.state.life == "deleted":
                rest, left = self._rest(paths.agent_dir(name)), self._artifacts(name)
                data.append(GarbageData("replica", name, _deleted_at(replica), rest=rest, artifacts=left))
        for path in self._directories(paths.agents):
            if FENCED.fullmatch(path.name):
                moved_at = rfc3339(datetime.fromtimestamp(path.stat().st_mtime, UTC))
                rest, artifacts = self._rest(path), self._artifacts(path.name)
                begun = not rest[0] and bool(artifacts[0])
                data.append(GarbageData("fenced agent", path.name, moved_at, begun, rest, artifacts))
        for path in self._directories(paths.runs):
            run = roster.runs.get(path.name)
            collected = paths.is_collected(path)
            if not collected and (run is None or run.live or run.file["agents"] or roster.corrupt):
                continue  # a corrupt agent may be one of this run: nobody knows
            members = frozenset(entry.agent_id for entry in roster.members(path.name))
            ended_at = str(run.file["ended_at"]) if run is not None else None
            data.append(GarbageData("run", path.name, ended_at, collected, self._rest(path), members=members))
        return data

    def _rest(self, directory: Path) -> tuple[int, int]:
        sizes = [measure(path) for path in self._removable(directory)]
        return sum(files for files, _ in sizes), sum(size for _, size in sizes)

    def _artifacts(self, agent_id: str) -> tuple[int, int]:
        """Files and bytes of what the agent left; its kept screens are ours, and go with its other files."""
        files, size = measure(self._roster.paths.artifacts(agent_id))
        folder = screen_files.folder_of(self._roster.paths, agent_id)
        screens = measure(folder) if screen_files.is_ours(folder) else (0, 0)
        return files - screens[0], size - screens[1]

    def _removable(self, directory: Path) -> list[Path]:
        kept = {self._roster.paths.collected(directory).name, "artifacts"}
        rest = [path for path in sorted(directory.iterdir()) if path.name not in kept]
        screens = screen_files.folder_of(self._roster.paths, directory.name)
        of_agent = directory.parent == self._roster.paths.agents
        return [screens, *rest] if of_agent and screen_files.is_ours(screens) else rest

    # -- processes and panes ------------------------------------------------------------------------------------

    async def _processes(self) -> list[GarbageItem]:
        roster = self._roster
        recorded = [process for name in roster.agents for process in orphans.by_record(roster.paths, name)]
        inherited = await asyncio.to_thread(orphans.by_environment, roster.root)
        return plan_processes(recorded, inherited, self._lives())

    async def _end_process(self, item: GarbageItem) -> None:
        assert item.proven is not None
        roster, process = self._roster, item.proven
        now = self._lives().get(process.agent_id)
        if now is None or not (now.life in FINAL_LIVES or process.epoch < now.epoch):
            return
        await orphans.end(process, roster.config().kill_grace_s, roster.clock)
        failpoints.passed("gc:process-ended")
        if process_facts.alive(process.pid, process.began):
            raise Environment("io_failed", f"process {process.pid} of agent {process.agent_id} does not end")

    async def _panes(self) -> list[GarbageItem]:
        """Panes of deleted agents that have both of our tags, on the server that their run was made on."""
        lives = self._lives()
        items: list[GarbageItem] = []
        for run in self._roster.runs.values():
            for agent_id, pane in sorted((await self._supervisor.team_panes.tagged(run)).items()):
                if lives.get(agent_id, AgentLaunch("", 0)).life == "deleted":
                    items.append(
                        GarbageItem("pane", f"{pane.pane_id} of {agent_id}", OVER, pane=(run.run_id, agent_id))
                    )
        return items

    async def _close_pane(self, item: GarbageItem) -> None:
        run_id, agent_id = item.pane
        run = self._roster.runs.get(run_id)
        if run is not None and self._lives().get(agent_id, AgentLaunch("", 0)).life == "deleted":
            await self._supervisor.team_panes.remove(run, agent_id)
            failpoints.passed("gc:pane-closed")

    # -- temporary directories ----------------------------------------------------------------------------------

    async def _temporary(self) -> list[GarbageItem]:
        """What a process that outlived its agent or member kept from being removed when that ended."""
        paths = await asyncio.to_thread(self._roster.temporary.leftovers)
        why = "its agent or squad member has ended"
        return [
            GarbageItem("temporary directory", str(path), why, *await asyncio.to_thread(file_trees.measure, path))
            for path in paths
        ]

    async def _remove_temporary(self, item: GarbageItem) -> None:
        if not await self._roster.temporary.remove([Path(item.name)]):
            raise Environment("io_failed", f"{item.name} is not empty: a process writes there, or it has a mount")

    # -- data ---------------------------------------------------------------------------------------------------

    async def _collect_agent(self, item: GarbageItem) -> None:
        roster, directory = self._roster, self._roster.paths.agent_dir(item.name)
        entry = roster.agents.get(item.name)
        if entry is not None:
            await self._supervisor.settled(entry, roster.clock.monotonic() + SETTLED_S)
            if entry.state.life != "deleted":
                return
            note = _agent_note(entry, rfc3339(roster.clock.now()))
            # First: a worktree that holds work is kept, and with it what the records say of it.
            await asyncio.to_thread(remove_worktree, roster.root, entry)
            if (fleet := roster.posted(item.name)) is not None:
                await fleet.forget(item.name)  # its mirror goes with the data of the home of its run
            await asyncio.to_thread(self._mark, directory, note)
        failpoints.passed("gc:agent-marked")
        roster.forget_collected(item.name)
        # Before the rest: as long as something of that is there, the next run comes here again.
        if not self._artifacts(item.name)[0]:
            await asyncio.to_thread(remove, roster.paths.artifacts(item.name))
        for path in self._removable(directory):
            await asyncio.to_thread(remove, path)
            failpoints.passed("gc:agent-file")
        await asyncio.to_thread(forget_accepted, roster.paths, item.name)

    async def _collect_replica(self, item: GarbageItem) -> None:
        roster, directory = self._roster, self._roster.paths.agent_dir(item.name)
        entry = roster.replicas.get(item.name)
        if entry is None or entry.state.life != "deleted":
            return
        if roster.fleet is not None:
            await roster.fleet.forget(item.name)
        await asyncio.to_thread(self._mark, directory, _agent_note(entry, rfc3339(roster.clock.now())))
        failpoints.passed("gc:replica-marked")
        del roster.replicas[item.name]
        for journal in entry.logs.values():
            journal.close()
        for path in self._removable(directory):
            await asyncio.to_thread(remove, path)

    async def _remove_fenced(self, item: GarbageItem) -> None:
        directory = self._roster.paths.agent_dir(item.name)
        moved = directory.stat()
        for path in self._removable(directory):
            await asyncio.to_thread(remove, path)
            failpoints.passed("gc:fenced-file")
        if self._artifacts(item.name)[0]:
            os.utime(directory, ns=(moved.st_atime_ns, moved.st_mtime_ns))  # its age must not begin anew
        else:
            await asyncio.to_thread(remove, directory)

    async def _remove_artifacts(self, item: GarbageItem) -> None:
        await asyncio.to_thread(remove, self._roster.paths.artifacts(item.name))
        failpoints.passed("gc:artifacts")

    async def _collect_run(self, item: GarbageItem) -> None:
        roster, directory = self._roster, self._roster.paths.run_dir(item.name)
        async with self._supervisor.team_panes.placing:  # no agent enters it meanwhile
            run = roster.runs.get(item.name)
            if run is not None:
                if run.live or roster.members(run.run_id):
                    return
                await asyncio.to_thread(self._mark, directory, _run_note(run, rfc3339(roster.clock.now())))
                failpoints.passed("gc:run-marked")
                roster.runs.pop(item.name)
                run.journal.close()
                roster.checkpoints.forget_run(item.name)
            for path in self._removable(directory):
                await asyncio.to_thread(remove, path)
                failpoints.passed("gc:run-file")
            await asyncio.to_thread(remove, directory)

    def _mark(self, directory: Path, note: dict[str, Any]) -> None:
        paths = self._roster.paths
        if not paths.is_collected(directory):
            sealed = paths.provenance.sealed(note, "collected", directory.name)
            data = orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n"
            replace(paths.collected(directory), data, mode=0o600)


def remove_worktree(root: Path, entry: AgentEntry) -> None:
    """Remove the worktree that the agent was given, if it still has it; raises when that holds work."""
    if entry.state.spec.get("worktree") and inspection.place_of(root, entry.agent_id) is not None:
        worktrees.remove(root, entry.agent_id)


def _worktree_note(root: Path, entry: AgentEntry) -> str:
    if not entry.state.spec.get("worktree") or inspection.place_of(root, entry.agent_id) is None:
        return ""
    free, why = worktrees.removable(root, entry.agent_id)
    return "its worktree goes too" if free else f"its worktree is kept, and with it the agent: {why}"


def _deleted_at(entry: AgentEntry) -> str | None:
    last = entry.outbox.tail(1, 1 << 20)
    return str(last[-1]["at"]) if last and last[-1]["type"] == "deleted" else None


def _agent_note(entry: AgentEntry, at: str) -> dict[str, Any]:
    spec = entry.state.spec
    return {
        "agent_id": entry.agent_id,
        "name": spec.get("name", entry.agent_id),
        "role": spec.get("role", ""),
        "engine": spec.get("engine", ""),
        "run_id": entry.run_id,
        "created_at": entry.state.created_at,
        "deleted_at": _deleted_at(entry),
        "collected_at": at,
        "finished": dict(entry.state.outcomes),
    }


def _run_note(run: TeamRun, at: str) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "created_at": run.file["created_at"],
        "ended_at": run.file["ended_at"],
        "collected_at": at,
    }
