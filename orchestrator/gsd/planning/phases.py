"""Which phase is under way, which comes next, and where STATE.md, ROADMAP.md and the files say different. Pure.

STATE.md's phase counts if it exists and is incomplete, else the disk: the first phase that is planned or partial.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.gsd.model import Listed, Phase, Planning, State, Summary
from orchestrator.gsd.planning.assembling import even
from orchestrator.gsd.planning.phase_numbers import number_of, order, plan_key
from orchestrator.gsd.planning.requirement_words import status_of

_UNDER_WAY = frozenset({"planned", "partial"})
_TO_COME = frozenset({"empty", "no_directory", "discussed", "researched"})
_NEAR = 5
_VERSIONED = re.compile(r"(v\d{1,4}(?:\.\d{1,4}){0,3})[ /:_-]+(\S.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """What one source says, and where."""

    file: str
    line: int
    says: str


@dataclass(frozen=True)
class Disagreement:
    """Two sources that say different things of a phase; ``phase`` is empty for what concerns no single one."""

    phase: str
    what: str
    said: tuple[Said, ...]


@dataclass(frozen=True)
class Truth:
    """Where a project stands. ``by``: ``STATE.md`` or ``disk``, what made the current phase so; empty without one."""

    current: Phase | None
    following: Phase | None
    by: str
    disagreements: tuple[Disagreement, ...]


def truth(planning: Planning) -> Truth:
    """The current and the next phase of the milestone under way; both None between milestones (issue item 4).

    The next one is the first behind the current one, by number, that has no plans yet; without one under way the
    first of all. What is marked as deferred is neither.
    """
    state = planning.state
    open_ones = [one for one in planning.phases if not one.complete and status_of(one.stated) != "deferred"]
    current, by = None, ""
    if state and state.phase:
        current = next((one for one in planning.phases if one.number == state.phase and not one.complete), None)
        by = "STATE.md" if current else ""
    if current is None:
        current = next((one for one in open_ones if one.ladder in _UNDER_WAY), None)
        by = "disk" if current else ""
    after = order(current.number) if current else ()
    to_come = (one for one in open_ones if one.ladder in _TO_COME and order(one.number) > after)
    return Truth(current, next(to_come, None), by, tuple(_disagreements(planning)))


def find(planning: Planning, text: str) -> Phase | None:
    """The phase that a text names: its number in any spelling, its directory, or its name; None when none is.

    Of the milestone under way first, then of the youngest archived one; with a version before it (``v1.0 phase 2``)
    of that milestone.
    """
    pool = [*planning.phases, *reversed(planning.past)]
    whole = text.strip().strip("/")
    versioned = _VERSIONED.fullmatch(whole)
    if versioned:
        pool = [one for one in pool if even(one.milestone) == even(versioned[1])]
        whole = versioned[2]
    bare = whole.rpartition("/")[2]
    exact = next((one for one in pool if one.directory and one.directory == whole), None) or next(
        (one for one in pool if one.directory and one.directory.rpartition("/")[2] == bare), None
    )
    if exact:
        return exact
    number = number_of(bare)
    by_number = next((one for one in pool if number and one.number == number), None)
    return by_number or next((one for one in pool if bare and one.name.casefold() == bare.casefold()), None)


def near(planning: Planning, text: str) -> list[str]:
    """Some phases that a text may have meant: of a number those around it, else those that are called like it."""
    known = {one.number: one for one in reversed([*planning.phases, *reversed(planning.past)])}
    wanted = number_of(text)
    every = sorted(known, key=order)
    if wanted:
        at = bisect.bisect_left(every, order(wanted), key=order)
        first = max(0, min(at - _NEAR // 2, len(every) - _NEAR))
        return [f"{number} {known[number].name}".strip() for number in every[first : first + _NEAR]]
    close = difflib.get_close_matches(text[:100], every, n=_NEAR, cutoff=0.5)
    named = [
        one.number
        for one in known.values()
        if len(text.strip()) > 2 and text.strip().casefold() in one.name.casefold()
    ]
    found = list(dict.fromkeys([*named, *close])) or every
    return [f"{number} {known[number].name}".strip() for number in found[:_NEAR]]


def span(planning: Planning) -> str:
    """Which phases there are, as far as two numbers tell: ``phases 1 to 15``, ``phase 1``, ``no phases``."""
    every = sorted({one.number for one in [*planning.phases, *planning.past]}, key=order)
    if not every:
        return "no phases"
    return f"phases {every[0]} to {every[-1]}" if len(every) > 1 else f"phase {every[0]}"


def unfiled(phase: Phase) -> list[tuple[Listed, Summary | None]]:
    """The plans that the roadmap lists but of which there is no file, each with its summary where there is one."""
    known = {plan_key(plan.id, phase.number) for plan in phase.plans}
    told = {plan_key(one.plan_id, phase.number): one for one in phase.summaries}
    listed = ((plan_key(one.id, phase.number), one) for one in phase.listed)
    return [(one, told.get(key)) for key, one in listed if key not in known]


def counted(phase: Phase) -> tuple[int, int]:
    """How many plans of a phase are done, of how many: with a summary, or ticked where there is no file."""
    lost = unfiled(phase)
    done = sum(1 for one, summary in lost if summary or one.done or phase.box)
    return done + sum(1 for plan in phase.plans if plan.summary), len(lost) + len(phase.plans)


def _disagreements(planning: Planning) -> Iterator[Disagreement]:
    if planning.state:
        yield from _of_state(planning, planning.state)
    listed = any(one.file for one in planning.phases)
    for phase in planning.phases:
        yield from _of_roadmap(phase)
        if listed and not phase.file:
            yield Disagreement(
                phase.number,
                f"phase {phase.number} has a directory, but the roadmap does not name it",
                (Said(phase.directory, 0, "it is there"), Said(f"{planning.directory}/ROADMAP.md", 0, "nothing")),
            )


def _of_state(planning: Planning, state: State) -> Iterator[Disagreement]:
    said = Said(state.file, state.line, f"phase {state.phase_text}" + (f", {state.status}" if state.status else ""))
    if not state.phase:
        open_ones = [one for one in planning.phases if not one.complete and status_of(one.stated) != "deferred"]
        if state.between and open_ones:
            what = f"STATE.md says that the milestone is complete, phase {open_ones[0].number} is not"
            yield Disagreement(open_ones[0].number, what, (said, *_told(open_ones[0])))
        return
    own = next((one for one in planning.phases if one.number == state.phase), None)
    if own is None:
        past = next((one for one in planning.past if one.number == state.phase), None)
        what = f"STATE.md names phase {state.phase}, " + ("which has been shipped" if past else "which there is not")
        yield Disagreement(state.phase, what, (said, *(_told(past) if past else ())))
        return
    if own.complete and state.state != "completed":
        what = f"STATE.md says that phase {own.number} is under way, but it is complete"
        yield Disagreement(own.number, what, (said, *_told(own)))
    if not own.complete and state.state == "completed":
        what = f"STATE.md says that phase {own.number} is completed, but it is not"
        yield Disagreement(own.number, what, (said, *_told(own)))
    totals = {len(planning.phases), len(planning.phases) + len(planning.past)}
    totals |= {int(one.number) for one in planning.phases if one.number.isdigit()}
    if state.phase_total is not None and state.phase_total not in totals:
        what = f"STATE.md counts {state.phase_total} phases, the roadmap and the directories {len(planning.phases)}"
        told = Said(planning.phases[-1].file or planning.directory, planning.phases[-1].line, "the last of them")
        yield Disagreement("", what, (said, told))
    yield from _of_plan(own, state)


def _of_plan(phase: Phase, state: State) -> Iterator[Disagreement]:
    """STATE.md's ``Plan: A of B``: A is the plan that was done last or the one under way."""
    done, total = counted(phase)
    if not total or state.plan is None:
        return
    source = phase.directory if phase.plans else phase.file
    told = Said(source, 0 if phase.plans else phase.line, f"{done} of {total} plans are done")
    said = Said(state.file, state.plan_line, f"plan {state.plan_text}")
    if state.plan_total is not None and state.plan_total != total:
        what = f"STATE.md counts {state.plan_total} plans in phase {phase.number}, there are {total}"
        yield Disagreement(phase.number, what, (said, told))
    elif not done <= state.plan <= done + 1:
        what = f"STATE.md says plan {state.plan} of phase {phase.number}, {done} of {total} are done"
        yield Disagreement(phase.number, what, (said, told))


