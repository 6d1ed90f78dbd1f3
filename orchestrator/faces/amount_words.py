"""The words of faces and commands for durations, times of day, sizes, tokens and money. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def instant(at: object) -> datetime | None:
    """The moment that a record names; None for what is no time."""
    try:
        return datetime.fromisoformat(str(at))
    except ValueError:
        return None


def seconds_between(begin: object, end: object) -> float | None:
    """Seconds from one moment to another; 0 if a clock went back, None if one is unknown."""
    first, last = instant(begin), instant(end)
    if first is None or last is None or (first.tzinfo is None) != (last.tzinfo is None):
        return None
    return round(max(0.0, (last - first).total_seconds()), 3)


def duration(seconds: float | None) -> str:
    """A duration in its two largest units; ``-`` for one that is not known."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, part, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {below}"
    return f"{whole} s"


def clock(at: object, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A moment as local time; the text itself for what is no time, ``-`` for None."""
    moment = instant(at)
    if moment is None:
        return "-" if at is None else str(at)
    try:
        return moment.astimezone().strftime(form)
    except (ValueError, OverflowError):  # in the first or the last year that there is
        return str(at)


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, given in the singular; ``plural`` if that is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def size(count: int | None) -> str:
    """A number of bytes as people read it."""
    if count is None:
        return "not there"
    if count < 1024:
        return counted(count, "byte")
    return f"{count / 1024:,.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):,.1f} MiB"


def dollars(amount: object) -> str:
    """An amount of money; ``cost unknown`` for None."""
    if not isinstance(amount, int | float):
        return "cost unknown"
    return f"${amount:.2f}" if amount >= 0.01 or amount == 0 else f"${amount:.4f}"


def tokens(usage: dict[str, Any] | None) -> str:
    """Tokens and estimated cost of a task, an agent or a run in a few words; empty if nothing is known of them."""
    if not usage:
        return ""
    if usage.get("unknown") and not usage.get("requests"):
        return str(usage["unknown"])
    cached = f" + {usage['cached']:,} cached" if usage.get("cached") else ""
    words = f"{usage.get('input', 0):,}{cached} in, {usage.get('output', 0):,} out, {dollars(usage.get('cost_usd'))}"
    return words + (f" ({usage['unknown']})" if usage.get("unknown") else "")
