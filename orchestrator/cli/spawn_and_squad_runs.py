"""Read the spawn runs and squads of a project from their files, for a report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.faces.report.report_data import RunsBetween


def runs_here(root: Path) -> RunsBetween:
    """Return a function of two times: the rows of spawn runs and squads between them, and why some may be missing."""
    from orchestrator.spawn.recorded_runs import recorded_runs  # noqa: PLC0415  (loads pydantic)
    from orchestrator.squad.recorded_squads import recorded_squads  # noqa: PLC0415

    def between(begin: str, end: str) -> tuple[list[dict[str, Any]], str]:
        why, rows = "", recorded_squads(root, begin, end)
        try:
            rows += recorded_runs(os.environ, str(root), begin, end, datetime.now(UTC))
        except OrchestratorError as error:
            why = error.message
        return sorted(rows, key=lambda row: str(row["began"])), why

    return between
