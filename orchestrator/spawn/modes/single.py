"""The mode `single`: one node, whose answer is the result."""

from __future__ import annotations

from orchestrator.spawn.modes.spawn_mode import PlannerApi, PlanStep, SpawnMode, Steps


async def _ask(api: PlannerApi) -> Steps | None:
    return None if api.request.workers else (await api.picked("single", api.request.budget),)


MODE = SpawnMode(
    words="one model",
    picture=(("answer", 0, "", "its answer is the result"),),
    estimate=lambda _request: 1,
    steps=lambda request: (PlanStep("single", request.task),),
    ask=_ask,
    nodes=lambda planning, steps: planning.workers(steps),
)
