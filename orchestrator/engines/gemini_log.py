"""The debug log of Gemini CLI 0.61: while it tries its API again, only this log shows it. Pure."""

from __future__ import annotations

import re

from orchestrator.core.screens import FindingKind, LogFinding, ScreenFinding

LOG = "gemini.log"
"""The file's name in the agent's engine directory."""

_ATTEMPT = re.compile(
    r"(?m)^\[(?P<at>\d{4}-\d\d-\d\dT[\d:.]+Z)\] \[WARN\] Attempt \d+ failed"
    r"(?: with status (?P<status>\d+)| with (?P<like>429|5xx) error[^.\n]*|: (?P<quota>(?s:.{0,4000}?)))?"
    r"\. Retrying (?:after (?P<ms>\d+)ms|with backoff)\.\.\."
)
_PAUSE_S = 39.0
"""The longest pause that it takes by itself: 30 s, and 30 % at random."""
_REQUEST_S = 30.0
"""Seconds that the next try may take before it is logged."""


def explain_log(text: str) -> LogFinding | None:
    """What the last failed try in the end of a log explains; None if there is none."""
    attempts = list(_ATTEMPT.finditer(text))
    if not attempts:
        return None
    last = attempts[-1]
    pause_s = int(last["ms"]) / 1000 if last["ms"] else None
    status = last["status"] or last["like"]
    kind: FindingKind = "api_error"
    if status == "429" or last["quota"] is not None:
        kind, reason = "rate_limit", "its rate limit is reached (429); it tries again"
    elif status:
        reason = f"the API fails ({status}); it tries again"
    else:
        reason = "the API fails or cannot be reached; it tries again"
    until = f"{pause_s:g}s" if pause_s is not None else None
    return LogFinding(last["at"], ScreenFinding(kind, reason, until), max(_PAUSE_S, pause_s or 0.0) + _REQUEST_S)
