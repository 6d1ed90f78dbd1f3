"""`doctor --fix`: quarantines and rewrites damaged logs and run files, and removes small leftovers.

The rules are in `agent_repair` and `broadcast_repair`. This file reads, ends the processes of an ended launch,
replaces the files in an order in which a crash at any step leaves a damaged log damaged, and loads the agents again.
It runs inside the daemon, the only writer.
"""

from __future__ import annotations

import asyncio
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import Corrupt, OrchestratorError
from orchestrator.journal.log_rewrite import keep, quarantine_name, rewrite
from orchestrator.journal.removal import chmod_private, remove
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.recovery import orphans
from orchestrator.team.recovery.damage_report import (
    blank_run,
    damage,
    engine_dirs,
    half_written,
    is_same,
    rebuilt_broadcast,
    repair_summary,
    repaired_agent,
    run_trouble,
)
from orchestrator.team.roster.broadcast import open_run, own_run_file, write_run_file
from orchestrator.team.roster.roster import Roster

SETTLED_S = 60.0


class TeamRepair:
    """The repairs of one team; one at a time."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._roster: Roster = supervisor.roster
        self._at_work = asyncio.Lock()

    async def run(self) -> dict[str, Any]:
        """Repair what can be repaired: ``{done: [{what, file, did, ...}], left: [error]}``; nothing twice."""
        async with self._at_work:
            self._done: list[dict[str, Any]] = []
            self._errors: list[OrchestratorError] = []
            self._at: datetime = self._roster.clock.now()
            if self._roster.paths.provenance.identity is None:
                self._errors += self._roster.corrupt.values()
                return {"done": [], "left": [error.as_dict() for error in self._errors]}
            await self._look()
            for run_id in self._unreadable_runs():
                await self._try(self._repair_run_file, run_id)
            agents = [name for name in sorted(self._roster.corrupt) if self._roster.paths.agent_dir(name).is_dir()]
            repaired_agents = [name for name in agents if await self._try(self._repair_agent, name)]
            for run_id in self._run_ids():
                await self._try(self._repair_broadcast, run_id)
            for agent_id in repaired_agents:
                await self._take_up(agent_id)
            self._roster.publish_missing()
            await self._tidy()
            await self._roster.flush()
        return {"done": self._done, "left": [error.as_dict() for error in self._errors]}

    async def _try(self, act: Any, name: str) -> bool:
        try:
            return bool(await act(name))
        except OrchestratorError as error:
            self._errors.append(error)
            return False

    def _did(self, what: str, file: Path | str, did: str, **facts: Any) -> None:
        self._done.append({"what": what, "file": str(file), "did": did, **facts})

    # -- what is damaged ----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Read every line on the disk: a log can be damaged while the daemon has it open."""
        roster = self._roster
        for agent_id in list(roster.agents):
            if await asyncio.to_thread(damage, roster.paths, agent_id) is None:
                continue
            error = damage(roster.paths, agent_id)  # again, with nobody writing
            if error is not None:
                entry = roster.agents[agent_id]
                roster.set_aside(agent_id, error)
                await self._supervisor.settled(entry, roster.clock.monotonic() + SETTLED_S)

    def _run_ids(self) -> list[str]:
        runs, paths = self._roster.paths.runs, self._roster.paths
        if not runs.is_dir():
            return []
        directories = [path for path in sorted(runs.iterdir()) if (path / "run.json").is_file()]
        return [path.name for path in directories if not paths.is_collected(path)]

    def _unreadable_runs(self) -> list[str]:
        return [name for name in self._run_ids() if run_trouble(self._roster.paths, name) is not None]

    # -- run.json -----------------------------------------------------------------------------------------------

    async def _repair_run_file(self, run_id: str) -> bool:
        """A new run.json of a run whose window is not known any more: its agents end, and can be deleted."""
        paths, path = self._roster.paths, self._roster.paths.run_json(run_id)
        quarantine, run = quarantine_name(path, self._at), self._roster.runs.get(run_id)
        did = "quarantined; its tmux window is no longer known, so its agents are ended and must be created again"
        if run is not None:
            did = "quarantined, and written again as the daemon knows it"
        file = run.file if run is not None else blank_run(paths, run_id, self._at)
        await asyncio.to_thread(keep, path, self._at)
        failpoints.passed("fix:kept")
        await asyncio.to_thread(write_run_file, path, file, paths.provenance)
        failpoints.passed("fix:run-file")
        self._did("run", path, did, kept_in=str(quarantine))
        return True

    # -- an agent's logs ----------------------------------------------------------------------------------------

    async def _repair_agent(self, agent_id: str) -> bool:
        roster, paths = self._roster, self._roster.paths
        error = roster.corrupt[agent_id]
        if not isinstance(error, Corrupt) or error.code != "corrupt_log":
            raise error  # of a newer version, or not readable: that is no damage
        # What the cache knows was true of the old files only, and proves a shorter new one to be cut.
        roster.checkpoints.forget(agent_id)
        await self._end_processes(agent_id)
        repaired = await asyncio.to_thread(repaired_agent, paths, agent_id, error, self._at)
        # The outbox first: between the two it tells of tasks that the old inbox lacks, or that inbox is damaged
        # anyway, so the agent is not loaded. The other way round it might be, with a task without its payload.
        logs = [(paths.outbox(agent_id), repaired.outbox), (paths.inbox(agent_id), repaired.inbox)]
        for path, lines in logs:
            if await asyncio.to_thread(is_same, path, lines):
                continue
            quarantine = quarantine_name(path, self._at)
            await asyncio.to_thread(keep, path, self._at)
            failpoints.passed("fix:kept")
            await asyncio.to_thread(rewrite, path, lines)
            failpoints.passed("fix:rewritten")
            self._did(
                "log",
                path,
                "quarantined, and rewritten with all records that could be saved",
                kept_in=str(quarantine),
            )
        roster.forget_collected(agent_id)
        did = repair_summary(repaired)
        self._did("agent", paths.agent_dir(agent_id), did, agent_id=agent_id, unknown=repaired.unknown)
        return True

    async def _end_processes(self, agent_id: str) -> None:
        """End every process of the ended launch."""
        roster = self._roster
        processes = orphans.by_record(roster.paths, agent_id)
        processes += [
            process
            for process in await asyncio.to_thread(orphans.by_environment, roster.root)
            if process.agent_id == agent_id
        ]
        for process in processes:
            how = await orphans.end(process, roster.config().kill_grace_s, roster.clock)
            if how != "gone already":
                self._did("process", f"{process.pid} of {agent_id}", f"ended with {how}")
        failpoints.passed("fix:processes-ended")

    async def _take_up(self, agent_id: str) -> None:
        roster = self._roster
        entry = roster.take_up(agent_id)
        if entry is None:
            if agent_id in roster.corrupt:
                self._errors.append(roster.corrupt[agent_id])
            return
        run = roster.runs.get(entry.run_id)
        entry.pane_id = run.file["agents"].get(agent_id) if run is not None else None
        entry.process = "gone"
        try:
            await roster.commit(entry, [])
        except OrchestratorError as error:
            self._errors.append(error)
        for listener in roster.listeners:
            listener(entry)
        self._supervisor.tend(entry)

    # -- a broadcast --------------------------------------------------------------------------------------------

    async def _repair_broadcast(self, run_id: str) -> bool:
        roster, paths = self._roster, self._roster.paths
        path, run = paths.broadcast(run_id), roster.runs.get(run_id)
        error = roster.corrupt.get(run_id)
        if error is not None and error.code == "foreign_data":
            raise error
        new = await asyncio.to_thread(rebuilt_broadcast, paths, run_id)
        if run is not None and await asyncio.to_thread(is_same, path, new):
            return False
        # On the loop from here: nothing is published between what is read now and the new file.
        new = rebuilt_broadcast(paths, run_id)
        damaged = not is_same(path, new)
        if run is not None:
            if not damaged:
                return False
            run.journal.close()
            run.forget_unwritten()
        if damaged:
            quarantine = quarantine_name(path, self._at)
            keep(path, self._at)
            failpoints.passed("fix:kept")
            rewrite(path, new)
            failpoints.passed("fix:broadcast")
            did = "quarantined, and rewritten from the agents' outboxes"
            self._did("broadcast", path, did, kept_in=str(quarantine))
        roster.checkpoints.forget_run(run_id)
        config = roster.config()
        opened = open_run(
            paths,
            run_id,
            own_run_file(paths, run_id),
            roster.syncer,
            config.durability,
            clean=False,
            segment_bytes=config.segment_bytes,
        )
        if run is None:
            roster.runs[run_id] = opened
        else:
            run.journal, run.refs, run.born = opened.journal, opened.refs, opened.born
        roster.checkpoints.went_on(roster.runs[run_id])
        roster.corrupt.pop(run_id, None)
        for entry in roster.agents.values():
            if run is None and entry.run_id == run_id:
                entry.pane_id = opened.file["agents"].get(entry.agent_id)
                self._supervisor.tend(entry)
        return True

    # -- small things -------------------------------------------------------------------------------------------

    async def _tidy(self) -> None:
        for path in half_written(self._roster.paths):
            await asyncio.to_thread(remove, path)
            self._did("half-written file", path, "removed")
        agents = [self._roster.paths.agent_dir(agent_id) for agent_id in self._roster.agents]
        for path in sorted(path for agent in agents for place in engine_dirs(agent)[:1] for path in place.iterdir()):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
                await asyncio.to_thread(chmod_private, path)
                self._did("permissions", path, "made yours alone (0600)")
