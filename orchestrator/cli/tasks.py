"""Commands that change tasks: add, cancel."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.base.final_states import FINAL_LIVES, TERMINAL
from orchestrator.cli import options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.daemon_client import DaemonClient, project_here
from orchestrator.cli.event_text import EventText
from orchestrator.cli.facts import FOLLOW_MS, PAGE, FromDaemon
from orchestrator.cli.options import AgentWord, Json

app = options.app("Queue, cancel, list and show tasks.")


@options.command(
    app,
    "add",
    'orchestrator task add builder --command "make test" --wait\n'
    """orchestrator task add builder --payload '{"command": "make lint", "timeout_s": 60}'\n"""
    "jq -n '{command: \"make docs\"}' | orchestrator task add builder -",
)
def add(
    *,
    agent: AgentWord,
    stdin: Annotated[str, typer.Argument(metavar="[-]", help="-: read the payload (JSON) from stdin.")] = "",
    task_id: Annotated[
        str, typer.Option("--id", metavar="TASK", help="Your id for the task; a repeated id queues nothing new.")
    ] = "",
    shell: Annotated[
        str, typer.Option("--command", metavar="TEXT", help='A shell command: the payload {"command": TEXT}.')
    ] = "",
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="Payload: any JSON.")] = "",
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="Stop the task this long after its delivery; 0: no limit."),
    ] = 0.0,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end. Exit 0 on result, 1 on error or canceled.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Queue a task for an agent."""
    options.refuse_agents()
    task: dict[str, Any] = {"payload": _payload(stdin, shell, payload)}
    if task_id:
        task["task_id"] = task_id
    if timeout_s:
        task["timeout_s"] = timeout_s
    place = project_here()
    with DaemonClient(place, start=True) as link:
        source = FromDaemon(link)
        agent_id = chosen(source, agent, must_live=True).agent_id
        since = int(source.agent(agent_id)["last_event_seq"]) if wait else 0
        answer = {"agent_id": agent_id, **link.tool("task_enqueue", {"agent_id": agent_id, "task": task})}
        if not as_json:
            again = ", already queued before" if answer.get("duplicate") else ""
            output.say(
                f"{answer['task_id']}: {answer['state']} at position {answer['position']} of {agent_id}{again}"
            )
        if not wait:
            if as_json:
                output.print_json(answer)
            return
        text = EventText(place.root, agent_id)
        since = 0 if answer.get("duplicate") else since
        end = _follow(source, agent_id, str(answer["task_id"]), since, None if as_json else text)
    if as_json:
        output.print_json({**answer, "terminal": text.whole(end)})
    raise typer.Exit(0 if end["type"] == "result" else 1)


@options.command(app, "cancel", "orchestrator task cancel builder t-7")
def cancel(
    agent: AgentWord,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    as_json: Json = False,
) -> None:
    """Cancel a task.

    A queued task ends at once, a running task at its agent's next cancel check.
    """
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        agent_id = chosen(FromDaemon(link), agent).agent_id
        answer = link.tool("task_cancel", {"agent_id": agent_id, "task_id": task_id})
    if as_json:
        output.print_json({"agent_id": agent_id, **answer})
    else:
        output.say(f"{task_id} of {agent_id}: {answer['state']}, now {answer.get('task_state', 'unknown')}")


def _payload(stdin: str, shell: str, payload: str) -> Any:
    if stdin not in ("", "-"):
        raise BadRequest("bad_argument", f"unexpected argument {stdin!r}", 'quote the command: --command "make test"')
    if sum((bool(shell), bool(payload), stdin == "-")) != 1:
        raise BadRequest("bad_argument", "exactly one of --command, --payload and - is needed")
    if shell:
        return {"command": shell}
    source = "--payload" if payload else "stdin"
    try:
        return json.loads(payload or sys.stdin.read())
    except ValueError as error:
        raise BadRequest(
            "bad_argument", f"{source} is not JSON: {error}", "for a shell command use --command"
        ) from error


def _follow(source: FromDaemon, agent_id: str, task_id: str, since: int, shown: EventText | None) -> dict[str, Any]:
    """The task's terminal event; Conflict ``agent_ended`` if the agent ends before it. Its events are ``shown``."""
    gone = False
    while True:
        page = source.events(agent_id, since, PAGE, 0 if gone else FOLLOW_MS)
        since = page["last_seq"]
        for record in page["events"]:
            if record.get("task_id") != task_id:
                continue
            if shown is not None:
                shown.show_record(record)
            if record["type"] in TERMINAL:
                end: dict[str, Any] = record
                return end
        if page["more"]:
            continue
        # The records that end an agent's tasks may follow its own end: look once more.
        if gone and not page["events"]:
            raise Conflict("agent_ended", f"agent {agent_id} has ended without finishing {task_id}")
        gone = source.agent(agent_id)["status"] in FINAL_LIVES
