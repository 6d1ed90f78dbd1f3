"""What becomes of the file, the names in it, or the endpoint that a behaviour's sentence names. Reads only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence import artifact_answers, demands, naming
from orchestrator.gsd.evidence.demands import Demand
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.routes import found as routes
from orchestrator.gsd.sources import walk
from orchestrator.gsd.sources.code import LANGUAGES, ending
from orchestrator.gsd.sources.text import Source

# A sentence with one of these may well speak of something that is not to be there.
_ABSENT = re.compile(
    r"(?i)\b(?:remov|delete(?! /)|deleting|deletion|no longer|not\b|never|gone|drop|replac|without|instead|renam"
    r"|moved|migrat|deprecat|retir"
    r"|eliminat|clean|obsolete|unused|legacy|unknown|nonexist|non-exist|invalid|40[0-9]|410|reject|refus|den(?:y|ie)|fails?\b"
    r"|former|old\b)"
)
_MADE = re.compile(
    r"(?i)\b(?:generate|generating|writes?\b|produc|creat|output|upload|download|export(?:s|ed)? (?:to|as)|saves?\b)"
)


@dataclass(frozen=True)
class Things:
    """What a sentence itself names: each with what became of it, and evidence.

    ``missing``, ``unserved``: what must be there and is not (files and their names, endpoints); ``shown``: the file
    that has what the sentence says it has, where it says nothing else. ``whole``: that decides it, whatever other
    places share its words.
    """

    told: tuple[dict[str, Any], ...] = ()
    evidence: tuple[dict[str, Any], ...] = ()
    missing: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    shown: str = ""
    whole: bool = False


def named_things(snapshot: Snapshot, source: Source, text: str) -> Things:
    """The file, the names in a file, or the endpoint that the sentence itself names.

    It is told in any case, and missed only where the sentence leaves no doubt that it is to be there: a source file
    with its directory, a name that the file is said to export or define, an endpoint of this server, and no word of
    removing, refusing or producing.
    """
    endpoint = False
    demand = demands.demanded(text)
    if naming.is_endpoint(text) and (wanted := routes.asked(text)) is not None and wanted.method:
        if routes.is_elsewhere(text):
            return Things()
        found = artifact_answers.answer(snapshot, source, text, "endpoint")
        name, endpoint = f"{wanted.method} {wanted.path}", True
    elif demand is not None and demand.names:
        return _demanded(snapshot, source, text, demand)
    elif path := naming.path_in(text):
        if "/" not in path and source.what(path) != "file":
            return Things()  # "runs on node.js", "saves avatar.png": no file of the source
        try:
            found = artifact_answers.answer(snapshot, source, path, "file")
        except BadRequest:
            return Things()
        name = path
    else:
        return Things()
    gone = found["exists"] is False and not _ABSENT.search(text.replace(name, " "))
    if endpoint:
        return Things(_told(name, found), tuple(found["evidence"][:3]), unserved=(name,) * gone)
    gone = gone and not _MADE.search(text) and _is_source(name)
    return Things(_told(name, found), tuple(found["evidence"][:3]), (name,) * gone)


def _demanded(snapshot: Snapshot, source: Source, text: str, demand: Demand) -> Things:
    """Names that a file must have; a file that is named without its directory is not missed itself."""
    try:
        found = artifact_answers.answer(snapshot, source, text, "any")
    except BadRequest:
        return Things()
    names = found.get("names") or {}
    lacking = tuple(f"{name} of {demand.path}" for name, holds in names.items() if holds is False)
    plainly = not _ABSENT.search(_without(text, demand)) and (demand.whole or not _MADE.search(text))
    gone: tuple[str, ...] = ()
    if found["exists"] is False and plainly:
        gone = lacking or ((demand.path,) if "/" in demand.path and _is_source(demand.path) else ())
    shown = ""
    if found["exists"] is True and demand.whole and plainly and not found.get("candidates"):
        shown = f"{demand.path} {'exports' if demand.exported else 'defines'} {', '.join(demand.names)}"
    name = f"{', '.join(demand.names)} of {demand.path}"
    return Things(
        _told(name, found),
        tuple(found["evidence"][:3]),
        gone,
        shown=shown,
        whole=bool(shown or (gone and demand.whole)),
    )


def _without(text: str, demand: Demand) -> str:
    """The sentence without the path and the names, whose words say nothing of what is to become of them."""
    for name in (demand.path, *demand.names):
        text = text.replace(name, " ")
    return text


def _told(name: str, found: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return ({"name": name, "exists": found["exists"], "location": found["location"], "reason": found["reason"]},)


def _is_source(path: str) -> bool:
    return ending(path) in LANGUAGES and walk.SKIPPED.isdisjoint(path.split("/"))
