"""The engine Gemini CLI: each agent has a home of its own with the user's settings, login and rules. Pure.

Gemini CLI has no flag for settings, and it ignores system settings that a normal user wrote. So every agent gets a
`GEMINI_CLI_HOME`: `settings.json` is the user's with our parts added, `GEMINI.md` is the user's followed by our
rules, and everything else is a link to the user's own file. `HOME` stays the user's.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.engines import gemini_approvals
from orchestrator.engines.definition import (
    Engine,
    Headless,
    HeadlessCommand,
    HeadlessRun,
    Launch,
    PreparedLaunch,
    RoleFolder,
    RunRecord,
    TranscriptPlace,
    UserFiles,
)
from orchestrator.engines.gemini_log import LOG, explain_log
from orchestrator.engines.gemini_screen import DIALOGS, IDLE, PATTERNS, asks_no_more, composer
from orchestrator.engines.gemini_setup import PARK_LIMIT_S, SETUP, config_dir, gemini_home
from orchestrator.engines.headless_chats import UUID, chat_id, no_command
from orchestrator.engines.usage_reading import GEMINI
from orchestrator.engines.user_setup import HOOK_LIMIT_S

HOME = "home"
"""The agent's `GEMINI_CLI_HOME` in its engine directory."""

SERVER_AGENT = f"{SERVER}-agent"
"""The name of our server where the project's or the system's settings, which beat the user's, take the usual one."""

TOOL_LIMIT_MS = 600_000
SYSTEM_SETTINGS = "/etc/gemini-cli/settings.json"
AGENT_SECRET = "ORCHESTRATOR_AGENT_SECRET"  # noqa: S105 - the name of the variable
SYSTEM_POLICIES = "/etc/gemini-cli/policies"

# A hook gets 60 s by default; what blocks does so until the daemon answers. Below 2**31 ms, for it becomes a timer of
# Node.
ANSWER_MS = 30_000
HOOKS = {
    "SessionStart": ANSWER_MS,
    "BeforeAgent": ANSWER_MS,
    "AfterAgent": HOOK_LIMIT_S * 1000,
    "Notification": ANSWER_MS,
    "SessionEnd": 5_000,
}

LOG_VARIABLE = "GEMINI_DEBUG_LOG_FILE"
_ONE_PROCESS = {"GEMINI_CLI_NO_RELAUNCH": "true"}  # it starts itself anew otherwise, which takes 130 MB more

# What is not linked: ours, what belongs to one session, and what the CLI replaces by renaming over it.
_OWN = frozenset({"settings.json", "GEMINI.md", "trustedFolders.json", "tmp", "history", "projects.json"})
_COPIED = ("state.json", "extension_integrity.json")
_LEFTOVER = re.compile(r"\.(tmp|lock|bak|orig|corrupted|orchestrator-backup)\b")
_ENABLEMENT = "mcp-server-enablement.json"
_EXTENSIONS = frozenset({"extension-enablement.json"})  # what is in their folder and is none
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def reads(env: Mapping[str, str], cwd: str) -> UserFiles:
    """The user's `.gemini`, the project's settings, which beat the user's, and the system's, which beat both."""
    base, user = gemini_home(env), config_dir(env)
    names = ("settings.json", "GEMINI.md", _ENABLEMENT, *_COPIED)
    files = (*(f"{user}/{name}" for name in names), f"{base}/.env", *_above(env, cwd))
    policies = tuple((folder, ".toml") for folder in (f"{user}/policies", SYSTEM_POLICIES))
    return UserFiles(files=files, dirs=(user, f"{user}/extensions", f"{base}/.agents"), within=policies)


