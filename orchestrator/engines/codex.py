"""The engine for Codex CLI: all settings are `--config` overrides; nothing is written into the user's CODEX_HOME."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.core.screens import Composer, FindingKind, Screen, ScreenPattern, first_line
from orchestrator.engines.codex_setup import SETUP, config_dir, config_file
from orchestrator.engines.definition import (
    THEN_TYPE,
    Engine,
    Headless,
    HeadlessCommand,
    HeadlessRun,
    Launch,
    PreparedLaunch,
    RoleFolder,
    TranscriptPlace,
    UserFiles,
)
from orchestrator.engines.headless_chats import UUID, chat_id
from orchestrator.engines.permission_hooks import codex_request
from orchestrator.engines.screen_dialogs import DialogForm
from orchestrator.engines.usage_reading import CODEX
from orchestrator.engines.user_setup import HOOK_LIMIT_S, table

SECRET = "ORCHESTRATOR_AGENT_SECRET"  # noqa: S105 - the name of the variable
TOOL_LIMIT_S = 600.0
HOOKS = {
    "SessionStart": 30,
    "UserPromptSubmit": 60,
    "PermissionRequest": HOOK_LIMIT_S,
    "Interrupt": 3,  # Codex allows no more
    "Stop": HOOK_LIMIT_S,
}
"""The hooks we set and how long Codex lets each run, in seconds (its default is 600)."""
SHOWN = {"PermissionRequest": "waits for an answer in orchestrator"}
"""What Codex shows in its status line while a hook runs, in place of `Running hook`."""

SYSTEM_CONFIG = "/etc/codex/config.toml"
FLAGS_LAYER = "/<session-flags>/config.toml"
"""What Codex calls the place of overrides given on its command line."""


def toml(value: Any) -> str:
    """A value as TOML on one line; a mapping becomes an inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for the one control character that JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(member)}" for key, member in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value)


