"""Connections of hooks and plugins: reads lines with events, writes answers.

A hook sends one event and waits for one word; a plugin keeps its connection and sends many. Only carries: who may
speak for an agent is proven as for its tools; `team.wake` (parking, held_masters) decides what an event means.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import orjson
import structlog

from orchestrator.base.errors import OrchestratorError
from orchestrator.protocol.tool_calls import Client
from orchestrator.protocol.traffic import Incoming, drained
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wake.held_masters import HeldMasters
from orchestrator.team.wake.parking import HookChannel, HookEvent, Parking

log = structlog.get_logger()

LINE_MAX = 8 << 20
"""A hook or plugin sends at most 1 MiB of an event. With every character escaped it is six times as long."""


class Listeners(NamedTuple):
    """Who receives the events of hooks: of agents, and of all others."""

    parking: Parking
    held_masters: HeldMasters


async def serve(
    client: Client, incoming: Incoming, writer: asyncio.StreamWriter, roster: Roster, to: Listeners
) -> None:
    """Serve one connection of kind ``hook`` until it ends."""
    incoming.limit = LINE_MAX

    def say(word: dict[str, Any]) -> None:
        if not writer.is_closing():
            writer.write(orjson.dumps(word) + b"\n")

    channel = HookChannel(say, conn=client.origin.conn, returned=client.boot > 1)
    entry: AgentEntry | None = None
    if client.rights == "agent":
        entry = _entry(client, roster)
        if entry is None:
            channel.release()
        else:
            row = entry.engine
            channel.keeps = row is not None and row.parks == "plugin"
            channel.depth = _depth(client, entry, keeps=channel.keeps)
    try:
        while (line := await incoming.line()) is not None:
            heard = read_event(line)
            if heard is None or client.rights not in ("agent", "master"):
                channel.none()
            elif entry is not None:
                pass_on(to.parking, entry, channel, heard)
            elif client.rights == "master":
                await to.held_masters.heard(client.origin, channel, heard)
            await drained(writer)
    finally:
        if entry is not None:
            to.parking.gone(entry, channel)
        elif client.rights == "master":
            to.held_masters.gone(channel)


def pass_on(parking: Parking, entry: AgentEntry, channel: HookChannel, heard: HookEvent) -> None:
    """Pass the event on. After a bug the CLI continues as without us; its hook would else send the event again."""
    try:
        parking.heard(entry, channel, heard)
    except Exception:
        log.exception("bug with an event of a hook", agent=entry.agent_id, hook_event=heard.event)
        channel.release()


def read_event(line: bytes) -> HookEvent | None:
    """The event in a line: ``{"event", "session"?, "data"?}``; None for anything else."""
    try:
        said = orjson.loads(line)
        event, session, data = said["event"], said.get("session"), said.get("data")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if not isinstance(event, str) or not event:
        return None
    return HookEvent(event, session if isinstance(session, str) else None, data if isinstance(data, dict) else {})


def _entry(client: Client, roster: Roster) -> AgentEntry | None:
    """The agent that the connection speaks for, if its secret proves the current launch."""
    try:
        entry = delivery.check_identity(
            roster, client.agent_id or "", claimed=client.agent_id or "", secret=client.secret
        )
    except OrchestratorError as error:
        log.info("a hook was refused", agent=client.agent_id, code=error.code)
        return None
    return entry if entry.state.epoch == client.epoch else None


def _depth(client: Client, entry: AgentEntry, *, keeps: bool) -> int | None:
    # A plugin is the CLI itself, a hook its child.
    pids = (client.peer, *client.origin.pids) if keeps else client.origin.pids
    return pids.index(entry.pid) if entry.pid in pids else None
