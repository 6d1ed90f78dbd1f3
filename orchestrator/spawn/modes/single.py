"""The mode `single`: one node, whose answer is the result."""

from __future__ import annotations

from orchestrator.spawn.modes.spawn_mode import PlannerApi, PlanStep, SpawnMode, Steps


async def _ask(api: PlannerApi) -> Steps | None:
    return None if api.asked.callers else (await api.picked("single", api.asked.budget),)


MODE = SpawnMode(
    words="one model",
    picture=(("answer", 0, "", "its answer is the result"),),
    estimate=lambda _asked: 1,
    steps=lambda asked: (PlanStep("single", asked.task),),
    ask=_ask,
    nodes=lambda planning, steps: planning.workers(steps),
)
