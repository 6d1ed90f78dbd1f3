"""Window layouts as values: read tmux's layout string, divide the master's cell, write it back. Pure.

A tmux layout is a tree of cells: a *row* puts its children side by side, a *column* one above the other, one
line of border between neighbours. ``carve`` plans where agent panes go; it changes only cells that belong to
the master and its agents. tmux hands the leaves of a layout string to the panes of the window in window
order, whatever ids the string carries, so every plan keeps the leaves in the order the panes are in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

CellKind = Literal["pane", "row", "column"]
Border = Literal["off", "top", "bottom"]

_CELL = re.compile(r"(\d+)x(\d+),(\d+),(\d+)(?:,(\d+)(?!x))?")
_OPEN: dict[str, CellKind] = {"{": "row", "[": "column"}
_BRACKETS: dict[CellKind, tuple[str, str]] = {"row": ("{", "}"), "column": ("[", "]")}


@dataclass(frozen=True)
class Cell:
    """One rectangle of a window, in columns and rows; a leaf names its pane (``%5``), a node has children.

    ``height`` is the cell's: with a border line on top, the pane of a cell at ``y == 0`` is one row smaller.
    """

    width: int
    height: int
    x: int
    y: int
    kind: CellKind = "pane"
    pane: str = ""
    children: tuple[Cell, ...] = ()

    def leaves(self) -> list[Cell]:
        """The pane cells in reading order, which is the window's pane order."""
        return [self] if self.kind == "pane" else [leaf for child in self.children for leaf in child.leaves()]


@dataclass(frozen=True)
class LayoutLimits:
    """What a layout must grant: every agent ``min_width`` x ``min_height``, the master ``master_share``."""

    min_width: int = 30
    min_height: int = 5
    master_share: float = 0.45


@dataclass(frozen=True)
class CarvedLayout:
    """A plan: the window's new ``tree`` (new panes carry the given names); new panes split off ``after``."""

    tree: Cell
    after: str


@dataclass(frozen=True)
class NoRoom:
    """Why the panes do not fit: a sentence with the sizes."""

    reason: str


def checksum(layout: str) -> str:
    """The four hex digits tmux puts before a layout string."""
    value = 0
    for byte in layout.encode("ascii"):
        value = ((value >> 1) + ((value & 1) << 15) + byte) & 0xFFFF
    return f"{value:04x}"


def parse(text: str) -> Cell:
    """The tree of tmux's ``#{window_layout}``; raises ``ValueError`` on anything else."""
    cell, end = _parse_cell(text, 5)
    if end != len(text) or text[4:5] != "," or checksum(text[5:]) != text[:4]:
        raise ValueError(f"not a tmux layout: {text!r}")
    return cell


def _parse_cell(text: str, at: int) -> tuple[Cell, int]:
    match = _CELL.match(text, at)
    if match is None:
        raise ValueError(f"not a tmux layout: {text!r}")
    width, height, x, y = (int(part) for part in match.group(1, 2, 3, 4))
    at = match.end()
    kind = _OPEN.get(text[at : at + 1])
    if kind is None:
        return Cell(width, height, x, y, pane=f"%{match.group(5)}" if match.group(5) else ""), at
    children: list[Cell] = []
    while text[at : at + 1] in ("{", "[", ","):
        child, at = _parse_cell(text, at + 1)
        children.append(child)
    if text[at : at + 1] != _BRACKETS[kind][1]:
        raise ValueError(f"not a tmux layout: {text!r}")
    return Cell(width, height, x, y, kind, children=tuple(children)), at + 1


def render(cell: Cell) -> str:
    """The layout string ``select-layout`` takes; panes not yet made are written with the id 0."""
    body = _render_cell(cell)
    return f"{checksum(body)},{body}"


