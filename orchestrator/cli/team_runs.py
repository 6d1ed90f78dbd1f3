"""The command that lists team runs with their agents and totals. Reads files only, and asks the daemon for agents."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from orchestrator.cli import options, output
from orchestrator.cli.facts import facts
from orchestrator.cli.options import Json
from orchestrator.cli.recorded_cost import figures_here
from orchestrator.core.model_usage import usage_total
from orchestrator.faces.amount_words import dollars
from orchestrator.faces.daemon_client import project_here
from orchestrator.faces.row_words import ended_text
from orchestrator.faces.text_table import Column, lines_of


def runs(as_json: Json = False) -> None:
    """List the team runs with their totals, the newest last."""
    from orchestrator.team.roster import offline_view  # noqa: PLC0415  (loads the log readers)

    place = project_here()
    agents, figures = facts(place).agents(), figures_here(place.root)
    used = {row["agent_id"]: figures(row["agent_id"], str(row.get("engine")))[0] for row in agents}
    rows = [_summary(run, agents, used) for run in offline_view.runs(place.root)]
    if as_json:
        output.print_json({"runs": rows})
        return
    if not rows:
        output.warn("no team runs yet; start one: orchestrator up, or orchestrator agent create NAME")
        return
    plain = not output.utf8()
    columns = [
        Column("RUN", [row["run_id"] for row in rows]),
        Column("WINDOW", [str(row["window_id"] or "") for row in rows]),
        Column("BEGAN", [output.local_time(row["created_at"]) for row in rows]),
        Column("ENDED", [output.local_time(row["ended_at"]) if row["ended_at"] else "lives" for row in rows]),
        Column("TIME", [_duration(row["wall_s"]) for row in rows], right=True),
        Column("AGENTS", [str(len(row["agents"])) for row in rows], right=True),
        Column("TASKS", [ended_text(row["finished"], ascii_only=plain) for row in rows]),
        Column("COST", [_cost(row["usage"]) for row in rows], right=True),
        Column("NAMES", [", ".join(row["agents"]) for row in rows], least=8),
    ]
    size = output.terminal_size()
    for line in lines_of(columns, size.columns if size else None):
        output.say_line(line)


def _summary(
    run: dict[str, Any], agents: list[dict[str, Any]], used: dict[str, dict[str, Any] | None]
) -> dict[str, Any]:
    """A run with all agents it ever had whose data is there, how their tasks ended, and what they used."""
    members = [row for row in agents if row["run_id"] == run["run_id"]]
    finished: Counter[str] = Counter(result=0, error=0, canceled=0)
    for row in members:
        finished.update(row.get("finished") or {})
    keys = ("run_id", "window_id", "created_at", "ended_at")
    return {key: run.get(key) for key in keys} | {
        "wall_s": _wall_s(run),
        "agents": sorted(str(row["agent_id"]) for row in members),
        "finished": dict(finished),
        "usage": usage_total(used[row["agent_id"]] for row in members),
    }


def _cost(usage: dict[str, Any]) -> str:
    """The estimated cost; empty if no agent uses a model, with a + if that of an agent is not known."""
    if usage["cost_usd"] is None:
        return "unknown" if usage["cost_unknown"] else ""
    return dollars(usage["cost_usd"]) + ("+" if usage["cost_unknown"] else "")


def _wall_s(run: dict[str, Any]) -> float | None:
    """Seconds from the run's begin to its end, or to now; None if its file does not say."""
    try:
        begin = datetime.fromisoformat(str(run.get("created_at")))
        end = datetime.fromisoformat(str(run["ended_at"])) if run.get("ended_at") else datetime.now(UTC)
        return max(0.0, round((end - begin).total_seconds(), 3))
    except (ValueError, TypeError):
        return None


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}h {rest // 60:02}m" if hours else f"{rest // 60}m {rest % 60:02}s"


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "runs", "orchestrator runs")(runs)
