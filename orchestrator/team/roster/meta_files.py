"""meta.json of each agent: the answer of agent_get, written beside the logs for people and for use without a daemon.

A cache: the records are authoritative, and a lost file loses nothing. So writes are delayed and many changes
combined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import orjson

from orchestrator.base.errors import OrchestratorError
from orchestrator.journal.project_files import read_json, replace
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import meta_of
from orchestrator.team.roster.roster import Roster

EVERY_S = 0.5
TOGETHER = 16
"""Files that one job of a thread writes; their contents are made on the event loop."""
REFUSED_S = 5.0
"""What the disk refused is tried again this much later."""


class MetaFiles:
    """Keeps the meta files of a roster up to date."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._stale: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._due: asyncio.Event = asyncio.Event()
        self._closing = False
        self._pause_s = EVERY_S

    def changed(self, entry: AgentEntry) -> None:
        """The agent's meta is old now; it is written soon."""
        self._stale.add(entry.agent_id)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_when_due())

    def behind(self, entry: AgentEntry) -> bool:
        """Whether the file does not know the agent's last record."""
        try:
            content = read_json(self._roster.paths.meta(entry.agent_id))
        except OrchestratorError:
            return True
        return not isinstance(content, dict) or content.get("last_event_seq") != entry.outbox.visible_seq

    async def close(self) -> None:
        """Write what is outdated, and nothing after that."""
        self._closing = True
        self._due.set()
        if self._writer is not None:
            await self._writer  # not canceled: a thread writes on, and would win over what is written next
        await self._write()

    async def _write_when_due(self) -> None:
        while self._stale and not self._closing:
            self._due.clear()
            self._roster.clock.timer(self._pause_s, self._due.set)
            await self._due.wait()
            await self._write()

    async def _write(self) -> None:
        refused: set[str] = set()
        stale = sorted(self._stale)
        for first in range(0, len(stale), TOGETHER):
            files: dict[str, bytes] = {}
            for agent_id in stale[first : first + TOGETHER]:
                self._stale.discard(agent_id)  # before the file is made: what changes meanwhile is written next time
                entry = self._roster.agents.get(agent_id)
                if entry is not None:
                    meta = meta_of(self._roster, entry)
                    meta = self._roster.paths.provenance.sealed(meta, "agent", agent_id, "meta")
                    files[agent_id] = orjson.dumps(meta, option=orjson.OPT_INDENT_2) + b"\n"
            refused |= await asyncio.to_thread(self._replaced, files)
        self._stale |= refused
        self._pause_s = REFUSED_S if refused else EVERY_S

    def _replaced(self, files: Mapping[str, bytes]) -> set[str]:
        """Write the files by agent; the agents of those that the disk refused."""
        refused: set[str] = set()
        for agent_id, data in files.items():
            try:
                replace(self._roster.paths.meta(agent_id), data, mode=0o600, cache=True)
            except OrchestratorError:
                refused.add(agent_id)
        return refused
