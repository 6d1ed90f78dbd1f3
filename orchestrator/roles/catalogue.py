"""The roles of a project: which there are, from where, and which files cannot be used. Reads only, keeps nothing.

A role's id is a file's name without its ending. Ids are looked up among those found and never made into a path.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.base.toolsets import READ_ONLY
from orchestrator.engines.definition import APPROVALS, Engine
from orchestrator.roles import heads, role_files
from orchestrator.roles.heads import UnusableRole
from orchestrator.roles.role_files import OWN, Folder
from orchestrator.trust.allowed import Allowed, Class

VARIABLE, ALIAS = "AGENTS_DIRECTORY_PATH", "SQUAD_AGENTS_DIR"
KEYS: Mapping[str, Class] = {
    "name": "harmless",
    "description": "harmless",
    "model": "harmless",  # a name, never an option (`_MODEL`)
    "toolsets": "harmless",  # those that only read
    "approval": "acting",
    "developer_instructions": "harmless",  # the body, in a Codex agent's file
}
"""Every frontmatter key that the code reads, and what it may do. Others are read by nobody."""
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+ \[\]-]{0,127}")  # never what a CLI takes for an option


@dataclass(frozen=True)
class Role:
    """A role that can be used; immutable.

    ``source`` is its folder (``.claude/agents``, ``shipped``, or the directory as given), ``file`` the name of its
    file for humans, ``keys`` its frontmatter. ``by_line`` is the reason if that was read line by line. ``allowed``:
    the user has allowed its acting keys.
    """

    id: str
    name: str
    description: str
    body: str
    source: str
    file: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    by_line: str = ""
    allowed: bool = False

    def model_for(self, engine: Engine) -> str | None:
        """The model that the role names for this engine; None: the engine's default.

        A model's name is known to one CLI only, so names from another CLI's folder do not count.
        """
        return self.model if self.names_models_of(engine) else None

    def names_models_of(self, engine: Engine) -> bool:
        """Whether a ``model`` of this role is meant for that engine: of our folder, or of the engine's own."""
        own = engine.role_folder
        return self.source == OWN or (own is not None and f"/{self.source}".endswith(f"/{own.path}"))

    @property
    def model(self) -> str | None:
        """The ``model`` that its file names, for any engine; None if it has none, ``inherit``, or an invalid name."""
        name = heads.text_of(self.keys.get("model"))
        return name if _MODEL.fullmatch(name) and name.lower() != "inherit" else None

    @property
    def approval(self) -> str | None:
        """What a CLI in this role may do without asking (ask, edits, all); None: not set, or it does not count.

        It counts only in ``.agents/roles``, and more than ``ask`` only if the user has allowed it.
        """
        return None if self.withheld else self._approval or None

    @property
    def acting(self) -> dict[str, str]:
        """The keys of the role that can permit something, and their values: they count once the user allowed them."""
        settings = {"approval": self._approval} if self._approval else {}
        return {key: value for key, value in settings.items() if KEYS[key] == "acting" and value != "ask"}

    @property
    def withheld(self) -> tuple[str, ...]:
        """The acting keys of the role that do not count, because the user has not allowed its file."""
        return () if self.allowed else tuple(self.acting)

    @property
    def _approval(self) -> str:
        approval = heads.text_of(self.keys.get("approval"))
        return approval if self.source == OWN and approval in APPROVALS else ""

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that an agent in this role gets besides its own two tools; they only read: any folder counts.

        Other names do not count; `lint` reports them.
        """
        named = heads.names_of(self.keys.get("toolsets"))
        return tuple(name for name in READ_ONLY if name in named)


@dataclass(frozen=True)
class BrokenRole:
    """A file that cannot be used; ``reason`` continues a sentence that begins with its name.

    With an empty ``id`` it is a folder that could not be listed: it may contain any role.
    """

    id: str
    file: str
    reason: str


@dataclass(frozen=True)
class ShadowedRole:
    """A file that does not count, because the one called ``by`` is nearer."""

    id: str
    file: str
    by: str


@dataclass(frozen=True)
class RoleListing:
    """All roles by id, nearest source first, and what cannot be used; immutable."""

    roles: Mapping[str, Role]
    broken: tuple[BrokenRole, ...] = ()
    shadowed: tuple[ShadowedRole, ...] = ()

    def role(self, role_id: str) -> Role:
        """The role of that id; BadRequest ``bad_role`` with the reason when it is broken, else ``unknown_role``."""
        role = self.roles.get(role_id)
        if role is not None:
            return role
        for broken in self.broken:
            if broken.id in (role_id, ""):
                raise _bad(broken)
        near = difflib.get_close_matches(role_id[:128], self.roles, n=3, cutoff=0.5)
        step = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise BadRequest("unknown_role", f"no role has the id {role_id[:128]!r}", step, role=role_id[:128], near=near)


def read(root: Path, directory: str = "") -> RoleListing:
    """Every role of the project, or of ``directory`` alone (relative to the root; ``~`` is the user's home).

    A bad file affects only itself, and still shadows the files of its id in lower sources. BadRequest ``bad_config``
    if the directory cannot be read.
    """
    roles: dict[str, Role] = {}
    broken: list[BrokenRole] = []
    shadowed: list[ShadowedRole] = []
    holders: dict[str, str] = {}
    allowed = Allowed(root)
    for file in _files(role_files.folders(root, directory)):
        if isinstance(file, BrokenRole):
            broken.append(file)
            continue
        folder, name, role_id = file
        shown = folder.shown(name)
        if role_id in holders:
            shadowed.append(ShadowedRole(role_id, shown, holders[role_id]))
            continue
        role = _read(folder, name, role_id, allowed)
        if role is None:
            continue
        holders[role_id] = shown
        if isinstance(role, BrokenRole):
            broken.append(role)
        else:
            roles[role_id] = role
    return RoleListing(MappingProxyType(roles), tuple(broken), tuple(shadowed))


def body(root: Path, role: str) -> str:
    """The role's text from the project's folders or the shipped ones, without frontmatter; empty for a label.

    BadRequest ``bad_role`` when its file cannot be used: an agent without its rules would be worse than none.
    """
    unlisted: BrokenRole | None = None
    allowed = Allowed(root)
    for file in _files(role_files.folders(root)):
        if isinstance(file, BrokenRole):
            unlisted = unlisted or file
        elif file[2] == role:
            candidate = _read(*file, allowed)
            if isinstance(candidate, BrokenRole):
                raise _bad(candidate)
            if candidate is not None:
                return candidate.body
    if unlisted is not None:
        raise _bad(unlisted)
    return ""


def directory_of(env: Mapping[str, str]) -> tuple[str, str]:
    """The directory that the environment names, and a warning when its two variables differ; each may be empty."""
    named, alias = env.get(VARIABLE, ""), env.get(ALIAS, "")
    differ = named and alias and named != alias
    return named or alias, f"{VARIABLE} and {ALIAS} differ: {VARIABLE} counts" if differ else ""


def _files(places: tuple[Folder, ...]) -> Iterator[tuple[Folder, str, str] | BrokenRole]:
    """Each file as (folder, name, id), nearest folder first; a folder that cannot be listed as Broken."""
    for folder in places:
        try:
            names = role_files.names(folder)
        except OSError as error:
            yield BrokenRole("", folder.label, f"cannot be listed: {error.strerror}")
            continue
        yield from ((folder, name, name.removesuffix(folder.ending)) for name in names)


def own(root: Path) -> Iterator[tuple[str, bytes, Role]]:
    """The roles of the project that could act: each file's name in the project, its content, the role."""
    for file in _files(tuple(folder for folder in role_files.folders(root) if folder.label == OWN)):
        if isinstance(file, BrokenRole):
            continue
        folder, name, role_id = file
        with contextlib.suppress(FileNotFoundError, UnusableRole):
            content = role_files.content(folder, name)
            role = _parsed(folder, name, role_id, content)
            if isinstance(role, Role):
                yield role.file, content, role


def _read(folder: Folder, name: str, role_id: str, allowed: Allowed) -> Role | BrokenRole | None:
    """One file; None when it has gone since it was listed."""
    try:
        content = role_files.content(folder, name)
    except FileNotFoundError:
        return None
    except UnusableRole as error:
        return BrokenRole(role_files.printable(role_id), folder.shown(name), str(error))
    role = _parsed(folder, name, role_id, content)
    # Asked only of roles that act, with the very bytes that were parsed.
    if isinstance(role, Role) and role.acting and allowed.counts(role.file, content):
        return replace(role, allowed=True)
    return role


def _parsed(folder: Folder, name: str, role_id: str, content: bytes) -> Role | BrokenRole:
    """What the content of a file says, nothing of it allowed."""
    shown = folder.shown(name)
    if role_files.printable(role_id) != role_id:
        return BrokenRole(role_files.printable(role_id), shown, "has a name that is not UTF-8")
    try:
        text = role_files.text(content)
        head = heads.toml(text) if folder.ending == ".toml" else heads.markdown(text)
    except UnusableRole as error:
        return BrokenRole(role_id, shown, str(error))
    return Role(
        id=role_id,
        name=heads.text_of(head.keys.get("name")) or role_id,
        description=heads.text_of(head.keys.get("description")),
        body=head.body,
        source=folder.label,
        file=shown,
        keys=head.keys,
        by_line=head.by_line,
    )


def _bad(broken: BrokenRole) -> BadRequest:
    return BadRequest("bad_role", f"{broken.file} {broken.reason}", role=broken.id, file=broken.file)
