"""The command that removes leftovers: data of deleted agents and ended runs, orphans, run directories.

The daemon removes the project's data, processes and panes. Run directories of dead daemons are outside any project;
the command removes them itself (`run_directories`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.edge import run_directories
from orchestrator.faces.daemon_client import DaemonClient, project_here

GC_S = 600.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def gc(
    apply: Annotated[
        bool, typer.Option("--apply", help="Remove the leftovers; without this option only list them.")
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="Minimum age, such as 7d, 12h, 30m or 0; default: the setting gc_after_s, 1d for run directories.",
        ),
    ] = "",
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Also remove the files that agents left in artifacts/.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the leftovers of past work; with --apply remove them.

    Leftovers are data of agents deleted long enough ago and of ended runs, run directories of dead daemons, and
    processes, panes and temporary directories of ours whose agent has ended. Ids are never reused.
    """
    options.refuse_agents()
    age_s = seconds(older_than) if older_than else None
    place = project_here()
    with DaemonClient(place, start=True) as link:
        request = {"apply": apply, "older_than_s": age_s, "artifacts": artifacts}
        answer = link.ask("orchestrator/gc", request, wait_s=GC_S)
    items: list[dict[str, Any]] = [
        *answer["items"],
        *run_directories.collect(place, run_directories.UNUSED_S if age_s is None else age_s, apply=apply),
    ]
    failed = [item for item in items if item.get("error")]
    total = sum(item["bytes"] for item in items)
    if as_json:
        output.print_json({**answer, "items": items, "bytes": total})
    else:
        _show(items, total, apply=apply)
        _show_kept(answer["kept"])
    if failed:
        raise Environment(
            "io_failed",
            f"{len(failed)} of {len(items)} could not be removed",
            "see the reasons above, then run it again",
        )


def seconds(age: str) -> float:
    """An age such as ``7d``, ``12h``, ``30m``, ``45s`` or ``0`` in seconds; BadRequest ``bad_argument`` otherwise."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", age.strip())
    if match is None or (not match[2] and float(match[1])):
        raise BadRequest("bad_argument", f"--older-than {age!r} is not an age", "give it as 7d, 12h, 30m or 0")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _show(items: list[dict[str, Any]], total: int, *, apply: bool) -> None:
    for item in items:
        size = f", {item['files']} files, {output.space(item['bytes'])}" if item["files"] else ""
        word = "✕ not removed" if item.get("error") else "removed" if item["done"] else "would remove"
        output.say(f"{word} {item['kind']} {item['name']}: {item['why']}{size}")
        if item.get("error"):
            output.say(f"    {item['error']['message']}")
        if item["note"]:
            output.say(f"    {item['note']}")
    if not items:
        output.say("nothing to remove")
    elif apply:
        output.say(f"{len(items)} items, {output.space(total)}")
    else:
        output.say(f"{len(items)} items, {output.space(total)}; remove them: orchestrator gc --apply")


def _show_kept(kept: dict[str, Any]) -> None:
    nouns = ((kept["agents"], "deleted agents"), (kept["runs"], "ended runs"))
    parts = [output.counted(number, noun) for number, noun in nouns if number]
    if parts:
        first, last = (output.local_time(kept[key]) for key in ("until", "until_all"))
        until = first if last in (first, "-") else f"{first}, the last until {last}"
        output.say(f"kept: {' and '.join(parts)}, {output.space(kept['bytes'])}, until {until}")


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "gc", "orchestrator gc --older-than 12h\norchestrator gc --apply")(gc)
