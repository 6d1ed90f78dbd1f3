"""Finds what is wrong or without effect in roles, for their authors. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.base.toolsets import READ_ONLY
from orchestrator.engines.definition import APPROVALS, Engine
from orchestrator.roles.catalogue import Role, RoleListing
from orchestrator.roles.heads import names_of
from orchestrator.roles.role_files import OWN

READ = ("name", "description")
HEEDED = (*READ, "toolsets")
"""Keys that are heeded in every folder."""


@dataclass(frozen=True)
class LintFinding:
    """One finding on one file.

    ``kind``: ``broken`` (it cannot be used), ``by_line`` (its frontmatter is no YAML), ``empty`` (no instructions),
    ``odd`` (an invalid value), ``untrusted`` (an acting ``key`` that is not allowed), ``shadowed`` (a file of a
    higher source counts), ``ignored`` (a ``key`` without effect for the ``engines``, or for all).
    """

    kind: Literal["broken", "by_line", "empty", "odd", "untrusted", "shadowed", "ignored"]
    role: str
    file: str
    message: str
    key: str = ""
    engines: tuple[str, ...] = ()


def findings(listing: RoleListing, engines: Iterable[Engine]) -> list[LintFinding]:
    """All there is to say, the gravest first; of ``engines`` those count that can run a role headless."""
    out = [LintFinding("broken", broken.id, broken.file, broken.reason) for broken in listing.broken]
    runs = tuple(engine for engine in engines if engine.headless is not None)
    for role in listing.roles.values():
        out += _of(role)
    out += [
        LintFinding("shadowed", shadowed.id, shadowed.file, f"is hidden by {shadowed.by}, which takes precedence")
        for shadowed in listing.shadowed
    ]
    for role in listing.roles.values():
        out += _ignored(role, runs)
    return out


def _of(role: Role) -> list[LintFinding]:
    out = []
    if role.by_line:
        why = f"has a frontmatter that is not YAML and was read line by line ({role.by_line})"
        out.append(LintFinding("by_line", role.id, role.file, why))
    if not role.body:
        out.append(LintFinding("empty", role.id, role.file, "has no instructions: a member would only get its task"))
    for key in (*READ, "model", "approval"):
        value = role.keys.get(key)
        wrong = ""
        if value is not None and not isinstance(value, str):
            wrong = "is not a string"
        elif key == "approval" and value and role.source == OWN and not (role.approval or role.withheld):
            wrong = f"is not one of {', '.join(APPROVALS)}"
        elif key == "model" and value and value.strip().lower() not in ("", "inherit") and role.model is None:
            wrong = "is not the name of a model"
        if wrong:
            out.append(LintFinding("odd", role.id, role.file, f"has a {key} that {wrong}, so it has no effect", key))
    out += [
        LintFinding(
            "untrusted",
            role.id,
            role.file,
            f"sets {key}, which has no effect until you allow it (orchestrator trust)",
            key,
        )
        for key in role.withheld
    ]
    toolsets = role.keys.get("toolsets")
    others = [name for name in names_of(toolsets) if name not in READ_ONLY]
    if others or (toolsets not in (None, "", []) and not names_of(toolsets)):
        names = ", ".join(map(repr, others)) or "no names"
        why = f"names toolsets that no agent gets: {names}; those it can get: {', '.join(READ_ONLY)}"
        out.append(LintFinding("odd", role.id, role.file, why, "toolsets"))
    if role.keys.get("description") in (None, ""):
        why = "has no description: list_roles shows nothing to choose it by"
        out.append(LintFinding("odd", role.id, role.file, why, "description"))
    return out


def _ignored(role: Role, engines: tuple[Engine, ...]) -> list[LintFinding]:
    out = []
    for key, value in role.keys.items():
        if key in HEEDED or value in (None, "") or (key == "approval" and role.source == OWN):
            continue
        if key == "model":
            if role.model is None:
                continue
            by = tuple(engine.name for engine in engines if not role.names_models_of(engine))
            if not by and engines:
                continue
            whom = "every engine" if len(by) == len(engines) else ", ".join(by)
        else:
            by, whom = tuple(engine.name for engine in engines), "every engine"
        out.append(LintFinding("ignored", role.id, role.file, f"sets {key}, which is ignored by {whom}", key, by))
    return out
