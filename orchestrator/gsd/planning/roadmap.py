"""ROADMAP.md, of the milestone under way or an archived one, and MILESTONES.md: texts to facts. Pure (A1).

A roadmap names its phases up to three times: in a checklist, under headings, and in a table. Any of them may be
missing; what none of them has, the phases' directories tell.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from orchestrator.gsd.model import Listed, Milestone, Phase, Requirement, Trouble
from orchestrator.gsd.planning import markdown, requirement_words
from orchestrator.gsd.planning.markdown import Line, Page, Section
from orchestrator.gsd.planning.phase_numbers import NUMBER, normal, order
from orchestrator.gsd.planning.project_file import Traced, settled, traced, troubles

_HEAD = re.compile(rf"[\W_]*Phase[ \t]+({NUMBER})(?:[ \t]*:|[ \t]+[-—\u2013])[ \t]*(.*)", re.IGNORECASE)
_PLAN = re.compile(
    rf"({NUMBER}-\d{{1,6}}[A-Za-z]?|\d{{1,6}}(?=-PLAN))(?:-PLAN)?(?:\.md)?(?![\w-])[ \t]*[-:—\u2013]*[ \t]*(.*)"
)
_CELL = re.compile(rf"(?:Phase[ \t]+)?({NUMBER})(?:[.:)]|[ \t]*[-—\u2013])?(?:[ \t]+(.*))?", re.IGNORECASE)
_VERSION = re.compile(r"\bv(\d{1,4}(?:\.\d{1,4}){0,3})\b", re.IGNORECASE)
_PHASES = re.compile(
    rf"\bPhases?(?:[ \t]+completed)?:?\**:?[ \t]+({NUMBER}(?:[ \t]*[-\u2013—][ \t]*{NUMBER})?)", re.IGNORECASE
)
_SHIPPED = re.compile(r"\b(?:shipped|released|archived)\b:?(?:[ \t]+(\d{4}-\d{2}-\d{2}))?", re.IGNORECASE)
_DONE = re.compile(r"\b(?:complete|completed|done|shipped)\b|[✓✔✅]", re.IGNORECASE)
# A run of blanks is looked at from its beginning alone: from each of its blanks anew would be quadratic.
_TICKS = re.compile(r"(?:(?<![ \t])[ \t]+)?(?:\(INSERTED\)|[✓✔✅☑])[ \t]*", re.IGNORECASE)
_AFTER = re.compile(
    r"(?<![ \t])[ \t]+(?:[-—\u2013]|\(\d+/\d+ plans?\)|\(completed[^()]*\))(?:[ \t]+|$)", re.IGNORECASE
)
PHASES_MAX = 1000
MILESTONES_MAX = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TAGS = re.compile(r"</?[A-Za-z][^<>]{0,200}>")


@dataclass(frozen=True)
class Roadmap:
    """What a roadmap says. ``requirements``: those that it lists itself; ``traced``: the rows of its traceability."""

    file: str
    phases: tuple[Phase, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    shipped: bool = False  # the whole file is an archive of what was shipped
    troubles: tuple[Trouble, ...] = ()


@dataclass
class _Seen:
    """What has been found of a phase so far."""

    phase: Phase
    boxes: list[tuple[int, bool, str]] = field(default_factory=list)  # line, done, where


def roadmap(text: str, file: str) -> Roadmap:
    """A roadmap's phases by number, its milestones and requirements; any text gives one, maybe an empty one.

    A phase's ``box`` is that of the checklist, else a tick at its heading, else what a Status or a table says.
    Where these differ, a Trouble of kind ``conflict`` says so.
    """
    page = markdown.read(text)
    seen: dict[str, _Seen] = {}
    milestones = tuple(itertools.islice(_milestones(page), MILESTONES_MAX))
    details = _details(page)
    odd = [*troubles(page, file)]
    above: list[tuple[int, str]] = []  # the versions that headings above name, with their level: a deeper one is over
    for section in page.sections:
        while above and above[-1][0] > section.level:
            above.pop()
        found = _HEAD.fullmatch(section.title) if section.level else None
        version = _VERSION.search(section.title)
        if found:
            if not _heading(page, section, found, seen, file):
                where = seen[normal(found[1])].phase.line
                what = f"phase {normal(found[1])} has a second heading, first in line {where}"
                odd.append(Trouble(file, section.line, what, "conflict"))
            one = seen[normal(found[1])]
            one.phase = replace(one.phase, milestone=one.phase.milestone or (above[-1][1] if above else ""))
        elif version:
            above.append((section.level, f"v{version[1]}"))
    _checklist(page, seen, file)
    _tables(page, seen, file)
    whole = bool(re.search(r"archived|milestone v", page.title, re.IGNORECASE)) and any(
        _SHIPPED.search(line.text) for line in page.body[:15]
    )
    phases = []
    if len(seen) > PHASES_MAX:
        odd.append(Trouble(file, 0, f"it names more than {PHASES_MAX} phases: the others were left out"))
    for one in itertools.islice(seen.values(), PHASES_MAX):
        phase = _decided(one, odd, file)
        phases.append(_placed(phase, milestones, details))
    rows, _ = traced(page)
    requirements = tuple(_listed(page, rows, file))
    return Roadmap(
        file, tuple(sorted(phases, key=lambda one: order(one.number))), milestones, requirements, whole, tuple(odd)
    )


def _get(seen: dict[str, _Seen], number: str, file: str, line: int) -> _Seen:
    return seen.setdefault(number, _Seen(Phase(number, file=file, line=line)))


def _clean(name: str) -> tuple[str, bool]:
    """A phase's name without what is written behind it, and whether it bears a tick."""
    bare = markdown.plain(name)
    return _TICKS.sub(" ", bare).strip(" :~"), any(tick in bare for tick in "✓✔✅☑")


