"""Make lines of files, models and screens safe to show: no control characters, no secrets. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from orchestrator.base.secret_masks import masked
from orchestrator.faces.row_words import NO_BREAK
from orchestrator.faces.top.team_layout import Part

TabLine = str | list[Part]
PARAGRAPH_CHARS = 4000
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "
_KEY_LINES = 200


def shown_line(text: str) -> str:
    """The text on one line, what a terminal would act on made visible."""
    if text.isprintable():
        return text
    text = text.expandtabs(8).replace("\n", "\\n").replace(NO_BREAK, " ")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def text_of(line: TabLine) -> str:
    """The line without its styles."""
    return line if isinstance(line, str) else "".join(text for text, _ in line)


def without_secrets(lines: Iterable[TabLine]) -> list[TabLine]:
    """Mask the secrets in the lines, also secrets of several lines; a private key becomes one line."""
    out: list[TabLine] = []
    for paragraph in _paragraphs(lines):
        whole = "\n".join(map(text_of, paragraph))
        shown = _masked(whole)
        if shown == whole:
            out += paragraph
            continue
        texts = shown.split("\n")
        if len(texts) != len(paragraph):
            out += texts
            continue
        for line, text in zip(paragraph, texts, strict=True):
            style = "" if isinstance(line, str) or not line else line[0][1]
            out.append(line if text == text_of(line) else [(text, style)])
    return out


@functools.lru_cache(2048)
def _masked(paragraph: str) -> str:
    """Cached, because a growing log is read again and again: masking all of it takes a tenth of a processor."""
    return masked(paragraph)


def _paragraphs(lines: Iterable[TabLine]) -> Iterator[list[TabLine]]:
    """Group the lines: a group ends at an empty line or at a size limit, but never inside a private key."""
    group: list[TabLine] = []
    size = key = 0
    for line in lines:
        text = text_of(line)
        group.append(line)
        size += len(text)
        if _KEY_BEGINS in text:
            key = _KEY_LINES
        key = 0 if _KEY_ENDS in text else max(0, key - 1)
        if not key and (not text.strip() or size > PARAGRAPH_CHARS):
            yield group
            group, size = [], 0
    if group:
        yield group
