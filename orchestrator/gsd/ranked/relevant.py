"""The answer of ``gsd_phase_relevant_files``: the files a phase's goal is about, and who needs them. Reads only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph.code_answers import pre_edit_check
from orchestrator.gsd.graph.protocol import Node
from orchestrator.gsd.graph.words import STOP
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Plan, Planning
from orchestrator.gsd.ranked.past import similar
from orchestrator.gsd.ranked.patterns import collect
from orchestrator.gsd.ranked.ranking import NEAR, covered, likeness, sentences, terms
from orchestrator.gsd.shown import asked, clip, prose
from orchestrator.gsd.sources.code import words
from orchestrator.gsd.sources.text import Source

BEST = 15
DEPTH = 3
RISKY = 10
"""More dependents than this: keep compatible, deprecate, write a migration path (B3.30)."""
PLANNED, PAST = 40, 12
"""What it counts to be named by a plan of the phase itself or by one whose objective the goal is, or by the most
similar past phase (less for the next)."""
_MOST_OF_IT = 0.8
_ALIKE = 3
_NUMBER = re.compile(r"^(?:phase\s{1,4})?0*(\d{1,6})([A-Za-z]?)((?:\.\d{1,4}){0,4})$", re.IGNORECASE)


@dataclass
class _Candidate:
    path: str
    node: Node | None
    score: int = 0
    dependents: int = 0
    why: list[str] = field(default_factory=list)


def phase_relevant_files(
    snapshot: Snapshot, *, phase_goal: str, include_purposes: bool = True, include_blast_radius: bool = True
) -> dict[str, Any]:
    """The files a goal is about, at most 15, best first (B3.14); a phase's number stands for its goal.

    ``{relevant_files: [{path, purpose, blast_radius: {direct, total, critical, tests}|null, recommendation, why,
    score, exists}], suggested_approach, patterns_from_codebase, similar_phases, keywords, phase_goal, phase?}``.
    ``score`` is A3's of the code graph, and more for files that the phase's own plans or plans with this objective
    (40) or similar past phases (12 and less) name. ``total`` counts what depends on it in three steps; ``critical``
    paths with service or api, tests among them (B3.9). No file is called safe: where nothing depends on it the
    recommendation says what that is worth, as `pre_edit_check` does.
    BadRequest ``bad_argument``, ``unknown_phase``.
    """
    text = asked(phase_goal, "phase_goal")
    phase, goal = _meant(snapshot.planning, text)
    source = Source(snapshot.root)
    keywords = [word for word in terms(goal) if word not in STOP] or terms(goal)
    past = similar(snapshot.planning, goal)
    past = [
        (one, score)
        for one, score in past
        if one is not phase and (one.summaries or one.complete or any(plan.summary for plan in one.plans))
    ]
    found = sorted(
        _candidates(
            snapshot, source, keywords, _planned(snapshot.planning, phase, goal), [p for p, _ in past]
        ).values(),
        key=lambda one: (-one.score, -one.dependents, one.path),
    )
    shown = [_shown(snapshot, source, one, include_purposes, include_blast_radius) for one in found[:BEST]]
    patterns = [
        {"name": one.name, "frequency": one.frequency, "source": one.source}
        for one in collect(snapshot, source, goal, code=False)[:5]
    ]
    similar_phases = [{"phase": one.number, "name": prose(one.name), "goal": prose(one.goal)} for one, _ in past]
    return {
        "relevant_files": shown,
        "total": len(found),
        "suggested_approach": _approach(shown, patterns, similar_phases),
        "patterns_from_codebase": patterns,
        "similar_phases": similar_phases,
        "keywords": keywords,
        "phase_goal": goal,
        **({"phase": phase.number} if phase is not None else {}),
    }


def _meant(planning: Planning | None, text: str) -> tuple[Phase | None, str]:
    """The phase whose number or goal the text is, and the goal to search for."""
    phases = [*planning.phases, *reversed(planning.past)] if planning is not None else []
    number = _NUMBER.match(text)
    if number is not None:
        wanted = f"{number[1]}{number[2].upper()}{number[3]}"
        for phase in phases:
            if phase.number == wanted:
                return phase, clip(" ".join(dict.fromkeys([phase.goal or phase.name])) or f"Phase {wanted}", 1000)
        raise BadRequest("unknown_phase", f"There is no phase {wanted}.")
    known = sentences([text, *(phase.goal for phase in phases)])
    best = max(zip(phases, known[1:], strict=True), key=lambda pair: likeness(known[0], pair[1]), default=None)
    return (best[0] if best is not None and likeness(known[0], best[1]) >= NEAR else None), text


def _planned(planning: Planning | None, phase: Phase | None, goal: str) -> list[Plan]:
    """The phase's own plans, and the plans of any phase whose objective says the goal, or most of it."""
    own = list(phase.plans) if phase is not None else []
    every = (
        [plan for one in [*planning.phases, *planning.past, *planning.quick] for plan in one.plans]
        if planning
        else []
    )
    others = [plan for plan in every if plan.objective and plan not in own]
    wanted, *known = sentences([goal, *(plan.objective.strip().partition("\n")[0] for plan in others)])
    alike = []
    for plan, said in zip(others, known, strict=True):
        part = covered(wanted, said) if len(wanted.stems) >= _ALIKE else 0.0
        if likeness(wanted, said) >= NEAR or part >= _MOST_OF_IT:
            alike.append((max(likeness(wanted, said), part), plan))
    alike.sort(key=lambda pair: -pair[0])
    return own + [plan for _, plan in alike[:_ALIKE]]


