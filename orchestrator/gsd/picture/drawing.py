"""Draws a project's code graph: its hotspots as bars, and the blast radius of one file as rings. Pure.

What it draws runs and loads nothing: no script, no address, no font. Every name is escaped, and characters that are
not printable are made visible. The same graph gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.base.svg_page import escaped, escaped_end, svg_sheet
from orchestrator.gsd.picture.rings import Spot, chosen, spots

MARK = "orchestrator gsd graph"
"""Stands in the first bytes of everything drawn: what carries it is ours to overwrite."""

Facts = Mapping[str, Any]

MARGIN, ROW = 20.0, 20.0
CELL = 7.3  # the width of a column of a 12 px monospaced name, rounded up
NAME_CELLS, BAR_W = 44, 420.0
LABEL_CELLS = 28
GROUPS = 7  # directories with a colour of their own

# line and fill of each directory, told apart also by those who see few colours; the last is for all others
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#8b949e")

STYLE = (
    "svg text{font:12px system-ui,sans-serif;fill:#1f2328}"
    "svg .name{font-family:ui-monospace,Menlo,Consolas,monospace}"
    "svg .faint{fill:#57606a}svg .late{text-anchor:end}svg .mid{text-anchor:middle}svg .strong{font-weight:600}"
    ".sheet{fill:#fff}.ring{fill:none;stroke:#d8dee4;stroke-dasharray:1 5}.halo{paint-order:stroke;stroke:#fff;"
    "stroke-width:3px;stroke-linejoin:round}.edge{fill:none;stroke:#8c959f;stroke-width:1.1}"
    ".suffix{stroke-dasharray:5 3}.loose{stroke-dasharray:1 3}.dot{fill:#0969da}.critical{fill:#bc4c00}"
    ".test{fill:#fff;stroke:#1a7f37;stroke-width:2}.centre{fill:#1f2328}"
    + "".join(f".g{n}{{fill:{colour}}}" for n, colour in enumerate(_COLOURS))
    + "@media(prefers-color-scheme:dark){svg text{fill:#e6edf3}svg .faint{fill:#9198a1}.sheet{fill:#0d1117}"
    ".ring{stroke:#30363d}.halo{stroke:#0d1117}.edge{stroke:#6e7681}.dot{fill:#58a6ff}.critical{fill:#f0883e}"
    ".test{fill:#0d1117;stroke:#3fb950}.centre{fill:#e6edf3}}"
)


def directory(path: str) -> str:
    """The directory that gives a file its colour: the first two steps of its path, ``.`` for a file beside them."""
    return "/".join([part for part in path.split("/") if part][:-1][:2]) or "."


def groups(hotspots: Sequence[Facts]) -> dict[str, int]:
    """The colour of each directory: the first of the ranking have their own, the others share the last."""
    names = list(dict.fromkeys(directory(str(one["path"])) for one in hotspots))
    return {name: min(n, GROUPS) for n, name in enumerate(names)}


def hotspots_svg(picture: Facts) -> str:
    """The files most others depend on, as bars, in the colour of their directory; empty text where there are none.

    ``picture`` is what `orchestrator.gsd.picture.chosen` gives.
    """
    found: Sequence[Facts] = picture["hotspots"]
    if not found:
        return ""
    colour = groups(found)
    most = max(one["dependents"] for one in found)
    lines = []
    names_w = NAME_CELLS * CELL
    for n, one in enumerate(found):
        y, path = n * ROW, str(one["path"])
        width = max(2.0, BAR_W * one["dependents"] / most)
        hint = "\n".join([path, *([str(one["purpose"])] if one.get("purpose") else [])])
        lines += [
            f"<g><title>{escaped(hint, 600)}</title>",
            f'<text class="name late" x="{names_w:g}" y="{y + 14:g}">{escaped_end(path, NAME_CELLS)}</text>',
            f'<rect class="g{colour[directory(path)]}" x="{names_w + 10:g}" y="{y + 4:g}"',
            f'width="{width:.1f}" height="12" rx="2"/>',
            f'<text x="{names_w + 16 + width:.1f}" y="{y + 14:g}">{one["dependents"]}</text></g>',
        ]
    y = len(found) * ROW + 14
    legend: dict[int, list[str]] = {}
    for name, number in colour.items():
        legend.setdefault(number, []).append(name)
    for number, names in legend.items():
        told = names[0] if number < GROUPS else f"other directories ({len(names)})"
        lines.append(f'<rect class="g{number}" x="{names_w + 10:g}" y="{y:g}" width="12" height="12" rx="2"/>')
        lines.append(f'<text class="name" x="{names_w + 28:g}" y="{y + 10:g}">{escaped_end(told, 50)}</text>')
        y += ROW
    about = "; ".join(f"{one['path']}: {one['dependents']}" for one in found)
    return _sheet(lines, (names_w + 10 + BAR_W + 70, y), "hotspots", "The files most others depend on", about)


def rings_svg(picture: Facts) -> str:
    """The blast radius of the file in the middle: who depends on it, a ring for each step; empty text without one."""
    centre = picture.get("centre")
    if centre is None:
        return ""
    placed = spots(chosen(picture["dependents"]))
    left, top, right, bottom = _room(placed)
    lines = [f'<g transform="translate({-left:.1f},{-top:.1f})">']
    lines += [
        f'<circle class="ring" r="{radius:.1f}"/>' for radius in sorted({round(spot.radius, 1) for spot in placed})
    ]
    lines += [_edge(spot, placed) for spot in placed]
    for spot in placed:
        lines += _spot(spot)
    lines += [
        f'<circle class="centre" r="8"><title>{escaped(centre["path"], 400)}</title></circle>',
        f'<text class="name mid strong halo" y="26">{escaped_end(centre["path"], LABEL_CELLS)}</text>',
        "</g>",
    ]
    legend, height = _legend(picture, placed, bottom - top + 8)
    title = f"What depends on {centre['path']}"
    about = counts_said(picture) + ". " + "; ".join(_told(spot.file) for spot in placed)
    return _sheet(lines + legend, (max(right - left, 620.0), height), "rings", title, about)


def counts_said(picture: Facts) -> str:
    """How many files depend on the one in the middle, in words."""
    counts = picture["counts"]
    if not counts["total"]:
        return "No file that is known depends on it"
    return (
        f"{counts['total']} depend on it: {counts['direct']} directly, {counts['transitive']} over others; "
        f"{counts['critical']} critical, {counts['tests']} tests"
    )


def by_suffix(one: Facts) -> bool:
    """Whether no source knows the edge by the whole name of its end."""
    via = str(one.get("via") or "")
    return bool(via) and all(source.strip().endswith("+suffix") for source in via.split(","))


def learned(one: Facts) -> str:
    """Where the edge was learned, in words."""
    return str(one.get("via") or "").replace("+suffix", " by the end of a name")


def left_out(picture: Facts, placed: int) -> list[str]:
    """For each ring that is not drawn whole: how many of how many are."""
    drawn: dict[int, int] = {}
    for one in chosen(picture["dependents"]):
        drawn[one["depth"]] = drawn.get(one["depth"], 0) + 1
    return [
        f"ring {depth}: {drawn.get(int(depth), 0)} of {whole} are drawn"
        for depth, whole in sorted(picture["counts"]["by_depth"].items(), key=lambda item: int(item[0]))
        if drawn.get(int(depth), 0) < whole and placed
    ]


# -- parts ----------------------------------------------------------------------------------------------------------


def _told(one: Facts) -> str:
    marks = [word for word in ("critical", "test") if one.get(word)]
    return f"{one['path']} ({', '.join([str(one['depth']), *marks])})"


def _room(placed: Sequence[Spot]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of what is drawn, from the middle: every ring, each name at its longest."""
    reach = 14 + LABEL_CELLS * CELL
    ends = [
        (math.cos(spot.angle) * (spot.radius + reach), math.sin(spot.angle) * (spot.radius + reach))
        for spot in placed
    ]
    ring = max((spot.radius for spot in placed), default=40.0) + 10
    wide = max(ring, LABEL_CELLS * CELL / 2)
    return (
        min([-wide, *(x - 10 for x, _ in ends)]),
        min([-ring, *(y - 10 for _, y in ends)]),
        max([wide, *(x + 10 for x, _ in ends)]),
        max([ring, *(y + 10 for _, y in ends)]),
    )


