"""Plans where agent panes go in a window: an even grid, or one large pane between strips of small ones. Pure.

``carve`` changes only cells that belong to the master and its agents. tmux hands the leaves of a layout string to the
panes of the window in window order, whatever ids the string carries, so every plan keeps the leaves in the order the
panes are in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from orchestrator.tmux.layout_string import Cell, CellKind

Border = Literal["off", "top", "bottom"]


class PaneSize(NamedTuple):
    """Columns and rows of a pane, without its border line."""

    width: int
    height: int


STRIP = PaneSize(30, 5)
"""The least that a pane of a strip gets: the end of its screen can still be read, by a person and by the daemon."""


@dataclass(frozen=True)
class LayoutLimits:
    """What a layout must grant: every agent its minimum, the master ``master_share``.

    A pane's minimum is that in ``of``, else ``min_width`` x ``min_height``. ``focus`` are the panes that stay large
    where not all get their minimum; None: no pane is preferred.
    """

    min_width: int = STRIP.width
    min_height: int = STRIP.height
    master_share: float = 0.45
    of: Mapping[str, PaneSize] = field(default_factory=dict)
    focus: Collection[str] | None = None

    def minimum(self, pane: str) -> PaneSize:
        return self.of.get(pane) or PaneSize(self.min_width, self.min_height)

    def strip(self, pane: str) -> PaneSize:
        """The least that the pane gets while another pane is large."""
        own = self.minimum(pane)
        return PaneSize(min(own.width, STRIP.width), min(own.height, STRIP.height))


@dataclass(frozen=True)
class CarvedLayout:
    """A plan: the window's new ``tree`` (new panes carry the given names); new panes split off ``after``."""

    tree: Cell
    after: str


@dataclass(frozen=True)
class NoRoom:
    """Why the panes do not fit: a sentence with the sizes."""

    reason: str


def carve(
    tree: Cell,
    master: str,
    agents: Collection[str],
    limits: LayoutLimits,
    *,
    new: Sequence[str] = (),
    border: Border = "off",
) -> CarvedLayout | NoRoom:
    """Plan the window with ``new`` agent panes added (``new=()``: even out the existing panes).

    The agents form an even grid next to the master (on its right if the cell is wide, else below it); of their common
    cell the master keeps at least ``master_share``. Where not all get their minimum and the limits have a ``focus``,
    one agent keeps a large pane, and the others form strips above and below it. Every pane that is neither the master
    nor one of ``agents`` keeps its exact cell. Agents that the user has moved elsewhere stay there; new agents join
    them only if the master's own cell has no agent. ``agents`` that are not in this window are ignored. Without
    ``new``, groups of agents get less than their minimum if they must; those that do not fit into strips either keep
    the cells that tmux gave them; ``NoRoom`` if none fits.
    """
    rules = _Rules(master, limits, border, tree.height)
    order = [leaf.pane for leaf in tree.leaves()]
    here = {pane for pane in agents if pane in order and pane != master}
    home = _grow(tree, master, here, forward_only=True) if master in order else None
    at_home = {leaf.pane for leaf in home.leaves} if home else set()
    blocks = _blocks(tree, here - at_home)
    if not new:
        regions = [home, *blocks] if home and len(at_home) > 1 else blocks
        fitted = 0
        for first in [region.leaves[0].pane for region in regions]:
            # Found again in the changed tree: dividing one region may renumber the cells around another.
            region = _grow(tree, first, here, forward_only=first == master)
            filled = _fill(tree, region, (), rules)
            fitted += filled is not None
            tree = filled or tree
        return CarvedLayout(tree, "") if fitted or not regions else NoRoom(_no_room(regions[0], here, limits))
    if home is None and not blocks:
        return NoRoom("the window holds neither the master's pane nor one of its agents")
    regions = [*blocks, home] if home and len(at_home) == 1 else [home, *blocks] if home else blocks
    for region in regions:
        filled = _fill(tree, region, new, rules)
        if filled is not None:
            return CarvedLayout(filled, region.leaves[-1].pane)
    return NoRoom(_no_room(home or blocks[0], [*here, *new], limits))


def _no_room(region: _Region, agents: Collection[str], limits: LayoutLimits) -> str:
    width, height = max(map(limits.minimum, agents))
    return (
        f"{len(agents)} agent panes of at least {width}x{height} do not fit into the "
        f"{region.cell.width}x{region.cell.height} cells that the master's pane and its agents share"
    )


@dataclass(frozen=True)
class _Region:
    """A rectangle that is ours alone: the run ``first..last`` of the children of the node at ``path``."""

    path: tuple[int, ...]
    first: int
    last: int
    cell: Cell
    leaves: tuple[Cell, ...]