def _render_cell(cell: Cell) -> str:
    own = f"{cell.width}x{cell.height},{cell.x},{cell.y}"
    if cell.kind == "pane":
        number = cell.pane.removeprefix("%")
        return f"{own},{number if number.isdigit() else 0}"
    left, right = _BRACKETS[cell.kind]
    return own + left + ",".join(_render_cell(child) for child in cell.children) + right


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
    cell the master keeps at least ``master_share``. Every pane that is neither the master nor one of ``agents`` keeps
    its exact cell. Agents that the user has moved elsewhere stay there; new agents join them only if the master's own
    cell has no agent. ``agents`` that are not in this window are ignored. Without ``new``, groups of agents that do
    not fit keep the cells that tmux gave them; ``NoRoom`` if none fits.
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
        return CarvedLayout(tree, "") if fitted or not regions else NoRoom(_no_room(regions[0], len(here), limits))
    if home is None and not blocks:
        return NoRoom("the window holds neither the master's pane nor one of its agents")
    regions = [*blocks, home] if home and len(at_home) == 1 else [home, *blocks] if home else blocks
    for region in regions:
        filled = _fill(tree, region, new, rules)
        if filled is not None:
            return CarvedLayout(filled, region.leaves[-1].pane)
    return NoRoom(_no_room(home or blocks[0], len(here) + len(new), limits))


def _no_room(region: _Region, agents: int, limits: LayoutLimits) -> str:
    return (
        f"{agents} agent panes of at least {limits.min_width}x{limits.min_height} do not fit into the "
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


def _fill(tree: Cell, region: _Region, new: Sequence[str], rules: _Rules) -> Cell | None:
    """The tree with the region divided again, or None if its agents and the new ones do not fit."""
    panes = [leaf.pane for leaf in region.leaves] + list(new)
    area = region.cell
    if panes[0] != rules.master:
        grid = _grid(area, panes, rules)
        return _put(tree, region.path, region, grid) if grid else None
    directions: tuple[CellKind, ...] = ("row", "column") if area.width >= 2 * area.height else ("column", "row")
    for kind in directions:
        divided = _beside_master(area, kind, panes, rules)
        if divided is not None:
            return _put(tree, region.path, region, divided)
    return None


def _beside_master(area: Cell, kind: CellKind, panes: Sequence[str], rules: _Rules) -> Cell | None:
    length = area.width if kind == "row" else area.height
    # A single agent gets no more than the master; more agents get all the master can spare.
    own = max(math.ceil(length * rules.limits.master_share), math.ceil((length - 1) / len(panes)))
    rest = length - own - 1
    if rest < 1:
        return None
    if kind == "row":
        head = Cell(own, area.height, area.x, area.y, pane=panes[0])
        agents_area = Cell(rest, area.height, area.x + own + 1, area.y)
    else:
        head = Cell(area.width, own, area.x, area.y, pane=panes[0])
        agents_area = Cell(area.width, rest, area.x, area.y + own + 1)
    grid = _grid(agents_area, panes[1:], rules)
    if grid is None:
        return None
    tail = grid.children if grid.kind == kind else (grid,)
    return replace(area, kind=kind, pane="", children=(head, *tail))


def _grid(area: Cell, panes: Sequence[str], rules: _Rules) -> Cell | None:
    """The grid of rows that leaves its smallest pane the largest, or None where some pane is too small."""
    above, below = rules.taken_above(area), rules.taken_below(area)
    best: tuple[tuple[float, bool], Cell] | None = None
    for columns in range(1, len(panes) + 1):
        rows = math.ceil(len(panes) / columns)
        heights = _spread(area.height, rows, above, below)
        sizes = _spread(len(panes) + rows - 1, rows)
        lowest = min(heights[0] - above, heights[-1] - below, *heights)
        narrowest = min(_spread(area.width, max(sizes)))
        room = min(narrowest / rules.limits.min_width, lowest / rules.limits.min_height)
        # On a tie equal panes look better than a last row of wider ones.
        rank = (room, len(panes) % rows == 0)
        if room >= 1 and (best is None or rank > best[0]):
            best = (rank, _rows(area, panes, heights, sizes))
    return best[1] if best else None


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
