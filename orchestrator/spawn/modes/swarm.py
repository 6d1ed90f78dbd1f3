"""The mode `swarm`: the task is split into parts with dependencies; parts without any between them run at once."""

from __future__ import annotations

from orchestrator.spawn import local_planner
from orchestrator.spawn.modes import parts
from orchestrator.spawn.modes.spawn_mode import SpawnMode, Steps
from orchestrator.spawn.run_data import RunRequest


def _steps(request: RunRequest) -> Steps:
    split = local_planner.split(request.task, local_planner.SWARM_PARTS)
    return parts.steps(request, "swarm", split, local_planner.dependencies(split))


MODE = SpawnMode(
    words="steps in parallel where they can be",
    picture=(
        ("swarm-1", 0, "", "needs nothing"),
        ("swarm-2", 0, "", "needs nothing"),
        ("swarm-3", 1, "swarm-1", "is given swarm-1's answer"),
        ("swarm-4", 1, "swarm-1 swarm-2", "is given both answers"),
        ("swarm-5", 2, "swarm-3 swarm-4", "is given both answers"),
        ("merged", 3, "swarm-1 swarm-2 swarm-3 swarm-4 swarm-5", "merges all answers"),
    ),
    estimate=lambda request: parts.estimate(request, local_planner.SWARM_PARTS),
    steps=_steps,
    ask=lambda api: parts.ask(api, api.swarmed()),
    nodes=parts.nodes,
    whole=True,
)
