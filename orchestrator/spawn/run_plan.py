"""Turns the steps of a planner into a plan of the run's mode: ids, needs, waves, models. Pure.

Whatever a planner returns, the plan can be run: safe ids, no cycle, each node after those that it needs, only models
that may be called. The plan's notes list what had to be repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import local_planner, node_prompts
from orchestrator.spawn.model_table import ModelFilter, ModelTable, Pick, is_model, normalised
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.modes.spawn_mode import PlanStep
from orchestrator.spawn.run_data import MERGED, PLAN, Node, PlannerName, RunPlan, RunRequest, RunSettings

MAX_NODES = 300
MAX_NOTES = 20
_NOTE_CHARS = 300
_ID_CHARS = 64


@dataclass(frozen=True)
class PlannerAnswer:
    """What a planner found. ``steps`` are those of the run's mode; ``system`` is the role as an API composed it."""

    source: PlannerName
    steps: tuple[PlanStep, ...] = ()
    system: str = ""
    notes: tuple[str, ...] = ()


def local(request: RunRequest, notes: Iterable[str] = ()) -> PlannerAnswer:
    """What the local planner finds, without any API; the models come from the table (C38)."""
    return PlannerAnswer("local", mode_of(request.mode).steps(request), notes=tuple(notes))


def estimated_steps(request: RunRequest) -> int:
    """How many nodes the local plan has, the merge among them; an API's plan may have others (B4.19)."""
    return mode_of(request.mode).estimate(request)


def check_named_models(request: RunRequest, settings: RunSettings) -> None:
    """Check that each model that the run or a setting of its mode names may be asked.

    BadRequest ``model_not_allowed``: the lists forbid it; ``bad_argument``: it is no model's id.
    """
    if request.caller_kind != "model":
        return
    named = [("merge.model", request.merge.model), *mode_of(request.mode).models(settings).items()]
    named += [("models:", name) for name in request.models]
    for what, name in named:
        if name and not _is_model(name, settings):
            form = "provider/name" if _is_openrouter(settings) else "as the server lists it"
            raise BadRequest("bad_argument", f"{what} {name[:80]!r} is no model's id ({form})")
        if name and name not in _lists(settings):
            raise BadRequest("model_not_allowed", f"{what} {name[:80]!r} may not be asked")


def plan_of(request: RunRequest, settings: RunSettings, table: ModelTable, answer: PlannerAnswer) -> RunPlan:
    """The plan of a run: the steps in the form of its mode, with a model for each node (B4.14-18).

    The merge node, if any, is ``merged``, the last, and needs all answers; its model is merge.model, else the best
    of the plan, else the first worker (C36).

    BadRequest as `check_named_models`, and ``model_not_allowed`` if no model is left.
    """
    check_named_models(request, settings)
    return _Planning(request, settings, table, answer).plan()


