"""`gsd_requirement_status`, `gsd_untraceable_requirements` and the list of those pending, as plain answers. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Plan, Planning, Requirement, Row, Summary
from orchestrator.gsd.planning import requirement_words
from orchestrator.gsd.planning.phase_answers import of_milestone, planning_of, unread
from orchestrator.gsd.planning.phase_numbers import plan_key

_NEAR = 5
_PLANS = re.compile(r"(?<![\w.-])\d{1,6}[A-Za-z]?(?:\.\d{1,6})*-\d{1,6}(?![\w-])")

_FAILED = re.compile(r"\bfail|\bmissing\b|\b(?:un|not[ _-]+)(?:satisfied|verified|met)\b|[✗✘❌]", re.IGNORECASE)


def requirement_status(snapshot: Snapshot, *, requirement_id: str) -> dict[str, Any]:
    """What became of a requirement (A3), of the milestone under way or of the youngest archived one that has it.

    ``traced_to``: ``[{phase, plan, task, by, file}]``; ``by`` says how a plan names it: ``requirements`` (in its
    frontmatter), ``summary`` (requirements-completed), ``task``, ``must_haves``, ``objective``; for a phase none of
    whose plans does, ``plan`` is null and ``by`` is ``ROADMAP.md`` or ``traceability``. ``verification``: as
    ``coverage`` the rows of the phases' Requirements Coverage with file and line, as ``status`` their worst (null:
    none names it), and as ``must_haves`` the truths of the plans that name it, each with what VERIFICATION.md says of
    it (null: nothing); where no plan names it, those of its phases, by VERIFICATION.md or else by all their plans.
    BadRequest ``unknown_requirement`` with the nearest ids, or with the phases whose roadmap names what no file
    defines; ``no_gsd_project``.
    """
    planning = planning_of(snapshot)
    one = _find(planning, requirement_id)
    pool = _pool(planning, one)
    traced = list(_traced(one, pool))
    return {
        "requirement": one.id,
        "text": one.text,
        "status": one.status,
        "category": one.category,
        "section": one.section,
        "checked": one.checked,
        "stated": one.stated or None,
        "conflict": one.conflict or None,
        "phases": list(one.phases),
        "archived": one not in planning.requirements,
        "traced_to": traced,
        "verification": _verification(one, pool, {row["plan"] for row in traced if row["plan"]}),
        "file": one.file,
        "line": one.line,
    }


def pending_requirements(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The requirements of the milestone under way that are not completed, without those put off to a later one.

    Each ``{id, text, status, category, phases, conflict, file, line}``; empty between milestones, without planning.
    """
    planning = snapshot.planning
    return [
        {
            "id": one.id,
            "text": one.text,
            "status": one.status,
            "category": one.category,
            "phases": list(one.phases),
            "conflict": one.conflict or None,
            "file": one.file,
            "line": one.line,
        }
        for one in (planning.requirements if planning else ())
        if one.status not in {"completed", "deferred"}
    ]


def _find(planning: Planning, text: str) -> Requirement:
    known: dict[str, Requirement] = {}
    for one in (*planning.past_requirements, *planning.requirements):  # the later counts
        known[one.id.casefold()] = one
    wanted = text.strip().strip("`*[]() ").casefold()
    if wanted in known:
        return known[wanted]
    naming = [one for one in (*planning.phases, *planning.past) if wanted in map(str.casefold, one.requirements)]
    if naming:
        where = "; ".join(
            f"phase {one.number} ({one.file}:{one.requirements_line or one.line})" for one in naming[:_NEAR]
        )
        missed = "".join(f"; {one}" for one in unread(planning, "REQUIREMENTS.md"))
        what = f"no REQUIREMENTS.md has {text.strip()[:80]!r}, only a roadmap names it: {where}{missed}"
        raise BadRequest("unknown_requirement", what, near=[], phases=[one.number for one in naming[:_NEAR]])
    close = [known[key].id for key in difflib.get_close_matches(wanted[:100], list(known), n=_NEAR, cutoff=0.6)]
    hint = f"; near are: {', '.join(close)}" if close else ""
    missed = "".join(f"; {one}" for one in unread(planning, "REQUIREMENTS.md", "ROADMAP.md"))
    raise BadRequest(
        "unknown_requirement", f"no requirement is called {text.strip()[:80]!r}{hint}{missed}", near=close
    )


def _pool(planning: Planning, one: Requirement) -> list[Phase]:
    """The phases that a requirement can be traced to: those of its own milestone."""
    if one in planning.requirements:
        return list(planning.phases)
    return [phase for phase in planning.past if of_milestone(planning, one, phase)]


