"""How commands are listed and looked up: help in sections, daily commands first, and which command a word means."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

SECTIONS: dict[str, tuple[str, ...]] = {
    "Every day": (
        "up", "down", "top", "status", "why", "agent", "task", "logs", "peek", "attach", "diff", "merge", "runs",
        "web",
    ),
    "Questions of agents": ("inbox", "approve", "deny", "answer", "release", "dismiss", "approvals"),
    "Records": ("report", "events", "broadcast"),
    "Other work": ("squad", "spawn", "gsd", "worktree", "roles"),
    "Set-up": ("setup", "doctor", "trust", "config", "demo"),
    "Upkeep": ("daemon", "gc", "verify", "schema", "version"),
}  # fmt: skip
"""The commands of the top level in the order of the help; what is in no section is not listed."""

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
    """The top level: its help has sections."""

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
                if not self.commands[name].hidden
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


def hide(app: typer.Typer, *names: str) -> None:
    """Leave these commands of a group out of its help: other programs start them."""
    for command in app.registered_commands:
        if command.name in names:
            command.hidden = True
