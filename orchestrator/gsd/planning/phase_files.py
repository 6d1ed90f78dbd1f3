"""What a file of a `.planning/` tree is, by its path alone; and PLAN.md: text to facts. Pure (seed-systems A1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from orchestrator.gsd.model import Artifact, KeyLink, MustHaves, Plan, Task, Trouble
from orchestrator.gsd.planning import markdown
from orchestrator.gsd.planning.markdown import Line, Page, text_of, texts
from orchestrator.gsd.planning.phase_numbers import NUMBER, normal, of_directory
from orchestrator.gsd.planning.project_file import troubles

Kind = Literal[
    "project", "requirements", "roadmap", "state", "milestones", "config",
    "plan", "summary", "verification", "uat", "context", "research",
]  # fmt: skip

_TOP: Mapping[str, Kind] = {
    "project.md": "project", "requirements.md": "requirements", "roadmap.md": "roadmap", "state.md": "state",
    "milestones.md": "milestones", "config.json": "config",
}  # fmt: skip
_ARCHIVED = re.compile(r"(v\d[\w.]{0,30})-(roadmap|requirements)\.md")
_LEFT_OUT = re.compile(r".*-outline\.md|.*\.pre-bounce\.md|claude\.md", re.DOTALL)
_CODE = r"(?:[a-z][a-z0-9]{0,15}-)?"
_STEP = re.compile(rf"{_CODE}(?:({NUMBER.lower()})-)?(\d{{1,6}}[a-z]?)-(?:.*-)?(plan|summary)\.md", re.DOTALL)
_NESTED = re.compile(r"(plan|summary)-(\d{1,6}[a-z]?)(?:-.*)?\.md", re.DOTALL)
_QUICK = re.compile(r"(?:(\d[\w.-]{0,60}?)-)?(plan|summary)\.md", re.DOTALL)
_OTHER = re.compile(r"(?:.*-)?(plan|summary|verification|uat|context|research)\.md", re.DOTALL)
_TASK_HEAD = re.compile(r"(?:Task|Step)[ \t]+\d{1,4}[ \t]*[-:.—][ \t]*(.+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\btype[ \t]*=[ \t]*["']?([\w:-]{1,60})""")
_DIGITS = re.compile(r"\d{1,9}")
_NAMES = ("name", "what-built", "decision", "action")  # a checkpoint has no name
_NEXT_TASK = re.compile(r"(?<=<tasks>)|(?<=</task>)")  # where another may begin in the same line
TASKS_MAX = 500
HEAD_MAX = 2_000  # lines among which a plan's truths are looked for


class Place(NamedTuple):
    """What a file is. ``tree``: the archived tree it belongs to (``milestones/v1-name``), else empty.

    ``directory``: the phase's directory, from the `.planning/` down; ``plan``: the id its name gives, empty where it
    gives none.
    """

    kind: Kind
    tree: str = ""
    directory: str = ""
    plan: str = ""


def place(path: str) -> Place | None:
    """What the file of this path (from the `.planning/` down) is; None for those that are no part of the planning."""
    parts = path.split("/")
    tree, inner = _tree(parts)
    name = inner[-1].casefold()
    if len(inner) == 1:
        archived = _ARCHIVED.fullmatch(name) if parts[0] == "milestones" and not tree else None
        if archived:
            kind: Kind = "roadmap" if archived[2] == "roadmap" else "requirements"
            return Place(kind, f"milestones/{archived[1]}")
        top = _TOP.get(name) if len(parts) == 1 or tree else None
        return Place(top, tree) if top else None
    if parts[0] == "quick":
        own = _QUICK.fullmatch(name) if len(parts) == 3 else None
        return (
            Place("plan" if own[2] == "plan" else "summary", "", "/".join(parts[:2]), own[1] or "") if own else None
        )
    if inner[0] != "phases" or len(inner) not in {3, 4} or _LEFT_OUT.fullmatch(name):
        return None
    digits = of_directory(inner[1])[1]
    if not digits or (len(inner) == 4 and inner[2].casefold() not in {"plans", "summaries"}):
        return None
    found = _step(name, digits)
    directory = "/".join(parts[: len(parts) - len(inner) + 2])
    return Place(found[0], tree, directory, found[1]) if found else None