def _traced(one: Requirement, pool: list[Phase]) -> Iterator[dict[str, Any]]:
    named = set()
    for phase in pool:
        summed = {plan_key(plan.id, phase.number) for plan in phase.plans}
        for plan in phase.plans:
            for by, task in _naming(one.id, plan, plan.summary):
                named.add(phase.number)
                yield {"phase": phase.number, "plan": plan.id, "task": task, "by": by, "file": plan.file}
        for summary in phase.summaries:  # those without a plan
            if plan_key(summary.plan_id, phase.number) not in summed and one.id in summary.requirements:
                named.add(phase.number)
                yield {
                    "phase": phase.number,
                    "plan": summary.plan_id,
                    "task": None,
                    "by": "summary",
                    "file": summary.file,
                }
    said = _plans_of(one)
    for phase in pool:
        for plan in phase.plans:
            if plan_key(plan.id, phase.number) in said and not any(_naming(one.id, plan, plan.summary)):
                named.add(phase.number)
                yield {"phase": phase.number, "plan": plan.id, "task": None, "by": "traceability", "file": plan.file}
    listing = {phase.number: phase for phase in pool if one.id in phase.requirements}
    for number in one.phases:
        if number not in named:
            by, file = ("ROADMAP.md", listing[number].file) if number in listing else ("traceability", one.file)
            yield {"phase": number, "plan": None, "task": None, "by": by, "file": file}


def _plans_of(one: Requirement) -> set[tuple[str, str]]:
    """The plans that the traceability table names beside a status: ``Planned (05-01, 05-02)``."""
    return {plan_key(text) for text in _PLANS.findall(one.stated)}


def _naming(name: str, plan: Plan, summary: Summary | None) -> Iterator[tuple[str, str | None]]:
    """How a plan names a requirement, each way once, and the task where it is one that does."""
    own = name.upper()
    if own in {one.upper() for one in plan.requirements}:
        yield "requirements", None
    if summary and own in {one.upper() for one in summary.requirements}:
        yield "summary", None
    for task in plan.tasks:
        if any(_mentions(own, text) for text in (task.name, task.action, task.verify, task.done)):
            yield "task", task.name
    if any(_mentions(own, truth) for truth in plan.must_haves.truths):
        yield "must_haves", None
    if _mentions(own, plan.objective):
        yield "objective", None


def _mentions(own: str, text: str) -> bool:
    """Whether a text has this id, given in upper case, as a whole word."""
    return own in text.upper() and own in requirement_words.words(text)


def _verification(one: Requirement, pool: list[Phase], plans: set[str]) -> dict[str, Any]:
    rows = [
        {"phase": phase.number, "status": row.status, "evidence": row.evidence, "file": found.file, "line": row.line}
        for phase in pool
        if (found := phase.verification)
        for row in found.requirements
        if one.id.upper() in requirement_words.words(row.what)
    ]
    truths: list[dict[str, Any]] = []
    for phase in pool:
        rows_of = phase.verification.truths if phase.verification else ()
        seen = {_even(row.what): row for row in rows_of}
        unnamed = not plans and phase.number in one.phases
        for plan in phase.plans:
            if plan.id in plans or (unnamed and not rows_of):
                lines = plan.must_haves.lines or (0,) * len(plan.must_haves.truths)
                for truth, line in zip(plan.must_haves.truths, lines, strict=True):
                    row = seen.get(_even(truth))
                    file = phase.verification.file if phase.verification and row else plan.file
                    truths.append(_truth(truth, row, plan.id, file, line))
        if unnamed and phase.verification:
            truths += [_truth(row.what, row, None, phase.verification.file) for row in rows_of]
    return {"status": _worst([str(row["status"]) for row in rows]), "must_haves": truths, "coverage": rows}


def _truth(truth: str, row: Row | None, plan: str | None, file: str, line: int = 0) -> dict[str, Any]:
    status, line = (row.status, row.line) if row else (None, line)
    return {"truth": truth, "status": status, "plan": plan, "file": file, "line": line}


