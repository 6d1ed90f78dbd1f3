"""The files of a `.planning/` tree put together: phases of roadmaps and directories, plans and summaries. Pure.

A roadmap and the directories tell of the same phases by number. Shipped milestones lie in three places, alone or
together: folded into ROADMAP.md, as `milestones/vX.Y-ROADMAP.md`, as whole trees below `milestones/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from orchestrator.gsd.model import (
    NOTHING,
    Ladder,
    Milestone,
    Phase,
    Plan,
    Planning,
    ProjectFile,
    Requirement,
    State,
    Summary,
    Trouble,
    Uat,
    Verification,
)
from orchestrator.gsd.planning.phase_files import Place
from orchestrator.gsd.planning.phase_numbers import of_directory, order, plan_key
from orchestrator.gsd.planning.roadmap import Roadmap, spans

_QUICK_NUMBER = re.compile(r"\d{6}-[a-z0-9]{3}-|\d{1,8}-")  # 260301-k2x-, 005-
_VERSION = re.compile(r"(?<![A-Za-z0-9])v(\d{1,4}(?:\.\d{1,4}){0,3})", re.IGNORECASE)


@dataclass(frozen=True)
class Read:
    """A file that was read: its path, what it is, and what it says (a value of the model, or of `roadmap`).

    ``value`` is None for one that could not be read, and for those of which only that they are there counts.
    """

    file: str
    place: Place
    value: Any
    troubles: tuple[Trouble, ...] = ()


@dataclass
class _Tree:
    """The files of one tree: the live one (``""``), or that of an archived milestone."""

    name: str
    roadmap: Roadmap | None = None
    requirements: tuple[Requirement, ...] = ()
    phases: dict[str, Phase] = field(default_factory=dict)  # by number, as the directories have them

    @property
    def version(self) -> str:
        return version_of(self.name.rpartition("/")[2])


def planning(
    reads: Sequence[Read], directories: Iterable[tuple[str, str]], troubles: Iterable[Trouble] = (), files: int = 0
) -> Planning:
    """All of a tree. ``directories``: the phases' directories as (archived tree or ``""``, path from the project)."""
    odd = [*troubles, *(trouble for one in reads for trouble in one.troubles)]
    trees: dict[str, _Tree] = {"": _Tree("")}
    single: dict[str, Any] = {}
    for one in reads:
        tree = trees.setdefault(one.place.tree, _Tree(one.place.tree))
        if isinstance(one.value, Roadmap):
            tree.roadmap = one.value
        elif one.place.kind == "requirements" and one.value is not None:
            tree.requirements = one.value
        elif not one.place.tree and not one.place.directory and one.value is not None:
            single[one.place.kind] = one.value
    _walked(reads, directories, trees, odd)
    live = trees.pop("")
    old = sorted(_united(trees.values()), key=lambda tree: _rank(tree.version))
    milestones = _milestones(single.get("milestones", ()), live, old)
    phases, past = _joined(live, old, milestones)
    project, state = single.get("project"), single.get("state")
    return Planning(
        project=project if isinstance(project, ProjectFile) else None,
        requirements=_required(live, phases, odd),
        past_requirements=tuple(one for tree in old for one in _placed(tree.requirements, _of(tree, past))),
        phases=phases,
        past=past,
        quick=_quick(reads),
        state=state if isinstance(state, State) else None,
        config=MappingProxyType(single["config"]) if single.get("config") else NOTHING,
        milestones=milestones,
        troubles=tuple(sorted(set(odd), key=lambda one: (one.file, one.line, one.what))),
        files=files,
    )


def version_of(name: str) -> str:
    """The version in the name of an archived tree or file (``v1.0`` of ``v1.0-ROADMAP.md``), else the name itself."""
    found = _VERSION.search(name)
    return f"v{found[1]}" if found else name


def even(version: str) -> str:
    """A version as it compares: ``v2``, ``v2.0`` and ``2.0.0`` are one."""
    text = version.casefold().removeprefix("v")
    while text.endswith(".0"):
        text = text[:-2]
    return text


def _rank(version: str) -> tuple[tuple[int, ...], str]:
    text = even(version)
    parts = text.split(".")
    return (tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (), text)


def _united(trees: Iterable[_Tree]) -> list[_Tree]:
    """Archived trees; two of one version are one (``v1.0-ROADMAP.md``, ``v1.0-name/phases/``).

    Unless both have directories of the same phases: then they are two that happen to share a number.
    """
    out: dict[str, list[_Tree]] = {}
    for tree in trees:
        own = out.setdefault(even(tree.version), [])
        if not own or own[0].phases.keys() & tree.phases.keys():
            own.append(tree)
            continue
        first = own[0]
        first.name = max(first.name, tree.name, key=len)
        first.phases |= tree.phases
        known = {one.id for one in first.requirements}
        first.requirements += tuple(one for one in tree.requirements if one.id not in known)
        if first.roadmap and tree.roadmap:
            listed = {one.number for one in first.roadmap.phases}
            more = (one for one in tree.roadmap.phases if one.number not in listed)
            first.roadmap = replace(first.roadmap, phases=(*first.roadmap.phases, *more))
        first.roadmap = first.roadmap or tree.roadmap
    return [tree for group in out.values() for tree in group]


