"""How faces name what a row of the snapshot says: its state in a sign and a word, its cost, its counts. Pure.

All faces use these words, so that a person finds the same in each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.core.attention import needs_human, state_word
from orchestrator.core.glyphs import NEEDS_HUMAN, OUTCOME, STATUS, outcome_sign
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.faces.amount_words import counted


class StateWord(NamedTuple):
    """The state of a row: its sign, its word, and the name of its colour."""

    sign: str
    word: str
    color: str


UNKNOWN = "\u2013"
MINUS = "\u2212"
NO_BREAK = "\u00a0"
"""A space at which no line is broken; CLIs draw with it, and it hides nothing."""

_RUN = {
    "completed": "idle", "done": "idle", "failed": "failed", "canceled": "deleted", "cancelled": "deleted",
    "queued": "starting", "planning": "starting", "waiting": "starting",
}  # fmt: skip


def state_of(row: Mapping[str, Any], *, ascii_only: bool = False) -> StateWord:
    """The state of an agent's row: what it waits for if it needs a human, else its status."""
    status = str(row.get("status"))
    glyph = STATUS.get(status, STATUS["unknown"])
    if needs_human(row) and status != "failed":
        glyph = NEEDS_HUMAN
    return StateWord(glyph.ascii if ascii_only else glyph.sign, str(row.get("state") or state_word(row)), glyph.color)


def since_of(row: Mapping[str, Any]) -> str | None:
    """Since when the agent waits for somebody, else since when it has its status."""
    return (row.get("waits_for") or {}).get("since") or row.get("since")


def run_state(run: Mapping[str, Any], *, ascii_only: bool = False) -> StateWord:
    """The state of a spawn run or squad."""
    status = str(run.get("status") or "unknown")
    glyph = STATUS[_RUN.get(status, "busy")]
    return StateWord(glyph.ascii if ascii_only else glyph.sign, status, glyph.color)


def cost_text(usage: Mapping[str, Any] | None, *, ascii_only: bool = False) -> str:
    """The cost: ``$0.41``; a dash if it is not known, empty if there is no usage or no model."""
    if not usage or usage.get("unknown") == NO_MODEL:
        return ""
    cost = usage.get("cost_usd")
    if cost is None:
        return "-" if ascii_only else UNKNOWN
    return f"${float(cost):.2f}"


def tokens_text(usage: Mapping[str, Any] | None) -> str:
    """Tokens that it used, cached ones included: ``12k``; empty without any."""
    if not usage:
        return ""
    number = sum(int(usage.get(key) or 0) for key in ("input", "cached", "output"))
    return short_number(number) if number else ""


def short_number(number: int) -> str:
    """A number in at most four characters: ``999``, ``12k``, ``3.4M``."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}" if number < 10 * size else f"{number // size}{letter}"
    return str(number)


def diff_text(diff: Mapping[str, Any] | None, *, ascii_only: bool = False) -> str:
    """The size of a change: lines added and removed, else how many files; empty without any."""
    if not diff:
        return ""
    if not (diff.get("added") or diff.get("removed")):
        return counted(int(diff["files"]), "file") if diff.get("files") else ""
    added, removed = (short_number(int(diff.get(key) or 0)) for key in ("added", "removed"))
    return f"+{added}{'-' if ascii_only else MINUS}{removed}"


def outcome_texts(finished: Mapping[str, Any]) -> str:
    """Results and errors, and cancels if there are any: ``4/1``, ``4/1/2``."""
    counts = [int(finished.get(key) or 0) for key in ("result", "error", "canceled")]
    return "/".join(map(str, counts if counts[2] else counts[:2]))


def ended_text(finished: Mapping[str, int], *, ascii_only: bool = False) -> str:
    """How many tasks ended, by outcome: ``41 ✓ 3 ✕``; empty without any."""
    shown = [(finished.get(kind), outcome_sign(kind, ascii_only=ascii_only)) for kind in OUTCOME]
    return " ".join(f"{number} {sign}" for number, sign in shown if number)


def totals_parts(snapshot: Mapping[str, Any], *, ascii_only: bool = False) -> list[str]:
    """The team in numbers, each only if there are any: ``12 agents``, ``2 need you``, ``1 unknown``, ``41 ✓ 3 ✕``."""
    totals = snapshot.get("totals") or {}
    agents, need = int(totals.get("agents") or 0), int(totals.get("need_you") or 0)
    usage = totals.get("usage") or {}
    cost, unknown = usage.get("cost_usd"), int(usage.get("cost_unknown") or 0)
    money = (
        ""
        if cost is None or not usage.get("requests")
        else f"${float(cost):.2f}" + (f" + {unknown} unknown" if unknown else "")
    )
    parts = [
        f"{agents} agent{'s' * (agents != 1)}",
        f"{need} need{'s' * (need == 1)} you" if need else "",
        *(f"{totals[key]} {key}" if totals.get(key) else "" for key in ("busy", "idle", "unknown", "ended")),
        ended_text(totals.get("finished") or {}, ascii_only=ascii_only),
        money,
    ]
    return [part for part in parts if part]
