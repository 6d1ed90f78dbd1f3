"""HTTP routes as found in files, and how prefixes of routers are followed from file to file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.gsd.sources.code import Text, is_aside

ANY = "ANY"
UNTOLD = "?"
"""The method of a route whose handler decides which methods it answers, somewhere else."""
_DEEP = 8
MANY = 20_000
"""So many routes are looked at; with more, nothing is denied."""


@dataclass(frozen=True)
class Route:
    """A route as one file writes it. ``owner``: the router it is put on, ``""`` for one that no other mounts.

    ``opaque``: something below the path answers, and which paths and methods is not written here.
    """

    method: str
    path: str
    file: str
    line: int
    owner: str = ""
    middleware: tuple[str, ...] = ()
    framework: str = ""
    opaque: bool = False


@dataclass(frozen=True)
class Mount:
    """A router put on another below a prefix. ``child`` is its name in that file.

    ``replaces``: the prefix stands instead of the router's own, as in Flask's ``register_blueprint``. ``serves``:
    what is mounted answers requests, so that all below the prefix is unknown when no router is found under that name.
    """

    owner: str
    prefix: str
    child: str
    file: str
    line: int
    middleware: tuple[str, ...] = ()
    replaces: bool = False
    serves: bool = False


@dataclass
class Scan:
    """The routes of one file.

    ``apps``: owners that are a server unless something mounts them; ``loose``: those that may as well be a router,
    so that they count as a server only while no other file imports this one; ``names``: local name → (file, name) of
    what is imported; ``default``: which owner a default export is; ``dynamic``: lines whose path is no literal;
    ``mixed``: names that stand for more than one router of the file, or for one whose prefix is not known, so that
    none of them can be followed. ``everywhere``: framework and a prefix that all its routes of the project have,
    ``**`` for one that is not written out. ``handed``: the first line where a
    server or router goes to code from elsewhere.
    """

    file: str
    routes: list[Route] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    apps: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    prefixes: dict[str, str] = field(default_factory=dict)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    default: str = ""
    frameworks: set[str] = field(default_factory=set)
    dynamic: list[int] = field(default_factory=list)
    mixed: set[str] = field(default_factory=set)
    everywhere: set[tuple[str, str]] = field(default_factory=set)
    handed: int = 0


CALLS = 2000
"""So many calls of one kind are looked at in one file; more make its routes `dynamic`, so that nothing is denied."""


def bounded(matches: Iterable[re.Match[str]], found: Scan, text: Text) -> Iterator[re.Match[str]]:
    """The first `CALLS` of some matches that do not stand in a string; the scan notes it when there are more."""
    for count, one in enumerate(matches):
        start = one.end() - len(one[0].lstrip())
        if count >= CALLS:
            found.dynamic.append(text.line_of(start))
            return
        if start >= one.end() or not text.bare[start].isspace():
            yield one


@dataclass(frozen=True)
class Endpoint:
    """A route with its whole path. ``sure``: the way from a server to it was followed, or it needs none."""

    method: str
    path: str
    file: str
    line: int
    middleware: tuple[str, ...]
    framework: str
    sure: bool
    opaque: bool = False


def join(prefix: str, path: str) -> str:
    """Two pieces of a path as one, with one slash between and none at the end."""
    parts = [part for piece in (prefix, path) for part in piece.split("/") if part]
    return "/" + "/".join(parts)


Owner = tuple[str, str]
Parents = Mapping[Owner, Sequence[tuple[Owner, Mount]]]


def resolve(scans: Mapping[str, Scan]) -> list[Endpoint]:
    """Every route with the prefixes of the routers around it, in order of file and line.

    A router that is mounted twice gives its routes twice. One that nothing mounts keeps its own path and is not sure.
    A mount that serves and leads to no router that is known gives an opaque route below its prefix.
    """
    parents: dict[Owner, list[tuple[Owner, Mount]]] = {}
    unknown: dict[str, list[Route]] = {}
    for scan in scans.values():
        for mount in scan.mounts:
            children = [one for one in _children(scans, scan, mount.child) if one != (scan.file, mount.owner)]
            for child in children:
                parents.setdefault(child, []).append(((scan.file, mount.owner), mount))
            if mount.serves and not children:
                below = Route(ANY, join(mount.prefix, "**"), scan.file, mount.line, mount.owner, opaque=True)
                unknown.setdefault(scan.file, []).append(below)
    imported = {file for scan in scans.values() for file, _ in scan.names.values() if file != scan.file}
    before = _everywhere(scans)
    found: list[Endpoint] = []
    for file in sorted(scans):
        scan = scans[file]
        for route in sorted([*scan.routes, *unknown.get(file, ())], key=lambda one: one.line):
            for prefix, middleware, sure in _ways(scans, parents, imported, (file, route.owner), ()):
                first = before.get(route.framework, "")
                found.append(
                    Endpoint(
                        route.method,
                        join("" if first is None else first, join(prefix, route.path)),
                        file,
                        route.line,
                        tuple(dict.fromkeys([*middleware, *route.middleware])),
                        route.framework,
                        sure and first is not None and not is_aside(file),
                        route.opaque,
                    )
                )
                if len(found) >= MANY:
                    return found
    return found


def _everywhere(scans: Mapping[str, Scan]) -> dict[str, str | None]:
    """What stands before each framework's routes; None where that differs or is not written out."""
    told: dict[str, set[str]] = {}
    for scan in scans.values():
        for framework, prefix in scan.everywhere:
            told.setdefault(framework, set()).add(prefix)
    one_app = sum("#nest" in scan.apps for scan in scans.values()) <= 1
    return {
        framework: next(iter(prefixes)) if prefixes.isdisjoint({"**"}) and len(prefixes) == 1 and one_app else None
        for framework, prefixes in told.items()
    }


