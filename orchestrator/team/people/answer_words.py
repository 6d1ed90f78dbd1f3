"""The words of an answer to an item: who gives it, what can be decided, the way back to a CLI, and rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from orchestrator.base.errors import BadRequest
from orchestrator.core.inbox_items import InboxItem, ItemDecision
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
    """One answer: what was decided, with which words, by whom, and the rule that was made or that answered.

    ``req`` is the key of the request that gave it: the same request may come again after a daemon's death.
    """

    decision: ItemDecision
    text: str
    by: Answerer
    rule: str | None = None
    req: str | None = None


class Rules(Protocol):
    """The rules that humans made with ``--always``."""

    def can_cover(self, asked: Asked) -> bool:
        """Whether a rule can be made for exactly this."""

    def matching(self, asked: Asked) -> str | None:
        """The id of the rule that allows this; None without one."""

    async def add(self, asked: Asked, by: Answerer, at: str) -> str:
        """Make a rule for exactly this; its id. BadRequest ``cannot_answer`` if no rule can be made of it."""


class NoRules:
    """No rule is known, and none can be made."""

    def can_cover(self, asked: Asked) -> bool:  # noqa: ARG002 - the shape of Rules
        return False

    def matching(self, asked: Asked) -> str | None:  # noqa: ARG002 - the shape of Rules
        return None

    async def add(self, asked: Asked, by: Answerer, at: str) -> str:  # noqa: ARG002 - the shape of Rules
        raise BadRequest("cannot_answer", f"no rule can be made for {asked.tool}")


def possible_answers(asked: Asked, *, dialog_meanwhile: bool, rules: Rules) -> tuple[ItemDecision, ...]:
    release: tuple[ItemDecision, ...] = () if dialog_meanwhile else ("release",)
    if asked.cut:
        return ("deny", *release)
    if asked.kind == "question":
        return ("answer", "deny", *release)
    always: tuple[ItemDecision, ...] = ("always",) if rules.can_cover(asked) else ()
    return ("approve", *always, "deny", *release)


def must_take(item: InboxItem, decision: ItemDecision) -> None:
    if decision not in item.answers:
        can = ", ".join(item.answers) or "no answer from here: go to its pane"
        raise BadRequest("cannot_answer", f"item {item.item_id} takes {can}; not {decision}")


def answer_given(item: str, agent_id: str, decision: str, rule: str | None) -> dict[str, Any]:
    """What the caller is told of an answer that is recorded."""
    return {"ok": True, "item": item, "decision": decision, "agent_id": agent_id, "rule": rule}


def decision_for_cli(decision: str) -> ItemDecision:
    """What the CLI is told: it never hears of an always, which is the daemon's."""
    known: dict[str, ItemDecision] = {"deny": "deny", "answer": "answer", "release": "release"}
    return known.get(decision, "approve")
