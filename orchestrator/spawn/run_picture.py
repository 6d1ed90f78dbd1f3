"""Draws a spawn run as one SVG: its graph by waves, its time line with the critical path, its totals. Pure.

The SVG runs and loads nothing: no script, no address, no font. All text of a run is escaped, and characters that are
not printable are made visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.base.svg_page import cut, escaped, svg_sheet
from orchestrator.spawn.modes.mode_table import mode_of
from orchestrator.spawn.picture_words import (
    PictureJson,
    Span,
    critical_path,
    dollars,
    instant,
    maybe_charged,
    repeats,
    seconds,
    spans_of,
    totals,
)

MARK = "orchestrator spawn graph"
"""Stands in the first bytes of everything drawn: what carries it is ours to overwrite."""

BOX_W, GAP_X, GAP_Y = 204, 66, 18
ROWS = 25  # a wave with more nodes goes on in a column beside
MARGIN, TEXT_H = 20, 18
NAMES_W, CHART_W, BAR_H = 200, 720, 18

# status -> fill and line, in light and in dark surroundings
COLOURS = {
    "queued": ("#f6f8fa", "#6e7781", "#161b22", "#8b949e"),
    "running": ("#ddf4ff", "#0969da", "#0b2545", "#58a6ff"),
    "retry_pending": ("#fff8c5", "#9a6700", "#332500", "#d29922"),
    "completed": ("#dafbe1", "#1a7f37", "#06260f", "#3fb950"),
    "failed": ("#ffebe9", "#cf222e", "#3d0c0c", "#f85149"),
    "skipped": ("#f6f8fa", "#6e7781", "#161b22", "#8b949e"),
    "canceled": ("#fbefff", "#8250df", "#251047", "#bc8cff"),
}
ATTEMPTS = {"done": "completed", "lost": "failed"}  # the colour of an attempt whose state is no status of a node


def _style() -> str:
    light, dark = [], []
    for status, (fill, line, dark_fill, dark_line) in COLOURS.items():
        light.append(f".s-{status}{{fill:{fill};stroke:{line}}}")
        dark.append(f".s-{status}{{fill:{dark_fill};stroke:{dark_line}}}")
    return (
        ".sheet{fill:#fff}.box{fill:#f6f8fa;stroke:#6e7781;stroke-width:1.5}"
        "svg text{font:12px system-ui,sans-serif;fill:#1f2328}svg .name{font-weight:600}svg .head{font-size:16px}"
        "svg .faint{fill:#57606a}svg .late{text-anchor:end}"
        ".edge{fill:none;stroke:#8c959f;stroke-width:1.2}.implied{stroke-dasharray:2 4;opacity:.6}.tip{fill:#8c959f}"
        ".axis{stroke:#d0d7de}.s-skipped{stroke-dasharray:5 3}"
        + "".join(light)
        + ".critical{stroke:#bc4c00;stroke-width:3}"
        + "@media(prefers-color-scheme:dark){.sheet{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}"
        "svg text{fill:#e6edf3}svg .faint{fill:#9198a1}.edge{stroke:#6e7681}.tip{fill:#6e7681}.axis{stroke:#30363d}"
        + "".join(dark)
        + ".critical{stroke:#f0883e}}"
    )


STYLE = _style()


@dataclass(frozen=True)
class _DrawingPart:
    """A piece of the drawing with the room it takes."""

    lines: Sequence[str]
    width: float
    height: float


def svg(picture: PictureJson) -> str:
    """The drawing of a run.

    ``picture`` is what ``orchestrator/spawn_run`` answers: ``run``, ``nodes`` in the order of the plan, ``events``.
    What it lacks is not drawn: without times no time line, without a run no totals. The result is well-formed XML,
    whatever text it contains.
    """
    run, nodes = picture["run"], picture["nodes"]
    spans = spans_of(picture)
    path = critical_path(nodes, spans)
    title = f"Spawn run {run['run_id']}" if run.get("run_id") else f"The graph of mode {run.get('mode', '')}"
    about = f"{len(nodes)} nodes; " + "; ".join(
        f"{node['node_id']} {node.get('status', '')}".strip() + _after(node) for node in nodes[:40]
    )
    body: list[str] = []
    width, y = 0.0, float(MARGIN)
    for part in (
        _totals(run, path, spans),
        _graph(nodes, path),
        _time_line(nodes, spans, path),
        _legend(nodes, path),
    ):
        if part.lines:
            body += [f'<g transform="translate({MARGIN},{y:g})">', *part.lines, "</g>"]
            width, y = max(width, part.width), y + part.height + MARGIN
    head = [f"<!-- {MARK} -->", f"<style>{STYLE}</style>"]
    return svg_sheet(body, (width + 2 * MARGIN, y), name="spawn", title=title, about=about, head=head)


def mode_picture(mode: str) -> PictureJson:
    """What a run of that mode is made of, for ``svg``, before anything has happened; KeyError for no mode."""
    nodes = [
        {"node_id": name, "wave": wave, "needs": needs.split(), "reason": reason}
        for name, wave, needs, reason in mode_of(mode).picture
    ]
    return {"run": {"mode": mode}, "nodes": nodes, "events": []}


# -- parts ----------------------------------------------------------------------------------------------------------


def _after(node: PictureJson) -> str:
    return f" after {', '.join(node['needs'])}" if node["needs"] else ""


def _text(x: float, y: float, text: object, cells: int, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{named}>{escaped(text, cells)}</text>'


def _totals(run: PictureJson, path: Sequence[str], spans: Mapping[str, Span]) -> _DrawingPart:
    if not run.get("run_id"):
        return _DrawingPart((), 0, 0)
    words = totals(run)
    half = len(words) // 2 + 1
    texts = [" · ".join(words[:half]), " · ".join(words[half:])]
    if path:
        busy = sum(spans[node_id][1] - spans[node_id][0] for node_id in path)
        whole = spans[path[-1]][1] - min(began for began, _ in spans.values())
        texts.append(f"critical path: {len(path)} nodes, {seconds(busy)} of work in {seconds(whole)}")
    lines = [_text(0, 14, run.get("task") or run["run_id"], 90, "head name")]
    lines += [_text(0, 16 + TEXT_H * (n + 1), text, 130, "faint") for n, text in enumerate(texts)]
    return _DrawingPart(lines, NAMES_W + CHART_W, 16 + TEXT_H * len(texts))


def _places(
    nodes: Sequence[PictureJson], tall: int
) -> tuple[dict[str, tuple[float, float]], list[tuple[float, int]]]:
    """The place of each box and the start of each wave; a node is to the right of all that it needs."""
    ranks = {wave: rank for rank, wave in enumerate(sorted({node.get("wave") or 0 for node in nodes}))}
    column: dict[str, int] = {}
    for node in nodes:
        after = [column[need] + 1 for need in node["needs"] if need in column]
        column[node["node_id"]] = max([ranks[node.get("wave") or 0], *after])
    waves: dict[int, list[PictureJson]] = {}
    for node in nodes:
        waves.setdefault(column[node["node_id"]], []).append(node)
    tallest = min(ROWS, max((len(wave) for wave in waves.values()), default=0))
    places: dict[str, tuple[float, float]] = {}
    heads: list[tuple[float, int]] = []
    at = 0
    for rank in sorted(waves):
        # A node stands at the height of what it needs: fewer lines cross.
        def height(node: PictureJson) -> float:
            needs = [places[need][1] for need in node["needs"] if need in places]
            return sum(needs) / len(needs) if needs else 0.0

        wave = sorted(waves[rank], key=height)
        heads.append((at * (BOX_W + GAP_X), rank))
        top = (tallest - min(ROWS, len(wave))) * (tall + GAP_Y) / 2
        for n, node in enumerate(wave):
            places[node["node_id"]] = (
                (at + n // ROWS) * (BOX_W + GAP_X),
                TEXT_H + 6 + top + n % ROWS * (tall + GAP_Y),
            )
        at += (len(wave) - 1) // ROWS + 1
    return places, heads


def _graph(nodes: Sequence[PictureJson], path: Sequence[str]) -> _DrawingPart:
    if not nodes:
        return _DrawingPart((), 0, 0)
    tall = 10 + TEXT_H * max(len(_rows(node)) for node in nodes)
    places, heads = _places(nodes, tall)
    lines = [_text(x, 12, f"wave {rank}", 20, "faint") for x, rank in heads]
    decided = set(pairwise(path))
    behind: dict[str, set[str]] = {}  # all that a node needs, over however many others
    implied_any = False
    for node in nodes:
        name = node["node_id"]
        needs = [need for need in dict.fromkeys(node["needs"]) if need in behind]
        far = set().union(*(behind[need] for need in needs))
        behind[name] = far.union(needs)
        for need in needs:
            implied_any |= need in far
            ways = _edge(places[need], places[name], tall, implied=need in far, critical=(need, name) in decided)
            lines.append(ways)
    for node in nodes:
        lines += _box(node, *places[node["node_id"]], tall, critical=node["node_id"] in path)
    below = 34 if implied_any else 0
    return _DrawingPart(
        lines,
        max(x for x, _ in places.values()) + BOX_W,
        max(y for _, y in places.values()) + tall + below,
    )


def _edge(frm: tuple[float, float], to: tuple[float, float], tall: int, *, implied: bool, critical: bool) -> str:
    kind = "edge" + " implied" * implied + " critical" * critical
    if implied:  # from below to below: the straight way is that of the nodes between
        x1, y1, x2, y2 = frm[0] + BOX_W / 2, frm[1] + tall, to[0] + BOX_W / 2, to[1] + tall
        return f'<path class="{kind}" d="M{x1:g},{y1:g}C{x1:g},{y1 + 44:g} {x2:g},{y2 + 44:g} {x2:g},{y2:g}"/>'
    x1, y1, x2, y2 = frm[0] + BOX_W, frm[1] + tall / 2, to[0] - 7, to[1] + tall / 2
    bend = GAP_X / 2
    return (
        f'<path class="{kind}" d="M{x1:g},{y1:g}C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2:g},{y2:g}"/>'
        f'<path class="tip" d="M{x2:g},{y2 - 4:g}l7,4l-7,4z"/>'
    )


def _box(node: PictureJson, x: float, y: float, tall: int, *, critical: bool) -> list[str]:
    status = node.get("status")
    known = f" s-{status}" if status in COLOURS else ""
    rows = _rows(node)
    lines = [
        f"<g><title>{escaped(_hint(node))}</title>",
        f'<rect class="box{known}" x="{x:g}" y="{y:g}" width="{BOX_W}" height="{tall}" rx="7"/>',
    ]
    if critical:
        frame = f'x="{x - 3:g}" y="{y - 3:g}" width="{BOX_W + 6}" height="{tall + 6}" rx="9"'
        lines.append(f'<rect class="critical" fill="none" {frame}/>')
    kinds = ("name", "faint", *[""] * len(rows))
    lines += [_text(x + 10, y + TEXT_H * (n + 1), row, 29, kinds[n]) for n, row in enumerate(rows)]
    return [*lines, "</g>"]


def _rows(node: PictureJson) -> list[str]:
    """The text in a node's box, without repeats if all went well."""
    facts = [node.get("status") or ""]
    if facts[0]:
        facts.append(seconds(node["seconds"]) if node.get("seconds") is not None else "")
        facts.append(dollars(node["usd"]) if node.get("usd") is not None else "")
    rows = [
        node.get("model") or "",
        " · ".join(text for text in facts if text) or node.get("reason", ""),
        repeats(node),
        maybe_charged(node),
    ]
    return [node["node_id"], *(row for row in rows if row)]


