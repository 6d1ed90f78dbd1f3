"""The engine for opencode: settings by an environment variable, rules by a file, wakes by a plugin.

`OPENCODE_CONFIG_CONTENT` is laid over the user's own settings, which stay as they are. The plugin
(`orchestrator/engines/plugins/opencode.js`) reports the end of each turn to the daemon, and prompts for a new task.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.engines.definition import (
    Engine,
    Headless,
    HeadlessCommand,
    HeadlessRun,
    Launch,
    PreparedLaunch,
    RunRecord,
)
from orchestrator.engines.headless_chats import chat_id
from orchestrator.engines.opencode_approvals import request
from orchestrator.engines.opencode_screen import PASTED, PATTERNS, composer
from orchestrator.engines.opencode_setup import SETUP
from orchestrator.engines.usage_reading import opencode_message
from orchestrator.engines.user_setup import in_home

CONTENT = "OPENCODE_CONFIG_CONTENT"
PERMISSION = "OPENCODE_PERMISSION"
PLUGIN = "opencode.js"
RULES = "rules.md"
THEIRS = "content.json"
"""The user's own value of the variable, for what the agent runs in its shell."""
TOOL_LIMIT_MS = 600_000
NPM = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "10000"}
"""opencode installs a package for plugins at every start until it has it; ours does not need it."""

_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[\]}])", re.DOTALL)
_SESSION = re.compile(r"ses_[A-Za-z0-9]{1,120}")
_CREATED = re.compile(rf"^timestamp=.*\b(?:message=created id|session\.id)=({_SESSION.pattern})\b", re.MULTILINE)
_BRACE = "\ue07b"  # of a private area


def prepare(launch: Launch) -> PreparedLaunch:
    """The launch of one agent; BadRequest ``bad_config`` when the user's own content is no JSON."""
    argv = ["opencode"]
    if launch.model:
        argv += ["--model", launch.model]
    if launch.approval == "all":
        argv.append("--auto")  # all that the user has not denied
    # opencode takes no prompt for a session that it resumes: the plugin sends the prompt then.
    argv += ["--session", launch.resume] if launch.resume else ["--prompt", launch.first]
    own = launch.env.get(CONTENT, "")
    theirs = _settings(own)
    patience = _patience(launch.env)
    lists = {name: [*_list(theirs, name), *ours] for name, ours in _lists(launch, patience).items()}
    merged = _over(_over(theirs, _ours(launch)), lists)
    return PreparedLaunch(
        argv=tuple(argv),
        env={CONTENT: json.dumps(merged, ensure_ascii=False).replace(_BRACE, "\\u007b"), **patience},
        files={RULES: launch.rules + "\n", THEIRS: own, **launch.shipped},
        session=launch.resume,
    )


def _run(once: HeadlessRun) -> HeadlessCommand:
    """Always pass the prompt on standard input: opencode puts an argument that contains a space into quotes."""
    argv = ["opencode", "run"]
    if once.model:
        argv.append(f"--model={once.model}")
    if once.approval == "all":
        argv.append("--auto")
    if once.chat:
        argv.append(f"--session={chat_id(once.chat, _SESSION, 'opencode')}")
    elif once.session:
        argv.append("--print-logs")  # a plain answer does not contain the id
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if once.approval == "edits":
        own = _settings(once.env.get(PERMISSION, ""), PERMISSION)
        env[PERMISSION] = json.dumps(_over(own, {"edit": {"*": "allow"}}))
    return HeadlessCommand(tuple(argv), env, once.prompt)


def printed_chat_id(_stdout: str, stderr: str) -> str:
    """The first session in the log: the run's own session, created before any subagent's."""
    match = _CREATED.search(stderr)
    return match[1] if match else ""


def _opening(env: Mapping[str, str]) -> RunRecord:
    """A line that opencode logs once it has opened its database.

    Two that open it at the same moment do not wait for each other: one ends with "database is locked" (1.18.33).
    """
    folder = posixpath.join(env.get("XDG_DATA_HOME") or in_home(env, ".local/share"), "opencode/log")
    return RunRecord(folder, "*.log", "creating instance", bound_s=3.0)


def _lists(launch: Launch, patience: Mapping[str, str]) -> dict[str, list[Any]]:
    """What is added to the user's lists; ``instructions`` are in the system prompt of every agent."""
    place = launch.engine_dir
    options: dict[str, Any] = {"forget": list(patience)}
    if launch.queries:
        options["queries"] = _named(launch.queries)  # subagents may call them too
    if launch.resume:
        go_on = {"session": launch.resume, "prompt": launch.again, "model": launch.model or ""}
        options["resume"] = {key: _plain(value) for key, value in go_on.items()}
    return {
        "instructions": [_plain(f"{place}/{RULES}")],
        "plugin": [[_plain(f"file://{place}/{PLUGIN}"), options]],
    }


