"""Trust requests of the command line: show what would count, allow it, list it, revoke it.

Only content that a human was shown is allowed: its digest must be the digest of what was shown. The rights of the
caller depend on the process that the system names as the peer (`peers`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import structlog

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.base.platform import process_facts
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.config.file_watch import ConfigState
from orchestrator.project_trust import acting_files, trust_authority, trust_store
from orchestrator.project_trust.acting_files import ActingFile
from orchestrator.protocol.offers import AdminMethods
from orchestrator.protocol.tool_calls import Client
from orchestrator.spawn.wiring import SpawnWiring
from orchestrator.squad import squad_settings
from orchestrator.team.people.answer_authority import AnswerAuthority
from orchestrator.team.recovery.team_adoption import TeamAdoption
from orchestrator.team.roster.roster import Roster
from orchestrator.trust import allowed, relay_holders
from orchestrator.trust.allowed import Allowed
from orchestrator.trust.difference import difference

log = structlog.get_logger()

HOLDERS_KEPT = 256
SPAWN_RUN = "spawn run"
NAMES_MAX = 100


class TrustRequests:
    """Trust in the project of one daemon. ``clients`` are its connections now."""

    def __init__(
        self,
        roster: Roster,
        configured: ConfigState,
        clients: Callable[[], Iterable[Client]],
        foreign: tuple[TeamAdoption, SpawnWiring],
        authority: AnswerAuthority,
    ) -> None:
        self._roster = roster
        self._configured = configured
        self._clients = clients
        self._team, self._spawn = foreign
        self._authority = authority
        self._held: set[ProcessKey] = set()
        self._one_by_one = asyncio.Lock()

    def admin(self, client: Client) -> AdminMethods:
        """Requests that only the command line makes."""
        return {
            "trust_preview": partial(self._preview, client),
            "trust_counts": self._counts,
            "trust_allow": partial(self._allow, client),
            "trust_list": self._list,
            "trust_revoke": self._revoke,
        }

    def came(self, client: Client) -> None:
        """A connection has come: what holds a relay now never gives trust, also once that relay has ended."""
        if client.kind != "relay" or not client.peer:
            return
        starts = ((pid, process_facts.start_time(pid)) for pid in relay_holders.held_by(client.peer))
        self._held |= {(pid, start) for pid, start in starts if start is not None}
        if len(self._held) > HOLDERS_KEPT:
            self._held = {holder for holder in self._held if process_facts.alive(*holder)}

    async def _preview(
        self,
        client: Client,
        *,
        asking: bool = False,
        templates: Sequence[str] = (),
        teams: Sequence[str] = (),
        only: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """What would count if the user agreed, and the digest by which that is named.

        ``asking``: a human is to be asked; BadRequest ``trust_refused`` now if the answer would not be taken.
        """
        pending, items = await self._pending(client, _names(templates), _names(teams), only)
        if asking and (pending.files or items):
            await self._refuse(client, expect=False)
        rows = await asyncio.to_thread(self._rows, pending.files)
        return {
            "digest": _digest(pending.files, items),
            "files": rows,
            "problems": [{"file": problem.name, "reason": problem.reason} for problem in pending.problems],
            "left": pending.left,
            "data": items,
        }

    async def _counts(self, *, file: str, sha256: str) -> dict[str, Any]:
        """Whether the content of that hash is allowed for the file of the project."""
        content = await asyncio.to_thread(Allowed(self._roster.root).last, str(file))
        return {"counts": content is not None and allowed.digest(content) == sha256}

    async def _allow(
        self,
        client: Client,
        *,
        digest: str,
        expect: bool = False,
        templates: Sequence[str] = (),
        teams: Sequence[str] = (),
        only: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Allow the content with that digest. ``expect``: a script gave the digest, no human was asked.

        BadRequest ``trust_refused``, Conflict ``trust_changed``.
        """
        async with self._one_by_one:
            await self._refuse(client, expect=bool(expect))
            pending, items = await self._pending(client, _names(templates), _names(teams), only)
            if _digest(pending.files, items) != digest:
                raise Conflict("trust_changed", "the project's files have changed since they were shown")
            files = {file.name: file.content for file in pending.files}
            await asyncio.to_thread(trust_store.allow, self._roster, files)
            if any(item["kind"] != SPAWN_RUN for item in items):
                await self._team.adopt([item for item in items if item["kind"] != SPAWN_RUN])
            if any(item["kind"] == SPAWN_RUN for item in items):
                await self._spawn.runs.adopt(
                    client.env, {item["digest"] for item in items if item["kind"] == SPAWN_RUN}
                )
            self._changed()
        log.info("trust was given", files=sorted(files), data=len(items), by_digest=bool(expect))
        return {"ok": True, "allowed": sorted(files), "adopted": len(items), "left": pending.left}

    async def _list(self) -> dict[str, Any]:
        """What is allowed, and whether the files still have that content."""
        root = self._roster.root
        entries = await asyncio.to_thread(Allowed(root).entries)
        waiting = {file.name for file in (await self._settings((), (), None)).files}
        rows = []
        for entry in entries:
            there = (root / entry.name).is_file()
            state = "changed" if entry.name in waiting else "counts" if there else "gone"
            rows.append({"file": entry.name, "sha256": entry.sha256, "at": entry.at, "state": state})
        return {"files": rows, "waiting": sorted(waiting)}

    async def _revoke(self, *, file: str) -> dict[str, Any]:
        """Revoke what was allowed for a file of the project, or for ``all``."""
        async with self._one_by_one:
            names = None if file == "all" else {str(file)}
            revoked = await asyncio.to_thread(trust_store.revoke, self._roster, names)
            self._changed()
        log.info("trust was taken back", files=revoked)
        return {"ok": True, "revoked": revoked}

    def _changed(self) -> None:
        """Apply what was allowed or revoked now, without waiting for the file watch."""
        if self._configured.reload():
            log.info("configuration reloaded")

    async def _refuse(self, client: Client, *, expect: bool) -> None:
        peer = client.peer
        inside = {entry.pid for entry in self._roster.agents.values() if entry.pid and entry.process == "alive"}
        held = tuple(self._held)

        def look() -> None:
            trust_authority.refuse(trust_authority.chain_of(peer), inside=inside, held=held)
            if not expect and not process_facts.has_terminal(peer):
                raise BadRequest("trust_refused", "the process has no terminal, so no human can have agreed")

        await asyncio.to_thread(look)
        if (await self._authority.origin(client)).kind != "human":
            raise BadRequest("trust_refused", "nothing proves that this process was not started by an AI CLI")
        self._configured.reload()
        if expect and not self._configured.current.config.trust_by_digest:
            raise BadRequest(
                "trust_refused",
                "trust by a digest is not permitted here",
                "run orchestrator trust in a terminal, or set trust_by_digest = true in your own configuration",
            )

    async def _pending(
        self, client: Client, templates: Sequence[str], teams: Sequence[str], only: Sequence[str] | None
    ) -> tuple[acting_files.PendingFiles, list[dict[str, Any]]]:
        """What acts and is not allowed, and the data that is foreign; with ``only`` those files alone."""
        pending = await self._settings(templates, teams, only)
        if only is not None:
            return pending, []
        runs = [
            {"kind": SPAWN_RUN, "name": run.pop("id"), **run} for run in await self._spawn.runs.foreign(client.env)
        ]
        return pending, [*await self._team.preview(), *runs]

    async def _settings(
        self, templates: Sequence[str], teams: Sequence[str], only: Sequence[str] | None
    ) -> acting_files.PendingFiles:
        root = self._roster.root
        named = [name for client in self._clients() for name in squad_settings.named_by(client.env, root)]
        if only is not None:
            return await asyncio.to_thread(
                acting_files.pending_files, root, templates=templates, teams=teams, only=set(_names(only))
            )
        return await asyncio.to_thread(
            acting_files.pending_files, root, templates=[*named[:NAMES_MAX], *templates], teams=teams
        )

    def _rows(self, files: Sequence[ActingFile]) -> list[dict[str, Any]]:
        store = Allowed(self._roster.root)
        rows = []
        for file in files:
            last = store.last(file.name)
            rows.append(
                {
                    "file": file.name,
                    "kind": file.kind,
                    "sha256": allowed.digest(file.content),
                    "keys": file.keys,
                    "changed": last is not None,
                    "diff": difference(last, file.content),
                }
            )
        return rows


def _digest(files: Sequence[ActingFile], items: Sequence[dict[str, Any]]) -> str:
    """The digest of what is shown, the same on every machine: file names and contents, and the data."""
    shown = {"files": sorted([file.name, allowed.digest(file.content)] for file in files), "data": list(items)}
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _names(names: Any) -> list[str]:
    if (
        not isinstance(names, list | tuple)
        or len(names) > NAMES_MAX
        or not all(isinstance(name, str) for name in names)
    ):
        raise BadRequest("bad_argument", "names of files are a list of texts")
    return [name for name in names if "\0" not in name]
