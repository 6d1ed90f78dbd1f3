"""The resource of a spawn run: its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mcp_types as types
import orjson

from orchestrator.base.errors import BadRequest
from orchestrator.protocol.offers import ResourceMarks
from orchestrator.protocol.resource_uris import NDJSON, parts_of_uri, unknown_resource

SCHEME = "smartspawn://"
TEMPLATE = (
    "smartspawn://run/{run_id}/events{?since_seq,tail}",
    "spawn events",
    NDJSON,
    "what happened with a spawn run after ?since_seq=; the last ?tail= events (200)",
)
ReadEvents = Callable[[str, int, int | None], Awaitable[list[dict[str, Any]]]]
"""The events of a spawn run: its id, behind which seq, how many of the last; None: the first ones."""


class SpawnEvents:
    """A `ResourceSource`: the events of the spawn runs in one connection's home.

    ``listeners`` are called with the id of each run that has changed; empty: it is not known which.
    """

    def __init__(self, events: ReadEvents, listeners: list[Callable[[str], None]]) -> None:
        self._events = events
        self._listeners = listeners

    def listed(self) -> list[types.Resource]:
        """None: runs come and go, and a home can have thousands."""
        return []

    def templates(self) -> list[types.ResourceTemplate]:
        """The form."""
        uri, name, mime, about = TEMPLATE
        return [types.ResourceTemplate(uri_template=uri, name=name, mime_type=mime, description=about)]

    def serves(self, uri: str) -> bool:
        """Every URI of a spawn run."""
        return urlsplit(uri).scheme == "smartspawn"

    async def read(self, uri: str, _session: Any) -> types.TextResourceContents:
        """BadRequest ``unknown_resource``, ``unknown_spawn_run`` or ``bad_argument``."""
        _, owner, path, tail = parts_of_uri(uri)
        if owner != "run" or len(path) != 2 or path[1] != "events":
            raise unknown_resource(uri)
        asked = parse_qs(urlsplit(uri).query)
        since = asked.get("since_seq", ["0"])[-1]
        if not since.isdecimal() or not since.isascii() or len(since) > 18:
            raise BadRequest("bad_argument", f"since_seq must be a number from 0 on, not {since[:40]!r}")
        first = "since_seq" in asked and "tail" not in asked  # somebody who follows must miss nothing
        events = await self._events(path[0], int(since), None if first else tail)
        text = "".join(orjson.dumps(event).decode() + "\n" for event in events)
        return types.TextResourceContents(uri=uri, mime_type=NDJSON, text=text)

    def subscribed(self, _uri: str, _session: Any) -> None:
        """Nothing has to begin."""

    def follow(self, marks: ResourceMarks) -> Callable[[], None]:
        """Mark the events of each run that has changed."""

        def changed(run_id: str) -> None:
            prefix = f"{SCHEME}run/{run_id}/" if run_id else f"{SCHEME}run/"
            marks.mark(lambda uri: uri.startswith(prefix))

        self._listeners.append(changed)
        return partial(self._listeners.remove, changed)