def _ways(
    scans: Mapping[str, Scan], parents: Parents, imported: set[str], owner: Owner, seen: tuple[Owner, ...]
) -> list[tuple[str, tuple[str, ...], bool]]:
    """The prefixes under which an owner's routes are reached, with the middleware on the way."""
    file, name = owner
    scan = scans[file]
    if name in scan.mixed:
        return [("", (), False)]
    own = scan.prefixes.get(name, "")
    if not name:
        return [(own, (), True)]
    if owner in seen or len(seen) >= _DEEP:
        return [(own, (), False)]
    above = parents.get(owner, ())
    if not above and name in scan.apps:
        return [(own, (), name not in scan.loose or file not in imported)]
    if not above and name not in scan.prefixes and name in scan.names:
        homes = [one for one in _children(scans, scan, name) if one != owner]
        return _ways(scans, parents, imported, homes[0], (*seen, owner)) if len(homes) == 1 else [("", (), False)]
    if not above:
        return [(own, (), False)]
    ways: list[tuple[str, tuple[str, ...], bool]] = []
    for parent, mount in above[:20]:
        below = join(mount.prefix, "" if mount.replaces else own)
        for prefix, middleware, sure in _ways(scans, parents, imported, parent, (*seen, owner)):
            ways.append((join(prefix, below), (*middleware, *mount.middleware), sure))
        if len(ways) >= 20:
            break
    return list(dict.fromkeys(ways))[:20]


# What is mounted under such a name is no router, even if the file it comes from has one.
_GUARD = re.compile(
    r"(?i)middleware|guard|limit|logg|error|valid|cors|session|require|ensure|check|verify|parser|notfound"
)


def _children(scans: Mapping[str, Scan], scan: Scan, child: str) -> list[Owner]:
    """The routers that a name stands for: one of the same file, else what an import leads to."""
    if child in _owners(scan):
        return [(scan.file, child)]
    head, _, attribute = child.partition(".")
    target = scan.names.get(child) or scan.names.get(head)
    if target is None or target[0] not in scans:
        return []
    there = scans[target[0]]
    names = _owners(there) - {""}
    for name in (attribute, target[1], there.default):
        if name and name in names:
            return [(there.file, name)]
    for name in (attribute, target[1]):
        further = there.names.get(name)  # passed on, as by a package's __init__ or an index file
        if name and further and further[0] != there.file and further[0] in scans:
            beyond = _owners(scans[further[0]])
            return [(further[0], further[1])] if further[1] in beyond else []
    if len(names) == 1 and not _GUARD.search(attribute or target[1] or head):
        return [(there.file, name) for name in names]
    return []


