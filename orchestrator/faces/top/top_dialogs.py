"""The dialogs of top: a text with fields to fill in, and a list to choose from by typing. Texts are never markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from orchestrator.base.text_width import columns_of
from orchestrator.faces.top.line_view import LineView
from orchestrator.faces.top.plain_line import PlainLine
from orchestrator.faces.top.team_layout import Part

_BOX = """
    align: center middle;
    & > Vertical { width: 90%; max-width: 110; height: auto; max-height: 90%; border: round ansi_blue;
                   background: ansi_default; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1; }
    & #hint { dock: bottom; }
    & LineView { height: auto; max-height: 1fr; min-height: 1; overflow-x: hidden; }
    & Input { border: none; height: 1; padding: 0; background: ansi_default; }
    & Input:focus { border: none; }
    & TextArea { border: none; height: 5; max-height: 40%; padding: 0; background: ansi_default; }
    & TextArea:focus { border: none; }
"""


class DialogField(NamedTuple):
    """A line to fill in: its label, what stands in it at first, and whether it may have several lines."""

    label: str
    value: str = ""
    multiline: bool = False


class TextDialog(ModalScreen[list[str] | None]):
    """Shows a whole text and asks for fields; answers with their values, None if a person went back.

    ``over`` ends what it asks for: Enter then only closes it.
    """

    DEFAULT_CSS = "TextDialog {" + _BOX + "}"

    def __init__(
        self,
        title: str,
        lines: Sequence[str | list[Part]],
        fields: Sequence[DialogField] = (),
        *,
        does: str,
        item: str = "",
        wrap: bool = True,
    ) -> None:
        super().__init__()
        self._title = title
        self._lines = list(lines)
        self._fields = fields
        self._does = does
        self._view = LineView(wrap=wrap)
        self._hint = PlainLine(id="hint")
        self._over = ""
        self.item = item

    def compose(self) -> ComposeResult:
        """A title, the text, the fields, and what Enter does."""
        with Vertical():
            yield PlainLine([(self._title, "bold")])
            yield self._view
            for number, field in enumerate(self._fields):
                yield PlainLine([(field.label, "dim")])
                if field.multiline:
                    yield TextArea(field.value, id=f"field{number}", tab_behavior="focus", show_line_numbers=False)
                else:
                    yield Input(field.value, id=f"field{number}", select_on_focus=False)
            yield self._hint

    def on_mount(self) -> None:
        """Show the text; begin in the first field."""
        self._view.display = bool(self._lines)
        self._fit()
        self._view.show(self._lines)
        if self._fields:
            self.query_one("#field0").focus()

    def on_resize(self) -> None:
        """The text gets the room that is left."""
        self._fit()

    def _show_hint(self) -> None:
        """Show what the keys do; before that, whether more text follows below."""
        if self._over:
            self._hint.show([(f"{self._over}; Enter or Esc: back", "bold red")])
            return
        many = any(field.multiline for field in self._fields)
        keys = f"Ctrl-S: {self._does} · Tab: next field" if many else f"Enter: {self._does}"
        more = self._view.display and self._view.scroll_offset.y < self._view.max_scroll_y
        parts: list[Part] = [("PgDn: more", "bold yellow"), (" · ", "dim")] if more else []
        self._hint.show([*parts, (f"{keys} · Esc: back", "dim")])

    def _fit(self) -> None:
        width = max(10, min(110, self.app.size.width * 9 // 10) - 5)
        texts = ["".join(t for t, _ in line) if isinstance(line, list) else line for line in self._lines]
        wanted = sum(1 + columns_of(text) // width for text in texts)
        room = max(1, self.app.size.height * 9 // 10 - 4 - sum(6 if field.multiline else 2 for field in self._fields))
        self._view.styles.height = max(1, min(wanted + 1, room))
        self.call_after_refresh(self._show_hint)

    def over(self, why: str) -> None:
        """What it asks about is over."""
        self._over = why
        self._show_hint()

    @property
    def values(self) -> list[str]:
        """What stands in the fields."""
        fields = [self.query_one(f"#field{number}") for number in range(len(self._fields))]
        return [field.text if isinstance(field, TextArea) else getattr(field, "value", "") for field in fields]

    def on_key(self, event: events.Key) -> None:
        """Esc goes back, Enter does it or goes to the next field, the page keys scroll the text."""
        if event.key == "escape" or (self._over and event.key == "enter"):
            event.stop()
            self.dismiss(None)
        elif event.key == "enter" and not self._fields:
            event.stop()
            self.dismiss([])
        elif event.key == "ctrl+s" and not self._over:
            event.stop()
            self.dismiss(self.values)
        elif event.key in ("pagedown", "pageup") or (event.key in ("down", "up", "j", "k") and not self._fields):
            event.stop()
            step = self._view.size.height if event.key.startswith("page") else 1
            down = event.key in ("pagedown", "down", "j")
            self._view.scroll_relative(y=step if down else -step, animate=False)
            self.call_after_refresh(self._show_hint)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a field: the next one, after the last it is done."""
        number = int(str(event.input.id).removeprefix("field"))
        if self._over:
            self.dismiss(None)
        elif number + 1 < len(self._fields):
            self.query_one(f"#field{number + 1}").focus()
        else:
            self.dismiss(self.values)


