"""VERIFICATION.md and UAT.md: texts to facts. Pure (seed-systems A1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.gsd.model import Row, Trouble, Uat, Verification
from orchestrator.gsd.planning import frontmatter, markdown, requirement_words
from orchestrator.gsd.planning.frontmatter import Odd
from orchestrator.gsd.planning.markdown import Page, Table, text_of
from orchestrator.gsd.planning.project_file import troubles

_KNOWN = frozenset({"passed", "gaps_found", "human_needed"})
_TEST = re.compile(r"(?:\d{1,4}[.)]?|Test[ \t]+\d{1,4}:?)[ \t]*(.+)")
_COVERED = re.compile(
    r"([✓✔✅✗✘❌⚠?]?(?:(?<![ \t])[ \t]+)?"  # a run of blanks from its beginning alone: else quadratic
    r"\b(?:NOT |UN)?(?:SATISFIED|VERIFIED|COMPLETE|BLOCKED|PARTIAL|PENDING|NEEDS HUMAN"
    r"|(?-i:FAILED|MISSING))\b)",
    re.IGNORECASE,
)
_NOTHING = frozenset({"", "-", "\u2013", "—", "none", "n/a"})
_MENDED = re.compile(r"(?:fixed|resolved|closed|passed|pass|done|verified)\b", re.IGNORECASE)
_FACT = re.compile(r"[ \t]*(?:[-*][ \t]+)?\**(\w[\w ]{0,40}?)\**:\**[ \t]*(.*)")


def verification(text: str, file: str) -> tuple[Verification, tuple[Trouble, ...]]:
    """A VERIFICATION.md's status and tables, known by their heads wherever they are, and what of it was odd.

    A row's status is as written (``✓ VERIFIED``, ``WIRED``, ``SATISFIED``).
    """
    page = markdown.read(text)
    front = page.front
    fields = markdown.fields(page.body, page.fenced)
    status = text_of(front.get("status")) or markdown.plain(fields.get("status", (0, ""))[1])
    even = status.casefold().replace(" ", "_")
    truths: list[Row] = []
    artifacts: list[Row] = []
    links: list[Row] = []
    requirements: list[Row] = []
    for table in markdown.tables(page.body, page.fenced):
        names = table.names
        if "truth" in names or "must-have" in names or "observable truth" in names:
            truths += _rows(table, "truth", "observable truth", "must-have")
        elif names[0] == "artifact" or "artifact" in names[:2]:
            artifacts += _rows(table, "path" if "path" in names else "artifact")
        elif "from" in names and "to" in names:
            links += [_joined(table, line, cells) for line, cells in table.rows]
        elif "requirement" in names[:2] and "status" in names:
            requirements += _rows(table, "requirement")
    return Verification(
        file=file,
        status=even if even in _KNOWN else status,
        score=text_of(front.get("score")) or markdown.plain(fields.get("score", (0, ""))[1]),
        verified=text_of(front.get("verified")) or fields.get("verified", (0, ""))[1],
        truths=tuple(truths),
        artifacts=tuple(artifacts),
        key_links=tuple(links),
        requirements=tuple(requirements) or _covered(page),
        gaps=_told(front.get("gaps"), "truth", "gap", "issue", "reason"),
        human=_told(front.get("human_verification"), "test", "what"),
    ), troubles(page, file)


def _covered(page: Page) -> tuple[Row, ...]:
    """The coverage of requirements where it is a list: ``- PLUG-02: Manifest parsing ✓ SATISFIED``."""
    section = page.section("Requirements Coverage")
    out = []
    for item in markdown.items(section.lines, page.fenced) if section else ():
        text = markdown.plain(item.text)
        found = list(_COVERED.finditer(text))
        if found and requirement_words.words(text):
            before, after = text[: found[-1].start()].rstrip(" -—:("), text[found[-1].end() :].strip(" -—:()")
            out.append(Row(before, found[-1][1].strip(), after, item.line))
    return tuple(out)


def _rows(table: Table, *names: str) -> list[Row]:
    what = next((name for name in names if name in table.names), table.names[0])
    out = []
    for line, cells in table.rows:
        first = markdown.plain(cells[table.names.index(what)])
        if first:
            out.append(Row(first, _status(table, cells), _evidence(table, cells, what), line))
    return out


def _status(table: Table, cells: tuple[str, ...]) -> str:
    return markdown.plain(markdown.cell(table, cells, "status", "result", "verified"))


def _evidence(table: Table, cells: tuple[str, ...], *left_out: str) -> str:
    """What the other columns say, those that say most first."""
    first = markdown.cell(table, cells, "evidence", "details")
    if first:
        return first
    named = {"#", "status", "result", "verified", *left_out}
    told = (one for name, one in zip(table.names, cells, strict=True) if name not in named)
    return "; ".join(one for one in told if one.casefold() not in _NOTHING)


def _joined(table: Table, line: int, cells: tuple[str, ...]) -> Row:
    source, target = (markdown.plain(markdown.cell(table, cells, name)) for name in ("from", "to"))
    via = markdown.cell(table, cells, "via")
    return Row(
        f"{source} → {target}" + (f" ({via})" if via else ""),
        _status(table, cells),
        markdown.cell(table, cells, "details", "evidence"),
        line,
    )


def _told(found: Any, *names: str) -> tuple[str, ...]:
    """Entries of a list, each as the first of these keys it has (a gap with its reason behind it)."""
    if not isinstance(found, list):
        return (text_of(found),) if isinstance(found, str) and found.strip() else ()
    out = []
    for one in found:
        if isinstance(one, Mapping):
            first = next((text_of(one[name]) for name in names if one.get(name)), "") or text_of(one)
            reason = text_of(one.get("reason"))
            out.append(f"{first} — {reason}" if reason and reason != first else first)
        else:
            out.append(text_of(one))
    return tuple(one for one in out if one)


def uat(text: str, file: str) -> tuple[Uat, tuple[Trouble, ...]]:
    """A UAT.md's tests, each with its result as written, and its gaps; what of it was odd."""
    page = markdown.read(text)
    front = page.front
    odd = [*troubles(page, file)]
    tests = []
    for section in page.sections:
        found = _TEST.fullmatch(section.title) if section.level >= 3 else None
        if not found:
            continue
        facts: dict[str, str] = {}
        for line in section.own:
            fact = _FACT.fullmatch(line.text)
            if fact:
                facts.setdefault(fact[1].casefold(), fact[2].strip().strip('"'))
        if "result" in facts or "expected" in facts:
            result = facts.get("result", "").strip("[] ") or "pending"
            told = facts.get("reported") or facts.get("reason") or facts.get("expected", "")
            tests.append(Row(found[1].strip(), result, told, section.line))
    still, fixed = _gaps(page, odd, file)
    return Uat(file, text_of(front.get("status")), tuple(tests), still, fixed), tuple(odd)


def _gaps(page: Page, odd: list[Trouble], file: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The gaps that are open, and those whose ``status`` says that they were mended."""
    section = page.section("Gaps")
    lines = [line for line in section.own if not line.text.lstrip().startswith(("```", "<!--"))] if section else []
    first = next((line for line in lines if line.text.strip()), None)
    if not first or not first.text.lstrip().startswith("- "):
        return (), ()
    told: list[Odd] = []
    run = [line.text for line in lines[lines.index(first) :]]
    found = frontmatter.value(run, first.number, told)
    odd += [Trouble(file, line, what) for line, what in told]
    still: list[Any] = []
    fixed: list[Any] = []
    for one in found if isinstance(found, list) else [found]:
        mended = isinstance(one, Mapping) and _MENDED.match(text_of(one.get("status")))
        (fixed if mended else still).append(one)
    names = ("truth", "gap", "issue", "reason")
    return _told(still, *names), _told(fixed, *names)