def _heading(page: Page, section: Section, found: re.Match[str], seen: dict[str, _Seen], file: str) -> bool:
    """Take a phase's heading; False when the phase has one already."""
    number = normal(found[1])
    if number in seen:
        return False
    name, ticked = _clean(found[2])
    fields = markdown.fields(section.own, page.fenced)
    stated_line, stated = fields.get("status", (0, ""))
    listed, boxes = _plans(section.lines, page.fenced), []
    if ticked:
        boxes.append((section.line, True, "the heading"))
    if stated:
        boxes.append((stated_line, requirement_words.status_of(stated) == "completed", "its Status line"))
    elif _DATE.search(fields.get("completed", (0, ""))[1]):
        boxes.append((fields["completed"][0], True, "its Completed line"))
    seen[number] = _Seen(
        Phase(
            number=number,
            name=name,
            goal=fields.get("goal", (0, ""))[1],
            depends_on=_phases_of(fields.get("depends on", (0, ""))[1]),
            requirements=_requirements(section, fields, page.fenced),
            criteria=tuple(_criteria(section, fields, page.fenced)),
            stated=stated,
            listed=listed,
            file=file,
            line=section.line,
            stated_line=stated_line,
            requirements_line=fields.get("requirements", (0, ""))[0],
        ),
        boxes,
    )
    return True


def _phases_of(text: str) -> tuple[str, ...]:
    """The phases that a Depends on line names: ``Phase 1 (why), Phase 2``, ``Phases 3, 4``."""
    if not re.search(r"\d", text) or text.casefold().startswith(("nothing", "none")):
        return ()
    outer = re.sub(r"\([^()]*\)", " ", markdown.plain(text))
    found = re.findall(rf"(?<![\w.])({NUMBER})(?![\w.]*\w)", outer)
    return tuple(dict.fromkeys(normal(one) for one in found))


def _below(section: Section, line: int, fenced: frozenset[int]) -> list[markdown.Item]:
    """The items of the list that follows a line, up to the next field or paragraph."""
    run: list[Line] = []
    for one in section.own:
        if one.number <= line:
            continue
        if not one.text.strip():
            if run:
                break
            continue
        if not one.text[:1].isspace() and not markdown.items((one,)):
            break
        run.append(one)
    return markdown.items(tuple(run), fenced)


def _requirements(section: Section, fields: dict[str, tuple[int, str]], fenced: frozenset[int]) -> tuple[str, ...]:
    line, text = fields.get("requirements", (0, ""))
    if not line:
        return ()
    if text:
        return requirement_words.listed_ids(text)
    found = [
        one for item in _below(section, line, fenced) for one in requirement_words.listed_ids(item.text.split(":")[0])
    ]
    return tuple(dict.fromkeys(found))