def _walked(
    reads: Sequence[Read], directories: Iterable[tuple[str, str]], trees: dict[str, _Tree], odd: list[Trouble]
) -> None:
    """The phases as their directories have them."""
    inside: dict[str, list[Read]] = {path: [] for _, path in directories}
    trees_of = {path: tree for tree, path in directories}
    for one in reads:
        path = one.file.rpartition("/")[0]
        path = path if path in inside else path.rpartition("/")[0]  # plans/PLAN-01-x.md
        if one.place.directory and path in inside:
            inside[path].append(one)
    numbered: dict[tuple[str, str], list[str]] = {}
    for path in sorted(inside):
        number = of_directory(path.rpartition("/")[2])[0]
        numbered.setdefault((trees_of[path], number), []).append(path)
    for (tree, number), paths in numbered.items():
        paths.sort(key=lambda path: -len(inside[path]))
        if len(paths) > 1:
            also = ", ".join(repr(path.rpartition("/")[2]) for path in paths[1:])
            odd.append(Trouble(paths[0], 0, f"phase {number} has more than one directory: also {also}", "conflict"))
        found = [one for path in paths for one in inside[path]]
        trees.setdefault(tree, _Tree(tree)).phases[number] = _directory(number, paths[0], found)


def _directory(number: str, path: str, reads: list[Read]) -> Phase:
    name = of_directory(path.rpartition("/")[2])[2].strip("*-_ ").replace("-", " ").replace("_", " ")
    summaries = tuple(one.value for one in reads if isinstance(one.value, Summary))
    found = sorted((one.value for one in reads if isinstance(one.value, Plan)), key=_step)
    plans = _summed(found, summaries, number)
    context = next((one.file for one in reads if one.place.kind == "context"), "")
    research = next((one.file for one in reads if one.place.kind == "research"), "")
    return Phase(
        number=number,
        name=" ".join(name.split()),
        directory=path,
        plans=plans,
        summaries=tuple(sorted(summaries, key=lambda one: (order(plan_key(one.plan_id)[1]), one.file))),
        context=context,
        research=research,
        verification=next((one.value for one in reads if isinstance(one.value, Verification)), None),
        uat=next((one.value for one in reads if isinstance(one.value, Uat)), None),
        ladder=ladder(plans, summaries, bool(research), bool(context)),
    )


def _summed(plans: Sequence[Plan], summaries: Sequence[Summary], number: str) -> tuple[Plan, ...]:
    """The plans, each with its summary: one of its id, that beside it first. A summary is of one plan alone."""
    left: dict[tuple[str, str], list[Summary]] = {}
    for one in summaries:
        left.setdefault(_key(one.plan_id, number), []).append(one)
    found: dict[str, Summary] = {}
    for beside in (True, False):
        for plan in plans:
            own = left.get(_key(plan.id, number), [])
            where = plan.file.rpartition("/")[0]
            mine = next((one for one in own if not beside or one.file.rpartition("/")[0] == where), None)
            if mine and plan.file not in found:
                found[plan.file] = mine
                own.remove(mine)
    return tuple(replace(plan, summary=found.get(plan.file)) for plan in plans)


def _key(plan: str, number: str) -> tuple[str, str]:
    """A plan's key; of an id of another form (a quick task's) the id itself."""
    key = plan_key(plan, number)
    return key if key[1] else ("", plan.casefold())


def _quick(reads: Sequence[Read]) -> tuple[Phase, ...]:
    """The quick tasks, by directory: named as it is, their goal the first line of the plan's objective."""
    found: dict[str, list[Read]] = {}
    for one in reads:
        if one.place.directory.startswith("quick/"):
            found.setdefault(one.place.directory, []).append(one)
    out = []
    for directory, own in sorted(found.items()):
        phase = _directory(directory, own[0].file.rpartition("/")[0], own)
        name = _QUICK_NUMBER.sub("", directory.removeprefix("quick/")).replace("-", " ").replace("_", " ").strip()
        goal = next((plan.objective.partition("\n")[0] for plan in phase.plans if plan.objective), "")
        out.append(replace(phase, name=name, goal=goal))
    return tuple(out)


def _step(plan: Plan) -> tuple[Any, str]:
    return order(plan_key(plan.id)[1]), plan.file


def ladder(plans: Sequence[Plan], summaries: Sequence[Summary], research: bool, context: bool) -> Ladder:
    """How far a phase is by its files: complete where it has plans and each has its summary (A1)."""
    if plans and all(plan.summary for plan in plans):
        return "complete"
    if summaries:
        return "partial"
    return "planned" if plans else "researched" if research else "discussed" if context else "empty"


def _merged(listed: Phase, disk: Phase | None) -> Phase:
    if disk is None:
        return listed
    return replace(
        listed,
        name=listed.name or disk.name,
        directory=disk.directory,
        plans=disk.plans,
        summaries=disk.summaries,
        context=disk.context,
        research=disk.research,
        verification=disk.verification,
        uat=disk.uat,
        ladder=disk.ladder,
    )


