"""Decides what may be said of a behaviour or an artifact from what was found. Pure.

The ladder (C26, item 4 of the issue). Evidence is static: nothing is run, so "true" means that the text of the
project shows it, and how strongly is told by ``confidence``.

========  ==========  =============================================================================================
verified  confidence  because
========  ==========  =============================================================================================
true      high        a VERIFICATION or UAT row that says what was asked, no more and no less, has passed, and code
                      or a test for it is found; nothing that the plan names is missing
true      high        the sentence says that a file exports or defines a name and nothing more, and it does
true      medium      such a row passed that says it and more (which may narrow it), with code or a test; or one that
                      says what was asked, with the plan's files there and few of the words in code (0.3); or a test
                      that runs and checks something has its words (0.9 of them), with code that has most (0.6); or
                      every artifact of the plan that demands it is there, substantive and wired, every key link of
                      it (at least one) holds, and code has most of the words
null      medium      code has all the words in one place, or the plan's files are there: found, not proven; or a row
                      passed that says nearly the same (likeness 0.8 or more); or a human has to look
null      low         less than that, or a search that could not be completed
false     high        a file or export that the question or its plan names is not there, and nobody said it was
false     medium      a row that says it FAILED and nothing newer contradicts it; or a named thing that had been
                      verified is gone; or an endpoint that the question names is not served
========  ==========  =============================================================================================

False needs something concrete that was to be there, and a search that was complete: never keywords alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Verdict:
    """The answer: True, False, or None (cannot be told), how sure, and one sentence that says why."""

    verified: bool | None
    confidence: Confidence
    reason: str


@dataclass(frozen=True)
class Found:
    """What a search for a behaviour came to. ``missing``: concrete things that are not there, by name.

    ``passed``/``failed``: the row that says so (``file:line``), ``exact`` whether it says that and nothing more;
    ``nearly``: one that says something like it, and ``doubted`` one like it that failed. ``unserved``: an endpoint
    that is not there.
    ``named``: the file and names that the sentence says it has and nothing more, and that are there.
    ``human``: why only a human can tell. ``newer``: a plan that may have mended what failed. ``structure``: the
    plan's artifacts and links were checked: ``holds`` (all, with a link), ``there`` (artifacts only), ``broken``.
    ``test``, ``code``: the part of the words that one test that is not skipped, one place in the code has, 0..1.
    ``empty``: there is no source at all, as in a tree of planning alone.
    """

    passed: str = ""
    exact: bool = False
    failed: str = ""
    nearly: str = ""
    doubted: str = ""
    unserved: tuple[str, ...] = ()
    newer: str = ""
    human: str = ""
    missing: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    test: float = 0.0
    code: float = 0.0
    structure: Literal["holds", "there", "broken", ""] = ""
    broken: tuple[str, ...] = field(default=())
    complete: bool = True
    empty: bool = False
    named: str = ""


ALL_WORDS = 0.999
MOST_WORDS = 0.9
SOME_WORDS = 0.6
FEW_WORDS = 0.3


def behaviour(found: Found) -> Verdict:
    """The verdict on a behaviour, by the ladder above; the first line that fits."""
    if found.empty:
        said = f" {found.passed or found.failed} is all there is." if found.passed or found.failed else ""
        return Verdict(None, "low", f"The project has no source files here, so nothing can be shown.{said}")
    if found.missing and found.complete:
        names = _listed(found.missing)
        if found.passed:
            return Verdict(
                False, "medium", f"{found.passed} says it passed, but {names} {_are(found.missing)} no longer there."
            )
        return Verdict(False, "high", f"{names} must be there for it, and {_are(found.missing)} not.")
    if found.missing:
        return Verdict(None, "low", f"Not found: {_listed(found.missing)}; but not every file could be searched.")
    if found.unserved:
        return Verdict(
            False, "medium", f"{_listed(found.unserved)} must be served for it, and no route of it was found."
        )
    if found.failed and not found.passed:
        if found.newer:
            return Verdict(None, "low", f"{found.failed} says it failed; plan {found.newer} closed gaps since.")
        return Verdict(False, "medium", f"{found.failed} says it failed, and nothing newer contradicts it.")
    if found.failed:
        return Verdict(None, "low", f"{found.passed} says it passed, {found.failed} that it failed.")
    if found.named and not found.failed:
        return Verdict(True, "high", f"{found.named}, which is all that was asked.")
    if found.human and not found.passed:
        return Verdict(None, "medium", f"Only a human can tell: {found.human}")
    if found.doubted and not found.passed:
        return Verdict(None, "low", f"{found.doubted} failed, which says nearly the same.")
    tested = found.test >= MOST_WORDS
    plainly = tested or found.code >= SOME_WORDS
    shown = plainly or (found.structure in {"holds", "there"} and found.code >= FEW_WORDS)
    if found.moved:
        return Verdict(
            None, "medium", f"Not where the plan says: {_listed(found.moved)}; a file of that name lies elsewhere."
        )
    if found.structure == "broken":
        return Verdict(None, "low", f"What the plan demands holds in part only: {_listed(found.broken)}.")
    if found.passed and found.doubted:
        return Verdict(None, "low", f"{found.passed} says it passed, but {found.doubted}, much like it, failed.")
    if found.passed and shown:
        what = "a test of it" if tested else "its plan's code" if found.structure else "code for it"
        return Verdict(
            True,
            "high" if found.exact and plainly else "medium",
            f"{found.passed} says it passed, and {what} is there.",
        )
    if found.passed:
        return Verdict(None, "low", f"{found.passed} says it passed, but nothing for it was found in the source.")
    if tested and found.code >= SOME_WORDS:
        return Verdict(True, "medium", "A test says it, and code for it is there; the test was not run.")
    if found.structure == "holds" and found.code >= SOME_WORDS:
        return Verdict(
            True, "medium", "Every artifact of its plan is there, substantive and used, and every link holds."
        )
    if found.nearly:
        return Verdict(None, "medium", f"{found.nearly} passed, which says nearly the same, but not all of it.")
    if tested:
        return Verdict(None, "medium", "A test says it, but no code for it was found.")
    if found.structure in {"there", "holds"}:
        return Verdict(None, "medium", "The files of its plan are there; nothing shows the behaviour itself.")
    if found.test >= SOME_WORDS:
        return Verdict(None, "medium", "A test says most of it, not all; that the rest holds is not proven.")
    if found.code >= ALL_WORDS:
        return Verdict(None, "medium", "Code with these words was found; that it does so is not proven.")
    if found.code >= SOME_WORDS:
        return Verdict(None, "low", "Code with some of these words was found; that it does so is not proven.")
    if not found.complete:
        return Verdict(None, "low", "Nothing was found, but not every file could be searched.")
    return Verdict(
        None, "low", "Nothing was found that shows it, and nothing concrete was named that could be missing."
    )


def _are(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def artifact_status(exists: bool | None, substantive: bool | None, wired: bool | None) -> str:
    """The word of A1's tables: MISSING, STUB, ORPHANED, VERIFIED; UNCERTAIN where a level cannot be told."""
    if exists is None:
        return "UNCERTAIN"
    if not exists:
        return "MISSING"
    if substantive is False:
        return "STUB"
    if wired is False:
        return "ORPHANED"
    return "UNCERTAIN" if substantive is None else "VERIFIED"
