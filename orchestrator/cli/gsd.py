"""Commands about a project's planning and code: what the tools of gsd answer, a check, the index, a picture.

All but ``index`` read only; they ask in this process, no daemon is needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import options, output, reports
from orchestrator.cli.options import Json

if TYPE_CHECKING:
    from orchestrator.gsd.intelligence import Intelligence
    from orchestrator.gsd.place import Asking

# As the tools have them (`gsd.models`, which loads MCP: a test compares).
TYPES = (
    "all", "service", "api", "util", "component", "model", "config", "module", "hook", "test", "controller",
    "feature", "binary", "library", "unknown",
)  # fmt: skip
HITS = {
    "gsd_query_intel": "files",
    "gsd_blast_radius": "known",
    "gsd_codebase_patterns": "patterns",
    "gsd_similar_past_work": "similar_phases",
    "gsd_phase_relevant_files": "relevant_files",
}
"""The key of an answer that says whether anything was found: nothing is exit 1, as of grep."""
CHANGES = ("any", "signature_change", "behavior_change", "deletion", "export")

app = options.app("Ask a project about its plans and its code.")
Words = Annotated[list[str], typer.Argument(metavar="WORDS...", help="Words to search for.")]


@options.command(
    app, "query", "orchestrator gsd query auth session\norchestrator gsd query login --type service --max 5"
)
def query(
    words: Words,
    kind: Annotated[
        str,
        typer.Option("--type", metavar="TYPE", help="Only files of this type: service, api, util, component, ..."),
    ] = "all",
    most: Annotated[int, typer.Option("--max", metavar="N", min=1, max=100, help="Maximum number of files.")] = 10,
    blast: Annotated[bool, typer.Option("--blast", help="Also count the files that depend on each.")] = False,
    as_json: Json = False,
) -> None:
    """Find the files that match the words, best match first.

    Exit 1 if none does.
    """
    _one_of(kind, TYPES, "--type")
    arguments = {"query": " ".join(words), "type_filter": kind, "max_results": most, "include_blast_radius": blast}
    _answer("gsd_query_intel", arguments, as_json)


@options.command(
    app, "blast", "orchestrator gsd blast src/lib/db.ts\norchestrator gsd blast src/lib/db.ts --change deletion"
)
def blast(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A path, the unique end of one, or an id of the graph.")
    ],
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=1, max=10, help="Maximum number of steps.")] = 3,
    change: Annotated[
        str,
        typer.Option("--change", metavar="KIND", help="signature_change, behavior_change, deletion, export or any."),
    ] = "any",
    as_json: Json = False,
) -> None:
    """Show what depends on a file, directly and indirectly.

    Exit 1 if nothing is known of the file.
    """
    _one_of(change, CHANGES, "--change")
    arguments = {"file": _from_root(file), "max_depth": depth, "change_type": change}
    _answer("gsd_blast_radius", arguments, as_json)


@options.command(app, "phase", "orchestrator gsd phase\norchestrator gsd phase 2.1")
def phase(
    number: Annotated[str, typer.Argument(metavar="N", help="The phase; default: the current phase.")] = "",
    as_json: Json = False,
) -> None:
    """Show the status of a phase, its plans, the next step, and contradictions between the files."""
    _answer("gsd_phase_status", {"phase": number}, as_json)


@options.command(app, "requirement", "orchestrator gsd requirement AUTH-03\norchestrator gsd requirement")
def requirement(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The requirement's id; default: all pending ones and those without a phase."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the status of a requirement, or list the open ones."""
    if name:
        _answer("gsd_requirement_status", {"requirement_id": name}, as_json)
        return
    from orchestrator.gsd.planning import plan_answers  # noqa: PLC0415

    known = _intelligence()
    root = _root()
    cut = known.about(root, "gsd_untraceable_requirements", {})
    pending = plan_answers.pending_requirements(known.snapshot(root))
    _show("requirements", {"pending": pending, "untraceable": cut, "project_root": str(root)}, as_json)


