"""The files that ship with the code: prompts, JSON Schemas, the demo's project, plugins for CLIs. Reads only.

A wheel carries them in ``orchestrator/_data``; a checkout has them at the repository's root.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, Environment

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = {
    "prompts": (_PACKAGE / "_data" / "prompts", _PACKAGE.parent / "prompts"),
    "schemas": (_PACKAGE / "_data" / "schemas", _PACKAGE.parent / ".agents-schema"),
    "sample": (_PACKAGE / "_data" / "sample", _PACKAGE.parent / "sample"),
    "plugins": (_PACKAGE / "engines" / "plugins",),
}


def outside_the_package() -> dict[str, Path]:
    """What a checkout has outside the package, by its place in a wheel below ``orchestrator/_data``."""
    return {name: places[1] for name, places in _PLACES.items() if len(places) > 1 and not places[0].is_dir()}


def prompt(name: str) -> str:
    """The text of ``prompts/<name>.md``; Environment ``internal`` if the installation lacks it."""
    try:
        return (_directory("prompts") / f"{name}.md").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _incomplete(f"prompt {name}") from error


def roles() -> Path:
    """The folder of the roles that ship with the code; Environment ``internal`` if the installation lacks it."""
    place = _directory("prompts") / "roles"
    if not place.is_dir():
        raise _incomplete("roles")
    return place


def sample() -> Path:
    """The folder of the demo's sample project; Environment ``internal`` if the installation lacks it."""
    return _directory("sample")


def plugin(name: str) -> str:
    """The text of ``plugins/<name>``, which runs inside a CLI; Environment ``internal`` if it is missing."""
    try:
        return (_directory("plugins") / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _incomplete(f"plugin {name}") from error


def schema_names() -> list[str]:
    """The names of the shipped JSON Schemas, sorted: one per kind of file or record."""
    return sorted(path.stem for path in _directory("schemas").glob("*.json") if not path.name.startswith("."))


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name; BadRequest ``bad_argument`` naming the others if there is none."""
    names = schema_names()
    if name not in names:
        raise BadRequest(
            "bad_argument", f"no schema is called {name!r}", f"there are: {', '.join(names)}", names=names
        )
    json_schema: dict[str, Any] = json.loads((_directory("schemas") / f"{name}.json").read_text(encoding="utf-8"))
    return json_schema


def _directory(kind: str) -> Path:
    for place in _PLACES[kind]:
        if place.is_dir():
            return place
    raise _incomplete(kind)


def _incomplete(what: str) -> Environment:
    return Environment("internal", f"this installation lacks its {what}", "install orchestrator again")
