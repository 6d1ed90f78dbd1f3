"""What a `.planning/` tree says, as plain values: the words every reader and every answer shares. Pure.

Readers fill these, answers read them; what a file does not say is empty (``""``, ``()``, ``None``), never missing.
Paths are relative to the project's root, with ``/``. Lines count from 1; 0: not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Status = Literal["pending", "in_progress", "completed", "blocked", "deferred"]
"""Of a requirement, normalised (seed-systems C21)."""

Ladder = Literal["complete", "partial", "planned", "researched", "discussed", "empty", "no_directory"]
"""How far a phase is by its files (seed-systems A1)."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Trouble:
    """Something that could not be read, or that two files say differently: where, and one sentence.

    ``kind``: ``unreadable`` (nothing of the file counts), ``odd`` (a part of it was left out), ``conflict``.
    """

    file: str
    line: int
    what: str
    kind: Literal["unreadable", "odd", "conflict"] = "odd"


@dataclass(frozen=True)
class Decision:
    """A row of PROJECT.md's Key Decisions, or an entry of STATE.md's."""

    decision: str
    rationale: str = ""
    outcome: str = ""
    phase: str = ""


@dataclass(frozen=True)
class ProjectFile:
    """PROJECT.md. ``sections``: the text below each heading of level 2, as written, in order."""

    file: str
    name: str = ""
    what: str = ""  # What This Is, else Vision (C20)
    core_value: str = ""
    sections: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    validated: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    updated: str = ""


@dataclass(frozen=True)
class Requirement:
    """One requirement of REQUIREMENTS.md, of the milestone under way or of an archived one.

    ``checked``: its checkbox; None without one. ``stated``: the status of the traceability table, as written.
    """

    id: str
    text: str
    category: str = ""
    section: str = ""  # "v1.2 Requirements"
    checked: bool | None = None
    stated: str = ""
    status: Status = "pending"
    phases: tuple[str, ...] = ()  # normalised phase numbers of the table and of ROADMAP.md
    conflict: str = ""  # what its sources say differently
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Task:
    """A ``<task>`` of a plan."""

    name: str
    type: str = "auto"
    files: tuple[str, ...] = ()
    action: str = ""
    verify: str = ""
    done: str = ""
    line: int = 0


@dataclass(frozen=True)
class Artifact:
    """A file that must exist, by ``must_haves.artifacts``."""

    path: str
    provides: str = ""
    min_lines: int = 0
    exports: tuple[str, ...] = ()
    contains: str = ""
    also: tuple[str, ...] = ()  # what else it must contain


@dataclass(frozen=True)
class KeyLink:
    """A connection that must exist, by ``must_haves.key_links``."""

    source: str
    target: str
    via: str = ""
    pattern: str = ""


@dataclass(frozen=True)
class MustHaves:
    """What must be true once a plan is done. ``lines``: where each truth stands in its file."""

    truths: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    key_links: tuple[KeyLink, ...] = ()
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A SUMMARY.md: what was done in a plan. ``body`` holds the text below each heading of level 2."""

    file: str
    plan_id: str = ""
    title: str = ""
    one_liner: str = ""
    subsystem: str = ""
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    affects: tuple[str, ...] = ()
    tech_added: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    duration: str = ""
    completed: str = ""
    body: Mapping[str, str] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True)
class Plan:
    """A PLAN.md. ``id`` is ``NN-MM`` as its file name has it; complete when ``summary`` is there."""

    id: str
    file: str
    phase: str = ""
    number: str = ""
    type: str = "execute"
    wave: int = 0
    depends_on: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    autonomous: bool = True
    gap_closure: bool = False
    requirements: tuple[str, ...] = ()
    must_haves: MustHaves = MustHaves()
    objective: str = ""
    tasks: tuple[Task, ...] = ()
    summary: Summary | None = None


@dataclass(frozen=True)
class Row:
    """A row of one of VERIFICATION.md's tables: what, its status as written, and the rest."""

    what: str
    status: str
    evidence: str = ""
    line: int = 0


@dataclass(frozen=True)
class Verification:
    """A VERIFICATION.md. ``status``: ``passed``, ``gaps_found``, ``human_needed``, or as written; may be empty."""

    file: str
    status: str = ""
    score: str = ""
    verified: str = ""
    truths: tuple[Row, ...] = ()
    artifacts: tuple[Row, ...] = ()
    key_links: tuple[Row, ...] = ()
    requirements: tuple[Row, ...] = ()
    gaps: tuple[str, ...] = ()
    human: tuple[str, ...] = ()


