"""The items of the inbox and people's answers. Each item is answered once, and each answer is recorded first.

An item is a request that waits (`approvals`), a dialog that only a screen shows (`dialog_answers`), or an item to
dismiss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.base.secret_masks import one_line
from orchestrator.base.waiting import call_off, wait_until
from orchestrator.core.inbox_items import InboxItem, item_of, recorded_items
from orchestrator.core.screens import QUESTIONS
from orchestrator.team.people.answer_words import GivenAnswer, answer_given, must_take
from orchestrator.team.people.approvals import RETURN_S, Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.remote_facts import RemoteFacts
from orchestrator.team.roster.roster import Roster

ANSWERED_ELSEWHERE_S = 20.0
"""Longest wait for another host to carry out an answer."""


class InboxAnswers:
    """The items of a roster's agents and runs.

    ``further_items`` gives an agent's items that its records do not show; ``run_items`` gives those of spawn runs.
    ``dismiss_run`` records in a spawn run who dismissed its item; False if already dismissed.
    """

    def __init__(self, roster: Roster, approvals: Approvals, dialogs: DialogAnswers) -> None:
        self._roster = roster
        self.approvals = approvals
        self._pending = approvals.pending
        self._dialogs = dialogs
        self.further_items: Callable[[AgentEntry], Sequence[InboxItem]] = lambda _entry: ()
        self.run_items: Callable[[], Sequence[InboxItem]] = tuple
        self.dismiss_run: Callable[[str, str], Awaitable[bool]] = _no_run
        self._began = roster.clock.monotonic()
        self._tasks = BackgroundTasks()
        self._elsewhere: dict[str, set[str]] = {}  # ids of the items of agents on other hosts, as last seen

    async def close(self) -> None:
        """End the answers that are being carried out; a caller sends its answer to the next daemon again."""
        await call_off(self._tasks)

    def items(self, entry: AgentEntry) -> list[InboxItem]:
        """The agent's items: its requests, what its records show, and what else is known.

        Those of an agent on another host are as its owner has published them.
        """
        if entry.remote is not None:
            return self._items_elsewhere(entry, entry.remote)
        requests = [pending.item for pending in self._pending.of(entry.agent_id) if not pending.answering]
        recorded = recorded_items(entry.state, asked_elsewhere=bool(requests))
        shown = (self._dialogs.item(entry, item) if item.by == "screen" else item for item in recorded)
        known = (*requests, *shown, *self.further_items(entry))
        return [item for item in known if item.item_id not in entry.state.answers]

    def _items_elsewhere(self, entry: AgentEntry, facts: RemoteFacts) -> list[InboxItem]:
        """The items that the agent's host has published; those of before that are missing now are over."""
        items = [replace(item_of(item, entry.agent_id), host=facts.host) for item in facts.items]
        now = {item.item_id for item in items}
        for gone in self._elsewhere.pop(entry.agent_id, set()) - now:
            self._pending.remember(gone, f"host {facts.host} does not show it any more")
        if now:
            self._elsewhere[entry.agent_id] = now
        return [item for item in items if item.item_id not in entry.state.answers]

    async def answer(self, wanted: str, given: GivenAnswer) -> dict[str, Any]:
        """Answer an item; ``{ok, item, decision, agent_id, rule}``.

        BadRequest ``unknown_item``, or ``cannot_answer`` if the item does not accept this decision; Conflict
        ``item_over`` if it was answered, withdrawn or changed meanwhile. On an error nothing is typed, and nothing
        reaches a CLI. If the request is sent again after the daemon died, it returns the recorded answer. An answer
        is carried out even if its caller disconnects meanwhile.
        """
        return await asyncio.shield(self._tasks.start(self._carried_out(wanted, given)))

    async def _carried_out(self, wanted: str, given: GivenAnswer) -> dict[str, Any]:
        if pending := self._pending.with_item(wanted):
            return await self.approvals.answer(pending, given)
        for entry in self._roster.agents.values():
            if before := _answer_before(entry, wanted, given):
                await self._dialogs.must_have_gone(entry, wanted)
                return before
            for item in self.items(entry):
                if item.item_id == wanted:
                    return await self._answer_recorded(entry, item, given)
        for item in self.run_items():
            if item.item_id == wanted:
                must_take(item, given.decision)
                if not await self.dismiss_run(item.run_id, one_line(f"{given.by.user} ({given.by.face})", 200)):
                    raise Conflict("item_over", f"item {wanted} was dismissed already")
                self._pending.remember(wanted, "dismissed")
                return answer_given(item.item_id, item.agent_id, given.decision, given.rule)
        for entry in self._roster.replicas.values():
            if before := _answer_before(entry, wanted, given):
                return before
            if any(item.item_id == wanted for item in self.items(entry)):
                return await self._answered_elsewhere(entry, wanted, given)
        if why := self._pending.why_over(wanted):
            raise Conflict("item_over", f"item {wanted} is over: {why}")
        raise BadRequest("unknown_item", f"the inbox has no item {one_line(wanted, 100)}")

    async def _answered_elsewhere(self, entry: AgentEntry, wanted: str, given: GivenAnswer) -> dict[str, Any]:
        """Have the answer carried out by the owner of the agent, which decides as for a local one."""
        fleet = self._roster.fleet
        assert fleet is not None
        body = {"item": wanted, "decision": given.decision, "text": given.text, "by": given.by.as_record(),
                "req": given.req}  # fmt: skip
        answer: dict[str, Any] = await fleet.ask(entry.agent_id, "answer", body, ANSWERED_ELSEWHERE_S)
        return {**answer, "agent_id": entry.agent_id}

    async def returned(self, wanted: str) -> None:
        """Wait for the item while hooks of an earlier daemon may still connect to this daemon."""

        def known() -> bool | None:
            agents = [entry.state for entry in self._roster.agents.values() if entry.live]
            asked = any(QUESTIONS & agent.blocks.keys() for agent in agents)
            answered = any(wanted in agent.answers for agent in agents)
            return True if not asked or answered or self.agent_of(wanted) else None

        await wait_until(known, self._pending.moved, self._began + RETURN_S, self._roster.clock)

    def agent_of(self, wanted: str) -> AgentEntry | None:
        """The agent that the item is of; None if there is none such now."""
        if pending := self._pending.with_item(wanted):
            return self._roster.agents[pending.item.agent_id]
        entries = self._roster.everyone()
        return next((e for e in entries if any(item.item_id == wanted for item in self.items(e))), None)

    async def _answer_recorded(self, entry: AgentEntry, item: InboxItem, given: GivenAnswer) -> dict[str, Any]:
        """Dismiss an item, or press the key of a dialog that only the screen shows."""
        must_take(item, given.decision)
        if given.decision == "dismiss":
            await self.approvals.record(entry, item, given)
            self.approvals.changed(entry)
            return answer_given(item.item_id, item.agent_id, given.decision, given.rule)
        if given.by.acts_as != "human":
            raise BadRequest("cannot_answer", "a key in an agent's pane is pressed only for a human")
        if given.text:
            raise BadRequest("cannot_answer", f"item {item.item_id} takes no text: a key answers its dialog")
        with self._dialogs.answering(entry):
            dialog = await self._dialogs.must_stand(entry)
            await self.approvals.record(entry, item, given, dialog.digest)
            await self._dialogs.press(entry, dialog, dialog.keys[given.decision])
        entry.dialog = None
        self.approvals.answered(entry)
        self.approvals.show(entry)
        return answer_given(item.item_id, item.agent_id, given.decision, given.rule)

    def is_over(self, item: InboxItem) -> bool:
        """Whether the item was answered or withdrawn since this daemon began."""
        return self._pending.why_over(item.item_id) is not None


def _answer_before(entry: AgentEntry, wanted: str, given: GivenAnswer) -> dict[str, Any] | None:
    """The recorded answer if this call gave it and is sent again, None without one; else Conflict ``item_over``."""
    before, call = entry.state.answers.get(wanted), entry.state.calls.get(given.req or "")
    if before is None:
        return None
    if call is None or call.seq != before.seq:
        raise Conflict("item_over", f"item {wanted} was answered already: {before.decision}")
    return answer_given(wanted, entry.agent_id, before.decision, before.rule)


async def _no_run(_run_id: str, _who: str) -> bool:
    return False
