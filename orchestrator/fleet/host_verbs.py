"""What a host answers to other hosts of the fleet: screens, inbox items, artifacts; each checks `[fleet.accept]`.

A verb gets the name of the host that asks, which the database knows by its role; it raises the errors of local calls.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, get_args

from orchestrator.base.errors import BadRequest
from orchestrator.core.inbox_items import ItemDecision
from orchestrator.edge import project_location
from orchestrator.fleet.acceptance import accepts
from orchestrator.fleet.calls import Verb
from orchestrator.fleet.fleet_agent_ids import fleet_id, own_entry
from orchestrator.fleet.posting import unknown
from orchestrator.fleet.settings import FleetSettings
from orchestrator.team.panes.pane_views import PaneViews
from orchestrator.team.people.answer_words import Answerer, GivenAnswer
from orchestrator.team.roster import artifact_files
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.wiring import TeamWiring

CHUNK_BYTES = 1 << 20
ARTIFACT_MAX = 10 << 20
"""Largest artifact that another host may fetch."""


def verbs_of(roster: Roster, team: TeamWiring, settings: Callable[[], FleetSettings]) -> dict[str, Verb]:
    """The verbs of one host by name."""
    views = PaneViews(roster, team.panes)

    def agent(by_host: str, body: Mapping[str, Any], *, peeks: bool = False) -> AgentEntry:
        """The own agent that is asked about, for a host that this one accepts."""
        accept = settings().accept
        if not accepts(accept, settings().host, by_host):
            raise BadRequest("refused_by_host", f"it does not accept host {by_host}")
        if peeks and by_host != settings().host and not accept.peek:
            raise BadRequest("refused_by_host", "it shows its screens and files to no other host")
        entry = own_entry(roster, str(body.get("agent")))
        if entry is None:
            raise unknown(str(body.get("agent")))
        return entry

    async def peek(by_host: str, body: Mapping[str, Any]) -> Any:
        entry = agent(by_host, body, peeks=True)
        shown = await views.peek(agent_id=entry.agent_id, lines=int(body.get("lines") or 0))
        return {**shown, "agent_id": fleet_id(entry.agent_id)}

    async def ping(_by_host: str, _body: Mapping[str, Any]) -> Any:
        return {"version": project_location.VERSION}  # each host of the fleet may know that this one lives

    async def answer(by_host: str, body: Mapping[str, Any]) -> Any:
        entry, wanted = agent(by_host, body), str(body.get("item"))
        by = body.get("by") or {}
        if by.get("acts_as") != "human" and not roster.config().approvals_master:
            raise BadRequest("not_allowed_to_answer", f"a master of host {by_host} may not answer here")
        if not any(item.item_id == wanted for item in team.inbox.items(entry)) and wanted not in entry.state.answers:
            raise BadRequest("unknown_item", f"the inbox has no item {wanted} of {entry.agent_id}")
        who = Answerer(f"{by.get('face')}@{by_host}", str(by.get("user", "")), _acting(by.get("acts_as")))
        given = GivenAnswer(_decision(body.get("decision")), str(body.get("text") or ""), who, req=body.get("req"))
        return await team.inbox.answer(wanted, given)

    async def artifacts(by_host: str, body: Mapping[str, Any]) -> Any:
        entry = agent(by_host, body, peeks=True)
        return await asyncio.to_thread(artifact_files.listed, roster.root, entry.agent_id)

    async def artifact(by_host: str, body: Mapping[str, Any]) -> Any:
        entry = agent(by_host, body, peeks=True)
        return await asyncio.to_thread(_chunk, roster, entry.agent_id, body)

    return {"ping": ping, "peek": peek, "answer": answer, "artifacts": artifacts, "artifact": artifact}


def _decision(value: Any) -> ItemDecision:
    if value not in get_args(ItemDecision):
        raise BadRequest("bad_argument", f"decision is one of: {', '.join(get_args(ItemDecision))}")
    return cast("ItemDecision", value)


def _acting(value: Any) -> Literal["human", "master"]:
    """As what the answer counts: a rule of another host decides nothing here."""
    return "human" if value == "human" else "master"


def _chunk(roster: Roster, agent_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A part of an artifact: ``{data (base64), from, size, sha256 (of the part)}``."""
    file, size = artifact_files.opened(roster.root, agent_id, str(body["name"]))
    with file:
        if size > ARTIFACT_MAX:
            raise BadRequest("payload_too_large", f"the artifact has {size} bytes; at most {ARTIFACT_MAX} are sent")
        begin = max(0, int(body.get("from") or 0))
        file.seek(begin)
        data = file.read(min(CHUNK_BYTES, max(0, int(body.get("bytes") or CHUNK_BYTES))))
    return {
        "data": base64.b64encode(data).decode(),
        "from": begin,
        "size": size,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
