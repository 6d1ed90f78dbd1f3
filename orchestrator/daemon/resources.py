"""The resources of one connection: which feature answers for a URI, and updates when resources change.

Updates go out in both protocol eras: `resources/subscribe` on a handshake connection, `subscriptions/listen` on a
2026-07-28 one. They are cues without content, at most one per URI and `EVERY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from orchestrator.base.errors import OrchestratorError
from orchestrator.protocol.offers import ResourceSource
from orchestrator.protocol.resource_uris import unknown_resource
from orchestrator.protocol.tool_calls import Client

Context = ServerRequestContext[Any, Any]

EVERY_S = 0.2
LIST = ""
"""Stands among the changed URIs for the list of resources."""


class Resources:
    """The resources of one connection, with its subscriptions; ``sources`` are those of the features."""

    def __init__(self, client: Client, sources: Sequence[ResourceSource]) -> None:
        self._client = client
        self._sources = sources
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._listened: dict[str, int] = {}  # modern: URI -> open streams that want it
        self._subscribed: dict[str, ServerSession] = {}  # handshake era
        self._session: ServerSession | None = None
        self._changed: set[str] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._unfollow = [source.follow(self) for source in sources]

    def served(self) -> dict[str, Any]:
        """The SDK handlers of this connection."""
        return {
            "on_list_resources": self.listed,
            "on_list_resource_templates": self.templates,
            "on_read_resource": self.read,
            "on_subscribe_resource": self.subscribe,
            "on_unsubscribe_resource": self.unsubscribe,
            "on_subscriptions_listen": self.listen,
        }

    async def listed(self, ctx: Context, _params: Any) -> types.ListResourcesResult:
        self._session = ctx.session
        return types.ListResourcesResult(resources=[row for source in self._sources for row in source.listed()])

    async def templates(self, _ctx: Context, _params: Any) -> types.ListResourceTemplatesResult:
        rows = [row for source in self._sources for row in source.templates()]
        return types.ListResourceTemplatesResult(resource_templates=rows)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        self._session = ctx.session
        uri = str(params.uri)
        try:
            source = self._source_of(uri)
            if source is None:
                raise unknown_resource(uri)
            return types.ReadResourceResult(contents=[await source.read(uri, ctx.session)])
        except OrchestratorError as error:
            raise MCPError(types.INVALID_PARAMS, error.message, error.as_dict()) from None

    def mark(self, changed: Callable[[str], bool]) -> None:
        """Tell the client soon of each subscribed URI for which ``changed`` is true."""
        for uri in (*self._subscribed, *self._listened):
            if changed(uri):
                self._mark(uri)

    def mark_list(self) -> None:
        """Tell the client soon that the list of resources has changed."""
        self._mark(LIST)

    def _source_of(self, uri: str) -> ResourceSource | None:
        return next((source for source in self._sources if source.serves(uri)), None)

    def _begin(self, uri: str, session: ServerSession) -> None:
        source = self._source_of(uri)
        if source is not None:
            source.subscribed(uri, session)
        # Changes during the gap of a restart are lost by the protocol, so each subscription hears of one.
        if self._client.boot > 1:
            self._mark(uri)

    # -- updates ------------------------------------------------------------------------------------------------

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._session = ctx.session
        self._subscribed[str(params.uri)] = ctx.session
        self._begin(str(params.uri), ctx.session)
        return types.EmptyResult()

    async def unsubscribe(self, _ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.pop(str(params.uri), None)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        uris = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        for uri in uris:
            self._listened[uri] = self._listened.get(uri, 0) + 1
            self._begin(uri, ctx.session)
        try:
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self._listened[uri] -= 1
                if not self._listened[uri]:
                    del self._listened[uri]

    def _mark(self, uri: str) -> None:
        self._changed.add(uri)
        # While the client takes the last ones, what changes is one more cue and no more tasks.
        if self._flush is None and not self._sending:
            self._flush = asyncio.get_running_loop().call_later(EVERY_S, self._send)

    def _send(self) -> None:
        self._flush = None
        changed, self._changed = self._changed, set()
        task = asyncio.create_task(self._notify(changed))
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if self._changed:
            self._mark(next(iter(self._changed)))

    async def _notify(self, uris: set[str]) -> None:
        with contextlib.suppress(Exception):  # the client is going away; there is no replay by protocol
            for uri in uris:
                if uri in self._subscribed:
                    await self._subscribed[uri].send_resource_updated(uri)
                if uri in self._listened:
                    await self._bus.publish(ResourceUpdated(uri=uri))
            if LIST in uris:
                await self._bus.publish(ResourcesListChanged())
                if self._session is not None:
                    await self._session.send_resource_list_changed()

    def close(self) -> None:
        """Send nothing more."""
        for unfollow in self._unfollow:
            unfollow()
        self._changed.clear()
        if self._flush is not None:
            self._flush.cancel()
        for task in self._sending:
            task.cancel()
