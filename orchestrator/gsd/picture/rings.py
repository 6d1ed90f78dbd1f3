"""Where the dependents of a file stand in the picture of its blast radius: who is drawn, on which ring, where. Pure.

A ring for each number of steps. Every file has an angle of its own, so that the names, which run outwards, never
meet; a file stands among those that reach the middle through it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DRAWN = 120
"""The most files that are drawn; the rest is counted."""
PITCH = 16.0  # between two names, where they are nearest to each other
FIRST, GAP = 130.0, 80.0  # the least radius of the first ring, and between two rings

Dependent = Mapping[str, Any]


@dataclass(frozen=True)
class Spot:
    """A file in the picture: ``angle`` in radians, 0 to the right, clockwise; ``parent`` is the spot nearer to it."""

    file: Dependent
    angle: float
    radius: float
    parent: int | None  # its place in the list of spots; None: the middle, or a file that is not drawn
    loose: bool = False  # what it reaches the middle through is not drawn

    @property
    def point(self) -> tuple[float, float]:
        """Its place, from the middle."""
        return self.radius * math.cos(self.angle), self.radius * math.sin(self.angle)


def chosen(dependents: Sequence[Dependent], most: int = DRAWN) -> list[Dependent]:
    """The dependents to draw, by depth: room is shared among the rings, what a small one leaves goes to the others.

    On a ring first those whose way to the middle is drawn, then critical ones, then by path.
    """
    rings: dict[int, list[Dependent]] = {}
    for one in dependents:
        rings.setdefault(one["depth"], []).append(one)
    room, left = {}, most
    for done, depth in enumerate(sorted(rings, key=lambda depth: (len(rings[depth]), depth))):
        room[depth] = min(len(rings[depth]), left // (len(rings) - done))
        left -= room[depth]
    out: list[Dependent] = []
    there: set[str] = set()

    def order(one: Dependent) -> tuple[bool, bool, str, str]:
        reached = one["depth"] == 1 or one.get("through") in there
        return not reached, not one.get("critical"), str(one["path"]), str(one["id"])

    for depth in sorted(rings):
        taken = sorted(rings[depth], key=order)[: room[depth]]
        out += taken
        there |= {str(one["id"]) for one in taken}
    return out


def spots(dependents: Sequence[Dependent]) -> list[Spot]:
    """Where each of the dependents stands; in the order given, which must be by depth."""
    at = {str(one["id"]): n for n, one in enumerate(dependents)}
    depths = {depth: rank for rank, depth in enumerate(sorted({one["depth"] for one in dependents}))}
    parents: list[int | None] = []
    below: dict[int | None, list[int]] = {}
    for n, one in enumerate(dependents):
        parent = at.get(str(one.get("through") or ""))
        if parent is not None and dependents[parent]["depth"] >= one["depth"]:
            parent = None
        parents.append(parent)
        below.setdefault(parent, []).append(n)
    turn = _turns(below)
    inner = max(FIRST, len(dependents) * PITCH / math.tau)
    return [
        Spot(
            one,
            math.tau * turn[n] / len(dependents),
            inner + GAP * depths[one["depth"]],
            parents[n],
            loose=parents[n] is None and one["depth"] > 1,
        )
        for n, one in enumerate(dependents)
    ]


def _turns(below: Mapping[int | None, list[int]]) -> dict[int, int]:
    """The place of each file on the way around: in the middle of those behind it."""
    turn: dict[int, int] = {}
    todo: list[tuple[int, bool]] = [(one, False) for one in reversed(below.get(None, []))]
    while todo:
        one, opened = todo.pop()
        if opened:
            turn[one] = len(turn)
            continue
        behind = below.get(one, [])
        half = len(behind) // 2
        todo += [(other, False) for other in reversed(behind[half:])]
        todo.append((one, True))
        todo += [(other, False) for other in reversed(behind[:half])]
    return turn
