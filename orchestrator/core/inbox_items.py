"""The inbox: what waits for a human, one item each, and the items that an agent's records alone show. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from orchestrator.core.screens import QUESTIONS
from orchestrator.core.state import Agent, Block, LastEnd

ItemKind = Literal[
    "permission", "question", "login", "trust", "rate_limit", "dialog", "blocked", "stalled", "failed", "error",
    "conflict", "budget",
]  # fmt: skip
ItemDecision = Literal["approve", "always", "deny", "answer", "release", "dismiss"]

_KIND_OF_BLOCK: dict[str, ItemKind] = {
    "permission": "permission",
    "dialog": "dialog",
    "trust": "trust",
    "login": "login",
    "hooks": "dialog",
    "rate_limit": "rate_limit",
}


@dataclass(frozen=True)
class InboxItem:
    """One thing that waits for a human.

    ``text`` is one masked line, ``asked`` the whole text of a permission (masked, hidden characters shown).
    ``holds``: an agent cannot continue until somebody acts. ``answers`` are the decisions that work now, ``by`` says
    what shows the item: ``hook``, ``plugin``, ``screen`` or ``records``. ``cut``: ``asked`` is not the whole text.
    ``host`` is the other host that runs the agent; "" if this one does.
    """

    item_id: str
    kind: ItemKind
    agent_id: str
    text: str
    since: str
    holds: bool = True
    name: str = ""
    run_id: str = ""
    task_id: str | None = None
    task_title: str | None = None
    until: str | None = None
    tool: str = ""
    cwd: str = ""
    asked: str = ""
    questions: tuple[dict[str, Any], ...] | None = None
    answers: tuple[ItemDecision, ...] = ()
    by: Literal["hook", "plugin", "screen", "records"] = "records"
    cut: bool = False
    host: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The item as faces get it."""
        values = {name: getattr(self, name) for name in _SHOWN}
        questions = None if self.questions is None else list(self.questions)
        return {"id": self.item_id, **values, "questions": questions, "answers": list(self.answers)}


def item_of(shown: Mapping[str, Any], agent_id: str) -> InboxItem:
    """The item that another host shows as this dict (`InboxItem.as_dict`), of the agent with this id here."""
    values: dict[str, Any] = {name: shown[name] for name in _SHOWN if name in shown}
    questions = shown.get("questions")
    values |= {"agent_id": agent_id, "questions": None if questions is None else tuple(questions)}
    return InboxItem(item_id=str(shown["id"]), answers=tuple(shown.get("answers") or ()), **values)


_SHOWN = (
    "kind", "agent_id", "name", "run_id", "task_id", "task_title", "since", "until", "holds", "text", "tool", "cwd",
    "asked", "by", "cut", "host",
)  # fmt: skip


def item_id(*parts: object) -> str:
    """The id that is derived from these parts: eight hexadecimal digits."""
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def of_agent(item: InboxItem, agent: Agent) -> InboxItem:
    """The item with the agent's name and run, and the task that it holds now."""
    lease = agent.lease
    return replace(
        item,
        name=str(agent.spec.get("name", agent.agent_id)),
        run_id=agent.run_id,
        task_id=item.task_id or (lease.task_id if lease is not None else None),
        task_title=item.task_title or (lease.title or lease.task_id if lease is not None else None),
    )


def recorded_items(agent: Agent, *, asked_elsewhere: bool = False) -> list[InboxItem]:
    """The items that the agent's records show, without those that a human has dismissed.

    ``asked_elsewhere``: its permission or question is an item already, with the whole text.
    """
    items = [
        _blocked(agent, block) for block in agent.blocks.values() if not (asked_elsewhere and block.kind in QUESTIONS)
    ]
    if agent.stalled is not None and "stalled" in agent.proofs:
        proof = agent.proofs["stalled"]
        items.append(
            InboxItem(
                item_id(agent.agent_id, "stalled", proof.seq), "stalled", agent.agent_id, agent.stalled, proof.at
            )
        )
    if agent.life == "failed" and "life" in agent.proofs:
        proof, reason = agent.proofs["life"], str((agent.failure or {}).get("reason") or "failed")
        items.append(
            InboxItem(item_id(agent.agent_id, "failed", proof.seq), "failed", agent.agent_id, reason, proof.at)
        )
    if agent.life != "deleted":
        items.extend(_failed_task(agent, end) for end in agent.errors.values())
    return [of_agent(item, agent) for item in items if item.item_id not in agent.answers]


def _failed_task(agent: Agent, end: LastEnd) -> InboxItem:
    return InboxItem(
        item_id(agent.agent_id, "error", end.seq),
        "error",
        agent.agent_id,
        ": ".join(filter(None, (end.title or end.task_id, end.reason))),
        end.at,
        holds=False,
        task_id=end.task_id,
        task_title=end.title or end.task_id,
        answers=("dismiss",),
    )


def in_order(items: Iterable[InboxItem]) -> list[InboxItem]:
    """Sort the items: first those that an agent waits for, then the others; the oldest first."""
    return sorted(items, key=lambda item: (not item.holds, item.since, item.item_id))


def _blocked(agent: Agent, block: Block) -> InboxItem:
    kind = _KIND_OF_BLOCK.get(block.kind, "blocked")
    block_id = item_id(agent.agent_id, "blocked", block.kind, block.seq)
    by: Literal["screen", "records"] = "screen" if block.kind in QUESTIONS else "records"
    until = f"; until {_moment(block.until)}" if block.until and block.until not in block.reason else ""
    return InboxItem(block_id, kind, agent.agent_id, block.reason + until, block.since, until=block.until, by=by)


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def is_instant(until: str) -> bool:
    """Whether ``until`` is an RFC 3339 time in UTC, and not a CLI's own words ("5pm")."""
    return _INSTANT.fullmatch(until) is not None


def _moment(until: str) -> str:
    return f"{until[:10]} {until[11:16]} UTC" if is_instant(until) else until
