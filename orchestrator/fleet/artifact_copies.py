"""Copies the artifacts that a task's end names from the agent's host to the home of its run, up to 10 MB each.

They come in checksummed parts (`host_verbs`), into the replica's `artifacts/`, where the names in the result lead.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import Environment, NotReady, OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.fleet.database_functions import Beat
from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.fleet.host_verbs import ARTIFACT_MAX, CHUNK_BYTES
from orchestrator.journal.project_files import confine, make_dir, replace
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.roster.task_views import artifact_names

log = structlog.get_logger()

ASK_S = 20.0
WAITING_MAX = 1000
_FOLDER = re.compile(r"^.*\.agents/agents/[^/]+/artifacts/")
HostQuestion = Callable[[str, str, Mapping[str, Any], float], Awaitable[Any]]
"""Asks a host: its name, the verb, the body, the seconds to wait."""


class ArtifactCopies:
    """The copies of one home."""

    def __init__(self, roster: Roster, ask: HostQuestion) -> None:
        self._roster = roster
        self._ask = ask
        self._seen: dict[str, int] = {}
        self._tasks = BackgroundTasks()
        self._waiting: dict[tuple[str, str], None] = {}  # agent and name of those whose host did not answer

    async def close(self) -> None:
        """Stop copying; what is missing can still be read as a resource."""
        await call_off(self._tasks)

    def known(self, entry: AgentEntry) -> None:
        """What ended before this daemon began was copied then."""
        self._seen[entry.agent_id] = entry.state.last_end.seq if entry.state.last_end else 0

    def seen(self, entry: AgentEntry) -> None:
        """A replica has changed."""
        end = entry.state.last_end
        before = self._seen.get(entry.agent_id, 0)
        if end is None or end.seq <= before or entry.remote is None:
            return
        self._seen[entry.agent_id] = end.seq
        records, _ = entry.outbox.since(before, end.seq - before, 1 << 20)
        for record in records:
            for name in artifact_names(fleet_id(entry.agent_id), record.get("payload")):
                self._tasks.start(self._copy(entry, entry.remote.host, _FOLDER.sub("", name)))

    def beaten(self, _beat: Beat) -> None:
        """Try again what a host did not answer, once it is there."""
        for agent_id, name in list(self._waiting):
            entry = self._roster.replicas.get(agent_id)
            if entry is not None and entry.remote is not None and entry.remote.away_since:
                continue
            del self._waiting[agent_id, name]
            if entry is not None and entry.remote is not None:  # else this host owns the agent, or nobody has it
                self._tasks.start(self._copy(entry, entry.remote.host, name))

    async def _copy(self, entry: AgentEntry, host: str, name: str) -> None:
        try:
            directory = self._roster.paths.artifacts(entry.agent_id)
            path = confine(directory, name, what="artifact")
            data = await self._fetched(entry, host, name)
            await asyncio.to_thread(_write, path, data)
        except OrchestratorError as error:
            if isinstance(error, NotReady) and len(self._waiting) < WAITING_MAX:
                self._waiting[entry.agent_id, name] = None
            log.info("an artifact was not copied", agent=entry.agent_id, name=name, **error.as_dict())

    async def _fetched(self, entry: AgentEntry, host: str, name: str) -> bytes:
        data = b""
        while True:
            body = {"agent": fleet_id(entry.agent_id), "name": name, "from": len(data), "bytes": CHUNK_BYTES}
            part = await self._ask(host, "artifact", body, ASK_S)
            try:
                chunk, size = base64.b64decode(part["data"], validate=True), int(part["size"])
                good = hashlib.sha256(chunk).hexdigest() == part["sha256"] and part["from"] == len(data)
            except (KeyError, TypeError, ValueError):
                good = False
            if not good:
                raise Environment("io_failed", f"a part of {name} arrived damaged")
            data += chunk
            if not chunk or len(data) >= min(size, ARTIFACT_MAX):
                return data


def _write(path: Path, data: bytes) -> None:
    make_dir(path.parent)
    replace(path, data, mode=0o600)
