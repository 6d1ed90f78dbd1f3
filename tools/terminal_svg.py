"""Draws terminal screens, as `tmux capture-pane -e` gives them, into one SVG: a picture or a recording. Pure.

A recording loads nothing and runs no script: each row of the screen is an element that a style sheet shows during its
seconds, so a page that shows SVGs as images plays it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple
from unicodedata import combining, east_asian_width

CELL_W, CELL_H, MARGIN = 8.4, 17.0, 12.0
FOREGROUND, BACKGROUND = "#d0d7de", "#0d1117"
_TEXT_STYLE = (  # a rule for text would win over the attributes of each text, which have its colour and its weight
    "svg{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    f"fill:{FOREGROUND}}}text{{white-space:pre}}"
)
_BASIC = (
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    "#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
)  # fmt: skip
_ESCAPE = re.compile(r"\x1b(?:\[([0-9;:]*)m|\[[0-9;?]*[A-Za-ln-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|\([0AB]|[=>])")


class Style(NamedTuple):
    """How a run of cells looks; an empty colour is the terminal's own."""

    fg: str = ""
    bg: str = ""
    bold: bool = False
    dim: bool = False
    reverse: bool = False


class Run(NamedTuple):
    """Neighbouring cells of one style: the first column, how many columns, and the text."""

    column: int
    columns: int
    text: str
    style: Style


class Frame(NamedTuple):
    """One screen of a recording, and the second at which it appears."""

    at_s: float
    text: str


def rows(screen: str, width: int) -> list[tuple[Run, ...]]:
    """The rows of a screen; the style of one row goes on in the next, as in a terminal."""
    style, out = Style(), []
    for line in screen.split("\n"):
        runs, style = _runs(line, style, width)
        out.append(runs)
    return out


def picture(screen: str, width: int, height: int, title: str) -> str:
    """One screen of ``width`` columns and ``height`` rows as an SVG."""
    return recording([Frame(0.0, screen)], width, height, title, 0.0)


def recording(frames: Sequence[Frame], width: int, height: int, title: str, lasts_s: float) -> str:
    """The frames as one SVG that begins again after ``lasts_s`` seconds; one frame alone does not move."""
    shown: list[list[tuple[float, tuple[Run, ...]]]] = [[] for _ in range(height)]
    for frame in frames:
        screen = rows(frame.text, width)
        for at in range(height):
            row = screen[at] if at < len(screen) else ()
            if not shown[at] or shown[at][-1][1] != row:
                shown[at].append((frame.at_s, row))
    body: list[str] = []
    spans: dict[tuple[float, float], str] = {}
    for at, changes in enumerate(shown):
        for n, (begin, row) in enumerate(changes):
            end = changes[n + 1][0] if n + 1 < len(changes) else lasts_s
            if row:
                name = spans.setdefault((begin, end), f"s{len(spans)}") if len(changes) > 1 else ""
                mark = f' class="{name}"' if name else ""
                body.append(f"<g{mark}>{''.join(_drawn(run, at) for run in row)}</g>")
    size_w, size_h = width * CELL_W + 2 * MARGIN, height * CELL_H + 2 * MARGIN
    style = [_TEXT_STYLE]
    style += [_shown_during(name, begin / lasts_s, end / lasts_s, lasts_s) for (begin, end), name in spans.items()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size_w:.0f}" height="{size_h:.0f}"',
            f'viewBox="0 0 {size_w:.0f} {size_h:.0f}" role="img" aria-label="{escape(title, quote=True)}">',
            f"<title>{escape(title)}</title><style>{''.join(style)}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
            *body,
            "</svg>\n",
        ]
    )


def _shown_during(name: str, begin: float, end: float, lasts_s: float) -> str:
    """The style of what is visible between two fractions of the recording."""
    steps = [(0.0, begin <= 0), (begin, True), (end, False)]
    keys = "".join(
        f"{100 * at:.3f}%{{visibility:{'visible' if on else 'hidden'}}}" for at, on in dict(steps).items() if at < 1
    )
    return f".{name}{{visibility:hidden;animation:{name} {lasts_s:g}s step-end infinite}}@keyframes {name}{{{keys}}}"


