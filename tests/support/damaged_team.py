"""A team in one process with a supervisor, whose steps can be cut off, and whose files can be damaged on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.base import failpoints
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.recovery.garbage_collection import GarbageCollection
from orchestrator.team.recovery.repair import TeamRepair
from orchestrator.team.roster import delivery
from orchestrator.team.roster.broadcast import run_file
from tests.support.team import FakeClock, Team


class Died(BaseException):
    """What a kill -9 is to the code that was running."""


class Counted:
    """Stands in the place of `steps.passed`: counts the steps of one kind, and dies at the ``at``-th."""

    def __init__(self, kind: str, at: int = 0) -> None:
        self.kind, self.at, self.seen = kind, at, []  # type: ignore[var-annotated]

    def __call__(self, step: str) -> None:
        if step.startswith(self.kind):
            self.seen.append(step)
            if len(self.seen) == self.at:
                raise Died(step)


class Life:
    """One daemon's life over a project's files; ``end`` as kill -9 would, or in good order."""

    def __init__(self, root: Path, clock: Any = None, **config: Any) -> None:
        """``clock``: the system's for what waits for processes; without one it moves by hand."""
        root.mkdir(exist_ok=True)
        self.team = Team(root, clock, kill_grace_s=1.0, **config)
        self.roster, self.paths, self.clock = self.team.roster, self.team.paths, self.team.clock
        self.team.load()
        self.supervisor = Supervisor(self.roster, TeamPanes(self.roster))
        self.collecting, self.repairing = GarbageCollection(self.supervisor), TeamRepair(self.supervisor)

    async def gc(self, *, apply: bool = True, age_s: float = 0.0, artifacts: bool = False) -> list[dict[str, Any]]:
        found = await self.collecting.run(apply=apply, age_s=age_s, artifacts=artifacts)
        return list(found["items"])

    async def task(self, agent_id: str, task_id: str, payload: Any = None) -> None:
        await delivery.enqueue(self.roster, agent_id, task_id=task_id, payload=payload, req=f"m:{task_id}")

    async def deleted(self, name: str) -> None:
        """An agent that was made, did one task, and was deleted."""
        from orchestrator.core import decisions, supervision

        entry = await self.team.agent(name)
        await self.task(name, f"{name}-t", {"n": 1})
        await self.roster.commit(entry, decisions.stop(entry.state, force=True, req=f"m:stop-{name}", at=self.at()))
        await self.roster.commit(entry, supervision.stopped(entry.state, at=self.at(), rungs=()))
        await self.roster.commit(entry, supervision.deleted(entry.state, at=self.at()))

    async def run_over(self, run_id: str = "run-1") -> None:
        """The run has ended."""
        run = self.roster.runs[run_id]
        run.file["ended_at"] = self.at()
        run.save()

    def at(self) -> str:
        from orchestrator.base.clock import rfc3339

        return rfc3339(self.clock.now())

    async def end(self) -> None:
        """Everything durable, the files let go of."""
        await self.supervisor.close()
        if isinstance(self.clock, FakeClock):
            await self.clock.advance(1.0)
        await self.roster.flush()
        self.roster.close()

    async def die(self) -> None:
        """As kill -9: nothing is flushed; only the lock on the files goes."""
        await self.supervisor.close()
        self.roster.close()


def dying(monkeypatch: Any, kind: str, at: int = 0) -> Counted:
    """Die at the ``at``-th step of that kind; 0: only count."""
    counted = Counted(kind, at)
    monkeypatch.setattr(failpoints, "passed", counted)
    return counted


def run_json(life: Life, run_id: str = "run-1") -> dict[str, Any]:
    """What the run's file says now."""
    return run_file(life.paths, run_id)
