"""The timeline view of top: scrolls through a whole run, finished ones too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from orchestrator.base.errors import OrchestratorError
from orchestrator.faces.timeline import Timeline, timeline_of
from orchestrator.faces.top.key_bindings import KeyAction
from orchestrator.faces.top.line_view import LineView
from orchestrator.faces.top.plain_line import PlainLine
from orchestrator.faces.top.timeline_drawing import (
    TimeWindow,
    axis_line,
    details,
    gap_lines,
    lane_line,
    name_width,
    whole_of,
)
from orchestrator.faces.top.top_dialogs import Choice, ListDialog
from orchestrator.faces.top.top_face import TopFace

AGAIN_S = 5.0
"""How often the files of a live run are read again while it is shown."""
KEYS = " h/l move  +/- zoom  0 all  j/k agent  c choose a run  Esc back"


class TimelineView(Screen[None]):
    """One run at a time; the run of ``run_id``, or the newest without one."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = "TimelineView LineView { height: 1fr; }"

    def __init__(self, face: TopFace, bindings: Mapping[str, KeyAction], run_id: str) -> None:
        super().__init__()
        self.face = face
        self._keymap = bindings
        self._run_id = run_id
        self.timeline: Timeline | None = None
        self.window = TimeWindow(0.0, 1.0)
        self._follows = True  # the window ends where the run ends
        self.chosen = 0
        self._head = PlainLine()
        self._axis = PlainLine()
        self._lanes = LineView(id="lanes")
        self._agent_line = PlainLine()
        self._details = LineView(id="details")
        self._keys = PlainLine([(KEYS, "dim")])

    def compose(self) -> ComposeResult:
        """The run, the axis, the agents, and what the chosen agent did."""
        yield self._head
        yield self._axis
        yield self._lanes
        yield self._agent_line
        yield self._details
        yield self._keys

    def on_mount(self) -> None:
        """Read the run, again and again while it is live."""
        self._read()
        self.set_interval(AGAIN_S, self._read_again)

    def _read_again(self) -> None:
        live = self.timeline is None or self.timeline.end is None
        if live and self.app.screen is self:
            self._read()

    def _read(self) -> None:
        def read() -> Timeline:
            return timeline_of(self.face.root, self._run_id or self._newest())

        def refused(error: OrchestratorError) -> None:
            self._head.show([(f" {error.message}", "yellow")])

        self.face.in_thread(read, self._take, refused)

    def _newest(self) -> str:
        runs = _runs(self.face)
        return str(runs[-1]["run_id"]) if runs else "none"

    def _take(self, timeline: Timeline) -> None:
        fresh = self.timeline is None or self.timeline.run_id != timeline.run_id
        self.timeline, self._run_id = timeline, timeline.run_id
        whole = self._whole
        if fresh:
            self.window, self._follows, self.chosen = whole, True, 0
        elif self._follows:
            size = self.window.end - self.window.begin
            grown = whole if self.window.begin <= whole.begin + 0.001 else TimeWindow(whole.end - size, whole.end)
            self.window = grown.within(whole)
        self.draw()

    @property
    def _whole(self) -> TimeWindow:
        assert self.timeline is not None
        return whole_of(self.timeline, datetime.now(UTC))

    def draw(self) -> None:
        """Draw the window."""
        timeline = self.timeline
        if timeline is None or not self.size.width:
            return
        plain, width = self.face.ascii_only, self.size.width - 1
        self.chosen = max(0, min(self.chosen, len(timeline.agents) - 1))
        end = "live" if timeline.end is None else f"ended {timeline.end[:19].replace('T', ' ')} UTC"
        self._head.show([(f" {timeline.run_id}", "bold"), (f"  {len(timeline.agents)} agents, {end}", "dim")])
        names = name_width(timeline, width)
        self._axis.show(axis_line(self.window, width, names))
        lanes = [
            lane_line(lane, self.window, width, names, chosen=at == self.chosen, ascii_only=plain)
            for at, lane in enumerate(timeline.agents)
        ]
        self._lanes.show([*lanes, *gap_lines(timeline)] or [[("no agents", "dim")]])
        self._lanes.scroll_to(0, max(0, self.chosen - self._lanes.size.height + 1), animate=False)
        if timeline.agents:
            lane = timeline.agents[self.chosen]
            self._agent_line.show([(f" {lane.name}", "bold"), (f"  {lane.engine}", "dim")])
            self._details.show(details(lane))

    def on_resize(self) -> None:
        """Another width, another scale."""
        small = self.size.height < 14
        self._details.display = self._agent_line.display = not small
        self.call_after_refresh(self.draw)

    def on_key(self, event: events.Key) -> None:
        """Move, zoom, choose, go back."""
        action = self._keymap.get(event.key)
        name = action.name if action is not None else ""
        key = event.character or event.key
        event.stop()
        event.prevent_default()
        if name in ("back", "quit", "timeline"):
            self.dismiss(None)
        elif name in ("down", "up"):
            self.chosen += 1 if name == "down" else -1
            self.draw()
        elif name in ("scroll_down", "scroll_up", "page_down", "page_up"):
            step = max(1, self._details.size.height // 2)
            self._details.scroll_relative(y=step if name.endswith("down") else -step, animate=False)
        elif key == "c":
            self._choose()
        elif self.timeline is not None:
            self._look(event.key, key)

    def _look(self, name: str, key: str) -> None:
        whole, before = self._whole, self.window
        if name in ("left", "h"):
            self.window = before.moved(-0.25, whole)
        elif name in ("right", "l"):
            self.window = before.moved(0.25, whole)
        elif key in ("+", "="):
            self.window = before.zoomed(0.5, whole)
        elif key == "-":
            self.window = before.zoomed(2.0, whole)
        elif key == "0":
            self.window = whole
        elif name == "home":
            self.window = before.moved(-1e9, whole)
        elif name == "end":
            self.window = before.moved(1e9, whole)
        self._follows = self.window.end >= whole.end - 0.001
        self.draw()

    def _choose(self) -> None:
        def ask(runs: list[dict[str, Any]]) -> None:
            choices = [
                Choice(str(run["run_id"]), str(run["run_id"]), f"{len(run['agents'])} agents, {_state(run)}")
                for run in reversed(runs)
            ]
            self.app.push_screen(ListDialog("which team run?", choices, does="show it"), chosen)

        def chosen(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                self._run_id, self.timeline = answer[0], None
                self._read()

        self.face.in_thread(lambda: _runs(self.face), ask)


def _runs(face: TopFace) -> list[dict[str, Any]]:
    from orchestrator.team.roster import offline_view  # noqa: PLC0415  (loads the log readers)

    return offline_view.runs(face.root)


def _state(run: Mapping[str, Any]) -> str:
    return "live" if not run.get("ended_at") else f"ended {str(run['ended_at'])[:10]}"
