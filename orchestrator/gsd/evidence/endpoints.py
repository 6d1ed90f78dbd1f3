"""Finds HTTP routes statically in a project's source, and tells whether one that is asked for exists. Reads only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.gsd.evidence.verify import Confidence
from orchestrator.gsd.routes import built_in
from orchestrator.gsd.routes.found import (
    ANY,
    UNTOLD,
    Asked,
    Endpoint,
    method_fits,
    same,
    segments,
    takes,
)
from orchestrator.gsd.routes.searching import Routes


@dataclass(frozen=True)
class Sought:
    """Whether an endpoint exists: True, False, or None (cannot be told), where, and why."""

    exists: bool | None
    confidence: Confidence
    reason: str
    endpoint: Endpoint | None = None
    candidates: tuple[Endpoint, ...] = ()


def seek(asked: Asked, found: Routes) -> Sought:
    """Decides about one endpoint.

    True/high: a route of that path and method whose prefixes were followed from a server, or that needs none; nothing
    less is True. Null/medium with its place: such a route on a router whose mounting was not found, whole or as the
    end of the path; or one whose handler decides about methods. False/medium: after a complete search in which every
    sign of a route was understood, no route has that path or could take it, the framework is not known to serve such
    a path by itself, and no text, file or directory has its last word. Null/low otherwise, with what could be meant.
    """
    wanted = segments(asked.path)
    whole = [one for one in found.endpoints if not one.opaque and same(segments(one.path), wanted)]
    shown = _shown(asked, found, wanted, whole)
    return shown if shown is not None else _denied(asked, found, wanted, whole)


def _shown(asked: Asked, found: Routes, wanted: tuple[str, ...], whole: list[Endpoint]) -> Sought | None:
    right = [
        one for one in whole if method_fits(asked.method, one.method) or (one.method == UNTOLD and not asked.method)
    ]
    if right:
        best = min(right, key=lambda one: (not one.sure, one.method == ANY, one.file, one.line))
        rest = tuple(one for one in right if one is not best)[:5]
        if best.sure:
            return Sought(True, "high", f"{best.framework} serves it.", best, rest)
        return Sought(None, "medium", "A router has it; that a server mounts it there was not found.", best, rest)
    untold = [one for one in whole if one.method == UNTOLD]
    if untold:
        reason = "The path is served; its route does not say for which methods."
        return Sought(None, "medium", reason, untold[0], tuple(untold[1:6]))
    tails = [
        one
        for one in found.endpoints
        if not one.sure and not one.opaque and method_fits(asked.method, one.method) and _is_tail(one, wanted)
    ]
    if not tails or whole:
        return None
    best = max(tails, key=lambda one: (_told(one, wanted), len(segments(one.path)), one.file))
    others = tuple(one for one in tails if one is not best)[:5]
    if _told(best, wanted):
        reason = "A router has the end of the path and its file's place the rest; where it is mounted was not found."
        return Sought(None, "medium", reason, best, others)
    if len(segments(best.path)) > 1 and len(tails) == 1:
        reason = "A router has the end of the path; where it is mounted was not found."
        return Sought(None, "low", reason, best, others)
    reason = "Routers have the end of the path; where they are mounted was not found."
    return Sought(None, "low", reason, None, tuple(tails)[:5])


def _denied(asked: Asked, found: Routes, wanted: tuple[str, ...], whole: list[Endpoint]) -> Sought:
    near = tuple(one for one in found.endpoints if one not in whole and _could_be(one, asked.method, wanted))
    seen = (*whole, *near)[:5]
    if not found.frameworks:
        return Sought(None, "low", "No web framework that is known here was found in the source.", None, seen)
    if not found.complete:
        return Sought(None, "low", "It was not found, but not every file could be searched.", None, seen)
    if found.dynamic:
        where = ", ".join(found.dynamic[:3])
        reason = f"It was not found, but some routes are not written out as literals ({where})."
        return Sought(None, "low", reason, None, seen)
    if found.signs:
        where = ", ".join(found.signs[:3])
        reason = f"It was not found, but the project also serves in ways that are not read here ({where})."
        return Sought(None, "low", reason, None, seen)
    if near:
        return Sought(None, "low", "No route has this path; some could still take it.", None, seen)
    if not whole and (framework := built_in.serves(found.frameworks, asked.path)):
        reason = f"No route has this path, but {framework} or a package for it may serve such a one by itself."
        return Sought(None, "low", reason, None, seen)
    told = next((part for part in reversed(wanted) if part not in {"*", "**"}), "")
    if not told or "**" in wanted:
        return Sought(None, "low", "No route has this path, which says too little to deny it.", None, seen)
    mentions = found.mentions(told, names=not whole)
    if mentions is None:
        return Sought(None, "low", "It was not found, but the project is too large to rule it out.", None, seen)
    if mentions:
        reason = f"No route that was read has it, but {told!r} is named at {', '.join(mentions[:3])}."
        return Sought(None, "low", reason, None, seen)
    if whole:
        methods = ", ".join(sorted({one.method for one in whole}))
        return Sought(False, "medium", f"The path is there for {methods} only.", None, seen)
    many = f"{len(found.endpoints)} route{'' if len(found.endpoints) == 1 else 's'} found"
    return Sought(False, "medium", f"No route has this path ({', '.join(found.frameworks)}; {many}).")


def _is_tail(one: Endpoint, wanted: tuple[str, ...]) -> bool:
    own = segments(one.path)
    return 0 < len(own) < len(wanted) and any(part != "*" for part in own) and same(own, wanted[-len(own) :])


def _told(one: Endpoint, wanted: tuple[str, ...]) -> bool:
    """Whether the rest of the asked path stands in the place of the route's file."""
    rest = [part for part in wanted[: -len(segments(one.path))] if part != "*" and not re.fullmatch(r"v\d+", part)]
    place = set(re.split(r"[/._-]", one.file.lower()))
    return (
        bool(rest)
        and all(set(re.split(r"[_-]", part.lower())) <= place | {"api"} for part in rest)
        and any(part.lower() in place for part in rest)
    )


def _could_be(one: Endpoint, method: str, wanted: tuple[str, ...]) -> bool:
    """Whether a route could still answer: by a parameter or catch-all, or below a prefix that was not found.

    A path may also have been asked for without the prefix that all routes have: then it is the end of a route's.
    """
    if not method_fits(method, one.method) and one.method != UNTOLD:
        return False
    own = segments(one.path)
    if takes(own, wanted):
        return True
    if len(own) > len(wanted) and takes(own[-len(wanted) :], wanted):
        return any(part not in {"*", "**"} for part in own[-len(wanted) :])
    return not one.sure and any(takes(own, wanted[at:]) for at in range(1, len(wanted) + 1))


def from_intel(asked: Asked, apis: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What intel v3 lists for the endpoint: ``{method, path, file, description}``; its word, not evidence."""
    found = []
    for key in list(apis)[:20_000]:
        entry = apis[key] if isinstance(apis[key], Mapping) else {}
        head, _, tail = str(key).partition(" ")
        method = str(entry.get("method") or (head if tail else "")).upper()
        path = str(entry.get("path") or tail or head)
        if same(segments(path), segments(asked.path)) and method_fits(asked.method, method or ANY):
            file, told = entry.get("file"), entry.get("description")
            found.append({"method": method, "path": path, "file": str(file or ""), "description": str(told or "")})
    return found
