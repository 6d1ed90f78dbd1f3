"""What setup and doctor need of a CLI that can lead a team: its own files, the entry of our server, its login. Pure.

A CLI that `orchestrator setup` supports has a `UserSetup` in its engine. Nothing else in the product differs between
these CLIs when they are set up, so another one needs no change outside `engines/`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Env = Mapping[str, str]
Form = Literal["json", "toml"]

CALL_LIMIT_S = 600
"""How long an entry of ours lets one tool call run: above every long poll of ours."""
HOOK_LIMIT_S = 86_400
"""How long a turn-end hook may run: longer than any park, which a CLI's own default would end silently."""
NOTICE_LIMIT_S = 10
"""How long a hook may run that only reports to the daemon."""


class ConfigReader(Protocol):
    """Reads files of the user, which may be missing or invalid: setup implements it."""

    def size(self, path: str) -> int | None:
        """The bytes of a file, 0 for a directory and the like; None if there is nothing."""

    def text(self, path: str) -> str:
        """The content of a file; empty if it cannot be read."""

    def document(self, path: str) -> dict[str, Any]:
        """The table in a ``.toml`` file, or in a file of JSON with comments; empty if there is none."""


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True)
class UserSetup:
    """How the user of a CLI registers an MCP server and hooks with it, and what shows that the CLI is logged in.

    The functions get the user's environment, in which HOME is set, and return paths. ``login`` returns where a login
    was seen, in a few words without any secret; empty: nowhere. ``server`` makes the entry of an MCP server, with
    ``command`` and ``args``, from the server's command line and the variables that it reads. ``hook_events`` map the
    CLI's event names, which are keys below ``hooks``, to the time limit of our hook in the CLI's own unit.
    """

    title: str  # the CLI's name in a sentence
    form: Form  # of the files below
    server_file: Callable[[Env, ConfigReader], str]  # holds the MCP servers, existing or not
    server_path: tuple[str, ...]  # the keys below which the servers are
    server: Callable[[Sequence[str], Sequence[str]], dict[str, Any]]
    login: Callable[[Env, ConfigReader], str]
    variables: tuple[str, ...]  # name the places of its configuration
    hooks_file: Callable[[Env], str] | None = None  # holds the hooks, existing or not; None: ``server_file``
    hook_events: Mapping[str, int] = field(default_factory=dict)
    hook_name: str = ""  # what the CLI shows while our hook runs; "": it takes no name
    raises: bool = True  # the entry's limit is the one that cuts a call
    tool_filter: str = ""  # the key of an entry that limits the tools of its server; "": there is none
    agent_snippet: Callable[[str], str] = _unchanged  # from a sub-agent's entry as text to all that its user needs
    lock_stale_s: float = 0.0  # a directory that locks `server_file` is ignored after this; 0: the CLI locks nothing
    gsd_in_settings: bool = False  # tools that follow the GSD MCP architecture document read gsd from ``hooks_file``
    notes: tuple[str, ...] = ()  # for whoever registers our server
    hook_notes: tuple[str, ...] = ()  # for whoever adds the hooks
    settings_notes: tuple[str, ...] = ()  # for whoever writes gsd into ``hooks_file``


def in_home(env: Env, *names: str) -> str:
    """The path below the user's home directory."""
    return posixpath.join(env.get("HOME") or "/", *names)


def table(tables: Any, *keys: str) -> dict[str, Any]:
    """The table at those keys of a document that may have any content; empty if there is no table."""
    for key in keys:
        tables = tables.get(key) if isinstance(tables, dict) else None
    return tables if isinstance(tables, dict) else {}


def set_variable(env: Env, *names: str) -> str:
    """The first of these variables that is set, as ``$NAME``; empty if none is."""
    return next((f"${name}" for name in names if env.get(name)), "")


def filled_file(files: ConfigReader, *paths: str) -> str:
    """The first of these files that has content; empty if none has."""
    return next((path for path in paths if files.text(path).strip()), "")
