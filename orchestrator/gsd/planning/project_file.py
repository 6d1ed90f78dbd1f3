"""PROJECT.md and REQUIREMENTS.md: texts to facts. Pure (seed-systems A1, C20, C21)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from orchestrator.gsd.model import Decision, ProjectFile, Requirement, Status, Trouble
from orchestrator.gsd.planning import markdown, requirement_words
from orchestrator.gsd.planning.markdown import Page, Section
from orchestrator.gsd.planning.phase_numbers import number_of

REQUIREMENTS_MAX = 5000
_DEFERRED = re.compile(r"\b(?:deferred|future|backlog|later|postponed)\b", re.IGNORECASE)
_NOT_LISTS = frozenset(
    {"out of scope", "traceability", "coverage", "summary", "coverage summary", "milestone summary"}
)
_LISTED = re.compile(rf"[~*`\[]*({requirement_words.ID})[*~`\]]*[ \t]*:?[*~`]*[ \t]*:?[ \t]*(.*)", re.DOTALL)
_BOLD = re.compile(rf"[~]*\*\*({requirement_words.ID})(?::\*\*|\*\*)")
_UPDATED = re.compile(r"\*{0,2}Last updated:?\*{0,2}:?[ \t]*([^*]*)", re.IGNORECASE)


class Traced(NamedTuple):
    """A row of a traceability table: the id, the phases it names, its status as written, its line."""

    id: str
    phases: tuple[str, ...]
    stated: str
    line: int


def project(text: str, file: str) -> tuple[ProjectFile, tuple[Trouble, ...]]:
    """PROJECT.md's facts, and what of it was odd; a heading that is missing leaves its facts empty.

    ``core_value`` may also stand in a line ``**Core Value:** …`` of any section; what is out of scope in a table.
    """
    page = markdown.read(text)
    fields = markdown.fields(page.body, page.fenced)
    what, vision = page.section("What This Is"), page.section("Vision")
    core = page.section("Core Value")
    decisions = page.section("Key Decisions", "Decisions")
    updated = next((m[1].strip() for line in reversed(page.body) if (m := _UPDATED.search(line.text))), "")
    return ProjectFile(
        file=file,
        name=page.title,
        what=what.text if what and what.text else vision.text if vision else "",
        core_value=(core.text if core else "") or markdown.plain(fields.get("core value", (0, ""))[1]),
        sections=_sections(page),
        validated=_listed(page, "Validated"),
        active=_listed(page, "Active"),
        out_of_scope=_out_of_scope(page),
        decisions=tuple(_decided(page, decisions)) if decisions else (),
        updated=updated,
    ), troubles(page, file)


def troubles(page: Page, file: str) -> tuple[Trouble, ...]:
    """What a page's frontmatter had that was no YAML."""
    return tuple(Trouble(file, line, what) for line, what in page.odd)


def _sections(page: Page) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for one in page.sections:
        if one.level == 2:
            out.setdefault(one.title, one.text)
    return MappingProxyType(out)


def _listed(page: Page, title: str) -> tuple[str, ...]:
    section = page.section(title)
    return tuple(item.text for item in markdown.items(section.own, page.fenced) if not item.indent) if section else ()


def _out_of_scope(page: Page) -> tuple[str, ...]:
    section = page.section("Out of Scope")
    if not section:
        return ()
    rows = [
        " — ".join(part for part in cells if part)
        for table in markdown.tables(section.own, page.fenced)
        for _, cells in table.rows
    ]
    return (*_listed(page, "Out of Scope"), *rows)


def _decided(page: Page, section: Section) -> Iterator[Decision]:
    found = [table for table in markdown.tables(section.lines, page.fenced) if table.names[0] == "decision"]
    for table in found:
        for _, cells in table.rows:
            if cells[0]:
                rationale = markdown.cell(table, cells, "rationale", "reason", "why")
                outcome = markdown.cell(table, cells, "outcome", "status", "result")
                yield Decision(cells[0], rationale, outcome, markdown.cell(table, cells, "phase"))
    if not found:
        yield from (Decision(item.text) for item in markdown.items(section.lines, page.fenced) if not item.indent)


