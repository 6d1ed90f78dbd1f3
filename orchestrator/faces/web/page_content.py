"""What a page of the site is asked for, and what it holds: parts with keys, of which only changes are sent. Pure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.base.errors import BadRequest
from orchestrator.faces.web.html_elements import Markup

VIEWS = ("team", "inbox", "agent", "timeline", "runs", "files")
TABS = ("screen", "task", "result", "log", "diff", "records", "files")
MOST_CHARS = 500
_NUMBERS = itertools.count(1)


class PageRequest(NamedTuple):
    """One page: its view, and what that view needs. ``find`` is searched in a log, ``file`` is an artifact's name."""

    view: str
    agent: str = ""
    tab: str = ""
    run: str = ""
    find: str = ""
    file: str = ""


def page_request(query: Mapping[str, str]) -> PageRequest:
    """The page that a query names; BadRequest ``bad_argument`` for a word that it does not know."""
    view = query.get("view", "team")
    tab = query.get("tab", "") or ("screen" if view == "agent" else "")
    if view not in VIEWS or (tab and tab not in TABS):
        raise BadRequest("bad_argument", "there is no such page", f"there are: {', '.join(VIEWS)}")
    words = {name: query.get(name, "") for name in ("agent", "run", "find", "file")}
    if any(len(word) > MOST_CHARS for word in words.values()):
        raise BadRequest("bad_argument", f"a word of the request is longer than {MOST_CHARS} characters")
    return PageRequest(view, tab=tab, **words)


class PageContent:
    """The content of a page at one moment: a ``frame`` with slots, and for each slot its parts by key, in order."""

    def __init__(self, frame: Markup, slots: Mapping[str, Mapping[str, Markup]]) -> None:
        self.frame, self.slots = frame, slots
        self.number = next(_NUMBERS)
        self._messages: dict[int, bytes] = {}

    def message_after(self, before: PageContent | None) -> bytes:
        """The event that brings a page from the content ``before`` to this one; empty if nothing has changed.

        Clients that have seen the same share one message.
        """
        key = before.number if before is not None else 0
        if key not in self._messages:
            self._messages[key] = self._message(before)
        return self._messages[key]

    def _message(self, before: PageContent | None) -> bytes:
        whole = before is None or before.frame != self.frame
        known: Mapping[str, Mapping[str, Markup]] = {} if whole or before is None else before.slots
        slots: dict[str, Any] = {}
        for slot, parts in self.slots.items():
            old = known.get(slot, {})
            changed = {key: html for key, html in parts.items() if old.get(key) != html}
            if whole or changed or list(old) != list(parts):
                slots[slot] = {"order": list(parts), "parts": changed}
        if not slots and not whole:
            return b""
        return event("page", {**({"frame": self.frame} if whole else {}), "slots": slots})


def event(name: str, value: Any) -> bytes:
    """One server-sent event with JSON, which has no line break."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
