"""Registers our server in a CLI as its user would, removes it, and reports its state. Reads and writes files.

All new texts are made before the first is written: if one file cannot be changed, none is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.base.errors import Conflict
from orchestrator.base.toolsets import DEFAULT_TOOLSETS, GSD
from orchestrator.edge import project_location
from orchestrator.engines.user_setup import UserSetup
from orchestrator.setup import cli_files, config_locations, entries, text_change
from orchestrator.setup.entries import EntryPart
from orchestrator.setup.jsonc import Unreadable
from orchestrator.setup.text_change import ChangeState, PartChange


@dataclass(frozen=True)
class FileChange:
    """What became of one file: its parts, and the copy kept of it. ``written`` is False in a dry run."""

    path: Path
    changes: tuple[PartChange, ...]
    written: bool = False
    backup: Path | None = None


@dataclass(frozen=True)
class PartState:
    """The state of one part in a CLI's configuration; ``program`` is the interpreter that it starts, if it is there.

    ``name`` is the name of an entry; ``toolsets`` are those it offers, if that can be determined.
    """

    part: str
    name: str
    path: Path
    state: ChangeState
    program: str = ""
    same: bool = False  # it starts this installation, in whatever form
    toolsets: tuple[str, ...] = ()


def parts_of(cli: UserSetup, toolsets: Sequence[str] = DEFAULT_TOOLSETS) -> tuple[EntryPart, list[EntryPart]]:
    """The entry and the hooks of this installation; with gsd alone the entry has a name of its own."""
    entry = entries.entry(cli, project_location.own_command("mcp"), toolsets)
    return entry, entries.hooks(cli, project_location.hook_command())


def settings_part() -> EntryPart:
    """The entry of gsd in the form of the GSD MCP architecture document, for a ``settings.json``."""
    return entries.settings_entry(project_location.own_command("mcp"))


def register(
    cli: UserSetup,
    env: Mapping[str, str],
    *,
    with_hooks: bool,
    toolsets: Sequence[str] | None = None,
    in_settings: bool = False,
    force: bool = False,
    dry: bool = False,
) -> list[FileChange]:
    """Add the entry, and the hooks if requested. Conflict ``entry_edited``, Environment ``config_unreadable``.

    ``toolsets`` are those it shall offer; None: those of the existing entry, or the default.
    ``in_settings``: `settings_part` instead.
    """
    entry, hooks = parts_of(cli, toolsets or DEFAULT_TOOLSETS)
    parts = [settings_part() if in_settings else entry, *(hooks if with_hooks else [])]
    return _work(cli, env, parts, keeps_list=toolsets is None, force=force, dry=dry)


def unregister(
    cli: UserSetup,
    env: Mapping[str, str],
    *,
    only_hooks: bool = False,
    toolsets: Sequence[str] | None = None,
    in_settings: bool = False,
    force: bool = False,
    dry: bool = False,
) -> list[FileChange]:
    """Take out what `register` put in, hooks too; errors as there.

    With ``toolsets`` only the entry that has their name, with ``in_settings`` only `settings_part`.
    """
    entry, hooks = parts_of(cli)
    alone = replace(parts_of(cli, (GSD,))[0], optional=toolsets is None)
    settings = [replace(settings_part(), optional=not in_settings)] if cli.gsd_in_settings else []
    if only_hooks:
        parts = hooks
    elif in_settings:
        parts = settings
    elif toolsets is None:
        parts = [*hooks, entry, alone, *settings]
    else:
        parts = [alone, *settings] if tuple(toolsets) == (GSD,) else [*hooks, entry]
    return _work(cli, env, parts, taking=True, force=force, dry=dry)


def look(cli: UserSetup, env: Mapping[str, str]) -> list[PartState]:
    """The state of the entry and each hook, and the existing entries of gsd. Environment ``config_unreadable``."""
    entry, hooks = parts_of(cli)
    gsd = [parts_of(cli, (GSD,))[0], *([settings_part()] if cli.gsd_in_settings else [])]
    out = []
    for part in (entry, *hooks, *(replace(gsd_part, optional=True) for gsd_part in gsd)):
        path = _file_of(cli, env, part)
        name = part.path[-1]
        try:
            text = cli_files.read(path).text
            wanted = _with_its_list(cli, text, part)
            file_part = text_change.look(cli, text, wanted)
        except Unreadable as error:
            raise cli_files.unreadable(path, error.line, error.reason) from error
        if file_part.state in ("absent", "foreign"):
            out += [] if part.optional else [PartState(part.what, name, path, "absent")]
            continue
        program, same = entries.program_of(part, file_part.value), entries.starts_same(wanted, file_part.value)
        toolsets = () if part.element else entries.toolsets_of(file_part.value) or ()
        out.append(PartState(part.what, name, path, file_part.state, program, same, toolsets))
    return out


def _with_its_list(cli: UserSetup, text: str | None, part: EntryPart) -> EntryPart:
    """The part with the toolsets of its existing entry, because no others were requested."""
    if part.what != "entry" or part.path[-1] == GSD:
        return part
    toolsets = entries.toolsets_of(text_change.look(cli, text, part).value)
    return replace(part, value=parts_of(cli, toolsets)[0].value) if toolsets else part


def _work(
    cli: UserSetup,
    env: Mapping[str, str],
    parts: list[EntryPart],
    *,
    taking: bool = False,
    keeps_list: bool = False,
    force: bool,
    dry: bool,
) -> list[FileChange]:
    by_file: dict[Path, list[EntryPart]] = {}
    for part in parts:
        by_file.setdefault(_file_of(cli, env, part), []).append(part)
    with contextlib.ExitStack() as locks:
        if not dry and cli.lock_stale_s:
            path = config_locations.server_file(cli, env)
            locks.enter_context(cli_files.directory_lock(path, cli.lock_stale_s))
        planned = [(cli_files.read(path), wanted) for path, wanted in by_file.items()]
        texts = [
            _changed(cli, original, wanted, taking=taking, keeps_list=keeps_list, force=force)
            for original, wanted in planned
        ]
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        out = []
        for (original, _), (text, changes) in zip(planned, texts, strict=True):
            if not changes:
                continue
            if text == original.text or dry:
                out.append(FileChange(original.path, changes))
            else:
                out.append(FileChange(original.path, changes, True, cli_files.write(original, text, stamp)))
        return out


def _changed(
    cli: UserSetup,
    original: cli_files.Original,
    parts: list[EntryPart],
    *,
    taking: bool,
    keeps_list: bool,
    force: bool,
) -> tuple[str | None, tuple[PartChange, ...]]:
    text, changes = original.text, []
    for part in parts:
        try:
            if taking:
                text, change = text_change.take(cli, text, part, force=force)
            else:
                wanted = _with_its_list(cli, text, part) if keeps_list else part
                text, change = text_change.put(cli, text, wanted, force=force)
        except Unreadable as error:
            raise cli_files.unreadable(original.path, error.line, error.reason) from error
        except Conflict as error:
            message = f"{original.path}: {error.message}"
            raise Conflict(error.code, message, error.next_step, file=str(original.path), **error.facts) from error
        if not (part.optional and change.action == "absent"):
            changes.append(change)
    return text, tuple(changes)


def _file_of(cli: UserSetup, env: Mapping[str, str], part: EntryPart) -> Path:
    return config_locations.hooks_file(cli, env) if part.in_settings else config_locations.server_file(cli, env)