def _runs(line: str, style: Style, width: int) -> tuple[tuple[Run, ...], Style]:
    out: list[Run] = []
    column = at = 0
    while at < len(line):
        found = _ESCAPE.match(line, at)
        if found:
            if found[1] is not None:
                style = _styled(style, found[1])
            at = found.end()
            continue
        end = line.find("\x1b", at)
        text = line[at : max(at + 1, end)] if end >= 0 else line[at:]
        at += len(text)
        for part in _parts(text.replace("\x1b", "")):
            cells = _columns(part)
            if column + cells > width:
                break  # a terminal of another width wrote it
            last = out[-1] if out else None
            if last and cells == len(part) and last.columns == len(last.text) and last.style == style:
                out[-1] = last._replace(columns=last.columns + cells, text=last.text + part)
            else:
                out.append(Run(column, cells, part, style))
            column += cells
    return tuple(run for run in out if run.text.strip() or run.style.bg or run.style.reverse), style


def _parts(text: str) -> list[str]:
    """The text in pieces that may be stretched to their cells: narrow letters together, each wide letter alone."""
    out: list[str] = []
    for c in text:
        narrow = _columns(c) == 1
        if out and ((narrow and _columns(out[-1]) == len(out[-1])) or combining(c)):
            out[-1] += c
        else:
            out.append(c)
    return out


def _columns(text: str) -> int:
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _styled(style: Style, codes: str) -> Style:
    numbers = [int(part) if part else 0 for part in re.split("[;:]", codes or "0")]
    at = 0
    while at < len(numbers):
        code = numbers[at]
        if code == 0:
            style = Style()
        elif code in (1, 2, 7):
            style = style._replace(**{{1: "bold", 2: "dim", 7: "reverse"}[code]: True})
        elif code == 22:
            style = style._replace(bold=False, dim=False)
        elif code == 27:
            style = style._replace(reverse=False)
        elif code in (38, 48):
            colour, used = _colour(numbers[at + 1 :])
            style = style._replace(fg=colour) if code == 38 else style._replace(bg=colour)
            at += used
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style = style._replace(fg=_BASIC[code - 30 if code < 90 else code - 82])
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style = style._replace(bg=_BASIC[code - 40 if code < 100 else code - 92])
        elif code in (39, 49):
            style = style._replace(fg="") if code == 39 else style._replace(bg="")
        at += 1
    return style


def _colour(rest: Sequence[int]) -> tuple[str, int]:
    """The colour of an extended code, and how many numbers belong to it."""
    if rest[:1] == [2] and len(rest) >= 4:
        return "#" + "".join(f"{min(255, part):02x}" for part in rest[1:4]), 4
    if rest[:1] == [5] and len(rest) >= 2:
        number = min(255, rest[1])
        if number < 16:
            return _BASIC[number], 2
        if number >= 232:
            return f"#{8 + 10 * (number - 232):02x}" + f"{8 + 10 * (number - 232):02x}" * 2, 2
        levels = (0, 95, 135, 175, 215, 255)
        cube = number - 16
        return "#" + "".join(f"{levels[part]:02x}" for part in (cube // 36, cube // 6 % 6, cube % 6)), 2
    return "", len(rest)


def _drawn(run: Run, row: int) -> str:
    x, y = MARGIN + run.column * CELL_W, MARGIN + row * CELL_H
    style = run.style
    fg, bg = style.fg or FOREGROUND, style.bg
    if style.reverse:
        fg, bg = bg or BACKGROUND, fg
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{run.columns * CELL_W:.1f}" height="{CELL_H:.1f}" fill="{bg}"/>'
        if bg
        else ""
    )
    if not run.text.strip():
        return box
    more = f' fill="{fg}"' if fg != FOREGROUND else ""
    more += ' font-weight="bold"' if style.bold else ""
    more += ' opacity=".6"' if style.dim else ""
    text = run.text.rstrip() if not bg else run.text
    lead = len(text) - len(text.lstrip())
    text, x = text.strip(), x + lead * CELL_W
    length = _columns(text) * CELL_W
    return (
        f'{box}<text x="{x:.1f}" y="{y + 13:.1f}" textLength="{length:.1f}"{more}>{escape(text, quote=False)}</text>'
    )
