"""The snapshot of a team, kept current for all that show it: its rows, the inbox, and who follows it.

A row is built again only if the agent's records, items or status have changed. While nobody follows, nothing is
built. A follower gets what has changed since the version that it knows, at most every `EVERY_S`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.secret_masks import one_line
from orchestrator.base.waiting import Signal, elapse, wait_until
from orchestrator.core import state
from orchestrator.core.attention import in_order, past_of_run, totals
from orchestrator.core.inbox_items import InboxItem, item_id
from orchestrator.core.inbox_items import in_order as items_in_order
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.snapshot_rows import RowFacts, snapshot_row
from orchestrator.team.roster import offline_view
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import row, row_of, status_of
from orchestrator.team.roster.roster import Roster

EVERY_S = 0.2
"""Least time between two answers to one follower."""
LOOK_S = 1.0
"""How often a waiting follower looks for changes that no record shows: an agent that fell silent."""
FACES = 10
"""Up to this many faces get changes every ``EVERY_S``; more get them less often, so that they do not slow agents."""
CAP_S = 55.0
TEXT_MAX = 300


@dataclass
class _KeptRow:
    """A row with the version in which it changed last."""

    version: int
    content: dict[str, Any]
    items: tuple[InboxItem, ...]
    status: tuple[str, str]


@dataclass
class Face:
    """One open connection of a face; ``answers``: it can answer items."""

    name: str
    answers: bool
    last: float = field(default=-EVERY_S)


class SnapshotFeed:
    """The snapshot of one roster. ``runs`` gives the rows of spawn runs and squads, ``boot`` names this daemon.

    ``watched`` is called with whether any face is open, each time this changes. ``glance`` looks once at figures that
    are else known only while a face is open.
    """

    def __init__(self, roster: Roster, inbox: InboxAnswers, facts: RowFacts, boot: str) -> None:
        self._roster = roster
        self._items = inbox
        self._facts = facts
        self._boot = boot
        self._rows: dict[str, _KeptRow] = {}
        self._deleted: dict[str, dict[str, Any]] = {}  # of deleted agents: the values for the totals
        self._totals = totals(())
        self._dirty: set[str] = set()
        self._gone: dict[str, int] = {}  # agent -> the version in which it went
        self._version = self._inbox_version = 1
        self._runs_seen: list[dict[str, Any]] = []
        self._run_items_seen: list[InboxItem] = []
        self._faces: dict[str, Face] = {}
        self.runs: Callable[[], list[dict[str, Any]]] = list
        self.watched: Callable[[bool], None] = lambda _open: None
        self.glance: Callable[[], Awaitable[None]] = _look_at_nothing
        self.moved = Signal()
        self.listeners: list[Callable[[AgentEntry], None]] = []  # hear of changes that no record shows
        roster.listeners.append(self._mark)
        roster.replica_listeners.append(self.touch)

    def touch(self, entry: AgentEntry) -> None:
        """Something of the agent has changed that its row may show and no record says."""
        self._mark(entry)
        for listener in self.listeners:
            listener(entry)

    def _mark(self, entry: AgentEntry) -> None:
        self._dirty.add(entry.agent_id)
        self.moved.notify()

    # -- faces --------------------------------------------------------------------------------------------------

    def opened(self, conn: str, name: str, *, answers: bool) -> Face:
        """The face of this connection; it is open until `closed`."""
        face = self._faces.get(conn)
        if face is None:
            face = self._faces[conn] = Face(name, answers)
            if len(self._faces) == 1:
                self.watched(True)
        face.answers = answers
        self._items.approvals.faces = sum(other.answers for other in self._faces.values())
        return face

    def closed(self, conn: str) -> None:
        """The connection has ended."""
        if self._faces.pop(conn, None) is not None:
            self._items.approvals.faces = sum(other.answers for other in self._faces.values())
            if not self._faces:
                self.watched(False)

    # -- what they get ------------------------------------------------------------------------------------------

    def whole(self) -> dict[str, Any]:
        """The snapshot now."""
        self._renew()
        rows = in_order(kept.content for kept in self._rows.values())
        return {**self._head(), "agents": rows, "inbox": self._inbox(), "runs": self._runs_seen}

    async def once(self) -> dict[str, Any]:
        """The snapshot for a caller that reads it once and opens no face."""
        if not self._faces:
            await self.glance()
        return self.whole()

    async def since(self, version: int, boot: str, wait_s: float, face: Face) -> dict[str, Any]:
        """What has changed since that version, after at most ``wait_s``; the whole of an unknown version."""
        clock = self._roster.clock
        if version <= 0 or boot != self._boot or version > self._version:
            return self.whole()
        slower = max(1.0, len(self._faces) / FACES)
        pause_s = face.last + slower * EVERY_S - clock.monotonic()
        if pause_s > 0:
            await elapse(pause_s, clock)
        end = clock.monotonic() + min(wait_s, CAP_S)
        while True:
            self._renew()
            if self._version > version or clock.monotonic() >= end:
                break
            await wait_until(self._stirred, self.moved, min(end, clock.monotonic() + slower * LOOK_S), clock)
        face.last = clock.monotonic()
        return self._delta(version)

    def run_items(self) -> list[InboxItem]:
        """The items of this project's spawn runs that have ended because their budget was used up."""
        stopped = [row for row in self._runs_seen if row.get("over_budget") and not row.get("dismissed")]
        return [item for row in stopped if not self._items.is_over(item := _budget_item(row))]

    # -- building -----------------------------------------------------------------------------------------------

    def _stirred(self) -> bool | None:
        return True if self._dirty else None

    def _renew(self) -> None:
        changed = False
        for entry in self._roster.everyone():
            agent_id = entry.agent_id
            if not entry.live:
                changed = self._renew_deleted(entry) or changed
                continue
            kept, status = self._rows.get(agent_id), status_of(entry, self._roster.clock)
            if kept is not None and agent_id not in self._dirty and kept.status == status:
                continue
            items = tuple(self._items.items(entry))
            content = snapshot_row(row(self._roster, entry), items, **self._figures(entry))
            if kept is None or kept.content != content or kept.items != items:
                changed = True
                self._note_items(kept.items if kept is not None else (), items)
                self._rows[agent_id] = _KeptRow(self._version + 1, content, items, status)
            else:
                kept.status = status
        self._dirty.clear()
        for agent_id in [name for name in self._deleted if self._roster.shown(name) is None]:
            del self._deleted[agent_id]  # gc has removed its files
        changed = self._renew_unreadable() or changed
        for agent_id in [name for name in self._rows if not self._is_shown(name)]:
            self._note_items(self._rows.pop(agent_id).items, ())
            self._gone[agent_id] = self._version + 1
            changed = True
        runs = self.runs()
        if runs != self._runs_seen:
            self._runs_seen, changed = runs, True
        run_items = self.run_items()
        if run_items != self._run_items_seen:
            self._note_items(self._run_items_seen, run_items)
            self._run_items_seen, changed = run_items, True
        if changed:
            self._version += 1
            rows = list(self._contents())
            self._totals = totals(rows, past_of_run(rows, self._deleted.values()))

    def _figures(self, entry: AgentEntry) -> dict[str, Any]:
        """The facts of a row that no record has; those of a replica as its owner has published them."""
        if entry.remote is None:
            figures = {
                "usage": self._facts.usage(entry),
                "diff": self._facts.diff(entry),
                "screen_line": self._facts.screen_line(entry),
            }
            return {**figures, "host": entry.state.host} if entry.state.fleet else figures
        row = entry.remote.row
        return {
            "usage": row.get("usage"),
            "diff": row.get("diff"),
            "screen_line": str(row.get("screen_line") or ""),
            "host": entry.remote.host,
        }

    def _renew_deleted(self, entry: AgentEntry) -> bool:
        """Update a deleted agent's values for the totals; returns whether they have changed."""
        before = self._deleted.get(entry.agent_id)
        if before is not None and entry.agent_id not in self._dirty:
            return False
        agent = entry.state
        facts = {"finished": dict(agent.outcomes), "usage": self._figures(entry)["usage"]}
        now = {"run_id": agent.run_id, "created_at": agent.created_at, **facts}
        self._deleted[entry.agent_id] = now
        return now != before

    def _note_items(self, before: Sequence[InboxItem], now: Sequence[InboxItem]) -> None:
        """Remember that the inbox changes with the next version: a request may be as long as a megabyte."""
        if before != now:
            self._inbox_version = self._version + 1

    def _renew_unreadable(self) -> bool:
        """The rows of agents whose files cannot be read or are not of this machine; whether one has changed."""
        changed = False
        for agent_id, error in self._roster.corrupt.items():
            status = ("failed", error.message)
            kept = self._rows.get(agent_id)
            if (kept is None or kept.status != status) and self._roster.paths.agent_dir(agent_id).is_dir():
                foreign = self._roster.is_foreign(agent_id)
                row_now = (
                    offline_view.row(self._roster.paths, agent_id)
                    if foreign
                    else row_of(state.Agent(agent_id), status, None, 0)
                )
                self._rows[agent_id] = _KeptRow(self._version + 1, snapshot_row(row_now, ()), (), status)
                changed = True
        return changed

    def _is_shown(self, agent_id: str) -> bool:
        entry = self._roster.shown(agent_id)
        return entry.live if entry is not None else agent_id in self._roster.corrupt

    def _delta(self, version: int) -> dict[str, Any]:
        kept = {agent_id: kept for agent_id, kept in self._rows.items() if kept.version > version}
        gone = [agent_id for agent_id, went in self._gone.items() if went > version and agent_id not in self._rows]
        return {
            **self._head(),
            "changed": [row.content for row in kept.values()],
            "gone": gone,
            "order": [str(row["agent_id"]) for row in in_order(self._contents())],
            **({"inbox": self._inbox()} if self._inbox_version > version else {}),
            "runs": self._runs_seen,
        }

    def _contents(self) -> Iterable[dict[str, Any]]:
        return (kept.content for kept in self._rows.values())

    def _inbox(self) -> list[dict[str, Any]]:
        of_agents = (item for kept in self._rows.values() for item in kept.items)
        items = items_in_order([*of_agents, *self._run_items_seen])
        return [item.as_dict() for item in items]

    def _head(self) -> dict[str, Any]:
        root = self._roster.root
        return {
            "version": self._version,
            "boot": self._boot,
            "at": rfc3339(self._roster.clock.now()),
            "project": str(root),
            "title": root.name,
            "live": True,
            "totals": self._totals,
        }


async def _look_at_nothing() -> None:
    """Without figures there is nothing to look at."""


def _budget_item(run: dict[str, Any]) -> InboxItem:
    text = one_line(f"spawn run {run['title']}: {run['reason']}", TEXT_MAX)
    return InboxItem(
        item_id("budget", run["id"]), "budget", "", text, run["since"], holds=False, run_id=run["id"],
        answers=("dismiss",),
    )  # fmt: skip
