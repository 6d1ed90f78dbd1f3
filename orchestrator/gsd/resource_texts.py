"""The gsd:// resources of a connection: which there are, and the text of one, asked of the reading process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import mcp_types as types
from mcp.server.session import ServerSession

from orchestrator.gsd.questions import Questions
from orchestrator.gsd.uris import FORMS, ROWS, parts_of
from orchestrator.protocol.offers import ResourceMarks

SCHEME = "gsd://"


class GsdResources:
    """A `ResourceSource`. ``listeners`` are called with the root of each project whose files have changed."""

    def __init__(self, questions: Questions, listeners: list[Callable[[str], None]]) -> None:
        self._questions = questions
        self._listeners = listeners

    def listed(self) -> list[types.Resource]:
        """The fixed ones; the same whether there is a project or not, for that may change with every read."""
        return [
            types.Resource(uri=uri, name=name, mime_type=mime, description=about) for uri, name, mime, about in ROWS
        ]

    def templates(self) -> list[types.ResourceTemplate]:
        """The forms of the others."""
        return [
            types.ResourceTemplate(uri_template=uri, name=name, mime_type=mime, description=about)
            for uri, name, mime, about in FORMS
        ]

    def serves(self, uri: str) -> bool:
        """Every URI of the scheme."""
        return uri.startswith(SCHEME)

    async def read(self, uri: str, session: ServerSession) -> types.TextResourceContents:
        """The text of one, or its fallback where there is no project.

        BadRequest ``unknown_resource`` or ``unknown_phase``, Environment ``gsd_failed``.
        """
        parts_of(uri)  # what is no URI of ours is not worth a process
        page = await self._questions.ask("page", {"uri": uri}, session)
        return types.TextResourceContents(uri=uri, mime_type=page["mime"], text=page["text"])

    def subscribed(self, _uri: str, session: ServerSession) -> None:
        """Have the project watched."""
        if not self._questions.watching:
            self._questions.watch(session)

    def follow(self, marks: ResourceMarks) -> Callable[[], None]:
        """Mark all when the files of the project change that the connection asks about."""

        def changed(root: str) -> None:
            if root == self._questions.root:
                marks.mark(self.serves)

        self._listeners.append(changed)
        return partial(self._listeners.remove, changed)