def _owners(scan: Scan) -> set[str]:
    every = {route.owner for route in scan.routes} | {mount.owner for mount in scan.mounts}
    return (every | set(scan.prefixes) | scan.apps) - scan.mixed - (set(scan.names) - set(scan.prefixes) - scan.apps)


# -- what is asked --------------------------------------------------------------------------------------------------

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_ASKED = re.compile(
    r"(?:\b(?P<method>GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|ALL|ANY)\b[\s:`'\"]{1,8})?"
    r"(?:https?://[^\s/]{1,200})?(?P<path>/[\w\-./:{}<>\[\]*$@~%()+]{0,400})"
)
_PARAMETER = re.compile(r"^(?::.+|\{.*\}|<.*>|\[.*\]|\$\w+|\*\w*|\(.*\))$")


_SEVERAL = re.compile(
    rf"\b(?:{'|'.join(METHODS)})(?:\s{{0,4}}(?:/|,|&|\||\band\b|\bor\b)\s{{0,4}}(?:{'|'.join(METHODS)})\b){{1,6}}"
)
_HOST = re.compile(r"https?://(?!localhost\b|127\.0\.0\.1\b|\[::1\]|0\.0\.0\.0\b)[^\s/]{1,200}")


@dataclass(frozen=True)
class Asked:
    """An endpoint somebody asks for; ``method`` is ``""`` when any will do."""

    method: str
    path: str


def asked(text: str) -> Asked | None:
    """The first endpoint a sentence names (``POST /api/auth/reset-password endpoint``); None without a path."""
    every = every_asked(text)
    return every[0] if every else None


def every_asked(text: str) -> list[Asked]:
    """The endpoint a sentence names, once for each of its methods (``GET and POST /users``); empty without a path."""
    plain = text.replace("`", " ")
    several = _SEVERAL.search(plain)
    methods = re.findall("|".join(METHODS), several[0]) if several else []
    if several:
        plain = f"{plain[: several.start()]}{methods[-1]}{plain[several.end() :]}"
    found = _ASKED.search(plain)
    if found is None:
        return []
    path = (found["path"].split("?")[0].rstrip(".,;:)")) or "/"
    method = found["method"] or ""
    if not method:
        first = re.search(r"\b(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\b", plain)
        method = first[1] if first else ""
    method = "" if method in {"ALL", "ANY"} else method
    return [Asked(one, path) for one in (dict.fromkeys(methods) if method in methods else [method])]


def is_elsewhere(text: str) -> bool:
    """Whether the sentence's endpoint is one of another host."""
    return bool(_HOST.search(text))


_REST = re.compile(
    r"\.{3}\}$|^(?:\[{1,2}\.\.\.|\{\*|\*|<path:|\{.*:path\}|\.\*|:.*[*+]$)|\?\}?$|[?*]|\(.{0,200}\)[?*+]"
)
_PARTLY = re.compile(r"[^:]:\w|[{<\[]\w|\+\w*|\(")


def segments(path: str) -> tuple[str, ...]:
    """A path's segments: each with a parameter as ``*``, a catch-all or one that may be left out as ``**``."""
    found = []
    for part in path.split("/"):
        if part and _REST.search(part):
            found.append("**")
        elif part:
            found.append("*" if _PARAMETER.match(part) or _PARTLY.search(part) else part)
    return tuple(found)


def same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two paths mean the same route: parameters equal each other whatever their form, literals themselves."""
    return "**" not in one and "**" not in other and tuple(one) == tuple(other)


def takes(own: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a route's path could answer a wanted one: by a parameter or a catch-all in the place of its parts."""
    if "**" in own:
        at = list(own).index("**")
        return len(wanted) >= at and all(a in {b, "*"} for a, b in zip(own[:at], wanted[:at], strict=True))
    return len(own) == len(wanted) and all(a in {b, "*"} or b == "**" for a, b in zip(own, wanted, strict=True))


def method_fits(wanted: str, given: str) -> bool:
    """Whether a route answers the wanted method; ``""`` wants any, ANY answers all, GET answers HEAD too."""
    return not wanted or given in {ANY, wanted} or (wanted == "HEAD" and given == "GET")
