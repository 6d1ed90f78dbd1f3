"""Draws the timeline of a team run as one SVG: agents as rows, attempts as bars, waits for a human marked. Pure.

The drawing runs and loads nothing. Every bar can be read without colour: by its sign, its frame and its title.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from orchestrator.base.svg_page import escaped, svg_sheet
from orchestrator.core.glyphs import outcome_sign
from orchestrator.faces.amount_words import clock, counted, duration, instant, seconds_between
from orchestrator.faces.timeline import Bar, Lane, Timeline, Wait

NAMES_W, CHART_W, ROW_H, HEAD_H, PAD = 170, 960, 30, 34, 10
BAR_Y, BAR_H, WAIT_Y, WAIT_H = 4, 15, 21, 5
LETTER_W = 7
TICKS = 8
STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip

# outcome -> fill, line and text, in light and in dark surroundings
COLOURS = {
    "result": ("#dafbe1", "#1a7f37", "#06260f", "#3fb950"),
    "error": ("#cf222e", "#82071e", "#f85149", "#ffdcd7"),
    "canceled": ("#f6f8fa", "#6e7781", "#161b22", "#8b949e"),
    "requeued": ("#fff8c5", "#9a6700", "#332500", "#d29922"),
    "running": ("#ddf4ff", "#0969da", "#0b2545", "#58a6ff"),
    "unknown": ("#fbefff", "#8250df", "#251047", "#bc8cff"),
}
SIGNS = {"requeued": "↻", "running": "●", "unknown": "?"}


def _style() -> str:
    def rules(at: int) -> str:
        return "".join(f".b-{name}{{fill:{row[at]};stroke:{row[at + 1]}}}" for name, row in COLOURS.items())

    return (
        "svg.run .sheet{fill:none}svg.run text{font:12px system-ui,sans-serif;fill:#1f2328}"
        "svg.run .name{font-weight:600}svg.run .faint{fill:#57606a}svg.run .mid{text-anchor:middle}"
        "svg.run a{cursor:pointer}.axis,.row{stroke:#d8dee4}.life{stroke:#8c959f;stroke-width:2}"
        ".gone{stroke:#cf222e;stroke-width:2}.b-canceled,.b-requeued,.b-unknown{stroke-dasharray:4 2}"
        "svg.run .b-error+text{fill:#fff}.wait{fill:#bf8700;stroke:#633c01;stroke-width:.5}" + rules(0) + "@media"
        "(prefers-color-scheme:dark){svg.run text{fill:#e6edf3}svg.run .faint{fill:#9198a1}.axis,.row{stroke:#30363d}"
        ".life{stroke:#6e7681}svg.run .b-error+text{fill:#0d1117}.wait{fill:#d29922;stroke:#f2cc60}" + rules(2) + "}"
    )


STYLE = _style()


class _Scale(NamedTuple):
    """Where a moment is drawn: ``begin`` at the left end of the chart, ``seconds`` is its whole width."""

    begin: datetime
    seconds: float

    def x(self, at: object) -> float:
        moment = instant(at)
        if moment is None or moment.tzinfo is None:
            return NAMES_W
        part = (moment - self.begin).total_seconds() / self.seconds
        return NAMES_W + CHART_W * min(1.0, max(0.0, part))


def drawing(timeline: Timeline, now: str, targets: Mapping[tuple[str, str], str]) -> str:
    """The drawing of a run up to its end, or to ``now`` while it is live; empty if it has no agents.

    ``targets`` are the ids of elements of the page to which the bars of a task (by agent and task) lead.
    """
    if not timeline.agents:
        return ""
    scale = _scale(timeline, now)
    body = [*_axis(scale, len(timeline.agents))]
    for row, lane in enumerate(timeline.agents):
        y = HEAD_H + row * ROW_H
        body.append(f'<g transform="translate(0,{y})">')
        body += _row(lane, scale, timeline.end or now, targets)
        body.append("</g>")
    height = HEAD_H + len(timeline.agents) * ROW_H + PAD
    bars = sum(len(lane.bars) for lane in timeline.agents)
    waits = sum(len(lane.waits) for lane in timeline.agents)
    about = (
        f"{counted(len(timeline.agents), 'agent')}, {counted(bars, 'attempt')}, {counted(waits, 'wait')} for a human "
        f"from {clock(timeline.begin)} to {clock(timeline.end or now)}; the lists below say all of it in words"
    )
    svg = svg_sheet(
        body, (NAMES_W + CHART_W + PAD, height), name="run", title=f"Timeline of {timeline.run_id}", about=about
    )
    return svg.replace("<svg ", '<svg class="run" ', 1)


def legend() -> str:
    """What the signs of the drawing mean, as markup."""
    words = {"requeued": "lost, tried again", "running": "still running", "unknown": "end not recorded"}
    frame = '<svg width="18" height="14" aria-hidden="true">'
    boxes = [
        f'{frame}<rect class="b-{name}" x="1" y="1" width="16" height="12" rx="2"/></svg> '
        f"{_sign(name)} {words.get(name, name)}"
        for name in COLOURS
    ]
    boxes.append(f'{frame}<rect class="wait" x="1" y="5" width="16" height="5"/></svg> waited for a human')
    boxes.append(f'{frame}<path class="gone" d="M9 1v12"/></svg> its CLI ended')
    keys = "".join(f'<span class="key">{box}</span>' for box in boxes)
    return f'<p class="keys">{keys}</p>'


def _sign(outcome: str) -> str:
    return SIGNS.get(outcome) or outcome_sign(outcome)


def _scale(timeline: Timeline, now: str) -> _Scale:
    """From the begin of the run to its end, to now while something is open, else to the last record."""
    times = [timeline.begin, timeline.end]
    for lane in timeline.agents:
        spans: Sequence[Bar | Wait] = (*lane.bars, *lane.waits)
        times += [at for span in spans for at in (span.begin, span.end or now)]
        times += [at for life in lane.lives for at in (life.begin, life.ready, life.end)]
    moments = [moment for at in times if (moment := instant(at)) is not None and moment.tzinfo is not None]
    first = min(moments, default=datetime(1970, 1, 1, tzinfo=UTC))
    return _Scale(first, max(1.0, (max(moments, default=first) - first).total_seconds()))


def _axis(scale: _Scale, rows: int) -> list[str]:
    step = next((step for step in STEPS if scale.seconds / step <= TICKS), scale.seconds / TICKS)
    form = (
        "%H:%M:%S" if step < 60 else "%H:%M" if scale.seconds < 86400 else "%b %d %H:%M" if step < 86400 else "%b %d"
    )
    height = HEAD_H + rows * ROW_H
    marks = []
    # Round moments of the local day, as people read them.
    local = _local(scale.begin)
    offset = (local.hour * 3600 + local.minute * 60 + local.second + local.microsecond / 1e6) % step
    for number in range(TICKS + 2):
        try:
            at = scale.begin + timedelta(seconds=number * step - offset + (step if offset > 0 else 0))
        except OverflowError:
            break
        if (at - scale.begin).total_seconds() > scale.seconds:
            break
        x = f"{scale.x(at.isoformat()):.1f}"
        marks.append(f'<path class="axis" d="M{x} {HEAD_H - 6}V{height}"/>')
        marks.append(
            f'<text class="faint mid" x="{x}" y="{HEAD_H - 12}">{escaped(clock(at.isoformat(), form))}</text>'
        )
    return marks


def _local(at: datetime) -> datetime:
    try:
        return at.astimezone()
    except (ValueError, OverflowError):
        return at


def _row(lane: Lane, scale: _Scale, until: str, targets: Mapping[tuple[str, str], str]) -> list[str]:
    middle = BAR_Y + BAR_H / 2
    name = escaped(lane.name, (NAMES_W - 14) // LETTER_W)
    more = escaped(", ".join(filter(None, (lane.agent_id, lane.role, lane.engine))), 200)
    lines = [
        f'<path class="row" d="M0 {ROW_H}H{NAMES_W + CHART_W}"/>',
        f'<text class="name" x="0" y="{middle + 4:g}">{name}<title>{more}</title></text>',
    ]
    for life in lane.lives:
        begin, end = scale.x(life.begin), scale.x(life.end or until)
        lines.append(f'<path class="life" d="M{begin:.1f} {middle}H{max(end, begin + 1):.1f}"/>')
    lines += [_bar(bar, scale, until, targets.get((lane.agent_id, bar.task_id))) for bar in lane.bars]
    for life in lane.lives:
        if life.how in ("exited", "failed"):
            title = escaped(f"launch {life.epoch} {life.how} {clock(life.end)}: {life.why}", 300)
            lines.append(
                f'<path class="gone" d="M{scale.x(life.end):.1f} 1V{ROW_H - 3}"><title>{title}</title></path>'
            )
    lines += [_wait(wait, scale, until) for wait in lane.waits]
    return lines


def _bar(bar: Bar, scale: _Scale, until: str, target: str | None) -> str:
    begin = scale.x(bar.begin or bar.end)
    width = max(2.0, scale.x(bar.end or until) - begin)
    outcome = bar.outcome or "running"
    seconds = seconds_between(bar.begin, bar.end or until)
    words = [f"{_sign(outcome)} {bar.title}", f"{outcome}, attempt {bar.attempt}, {duration(seconds)}", bar.why]
    title = escaped(" · ".join(filter(None, words)), 300)
    label = ""
    if width >= 2 * LETTER_W:
        text = f"{_sign(outcome)} {bar.title}" if width > 6 * LETTER_W else _sign(outcome)
        label = f'<text x="{begin + 3:.1f}" y="{BAR_Y + 12}">{escaped(text, int((width - 4) / LETTER_W))}</text>'
    shape = (
        f'<rect class="b-{outcome if outcome in COLOURS else "unknown"}" x="{begin:.1f}" y="{BAR_Y}" '
        f'width="{width:.1f}" height="{BAR_H}" rx="2"><title>{title}</title></rect>{label}'
    )
    return f'<a href="#{target}">{shape}</a>' if target else shape


def _wait(wait: Wait, scale: _Scale, until: str) -> str:
    begin = scale.x(wait.begin)
    width = max(2.0, scale.x(wait.end or until) - begin)
    words = [
        f"waited {duration(seconds_between(wait.begin, wait.end or until))} for a human ({wait.kind})",
        wait.text,
        f"{wait.answer} by {wait.by}" if wait.answer else wait.reason,
    ]
    title = escaped(" · ".join(filter(None, words)), 400)
    return (
        f'<rect class="wait" x="{begin:.1f}" y="{WAIT_Y}" width="{width:.1f}" height="{WAIT_H}">'
        f"<title>{title}</title></rect>"
    )
