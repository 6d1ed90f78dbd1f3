"""Finds every route of a project, remembered while none of its files has changed. Reads only."""

from __future__ import annotations

import hashlib
import posixpath
import re
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.gsd.routes import go as routes_go
from orchestrator.gsd.routes import mentions
from orchestrator.gsd.routes import other as routes_other
from orchestrator.gsd.routes import php as routes_php
from orchestrator.gsd.routes import python as routes_python
from orchestrator.gsd.routes import script as routes_script
from orchestrator.gsd.routes import signs as route_signs
from orchestrator.gsd.routes.found import MANY, Endpoint, Scan, resolve
from orchestrator.gsd.sources.code import SCRIPTS, Text, ending, is_aside, is_test, stem
from orchestrator.gsd.sources.text import Source

_LIKELY = (
    "oute", "express", "fastify", "ono", "koa", "flask",
    "astAPI", "Flask", "urlpatterns", "ROOT_URLCONF",
    "starlette", "lysia",
    "polka", "restify",
    "@Get", "@Post", "@Put", "@Patch", "@Delete", "Controller", "Mapping", "HandleFunc",
    "axum", "actix", "rocket", "gin", "chi", "echo", "app.", "GET", "POST", "PUT", "PATCH", "DELETE", "ventHandler",
    "export default", "module.exports", "add_", "sinatra", "aiohttp", "Nest", "export *", "lobalPrefix",
    "(app", "app)", "app,", "app }", "_app", "App(", "PathPrefix",
)  # fmt: skip
"""A text without any of these has no route that is read here."""
_ENDINGS = (
    ".ts",
    ".tsx",
    ".js",
    ".jsx",
    ".mjs",
    ".cjs",
    ".mts",
    "/index.ts",
    "/index.js",
    "/index.tsx",
    "/index.mjs",
)
_BASE = re.compile(r"\b(?:basePath|baseURL|base|contextPath)\s{0,4}:\s{0,4}(?!\{)")
_CONTEXT = re.compile(
    r"(?m)^\s{0,20}(?:server\.servlet\.context-path|spring\.mvc\.servlet\.path|context-path|base-path)\s{0,4}[:=]"
)
_CONFIGURED = {"next": "next", "svelte": "sveltekit", "nuxt": "nuxt", "astro": "astro"}
MOST_WORDS = 200_000
_KEPT = 4
_RACY_NS = 2_000_000_000


@dataclass
class _Words:
    """The words that may tell of a route, each with its first places; ``full``: there were too many of them."""

    written: dict[str, list[str]] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)
    full: bool = False


@dataclass
class Routes:
    """All routes that were found. ``dynamic``: where a path is no literal; ``signs``: what serves and was not read.

    Both as ``file:line``. ``complete``: every file that could have a route was read, ``read``: how many were.
    """

    endpoints: tuple[Endpoint, ...]
    frameworks: tuple[str, ...]
    dynamic: tuple[str, ...]
    signs: tuple[str, ...] = ()
    complete: bool = True
    read: int = 0
    _source: Source | None = None
    _understood: Mapping[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)
    _words: _Words | None = None

    def mentions(self, word: str, names: bool = True) -> list[str] | None:
        """Where a path's word is written outside of the routes that were read; None when that cannot be told.

        ``names``: also as the name of a file, a directory, or of a class that may serve.
        """
        if self._words is None:
            if self._source is None:
                return None
            self._words = _words(self._source, self._understood)
            self.complete = self.complete and self._source.complete
            self._source = None
        if self._words.full or not self.complete:
            return None
        key = mentions.plain(word)
        found = [*self._words.written.get(key, ()), *(self._words.named.get(key, ()) if names else ())]
        return list(dict.fromkeys(found))


