"""The gsd:// resources of a connection: which there are, and the text of one, asked of the reading process."""

from __future__ import annotations

import mcp_types as types
from mcp.server.session import ServerSession

from orchestrator.gsd.uris import FORMS, ROWS, parts_of
from orchestrator.gsd.wiring import Questions

SCHEME = "gsd://"


def listed() -> list[types.Resource]:
    """The fixed ones; the same whether there is a project or not, for that may change with every read."""
    return [types.Resource(uri=uri, name=name, mime_type=mime, description=about) for uri, name, mime, about in ROWS]


def templates() -> list[types.ResourceTemplate]:
    """The forms of the others."""
    return [
        types.ResourceTemplate(uri_template=uri, name=name, mime_type=mime, description=about)
        for uri, name, mime, about in FORMS
    ]


async def read(questions: Questions, session: ServerSession, uri: str) -> types.TextResourceContents:
    """The text of one, or its fallback where there is no project.

    BadRequest ``unknown_resource`` or ``unknown_phase``, Environment ``gsd_failed``.
    """
    parts_of(uri)  # what is no URI of ours is not worth a process
    found = await questions.ask("page", {"uri": uri}, session)
    return types.TextResourceContents(uri=uri, mime_type=found["mime"], text=found["text"])
