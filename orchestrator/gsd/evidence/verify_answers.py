"""The answers of ``gsd_verify_behavior`` and ``gsd_verify_artifact``: what static evidence shows. Reads only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.evidence import artifact_answers, claims, naming
from orchestrator.gsd.evidence.checking import Checked, Linked, artifact, key_link
from orchestrator.gsd.evidence.searching import Hits, search
from orchestrator.gsd.evidence.verify import SOME_WORDS, Found, behaviour
from orchestrator.gsd.evidence.verify_named import named_things
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Plan
from orchestrator.gsd.ranked.ranking import stems, terms
from orchestrator.gsd.shown import asked, at, prose
from orchestrator.gsd.sources.text import Source

EVIDENCE = 20
PLANS = 3
CHECKS = 40
NO_SOURCE = "the project has no source files here"


def verify_behavior(snapshot: Snapshot, *, must_have: str, check_type: str = "behavior") -> dict[str, Any]:
    """Whether the project's text shows a behaviour (B3.10, C26): the ladder of `verify`.

    ``{verified: true|false|null, confidence, reason, evidence: [{file, line, code} | {test, description, file,
    line}], must_have, check_type, notes, searched: {files, of, complete}}``, and where planning speaks of it
    ``plan``, ``verification`` and ``levels`` (artifacts and links of the plans whose truths match). Nothing is run.
    A ``check_type`` other than ``behavior`` or ``any`` asks for a thing, as `verify_artifact` does. BadRequest
    ``bad_argument``.
    """
    text = asked(must_have, "must_have")
    _check(check_type)
    if check_type not in {"behavior", "any"}:
        return _of_artifact(
            artifact_answers.answer(snapshot, Source(snapshot.root), text, check_type), text, check_type
        )
    return _behaviour(snapshot, Source(snapshot.root), text, check_type)


def verify_artifact(snapshot: Snapshot, *, must_exist: str, check_type: str = "any") -> dict[str, Any]:
    """Whether a thing is there (B3.11): an endpoint, file, export, component or test; ``any`` decides by the text.

    ``{exists: true|false|null, location: "file:line"|null, method?, path?, middleware: [], confidence, reason,
    evidence, substantive, wired, must_exist, check_type, kind, searched}``, with ``candidates`` where something else
    could be meant, and ``names`` (each true, false or null) where a file is said to export or define some. False
    only after a complete search. BadRequest ``bad_argument``, ``path_escape``.
    """
    text = asked(must_exist, "must_exist")
    _check(check_type)
    source = Source(snapshot.root)
    if naming.named(text, check_type).kind == "behavior":
        shown = _behaviour(snapshot, source, text, check_type)
        first = next(
            (one for one in shown["evidence"] if one.get("line") and not _of_planning(snapshot, one["file"])), None
        )
        return {
            "exists": shown["verified"],
            "location": f"{first['file']}:{first['line']}" if first else None,
            "middleware": [],
            "substantive": None,
            "wired": None,
            "kind": "behavior",
            **{key: shown[key] for key in ("confidence", "reason", "evidence", "searched")},
            "must_exist": text,
            "check_type": check_type,
        }
    return artifact_answers.answer(snapshot, source, text, check_type)


def _check(check_type: str) -> None:
    if check_type not in naming.CHECK_TYPES:
        known = ", ".join(naming.CHECK_TYPES)
        raise BadRequest("bad_argument", f"check_type {check_type[:40]!r} is unknown.", f"use one of {known}")


def _of_planning(snapshot: Snapshot, file: str) -> bool:
    return snapshot.planning is not None and file.startswith(f"{snapshot.planning.directory}/")


def _of_artifact(found: dict[str, Any], text: str, check_type: str) -> dict[str, Any]:
    shown = {
        key: value for key, value in found.items() if key not in {"exists", "must_exist", "substantive", "wired"}
    }
    levels = {"exists": found["exists"], "substantive": found["substantive"], "wired": found["wired"]}
    verified, reason = found["exists"], found["reason"]
    if verified and found["substantive"] is False:
        verified, reason = False, f"{reason} But it is a stub."
    return {
        **shown,
        "verified": verified,
        "reason": reason,
        "levels": levels,
        "must_have": text,
        "check_type": check_type,
    }


# -- a behaviour ----------------------------------------------------------------------------------------------------


def _behaviour(snapshot: Snapshot, source: Source, text: str, check_type: str) -> dict[str, Any]:
    matches = claims.matching(snapshot.planning, text) if snapshot.planning is not None else []
    plans = claims.plans_of([one for one in matches if one.says])[:PLANS]
    checked, linked = _checked(snapshot, source, plans)
    things = named_things(snapshot, source, text)
    named = [one if source.paths else {**one, "exists": one["exists"] or None} for one in things.told]
    demanded = {one.path for one in checked}
    hits = search(source, text, _first(snapshot, plans, text), demanded=demanded)
    told = _told(matches)
    about = _about(plans, text)
    gone = [
        name
        for one in checked
        if one.path in about and (one.exists is not False or not one.candidates)
        for name in one.missing
    ]
    found = Found(
        passed=_where(told.passed),
        exact=told.passed is not None and told.passed.exact,
        failed=_where(told.failed),
        nearly=_where(told.nearly),
        doubted=_where(told.doubted),
        unserved=things.unserved,
        newer=claims.newer_work(told.failed) if told.failed else "",
        human=prose(told.human.claim.text) if told.human else "",
        missing=tuple(dict.fromkeys([*things.missing, *gone])),
        moved=tuple(one.path for one in checked if one.exists is False and one.candidates),
        test=max((one.part for one in hits.tests if not one.case.skipped and not one.case.hollow), default=0.0),
        code=max((one.acted for one in hits.places), default=0.0),
        structure=_structure(checked, linked, about),
        broken=_broken(checked, linked, about),
        named=things.shown,
        complete=source.complete,
        empty=not source.paths,
    )
    verdict = behaviour(found)
    like = [] if things.whole else _shown(hits)
    evidence = [*_claimed(source, told), *things.evidence, *like, *_structural(checked, linked)]
    return {
        "verified": verdict.verified,
        "confidence": verdict.confidence,
        "reason": verdict.reason,
        "evidence": _once(evidence)[:EVIDENCE],
        "must_have": text,
        "check_type": check_type,
        **_of_plans(plans, checked, linked),
        **_of_reports(told),
        **({"named": named} if named else {}),
        "notes": _notes(source, told, plans, hits),
        "searched": source.searched,
    }


class _Told:
    """What the newest report on the behaviour says; rows of older phases do not count beside it.

    ``passed`` and ``failed`` only of rows that say what was asked; ``nearly`` and ``doubted`` of those like it.
    """

    def __init__(self, matches: list[claims.Match]) -> None:
        reports = [one for one in matches if one.claim.kind in {"verification", "uat"} and one.claim.said]
        newest = max((one.claim.order for one in reports if one.says), default=-1)
        now = [one for one in reports if one.says and one.claim.order == newest]
        like = [one for one in reports if not one.says and one.claim.order >= newest]
        self.passed = next((one for one in now if one.claim.said == "passed"), None)
        self.failed = next((one for one in now if one.claim.said == "failed"), None)
        self.nearly = next((one for one in like if one.claim.said == "passed"), None)
        self.doubted = next((one for one in like if one.claim.said == "failed"), None)
        humans = [one for one in now if one.claim.said == "uncertain"] + [
            one for one in matches if one.claim.kind == "human"
        ]
        self.human = humans[0] if humans else None


def _told(matches: list[claims.Match]) -> _Told:
    return _Told(matches)


def _where(match: claims.Match | None) -> str:
    if match is None:
        return ""
    return f"{match.claim.file}:{match.claim.line}" if match.claim.line else match.claim.file


def _checked(snapshot: Snapshot, source: Source, plans: list[Plan]) -> tuple[list[Checked], list[Linked]]:
    wanted = {one.path: one for plan in plans for one in plan.must_haves.artifacts}
    links = list(dict.fromkeys(link for plan in plans for link in plan.must_haves.key_links))
    checked = [artifact(source, snapshot.graph, one) for one in list(wanted.values())[:CHECKS]]
    linked = [key_link(source, link) for link in links[:CHECKS]]
    if source.paths:
        return checked, linked
    return [_unseen(one) for one in checked], [
        replace(one, verified=None, detail=NO_SOURCE) if one.verified is False else one for one in linked
    ]


def _unseen(one: Checked) -> Checked:
    """What may be said of an artifact that is not there in a tree without any source: nothing."""
    if one.exists is not False:
        return one
    return replace(one, exists=None, substantive=None, wired=None, issues=(NO_SOURCE,), missing=())


def _about(plans: list[Plan], text: str) -> set[str]:
    """The artifacts that a behaviour rests on: of a plan with that truth alone all, else those that speak of it.

    A plan with several truths has artifacts for each: that one of them is missing says nothing of the others.
    """
    asked_for = stems(text)
    found = set()
    for plan in plans:
        for one in plan.must_haves.artifacts:
            own = stems(f"{one.path} {one.provides} {' '.join(one.exports)} {one.contains}")
            if len(plan.must_haves.truths) == 1 or own & asked_for:
                found.add(one.path.removeprefix("./"))
    return found


def _structure(checked: list[Checked], linked: list[Linked], about: set[str]) -> Any:
    if not checked and not linked:
        return ""
    if _broken(checked, linked, about):
        return "broken"
    sound = all(one.exists and one.substantive for one in checked) and all(one.verified for one in linked)
    used = all(one.wired is not False for one in checked)
    if sound and used and checked and linked:
        return "holds"
    return "there" if any(one.exists for one in checked) else ""


def _broken(checked: list[Checked], linked: list[Linked], about: set[str]) -> tuple[str, ...]:
    parts = [
        f"{one.path} is {one.status}"
        for one in checked
        if one.status in {"STUB", "ORPHANED"} or (one.status == "MISSING" and one.path not in about)
    ]
    return (*parts, *(one.detail for one in linked if one.verified is False))


def _first(snapshot: Snapshot, plans: list[Plan], text: str) -> list[str]:
    planned = [
        path for plan in plans for path in [*(a.path for a in plan.must_haves.artifacts), *plan.files_modified]
    ]
    return [*planned, *(hit.node.path for hit in snapshot.graph.search(terms(text), limit=50))]


# -- how it is shown ------------------------------------------------------------------------------------------------


def _claimed(source: Source, told: _Told) -> list[dict[str, Any]]:
    found = []
    for match in (told.passed, told.failed, told.nearly, told.doubted, told.human):
        if match is not None:
            line = match.claim.line or _line_of(source, match.claim.file, match.claim.text)
            if line:
                text = source.text(match.claim.file)
                found.append(at(match.claim.file, line, text.line(line) if text else match.claim.text))
    return found


def _line_of(source: Source, file: str, sentence: str) -> int:
    """The line of a planning file that has the beginning of a sentence; 0: none."""
    text = source.text(file)
    head = sentence.strip()[:60]
    offset = text.raw.find(head) if text is not None and head else -1
    return text.line_of(offset) if text is not None and offset >= 0 else 0


def _shown(hits: Hits) -> list[dict[str, Any]]:
    tests = [
        {
            "test": prose(one.case.description, 200),
            "description": prose(one.case.description, 200) + (" (skipped)" if one.case.skipped else ""),
            "file": one.text.path,
            "line": one.case.line,
        }
        for one in hits.tests
    ]
    places = [at(one.text.path, one.line, one.text.line(one.line)) for one in hits.places if one.part >= SOME_WORDS]
    return [*tests, *places]


def _structural(checked: list[Checked], linked: list[Linked]) -> list[dict[str, Any]]:
    return [
        piece for pieces in [*(a.evidence for a in checked), *(b.evidence for b in linked)] for piece in pieces[:4]
    ]


def _once(evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[tuple[Any, Any], dict[str, Any]] = {}
    for one in evidence:
        seen.setdefault((one["file"], one["line"]), one)
    return list(seen.values())


def _of_plans(plans: list[Plan], checked: list[Checked], linked: list[Linked]) -> dict[str, Any]:
    if not plans:
        return {}
    first = plans[0]
    return {
        "plan": {"id": first.id, "file": first.file, "phase": first.phase, "complete": first.summary is not None},
        "levels": {
            "exists": _all([one.exists for one in checked]),
            "substantive": _all([one.substantive for one in checked]),
            "wired": _all([one.wired for one in checked]),
            "artifacts": [one.as_dict() for one in checked],
            "key_links": [one.as_dict() for one in linked],
        },
    }


def _all(levels: list[bool | None]) -> bool | None:
    if False in levels:
        return False
    return None if None in levels or not levels else True


def _of_reports(told: _Told) -> dict[str, Any]:
    match = told.failed or told.passed or told.doubted or told.nearly or told.human
    if match is None:
        return {}
    one = match.claim
    return {
        "verification": {
            "file": one.file,
            "line": one.line,
            "phase": one.phase.number,
            "text": prose(one.text),
            "status": one.said,
            "verified": one.when,
            "likeness": round(match.likeness, 2),
        }
    }


def _notes(source: Source, told: _Told, plans: list[Plan], hits: Hits) -> list[str]:
    notes = []
    if any(one.case.hollow and not one.case.skipped for one in hits.tests):
        notes.append("A test that says it checks nothing that is seen.")
    if any(one.case.skipped for one in hits.tests):
        notes.append("A test that would show it is skipped.")
    report = told.passed
    when = _date(report.claim.when) if report else None
    if report and when is not None:
        phase = report.claim.phase
        paths = {
            p
            for plan in [*plans, *phase.plans]
            for p in [*plan.files_modified, *(a.path for a in plan.must_haves.artifacts)]
        }
        later = sorted(p for p in paths if p in source.listing and _changed(source.listing[p].mtime_ns) > when)
        if later:
            shown = ", ".join(later[:3]) + (f" and {len(later) - 3} more" if len(later) > 3 else "")
            notes.append(
                f"{shown}: changed since the verification of {report.claim.when}, by their mtime, which is no proof."
            )
    return notes


def _changed(mtime_ns: int) -> datetime:
    return datetime.fromtimestamp(max(0, min(mtime_ns, 4 * 10**18)) / 1e9, UTC)


def _date(text: str) -> datetime | None:
    """The moment a report names; the end of its day when it gives only the day; None when it is no date."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    try:
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return found + timedelta(days=1) if len(text.strip()) <= len("2026-01-01") else found
    except OverflowError:
        return None
