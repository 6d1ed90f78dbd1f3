"""Register our server as a CLI's own user would, take it out again, and say how it stands. Reads and writes files.

All new texts are made before the first is written: what one file refuses leaves the other as it was too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator import project
from orchestrator.errors import Conflict
from orchestrator.setup import change, entries, files, places
from orchestrator.setup.change import Change, State
from orchestrator.setup.entries import Cli, Part
from orchestrator.setup.jsonc import Unreadable

PASSED_ON = (
    "TMUX", "TMUX_PANE", "XDG_CONFIG_HOME", "ORCHESTRATOR_PROJECT", "ORCHESTRATOR_RUN_BASE", *project.PER_CONNECTION,
)  # fmt: skip
"""What our server reads of its environment, for a CLI that hands on nothing by itself."""


@dataclass(frozen=True)
class FileChange:
    """What became of one file: its parts, and the copy kept of it. ``written`` is False in a dry run."""

    path: Path
    changes: tuple[Change, ...]
    written: bool = False
    backup: Path | None = None


@dataclass(frozen=True)
class Seen:
    """How one part stands in a CLI's configuration; ``program`` is the interpreter it starts, if it is there."""

    part: str
    path: Path
    state: State
    program: str = ""
    same: bool = False  # it starts this installation, in whatever form


def parts_of(cli: Cli) -> tuple[Part, list[Part]]:
    """The entry and the hooks of this installation."""
    passed_on = [name for name in PASSED_ON if cli.name == "codex"]
    return entries.entry(cli, project.own_command("mcp"), passed_on), entries.hooks(cli, project.hook_command())


def register(
    cli: Cli, env: Mapping[str, str], *, with_hooks: bool, force: bool = False, dry: bool = False
) -> list[FileChange]:
    """Put the entry in, and the hooks if wanted. Conflict ``entry_edited``, Environment ``config_unreadable``."""
    entry, hooks = parts_of(cli)
    return _work(cli, env, [entry, *(hooks if with_hooks else [])], taking=False, force=force, dry=dry)


def unregister(
    cli: Cli, env: Mapping[str, str], *, only_hooks: bool = False, force: bool = False, dry: bool = False
) -> list[FileChange]:
    """Take out what `register` put in, hooks too; errors as there."""
    entry, hooks = parts_of(cli)
    return _work(cli, env, [*hooks, *([] if only_hooks else [entry])], taking=True, force=force, dry=dry)


def look(cli: Cli, env: Mapping[str, str]) -> list[Seen]:
    """How the entry and each hook stand. Environment ``config_unreadable``."""
    entry, hooks = parts_of(cli)
    out = []
    for part in (entry, *hooks):
        path = _file_of(cli, env, part)
        try:
            found = change.look(cli, files.read(path).text, part)
        except Unreadable as error:
            raise files.unreadable(path, error.line, error.reason) from error
        if found.state == "absent":
            out.append(Seen(part.what, path, "absent"))
        else:
            program = entries.program_of(part, found.value)
            out.append(Seen(part.what, path, found.state, program, entries.starts_same(part, found.value)))
    return out


def _work(
    cli: Cli, env: Mapping[str, str], parts: list[Part], *, taking: bool, force: bool, dry: bool
) -> list[FileChange]:
    by_file: dict[Path, list[Part]] = {}
    for part in parts:
        by_file.setdefault(_file_of(cli, env, part), []).append(part)
    with contextlib.ExitStack() as locks:
        if not dry and cli.name == "claude":
            locks.enter_context(files.claude_lock(places.server_file(cli, env)))
        planned = [(files.read(path), wanted) for path, wanted in by_file.items()]
        texts = [_changed(cli, original, wanted, taking=taking, force=force) for original, wanted in planned]
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        out = []
        for (original, _), (text, changes) in zip(planned, texts, strict=True):
            if text == original.text or dry:
                out.append(FileChange(original.path, changes))
            else:
                out.append(FileChange(original.path, changes, True, files.write(original, text, stamp)))
        return out


def _changed(
    cli: Cli, original: files.Original, parts: list[Part], *, taking: bool, force: bool
) -> tuple[str | None, tuple[Change, ...]]:
    text, changes = original.text, []
    for part in parts:
        try:
            if taking:
                text, one = change.take(cli, text, part, force=force)
            else:
                text, one = change.put(cli, text, part, force=force)
        except Unreadable as error:
            raise files.unreadable(original.path, error.line, error.reason) from error
        except Conflict as error:
            message = f"{original.path}: {error.message}"
            raise Conflict(error.code, message, error.next_step, file=str(original.path), **error.facts) from error
        changes.append(one)
    return text, tuple(changes)


def _file_of(cli: Cli, env: Mapping[str, str], part: Part) -> Path:
    return places.hooks_file(cli, env) if part.element else places.server_file(cli, env)
