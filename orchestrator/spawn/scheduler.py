"""Decides what a run does next from its plan and the states of its nodes. Pure: no clock, no money, no files.

It has the rules that all modes share: the order, the places, the merge, the stops, the end of the run. The mode
(`SpawnMode`) decides which other node ends without a call, and whose answers are the result. A decision looks at the
nodes that have changed since the one before, and at those that these release.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from orchestrator.spawn.modes.mode_names import SpawnModeName
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.modes.spawn_mode import UPSTREAM, NoCall
from orchestrator.spawn.run_data import MERGED, NODE_ENDED, Node, NodeRow, NodeStatus

Stop = Literal["", "budget", "timeout", "canceled"]
PARTIAL = "partial: budget"


@dataclass(frozen=True)
class UncalledNode:
    """A node that ends without a call: in which state, and why."""

    node_id: str
    status: NodeStatus
    why: str


@dataclass(frozen=True)
class RunEnd:
    """What a run has come to. ``from_nodes``: whose answers the final one is made of, when no merge node made it."""

    status: Literal["completed", "failed", "canceled"]
    summary: str
    error: str = ""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NextSteps:
    """What to do now: end the ``uncalled`` nodes first, then ``start`` in that order; ``end`` when all is done."""

    uncalled: tuple[UncalledNode, ...] = ()
    start: tuple[str, ...] = ()
    end: RunEnd | None = None


class Scheduler:
    """The nodes of one run, each after those that it needs; a node that has ended never changes again.

    ``rows`` are the nodes by their ids: as `take` got them last, or as `next_steps` has ended them.
    """

    def __init__(self, mode: SpawnModeName, places: int, rows: Iterable[NodeRow] = ()) -> None:
        """``rows`` in the order of the plan; ``places`` says how many nodes may run at once."""
        self.rows = {row.node.id: row for row in rows}
        self._mode = mode_of(mode)
        self._places = places
        self._ids = list(self.rows)
        self._at = {node_id: at for at, node_id in enumerate(self._ids)}
        self._merge_id = next((row.node.id for row in self.rows.values() if row.node.kind == "merge"), "")
        self._open = 0
        self._open_needs = {row.node.id: len(row.node.needs) for row in self.rows.values()}
        self._needed_by: dict[str, list[str]] = {node_id: [] for node_id in self.rows}
        self._running: Counter[str] = Counter()  # how many of each lane
        self._paused: set[str] = set()
        # Of waiting nodes the places in the plan: a heap of those to look at, and by lanes, sorted, those to start.
        self._changed: list[int] = []
        self._ready: dict[str, list[int]] = {}
        self._passed: bool | None = None
        self._stop: Stop = ""
        self._joined = False
        for row in self.rows.values():
            for need in row.node.needs:
                self._needed_by[need].append(row.node.id)
        for row in self.rows.values():
            self._enter(row)

    @property
    def running(self) -> int:
        """How many nodes run."""
        return self._running.total()

    def merge_to_call(self, *, joined: bool) -> Node | None:
        """The merge node, if the final answer still needs a call of it, whose cost must be kept in the budget."""
        merge = self.rows.get(self._merge_id)
        return merge.node if merge is not None and merge.status == "queued" and not joined else None

    def take(self, row: NodeRow) -> None:
        """Take over the new state of a node."""
        before = self.rows[row.node.id]
        self.rows[row.node.id] = row
        self._open -= 1
        if before.status == "running":
            self._running[lane(row.node)] -= 1
        self._hold_back(row.node)
        self._enter(row)

    def next_steps(
        self, *, due: Iterable[str] = (), passed: bool | None = None, stop: Stop = "", joined: bool = False
    ) -> NextSteps:
        """The next steps of the run (B4.10 to B4.18, C35, C37); an ``end`` only once nothing of it runs any more.

        ``due`` are the nodes whose pause before another attempt has ended since the last call. ``passed`` says
        whether the cheap answer of a cascade is good enough; None: not judged yet. ``stop`` is why nothing new may
        begin. ``joined``: the budget does not pay for a merge, the answers are put side by side.
        """
        for node_id in self._paused.intersection(due):
            self._paused.discard(node_id)
            heapq.heappush(self._changed, self._at[node_id])
        if (passed, stop, joined) != (self._passed, self._stop, self._joined):
            self._passed, self._stop, self._joined = passed, stop, joined
            self._changed = list(range(len(self._ids)))
        uncalled: list[UncalledNode] = []
        while self._changed:
            # In the order of the plan: the end of a node counts for the nodes after it.
            row = self.rows[self._ids[heapq.heappop(self._changed)]]
            if row.status in ("queued", "retry_pending"):
                self._look_at(row, uncalled)
        return NextSteps(tuple(uncalled), self._start(), None if self._open else self._end())

    def _enter(self, row: NodeRow) -> None:
        node_id = row.node.id
        if row.status in NODE_ENDED:
            for other in self._needed_by[node_id]:
                self._open_needs[other] -= 1
                heapq.heappush(self._changed, self._at[other])
            return
        self._open += 1
        if row.status == "running":
            self._running[lane(row.node)] += 1
            return
        if row.status == "retry_pending":
            self._paused.add(node_id)
        heapq.heappush(self._changed, self._at[node_id])

    def _look_at(self, row: NodeRow, uncalled: list[UncalledNode]) -> None:
        """What becomes of a node that waits."""
        node = row.node
        self._hold_back(node)
        spared = self._spared(node)
        if spared is not None:
            status, why = spared
            uncalled.append(UncalledNode(node.id, status, why))
            self.take(replace(row, status=status, error=why, retry_at=None))
        elif not self._open_needs[node.id] and node.id not in self._paused:
            insort(self._ready.setdefault(lane(node), []), self._at[node.id])

    def _hold_back(self, node: Node) -> None:
        ready, place = self._ready.get(lane(node), []), self._at[node.id]
        at = bisect_left(ready, place)
        if ready[at : at + 1] == [place]:
            del ready[at]

    def _spared(self, node: Node) -> NoCall | None:
        """The state of a node that gets no call, and why; None: it gets one, once all that it needs has ended."""
        # A stop for the budget still allows a merge of the existing answers, if the budget pays for it.
        if self._stop and not (self._stop == "budget" and node.kind == "merge" and not self._joined):
            return "skipped" if self._stop == "budget" else "canceled", self._stop
        if self._open_needs[node.id]:
            return None
        if node.kind == "merge":
            return self._merge_spared(node)
        return self._mode.no_call(node, self._status_of, self._passed)

    def _merge_spared(self, node: Node) -> NoCall | None:
        answer_ids = [need for need in node.needs if self._status_of(need) == "completed"]
        broken = [need for need in node.needs if self._status_of(need) in ("failed", "canceled")]
        if self._mode.whole and broken:
            return "failed", f"{UPSTREAM}: {', '.join(broken[:5])}"
        if not answer_ids:
            return "failed", f"{UPSTREAM}: no answer to merge"
        if len(answer_ids) == 1:
            return "skipped", f"{answer_ids[0]} gave the only answer"
        return None

    def _status_of(self, node_id: str) -> NodeStatus:
        return self.rows[node_id].status

    def _start(self) -> tuple[str, ...]:
        """As many of the ready nodes as there are places, one at a time of each lane."""
        room = max(0, self._places - self.running)
        first = (
            ready[: 1 if own else room] for own, ready in self._ready.items() if not (own and self._running[own])
        )
        return tuple(self._ids[place] for place in islice(heapq.merge(*first), room))

    def _end(self) -> RunEnd:
        tasks = [row for row in self.rows.values() if row.node.kind == "task"]
        answer_ids = tuple(row.node.id for row in tasks if row.status == "completed")
        failed = [row for row in tasks if row.status == "failed"]
        merge = self.rows.get(MERGED)
        outcome = [(row.node, row.status) for row in self.rows.values()]
        sources = () if merge is not None and merge.status == "completed" else self._mode.sources(outcome)
        counted = f"{len(answer_ids)} of {len(tasks)} nodes answered"
        if self._stop == "canceled":
            return RunEnd("canceled", f"canceled; {counted}", from_nodes=answer_ids)
        if self._stop == "timeout":
            why = "the run's time is over"
            return RunEnd("failed", f"partial: {why}; {counted}", why, answer_ids)
        if not answer_ids:
            return RunEnd("failed", counted, _why(failed) or self._stop or "no node answered")
        if self._mode.whole and failed:
            return RunEnd("failed", f"partial: {counted}", _why(failed), answer_ids)
        if self._stop == "budget":
            return RunEnd("completed", f"{PARTIAL}; {counted}", from_nodes=sources)
        if merge is not None and merge.status == "failed":
            return RunEnd("failed", f"partial: the merge failed; {counted}", _why([merge]), answer_ids)
        return RunEnd("completed", self._mode.summary(outcome, counted), from_nodes=sources)


def lane(node: Node) -> str:
    """Who can do one thing at a time only: nodes of one lane never run at once; empty: no such bound."""
    return node.model if node.model.startswith("agent:") else ""


def _why(failed: list[NodeRow]) -> str:
    """The first failure that is its own, not another's consequence."""
    errors = [(row.node.id, row.error or "") for row in failed]
    own = [(node_id, error) for node_id, error in errors if error and not error.startswith(UPSTREAM)] or errors
    return f"{own[0][0]}: {own[0][1]}" if own else ""