def hook_hash(event: str, command: str, timeout_s: int, shown: str = "") -> str:
    """The hash by which Codex knows a trusted hook: of its event, command, timeout and message as canonical JSON."""
    hook = {"type": "command", "command": command, "timeout": timeout_s, "async": False}
    if shown:
        hook["statusMessage"] = shown
    text = json.dumps(
        {"event_name": event, "hooks": [hook]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _label(event: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).removeprefix("_")


def hooks(words: tuple[str, ...]) -> dict[str, Any]:
    """Our hooks as a `hooks` table, and the trust in exactly these hooks for this process only.

    Codex asks for a review of a hook that is not trusted. It reads that trust from the user's file and from the
    command line; the flag that skips the review would trust every hook of every file.
    """
    command = "exec " + shlex.join(words)
    events: dict[str, Any] = {}
    state = {}
    for event, limit in HOOKS.items():
        shown = SHOWN.get(event, "")
        hook = {"type": "command", "command": command, "timeout": limit}
        events[event] = [{"hooks": [hook | {"statusMessage": shown} if shown else hook]}]
        trusted = hook_hash(_label(event), command, limit, shown)
        state[f"{FLAGS_LAYER}:{_label(event)}:0:0"] = {"trusted_hash": trusted}
    return {**events, "state": state}


def _reads(env: Mapping[str, str], cwd: str) -> UserFiles:
    project = env.get("ORCHESTRATOR_PROJECT", cwd)
    folders = (f"{project}/.codex/config.toml", f"{cwd}/.codex/config.toml")
    return UserFiles(files=tuple(dict.fromkeys((SYSTEM_CONFIG, config_file(env), *folders))))


def _settings(launch: Launch) -> list[dict[str, Any]]:
    """The user's configuration files, the weakest first; a folder's own only where the folder is trusted."""
    layers = []
    own = (SYSTEM_CONFIG, config_file(launch.env))
    trusted = launch.trust
    for path, text in launch.files.items():
        try:
            layer = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        if path in own:
            folders = (launch.cwd, launch.project)
            trusted |= any(table(layer, "projects", at).get("trust_level") == "trusted" for at in folders)
        if path in own or trusted:
            layers.append(layer)
    return layers


def _server(launch: Launch) -> dict[str, Any]:
    """Our MCP server, with a value for every key that a master's entry of the same name may have."""
    program, *args = launch.mcp
    ours = {name: value for name, value in launch.env.items() if name.startswith("ORCHESTRATOR_")}
    ours.pop(SECRET, None)
    tools = (*AGENT_TOOLS, *launch.queries)
    return {
        "command": program,
        "args": args,
        "cwd": launch.cwd,
        "enabled": True,
        "required": True,  # else the first request may leave before our tools are there
        "env": ours,
        "env_vars": [SECRET, "TMUX", "TMUX_PANE"],  # by name: a command line is no place for a secret
        "enabled_tools": list(tools),
        "disabled_tools": [],
        "default_tools_approval_mode": "approve",
        "tools": {name: {"approval_mode": "approve"} for name in tools},
        "startup_timeout_sec": 45,
        "tool_timeout_sec": int(TOOL_LIMIT_S),
    }


def _strongest(settings: list[dict[str, Any]], key: str, default: Any) -> Any:
    """The value of the strongest file that has one."""
    return next((layer[key] for layer in reversed(settings) if key in layer), default)


def _overrides(launch: Launch) -> dict[str, Any]:
    settings = _settings(launch)
    instructions = _strongest(settings, "developer_instructions", "")
    roots = _strongest([table(layer, "sandbox_workspace_write") for layer in settings], "writable_roots", [])
    overrides: dict[str, Any] = {
        "check_for_update_on_startup": False,
        "history.persistence": "none",  # our messages are not what the user wants to find with the up arrow
        "notice.hide_rate_limit_model_nudge": True,  # a dialog that offers a cheaper model
        "tui.animations": False,  # a spinner costs 4 % of a core while parked
        "tui.show_tooltips": False,  # Codex counts in the user's file how often it showed one
        "developer_instructions": f"{instructions}\n\n{launch.rules}".strip(),
        "hooks": hooks(launch.hook),
        # The sandbox keeps .agents/ read-only, also inside the folder that the model may change. (--add-dir would
        # do as well, but ends Codex where the user has chosen a read-only sandbox.)
        "sandbox_workspace_write.writable_roots": [
            *(roots if isinstance(roots, list) else []),
            f"{launch.engine_dir.rpartition('/')[0]}/artifacts",
        ],
    }
    name = SERVER
    if any("url" in table(layer, "mcp_servers", name) for layer in settings):
        # An override can replace a key and not remove one, and an entry with url and command is refused.
        overrides[f"mcp_servers.{name}.enabled"] = False
        name = f"{SERVER}_agent"
    overrides |= {f"mcp_servers.{name}.{key}": value for key, value in _server(launch).items()}
    if launch.trust:
        overrides["projects"] = _trusted(launch.cwd)
    return overrides


def _trusted(folder: str) -> dict[str, Any]:
    return {folder: {"trust_level": "trusted"}}


def _prepare(launch: Launch) -> PreparedLaunch:
    argv = ["codex", *(["resume"] if launch.resume else []), "--no-daemon"]
    if launch.model:
        argv += ["--model", launch.model]
    if launch.approval == "edits":
        argv += ["--sandbox", "workspace-write", "--ask-for-approval", "on-request"]
    elif launch.approval == "all":
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    for key, value in _overrides(launch).items():
        argv += ["--config", f"{key}={toml(value)}"]
    words = (launch.resume, launch.again) if launch.resume else (launch.first,)
    return PreparedLaunch(argv=(*argv, "--", *words))


def _run(once: HeadlessRun) -> HeadlessCommand:
    """What `exec` and `exec resume` both take; only the first knows `--sandbox`."""
    argv = ["codex", "exec", *(["resume"] if once.chat else []), "--skip-git-repo-check"]
    if once.model:
        argv.append(f"--model={once.model}")
    if once.approval == "edits":
        argv += ["--config", f"sandbox_mode={toml('workspace-write')}"]
    elif once.approval == "all":
        argv.append("--dangerously-bypass-approvals-and-sandbox")
    if once.trust:
        argv += ["--config", f"projects={toml(_trusted(once.cwd))}"]
    if not once.chat and not once.session:
        argv.append("--ephemeral")
    argv.append("--")
    if once.chat:
        # Unlike an unknown UUID, any other unknown word begins a new chat, and that is no error to it.
        argv.append(chat_id(once.chat, UUID, "Codex"))
    # A prompt that is a lone dash would be one to read.
    by_stdin = once.stdin or once.prompt == "-"
    return HeadlessCommand((*argv, "-" if by_stdin else once.prompt), stdin=once.prompt if by_stdin else None)


_THREAD = re.compile(rf"^session id: ({UUID.pattern})\s*$", re.MULTILINE)


def printed_chat_id(_stdout: str, stderr: str) -> str:
    """The id in the header that `exec` prints before everything else, including the prompt."""
    match = _THREAD.search(stderr)
    return match[1] if match else ""


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
    """A line that explains something only while nothing came after it: no word, no other trouble, no running turn."""
    last = rf"(?m:{line})(?![\s\S]*(?m:{line}))"
    over = rf"esc to interrupt|{last}[\s\S]*\n[■•]|{unless}"
    return ScreenPattern(kind, line, reason, until=until, unless=over)


def _retrying(kind: FindingKind, line: str, reason: str, *, until: int = 0) -> ScreenPattern:
    """A line below the status line of a turn that tries again."""
    return ScreenPattern(kind, line, f"{reason}; it tries again", until=until, unless=_without(_RETRYING))


# Lines of Codex itself begin in the first column or behind a mark of its own; what models, tools and humans write is
# indented or comes after a bullet, so that it cannot pass for one.
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
        # The second form is from the program's texts, not seen.
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


def _transcript(env: Mapping[str, str], session: str) -> TranscriptPlace:
    return TranscriptPlace(f"{config_dir(env)}/sessions", f"*/*/*/rollout-*-{session}.jsonl")


ROW = Engine(
    name="codex",
    prepare=_prepare,
    program="codex",
    asks_trust=True,
    about="Codex CLI, by overrides of one process (`--config`), without its shared background process",
    tool_limit_s=TOOL_LIMIT_S,
    tested_versions=("0.169.0",),
    package="@openai/codex",
    clients=("codex-mcp-client",),
    reads=_reads,
    parks="hook",
    park_limit_s=12 * 3600.0,
    hook_events={
        "SessionStart": "start",
        "UserPromptSubmit": "prompt",
        "Stop": "turn_end",
        "Interrupt": "interrupt",
        "PermissionRequest": "permission",
    },
    busy=r"esc to interrupt",
    # A refused command stays on the screen: it counts until Codex shows something new below it.
    human_queued=(
        r"^• (?:Messages to be submitted|Queued follow-up inputs)"
        r"|^■ '/\S+' is disabled while(?![\s\S]*^[■•] (?!Working\b))"
    ),
    composer=composer,
    quit="/quit",
    patterns=PATTERNS,
    request=codex_request,
    dialogs=DIALOGS,
    shared_process=r"/codex app-server\b",
    session_key="threadId",
    resumes=True,
    transcript=_transcript,
    usage=CODEX,
    models=True,
    call_limit_s=300.0,
    headless=Headless(run=_run, chats="printed", printed_chat_id=printed_chat_id, long_prompt="stdin"),
    role_folder=RoleFolder(".codex/agents", ending=".toml"),
    setup=SETUP,
    limits=(
        "A permission profile of the user's (`default_permissions`) must let the agent write its artifacts.",
        "After an API error that Codex gives up on, its turn ends without a hook.",
        "Where an administrator allows managed hooks only, or the user has switched hooks off, an idle agent polls.",
    ),
)
