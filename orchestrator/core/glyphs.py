"""The signs of statuses and of ended tasks, the same in panes and on the command line. Pure; data only."""

from __future__ import annotations

from typing import NamedTuple


class Glyph(NamedTuple):
    """One sign: its character, what stands in for it where only ASCII can be shown, and its colour's name."""

    sign: str
    ascii: str
    color: str


NEEDS_HUMAN = Glyph("◐", "!", "yellow")
"""The sign of an agent that cannot continue until somebody acts."""

STATUS = {
    "starting": Glyph("◔", "~", "cyan"),
    "idle": Glyph("○", "o", "green"),
    "parked": Glyph("◌", "o", "green"),
    "busy": Glyph("●", "*", "blue"),
    "blocked": NEEDS_HUMAN,
    "stalled": NEEDS_HUMAN,
    "exited": Glyph("✕", "x", "red"),
    "stopping": Glyph("◒", "~", "cyan"),
    "failed": Glyph("✕", "x", "red"),
    "deleted": Glyph("-", "-", "dim"),
    "unknown": Glyph("?", "?", "dim"),
}
"""Of each status of an agent. Its word always follows, unless the line is too narrow for it."""

OUTCOME = {
    "result": Glyph("✓", "ok", "green"),
    "error": Glyph("✕", "error", "red"),
    "canceled": Glyph("⊘", "canceled", "dim"),
}
"""Of each terminal event."""


def status_sign(status: str, *, ascii_only: bool = False) -> str:
    """The sign of a status; that of ``unknown`` for any other word."""
    glyph = STATUS.get(status, STATUS["unknown"])
    return glyph.ascii if ascii_only else glyph.sign


def outcome_sign(outcome: str, *, ascii_only: bool = False) -> str:
    """The sign of a terminal event; the word itself for any other."""
    glyph = OUTCOME.get(outcome)
    return outcome if glyph is None else glyph.ascii if ascii_only else glyph.sign
