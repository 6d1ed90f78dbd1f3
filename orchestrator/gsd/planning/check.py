"""What of a project could not be read, and what in it cannot be true together: the answer of `gsd check`. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Plan, Planning, Trouble
from orchestrator.gsd.planning import phases
from orchestrator.gsd.planning.phase_numbers import number_of, plan_key

Key = tuple[str, str]


def check(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that is wrong with a project's planning and intel store, with file and line.

    ``{ok, files_read, troubles: [{file, line, kind, what}], sources, counts}``; ``kind`` is ``unreadable``, ``odd``
    or ``conflict`` (`model.Trouble`), sorted by file and line; ``ok``: there are none. ``sources`` are those of the
    code graph (`model.Intel`). ``counts``: phases, plans, summaries, requirements (those of archived milestones with
    ``past_`` before), nodes, edges, dangling.
    """
    planning, intel, graph = snapshot.planning, snapshot.intel, snapshot.graph
    found = {*intel.troubles}
    if planning:
        found |= {*planning.troubles, *_troubles(planning, snapshot.root.as_posix())}
    troubles = sorted(found, key=lambda one: (one.file, one.line, one.what))
    live, past = (planning.phases, planning.past) if planning else ((), ())
    return {
        "ok": not troubles,
        "files_read": planning.files if planning else 0,
        "troubles": [{"file": one.file, "line": one.line, "kind": one.kind, "what": one.what} for one in troubles],
        "sources": {
            name: {key: value for key, value in facts.items() if key != "stated"}
            for name, facts in intel.sources.items()
        },
        "counts": {
            **_counted(live, ""),
            "requirements": len(planning.requirements) if planning else 0,
            **_counted(past, "past_"),
            "past_requirements": len(planning.past_requirements) if planning else 0,
            "quick_tasks": len(planning.quick) if planning else 0,
            "nodes": len(graph.nodes),
            "edges": graph.edges,
            "dangling": graph.dangling,
        },
    }


def _counted(found: tuple[Phase, ...], before: str) -> dict[str, int]:
    return {
        f"{before}phases": len(found),
        f"{before}plans": sum(len(one.plans) for one in found),
        f"{before}summaries": sum(len(one.summaries) for one in found),
    }


def _troubles(planning: Planning, root: str) -> Iterator[Trouble]:
    """What no single file shows."""
    for one in phases.truth(planning).disagreements:
        first = one.said[0]
        others = "; ".join(f"{said.file}{f':{said.line}' if said.line else ''}: {said.says}" for said in one.said[1:])
        yield Trouble(first.file, first.line, one.what + (f" ({others})" if others else ""), "conflict")
    yield from _of_plans(planning.phases, root)
    by_milestone: dict[str, list[Phase]] = {}
    for phase in planning.past:
        by_milestone.setdefault(phase.milestone, []).append(phase)
    for group in by_milestone.values():
        yield from _of_plans(tuple(group), root)


def _of_plans(group: tuple[Phase, ...], root: str) -> Iterator[Trouble]:
    """Plans of one milestone: ids, summaries, dependencies, paths."""
    known: dict[Key, Plan] = {}
    needs: dict[Key, list[Key]] = {}
    numbers = {phase.number for phase in group}
    for phase in group:
        for plan in phase.plans:
            key = plan_key(plan.id, phase.number)
            if key in known:
                yield Trouble(plan.file, 0, f"plan {plan.id} is there twice, also as {known[key].file}", "conflict")
            else:
                known[key] = plan
            yield from _paths(plan, root)
    for phase in group:
        for summary in phase.summaries:
            if plan_key(summary.plan_id, phase.number) not in known:
                yield Trouble(summary.file, 0, f"there is no plan {summary.plan_id} for this summary")
        for plan in phase.plans:
            own = needs.setdefault(plan_key(plan.id, phase.number), [])
            for text in plan.depends_on:
                key = _named(text, phase, known)
                if key in known:
                    own.append(key)
                elif not (number_of(text) in numbers and key[0] == number_of(text)):
                    yield Trouble(plan.file, 0, f"it depends on {text[:80]!r}, and there is no such plan")
    for key in _in_circle(needs):
        yield Trouble(known[key].file, 0, f"plan {known[key].id} depends on itself, over others", "conflict")


def _named(text: str, phase: Phase, known: Mapping[Key, Plan]) -> Key:
    """The plan that a dependency names: ``01-02``, ``01-02-PLAN.md``, ``02`` of its phase; else a phase alone."""
    key = plan_key(text, phase.number)
    return key if key in known else (number_of(text), "")


def _paths(plan: Plan, root: str) -> Iterator[Trouble]:
    named = [*plan.files_modified, *(one.path for one in plan.must_haves.artifacts)]
    for path in dict.fromkeys(named):
        even = posixpath.normpath(path.replace("\\", "/"))
        outside = even.startswith(("../", "/", "~/")) or even == ".."
        if outside and not even.startswith(f"{root}/"):
            yield Trouble(plan.file, 0, f"the path {path[:200]!r} leads out of the project")


def _in_circle(needs: Mapping[Key, list[Key]]) -> list[Key]:
    """The plans that depend on themselves, directly or over others: what is left when all others are taken away."""
    left = {key: {one for one in own if one in needs} for key, own in needs.items()}
    for _ in range(2):  # once by what they need, once by what needs them
        ready = [key for key, own in left.items() if not own]
        users: dict[Key, list[Key]] = {}
        for key, own in left.items():
            for one in own:
                users.setdefault(one, []).append(key)
        while ready:
            key = ready.pop()
            left.pop(key, None)
            for user in users.get(key, ()):
                if user in left:
                    left[user].discard(key)
                    if not left[user]:
                        ready.append(user)
        turned: dict[Key, set[Key]] = {key: set() for key in left}
        for key, own in left.items():
            for one in own:
                turned[one].add(key)
        left = turned
    return sorted(left)
