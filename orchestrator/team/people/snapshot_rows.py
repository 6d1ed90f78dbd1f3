"""One agent as people see it: its row of agent_list with what it waits for, its cost, its changes and its screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.core.attention import NEEDS_HUMAN, state_word
from orchestrator.core.inbox_items import InboxItem, in_order, recorded_items
from orchestrator.journal.project_files import Paths
from orchestrator.team.roster import offline_view

if TYPE_CHECKING:
    from orchestrator.team.roster.agent_entry import AgentEntry  # only a daemon has one


@dataclass
class RowFacts:
    """Where the facts of a row come from that no record of the agent has. Each returns at once.

    ``usage``: ``{input, cached, output, requests, cost_usd, models, unknown}`` or None; ``diff``:
    ``{files, added, removed}`` or None; ``screen_line``: the last line of its screen, masked.
    """

    usage: Callable[[AgentEntry], dict[str, Any] | None] = lambda _entry: None
    diff: Callable[[AgentEntry], dict[str, Any] | None] = lambda _entry: None
    screen_line: Callable[[AgentEntry], str] = lambda _entry: ""


NOTHING_KNOWN: dict[str, Any] = {
    "host": None,
    "state": "unknown",
    "needs_human": False,
    "waits_for": None,
    "usage": None,
    "diff": None,
    "screen_line": "",
}
"""What a row has of an agent whose daemon is not there."""


def snapshot_row(row: dict[str, Any], items: Sequence[InboxItem], **facts: Any) -> dict[str, Any]:
    """The row of the snapshot, made of that of agent_list."""
    holding = in_order(item for item in items if item.holds)
    waits = holding[0] if holding else None
    shown = {
        **row,
        **NOTHING_KNOWN,
        **facts,
        "needs_human": row["status"] in NEEDS_HUMAN or waits is not None,
        "waits_for": None
        if waits is None
        else {
            "kind": waits.kind,
            "text": waits.text,
            "since": waits.since,
            "until": waits.until,
            "item": waits.item_id,
        },
    }
    return {**shown, "state": state_word(shown)}


class OfflineRows(NamedTuple):
    """The rows of agents that are not deleted, the items of the inbox, and the rows of deleted agents."""

    rows: list[dict[str, Any]]
    items: list[dict[str, Any]]
    deleted: list[dict[str, Any]]


def offline_rows(root: Path) -> OfflineRows:
    """A snapshot from the files alone."""
    paths, rows, items, deleted = Paths(root), [], [], []
    for agent_id in offline_view.agent_ids(root):
        row, own = offline_view.row_and_state(paths, agent_id)
        if row["status"] == "deleted":
            deleted.append(row)
            continue
        waiting = recorded_items(own) if own is not None else []  # if not, the row says what is wrong
        rows.append(snapshot_row(row, waiting))
        items += waiting
    return OfflineRows(rows, [item.as_dict() for item in in_order(items)], deleted)