def _edge(spot: Spot, placed: Sequence[Spot]) -> str:
    x, y = spot.point
    kind = "edge" + " suffix" * by_suffix(spot.file)
    hint = f"<title>{escaped(_way(spot.file), 600)}</title>"
    if spot.loose:  # its way leads over a file that is not drawn: a short end shows that there is one
        near = spot.radius - 26
        fx, fy = near * math.cos(spot.angle), near * math.sin(spot.angle)
        return f'<path class="{kind} loose" d="M{fx:.1f},{fy:.1f}L{x:.1f},{y:.1f}">{hint}</path>'
    fx, fy = (0.0, 0.0) if spot.parent is None else placed[spot.parent].point
    return f'<path class="{kind}" d="M{fx:.1f},{fy:.1f}L{x:.1f},{y:.1f}">{hint}</path>'


def _way(one: Facts) -> str:
    return f"{one['path']} depends on {one.get('through_path') or 'it'}, learned from {learned(one)}"


def _spot(spot: Spot) -> list[str]:
    one = spot.file
    x, y = spot.point
    hint = "\n".join([_told(one), _way(one), *([str(one["purpose"])] if one.get("purpose") else [])])
    left = math.cos(spot.angle) < -1e-9
    turn = math.degrees(spot.angle) + (180 if left else 0)
    label = escaped_end(one["path"], LABEL_CELLS)
    kind = "name halo late" if left else "name halo"
    return [
        f"<g><title>{escaped(hint, 900)}</title>",
        _mark(one, x, y),
        f'<text class="{kind}" transform="translate({x:.1f},{y:.1f}) rotate({turn:.2f})"',
        f'x="{-10 if left else 10}" y="4">{label}</text></g>',
    ]


