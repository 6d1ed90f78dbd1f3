"""The mode `plan`: the task is split into steps, and each step is given the answer of the step before it."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.spawn import local_planner
from orchestrator.spawn.modes import parts
from orchestrator.spawn.modes.spawn_mode import Planning, SpawnMode, Steps
from orchestrator.spawn.run_data import Node, RunRequest


def _steps(request: RunRequest) -> Steps:
    split = local_planner.split(request.task, local_planner.PLAN_PARTS)
    return parts.steps(request, "step", split, [()] * len(split.parts))


def _nodes(planning: Planning, steps: Steps) -> list[Node]:
    if len(steps) > 1:
        ids = [f"step-{at + 1}" for at in range(len(steps))]
        steps = tuple(replace(step, id=ids[at], needs=tuple(ids[:at][-1:])) for at, step in enumerate(steps))
    return parts.nodes(planning, steps)


MODE = SpawnMode(
    words="steps one by one",
    picture=(
        ("step-1", 0, "", "the first part of the task"),
        ("step-2", 1, "step-1", "is given step-1's answer"),
        ("step-3", 2, "step-2", "is given step-2's answer"),
        ("merged", 3, "step-1 step-2 step-3", "merges all answers"),
    ),
    estimate=lambda request: parts.estimate(request, local_planner.PLAN_PARTS),
    steps=_steps,
    ask=lambda api: parts.ask(api, api.decomposed()),
    nodes=_nodes,
    whole=True,
)