def _patience(env: Mapping[str, str]) -> dict[str, str]:
    """What bounds npm, for which opencode waits before it loads a plugin: without a network for over a minute.

    The plugin takes it out of the environment again, before any command of the agent sees it.
    """
    known = {name.lower() for name in env}
    return {name: value for name, value in NPM.items() if name not in known}


def _ours(launch: Launch) -> dict[str, Any]:
    allow = dict.fromkeys(_named((*AGENT_TOOLS, *launch.queries)), "allow")
    deny = dict.fromkeys(_named(AGENT_TOOLS), "deny")
    permission: dict[str, Any] = {**allow, "doom_loop": "allow"}  # the loop of an agent is one
    if launch.approval == "edits":
        permission["edit"] = {"*": "allow"}
    return {
        "autoupdate": False,  # agents would update one installation side by side
        "mcp": {
            SERVER: {
                "type": "local",
                "command": [_plain(word) for word in launch.mcp],
                "enabled": True,
                "timeout": TOOL_LIMIT_MS,
            }
        },
        "permission": permission,
        # The subagents that opencode brings along do parts of a task; the loop is not theirs.
        "agent": {name: {"permission": deny} for name in ("general", "explore")},
    }


def _named(tools: Sequence[str]) -> list[str]:
    """Tools of our server, as opencode names them."""
    return [f"{SERVER}_{name}" for name in tools]


def _plain(text: str) -> str:
    """A text of ours whose braces end as escapes: opencode expands ``{env:…}`` and ``{file:…}`` before it parses."""
    return text.replace("{", _BRACE)


def _settings(text: str, variable: str = CONTENT) -> dict[str, Any]:
    """JSON with comments and trailing commas, as opencode reads it."""
    if not text.strip():
        return {}
    for what in (_COMMENT, _LAST_COMMA):
        text = what.sub(lambda part: part[1] or " ", text)
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise BadRequest(
            "bad_config",
            f"the environment variable {variable} is not JSON: {error}",
            "fix or unset it; opencode does not start with it",
        ) from error
    return settings if isinstance(settings, dict) else {}


def _list(settings: dict[str, Any], name: str) -> list[Any]:
    value = settings.get(name)
    return value if isinstance(value, list) else []


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """The tables merged as opencode merges its layers: the upper layer wins; its permissions come last."""
    merged = {key: value for key, value in below.items() if key not in above}
    for key, value in above.items():
        old = below.get(key)
        if key == "permission" and isinstance(old, str):
            old = {"*": old}
        merged[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


ROW = Engine(
    name="opencode",
    prepare=prepare,
    program="opencode",
    about="opencode",
    tested_versions=("1.18.33",),
    package="opencode-ai",
    tool_limit_s=TOOL_LIMIT_MS / 1000,
    clients=("opencode",),
    ships=(PLUGIN,),
    parks="plugin",
    hook_events={
        "start": "start",
        "session.busy": "prompt",
        "session.idle": "turn_end",
        "session.interrupted": "interrupt",
        "session.retry": "notice",
        "session.error": "notice",
        "question.asked": "notice",
        "permission.asked": "permission",
        "permission.replied": "answered",
        "message.counted": "usage",
    },
    request=request,
    reported_usage=opencode_message,
    composer=composer,
    pasted=PASTED,
    quit="/exit",
    patterns=PATTERNS,
    slow_start=2.0,
    resumes=True,
    models=True,
    call_limit_s=60.0,
    headless=Headless(
        run=_run, chats="printed", printed_chat_id=printed_chat_id, opening=_opening, long_prompt="stdin"
    ),
    setup=SETUP,
    limits=(
        "One agent takes 700 to 900 MB of memory.",
        "Its start takes about 20 seconds of processor time, so it gets twice `ready_timeout_s`.",
        "While it waits inside a call, its spinner takes a quarter of a core; parked, it takes none.",
        "If the user has set up no provider, opencode uses one of its free models over the network without asking.",
        "A chat of a squad continues only in the folder where it began; in another folder its run never ends.",
        "Its very first start creates its database, and two members that start at once fail. Start it once by hand.",
        "In a squad, any question it would ask ends its run with status 0 and no message.",
        "A squad's run that begins a chat has opencode's log in rawStderr, because only the log has the chat's id.",
        "With OPENCODE_PURE set it loads no plugin: the agent works, but it polls and is never parked.",
    ),
)
