"""Commands about agents: create, list, show, delete."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import options, output, trust
from orchestrator.cli.daemon_client import DaemonClient, project_here
from orchestrator.cli.facts import facts
from orchestrator.cli.options import AgentId, Json, RunId

READY_WAIT_S = 110.0  # the most that any configuration lets agent_create wait
DELETE_WAIT_S = 120.0

app = options.app("Create, list, show and delete agents.")


@options.command(app, "create", "orchestrator agent create builder --role 'runs the builds' --engine shell")
def create(
    *,
    name: Annotated[str, typer.Argument(help="What to call it; its id is made from this.")],
    role: Annotated[str, typer.Option(help="What it is for, as humans see it.")],
    engine: Annotated[str, typer.Option(help="The CLI that runs in its pane; default: see config.")] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Where it works; default: the project.")] = "",
    env: Annotated[list[str], typer.Option(metavar="KEY=VALUE", help="A variable for it; repeat.")] = [],  # noqa: B006
    model: Annotated[str, typer.Option(help="The model of that CLI; default: the CLI's own choice.")] = "",
    approval: Annotated[
        str, typer.Option(metavar="ask|edits|all", help="What its CLI may do unasked; default: see config.")
    ] = "",
    command: Annotated[
        str, typer.Option(metavar="LINE", help="Engine command: its command line, with {prompt} or {prompt_file}.")
    ] = "",
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Give it a git worktree and branch of its own.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is ready.")] = False,
    as_json: Json = False,
) -> None:
    """Start an agent in a new pane.

    The pane is in this tmux window; outside tmux in a session made for the team.
    """
    options.refuse_agents()
    given: dict[str, Any] = {"name": name, "role": role}
    if engine:
        given["engine"] = engine
    if cwd:
        given["cwd"] = str(Path(cwd).absolute())
    if env:
        given["env"] = options.pairs(env, "--env")
    if model:
        given["model"] = model
    if approval:
        given["approval"] = approval
    if command:
        given["command"] = options.words(command, "--command")
    if worktree:
        given["worktree"] = True
    if no_wait:
        given["ready_wait_ms"] = 0
    with DaemonClient(project_here(), start=True) as link:
        answer = link.tool("agent_create", given, wait_s=READY_WAIT_S)
    trust.note(answer.get("untrusted"))
    if as_json:
        output.print_json(answer)
        return
    state = "ready" if answer.get("ready") else f"{answer.get('status', 'starting')}, not ready yet"
    output.say(f"{answer['agent_id']}: {state}, pane {answer.get('tmux_pane_id')}")
    tree = answer.get("worktree")
    if tree:
        copied = f", {tree['copied']} files copied" if tree["copied"] else ""
        output.say(f"worktree: {tree['path']}, branch {tree['branch']}{copied}")
        for line in tree["not_copied"]:
            output.warn(f"not copied: {line}")
    if answer.get("attach"):
        output.say(f"watch it: {answer['attach']}")
    if not answer.get("ready"):
        output.warn(f"{answer.get('reason') or 'still starting'}; see how it gets on: orchestrator status")


@options.command(app, "list", "orchestrator agent list --json | jq '.agents[].agent_id'")
def list_agents(
    run: RunId = "",
    every: Annotated[bool, typer.Option("--all", help="Deleted agents too.")] = False,
    as_json: Json = False,
) -> None:
    """List the agents of all team runs."""
    source = facts(project_here())
    rows = [row for row in source.agents() if not run or row["run_id"] == run]
    if run and not rows:
        raise BadRequest("unknown_run", f"no agent belongs to a team run {run!r}")
    if not every:
        rows = [row for row in rows if row["status"] != "deleted"]
    if as_json:
        output.print_json({"live": source.live, "agents": rows})
        return
    output.table(
        ["AGENT", "STATUS", "TASK", "QUEUED", "ENGINE", "ROLE", "PANE", "RUN", "REASON"],
        [
            [
                row["agent_id"],
                output.status_word(row["status"]),
                row["running_task_id"] or "-",
                str(row["queue_depth"]),
                row["engine"],
                output.short(row["role"], 40),
                row["tmux_pane_id"] or "-",
                row["run_id"],
                output.short(row["reason"] or "", 60),
            ]
            for row in rows
        ],
        status_column=1,
    )
    if not source.live:
        output.warn("no daemon answers: this is what the files say")


@options.command(app, "show", "orchestrator agent show builder")
def show(agent_id: AgentId, as_json: Json = False) -> None:
    """Show everything about one agent."""
    meta = facts(project_here()).agent(agent_id)
    if as_json:
        output.print_json({"meta": meta})
        return
    for key, value in meta.items():
        if key not in ("tasks", "paths"):
            shown = output.status_word(value) if key == "status" else output.short("-" if value is None else value)
            output.say(f"{key + ':':<20} {shown}")
    for key, value in (meta.get("paths") or {}).items():
        output.say(f"{key + ':':<20} {value}")
    for task in meta.get("tasks") or []:
        output.say(f"task {task['position']:<15} {task['task_id']} {task['state']}")


@options.command(app, "restart", "orchestrator agent restart builder\norchestrator agent restart builder --fresh")
def restart(
    agent_id: AgentId,
    fresh: Annotated[bool, typer.Option("--fresh", help="Not with the session of its last life.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is ready.")] = False,
    as_json: Json = False,
) -> None:
    """Launch an agent anew, also one that has failed.

    Its queue stays. The task it held is handed out again or ends in error, as its policy says. Exit 1 if it fails.
    """
    options.refuse_agents()
    given: dict[str, Any] = {"agent_id": agent_id} | ({"fresh": True} if fresh else {})
    if no_wait:
        given["ready_wait_ms"] = 0
    with DaemonClient(project_here(), start=True) as link:
        answer = link.tool("agent_restart", given, wait_s=READY_WAIT_S)
    trust.note(answer.get("untrusted"))
    if as_json:
        output.print_json(answer)
    else:
        state = "ready" if answer.get("ready") else f"{answer.get('status')}: {answer.get('reason')}"
        output.say(f"{agent_id}: life {answer.get('epoch')}, {state}")
        for line in answer.get("last_lines") or []:
            output.warn(f"  | {line}")
    if answer.get("status") == "failed":
        raise typer.Exit(1)


@options.command(app, "delete", "orchestrator agent delete builder\norchestrator agent delete builder --force --yes")
def delete(
    agent_id: AgentId,
    force: Annotated[bool, typer.Option("--force", help="Kill it now; its running task is lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Stop an agent and close its pane.

    Its unfinished tasks end in canceled; its files stay.
    """
    options.refuse_agents()
    given: dict[str, Any] = {"agent_id": agent_id}
    if force:
        if not yes and (as_json or not sys.stdin.isatty()):
            raise BadRequest("confirm_needed", "--force kills the agent at once", "add --yes")
        if not yes and not typer.confirm(f"Kill {agent_id} now?", err=True):
            raise typer.Abort
        given |= {"force": True, "confirm": agent_id}
    with DaemonClient(project_here(), start=True) as link:
        answer = link.tool("agent_delete", given, wait_s=DELETE_WAIT_S)
    if as_json:
        output.print_json(answer)
        return
    canceled = answer.get("canceled_tasks") or []
    output.say(
        f"{agent_id}: {answer.get('status', 'deleted')}" + (f", canceled: {', '.join(canceled)}" * bool(canceled))
    )
    if answer.get("note"):
        output.warn(answer["note"])