class _Remembered:
    """The routes of the last few projects, each while its files are as they were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[bytes, Routes]] = OrderedDict()

    def get(self, root: str, mark: bytes) -> Routes | None:
        with self._lock:
            known = self._known.get(root)
            if known is None or known[0] != mark:
                return None
            self._known.move_to_end(root)
            return known[1]

    def put(self, root: str, mark: bytes, found: Routes) -> None:
        with self._lock:
            self._known[root] = (mark, found)
            self._known.move_to_end(root)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)


_REMEMBERED = _Remembered()


def routes(source: Source) -> Routes:
    """Every route of the project's source, tests left out, with its whole path where that can be followed.

    Worked out once for as long as no file of the project changes (by path, mtime and size); files that changed within
    the last two seconds are always read, since a second change could leave the same mark.
    """
    root, (mark, newest) = source.root_name, _mark(source)
    known = _REMEMBERED.get(root, mark)
    if known is not None:
        known.complete = known.complete and source.complete
        source.recall(known.read)
        return known
    found = _found(source)
    if time.time_ns() - newest > _RACY_NS:
        _REMEMBERED.put(root, mark, found)
    return found


def _mark(source: Source) -> tuple[bytes, int]:
    seen = hashlib.blake2b(digest_size=16)
    newest = 0
    for path, one in source.listing.items():
        seen.update(f"{path}\0{one.mtime_ns}\0{one.size}\n".encode())
        newest = max(newest, one.mtime_ns)
    seen.update(str(source.complete).encode())
    return seen.digest(), newest


def _found(source: Source) -> Routes:
    modules = _Modules(source)
    scans: dict[str, Scan] = {}
    signs: list[str] = []
    for text in source.texts():
        if is_test(text.path):
            continue
        if line := route_signs.sign(text):
            signs.append(f"{text.path}:{line}")
        scan = _scan(text, modules) if any(word in text.raw for word in _LIKELY) else None
        if scan is not None:
            _configured(scan, text)
            if scan.handed:
                signs.append(f"{text.path}:{scan.handed}")
            if text.derailed and (scan.frameworks or scan.routes):
                scan.dynamic.append(1)  # which of its text is a string cannot be told: a route may be taken for one
            if scan.routes or scan.mounts or scan.frameworks or scan.dynamic or scan.names or scan.everywhere:
                scans[text.path] = scan
    for path in source.listing:
        if re.search(r"(?:^|/)(?:application|bootstrap)[\w-]{0,40}\.(?:properties|ya?ml)$", path):
            text_of = source.text(path)
            if text_of is not None and _CONTEXT.search(text_of.raw):
                scans[path] = Scan(path, everywhere={("spring", "**")})
    _by_last_name(scans, ".rs", "::")
    _by_last_name(scans, ".go", ".")
    endpoints = resolve(scans)
    dynamic = [f"{file}:{line}" for file, scan in sorted(scans.items()) for line in sorted(scan.dynamic)]
    if len(endpoints) >= MANY:
        dynamic.append(f"{endpoints[-1].file}:{endpoints[-1].line}")
    return Routes(
        tuple(endpoints),
        tuple(sorted({name for scan in scans.values() for name in scan.frameworks})),
        tuple(dynamic),
        tuple(signs),
        source.complete,
        source.looked_at,
        source,
        {file: _lines(scan) for file, scan in scans.items() if scan.routes or scan.mounts},
    )


def _scan(text: Text, modules: _Modules) -> Scan | None:
    end = ending(text.path)
    if end in SCRIPTS:
        return routes_script.scan(text, modules.script)
    if end == ".py":
        return routes_python.scan(text, modules.python)
    if end == ".rs":
        return routes_other.rust(text)
    if end == ".go":
        return routes_go.scan(text)
    if end in {".java", ".kt"}:
        return routes_other.spring(text)
    if end == ".rb":
        return routes_other.rails(text)
    return routes_php.scan(text) if end == ".php" else None


def _configured(scan: Scan, text: Text) -> None:
    """A framework's own configuration that puts something in front of all routes."""
    name = text.path.rpartition("/")[2]
    framework = _CONFIGURED.get(stem(name), "") if ".config." in name else ""
    if framework and _BASE.search(text.code):
        scan.everywhere.add((framework, "**"))


def _lines(scan: Scan) -> Mapping[int, frozenset[str]]:
    """The lines of a file that were understood, each with the words of the path that was read there."""
    found: dict[int, set[str]] = defaultdict(set)
    for line, path in [*((r.line, r.path) for r in scan.routes), *((m.line, m.prefix) for m in scan.mounts)]:
        found[line] |= {mentions.plain(part) for part in path.split("/") if part}
    return {line: frozenset(one) for line, one in found.items()}


