"""What the tools of the gsd toolset take and answer: names, defaults, shapes of the GSD documents (A3, C22 to C25).

What is more than the documents' is optional. Answers name their keys only: nothing of their inside is promised to a
client that checks, since much of it is as users wrote it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.protocol.tool_calls import Arguments, Id

TEXT_MAX = 4000
Text = Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
File = Annotated[str, Field(min_length=1, max_length=TEXT_MAX, description="File path or entity ID")]
ChangeType = Literal["any", "signature_change", "behavior_change", "deletion", "export"]
CheckType = Literal["behavior", "endpoint", "artifact", "file", "export", "component", "test", "any"]
TypeFilter = Literal[
    "all", "service", "api", "util", "component", "model", "config", "module", "hook", "test", "controller",
    "feature", "binary", "library", "unknown",
]  # fmt: skip
Root = Annotated[str, Field(max_length=TEXT_MAX, description="Another project than that of the working directory")]
Rows = list[dict[str, Any]]


class QueryArguments(Arguments):
    query: Annotated[Text, Field(description="Keywords or natural language query")]
    include_purposes: bool = True
    """Also what each is for."""
    include_blast_radius: bool = False
    """Also how much depends on each."""
    include_exports: bool = False
    """Also what each exports."""
    max_results: Annotated[int, Field(ge=1, le=100, description="1 to 100")] = 10
    type_filter: TypeFilter = "all"
    """Only files of this type."""
    project_root: Root = ""


class BlastArguments(Arguments):
    file: File
    max_depth: Annotated[int, Field(ge=1, le=10, description="How many levels of dependents to trace, 1 to 10")] = 3
    change_type: ChangeType = "any"
    """What is to be changed of it."""
    project_root: Root = ""


class RelevantArguments(Arguments):
    phase_goal: Annotated[Text, Field(description="The goal in words, or a phase's number")]
    include_purposes: bool = True
    """Also what each is for."""
    include_blast_radius: bool = True
    """Also how much depends on each."""
    project_root: Root = ""


class PatternsArguments(Arguments):
    query: Annotated[Text, Field(description='What is to be built, e.g. "middleware patterns"')]
    include_examples: bool = True
    """Also code that shows it."""
    project_root: Root = ""


class PastArguments(Arguments):
    current_goal: Text
    """What is to be done."""
    include_summaries: bool = False
    """Also the text of the phases' summaries."""
    project_root: Root = ""


class BehaviorArguments(Arguments):
    must_have: Annotated[Text, Field(description="What must be true, as a plan's must_haves say it")]
    check_type: CheckType = "behavior"
    """What kind of thing is looked for."""
    project_root: Root = ""


class ArtifactArguments(Arguments):
    must_exist: Annotated[Text, Field(description='"POST /api/login endpoint", "src/db.ts exports query", …')]
    check_type: CheckType = "any"
    """What kind of thing is looked for."""
    project_root: Root = ""


class RequirementArguments(Arguments):
    requirement_id: Annotated[Id, Field(min_length=1, max_length=200, description="AUTH-03")]
    project_root: Root = ""


class PhaseArguments(Arguments):
    phase: Annotated[Id, Field(max_length=200, description="Its number; default: the current one")] = ""
    project_root: Root = ""


class EditArguments(Arguments):
    file: File
    planned_change: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    """In words."""
    change_type: ChangeType = "any"
    """What is to be changed of it."""
    project_root: Root = ""


class UntraceableArguments(Arguments):
    project_root: Root = ""


class ConventionsArguments(Arguments):
    type: Annotated[str, Field(max_length=40, description="all, naming, directories, suffixes, …")] = "all"
    directory: Annotated[str, Field(max_length=TEXT_MAX, description="Only what holds for it")] = ""
    project_root: Root = ""


