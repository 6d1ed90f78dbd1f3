"""Commands about spawn runs: create, follow, read, list, cancel, draw, fetch artifacts, check health."""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import CODES, BadRequest
from orchestrator.base.toolsets import SMARTSPAWN
from orchestrator.cli import interrupt, options, output, reports, spawn_progress, spawn_text, trust
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.spawn.modes.mode_names import MODES

WAIT_MS = 20_000
"""Milliseconds that one request of ``result --wait`` waits; repeated until the run has ended."""
LISTED = 200  # the most that smartspawn_run_list gives
_WHOLE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

app = options.app("Create and follow spawn runs, graphs of model calls.")
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a unique prefix.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file.")]


@options.command(
    app,
    "create",
    'orchestrator spawn create "Compare three ways to cache sessions" --mode collective --wait\n'
    "orchestrator spawn create - --mode swarm --engine claude,codex < task.md",
)
def create(
    *,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; -: read from stdin.")],
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help=f"{', '.join(MODES[:-1])} or {MODES[-1]}.")],
    budget: Annotated[
        str, typer.Option("--budget", metavar="BUDGET", help="Price class of the models: low, medium, high or any.")
    ] = "",
    context: Annotated[
        str,
        typer.Option(
            "--context", metavar="TEXT|@FILE", help="Text that every node gets besides the task; @-: stdin."
        ),
    ] = "",
    count: Annotated[
        int | None,
        typer.Option(
            "--count", metavar="N", min=2, max=5, help="Number of models, in a mode that asks several the whole task."
        ),
    ] = None,
    persona: Annotated[
        str, typer.Option("--persona", metavar="WORDS", help="Persona of the nodes: words, or a role's id.")
    ] = "",
    stack: Annotated[str, typer.Option("--stack", metavar="A,B", help="Techniques that the nodes know.")] = "",
    domain: Annotated[str, typer.Option("--domain", metavar="WORDS", help="Field that the nodes know.")] = "",
    form: Annotated[str, typer.Option("--format", metavar="WORDS", help="Form of the answers.")] = "",
    guardrails: Annotated[str, typer.Option("--guardrails", metavar="A,B", help="Rules that the nodes follow.")] = "",
    style: Annotated[
        str,
        typer.Option("--style", metavar="STYLE", help="Style of the merged answer: concise, detailed or decision."),
    ] = "",
    merge_model: Annotated[
        str, typer.Option("--merge-model", metavar="MODEL", help="Model that merges the answers.")
    ] = "",
    models: Annotated[
        str, typer.Option("--models", metavar="A,B", help="Models that answer, in turn; default: chosen by budget.")
    ] = "",
    engine: Annotated[
        str, typer.Option("--engine", metavar="A,B", help="Squad members answer instead of the model API.")
    ] = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="A,B", help="Agents of the team answer instead of the model API.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run and print its answer.")] = False,
    as_json: Json = False,
) -> None:
    """Create a run and print its id; with --wait follow it and print the merged answer.

    Ctrl-C leaves the run running. Exit 0 if it completed, 1 if it failed or was canceled.
    """
    options.refuse_agents()
    if task == "-" and context == "@-":
        raise BadRequest("bad_argument", "task and context are both read from stdin", "put one of them in a file")
    text = sys.stdin.read() if task == "-" else task
    if not text.strip():
        raise BadRequest("bad_argument", "the task is empty", "describe what to do")
    arguments = {
        "mode": mode,
        "budget": budget,
        "context": _text_of(context),
        "collectiveCount": count,
        "role": _given(
            persona=persona, stack=_items(stack), domain=domain, format=form, guardrails=_items(guardrails)
        ),
        "merge": _given(style=style, model=merge_model),
        "models": _items(models),
        "engine": engine,
        "agent": agent,
    }
    with _spawn_client() as link:
        answer = _tool_answer(link, "create", "smartspawn_run_create", {"task": text} | _given(**arguments))
        trust.note(answer.get("untrusted"))
        run_id = str(answer["run_id"])
        if wait:
            output.warn(f"run {run_id}")
            _follow(link, run_id)
            spawn_text.print_result(link, link.tool("smartspawn_run_result", {"run_id": run_id}), as_json=as_json)
    if as_json:
        output.print_json(answer)
        return
    output.say(run_id)
    output.warn(
        f"{answer['status']}, about {answer['estimated_steps']} step{'s' * (answer['estimated_steps'] != 1)}\n"
        f"  follow it: orchestrator spawn status {run_id} --follow\n"
        f"  its answer: orchestrator spawn result {run_id} --wait"
    )


