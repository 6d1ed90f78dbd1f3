"""Whether a file is there, substantive and used, as ``gsd_verify_artifact`` says it. Reads only."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.gsd.evidence import naming
from orchestrator.gsd.evidence.checking import Checked, artifact, namesakes
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import Artifact
from orchestrator.gsd.shown import prose
from orchestrator.gsd.sources.code import stem
from orchestrator.gsd.sources.text import Source

EVIDENCE = 12
MOST = 5
WORDS = {True: "there", False: "not there", None: "not known"}


def files(snapshot: Snapshot, source: Source, text: str, name: str) -> dict[str, Any]:
    """The file that is asked for; of several, each must be there, and the first that is not is told."""
    names = naming.paths_in(text)
    if len(names) < 2 or name not in names:
        return file(snapshot, source, name)
    answers = {one: file(snapshot, source, one) for one in names}
    told = ", ".join(f"{one}: {WORDS[found.get('exists')]}" for one, found in answers.items())
    worst = min(answers.values(), key=lambda one: (one.get("exists") is not False, one.get("exists") is not None))
    sound = [one.get("substantive") for one in answers.values()]
    return {
        **worst,
        "reason": f"{worst['reason']} ({told}.)",
        "substantive": False if False in sound else None if None in sound else True,
    }


def file(snapshot: Snapshot, source: Source, name: str) -> dict[str, Any]:
    path = source.relative(name)
    if re.search(r"\s", path) and source.what(path) == "none":
        return {"reason": "The text names no file: give its path or its name alone."}
    if "/" not in path and source.what(path) == "none":
        found = [other for other in source.listing if other.endswith(f"/{path}")]
        if not found:
            if not source.complete:
                unseen = "links, repositories inside it and directories that refuse are not looked into"
                return {"reason": f"No file {path} was found, but not all could be searched: {unseen}."}
            alike = [other for other in source.listing if stem(other).lower() == stem(path).lower()]
            if alike:
                reason = f"No file is called {path}; others are called much like it."
                return {"reason": reason, "candidates": alike[: MOST * 2]}
            return {"exists": False, "confidence": "medium", "reason": f"No file of the project is called {path}."}
        answer = checked_file(snapshot, source, found[0])
        if len(found) > 1:
            answer |= {"confidence": "medium", "candidates": found[: MOST * 2]}
        return answer
    return checked_file(snapshot, source, path)


def checked_file(snapshot: Snapshot, source: Source, path: str) -> dict[str, Any]:
    wanted, plan = _planned(snapshot, path)
    one = artifact(source, snapshot.graph, wanted)
    if one.exists is False:
        others = namesakes(source, path)
        return {
            "exists": False,
            "confidence": "medium" if others else "high",
            "reason": f"There is no file {path}." + (" Others have its name." if others else ""),
            "substantive": False,
            "wired": False,
            **({"candidates": list(others)} if others else {}),
            **plan,
        }
    if one.exists is None:
        return {"reason": f"{path}: {one.issues[0]}", **plan}
    return {
        "exists": True,
        "location": f"{one.path}:{one.line}" if one.line else one.path,
        "confidence": "high",
        "reason": f"{path} is there" + (f": {'; '.join(one.issues[:3])}." if one.issues else "."),
        **levels(one),
        **plan,
    }


def levels(one: Checked) -> dict[str, Any]:
    return {
        "evidence": list(one.evidence)[:EVIDENCE],
        "substantive": one.substantive,
        "wired": one.wired,
        "status": one.status,
        "issues": [prose(issue) for issue in one.issues],
    }


def _planned(snapshot: Snapshot, path: str) -> tuple[Artifact, dict[str, Any]]:
    """What a plan demands of the file, of the latest plan that names it; else the file alone."""
    planning = snapshot.planning
    for phase in reversed([*planning.past, *planning.phases] if planning is not None else []):
        for plan in reversed(phase.plans):
            for one in plan.must_haves.artifacts:
                if one.path.removeprefix("./") == path:
                    return one, {"plan": {"id": plan.id, "file": plan.file, "phase": plan.phase}}
    return Artifact(path=path), {}