def _criteria(section: Section, fields: dict[str, tuple[int, str]], fenced: frozenset[int]) -> Iterator[str]:
    line, text = fields.get("success criteria", (0, ""))
    if line:
        if text:
            yield text
        yield from (item.text for item in _below(section, line, fenced))


def _plans(lines: tuple[Line, ...], fenced: frozenset[int]) -> tuple[Listed, ...]:
    out: dict[str, Listed] = {}
    for item in markdown.items(lines, fenced):
        found = _PLAN.fullmatch(markdown.plain(item.text)) if item.checked is not None else None
        if found:
            out.setdefault(found[1], Listed(found[1], found[2].strip(), item.checked))
    return tuple(out.values())


def _checklist(page: Page, seen: dict[str, _Seen], file: str) -> None:
    for item in markdown.items(page.body, page.fenced):
        found = _HEAD.fullmatch(markdown.plain(item.text))
        if not found:
            continue
        one = _get(seen, normal(found[1]), file, item.line)
        parts = _AFTER.split(found[2], maxsplit=1)
        name, ticked = _clean(parts[0])
        goal = _AFTER.sub("", " " + parts[1]).strip() if len(parts) > 1 else ""
        one.phase = replace(one.phase, name=one.phase.name or name, goal=one.phase.goal or goal)
        if item.checked is not None or ticked:
            one.boxes.insert(0, (item.line, bool(item.checked or ticked), "the checklist"))


def _tables(page: Page, seen: dict[str, _Seen], file: str) -> None:
    for table in markdown.tables(page.body, page.fenced):
        if not {"phase", "#", "no", "no."}.intersection(table.names[:2]) or table.names[0].startswith("req"):
            continue
        if not {"status", "goal", "plans complete", "plans", "completed", "name"}.intersection(table.names):
            continue
        for line, cells in table.rows:
            found = _CELL.fullmatch(markdown.plain(cells[0]))
            if not found:
                continue
            one = _get(seen, normal(found[1]), file, line)
            named = markdown.cell(table, cells, "name") or (found[2] or "")
            if not named and table.names[0] != "phase":
                named = markdown.cell(table, cells, "phase")
            stated = markdown.plain(markdown.cell(table, cells, "status"))
            wanted = markdown.cell(table, cells, "requirements")
            version = _VERSION.search(markdown.cell(table, cells, "milestone"))
            one.phase = replace(
                one.phase,
                name=one.phase.name or _clean(named)[0],
                goal=one.phase.goal or markdown.cell(table, cells, "goal"),
                requirements=one.phase.requirements or requirement_words.listed_ids(wanted),
                requirements_line=one.phase.requirements_line or (line if wanted else 0),
                depends_on=one.phase.depends_on or _phases_of(markdown.cell(table, cells, "depends on")),
                milestone=one.phase.milestone or (f"v{version[1]}" if version else ""),
                stated=one.phase.stated or stated,
                stated_line=one.phase.stated_line or (line if stated else 0),
            )
            if stated:
                one.boxes.append((line, requirement_words.status_of(stated) == "completed", f"a table ({stated})"))


def _decided(one: _Seen, odd: list[Trouble], file: str) -> Phase:
    if not one.boxes:
        return one.phase
    line, done, where = one.boxes[0]
    other = next((box for box in one.boxes if box[1] != done), None)
    if other:
        said = {True: "done", False: "not done"}
        odd.append(
            Trouble(
                file,
                line,
                f"phase {one.phase.number} is {said[done]} by {where}, "
                f"{said[other[1]]} by {other[2]} in line {other[0]}",
                "conflict",
            )
        )
    undone = [plan.id for plan in one.phase.listed if plan.done is False]
    if done and undone:
        odd.append(
            Trouble(
                file,
                line,
                f"phase {one.phase.number} is done by {where}, its plans {', '.join(undone[:8])} are not ticked",
                "conflict",
            )
        )
    return replace(one.phase, box=done, box_line=line)


def _details(page: Page) -> list[tuple[int, int, str]]:
    """Where ``<details>`` whose summary says that it was shipped begin and end, with that summary."""
    out: list[tuple[int, int, str]] = []
    start, summary = 0, ""
    for number, text in page.body:
        low = text.casefold()
        if "<details" in low:
            start, summary = number, ""
        if start and "<summary" in low:
            summary = _TAGS.sub("", text).strip()
        if start and "</details" in low:
            if _SHIPPED.search(summary) or _DONE.search(summary):
                out.append((start, number, summary))
            start = 0
    return out


