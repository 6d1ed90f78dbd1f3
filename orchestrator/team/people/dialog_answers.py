"""Answers a permission dialog on the screen of an agent by the key that the dialog names.

The last way: only where neither hook nor plugin asks, and only while the dialog is exactly the one that the human
was shown. The digest of its whole text tells; tmux looks for its lines again in the moment of the key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from orchestrator.base.errors import Conflict
from orchestrator.base.secret_masks import shown_text
from orchestrator.core.inbox_items import InboxItem, item_id
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

    @staticmethod
    def item(entry: AgentEntry, item: InboxItem) -> InboxItem:
        """The item of a permission that only the screen shows, with the dialog's text and what can be answered."""
        dialog = entry.dialog
        if dialog is None or item.kind != "permission":
            return item
        return replace(
            item,
            item_id=item_id(item.item_id, dialog.digest),
            asked=shown_text(dialog.text),
            cut=dialog.cut,
            answers=() if dialog.cut else tuple(dialog.keys),
        )

    async def must_stand(self, entry: AgentEntry) -> ScreenDialog:
        """The dialog of the agent's item, if it is still on the screen; Conflict ``item_over`` otherwise."""
        row, shown = entry.engine, entry.dialog
        screen = await self._panes.look_at_agent(entry)
        dialog = dialog_of(row.dialogs, screen) if row is not None and screen is not None else None
        if dialog is None or shown is None or dialog.digest != shown.digest:
            raise Conflict("item_over", f"the dialog in the pane of {entry.agent_id} is another one now")
        return dialog

    async def press(self, entry: AgentEntry, dialog: ScreenDialog, key: str) -> None:
        """Press the key; Conflict ``item_over`` if the dialog went in this very moment, and nothing was typed."""
        if not await self._panes.press(entry, key, dialog.lines):
            raise Conflict("item_over", f"the dialog in the pane of {entry.agent_id} has gone; no key was pressed")