def _grow(tree: Cell, pane: str, ours: Collection[str], *, forward_only: bool) -> _Region:
    """The largest rectangle around ``pane`` made of whole cells that hold nothing but ``pane`` and ``ours``.

    ``forward_only`` keeps ``pane`` its first leaf: the master's cell comes first in its region, and cells
    before it cannot take part without changing the order of the leaves.
    """
    path = _path_to(tree, pane)
    nodes = [tree]
    for step in path:
        nodes.append(nodes[-1].children[step])
    depth = len(path)
    leaf = nodes[-1]
    best = _Region(path[:-1], path[-1] if path else 0, path[-1] if path else 0, leaf, (leaf,))
    while depth > 0:
        parent, at = nodes[depth - 1], path[depth - 1]
        owned = [all(x.pane == pane or x.pane in ours for x in child.leaves()) for child in parent.children]
        first = last = at
        while not forward_only and first > 0 and owned[first - 1]:
            first -= 1
        while last + 1 < len(owned) and owned[last + 1]:
            last += 1
        run = parent.children[first : last + 1]
        whole = len(run) == len(parent.children)
        cell = parent if whole else _bounds(run)
        leaves = tuple(leaf for child in run for leaf in child.leaves())
        best = _Region(path[: depth - 1], first, last, cell, leaves)
        if not whole:
            break
        depth -= 1
    return best


def _path_to(tree: Cell, pane: str) -> tuple[int, ...]:
    for at, child in enumerate(tree.children):
        if any(leaf.pane == pane for leaf in child.leaves()):
            return (at, *_path_to(child, pane))
    return ()


def _bounds(run: Sequence[Cell]) -> Cell:
    first, last = run[0], run[-1]
    return Cell(last.x + last.width - first.x, last.y + last.height - first.y, first.x, first.y)


def _blocks(tree: Cell, strays: Collection[str]) -> list[_Region]:
    """The rectangles made of agents alone, largest first."""
    regions: dict[frozenset[str], _Region] = {}
    for pane in strays:
        region = _grow(tree, pane, strays, forward_only=False)
        regions[frozenset(leaf.pane for leaf in region.leaves)] = region
    return sorted(regions.values(), key=lambda region: (-region.cell.width * region.cell.height, region.path))


@dataclass(frozen=True)
class _Rules:
    """What every division must keep to."""

    master: str
    limits: LayoutLimits
    border: Border
    window_height: int

    def taken_above(self, area: Cell) -> int:
        """Rows the border line takes from the panes at the top of the area."""
        return int(self.border == "top" and area.y == 0)

    def taken_below(self, area: Cell) -> int:
        return int(self.border == "bottom" and area.y + area.height == self.window_height)

    def inside(self, leaf: Cell) -> PaneSize:
        """The size of the pane in a cell, without its border line."""
        return PaneSize(leaf.width, leaf.height - self.taken_above(leaf) - self.taken_below(leaf))


def _fill(tree: Cell, region: _Region, new: Sequence[str], rules: _Rules) -> Cell | None:
    """The tree with the region divided again, or None if its agents and the new ones do not fit."""
    panes = [leaf.pane for leaf in region.leaves] + list(new)
    area = region.cell
    divisions: list[_Division] = [_grid]
    if rules.limits.focus is not None:
        # An agent is added only if each of them can become the large one later.
        divisions.append(_focused_any if new else _focused)
    if not new:
        divisions.append(_small_grid)
    directions: tuple[CellKind, ...] = ("row", "column") if area.width >= 2 * area.height else ("column", "row")
    for divide in divisions:
        if panes[0] != rules.master:
            divided = divide(area, panes, rules)
            if divided is not None:
                return _put(tree, region.path, region, divided)
            continue
        for kind in directions:
            divided = _beside_master(area, kind, panes, rules, divide)
            if divided is not None:
                return _put(tree, region.path, region, divided)
    return None


_Division = Callable[[Cell, Sequence[str], _Rules], Cell | None]
"""A way to divide an area among agents; None where they do not fit."""


def _beside_master(area: Cell, kind: CellKind, panes: Sequence[str], rules: _Rules, divide: _Division) -> Cell | None:
    length = area.width if kind == "row" else area.height
    least = math.ceil(length * rules.limits.master_share)
    # A single agent gets no more than the master, unless it needs more; more agents get all the master can spare.
    for own in dict.fromkeys((max(least, math.ceil((length - 1) / len(panes))), least)):
        if length - own - 1 < 1:
            continue
        head, rest = _cut(area, kind, own)
        divided = divide(rest, panes[1:], rules)
        if divided is not None:
            tail = divided.children if divided.kind == kind else (divided,)
            return replace(area, kind=kind, pane="", children=(replace(head, pane=panes[0]), *tail))
    return None


def _cut(area: Cell, kind: CellKind, first: int) -> tuple[Cell, Cell]:
    """The area as two cells side by side (row) or one above the other; the first has that length."""
    if kind == "row":
        return (
            Cell(first, area.height, area.x, area.y),
            Cell(area.width - first - 1, area.height, area.x + first + 1, area.y),
        )
    return (
        Cell(area.width, first, area.x, area.y),
        Cell(area.width, area.height - first - 1, area.x, area.y + first + 1),
    )


