"""Which file of the project the specifier of a JavaScript or TypeScript import means. Pure: by paths and settings.

In this order: relative paths; ``paths`` and ``baseUrl`` of the nearest tsconfig or jsconfig, then of those above it;
``#names`` of package.json; packages of the workspace, led to their source; ``$lib`` of SvelteKit; ``@/`` and ``~/``
where bundlers usually point them. Whatever leads to no file of the project is a package from elsewhere, or nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any

from orchestrator.gsd.index.project_settings import Aliases, Package, Settings, joined

_ENDINGS = (
    ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mts", ".cts", ".mjs", ".cjs", ".svelte", ".vue", ".d.mts", ".d.cts",
)  # fmt: skip
_MEANS = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx",), ".mjs": (".mts", ".d.mts"), ".cjs": (".cts", ".d.cts")}
"""What TypeScript writes as the name its output will have."""
_BUILT = re.compile(
    r"^(?:\./)?(?:dist|build|lib|out|es|esm|cjs|output|\.output|_build)/(?:(?:esm|cjs|src|es|types)/)?"
)
_PACKAGE = re.compile(r"(?:@[\w.~-]+/)?(?!\$lib(?:/|$))[\w$-][\w.~$-]*")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CONDITIONS = (
    "source",
    "svelte",
    "development",
    "import",
    "module",
    "default",
    "require",
    "node",
    "browser",
    "types",
)
_DEPTH = 8


class ScriptModules:
    """The script files of a project, and what its settings say of names for them."""

    def __init__(self, paths: Iterable[str], settings: Settings) -> None:
        """Take the paths of all files that an import may mean."""
        self._files = frozenset(paths)
        self._settings = settings
        self._known: dict[tuple[str, str], str | None] = {}

    def resolve(self, path: str, raw: Iterable[str]) -> tuple[list[str], list[str]]:
        """The files that a file's imports mean, and the packages from elsewhere, each once in order of appearance."""
        files: dict[str, None] = {}
        packages: dict[str, None] = {}
        directory = posixpath.dirname(path)
        for written in raw:
            spec = re.split(r"[?]|#(?!$)", written, maxsplit=1)[0] if not written.startswith("#") else written
            if not spec or "\0" in spec:
                continue
            key = (directory, spec)
            if key not in self._known:
                self._known[key] = self._meant(directory, spec)
            found = self._known[key]
            if found is not None:
                files[found] = None
            elif name := package_of(spec):
                packages[name] = None
        files.pop(path, None)
        return list(files), list(packages)

    def _meant(self, directory: str, spec: str) -> str | None:
        if spec.startswith(("./", "../")) or spec in {".", ".."}:
            return self._file(joined(directory, spec))
        ways = list(_ways_up(directory))
        if spec.startswith("/"):
            return self._first(joined(at, spec[1:]) for at in ways if at in self._settings.places or not at)
        for at in ways:
            for aliases in self._settings.aliases.get(at, ()):
                if found := self._aliased(aliases, spec):
                    return found
        if spec.startswith("#"):
            return self._own_name(ways, spec)
        if found := self._of_workspace(spec):
            return found
        if spec == "$lib" or spec.startswith("$lib/"):
            return self._first(joined(at, f"src/lib/{spec[5:]}") for at in ways)
        if spec.startswith(("@/", "~/")):
            return self._first(joined(at, place + spec[2:]) for at in ways for place in ("src/", "", "app/"))
        return None

    def _aliased(self, aliases: Aliases, spec: str) -> str | None:
        for pattern, targets in aliases.paths:
            star = _starred(pattern, spec)
            if star is not None and (found := self._first(target.replace("*", star, 1) for target in targets)):
                return found
        return self._file(joined(aliases.base, spec)) if aliases.base is not None else None

    def _own_name(self, ways: list[str], spec: str) -> str | None:
        for at in ways:
            package = self._settings.places.get(at)
            if package is not None:
                return self._first(self._sources(package, _exported(package.imports, spec)))
        return None

    def _of_workspace(self, spec: str) -> str | None:
        name = package_of(spec)
        package = self._settings.packages.get(name)
        if package is None:
            return None
        rest = spec[len(name) :].lstrip("/")
        if not rest:
            return self._entry(package)
        found = self._first(self._sources(package, _exported(package.exports, f"./{rest}")))
        return found or self._first(joined(package.directory, place + rest) for place in ("", "src/"))

    def _entry(self, package: Package) -> str | None:
        """The source of a package's main file: what it names, or where what it names is built from."""
        named = (*_exported(package.exports, "."), *package.entries)
        places = (joined(package.directory, place) for place in ("src/index", "src/main", "src/lib/index", "index"))
        return self._first(self._sources(package, named)) or self._first(places)

    def _sources(self, package: Package, targets: Iterable[str]) -> Iterator[str | None]:
        for target in targets:
            yield joined(package.directory, target)
            source, built = _BUILT.subn("", target)
            if built:
                bare = re.sub(r"(?:\.d)?\.[cm]?[jt]sx?$", "", source)
                yield joined(package.directory, f"src/{bare}")
                yield joined(package.directory, bare)

    def _first(self, places: Iterable[str | None]) -> str | None:
        return next((found for found in map(self._file, places) if found is not None), None)

    def _file(self, at: str | None) -> str | None:
        """The file that a path without a promise of its ending means."""
        if at is None:
            return None
        if at in self._files:
            return at
        stem, ending = posixpath.splitext(at)
        forms = [stem + other for other in _MEANS.get(ending, ())]
        forms += [at + other for other in _ENDINGS] if at else []
        forms += [posixpath.join(at, "index") + other for other in _ENDINGS]
        found = next((form for form in forms if form in self._files), None)
        package = self._settings.places.get(at) if found is None else None
        if package is None:
            return found
        direct = (joined(at, entry) for entry in package.entries)
        return next((each for each in direct if each is not None and each in self._files), None)


