"""The answer of ``gsd_similar_past_work``: phases like a goal, ranked by BM25 over their summaries. No files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.gsd.graph.words import STOP
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Phase, Planning, Summary
from orchestrator.gsd.ranked.kept import Kept
from orchestrator.gsd.ranked.ranking import Ranked, bare, sentences, terms
from orchestrator.gsd.shown import asked, prose

BEST = 5
MOST = 1000
_UNDONE = 0.25
NO_PLANNING = "There is no .planning/ here that can be read, so no past work is known."
ITEMS = 5
FILES = 15
_ITEM_CHARS = 200
_BODY_CHARS = 20_000
_LESSONS = re.compile(
    r"deviation|issue|problem|lesson|additional fix|caveat|pitfall|learn|blocker|gotcha", re.IGNORECASE
)
_NONE = re.compile(
    r"^(?:none|n/a|no (?:deviations?|issues?|problems?))\b|^(?:auto-?fixed |deferred )?issues:?$|^commits?:"
    # Heads that name the kind of what stands below, not what was learned.
    r"|^(?:(?:technical|implementation|user-reported|additional|further|other) )*"
    r"(?:details?|notes?|background|context|summary|overview|issues|fixes)(?: fixed)?:?$",
    re.IGNORECASE,
)
# That something went well teaches nothing.
_WELL = re.compile(
    r"\b(?:successfully|validated|exactly as (?:planned|written)|existing patterns|tests? pass(?:ed|ing)?)[.!]?$",
    re.IGNORECASE,
)
_NESTED = 2
_CELLS = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"^Rule \d{1,2} - [\w ]{1,40}:\s*")
# GSD's template: "**1. [Rule 3 - Blocking] What was wrong**", then bullets of who found it and how it was mended.
_TITLE = re.compile(r"^(?:#{3,5}\s+|\*\*)(?:\d{1,3}[.)]\s*)?(?:\[[^\]\n]{1,60}\]\s*)?([^*\n]{4,400})(?:\*\*)?$")
_FIELD = re.compile(
    r"^\*{0,2}(?:found during|issue|fix|files? modified|verification|verified|commit\w*|impact|rationale)\b",
    re.IGNORECASE,
)
_SPACES = re.compile(r"\s+")
_BULLET = re.compile(r"^\s{0,12}(?:[-*+]|\d{1,3}[.)])\s+(.*)$")


@dataclass(frozen=True)
class _Index:
    phases: tuple[Phase, ...]
    ranked: Ranked
    stems: tuple[frozenset[str], ...]


def _summaries(phase: Phase) -> list[Summary]:
    own = [plan.summary for plan in phase.plans if plan.summary is not None]
    return list({one.file: one for one in [*own, *phase.summaries]}.values())


def _indexed(planning: Planning) -> _Index:
    every = [*planning.phases, *planning.past, *planning.quick]
    phases = tuple(phase for phase in every if phase.goal or phase.name or _summaries(phase))
    documents = [_document(phase) for phase in phases]
    return _Index(
        phases,
        Ranked(("goal", "gist", "choices", "body"), (4.0, 3.0, 2.0, 1.0), documents),
        tuple(frozenset(one.stems) for one in sentences([" ".join(document) for document in documents])),
    )


def _document(phase: Phase) -> tuple[str, str, str, str]:
    every = _summaries(phase)
    listed = " ".join(one.text for one in phase.listed)
    return (
        f"{phase.name} {phase.goal}",
        " ".join([listed, *(" ".join([s.title, s.one_liner, s.subsystem, *s.tags, *s.provides]) for s in every)]),
        " ".join(" ".join([*one.decisions, *one.patterns, *one.tech_added, *one.created]) for one in every),
        " ".join([*phase.criteria, *(" ".join(one.body.values()) for one in every)])[:_BODY_CHARS],
    )


_INDEX: Kept[Planning, _Index] = Kept(_indexed)


def similar_past_work(snapshot: Snapshot, *, current_goal: str, include_summaries: bool = False) -> dict[str, Any]:
    """Up to five phases and quick tasks, of this milestone and past ones, that are about something like it (B3.16).

    ``{similar_phases: [{phase, name, goal, approach[], lessons[], files_created[], files_created_total, score,
    matched[], milestone?, plans[], status, requirements?, summaries?}], recommendation}``, best first.
    ``score`` is BM25's, over goal, gist, decisions and text of the summaries, as a part of the best one's (1.0);
    ``matched`` are the goal's words that were found. ``status`` tells whether anything was done yet: a phase without
    a summary is found by what the roadmap says of it. A quick task's ``phase`` is its directory. BadRequest
    ``bad_argument``; Environment ``gsd_failed`` where SQLite has no FTS5.
    """
    goal = asked(current_goal, "current_goal")
    shown = [
        _shown(snapshot.planning, phase, score, goal, include_summaries)
        for phase, score in similar(snapshot.planning, goal)
    ]
    if snapshot.planning is None:
        return {"similar_phases": [], "recommendation": NO_PLANNING}
    return {"similar_phases": shown, "recommendation": _recommendation(shown)}


def similar(planning: Planning | None, goal: str, limit: int = BEST) -> list[tuple[Phase, float]]:
    """The phases most like a goal, best first, each with its score as a part of the best one's (1.0).

    Each has half of the goal's stems, or two of them and a tenth of the best score: one common word is no likeness.
    """
    if planning is None:
        return []
    index = _INDEX(planning)
    (wanted,) = sentences([" ".join(_words(goal))])
    found: list[tuple[Phase, float]] = []
    best = 0.0
    # Where nothing was done yet, there is less to learn.
    hits = [
        (at, score * (1 if _worked(index.phases[at]) else _UNDONE)) for at, score in index.ranked.best(goal, MOST)
    ]
    for at, score in sorted(hits, key=lambda hit: -hit[1]):
        shared = len(set(wanted.stems) & index.stems[at])
        half = shared > 0 and shared * 2 >= len(wanted.stems)
        if half or (shared > 1 and score * 10 >= best):
            best = best or score
            found.append((index.phases[at], score / best))
    return found[:limit]


def _worked(phase: Phase) -> bool:
    return phase.complete or bool(_summaries(phase))


def _words(goal: str) -> list[str]:
    found = terms(goal)
    return [word for word in found if word not in STOP] or found


def _matched(phase: Phase, goal: str) -> list[str]:
    """The goal's own words that the phase has, in their order."""
    asked_for = _words(goal)
    own, *single = sentences([" ".join(_document(phase)), *asked_for])
    return [
        word for word, one in zip(asked_for, single, strict=True) if one.stems and set(one.stems) <= set(own.stems)
    ][:20]


