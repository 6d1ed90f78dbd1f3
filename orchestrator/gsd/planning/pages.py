"""A project's planning as Markdown pages: vision, decisions, phases. Reads a phase's own files, and nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Decision, Phase, Planning
from orchestrator.gsd.planning import phases
from orchestrator.gsd.planning.phase_answers import phase_of, planning_of, told, unread
from orchestrator.gsd.planning.phase_numbers import plan_key

PAGE_MAX = 256 * 1024
_FILES = ("context", "research", "verification", "uat")


def vision(snapshot: Snapshot) -> str:
    """PROJECT.md's What This Is (without one its Vision: C20) and Core Value; what is missing is said so."""
    planning = snapshot.planning
    if planning is None:
        return "This project has no .planning/: there is no vision. Run /gsd:new-project to write one.\n"
    found = planning.project
    if found is None:
        core = planning.state.core_value if planning.state else ""
        why = unread(planning, "PROJECT.md")
        none = f"There is no {planning.directory}/PROJECT.md. Run /gsd:new-project to write one."
        missing = f"# Vision\n\n{'. '.join(why) or none}\n"
        return missing + (
            f"\n## Core Value\n\n{core}\n\n(from {planning.state.file})\n" if core and planning.state else ""
        )
    core = found.core_value or (planning.state.core_value if planning.state else "")
    what = found.what or f"{found.file} has neither a section What This Is nor a section Vision."
    value = core or f"{found.file} names no core value."
    return f"# {found.name or 'Vision'}\n\n## What This Is\n\n{what}\n\n## Core Value\n\n{value}\n"


def decisions(snapshot: Snapshot) -> str:
    """The Key Decisions of PROJECT.md and those of STATE.md, as tables; what is missing is said in its place."""
    planning = snapshot.planning
    own = planning.project.decisions if planning and planning.project else ()
    later = planning.state.decisions if planning and planning.state else ()
    if not own and not later:
        return "# Key Decisions\n\nNeither PROJECT.md nor STATE.md records any.\n"
    parts = ["# Key Decisions\n"]
    if own:
        parts.append("| Decision | Rationale | Outcome |\n|---|---|---|\n" + "".join(map(_row, own)))
    if later:
        table = "| Decision | Rationale | Phase |\n|---|---|---|\n"
        parts.append("## From STATE.md\n\n" + table + "".join(_row(one, phase=True) for one in later))
    return _cut("\n".join(parts))


def _row(one: Decision, *, phase: bool = False) -> str:
    cells = (one.decision, one.rationale, one.phase if phase else one.outcome)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def current_phase_page(snapshot: Snapshot) -> str:
    """The phase under way, or what there is instead of one."""
    planning = snapshot.planning
    if planning is None:
        return "This project has no .planning/: there is no phase.\n"
    where = phases.truth(planning)
    if where.current:
        return _overview(snapshot, where.current)
    answer = told(planning, where, None)
    parts = ["# No phase is under way\n"]
    if answer["status"] == "between_milestones":
        parts.append(f"The project is between milestones; the last one is {answer['milestone'] or 'not named'}.\n")
    if where.following:
        parts.append(f"Next: phase {where.following.number}, {where.following.name} ({where.following.ladder}).\n")
    if planning.state:
        parts.append(
            f"STATE.md says: {planning.state.phase_text or 'nothing of a phase'} — {planning.state.status}\n"
        )
    parts += [f"{note}\n" for note in answer.get("notes", ())]
    return "\n".join(parts)


def phase_page(snapshot: Snapshot, number: str, what: str) -> str:
    """One page of a phase: its overview, or the text of its files.

    ``number``: as for `phase_status`, or ``current``. ``what``: empty, ``plan`` (the first that is not done, else
    the last), ``plans``, ``plan/<id>``, ``context``, ``research``, ``summary`` (all of them), ``verification``,
    ``uat``. What a phase lacks is said in its place. At most `PAGE_MAX` bytes; no part of the arguments becomes part
    of a path. BadRequest ``unknown_phase``, ``unknown_resource`` for another ``what`` or an unknown plan.
    """
    planning = planning_of(snapshot)
    if number.strip().casefold() == "current":
        found = phases.truth(planning).current
        if found is None:
            return current_phase_page(snapshot)
    else:
        found = phase_of(planning, number)
    kind, _, rest = what.strip("/").partition("/")
    if not kind:
        return _overview(snapshot, found)
    if kind == "plan" and rest:
        return _plan(snapshot, found, rest)
    if rest or kind not in {"plan", "plans", "summary", *_FILES}:
        raise BadRequest("unknown_resource", f"a phase has no page {what[:80]!r}")
    files = _files_of(found, kind)
    if not files:
        return f"# Phase {found.number}: {found.name}\n\nIt has no {kind} yet.\n"
    return _cut("\n\n---\n\n".join(_text(snapshot.root, planning, file) for file in files))


