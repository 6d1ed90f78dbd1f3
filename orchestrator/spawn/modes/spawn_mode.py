"""What a spawn mode is: how it plans, which nodes get a call, how its answers become one, in which words. Pure.

The planner, the scheduler and the prompts read a `SpawnMode`; they know no mode by its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.spawn.run_data import MergeStyle, Node, NodeStatus, RunBudget, RunRequest, RunSettings

UPSTREAM = "upstream failed"


@dataclass(frozen=True)
class PlanStep:
    """A piece of work as a planner found it. ``needs`` are ids as the planner writes them.

    ``model`` empty: the table picks one for this ``budget`` (None: the run's).
    """

    id: str
    task: str
    needs: tuple[str, ...] = ()
    model: str = ""
    reason: str = ""
    budget: RunBudget | None = None


Steps = tuple[PlanStep, ...]


class PlannerApi(Protocol):
    """The calls of the Smart Spawn API that a mode may make for the steps of one run."""

    @property
    def request(self) -> RunRequest:
        """The request."""

    async def picked(self, name: str, budget: RunBudget, exclude: str = "") -> PlanStep:
        """One step for the whole task, with the model that ``/pick`` chooses."""

    async def recommended(self, name: str) -> Steps:
        """A step ``<name>-<n>`` for the whole task for each model that ``/recommend`` gives."""

    async def decomposed(self) -> Steps:
        """The steps of ``/decompose``; empty if the task is not split."""

    async def swarmed(self) -> Steps:
        """The tasks of the graph that ``/swarm`` gives; empty if the task is not split."""


class Planning(Protocol):
    """One plan in the making: turns steps into nodes with a role and a model that may be asked."""

    request: RunRequest
    settings: RunSettings
    notes: list[str]

    def whole_task_steps(self, name: str, steps: Steps) -> Steps:
        """A step ``<name>-<n>`` for each requested answer, each with its own model while there are enough."""

    def workers(self, steps: Steps, *, distinct: bool = False, best_last: bool = False) -> list[Node]:
        """A task node for each step.

        With ``distinct`` no model is picked twice. With ``best_last`` the last of several workers named by the run
        gets the last node.
        """

    def merge(self, workers: Sequence[Node], needs: Sequence[Node], *, best_last: bool = False) -> Node:
        """The merge node over ``needs``. Its model is merge.model, else the best of ``workers`` (C36).

        With ``best_last`` the last worker's model counts as the best.
        """


Outcome = Sequence[tuple[Node, NodeStatus]]
"""The nodes of a run in the order of the plan, each with its state."""
NoCall = tuple[NodeStatus, str]
"""The state of a node that ends without a call, and why."""

StatusOf = Callable[[str], NodeStatus]
"""The state of a node, by its id."""


def needs_every_answer(node: Node, status_of: StatusOf, _passed: bool | None) -> NoCall | None:
    """A node fails if an answer that it needs is missing."""
    broken = [need for need in node.needs if status_of(need) != "completed"]
    return ("failed", f"{UPSTREAM}: {', '.join(broken)}") if broken else None


def all_answers(outcome: Outcome) -> tuple[str, ...]:
    """The ids of all nodes that answered (a part of) the task."""
    return tuple(node.id for node, status in outcome if node.kind == "task" and status == "completed")


def answered(outcome: Outcome, counted: str) -> str:
    """How many nodes answered, and without which."""
    failed = [node.id for node, status in outcome if node.kind == "task" and status == "failed"]
    return f"{counted}; without {', '.join(failed)}" if failed else counted


def no_models(_settings: RunSettings) -> Mapping[str, str]:
    """No setting names a model for this mode."""
    return {}


@dataclass(frozen=True)
class SpawnMode:
    """One mode.

    Planning:
    ``words`` describe it in the tool's schema. ``picture`` has a row for each node of an example: id, wave, ids it
    needs (by blanks), reason. ``estimate`` is the number of nodes, the merge included, that the local planner gives.
    ``steps`` are the local planner's, ``ask`` those of the Smart Spawn API (None: the mode asks it for nothing and
    takes the local steps). ``nodes`` makes the plan's nodes of the steps. ``models`` maps a setting's name to the
    model that it names for this mode.

    Execution:
    ``no_call`` decides for a node, once all that it needs has ended, whether it gets a call (None) or ends without;
    it is given the state of each id, and whether the gate was passed (None: not known). The scheduler decides for the
    merge node. ``gated``: the run asks the gate about its cheap answer. ``whole``: one missing part fails the run.
    ``sources`` are the nodes whose answers are the result if nothing merged them; ``summary`` is that of a completed
    run, given how many nodes answered.

    Merge: its usual ``style``; ``names_missing``: its prompt names the nodes that gave no answer.
    """

    words: str
    picture: tuple[tuple[str, int, str, str], ...]
    estimate: Callable[[RunRequest], int]
    steps: Callable[[RunRequest], Steps]
    ask: Callable[[PlannerApi], Awaitable[Steps | None]]
    nodes: Callable[[Planning, Steps], list[Node]]
    models: Callable[[RunSettings], Mapping[str, str]] = no_models
    no_call: Callable[[Node, StatusOf, bool | None], NoCall | None] = needs_every_answer
    gated: bool = False
    whole: bool = False
    sources: Callable[[Outcome], tuple[str, ...]] = all_answers
    summary: Callable[[Outcome, str], str] = answered
    style: MergeStyle = "detailed"
    names_missing: bool = True
