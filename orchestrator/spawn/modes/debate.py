"""The mode `debate`: several models answer, answer again after they read each other's answers, then one judges."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.spawn import local_planner
from orchestrator.spawn.modes.spawn_mode import (
    UPSTREAM,
    NoCall,
    Outcome,
    PlannerApi,
    Planning,
    PlanStep,
    SpawnMode,
    StatusOf,
    Steps,
)
from orchestrator.spawn.run_data import Node, RunRequest

ROUNDS = 2
"""Rounds of answers. From the second on, each debater is given all answers of the round before."""


def _steps(request: RunRequest) -> Steps:
    return tuple(PlanStep(f"debater-{at + 1}", request.task) for at in range(local_planner.answer_count(request)))


async def _ask(api: PlannerApi) -> Steps | None:
    return None if api.request.workers else await api.recommended("debater")


def _nodes(planning: Planning, steps: Steps) -> list[Node]:
    debaters = planning.workers(planning.whole_task_steps("debater", steps), distinct=True)
    rounds = [[_answer(node, 1, [], node.task) for node in debaters]]
    for number in range(2, ROUNDS + 1):
        before = rounds[-1]
        rounds.append(
            [
                _answer(node, number, before, _again(number, own.id))
                for node, own in zip(debaters, before, strict=True)
            ]
        )
    return [*(node for answers in rounds for node in answers), planning.merge(debaters, rounds[-1])]


def _answer(debater: Node, number: int, before: list[Node], task: str) -> Node:
    needs = tuple(node.id for node in before)
    return replace(debater, id=f"{debater.id}-round-{number}", needs=needs, task=task)


def _again(number: int, own: str) -> str:
    return (
        f"This is round {number} of {ROUNDS} of a debate about the whole task. The answers of the round before are "
        f"below; yours is {own}. Check each of them for errors. Adopt what is right, correct what is wrong, and keep "
        "your view where no answer refutes it. Write your complete answer to the whole task again."
    )


def _no_call(node: Node, status_of: StatusOf, _passed: bool | None) -> NoCall | None:
    """A round needs one answer of the round before."""
    if not node.needs or any(status_of(need) == "completed" for need in node.needs):
        return None
    return "failed", f"{UPSTREAM}: no answer in the round before"


def _sources(outcome: Outcome) -> tuple[str, ...]:
    """The answers of the last round that has any."""
    answers = [node for node, status in outcome if node.kind == "task" and status == "completed"]
    last = max((node.wave for node in answers), default=0)
    return tuple(node.id for node in answers if node.wave == last)


MODE = SpawnMode(
    words="several that read and correct each other's answers, then a judge",
    picture=(
        *((f"debater-{n}-round-1", 0, "", "answers the whole task") for n in (1, 2, 3)),
        *(
            (
                f"debater-{n}-round-2",
                1,
                " ".join(f"debater-{other}-round-1" for other in (1, 2, 3)),
                "corrects its answer",
            )
            for n in (1, 2, 3)
        ),
        ("merged", 2, "debater-1-round-2 debater-2-round-2 debater-3-round-2", "judges the last answers"),
    ),
    estimate=lambda request: local_planner.answer_count(request) * ROUNDS + 1,
    steps=_steps,
    ask=_ask,
    nodes=_nodes,
    no_call=_no_call,
    sources=_sources,
    style="decision",
)
