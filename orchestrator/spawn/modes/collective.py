"""The mode `collective`: several models answer the whole task, then their answers are merged."""

from __future__ import annotations

from orchestrator.spawn import local_planner
from orchestrator.spawn.modes.spawn_mode import PlannerApi, Planning, PlanStep, SpawnMode, Steps
from orchestrator.spawn.run_data import Node, RunRequest


def _steps(request: RunRequest) -> Steps:
    return tuple(PlanStep(f"collective-{at + 1}", request.task) for at in range(local_planner.answer_count(request)))


async def _ask(api: PlannerApi) -> Steps | None:
    return None if api.request.workers else await api.recommended("collective")


def _nodes(planning: Planning, steps: Steps) -> list[Node]:
    answers = planning.workers(planning.whole_task_steps("collective", steps), distinct=True)
    return [*answers, planning.merge(answers, answers)]


MODE = SpawnMode(
    words="several, merged",
    picture=(
        *((f"collective-{n}", 0, "", "answers the whole task") for n in (1, 2, 3)),
        ("merged", 1, "collective-1 collective-2 collective-3", "merges all answers"),
    ),
    estimate=lambda request: local_planner.answer_count(request) + 1,
    steps=_steps,
    ask=_ask,
    nodes=_nodes,
)
