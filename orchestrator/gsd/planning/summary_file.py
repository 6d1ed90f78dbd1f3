"""SUMMARY.md: text to facts, in the many forms of its frontmatter and without any. Pure (seed-systems A1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from orchestrator.gsd.model import Summary, Trouble
from orchestrator.gsd.planning import markdown, requirement_words
from orchestrator.gsd.planning.markdown import Page, text_of, texts
from orchestrator.gsd.planning.phase_files import Place, named
from orchestrator.gsd.planning.project_file import troubles

_GROUPS = ("dependency-graph", "dependency", "tech-stack", "key-files", "files", "metrics", "summary")
_PATH = re.compile(r"`([^`\s]{1,500})`")
_PLAIN = re.compile(r"([\w.@()+-]+(?:/[\w.@()+\[\] -]+)+|[\w-]+\.\w{1,8})(?=[\s:,(]|$)")
_LABEL = re.compile(r"^One-liner:?\**:?", re.IGNORECASE)
_CREATED = re.compile(r"\b(?:created?|new)\b", re.IGNORECASE)


def summary(text: str, file: str, where: Place) -> tuple[Summary, tuple[Trouble, ...]]:
    """A SUMMARY.md's facts and what of it was odd; changed files are taken from the text where the head has none."""
    page = markdown.read(text)
    front = _even(page.front)
    odd = [*troubles(page, file)]
    if not front and not page.odd:
        odd.append(Trouble(file, 1, "no frontmatter: only what its name and its text say counts"))
    created, modified = (
        texts(_pick(front, "created", "files-created")),
        texts(_pick(front, "modified", "files-modified")),
    )
    if not created and not modified:
        created, modified = _changed(page)
    fields = markdown.fields(page.body, page.fenced)
    return Summary(
        file=file,
        plan_id=named(where.plan, front, where.directory),
        title=text_of(front.get("title")) or page.title,
        one_liner=text_of(_pick(front, "one-liner")) or _one_liner(page),
        subsystem=text_of(_pick(front, "subsystem")),
        tags=texts(_pick(front, "tags")),
        requires=_needs(_pick(front, "requires")),
        provides=texts(_pick(front, "provides")),
        affects=texts(_pick(front, "affects")),
        tech_added=texts(_pick(front, "added")),
        created=created,
        modified=modified,
        decisions=_decisions(page, front),
        patterns=texts(_pick(front, "patterns-established")) or texts(_pick(front, "patterns")),
        requirements=_requirements(page, front),
        duration=text_of(_pick(front, "duration")) or fields.get("duration", (0, ""))[1],
        completed=text_of(_pick(front, "completed", "completed-at")) or fields.get("completed", (0, ""))[1],
        body=_body(page),
    ), tuple(odd)


def _even(front: Mapping[str, Any]) -> dict[str, Any]:
    """Keys in one spelling, two levels down: ``dependency_graph`` is ``dependency-graph``."""
    return {
        key.replace("_", "-").casefold(): {str(name).replace("_", "-").casefold(): one for name, one in value.items()}
        if isinstance(value, Mapping)
        else value
        for key, value in front.items()
    }


def _pick(front: Mapping[str, Any], *names: str) -> Any:
    """The first of these keys, of the head itself or of one of its groups."""
    for name in names:
        if front.get(name) is not None:
            return front[name]
        for group in _GROUPS:
            inner = front.get(group)
            if isinstance(inner, Mapping) and inner.get(name) is not None:
                return inner[name]
    return None


def _needs(found: Any) -> tuple[str, ...]:
    """What a plan requires: ``{phase, provides}`` as ``phase: provides``."""
    if not isinstance(found, list):
        return texts(found)
    out = []
    for one in found:
        if isinstance(one, Mapping) and one.get("phase") is not None:
            what = text_of(one.get("provides", one.get("plan")))
            out.append(f"{text_of(one['phase'])}: {what}" if what else text_of(one["phase"]))
        else:
            out.append(text_of(one))
    return tuple(one for one in out if one)


def _decisions(page: Page, front: Mapping[str, Any]) -> tuple[str, ...]:
    found = _pick(front, "key-decisions", "decisions")
    out = []
    for one in found if isinstance(found, list) else [found] if isinstance(found, str) else []:
        if isinstance(one, Mapping):
            what = next(
                (text_of(one[key]) for key in ("choice", "decision", "what", "title", "key", "id") if one.get(key)),
                "",
            )
            why = next((text_of(one[key]) for key in ("rationale", "reason", "why") if one.get(key)), "")
            out.append(f"{what} — {why}" if what and why else what or text_of(one))
        else:
            out.append(text_of(one))
    if not out:
        section = page.section("Decisions Made", "Key Decisions", "Decisions")
        found = markdown.items(section.own, page.fenced) if section else []
        out = [item.text for item in found if not item.indent]
    return tuple(one for one in out if one and not one.casefold().startswith("none"))


def _requirements(page: Page, front: Mapping[str, Any]) -> tuple[str, ...]:
    given = texts(_pick(front, "requirements-completed", "requirements"))
    section = page.section("Requirements Satisfied", "Requirements Completed", "Requirements Addressed")
    written = [item.text for item in markdown.items(section.own, page.fenced)] if section else []
    found = [
        one for text in (*given, *written) for one in requirement_words.listed_ids(markdown.plain(text).split(":")[0])
    ]
    return tuple(dict.fromkeys(found))


def _changed(page: Page) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that the text says were created, and modified: by the headings or labels they stand below."""
    section = page.section(
        "Files Created/Modified", "Files Created", "Files Modified", "Files Changed", "Key Files", "Files"
    )
    created: dict[str, None] = {}
    modified: dict[str, None] = {}
    new = bool(section and "modified" not in section.title.casefold() and _CREATED.search(section.title))
    for line in section.lines if section else ():
        items = markdown.items((line,), page.fenced)
        if not items:
            if line.text.strip():
                new = bool(_CREATED.search(line.text)) and "modif" not in line.text.casefold()
            continue
        found = _PATH.search(items[0].text) or _PLAIN.match(items[0].text)
        if found:
            own = new or bool(
                re.search(r"\((?:created|new)\b|[-—]\s*(?:created|new)\b", items[0].text, re.IGNORECASE)
            )
            (created if own else modified).setdefault(found[1].strip())
    return tuple(created), tuple(modified)


def _one_liner(page: Page) -> str:
    """The paragraph below the title: GSD's own sentence about what was done."""
    run: list[str] = []
    for section in page.sections:
        if section.level == 1 or (section.level == 0 and not page.title):
            for _, text in section.own:
                if text.strip():
                    run.append(text.strip())
                elif run:
                    break
            break
    first = " ".join(run)
    bare = first.removeprefix("**").removesuffix("**").strip()
    return "" if first.startswith(("|", "-", "```")) else _LABEL.sub("", bare).strip()


def _body(page: Page) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for one in page.sections:
        if one.level == 2:
            out.setdefault(one.title, one.text)
    return MappingProxyType(out)