def _mark(one: Facts, x: float, y: float) -> str:
    """A diamond for a critical file, open where it is a test, an open circle for another test, a dot for the rest."""
    if one.get("critical"):
        kind = "test" if one.get("test") else "critical"
        return f'<path class="{kind}" d="M{x:.1f},{y - 7:.1f}l7,7l-7,7l-7,-7z"/>'
    if one.get("test"):
        return f'<circle class="test" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def _legend(picture: Facts, placed: Sequence[Spot], y: float) -> tuple[list[str], float]:
    lines = [f'<text class="strong" x="10" y="{y + 12:g}">{escaped(counts_said(picture))}</text>']
    for text in left_out(picture, len(placed)):
        y += ROW
        lines.append(f'<text class="faint" x="10" y="{y + 12:g}">{escaped(text)}</text>')
    there: list[tuple[str, str]] = []
    kinds = {(bool(spot.file.get("critical")), bool(spot.file.get("test"))) for spot in placed}
    for critical, test, words in (
        (True, False, "critical: a service or an API"),
        (True, True, "a test of a service or an API"),
        (False, True, "a test"),
        (False, False, "any other file" if len(kinds) > 1 else "a file"),
    ):
        if (critical, test) in kinds:
            there.append((_mark({"critical": critical, "test": test}, 18, 0), words))
    if any(not spot.loose for spot in placed):
        there.append(('<path class="edge" d="M6,0L30,0"/>', "depends on the one nearer to the middle"))
    if any(by_suffix(spot.file) for spot in placed):
        text = "the same, found by the end of a name that fits one file only"
        there.append(('<path class="edge suffix" d="M6,0L30,0"/>', text))
    if any(spot.loose for spot in placed):
        there.append(('<path class="edge loose" d="M6,0L30,0"/>', "over a file that is not drawn"))
    for shape, text in there:
        y += ROW
        lines.append(f'<g transform="translate(0,{y + 8:g})">{shape}</g>')
        lines.append(f'<text class="faint" x="38" y="{y + 12:g}">{escaped(text)}</text>')
    return lines, y + ROW


def _sheet(lines: Sequence[str], size: tuple[float, float], name: str, title: str, about: str) -> str:
    whole = (round(size[0] + 2 * MARGIN), round(size[1] + 2 * MARGIN))
    body = [f'<g transform="translate({MARGIN:g},{MARGIN:g})">', *lines, "</g>"]
    return svg_sheet(body, whole, name=name, title=title, about=about)
