"""Commands that read tasks: list them, show one with its request, attempts and whole result. Needs no daemon."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import OrchestratorError
from orchestrator.cli import completion, options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import Facts, facts
from orchestrator.cli.options import Json
from orchestrator.cli.recorded_cost import figures_here
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.daemon_client import project_here
from orchestrator.faces.task_lines import task_lines
from orchestrator.faces.text_table import Column, age, lines_of

FAILED = "error"

OfAgent = Annotated[
    str, typer.Option("--agent", metavar="AGENT", help="Only this agent.", autocompletion=completion.agents)
]


def list_tasks(
    word: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="Only this agent.", autocompletion=completion.agents)
    ] = "",
    agent: OfAgent = "",
    every: Annotated[bool, typer.Option("--all", "-a", help="Also the ended ones, of deleted agents too.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that ended in error.")] = False,
    as_json: Json = False,
) -> None:
    """List unfinished tasks, or with --all the ended ones too.

    The newest ended task is the last.
    """
    place = project_here()
    source = facts(place)
    word = word or agent
    agent_id = chosen(source, word).agent_id if word else ""
    tasks, unreadable = _tasks(source, place.root, agent_id, every=every or failed)
    if failed:
        tasks = [task for task in tasks if task["state"] == FAILED]
    if as_json:
        named = _of_agent(source, agent_id) if agent_id else {}
        output.print_json({"live": source.live, **named, "tasks": [_summary(task) for task in tasks]})
        return
    if tasks:
        _print_table(tasks)
    else:
        kind = "failed" if failed else "" if every else "unfinished"
        whose = f" of {agent_id}" if agent_id else ""
        output.warn(f"no {kind} tasks{whose}".replace("  ", " ") + ("" if every or failed else "; ended ones: --all"))
    for message in unreadable:
        output.warn(message)


def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id, its beginning, or AGENT/TASK.")],
    agent: OfAgent = "",
    as_json: Json = False,
) -> None:
    """Show all about a task: its request, its attempts and why each ended, its whole result, its files."""
    from orchestrator.team.roster import offline_view, task_views  # noqa: PLC0415  (loads the log readers)

    place = project_here()
    root = place.root
    named, slash, rest = task.rpartition("/")  # a name may contain a slash, a task's id does not
    word, agent = (rest, named) if slash else (task, agent)
    agents = [chosen(facts(place), agent).agent_id] if agent else offline_view.agent_ids(root)
    history = task_views.task_of(root, *task_views.find_task(root, word, agents))
    history["usage"] = figures_here(root)(history["agent_id"], "")[1].get(history["task_id"])
    if as_json:
        output.print_json(history)
        return
    for line in task_lines(history, root, ascii_only=not output.utf8()):
        output.say_line(line)


def _tasks(source: Facts, root: Path, agent_id: str, *, every: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """The tasks, unfinished ones first by agent, then the ended ones by time; and what could not be read."""
    from orchestrator.team.roster import offline_view, task_views  # noqa: PLC0415  (loads the log readers)

    if agent_id:
        agents = [agent_id]
    elif every:
        agents = offline_view.agent_ids(root)
    else:
        agents = [row["agent_id"] for row in source.agents() if row["queue_depth"] or row["running_task_id"]]
    tasks: list[dict[str, Any]] = []
    unreadable: list[str] = []
    for name in agents:
        try:
            tasks += task_views.histories(root, name)
        except OrchestratorError as error:
            if agent_id:
                raise
            unreadable.append(f"{name}: {error.message}")
    unfinished = [task for task in tasks if task["ended_at"] is None]
    ended = sorted((task for task in tasks if task["ended_at"]), key=lambda task: str(task["ended_at"]))
    return [*unfinished, *ended] if every else unfinished, unreadable


def _of_agent(source: Facts, agent_id: str) -> dict[str, Any]:
    meta = source.agent(agent_id)
    keys = ("agent_id", "status", "running_task_id", "finished")
    return {key: meta[key] for key in keys if key in meta}


def _summary(task: dict[str, Any]) -> dict[str, Any]:
    """A task without what may be large."""
    return {key: value for key, value in task.items() if key not in ("payload", "result", "attempts", "late")}


def _print_table(tasks: list[dict[str, Any]]) -> None:
    now = datetime.now(UTC)
    titles, agents, reasons, ids = (
        [output.printable(str(task[key])).replace("\n", " ") for task in tasks]
        for key in ("title", "agent_id", "reason", "task_id")
    )
    states = [f"{_sign(task['state'])}{task['state']}{_to_be_canceled(task)}" for task in tasks]
    columns = [
        Column("TITLE", titles, least=16),
        Column("STATE", states),
        Column("AGENT", agents, least=8),
        Column("AGE", [age(task["ended_at"] or task["queued_at"], now) for task in tasks], right=True),
        Column("TRY", [str(task["attempt"]) if task["attempt"] > 1 else "" for task in tasks], right=True),
        Column("TASK", ids, least=8),
        Column("REASON", reasons, least=8),
    ]
    size = output.terminal_size()
    for line in lines_of(columns, size.columns if size else None):
        output.say_line(line)


def _to_be_canceled(task: dict[str, Any]) -> str:
    return ", cancel requested" if task["cancel_requested"] and not task["ended_at"] else ""


def _sign(state: str) -> str:
    sign = outcome_sign(state, ascii_only=not output.utf8())
    return "" if sign == state else f"{sign} "


def add_to(group: typer.Typer) -> None:
    """Declare the commands in the group of tasks."""
    options.command(group, "list", "orchestrator task list\norchestrator task list --failed")(list_tasks)
    options.command(group, "show", "orchestrator task show t-3cf763d69597\norchestrator task show builder/t-7")(show)