def _hint(node: PictureJson) -> str:
    texts = [f"{node['node_id']} {node.get('status') or ''}".strip()]
    for key in ("kind", "model", "task", "reason", "error", "retry_at", "cost_source"):
        if node.get(key) and len(texts) < 9:
            texts.append(f"{key}: {cut(str(node[key]), 400)}")
    if node["needs"]:
        texts.append(f"needs: {cut(', '.join(node['needs']), 400)}")
    return "\n".join([*texts, *([repeats(node)] if repeats(node) else [])])


def _time_line(nodes: Sequence[PictureJson], spans: Mapping[str, Span], path: Sequence[str]) -> _DrawingPart:
    if not spans:
        return _DrawingPart((), 0, 0)
    first, last = min(began for began, _ in spans.values()), max(ended for _, ended in spans.values())
    scale = CHART_W / max(last - first, 0.001)
    shown = sorted((node for node in nodes if node["node_id"] in spans), key=lambda node: spans[node["node_id"]])
    bottom = TEXT_H + BAR_H * len(shown)
    lines = []
    step = _step(last - first)
    for n in range(int((last - first) / step) + 1):
        x = NAMES_W + n * step * scale
        lines.append(f'<line class="axis" x1="{x:g}" y1="{TEXT_H:g}" x2="{x:g}" y2="{bottom:g}"/>')
        lines.append(_text(x, 12, f"{n * step:g} s", 12, "faint"))
    for n, node in enumerate(shown):
        name, y = node["node_id"], TEXT_H + BAR_H * n
        mark = " critical" if name in path else ""
        lines.append(f"<g><title>{escaped(_hint(node))}</title>")
        lines.append(_text(NAMES_W - 8, y + 13, name, 28, "late name" if mark else "late"))
        for began, ended, status in _bars(node, spans[name]):
            x, width = NAMES_W + (began - first) * scale, max(2.0, (ended - began) * scale)
            lines.append(
                f'<rect class="box s-{status}{mark}" x="{x:.1f}" y="{y + 3:g}" width="{width:.1f}" height="12"/>'
            )
        lines.append("</g>")
    return _DrawingPart(lines, NAMES_W + CHART_W + 40, bottom)


