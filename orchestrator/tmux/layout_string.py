"""tmux's layout strings as trees of cells: read and written. Pure.

A *row* puts its children side by side, a *column* one above the other, one line of border between neighbours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

CellKind = Literal["pane", "row", "column"]

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
