"""Narrow the view of a team: a filter and a search, typed in a prompt line, and "needs me"."""

from __future__ import annotations

from typing import Any

from textual.widgets import Input


class Narrowing:
    """The actions that narrow a screen with a table and a tab."""

    filter = ""
    needs_me = False
    searched = ""
    _prompt_is = ""

    def do_needs_me(self: Any) -> None:
        """Show only rows that need a human, or all rows again."""
        self._narrow(self.filter, needs_me=not self.needs_me)

    def do_filter(self: Any) -> None:
        """Type a text that rows must contain."""
        self._begin_prompt("filter", self.filter)

    def do_search(self: Any) -> None:
        """Type a text to look for in the tab."""
        self._begin_prompt("search", "")

    def do_next_match(self: Any) -> None:
        """Go to the next match."""
        self._match(backwards=False)

    def do_previous_match(self: Any) -> None:
        """Go to the previous match."""
        self._match(backwards=True)

    def _match(self: Any, *, backwards: bool) -> None:
        if self.searched and not self.view.search(self.searched, backwards=backwards):
            self.say(f"{self.searched!r} is not in this tab", "yellow")

    def _narrow(self: Any, text: str, *, needs_me: bool) -> None:
        self.filter, self.needs_me = text, needs_me
        self.show()

    def widen(self: Any) -> None:
        """End the search; without one, show all rows."""
        if self.searched:
            self.searched = ""
            self.view.search("")
        else:
            self._narrow("", needs_me=False)

    # -- the prompt line ---------------------------------------------------------------------------------------------

    @property
    def prompt(self: Any) -> Input | None:
        """The open prompt line; None if there is none."""
        return next(iter(self.query("#prompt").results(Input)), None)

    def _begin_prompt(self: Any, what: str, value: str) -> None:
        self._prompt_is = what
        prompt = Input(value, placeholder=what, id="prompt", select_on_focus=False)
        self.key_line.display = False
        self.mount(prompt)
        prompt.focus()

    def end_prompt(self: Any, *, keep: bool) -> None:
        """Close the prompt line; without ``keep`` remove the filter."""
        prompt = self.prompt
        if prompt is not None:
            self.set_focus(None)
            prompt.remove()
        self.key_line.display = True
        if not keep and self._prompt_is == "filter":
            self._narrow("", needs_me=self.needs_me)

    def on_input_changed(self: Any, event: Input.Changed) -> None:
        """Apply a filter while it is typed."""
        if event.input.id == "prompt" and self._prompt_is == "filter":
            self._narrow(event.value.strip(), needs_me=self.needs_me)

    def on_input_submitted(self: Any, event: Input.Submitted) -> None:
        """Enter closes the prompt line and starts a search."""
        if event.input.id != "prompt":
            return
        self.end_prompt(keep=True)
        if self._prompt_is == "search":
            self.searched = event.value or self.searched
            self._match(backwards=False)
