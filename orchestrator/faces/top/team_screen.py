"""The main view of top: the team's numbers, the table, the tab of the chosen agent, and a line of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from orchestrator.base.errors import OrchestratorError
from orchestrator.faces.top.agent_actions import AgentActions
from orchestrator.faces.top.frame_lines import head_parts, key_parts
from orchestrator.faces.top.key_bindings import KeyAction, key_label, keys_of
from orchestrator.faces.top.line_view import LineView
from orchestrator.faces.top.narrowing import Narrowing
from orchestrator.faces.top.plain_line import PlainLine
from orchestrator.faces.top.tab_line import TABS, TabChosen, TabsLine
from orchestrator.faces.top.tab_lines import TabLine, shown_line
from orchestrator.faces.top.tab_texts import RUNS_COMMANDS, TabReader
from orchestrator.faces.top.team_layout import (
    Part,
    TeamCells,
    agent_cells,
    matching,
    run_cells,
    title_line,
)
from orchestrator.faces.top.team_table import RowChosen, RowOpened, TeamTable, WidthsChanged
from orchestrator.faces.top.top_face import TopFace
from orchestrator.team.roster.agent_names import shown_names

TAB_FROM = 9  # lines of a terminal from which the tab is shown below the table
EACH_S = {"screen": 1, "log": 5}
"""Seconds between two reads of a tab whose content changes without a record. Only the visible tab is read."""
TAB_OF = {name: name for name in TABS if name != "task"} | {"task_text": "task"}
"""The tab that an action shows; `task` is the action that queues one."""


class TeamScreen(AgentActions, Narrowing, Screen[None]):
    """The team, live. Keys are looked up in ``bindings``; each action is a method ``do_NAME``."""

    AUTO_FOCUS = ""

    def __init__(self, face: TopFace, bindings: Mapping[str, KeyAction], reader: TabReader) -> None:
        super().__init__()
        self.face = face
        self.bindings = bindings
        self._reader = reader
        self._totals = PlainLine(id="totals")
        self._titles = PlainLine(id="titles")
        self.table = TeamTable(ascii_only=face.ascii_only)
        self.tabs = TabsLine(ascii_only=face.ascii_only)
        self.view = LineView(id="view")
        self.key_line = PlainLine(id="keys")
        self._cells: dict[str, tuple[dict[str, Any], str, TeamCells]] = {}
        self._rows: list[TeamCells] = []
        self.enlarged = False
        self._message: list[Part] = []
        self._read_for: tuple[Any, ...] = ()
        self._reading = False
        self._again = False
        self._table_height = -1
        self._seconds = 0

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self._totals
        yield self._titles
        yield self.table
        yield self.tabs
        yield self.view
        yield self.key_line

    def on_mount(self) -> None:
        """Begin with what is known."""
        self.set_interval(1.0, self._each_second)
        self.show()

    # -- showing --------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Show the newest snapshot; draws what differs."""
        snapshot = self.face.snapshot
        if snapshot is None or not self.is_mounted:
            return
        agents, runs = snapshot["agents"], snapshot["runs"]
        names, plain = shown_names(agents), self.face.ascii_only
        before, self._cells = self._cells, {}
        rows: list[TeamCells] = []
        for row in agents:
            key = f"agent:{row['agent_id']}"
            name, old = names[row["agent_id"]], before.get(key)
            if old is None or old[0] is not row or old[1] != name:
                old = (row, name, agent_cells(row, name, ascii_only=plain))
            self._cells[key] = old
            rows.append(old[2])
        rows += [run_cells(run, ascii_only=plain) for run in runs]
        self._rows = matching(rows, self.filter, needs_me=self.needs_me)
        self.table.show(self._rows)
        self._show_head(snapshot)
        self._arrange()
        self._read_tab()

    def _show_head(self, snapshot: Mapping[str, Any]) -> None:
        plain = self.face.ascii_only
        parts = head_parts(snapshot, self.size.width, filtered=self.filter, needs_me=self.needs_me, ascii_only=plain)
        self._totals.show(parts, [(f"{datetime.now().astimezone():%H:%M} ", "dim")])
        self._show_titles(snapshot)

    def _show_titles(self, snapshot: Mapping[str, Any]) -> None:
        titles = (
            title_line(self.table.widths, ascii_only=self.face.ascii_only) if self._rows else self._empty(snapshot)
        )
        self._titles.show([(titles, "dim")])

    def _empty(self, snapshot: Mapping[str, Any]) -> str:
        if snapshot["agents"]:
            return "  no row fits the filter; Esc shows all"
        return "  no agents; create one: orchestrator agent create NAME"

    def _arrange(self) -> None:
        """Give table and tab their lines."""
        height = self.size.height - 3
        tab = self.enlarged or (self.size.height >= TAB_FROM + 3 and self.table.lines_wanted > 0)
        table = height
        if self.enlarged:
            table = 0
        elif tab:
            table = max(3, min(self.table.lines_wanted, (height - 1) * 55 // 100))
        for widget, shown in ((self.table, table > 0), (self._titles, table > 0), (self.tabs, tab), (self.view, tab)):
            if widget.display != shown:
                widget.display = shown
        if table != self._table_height:
            self._table_height = table
            self.table.styles.height = max(1, table)
        self._show_keys()

    def _show_keys(self) -> None:
        if self._message:
            self.key_line.show([(" ", ""), *self._message])
            return
        self.key_line.show(key_parts(self.bindings, self.size.width, ascii_only=self.face.ascii_only))

    def say(self, text: str, style: str = "") -> None:
        """One sentence in the last line, until the next key."""
        self._message = [(shown_line(" ".join(text.split())), style)]
        self._show_keys()

    def on_resize(self) -> None:
        """Another size, another layout."""
        self.show()

    def on_screen_resume(self) -> None:
        """Back from a dialog or another view: what changed meanwhile."""
        self.show()

    def _each_second(self) -> None:
        if self.app.screen is not self:
            return
        self.table.tick()
        if self.face.snapshot is not None:
            self._show_head(self.face.snapshot)
        if self.face.seen:
            self._seconds += 1
            every = EACH_S.get(self.tabs.tab, 0)
            if (self.row or {}).get("engine") == RUNS_COMMANDS:
                every = min(every, 1)  # its log is a file
            self._read_tab(again=every > 0 and self._seconds % every == 0)

    # -- the chosen agent and its tab -------------------------------------------------------------------------------

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the chosen agent. None for a run, or if no row is shown: a key acts only on a visible row."""
        known = self._cells.get(self.table.key)
        return known[0] if known is not None and self.table.chosen is not None else None

    @property
    def agent_name(self) -> str:
        """What people call the chosen agent."""
        known = self._cells.get(self.table.key)
        return known[1] if known is not None else ""

    def _read_tab(self, *, again: bool = False) -> None:
        """Read the tab's content in a thread if it may have changed."""
        row, tab = self.row, self.tabs.tab
        self.tabs.show_agent(self.agent_name or self.table.key.partition(":")[2])
        if not self.view.display:
            return
        if row is None:
            self.view.show(self._run_lines())
            self._read_for = ()
            return
        changed = (row["last_event_seq"], row["status"], row["running_task_id"], str(row["diff"]))
        wanted = (row["agent_id"], tab, *(() if tab in EACH_S else changed))
        if (wanted == self._read_for and not again) or self._reading:
            self._again = self._again or wanted != self._read_for
            return
        fresh = wanted[:2] != self._read_for[:2]
        # A pane's text has the pane's width. If it were wrapped, its rules and frames would take extra lines.
        wrap = tab != "screen" and (tab != "log" or row["engine"] == RUNS_COMMANDS)
        self._reading, self._read_for = True, wanted

        def show(lines: Sequence[TabLine]) -> None:
            self._reading = False
            if (row["agent_id"], tab) == ((self.row or {}).get("agent_id"), self.tabs.tab):
                self.view.show(lines, at_end=tab == "log", keep=not fresh, wrap=wrap)
            if self._again:
                self._again = False
                self._read_tab()

        def failed(error: OrchestratorError) -> None:
            show([error.message])

        self.face.in_thread(lambda: self._reader.read(tab, row), show, failed)

    def _run_lines(self) -> list[TabLine]:
        snapshot = self.face.snapshot or {}
        run_id = self.table.key.removeprefix("run:")
        run = next((run for run in snapshot.get("runs") or [] if str(run["id"]) == run_id), None)
        if run is None:
            return []
        lines: list[TabLine] = [
            shown_line(f"{key}: {value}") for key, value in run.items() if value not in (None, "")
        ]
        command = f"orchestrator {'spawn status' if run['kind'] == 'spawn' else 'squad wait'} {run_id}"
        return [*lines, [(f"more: {command}", "dim")]]

    def on_widths_changed(self, _: WidthsChanged) -> None:
        """The titles stand above their columns, also when the table is seen again after an enlarged tab."""
        if self.face.snapshot is not None:
            self._show_titles(self.face.snapshot)

    def on_row_chosen(self, _: RowChosen) -> None:
        """Another agent, another content."""
        self._read_tab()

    def on_row_opened(self, _: RowOpened) -> None:
        """Clicked twice: go there."""
        self.do_pane()

    def on_tab_chosen(self, event: TabChosen) -> None:
        """A tab was clicked."""
        self.choose_tab(event.tab)

    def choose_tab(self, tab: str) -> None:
        """Show this tab, also if there was no room for it beside the table."""
        self.tabs.choose(tab)
        if not self.view.display:
            self.enlarged = True
            self._arrange()
        self._read_tab()

    # -- keys -------------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Do what the key is bound to."""
        prompt = self.prompt
        if prompt is not None:
            if event.key == "escape":
                event.stop()
                self.end_prompt(keep=False)
            return
        action = self.bindings.get(event.key) or self.bindings.get(event.character or "")
        self._message = []
        if action is not None:
            event.stop()
            event.prevent_default()
            self.do(action.name)
        else:
            self.say(
                f"{key_label(event.key)} does nothing; {keys_of('help', self.bindings)[0]} shows the keys", "dim"
            )

    def do(self, name: str) -> None:
        """Do an action by its name."""
        if name in TAB_OF:
            self.choose_tab(TAB_OF[name])
        else:
            getattr(self, f"do_{name}")()
        if not self._message:
            self._show_keys()

    def do_down(self) -> None:
        self._step(1)

    def do_up(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        if self.enlarged:
            self.view.scroll_relative(y=by, animate=False)
        else:
            self.table.move(by)

    def do_first(self) -> None:
        self.view.scroll_home(animate=False) if self.enlarged else self.table.move(-(10**6))

    def do_last(self) -> None:
        self.view.scroll_end(animate=False) if self.enlarged else self.table.move(10**6)

    def do_page_down(self) -> None:
        self.do_scroll_down() if self.enlarged else self.table.page(1)

    def do_page_up(self) -> None:
        self.do_scroll_up() if self.enlarged else self.table.page(-1)

    def do_scroll_down(self) -> None:
        self.view.scroll_relative(y=max(1, self.view.size.height // 2), animate=False)

    def do_scroll_up(self) -> None:
        self.view.scroll_relative(y=-max(1, self.view.size.height // 2), animate=False)

    def do_next_tab(self) -> None:
        self.choose_tab(TABS[(TABS.index(self.tabs.tab) + 1) % len(TABS)])

    def do_previous_tab(self) -> None:
        self.choose_tab(TABS[TABS.index(self.tabs.tab) - 1])

    def do_enlarge(self) -> None:
        self.enlarged = not self.enlarged
        self._arrange()
        self._read_tab()

    def do_back(self) -> None:
        """Leave what is narrowest: the enlarged tab, a search, a filter."""
        if self.enlarged:
            self.do_enlarge()
        else:
            self.widen()

    def do_timeline(self) -> None:
        from orchestrator.faces.top.timeline_view import TimelineView  # noqa: PLC0415  (most never look at it)

        run_id = str((self.row or {}).get("run_id") or "")
        self.app.push_screen(TimelineView(self.face, self.bindings, run_id))

    def do_quit(self) -> None:
        self.app.exit()