@options.command(app, "patterns", "orchestrator gsd patterns error handling")
def patterns(words: Words, as_json: Json = False) -> None:
    """Show the code's patterns for something, with examples.

    Exit 1 if there is none.
    """
    _answer("gsd_codebase_patterns", {"query": " ".join(words)}, as_json)


@options.command(app, "past", "orchestrator gsd past add a payment provider")
def past(words: Words, as_json: Json = False) -> None:
    """Show phases that did similar work, and what they learned.

    Exit 1 if there is none.
    """
    _answer("gsd_similar_past_work", {"current_goal": " ".join(words)}, as_json)


@options.command(app, "files", "orchestrator gsd files rate limiting for the login")
def files(words: Words, as_json: Json = False) -> None:
    """Show the files relevant to a goal, given in words or as a phase's number.

    Exit 1 if none is.
    """
    _answer("gsd_phase_relevant_files", {"phase_goal": " ".join(words)}, as_json)


@options.command(
    app,
    "verify",
    'orchestrator gsd verify "users can reset their password"\n'
    "orchestrator gsd verify src/services/mail.ts\n"
    'orchestrator gsd verify --artifact "POST /api/auth/reset"',
)
def verify(
    words: Words,
    artifact: Annotated[
        bool,
        typer.Option("--artifact", help="The words name an endpoint, an export or a test; a path needs no option."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Look for evidence of a behaviour or an artifact in the code and the reports; runs nothing.

    Exit 0 if there is evidence, 1 if there is none or it is unclear.
    """
    text = " ".join(words)
    if _is_path(text):
        text, artifact = _from_root(text), True
    call = ("gsd_verify_artifact", {"must_exist": text}) if artifact else ("gsd_verify_behavior", {"must_have": text})
    answer = _answer(*call, as_json)
    if answer.get("exists" if artifact else "verified") is not True:
        raise typer.Exit(1)


@options.command(app, "check", "orchestrator gsd check\norchestrator gsd check --json | jq '.troubles[]'")
def check(as_json: Json = False) -> None:
    """List unreadable and contradictory parts of the planning and the code graph.

    One line each: FILE:LINE: WHAT. Exit 1 if there are any.
    """
    answer = _intelligence().answer("check", _asking(), {})
    troubles = answer["troubles"]
    if as_json:
        output.print_json(answer)
    else:
        for trouble in troubles:
            where = os.path.relpath(Path(answer["project_root"]) / trouble["file"])
            output.say_line(f"{where}:{trouble['line'] or 1}: {trouble['what']}")
        counts = ", ".join(
            output.counted(number, name.replace("_", " ")) for name, number in answer["counts"].items() if number
        )
        output.warn(f"{output.counted(answer['files_read'], 'files')} read: {counts or 'nothing is there'}")
        output.warn(output.counted(len(troubles), "troubles") if troubles else "all could be read")
    if troubles:
        raise typer.Exit(1)


@options.command(
    app, "index", "orchestrator gsd index\norchestrator gsd index packages/server\norchestrator gsd index --rebuild"
)
def index(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Directory to index; default: the current directory's project.")
    ] = "",
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read every file again.")] = False,
    as_json: Json = False,
) -> None:
    """Create or update the index of a project's code: .agents/gsd/index.db.

    Reads only files changed since the last run and writes only below .agents/. Ctrl-C keeps the previous index.
    """
    options.refuse_agents()
    from orchestrator.cli import gsd_index  # noqa: PLC0415

    gsd_index.run(gsd_index.root_of(directory, _asking()), rebuild=rebuild, as_json=as_json)


@options.command(app, "graph", "orchestrator gsd graph\norchestrator gsd graph src/lib/db.ts -o db.html")
def graph(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Show this file's blast radius; default: the file most others depend on."
        ),
    ] = "",
    to: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200, help="Number of hotspots.")] = 20,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is not such a drawing.")] = False,
    as_json: Json = False,
) -> None:
    """Draw the code graph: the files most others depend on, and what depends on one of them.

    Writes one self-contained file; default: .agents/reports/gsd-graph.html in the project.
    """
    from orchestrator.gsd.picture import chosen as picture  # noqa: PLC0415  (no other command draws)
    from orchestrator.gsd.picture import drawing  # noqa: PLC0415  (no other command draws)
    from orchestrator.gsd.picture import page as drawing_page  # noqa: PLC0415  (no other command draws)
    from orchestrator.gsd.place import PLANNING  # noqa: PLC0415

    root = _root()
    place = reports.place_of(root, to, "gsd-graph.html")
    if PLANNING in Path(os.path.realpath(place)).parent.parts:
        raise BadRequest("bad_argument", f"{place}: nothing is written below {PLANNING}/", "choose another -o")
    reports.refuse_others(place, drawing.MARK, force=force)
    snapshot = _intelligence().snapshot(root)
    drawn = picture.picture(snapshot, file=_from_root(file) if file else "", limit=limit)
    reports.write(place, drawing_page.html(drawn))
    if as_json:
        centre = drawn["centre"]
        output.print_json(
            {"file": str(place.absolute()), "about": centre and centre["path"], "project_root": str(snapshot.root)}
        )
    else:
        output.say(str(place))


# -- asking ---------------------------------------------------------------------------------------------------------


def _intelligence() -> Intelligence:
    from orchestrator.gsd.intelligence import Intelligence  # noqa: PLC0415

    return Intelligence()


def _asking() -> Asking:
    """Where the question comes from: the directory of ``--project`` if given, which no variable overrules."""
    from orchestrator.gsd.place import VARIABLE, Asking  # noqa: PLC0415

    named = os.environ.get("ORCHESTRATOR_PROJECT", "")
    return Asking(cwd=named or str(Path.cwd()), variable="" if named else os.environ.get(VARIABLE, ""))


def _root() -> Path:
    from orchestrator.gsd import place  # noqa: PLC0415

    return place.find(_asking())


def _answer(question: str, arguments: dict[str, Any], as_json: bool) -> dict[str, Any]:
    answer = _intelligence().answer(question, _asking(), arguments)
    _show(question, answer, as_json)
    if question in HITS and answer.get(HITS[question], True) in ([], False):
        raise typer.Exit(1)
    return answer


def _show(question: str, answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
        return
    from orchestrator.cli import gsd_text  # noqa: PLC0415

    for line in gsd_text.answer_lines(question, answer):
        output.say_line(line)


def _one_of(value: str, known: tuple[str, ...], option: str) -> None:
    """BadRequest ``bad_argument`` for what the tool would not take."""
    if value not in known:
        raise BadRequest("bad_argument", f"{option} {value[:80]!r} is unknown", f"give one of: {', '.join(known)}")


def _from_root(file: str) -> str:
    """A path as the graph has it: one that is there from the current directory is meant so, whatever the root."""
    if "\0" in file or not os.path.lexists(file):
        return file
    at = Path(os.path.realpath(Path(file).parent)) / Path(file).name
    root = _root()
    return at.relative_to(root).as_posix() if at.is_relative_to(root) else str(at)


def _is_path(text: str) -> bool:
    """Whether the words are plainly one path: a file that is there, or one word with the ending of a source file.

    A directory that is there has to be written with a slash: its name alone may as well be a word.
    """
    if "\0" in text or "://" in text:
        return False
    if os.path.isfile(text) or ("/" in text and os.path.lexists(text)):  # noqa: PTH113  (names of any length)
        return True
    from orchestrator.gsd.sources.code import LANGUAGES, ending  # noqa: PLC0415

    if any(char.isspace() for char in text):
        return False
    return ending(text) in LANGUAGES or ("/" in text and os.path.isfile(_root() / text))  # noqa: PTH113
