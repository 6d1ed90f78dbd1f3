"""The mode `collective`: several models answer the whole task, then their answers are merged."""

from __future__ import annotations

from orchestrator.spawn import local_planner
from orchestrator.spawn.modes.spawn_mode import PlannerApi, Planning, PlanStep, SpawnMode, Steps
from orchestrator.spawn.run_data import Node, RunRequest


def _steps(asked: RunRequest) -> Steps:
    return tuple(PlanStep(f"collective-{at + 1}", asked.task) for at in range(local_planner.peers(asked)))


async def _ask(api: PlannerApi) -> Steps | None:
    return None if api.asked.peers else await api.recommended("collective")


def _nodes(planning: Planning, steps: Steps) -> list[Node]:
    peers = planning.workers(planning.peers("collective", steps), distinct=True)
    return [*peers, planning.merge(peers, peers)]


MODE = SpawnMode(
    words="several, merged",
    picture=(
        *((f"peer-{n}", 0, "", "answers the whole task") for n in (1, 2, 3)),
        ("merged", 1, "peer-1 peer-2 peer-3", "merges all answers"),
    ),
    estimate=lambda asked: local_planner.peers(asked) + 1,
    steps=_steps,
    ask=_ask,
    nodes=_nodes,
)
