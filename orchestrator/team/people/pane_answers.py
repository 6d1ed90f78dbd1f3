"""Which waiting requests of an agent its screen shows to be over: answered in the pane, or not asked any more.

A hook is told of neither. Two looks must agree, because the first may be older than the request. Only judges;
`approvals` withdraws the requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.screens import Screen
from orchestrator.engines import shown_dialogs
from orchestrator.engines.definition import Engine
from orchestrator.team.people.pending_requests import HookPermission, PendingRequest

OVER_LOOKS = 2
"""How many looks at a screen end a request that no dialog shows."""


def over_on(row: Engine, screen: Screen, waiting: Sequence[PendingRequest]) -> list[PendingRequest]:
    """Take note of a look at the agent's screen; the requests that it and the look before it show to be over."""
    requests = [each for each in waiting if isinstance(each.channel, HookPermission) and not each.answering]
    over = [*_unasked(row, screen, requests), *_answered(row, screen, requests)]
    for pending in requests:
        pending.over_looks = pending.over_looks + 1 if pending in over else 0
    return [pending for pending in over if pending.over_looks >= OVER_LOOKS]


def _unasked(row: Engine, screen: Screen, requests: Sequence[PendingRequest]) -> list[PendingRequest]:
    """Those without a dialog that the CLI, as its screen says, does not ask any more."""
    if row.asks_no_more is None:
        return []
    return [
        pending
        for pending in requests
        if isinstance(pending.channel, HookPermission)
        and not pending.dialog_meanwhile
        and row.asks_no_more(screen, pending.channel.request.dialog_covers)
    ]


def _answered(row: Engine, screen: Screen, requests: Sequence[PendingRequest]) -> list[PendingRequest]:
    """Those whose dialog has made room for another one's, or that can have none beside the one that is shown."""
    dialog = row.shows(screen) if row.shows is not None else None
    asked = [pending for pending in requests if pending.dialog_meanwhile]
    shown = shown_dialogs.about(dialog, [pending.asked for pending in asked]) if dialog is not None else []
    if dialog is None or not shown:
        return []
    over = []
    for pending in asked:
        if any(pending.asked is each for each in shown):
            pending.shown = True
        elif pending.shown or (dialog.alone and pending.asked.kind == "permission"):
            over.append(pending)
    return over
