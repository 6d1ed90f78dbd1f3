"""Commands that change tasks: add, cancel."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import Conflict, OrchestratorError
from orchestrator.base.final_states import FINAL_LIVES, TERMINAL
from orchestrator.cli import interrupt, options, output, task_history, task_payload
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.event_text import EventText
from orchestrator.cli.facts import FOLLOW_MS, PAGE, FromDaemon
from orchestrator.cli.options import AgentWord, Json
from orchestrator.faces.daemon_client import DaemonClient, project_here

COPY_WAIT_S = 60.0

app = options.app("Queue, cancel, list and show tasks.")


@options.command(
    app,
    "add",
    'orchestrator task add builder "make test" --wait\n'
    'orchestrator task add reviewer "Review src/login.py" --attach notes.md\n'
    "orchestrator task add reviewer --file task.md --title 'Review the login'\n"
    """orchestrator task add builder --payload '{"command": "make lint", "timeout_s": 60}'\n"""
    "jq -n '{command: \"make docs\"}' | orchestrator task add builder -",
)
def add(
    *,
    agent: AgentWord,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[WORDS]...",
            help="What to do, in words; for a shell agent the command. -, or nothing in a pipe: read stdin, where a "
            "JSON object or array is the payload itself. Nothing on a terminal: opens your editor.",
        ),
    ] = [],  # noqa: B006
    title: Annotated[str, typer.Option(help="Short title for people; default: the first words.")] = "",
    task_id: Annotated[
        str, typer.Option("--id", metavar="TASK", help="Your id for the task; a repeated id queues nothing new.")
    ] = "",
    file: Annotated[
        str,
        typer.Option(
            "--file", metavar="PATH", help="Read the words from a file, also words that look like JSON; -: stdin."
        ),
    ] = "",
    attach: Annotated[
        list[str],
        typer.Option(metavar="PATH", help="Copy a file into the agent's artifacts for the task; repeatable."),
    ] = [],  # noqa: B006
    command: Annotated[
        str, typer.Option("--command", metavar="TEXT", help="A shell command, for agents that run commands.")
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
    """Queue a task for an agent.

    Words become the payload that the agent's engine takes: {"task": WORDS}, or {"command": WORDS} for shell. With
    --wait, Ctrl-C leaves the task running and says how to cancel it.
    """
    options.refuse_agents()
    source = task_payload.given(words, file=file, command=command, payload=payload)
    files = [str(Path(path).absolute()) for path in attach]
    task: dict[str, Any] = {"title": title} if title else {}
    if task_id:
        task["task_id"] = task_id
    if timeout_s:
        task["timeout_s"] = timeout_s
    place = project_here()
    with DaemonClient(place, start=True) as link, contextlib.ExitStack() as asked:
        known = FromDaemon(link)
        choice = chosen(known, agent, must_live=True)
        agent_id, engine = choice.agent_id, str(choice.row["engine"])
        since = int(known.agent(agent_id)["last_event_seq"]) if wait else 0
        unknown = "the daemon has not answered yet: the task may be queued or not"
        with contextlib.ExitStack() as stack:
            if source.kind == "editor":
                source = stack.enter_context(task_payload.edited(agent_id, engine))
            task["payload"] = task_payload.payload_for(source, agent_id, engine)
            say_instead = asked.enter_context(interrupt.says(unknown, f"see: orchestrator task list {agent_id}"))
            answer = {"agent_id": agent_id, **_enqueue(link, agent_id, engine, task, files)}
            queued = str(answer["task_id"])
            say_instead(
                f"task {queued} goes on",
                f"cancel it: orchestrator task cancel {agent_id} {queued}",
                f"follow it: orchestrator events {agent_id} --follow",
            )
        if not as_json:
            again = ", already queued before" if answer.get("duplicate") else ""
            output.say(
                f"{queued}: {answer['state']} at position {answer['position']} of {agent_id}{again}"
                + _later(answer, "it runs")
            )
        if not wait:
            if as_json:
                output.print_json(answer)
            return
        text = EventText(place.root, agent_id)
        since = 0 if answer.get("duplicate") else since
        end = _follow(known, agent_id, queued, since, None if as_json else text)
    if as_json:
        output.print_json({**answer, "terminal": text.whole(end)})
    raise typer.Exit(0 if end["type"] == "result" else 1)


def _enqueue(
    link: DaemonClient, agent_id: str, engine: str, task: dict[str, Any], files: list[str]
) -> dict[str, Any]:
    """Copy the files, then queue the task; a task that is refused leaves no copies."""
    if not files:
        return link.tool("task_enqueue", {"agent_id": agent_id, "task": task})
    task = {"task_id": f"t-{secrets.token_hex(6)}", **task}  # the copies need it before the task is queued
    place = {"agent_id": agent_id, "task_id": task["task_id"]}
    copied = link.ask("orchestrator/attach", {**place, "files": files}, wait_s=COPY_WAIT_S)
    try:
        task["payload"] = task_payload.with_attachments(task["payload"], engine, copied)
        return link.tool("task_enqueue", {"agent_id": agent_id, "task": task})
    except OrchestratorError:
        with contextlib.suppress(OrchestratorError):
            link.ask("orchestrator/detach", place)
        raise


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
        now = f"{task_id} of {agent_id}: {answer['state']}, now {answer.get('task_state', 'unknown')}"
        output.say(now + _later(answer, "it ends"))


def _later(answer: dict[str, Any], what: str) -> str:
    """What an absent host puts off; "" if the agent's host is there."""
    return f"; {what} when its host is back, which is {answer['host_state']}" if answer.get("host_state") else ""


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


task_history.add_to(app)
