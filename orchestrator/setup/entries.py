"""What setup puts into each CLI's configuration: the entry of our server and the turn-end hooks. Pure.

A value is known as ours by its form alone: it is what we would write for the program path it names. So an entry of
another installation is found too, and one that a user has changed is not taken for ours.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.base.public_names import AGENT_TOOLS, SERVER
from orchestrator.base.toolsets import DEFAULT_TOOLSETS, GSD, TOOLSETS
from orchestrator.edge.project_location import PER_CONNECTION
from orchestrator.engines.user_setup import CALL_LIMIT_S, UserSetup
from orchestrator.setup import jsonc, toml_text

MCP_TAIL = ["-P", "-m", "orchestrator", "mcp"]
CALL_TAIL = ["--call-limit", str(CALL_LIMIT_S)]  # for the daemon, which else goes by what the CLI does by itself
SETTINGS = "settings entry"
PASSED_ON = (
    "TMUX", "TMUX_PANE", "XDG_CONFIG_HOME", "ORCHESTRATOR_PROJECT", "ORCHESTRATOR_RUN_BASE", "ORCHESTRATOR_STATE_DIR",
    *PER_CONNECTION,
)  # fmt: skip
"""What our server reads of its environment, for a CLI that hands on nothing by itself."""


@dataclass(frozen=True)
class EntryPart:
    """One entry in one file: its place and its content. ``element``: one of the array at ``path``."""

    what: str  # "entry", "settings entry", or "hook <the CLI's event>"
    path: tuple[str, ...]
    value: Mapping[str, Any]
    element: bool = False
    optional: bool = False  # that it is not there is not worth a word

    @property
    def in_settings(self) -> bool:
        """Whether it is in the file of the CLI's settings, not in that of its servers."""
        return self.element or self.what == SETTINGS


def entry(cli: UserSetup, command: Sequence[str], toolsets: Sequence[str] = DEFAULT_TOOLSETS) -> EntryPart:
    """The master's entry, or that of gsd alone, which is named after its toolset and stands beside `SERVER`."""
    words = [*command, *_choice(toolsets), *(CALL_TAIL if cli.raises else ())]
    name = GSD if tuple(toolsets) == (GSD,) else SERVER
    return EntryPart("entry", (*cli.server_path, name), cli.server(words, PASSED_ON))


def settings_entry(command: Sequence[str]) -> EntryPart:
    """The entry of gsd as the GSD MCP architecture document has it (B3.6): in ``settings.json``, with an ``env``."""
    return EntryPart(SETTINGS, ("mcpServers", GSD), _documents([*command, *_choice((GSD,))]))


def chosen(text: str) -> tuple[str, ...] | None:
    """The toolsets of a list like ``team,gsd``; None if one is unknown, repeated or missing."""
    names = [name.strip() for name in text.split(",")]
    return tuple(names) if set(names) <= set(TOOLSETS) and len(set(names)) == len(names) else None


def toolsets_of(value: Any) -> tuple[str, ...] | None:
    """The toolsets that a server's entry offers; None if that cannot be determined."""
    words = server_words(value) if isinstance(value, Mapping) else None
    if words is None or "mcp" not in words:
        return None
    if "--toolsets" not in words:
        return None if any(word.startswith("--toolsets=") for word in words) else DEFAULT_TOOLSETS
    return chosen("".join(words[words.index("--toolsets") + 1 :][:1]))


def hooks(cli: UserSetup, command: Sequence[str]) -> list[EntryPart]:
    """The turn-end hook and its companions; none where the CLI has no hooks."""
    # Where the installation is gone, Python would end with 2, by which a hook blocks every prompt of the user's.
    line = f"test ! -f {shlex.quote(command[-1])} || exec {shlex.join(command)}"
    return [
        EntryPart(f"hook {event}", ("hooks", event), {"hooks": [_hook(cli, line, limit)]}, element=True)
        for event, limit in cli.hook_events.items()
    ]