def _words(source: Source, understood: Mapping[str, Mapping[int, frozenset[str]]]) -> _Words:
    found = _Words()
    for text in source.texts():
        if is_test(text.path):
            continue
        known = understood.get(text.path, {})
        pieces = ((w, n) for w, n in mentions.in_source(text) if not _is_known(known, w, n))
        _note(found.written, text.path, pieces)
        _note(found.named, text.path, mentions.in_names(text))
        found.full = found.full or len(found.written) + len(found.named) > MOST_WORDS
        if found.full:
            return found
    for path in source.listing:
        if not is_test(path) and not path.lower().endswith(".md"):
            _note(found.named, path, ((word, 0) for word in mentions.in_path(path)))
        if mentions.may_tell(path) and not is_test(path) and not is_aside(path):
            data = source.data(path, mentions.is_telling(path))
            if data is not None:
                _note(found.written, path, mentions.in_data(path, data))
    found.full = found.full or len(found.written) + len(found.named) > MOST_WORDS
    return found


def _is_known(known: Mapping[int, frozenset[str]], word: str, line: int) -> bool:
    """Whether the word is that of a route which begins there, or in the line before when it stands below its call."""
    return word in known.get(line, ()) or (word in known.get(line - 1, ()) and line not in known)


def _note(places: dict[str, list[str]], path: str, pieces: Iterable[tuple[str, int]]) -> None:
    for word, line in pieces:
        if len(word) <= 60:
            seen = places.setdefault(word, [])
            if len(seen) < mentions.MOST_PLACES:
                seen.append(f"{path}:{line}" if line else path)


class _Modules:
    """Which file a module's name means."""

    def __init__(self, source: Source) -> None:
        self._paths = source.listing
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in source.paths:
            name = stem(path)
            self._by_stem[name].append(path)
            if name in {"index", "__init__"}:
                self._by_stem[posixpath.basename(posixpath.dirname(path))].append(path)

    def script(self, importer: str, spec: str) -> str:
        if spec.startswith("."):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(importer), spec))
            bare = re.sub(r"\.(?:js|mjs|cjs|jsx)$", "", target)
            return next(
                (p for p in (target, *(bare + end for end in _ENDINGS)) if p in self._paths and ending(p)), ""
            )
        head, _, tail = spec.partition("/")
        if not tail or (head.startswith("@") and head != "@"):
            return ""
        wanted = tail if head in {"@", "~", "#", "src"} or head.startswith("$") else spec
        found = [
            path
            for path in self._by_stem[stem(wanted)]
            if any(f"/{path}".endswith(f"/{wanted}{end}") for end in _ENDINGS)
        ]
        return found[0] if len(found) == 1 else ""

    def python(self, importer: str, dotted: str) -> str:
        dots = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.split(".") if part]
        if dots:
            package = importer.split("/")[:-dots]
            tried = "/".join([*package, *parts])
            return next((path for path in (f"{tried}.py", f"{tried}/__init__.py") if path in self._paths), "")
        tail = "/".join(parts)
        near = (
            [p for p in self._by_stem[parts[-1]] if f"/{p}".endswith((f"/{tail}.py", f"/{tail}/__init__.py"))]
            if parts
            else []
        )
        return (
            near[0] if len(near) == 1 else next((p for p in near if p in {f"{tail}.py", f"{tail}/__init__.py"}), "")
        )


def _by_last_name(scans: Mapping[str, Scan], end: str, between: str) -> None:
    """Leads what files of Rust or Go mount (``routes::auth::router``) to the only function that can be meant."""
    owners: dict[str, set[str]] = defaultdict(set)
    for file, scan in scans.items():
        if file.endswith(end):
            for owner in {route.owner for route in scan.routes} | {mount.owner for mount in scan.mounts}:
                owners[owner].add(file)
    for file, scan in scans.items():
        if not file.endswith(end):
            continue
        for mount in scan.mounts:
            *modules, name = mount.child.split(between)
            inside = [part for part in modules if part not in {"crate", "self", "super"}]
            found = [
                other for other in sorted(owners[name]) if not inside or inside[-1] in other[: -len(end)].split("/")
            ]
            if len(found) == 1 and (inside or found[0] != file):
                scan.names.setdefault(mount.child, (found[0], name))
