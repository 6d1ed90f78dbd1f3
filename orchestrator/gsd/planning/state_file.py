"""STATE.md, both generations: the one of lines and the one with frontmatter. Pure (seed-systems A1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from orchestrator.gsd.model import Decision, State, Trouble
from orchestrator.gsd.planning import markdown
from orchestrator.gsd.planning.markdown import Page, text_of
from orchestrator.gsd.planning.phase_numbers import NUMBER, normal, number_of
from orchestrator.gsd.planning.project_file import troubles
from orchestrator.gsd.planning.requirement_words import says

_PHASE = re.compile(
    rf"(?:Phase[ \t]+)?({NUMBER})(?![A-Za-z0-9])(?![ \t]*[-\u2013—][ \t]*\d)(?:[ \t]*(?:of|/)[ \t]*(\d{{1,6}}))?"
    r"[ \t]*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|[-:—\u2013.][ \t]*([^-—\u2013]*))?.*",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"(?:Plan[ \t]+)?(?:\d{1,6}(?:\.\d{1,6})*-)?(\d{1,6})(?:[ \t]*(?:of|/)[ \t]*(\d{1,6}))?\b.*", re.IGNORECASE
)
_BETWEEN = re.compile(
    r"\bmilestone\b.{0,40}\b(?:complete|completed|shipped|archived)\b|\bbetween milestones\b|\bnext milestone\b"
    r"|\bno active (?:phase|milestone)\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"(\d{1,3})[ \t]*%")
_LABEL = re.compile(
    rf"\**(?:\[)?(?:Phase[ \t]+)?({NUMBER}(?:-\d{{1,6}})?)(?:\])?(?:[ \t]*\([^()]*\))?:?\**:[ \t]*\**[ \t]*(.*)"
)
_GROUP = re.compile(rf"\*\*Phase[ \t]+({NUMBER})\b[^*]*\*\*:?[ \t]*")
_NOTHING = frozenset({"none", "none yet", "none yet.", "none.", "n/a", "-", "no blockers", "no blockers.", "nothing"})
_SETTLED = re.compile(r"~~|.*\b(?:FIXED|RESOLVED)\b|.*:[ \t]*Complete\b", re.DOTALL)

_States = Literal["paused", "executing", "planning", "discussing", "verifying", "completed", "unknown"]
_WORDS: tuple[tuple[_States, tuple[str, ...]], ...] = (
    ("paused", ("paused", "stopped", "on hold")),
    ("executing", ("executing", "in progress", "in-progress", "in_progress", "ready to execute", "implementing")),
    ("discussing", ("discuss", "gathering")),
    ("verifying", ("verif",)),
    ("planning", ("planning", "ready to plan", "planned", "to plan", "plan")),
    ("completed", ("complete", "done", "shipped")),
)


def state(text: str, file: str) -> tuple[State, tuple[Trouble, ...]]:
    """STATE.md's facts and what of it was odd; what it does not say is empty.

    Frontmatter counts before the lines of Current Position, these before the same fields anywhere else. ``between``:
    it says that the milestone is complete, and its phase line names no phase.
    """
    page = markdown.read(text)
    front: Mapping[str, Any] = page.front
    newer = bool(
        front.get("gsd_state_version") or front.get("status") or front.get("active_phase") or front.get("milestone")
    )
    position = page.section("Current Position", "Position", "Current Status")
    anywhere = markdown.fields(page.body, page.fenced)
    near = markdown.fields(position.lines, page.fenced) if position else {}

    def said(*names: str) -> tuple[int, str]:
        for fields in (near, anywhere):
            for name in names:
                if fields.get(name, (0, ""))[1]:
                    return fields[name]
        return 0, ""

    def head(*names: str) -> str:
        found = next((text_of(front[name]) for name in names if front.get(name) is not None), "")
        return "" if found.casefold() in {"null", "none", "~"} else found

    line, phase_text = said("phase", "current phase")
    active = head("active_phase", "current_phase", "phase")
    odd = [*troubles(page, file)]
    phase, name, total = _phase(phase_text)
    if active:
        number = number_of(active)
        if phase and number and phase != number:
            odd.append(
                Trouble(file, line, f"the frontmatter says phase {number}, this line says {phase}", "conflict")
            )
        name = name if phase == number else ""
        phase, line, phase_text = number or phase, line or 1, phase_text or active
    plan_line, plan_text = said("plan", "current plan")
    plan = _PLAN.fullmatch(head("active_plan", "current_plan") or plan_text)
    status = head("status") or said("status")[1]
    progress = front.get("progress") if isinstance(front.get("progress"), Mapping) else {}
    percent = _PERCENT.search(said("progress")[1])
    between = not phase and any(_BETWEEN.search(one) for one in (phase_text, status, said("current focus")[1]))
    version = re.search(r"v\d{1,4}(?:\.\d{1,4}){0,3}", said("milestone")[1] or phase_text)
    return State(
        file=file,
        generation=2 if newer else 1,
        phase=phase,
        phase_text=phase_text,
        phase_name=head("active_phase_name", "phase_name") or name,
        phase_total=_whole(text_of(progress.get("total_phases")) if progress else "") or total,
        plan_text=plan_text,
        plan=int(plan[1]) if plan else None,
        plan_total=int(plan[2]) if plan and plan[2] else None,
        status=status,
        state=state_of(status),
        between=between,
        milestone=head("milestone") or (version[0] if version else ""),
        last_activity=head("last_activity", "last_updated") or said("last activity")[1],
        percent=_bounded(
            _whole(text_of(progress.get("percent"))) if progress else _whole(percent[1] if percent else "")
        ),
        core_value=said("core value")[1],
        focus=said("current focus")[1],
        decisions=tuple(_decisions(page)),
        todos=_listed(page, "Pending Todos", "Todos"),
        blockers=tuple(one for one in _listed(page, "Blockers/Concerns", "Blockers") if not _SETTLED.match(one)),
        stopped_at=head("stopped_at") or said("stopped at")[1],
        next_action=head("next_action") or said("next action", "next", "next step")[1],
        front=MappingProxyType(dict(front)),
        line=line,
        plan_line=plan_line,
    ), tuple(odd)


def state_of(status: str) -> _States:
    """What a status as written means, in GSD's words for it."""
    low = status.casefold()
    return next((name for name, words in _WORDS if any(says(low, word) for word in words)), "unknown")


