"""An answer to an item: who gives it, the possible decisions, the CLI's channel, and its record. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from orchestrator.base.errors import BadRequest
from orchestrator.core.inbox_items import InboxItem, ItemDecision
from orchestrator.core.record_drafts import happened
from orchestrator.core.record_types import Draft
from orchestrator.core.state import Agent
from orchestrator.engines.permission_requests import Asked


class PermissionChannel(Protocol):
    """The way back to the CLI that asks. ``decide`` answers once; False if nobody listens any more.

    ``release``: the CLI shows its own dialog, or keeps the one it shows. ``check`` raises BadRequest
    ``cannot_answer`` if the CLI cannot be answered so.
    """

    def check(self, decision: ItemDecision, text: str) -> None: ...

    def decide(self, decision: ItemDecision, text: str) -> bool: ...


@dataclass(frozen=True)
class Answerer:
    """Who answers: the face it comes from, the user, and as what; a master only if the user has allowed it."""

    face: str
    user: str = ""
    acts_as: Literal["human", "master", "rule"] = "human"

    def as_record(self) -> dict[str, str]:
        return {"face": self.face, "user": self.user, "acts_as": self.acts_as}


@dataclass(frozen=True)
class GivenAnswer:
    """One answer: the decision, its text, who gave it, and the rule that was made or that answered.

    ``req`` is the key of the request that gave it. The request may be sent again after the daemon died.
    """

    decision: ItemDecision
    text: str
    by: Answerer
    rule: str | None = None
    req: str | None = None


def possible_answers(asked: Asked, *, dialog_meanwhile: bool, can_be_ruled: bool) -> tuple[ItemDecision, ...]:
    """The decisions that a request accepts. ``can_be_ruled``: a rule can be made for it."""
    release: tuple[ItemDecision, ...] = () if dialog_meanwhile else ("release",)
    if asked.cut:
        return ("deny", *release)
    if asked.kind == "question":
        return ("answer", "deny", *release)
    always: tuple[ItemDecision, ...] = ("always",) if can_be_ruled else ()
    return ("approve", *always, "deny", *release)


def must_take(item: InboxItem, decision: ItemDecision) -> None:
    if decision not in item.answers:
        can = ", ".join(item.answers) or "no answer from here: go to its pane"
        raise BadRequest("cannot_answer", f"item {item.item_id} takes {can}; not {decision}")


def answer_given(item: str, agent_id: str, decision: str, rule: str | None) -> dict[str, Any]:
    """The reply to a recorded answer."""
    return {"ok": True, "item": item, "decision": decision, "agent_id": agent_id, "rule": rule}


def decision_for_cli(decision: str) -> ItemDecision:
    """The decision that the CLI gets. `always` becomes `approve`: only the daemon knows the rule."""
    known: dict[str, ItemDecision] = {"deny": "deny", "answer": "answer", "release": "release"}
    return known.get(decision, "approve")


def answered_record(agent: Agent, item: InboxItem, given: GivenAnswer, at: str, digest: str) -> Draft:
    """The record of an answer. ``digest`` is the SHA-256 of the whole text that was answered, or empty."""
    fields: dict[str, Any] = {
        "item": item.item_id,
        "kind": item.kind,
        "decision": given.decision,
        "who": given.by.as_record(),
        "tool": item.tool,
        "asked": item.text,
        "text": given.text,
    }
    known = {"digest": digest, "rule": given.rule, "task_id": item.task_id, "req": given.req}
    fields |= {name: value for name, value in known.items() if value}
    return happened(agent, "answered", at, by="orchestrator", **fields)


def text_digest(text: str) -> str:
    """The SHA-256 of a text, whatever is in it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