def _files_of(phase: Phase, kind: str) -> list[str]:
    if kind == "plan":
        chosen = next((plan for plan in phase.plans if not plan.summary), phase.plans[-1] if phase.plans else None)
        return [chosen.file] if chosen else []
    if kind == "plans":
        return [plan.file for plan in phase.plans]
    if kind == "summary":
        return [one.file for one in phase.summaries]
    single = {
        "context": phase.context,
        "research": phase.research,
        "verification": phase.verification.file if phase.verification else "",
        "uat": phase.uat.file if phase.uat else "",
    }[kind]
    return [single] if single else []


def _plan(snapshot: Snapshot, phase: Phase, text: str) -> str:
    wanted = plan_key(text, phase.number)
    plan = next((one for one in phase.plans if plan_key(one.id, phase.number) == wanted), None)
    if plan is None:
        known = ", ".join(one.id for one in phase.plans) or "none"
        raise BadRequest("unknown_resource", f"phase {phase.number} has no plan {text[:80]!r}; it has: {known}")
    return _cut(_text(snapshot.root, planning_of(snapshot), plan.file))


def _overview(snapshot: Snapshot, phase: Phase) -> str:
    planning = planning_of(snapshot)
    answer = told(planning, phases.truth(planning), phase)
    lines = [f"# Phase {phase.number}: {phase.name}", "", f"**Goal:** {phase.goal or 'not stated'}"]
    lines.append(f"**Status:** {answer['status']}" + (" (archived)" if phase.archived else ""))
    for label, value in (
        ("Milestone", phase.milestone),
        ("Depends on", ", ".join(phase.depends_on)),
        ("Requirements", ", ".join(answer["requirements"])),
        ("Verification", answer["verification_status"] or ""),
    ):
        if value:
            lines.append(f"**{label}:** {value}")
    if phase.criteria:
        lines += ["", "## Success Criteria", "", *(f"{at}. {one}" for at, one in enumerate(phase.criteria, 1))]
    if answer["plans"]:
        lines += ["", "## Plans", ""]
        for plan in answer["plans"]:
            mark = "x" if plan["status"] == "complete" else " "
            under_way = " (in progress)" if plan["status"] == "in_progress" else ""
            lines.append(f"- [{mark}] {plan['id']}{under_way}: {plan['objective']}")
    if answer["current_phase"] == phase.number and answer["blockers"]:
        lines += ["", "## Blockers", "", *(f"- {one}" for one in answer["blockers"])]
    own = [one for one in answer["disagreements"] if one["phase"] in {None, phase.number}]
    if own and not phase.archived:
        lines += ["", "## Disagreements", ""]
        for one in own:
            said = "; ".join(
                f"{at['file']}{':' + str(at['line']) if at['line'] else ''} says {at['says']}" for at in one["said"]
            )
            lines.append(f"- {one['what']} ({said})")
    return _cut("\n".join(lines) + "\n")


def _text(root: Path, planning: Planning, file: str) -> str:
    """The text of a file that the reading of the tree found; it may have gone since, or be something else now."""
    real = os.path.realpath(root / file)  # once: a link put there between two looks must not be followed
    inside = os.path.realpath(root)
    if not file.startswith(f"{planning.directory}/") or not real.startswith(inside + os.sep):
        return f"{file} cannot be read: it leads out of the project.\n"
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return f"{file} cannot be read: it is no regular file.\n"
            return os.read(descriptor, PAGE_MAX + 1).decode("utf-8", "replace").removeprefix("\ufeff")
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}.\n"


def _cut(text: str) -> str:
    """A page, cut at the end of a line where it is longer than `PAGE_MAX` bytes."""
    content = text.encode("utf-8", "replace")
    if len(content) <= PAGE_MAX:
        return text
    end = "\n\n[cut: the page is longer than 256 KiB]\n"
    kept = content[: PAGE_MAX - len(end)]
    return kept[: kept.rfind(b"\n") + 1 or None].decode("utf-8", "ignore") + end