def _milestones(page: Page) -> Iterator[Milestone]:
    """Those of a list or a summary that names a version and its phases."""
    for number, text in page.body:
        bare = markdown.plain(_TAGS.sub("", text))
        listed = text.lstrip().startswith(("-", "*")) or "<summary" in text.casefold()
        version = _VERSION.search(bare) if listed and number not in page.fenced else None
        phases = _PHASES.search(bare) if version else None
        if version and phases:
            shipped = _SHIPPED.search(bare)
            before = bare[version.start() : phases.start()].strip(" -—\u2013(:")
            name = before.removeprefix(version[0]).strip(" -—\u2013(:") or before
            done = bool(shipped or _DONE.search(bare))
            yield Milestone(name, f"v{version[1]}", _shipped_on(shipped), _span(phases[1]), bare.lstrip("-* "), done)


def _shipped_on(shipped: re.Match[str] | None) -> str:
    return (shipped[1] or "shipped") if shipped else ""


def _span(text: str) -> str:
    return "-".join(normal(part.strip()) for part in re.split(r"[-\u2013—]", text))


def spans(phases: str, number: str) -> bool:
    """Whether ``10-17`` holds a phase's number (also 12.1 and 12A)."""
    first, _, last = phases.partition("-")
    if not first:
        return False
    whole = re.match(r"\d+", number)
    return bool(whole) and order(first) <= order(whole[0] if whole else "") <= order(last or first)


def _placed(phase: Phase, milestones: tuple[Milestone, ...], details: list[tuple[int, int, str]]) -> Phase:
    """A phase with its milestone, and whether that has been shipped."""
    inside = next((summary for start, end, summary in details if start <= phase.line <= end), "")
    version = _VERSION.search(inside)
    milestone = phase.milestone or (f"v{version[1]}" if version else "")
    own = [one for one in milestones if spans(one.phases, phase.number)]
    named = next((one for one in own if one.version == milestone), own[0] if own and not milestone else None)
    shipped = bool(inside) or bool(named and named.shipped)
    return replace(phase, milestone=milestone or (named.version if named else ""), archived=shipped)


def _listed(page: Page, rows: dict[str, Traced], file: str) -> Iterator[Requirement]:
    """Requirements that a roadmap itself defines, ``- ID: text`` below a Requirements line, or traces."""
    found: dict[str, Requirement] = {}
    for section in page.sections:
        head = _HEAD.fullmatch(section.title) if section.level else None
        if not head:
            continue
        fields = markdown.fields(section.own, page.fenced)
        line, inline = fields.get("requirements", (0, ""))
        for item in _below(section, line, page.fenced) if line and not inline else ():
            name, _, text = markdown.plain(item.text).partition(":")
            if requirement_words.is_id(name.strip()):
                one = Requirement(name.strip(), text.strip(), section=section.title, checked=item.checked)
                found.setdefault(one.id, replace(one, phases=(normal(head[1]),), file=file, line=item.line))
    for name, row in rows.items():
        found.setdefault(name, Requirement(name, "", section="Traceability", file=file, line=row.line))
    for name in sorted(found, key=lambda name: (name.rpartition("-")[0], len(name), name)):
        yield settled(found[name], rows.get(name), boxes=False)


def milestones(text: str, file: str) -> tuple[tuple[Milestone, ...], tuple[Trouble, ...]]:
    """MILESTONES.md's milestones in its order: ``## v3.0 Name (Shipped: 2026-01-23)`` and what stands below it."""
    page = markdown.read(text)
    out: list[Milestone] = []
    for section in page.sections:
        version = _VERSION.search(section.title) if section.level == 2 else None
        if not version or len(out) == MILESTONES_MAX:
            continue
        shipped = _SHIPPED.search(section.title)
        name = re.sub(r"\([^()]*\)", "", section.title[version.end() :]).strip(" :-—\u2013")
        phases = _PHASES.search(markdown.plain(section.text))
        done = bool(shipped or _DONE.search(section.title))
        span = _span(phases[1]) if phases else ""
        out.append(Milestone(name, f"v{version[1]}", _shipped_on(shipped), span, section.text, done))
    return tuple(out), troubles(page, file)
