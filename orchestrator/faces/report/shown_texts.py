"""The long texts of a report: payloads as masked lines, cut so that all of them together stay within a size. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orchestrator.base.secret_masks import masked
from orchestrator.faces.payload_text import block

MOST = 65_536
"""Maximum number of characters that are shown of one text."""
LEAST = 500
"""Each text keeps this many, however many there are."""
SLACK = 8192
_WORD_AFTER = re.compile(r"\S{0,8000}[\s\S]{0,128}")
"""What is read after the cut: half a secret is not known as one."""


@dataclass(slots=True)
class ShownText:
    """A payload's text: what is kept of it in memory, and how many characters all of it has."""

    text: str
    chars: int


def text_of(payload: Any) -> ShownText:
    """The payload as lines, not masked yet."""
    text = payload if isinstance(payload, str) else "\n".join(block(payload))
    return ShownText(text[: MOST + SLACK], len(text))


def limit_for(sizes: Iterable[int], budget: int) -> int:
    """The most characters that each text may show so that all together stay within the budget."""
    ordered = sorted(sizes)
    for rank, size in enumerate(ordered):
        share = budget // (len(ordered) - rank)
        if size > share:
            return max(LEAST, min(MOST, share))
        budget -= size
    return MOST


def shown(text: ShownText, limit: int) -> dict[str, Any]:
    """``{text, chars, cut}``: at most ``limit`` characters, with secrets masked."""
    rest = _WORD_AFTER.match(text.text, limit)
    head = masked(text.text[: rest.end() if rest else limit]).replace("\r\n", "\n").expandtabs(4)
    return {"text": head[:limit].rstrip(), "chars": text.chars, "cut": text.chars > limit}