def _joined(
    live: _Tree, old: list[_Tree], milestones: tuple[Milestone, ...]
) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """The phases of the milestone under way, and those of shipped ones."""
    listed = {one.number: one for one in (live.roadmap.phases if live.roadmap else ())}
    disk = dict(live.phases)
    phases = [_merged(one, disk.pop(number, None)) for number, one in listed.items() if not one.archived]
    folded = {number: one for number, one in listed.items() if one.archived}
    past: list[tuple[Any, Phase]] = []
    for tree in reversed(old):  # the youngest archive has the first claim to a directory below phases/
        own = {one.number: one for one in (tree.roadmap.phases if tree.roadmap else ())}
        for number in sorted({*own, *tree.phases}, key=order):
            told = own.get(number) or Phase(number)
            twin = folded.get(number)
            if twin and even(twin.milestone) == even(tree.version):
                told = _filled(told, folded.pop(number))
            found = tree.phases.get(number) or (disk.pop(number, None) if number in own else None)
            one = replace(_merged(told, found), milestone=tree.version, archived=True)
            past.append((_rank(tree.version), one))
    for number, one in folded.items():
        past.append((_rank(one.milestone), _merged(one, disk.pop(number, None))))
    for number, one in disk.items():
        shipped = [milestone for milestone in milestones if milestone.shipped and spans(milestone.phases, number)]
        if shipped and number not in listed:
            past.append((_rank(shipped[-1].version), replace(one, milestone=shipped[-1].version, archived=True)))
        else:
            phases.append(one)
    past.sort(key=lambda pair: (pair[0], order(pair[1].number)))
    return tuple(sorted(phases, key=lambda one: order(one.number))), tuple(one for _, one in past)


def _filled(one: Phase, other: Phase) -> Phase:
    """A phase of an archived roadmap, with what only the live roadmap says of it."""
    box = other.box if one.box is None else one.box
    return replace(
        one, name=one.name or other.name, goal=one.goal or other.goal, box=box, stated=one.stated or other.stated,
        file=one.file or other.file, line=one.line or other.line,
    )  # fmt: skip


def _of(tree: _Tree, past: Sequence[Phase]) -> list[Phase]:
    return [one for one in past if even(one.milestone) == even(tree.version)]


def _milestones(told: tuple[Milestone, ...], live: _Tree, old: list[_Tree]) -> tuple[Milestone, ...]:
    """Of MILESTONES.md, ROADMAP.md and the archives, each once, by version."""
    out: dict[str, Milestone] = {}
    listed = live.roadmap.milestones if live.roadmap else ()
    archived = tuple(
        Milestone(tree.name.rpartition("/")[2], tree.version, "shipped", done=True) for tree in old if tree.name
    )
    for one in (*told, *listed, *archived):
        key = even(one.version)
        have = out.get(key)
        if have is None:
            out[key] = one
        else:
            dated = have.shipped if have.shipped not in {"", "shipped"} else one.shipped or have.shipped
            out[key] = replace(
                have,
                shipped=dated,
                phases=have.phases or one.phases,
                done=have.done or one.done,
                text=have.text or one.text,
            )
    return tuple(sorted(out.values(), key=lambda one: _rank(one.version)))


def _required(live: _Tree, phases: tuple[Phase, ...], odd: list[Trouble]) -> tuple[Requirement, ...]:
    told = live.roadmap.requirements if live.roadmap else ()
    if not live.requirements:
        return _placed(told, phases)
    rows = {one.id: one for one in told if one.stated or one.phases}
    both = []
    for one in live.requirements:
        row = rows.get(one.id)
        if row and not one.stated:
            done = "completed" if row.status == "completed" and one.status != "deferred" else one.status
            one = replace(one, stated=row.stated, phases=one.phases or row.phases, status=done)  # noqa: PLW2901
        both.append(one)
    placed = _placed(tuple(both), phases)
    odd += [
        Trouble(after.file, after.line, f"{after.id}: {after.conflict}", "conflict")
        for before, after in zip(both, placed, strict=True)
        if after.conflict and not before.conflict
    ]
    return placed


def _placed(requirements: tuple[Requirement, ...], phases: Sequence[Phase]) -> tuple[Requirement, ...]:
    """Requirements with the phases that name them, and the conflict where all these are done but they are not."""
    named: dict[str, list[str]] = {}
    for phase in phases:
        for name in phase.requirements:
            named.setdefault(name, []).append(phase.number)
    complete: Mapping[str, bool] = {phase.number: phase.complete for phase in phases}
    out = []
    for one in requirements:
        numbers = tuple(sorted({*one.phases, *named.get(one.id, ())}, key=order))
        conflict = one.conflict
        if not conflict and one.status in {"pending", "in_progress"} and numbers and all(map(complete.get, numbers)):
            conflict = f"phase {', '.join(numbers)} is complete, but the requirement is not marked as done"
        out.append(replace(one, phases=numbers, conflict=conflict))
    return tuple(out)