def ours(cli: UserSetup, part: EntryPart, value: Any) -> bool:
    """Whether ``value`` in the place of ``part`` is what some installation of ours wrote there."""
    if not isinstance(value, Mapping):
        return False
    if part.element:
        words = hook_words(value)
        return words is not None and any(hook.value == value for hook in hooks(cli, words) if hook.path == part.path)
    words = server_words(value)
    if words is None:
        return False
    rest = words[1 + len(MCP_TAIL) :]
    if rest[:1] == ["--toolsets"] and chosen("".join(rest[1:2])) is not None:
        rest = rest[2:]
    # Older versions wrote no limit.
    if words[1 : 1 + len(MCP_TAIL)] != MCP_TAIL or rest not in ([], CALL_TAIL if cli.raises else []):
        return False
    return value == (_documents(words) if part.in_settings else cli.server(words, PASSED_ON))


def names_us(part: EntryPart, value: Any) -> bool:
    """Whether ``value`` starts something of ours, in whatever form."""
    if not isinstance(value, Mapping):
        return False
    if part.element:
        inner = value.get("hooks")
        return isinstance(inner, list) and any(_is_hook(hook) for hook in inner)
    words = server_words(value) or []
    return "mcp" in words and any("orchestrator" in word for word in words)


def program_of(part: EntryPart, value: Mapping[str, Any]) -> str:
    """The interpreter that an entry or hook starts; "" if that cannot be determined."""
    words = hook_words(value) if part.element else server_words(value)
    return words[0] if words else ""


def starts_same(part: EntryPart, value: Mapping[str, Any]) -> bool:
    """Whether ``value`` starts the very program that ``part`` would."""
    if part.element:
        return hook_words(value) == hook_words(part.value)
    wanted, words = server_words(part.value) or [], server_words(value) or []
    until = 1 + len(MCP_TAIL)  # how long a call may last does not say what is started
    return words[:until] == wanted[:until] and toolsets_of(value) == toolsets_of(part.value)


def server_words(server: Mapping[str, Any]) -> list[str] | None:
    """The command line of a server's entry; None if it has none."""
    command, args = server.get("command"), server.get("args", [])
    words = command if isinstance(command, list) else [command, *(args if isinstance(args, list) else [])]
    return [str(word) for word in words] if words and words[0] else None


def hook_words(group: Mapping[str, Any]) -> list[str] | None:
    """The command line of our hook in a group of hooks; None if it is not there."""
    inner = group.get("hooks")
    for hook in inner if isinstance(inner, list) else []:
        if _is_hook(hook):
            return _words(hook["command"])
    return None


def without_secrets(value: Any) -> Any:
    """The value with what a user may have put into an environment block masked."""
    if isinstance(value, Mapping):
        hidden = ("env", "environment", "headers")
        return {
            key: dict.fromkeys(inner, "***")
            if key in hidden and isinstance(inner, Mapping)
            else without_secrets(inner)
            for key, inner in value.items()
        }
    return [without_secrets(item) for item in value] if isinstance(value, list) else value


def shown(cli: UserSetup, part: EntryPart, value: Any) -> str:
    """The part as text in the form of the CLI's file, alone."""
    if cli.form == "toml":
        return toml_text.add("", part.path, value, element=part.element)
    return jsonc.add("", part.path, value, element=part.element)


def for_agents(cli: UserSetup, command: Sequence[str]) -> str:
    """What limits a CLI that a user starts as a sub-agent to its two tools, as text to copy."""
    value = cli.server(command, PASSED_ON)
    if cli.tool_filter:
        value[cli.tool_filter] = list(AGENT_TOOLS)
    part = EntryPart("entry", (*cli.server_path, SERVER), value)
    return cli.agent_snippet(shown(cli, part, value))


def _documents(words: list[str]) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:], "env": {}}


def _choice(toolsets: Sequence[str]) -> list[str]:
    return [] if tuple(toolsets) == DEFAULT_TOOLSETS else ["--toolsets", ",".join(toolsets)]


def _hook(cli: UserSetup, line: str, limit: int) -> dict[str, Any]:
    name = {"name": cli.hook_name} if cli.hook_name else {}
    return {"type": "command", **name, "command": line, "timeout": limit}


def _is_hook(hook: Any) -> bool:
    if not isinstance(hook, Mapping) or not isinstance(hook.get("command"), str):
        return False
    words = _words(hook["command"])
    return len(words) == 3 and words[1] == "-IS" and words[2].endswith("/orchestrator/hook.py")


def _words(line: str) -> list[str]:
    """The command of a hook after its guard; empty if the line is not such a command."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return words[6:] if words[:3] == ["test", "!", "-f"] and words[4:6] == ["||", "exec"] else words
