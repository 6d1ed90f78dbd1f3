"""The scheduler as a scan of all nodes of a run: what the real one, which looks at changed nodes only, must decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.spawn.modes.mode_names import SpawnModeName
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.modes.spawn_mode import UPSTREAM, NoCall, Outcome
from orchestrator.spawn.run_data import MERGED, NODE_ENDED, Node, NodeRow, NodeStatus
from orchestrator.spawn.scheduler import PARTIAL, NextSteps, RunEnd, Stop, UncalledNode, lane


@dataclass(frozen=True)
class RunView:
    """The facts about a run at one moment.

    ``rows`` are its nodes in the order of the plan. ``due`` holds the ids of nodes whose pause before another
    attempt is over. ``passed`` says whether the cheap answer of a cascade is good enough; None: not judged yet.
    ``stop`` is why nothing new may begin; ``places`` how many nodes may run at once.
    """

    mode: SpawnModeName
    rows: Sequence[NodeRow]
    places: int
    due: frozenset[str] = frozenset()
    passed: bool | None = None
    stop: Stop = ""
    joined: bool = False  # the budget does not pay for a merge: the answers are put side by side


@dataclass
class _States:
    """The nodes' states during one decision: the end of a node counts for the nodes after it."""

    rows: Mapping[str, NodeRow]
    now: dict[str, NodeStatus] = field(default_factory=dict)
    uncalled: list[UncalledNode] = field(default_factory=list)

    def of(self, node_id: str) -> NodeStatus:
        return self.now.get(node_id) or self.rows[node_id].status

    def end_uncalled(self, node_id: str, status: NodeStatus, why: str) -> None:
        self.now[node_id] = status
        self.uncalled.append(UncalledNode(node_id, status, why))

    def outcome(self) -> Outcome:
        return [(row.node, self.of(node_id)) for node_id, row in self.rows.items()]

    def having(self, *statuses: NodeStatus) -> list[str]:
        return [node_id for node_id in self.rows if self.of(node_id) in statuses]


def decide(view: RunView) -> NextSteps:
    """The next steps of a run (B4.10 to B4.18, C35, C37); an ``end`` only once nothing of it runs any more."""
    states = _States({row.node.id: row for row in view.rows})
    ready: list[str] = []
    for row in view.rows:  # each after those that it needs, so one pass sees every consequence
        node = row.node
        if states.of(node.id) not in ("queued", "retry_pending"):
            continue
        if view.stop and not _may_still_merge(view, node):
            status: NodeStatus = "skipped" if view.stop == "budget" else "canceled"
            states.end_uncalled(node.id, status, view.stop)
            continue
        if any(states.of(need) not in NODE_ENDED for need in node.needs):
            continue
        spared = _spared(view, node, states)
        if spared is not None:
            states.end_uncalled(node.id, *spared)
        elif row.status == "queued" or node.id in view.due:
            ready.append(node.id)
    start = _within(view, ready, states)
    open_ = [node_id for node_id in states.rows if states.of(node_id) not in NODE_ENDED]
    end = None if open_ else _end(view, states)
    return NextSteps(tuple(states.uncalled), start, end)


def _may_still_merge(view: RunView, node: Node) -> bool:
    """A stop for the budget still allows a merge of the existing answers, if the budget pays for it."""
    return view.stop == "budget" and node.kind == "merge" and not view.joined


def _spared(view: RunView, node: Node, states: _States) -> NoCall | None:
    """The state of a node whose needs have ended and that gets no call, and why; None: it gets one."""
    if node.kind == "merge":
        return _merge_spared(view, node, states)
    return mode_of(view.mode).no_call(node, states.of, view.passed)


def _merge_spared(view: RunView, node: Node, states: _States) -> NoCall | None:
    answer_ids = [need for need in node.needs if states.of(need) == "completed"]
    broken = [need for need in node.needs if states.of(need) in ("failed", "canceled")]
    if mode_of(view.mode).whole and broken:
        return "failed", f"{UPSTREAM}: {', '.join(broken[:5])}"
    if not answer_ids:
        return "failed", f"{UPSTREAM}: no answer to merge"
    if len(answer_ids) == 1:
        return "skipped", f"{answer_ids[0]} gave the only answer"
    return None


def _within(view: RunView, ready: list[str], states: _States) -> tuple[str, ...]:
    """As many of the ready nodes as there are places, one at a time of each lane."""
    running = states.having("running")
    taken = {lane(states.rows[node_id].node) for node_id in running} - {""}
    room = view.places - len(running)
    start: list[str] = []
    for node_id in ready:
        if len(start) >= room:
            break
        own = lane(states.rows[node_id].node)
        if own and own in taken:
            continue
        taken |= {own} - {""}
        start.append(node_id)
    return tuple(start)


def _end(view: RunView, states: _States) -> RunEnd:
    tasks = [node_id for node_id, row in states.rows.items() if row.node.kind == "task"]
    answer_ids = tuple(node_id for node_id in tasks if states.of(node_id) == "completed")
    failed = [node_id for node_id in tasks if states.of(node_id) == "failed"]
    merged = MERGED in states.rows and states.of(MERGED) == "completed"
    sources = () if merged else mode_of(view.mode).sources(states.outcome())
    counted = f"{len(answer_ids)} of {len(tasks)} nodes answered"
    if view.stop == "canceled":
        return RunEnd("canceled", f"canceled; {counted}", from_nodes=answer_ids)
    if view.stop == "timeout":
        return RunEnd("failed", f"partial: the run's time is over; {counted}", "the run's time is over", answer_ids)
    if not answer_ids:
        return RunEnd("failed", counted, _why(states, failed) or view.stop or "no node answered")
    if mode_of(view.mode).whole and failed:
        return RunEnd("failed", f"partial: {counted}", _why(states, failed), answer_ids)
    if view.stop == "budget":
        return RunEnd("completed", f"{PARTIAL}; {counted}", from_nodes=sources)
    if MERGED in states.rows and states.of(MERGED) == "failed":
        return RunEnd("failed", f"partial: the merge failed; {counted}", _why(states, [MERGED]), answer_ids)
    return RunEnd("completed", mode_of(view.mode).summary(states.outcome(), counted), from_nodes=sources)


def _why(states: _States, failed: list[str]) -> str:
    """The first failure that is its own, not another's consequence."""
    errors = [(node_id, states.rows[node_id].error or "") for node_id in failed]
    own = [(node_id, error) for node_id, error in errors if error and not error.startswith(UPSTREAM)] or errors
    return f"{own[0][0]}: {own[0][1]}" if own else ""