def _candidates(
    snapshot: Snapshot, source: Source, keywords: list[str], planned: list[Plan], past: list[Phase]
) -> dict[str, _Candidate]:
    graph = snapshot.graph
    found: dict[str, _Candidate] = {}
    for hit in graph.search(keywords, limit=60):
        found[hit.node.path] = _Candidate(hit.node.path, hit.node, hit.score, hit.dependents, list(hit.why))
    if not graph.nodes:
        # No graph at all: the names of the files alone, by the same points (A3: 10 for each keyword in the path).
        for path in source.paths:
            own = set(words(path))
            names = [word for word in keywords if any(part.startswith(word[: max(3, len(word) - 2)]) for part in own)]
            if names:
                found[path] = _Candidate(path, None, 10 * len(names), 0, [f"path: {word}" for word in names])

    counted: set[tuple[str, str]] = set()

    def name(path: str, points: int, why: str) -> None:
        plain, told = path.strip("`").removeprefix("./"), why
        if " " in plain and source.what(plain) != "file":
            plain = plain.split(" ")[0]  # behind it stands a remark
        if not plain or ".." in plain.split("/") or plain.startswith((".planning/", "/")):
            return
        if plain not in found:
            node = graph.locate(plain).node
            if node is not None and node.path != plain:
                if source.what(plain) != "file":
                    plain, told = node.path, f"{why} as {plain}"
                elif not node.path.startswith("/") and source.what(node.path) == "file":
                    node = None  # both are there: the graph has the other one
            if plain not in found:
                found[plain] = _Candidate(plain, node, 0, graph.dependents_count(node.id) if node is not None else 0)
        if (plain, why) not in counted:
            counted.add((plain, why))
            found[plain].score += points
            found[plain].why.append(told)

    for plan in planned:
        for path in [
            *plan.files_modified,
            *(one.path for one in plan.must_haves.artifacts),
            *(f for task in plan.tasks for f in task.files),
        ]:
            name(path, PLANNED, f"plan {plan.id}")
    for place, one in enumerate(past):
        for plan in one.plans:
            for path in plan.files_modified:
                name(path, PAST // (place + 1), f"phase {one.number} changed it")
        for summary in [*(p.summary for p in one.plans if p.summary is not None), *one.summaries]:
            for path in [*summary.created, *summary.modified]:
                name(path, PAST // (place + 1), f"phase {one.number} changed it")
    return found


def _shown(snapshot: Snapshot, source: Source, one: _Candidate, purposes: bool, blast: bool) -> dict[str, Any]:
    radius = _radius(snapshot, one.node) if one.node is not None and blast else None
    return {
        "path": one.path,
        "purpose": prose(one.node.purpose) if one.node is not None and purposes else "",
        "blast_radius": radius,
        "recommendation": _advice(
            snapshot, one, source.what(one.path) if not one.path.startswith("/") else "unknown"
        ),
        "why": one.why[:8],
        "score": one.score,
        "exists": source.what(one.path) == "file" if not one.path.startswith("/") else None,
    }


def _radius(snapshot: Snapshot, node: Node) -> dict[str, int]:
    found = snapshot.graph.affected(node.id, DEPTH, 1)
    return {
        "direct": found.direct,
        "total": found.direct + found.transitive,
        "critical": found.critical_count,
        "tests": found.tests_count,
    }


def _advice(snapshot: Snapshot, one: _Candidate, what: str) -> str:
    """What to mind: whether it is there, and who depends on it; neither hides the other."""
    absent = "Not there (yet): a plan names it, or it has gone since the graph was made." if what == "none" else ""
    if one.dependents > RISKY:
        told = (
            f"{one.dependents} files depend on it: keep it backward compatible, deprecate rather than break, "
            "and write down the migration path."
        )
    elif one.dependents:
        told = f"Dependents: {one.dependents}. Check them after a change."
    elif one.node is not None:
        told = str(pre_edit_check(snapshot, file=one.node.id)["recommendation"])
    else:
        told = "" if absent else "Not in the code graph: what depends on it is not known."
    return " ".join(part for part in (absent, told) if part)


def _approach(shown: list[dict[str, Any]], patterns: list[dict[str, Any]], past: list[dict[str, Any]]) -> str:
    if not shown:
        return "No file fits this goal: it is new ground, or its words are not those of the code. Try other keywords."
    parts = [f"Start from {shown[0]['path']}" + (f" and {shown[1]['path']}." if len(shown) > 1 else ".")]
    risky = [
        one["path"] for one in shown if one["blast_radius"] is not None and one["blast_radius"]["direct"] > RISKY
    ]
    if risky:
        parts.append(f"Change {', '.join(risky[:3])} compatibly: much depends on it.")
    if patterns:
        parts.append(f"Follow: {patterns[0]['name']}.")
    if past:
        number = past[0]["phase"]
        name = f"Quick task {number[6:]}" if number.startswith("quick/") else f"Phase {number}"
        parts.append(f"{name} did similar work.")
    return " ".join(parts)
