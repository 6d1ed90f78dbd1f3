"""The command that explains the state of an agent or task, citing the records that prove it. Reads only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import completion, options, output
from orchestrator.cli.agent_card import titled
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import facts
from orchestrator.cli.options import Json
from orchestrator.core import glyphs
from orchestrator.core.attention import said
from orchestrator.faces.daemon_client import project_here


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="AGENT|TASK", help="An agent, a task, or AGENT/TASK.", autocompletion=completion.agents
        ),
    ],
    as_json: Json = False,
) -> None:
    """Explain the state of an agent or task.

    Shows its status, the reason, and each record that proves it, by file and line. Without a daemon the status comes
    from the files.
    """
    from orchestrator.team.recovery import explanation as reasons  # noqa: PLC0415  (loads the log readers)
    from orchestrator.team.roster import agent_names  # noqa: PLC0415

    place = project_here()
    source = facts(place)
    agent, slash, task_id = name.rpartition("/")  # a name may contain a slash, a task's id does not
    if agent_names.choose(source.agents(), name) is not None:
        explanation = reasons.of_agent(place.root, source.agent(chosen(source, name).agent_id))
    elif slash:
        explanation = reasons.of_task(place.root, task_id, chosen(source, agent).agent_id, source.agent)
    else:
        explanation = reasons.of_task(place.root, name, None, source.agent)
    if as_json:
        output.print_json({"live": source.live, **explanation})
        return
    _show(explanation, place.root)
    if not source.live:
        output.warn("no daemon answers: shown from the files")


def _show(explanation: dict[str, Any], root: Path) -> None:
    of_agent = "next" in explanation
    who = explanation["agent_id"] if of_agent else f"{explanation['agent_id']}/{explanation['task_id']}"
    if of_agent:
        sign = glyphs.status_sign(explanation["status"], ascii_only=not output.utf8())
        output.say(f"{who}: {sign} {said(explanation['state'], explanation['reason'])}")
    else:
        output.say(f"{who}: {said(explanation['status'], explanation['reason'])}")
    for proof in explanation["evidence"]:
        file = Path(proof["file"])
        shown = file.relative_to(root) if file.is_relative_to(root) else file
        output.say(
            f"  {shown}:{proof['line']}  seq {proof['seq']}  {proof['at']}  {proof['type']}  {proof['says']}".rstrip()
        )
    last = explanation.get("last_task")
    if last:
        sign = glyphs.outcome_sign(last["outcome"], ascii_only=not output.utf8())
        why_ended = f": {last['reason']}" if last.get("reason") else ""
        output.say_line(f"  last task {sign} {titled(last)}{why_ended}")
    for name, path in (explanation.get("files") or {}).items():
        output.say_line(f"  {name} {Path(path).relative_to(root) if Path(path).is_relative_to(root) else path}")
    if explanation.get("next"):
        output.say(f"  {explanation['next']}")
    if explanation.get("agent"):
        _show(explanation["agent"], root)


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "why", "orchestrator why builder\norchestrator why builder/t-7")(why)
