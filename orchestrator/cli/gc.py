"""The command that removes leftovers: data of deleted agents and ended runs, orphans, run directories.

The daemon removes the project's data, processes and panes. Run directories of dead daemons are outside any project;
the command removes them itself (`run_directories`).
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
    apply: Annotated[
        bool, typer.Option("--apply", help="Remove the leftovers; without this option only list them.")
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Minimum age, such as 7d, 12h, 30m or 0; default: the setting gc_after_s."),
    ] = "",
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Also remove the files that agents left in artifacts/.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the leftovers of past work and their size; with --apply remove them.

    Leftovers are data of agents deleted long enough ago and of ended runs, run directories of dead daemons, and
    processes and panes of ours whose agent has ended. Ids are never reused.
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
        raise Environment(
            "io_failed",
            f"{len(failed)} of {len(items)} could not be removed",
            "see the reasons above, then run it again",
        )


def seconds(age: str) -> float:
    """An age such as ``7d``, ``12h``, ``30m``, ``45s`` or ``0`` in seconds; BadRequest ``bad_argument`` otherwise."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", age.strip())
    if found is None or (not found[2] and float(found[1])):
        raise BadRequest("bad_argument", f"--older-than {age!r} is not an age", "give it as 7d, 12h, 30m or 0")
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
        output.say(f"{len(items)} items, {space(total)}; remove them: orchestrator gc --apply")


def space(count: int) -> str:
    """A number of bytes with its unit, for humans."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "gc", "orchestrator gc --older-than 12h\norchestrator gc --apply")(gc)
