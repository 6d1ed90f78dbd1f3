"""`gsd_phase_status`: one phase, its plans and what comes next, as a plain answer. Pure (seed-systems A3)."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Plan, Planning, Requirement
from orchestrator.gsd.planning import phases
from orchestrator.gsd.planning.assembling import even, version_of
from orchestrator.gsd.planning.phases import Disagreement, Truth
from orchestrator.gsd.planning.requirement_words import status_of

_TASK = re.compile(r"\btask[ \t]+(\d{1,3})\b", re.IGNORECASE)
_LISTED_MAX = 50


def planning_of(snapshot: Snapshot) -> Planning:
    """The snapshot's planning; BadRequest ``no_gsd_project`` where there is none, or none of it may be read."""
    planning = snapshot.planning
    if planning is None:
        raise BadRequest(
            "no_gsd_project",
            f"{snapshot.root} has no .planning/ that can be read, only an index of its code",
            "run /gsd:new-project there to begin one; the tools for code answer without it",
        )
    barred = next((one.what for one in planning.troubles if one.file == planning.directory), "")
    if barred and not planning.files:  # what could not be read must not look like a project without phases
        raise BadRequest(
            "no_gsd_project",
            f"{snapshot.root}/{planning.directory}: {barred}",
            "ask from the directory that really holds it, or make it readable",
        )
    return planning


def phase_of(planning: Planning, phase: str) -> Phase:
    """The phase that an argument names; BadRequest ``unknown_phase`` with those it may have meant."""
    found = phases.find(planning, phase)
    if found is None:
        close = phases.near(planning, phase)
        known = f"the project has {phases.span(planning)}" + (f"; near are: {', '.join(close)}" if close else "")
        raise BadRequest("unknown_phase", f"there is no phase {phase.strip()[:80]!r}; {known}", near=close)
    return found


def phase_status(snapshot: Snapshot, *, phase: str = "") -> dict[str, Any]:
    """Where a phase stands: the current one, or that which ``phase`` names (``2``, ``Phase 02.1``, its directory).

    A3's ``current_phase`` (a text, null between milestones), ``phase_name``, ``plans`` (``{id, status, tasks}``, and
    ``current_task`` where STATE.md names it), ``verification_status``, ``blockers``, ``next_phase``; beside them
    ``phase``, the one that is told of (null between milestones), its ``status`` (A1's ladder; complete where the
    roadmap says so), ``goal``, ``requirements`` (the roadmap's, then those that only the traceability table gives
    it), ``success_criteria``, ``uat`` (``gaps`` are open, ``fixed_gaps`` were mended), ``disagreements`` with file
    and line, ``milestone``, ``progress``. BadRequest ``unknown_phase``, ``no_gsd_project``.
    """
    planning = planning_of(snapshot)
    where = phases.truth(planning)
    return told(planning, where, phase_of(planning, phase) if phase.strip() else where.current)


def told(planning: Planning, where: Truth, shown: Phase | None) -> dict[str, Any]:
    """`phase_status` of one of the planning's phases, or of none."""
    state = planning.state
    notes = unread(planning, "ROADMAP.md", "STATE.md")  # the files that decide
    return {
        "current_phase": where.current.number if where.current else None,
        "phase": shown.number if shown else None,
        "phase_name": shown.name if shown else None,
        "status": _status(shown) if shown else _without(planning, where),
        "goal": shown.goal if shown else "",
        "plans": _plans(planning, shown, where) if shown else [],
        "verification_status": (shown.verification.status or None) if shown and shown.verification else None,
        "verification": _verified(shown) if shown else None,
        "uat": _tested(shown) if shown else None,
        "blockers": list(state.blockers) if state else [],
        "next_phase": _following(where.following),
        "requirements": requirements_of(planning, shown) if shown else [],
        "success_criteria": list(shown.criteria) if shown else [],
        "depends_on": list(shown.depends_on) if shown else [],
        "directory": shown.directory if shown else "",
        "archived": shown.archived if shown else False,
        "milestone": (shown.milestone if shown else "") or milestone(planning),
        "progress": progress(planning),
        "project_name": planning.project.name if planning.project else "",
        "state": {
            "file": state.file,
            "line": state.line,
            "phase": state.phase_text,
            "plan": state.plan_text,
            "status": state.status,
            "state": state.state,
            "last_activity": state.last_activity,
            "stopped_at": state.stopped_at,
            "next_action": state.next_action,
        }
        if state
        else None,
        "decided_by": where.by,
        "disagreements": [as_dict(one) for one in where.disagreements[:_LISTED_MAX]],
    } | ({"notes": notes} if notes else {})


def unread(planning: Planning, *names: str) -> list[str]:
    """What of these files of the `.planning/`, and of itself, is there and could not be read: sentences."""
    meant = {planning.directory, *(f"{planning.directory}/{name}" for name in names)}
    return [
        f"{one.file} does not count: {one.what}"
        for one in planning.troubles
        if one.kind == "unreadable" and one.file in meant
    ]


