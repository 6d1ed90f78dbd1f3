"""Commands about agents: create, list, show, restart, delete."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import completion, interrupt, options, output, trust
from orchestrator.cli.agent_choice import chosen, shown_names
from orchestrator.cli.facts import FromDaemon, facts
from orchestrator.cli.options import AgentWord, Json, RunId
from orchestrator.faces.daemon_client import DaemonClient, project_here

READY_WAIT_S = 110.0  # agent_create waits at most this long in any configuration
DELETE_WAIT_S = 120.0

app = options.app("Create, list, show, restart and delete agents.")


@options.command(app, "create", "orchestrator agent create builder --role 'runs the builds' --engine shell")
def create(
    *,
    name: Annotated[str, typer.Argument(help="Short name; the agent's id is derived from it.")],
    role: Annotated[
        str, typer.Option(help="What the agent is for; a label, or a role's id. Default: the name.")
    ] = "",
    engine: Annotated[
        str,
        typer.Option(help="CLI to run in its pane; default: see config show.", autocompletion=completion.engines),
    ] = "",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="Working directory; default: the project.")] = "",
    env: Annotated[list[str], typer.Option(metavar="KEY=VALUE", help="Environment variable; repeatable.")] = [],  # noqa: B006
    model: Annotated[str, typer.Option(help="Model for the CLI; default: the CLI's own.")] = "",
    approval: Annotated[
        str,
        typer.Option(metavar="ask|edits|all", help="What its CLI may do without asking; default: see config show."),
    ] = "",
    command: Annotated[
        str, typer.Option(metavar="LINE", help="Command line for engine command, with {prompt} or {prompt_file}.")
    ] = "",
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Give it a git worktree and branch of its own.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(metavar="NAME|any", help="Host of the fleet to run it on.", autocompletion=completion.hosts),
    ] = "",
    on_host_lost: Annotated[
        str,
        typer.Option(
            metavar="wait|move", help="With --host: what happens if that host is lost; default: as configured."
        ),
    ] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the agent is ready.")] = False,
    as_json: Json = False,
) -> None:
    """Start an agent in a new pane.

    Inside tmux, the pane is in this window; outside tmux, in a session created for the team.
    """
    options.refuse_agents()
    arguments: dict[str, Any] = {"name": name, "role": role or name}
    if engine:
        arguments["engine"] = engine
    if cwd:
        arguments["cwd"] = str(Path(cwd).absolute())
    if env:
        arguments["env"] = options.pairs(env, "--env")
    if model:
        arguments["model"] = model
    if approval:
        arguments["approval"] = approval
    if command:
        arguments["command"] = options.words(command, "--command")
    if worktree:
        arguments["worktree"] = True
    if host:
        arguments["host"] = host
    if on_host_lost:
        if not host:
            raise BadRequest("bad_argument", "--on-host-lost needs --host", "name a host, or any")
        arguments["policies"] = {"on_host_lost": on_host_lost}
    if no_wait:
        arguments["ready_wait_ms"] = 0
    with (
        DaemonClient(project_here(), start=True) as link,
        interrupt.says(
            f"agent {name} goes on starting",
            "see it: orchestrator status",
            f"end it: orchestrator agent delete {shlex.quote(name)}",
        ),
    ):
        answer = link.tool("agent_create", arguments, wait_s=READY_WAIT_S)
    trust.note(answer.get("untrusted"))
    if as_json:
        output.print_json(answer)
        return
    state = "ready" if answer.get("ready") else f"{answer.get('status', 'starting')}, not ready yet"
    place = f"host {answer['host']}" if answer.get("host") else f"pane {answer.get('tmux_pane_id')}"
    output.say(f"{answer['agent_id']}: {state}, {place}")
    tree = answer.get("worktree")
    if tree:
        copied = f", {tree['copied']} files copied" if tree["copied"] else ""
        output.say(f"worktree: {tree['path']}, branch {tree['branch']}{copied}")
        for line in tree["not_copied"]:
            output.warn(f"not copied: {line}")
    if answer.get("attach") and not answer.get("host"):
        output.say(f"watch it: {answer['attach']}")
    if not answer.get("ready"):
        output.warn(f"{answer.get('reason') or 'still starting'}; see its progress: orchestrator status")


@options.command(app, "list", "orchestrator agent list --json | jq '.agents[].agent_id'")
def list_agents(
    run: RunId = "",
    every: Annotated[bool, typer.Option("--all", help="Include deleted agents.")] = False,
    as_json: Json = False,
) -> None:
    """List the agents of all team runs."""
    source = facts(project_here())
    known = source.agents()
    rows = [row for row in known if not run or row["run_id"] == run]
    if run and not rows:
        raise BadRequest("unknown_run", f"no agent belongs to team run {run!r}")
    if not every:
        rows = [row for row in rows if row["status"] != "deleted"]
    if as_json:
        output.print_json({"live": source.live, "agents": rows})
        return
    names = shown_names(known)
    shown = {row["agent_id"]: row for row in source.snapshot()["agents"]}
    hosts = any(row.get("host") for row in rows)
    output.table(
        ["AGENT", *(["HOST"] if hosts else []), "STATE", "TASK", "QUEUED", "ENGINE", "ROLE", "PANE", "RUN", "REASON"],
        [
            [
                names[row["agent_id"]],
                *([row.get("host") or "-"] if hosts else []),
                output.state_word(shown.get(row["agent_id"], row)),
                output.short(row["running_task_title"] or "-", 40),
                str(row["queue_depth"]),
                row["engine"],
                output.short(row["role"], 40),
                row["tmux_pane_id"] or "-",
                row["run_id"],
                output.short(row["reason"] or "", 60),
            ]
            for row in rows
        ],
        status_column=1 + hosts,
        empty="no agents" if every else "no agents; create one: orchestrator agent create NAME; deleted ones: --all",
    )
    if not source.live:
        output.warn("no daemon answers: shown from the files")


@options.command(app, "show", "orchestrator agent show builder")
def show(agent: AgentWord, as_json: Json = False) -> None:
    """Show everything about one agent."""
    source = facts(project_here())
    meta = source.agent(chosen(source, agent).agent_id)
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
    agent: AgentWord,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not continue the session of its last launch.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the agent is ready.")] = False,
    as_json: Json = False,
) -> None:
    """Restart an agent, even if it has failed.

    Its queue stays. Its running task is delivered again or ends in error, by the agent's on_lost policy. Exit 1 if
    the restart fails.
    """
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        agent_id = chosen(FromDaemon(link), agent, must_live=True).agent_id
        arguments: dict[str, Any] = {"agent_id": agent_id} | ({"fresh": True} if fresh else {})
        if no_wait:
            arguments["ready_wait_ms"] = 0
        with interrupt.says(
            f"the restart of {agent_id} goes on",
            "see it: orchestrator status",
            f"end the agent: orchestrator agent delete {agent_id}",
        ):
            answer = link.tool("agent_restart", arguments, wait_s=READY_WAIT_S)
    trust.note(answer.get("untrusted"))
    if as_json:
        output.print_json(answer)
    else:
        state = "ready" if answer.get("ready") else f"{answer.get('status')}: {answer.get('reason')}"
        if answer.get("host_state"):
            output.say(f"{agent_id}: it restarts as soon as its host is back; that is {answer['host_state']}")
        else:
            output.say(f"{agent_id}: launch {answer.get('epoch')}, {state}")
        for line in answer.get("last_lines") or []:
            output.warn(f"  | {line}")
    if answer.get("status") == "failed":
        raise typer.Exit(1)


@options.command(app, "delete", "orchestrator agent delete builder\norchestrator agent delete builder --force --yes")
def delete(
    agent: AgentWord,
    force: Annotated[bool, typer.Option("--force", help="Kill the agent now; its running task is lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Stop an agent and close its pane.

    Unfinished tasks end in canceled; files stay.
    """
    options.refuse_agents()
    if force and not yes and (as_json or not sys.stdin.isatty()):
        raise BadRequest("confirm_needed", "--force kills the agent at once", "add --yes")
    with DaemonClient(project_here(), start=True) as link:
        agent_id = chosen(FromDaemon(link), agent, must_live=True).agent_id
        if force and not yes and not typer.confirm(f"Kill {agent_id} now?", err=True):
            raise typer.Abort
        arguments: dict[str, Any] = {"agent_id": agent_id}
        if force:
            arguments |= {"force": True, "confirm": agent_id}
        with interrupt.says(
            f"{agent_id} goes on ending",
            "see it: orchestrator status",
            f"kill it now: orchestrator agent delete {agent_id} --force",
        ):
            answer = link.tool("agent_delete", arguments, wait_s=DELETE_WAIT_S)
    if as_json:
        output.print_json(answer)
        return
    if answer.get("host_state"):
        output.say(f"{agent_id}: it ends as soon as its host is back; that is {answer['host_state']}")
        return
    canceled = answer.get("canceled_tasks") or []
    output.say(
        f"{agent_id}: {answer.get('status', 'deleted')}" + (f", canceled: {', '.join(canceled)}" * bool(canceled))
    )
    if answer.get("note"):
        output.warn(answer["note"])
