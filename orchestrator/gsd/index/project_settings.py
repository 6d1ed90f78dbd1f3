"""What a project's own configuration says of where its modules lie: tsconfig, jsconfig, package.json, pnpm. Pure.

Files come in as bytes by project-relative path; whatever in them is not understood is left out, for the tool that
owns the file has better words for it. All paths that come out are project-relative.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any

import orjson
import yaml

MAX_BYTES = 256 << 10
"""Of a settings file; a larger one is not looked at."""
MAX_YAML = 32 << 10
"""YAML takes a hundred times as long to read; real ones are of a few lines."""
_NAMES = re.compile(
    r"(?:^|/)(?:[tj]sconfig(?:\.[\w.-]+)?\.json|package\.json|pnpm-workspace\.yaml|pyproject\.toml|setup\.(?:py|cfg))$"
)
_COMMENTS = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|,(?=\s*[}\]])', re.DOTALL)
_DEPTH = 10
"""So many configurations may extend each other."""


@dataclass(frozen=True)
class Aliases:
    """What a tsconfig or jsconfig says of names: ``paths`` patterns with their targets, the ``base`` directory."""

    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    base: str | None = None


@dataclass(frozen=True)
class Package:
    """A package.json: ``exports`` and ``imports`` as written, ``entries`` are what it says of its main file."""

    directory: str
    name: str
    exports: Any = None
    imports: Any = None
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """All of it. ``aliases`` by the directory they hold for; ``packages`` by name, ``places`` by directory.

    ``python`` are directories with a Python project's file; ``digest`` changes whenever one of the files does.
    """

    aliases: Mapping[str, tuple[Aliases, ...]] = field(default_factory=dict)
    packages: Mapping[str, Package] = field(default_factory=dict)
    places: Mapping[str, Package] = field(default_factory=dict)
    python: tuple[str, ...] = ()
    digest: str = ""


def is_settings(path: str) -> bool:
    """Whether `settings_of` wants to see the file."""
    return _NAMES.search(path) is not None


def settings_of(files: Mapping[str, bytes]) -> Settings:
    """What these files say together."""
    digest = blake2b(digest_size=16)
    for path in sorted(files):
        digest.update(blake2b(path.encode()).digest() + blake2b(files[path]).digest())
    configs = {path: _json(data) for path, data in files.items() if _file(path).startswith(("tsconfig", "jsconfig"))}
    manifests = {
        posixpath.dirname(path): _json(data) for path, data in files.items() if _file(path) == "package.json"
    }
    places = {at: _package(at, manifest) for at, manifest in sorted(manifests.items())}
    python = (posixpath.dirname(p) for p in files if _file(p) in {"pyproject.toml", "setup.py", "setup.cfg"})
    return Settings(
        aliases=_all_aliases(configs),
        packages=_by_name(places, list(_workspaces(manifests, files))),
        places=places,
        python=tuple(sorted(set(python))),
        digest=digest.hexdigest(),
    )


def parse_jsonc(text: str) -> Any:
    """JSON with comments and trailing commas, as tsconfig files are; None when it is not even that."""
    bare = _COMMENTS.sub(lambda found: found[0] if found[0][0] == '"' else " ", text.removeprefix("\ufeff"))
    bare = _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else "", bare)
    try:
        return orjson.loads(bare)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None


def _file(path: str) -> str:
    return path.rpartition("/")[2]


def _json(data: bytes) -> dict[str, Any]:
    found = parse_jsonc(data.decode(errors="replace"))
    return found if isinstance(found, dict) else {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    return tuple(each for each in found if isinstance(each, str) and "\0" not in each)


def joined(directory: str, relative: str) -> str | None:
    """The project-relative path that ``relative`` means in a directory; None when it leaves the project."""
    found = posixpath.normpath(posixpath.join(directory, relative))
    if found.startswith(("../", "/")) or found == "..":
        return None
    return "" if found == "." else found


# -- tsconfig and jsconfig -----------------------------------------------------------------------------------------


def _all_aliases(configs: Mapping[str, dict[str, Any]]) -> dict[str, tuple[Aliases, ...]]:
    """Per directory with a tsconfig (else jsconfig): its own, then those of the projects it refers to."""
    found: dict[str, tuple[Aliases, ...]] = {}
    for name in ("jsconfig.json", "tsconfig.json"):
        for path in sorted(configs):
            if _file(path) != name:
                continue
            directory = posixpath.dirname(path)
            referred = [_dict(each).get("path") for each in _list(configs[path].get("references"))]
            paths = [path, *filter(None, (_config(configs, directory, each) for each in _texts(referred)))]
            found[directory] = tuple(dict.fromkeys(_aliases(configs, each) for each in paths))
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _config(configs: Mapping[str, dict[str, Any]], directory: str, relative: str) -> str | None:
    at = joined(directory, relative)
    if at is None:
        return None
    forms = (at, f"{at}.json", posixpath.join(at, "tsconfig.json"))
    return next((form for form in forms if form in configs), None)


def _aliases(configs: Mapping[str, dict[str, Any]], path: str) -> Aliases:
    """Its own options and those of what it extends: the nearest that names ``paths``, and that names ``baseUrl``.

    The base is where the paths begin, whichever file names it; without one that is the directory of the file they
    stand in.
    """
    named: dict[str, Any] | None = None
    based = False
    base: str | None = None
    start: str | None = ""
    for at in _chain(configs, path):
        directory = posixpath.dirname(at)
        options = _dict(configs[at].get("compilerOptions"))
        if not based and isinstance(here := options.get("baseUrl"), str):
            based, base = True, joined(directory, here)
        if named is None and isinstance(options.get("paths"), dict):
            named, start = options["paths"], directory
    if based:
        start = base
    if named is None or start is None:  # a base out of the project leads to nothing in it
        return Aliases((), base)
    paths = (
        (pattern, tuple(filter(None, (joined(start, target) for target in _texts(targets)))))
        for pattern, targets in named.items()
        if pattern.count("*") <= 1
    )
    return Aliases(tuple(sorted(paths, key=lambda each: -len(each[0].partition("*")[0]))), base)


def _chain(configs: Mapping[str, dict[str, Any]], path: str) -> Iterator[str]:
    """A configuration and those it extends, the strongest first; a cycle ends it."""
    seen: list[str] = []
    todo = [path]
    while todo and len(seen) < _DEPTH:
        at = todo.pop(0)
        if at in seen:
            continue
        seen.append(at)
        yield at
        extended = (
            _config(configs, posixpath.dirname(at), each) for each in reversed(_texts(configs[at].get("extends")))
        )
        todo = [*(each for each in extended if each), *todo]


# -- package.json and pnpm-workspace.yaml --------------------------------------------------------------------------


def _package(directory: str, manifest: dict[str, Any]) -> Package:
    name = manifest.get("name")
    fields = ("svelte", "source", "module", "main", "types", "typings", "browser")
    entries = tuple(each for key in fields for each in _texts(manifest.get(key)))
    return Package(
        directory, name if isinstance(name, str) else "", manifest.get("exports"), manifest.get("imports"), entries
    )


def _workspaces(manifests: Mapping[str, dict[str, Any]], files: Mapping[str, bytes]) -> Iterator[str]:
    """The patterns that name the packages of a workspace, from the project's root, ``!`` before those it excludes."""
    for directory, manifest in manifests.items():
        stated = manifest.get("workspaces")
        yield from _placed(directory, _dict(stated).get("packages") if isinstance(stated, dict) else stated)
    for path, data in files.items():
        if _file(path) == "pnpm-workspace.yaml" and len(data) <= MAX_YAML:
            try:
                found = yaml.safe_load(data)
            except (yaml.YAMLError, ValueError, RecursionError):
                continue
            yield from _placed(posixpath.dirname(path), _dict(found).get("packages"))


def _placed(directory: str, patterns: Any) -> Iterator[str]:
    for pattern in _texts(patterns):
        found = joined(directory, pattern.lstrip("!"))
        if found is not None and pattern.count("*") <= 8:
            yield ("!" if pattern.startswith("!") else "") + found


def _by_name(places: Mapping[str, Package], patterns: list[str]) -> dict[str, Package]:
    """Packages by name; of several with one name the one a workspace names, and none when that leaves several."""
    named: dict[str, list[Package]] = {}
    for package in places.values():
        if package.name:
            named.setdefault(package.name, []).append(package)
    found: dict[str, Package] = {}
    for name, several in named.items():
        one = several if len(several) == 1 else [each for each in several if _listed(each.directory, patterns)]
        if len(one) == 1:
            found[name] = one[0]
    return found


def _listed(directory: str, patterns: list[str]) -> bool:
    found = False
    for pattern in patterns:
        if _matches(directory.split("/"), pattern.lstrip("!").split("/")):
            found = not pattern.startswith("!")
    return found


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path's parts are meant: ``*`` within a part, ``**`` for any number of them."""
    reached = {0}
    for each in pattern:
        if each == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], each)}
    return len(parts) in reached