def _of_roadmap(phase: Phase) -> Iterator[Disagreement]:
    if not phase.file or not phase.plans:
        return
    done = phase.ladder == "complete"
    summed_up = sum(1 for plan in phase.plans if plan.summary)
    disk = Said(phase.directory, 0, f"{summed_up} of {len(phase.plans)} plans have a summary")
    if phase.box is True and not done:
        what = f"the roadmap says that phase {phase.number} is complete, but plans lack their summary"
        yield Disagreement(phase.number, what, (_boxed(phase), disk))
    elif phase.box is False and done:
        what = f"each plan of phase {phase.number} has its summary, but the roadmap does not say that it is complete"
        yield Disagreement(phase.number, what, (_boxed(phase), disk))
    if phase.summaries and not done and phase.stated and status_of(phase.stated) == "pending":
        what = f"the roadmap says {phase.stated!r} of phase {phase.number}, but some of its plans are done"
        yield Disagreement(phase.number, what, (Said(phase.file, phase.stated_line, phase.stated), disk))
    summed = dict.fromkeys((plan_key(plan.id, phase.number) for plan in phase.plans), False)
    summed |= dict.fromkeys((plan_key(one.plan_id, phase.number) for one in phase.summaries), True)
    ticked = {plan_key(one.id, phase.number): one.done for one in phase.listed if one.done is not None}
    other = [
        one.id
        for one in phase.listed
        if ticked.get(k := plan_key(one.id, phase.number)) not in {None, summed.get(k, False)}
    ]
    if other:
        what = (
            f"the roadmap's checkboxes and the summaries of phase {phase.number} differ for {', '.join(other[:20])}"
        )
        ticks = sum(1 for one in phase.listed if one.done)
        said = Said(phase.file, phase.line, f"{ticks} of {len(phase.listed)} plans are ticked")
        yield Disagreement(phase.number, what, (said, disk))


def _boxed(phase: Phase) -> Said:
    says = {True: "complete", False: "not complete", None: "nothing"}[phase.box]
    return Said(phase.file, phase.box_line or phase.line, says + (f" ({phase.stated})" if phase.stated else ""))


def _told(phase: Phase) -> tuple[Said, ...]:
    """What roadmap and disk say of a phase."""
    out = (_boxed(phase),) if phase.file else ()
    return (*out, Said(phase.directory, 0, phase.ladder)) if phase.directory else out
