"""The requests of CLIs that wait for an answer, their items, and the items that are over. In memory only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.base.secret_masks import READ_CHARS, one_line, shown_text
from orchestrator.base.waiting import Signal
from orchestrator.core.inbox_items import InboxItem, ItemDecision, of_agent
from orchestrator.core.screens import REASON_MAX, FindingKind
from orchestrator.core.state import Agent
from orchestrator.engines import question_answers
from orchestrator.engines.permission_requests import Asked, PermissionRequest
from orchestrator.team.people.answer_words import PermissionChannel
from orchestrator.team.wake.parking import HookChannel

PAST_ITEMS = 1000
"""How many ended items are remembered, so that a late answer is told from a wrong id."""
REQUESTS_MAX = 100
"""Maximum number of waiting requests of one agent: a program that never stops asking must not flood the inbox."""
TEXT_MAX = 4 << 20
"""Maximum number of characters in all waiting requests of one agent, because each face gets the whole texts."""


@dataclass(eq=False)
class HookPermission:
    """The way back through a hook or plugin, in the words of its CLI."""

    hook: HookChannel
    request: PermissionRequest

    @property
    def subagent(self) -> str:
        return self.request.subagent

    def check(self, decision: ItemDecision, text: str) -> None:
        self.request.output(decision, text)

    def decide(self, decision: ItemDecision, text: str) -> bool:
        return self.hook.decide(**self.request.output(decision, text))


@dataclass(eq=False)
class PendingRequest:
    """One request that waits."""

    item: InboxItem
    asked: Asked
    channel: PermissionChannel
    dialog_meanwhile: bool
    answering: bool = False
    shown: bool = False  # its dialog was seen on the screen
    over_looks: int = 0  # consecutive looks at the screen that show it over


class PendingRequests:
    """The waiting requests of all agents. ``moved`` is notified when a request comes or is over."""

    def __init__(self) -> None:
        self.moved = Signal()
        self._waiting: dict[str, dict[str, PendingRequest]] = {}  # agent -> key of the request
        self._past: dict[str, str] = {}  # id of an item -> why it is over

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter([pending for requests in self._waiting.values() for pending in requests.values()])

    def of(self, agent_id: str, key: str | None = None) -> list[PendingRequest]:
        """The agent's requests, or the one with that key."""
        requests = self._waiting.get(agent_id, {})
        return [pending for name, pending in requests.items() if key is None or name == key]

    def keys_of_turn(self, agent_id: str) -> list[str]:
        """The requests of the CLI's main conversation, without those of its subagents."""
        requests = self._waiting.get(agent_id, {}).items()
        return [key for key, pending in requests if not getattr(pending.channel, "subagent", "")]

    def with_item(self, item_id: str) -> PendingRequest | None:
        """The request with this item; None if none waits."""
        return next((pending for pending in self if pending.item.item_id == item_id), None)

    def has_room(self, agent_id: str, asked: Asked) -> bool:
        """Whether one more request of the agent may wait."""
        waiting = self._waiting.get(agent_id, {}).values()
        return (
            len(waiting) < REQUESTS_MAX
            and sum(len(each.asked.text) for each in waiting) + len(asked.text) <= TEXT_MAX
        )

    def add(self, key: str, pending: PendingRequest) -> None:
        """Let a request wait; one with the same key came back and is replaced."""
        self._waiting.setdefault(pending.item.agent_id, {})[key] = pending
        self.moved.notify()

    def end(self, pending: PendingRequest, why: str) -> None:
        """The request is over."""
        requests = self._waiting.get(pending.item.agent_id, {})
        for key in [key for key, other in requests.items() if other is pending]:
            del requests[key]
        self.remember(pending.item.item_id, why)

    def remember(self, item_id: str, why: str) -> None:
        """The item is over, and why."""
        self._past[item_id] = why
        if len(self._past) > PAST_ITEMS:
            del self._past[next(iter(self._past))]
        self.moved.notify()

    def why_over(self, item_id: str) -> str | None:
        """Why the item is over; None if it is not known to be."""
        return self._past.get(item_id)


def request_item(
    agent: Agent, request_id: str, asked: Asked, answers: tuple[ItemDecision, ...], at: str
) -> InboxItem:
    """The item of a request that came at ``at``, or earlier, if a record shows that an earlier daemon had it."""
    known = agent.blocks.get(block_kind(asked.kind))
    item = InboxItem(
        request_id,
        asked.kind,
        agent.agent_id,
        asked.line,
        known.since if known is not None and known.reason == one_line(asked.line, REASON_MAX) else at,
        tool=one_line(asked.tool, 100),
        cwd=one_line(asked.cwd, READ_CHARS),
        asked=shown_text(asked.text),
        questions=None if asked.questions is None else question_answers.shown(asked.questions),
        answers=answers,
        by=asked.by,
        cut=asked.cut,
    )
    return of_agent(item, agent)


def block_kind(kind: str) -> FindingKind:
    """The kind of `blocked` that a request's kind has."""
    return "permission" if kind == "permission" else "dialog"
