"""The engine for Claude Code: all settings are flags of one process. Pure.

Everything is injected per process by flags that name files of the agent's own (`--settings`, `--mcp-config`,
`--append-system-prompt-file`): they are merged over what the user has, and nothing of the user's is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.core.screens import Composer, FindingKind, Screen, ScreenPattern
from orchestrator.engines.claude_setup import SETUP, in_config_dir
from orchestrator.engines.definition import (
    Engine,
    Headless,
    HeadlessCommand,
    HeadlessRun,
    Launch,
    PreparedLaunch,
    RoleFolder,
    TranscriptPlace,
)
from orchestrator.engines.headless_chats import UUID, chat_id, no_command
from orchestrator.engines.permission_hooks import claude_request
from orchestrator.engines.screen_dialogs import DialogForm
from orchestrator.engines.shown_dialogs import ShownDialog
from orchestrator.engines.usage_reading import CLAUDE
from orchestrator.engines.user_setup import HOOK_LIMIT_S

RULES_FILE = "rules.md"
MCP_FILE = "mcp.json"
SETTINGS_FILE = "settings.json"

BORDER = "─"
SELECTED = "\u276f"
HINT = r"(?:\x1b\[[\d;]*m)*\u276f\xa0(?:\x1b\[[\d;]*m)*.\x1b\[(?:0;)?2m"  # the cursor's letter, then dim: no draft
SCROLLED = re.compile(rf"{BORDER}+ ↑ \d+ more {BORDER}")
COMPOSER_MARK = "\u276f\xa0"  # a heavy angle bracket and a no-break space
TOOL_LIMIT_S = 3600.0
PARK_LIMIT_S = 12 * 3600.0

HOOK_EVENTS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "StopFailure": "end",  # an API error ends the turn; what a hook answers is not heeded then
    "PermissionRequest": "permission",
    "Notification": "notice",
    "PostCompact": "compacted",
    "SessionEnd": "end",
}

PASSED = (
    "ORCHESTRATOR_AGENT_ID",
    "ORCHESTRATOR_AGENT_EPOCH",
    "ORCHESTRATOR_AGENT_SECRET",
    "ORCHESTRATOR_PROJECT",
    "ORCHESTRATOR_RUN_BASE",
    "ORCHESTRATOR_STATE_DIR",
)

ENVIRONMENT = {
    "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0",  # else a wait of 120 s becomes a background task
    "DISABLE_AUTOUPDATER": "1",  # a CLI replaced under a running agent cannot be resumed by the same version
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY": "1",  # it would sit in the pane and take the human's keys
    "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",  # a model request after every turn, and text in the composer
    "CLAUDE_CODE_ENABLE_AWAY_SUMMARY": "0",  # a model request of an idle agent
    "CLAUDE_CODE_RESUME_THRESHOLD_MINUTES": "5256000",  # else a relaunch asks whether to resume an old session
}


def _servers(launch: Launch) -> dict[str, Any]:
    command, *args = launch.mcp
    passed = {name: f"${{{name}}}" for name in PASSED if name in launch.env}
    server = {
        "type": "stdio",
        "command": command,
        "args": args,
        "env": passed,  # expanded by the CLI; named, because it may be told to pass on nothing else
        "timeout": int(TOOL_LIMIT_S * 1000),
        "alwaysLoad": True,  # else its tools hide behind a search
    }
    return {"mcpServers": {SERVER: server}}


def _settings(launch: Launch) -> dict[str, Any]:
    program, *args = launch.hook
    hook = {"type": "command", "command": program, "args": args, "timeout": HOOK_LIMIT_S}  # args: no shell
    settings: dict[str, Any] = {
        "hooks": {event: [{"hooks": [hook]}] for event in HOOK_EVENTS},
        "permissions": {"allow": [f"mcp__{SERVER}__{name}" for name in (*AGENT_TOOLS, *launch.queries)]},
        "prefersReducedMotion": True,  # a parked agent's spinner: a third of the CPU
        "idleCompaction": False,  # a model request of an idle agent
    }
    if launch.approval == "all":
        settings["skipDangerousModePermissionPrompt"] = True
    return settings


def _wishes(wish: Launch | HeadlessRun) -> list[str]:
    flags = [f"--model={wish.model}"] if wish.model else []
    if wish.approval == "edits":
        flags.append("--permission-mode=acceptEdits")
    elif wish.approval == "all":
        flags.append("--dangerously-skip-permissions")
    return flags


def _trust(wish: Launch | HeadlessRun) -> dict[str, str]:
    return {"CLAUDE_CODE_SANDBOXED": "1"} if wish.trust else {}


def _run(once: HeadlessRun) -> HeadlessCommand:
    argv = ["claude", "--print", *_wishes(once)]
    if once.chat:
        argv.append(f"--resume={chat_id(once.chat, UUID, 'Claude Code')}")
    else:
        argv.append(f"--session-id={once.session}" if once.session else "--no-session-persistence")
    env = {"DISABLE_AUTOUPDATER": "1"} | _trust(once)
    prompt = no_command(once.prompt)
    return HeadlessCommand((*argv, *(() if once.stdin else ("--", prompt))), env, prompt if once.stdin else None)


def _prepare(launch: Launch) -> PreparedLaunch:
    place = launch.engine_dir
    argv = [
        "claude",
        f"--mcp-config={place}/{MCP_FILE}",
        f"--settings={place}/{SETTINGS_FILE}",
        f"--append-system-prompt-file={place}/{RULES_FILE}",
        *_wishes(launch),
    ]
    argv.append(f"--resume={launch.resume}" if launch.resume else f"--session-id={launch.session}")
    argv += ["--", launch.again if launch.resume else launch.first]
    return PreparedLaunch(
        argv=tuple(argv),
        env=ENVIRONMENT | _trust(launch),
        files={
            RULES_FILE: launch.rules + "\n",
            MCP_FILE: json.dumps(_servers(launch), indent=1) + "\n",
            SETTINGS_FILE: json.dumps(_settings(launch), indent=1) + "\n",
        },
        session=launch.resume or launch.session,
    )


def _composer(screen: Screen) -> Composer:
    """The input line is between two borders, after its prompt sign; a dialog takes its place."""
    if screen.in_mode or screen.dead or not 0 <= screen.cursor_y < len(screen.lines):
        return "other"
    top = bottom = screen.cursor_y
    while top >= 0 and not screen.lines[top].startswith(BORDER):
        top -= 1
    while bottom < len(screen.lines) and not screen.lines[bottom].startswith(BORDER):
        bottom += 1
    lines = screen.lines[top + 1 : bottom]
    if top < 0 or bottom == len(screen.lines) or not lines:
        return "other"
    if SCROLLED.match(screen.lines[top]):
        return "draft"
    if not lines[0].startswith(COMPOSER_MARK):
        return "other"
    blank = not lines[0].removeprefix(COMPOSER_MARK).strip() or re.match(HINT, screen.styled)
    return "empty" if len(lines) == 1 and blank else "draft"


# What a screen says is trusted only where the CLI itself wrote it: a dialog takes the composer's place, and what
# ended a turn counts until something new is said (a running turn's status line has the mark of a word said).
_COMPOSER = rf"(?m)^{COMPOSER_MARK}"
_SAID = r"(?:[●\u276f] (?!Usage limit)|  Call)"


def _dialog(kind: FindingKind, line: str, reason: str) -> ScreenPattern:
    return ScreenPattern(kind, line, reason, unless=_COMPOSER)


def _last(kind: FindingKind, line: str, reason: str, *, until: int = 0) -> ScreenPattern:
    """A line at the end of a turn; not one further up."""
    later = rf"(?m:{line})(?![\s\S]*(?m:{line}))[\s\S]*\n{_SAID}"
    return ScreenPattern(kind, line, reason, until=until, unless=later)


_RETRYING = r"retrying in (\d[\dhms ]*[hms]) · attempt"
_ASKED_FOR = r"retrying in ((?:\d+[hm] ?)+(?:\d+s)?|\d\d+s|[3-9]s) · attempt [12]/"

PATTERNS = (
    _dialog("permission", r"^ Do you want to (.+?)\??$", "asks for a permission: {1}"),
    _dialog("trust", r"Yes, I trust this folder", "answer the question in its pane"),
    _dialog("trust", r"because this folder isn't trusted", "it has exited; start claude in this folder once by hand"),
    _dialog("login", r"Detected a custom API key in your env", "asks whether to use the API key of its environment"),
    _dialog("dialog", r"^ ?☐ (.+)", "asks a question: {1}"),
    _dialog("dialog", r"Choose the text style that looks best", "its first-start setup is not finished"),
    _dialog("dialog", r"Press Enter to continue", "its first-start setup is not finished"),
    _dialog("dialog", r"new MCP servers? found in", "asks whether to use the project's MCP servers"),
    _dialog(
        "dialog",
        r"Allow external CLAUDE\.md file",
        "asks whether CLAUDE.md may include files from outside the project",
    ),
    _dialog("dialog", r"^ +Settings Error", "its settings have an error, and it asks what to do"),
    _dialog("permission", r"cannot be used with root/sudo", 'it refuses approval "all" to root'),
    _dialog("api_error", r"Unable to connect to Anthropic services", "it cannot reach its provider"),
    _dialog("dialog", r"\b(?:Enter to (?:confirm|select|save)|Esc to (?:cancel|reject))\b", "a dialog waits"),
    _last("rate_limit", r"^  ⎿\s+You've hit your (.+?)(?: · resets (.+))?$", "it has hit its {1}", until=2),
    ScreenPattern(
        "rate_limit", r"^  ⚠ Usage limit reached · .*?(\d[\d:]*[ap]m)", "its usage limit is reached", until=1
    ),
    ScreenPattern(
        "rate_limit", r"^\S (.+ limit) reached · retrying in .*?\(([^)]+)\)", "its {1} is reached", until=2
    ),
    ScreenPattern("login", r"^\S 40[13]\b.* · retrying in ", "the API does not accept its login or key"),
    ScreenPattern(
        "rate_limit", rf"^\S 429\b.* · {_RETRYING}", "its rate limit is reached (429); it tries again", until=1
    ),
    # It does not name the error of the first two attempts. Its own pauses after them are shorter than three seconds;
    # a longer one was asked for by the API.
    ScreenPattern("rate_limit", rf"^\S API error · {_ASKED_FOR}", "the API asks it to wait; it tries again", until=1),
    ScreenPattern("api_error", r"^\S (API error) · retrying in ", "the API fails; it tries again", vague=True),
    ScreenPattern("api_error", r"^\S (.+?) · retrying in ", "the API fails ({1}); it tries again"),
    _last("rate_limit", r"^  ⎿\s+Credit balance too low", "its credit balance is too low"),
    _last(
        "context_full",
        r"^  ⎿\s+(?:Context limit reached|Prompt is too long)",
        "its context is full: /compact or /clear",
    ),
    _last(
        "login",
        r"^(?:● |  ⎿\s+).{0,40}Please run /login",
        "run /login in its pane, or give it a key that the API accepts",
    ),
    _last("rate_limit", r"^● API Error: (?:Request rejected \()?429\b", "its rate limit is reached (429)"),
    _last("api_error", r"^● API Error: (.{1,150})", "the API failed: {1}"),
    _last("interrupted", r"^  ⎿\s+Interrupted · What should Claude do", "a human has interrupted it"),
)


DIALOGS = (
    DialogForm(
        begins=rf"{BORDER}{{20}}",
        ends=r" Esc to cancel",
        option=rf" [{SELECTED} ] (\d)\. (.*)",
        options={"approve": r"Yes$", "deny": r"No\b"},
        cut=r"(?m)[↑↓] \d+ more line|^Do you want to (?!proceed)",
    ),
)
"""A dialog that asks for an edit may show a part of it only."""


_FIRST_OPTION = re.compile(rf"[{SELECTED} ]+1\. ")
_COUNTED = re.compile(r"\b(\d+) of (\d+)\s*$")


def _shows(screen: Screen) -> ShownDialog | None:
    """The dialog on the screen. Its frame begins above the list of options.

    The title of a permission says "1 of 3" if further permissions wait, and does not count questions.
    """
    lines = screen.lines
    first = next((at for at in range(len(lines) - 1, -1, -1) if _FIRST_OPTION.match(lines[at])), -1)
    top = next((at for at in range(first, -1, -1) if lines[at].startswith(BORDER * 20)), -1)
    if top < 0:
        return None
    asks = any(line.startswith(" Do you want to ") for line in lines[top:first])
    counted = filter(None, map(_COUNTED.search, lines[top + 1 : top + 3]))
    return ShownDialog("\n".join(lines[top + 1 :]), asks and all(each[1] == each[2] for each in counted))


def _transcript(env: Mapping[str, str], session: str) -> TranscriptPlace:
    return TranscriptPlace(in_config_dir(env, "projects"), f"*/{session}.jsonl")


ROW = Engine(
    name="claude",
    prepare=_prepare,
    program="claude",
    asks_trust=True,
    about="Claude Code",
    tested_versions=("2.1.329",),
    package="@anthropic-ai/claude-code",
    clients=("claude-code",),
    tool_limit_s=TOOL_LIMIT_S,
    parks="hook",
    park_limit_s=PARK_LIMIT_S,
    hook_events=HOOK_EVENTS,
    holds_start=True,
    busy=r"esc to interrupt",
    human_queued=r"Press up to edit queued messages|Queued · ",
    composer=_composer,
    quit="/exit",
    paste_gap_s=0.1,
    patterns=PATTERNS,
    request=claude_request,
    dialogs=DIALOGS,
    shows=_shows,
    resumes=True,
    transcript=_transcript,
    usage=CLAUDE,
    models=True,
    call_limit_s=120.0,  # then it goes on in the background
    headless=Headless(run=_run, chats="chosen", long_prompt="stdin"),
    role_folder=RoleFolder(".claude/agents"),
    setup=SETUP,
    limits=(
        'Claude Code refuses approval "all" to root, unless it detects a sandbox.',
        "With newer models its own default is auto mode, in which it decides which commands to ask about.",
        "An Esc in the middle of a turn is detected only from the screen.",
        "A user's hook or permission rule that denies our two tools overrides their approval.",
    ),
)