def _bars(node: PictureJson, span: Span) -> list[tuple[float, float, str]]:
    """The attempts of a node, or the node as one where they are not known."""
    attempt_bars = []
    for attempt in node.get("attempts_list") or ():
        began, ended = instant(attempt.get("started_at")), instant(attempt.get("finished_at"))
        state = str(attempt.get("state", ""))
        if began is not None:
            attempt_bars.append((began, max(began, span[1] if ended is None else ended), ATTEMPTS.get(state, state)))
    bars = attempt_bars or [(*span, str(node.get("status")))]
    return [(began, ended, status if status in COLOURS else "queued") for began, ended, status in bars]


def _step(length: float) -> float:
    """Seconds between two lines of the time line: at most ten of them, at round places."""
    step = 0.001
    while True:
        for factor in (1, 2, 5):
            if length <= 10 * step * factor:
                return step * factor
        step *= 10


def _legend(nodes: Sequence[PictureJson], path: Sequence[str]) -> _DrawingPart:
    there = {node.get("status") for node in nodes}
    lines, x = [], 0.0
    for status in COLOURS:
        if status in there:
            lines.append(f'<rect class="box s-{status}" x="{x:g}" y="3" width="16" height="12" rx="3"/>')
            lines.append(_text(x + 22, 13, status, 20))
            x += 44 + 7 * len(status)
    if path:
        lines.append(f'<line class="critical" x1="{x:g}" y1="9" x2="{x + 18:g}" y2="9"/>')
        lines.append(_text(x + 24, 13, "critical path", 20))
        x += 110
    return _DrawingPart(lines, x, TEXT_H)