def _grid(area: Cell, panes: Sequence[str], rules: _Rules) -> Cell | None:
    return _even(area, panes, rules, rules.limits.minimum)


def _small_grid(area: Cell, panes: Sequence[str], rules: _Rules) -> Cell | None:
    return _even(area, panes, rules, rules.limits.strip)


def _even(area: Cell, panes: Sequence[str], rules: _Rules, minimum: Callable[[str], PaneSize]) -> Cell | None:
    """The grid of rows that leaves its smallest pane the largest, or None where some pane is too small."""
    above, below = rules.taken_above(area), rules.taken_below(area)
    best: tuple[tuple[float, bool], Cell] | None = None
    for columns in range(1, len(panes) + 1):
        rows = math.ceil(len(panes) / columns)
        heights = _spread(area.height, rows, above, below)
        sizes = _spread(len(panes) + rows - 1, rows)
        grid = _rows(area, panes, heights, sizes)
        room = min(
            size / least
            for leaf in grid.leaves()
            for size, least in zip(rules.inside(leaf), minimum(leaf.pane), strict=True)
        )
        # On a tie equal panes look better than a last row of wider ones.
        rank = (room, len(panes) % rows == 0)
        if room >= 1 and (best is None or rank > best[0]):
            best = (rank, grid)
    return best[1] if best else None


def _focused(area: Cell, panes: Sequence[str], rules: _Rules) -> Cell | None:
    """One pane as wide as the area, the others in strips above and below it; the panes keep their order."""
    focus = rules.limits.focus or ()
    return _strips(area, panes, rules, next((at for at, pane in enumerate(panes) if pane in focus), 0))


def _focused_any(area: Cell, panes: Sequence[str], rules: _Rules) -> Cell | None:
    """As ``_focused``, but only if each of the panes could be the large one."""
    if any(_strips(area, panes, rules, at) is None for at in range(len(panes))):
        return None
    return _focused(area, panes, rules)


def _strips(area: Cell, panes: Sequence[str], rules: _Rules, large: int) -> Cell | None:
    """The area with the pane at index ``large`` as high as can be; None where it or a strip is too small."""
    strip = PaneSize(*map(max, zip(*map(rules.limits.strip, panes), strict=True)))
    columns = (area.width + 1) // (strip.width + 1)
    if columns < 1:
        return None
    upper, lower = (_rows_of(count, columns) for count in (large, len(panes) - large - 1))
    sizes = [*upper, 1, *lower]
    heights = [strip.height] * len(sizes)
    heights[0] += rules.taken_above(area)
    heights[-1] += rules.taken_below(area)
    heights[len(upper)] += area.height - (len(sizes) - 1) - sum(heights)
    if min(heights) < 1:
        return None
    divided = _rows(area, panes, heights, sizes)
    leaf, least = divided.leaves()[large], rules.limits.minimum(panes[large])
    return divided if all(size >= need for size, need in zip(rules.inside(leaf), least, strict=True)) else None


def _rows_of(count: int, columns: int) -> list[int]:
    """How many panes each row gets if a row takes up to ``columns``."""
    rows = math.ceil(count / columns)
    return _spread(count + rows - 1, rows) if rows else []


def _spread(total: int, parts: int, first_extra: int = 0, last_extra: int = 0) -> list[int]:
    """``total`` cells, less one between neighbours, as even as can be; the larger parts first."""
    base, rest = divmod(total - (parts - 1) - first_extra - last_extra, parts)
    sizes = [base + (1 if at < rest else 0) for at in range(parts)]
    sizes[0] += first_extra
    sizes[-1] += last_extra
    return sizes


def _rows(area: Cell, panes: Sequence[str], heights: Sequence[int], sizes: Sequence[int]) -> Cell:
    rows: list[Cell] = []
    remaining, y = list(panes), area.y
    for height, size in zip(heights, sizes, strict=True):
        row_panes, remaining = remaining[:size], remaining[size:]
        x, cells = area.x, []
        for pane, width in zip(row_panes, _spread(area.width, size), strict=True):
            cells.append(Cell(width, height, x, y, pane=pane))
            x += width + 1
        line = Cell(area.width, height, area.x, y, "row", children=tuple(cells))
        rows.append(cells[0] if size == 1 else line)
        y += height + 1
    if len(rows) == 1:
        return rows[0]
    return replace(area, kind="column", pane="", children=tuple(rows))


def _put(node: Cell, path: tuple[int, ...], region: _Region, new: Cell) -> Cell:
    """The tree with the region's cells replaced by ``new``, merged into a parent of the same kind."""
    if path:
        first = last = path[0]
        new = _put(node.children[first], path[1:], region, new)
    else:
        first, last = region.first, region.last
    if not node.children or last - first + 1 == len(node.children):
        return new
    merged = new.children if new.kind == node.kind else (new,)
    return replace(node, children=node.children[:first] + merged + node.children[last + 1 :])