def requirements(text: str, file: str) -> tuple[tuple[Requirement, ...], tuple[Trouble, ...]]:
    """REQUIREMENTS.md's requirements in their order, with status; an id that stands there twice counts once.

    Completed: by its checkbox or by the traceability table; ``conflict`` says where these two differ. Without a
    checkbox and without a row: deferred, where others have a checkbox. What a section called Deferred, Future, …
    lists is deferred unless it is completed. A row of the table whose requirement is not listed is one without text.
    """
    page = markdown.read(text)
    odd = [*troubles(page, file)]
    rows, again = traced(page)
    odd += [Trouble(file, line, f"{name} has a second row of traceability", "conflict") for name, line in again]
    out: dict[str, Requirement] = {}
    found = list(itertools.islice(_found(page, file), REQUIREMENTS_MAX + 1))
    if len(found) > REQUIREMENTS_MAX:
        odd.append(Trouble(file, 0, f"it has more than {REQUIREMENTS_MAX} requirements: the others were left out"))
    for one in found[:REQUIREMENTS_MAX]:
        if one.id in out:
            odd.append(
                Trouble(file, one.line, f"{one.id} is listed twice, first in line {out[one.id].line}", "conflict")
            )
        else:
            out[one.id] = one
    boxes = any(one.checked is not None for one in out.values())
    for name, row in rows.items():
        if name not in out and len(out) < REQUIREMENTS_MAX:
            out[name] = Requirement(name, "", section="Traceability", file=file, line=row.line)
            odd.append(Trouble(file, row.line, f"the traceability table names {name}, which is not listed"))
    for name, one in out.items():
        out[name] = settled(one, rows.get(name), boxes)
        if out[name].conflict:
            odd.append(Trouble(file, one.line, f"{name}: {out[name].conflict}", "conflict"))
    return tuple(out.values()), tuple(odd)


def settled(one: Requirement, row: Traced | None, boxes: bool) -> Requirement:
    """A requirement with status, phases and conflict, by its box and its row; ``boxes``: others have a box."""
    table = requirement_words.status_of(row.stated) if row else None
    deferred = _DEFERRED.search(one.section) or (boxes and one.checked is None and row is None)
    status: Status = (
        "completed" if one.checked or table == "completed" else "deferred" if deferred else table or "pending"
    )
    conflict = ""
    if row and table and one.checked is not None and one.checked != (table == "completed"):
        box = "ticked" if one.checked else "not ticked"
        conflict = (
            f"its checkbox is {box} (line {one.line}), the traceability table says {row.stated!r} (line {row.line})"
        )
    return replace(
        one,
        status=status,
        conflict=conflict,
        stated=row.stated if row else "",
        phases=row.phases if row else one.phases,
    )


def traced(page: Page) -> tuple[dict[str, Traced], list[tuple[str, int]]]:
    """The rows of a page's traceability tables by id, and the ids (with line) that have another row."""
    out: dict[str, Traced] = {}
    again: list[tuple[str, int]] = []
    for table in markdown.tables(page.body, page.fenced):
        if not table.names[0].startswith(("req", "id")) or not any(name.startswith("phase") for name in table.names):
            continue
        for line, cells in table.rows:
            names = _ids(markdown.plain(cells[0]))
            if not names:
                continue
            where = markdown.cell(table, cells, "phase", "phases", "phase(s)")
            parts = re.split(r"[,;&]|\band\b", where)
            phases = tuple(dict.fromkeys(n for part in parts if (n := number_of(markdown.plain(part)))))
            stated = markdown.plain(markdown.cell(table, cells, "status", "completed", "complete", "state"))
            for name in names:
                if name in out:
                    again.append((name, line))
                else:
                    out[name] = Traced(name, phases, stated, line)
    return out, again


def _ids(cell: str) -> tuple[str, ...]:
    """The ids that a cell names: one, several, or one with its text behind it, which then must have a digit."""
    if requirement_words.is_id(cell):
        return (cell,)
    return tuple(one for one in requirement_words.listed_ids(cell) if any(map(str.isdecimal, one)))


def _found(page: Page, file: str) -> Iterator[Requirement]:
    top = category = ""
    skipped = False
    for section in page.sections:
        if section.level <= 2:
            top, category = (section.title if section.level == 2 else ""), ""
            skipped = section.title.casefold() in _NOT_LISTS
        elif section.level == 3:
            category = section.title
            skipped = top.casefold() in _NOT_LISTS or section.title.casefold() in _NOT_LISTS
        if skipped:
            continue
        for item in markdown.items(section.own, page.fenced):
            found = _LISTED.fullmatch(item.text)
            if found and (item.checked is not None or _BOLD.match(item.text)):
                text = found[2].strip().removeprefix("—").removeprefix("\u2013").strip()
                yield Requirement(found[1].rstrip("-_"), text, category, top, item.checked, file=file, line=item.line)
        yield from _in_tables(page, section, top, category, file)


def _in_tables(page: Page, section: Section, top: str, category: str, file: str) -> Iterator[Requirement]:
    """Requirements that stand in a table: an id first, then a text, and no phase (that would be traceability)."""
    for table in markdown.tables(section.own, page.fenced):
        if table.names[0] not in {"id", "req", "requirement", "req id", "#"} or len(table.names) < 2:
            continue
        if any(name.startswith("phase") for name in table.names):
            continue
        for line, cells in table.rows:
            name = markdown.plain(cells[0])
            if requirement_words.is_id(name):
                text = markdown.cell(table, cells, "requirement", "description", "text", "what") or cells[1]
                stated = markdown.cell(table, cells, "status", "done", "state")
                done = requirement_words.status_of(stated)
                checked = None if done is None else done == "completed"
                yield Requirement(name, markdown.plain(text), category, top, checked, file=file, line=line)
