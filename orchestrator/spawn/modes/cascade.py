"""The mode `cascade`: a cheap model answers, and a premium one only if that answer does not pass the gate."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.spawn.model_table import normalised
from orchestrator.spawn.modes.spawn_mode import (
    NoCall,
    Outcome,
    PlannerApi,
    Planning,
    PlanStep,
    SpawnMode,
    StatusOf,
    Steps,
    all_answers,
    needs_every_answer,
)
from orchestrator.spawn.run_data import Node, RunBudget, RunRequest


def _premium_budget(budget: RunBudget) -> RunBudget:
    """The run's budget, but never the cheap tier."""
    return "medium" if budget == "low" else budget


def _steps(request: RunRequest) -> Steps:
    return (
        PlanStep("cheap", request.task, budget="low"),
        PlanStep("premium", request.task, budget=_premium_budget(request.budget)),
    )


async def _ask(api: PlannerApi) -> Steps | None:
    if api.request.workers:
        return None
    cheap = await api.picked("cheap", "low")
    return cheap, await api.picked("premium", _premium_budget(api.request.budget), exclude=cheap.model)


def _nodes(planning: Planning, steps: Steps) -> list[Node]:
    nodes = planning.workers(steps, distinct=True, best_last=True)
    cheap = replace(nodes[0], id="cheap", needs=(), tier="cheap")
    judges: list[Node] = []
    if planning.settings.evaluator and not planning.request.callers:
        model = normalised(planning.settings.evaluator)
        judges = [Node("evaluate", "evaluate", 0, ("cheap",), planning.request.task, model, reason="as configured")]
    needs = ("cheap", *(judge.id for judge in judges))
    second = replace(nodes[-1], id="premium", needs=needs, tier="premium")
    answers = [cheap, second]
    return [cheap, *judges, second, planning.merge(answers, answers, best_last=True)]


def _no_call(node: Node, status_of: StatusOf, passed: bool | None) -> NoCall | None:
    if node.kind == "evaluate":
        if passed is False or status_of(node.needs[0]) != "completed":
            return "skipped", "not called: the cheap answer failed the gate's rules, or there is none"
        return None
    if node.tier == "premium":
        return ("skipped", "the cheap answer passed the gate") if passed else None
    return needs_every_answer(node, status_of, passed)


def _sources(outcome: Outcome) -> tuple[str, ...]:
    """The better answer, if there is one."""
    premium = tuple(node.id for node, status in outcome if node.tier == "premium" and status == "completed")
    return premium or all_answers(outcome)


def _summary(outcome: Outcome, counted: str) -> str:
    tiers = {node.tier: status for node, status in outcome}
    if tiers.get("premium") == "skipped":
        return "the cheap answer passed the gate"
    if tiers.get("premium") == "failed":
        return f"{counted}; the premium model failed: this is the cheap answer, which did not pass the gate"
    if tiers.get("cheap") == "failed":
        return f"{counted}; the cheap model failed: this is the premium answer"
    return counted


MODE = SpawnMode(
    words="a cheap model, then a better one if its answer is not good enough",
    picture=(
        ("cheap", 0, "", "answers the whole task"),
        ("evaluate", 1, "cheap", "only with an evaluator"),
        ("premium", 2, "cheap evaluate", "only if the gate fails"),
        ("merged", 3, "cheap premium", "merges, or takes cheap's"),
    ),
    estimate=lambda _request: 3,
    steps=_steps,
    ask=_ask,
    nodes=_nodes,
    models=lambda settings: {"CASCADE_EVALUATOR_MODEL": settings.evaluator},
    no_call=_no_call,
    gated=True,
    sources=_sources,
    summary=_summary,
    style="decision",
    names_missing=False,
)
