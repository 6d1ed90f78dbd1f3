"""Numbers of phases and ids of plans, as people write them and as they compare. Pure.

A phase is ``2``, ``02``, ``2.1``, ``02.1`` or ``12A``; normalised it has no leading zeros and a letter in upper case.
"""

from __future__ import annotations

import re

NUMBER = r"\d{1,6}[A-Za-z]?(?:\.\d{1,6})*"
_NUMBER = re.compile(
    rf"(?i:phases?[ \t_-]*)?(?:[A-Z][A-Z0-9]{{0,15}}-)?({NUMBER})(?![A-Za-z0-9])(?!-\d)(?:[ \t]*[-:. ].*)?"
)
_DIRECTORY = re.compile(rf"(?i:phase-)?(?:[A-Z][A-Z0-9]{{0,15}}-)?({NUMBER})(?:[-_ ](.*))?", re.DOTALL)
_PLAN = re.compile(rf"(?:[A-Z][A-Z0-9]{{0,15}}-)?(?:({NUMBER})-)?(\d{{1,6}}[A-Za-z]?)")


def normal(number: str) -> str:
    """A phase's number normalised; the text itself where it is none."""
    parts = number.strip().split(".")
    return ".".join(part.lstrip("0").upper() or "0" for part in parts) if number.strip() else ""


def number_of(text: str) -> str:
    """The normalised number that a text names: ``2``, ``Phase 02.1``, ``2.1-name``, ``CK-01-name``; else empty."""
    found = _NUMBER.fullmatch(text.strip()[:200])
    return normal(found[1]) if found else ""


def of_directory(name: str) -> tuple[str, str, str]:
    """Number, its digits as written, and the rest of the name of a phase's directory; all empty when it is none."""
    found = _DIRECTORY.fullmatch(name)
    return (normal(found[1]), found[1], found[2] or "") if found else ("", "", "")


def order(number: str) -> tuple[tuple[int, str, str], ...]:
    """How phases sort: by number, then letter, then each decimal (2 < 2.1 < 2.10 < 2A < 3: A1)."""
    out = []
    for part in number.split("."):
        digits = part.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        out.append((len(digits), digits, part[len(digits) :]))
    return tuple(out)


def plan_key(plan: str, phase: str = "") -> tuple[str, str]:
    """What two spellings of a plan's id have in common: the phase's number and the plan's, both normalised.

    ``02-01``, ``2-1``, ``02-01-PLAN.md`` are one; ``01`` alone is of the phase given. Two empty texts for no id.
    """
    text = plan.strip().strip("`'\"").rsplit("/", 1)[-1]
    for ending in (".md", "-PLAN", "-SUMMARY", "-plan", "-summary"):
        text = text.removesuffix(ending)
    found = _PLAN.fullmatch(text[:200])
    return (normal(found[1] or phase), normal(found[2])) if found else ("", "")
