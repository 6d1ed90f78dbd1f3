"""The command that shows the status of the team, one line per agent. Reads only."""

from __future__ import annotations

from typing import Any

from orchestrator.cli import options, output
from orchestrator.cli.daemon_client import project_here
from orchestrator.cli.facts import Facts, facts
from orchestrator.cli.options import Json, RunId


def status(run: RunId = "", as_json: Json = False) -> None:
    """Show each agent on one line.

    Its status, running task, queued tasks and the age of its last event.
    """
    place = project_here()
    source = facts(place)
    rows = [
        row | {"last_event_at": _last_at(source, row)}
        for row in source.agents()
        if row["status"] != "deleted" and (not run or row["run_id"] == run)
    ]
    if as_json:
        output.print_json({"project": str(place.root), "live": source.live, "agents": rows})
        return
    output.say(f"{place.root}: " + ("the daemon runs" if source.live else "no daemon answers; shown from the files"))
    if not rows:
        output.say("no agents; create one: orchestrator agent create NAME --role ROLE")
        return
    output.table(
        ["STATUS", "AGENT", "TASK", "QUEUED", "LAST EVENT", "REASON"],
        [
            [
                output.status_word(row["status"]),
                row["agent_id"],
                row["running_task_id"] or "-",
                str(row["queue_depth"]),
                output.age(row["last_event_at"]),
                output.short(row["reason"] or "", 60),
            ]
            for row in rows
        ],
        status_column=0,
    )


def _last_at(source: Facts, row: dict[str, Any]) -> str | None:
    if not row["last_event_seq"]:
        return None
    events = source.events(row["agent_id"], row["last_event_seq"] - 1, 1)["events"]
    return str(events[-1]["at"]) if events else None


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "status", "orchestrator status\nwatch -n 2 orchestrator status")(status)