def phase_directory(path: str) -> str | None:
    """The archived tree (or ``""``) of a phase's directory, by its path from the `.planning/`; None for no such."""
    tree, inner = _tree(path.split("/"))
    return tree if len(inner) == 2 and inner[0] == "phases" and of_directory(inner[1])[0] else None


def _tree(parts: list[str]) -> tuple[str, list[str]]:
    """The archived tree that a path lies in, and the path inside it."""
    if parts[0] != "milestones" or len(parts) < 2:
        return "", parts
    if len(parts) == 2:
        return "", parts[1:]
    if parts[1].endswith("-phases"):
        return f"milestones/{parts[1].removesuffix('-phases')}", ["phases", *parts[2:]]
    return f"milestones/{parts[1]}", parts[2:]


def _step(name: str, digits: str) -> tuple[Kind, str] | None:
    found = _STEP.fullmatch(name)
    if found and (found[1] is not None or normal(found[2]) != normal(digits) or name.count("-") == 1):
        kind: Kind = "plan" if found[3] == "plan" else "summary"
        number = found[2]
        if found[1] is None and normal(number) == normal(digits):
            return kind, ""  # 01-PLAN.md of phase 1: its only plan
        return kind, f"{(found[1] or digits).upper()}-{number.upper()}"
    nested = _NESTED.fullmatch(name)
    if nested:
        return ("plan" if nested[1] == "plan" else "summary"), f"{digits}-{nested[2].upper()}"
    other = _OTHER.fullmatch(name)
    if not other:
        return None
    kinds: dict[str, Kind] = {
        "plan": "plan", "summary": "summary", "verification": "verification", "uat": "uat", "context": "context",
        "research": "research",
    }  # fmt: skip
    return kinds[other[1]], ""


def named(plan: str, front: Mapping[str, Any], directory: str) -> str:
    """A plan's id: as its file's name has it, else by its frontmatter and directory, ``03-01`` where neither says."""
    if plan:
        return plan
    digits = of_directory(directory.rpartition("/")[2])[1] or "0"
    said = text_of(front.get("plan")).strip()
    if re.fullmatch(rf"{NUMBER}-\d{{1,6}}[A-Za-z]?", said):
        return said
    return f"{digits}-{said if re.fullmatch(r'[0-9]{1,6}[A-Za-z]?', said) else '01'}"


def plan(text: str, file: str, where: Place) -> tuple[Plan, tuple[Trouble, ...]]:
    """A PLAN.md's facts and what of it was odd; the phase is that of its directory, whatever the frontmatter says."""
    page = markdown.read(text)
    front = page.front
    odd = [*troubles(page, file)]
    if not front and not page.odd:
        odd.append(Trouble(file, 1, "no frontmatter: only what its name and its text say counts"))
    body = markdown.joined(page.body)
    identity = named(where.plan, front, where.directory)
    wave = text_of(front.get("wave"))
    return Plan(
        id=identity,
        file=file,
        phase=of_directory(where.directory.rpartition("/")[2])[0],
        number=identity.rpartition("-")[2],
        type=text_of(front.get("type")) or "execute",
        wave=int(wave) if _DIGITS.fullmatch(wave) else 0,
        depends_on=texts(front.get("depends_on", front.get("depends-on"))),
        files_modified=texts(front.get("files_modified", front.get("files-modified"))),
        autonomous=text_of(front.get("autonomous")).casefold() not in {"false", "no"},
        gap_closure=text_of(front.get("gap_closure")).casefold() in {"true", "yes"},
        requirements=texts(front.get("requirements")),
        must_haves=_placed(_must_haves(front.get("must_haves")), text),
        objective=_objective(page, body),
        tasks=_tasks(page),
    ), tuple(odd)


def _objective(page: Page, body: str) -> str:
    section = page.section("Objective", "Goal")
    return markdown.tagged(body, "objective") or (section.text if section else "")


