"""Judging answers: the gate of a cascade, the evaluator's word, where merged answers disagree. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONG = 500
"""Characters that are enough for an answer to any task (C36)."""
PER_CHARACTER = 5
"""How much longer than its task the answer to a short task must be."""

_REFUSAL = re.compile(
    r"\b(?:i|we)(?: am|'m| are|'re)? (?:sorry|unable to|not able to|cannot|can't|can not|won't|will not)\b"
    r"(?=[^.!?\n]{0,80}\b(?:help|assist|comply|provide|answer|fulfil|fulfill|do|complete|create|generate|write|"
    r"access|but)\b)|\bi (?:must|have to) (?:decline|refuse)\b",
    re.IGNORECASE,
)
_MACHINE = re.compile(r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b", re.IGNORECASE)
_BEGINNING = 300
_LISTED = re.compile(
    r"\bsections?(?: (?:named|called|titled))?\s{0,3}:[ \t]*([^\n]{1,600})|\bsections? (?:named|called|titled) "
    r"([^\n.:]{1,300})",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+([^\n]{1,80})$", re.MULTILINE)
_SEPARATOR = re.compile(r"[,;/]|\band\b|&", re.IGNORECASE)
_DRESS = " \t#*_`\"'\u201c\u201d.:-"
_VERDICT = re.compile(r"\b(pass(?:ed|es)?|fail(?:ed|s)?)\b", re.IGNORECASE)
_DISSENT = re.compile(
    r"^[ \t]{0,3}(#{0,6})[ \t]*[*_]{0,3}dissent(?:s|ing views?| notes?)?[*_]{0,3}[ \t]*(?::[*_]{0,3}([^\n]*))?$"
)
_NONE = re.compile(r"(?:none|no (?:dissent|disagreements?)|n/a|nothing|-)", re.IGNORECASE)
_UNSAID = "The model that merged the answers did not say where they disagree."


@dataclass(frozen=True)
class GateVerdict:
    """Whether the cheap answer of a cascade is good enough, and why."""

    passed: bool
    reasons: tuple[str, ...]


def gate(task: str, reply_text: str, finish_reason: str, form: str) -> GateVerdict:
    """Whether the cheap answer of a cascade passes, by rules that always give the same verdict (C36).

    * It has text, and ended by itself: finish reason ``stop``.
    * It has at least 500 characters, or five times as many as a short task.
    * It has no refusal in its first 300 characters, and says "as an AI" only if the task does.
    * It has each section that the task or ``form``, the role's format, lists as ``sections: A, B and C``, and each
      heading in ``form``: a line that begins with the section's name.
    """
    text = reply_text.strip().replace("\u2019", "'")
    if not text:
        return GateVerdict(passed=False, reasons=("the answer is empty",))
    reasons = []
    if finish_reason != "stop":
        reasons.append(f"the answer ended with {finish_reason[:40] or 'no reason'}, not with stop")
    wanted = min(LONG, PER_CHARACTER * len(task.strip()))
    if len(text) < wanted:
        reasons.append(f"the answer has {len(text)} characters, fewer than {wanted}")
    if _REFUSAL.search(text[:_BEGINNING]) or (_MACHINE.search(text) and not _MACHINE.search(task)):
        reasons.append("the answer refuses")
    begins = {line.lstrip(_DRESS + "0123456789)").casefold() for line in text.splitlines()}
    reasons += [
        f"the section {name!r} is missing"
        for name in _sections(task, form)
        if not any(line.startswith(name.casefold()) for line in begins)
    ]
    return GateVerdict(passed=not reasons, reasons=tuple(reasons) or ("all rules hold",))


def evaluator_verdict(text: str) -> bool | None:
    """The evaluator's word, in the first line that has one: PASS, FAIL; None: unreadable, or both at once."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    initials = {word[0].lower() for word in _VERDICT.findall(line)}
    return None if len(initials) != 1 else initials == {"p"}


def dissent(text: str, answers: int = 2) -> tuple[str, str]:
    """A merged text, and what its last section on dissent says: empty if it says that there is none.

    Where two ``answers`` or more were merged and the section is missing, one is appended that says so.
    """
    lines = text.splitlines()
    fenced = False
    section: tuple[int, int, str] | None = None
    for at, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (match := _DISSENT.match(line.lower())):
            section = at, len(match[1]) or 6, line[match.start(2) :] if match[2] else ""
    if section is None:
        noted = f"{text.rstrip()}\n\n## Dissent\n\n{_UNSAID}\n" if answers >= 2 else text
        return noted, ""
    at, level, same_line = section
    body = [same_line]
    for line in lines[at + 1 :]:
        if (heading := re.match(r" {0,3}(#{1,6})\s", line)) and len(heading[1]) <= level:
            break
        body.append(line)
    content = "\n".join(body).strip()
    return text, "" if _NONE.fullmatch(content.strip(_DRESS)) or not content.strip(_DRESS) else content


def _sections(task: str, form: str) -> list[str]:
    names = [match[1].strip(_DRESS) for match in _HEADING.finditer(form)]
    for source in (task, form):
        for match in _LISTED.finditer(source):
            listed = (match[1] or match[2]).split(". ")[0]
            names += [name.strip(_DRESS) for name in _SEPARATOR.split(listed)]
    return [name for name in dict.fromkeys(names) if name and len(name) <= 60][:20]