class _Answer(BaseModel):
    """Base of answers: keys that are not listed may be there too, and any may be null where its model allows it."""

    model_config = ConfigDict(extra="allow")

    project_root: Annotated[str, Field(description="the project it is about")] = ""


def _or_null(kind: str) -> Any:
    """A key that may be null: some clients check answers against the schema, which leaves null out elsewhere."""
    return Field(json_schema_extra={"type": [kind, "null"]})


Flag = Annotated[bool | None, _or_null("boolean")]
Word = Annotated[str | None, _or_null("string")]
Part = Annotated[dict[str, Any] | None, _or_null("object")]


class QueryAnswer(_Answer):
    files: Annotated[Rows, Field(description="id, path, purpose, type; best first")] = []


class BlastAnswer(_Answer):
    file: str = ""
    """The file."""
    directDependents: int = 0  # noqa: N815  (the document's name)
    """How many files depend on it."""
    transitiveDependents: int = 0  # noqa: N815  (the document's name)
    """How many more depend on those, within max_depth."""
    totalAffected: int = 0  # noqa: N815  (the document's name)
    """The sum of both."""
    criticalFiles: list[str] = []  # noqa: N815  (the document's name)
    """Those with service or api in their path, of both."""
    testFiles: list[str] = []  # noqa: N815  (the document's name)
    """Those that are tests, of both."""
    recommendation: str = ""
    """What to do, by what was found."""
    details: dict[str, Any] = {}
    """Each with id, path, purpose, depth."""


class RelevantAnswer(_Answer):
    relevant_files: Rows = []
    """Path, purpose, blast_radius, recommendation; the best first."""
    suggested_approach: str = ""
    """How to go about it."""
    patterns_from_codebase: list[Any] = []
    """How the code does such things."""


class PatternsAnswer(_Answer):
    patterns: Rows = []
    """Name, frequency, example."""
    recommendation: str = ""
    """What to do, by what was found."""


class PastAnswer(_Answer):
    similar_phases: Rows = []
    """Phase, goal, approach, lessons, files_created; the most similar first."""
    recommendation: str = ""
    """What to do, by what was found."""


class BehaviorAnswer(_Answer):
    verified: Annotated[Flag, Field(description="null: the files cannot decide it")] = None
    evidence: Annotated[Rows, Field(description="file, line, code; or test, description")] = []
    confidence: Word = None
    """High, medium or low."""


class ArtifactAnswer(_Answer):
    exists: Annotated[Flag, Field(description="null: the files cannot decide it")] = None
    location: Annotated[Word, Field(description="file:line")] = None
    method: Word = None
    """Of an endpoint."""
    middleware: list[Any] = []
    """Of an endpoint, as far as it can be read."""


class RequirementAnswer(_Answer):
    requirement: Any = None
    """As it is written."""
    status: Annotated[Word, Field(description="pending, in_progress, completed, blocked or deferred")] = None
    traced_to: Rows = []
    """Phase, plan, task."""
    verification: Part = None
    """Its status, and the must-haves."""


class PhaseAnswer(_Answer):
    current_phase: Annotated[Word, Field(description="null between milestones")] = None
    phase_name: Word = None
    """The phase's name."""
    plans: Rows = []
    """Id, status, tasks; current_task where it is known."""
    verification_status: Word = None
    """As VERIFICATION.md has it."""
    blockers: list[Any] = []
    """As STATE.md has them."""
    next_phase: Part = None
    """Number, name, dependencies."""


class EditAnswer(_Answer):
    safe: Annotated[Flag, Field(description="null: nothing is known of the file")] = None
    blast_radius: Any = None
    """As gsd_blast_radius has it."""
    breaking_files: list[Any] = []
    """What the change would break."""
    recommendation: str = ""
    """What to do, by what was found."""
    example: Any = None
    """How such a change is made here."""


class UntraceableAnswer(_Answer):
    """As the answering function makes it."""


class ConventionsAnswer(_Answer):
    """As the answering function makes it."""