def requirements_of(planning: Planning, phase: Phase) -> list[str]:
    """The ids of a phase's requirements: those its roadmap names, then those that name it in their traceability."""
    pool = planning.past_requirements if phase.archived else planning.requirements
    traced = (one.id for one in pool if phase.number in one.phases and of_milestone(planning, one, phase))
    return list(dict.fromkeys([*phase.requirements, *traced]))


def of_milestone(planning: Planning, one: Requirement, phase: Phase) -> bool:
    """Whether a requirement and a phase are of one milestone, so that the number of the phase means this one."""
    if not phase.archived:
        return not one.file.startswith(f"{planning.directory}/milestones/")
    name = one.file.removeprefix(f"{planning.directory}/milestones/").partition("/")[0]
    return even(version_of(name)) == even(phase.milestone)


def as_dict(one: Disagreement) -> dict[str, Any]:
    """A disagreement as an answer has it: ``{phase, what, said: [{file, line, says}]}``."""
    return {
        "phase": one.phase or None,
        "what": one.what,
        "said": [{"file": said.file, "line": said.line, "says": said.says} for said in one.said],
    }


def milestone(planning: Planning) -> str:
    """The milestone under way as the phases, STATE.md or the list of milestones name it; else the last of them."""
    named = next((one.milestone for one in planning.phases if one.milestone), "")
    under_way = next((one.version for one in planning.milestones if not one.done), "")
    last = planning.milestones[-1].version if planning.milestones else ""
    return named or (planning.state.milestone if planning.state else "") or under_way or last


def progress(planning: Planning) -> dict[str, Any]:
    """How much of the milestone under way is done, by the roadmap and the files, and as STATE.md has it."""
    live = planning.phases
    counts = [phases.counted(one) for one in live]
    done, total = sum(done for done, _ in counts), sum(total for _, total in counts)
    return {
        "phases": len(live),
        "phases_complete": sum(1 for one in live if one.complete),
        "plans": total,
        "plans_complete": done,
        "percent": round(100 * done / total) if total else None,
        "stated_percent": planning.state.percent if planning.state else None,
    }


def _status(phase: Phase) -> str:
    if not phase.complete and status_of(phase.stated) == "deferred":
        return "deferred"
    return "complete" if phase.complete else phase.ladder


def _without(planning: Planning, where: Truth) -> str:
    """What there is instead of a current phase."""
    if where.following:
        return "not_started"
    return "between_milestones" if planning.phases or planning.past or planning.milestones else "no_phases"


def _plans(planning: Planning, phase: Phase, where: Truth) -> list[dict[str, Any]]:
    under_way = where.current is phase and (
        phase.ladder == "partial" or (planning.state is not None and planning.state.state == "executing")
    )
    first = next((plan for plan in phase.plans if not plan.summary), None)
    out = [_plan(plan, plan is first and under_way, planning) for plan in phase.plans]
    for listed, summary in phases.unfiled(phase):
        out.append(
            {
                "id": listed.id,
                "status": "complete" if summary or listed.done or phase.box else "pending",
                "tasks": 0,
                "objective": listed.text,
                "file": None,
                "summary": summary.file if summary else None,
            }
        )
    return out


def _plan(plan: Plan, under_way: bool, planning: Planning) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": plan.id,
        "status": "complete" if plan.summary else "in_progress" if under_way else "pending",
        "tasks": len(plan.tasks),
        "objective": plan.objective.partition("\n")[0][:300],
        "wave": plan.wave,
        "depends_on": list(plan.depends_on),
        "autonomous": plan.autonomous,
        "file": plan.file,
        "summary": plan.summary.file if plan.summary else None,
    }
    state = planning.state
    if under_way:
        out["task_names"] = [task.name for task in plan.tasks]
        said = _TASK.search(f"{state.stopped_at}\n{state.next_action}\n{state.status}") if state else None
        if said and 0 < int(said[1]) <= len(plan.tasks):
            out["current_task"] = int(said[1])
    return out


def _verified(phase: Phase) -> dict[str, Any] | None:
    found = phase.verification
    if not found:
        return None
    return {
        "status": found.status,
        "score": found.score,
        "verified": found.verified,
        "gaps": list(found.gaps),
        "human_verification": list(found.human),
        "file": found.file,
    }


def _tested(phase: Phase) -> dict[str, Any] | None:
    if not phase.uat:
        return None
    counts: dict[str, int] = {}
    for test in phase.uat.tests:
        counts[test.status] = counts.get(test.status, 0) + 1
    return {
        "status": phase.uat.status,
        "tests": counts,
        "gaps": list(phase.uat.gaps),
        "fixed_gaps": list(phase.uat.fixed),
        "file": phase.uat.file,
    }


def _following(phase: Phase | None) -> dict[str, Any] | None:
    if not phase:
        return None
    return {
        "number": phase.number,
        "name": phase.name,
        "dependencies": list(phase.depends_on),
        "status": phase.ladder,
        "goal": phase.goal,
    }