def prepare(launch: Launch) -> PreparedLaunch:
    """The launch of one agent; BadRequest ``bad_config`` when the user's settings are no JSON."""
    base, user, home = gemini_home(launch.env), config_dir(launch.env), f"{launch.engine_dir}/{HOME}"
    above = [_settings(launch.files[path], path) for path in _above(launch.env, launch.cwd) if path in launch.files]
    mine = _settings(launch.files.get(f"{user}/settings.json", "{}"), f"{user}/settings.json")
    server = SERVER_AGENT if any(_takes(SERVER, layer) for layer in above) else SERVER

    argv = ["gemini", *_wishes(launch)]
    allowed = _allowed([mine, *above])
    if allowed is not None:
        argv += [word for name in (*allowed, server) for word in ("--allowed-mcp-server-names", name)]
    artifacts = f"{launch.engine_dir.rpartition('/')[0]}/artifacts"
    if not artifacts.startswith(f"{launch.cwd}/"):  # its file tools write nothing outside of its directories
        argv += ["--include-directories", artifacts]
    argv += ["--resume", launch.resume] if launch.resume else ["--session-id", launch.session]
    argv += ["--prompt-interactive", launch.again if launch.resume else launch.first]

    env = {
        "GEMINI_CLI_HOME": home,
        **_ONE_PROCESS,  # the pane's pid is the CLI
        "CLI_TITLE": launch.agent_id,
        # Replaced by renaming, so no link; the user's answers about folders count here, and the other way round.
        "GEMINI_CLI_TRUSTED_FOLDERS_PATH": launch.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
        or f"{user}/trustedFolders.json",
    }
    env |= _trust(launch)
    if LOG_VARIABLE not in launch.env:  # the user's own log stays where the user wants it
        env[LOG_VARIABLE] = f"{launch.engine_dir}/{LOG}"

    asking = _asking_tools(launch, [mine, *above])
    settings = _merged(launch, mine, server)
    if asking:
        _add_approvals(launch, settings, asking, home)
    rules = (launch.files.get(f"{user}/GEMINI.md", "").strip(), launch.rules, gemini_approvals.RULE if asking else "")
    files = {
        "settings.json": json.dumps(settings, indent=2, ensure_ascii=False) + "\n",
        "GEMINI.md": "\n\n".join(filter(None, rules)) + "\n",
    }
    files |= {name: launch.files[f"{user}/{name}"] for name in _COPIED if f"{user}/{name}" in launch.files}
    disabled = launch.files.get(f"{user}/{_ENABLEMENT}", "")
    if SERVER in disabled:  # the master's entry, switched off by the user; ours has the same name
        kept = {name: value for name, value in _settings(disabled, _ENABLEMENT).items() if name != server}
        files[_ENABLEMENT] = json.dumps(kept)

    links = {
        f"{HOME}/.gemini/{name}": f"{user}/{name}"
        for name in launch.dirs.get(user, ())
        if name not in _OWN and name not in files and not _LEFTOVER.search(name)
    }
    if "skills" in launch.dirs.get(f"{base}/.agents", ()):
        links[f"{HOME}/.agents/skills"] = f"{base}/.agents/skills"
    if f"{base}/.env" in launch.files:
        links[f"{HOME}/.env"] = f"{base}/.env"
    return PreparedLaunch(
        argv=tuple(argv),
        env=env,
        files={LOG: ""}
        | {f"{HOME}/.gemini/{name}": text for name, text in files.items()}
        | ({gemini_approvals.POLICY: gemini_approvals.policy(launch.env[AGENT_SECRET])} if asking else {}),
        links=links,
        session=launch.resume or launch.session,
    )


def _wishes(wish: Launch | HeadlessRun) -> list[str]:
    flags = [f"--model={wish.model}"] if wish.model else []
    if wish.approval != "ask":
        flags += ["--approval-mode", {"edits": "auto_edit", "all": "yolo"}[wish.approval]]
    return flags


