"""What an agent's screen shows: why the agent is silent, whether its input line is empty. Pure; patterns are data.

The screen never decides whether an agent is idle or busy; it only explains silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from orchestrator.base.secret_masks import one_line

FindingKind = Literal[
    "permission", "trust", "login", "hooks", "rate_limit", "api_error", "loop", "context_full", "dialog", "no_tools",
    "interrupted",
]  # fmt: skip
"""Why an agent does not go on; one word per thing that somebody must do."""

SCREEN_KINDS: frozenset[str] = frozenset(get_args(FindingKind))
QUESTIONS = frozenset({"permission", "dialog"})
"""Kinds of a question for a human; the hook and the screen of a CLI may name the same question differently."""
COUNTING = frozenset({"rate_limit", "api_error"})
"""Kinds whose words count down or up by themselves: said once, not at every tick."""

Composer = Literal["empty", "draft", "other"]
"""The CLI's input line: empty, holding a human's draft, or hidden behind something else."""


LAST_LINES = 12
LINE_MAX = 200
REASON_MAX = 320
"""Maximum length of a reason: a tool's name, and 200 characters of its input."""


class Screen(NamedTuple):
    """One look at a pane: ``lines`` plain, trailing blanks cut; ``styled`` its cursor line with SGR codes."""

    title: str = ""
    lines: tuple[str, ...] = ()
    styled: str = ""
    cursor_x: int = 0
    cursor_y: int = 0
    in_mode: bool = False
    dead: bool = False


class ScreenPattern(NamedTuple):
    """One reason for silence.

    ``regex`` is searched line by line in the last ``within`` lines (0: the whole screen) or in the title.
    ``reason`` may contain ``{1}``, ``{2}``: groups of the match. ``until`` names the group with the time of its end.
    """

    kind: FindingKind
    regex: str
    reason: str
    where: Literal["screen", "title"] = "screen"
    within: int = 0
    until: int = 0
    unless: str = ""  # a regular expression on the whole screen that rules it out
    vague: bool = False  # it does not tell a limit from an error: it keeps what is recorded of either


class ScreenFinding(NamedTuple):
    """What a screen explains."""

    kind: FindingKind
    reason: str
    until: str | None = None
    vague: bool = False


class LogFinding(NamedTuple):
    """What a CLI's own log explains: since when (RFC 3339), and for how long if nothing more is logged."""

    at: str
    finding: ScreenFinding
    holds_s: float


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?(ms|[smh])(?:ecs?|econds?|ins?|inutes?|rs?|ours?)?(?![a-z]) ?")


def seconds_left(until: str) -> float | None:
    """The seconds that an end like ``1m 5s`` is away; None if the text is no such amount."""
    seconds, at = 0.0, 0
    while amount := _AMOUNT.match(until, at):
        seconds, at = seconds + float(amount[1]) * _UNITS[amount[2]], amount.end()
    return seconds if at == len(until) and at else None


def explain(patterns: Sequence[ScreenPattern], screen: Screen) -> ScreenFinding | None:
    """The finding of the first pattern that matches; None if none does."""
    for pattern in patterns:
        if pattern.unless and re.search(pattern.unless, "\n".join(screen.lines)):
            continue
        lines = (screen.title,) if pattern.where == "title" else screen.lines[-pattern.within :]
        for line in reversed(lines):
            match = re.search(pattern.regex, line)
            if match is None:
                continue
            reason = re.sub(r"\{(\d)\}", lambda slot, hit=match: hit[int(slot[1])] or "", pattern.reason)  # type: ignore[misc]
            until = match[pattern.until] if pattern.until else None
            return ScreenFinding(pattern.kind, one_line(reason, REASON_MAX), until, pattern.vague)
    return None


def first_line(screen: Screen, further: re.Pattern[str]) -> str:
    """The line with which the text at the cursor begins; the lines below it match ``further``, the last may be blank.

    "" if the cursor is outside the printed lines.
    """
    at = screen.cursor_y
    if at >= len(screen.lines):
        return ""
    if at and not screen.lines[at].strip():
        at -= 1
    while at and further.match(screen.lines[at]):
        at -= 1
    return screen.lines[at]


def stands(screen: Screen, line: str) -> bool:
    """Whether the text that ends at the cursor is exactly ``line``, however it is wrapped.

    Only letters and digits count: frames, marks and breaks are the CLI's. An input box that shows only the last lines
    of its text matches if these are half of it.
    """
    wanted, tail = _letters(line), ""
    above = list(screen.lines[: screen.cursor_y + 1])
    if above and not _letters(above[-1]):
        above.pop()
    while above and not above[-1].startswith("─") and (part := _letters(above.pop())):
        tail = part + tail
        if not wanted.endswith(tail):
            return False
    return 2 * len(tail) >= len(wanted) > 0


def _letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum())


def readable(lines: Sequence[str]) -> list[str]:
    """The last 12 lines with text (frames are none), each of at most 200 printable characters."""
    shown = ["".join(char if char.isprintable() else " " for char in line).rstrip() for line in lines]
    return [line[:LINE_MAX] for line in shown if any(char.isalnum() for char in line)][-LAST_LINES:]
