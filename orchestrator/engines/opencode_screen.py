"""The screen of opencode: its input line, and why it is silent if the plugin reports nothing. Pure."""

from __future__ import annotations

from orchestrator.core.screens import Composer, Screen, ScreenPattern
from orchestrator.engines.definition import THEN_TYPE

_EDGE = "┃"
_FLOOR = "╹▀"
_PLACEHOLDER = "Ask anything"
PASTED = "[Pasted ~1 lines]"


def composer(screen: Screen) -> Composer:
    """The input box: a bar at the left of every line and a line below; its last line shows the model.

    If a dialog covers it or a menu of commands is open above it, the cursor is elsewhere or the line above is not
    blank.
    """
    lines, at = screen.lines, screen.cursor_y
    if screen.dead or screen.in_mode or not 0 < at < len(lines):
        return "other"
    left = lines[at].find(_EDGE)
    if left < 0 or lines[at].count(_EDGE) > 1:
        return "other"

    def inside(row: int) -> bool:
        return 0 <= row < len(lines) and lines[row].startswith(_EDGE, left)

    first = last = at
    while inside(first - 1):
        first -= 1
    while inside(last + 1):
        last += 1
    floor = lines[last + 1] if last + 1 < len(lines) else ""
    if last - first < 3 or not floor.startswith(_FLOOR, left) or not lines[last][left + 1 :].strip():
        return "other"
    above = lines[first - 1][left:] if first else ""
    if above.strip():
        return "other"
    text = [line[left + 1 :].strip() for line in lines[first:last]]
    if any(_EDGE in line for line in text):
        return "other"
    typed = [line for line in text if line]
    at_start = screen.cursor_x == left + 3
    if not typed or (at_start and len(typed) == 1 and typed[0].startswith(_PLACEHOLDER)):
        return "empty" if at_start else "draft"
    return "draft"


_FOOTER = 3
"""Lines at the bottom in which opencode tells of a request that it tries again; two in a narrow pane."""
_RECENT = 14
"""Lines at the bottom in which an error of the conversation still says why it does not go on."""

PATTERNS: tuple[ScreenPattern, ...] = (
    ScreenPattern("permission", r"△ Permission required", "asks for a permission"),
    ScreenPattern("permission", r"This will allow the following patterns until", "asks to allow it for good"),
    ScreenPattern("dialog", r"↑↓ select +enter (submit|confirm|toggle) +esc dismiss", "asks a question"),
    ScreenPattern("login", r"Connect a provider +esc", "no provider is connected"),
    ScreenPattern(
        "login",
        r"(?i)┃ +([^┃]*((incorrect|invalid|missing|expired)[^┃]*api.?key|unauthori[sz]ed|authentication fail)[^┃]*)",
        f"{{1}}{THEN_TYPE}",
        within=_RECENT,
    ),
    ScreenPattern("no_tools", r"• +orchestrator +(?!Connected)(\S.*)", "our MCP server: {1}"),
    ScreenPattern(
        "rate_limit",
        r"(?i)(rate.?limit|too many requests|quota|usage limit|overloaded|\b429\b)",
        "its provider limits it; it tries again by itself",
        within=_FOOTER,
    ),
    ScreenPattern("api_error", r"retrying +in (\S+) +attempt #(\d+)", "the API fails (attempt {2})", within=_FOOTER),
    ScreenPattern(
        "api_error", r"\[retryin|^ +attempt #\d+\]", "the API fails; it tries again by itself", within=_FOOTER
    ),
    ScreenPattern("context_full", r"Conversation history too large", "its conversation is too long", within=_RECENT),
)
