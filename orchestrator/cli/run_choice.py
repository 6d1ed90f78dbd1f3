"""Choose the team run that a command reads. Reads only run.json files, so it works without a daemon."""

from __future__ import annotations

import os
import time
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.edge.project_location import Project

LOOK_AGAIN_S = 0.25


def choose_run(place: Project, wanted: str, how: str = "add --run with one of") -> str:
    """The run to read: the wanted one, else a live one of this pane, else the only live one, else the newest.

    Raises BadRequest if it is not there, or several are live; ``how`` begins the step that names one of them.
    """
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
    live = [run for run in runs if not run["ended_at"]]
    live = [run for run in live if _is_of_this_pane(run)] or live
    if len(live) > 1:
        ids = ", ".join(str(run["run_id"]) for run in live)
        raise BadRequest("bad_argument", "several team runs are live", f"{how}: {ids}")
    return str((live or runs)[-1]["run_id"])  # they come oldest first


def run_of_pane(runs: list[dict[str, Any]]) -> str | None:
    """The newest live run that is led from this pane, or shown in it; None if there is none."""
    live = [run for run in runs if not run["ended_at"] and _is_of_this_pane(run)]
    return str(live[-1]["run_id"]) if live else None


def wait_for_run_of_pane(place: Project) -> str:
    """The live run that this pane leads or shows; waits for it, for a session of ours is made before its run."""
    from orchestrator.team.roster import offline_view  # noqa: PLC0415

    while (run_id := run_of_pane(offline_view.runs(place.root))) is None:
        time.sleep(LOOK_AGAIN_S)
    return run_id


def _is_of_this_pane(run: dict[str, Any]) -> bool:
    """Whether this runs in the pane that leads the run, or shows it outside tmux."""
    socket, _, more = os.environ.get("TMUX", "").partition(",")
    here = socket, more.partition(",")[0], os.environ.get("TMUX_PANE")
    return here == (run["tmux_socket"], str(run["server_pid"]), run["master_pane"])
