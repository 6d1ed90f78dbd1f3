"""Which host is the home of a run: its master reads there, and its one broadcast is written there.

A new master elsewhere takes the run (`FleetDatabase.take_run` raises `gen`). The new home derives the broadcast anew
from the logs of all agents; the former home writes nothing more of others. What the database says is carried out
again after a crash, because `gen` in run.json is written last.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from orchestrator.base import failpoints
from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.fleet.database_functions import Beat, FleetDatabase, RunHomeRow
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()


class RunHomes:
    """The runs that have agents in the fleet, as one host knows them."""

    def __init__(self, database: FleetDatabase, supervisor: Supervisor, *, host: str) -> None:
        self._database = database
        self._supervisor = supervisor
        self._roster: Roster = supervisor.roster
        self._host = host
        self._rows: dict[str, RunHomeRow] = {}
        self._source = ("", 0)  # incarnation and timeline of the database
        self._under_way: dict[str, None] = {}
        self._tasks = BackgroundTasks()

    async def close(self) -> None:
        """Stop; what is half done is done again by the next daemon."""
        await call_off(self._tasks)

    def beaten(self, beat: Beat) -> None:
        """Learn the homes, and carry out what has changed."""
        former = self._rows if self._source == (beat.incarnation, beat.timeline) else {}
        self._source = beat.incarnation, beat.timeline
        # An older row was read before this host took the run; only another copy of the database takes that back.
        self._rows = {row.run_id: _newer(row, former.get(row.run_id)) for row in beat.runs}
        for row in self._rows.values():
            run = self._roster.runs.get(row.run_id)
            here = row.home == self._host
            if run is None:
                outdated = here
            else:
                outdated = (run.file.get("gen") or 1) < row.gen or here == bool(run.file.get("home"))
            if outdated and row.run_id not in self._under_way:
                self._under_way[row.run_id] = None
                self._tasks.start(self._carry_out(row))

    def gen(self, run_id: str) -> int | None:
        """Which broadcast of the run this host has, counted from 1; None for a run without agents in the fleet."""
        run = self._roster.runs.get(run_id)
        kept = run.file.get("gen") if run is not None else None
        return kept or (1 if run_id in self._rows else None)

    def check(self, run_id: str, since_seq: int, gen: int | None) -> None:
        """Raise Conflict ``not_home`` at another host than the run's home, ``cursor_old`` for an older broadcast.

        A new home counts only once its broadcast is written: until then it has an older one, that of its own agents
        alone, or a new one under the number of the older.
        """
        row, run = self._rows.get(run_id), self._roster.runs.get(run_id)
        home = str(run.file.get("home") or "") if run is not None else ""
        if row is not None and row.home != self._host:
            home = row.home
        if home == self._host:
            raise Conflict(
                "not_home", f"host {home} becomes the home of {run_id}, and has no broadcast yet", "call again"
            )
        if home:
            raise Conflict(
                "not_home",
                f"the home of {run_id} is host {home}",
                f"read it there, or take the run: orchestrator fleet take-run {run_id}",
                host=home,
            )
        kept = self.gen(run_id) or 1  # also before the first renewal: the caller may have read another home's
        if since_seq and (gen or 1) != kept:
            raise Conflict(
                "cursor_old", f"since_seq {since_seq} belongs to an earlier broadcast of {run_id}", gen=kept
            )

    async def take(self, run_id: str) -> dict[str, object]:
        """Make this host the run's home; ``{run_id, home, gen}`` once its broadcast is written here.

        Raises Environment if this host's disk or tmux refuses: the run is taken then, and the next renewal goes on.
        """
        row = self._rows.get(run_id)
        known = 1 if row is None else row.gen
        while True:
            row = await self._database.take_run(run_id, known)
            if row.home == self._host:
                break
            if row.gen == known:
                raise BadRequest("unknown_run", f"run {run_id} has no agent in the fleet")
            known = row.gen
        self._rows[run_id] = row
        failpoints.passed("fleet:run-taken")
        await self._become_home(row)
        return {"run_id": run_id, "home": row.home, "gen": row.gen}

    async def _carry_out(self, row: RunHomeRow) -> None:
        try:
            if row.home == self._host:
                await self._become_home(row)
            else:
                await self._leave(row)
        except OrchestratorError as error:
            log.warning("the home of a run has not changed here yet", run=row.run_id, **error.as_dict())
        finally:
            self._under_way.pop(row.run_id, None)

    async def _become_home(self, row: RunHomeRow) -> None:
        run = self._roster.runs.get(row.run_id)
        if run is None:
            run = await self._supervisor.team_panes.run_of_fleet(row.run_id, row.home)
        async with self._supervisor.team_panes.placing:
            if (run.file.get("gen") or 1) < row.gen:
                # Until both are written: also after a crash no position of the former broadcast may be taken.
                await _saved(run, run.file | {"home": row.home})
                self._roster.begin_broadcast_anew(run, row.gen)
                failpoints.passed("fleet:broadcast-anew")
            await _saved(run, {key: value for key, value in run.file.items() if key != "home"} | {"gen": row.gen})
        log.info("this host is the home of a run", run=row.run_id, gen=row.gen)

    async def _leave(self, row: RunHomeRow) -> None:
        """The run is led elsewhere; own agents of it go on here."""
        run: TeamRun | None = self._roster.runs.get(row.run_id)
        if run is not None and run.file.get("home") != row.home:
            await _saved(run, run.file | {"home": row.home, "gen": row.gen, "master": None})
            log.warning("another host is the home of a run now", run=row.run_id, home=row.home)


def _newer(row: RunHomeRow, known: RunHomeRow | None) -> RunHomeRow:
    return known if known is not None and known.gen > row.gen else row


async def _saved(run: TeamRun, file: dict[str, Any]) -> None:
    """Save the run's file; if the disk refuses, nothing has changed, and the next renewal tries again."""
    before, run.file = run.file, file
    try:
        await asyncio.to_thread(run.save)
    except OrchestratorError:
        run.file = before
        raise
