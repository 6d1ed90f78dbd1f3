"""How commands are listed, looked up and loaded: help in sections, and which command a word means.

All help but a command's own needs no other module: what is listed here is compared with the commands by a test.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Every day": {
        "up": ("team", "Make this window's team what its file describes."),
        "down": ("team", "End the whole team."),
        "top": ("top", "Show the team live, and answer, look and give work there."),
        "status": ("status", "Show each agent on one line, those that need you first."),
        "why": ("why", "Explain the state of an agent or task."),
        "agent": ("agents", "Create, list, show, restart and delete agents."),
        "task": ("tasks", "Queue, cancel, list and show tasks."),
        "logs": ("logs", "Print what an agent has put out."),
        "peek": ("agent_panes", "Print what an agent's pane shows now, as text."),
        "attach": ("agent_panes", "Go to an agent's pane and zoom it."),
        "diff": ("worktree_changes", "Show what an agent changed in its worktree."),
        "merge": ("worktree_changes", "Merge an agent's commits into the project's branch."),
        "runs": ("team_runs", "List the team runs with their totals, the newest last."),
        "web": ("web", "Serve the team as web pages on this machine until Ctrl-C."),
    },
    "Questions of agents": {
        "inbox": ("inbox", "Show what waits for you: permissions, logins, errors."),
        "approve": ("inbox", "Allow what an agent asks for, once."),
        "deny": ("inbox", "Refuse what an agent asks for."),
        "answer": ("inbox", "Answer an agent's question."),
        "release": ("inbox", "Let the agent's own pane ask instead."),
        "dismiss": ("inbox", "Take an error, a conflict or a budget off the inbox."),
        "approvals": ("standing_rules", "Show and remove the rules that approve --always made."),
    },
    "Records": {
        "report": ("report", "Write a report of a team run as one page."),
        "events": ("events", "Print the events of an agent."),
        "broadcast": ("events", "Print the digest of a team run."),
    },
    "Other work": {
        "squad": ("squad", "Run squads: CLIs that do one task each, without a pane."),
        "spawn": ("spawn", "Create and follow spawn runs, graphs of model calls."),
        "gsd": ("gsd", "Ask a project about its plans and its code."),
        "worktree": ("worktree", "List, check and remove the git worktrees of agents."),
        "roles": ("roles", "List, show and check the roles of agents and squad members."),
    },
    "Many hosts": {
        "fleet": ("fleet", "One team on several machines: its database, and this host."),
        "host": ("host", "Add, list, check, drain and remove the machines of the fleet."),
    },
    "Set-up": {
        "setup": ("setup", "Register the server with an AI CLI, for the user."),
        "doctor": ("doctor", "Check everything a team needs."),
        "trust": ("trust", "Allow what files of this project may do: settings, team, roles."),
        "config": ("config", "Show the settings and their sources."),
        "demo": ("programs", "Run a team of three shell agents on real tasks."),
    },
    "Upkeep": {
        "daemon": ("daemon", "Control the daemon, which owns the files of this project."),
        "gc": ("gc", "List the leftovers of past work; with --apply remove them."),
        "verify": ("verify", "Check that the records of the team are complete and consistent."),
        "schema": ("schema", "Print a JSON Schema of our files."),
        "version": ("programs", "Show the version."),
    },
}
"""The commands of the top level in the order of the help; of each its module in this package, and its line."""

UNLISTED = {
    "mcp": ("programs", "Serve MCP on stdin and stdout."),
    "launch": ("programs", "Become an agent's CLI in its pane."),
    "worker": ("programs", "Run the tasks of a shell agent."),
}
"""Commands that other programs start, in the same form."""

COMMANDS = {name: row for section in (*SECTIONS.values(), UNLISTED) for name, row in section.items()}

INSTEAD = {
    "allow": ("approve", "trust"),
    "reject": ("deny",),
    "questions": ("inbox",),
    "permissions": ("inbox", "approvals list"),
    "rules": ("approvals list",),
    "ls": ("agent list", "status"),
    "list": ("agent list", "task list"),
    "agents": ("agent list",),
    "ps": ("status",),
    "log": ("logs",),
    "watch": ("top", "status --watch"),
    "show": ("status", "task show"),
    "screen": ("peek",),
    "tail": ("events --follow",),
    "tasks": ("task list",),
    "add": ("task add",),
    "run": ("task add", "squad run"),
    "new": ("agent create",),
    "create": ("agent create",),
    "start": ("up", "daemon start"),
    "stop": ("down", "daemon stop"),
    "restart": ("agent restart", "daemon restart"),
    "rm": ("agent delete",),
    "delete": ("agent delete",),
    "kill": ("agent delete", "task cancel"),
    "cancel": ("task cancel",),
    "init": ("setup", "up"),
    "install": ("setup",),
    "clean": ("gc",),
    "prune": ("gc", "up --prune"),
}
"""What people type for a command of the top level -> the commands that do it."""

SYNONYMS = (
    {"ls", "list"},
    {"rm", "remove", "delete", "del"},
    {"new", "create", "add", "enqueue"},
    {"show", "get", "info", "inspect"},
    {"stop", "cancel", "kill", "abort"},
)
"""Words for the same thing in the groups below."""


class CommandGroup(TyperGroup):
    """A group whose error for an unknown word names the command that was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word; a usage error that suggests another one if there is none."""
        word = args[0] if args else ""
        if word not in self.commands and (meant := self.meant(word)):
            quoted = " or ".join(f"'{name}'" for name in meant)
            ctx.fail(f"No such command {word!r}. Did you mean {quoted}?")
        return super().resolve_command(ctx, args)

    def meant(self, word: str) -> tuple[str, ...]:
        """The commands of this group that the word may mean; empty if none is known."""
        same: set[str] = set().union(*(words for words in SYNONYMS if word in words))
        return tuple(name for name in self.commands if name in same)


class TopGroup(CommandGroup):
    """The top level: its help has sections, and a command's module is loaded when the command is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, line) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=line, hidden=name in UNLISTED, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word, loaded; a usage error that suggests another one if there is none."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and loaded(name), rest

    def meant(self, word: str) -> tuple[str, ...]:
        """The commands, with their group, that the word may mean; empty if none is known."""
        return INSTEAD.get(word, ())

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """List the commands of each section with one line each."""
        width = max(len(name) for names in SECTIONS.values() for name in names)
        for title, names in SECTIONS.items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - width - 6))
                for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


@functools.cache
def loaded(name: str) -> Any:
    """The command or group of this name of the top level, with all it has; loads its module."""
    module = importlib.import_module(f"orchestrator.cli.{COMMANDS[name][0]}")
    top = typer.Typer(rich_markup_mode=None)
    if hasattr(module, "add_to"):
        module.add_to(top)
    else:
        top.add_typer(module.app, name=name)
    return typer.main.get_group(top).commands[name]
