"""Choose the team run that a command reads. Reads only run.json files, so it works without a daemon."""

from __future__ import annotations

from orchestrator.base.errors import BadRequest
from orchestrator.edge.project_location import Project


def choose_run(place: Project, wanted: str) -> str:
    """The run to read: the wanted one, else the only live one, else the newest; BadRequest if several are live."""
    from orchestrator.team.roster import offline_view  # noqa: PLC0415

    runs = offline_view.runs(place.root)
    if wanted:
        if wanted not in {run["run_id"] for run in runs}:
            raise BadRequest(
                "unknown_run", f"no team run has the id {wanted!r}", "list them: orchestrator agent list"
            )
        return wanted
    if not runs:
        raise BadRequest("unknown_run", f"{place.root} has no team run yet", "create an agent first")
    live = [str(run["run_id"]) for run in runs if not run["ended_at"]]
    if len(live) > 1:
        raise BadRequest("bad_argument", "several team runs are live", f"add --run with one of: {', '.join(live)}")
    return live[0] if live else str(max(runs, key=lambda run: str(run["created_at"]))["run_id"])
