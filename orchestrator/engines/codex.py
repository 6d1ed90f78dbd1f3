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
from orchestrator.engines.codex_screen import DIALOGS, PATTERNS, composer
from orchestrator.engines.codex_setup import SETUP, config_dir, config_file
from orchestrator.engines.definition import (
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
