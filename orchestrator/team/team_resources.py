"""The team's resources: the snapshot and the inbox, agents' outboxes, metas and artifacts, broadcasts of runs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import mcp_types as types
import orjson

from orchestrator.base.errors import BadRequest
from orchestrator.protocol.offers import Contents, ResourceMarks
from orchestrator.protocol.resource_uris import NDJSON, parts_of_uri, unknown_resource
from orchestrator.team.people.snapshot_feed import SnapshotFeed
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import PAGE_BYTES, artifact, artifacts, meta_of, record_view
from orchestrator.team.roster.roster import Roster

JSON = "application/json"
MAX_ARTIFACT = 256 * 1024
ASKED_S = 20.0
"""Longest wait for the host that has an artifact."""
TEAM = {
    "team://snapshot": "all agents: what they do, wait for and cost; who needs a human first",
    "team://inbox": "everything that waits for a human: permissions, questions, logins, limits, errors",
}
TEMPLATES = (
    ("agent://{id}/outbox{?tail}", "outbox", NDJSON, "what happened with the agent; the last ?tail= records (200)"),
    ("agent://{id}/meta", "meta", JSON, "what agent_get shows"),
    ("agent://{id}/artifacts", "artifacts", JSON, "files that the agent wrote"),
    ("agent://{id}/artifacts/{name}", "artifact", "text/plain", "one of these files, its first 256 KiB"),
    (
        "run://{run_id}/broadcast{?tail}",
        "broadcast",
        NDJSON,
        "the digest of a team run; the last ?tail= records (200)",
    ),
)


class TeamResources:
    """A `ResourceSource`: what the roster holds, for one connection."""

    def __init__(self, roster: Roster, feed: SnapshotFeed) -> None:
        self._roster = roster
        self._feed = feed

    def listed(self) -> list[types.Resource]:
        """The snapshot and the inbox, three of each agent, one of each run."""
        listed = [
            types.Resource(uri=uri, name=uri.removeprefix("team://"), mime_type=JSON, description=about)
            for uri, about in TEAM.items()
        ]
        for agent_id in (entry.agent_id for entry in self._roster.everyone()):
            listed += [
                types.Resource(uri=f"agent://{agent_id}/{part}", name=f"{agent_id} {part}", mime_type=mime)
                for part, mime in (("outbox", NDJSON), ("meta", JSON), ("artifacts", JSON))
            ]
        listed += [
            types.Resource(uri=f"run://{run_id}/broadcast", name=f"{run_id} broadcast", mime_type=NDJSON)
            for run_id in self._roster.runs
        ]
        return listed

    def templates(self) -> list[types.ResourceTemplate]:
        """The forms, also of what is listed: they take a tail."""
        return [
            types.ResourceTemplate(uri_template=uri, name=name, mime_type=mime, description=about)
            for uri, name, mime, about in TEMPLATES
        ]

    def serves(self, uri: str) -> bool:
        """Every URI of an agent or a run."""
        return uri.startswith(("agent:", "run:", "team:"))

    async def read(self, uri: str, _session: Any) -> Contents:
        """BadRequest ``unknown_run``, ``unknown_agent``, ``unknown_artifact`` or ``unknown_resource``."""
        if uri in TEAM:
            whole = await self._feed.once()
            shown = whole if uri == "team://snapshot" else {"inbox": whole["inbox"]}
            return _text(uri, JSON, orjson.dumps(shown).decode())  # long for 200 agents, and mostly read by a model
        scheme, owner, path, _ = parts_of_uri(uri)
        entry = await self._roster.reading(owner) if scheme == "agent" else None
        if entry is not None and entry.remote is not None and path[:1] == ["artifacts"]:
            return await self._remote_artifact(uri, entry, "/".join(path[1:]))
        return await asyncio.to_thread(self._artifact, uri) or self._records(uri, entry)

    def subscribed(self, _uri: str, _session: Any) -> None:
        """Nothing has to begin."""

    def follow(self, marks: ResourceMarks) -> Callable[[], None]:
        """Mark what shows an agent whose records became visible, and the list if agents came or went."""

        def here() -> frozenset[str]:
            return frozenset((*self._roster.agents, *self._roster.replicas))

        known = here()

        def changed(entry: AgentEntry) -> None:
            nonlocal known
            # Asked for each record on each connection, most of which have no subscription.
            marks.mark(lambda uri: uri.split("?", 1)[0] in _showing(entry))
            if len(known) != len(self._roster.agents) + len(self._roster.replicas) or known != here():
                known = here()
                marks.mark_list()

        self._roster.listeners.append(changed)
        self._feed.listeners.append(changed)

        def end() -> None:
            self._roster.listeners.remove(changed)
            self._feed.listeners.remove(changed)

        return end

    async def _remote_artifact(self, uri: str, entry: AgentEntry, name: str) -> Contents:
        """The list of the agent's artifacts, or the beginning of one, from the host that has them."""
        fleet = self._roster.fleet
        assert fleet is not None
        if not name:
            listed = await fleet.ask(entry.agent_id, "artifacts", {}, ASKED_S)
            return _text(uri, JSON, orjson.dumps(listed).decode())
        chunk = await fleet.ask(entry.agent_id, "artifact", {"name": name, "from": 0, "bytes": MAX_ARTIFACT}, ASKED_S)
        return _content(uri, base64.b64decode(chunk["data"]))

    def _records(self, uri: str, entry: AgentEntry | None) -> types.TextResourceContents:
        scheme, owner, path, tail = parts_of_uri(uri)
        if scheme == "run" and path == ["broadcast"]:
            run = self._roster.runs.get(owner)
            if run is None:
                raise BadRequest("unknown_run", f"no team run is called {owner!r}")
            return _text(uri, NDJSON, _lines(run.journal.tail(tail, 8 * PAGE_BYTES)))
        if entry is not None and path == ["outbox"]:
            return _text(uri, NDJSON, _lines(entry.outbox.tail(tail, 8 * PAGE_BYTES)))
        if entry is not None and path == ["meta"]:
            meta = meta_of(self._roster, entry)
            return _text(uri, JSON, orjson.dumps(meta, option=orjson.OPT_INDENT_2).decode())
        raise unknown_resource(uri)

    def _artifact(self, uri: str) -> Contents | None:
        scheme, owner, path, _ = parts_of_uri(uri)
        if scheme != "agent" or path[:1] != ["artifacts"]:
            return None
        entry = self._roster.entry(owner)
        if len(path) == 1:
            return _text(uri, JSON, orjson.dumps(artifacts(self._roster, entry)).decode())
        return _content(uri, artifact(self._roster, entry, "/".join(path[1:]), MAX_ARTIFACT))


def _showing(entry: AgentEntry) -> set[str]:
    """The URIs, without their queries, of what shows a change of the agent."""
    own = {f"agent://{entry.agent_id}/{part}" for part in ("outbox", "meta", "artifacts")}
    return own | {f"run://{entry.run_id}/broadcast", *TEAM}


def _content(uri: str, data: bytes) -> Contents:
    try:
        return _text(uri, "text/plain", data.decode())
    except UnicodeDecodeError:
        blob = base64.b64encode(data).decode()
        return types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(orjson.dumps(record_view(record)).decode() + "\n" for record in records)


def _text(uri: str, mime: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=mime, text=text)