class _Planning:
    """One plan being made, as a mode's `Planning`; gathers its notes."""

    def __init__(self, request: RunRequest, settings: RunSettings, table: ModelTable, answer: PlannerAnswer) -> None:
        self.request, self.settings, self.table, self.answer = request, settings, table, answer
        self.allowed = _lists(settings)
        self.system = node_prompts.system(request, answer.system)
        self.notes = list(answer.notes)

    def plan(self) -> RunPlan:
        nodes = mode_of(self.request.mode).nodes(self, _joined(self.answer.steps, self.notes))
        for name in map(normalised, self.request.models):
            self._note(self.table.unknowns(name))
        return runnable_plan(nodes, self.answer.source, self.notes)

    def workers(self, steps: tuple[PlanStep, ...], *, distinct: bool = False, best_last: bool = False) -> list[Node]:
        """A task node for each step, as `Planning.workers` says."""
        nodes: list[Node] = []
        for at, step in enumerate(steps):
            used = [node.model for node in nodes] if distinct else []
            model, reason = self._model(step, at, used, last=best_last and at == len(steps) - 1)
            nodes.append(Node(step.id, "task", 0, step.needs, step.task, model, self.system, reason=reason))
        return nodes

    def whole_task_steps(self, name: str, steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
        """A step for each requested answer, as `Planning.whole_task_steps` says."""
        count = local_planner.answer_count(self.request)
        steps = steps[:count]
        if len(steps) < count:
            self.notes.append(f"the planner found {len(steps)} models of {count}: the table picks the others")
            more = (PlanStep(f"{name}-{at + 1}", self.request.task) for at in range(len(steps), count))
            steps = (*steps, *more)
        if self.request.workers:
            return steps
        have = [normalised(step.model) for step in steps if self._may(step.model)]
        category = local_planner.category(self.request.task)
        picks: list[Pick] = []
        if len(have) < count:
            picks = self.table.recommend(category, self.request.budget, count - len(have), self.allowed, have)
        filled = []
        for step in steps:
            if self._may(step.model):
                filled.append(step)
                continue
            self._say_replaced(step, pick := picks.pop(0))
            filled.append(replace(step, model=pick.model, reason=pick.reason))
        return tuple(filled)

    def merge(self, workers: Sequence[Node], needs: Sequence[Node], *, best_last: bool = False) -> Node:
        """The merge node, as `Planning.merge` says."""
        named, callers = self.request.merge.model, self.request.callers
        if callers:
            model, reason = callers[-1], "the last of those who answer"
            if named:
                chosen = next((name for name in callers if named in {name, name.partition(":")[2]}), None)
                if chosen is None:
                    self.notes.append(
                        f"merge.model {named[:80]!r} does not answer in this run; {model} merges instead"
                    )
                else:
                    model, reason = chosen, "as asked"
        elif named:
            model, reason = normalised(named), "as asked"
        elif best_last:
            model, reason = workers[-1].model, "the better of the two"
        else:
            model = max((node.model for node in workers), key=self.table.score)
            reason = "the best of the plan" if self.table.score(model) else "the first model"
        ids = tuple(node.id for node in needs)
        return Node(MERGED, "merge", 0, ids, self.request.task, model, self.system, reason=reason)

    def _model(self, step: PlanStep, at: int, used: Sequence[str], *, last: bool) -> tuple[str, str]:
        workers = self.request.workers
        if workers:
            name = workers[-1] if last else workers[at % len(workers)]
            return name if self.request.callers else normalised(name), "as asked"
        if self._may(step.model):
            return normalised(step.model), step.reason
        budget = step.budget or self.request.budget
        pick = self.table.pick(local_planner.category(step.task), budget, self.allowed, used)
        self._say_replaced(step, pick)
        return pick.model, pick.reason

    def _say_replaced(self, step: PlanStep, pick: Pick) -> None:
        if step.model:
            is_id = _is_model(step.model, self.settings)
            why = "is no model's id"
            if is_id:
                why = "may not be asked" if step.model not in self.allowed else "is not a model of the server"
            self.notes.append(f"{step.id[:60]}: {step.model[:80]!r} {why}; {pick.model} does it")
        elif self.answer.source != "local":
            self.notes.append(f"{step.id[:60]}: the planner named no model; {pick.model} does it")
        self._note(pick.note)
        self._note(self.table.note)

    def _note(self, note: str) -> None:
        if note and note not in self.notes:
            self.notes.append(note)

    def _may(self, model: str) -> bool:
        return _is_model(model, self.settings) and model in self.allowed and self.table.offers(model)


def sanitised(ids: Sequence[str]) -> tuple[str, ...]:
    """The ids as safe file names, in their order: ``[A-Za-z0-9][A-Za-z0-9._-]{0,63}``, without ``..``.

    Each is there once, whatever the case of its letters, and none is ``merged`` or ``plan``.
    """
    taken = {MERGED, PLAN}
    names = []
    for planned in ids:
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", planned[: 4 * _ID_CHARS])
        base = re.sub(r"\.{2,}", ".", base).strip("._-")[:_ID_CHARS].rstrip("._-") or "node"
        name, number = base, 2
        while name.lower() in taken:
            tail = f"-{number}"
            name, number = base[: _ID_CHARS - len(tail)] + tail, number + 1
        taken.add(name.lower())
        names.append(name)
    return tuple(names)


def runnable_plan(nodes: Sequence[Node], source: PlannerName, notes: Iterable[str] = ()) -> RunPlan:
    """The nodes as a plan that can be run: ids made safe, needs known, waves counted, the merge node last.

    A need that is not a node, or is the node itself, is dropped; the first of two equal ids keeps it, and only a
    merge needs both; with a cycle all nodes become a chain in the given order. The notes list each change. More than
    300 nodes: ValueError.
    """
    if len(nodes) > MAX_NODES:
        raise ValueError(f"{len(nodes)} nodes")
    changes = list(notes)
    work = [node for node in nodes if node.kind != "merge"]
    merges = [node for node in nodes if node.kind == "merge"]
    names: dict[str, list[str]] = {}
    renamed: list[Node] = []
    for node, name in zip(work, sanitised([node.id for node in work]), strict=True):
        if node.id in names:
            changes.append(f"the id {node.id[:60]!r} occurs twice; the second is renamed to {name}")
        elif name != node.id:
            changes.append(f"{name}: its planner calls it {node.id[:60]!r}")
        names.setdefault(node.id, []).append(name)
        renamed.append(replace(node, id=name))
    mended = [replace(node, needs=_needs(node, names, changes)) for node in renamed]
    waves = _waves(mended)
    if waves is None:
        changes.append(
            "the planner's dependencies form a cycle; the nodes run one after the other, in the order given"
        )
        mended = [replace(node, needs=(mended[at - 1].id,) if at else ()) for at, node in enumerate(mended)]
        waves = {node.id: at for at, node in enumerate(mended)}
    mended = sorted((replace(node, wave=waves[node.id]) for node in mended), key=lambda node: node.wave)
    last = max(waves.values(), default=-1) + 1
    merged = [replace(node, needs=_needs(node, names, changes), wave=last) for node in merges]
    return RunPlan((*mended, *merged), source, _short_notes(changes))


def _needs(node: Node, names: dict[str, list[str]], changes: list[str]) -> tuple[str, ...]:
    needs: list[str] = []
    for need in node.needs:
        ids = names.get(need, [])
        if not ids:
            changes.append(f"{node.id}: needs {need[:60]!r}, which is no node")
        elif node.kind == "merge":
            needs += ids
        elif ids[0] == node.id:
            changes.append(f"{node.id}: needs itself")
        else:
            needs.append(ids[0])
    return tuple(dict.fromkeys(needs))


def _waves(nodes: Sequence[Node]) -> dict[str, int] | None:
    """The longest way to each node (Kahn); None: a cycle."""
    after: dict[str, list[str]] = {node.id: [] for node in nodes}
    missing = {node.id: len(node.needs) for node in nodes}
    for node in nodes:
        for need in node.needs:
            after[need].append(node.id)
    waves = {name: 0 for name, count in missing.items() if not count}
    ready = list(waves)
    for name in ready:
        for other in after[name]:
            waves[other] = max(waves.get(other, 0), waves[name] + 1)
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return waves if len(ready) == len(nodes) else None


def _joined(steps: tuple[PlanStep, ...], notes: list[str]) -> tuple[PlanStep, ...]:
    """At most as many steps as fit into a plan with its merge; the last step contains the rest."""
    most = MAX_NODES - 1
    if len(steps) <= most:
        return steps
    notes.append(f"{len(steps)} steps: from the {most}th on they are joined into one")
    over = steps[most - 1 :]
    gone = {step.id for step in over}
    needs = dict.fromkeys(need for step in over for need in step.needs if need not in gone)
    last = replace(over[0], task="\n\n".join(step.task for step in over), needs=tuple(needs))
    moved = (
        replace(step, needs=tuple(dict.fromkeys(last.id if need in gone else need for need in step.needs)))
        for step in steps[: most - 1]
    )
    return (*moved, last)


def _short_notes(notes: Sequence[str]) -> tuple[str, ...]:
    cut = [note if len(note) <= _NOTE_CHARS else f"{note[: _NOTE_CHARS - 1]}…" for note in dict.fromkeys(notes)]
    if len(cut) > MAX_NOTES:
        cut = [*cut[: MAX_NOTES - 1], f"and {len(cut) - MAX_NOTES + 1} more"]
    return tuple(cut)


def _is_model(name: str, settings: RunSettings) -> bool:
    """Whether the text can be the id of a model of the run's server: those of OpenRouter have a provider."""
    name = normalised(name)
    return is_model(name) and ("/" in name or not _is_openrouter(settings))


def _is_openrouter(settings: RunSettings) -> bool:
    return settings.base_url == RunSettings().base_url


def _lists(settings: RunSettings) -> ModelFilter:
    return ModelFilter(settings.allow, settings.deny)