def _trust(wish: Launch | HeadlessRun) -> dict[str, str]:
    return {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if wish.trust else {}


def _run(once: HeadlessRun) -> HeadlessCommand:
    argv = ["gemini", *_wishes(once)]
    if once.chat:
        argv += ["--resume", chat_id(once.chat, UUID, "Gemini CLI")]
    elif once.session:
        argv += ["--session-id", once.session]
    env = _ONE_PROCESS | _trust(once)
    prompt = no_command(once.prompt)
    # Without a terminal on its input it is headless without `--prompt` too.
    return HeadlessCommand(
        (*argv, *(() if once.stdin else (f"--prompt={prompt}",))), env, prompt if once.stdin else None
    )


def _record(env: Mapping[str, str], chat: str) -> RunRecord:
    # Source: cleanupExpiredSessions in Gemini CLI 0.61; a context of its own comes before the first message.
    message = r'(?m)^\{"id":.*"type":"user"'
    return RunRecord(*_transcript(env, chat), message)


def _transcript(env: Mapping[str, str], session: str) -> TranscriptPlace:
    return TranscriptPlace(f"{gemini_home(env)}/.gemini/tmp", f"*/chats/session-*-{session[:8]}.json*")


def _above(env: Mapping[str, str], cwd: str) -> tuple[str, str]:
    return f"{cwd}/.gemini/settings.json", env.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or SYSTEM_SETTINGS


def _settings(text: str, path: str) -> dict[str, Any]:
    """JSON with comments, as Gemini CLI reads it; ``${NAME}`` stays as it is."""
    try:
        settings = json.loads(_COMMENT.sub(lambda part: part[1] or "", text))
    except ValueError as error:
        raise BadRequest(
            "bad_config", f"Gemini CLI's {path} is not JSON: {error}", "fix the file; gemini does not start with it"
        ) from error
    return settings if isinstance(settings, dict) else {}


def _table(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """The table of that name, made if missing, for writing into it."""
    value = settings.get(name)
    settings[name] = value if isinstance(value, dict) else {}
    table: dict[str, Any] = settings[name]
    return table


def _names(settings: Mapping[str, Any], key: str) -> list[str] | None:
    """The list ``mcp.<key>`` of a layer, None when it has none."""
    mcp = settings.get("mcp")
    names = mcp.get(key) if isinstance(mcp, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else None


def _takes(name: str, layer: Mapping[str, Any]) -> bool:
    """Whether a layer above the user's defines or excludes a server of that name."""
    servers = layer.get("mcpServers")
    defined = isinstance(servers, dict) and name in servers
    return defined or name in (_names(layer, "excluded") or ())


def _allowed(layers: list[dict[str, Any]]) -> list[str] | None:
    """The servers that the user's allowlists leave, without ours; None when there is no such list.

    The CLI takes what all lists have in common, so ours could never be put in; only its flag overrides them, and
    that drops the exclusions too.
    """
    lists = [names for layer in layers if (names := _names(layer, "allowed")) is not None]
    if not lists:
        return None
    excluded = {name for layer in layers for name in _names(layer, "excluded") or ()} | {SERVER, SERVER_AGENT}
    return [name for name in lists[0] if name not in excluded and all(name in other for other in lists[1:])]


def _merged(launch: Launch, mine: dict[str, Any], server: str) -> dict[str, Any]:
    """The user's settings with what an agent needs; ``mine`` is changed."""
    _table(mine, "general")["enableAutoUpdate"] = False  # agents would update one installation side by side
    _table(mine, "model")["disableLoopDetection"] = True  # the loop of an agent is one
    _table(mine, "ui").update(dynamicWindowTitle=True, hideWindowTitle=False)  # the title tells idle from busy
    servers = _table(mine, "mcpServers")
    servers.pop(SERVER, None)
    servers[server] = {
        "command": launch.mcp[0],
        "args": list(launch.mcp[1:]),
        "env": _identity(launch),
        "timeout": TOOL_LIMIT_MS,
        "trust": True,
        "includeTools": [*AGENT_TOOLS, *launch.queries],
    }
    excluded = [name for name in _names(mine, "excluded") or [] if name not in {SERVER, server}]
    if server != SERVER:
        excluded.append(SERVER)
    if excluded or _names(mine, "excluded"):
        _table(mine, "mcp")["excluded"] = excluded
    hooks = _table(mine, "hooks")
    for event, limit in HOOKS.items():
        hooks[event] = [*_foreign(hooks.get(event), launch.hook), {"hooks": [_hook(launch, event, limit)]}]
    auth = _table(_table(mine, "security"), "auth")
    chosen = _auth(launch.env)
    if chosen and not auth.get("selectedType"):
        auth["selectedType"] = chosen
    return mine


def _asking_tools(launch: Launch, layers: list[dict[str, Any]]) -> tuple[str, ...]:
    """The tools whose calls can be decided from outside the pane."""
    user = config_dir(launch.env)
    extensions = set(launch.dirs.get(f"{user}/extensions", ())) - _EXTENSIONS
    if extensions or AGENT_SECRET not in launch.env:
        return ()  # policies of an extension are weaker than ours, and are never to be overridden
    folders = (f"{user}/policies/", f"{SYSTEM_POLICIES}/")
    policies = [text for path, text in launch.files.items() if path.startswith(folders)]
    return gemini_approvals.asking_tools(launch.approval, layers, policies)


def _add_approvals(launch: Launch, settings: dict[str, Any], asking: tuple[str, ...], home: str) -> None:
    """Our hook before these tools, and our policy after the user's own, which it would replace alone."""
    event = gemini_approvals.EVENT
    ours = gemini_approvals.hook_group(asking, _hook(launch, event, gemini_approvals.LIMIT_MS))
    hooks = _table(settings, "hooks")
    hooks[event] = [*_foreign(hooks.get(event), launch.hook), ours]
    settings["policyPaths"] = [f"{home}/.gemini/policies", f"{launch.engine_dir}/{gemini_approvals.POLICY}"]


def _identity(launch: Launch) -> dict[str, str]:
    """References to the variables that the CLI would keep from its children by their names, never their values."""
    return {name: f"${name}" for name in launch.env if name.startswith("ORCHESTRATOR_")}


def _hook(launch: Launch, event: str, limit_ms: int) -> dict[str, Any]:
    return {
        "type": "command",
        "name": f"{SERVER}-{event}",
        "command": f"exec {shlex.join(launch.hook)}",
        "timeout": limit_ms,
        "env": _identity(launch),
    }


def _foreign(groups: Any, hook: tuple[str, ...]) -> list[Any]:
    """The user's groups of one event without our own hook, which a master has: an agent's comes in its place."""
    kept = []
    for group in groups if isinstance(groups, list) else []:
        inner = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(inner, list):
            others = [
                entry for entry in inner if not (isinstance(entry, dict) and hook[-1] in str(entry.get("command")))
            ]
            if not others:
                continue
            group = {**group, "hooks": others}  # noqa: PLW2901 - the group, minus ours
        kept.append(group)
    return kept


def _auth(env: Mapping[str, str]) -> str:
    """How to log in if the user never chose: the CLI asks, although the variables give the answer."""
    if env.get("GOOGLE_GENAI_USE_GCA") == "true":
        return "oauth-personal"
    if env.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    return "gemini-api-key" if env.get("GEMINI_API_KEY") else ""


ROW = Engine(
    name="gemini",
    prepare=prepare,
    reads=reads,
    program="gemini",
    asks_trust=True,
    about="Google's Gemini CLI",
    tested_versions=("0.61.0",),
    package="@google/gemini-cli",
    tool_limit_s=TOOL_LIMIT_MS / 1000,
    clients=("gemini-cli-mcp-client",),
    parks="hook",
    park_limit_s=float(PARK_LIMIT_S),
    hook_events={
        "SessionStart": "start",
        "BeforeAgent": "prompt",
        "AfterAgent": "turn_end",
        "BeforeTool": "tool",
        "Notification": "notice",
        "SessionEnd": "end",
    },
    request=gemini_approvals.request,
    asks_no_more=asks_no_more,
    title_idle=f"^{IDLE}",
    busy=r"\besc to cancel",
    human_queued=r"^\s*Queued \(press|^ Slash commands cannot be queued$",  # the second one is shown for 3 s
    composer=composer,
    quit="/quit ",  # the blank closes the menu, where Enter may choose another command while the menu is made
    paste_gap_s=0.4,  # 30 ms after a paste Enter is a new line; under load that takes longer to pass
    patterns=PATTERNS,
    dialogs=DIALOGS,
    log=LOG,
    explain_log=explain_log,
    resumes=True,
    transcript=_transcript,
    usage=GEMINI,
    models=True,
    call_limit_s=600.0,
    headless=Headless(run=_run, chats="chosen", record=_record, long_prompt="stdin"),
    role_folder=RoleFolder(".gemini/agents"),
    setup=SETUP,
    limits=(
        "Google ended it for personal accounts: it needs an API key, Vertex AI or a Code Assist licence.",
        "In a call and while parked its spinner takes up to a quarter of a core: a park ends after ten minutes.",
        'Only approval "all" skips the question before a shell command whose text came with a task.',
        "A tool of an MCP server and a build file such as package.json are approved in its dialog alone.",
        "With an extension, and for tools that its policies or settings name, it asks only in its own dialogs.",
        "After you answer in the pane, such calls stay there: it does not report if you allowed them for good.",
        "Trusting the folder in an agent's pane restarts the CLI and ends the agent: create it again.",
        "While it retries the API, only its debug log shows it: the daemon reads and shortens the log.",
        "Facts that it saves for all projects are kept only for this agent.",
        "Where the user has switched its hooks off, an idle agent polls.",
        "In a git repository its read_file refuses files below .agents, also artifacts; its shell reads them.",
        "A chat of a squad continues only in the folder where it began.",
        "Its start deletes the folder's chats that have no message yet: members with chats start one by one.",
        "If a squad's prompt has `@path` of an existing file, it appends the file and changes other @ words.",
        "As a squad's member it ends at once, with an error message, in an untrusted folder.",
    ),
)
