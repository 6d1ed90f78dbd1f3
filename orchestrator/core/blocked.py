"""What blocks an agent: the records that report a cause once, and those that lift it. Pure.

Each ``kind`` of cause is lifted by something else: the delivery rule's (no kind) by the terminal event
(`decisions.emit`), those of the screen (`screens.FindingKind`) when the screen has changed, the orchestrator's own
when the agent calls. A call lifts every cause but the delivery rule's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from orchestrator.base.secret_masks import one_line
from orchestrator.core.record_drafts import happened
from orchestrator.core.record_types import Draft
from orchestrator.core.screens import COUNTING, REASON_MAX, SCREEN_KINDS, ScreenFinding
from orchestrator.core.state import Agent

STOPPED = "suspended"
"""The kind of block for an agent whose process is suspended (SIGSTOP, Ctrl-Z); lifted when it is continued."""


def block(agent: Agent, cause: str, reason: str, *, at: str) -> list[Draft]:
    """Record that ``cause`` blocks the agent; empty while that cause is recorded already."""
    if not _lives(agent) or cause in agent.blocks:
        return []
    return [_blocked(agent, cause, reason, None, at)]


def unblock(agent: Agent, causes: Collection[str], *, at: str, reason: str) -> list[Draft]:
    """Lift those of these causes that are recorded; never the delivery rule's."""
    if not _lives(agent):
        return []
    return [
        happened(agent, "unblocked", at, by="orchestrator", kind=cause, reason=reason)
        for cause in agent.blocks
        if cause and cause in causes
    ]


def explained(agent: Agent, finding: ScreenFinding | None, *, at: str) -> list[Draft]:
    """Record what the screen explains now (None: nothing), and lift what it no longer explains.

    The same cause is recorded again only if its words have changed and it is no countdown: another question needs
    another answer. A vague finding keeps a recorded limit or error as it is.
    """
    if not _lives(agent):
        return []
    if finding is not None and finding.vague and COUNTING & agent.blocks.keys():
        return unblock(agent, SCREEN_KINDS - COUNTING, at=at, reason="no longer on the screen")
    gone = SCREEN_KINDS if finding is None else SCREEN_KINDS - {finding.kind}
    drafts = unblock(agent, gone, at=at, reason="no longer on the screen")
    if finding is None:
        return drafts
    reason, stands = one_line(finding.reason, REASON_MAX) or finding.kind, agent.blocks.get(finding.kind)
    if stands is not None and (finding.kind in COUNTING or stands.reason == reason):
        return drafts
    return [*drafts, _blocked(agent, finding.kind, reason, finding.until, at)]


def called(agent: Agent, *, at: str) -> list[Draft]:
    """Lift every block except that of a suspended process, because the agent has called."""
    causes = agent.blocks.keys() - {STOPPED}
    return unblock(agent, causes, at=at, reason="it called") if causes else []


def _lives(agent: Agent) -> bool:
    return agent.life in ("starting", "ready")


def _blocked(agent: Agent, cause: str, reason: str, until: str | None, at: str) -> Draft:
    fields: dict[str, Any] = {"until": until} if until else {}
    return happened(agent, "blocked", at, by="orchestrator", kind=cause, reason=reason, **fields)
