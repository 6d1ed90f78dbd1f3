"""The resources: an agent's outbox, meta and artifacts, runs' broadcasts and events, updates when they change.

Updates go out in both protocol eras: `resources/subscribe` on a handshake connection, `subscriptions/listen` on a
2026-07-28 one. They are cues without content, at most one per URI and `EVERY_S`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import mcp_types as types
import orjson
import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.gsd import resource_texts
from orchestrator.gsd.wiring import Questions
from orchestrator.protocol.tool_calls import Client
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import PAGE_BYTES, artifact, artifacts, meta_of, record_view
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()
Context = ServerRequestContext[Any, Any]
Contents = types.TextResourceContents | types.BlobResourceContents

EVERY_S = 0.2
NDJSON = "application/x-ndjson"
MAX_ARTIFACT = 256 * 1024
TEMPLATES = (
    ("agent://{id}/outbox{?tail}", "outbox", NDJSON, "what happened with the agent; the last ?tail= records (200)"),
    ("agent://{id}/meta", "meta", "application/json", "what agent_get shows"),
    ("agent://{id}/artifacts", "artifacts", "application/json", "files that the agent wrote"),
    ("agent://{id}/artifacts/{name}", "artifact", "text/plain", "one of these files, its first 256 KiB"),
    (
        "run://{run_id}/broadcast{?tail}",
        "broadcast",
        NDJSON,
        "the digest of a team run; the last ?tail= records (200)",
    ),
    (
        "smartspawn://run/{run_id}/events{?since_seq,tail}",
        "spawn events",
        NDJSON,
        "what happened with a spawn run after ?since_seq=; the last ?tail= events (200)",
    ),
)
Events = Callable[[str, int, int | None], Awaitable[list[dict[str, Any]]]]
"""The events of a spawn run: its id, behind which seq, how many of the last; None: the first ones."""


class Resources:
    """The resources of one master's connection, with its subscriptions.

    ``questions`` answers questions about the project, if the connection has the gsd toolset. A connection with only
    that toolset sees no other resources.
    """

    def __init__(
        self, client: Client, roster: Roster, events: Events | None = None, questions: Questions | None = None
    ) -> None:
        self._client = client
        self._roster = roster
        self._events = events
        self._questions = questions
        self._team = questions is None or set(client.toolsets) != {"gsd"}
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._listened: dict[str, int] = {}  # modern: URI -> open streams that want it
        self._subscribed: dict[str, ServerSession] = {}  # handshake era
        self._session: ServerSession | None = None
        self._dirty: set[str] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._known: frozenset[str] = frozenset(roster.agents)

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
        found: list[types.Resource] = resource_texts.listed() if self._questions is not None else []
        if not self._team:
            return types.ListResourcesResult(resources=found)
        for entry in self._roster.agents.values():
            base = f"agent://{entry.agent_id}"
            found.append(types.Resource(uri=f"{base}/outbox", name=f"{entry.agent_id} outbox", mime_type=NDJSON))
            found += [
                types.Resource(uri=f"{base}/{part}", name=f"{entry.agent_id} {part}", mime_type="application/json")
                for part in ("meta", "artifacts")
            ]
        found += [
            types.Resource(uri=f"run://{run_id}/broadcast", name=f"{run_id} broadcast", mime_type=NDJSON)
            for run_id in self._roster.runs
        ]
        return types.ListResourcesResult(resources=found)

    async def templates(self, _ctx: Context, _params: Any) -> types.ListResourceTemplatesResult:
        rows = [
            types.ResourceTemplate(uri_template=uri, name=name, mime_type=mime, description=about)
            for uri, name, mime, about in TEMPLATES
            if self._team and (self._events is not None or not uri.startswith("smartspawn:"))
        ]
        if self._questions is not None:
            rows += resource_texts.templates()
        return types.ListResourceTemplatesResult(resource_templates=rows)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        self._session = ctx.session
        uri = str(params.uri)
        try:
            if self._questions is not None and uri.startswith(resource_texts.SCHEME):
                contents: Contents = await resource_texts.read(self._questions, ctx.session, uri)
            elif self._events is not None and urlsplit(uri).scheme == "smartspawn":
                contents = await self._spawn_events(self._events, uri)
            else:
                contents = await asyncio.to_thread(self._artifact, uri) or self._content(uri)
        except OrchestratorError as error:
            raise MCPError(types.INVALID_PARAMS, error.message, error.as_dict()) from None
        return types.ReadResourceResult(contents=[contents])

    def _content(self, uri: str) -> types.TextResourceContents:
        scheme, owner, path, tail = _parts(uri)
        if scheme == "run" and path == ["broadcast"]:
            run = self._roster.runs.get(owner)
            if run is None:
                raise BadRequest("unknown_run", f"no team run is called {owner!r}")
            return _text(uri, NDJSON, _lines(run.journal.tail(tail, 8 * PAGE_BYTES)))
        if scheme == "agent" and path == ["outbox"]:
            return _text(uri, NDJSON, _lines(self._roster.entry(owner).outbox.tail(tail, 8 * PAGE_BYTES)))
        if scheme == "agent" and path == ["meta"]:
            meta = meta_of(self._roster, self._roster.entry(owner))
            return _text(uri, "application/json", orjson.dumps(meta, option=orjson.OPT_INDENT_2).decode())
        raise BadRequest("unknown_resource", f"no resource has the URI {uri!r}")

    @staticmethod
    async def _spawn_events(events: Events, uri: str) -> types.TextResourceContents:
        _, owner, path, tail = _parts(uri)
        if owner != "run" or len(path) != 2 or path[1] != "events":
            raise BadRequest("unknown_resource", f"no resource has the URI {uri!r}")
        asked = parse_qs(urlsplit(uri).query)
        since = asked.get("since_seq", ["0"])[-1]
        if not since.isdecimal() or not since.isascii() or len(since) > 18:
            raise BadRequest("bad_argument", f"since_seq must be a number from 0 on, not {since[:40]!r}")
        first = "since_seq" in asked and "tail" not in asked  # somebody who follows must miss nothing
        return _text(uri, NDJSON, _lines(await events(path[0], int(since), None if first else tail)))

    def spawn_changed(self, run_id: str) -> None:
        """A spawn run has changed (empty: unknown which): mark the subscribed URIs that show it."""
        for uri in (*self._subscribed, *self._listened):
            if uri.startswith(f"smartspawn://run/{run_id}/" if run_id else "smartspawn://run/"):
                self._mark(uri)

    def project_changed(self, root: str) -> None:
        """The files of a project have changed: mark the subscribed URIs that show them."""
        if self._questions is not None and root == self._questions.root:
            for uri in (*self._subscribed, *self._listened):
                if uri.startswith(resource_texts.SCHEME):
                    self._mark(uri)

    def _watch(self, uri: str, session: ServerSession) -> None:
        if self._questions is not None and uri.startswith(resource_texts.SCHEME) and not self._questions.watching:
            self._questions.watch(session)

    def _artifact(self, uri: str) -> Contents | None:
        scheme, owner, path, _ = _parts(uri)
        if scheme != "agent" or path[:1] != ["artifacts"]:
            return None
        entry = self._roster.entry(owner)
        if len(path) == 1:
            return _text(uri, "application/json", orjson.dumps(artifacts(self._roster, entry)).decode())
        data = artifact(self._roster, entry, "/".join(path[1:]), MAX_ARTIFACT)
        try:
            return _text(uri, "text/plain", data.decode())
        except UnicodeDecodeError:
            blob = base64.b64encode(data).decode()
            return types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)

    # -- updates ------------------------------------------------------------------------------------------------

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._session = ctx.session
        self._subscribed[str(params.uri)] = ctx.session
        self._watch(str(params.uri), ctx.session)
        self._after_restart(str(params.uri))
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
            self._watch(uri, ctx.session)
            self._after_restart(uri)
        try:
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self._listened[uri] -= 1
                if not self._listened[uri]:
                    del self._listened[uri]

    def _after_restart(self, uri: str) -> None:
        # Changes during the gap are lost by the protocol, so each subscription hears of one.
        if self._client.boot > 1:
            self._mark(uri)

    def changed(self, entry: AgentEntry) -> None:
        """An agent's records became visible: mark the subscribed URIs that show them."""
        bases = {f"agent://{entry.agent_id}/{part}" for part in ("outbox", "meta", "artifacts")}
        bases.add(f"run://{entry.run_id}/broadcast")
        for uri in (*self._subscribed, *self._listened):
            if uri.split("?", 1)[0] in bases:
                self._mark(uri)
        agents = frozenset(self._roster.agents)
        if agents != self._known:
            self._known = agents
            self._mark("")

    def _mark(self, uri: str) -> None:
        self._dirty.add(uri)
        # While the client takes the last ones, what changes is one more cue and no more tasks.
        if self._flush is None and not self._sending:
            self._flush = asyncio.get_running_loop().call_later(EVERY_S, self._send)

    def _send(self) -> None:
        self._flush = None
        dirty, self._dirty = self._dirty, set()
        task = asyncio.create_task(self._notify(dirty))
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if self._dirty:
            self._mark(next(iter(self._dirty)))

    async def _notify(self, uris: set[str]) -> None:
        with contextlib.suppress(Exception):  # the client is going away; there is no replay by protocol
            for uri in uris:
                if uri in self._subscribed:
                    await self._subscribed[uri].send_resource_updated(uri)
                if uri in self._listened:
                    await self._bus.publish(ResourceUpdated(uri=uri))
            if "" in uris:
                await self._bus.publish(ResourcesListChanged())
                if self._session is not None:
                    await self._session.send_resource_list_changed()

    def close(self) -> None:
        """Send nothing more."""
        self._dirty.clear()
        if self._flush is not None:
            self._flush.cancel()
        for task in self._sending:
            task.cancel()


def _parts(uri: str) -> tuple[str, str, list[str], int]:
    """(scheme, agent or run id, path segments, tail); BadRequest on anything else."""
    split = urlsplit(uri)
    path = [unquote(part) for part in split.path.split("/") if part]
    asked = parse_qs(split.query).get("tail", ["200"])[-1]
    if not asked.isdecimal() or not 1 <= int(asked) <= 10_000:
        raise BadRequest("bad_argument", f"tail must be a number from 1 to 10000, not {asked!r}")
    return split.scheme, unquote(split.netloc), path, int(asked)


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(orjson.dumps(record_view(record)).decode() + "\n" for record in records)


def _text(uri: str, mime: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=mime, text=text)
