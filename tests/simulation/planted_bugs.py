"""Bugs that are planted into a local team, each a small patch: the simulation must find every one of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from orchestrator.core import decisions, state, supervision
from orchestrator.core.record_drafts import happened
from orchestrator.journal import live_segment, log_opening
from orchestrator.journal.log import Journal
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import SysIO
from orchestrator.team.roster import loading
from orchestrator.team.roster.roster import Roster

Bug = Callable[[], AbstractContextManager[Any]]


def visible_before_sync() -> AbstractContextManager[Any]:
    return mock.patch.object(Journal, "_shown", property(lambda self: self._written))


def answered_before_sync() -> AbstractContextManager[Any]:
    async def durable(self: Roster, entry: Any) -> None:
        pass

    return mock.patch.object(Roster, "durable", durable)


def delivered_before_its_task_is_durable() -> AbstractContextManager[Any]:
    real = decisions.next_command

    def eager(agent: Any, **more: Any) -> Any:
        return real(agent, **{**more, "visible_inbox": 1 << 60})

    return mock.patch.object(decisions, "next_command", eager)


def delivered_without_a_look_at_the_lease() -> AbstractContextManager[Any]:
    real = decisions.next_command

    def eager(agent: Any, **more: Any) -> Any:
        lease, agent.lease = agent.lease, None
        try:
            return real(agent, **more)
        finally:
            agent.lease = lease

    return mock.patch.object(decisions, "next_command", eager)


def calls_of_ended_launches_count() -> AbstractContextManager[Any]:
    return mock.patch.object(decisions, "check_epoch", lambda agent, epoch: None)


def second_end_is_stored() -> AbstractContextManager[Any]:
    real = decisions.emit

    def emit(agent: Any, **more: Any) -> Any:
        made = real(agent, **more)
        if not made.answer.get("duplicate") or more["kind"] not in ("result", "error", "canceled"):
            return made
        fields = {"task_id": more["task_id"], "attempt": 1, "payload": more["payload"]}
        draft = happened(agent, more["kind"], more["at"], by="agent", req=more["req"], **fields)
        return decisions.Decision([draft], {"ok": True})

    return mock.patch.object(decisions, "emit", emit)


def requeue_loses_the_attempt() -> AbstractContextManager[Any]:
    real = supervision._lost

    def lost(agent: Any, task: Any, at: str) -> Any:
        draft = real(agent, task, at)
        if draft.type == "requeued":
            draft.fields["attempt"] -= 1
        return draft

    return mock.patch.object(supervision, "_lost", lost)


def sent_again_is_another_task() -> AbstractContextManager[Any]:
    count = itertools.count()
    return mock.patch.object(decisions, "task_id_from", lambda req: f"t-{next(count)}")


def torn_tail_is_trusted() -> AbstractContextManager[Any]:
    return mock.patch.object(log_opening, "_end_of_lines", lambda io, fd, size, clean: size)


def tail_is_not_written_again() -> AbstractContextManager[Any]:
    return mock.patch.object(log_opening, "_rewrite_tail", lambda *_: None)


def name_of_a_new_file_is_not_synced() -> AbstractContextManager[Any]:
    return mock.patch.object(SysIO, "fsync_dir", lambda self, path: None)


def failed_write_is_left_behind() -> AbstractContextManager[Any]:
    def leave(self: Any, offset: int) -> None:
        self.untaken = False

    return mock.patch.object(live_segment.LiveSegment, "take_back", leave)


def broadcast_before_the_outbox_is_durable() -> AbstractContextManager[Any]:
    real = Roster.write

    def write(self: Roster, entry: Any, drafts: Any) -> Any:
        written = real(self, entry, drafts)
        run = self.runs.get(entry.run_id)
        while run is not None and entry.unpublished:
            run.queue(entry.agent_id, entry.unpublished.popleft())
        if run is not None:
            self._publish(run)
        return written

    return mock.patch.object(Roster, "write", write)


def broadcast_is_not_completed_after_a_crash() -> AbstractContextManager[Any]:
    return mock.patch.object(Roster, "publish_missing", lambda self: None)


def cancel_is_seen_at_its_edge_only() -> AbstractContextManager[Any]:
    real = Roster.write

    def write(self: Roster, entry: Any, drafts: Any) -> Any:
        if not any(draft.type in ("cancel", "cancel_requested") for draft in drafts):
            entry.state.cancels.clear()
        return real(self, entry, drafts)

    return mock.patch.object(Roster, "write", write)


def what_a_crash_cut_off_is_not_settled() -> AbstractContextManager[Any]:
    real = supervision.settle

    def settle(agent: Any, at: str) -> Any:
        return [draft for draft in real(agent, at) if draft.type != "requeued"]

    return mock.patch.object(supervision, "settle", settle)


def outbox_is_folded_first() -> AbstractContextManager[Any]:
    return mock.patch.object(loading, "TYPES", dict(reversed(loading.TYPES.items())))


def failed_sync_is_tried_again() -> AbstractContextManager[Any]:
    real = Syncer._run

    def run(self: Syncer, job: Any) -> Any:
        def twice() -> None:
            try:
                job()
            except OSError:
                job()

        return real(self, twice)

    return mock.patch.object(Syncer, "_run", run)


def later_task_first() -> AbstractContextManager[Any]:
    def head(self: state.Agent) -> Any:
        return next(reversed(self.unfinished.values()), None)

    return mock.patch.object(state.Agent, "head", head)


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        visible_before_sync, answered_before_sync, delivered_before_its_task_is_durable,
        delivered_without_a_look_at_the_lease, calls_of_ended_launches_count, second_end_is_stored,
        requeue_loses_the_attempt, sent_again_is_another_task, torn_tail_is_trusted, tail_is_not_written_again,
        name_of_a_new_file_is_not_synced, failed_write_is_left_behind, broadcast_before_the_outbox_is_durable,
        broadcast_is_not_completed_after_a_crash, cancel_is_seen_at_its_edge_only, what_a_crash_cut_off_is_not_settled,
        outbox_is_folded_first, failed_sync_is_tried_again, later_task_first,
    )
}  # fmt: skip
