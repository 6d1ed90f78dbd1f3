"""Whether a test is there that says something, or that a file of tests has, as ``gsd_verify_artifact`` says it.

Reads only; no test is run.
"""

from __future__ import annotations

import re
from typing import Any

from orchestrator.gsd.evidence import naming
from orchestrator.gsd.evidence.file_answers import EVIDENCE, MOST
from orchestrator.gsd.evidence.searching import Tested, saying, search
from orchestrator.gsd.evidence.verify import MOST_WORDS
from orchestrator.gsd.shown import prose
from orchestrator.gsd.sources.cases import Case, cases
from orchestrator.gsd.sources.code import LANGUAGES, Text, definitions, ending, has_word, is_test
from orchestrator.gsd.sources.text import Source

_FILLING = re.compile(
    r"(?i)\b(?:tests?|for|that|the|an?|of|in|is|are|there|file|exists?|must|should|has|have|with|covers?|checks?"
    r"|verif(?:y|ies)|named|called)\b"
)
_TEST_NAME = re.compile(r"(?:test_|Test)\w{1,200}")


def answer(source: Source, text: str) -> dict[str, Any]:
    """A test by what it says; a path asks for that file, and with more words for a test in it that says so."""
    apart = naming.apart(text)
    path = naming.path_in(apart)
    files = _files(source, path) if path else []
    if files:
        return _in_file(source, files, _FILLING.sub(" ", apart.replace(path, " ")).strip(" \"'`.,:;()"))
    if path and ending(path) in LANGUAGES:
        return _no_file(source, path)
    hits = search(source, re.sub(r"\btests?\b(?:\s+(?:for|that))?", " ", text), []).tests
    if not hits:
        return {"reason": "No test says so in its name; one may show it all the same."}
    return _said(list(hits))


def _files(source: Source, path: str) -> list[str]:
    """The files that a path means: itself, else those whose path ends so; without an ending, one of that name."""
    own = source.relative(path)
    if source.what(own) == "file":
        return [own]
    found = [other for other in source.listing if other.endswith(f"/{own}")]
    if found or ending(own):
        return found
    return [other for other in source.listing if f"/{other}".startswith(f"/{own}.") and is_test(other)]


def _no_file(source: Source, path: str) -> dict[str, Any]:
    if not source.complete:
        return {"reason": f"No file {path} was found, but not every directory could be read."}
    return {
        "exists": False,
        "confidence": "high",
        "reason": f"There is no file {path}.",
        "substantive": False,
        "wired": False,
    }


def _in_file(source: Source, files: list[str], asked: str) -> dict[str, Any]:
    """What the first of the files has: the test that is asked for, or any that runs and checks something."""
    path = files[0]
    several = {"confidence": "medium", "candidates": files[: MOST * 2]} if len(files) > 1 else {}
    text = source.text(path)
    if text is None:
        return {"location": path, "reason": f"{path} is there, but its text cannot be read.", **several}
    every = list(cases(text))
    if not every and not is_test(path):
        return {"location": path, "reason": f"{path} is there, but it is no file of tests.", **several}
    if asked:
        return _one_of(text, every, asked) | several
    alive = [case for case in every if not case.skipped and not case.hollow]
    shown = {"evidence": [_shown(text, case) for case in (alive or every)[:EVIDENCE]]}
    if not alive:
        reason = f"{path} is there, but no test was found in it that runs and checks something."
        return {"location": f"{path}:1", "confidence": "medium", "reason": reason, **shown, **several}
    return {
        "exists": True,
        "location": f"{path}:{alive[0].line}",
        "confidence": "high",
        "reason": f"{path} is there; tests in it: {len(alive)}; none was run.",
        **shown,
        **several,
    }


def _one_of(text: Text, every: list[Case], asked: str) -> dict[str, Any]:
    """A test of a file, by its whole name or by what it says."""
    line = definitions(text).get(asked, 0)
    own = next((case for case in every if line and case.line == line), None)
    if own is not None:
        return _said([Tested(text, own, 1.0)])
    if _TEST_NAME.fullmatch(asked) and has_word(text.code, asked) < 0:
        return {
            "exists": False,
            "confidence": "high",
            "reason": f"{text.path} is there, and has no test {asked}.",
            "substantive": False,
            "wired": False,
        }
    hits = saying(asked, [(text, case) for case in every])
    if hits:
        return _said(hits)
    reason = f"{text.path} is there; no test in it says so in its name, and one may show it all the same."
    return {"location": f"{text.path}:1", "reason": reason, "evidence": [_shown(text, one) for one in every[:MOST]]}


def _said(hits: list[Tested]) -> dict[str, Any]:
    """What may be said of tests whose names say what is asked, the best first."""
    best = hits[0]
    shown = [_shown(one.text, one.case) for one in hits[:MOST]]
    if best.case.skipped or best.case.hollow:
        why = "is skipped" if best.case.skipped else "checks nothing that is seen"
        return {
            "exists": None,
            "confidence": "medium",
            "reason": f"The test that says so {why}.",
            "evidence": shown,
        }
    if best.part < MOST_WORDS:
        reason = "Tests say some of it in their names; none says all."
        return {"exists": None, "confidence": "medium", "reason": reason, "evidence": shown}
    return {
        "exists": True,
        "location": f"{best.text.path}:{best.case.line}",
        "confidence": "high",
        "reason": "A test says so; it was not run.",
        "evidence": shown,
    }


def _shown(text: Text, case: Case) -> dict[str, Any]:
    told = prose(case.description, 200)
    return {"test": told, "description": told, "file": text.path, "line": case.line}
