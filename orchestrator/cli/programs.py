"""Commands that run another program of ours, mcp, launch, worker and demo, and the one that shows its version."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.edge import project_location

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def mcp(rest: typer.Context) -> None:
    """Serve MCP on stdin and stdout.

    AI CLIs start this command. Options: --toolsets LIST, --project DIR.
    """
    root = os.environ.get("ORCHESTRATOR_PROJECT")
    _become("mcp", *(["--project", root] if root else []), *rest.args)


def launch(rest: typer.Context) -> None:
    """Become an agent's CLI in its pane.

    For the daemon only; do not run it yourself.
    """
    _become("launch", *rest.args)


def _become(*args: str) -> None:
    """Replace this process by the command: its stdout carries a protocol, so it must not share a process."""
    sys.stdout.flush()
    os.execv(sys.executable, project_location.own_command(*args))  # noqa: S606  (an argv list)


def worker(as_json: Json = False) -> None:  # noqa: ARG001  (read by the error boundary)
    """Run the tasks of a shell agent.

    The daemon starts this in an agent's pane.
    """
    from orchestrator.worker import task_loop  # noqa: PLC0415

    raise typer.Exit(task_loop.main())


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the panes and print how to attach.")] = False,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Nine agents on three hosts, of which one is lost; needs PostgreSQL.")
    ] = False,
    end: Annotated[bool, typer.Option("--end", help="End the team that demo --keep left running.")] = False,
    as_json: Json = False,
) -> None:
    """Run a team of three shell agents on real tasks.

    Shows their progress and a table of results. Leaves nothing running, unless --keep is given. With --fleet nine
    agents run on three hosts, all on this machine, and one host is lost on the way.
    """
    options.refuse_agents(changes=False)  # the demo's team is its own, and so is its state directory
    from orchestrator.cli import demo as scene  # noqa: PLC0415

    if fleet and not end:
        from orchestrator.cli import demo_fleet, demo_project  # noqa: PLC0415

        raise typer.Exit(demo_fleet.main(demo_project.demo_dir(), keep=keep, as_json=as_json))
    raise typer.Exit(scene.main(keep=keep, as_json=as_json, end_kept=end))


def version(as_json: Json = False) -> None:
    """Show the version."""
    if as_json:
        output.print_json({"version": project_location.version()})
    else:
        output.say(f"orchestrator {project_location.version()}")


def add_to(app: Any) -> None:
    """Declare the commands on the top-level app."""
    passed_on = {"context_settings": PASSED_ON, "add_help_option": False}
    example = "claude mcp add orchestrator -- orchestrator mcp\norchestrator mcp --toolsets team"
    options.command(app, "mcp", example, **passed_on)(mcp)
    options.command(app, "launch", "orchestrator launch builder 1 --project .", **passed_on)(launch)
    example = "orchestrator agent create builder --role builds --engine shell  # starts one"
    options.command(app, "worker", example)(worker)
    options.command(app, "demo", "orchestrator demo --keep")(demo)
    options.command(app, "version", "orchestrator version")(version)
