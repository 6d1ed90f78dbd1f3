"""What an answer may show of a project's text: one line, short, without secrets; and what a caller may ask. Pure."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.base.secret_masks import without_tokens

CODE_CHARS = 200
ASKED_CHARS = 2000
WORDY_CHARS = 300
_READ_CHARS = 4000

# A literal behind a name that says what it is; a bare value only where no code could stand (KEY=value of an .env).
_NAMED = re.compile(
    r"(?i)((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key"
    r"|client[_-]?secret|authorization)[A-Za-z0-9_]{0,32}[\"']?\s{0,8}(?::|=>|:?=)\s{0,8})"
    r"(\"[^\"\n]{1,512}\"?|'[^'\n]{1,512}'?|`[^`\n]{1,512}`?)"
)
_ENVIRONMENT = re.compile(
    r"(?i)^((?:export\s{1,4})?[A-Za-z0-9_.-]{0,64}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)"
    r"[A-Za-z0-9_]{0,32}[=:])([^\s\"'`({\[$<;,]{1,512})$"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def masked(text: str) -> str:
    """The text without what looks like a secret: known keys, bearer tokens, passwords in URLs and assignments."""
    text = _NAMED.sub(lambda found: f"{found[1]}{found[2][0]}…{found[2][0]}", without_tokens(text))
    return _ENVIRONMENT.sub(r"\1…", text)


def code_line(line: str) -> str:
    """A line as evidence shows it: trimmed, masked, at most 200 characters (then it ends in ``…``)."""
    return clip(masked(_CONTROL.sub(" ", line[:_READ_CHARS].strip())), CODE_CHARS)


def clip(text: str, chars: int = WORDY_CHARS) -> str:
    """Prose as an answer quotes it: white space collapsed, at most so many characters."""
    text = " ".join(sane(text[: chars * 8]).split())
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def prose(text: str, chars: int = WORDY_CHARS) -> str:
    """A clipped piece of a planning file, masked."""
    return clip(masked(text[: chars * 8]), chars)


def sane(text: str) -> str:
    """The text as JSON and SQLite can carry it: no lone surrogates, no control or direction characters."""
    return _CONTROL.sub(" ", text.encode("utf-8", "replace").decode("utf-8"))


def at(file: str, line: int, code: str) -> dict[str, Any]:
    """A piece of evidence: ``{file, line, code}``."""
    return {"file": file, "line": line, "code": code_line(code)}


def asked(text: str, name: str) -> str:
    """What a caller asked, made sane; BadRequest ``bad_argument`` when it is empty or over 2,000 characters."""
    if len(text) > ASKED_CHARS:
        raise BadRequest(
            "bad_argument",
            f"{name} has {len(text)} characters, over the limit of {ASKED_CHARS}.",
            "ask for one thing at a time",
        )
    clean = " ".join(sane(text).split())
    if not clean:
        raise BadRequest("bad_argument", f"{name} is empty.", "say what to look for")
    return clean
