"""The command that explains the state of an agent or task, citing the records that prove it. Reads only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import options, output
from orchestrator.cli.daemon_client import project_here
from orchestrator.cli.facts import facts
from orchestrator.cli.options import Json


def why(
    name: Annotated[str, typer.Argument(metavar="AGENT|TASK", help="An agent, a task, or AGENT/TASK.")],
    as_json: Json = False,
) -> None:
    """Explain the state of an agent or task.

    Shows its status, the reason, and each record that proves it, by file and line. Without a daemon the status comes
    from the files.
    """
    from orchestrator.team.recovery import explanation as reasons  # noqa: PLC0415  (loads pydantic)

    place = project_here()
    source = facts(place)
    agent_id, slash, task_id = name.partition("/")
    if slash:
        found = reasons.of_task(place.root, task_id, agent_id, source.agent)
    elif any(row["agent_id"] == name for row in source.agents()):
        found = reasons.of_agent(place.root, source.agent(name))
    else:
        found = reasons.of_task(place.root, name, None, source.agent)
    if as_json:
        output.print_json({"live": source.live, **found})
        return
    _show(found, place.root)
    if not source.live:
        output.warn("no daemon answers: shown from the files")


def _show(found: dict[str, Any], root: Path) -> None:
    of_agent = "next" in found
    who = found["agent_id"] if of_agent else f"{found['agent_id']}/{found['task_id']}"
    status = output.status_word(found["status"]) if of_agent else found["status"]
    output.say(f"{who}: {status}" + (f": {found['reason']}" if found["reason"] else ""))
    for one in found["evidence"]:
        file = Path(one["file"])
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        output.say(f"  {shown}:{one['line']}  seq {one['seq']}  {one['at']}  {one['type']}  {one['says']}".rstrip())
    if found.get("next"):
        output.say(f"  {found['next']}")
    if found.get("agent"):
        _show(found["agent"], root)


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "why", "orchestrator why builder\norchestrator why builder/t-7")(why)
