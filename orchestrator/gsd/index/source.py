"""What is read out of one source file, in the words every language shares. Pure.

``parse`` may take long, much memory, or the interpreter down on a file made to do so: call it in a process that may
be killed (`parsing`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from orchestrator.gsd.model import Trouble

PURPOSE_CHARS = 200
_SPACE = re.compile(r"\s+")
_SENTENCE = re.compile(r"[.!?](?=\s|$)")
_SHORT = ("e.g.", "i.e.", "etc.", "cf.", "vs.", "approx.")
_LEGAL = re.compile(
    r"copyright|licen[cs]e|spdx|all rights reserved|@preserve|@generated|eslint|prettier|@ts-|tslint|istanbul|"
    r"jshint|@flow|@jsx|@vitest|@jest|vim:|-\*-|#!|webpack|sourcemapping|globals? |<reference|use strict|@format|"
    r"(?:code|automatically|auto|file) ?-?generated|do not edit",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A source file's own words, before anybody knows what its imports mean.

    ``kinds`` has one letter per export: ``f`` function, ``c`` class, ``t`` type, ``v`` value, ``d`` default, ``o``
    of another file. ``raw`` are the imports as written: `python_source` and `script_source` say how.
    """

    exports: tuple[str, ...] = ()
    kinds: str = ""
    raw: tuple[str, ...] = ()
    purpose: str = ""
    lines: int = 0
    trouble: Trouble | None = None


def count_lines(data: bytes) -> int:
    """How many lines a file has; a last one without an end counts too."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def first_sentence(text: str) -> str:
    """The first sentence of a paragraph of prose, white space collapsed, at most `PURPOSE_CHARS` characters."""
    paragraph = _SPACE.sub(" ", text[: PURPOSE_CHARS * 8].strip().partition("\n\n")[0]).strip()
    for end in _SENTENCE.finditer(paragraph[: PURPOSE_CHARS + 1]):
        if not paragraph[: end.end()].lower().endswith(_SHORT):
            paragraph = paragraph[: end.end()]
            break
    if len(paragraph) > PURPOSE_CHARS:
        paragraph = paragraph[: PURPOSE_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return paragraph.encode(errors="replace").decode()


def is_prose(text: str) -> bool:
    """Whether a comment says something of the file: no licence, no word to a tool, not empty."""
    return not _LEGAL.search(text[:400]) and any(char.isalpha() for char in text[:400])


def sound(parsed: Parsed) -> Parsed:
    """The same in characters that every store and wire can carry: lone surrogates and NULs become ``?``."""

    def clean(text: str) -> str:
        return text.encode(errors="replace").decode().replace("\0", "?")

    names = [(clean(name), kind) for name, kind in zip(parsed.exports, parsed.kinds, strict=True)]
    return replace(
        parsed,
        exports=tuple(name for name, _ in names),
        raw=tuple(map(clean, parsed.raw)),
        purpose=clean(parsed.purpose),
    )
