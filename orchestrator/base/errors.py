"""The classes of all errors that the product reports, by who must act. Tables of their own have the codes.

One base, five children. Each error carries a stable ``code`` (an entry of ``CODES``), one sentence,
and the next step. Surfaces map the *class*: ``EXIT_CODES`` for the shell, ``as_dict`` for MCP answers.
Callers and tests match codes, never sentences.
"""

from __future__ import annotations

from typing import Any, ClassVar

from orchestrator.base.error_codes import ERROR_CODES
from orchestrator.base.fleet_codes import FLEET_CODES


class OrchestratorError(Exception):
    """Base of all expected errors; anything else is a bug.

    ``code`` is stable across versions, ``next_step`` says what whoever must act can do.
    """

    kind: ClassVar[str] = "Error"

    def __init__(self, code: str, message: str, next_step: str = "", **facts: Any) -> None:
        entry = CODES.get(code)
        if entry is None or entry[0] is not type(self):
            raise AssertionError(f"{type(self).__name__}({code!r}) is not in the table of codes")
        super().__init__(message)
        self.code = code
        self.message = message
        self.next_step = next_step or entry[2]
        self.facts = facts

    def as_dict(self) -> dict[str, Any]:
        """The wire form: ``{kind, code, message, next_step, ...facts}``."""
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "next_step": self.next_step,
            **self.facts,
        }


class BadRequest(OrchestratorError):
    """The caller must change the request."""

    kind = "BadRequest"


class Conflict(OrchestratorError):
    """The caller's view is old: re-read, then decide again."""

    kind = "Conflict"


class NotReady(OrchestratorError):
    """The caller must wait; the same request may work later."""

    kind = "NotReady"


class Environment(OrchestratorError):
    """The operator must change the machine: tmux, disk, window, installation, configuration."""

    kind = "Environment"


class Corrupt(OrchestratorError):
    """A file contains invalid or contradictory data; stop, and look at file and line."""

    kind = "Corrupt"


_CLASSES = {each.kind: each for each in (BadRequest, Conflict, NotReady, Environment, Corrupt)}
CODES: dict[str, tuple[type[OrchestratorError], str, str]] = {
    code: (_CLASSES[kind], meaning, step) for code, (kind, meaning, step) in (ERROR_CODES | FLEET_CODES).items()
}
"""Code -> (class, what it means, default next step); docs/reference/errors.md is generated from it."""

EXIT_CODES: dict[type[OrchestratorError], int] = {
    BadRequest: 2,
    Conflict: 3,
    NotReady: 4,
    Environment: 5,
    Corrupt: 6,
}
