"""Find waiting requests that an agent's screen shows to be over: answered in the pane, or no longer asked.

A CLI reports neither to its hook. Two looks must agree, because the first may be older than the request. This module
only decides; `approvals` withdraws the requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.screens import Screen
from orchestrator.engines import shown_dialogs
from orchestrator.engines.definition import Engine
from orchestrator.team.people.pending_requests import HookPermission, PendingRequest

OVER_LOOKS = 2
"""Number of consecutive looks that must show a request to be over."""


def over_on(row: Engine, screen: Screen, waiting: Sequence[PendingRequest]) -> list[PendingRequest]:
    """Count a look at the agent's screen. Returns the requests that this look and the look before show to be over."""
    requests = [each for each in waiting if isinstance(each.channel, HookPermission) and not each.answering]
    over = [*_unasked(row, screen, requests), *_answered(row, screen, requests)]
    for pending in requests:
        pending.over_looks = pending.over_looks + 1 if pending in over else 0
    return [pending for pending in over if pending.over_looks >= OVER_LOOKS]


def _unasked(row: Engine, screen: Screen, requests: Sequence[PendingRequest]) -> list[PendingRequest]:
    """The requests held without a dialog that the CLI no longer asks, as its screen shows."""
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
    """The requests whose dialog was replaced by another, or that cannot have a dialog beside the shown dialog."""
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
