"""Whether an endpoint, file, export, component or test is there, as ``gsd_verify_artifact`` says it. Reads only."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence import case_answers, demand_answers, demands, endpoints, file_answers, naming
from orchestrator.gsd.evidence.checking import artifact
from orchestrator.gsd.evidence.file_answers import EVIDENCE, MOST, WORDS, levels
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Artifact
from orchestrator.gsd.routes import found as routes
from orchestrator.gsd.routes import searching as route_search
from orchestrator.gsd.routes.found import Endpoint
from orchestrator.gsd.routes.mentions import may_tell
from orchestrator.gsd.shown import at, prose
from orchestrator.gsd.sources.code import (
    SCRIPTS,
    Text,
    definitions,
    ending,
    exports,
    has_word,
    is_aside,
    is_test,
    stem,
    stubs,
)
from orchestrator.gsd.sources.text import Source


def answer(snapshot: Snapshot, source: Source, text: str, check_type: str) -> dict[str, Any]:
    """The answer for a thing; a text that names none is looked for by its words, and is null at best."""
    wanted = naming.named(text, check_type)
    named = wanted.kind in {"export", "component"}
    demand = demands.demanded(text, implied=named) if named or wanted.kind == "file" else None
    kind = wanted.kind
    if demand is not None and (demand.names or named or check_type != "file"):
        found = demand_answers.answer(snapshot, source, demand)
        kind = wanted.kind if named else "export"
    elif kind == "endpoint":
        found = _endpoint(snapshot, source, wanted.name)
    elif kind == "file":
        found = file_answers.files(snapshot, source, text, wanted.name)
    elif named:
        found = _export(snapshot, source, text, wanted)
    else:
        found = case_answers.answer(source, text)
    return {
        "exists": None,
        "location": None,
        "middleware": [],
        "confidence": "low",
        "evidence": [],
        "substantive": None,
        "wired": None,
        **found,
        "must_exist": text,
        "check_type": check_type,
        "kind": kind,
        "searched": source.searched,
    }


# -- endpoints ------------------------------------------------------------------------------------------------------


def _endpoint(snapshot: Snapshot, source: Source, text: str) -> dict[str, Any]:
    """One endpoint, or each method that is asked for on its path: then all of them must be there."""
    every = routes.every_asked(text)
    if not every:
        raise BadRequest(
            "bad_argument",
            "The text names no path of an endpoint.",
            "name method and path, as in: POST /api/auth/login",
        )
    found = route_search.routes(source)
    answers = [_one_endpoint(snapshot, source, wanted, found) for wanted in every]
    worst = min(answers, key=lambda one: (one["exists"] is not False, one["exists"] is not None))
    if len(answers) > 1:
        told = ", ".join(f"{one['method']}: {WORDS[one['exists']]}" for one in answers)
        worst = {**worst, "reason": f"{worst['reason']} ({told}.)"}
    return worst


def _one_endpoint(
    snapshot: Snapshot, source: Source, wanted: routes.Asked, found: route_search.Routes
) -> dict[str, Any]:
    sought = endpoints.seek(wanted, found)
    listed = endpoints.from_intel(wanted, snapshot.intel.apis)
    answer: dict[str, Any] = {
        "exists": sought.exists,
        "confidence": sought.confidence,
        "reason": sought.reason,
        "method": wanted.method or None,
        "path": wanted.path,
        "frameworks": list(found.frameworks),
    }
    if sought.candidates:
        answer["candidates"] = [_shown(one) for one in sought.candidates]
    one = sought.endpoint
    if one is not None:
        place = source.text(one.file)
        undone = _undone(place, one, found) if place is not None else 0
        answer |= {
            "location": f"{one.file}:{one.line}",
            "method": wanted.method or None if one.method == routes.UNTOLD else one.method,
            "path": one.path,
            "middleware": [prose(name, 100) for name in one.middleware[:20]],
            "evidence": [at(one.file, one.line, place.line(one.line) if place else "")],
            "substantive": False if undone else None,
            "wired": True if one.sure else None,
        }
        if undone and place is not None:
            answer["issues"] = [f"what serves it is not done at line {undone}"]
            answer["evidence"].append(at(one.file, undone, place.line(undone)))
    elif listed:
        answer |= _by_intel(source, listed, sought.exists)
    return answer


def _undone(place: Text, one: Endpoint, found: route_search.Routes) -> int:
    """A line between the route and the next one of its file that says that it is not done; 0: none in 60 lines."""
    after = min(
        (other.line for other in found.endpoints if other.file == one.file and other.line > one.line), default=0
    )
    until = min(after or one.line + 60, one.line + 60)
    return next((stub.line for stub in stubs(place) if stub.grave and one.line <= stub.line < until), 0)


def _shown(one: Endpoint) -> dict[str, Any]:
    return {"method": one.method, "path": one.path, "location": f"{one.file}:{one.line}"}


def _by_intel(source: Source, listed: list[dict[str, Any]], exists: bool | None) -> dict[str, Any]:
    """The intel store lists it, the source does not show it: its word is told, and nothing is denied."""
    there = [one for one in listed if one["file"] and _is_file(source, one["file"])]
    told = [{key: prose(str(value), 200) for key, value in one.items()} for one in listed[:MOST]]
    if not there:
        return {"intel": told, "reason": "The intel store lists it, but the file it names is not there."} | (
            {} if exists is False else {"exists": None, "confidence": "low"}
        )
    return {
        "intel": told,
        "exists": None,
        "confidence": "medium",
        "location": there[0]["file"],
        "reason": "The intel store lists it in a file that is there; the source itself does not show it plainly.",
    }


def _is_file(source: Source, path: str) -> bool:
    try:
        return source.what(source.relative(path)) == "file"
    except BadRequest:
        return False


# -- exports, components -------------------------------------------------------------------------------------


def _export(snapshot: Snapshot, source: Source, asked: str, wanted: naming.Named) -> dict[str, Any]:
    """A name that a file of the product exports or defines; in tests and examples alone it is not there for sure.

    Denied only when it is certainly a name of code, no file of the project has it, however it is spelled, and every
    one could be searched.
    """
    name = wanted.name
    if not name:
        return {"reason": "The text names no identifier: give it alone, or quote it in the sentence, as in `name`."}
    defined: list[tuple[bool, str, int]] = []
    named: list[tuple[Text, int]] = []
    spelled: list[str] = []
    flat = _flat(name)
    for text in source.texts():
        if name not in text.raw and stem(text.path) != name:
            if flat in _flat(text.path.rpartition("/")[2]) or (len(flat) > 2 and flat in _flat(text.lowered)):
                spelled.append(text.path)
            continue
        line = definitions(text).get(name, 0)
        if not line and stem(text.path) == name and ending(text.path) in SCRIPTS:
            # A component's file gives it its name: Name.svelte, Name.vue, and Name.tsx with a default export.
            line = definitions(text).get("default", 0) or (
                1 if ending(text.path) in {".svelte", ".vue", ".astro"} else 0
            )
        if line:
            defined.append((is_test(text.path) or is_aside(text.path), text.path, line))
        elif (offset := has_word(text.code, name)) >= 0:
            named.append((text, text.line_of(offset)))
        else:
            spelled.append(text.path)
    if wanted.kind == "component":
        kinds = {".tsx", ".jsx", ".svelte", ".vue", ".astro", ".js", ".ts"}
        defined = [one for one in defined if ending(one[1]) in kinds] or defined
    if not defined:
        return _not_defined(source, name, named, spelled, naming.is_shaped(asked, name))
    defined.sort()
    aside, path, line = defined[0]
    place = source.text(path)
    one = artifact(source, snapshot.graph, Artifact(path=path))
    open_to_others = exports(place) if place is not None else None
    exported = open_to_others is None or name in open_to_others or stem(path) == name
    hidden = wanted.export and not exported
    unproven = aside or hidden
    reason = f"{path} defines {name}."
    if hidden:
        reason = f"{path} defines {name}, and no export of it was recognised."
    if aside:
        reason = f"Only {path} defines {name}, which is a test, an example or a mock."
    answer = {
        "exists": None if unproven else True,
        "location": f"{path}:{line}",
        "confidence": "medium" if unproven or len(defined) > 1 else "high",
        "reason": reason,
        **levels(one),
    }
    own = at(path, line, place.line(line) if place else "")
    answer["evidence"] = [own, *(e for e in answer["evidence"] if (e["file"], e["line"]) != (path, line))][:EVIDENCE]
    if len(defined) > 1:
        answer["candidates"] = [f"{other}:{number}" for _, other, number in defined[1 : MOST + 1]]
    return answer


def _flat(text: str) -> str:
    return re.sub(r"[_\-]", "", text).lower()


def _not_defined(
    source: Source, name: str, named: list[tuple[Text, int]], spelled: list[str], shaped: bool
) -> dict[str, Any]:
    if named:
        shown = [at(text.path, line, text.line(line)) for text, line in named[:MOST]]
        return {"reason": f"{name} is named, but no definition of it was recognised.", "evidence": shown}
    if spelled:
        reason = f"{name} is not defined; {spelled[0]} has it in a comment, or in another spelling."
        return {"reason": reason, "candidates": spelled[:MOST]}
    if not shaped:
        return {"reason": f"Nothing is called {name}, which may be a word and no name: quote it if it is one."}
    other = _in_data(source, name)
    if other:
        return {"reason": f"No source file names {name}, but {other} does.", "candidates": [other]}
    if not source.complete:
        return {"reason": f"{name} was not found, but not every file could be searched."}
    if not source.paths:
        return {"reason": f"{name} was not found, but the project has no source files here at all."}
    return {
        "exists": False,
        "confidence": "high",
        "reason": f"No source file names {name}.",
        "substantive": False,
        "wired": False,
    }


def _in_data(source: Source, name: str) -> str:
    """A file that is no source and no document and has the name: configuration, a schema of a kind unknown here."""
    for path in source.listing:
        if may_tell(path) and not is_test(path):
            data = source.data(path, telling=not path.endswith((".json", ".lock")))
            if data is not None and has_word(data, name) >= 0:
                return path
    return ""