def _shown(planning: Planning | None, phase: Phase, score: float, goal: str, summaries: bool) -> dict[str, Any]:
    every = _summaries(phase)
    inside = f"{planning.directory if planning is not None else '.planning'}/"
    created = list(
        dict.fromkeys(
            path
            for one in every
            for path in one.created
            if not path.strip("` ").removeprefix("./").removeprefix("/").startswith(inside)
        )
    )
    approach = _items([text for one in every for text in [*one.decisions, *one.patterns]])
    approach = approach or _items([one.one_liner or one.title for one in every])
    lessons = [text for one in every for text in _lessons(one)]
    answer: dict[str, Any] = {
        "phase": phase.number,
        "name": prose(phase.name),
        "goal": prose(phase.goal),
        "approach": approach,
        "lessons": _items([*lessons, *_gaps(phase), *_revisited(planning, phase)]),
        "files_created": [prose(path) for path in created[:FILES]],
        "files_created_total": len(created),
        "score": float(f"{score:.3g}"),
        "matched": _matched(phase, goal),
        "plans": [plan.id for plan in phase.plans][:30] or [one.plan_id for one in every][:30],
        "status": "complete" if phase.complete else phase.ladder,
    }
    if phase.milestone:
        answer["milestone"] = prose(phase.milestone)
    if phase.requirements:
        answer["requirements"] = list(phase.requirements[:20])
    if summaries:
        answer["summaries"] = [
            {
                "plan": one.plan_id,
                "file": one.file,
                "one_liner": prose(one.one_liner or one.title),
                "text": _text(one),
            }
            for one in every[:4]
        ]
    return answer


