"""Whether a file has the names that a sentence says it exports or defines. Reads only."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.gsd.evidence import file_answers
from orchestrator.gsd.evidence.checking import Held, export_of
from orchestrator.gsd.evidence.demands import Demand
from orchestrator.gsd.evidence.file_answers import EVIDENCE, WORDS
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.shown import at
from orchestrator.gsd.sources.code import Text, definitions, ending, stem
from orchestrator.gsd.sources.text import Source

_BY_FILE = frozenset({".svelte", ".vue", ".astro"})
"""In these the file itself is what is exported, under its name."""


def answer(snapshot: Snapshot, source: Source, demand: Demand) -> dict[str, Any]:
    """True where the file has each name, False where it was read whole and lacks one, else null; ``names``: each."""
    found = file_answers.file(snapshot, source, demand.path)
    if found.get("exists") is not True:
        return found
    path = re.sub(r":\d+$", "", str(found["location"]))
    unsure: dict[str, Any] = {**found, "exists": None, "confidence": "medium"}
    if not demand.names:
        reason = f"{path} is there; which name it is to have is not said plainly: quote it, as in `name`."
        return {**unsure, "confidence": "low", "reason": reason}
    text = source.text(path)
    if text is None:
        return {**unsure, "confidence": "low", "reason": f"{path} is there, but its text was not looked at."}
    held = {name: _held(text, demand, name) for name in demand.names}
    names = {name: one.holds for name, one in held.items()}
    lines = dict.fromkeys(one.line for one in held.values() if one.line)
    verb = "exports" if demand.exported else "defines"
    answered: dict[str, Any] = {
        "names": names,
        "location": f"{path}:{next(iter(lines), 1)}",
        "evidence": [at(path, line, text.line(line)) for line in lines][:EVIDENCE],
    }
    if demand.denied:
        told = ", ".join(f"{name}: {WORDS[holds]}" for name, holds in names.items())
        reason = f"The sentence may say that {path} is not to have it ({told})."
        return {**unsure, **answered, "reason": reason}
    lacking = [one.issue for one in held.values() if one.holds is not True]
    if False in names.values() and not found.get("candidates"):
        gone = {"substantive": False, "wired": False}
        reason = f"{path} {'; '.join(lacking)}."
        return {**found, **answered, "exists": False, "location": None, "reason": reason, **gone}
    if lacking:
        return {**unsure, **answered, "reason": f"{path} {'; '.join(lacking)}."}
    return {**found, **answered, "reason": f"{path} {verb} {', '.join(names)}."}


def _held(text: Text, demand: Demand, name: str) -> Held:
    """What became of one name. What is no name of code for sure is missed only where nothing is spelled like it."""
    own = definitions(text)
    if not demand.exported and name in own:
        return Held(True, own[name])
    if stem(text.path) == name and ("default" in own or ending(text.path) in _BY_FILE):
        return Held(True, own.get("default", 1))
    held = export_of(text, name)
    if held.holds and ending(text.path) == ".py" and text.line(held.line)[:1].isspace():
        return Held(None, held.line, f"defines {name} inside of something else")
    if held.holds is not False:
        return held
    if name not in demand.sure and _flat(name).removesuffix("s") in _flat(text.raw):
        return Held(None, 0, f"defines no {name}, and has the word in another spelling or in a comment")
    if text.derailed or ending(text.path) in _BY_FILE:
        return Held(None, 0, f"shows no {name}, as far as it can be read")
    return held if demand.exported else Held(False, 0, f"does not define {name}")


def _flat(text: str) -> str:
    return re.sub(r"[_\-]", "", text).lower()