def _even(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def _worst(told: list[str]) -> str | None:
    """The status that needs most attention, as written."""
    ranks = {"blocked": 0, "pending": 1, "in_progress": 2, "deferred": 3, None: 4, "completed": 5}
    return min(
        told, key=lambda one: 0 if _FAILED.search(one) else ranks[requirement_words.status_of(one)], default=None
    )


def untraceable_requirements(snapshot: Snapshot) -> dict[str, Any]:
    """Where the thread between requirements, phases and plans is cut, in the milestone under way.

    ``{untraceable: [{id, text, status, reason, file, line}], unknown: [{id, phase, file, line}], ambiguous: [{id,
    phases, file, line}], unproven: [{id, text, reason, file, line}], unfinished: [{id, text, phases, file, line}],
    plans: [{plan, phase, file}], counts}``. ``untraceable``: no phase has it, or only phases that there are not;
    ``unknown``: a phase or plan names it, REQUIREMENTS.md has it not; ``ambiguous``: more than one phase has it;
    ``unproven``: it counts as completed, but no plan, summary or verification shows it; ``unfinished``: its phases
    are complete, it is not; ``plans``: those of a phase with requirements that name none of these, nor are named
    beside one in the traceability table. Those put off to a later milestone are left out. ``notes`` says which of
    REQUIREMENTS.md and ROADMAP.md could not be read. BadRequest ``no_gsd_project``.
    """
    planning = planning_of(snapshot)
    notes = unread(planning, "REQUIREMENTS.md", "ROADMAP.md")
    wanted = [one for one in planning.requirements if one.status != "deferred"]
    numbers = {phase.number: phase for phase in planning.phases}
    known = {one.id for one in planning.requirements}
    untraceable, ambiguous, unproven, unfinished = [], [], [], []
    for one in wanted:
        where = {"id": one.id, "text": one.text, "file": one.file, "line": one.line}
        there = [numbers[number] for number in one.phases if number in numbers]
        if not one.phases:
            untraceable.append({**where, "status": one.status, "reason": "no phase has it"})
        elif not there:
            gone = f"phase {', '.join(one.phases)} is not of this milestone"
            untraceable.append({**where, "status": one.status, "reason": gone})
        if len(one.phases) > 1:
            ambiguous.append({"id": one.id, "phases": list(one.phases), "file": one.file, "line": one.line})
        if one.status == "completed" and not any(_shown(one, phase) for phase in there):
            why = "no plan of its phase has a summary, and no verification names it"
            if not any(phase.directory for phase in there):
                why = "the files of its phase are not there"
            unproven.append({**where, "reason": why})
        if one.status != "completed" and there and all(phase.complete for phase in there):
            unfinished.append({**where, "phases": list(one.phases)})
    unknown = list(_unknown(planning.phases, known))
    stated = {key for one in wanted for key in _plans_of(one)}
    silent = [
        {"plan": plan.id, "phase": phase.number, "file": plan.file}
        for phase in planning.phases
        if phase.requirements
        for plan in phase.plans
        if not _names_any(plan, phase) and plan_key(plan.id, phase.number) not in stated
    ]
    return {
        "untraceable": untraceable,
        "unknown": unknown,
        "ambiguous": ambiguous,
        "unproven": unproven,
        "unfinished": unfinished,
        "plans": silent,
        "counts": {
            "requirements": len(wanted),
            "deferred": len(planning.requirements) - len(wanted),
            "traced": len(wanted) - len(untraceable),
            "untraceable": len(untraceable),
            "unknown": len(unknown),
            "ambiguous": len(ambiguous),
            "unproven": len(unproven),
            "unfinished": len(unfinished),
            "plans": len(silent),
        },
    } | ({"notes": notes} if notes else {})


def _shown(one: Requirement, phase: Phase) -> bool:
    if any(plan.summary for plan in phase.plans):
        return True
    found = phase.verification
    return bool(found and any(one.id.upper() in requirement_words.words(row.what) for row in found.requirements))


def _unknown(phases: Iterable[Phase], known: set[str]) -> Iterator[dict[str, Any]]:
    for phase in phases:
        for name in phase.requirements:
            if name not in known:
                line = phase.requirements_line or phase.line
                yield {"id": name, "phase": phase.number, "file": phase.file, "line": line}
        for plan in phase.plans:
            for name in plan.requirements:
                if name not in known and name not in phase.requirements and requirement_words.is_id(name):
                    yield {"id": name, "phase": phase.number, "file": plan.file, "line": 0}


def _names_any(plan: Plan, phase: Phase) -> bool:
    named = {one.upper() for one in (*plan.requirements, *(plan.summary.requirements if plan.summary else ()))}
    texts = [plan.objective, *plan.must_haves.truths]
    texts += [text for task in plan.tasks for text in (task.name, task.action, task.verify, task.done)]
    named.update(*map(requirement_words.words, texts))
    return not named.isdisjoint(name.upper() for name in phase.requirements)