class Choice(NamedTuple):
    """One thing to choose: its ``value``, and what is shown of it."""

    value: str
    name: str
    says: str = ""


class ListDialog(ModalScreen[tuple[str, str] | None]):
    """A list that typing filters; answers with (value of the choice or "", what was typed), None for back."""

    DEFAULT_CSS = "ListDialog {" + _BOX + "}"

    def __init__(self, title: str, choices: Sequence[Choice], *, does: str, completes: bool = False) -> None:
        super().__init__()
        self._title = title
        self._choices = list(choices)
        self._shown = list(choices)
        self._does = does
        self._completes = completes
        self._at = 0
        self._view = LineView()

    def compose(self) -> ComposeResult:
        """A title, a line to type in, the list."""
        with Vertical():
            yield PlainLine([(self._title, "bold")])
            yield Input(id="typed", select_on_focus=False)
            yield self._view
            yield PlainLine([(f"Enter: {self._does} · ↑↓ · Esc: back", "dim")], id="hint")

    def on_mount(self) -> None:
        """Begin in the line."""
        self.query_one(Input).focus()
        self._fit()
        self._draw()

    def on_resize(self) -> None:
        """The list gets the room that is left."""
        self._fit()

    def _fit(self) -> None:
        self._view.styles.height = max(1, min(len(self._choices), self.app.size.height * 9 // 10 - 5))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what contains every word, and what the text begins with."""
        typed = event.value.casefold()
        words = typed.split()
        self._shown = [
            choice
            for choice in self._choices
            if all(word in f"{choice.name} {choice.says}".casefold() for word in words)
            or (self._completes and typed.startswith(choice.name.casefold() + " "))
        ]
        self._shown.sort(key=lambda choice: not choice.name.casefold().startswith(typed))
        self._at = 0
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """The arrows choose, Tab completes, Esc goes back."""
        moves = {"down": 1, "up": -1, "pagedown": 10, "pageup": -10}
        if event.key == "escape":
            event.stop()
            self.dismiss(None)
        elif event.key in moves:
            event.stop()
            event.prevent_default()
            self._at = max(0, min(len(self._shown) - 1, self._at + moves[event.key]))
            self._draw()
        elif event.key == "tab":
            event.stop()
            event.prevent_default()
            if self._completes and self._shown:
                self._complete(self._shown[self._at].name + " ")

    def _complete(self, text: str) -> None:
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: the chosen one."""
        value = self._shown[self._at].value if self._shown else ""
        if value or self._completes:
            self.dismiss((value, event.value))

    def _draw(self) -> None:
        width = max((len(choice.name) for choice in self._choices), default=0)
        width = min(width, max(8, self.app.size.width // 2))
        lines: list[str | list[Part]] = []
        for at, choice in enumerate(self._shown):
            style = "reverse" if at == self._at else ""
            mark = "▶ " if at == self._at else "  "
            lines.append([(f"{mark}{choice.name:<{width}}", style), (f"  {choice.says}", "dim")])
        self._view.show(lines or [[("nothing fits", "dim")]])
        top, height = self._view.scroll_offset.y, max(1, self._view.size.height)
        if not top <= self._at < top + height:
            self._view.scroll_to(0, max(0, self._at - height // 2), animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click on a line chooses it."""
        widget: Widget | None = event.widget
        if widget is self._view and self._shown:
            at = event.y + self._view.scroll_offset.y
            if 0 <= at < len(self._shown):
                self.dismiss((self._shown[at].value, self.query_one(Input).value))
