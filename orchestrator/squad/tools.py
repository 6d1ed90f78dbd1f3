"""The MCP tools of the squad toolset: list roles, start members, wait for their results.

Their schema depends on the mode of the connection, which its variable STATE_MODE sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from orchestrator.base.errors import BadRequest
from orchestrator.config.keys import Config
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.engines import table
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Call, Client, Tool
from orchestrator.roles.catalogue import directory_of
from orchestrator.roles.library import RoleLibrary
from orchestrator.squad import squad_settings
from orchestrator.squad.member_environment import environment_of
from orchestrator.squad.member_watch import Show
from orchestrator.squad.models import (
    ChatMember,
    ChatSquadAnswer,
    ListRolesArguments,
    RolesAnswer,
    SquadAnswer,
    StatefulArguments,
    StatelessArguments,
)
from orchestrator.squad.squad_plan import MemberRequest
from orchestrator.squad.squad_settings import SquadMode
from orchestrator.squad.squads import SquadRequest, Squads
from orchestrator.trust.untrusted_settings import untrusted_note

log = structlog.get_logger()

INSTRUCTIONS = (
    "start_squad_members runs one-shot CLI members with roles (list_roles) in parallel and gives their output: "
    "for work that needs no conversation."
)

MODES: tuple[SquadMode, ...] = ("stateless", "stateful")


@dataclass(frozen=True)
class SquadToolDeps:
    """What the tools need; ``show`` returns the function that shows a client's members in panes.

    ``withheld`` returns the settings of the project's configuration file that the user has not allowed.
    """

    squads: Squads
    library: RoleLibrary
    config: Callable[[], Config]
    show: Callable[[Client], Show]
    withheld: Callable[[], Mapping[str, Any]] = dict


def mode_of(client: Client) -> SquadMode:
    """The mode whose schema a connection gets; an invalid STATE_MODE counts as stateless until a tool is called."""
    try:
        return squad_settings.mode_of(client.env)
    except BadRequest:
        return "stateless"


def build(offer: SquadToolDeps, mode: SquadMode) -> dict[str, Tool]:
    """The squad toolset for a connection of this mode."""

    async def list_roles(call: Call, _arguments: ListRolesArguments) -> dict[str, Any]:
        listing = await asyncio.to_thread(offer.library.listing, directory_of(call.client.env)[0])
        answer: dict[str, Any] = {
            "roles": [
                {"id": role.id, "name": role.name, "description": role.description} for role in listing.roles.values()
            ]
        }
        if listing.broken:
            answer["broken"] = [{"file": broken.file, "reason": broken.reason} for broken in listing.broken]
        return answer | untrusted_note({role.file: role.withheld for role in listing.roles.values() if role.withheld})

    async def start(call: Call, arguments: StatelessArguments | StatefulArguments) -> dict[str, Any]:
        if arguments.members and arguments.squad_id is not None:
            raise BadRequest(
                "bad_argument",
                "squadId and members are both given",
                "to start members, leave out squadId; to wait, pass members []",
            )
        if not arguments.members and arguments.squad_id is None:
            raise BadRequest("bad_argument", "members is empty and squadId is missing")
        note: dict[str, Any] = {}
        squad_id = arguments.squad_id
        if squad_id is None:
            request = await _request(offer, call, arguments)
            note = untrusted_note(_withheld(request, offer.withheld(), call.client.env))
            squad_id = await offer.squads.start(request)
        try:
            return await offer.squads.answer(squad_id, _wait_s(call, arguments.wait_ms), call.tell) | note
        except asyncio.CancelledError:
            # The end of a connection or daemon must not waste paid work: only the client's cancel ends members.
            if call.canceled():
                offer.squads.cancel(squad_id)
            raise

    stateful = mode == "stateful"
    chat = (
        "Pass chatId to continue a chat; without it a new chat starts and its chatId is returned. "
        if stateful
        else ""
    )
    tools = (
        Tool(
            "list_roles",
            "List roles",
            "List the roles that squad members can have: id, name, description.",
            ListRolesArguments,
            RolesAnswer,
            list_roles,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            "start_squad_members",
            "Run one-shot CLI members",
            "Start headless CLI processes in parallel, each with a role and a task, and return their raw output when "
            f"all have ended. {chat}If a member has status running, call again with squadId and members [].",
            StatefulArguments if stateful else StatelessArguments,
            ChatSquadAnswer if stateful else SquadAnswer,
            start,
            open_world=True,
        ),
    )
    return {tool.name: tool for tool in tools}


async def _request(
    offer: SquadToolDeps, call: Call, arguments: StatelessArguments | StatefulArguments
) -> SquadRequest:
    client = call.client
    config = offer.config()
    members = [
        MemberRequest(
            member.role_id,
            member.task,
            member.cwd,
            member.chat_id if isinstance(member, ChatMember) else None,
            arguments.visible or member.visible,
        )
        for member in arguments.members
    ]
    for warning in filter(None, (directory_of(client.env)[1], *squad_settings.warnings_of(client.env))):
        log.warning(warning, client=client.name)
    settings = await asyncio.to_thread(squad_settings.read, client.env, offer.squads.root, config, client.name)
    listing = await asyncio.to_thread(offer.library.listing, directory_of(client.env)[0])
    env = await asyncio.to_thread(environment_of, client)
    return SquadRequest(call.req, members, settings, listing, env, offer.show(client))


def _withheld(request: SquadRequest, config: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, list[str]]:
    """The settings that these members lack because the user has not allowed them: file -> keys."""
    settings = request.settings
    withheld = {name: ["template"] for name in settings.withheld}
    if settings.run is not None:
        return withheld  # with a run template, members get only what the template contains
    roles = [role for member in request.members if (role := request.roles.roles.get(member.role_id)) is not None]
    withheld |= {role.file: list(role.withheld) for role in roles if role.withheld}
    keys = [key for key in ("trust",) if key in config]
    if "approval" in config and any(not role.approval and not role.withheld for role in roles):
        keys.append("approval")
    if "engine" in config and not settings.engine_command and not env.get("ENGINE"):
        row = table.ENGINES[config["engine"]]
        keys += ["engine"] if row.headless is not None and row is not settings.row else []
    return withheld | ({PROJECT_FILE: keys} if keys else {})


def _wait_s(call: Call, wait_ms: int | None) -> float | None:
    """Seconds that this call may still take; None: until all members have ended."""
    bounds = [answer_by_s(call.client), None if wait_ms is None else wait_ms / 1000]
    known = [bound for bound in bounds if bound is not None]
    return max(0.0, min(known) - call.age_s) if known else None