def _phase(text: str) -> tuple[str, str, int | None]:
    found = _PHASE.fullmatch(markdown.plain(text))
    if not found:
        return "", "", None
    return normal(found[1]), (found[3] or found[4] or "").strip(), _whole(found[2] or "")


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _bounded(percent: int | None) -> int | None:
    return None if percent is None else min(percent, 100)


def _listed(page: Page, *titles: str) -> tuple[str, ...]:
    section = page.section(*titles)
    if not section:
        return ()
    found = [item.text for item in markdown.items(section.lines, page.fenced) if item.checked is not True]
    return tuple(one for one in found if one.casefold().strip("*_ ") not in _NOTHING)


def _decisions(page: Page) -> Iterator[Decision]:
    section = page.section("Decisions", "Decisions Made", "Key Decisions")
    if not section:
        return
    for table in markdown.tables(section.lines, page.fenced):
        if table.names[0] != "decision":
            continue
        for _, cells in table.rows:
            outcome = markdown.cell(table, cells, "outcome", "status")
            rationale = markdown.cell(table, cells, "rationale", "reason", "why")
            yield Decision(cells[0], rationale, outcome, markdown.cell(table, cells, "phase"))
    group = ""
    for line in section.lines:
        found = _GROUP.match(line.text)
        if found:
            group = normal(found[1])
            continue
        for item in markdown.items((line,), page.fenced):
            label = _LABEL.fullmatch(item.text)
            if label:
                yield Decision(label[2], phase=label[1])
            elif item.text.casefold() not in _NOTHING:
                yield Decision(item.text, phase=group)
