"""The requests of agents' CLIs to their user: from the hook that asks to the answer that it gets.

A request comes from a CLI's hook or plugin, which waits. Its answer is recorded (`answered`) and durable before the
CLI gets it. So a hook that connects again after the daemon died is answered from the record. Nothing here types.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
from orchestrator.base.secret_masks import one_line
from orchestrator.base.waiting import call_off, wait_until
from orchestrator.core import blocked
from orchestrator.core.inbox_items import InboxItem, item_id
from orchestrator.core.screens import QUESTIONS, REASON_MAX, Screen, ScreenFinding
from orchestrator.engines.permission_requests import LAUNCH_SECRET, Asked
from orchestrator.team.people import pane_answers
from orchestrator.team.people.answer_words import (
    Answerer,
    GivenAnswer,
    PermissionChannel,
    answer_given,
    answered_record,
    decision_for_cli,
    must_take,
    possible_answers,
    text_digest,
)
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.pending_requests import (
    HookPermission,
    PendingRequest,
    PendingRequests,
    block_kind,
    request_item,
)
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.parking import HookChannel, HookEvent

log = structlog.get_logger()

RETURN_S = 10.0
"""Seconds for which a request that returns to a new daemon is held for a face that returns too, and waited for."""


class Approvals:
    """The requests of a roster's agents.

    ``faces``: how many open faces can answer. ``changed`` is called with an agent whose items changed.
    ``answered`` is called with an agent whose question was just answered: its screen may still show the question.
    ``pending`` has the requests that wait, and the items that are over.
    """

    def __init__(self, roster: Roster, rules: ApprovalRules) -> None:
        self._roster = roster
        self._rules = rules
        self.changed: Callable[[AgentEntry], None] = lambda _entry: None
        self.answered: Callable[[AgentEntry], None] = lambda _entry: None
        self.pending = PendingRequests()
        self._in_panes: dict[str, tuple[int, set[str]]] = {}  # agent -> epoch, what its dialogs may have settled
        self._faces = 0
        self._tasks = BackgroundTasks()
        self._closed = False

    async def close(self) -> None:
        """Forget the requests without an answer: their hooks come back to the next daemon."""
        self._closed = True
        await call_off(self._tasks)

    @property
    def faces(self) -> int:
        return self._faces

    @faces.setter
    def faces(self, count: int) -> None:
        before, self._faces = self._faces, count
        self.pending.moved.notify()
        if before and not self.holds:
            for pending in self.pending:
                if not pending.dialog_meanwhile and not pending.answering:
                    self._release(pending, "no face is open that can answer")

    @property
    def holds(self) -> bool:
        """Whether a CLI that shows no dialog meanwhile waits for an answer from outside."""
        wanted = self._roster.config().approvals_hold
        return wanted == "always" or (wanted == "faces" and self._faces > 0)

    # -- requests -----------------------------------------------------------------------------------------------

    def requested(
        self,
        entry: AgentEntry,
        key: str,
        asked: Asked,
        channel: PermissionChannel,
        *,
        dialog_meanwhile: bool,
        returned: bool = False,
    ) -> None:
        """Take one request; ``key`` tells it from all others of the agent's launch, also after it ``returned``."""
        if self._closed:
            return  # the hook comes back to the next daemon
        agent, at = entry.state, rfc3339(self._roster.clock.now())
        request_id = item_id(entry.agent_id, agent.epoch, key)
        if before := agent.answers.get(request_id):  # of an earlier daemon, which could not say it
            channel.decide(decision_for_cli(before.decision), before.text)
            return
        covered = self._rules.can_cover(asked)
        answers = possible_answers(asked, dialog_meanwhile=dialog_meanwhile, can_be_ruled=covered)
        has_room = self.pending.has_room(entry.agent_id, asked)
        shown = asked if has_room else replace(asked, text="", questions=None)
        item = request_item(agent, request_id, shown, answers, at)
        pending = PendingRequest(item, asked, channel, dialog_meanwhile)
        rule = self._rules.matching(asked) if asked.kind == "permission" and not asked.cut else None
        if rule is not None:
            pending.answering = True
            self.pending.add(key, pending)
            self._tasks.start(self._allowed_by_rule(entry, pending, rule))
            return
        held = has_room and (dialog_meanwhile or self.holds)
        if not held and not (has_room and returned and self._roster.config().approvals_hold == "faces"):
            covers = self._to_pane(entry, channel)
            if not covers:
                self.show(entry, at, in_pane=pending.item)
            return
        self.pending.add(key, pending)
        self.show(entry, at)
        if not dialog_meanwhile:
            self._tasks.start(self._until_limit(pending))
        if not held:
            self._tasks.start(self._until_face(pending))

    def withdrawn(self, entry: AgentEntry, key: str | None, reason: str) -> None:
        """The request (None: each of the agent) was answered in the pane.

        A hook that still waits is released: its late word would count for nothing.
        """
        self._withdraw(entry, self.pending.of(entry.agent_id, key), reason)

    def _withdraw(self, entry: AgentEntry, requests: Sequence[PendingRequest], reason: str) -> None:
        waiting = [pending for pending in requests if not pending.answering]
        for pending in waiting:
            self.pending.end(pending, reason)
            pending.channel.decide("release", "")
        if waiting:
            self.show(entry)
            self.answered(entry)

    def heard(self, entry: AgentEntry, channel: HookChannel, hook_event: HookEvent) -> bool:
        """Take an event that asks for a permission or a question, as the agent's engine reads it."""
        row = entry.engine
        data = {**hook_event.data, LAUNCH_SECRET: entry.secret}
        request = row.request(hook_event.event, data) if row is not None and row.request else None
        if request is None:
            return False
        key = request.key or channel.conn
        way = HookPermission(channel, request)
        if request.refused:
            log.warning("a call was refused", agent=entry.agent_id, asked=request.asked.line)
            way.decide("deny", "")
        elif self._in_pane(entry) & request.dialog_covers:
            way.decide("release", "")
        else:
            self.requested(
                entry,
                key,
                request.asked,
                way,
                dialog_meanwhile=request.dialog_meanwhile,
                returned=channel.returned,
            )
        return True

    def seen(self, entry: AgentEntry, screen: Screen) -> None:
        """Take a look at the agent's screen. A request that two looks show to be over is withdrawn."""
        row = entry.engine
        if row is not None:
            over = pane_answers.over_on(row, screen, self.pending.of(entry.agent_id))
            self._withdraw(entry, over, "answered in the pane, or no longer asked")

    def _in_pane(self, entry: AgentEntry) -> set[str]:
        """What a human at the pane may have allowed for good in this launch: its CLI asks, or does not."""
        epoch, covered = self._in_panes.get(entry.agent_id, (0, set()))
        if epoch != entry.state.epoch:
            covered = set()
            self._in_panes[entry.agent_id] = (entry.state.epoch, covered)
        return covered

    def answered_in_pane(self, entry: AgentEntry, key: str) -> bool:
        """A plugin reports that one of its requests has an answer, from wherever; True if others wait still."""
        self.withdrawn(entry, key, "answered in its pane")
        return bool(self.pending.of(entry.agent_id))

    def went_on(self, entry: AgentEntry, kind: str) -> None:
        """The CLI goes on after an event of this kind: a human has answered in the pane. Subagents may ask still."""
        for key in self.pending.keys_of_turn(entry.agent_id):
            self.withdrawn(entry, key, f"answered in its pane ({kind or 'it goes on'})")
        if self.pending.of(entry.agent_id):
            self.show(entry)

    def hook_ended(self, entry: AgentEntry, channel: HookChannel) -> None:
        """Its hook or plugin has ended: nobody waits for the answers any more.

        Whether its CLI asks on, in its own dialog, is for its screen to show.
        """
        for pending in self.pending.of(entry.agent_id):
            ours = isinstance(pending.channel, HookPermission) and pending.channel.hook is channel
            if ours and not pending.answering:
                self.pending.end(pending, "its CLI has ended the request")
                if self.pending.of(entry.agent_id):
                    self.show(entry)
                else:
                    entry.finding = None
                    self.changed(entry)

    def waits_with_dialog(self, entry: AgentEntry) -> str:
        """The item of which only the agent's screen shows that it was answered in the pane; "" without one."""
        return next(
            (
                pending.item.item_id
                for pending in self.pending.of(entry.agent_id)
                if pending.dialog_meanwhile and pending.asked.by == "hook" and not pending.answering
            ),
            "",
        )

    def dialog_gone(self, entry: AgentEntry) -> None:
        """The agent's screen shows no dialog any more. Requests that are held without a dialog continue to wait."""
        shown = [pending for pending in self.pending.of(entry.agent_id) if pending.dialog_meanwhile]
        self._withdraw(entry, shown, "answered in the pane: the dialog is gone")

    # -- answers ------------------------------------------------------------------------------------------------

    async def answer(self, pending: PendingRequest, given: GivenAnswer) -> dict[str, Any]:
        """Record the answer, then give it to the CLI; ``{ok, item, decision, agent_id, rule}``.

        BadRequest ``cannot_answer`` if the request does not accept this decision; Conflict ``item_over`` if it is
        being answered, or its CLI has ended it meanwhile. On an error nothing reaches the CLI.
        """
        item, entry = pending.item, self._roster.agents[pending.item.agent_id]
        if pending.answering:
            raise Conflict("item_over", f"item {item.item_id} is being answered")
        must_take(item, given.decision)
        pending.channel.check(decision_for_cli(given.decision), given.text)
        if given.decision == "always" and given.by.acts_as != "human":
            raise BadRequest("cannot_answer", "only a human makes a rule")
        pending.answering = True
        made = None
        try:
            if given.decision == "always":
                at, known = rfc3339(self._roster.clock.now()), self._rules.matching(pending.asked)
                given = replace(given, rule=await self._rules.add(pending.asked, given.by, at))
                made = given.rule if known is None else None
            await self.record(entry, pending.item, given, text_digest(pending.asked.text))
        except BaseException:
            pending.answering = False
            if made is not None:  # nothing was decided, so no rule may decide later
                with contextlib.suppress(OrchestratorError):
                    self._rules.remove(made)
            raise
        if given.decision == "release" and isinstance(pending.channel, HookPermission):
            self._in_pane(entry).update(pending.channel.request.dialog_covers)
        reached = pending.channel.decide(decision_for_cli(given.decision), given.text)
        self.pending.end(pending, f"answered: {given.decision}")
        self.show(entry, in_pane=item if given.decision == "release" else None)
        if given.decision != "release":
            self.answered(entry)
        if not reached:
            raise Conflict("item_over", f"{entry.agent_id} has ended the request {item.item_id} meanwhile")
        return answer_given(item.item_id, item.agent_id, given.decision, given.rule)

    async def _allowed_by_rule(self, entry: AgentEntry, pending: PendingRequest, rule: str) -> None:
        given = GivenAnswer("approve", "", Answerer("rule", acts_as="rule"), rule)
        try:
            await self.record(entry, pending.item, given, text_digest(pending.asked.text))
        except OrchestratorError as error:
            # Without its record nothing is allowed: a human decides.
            log.warning("a rule did not answer", agent=entry.agent_id, **error.as_dict())
            pending.answering = False
            self._release(pending, "its rule's answer could not be recorded")
            return
        pending.channel.decide("approve", "")
        self.pending.end(pending, "answered by a rule")
        self.show(entry)

    async def record(self, entry: AgentEntry, item: InboxItem, given: GivenAnswer, digest: str = "") -> None:
        """Make the answer durable. ``digest`` is the SHA-256 of the text that was shown."""
        at = rfc3339(self._roster.clock.now())
        await self._roster.commit(entry, [answered_record(entry.state, item, given, at, digest)])

    # -- small things -------------------------------------------------------------------------------------------

    async def _until_limit(self, pending: PendingRequest) -> None:
        if not await self._over(pending, self._roster.config().approvals_hold_s) and not pending.answering:
            self._release(pending, "nobody answered in time")

    async def _until_face(self, pending: PendingRequest) -> None:
        if not await self._over(pending, RETURN_S, by_face=True) and not pending.answering:
            self._release(pending, "no face is open that can answer")

    async def _over(self, pending: PendingRequest, seconds: float, *, by_face: bool = False) -> bool:
        """Wait until the request is over, or a face opens (``by_face``); False if neither happens in time."""
        clock = self._roster.clock
        entry = self._roster.agents[pending.item.agent_id]

        def over() -> bool | None:
            return True if pending not in self.pending.of(entry.agent_id) or (by_face and self._faces) else None

        return bool(await wait_until(over, self.pending.moved, clock.monotonic() + seconds, clock))

    def _release(self, pending: PendingRequest, reason: str) -> None:
        entry = self._roster.agents[pending.item.agent_id]
        self.pending.end(pending, reason)
        covers = self._to_pane(entry, pending.channel)
        self.show(entry, in_pane=None if covers else pending.item)

    def _to_pane(self, entry: AgentEntry, channel: PermissionChannel) -> bool:
        """Leave a request to the CLI, which shows its dialog; True if it may also decide that by itself."""
        covers = channel.request.dialog_covers if isinstance(channel, HookPermission) else frozenset()
        self._in_pane(entry).update(covers)
        channel.decide("release", "")
        return bool(covers)

    def show(self, entry: AgentEntry, at: str = "", in_pane: InboxItem | None = None) -> None:
        """Record what the agent asks now (``at``, or this moment), or that it asks nothing any more.

        ``in_pane`` was handed to its dialog, which asks the same: its screen shows when that is over.
        """
        waiting = next((p.item for p in self.pending.of(entry.agent_id) if not p.answering), in_pane)
        at = at or rfc3339(self._roster.clock.now())
        if waiting is None:
            entry.finding = None
            drafts = blocked.unblock(entry.state, QUESTIONS, at=at, reason="it was answered")
        else:
            entry.finding = ScreenFinding(block_kind(waiting.kind), one_line(waiting.text, REASON_MAX))
            drafts = blocked.explained(entry.state, entry.finding, at=at)
        try:
            self._roster.write(entry, drafts)
        except OrchestratorError as error:
            log.warning("not recorded", agent=entry.agent_id, **error.as_dict())
        entry.changed.notify()
        self.changed(entry)
