"""Answers a permission dialog on the screen of an agent by the key that the dialog names.

The last way: only where neither hook nor plugin asks, and only while the dialog is exactly the one that the human
was shown. The digest of its whole text tells; tmux looks for its lines again in the moment of the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from orchestrator.base.errors import Conflict
from orchestrator.base.secret_masks import shown_text
from orchestrator.core.inbox_items import InboxItem, item_id, recorded_items
from orchestrator.core.screens import Screen
from orchestrator.engines.screen_dialogs import ScreenDialog, dialog_of
from orchestrator.team.roster.agent_entry import AgentEntry


class DialogPanes(Protocol):
    """The actions on panes; `team_panes` carries them out in tmux."""

    async def look_at_agent(self, entry: AgentEntry) -> Screen | None: ...
    async def press(self, entry: AgentEntry, key: str, shown: tuple[str, ...]) -> bool: ...


class DialogAnswers:
    """The dialogs on the screens of agents."""

    def __init__(self, panes: DialogPanes) -> None:
        self._panes = panes
        self._answering: set[str] = set()  # agents whose dialog is being answered

    def item(self, entry: AgentEntry, item: InboxItem) -> InboxItem:
        """The item of a permission that only the screen shows, with the dialog's text and what can be answered."""
        dialog = entry.dialog
        if dialog is None or item.kind != "permission":
            return item
        *_, newest = _ids(entry, item, dialog)
        return replace(
            item,
            item_id=item_id(item.item_id, dialog.digest) if entry.agent_id in self._answering else newest,
            asked=shown_text(dialog.text),
            cut=dialog.cut,
            answers=() if dialog.cut else tuple(dialog.keys),
        )

    @contextmanager
    def answering(self, entry: AgentEntry) -> Iterator[None]:
        """Mark the agent's dialog as being answered; Conflict ``item_over`` if another answer is carried out."""
        if entry.agent_id in self._answering:
            raise Conflict("item_over", f"the dialog of {entry.agent_id} is being answered")
        self._answering.add(entry.agent_id)
        try:
            yield
        finally:
            self._answering.discard(entry.agent_id)

    async def must_have_gone(self, entry: AgentEntry, wanted: str) -> None:
        """Conflict ``item_over`` if the dialog of this answered item is still open: no key has reached it."""
        asked = [item for item in recorded_items(entry.state) if item.by == "screen"]
        dialog = await self._seen(entry) if asked else None
        if dialog is not None and any(wanted in _ids(entry, item, dialog) for item in asked):
            raise Conflict(
                "item_over", f"the answer to {wanted} is recorded, but its dialog is still open: answer the new item"
            )

    async def must_stand(self, entry: AgentEntry) -> ScreenDialog:
        """The dialog of the agent's item, if it is still on the screen; Conflict ``item_over`` otherwise."""
        shown, dialog = entry.dialog, await self._seen(entry)
        if dialog is None or shown is None or dialog.digest != shown.digest:
            raise Conflict("item_over", f"the dialog in the pane of {entry.agent_id} is another one now")
        return dialog

    async def press(self, entry: AgentEntry, dialog: ScreenDialog, key: str) -> None:
        """Press the key; Conflict ``item_over`` if the dialog went in this very moment, and nothing was typed."""
        if not await self._panes.press(entry, key, dialog.lines):
            raise Conflict("item_over", f"the dialog in the pane of {entry.agent_id} has gone; no key was pressed")

    async def _seen(self, entry: AgentEntry) -> ScreenDialog | None:
        row, screen = entry.engine, await self._panes.look_at_agent(entry)
        return dialog_of(row.dialogs, screen) if row is not None and screen is not None else None


def _ids(entry: AgentEntry, item: InboxItem, dialog: ScreenDialog) -> Iterator[str]:
    """The ids of the dialog's item; only the last is unanswered. Each answer that left the dialog open adds an id.

    A daemon may die after the record of an answer and before the key: the dialog must stay in the inbox.
    """
    newest = item_id(item.item_id, dialog.digest)
    yield newest
    while before := entry.state.answers.get(newest):
        newest = item_id(newest, before.seq)
        yield newest
