"""What may be asked about a project, and who answers it: one table of questions, each loaded when first asked.

Shared by the process that serves the daemon and by the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd import place
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.place import Asking
from orchestrator.gsd.projects import Changed, Projects

ANSWERS: Mapping[str, tuple[str, str]] = {
    "gsd_query_intel": ("graph.code_answers", "query_intel"),
    "gsd_blast_radius": ("graph.code_answers", "blast_radius"),
    "gsd_pre_edit_check": ("graph.code_answers", "pre_edit_check"),
    "gsd_get_conventions": ("graph.code_answers", "get_conventions"),
    "gsd_phase_status": ("planning.plan_answers", "phase_status"),
    "gsd_requirement_status": ("planning.plan_answers", "requirement_status"),
    "gsd_untraceable_requirements": ("planning.plan_answers", "untraceable_requirements"),
    "gsd_verify_behavior": ("evidence.verify_answers", "verify_behavior"),
    "gsd_verify_artifact": ("evidence.verify_answers", "verify_artifact"),
    "gsd_codebase_patterns": ("ranked.patterns", "codebase_patterns"),
    "gsd_similar_past_work": ("ranked.past", "similar_past_work"),
    "gsd_phase_relevant_files": ("ranked.relevant", "phase_relevant_files"),
    "check": ("planning.plan_answers", "check"),
}
"""Question -> module of this package and function: a snapshot and keyword arguments in, a plain dict out."""

WITHOUT_PROJECT: Mapping[str, tuple[str, str]] = {"page": ("pages", "page"), "prompt": ("prompting", "prompt")}
"""Questions that have an answer also where there is no project: the snapshot is None then."""


class Intelligence:
    """Answers questions about projects; safe to be asked by several threads. ``changed``: see `Projects`."""

    def __init__(self, changed: Changed | None = None) -> None:
        self._projects = Projects(changed)

    def answer(self, question: str, asking: Asking, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, with ``project_root``, what it is about; to ``where`` and ``watch`` (hold it) nothing more.

        Raises BadRequest ``no_gsd_project`` and what else `place.find` raises, ``bad_argument`` for an unknown
        question, and what the answering function raises.
        """
        if question in ("where", "watch"):
            root = place.find(asking)
            if question == "watch":
                self._projects.snapshot(root)
            return {"project_root": str(root)}
        if question in WITHOUT_PROJECT:
            there = _found(asking)
            snapshot = None if there is None else self._projects.snapshot(there)
            answered = _function(*WITHOUT_PROJECT[question])(snapshot, **arguments)
            return answered | {"project_root": "" if there is None else str(there)}
        if question not in ANSWERS:
            raise BadRequest("bad_argument", f"nobody answers {question!r}")
        root = place.find(asking)
        return self.about(root, question, arguments)

    def about(self, root: Path, question: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of `ANSWERS` about the project in ``root``, with ``project_root``."""
        answered = _function(*ANSWERS[question])(self._projects.snapshot(root), **arguments)
        return answered | {"project_root": str(root)}

    def snapshot(self, root: Path) -> Snapshot:
        """The project in ``root`` at this moment."""
        return self._projects.snapshot(root)

    def close(self) -> None:
        """Let go of all projects."""
        self._projects.close()


def _found(asking: Asking) -> Path | None:
    """The project asked about; None where there is none, which is no error to who reads a page."""
    try:
        return place.find(asking)
    except BadRequest as error:
        if error.code != "no_gsd_project":
            raise
        return None


def _function(module: str, name: str) -> Callable[..., dict[str, Any]]:
    found: Callable[..., dict[str, Any]] = getattr(import_module(f"orchestrator.gsd.{module}"), name)
    return found