def _must_haves(found: Any) -> MustHaves:
    if not isinstance(found, Mapping):
        return MustHaves(truths=texts(found) if isinstance(found, list) else ())
    truths, artifacts, links = (
        found.get("truths"),
        found.get("artifacts"),
        found.get("key_links", found.get("key-links")),
    )
    return MustHaves(
        truths=(truths.strip(),) if isinstance(truths, str) and truths.strip() else texts(truths),
        artifacts=tuple(one for one in map(_artifact, artifacts if isinstance(artifacts, list) else ()) if one.path),
        key_links=tuple(one for one in map(_link, links if isinstance(links, list) else ()) if one.source),
    )


def _placed(found: MustHaves, text: str) -> MustHaves:
    """The must-haves with the lines of their truths; 0 for one that is not written on one line as it reads."""
    if not found.truths:
        return found
    lines: dict[str, int] = {}
    for number, line in enumerate(markdown.lines_of(text, HEAD_MAX)[:HEAD_MAX], 1):
        lines.setdefault(line.strip().removeprefix("-").strip().strip("\"'"), number)
    return replace(found, lines=tuple(lines.get(truth.strip("\"'"), 0) for truth in found.truths))


def _artifact(found: Any) -> Artifact:
    if not isinstance(found, Mapping):
        path, _, provides = text_of(found).partition(" ")
        return Artifact(path.strip("`"), provides.strip(" -—"))
    lines = text_of(found.get("min_lines", found.get("min-lines")))
    contains = found.get("contains")
    wanted = texts(contains) if isinstance(contains, list) else (text_of(contains),)
    return Artifact(
        path=text_of(found.get("path")).strip("`"),
        provides=text_of(found.get("provides", found.get("description"))),
        min_lines=int(lines) if _DIGITS.fullmatch(lines) else 0,
        exports=texts(found.get("exports")),
        contains=wanted[0] if wanted else "",
        also=wanted[1:],
    )


def _link(found: Any) -> KeyLink:
    if not isinstance(found, Mapping):
        source, _, target = text_of(found).replace("→", "->").partition("->")
        return KeyLink(source.strip(), target.strip())
    get = found.get
    return KeyLink(text_of(get("from")), text_of(get("to")), text_of(get("via")), text_of(get("pattern")))


def _tasks(page: Page) -> tuple[Task, ...]:
    """The ``<task>`` elements; in a plan without any, the headings ``Task 1: …``."""
    out: list[Task] = []
    start = -1
    run: list[Line] = []
    lines = [Line(number, part) for number, text in page.body for part in _NEXT_TASK.split(text)]
    for at, (_, text) in enumerate(lines):
        mark = text.lstrip()
        if start < 0 and mark.startswith("<task") and not mark.startswith("<tasks"):
            start, run = at, []
        if start >= 0:
            run.append(lines[at])
            if "</task>" in text:
                out.append(_task(run))
                start = -1
            elif len(run) > 1 and mark.startswith(("<task ", "<task>", "</tasks>")):
                out.append(_task(run[:-1]))  # it has no end
                start, run = (at, run[-1:]) if mark.startswith("<task") else (-1, [])
        if len(out) >= TASKS_MAX:
            break
    if not out:
        for section in page.sections:
            found = _TASK_HEAD.fullmatch(section.title)
            if found and len(out) < TASKS_MAX:
                out.append(Task(found[1].strip(), action=section.text, line=section.line))
    return tuple(out)


def _task(run: list[Line]) -> Task:
    text = markdown.joined(run)
    kind = _ATTRIBUTE.search(run[0].text.partition(">")[0])
    return Task(
        name=next(filter(None, (markdown.tagged(text, one).partition("\n")[0] for one in _NAMES)), ""),
        type=kind[1] if kind else "auto",
        files=_files(markdown.tagged(text, "files")),
        action=markdown.tagged(text, "action"),
        verify=markdown.tagged(text, "verify"),
        done=markdown.tagged(text, "done"),
        line=run[0].number,
    )


def _files(text: str) -> tuple[str, ...]:
    parts = (part.strip().removeprefix("- ").strip("` ") for part in re.split(r"[,\n]", text))
    return tuple(dict.fromkeys(part for part in parts if part and part.casefold() not in {"none", "n/a"}))
