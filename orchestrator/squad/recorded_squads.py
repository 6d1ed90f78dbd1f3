"""Read the squads of a project in a span of time from their files. Needs no daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.journal.project_files import Paths
from orchestrator.squad import results, squad_files


def recorded_squads(root: Path, begin: str, end: str) -> list[dict[str, Any]]:
    """The squads that began in this time, without those that answered nodes of spawn runs.

    Rows of `results.people_row` with ``began`` and ``ended``.
    """
    files = [file for file in squad_files.known(Paths(root)) if begin <= file.created_at <= end]
    return [
        {**results.people_row(file), "began": file.created_at, "ended": file.ended_at}
        for file in files
        if not file.req.startswith(results.SPAWN)
    ]
