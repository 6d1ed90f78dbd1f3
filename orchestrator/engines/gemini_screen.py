"""What the screen of Gemini CLI 0.61 says: its input line, and what explains its silence. Pure.

The screen shows the text of tasks too, inside the boxes of tool calls. So what a dialog says counts only while the
dialog has taken the place of the input line, and an error only near the bottom and while no turn runs.
"""

from __future__ import annotations

import re

from orchestrator.core.screens import Composer, FindingKind, Screen, ScreenPattern, first_line
from orchestrator.engines.definition import THEN_TYPE
from orchestrator.engines.screen_dialogs import DialogForm

IDLE = "◇"
"""How the pane's title begins while no turn runs."""
EDIT = "an edit"
"""What a dialog about any file edit covers."""

_PLACEHOLDER = "Type your message or @path/to/file"
_EMPTY = re.compile(rf"^ [>*]   {re.escape(_PLACEHOLDER)}$")  # `*` in YOLO mode
_LINE = re.compile(r"^ [>*] ")
_FURTHER = re.compile(r"^   \S")  # a draft's lines below its first


def composer(screen: Screen) -> Composer:
    """The cursor is in the input line, which shows its placeholder only while nothing is typed."""
    if screen.dead or screen.cursor_y >= len(screen.lines):
        return "other"
    line = screen.lines[screen.cursor_y].rstrip()
    if _EMPTY.match(line) and screen.cursor_x == 3:
        return "empty"
    line = first_line(screen, _FURTHER).rstrip()
    return "draft" if _LINE.match(line) and _PLACEHOLDER not in line else "other"


_UNASKED = re.compile(r"^ YOLO Ctrl\+Y")
_EDITS_UNASKED = re.compile(r"^ auto-accept edits ")
_CALL = re.compile(r"^[│ ] (\S)  (?:Shell|WriteFile|Edit|WebFetch)\b")
_CANCELED = "-"


def asks_no_more(screen: Screen, covered: frozenset[str]) -> bool:
    """Whether a call whose hook is held was canceled, or its human has chosen a mode that does not ask about it.

    After Esc the CLI marks the call as canceled, and waits for the hook all the same.
    """
    calls = [match[1] for line in screen.lines if (match := _CALL.match(line)) is not None]
    if screen.title.startswith(IDLE) or calls[-1:] == [_CANCELED]:
        return True
    mode = _EDITS_UNASKED if EDIT in covered else _UNASKED
    return any(_UNASKED.match(line) or mode.match(line) for line in screen.lines)


_BUSY = r"\(esc to cancel, \d"
_OPEN = rf"{re.escape(_PLACEHOLDER)}|{_BUSY}"  # no dialog is open
_DIALOG = 45  # lines from the bottom: a permission question shows what it is about
_LAST = 26  # the last word of the conversation, notes, status, input line, footer


def _dialog(kind: FindingKind, regex: str, reason: str, until: int = 0) -> ScreenPattern:
    return ScreenPattern(kind, regex, reason, within=_DIALOG, until=until, unless=_OPEN)


def _last_lines(kind: FindingKind, regex: str, reason: str) -> ScreenPattern:
    return ScreenPattern(kind, regex, reason, within=_LAST, unless=_BUSY)


# In order: what says more stands first. "Ready to start implementation?", "Waiting for authentication" are the
# CLI's own strings, not provoked. While the CLI tries the API again it only says "Thinking…", as in any turn.
PATTERNS: tuple[ScreenPattern, ...] = (
    _dialog("dialog", r"^│ (Answer Questions|Ready to start implementation\?)", "asks a question: {1}"),
    _dialog("permission", r"^│ \? (\S.*?)  ([^\s│].{0,100}?)\s*(?:│|$)", "asks for permission: {1} {2}"),
    ScreenPattern("permission", r"^✋", "asks for a permission", where="title"),
    _dialog("trust", r"Do you trust the files", "asks whether the folder is trusted; answer it, or set trust"),
    _dialog("login", r"How would you like to authenticate", "not logged in: run gemini once and choose how"),
    _dialog("login", r"^│ Enter Gemini API Key", "no API key: GEMINI_API_KEY is not in its environment"),
    _dialog("login", r"^Enter the authorization code:|Waiting for authentication\.\.\.", "waits for a Google login"),
    _dialog("rate_limit", r"Access resets at (.+?)\.(?:\s|│|$)", "usage limit reached, resets at {1}", until=1),
    _dialog("rate_limit", r"Usage limit reached for (\S+?)\.(?:\s|│|$)", "usage limit reached for {1}"),
    _dialog("loop", r"A potential loop was detected", "asks whether to keep its loop detection"),
    _dialog("dialog", r"\(Press Esc to close\)", "a dialog is open"),
    _last_lines(
        "login",
        r"API key not valid|API_KEY_INVALID|\"code\":401|UNAUTHENTICATED",
        f"the API refuses its login{THEN_TYPE}",
    ),
    _last_lines("api_error", r"^✕ \[API Error: .*\"message\":\"([^\"]{1,120})", "API error: {1}"),
    _last_lines("api_error", r"^✕ \[API Error: (.{1,120}?)\]?$", "API error: {1}"),
    _last_lines(
        "context_full", r"Sending this message \(\d+ tokens\)", "its context is full; /compress in its pane helps"
    ),
    _last_lines("interrupted", r"^\u2139 Request cancelled\.", "a human has interrupted it"),
    _last_lines(
        "no_tools", r"^\u2139 Waiting for MCP servers to initialize", "waits for MCP servers that do not start"
    ),
)

DIALOGS = (
    DialogForm(
        begins=r"│ \? \S",
        ends=r"╰─{20}",
        option=r"│ [● ] (\d)\. (.*?)\s*│",
        options={"approve": r"Allow once", "deny": r"No, suggest changes"},
        cut=r"(?i)lines? hidden|show more|^… |\.\.\. (?:first|last)",
    ),
)
