"""One finding of doctor. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from orchestrator.base.errors import Corrupt, OrchestratorError


@dataclass
class DoctorFinding:
    """One checked fact: ``level`` is ``ok``, ``note`` (worth knowing) or ``bad``; a bad one has a next step."""

    check: str
    level: str
    message: str
    next_step: str = ""
    file: str | None = None
    line: int | None = None
    corrupt: bool = False
    figures: dict[str, Any] = field(default_factory=dict)


def of_error(check: str, error: OrchestratorError) -> DoctorFinding:
    """The finding for an expected error."""
    file, line = error.facts.get("file"), error.facts.get("line")
    return DoctorFinding(check, "bad", error.message, error.next_step, file, line, corrupt=isinstance(error, Corrupt))
