"""What a feature offers one connection: tools, instructions, prompts and resources. Types only.

The daemon joins the offers of all features into one MCP server, and knows none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import mcp_types as types
from mcp.server.session import ServerSession

from orchestrator.edge.project_location import VERSION
from orchestrator.protocol.tool_calls import Tool

AdminMethods = Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]
"""Requests that only the command line makes: the name, and what serves its keyword arguments."""
Contents = types.TextResourceContents | types.BlobResourceContents


class ResourceMarks(Protocol):
    """Where a feature says which resources of a connection have changed."""

    def mark(self, changed: Callable[[str], bool]) -> None:
        """Those subscribed URIs for which ``changed`` is true."""

    def mark_list(self) -> None:
        """The list of resources."""


class ResourceSource(Protocol):
    """The resources of one feature for one connection."""

    def listed(self) -> list[types.Resource]:
        """The resources that have a fixed URI."""

    def templates(self) -> list[types.ResourceTemplate]:
        """The forms of the others."""

    def serves(self, uri: str) -> bool:
        """Whether the URI is one of this feature, existing or not."""

    async def read(self, uri: str, session: ServerSession) -> Contents:
        """The content of one; an OrchestratorError if there is none."""

    def subscribed(self, uri: str, session: ServerSession) -> None:
        """The client wants to hear when this URI changes."""

    def follow(self, marks: ResourceMarks) -> Callable[[], None]:
        """Mark what changes from now on; the answer ends that."""


class PromptSource(Protocol):
    """The prompts of one feature for one connection."""

    @property
    def names(self) -> Collection[str]:
        """Every name that `get` knows."""

    def listed(self) -> list[types.Prompt]:
        """The prompts with their arguments."""

    async def get(self, name: str, arguments: Mapping[str, str], session: ServerSession) -> types.GetPromptResult:
        """The text of one, for a name of `names`."""


class McpIdentity(NamedTuple):
    """Who the MCP server says it is."""

    name: str
    version: str
    title: str


OWN_IDENTITY = McpIdentity("orchestrator", VERSION, "orchestrator")


@dataclass(frozen=True)
class Offer:
    """What one feature offers one connection.

    ``roots_changed`` hears that the client's roots have changed; ``identity`` is for a connection that has this
    offer alone.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    instructions: str = ""
    prompts: PromptSource | None = None
    resources: ResourceSource | None = None
    roots_changed: Callable[[], None] | None = None
    identity: McpIdentity = OWN_IDENTITY