@dataclass(frozen=True)
class Uat:
    """A UAT.md: tests by a human, each with its result (pending, pass, issue, skipped).

    ``gaps`` are those still open, ``fixed`` those that it says were mended.
    """

    file: str
    status: str = ""
    tests: tuple[Row, ...] = ()
    gaps: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listed:
    """A plan as ROADMAP.md lists it."""

    id: str
    text: str = ""
    done: bool | None = None


@dataclass(frozen=True)
class Phase:
    """A phase, from ROADMAP.md and from its directory; either may be missing.

    ``number`` is normalised: no leading zeros, letter upper-case (``2.1``, ``12A``). ``box``: its checkbox in
    ROADMAP.md (also ✓ or Complete); None where it says nothing. ``ladder`` is what the files say alone.
    """

    number: str
    name: str = ""
    goal: str = ""
    depends_on: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    box: bool | None = None
    stated: str = ""  # status of the roadmap's table or of its **Status:** line, as written
    listed: tuple[Listed, ...] = ()
    milestone: str = ""
    archived: bool = False  # its directory lies under milestones/, or its milestone has shipped
    directory: str = ""
    plans: tuple[Plan, ...] = ()
    summaries: tuple[Summary, ...] = ()  # also those without a plan
    context: str = ""  # the files' paths
    research: str = ""
    verification: Verification | None = None
    uat: Uat | None = None
    ladder: Ladder = "no_directory"
    file: str = ""  # the roadmap that has it, and where
    line: int = 0
    stated_line: int = 0
    box_line: int = 0  # what ``box`` was read from
    requirements_line: int = 0

    @property
    def complete(self) -> bool:
        """Whether the phase is done: by its checkbox, which wins, or because each plan has a summary."""
        return self.box is True or self.ladder == "complete"


@dataclass(frozen=True)
class State:
    """STATE.md, either generation. Numbers are None where it gives none."""

    file: str
    generation: Literal[1, 2] = 1
    phase: str = ""  # normalised number; "" between milestones, or where its line names no phase
    phase_text: str = ""  # the line as written
    phase_name: str = ""
    phase_total: int | None = None
    plan_text: str = ""
    plan: int | None = None
    plan_total: int | None = None
    status: str = ""  # as written
    state: Literal["paused", "executing", "planning", "discussing", "verifying", "completed", "unknown"] = "unknown"
    between: bool = False  # it says that the milestone is complete and no phase is under way
    milestone: str = ""
    last_activity: str = ""
    percent: int | None = None
    core_value: str = ""
    focus: str = ""
    decisions: tuple[Decision, ...] = ()
    todos: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    stopped_at: str = ""
    next_action: str = ""
    front: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    line: int = 0  # of its phase
    plan_line: int = 0


@dataclass(frozen=True)
class Milestone:
    """A milestone of MILESTONES.md, ROADMAP.md or the archive; ``shipped``: the date, ``""`` while under way."""

    name: str
    version: str = ""
    shipped: str = ""
    phases: str = ""  # "10-17"
    text: str = ""
    done: bool = False


@dataclass(frozen=True)
class Planning:
    """All of a `.planning/` tree that could be read; what could not is in ``troubles``.

    ``phases`` are those of the milestone under way, in order of number; ``past`` those of shipped milestones, in the
    order of milestones. ``requirements`` are of REQUIREMENTS.md, ``past_requirements`` of archived ones. ``quick``
    are the tasks below ``quick/``, outside of any milestone, each as a phase whose number is its directory
    (``quick/005-name``).
    """

    directory: str = ".planning"
    project: ProjectFile | None = None
    requirements: tuple[Requirement, ...] = ()
    past_requirements: tuple[Requirement, ...] = ()
    phases: tuple[Phase, ...] = ()
    past: tuple[Phase, ...] = ()
    quick: tuple[Phase, ...] = ()
    state: State | None = None
    config: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    milestones: tuple[Milestone, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    files: int = 0  # how many files were read


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What one source file says, as the index keeps it (`index.store`) and the code graph takes it.

    ``imports`` are project-relative paths of files it depends on; ``packages`` are what it imports from elsewhere.
    """

    path: str
    type: str = "module"  # module, component, util, config, api, hook, service, model, test, …
    purpose: str = ""
    exports: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    language: str = ""
    lines: int = 0
    mtime_ns: int = 0
    size: int = 0


@dataclass(frozen=True)
class Intel:
    """What the intel store says beside the graph. ``conventions`` and ``summary`` are as written, or our own.

    ``apis``: endpoints of intel v3 (``{"GET /api/users": {...}}``). ``sources``: which stores there are, each with
    ``files``, ``updated`` (RFC 3339 or ``""``) and ``from`` (their path).
    """

    conventions: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    conventions_from: str = ""
    summary: str = ""
    summary_from: str = ""
    apis: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
