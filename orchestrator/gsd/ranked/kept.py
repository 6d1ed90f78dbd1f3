"""Values worked out of an object once, for as long as that very object lives: what a planning or a graph gives."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Of = TypeVar("Of")
Value = TypeVar("Value")
MOST = 8


class Kept(Generic[Of, Value]):
    """``make(of)``, remembered by the identity of ``of`` for the last eight; thread-safe.

    An object that was replaced, even by an equal one, is worked out anew. Two threads may both work out the same.
    """

    def __init__(self, make: Callable[[Of], Value]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._values: dict[int, tuple[weakref.ref[Of], Value]] = {}

    def __call__(self, of: Of) -> Value:
        """The value of that object."""
        with self._lock:
            known = self._values.get(id(of))
        if known is not None and known[0]() is of:
            return known[1]
        value = self._make(of)
        with self._lock:
            self._values = {key: kept for key, kept in self._values.items() if kept[0]() is not None}
            while len(self._values) >= MOST:
                del self._values[next(iter(self._values))]
            self._values[id(of)] = (weakref.ref(of), value)
        return value
