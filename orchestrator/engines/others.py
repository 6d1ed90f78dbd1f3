"""The engines that need little code: our worker, any command line, and two CLIs known only from their docs."""

from __future__ import annotations

import json

from orchestrator.base.public_names import SERVER
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.core.prompts import render
from orchestrator.engines.definition import Engine, Headless, HeadlessCommand, HeadlessRun, Launch, PreparedLaunch
from orchestrator.engines.headless_chats import ANY, chat_id

PROMPT_FILE = "prompt.md"
MCP_FILE = "mcp.json"


def prompt_of(launch: Launch) -> str:
    """Rules and first message as one text, for a CLI that has no system level of its own."""
    return launch.again if launch.resume else f"{launch.rules}\n\n{launch.first}"


def _shell(launch: Launch) -> PreparedLaunch:
    return PreparedLaunch(argv=(*launch.own, "worker"))


def _command(launch: Launch) -> PreparedLaunch:
    """Fill the argv template; its words are documented in docs/engines.md."""
    text = prompt_of(launch)
    ours = {name: value for name, value in launch.env.items() if name.startswith("ORCHESTRATOR_")}
    server = {"command": launch.mcp[0], "args": list(launch.mcp[1:]), "env": ours}
    values = {
        "prompt": text,
        "prompt_file": f"{launch.engine_dir}/{PROMPT_FILE}",
        "mcp": json.dumps(list(launch.mcp)),
        "mcp_file": f"{launch.engine_dir}/{MCP_FILE}",
        "engine_dir": launch.engine_dir,
        "agent_id": launch.agent_id,
        "role": launch.role,
        "model": launch.model or "",
        "project": launch.project,
        "cwd": launch.cwd,
    }
    return PreparedLaunch(
        argv=tuple(render(word, values) for word in launch.command),
        env={"ORCHESTRATOR_AGENT_MCP": json.dumps(list(launch.mcp))},
        files={PROMPT_FILE: text + "\n", MCP_FILE: json.dumps({"mcpServers": {SERVER: server}}, indent=2)},
    )


def _registered(launch: Launch, argv: tuple[str, ...]) -> PreparedLaunch:
    """A CLI without a flag for MCP servers: its user has registered ours; identity and prompt are the agent's."""
    return PreparedLaunch(argv=argv, env={"ORCHESTRATOR_AGENT_MCP": json.dumps(list(launch.mcp))})


def _cursor(launch: Launch) -> PreparedLaunch:
    argv = ["cursor-agent", "--approve-mcps"]
    if launch.model:
        argv += ["--model", launch.model]
    if launch.approval == "all":
        argv.append("--force")
    if launch.trust:
        argv.append("--trust")
    return _registered(launch, (*argv, "--", prompt_of(launch)))


def _cursor_run(once: HeadlessRun) -> HeadlessCommand:
    argv = ["cursor-agent", "--print", "--output-format", "text"]
    if once.model:
        argv.append(f"--model={once.model}")
    if once.approval == "all":
        argv += ["--force", "--approve-mcps"]
    if once.trust:
        argv.append("--trust")
    if once.chat:
        argv += ["--resume", chat_id(once.chat, ANY, "Cursor's agent CLI")]
    return HeadlessCommand((*argv, "--", once.prompt))


def _antigravity(launch: Launch) -> PreparedLaunch:
    argv = ["agy"]
    if launch.model:
        argv += ["--model", launch.model]
    if launch.approval == "all":
        argv.append("--dangerously-skip-permissions")
    return _registered(launch, (*argv, "--prompt-interactive", prompt_of(launch)))


SHELL = Engine(
    name="shell",
    prepare=_shell,
    tool_limit_s=600.0,
    min_pane=(30, 5),
    about="our worker: runs each task's shell command visibly in its pane",
    on_pane_closed="cancel",
    takes="command",
    no_usage=NO_MODEL,
    limits=("Every user of the machine can read a task's command in `ps`, unless the task is private.",),
)

COMMAND = Engine(
    name="command",
    prepare=_command,
    tool_limit_s=60.0,  # the shortest known limit of any CLI; no CLI is known to extend it for progress notifications
    about="any other CLI: an argv template that you write",
    models=True,
)


def _limits(config: str, approval: str) -> tuple[str, ...]:
    """What does not work with a CLI that is known from its pages only, and has a configuration file of that name."""
    return (
        "Known only from its published flags: never run with this version of orchestrator.",
        f"It takes no MCP server by flag: register `orchestrator` in its {config}, with its environment passed on.",
        approval,
        "It cannot be parked: an idle agent polls, which costs a model turn each time.",
        "A restarted agent begins a new conversation, because the id of the old conversation is not known.",
        'Approval "edits" is the same as "ask".',
    )


CURSOR = Engine(
    name="cursor",
    prepare=_cursor,
    program="cursor-agent",
    about="Cursor's agent CLI, untested",
    tested=False,
    tool_limit_s=60.0,
    models=True,
    headless=Headless(run=_cursor_run, chats="created", create=("cursor-agent", "create-chat"), sequential=True),
    limits=_limits("mcp.json", "All MCP servers of that file are approved, because the flag takes no server names."),
)

ANTIGRAVITY = Engine(
    name="antigravity",
    prepare=_antigravity,
    program="agy",
    about="Google's Antigravity CLI, untested",
    tested=False,
    tool_limit_s=60.0,
    models=True,
    limits=_limits(
        "mcp_config.json", "It asks before each call of our tools, unless they are approved in that file."
    ),
)
