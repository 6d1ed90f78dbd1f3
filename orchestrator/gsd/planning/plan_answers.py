"""Every answer and page that is made of a project's planning, in one place for the surfaces that ask."""

from __future__ import annotations

from orchestrator.gsd.planning.check import check
from orchestrator.gsd.planning.pages import current_phase_page, decisions, phase_page, vision
from orchestrator.gsd.planning.phase_answers import phase_status
from orchestrator.gsd.planning.requirement_answers import (
    pending_requirements,
    requirement_status,
    untraceable_requirements,
)

__all__ = [
    "check",
    "current_phase_page",
    "decisions",
    "pending_requirements",
    "phase_page",
    "phase_status",
    "requirement_status",
    "untraceable_requirements",
    "vision",
]
