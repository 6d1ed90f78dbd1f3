"""The line that names the chosen agent and its tabs."""

from __future__ import annotations

from textual import events
from textual.message import Message

from orchestrator.base.text_width import columns_of, cut
from orchestrator.faces.top.plain_line import PlainLine
from orchestrator.faces.top.tab_lines import shown_line
from orchestrator.faces.top.team_layout import Part

TABS = ("screen", "task", "result", "log", "diff", "records")


class TabChosen(Message):
    """A tab was clicked."""

    def __init__(self, tab: str) -> None:
        super().__init__()
        self.tab = tab


class TabsLine(PlainLine):
    """The agent's name and the tabs; the chosen tab is marked."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__(id="tabs")
        self._rule = "-" if ascii_only else "─"
        self._bar = "|" if ascii_only else "│"
        self._agent = ""
        self._places: list[tuple[int, str]] = []
        self.tab = TABS[0]

    def choose(self, tab: str) -> None:
        """Mark this tab."""
        self.tab = tab
        self.show_agent(self._agent)

    def show_agent(self, agent: str) -> None:
        """Name the agent."""
        self._agent = agent
        width = self.size.width
        name = cut(shown_line(agent), max(4, width - 50))
        parts: list[Part] = [(f"{self._rule} ", "dim"), (name, "bold"), (f" {self._rule * 2} ", "dim")]
        self._places = []
        for number, tab in enumerate(TABS):
            if number:
                parts.append((f" {self._bar} ", "dim"))
            self._places.append((sum(columns_of(text) for text, _ in parts), tab))
            parts.append((f"[{tab}]" if tab == self.tab else tab, "bold reverse" if tab == self.tab else ""))
        parts.append((f" {self._rule * width}", "dim"))
        self.show(parts)

    def on_resize(self) -> None:
        """The rule reaches the end of the line."""
        self.show_agent(self._agent)

    def on_click(self, event: events.Click) -> None:
        """A click on a tab chooses it."""
        chosen = [tab for at, tab in self._places if at <= event.x]
        if chosen:
            self.post_message(TabChosen(chosen[-1]))
