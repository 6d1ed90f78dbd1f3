"""`[fleet]` in a project's configuration as text: put in, and taken out. Pure; every other byte stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.config.fleet_values import dsn_parts
from orchestrator.setup import toml_text
from orchestrator.setup.jsonc import Unreadable

SECTION = "fleet"
NAMES = ("dsn", "project", "host")
"""The keys that make a host; the others of the section are the user's."""
_NO_LOGIN = {"user": "", "passfile": ""}


def with_fleet(text: str, values: Mapping[str, str], accepted: Sequence[str] = ()) -> str:
    """The text with ``[fleet]``, and ``[fleet.accept]`` for the hosts ``accepted``; unchanged if it is there already.

    A host that comes back under a new role gets the DSN of that role. Conflict ``other_fleet`` if it makes this
    project another host, BadRequest ``bad_config`` if its form forbids it.
    """
    section = _section(text)
    if section is not None:
        if not _same_host(section, values):
            raise Conflict(
                "other_fleet", f"the project is host {section.get('host')!r} of {section.get('project')!r}"
            )
        if section["dsn"] != values["dsn"]:
            text = _with_dsn(text, section, values["dsn"])
        accept = section.get("accept")
        there = accept.get("hosts", []) if isinstance(accept, Mapping) else []
        if set(accepted) - {*there}:
            step = f"add them by hand to [fleet.accept]: hosts = {sorted({*there, *accepted})}"
            raise Conflict("other_fleet", "[fleet] is there already and does not accept the adding host", step)
        return text
    value: dict[str, Any] = dict(values)
    try:
        text = toml_text.add(text, [SECTION], value)
        if accepted:
            text = toml_text.add(
                text if text.endswith("\n") else text + "\n", [SECTION, "accept"], {"hosts": list(accepted)}
            )
    except Unreadable as error:
        raise _unreadable(error) from None
    return text if text.endswith("\n") else text + "\n"


def without_fleet(text: str) -> str:
    """The text without ``[fleet]`` and its tables; unchanged if there is none. BadRequest ``bad_config`` as above."""
    section = _section(text)
    if section is None:
        return text
    try:
        if isinstance(section.get("accept"), Mapping):
            text = toml_text.remove(text, [SECTION, "accept"]) or ""
        left: str = toml_text.remove(text, [SECTION]) or ""
    except Unreadable as error:
        raise _unreadable(error) from None
    if _section(left) is not None:
        raise BadRequest("bad_config", "[fleet] is written in several places; take it out by hand")
    return left


def _same_host(section: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Whether both are one host of one database, perhaps with different logins."""
    if any(section.get(name) != values[name] for name in ("project", "host")):
        return False
    try:
        there, new = dsn_parts(str(section.get("dsn"))), dsn_parts(values["dsn"])
    except ValueError:
        return False
    return {**there, **_NO_LOGIN} == {**new, **_NO_LOGIN}


def _with_dsn(text: str, section: Mapping[str, Any], dsn: str) -> str:
    old, new = (json.dumps(value, ensure_ascii=False) for value in (section["dsn"], dsn))
    changed = text.replace(old, new)
    if changed.count(new) != 1 or _section(changed) != {**section, "dsn": dsn}:
        raise BadRequest("bad_config", "the dsn of [fleet] cannot be replaced", f"write it by hand: dsn = {new}")
    return changed


def _section(text: str) -> Mapping[str, Any] | None:
    try:
        section = toml_text.read(text).get(SECTION)
    except Unreadable as error:
        raise _unreadable(error) from None
    return section if isinstance(section, Mapping) else None


def _unreadable(error: Unreadable) -> BadRequest:
    return BadRequest("bad_config", f"line {error.line}: {error.reason}")
