"""What stands in the gsd:// resources (B3.21 to B3.28, C24). Reads through the snapshot alone.

Without a project a page is a sentence, not an error: clients read resources before anybody has asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.place import NO_PROJECT
from orchestrator.gsd.planning import plan_answers
from orchestrator.gsd.uris import JSON, MARKDOWN, PLAIN, parts_of, unknown

NO_SUMMARY = "No intelligence summary available. Run /gsd:analyze-codebase."
NO_ENTITY = "Entity not found: "
CURRENT = "current"
OF_PHASE = frozenset({"plan", "plans", "context", "research", "summary", "verification", "uat"})


def page(snapshot: Snapshot | None, *, uri: str) -> dict[str, Any]:
    """The text of a resource: ``{"mime", "text"}``; its fallback where there is no project (snapshot None).

    BadRequest ``unknown_resource`` for a URI of no known form, ``unknown_phase`` for a phase that is not there.
    """
    try:
        return _page(snapshot, uri)
    except BadRequest as error:
        if error.code != "no_gsd_project" or snapshot is None:
            raise
        return _page(None, uri)  # nothing but an index of its code: no page of its planning


def _page(snapshot: Snapshot | None, uri: str) -> dict[str, Any]:
    parts = parts_of(uri)
    fixed = _FIXED.get("/".join(parts))
    if fixed is not None:
        mime, made = fixed
        if snapshot is not None:
            return {"mime": mime, "text": made(snapshot)}
        text = NO_SUMMARY if parts == ["intel", "summary"] else NO_PROJECT
        return {"mime": MARKDOWN if mime == MARKDOWN else PLAIN, "text": text}
    match parts:
        case ["intel", "entity", _, *_]:
            entity = "/".join(parts[2:])
            text = NO_ENTITY + entity if snapshot is None else code_answers.entity_page(snapshot, entity)
        case ["phase", number] | ["phase", number, _] | ["phase", number, "plan", _] if _is_form(parts[2:]):
            what = "/".join(parts[2:])
            text = NO_PROJECT if snapshot is None else plan_answers.phase_page(snapshot, number, what)
        case _:
            raise unknown(uri)
    return {"mime": MARKDOWN, "text": text}


def _is_form(what: list[str]) -> bool:
    return not what or what[0] in OF_PHASE


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=dict).decode()


_FIXED: Mapping[str, tuple[str, Callable[[Snapshot], str]]] = {
    "intel/summary": (MARKDOWN, lambda snapshot: code_answers.summary_page(snapshot) or NO_SUMMARY),
    "intel/hotspots": (MARKDOWN, code_answers.hotspots_page),
    "intel/conventions": (JSON, lambda snapshot: _json(code_answers.get_conventions(snapshot))),
    "project/vision": (MARKDOWN, plan_answers.vision),
    "project/requirements/pending": (JSON, lambda snapshot: _json(plan_answers.pending_requirements(snapshot))),
    "requirements/pending": (JSON, lambda snapshot: _json(plan_answers.pending_requirements(snapshot))),
    "project/decisions": (MARKDOWN, plan_answers.decisions),
    "roadmap/current-phase": (MARKDOWN, plan_answers.current_phase_page),
    "phase/current": (MARKDOWN, plan_answers.current_phase_page),
}
