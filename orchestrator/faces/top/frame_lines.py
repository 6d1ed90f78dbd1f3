"""The lines above and below the team: its numbers, and the keys that fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.base.text_width import columns_of
from orchestrator.faces.row_words import totals_parts
from orchestrator.faces.top.key_bindings import KeyAction, keys_of
from orchestrator.faces.top.team_layout import Part

HINTS = (
    ("pane", "pane"), ("approve", "approve"), ("deny", "deny"), ("task", "new task"), ("cancel", "cancel"),
    ("restart", "restart"), ("filter", "filter"), ("needs_me", "needs me"), ("timeline", "timeline"),
    ("help", "help"),
)  # fmt: skip


def head_parts(
    snapshot: Mapping[str, Any], width: int, *, filtered: str = "", needs_me: bool = False, ascii_only: bool = False
) -> list[Part]:
    """The team in numbers that fit, none cut. Notes that rows are hidden, or that no daemon answers, come first."""
    gap = " - " if ascii_only else " · "
    parts: list[Part] = [(f" {snapshot['title']}", "bold")]
    if not snapshot["live"]:
        parts += [(gap, "dim"), ("no daemon answers; shown from the files", "yellow")]
    for text in ("needs me" if needs_me else "", f"/{filtered}" if filtered else ""):
        if text:
            parts += [(gap, "dim"), (text, "reverse")]
    need = (snapshot.get("totals") or {}).get("need_you")
    used = sum(columns_of(text) for text, _ in parts)
    for text in totals_parts(snapshot, ascii_only=ascii_only):
        wide = columns_of(gap + text)
        if used + wide <= width:
            parts += [(gap, "dim"), (text, "bold yellow" if need and " need" in text else "")]
            used += wide
    return parts


def key_parts(bindings: Mapping[str, KeyAction], width: int, *, ascii_only: bool = False) -> list[Part]:
    """The keys that fit, each with its action. The last key, help, is always shown."""
    hints = []
    for name, says in HINTS:
        key = keys_of(name, bindings)[0]
        hints.append((key.replace("⏎", "Enter") if ascii_only else key, f" {says}  "))
    *others, last = hints
    parts: list[Part] = [(" ", "")]
    room = width - 1 - columns_of("".join(last))
    for key, says in others:
        if columns_of(key + says) <= room:
            room -= columns_of(key + says)
            parts += [(key, "bold"), (says, "dim")]
    return [*parts, (last[0], "bold"), (last[1], "dim")]
