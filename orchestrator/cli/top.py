"""The command that shows the team live, in this terminal or in a popup of tmux. Loads Textual only when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest
from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.edge.project_location import own_command
from orchestrator.faces.daemon_client import project_here
from orchestrator.tmux.installed import installed

POPUP_SIZE = "90%"
NOT_HERE = frozenset(("top", "web", "demo", "mcp", "launch", "worker"))
"""Commands that the palette does not offer: they need a terminal of their own, or are not for people."""


def top(
    context: typer.Context,
    popup: Annotated[bool, typer.Option("--popup", help="Show it in a popup of your tmux.")] = False,
    in_popup: Annotated[bool, typer.Option("--in-popup", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Show the team live, and answer, look and give work there.

    Agents that need you come first. q quits and changes nothing; ? shows the keys. Without a daemon it shows the
    files, and follows a daemon as soon as one answers. With --json it prints the snapshot once.
    """
    options.refuse_agents()
    place = project_here()
    if as_json:
        from orchestrator.faces.snapshot_client import read_snapshot  # noqa: PLC0415  (loads what reads files)

        output.print_json(read_snapshot(place))
        return
    from orchestrator.config import sources  # noqa: PLC0415  (loads pydantic)
    from orchestrator.faces.top.key_bindings import bindings_for  # noqa: PLC0415

    bindings = bindings_for(sources.load(place.root, os.environ).config.top_keys)
    if popup:
        _open_popup(place.root)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise BadRequest(
            "bad_argument", "top needs a terminal that can move its cursor", "orchestrator status prints the team"
        )
    from orchestrator.faces.top.top_app import run_top  # noqa: PLC0415  (loads Textual)

    commands = sorted(_commands(context.find_root().command))
    run_top(
        place,
        bindings,
        ascii_only=not output.utf8(),
        popup=popup_words(place.root) if in_popup or _is_popup() else (),
        commands=commands,
    )


def _is_popup() -> bool:
    """Whether this terminal is a popup of tmux: it has a server and no pane."""
    return bool(os.environ.get("TMUX")) and not os.environ.get("TMUX_PANE")


def popup_words(root: Path) -> list[str]:
    """The tmux command that shows top of this project in a popup."""
    program = own_command("--project", str(root), "top", "--in-popup")
    return ["display-popup", "-E", "-w", POPUP_SIZE, "-h", POPUP_SIZE, "-d", str(root), *program]


def _open_popup(root: Path) -> None:
    """Become tmux, which shows the popup to the client of this pane."""
    if not os.environ.get("TMUX"):
        raise BadRequest("bad_argument", "a popup needs tmux, and this terminal is not in it", "orchestrator top")
    program, _ = installed()
    sys.stdout.flush()
    os.execv(program, ["tmux", *popup_words(root)])  # noqa: S606  (an argv list)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Every command of the command line with the first sentence of its help."""
    for name, command in getattr(group, "commands", {}).items():
        words = f"{before}{name}"
        if words in NOT_HERE or command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} ")
        else:
            yield words, str(command.help or "").partition("\n")[0].strip()


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "top", "orchestrator top")(top)
