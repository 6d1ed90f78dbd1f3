"""Read the screen of Codex 0.169: its input line, the reason for its silence, its permission dialogs. Pure."""

from __future__ import annotations

import re

from orchestrator.core.screens import Composer, FindingKind, Screen, ScreenPattern, first_line
from orchestrator.engines.definition import THEN_TYPE
from orchestrator.engines.screen_dialogs import DialogForm

_SGR = re.compile(r"\x1b\[([\d;:]*)m")


def _dim(styled: str) -> str | None:
    """The dim text of a line in which nothing else is visible; None when something is."""
    dim, kept = False, ""
    for index, part in enumerate(_SGR.split(styled)):
        if index % 2:
            for code in part.split(";"):
                dim = code == "2" or (dim and code not in {"", "0", "22"})
        elif dim:
            kept += part
        elif part.strip():
            return None
    return kept.strip()


_FURTHER = re.compile(r"^  \S")  # a draft's lines below its first


def composer(screen: Screen) -> Composer:
    """Codex shows a dim placeholder in an empty input line, with the cursor on its first letter."""
    prompt, mark, rest = screen.styled.partition("\u203a")
    if screen.dead:
        return "other"
    if not mark or _SGR.sub("", prompt).strip():
        below = screen.cursor_x >= 2 and first_line(screen, _FURTHER).startswith("\u203a ")
        return "draft" if below else "other"
    if screen.cursor_x == 2 and _dim(rest):
        return "empty"
    return "draft" if screen.cursor_x >= 2 else "other"


_COMPOSER = r"(?m:^\u203a )"
_RETRYING = r"econnecting\b.*esc to interrupt"


def _without(regex: str) -> str:
    """For `ScreenPattern.unless`: rules out a screen that lacks it."""
    return rf"\A(?![\s\S]*{regex})"


def _last(kind: FindingKind, line: str, reason: str, *, until: int = 0, unless: str = r"(?!)") -> ScreenPattern:
    """A line that is a reason only if nothing follows it: no text, no other error, no running turn."""
    last = rf"(?m:{line})(?![\s\S]*(?m:{line}))"
    over = rf"esc to interrupt|{last}[\s\S]*\n[■•]|{unless}"
    return ScreenPattern(kind, line, reason, until=until, unless=over)


def _retrying(kind: FindingKind, line: str, reason: str, *, until: int = 0) -> ScreenPattern:
    """A line below the status line of a turn that is retried."""
    return ScreenPattern(kind, line, f"{reason}; it tries again", until=until, unless=_without(_RETRYING))


# Codex's own lines begin in the first column or after its own mark. Texts of models, tools and humans are indented or
# come after a bullet, so that they cannot imitate Codex.
PATTERNS = (
    ScreenPattern(
        "permission",
        r"^  \$ (\S.*)",
        "asks whether it may run: {1}",
        unless=_without(r"\n  Would you like to run the following command\?"),
    ),
    ScreenPattern(
        "permission",
        r"^  Destination: (\S.*)",
        "asks whether it may change files: {1}",
        unless=_without(r"\n  Would you like to make the following edits\?"),
    ),
    ScreenPattern(
        "permission", r"^  Would you like to run the following command\?", "asks whether it may run a command"
    ),
    ScreenPattern(
        "permission", r"^  Would you like to make the following edits\?", "asks whether it may change files"
    ),
    ScreenPattern(
        "permission",
        r'^  Allow the (\S+) MCP server to run tool "([^"]+)"\?',
        "asks whether it may call {2} of the MCP server {1}",
    ),
    ScreenPattern("permission", r"^\[ \S ?\] Action Required", "asks its user a question", where="title"),
    ScreenPattern("trust", r"^  Trust this folder\?", "asks whether this folder is trusted"),
    ScreenPattern(
        "hooks",
        r"^  Hooks need review",
        "asks to review hooks of the user's configuration: 1 shows them, 3 continues without them",
    ),
    ScreenPattern("login", r"^  Welcome to Codex", "nobody has signed in: run codex login", unless=_COMPOSER),
    ScreenPattern(
        "no_tools",
        r"required MCP servers|handshaking with MCP server",
        "its MCP server did not start",
        unless=_COMPOSER,
    ),
    _last("login", r"^■ Missing environment variable: `(\w+)`", "its key is missing: set {1}"),
    _last(
        "login",
        # The second form is from the program's strings; it was never seen on a screen.
        r"^■ (?:unexpected status (?:401|403)\b|Your access token could not be refreshed)",
        f"the API does not accept its login or key{THEN_TYPE}",
    ),
    _retrying("login", r"^  └ Unexpected status (?:401|403)\b", "the API does not accept its login or key"),
    _last(
        "rate_limit",
        r"\bor try again at (.+?)\.?$",
        "its usage limit is reached until {1}",
        until=1,
        unless=_without("You.ve hit your"),
    ),
    _last("rate_limit", r"^■ You.ve hit your (\w+ limit)", "its {1} is reached"),
    _last(
        "rate_limit",
        r"^■ (Quota exceeded|exceeded retry limit, last status: 429|To use Codex with your ChatGPT plan, upgrade)",
        "its plan or rate limit is used up: {1}",
    ),
    _retrying(
        "rate_limit",
        r"\b[Tt]ry again in (\d[\d.]* ?(?:ms|[smh]|seconds?|minutes?|hours?))\b",
        "its rate limit is reached for {1}",
        until=1,
    ),
    _retrying(
        "rate_limit",
        r"^  └ (?:Exceeded retry limit, last status: 429|Unexpected status 429|Rate limit exceeded)",
        "its rate limit is reached",
    ),
    _last("context_full", r"^■ Codex ran out of room", "its conversation fills the model's context"),
    ScreenPattern("api_error", rf"^.{{0,40}}{_RETRYING}", "the API fails or cannot be reached; it tries again"),
    # A hook reports an interruption, and a refused command is its human's: the agent waits at its prompt.
    _last(
        "api_error",
        r'^■ (?!Conversation interrupted|\'/|Unrecognized command)(?:\{"error": ?\{"message": ?")?([^"]{1,150})',
        "the API failed: {1}",
    ),
    ScreenPattern(
        "dialog", r"^ +(?:Press )?enter (?:to )?(?:confirm|select|continue|submit)\b", "shows a dialog", within=3
    ),
)


_END = r"  Press enter to confirm or esc to cancel"
DIALOGS = (
    DialogForm(
        begins=r"  Would you like to run the following command\?",
        ends=_END,
        option="[\u203a ] (\\d)\\. (.*)",
        options={"approve": r"Yes, proceed", "deny": r"No, and tell Codex"},
        cut=r"\[… \d+ lines?\]|view all",
    ),
    DialogForm(
        begins=r"  Would you like to make the following edits\?",
        ends=_END,
        option="[\u203a ] (\\d)\\. (.*)",
        options={"approve": r"Yes, proceed", "deny": r"No, and tell Codex"},
        hides=True,
    ),
    DialogForm(
        begins=r'  Allow the \S+ MCP server to run tool "',
        ends=r"  enter to submit \| esc to cancel",
        option="  [\u203a ] (\\d)\\. (.*)",
        options={"approve": r"Allow  ", "deny": r"Cancel\b"},
        cut=r"…|view all",
    ),
)