def package_of(spec: str) -> str:
    """The package of a specifier: ``@scope/name`` or its first part; ``""`` for an alias, a path or an address."""
    if spec.startswith(("node:", "bun:")):
        return spec if _PACKAGE.fullmatch(spec.partition(":")[2].partition("/")[0]) else ""
    if _ELSEWHERE.match(spec):
        return ""
    found = _PACKAGE.match(spec)
    return found[0] if found and found.end() in {len(spec), spec.find("/", found.end())} else ""


def _starred(pattern: str, spec: str) -> str | None:
    """What the star of a pattern stands for in a specifier, ``""`` without one; None when it does not fit."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if spec == pattern else None
    if len(spec) >= len(head) + len(tail) and spec.startswith(head) and spec.endswith(tail):
        return spec[len(head) : len(spec) - len(tail)]
    return None


def _exported(exports: Any, key: str) -> list[str]:
    """The targets that an ``exports`` or ``imports`` field has for a key, those nearest to source first."""
    if not isinstance(exports, dict) or not any(str(each).startswith((".", "#")) for each in exports):
        return _targets(exports, "") if key == "." else []
    for pattern in sorted(exports, key=_rank):
        star = _starred(str(pattern), key) if str(pattern).count("*") <= 1 else None
        if star is not None:
            return _targets(exports[pattern], star)
    return []


def _rank(pattern: object) -> tuple[bool, int, int]:
    """As Node tries them: a whole key first, then what has most before its star, then the longest."""
    text = str(pattern)
    return "*" in text, -len(text.partition("*")[0]), -len(text)


def _targets(value: Any, star: str, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value.replace("*", star)] if len(value) <= 1000 else []
    if depth >= _DEPTH:
        return []
    inner: list[Any] = []
    if isinstance(value, dict):
        order = [
            *(each for each in _CONDITIONS if each in value),
            *(each for each in value if each not in _CONDITIONS),
        ]
        inner = [value[each] for each in order]
    elif isinstance(value, list):
        inner = value
    return [found for each in inner[:50] for found in _targets(each, star, depth + 1)]


def _ways_up(directory: str) -> Iterator[str]:
    yield directory
    while directory:
        directory = posixpath.dirname(directory)
        yield directory
