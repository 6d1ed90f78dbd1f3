"""A folded agent as plain JSON: nothing of it may be forgotten, whoever adds a field."""

import dataclasses
import types
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import orjson
import pytest

from orchestrator.core import snapshot, state
from tests.support.pure_team import Desk


def through_json(agent):
    return snapshot.made(orjson.loads(orjson.dumps(snapshot.plain(agent))))


def sample(kind, name, n=1):
    """A value of the type that no default has."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return {"any": [n, name, None]}
    if origin in (Union, types.UnionType):
        return sample(next(part for part in parts if part is not type(None)), name, n)
    if origin is dict:
        return {f"{name}-{k}": sample(parts[1], name, k) for k in (1, 2)}
    if origin in (list, set, tuple, deque):
        return origin(sample(parts[0], f"{name}{k}", k) for k in (1, 2))
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name], field.name, n) for field in dataclasses.fields(kind)})
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*(sample(hint, key, n) for key, hint in get_type_hints(kind).items()))
    return {str: f"{name}!{n}", int: 41 + n, float: 0.5 + n, bool: True}[kind]


def full():
    """An agent of which every field that a snapshot holds is unlike a new agent's."""
    hints = get_type_hints(state.Agent)
    agent = state.Agent("x")
    for field in dataclasses.fields(agent):
        if field.name not in snapshot.DERIVED:
            setattr(agent, field.name, sample(hints[field.name], field.name))
    agent.unfinished = {task.task_id: task for task in agent.unfinished.values()}
    agent.order = deque(agent.unfinished.values())
    agent.lease = agent.order[0]
    return agent


def test_every_field_of_agent_and_task_goes_through_a_snapshot():
    agent, new = full(), state.Agent("")
    kept = [field.name for field in dataclasses.fields(agent) if field.name not in snapshot.DERIVED]
    for name in kept:
        assert getattr(agent, name) != getattr(new, name), f"the test shows nothing of {name}"
    again = through_json(agent)
    for name in kept:
        assert getattr(again, name) == getattr(agent, name), name
        assert type(getattr(again, name)) is type(getattr(agent, name)), name
    assert again.order == agent.order
    for task in again.order:
        assert again.unfinished[task.task_id] is task
    assert again.lease is again.order[0]


def test_what_is_left_out_is_known_by_name():
    assert {field.name for field in dataclasses.fields(state.Agent)} >= snapshot.DERIVED


@dataclasses.dataclass
class Strange:
    call: Callable[[], None]


class Nested(NamedTuple):
    task: state.Task


@pytest.mark.parametrize("kind", [Strange, Nested, bytes, dict[int, str], list[state.Task], int | list[state.Task]])
def test_a_type_that_a_snapshot_does_not_know_is_refused_at_once(kind):
    with pytest.raises(TypeError):
        snapshot._ways(kind)


def test_an_agent_at_work_goes_through_a_snapshot():
    desk = Desk()
    desk.start()
    desk.ready()
    for n in range(5):
        desk.enqueue(f"t{n}", {"n": n})
    for kind in ("result", "error"):
        desk.wait()
        desk.emit(kind)
    desk.wait()
    desk.emit("ack")
    desk.cancel("t2")
    again = through_json(desk.agent)
    again.finished = desk.agent.finished
    assert again == desk.agent
    assert again.head() is again.lease


def test_a_finished_task_goes_through_the_archive():
    ended = state.Finished(7, 2, "error", 19)
    assert snapshot.made_finished(orjson.loads(orjson.dumps(snapshot.plain_finished(ended)))) == ended


def test_only_a_deleted_agent_is_trimmed_and_its_last_calls_stay():
    desk = Desk()
    desk.start()
    for n in range(50):
        desk.enqueue(f"t{n}")
    before = dict(desk.agent.calls)
    snapshot.trim(desk.agent)
    assert desk.agent.calls == before
    desk.agent.life = "deleted"
    snapshot.trim(desk.agent)
    assert list(desk.agent.calls) == list(before)[-snapshot.CALLS_OF_A_DELETED :]
