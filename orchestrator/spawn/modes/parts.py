"""What the modes that split a task have in common: the local split, the estimate, one node if there are no parts."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace

from orchestrator.spawn import local_planner
from orchestrator.spawn.local_planner import Split
from orchestrator.spawn.modes.spawn_mode import PlannerApi, Planning, PlanStep, Steps
from orchestrator.spawn.run_data import Node, RunRequest


def steps(request: RunRequest, name: str, split: Split, needs: Sequence[Sequence[int]]) -> Steps:
    """A step ``<name>-<n>`` for each part; ``needs`` has for each part the places of those it waits for."""
    return tuple(
        PlanStep(
            f"{name}-{at + 1}",
            part,
            tuple(f"{name}-{other + 1}" for other in needs[at]),
            budget=local_planner.adjusted_budget(part, request.budget),
        )
        for at, part in enumerate(split.parts)
    )


def estimate(request: RunRequest, limit: int) -> int:
    """The number of parts and the merge; 1 if the task does not fall apart."""
    count = len(local_planner.split(request.task, limit).parts)
    return count + 1 if count else 1


async def ask(api: PlannerApi, split: Awaitable[Steps]) -> Steps:
    """The steps of the API's split; else one step for the whole task."""
    api_steps = await split
    if len(api_steps) > 1:
        return api_steps
    if api.request.workers:
        return (PlanStep("single", api.request.task),)
    return (await api.picked("single", api.request.budget),)


def nodes(planning: Planning, steps: Steps) -> list[Node]:
    """A node for each step and a merge of all; one node without a merge if the task does not fall apart."""
    if len(steps) < 2:
        planning.notes.append("the task cannot be split into parts; one node does it")
        whole = replace(
            steps[0] if steps else PlanStep("single", ""), id="single", task=planning.request.task, needs=()
        )
        return planning.workers((whole,))
    workers = planning.workers(steps)
    return [*workers, planning.merge(workers, workers)]
