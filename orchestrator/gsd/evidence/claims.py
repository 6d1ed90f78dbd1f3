"""What planning says of a behaviour: truths of plans, verification rows, UAT tests, human checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.gsd.model import Phase, Plan, Planning, Row
from orchestrator.gsd.ranked.kept import Kept
from orchestrator.gsd.ranked.ranking import NEAR, Sentence, likeness, says_all, sentences

Said = Literal["passed", "failed", "uncertain", ""]


@dataclass(frozen=True)
class Claim:
    """A sentence of planning. ``said``: what its file makes of it; ``""`` where it only demands it (a plan)."""

    kind: Literal["truth", "verification", "uat", "human"]
    text: str
    said: Said
    file: str
    line: int
    phase: Phase
    plan: Plan | None = None
    when: str = ""
    order: int = 0


@dataclass(frozen=True)
class Match:
    """A claim that is like a question (from `NEAR` on).

    ``says``: it says all that was asked, in that order; only then it may prove or disprove anything, since one word
    may turn a sentence around. ``exact``: and nothing more, which could narrow it ("admin users can …").
    """

    claim: Claim
    likeness: float
    says: bool
    exact: bool


def said(status: str) -> Said:
    """What a table's status means, however it is spelled (``✓ VERIFIED``, ``✗ FAILED``, ``? UNCERTAIN``)."""
    text = status.upper()
    if any(
        word in text
        for word in ("FAIL", "✗", "❌", "MISSING", "STUB", "ORPHAN", "BLOCKED", "ISSUE", "PARTIAL", "GAP")
    ):
        return "failed"
    if any(word in text for word in ("NOT ", "UNVERIFIED", "UNSATISFIED")):
        return "failed"
    if any(word in text for word in ("UNCERTAIN", "HUMAN", "PENDING", "SKIP", "?")):
        return "uncertain"
    return "passed" if any(word in text for word in ("VERIFIED", "PASS", "SATISFIED", "✓", "✅", "WIRED")) else ""


def _claims(planning: Planning) -> Iterator[Claim]:
    for order, phase in enumerate([*planning.past, *planning.phases]):
        for plan in phase.plans:
            for truth in plan.must_haves.truths:
                yield Claim("truth", truth, "", plan.file, 0, phase, plan, order=order)
        report = phase.verification
        if report is not None:
            for row in [*report.truths, *report.requirements]:
                yield replace(_of_row(row, report.file, phase, order), when=report.verified)
            for text in report.human:
                yield Claim("human", text, "uncertain", report.file, 0, phase, when=report.verified, order=order)
        if phase.uat is not None:
            for row in phase.uat.tests:
                yield replace(_of_row(row, phase.uat.file, phase, order), kind="uat")


def _of_row(row: Row, file: str, phase: Phase, order: int) -> Claim:
    return Claim("verification", row.what, said(row.status), file, row.line, phase, order=order)


def _indexed(planning: Planning) -> list[tuple[Claim, Sentence]]:
    claims = list(_claims(planning))
    return list(zip(claims, sentences([claim.text for claim in claims]), strict=True))


_INDEX: Kept[Planning, list[tuple[Claim, Sentence]]] = Kept(_indexed)


def matching(planning: Planning, question: str, limit: int = 12) -> list[Match]:
    """The claims that are like the question: those that say it first, then the most alike, then later phases."""
    (asked,) = sentences([question])
    found: list[Match] = []
    for claim, sentence in _INDEX(planning):
        alike = likeness(asked, sentence)
        if alike >= NEAR:
            says = says_all(sentence, asked)
            found.append(Match(claim, alike, says, says and set(sentence.stems) == set(asked.stems)))
    found.sort(
        key=lambda match: (not match.says, -match.likeness, -match.claim.order, match.claim.kind, match.claim.file)
    )
    return found[:limit]


def plans_of(matches: list[Match]) -> list[Plan]:
    """The plans of the truths among some claims, in their order."""
    found = [match.claim.plan for match in matches if match.claim.plan is not None]
    return list({plan.file: plan for plan in found}.values())


def newer_work(match: Match) -> str:
    """Why a failed row may be old news: the id of a gap-closure plan of its phase that has a summary; else ``""``."""
    for plan in match.claim.phase.plans:
        if plan.gap_closure and plan.summary is not None:
            return plan.id
    return ""