@options.command(app, "status", "orchestrator spawn status 6f0c\norchestrator spawn status 6f0c --follow")
def status(
    run: Run,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show progress until the run has ended.")] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a run and of each node.

    With --follow exit 0 if it completed, 1 if it failed or was canceled.
    """
    with _spawn_client() as link:
        run_id = _resolved(link, run)
        answer = _follow(link, run_id) if follow else link.tool("smartspawn_run_status", {"run_id": run_id})
    if as_json:
        output.print_json(answer)
    else:
        spawn_text.print_status(answer)
    if follow and answer["status"] != "completed":
        raise typer.Exit(1)


@options.command(app, "result", "orchestrator spawn result 6f0c --wait\norchestrator spawn result 6f0c --raw")
def result(
    run: Run,
    raw: Annotated[bool, typer.Option("--raw", help="Also print each node's answer.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    as_json: Json = False,
) -> None:
    """Print the merged answer of a run.

    Exit 0 if it completed, 1 if it failed or was canceled, 4 if it has not ended.
    """
    with _spawn_client() as link:
        arguments: dict[str, Any] = {"run_id": _resolved(link, run)} | ({"include_raw": True} if raw else {})
        answer = link.tool("smartspawn_run_result", arguments)
        with _continues(str(arguments["run_id"])):
            while wait and answer["status"] not in spawn_progress.ENDED and not answer.get("foreign"):
                answer = link.tool("smartspawn_run_result", arguments | {"wait_ms": WAIT_MS}, wait_s=WAIT_MS / 1000)
        spawn_text.print_result(link, answer, as_json=as_json)


@options.command(app, "list", "orchestrator spawn list --status running")
def list_runs(
    state: Annotated[str, typer.Option("--status", metavar="STATUS", help="Only runs with this status.")] = "",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=LISTED, help="Maximum number of runs.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """List the runs of all projects of this home, newest first."""
    with _spawn_client() as link:
        listing = _tool_answer(link, "list", "smartspawn_run_list", {"limit": limit} | _given(status=state))
    if as_json:
        output.print_json(listing)
        return
    rows = [
        [
            row["run_id"],
            "foreign" if row.get("foreign") else row["status"],
            output.age(row["created_at"]),
            output.short(row["task"], 80),
        ]
        for row in listing["runs"]
    ]
    empty = f"no runs with status {state}" if state else "no runs; create one: orchestrator spawn create TASK"
    output.table(["RUN", "STATUS", "AGE", "TASK"], rows, whole_column=0, empty=empty)


@options.command(app, "cancel", "orchestrator spawn cancel 6f0c")
def cancel(run: Run, as_json: Json = False) -> None:
    """Cancel a run; answers of its nodes are kept."""
    options.refuse_agents()
    with _spawn_client() as link:
        run_id = _resolved(link, run)
        answer = link.tool("smartspawn_run_cancel", {"run_id": run_id})
    if as_json:
        output.print_json(answer)
    else:
        output.say(f"{run_id}: {answer['status']}")


@options.command(
    app, "artifact", "orchestrator spawn artifact 6f0c merged -o answer.md\norchestrator spawn artifact 6f0c plan"
)
def artifact(
    run: Run,
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node's id, merged, or plan.")],
    file: Output = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file with other content.")] = False,
    as_json: Json = False,
) -> None:
    """Print a whole artifact of a run, verified by its SHA-256."""
    with _spawn_client() as link:
        answer = spawn_text.whole_artifact(link, _resolved(link, run), node)
    if file is not None:
        data = spawn_text.encoded(answer["content"])
        if not force and file.is_file() and file.read_bytes() != data:
            raise BadRequest("bad_argument", f"{file} exists with other content", "choose another -o, or add --force")
        file.write_bytes(data)
    if as_json:
        output.print_json(answer)
    elif file is None:
        spawn_text.print_text(answer["content"])
    else:
        output.warn(f"wrote {file}: {answer['metadata']['bytes']} bytes")


@options.command(app, "health", "orchestrator spawn health")
def health(as_json: Json = False) -> None:
    """Check whether runs can be answered here, and if not, why.

    Exit 1 if something that the model API needs is missing; the Smart Spawn API is optional.
    """
    with _spawn_client() as link:
        report = link.tool("smartspawn_health", {})
    if as_json:
        output.print_json(report)
    else:
        reasons = report.get("reasons") or {}
        for key, value in report.items():
            if isinstance(value, bool):
                why = reasons.get(key) if isinstance(reasons, dict) else ""
                output.say(f"{'yes' if value else 'no':<4} {key}{f': {why}' if why else ''}")
        if isinstance(reasons, list):
            for reason in reasons:
                output.say(f"     {reason}")
    if any(value is False for key, value in report.items() if key != "smart_spawn_api_reachable"):
        raise typer.Exit(1)


@options.command(app, "graph", "orchestrator spawn graph 6f0c\norchestrator spawn graph 6f0c --format svg -o run.svg")
def graph(
    run: Run,
    file: Output = None,
    form: Annotated[str, typer.Option("--format", metavar="html|svg", help="A page, or the drawing alone.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is not such a drawing.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a run: its graph with times and cost, its timeline, its critical path.

    Writes one self-contained file; default: .agents/reports/<run>.html in the project.
    """
    kind = form or ("svg" if file is not None and file.suffix == ".svg" else "html")
    if kind not in ("html", "svg"):
        raise BadRequest("bad_argument", f"--format {kind!r} is neither html nor svg")
    with _spawn_client() as link:
        picture = link.ask("orchestrator/spawn_run", {"run_id": _resolved(link, run)})
    from orchestrator.spawn import run_page, run_picture  # noqa: PLC0415  (no other command draws)

    place = reports.place_of(project_here().root, file, f"{picture['run']['run_id']}.{kind}")
    reports.refuse_others(place, run_picture.MARK, force=force)
    reports.write(place, run_picture.svg(picture) if kind == "svg" else run_page.html(picture))
    if as_json:
        output.print_json({"file": str(place.absolute()), "format": kind})
    else:
        output.say(str(place))


# -- what is asked --------------------------------------------------------------------------------------------------


def _spawn_client() -> DaemonClient:
    return DaemonClient(project_here(), start=True, toolsets=(SMARTSPAWN,))


def _given(**values: Any) -> dict[str, Any]:
    """The values that were given; the daemon chooses the rest."""
    return {key: value for key, value in values.items() if value}


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _text_of(source: str) -> str:
    """The text itself; for ``@FILE`` the content of the file, for ``@-`` stdin."""
    if not source.startswith("@"):
        return source
    if source == "@-":
        return sys.stdin.read()
    try:
        return Path(source[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("bad_argument", f"{source[1:]} is not UTF-8: {error}") from error


def _tool_answer(link: DaemonClient, command: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool; an error that points to the tool's schema points to the command's help instead."""
    try:
        return link.tool(tool, arguments)
    except BadRequest as error:
        if error.code == "bad_argument" and error.next_step == CODES["bad_argument"][2]:
            raise BadRequest(error.code, error.message, f"see: orchestrator spawn {command} --help") from None
        raise


def _resolved(link: DaemonClient, prefix: str) -> str:
    """The run id that starts with ``prefix``, else ``prefix`` itself: the daemon then reports the error."""
    if _WHOLE_ID.fullmatch(prefix):
        return prefix
    runs = link.tool("smartspawn_run_list", {"limit": LISTED})["runs"]
    matches = [str(row["run_id"]) for row in runs if row["run_id"].startswith(prefix)]
    if prefix in matches or not matches:
        return prefix
    if len(matches) > 1:
        names = ", ".join(matches[:5]) + (f" and {len(matches) - 5} more" if len(matches) > 5 else "")
        raise BadRequest(
            "bad_argument", f"{prefix!r} is a prefix of several run ids: {names}", "give a longer prefix"
        )
    return matches[0]


def _follow(link: DaemonClient, run_id: str) -> dict[str, Any]:
    with _continues(run_id):
        return spawn_progress.follow(link, run_id)


def _continues(run_id: str) -> AbstractContextManager[object]:
    return interrupt.says(
        "the run continues",
        f"follow it: orchestrator spawn status {run_id} --follow",
        f"end it: orchestrator spawn cancel {run_id}",
    )
