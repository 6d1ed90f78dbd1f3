"""Which files of a project say something that acts, and whether the user has allowed it. Reads only, runs nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orchestrator.base.errors import BadRequest
from orchestrator.config import sources
from orchestrator.roles import catalogue
from orchestrator.roles.role_files import printable
from orchestrator.squad import command_template, squad_settings
from orchestrator.team.roster import team_file
from orchestrator.trust.allowed import CONTENT_MAX, Allowed, name_of

FILES_SHOWN = 100
BYTES_SHOWN = 1 << 20
"""As much is shown at once: the rest is asked for after that."""

ActingKind = Literal["config", "team", "role", "template"]


@dataclass(frozen=True)
class ActingFile:
    """A file of the project that says something that acts: its name there, its content, the keys and their values."""

    name: str
    kind: ActingKind
    content: bytes = field(repr=False)
    keys: dict[str, Any]


@dataclass(frozen=True)
class UnusableFile:
    """A file that may say something that acts and that cannot be allowed, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class PendingFiles:
    """What is not allowed yet: the part that is shown now, how many files are ``left``, what cannot be allowed."""

    files: tuple[ActingFile, ...]
    problems: tuple[UnusableFile, ...] = ()
    left: int = 0


def pending_files(
    root: Path, *, templates: Iterable[str] = (), teams: Iterable[str] = (), only: Collection[str] | None = None
) -> PendingFiles:
    """What of the project acts and is not allowed: settings, team file, roles, templates.

    ``templates`` and ``teams`` are names of files beyond those that are used by custom; ``only``: no other files.
    """
    allowed = Allowed(root)
    files: list[ActingFile] = []
    problems: list[UnusableFile] = []
    left = size = 0
    for file in _all(root, templates, teams):
        if only is not None and file.name not in only:
            continue
        if isinstance(file, UnusableFile):
            problems.append(file)
        elif not file.keys or allowed.counts(file.name, file.content):
            continue
        elif len(file.content) > CONTENT_MAX:
            problems.append(
                UnusableFile(file.name, f"has more than {CONTENT_MAX} bytes, too many to be looked through")
            )
        elif len(files) >= FILES_SHOWN or size + len(file.content) > BYTES_SHOWN:
            left += 1
        else:
            files.append(file)
            size += len(file.content)
    return PendingFiles(tuple(files), tuple(problems[:FILES_SHOWN]), left)


def _all(root: Path, templates: Iterable[str], teams: Iterable[str]) -> Iterator[ActingFile | UnusableFile]:
    yield from _acting_file(root, sources.PROJECT_FILE, "config")
    for name in dict.fromkeys((team_file.TEAM_FILE, *teams)):
        yield from _acting_file(root, name, "team")
    with contextlib.suppress(BadRequest):
        yield from (ActingFile(*role) for role in _roles(root))
    for name in dict.fromkeys((*squad_settings.customary(), *templates)):
        yield from _acting_file(root, name, "template")


def _roles(root: Path) -> Iterator[tuple[str, ActingKind, bytes, dict[str, Any]]]:
    for name, content, role in catalogue.own(root):
        yield name, "role", content, dict(role.acting)


def _acting_file(root: Path, name: str, kind: ActingKind) -> Iterator[ActingFile | UnusableFile]:
    path = root / name
    if not os.path.lexists(path) or name_of(root, path) != name:
        return
    if printable(name) != name:
        yield UnusableFile(printable(name), "has a name that is not UTF-8")
        return
    try:
        content, keys = _READ[kind](path, name)
    except BadRequest as error:
        yield UnusableFile(name, printable(error.message.replace("\n ", "")))
        return
    if content is not None:
        yield ActingFile(name, kind, content, keys)


def _config(path: Path, _name: str) -> tuple[bytes | None, dict[str, Any]]:
    content = sources.content_of(path)
    return content, sources.acting_of(path, content or b"")


def _team(path: Path, _name: str) -> tuple[bytes | None, dict[str, Any]]:
    content = team_file.content_of(path)
    return content, team_file.acting_of(path, content)


def _template(path: Path, name: str) -> tuple[bytes | None, dict[str, Any]]:
    content = squad_settings.content_of(path, name)
    try:
        read = command_template.load(content.decode("utf-8-sig"), where=name)
    except UnicodeDecodeError:
        raise BadRequest("bad_template", f"the template {name} is not UTF-8") from None
    return content, {"template": "a script for a shell" if read.shell else "a command line"}


_READ = {"config": _config, "team": _team, "template": _template}
