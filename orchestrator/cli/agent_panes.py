"""Commands that show an agent's pane: attach jumps to it, peek prints its screen. The daemon says where it is."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import options, output
from orchestrator.cli.agent_choice import chosen
from orchestrator.cli.facts import FromDaemon
from orchestrator.cli.options import AgentWord, Json
from orchestrator.faces.daemon_client import DaemonClient, project_here
from orchestrator.faces.pane_jump import attach_command
from orchestrator.tmux.installed import installed


def peek(
    agent: AgentWord,
    lines: Annotated[
        int, typer.Option("-n", "--lines", metavar="LINES", min=0, help="The last LINES, from its history too.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Print what an agent's pane shows now, as text."""
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        agent_id = chosen(FromDaemon(link), agent, must_live=True).agent_id
        answer = link.ask("orchestrator/peek", {"agent_id": agent_id, "lines": lines})
    if as_json:
        output.print_json(answer)
        return
    for line in answer["lines"]:
        output.say_line(line)


def attach(agent: AgentWord, as_json: Json = False) -> None:
    """Go to an agent's pane and zoom it.

    Inside tmux your client switches to it; outside, this terminal attaches. Your tmux prefix and z zooms out, and d
    detaches. With --json only print the tmux command.
    """
    options.refuse_agents()
    with DaemonClient(project_here(), start=True) as link:
        agent_id = chosen(FromDaemon(link), agent, must_live=True).agent_id
        pane = link.ask("orchestrator/pane", {"agent_id": agent_id})
    command = attach_command(str(pane["tmux_socket"]), str(pane["tmux_pane_id"]), inside=os.environ.get("TMUX", ""))
    if as_json:
        output.print_json({"agent_id": agent_id, "command": command})
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("bad_argument", "attach needs a terminal", f"orchestrator peek {agent_id} prints the screen")
    program, _ = installed()
    sys.stdout.flush()
    # tmux needs this terminal, and nothing is left for us to do.
    os.execv(program, command)  # noqa: S606  (an argv list)


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    options.command(app, "attach", "orchestrator attach builder")(attach)
    options.command(app, "peek", "orchestrator peek builder\norchestrator peek builder -n 200")(peek)
