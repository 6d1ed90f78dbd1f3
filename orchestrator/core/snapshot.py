"""Converts a folded agent to plain JSON and back, so that a start need not fold the same records again. Pure.

The conversion follows the types of `state`'s classes: a field that is added there is converted too, and a field of an
unknown type fails the import. The fields in `DERIVED` are left out and computed again.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from orchestrator.core.state import Agent, Finished

DERIVED = frozenset({"order", "lease", "finished", "archive"})
"""What a snapshot does not hold of the agent: two views of the unfinished tasks, and the ended ones."""

CALLS_OF_A_DELETED = 16
"""A deleted agent is asked nothing new: how many answered calls, at least, a re-sent one is still matched with."""

_Way = Callable[[Any], Any]


def plain(agent: Agent) -> dict[str, Any]:
    """The agent without its ended tasks, as JSON values; they share objects with the agent: write them at once."""
    return {**_plain_agent(agent), "lease": agent.lease and agent.lease.task_id}


def made(plain_agent: dict[str, Any]) -> Agent:
    """The agent of a `plain`; it behaves as the original once it has its ``archive`` of ended tasks."""
    agent: Agent = _made_agent(plain_agent)
    agent.order = deque(agent.unfinished.values())
    agent.lease = None if plain_agent["lease"] is None else agent.unfinished[plain_agent["lease"]]
    return agent


def plain_finished(finished: Finished) -> list[Any]:
    """An ended task, as the archive stores it."""
    return list(finished)


def made_finished(values: list[Any]) -> Finished:
    """The ended task of a `plain_finished`."""
    return Finished(*values)


def trim(agent: Agent) -> None:
    """Drop what is rarely needed of a deleted agent."""
    if agent.life == "deleted" and len(agent.calls) > CALLS_OF_A_DELETED:
        agent.calls = dict(list(agent.calls.items())[-CALLS_OF_A_DELETED:])


# -- from types to the two ways --------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _ways(kind: Any) -> tuple[_Way, _Way]:
    """The functions that convert a value of this type to plain JSON and back; `_same` twice for JSON's own types."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in (str, int, float, bool, type(None), Any) or kind == dict[str, Any]:
        return _same, _same
    if origin in (Union, types.UnionType):
        if all(_ways(part) == (_same, _same) for part in parts):
            return _same, _same
        if len(parts) != 2 or type(None) not in parts:
            raise TypeError(f"a snapshot cannot tell the kinds of {kind!r} apart")
        there, back = _ways(next(part for part in parts if part is not type(None)))
        return (lambda v: None if v is None else there(v)), (lambda v: None if v is None else back(v))
    if origin is dict and parts[0] is str:
        there, back = _ways(parts[1])
        if there is _same:
            return _same, _same
        return (lambda v: {k: there(x) for k, x in v.items()}), (lambda v: {k: back(x) for k, x in v.items()})
    if origin in (list, set, deque, tuple) and _ways(parts[0]) == (_same, _same):
        return (sorted if origin is set else list), origin
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if any(_ways(hint) != (_same, _same) for hint in get_type_hints(kind).values()):
            raise TypeError(f"a snapshot cannot hold {kind!r}: its fields are not plain")
        return list, lambda v: kind(*v)
    if isinstance(kind, type) and is_dataclass(kind):
        return _ways_of_class(kind, frozenset())
    raise TypeError(f"a snapshot cannot hold {kind!r}; say here how")


def _ways_of_class(kind: type, left_out: frozenset[str]) -> tuple[_Way, _Way]:
    hints = get_type_hints(kind)
    ways = [(field.name, *_ways(hints[field.name])) for field in fields(kind) if field.name not in left_out]

    def there(value: Any) -> dict[str, Any]:
        return {name: way(getattr(value, name)) for name, way, _ in ways}

    def back(plain_fields: dict[str, Any]) -> Any:
        return kind(**{name: way(plain_fields[name]) for name, _, way in ways})

    return there, back


_plain_agent, _made_agent = _ways_of_class(Agent, DERIVED)
