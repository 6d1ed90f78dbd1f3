"""Finds HTTP routes in PHP: Laravel's ``Route::get('/x', …)`` with the groups around each. Pure."""

from __future__ import annotations

import posixpath
import re

from orchestrator.gsd.routes.found import ANY, METHODS, UNTOLD, Mount, Route, Scan, bounded, join
from orchestrator.gsd.sources.call_text import CALL_CHARS, arguments, closing, literal
from orchestrator.gsd.sources.code import Text

_ROUTE = re.compile(r"\bRoute::(?P<first>\w{1,40})\s{0,4}(?P<open>\()")
_TAKEN = re.compile(
    r"\b(?:require|include)(?:_once)?\s{0,4}\(?\s{0,4}__DIR__\s{0,4}\.\s{0,4}['\"]/(?P<file>[\w./-]{1,200}\.php)['\"]"
)
_FILE = "#file"
"""What the routes of a file belong to that another takes in."""
_NEXT = re.compile(r"\s{0,80}->\s{0,8}(?P<verb>\w{1,40})\s{0,4}(?P<open>\()")
_VERBS = frozenset({"get", "post", "put", "patch", "delete", "options", "any"})
_RESOURCES = frozenset({
    "resource", "resources", "apiResource", "apiResources", "singleton", "apiSingleton", "view", "redirect",
    "permanentRedirect",
})  # fmt: skip
_QUIET = frozenset({
    "middleware", "prefix", "name", "as", "domain", "controller", "group", "where", "whereNumber", "whereUuid",
    "namespace", "pattern", "bind",
    "model", "has", "is", "current", "currentRouteName", "scopeBindings", "withoutMiddleware",
    "withoutScopedBindings", "can", "missing",
})  # fmt: skip


def scan(text: Text) -> Scan:
    """The routes of a Laravel file; those of ``routes/api.php`` lie below ``/api``.

    A group's literal prefix is put in front of what lies in it; any other prefix, and each call of ``Route::``
    that is not known, is noted as dynamic.
    """
    found = Scan(text.path)
    code = text.code
    groups: list[tuple[int, int, str | None]] = []
    # The framework itself takes in these files; any other is given its prefix by the one that takes it in.
    base = {"web.php": "", "api.php": "/api"}.get(text.path.rpartition("routes/")[2])
    if "withRouting" in code and "apiPrefix" in code:
        found.everywhere.add(("laravel", "**"))  # bootstrap/app.php changes what stands before routes/api.php
    if "RouteServiceProvider" in text.path and "Route::" in code:
        found.everywhere.add(("laravel", "" if re.search(r"prefix\(\s{0,4}['\"]api['\"]", code) else "**"))
        return found
    for one in bounded(_ROUTE.finditer(code), found, text):
        found.frameworks.add("laravel")
        line = text.line_of(one.start())
        calls = _chain(code, one)
        around = [prefix for start, end, prefix in groups if start < one.start() < end]
        if any(verb == "group" for verb, _ in calls):
            _group(found, code, calls, groups, line)
            if groups[-1][1] == len(code):
                found.dynamic.append(line)  # without an end: what follows is not read
                break
            continue
        serving = next(((verb, at) for verb, at in calls if verb not in _QUIET), None)
        if serving is None:
            continue
        _served(found, text, serving, [*around, *_prefixes(code, calls)], base)
    for one in bounded(_TAKEN.finditer(code), found, text):
        around = [prefix for start, end, prefix in groups if start < one.start() < end]
        if None not in around:
            child = f"require {one['file']}"
            found.names[child] = (posixpath.normpath(f"{posixpath.dirname(text.path)}/{one['file']}"), _FILE)
            prefix = join(base or "", "/".join(part for part in around if part))
            found.mounts.append(
                Mount("" if base is not None else _FILE, prefix, child, text.path, text.line_of(one.start()))
            )
    return found


def _chain(code: str, one: re.Match[str]) -> list[tuple[str, int]]:
    """The calls of one statement, each with where its bracket opens."""
    calls = [(one["first"], one.start("open"))]
    while len(calls) < 20 and calls[-1][0] != "group":
        end = closing(code, calls[-1][1], CALL_CHARS)
        following = _NEXT.match(code, end + 1) if end >= 0 else None
        if following is None:
            break
        calls.append((following["verb"], following.start("open")))
        if following["verb"] == "group":
            break
    return calls


def _prefixes(code: str, calls: list[tuple[str, int]]) -> list[str | None]:
    return [literal(given[0]) if (given := arguments(code, at)) else None for verb, at in calls if verb == "prefix"]


def _group(
    found: Scan, code: str, calls: list[tuple[str, int]], groups: list[tuple[int, int, str | None]], line: int
) -> None:
    at = calls[-1][1]
    end = closing(code, at)
    prefixes = _prefixes(code, calls)
    head = code[at : min(at + CALL_CHARS, max(code.find("function", at), code.find("fn", at), at + 1))]
    listed = re.search(r"['\"]prefix['\"]\s{0,4}=>\s{0,4}([^,\]\n]{1,200})", head)
    if listed:
        prefixes.append(literal(listed[1].strip()))
    prefix = None if None in prefixes else "/".join(one for one in prefixes if one is not None)
    if prefix is None or not re.match(
        r"\(\s{0,40}(?:\[|array\(|(?:static\s)?(?:function|fn)\b)", code[at : at + 100]
    ):
        found.dynamic.append(line)  # a prefix that is not written out, or routes of another file
    groups.append((at, end if end >= 0 else len(code), prefix))


def _served(found: Scan, text: Text, serving: tuple[str, int], around: list[str | None], base: str | None) -> None:
    verb, at = serving
    line = text.line_of(at)
    given = arguments(text.code, at)
    told = given[1] if verb == "match" and len(given) > 1 else given[0] if given else ""
    path = literal(told)
    owner = "#group" if None in around else _FILE if base is None else ""
    whole = join(base or "", "/".join(one for one in around if one))
    if path is None or verb not in _VERBS | _RESOURCES | {"match"} or path.startswith("http"):
        found.dynamic.append(line)
    elif verb in _RESOURCES:
        below = join(join(whole, path.replace(".", "/*/")), "**")
        found.routes.append(Route(ANY, below, text.path, line, owner, (), "laravel", opaque=True))
    else:
        methods = [ANY if verb == "any" else verb.upper()]
        if verb == "match":
            methods = [m for m in re.findall(r"[A-Z]+", given[0].upper()) if m in METHODS] or [UNTOLD]
        found.routes += [Route(m, join(whole, path), text.path, line, owner, (), "laravel") for m in methods]
