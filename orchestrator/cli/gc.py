"""The command that removes what nobody needs any more: data of deleted agents, ended runs, orphans, dead daemons.

The project's data, processes and panes are the daemon's to remove; run directories of dead daemons lie outside any
project, and are removed here (`rundirs`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.cli import options, output, run_directories
from orchestrator.cli.daemon_client import DaemonClient, project_here
from orchestrator.cli.options import Json

GC_S = 600.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def gc(
    apply: Annotated[bool, typer.Option("--apply", help="Remove it; without this only say what would go.")] = False,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Such as 7d, 12h, 30m or 0; default: gc_after_s of the settings.")
    ] = "",
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Remove the files that agents left in artifacts/, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what nobody needs any more, and how much space it takes.

    Data of agents deleted long enough ago and of runs that have ended, run directories of dead daemons, processes
    and panes of ours whose agent is no more. Removes nothing without --apply. Ids are never used again.
    """
    options.refuse_agents()
    age_s = seconds(older_than) if older_than else None
    place = project_here()
    with DaemonClient(place, start=True) as link:
        given = {"apply": apply, "older_than_s": age_s, "artifacts": artifacts}
        found = link.ask("orchestrator/gc", given, wait_s=GC_S)
    items: list[dict[str, Any]] = [
        *found["items"],
        *run_directories.collect(place, found["older_than_s"], apply=apply),
    ]
    failed = [one for one in items if one.get("error")]
    total = sum(one["bytes"] for one in items)
    if as_json:
        output.print_json({**found, "items": items, "bytes": total})
    else:
        _show(items, total, apply=apply)
    if failed:
        raise Environment("io_failed", f"{len(failed)} of {len(items)} could not be removed", "see why, run it again")


def seconds(age: str) -> float:
    """An age such as ``7d``, ``12h``, ``30m``, ``45s`` or ``0`` in seconds; BadRequest ``bad_argument`` otherwise."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", age.strip())
    if found is None or (not found[2] and float(found[1])):
        raise BadRequest("bad_argument", f"--older-than {age!r} is no age", "give it as 7d, 12h, 30m or 0")
    return float(found[1]) * _UNITS[found[2] or "s"]


def _show(items: list[dict[str, Any]], total: int, *, apply: bool) -> None:
    for one in items:
        size = f", {one['files']} files, {space(one['bytes'])}" if one["files"] else ""
        word = "✕ not removed" if one.get("error") else "removed" if one["done"] else "would remove"
        output.say(f"{word} {one['kind']} {one['name']}: {one['why']}{size}")
        if one.get("error"):
            output.say(f"    {one['error']['message']}")
        if one["note"]:
            output.say(f"    {one['note']}")
    if not items:
        output.say("nothing to remove")
    elif apply:
        output.say(f"{len(items)} items, {space(total)}")
    else:
        output.say(f"{len(items)} items, {space(total)}; orchestrator gc --apply removes them")


def space(count: int) -> str:
    """A number of bytes as humans read it."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "gc", "orchestrator gc --older-than 12h\norchestrator gc --apply")(gc)
