"""The spawn prompts: what a planner, an executor or a verifier is told of the project (B3.29). Reads the snapshot.

The words stand in ``prompts/gsd_<who>.md``; here their placeholders are filled. What is not known is said so, since a
model would make something up for an empty section.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.base.package_data import prompt as template
from orchestrator.core.prompts import render
from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Plan, Requirement
from orchestrator.gsd.place import NO_PROJECT
from orchestrator.gsd.planning import phases, plan_answers
from orchestrator.gsd.planning.phase_answers import phase_of, requirements_of
from orchestrator.gsd.planning.phase_numbers import plan_key
from orchestrator.gsd.ranked import relevant
from orchestrator.gsd.shown import ASKED_CHARS, clip

WHO = ("planner", "executor", "verifier")
SECTION_MAX = 6000
PLAN_MAX = 48_000
FILES_MAX = 20
NOTHING = "Nothing is known of this."


def prompt(
    snapshot: Snapshot | None, *, who: str, phase: str = "", phase_goal: str = "", plan: str = ""
) -> dict[str, Any]:
    """``{"text"}``: the prompt of ``planner``, ``executor`` or ``verifier``; without a project it says that.

    ``phase``: its number, default the current one, else the next; ``phase_goal`` in place of the roadmap's; ``plan``:
    the id of a plan, default the first of the phase that is not done. BadRequest ``unknown_phase``,
    ``unknown_resource`` for a plan that is not there, ``bad_argument``.
    """
    if who not in WHO:
        raise BadRequest("bad_argument", f"there is no prompt for {who[:80]!r}, but for: {', '.join(WHO)}")
    if snapshot is None:
        return {"text": render(template(f"gsd_{who}"), _without(phase_goal))}
    meant = _meant(snapshot, phase, plan)
    chosen = _plan(meant, plan) if meant is not None else None
    goal = phase_goal.strip() or (meant.goal if meant is not None else "")
    values = {
        "project": _name(snapshot),
        "vision": _lowered(plan_answers.vision(snapshot)),
        "phase": _phase(meant),
        "goal": _cut(goal) or "No goal is stated.",
        "summary": _lowered(code_answers.summary_page(snapshot)),
        "conventions": _conventions(snapshot),
        "relevant_files": _relevant(snapshot, goal),
        "requirements": _requirements(snapshot, meant),
        "plan": _plan_text(snapshot, meant, chosen),
        "blast": _blast(snapshot, chosen),
        "must_haves": _must_haves(meant, chosen if plan.strip() else None),
    }
    return {
        "text": render(template(f"gsd_{who}"), {name: value.strip() or NOTHING for name, value in values.items()})
    }


def _without(goal: str) -> dict[str, str]:
    names = ("summary", "conventions", "relevant_files", "requirements", "plan", "blast", "must_haves")
    values = dict.fromkeys(names, NOTHING)
    return values | {
        "project": "a project that is not there",
        "vision": NO_PROJECT,
        "phase": NO_PROJECT,
        "goal": goal.strip() or "No goal is stated.",
    }


def _meant(snapshot: Snapshot, phase: str, plan: str) -> Phase | None:
    """The phase asked about; None where there is none at all."""
    planning = snapshot.planning
    if planning is None:
        if phase.strip() or plan.strip():
            raise BadRequest("unknown_phase", f"{snapshot.root} has no .planning/, so there are no phases")
        return None
    if phase.strip():
        if phase.strip().casefold() != "current":
            return phase_of(planning, phase)
    elif plan.strip():
        number = plan_key(plan)[0]
        if number:
            return phase_of(planning, number)
    where = phases.truth(planning)
    return where.current or where.following


def _plan(phase: Phase, text: str) -> Plan | None:
    """The plan asked for, else the first of the phase that is not done, else its last."""
    if text.strip():
        wanted = plan_key(text, phase.number)
        found = next((one for one in phase.plans if plan_key(one.id, phase.number) == wanted), None)
        if found is None:
            known = ", ".join(one.id for one in phase.plans) or "none"
            raise BadRequest("unknown_resource", f"phase {phase.number} has no plan {text[:80]!r}; it has: {known}")
        return found
    return next((one for one in phase.plans if one.summary is None), phase.plans[-1] if phase.plans else None)


# -- sections -------------------------------------------------------------------------------------------------------


def _name(snapshot: Snapshot) -> str:
    named = snapshot.planning.project if snapshot.planning is not None else None
    return (named.name if named is not None else "") or snapshot.root.name


def _phase(phase: Phase | None) -> str:
    if phase is None:
        return "No phase is under way."
    lines = [f"Phase {phase.number}: {phase.name}" if phase.name else f"Phase {phase.number}"]
    lines += [f"- directory: `{phase.directory}`"] if phase.directory else []
    lines += [f"- depends on: {', '.join(phase.depends_on)}"] if phase.depends_on else []
    lines += [f"- success criterion: {one}" for one in phase.criteria]
    lines += [f"- plan {one.id}: {'done' if one.summary is not None else 'open'}" for one in phase.plans]
    return _cut("\n".join(lines))


def _conventions(snapshot: Snapshot) -> str:
    answer = code_answers.get_conventions(snapshot)
    # Without the file as written: all of it stands in the other keys, and the room is short.
    found = {key: value for key, value in answer.items() if value and key not in {"raw", "source", "note"}}
    return f"```json\n{_cut(json.dumps(found, ensure_ascii=False, indent=1, default=dict))}\n```" if found else ""


def _relevant(snapshot: Snapshot, goal: str) -> str:
    if not goal.strip():
        return ""
    try:
        found = relevant.phase_relevant_files(snapshot, phase_goal=clip(goal, ASKED_CHARS))["relevant_files"]
    except BadRequest as error:  # a goal that is no words, or the number of no phase
        return error.message
    lines = []
    for one in found:
        reach = one.get("blast_radius") or {}
        told = f" ({_depend(reach['total'])})" if reach.get("total") else ""
        purpose = (one.get("purpose") or "purpose not known").rstrip(". ")
        lines.append(f"- `{one['path']}`{told}: {purpose}. {one['recommendation']}")
    return _cut("\n".join(lines)) or "No file is known to have to do with the goal."


def _requirements(snapshot: Snapshot, phase: Phase | None) -> str:
    planning = snapshot.planning
    if planning is None or phase is None:
        return ""
    known = {one.id: one for one in (*planning.past_requirements, *planning.requirements)}
    lines = [_requirement(each, known.get(each)) for each in requirements_of(planning, phase)]
    return _cut("\n".join(lines)) or "The phase names no requirements."


def _requirement(named: str, found: Requirement | None) -> str:
    return f"- {named}: {found.text} ({found.status})" if found is not None else f"- {named}: in no requirements file"


def _plan_text(snapshot: Snapshot, phase: Phase | None, plan: Plan | None) -> str:
    if phase is None or plan is None:
        return "The phase has no plan yet."
    text = plan_answers.phase_page(snapshot, phase.number, f"plan/{plan.id}")
    done = ", which has its summary already" if plan.summary is not None else ""
    return f"`{plan.file}`{done}:\n\n<plan>\n{_cut(text, PLAN_MAX).strip()}\n</plan>"


def _blast(snapshot: Snapshot, plan: Plan | None) -> str:
    if plan is None or not plan.files_modified:
        return "The plan names no files."
    lines = []
    for file in plan.files_modified[:FILES_MAX]:
        try:
            found = code_answers.blast_radius(snapshot, file=file)
        except OrchestratorError as error:
            lines.append(f"- `{file}`: {error.message}")
            continue
        direct, total = found["directDependents"], found["totalAffected"]
        # None that are known is not none: there the recommendation alone says how it is.
        told = f"{_depend(direct)}, {total} with those behind them. " if total else ""
        lines.append(f"- `{file}`: {told}{found['recommendation']}")
    if len(plan.files_modified) > FILES_MAX:
        lines.append(f"- and {len(plan.files_modified) - FILES_MAX} more files, which are not looked at here")
    return _cut("\n".join(lines))


def _depend(count: int) -> str:
    return "1 file depends on it" if count == 1 else f"{count} files depend on it"


def _must_haves(phase: Phase | None, only: Plan | None) -> str:
    if phase is None:
        return ""
    lines = []
    for plan in [only] if only is not None else phase.plans:
        must = plan.must_haves
        lines += [f"- true ({plan.id}): {one}" for one in must.truths]
        lines += [f"- exists ({plan.id}): `{one.path}`{_of(one.provides)}" for one in must.artifacts]
        lines += [
            f"- linked ({plan.id}): `{one.source}` to `{one.target}`{_of(one.via or one.pattern)}"
            for one in must.key_links
        ]
    lines += [f"- true (roadmap): {one}" for one in phase.criteria if only is None]
    return _cut("\n".join(lines)) or "Neither plans nor roadmap say what must be true."


def _of(text: str) -> str:
    return f", {text}" if text else ""


def _lowered(page: str) -> str:
    """A page without its headings' marks: below a heading of the prompt they would stand above it."""
    return _cut("\n".join(_plain(page.splitlines())))


def _plain(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        words = line.lstrip("#").strip()
        yield f"**{words}**" if line.startswith("#") and words else line


def _cut(text: str, most: int = SECTION_MAX) -> str:
    """A text, cut at the end of a line where it is long; then it says so."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return f"{kept[: kept.rfind(chr(10)) + 1 or None].rstrip()}\n[cut: there is more]"