def _items(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(shown for text in texts if (shown := prose(bare(text), _ITEM_CHARS))))[:ITEMS]


def _text(summary: Summary) -> str:
    return prose("\n".join(f"{head}: {text}" for head, text in summary.body.items()), 600)


def _lessons(summary: Summary) -> Iterator[str]:
    """What the sections on deviations and issues tell: titles, else bullets and rows, else the first paragraph."""
    for head, text in summary.body.items():
        if not _LESSONS.search(head):
            continue
        lines = [line for line in text[:_BODY_CHARS].split("\n") if line.strip()]
        for item in _told(lines):
            plain = _RULE.sub("", item.replace("**", "").strip())
            if plain and not _NONE.match(plain.strip("*_ ")) and not _WELL.search(plain.strip("*_ ")):
                yield plain


def _told(lines: list[str]) -> list[str]:
    titled, bullets, rows = list[str](), list[str](), list[str]()
    went_well = False  # below "None - all was done:" stands what was done
    for place, line in enumerate(lines):
        if line.lstrip().startswith("|"):
            # Above the rule of a table stands its head.
            head = place + 1 < len(lines) and not set(lines[place + 1]) - set("|-: ")
            cells = [cell.strip() for cell in _CELLS.split(line.strip().strip("|"))]
            if not head and set(line) - set("|-: ") and not (cells[0].isdigit() and len(cells) == 1):
                rows.append(" — ".join(cell for cell in cells if cell and not cell.isdigit()))
        elif (title := _TITLE.match(_SPACES.sub(" ", line.rstrip()))) is not None:
            titled.append(_whole(title[1], lines[place + 1 :], 0))
            went_well = False
        elif (bullet := _BULLET.match(line)) is None:
            went_well = _NONE.match(line) is not None and line.rstrip("*_ ").endswith(":")
        elif not went_well and _indent(line) < _NESTED and not _FIELD.match(bullet[1]):
            bullets.append(_whole(bullet[1], lines[place + 1 :], _indent(line) + 1))
    titled = [item for item in titled if not item.endswith(":")]
    plain = [line for line in lines if not line.lstrip().startswith(("#", "|", "---"))][:1]
    return [*titled, *rows] or [*bullets] or plain


def _whole(item: str, after: list[str], least: int) -> str:
    """An item with the bullets below it, if it ends in a colon."""
    if not item.strip("*_ ").endswith(":"):
        return item
    below = []
    for line in after:
        bullet = _BULLET.match(line)
        if bullet is None or _indent(line) < least:
            break
        if not _FIELD.match(bullet[1]):
            below.append(bullet[1])
    return f"{item} {'; '.join(below)}" if below else item


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _gaps(phase: Phase) -> list[str]:
    """What a human found wrong when testing it."""
    return [*phase.uat.gaps, *phase.uat.fixed] if phase.uat is not None else []


def _revisited(planning: Planning | None, phase: Phase) -> list[str]:
    """Decisions of that phase, in PROJECT.md, that are to be revisited."""
    every = planning.project.decisions if planning is not None and planning.project is not None else ()
    return [
        f"{one.decision}: {one.outcome}"
        for one in every
        if one.phase == phase.number and phase.number and re.search(r"revisit|⚠", one.outcome, re.IGNORECASE)
    ]


def _recommendation(shown: list[dict[str, Any]]) -> str:
    if not shown:
        return "No phase is about anything like it: there is nothing to learn from here."
    best = shown[0]
    number = str(best["phase"])
    place = f"quick task {number.removeprefix('quick/')}" if number.startswith("quick/") else f"phase {number}"
    where = f"{place} ({best['name']})" if best["name"] else place
    said = f"Look at {where} first" + (f": it shares {', '.join(best['matched'][:6])}." if best["matched"] else ".")
    if not best["approach"]:
        said += " It has no summary: its goal alone is known" + (
            "." if best["status"] == "complete" else f", and it is not done ({best['status']})."
        )
    if best["lessons"]:
        said += f" Mind what it ran into: {best['lessons'][0]}"
    return said
