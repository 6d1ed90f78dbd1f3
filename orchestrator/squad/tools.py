"""The MCP tools of the squad toolset: list roles, start members, wait for their results.

Names, casing and shapes follow the squad documents (B2.1 to B2.8); every addition of ours is optional. The schema
depends on the mode of the connection, which its variable STATE_MODE sets.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from orchestrator.base.errors import BadRequest, untrusted_note
from orchestrator.base.platform.processes import environ_of
from orchestrator.config.keys import Config
from orchestrator.config.sources import PROJECT_FILE
from orchestrator.engines import table
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Arguments, Call, Client, Tool, Untrusted
from orchestrator.roles.catalogue import directory_of
from orchestrator.roles.library import RoleLibrary
from orchestrator.squad import squad_settings
from orchestrator.squad.member_watch import Show
from orchestrator.squad.squad_plan import MemberRequest
from orchestrator.squad.squad_settings import Mode
from orchestrator.squad.squads import SquadRequest, Squads

log = structlog.get_logger()

MODES: tuple[Mode, ...] = ("stateless", "stateful")
MEMBERS_MAX = 64
TASK_MAX = 4_000_000

Task = Annotated[
    str, Field(min_length=1, max_length=TASK_MAX, description="What to do; the member knows nothing more")
]
Visible = Annotated[bool, Field(description="Show its output live in a pane of your tmux window")]


class _Camel(Arguments):
    model_config = ConfigDict(alias_generator=to_camel)


class Member(_Camel):
    """One member to start."""

    role_id: Annotated[str, Field(min_length=1, max_length=255, description="A role's id, from list_roles")]
    task: Task
    cwd: Annotated[str | None, Field(description="Working directory within the project; default: its root")] = None
    visible: Visible = False

    @model_validator(mode="before")
    @classmethod
    def _no_chat(cls, given: Any) -> Any:
        if isinstance(given, dict) and "chatId" in given and "chat_id" not in cls.model_fields:
            if given["chatId"] is not None:
                raise ValueError("chatId: this connection is stateless; set STATE_MODE=stateful to keep chats")
            return {key: value for key, value in given.items() if key != "chatId"}
        return given


class ChatMember(Member):
    """One member to start, in stateful mode."""

    chat_id: Annotated[
        str | None, Field(description="Chat to continue, from an earlier answer; default: start a new chat")
    ] = None


class ListRolesArguments(Arguments):
    """Nothing."""


class _Start(_Camel):
    squad_id: Annotated[
        str | None,
        Field(max_length=128, description="With members []: wait for this squad and return its results"),
    ] = None
    wait_ms: Annotated[
        int | None,
        Field(
            alias="wait_ms",
            ge=0,
            le=86_400_000,
            description="Maximum wait, in milliseconds; default: until all have ended. Capped at your CLI's limit",
        ),
    ] = None
    visible: Annotated[bool, Field(description="Show all members in panes")] = False
    metadata: Annotated[dict[str, Any] | None, Field(description="Ignored")] = None
    orchestrator_chat_id: Annotated[str | None, Field(description="Ignored")] = None
    workspace_id: Annotated[str | None, Field(description="Ignored")] = None


Members = Field(max_length=MEMBERS_MAX, description="Members to start together")


class StatelessArguments(_Start):
    members: Annotated[list[Member], Members]


class StatefulArguments(_Start):
    members: Annotated[list[ChatMember], Members]


class RoleRow(BaseModel):
    """A role that a member can have."""

    id: str
    """The role's id."""
    name: str
    """As its file gives it."""
    description: str
    """What the role is for."""


class BrokenRow(BaseModel):
    """A role file that cannot be used."""

    file: str
    """Path of the file."""
    reason: str
    """Why it cannot be used."""


class RolesAnswer(BaseModel):
    """The usable roles; ``broken`` is given only if a role file cannot be used."""

    roles: list[RoleRow]
    """One entry per role."""
    broken: list[BrokenRow] = []
    """Files that cannot be used; absent when there are none."""
    untrusted: Untrusted = None


class MemberAnswer(BaseModel):
    """The result of one member; ``cwd`` is given only if the call named one."""

    model_config = ConfigDict(alias_generator=to_camel)
    member_id: str
    """The squad's id and the member's position in the call."""
    role_id: str
    """The role, as the caller gave it."""
    cwd: str = ""
    """As the caller gave it; left out if not given."""
    status: Literal["completed", "error", "timeout", "running"]
    """running, or how it ended."""
    raw_stdout: str
    """Its standard output, verbatim; bytes that are not UTF-8 replaced."""
    raw_stderr: str
    """The same of its standard error; its end says why the member did not start or was ended."""
    raw_stdout_file: Annotated[str, Field(description="file with all of it, if rawStdout was cut")] = ""
    raw_stderr_file: Annotated[str, Field(description="file with all of it, if rawStderr was cut")] = ""
    exit_code: Annotated[int, Field(description="given if the member did not complete")] = 0
    signal: Annotated[str, Field(description="signal that ended the member")] = ""
    reason: Annotated[str, Field(description="why the member did not complete, or what it is doing")] = ""


class ChatAnswer(MemberAnswer):
    """The result of one member, in stateful mode."""

    chat_id: Annotated[str, Field(description="pass it to continue this chat; empty: no chat")] = ""


class SquadAnswer(BaseModel):
    """The squad; members in the order of the call."""

    model_config = ConfigDict(alias_generator=to_camel)
    squad_id: str
    """The squad."""
    members: list[MemberAnswer]
    """One entry per member, in the order of the call."""
    note: Annotated[str, Field(description="what to do while members still run")] = ""
    untrusted: Untrusted = None


class ChatSquadAnswer(SquadAnswer):
    """The squad, in stateful mode."""

    members: list[ChatAnswer]  # type: ignore[assignment]  # the same rows with one key more
    """One entry per member, in the order of the call."""


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


def mode_of(client: Client) -> Mode:
    """The mode whose schema a connection gets; an invalid STATE_MODE counts as stateless until a tool is called."""
    try:
        return squad_settings.mode_of(client.env)
    except BadRequest:
        return "stateless"


def environment_of(client: Client) -> dict[str, str]:
    """The environment for members: that of the client's process, overridden by that of our relay.

    Some CLIs pass few variables to their MCP servers, and users put keys into the server entry's own env block.
    """
    found: dict[str, str] = {}
    for pid in (*client.origin.pids[:1], client.peer):
        found |= environ_of(pid) if pid else {}
    return table.passed_on(found or os.environ, {})


def build(offer: SquadToolDeps, mode: Mode) -> dict[str, Tool]:
    """The squad toolset for a connection of this mode."""

    async def list_roles(call: Call, _given: ListRolesArguments) -> dict[str, Any]:
        found = await asyncio.to_thread(offer.library.listing, directory_of(call.client.env)[0])
        answer: dict[str, Any] = {
            "roles": [
                {"id": role.id, "name": role.name, "description": role.description} for role in found.roles.values()
            ]
        }
        if found.broken:
            answer["broken"] = [{"file": one.file, "reason": one.reason} for one in found.broken]
        return answer | untrusted_note({role.file: role.withheld for role in found.roles.values() if role.withheld})

    async def start(call: Call, given: StatelessArguments | StatefulArguments) -> dict[str, Any]:
        if given.members and given.squad_id is not None:
            raise BadRequest(
                "bad_argument",
                "squadId and members are both given",
                "to start members, leave out squadId; to wait, pass members []",
            )
        if not given.members and given.squad_id is None:
            raise BadRequest("bad_argument", "members is empty and squadId is missing")
        note: dict[str, Any] = {}
        squad_id = given.squad_id
        if squad_id is None:
            request = await _request(offer, call, given)
            note = untrusted_note(_withheld(request, offer.withheld(), call.client.env))
            squad_id = await offer.squads.start(request)
        try:
            return await offer.squads.answer(squad_id, _wait_s(call, given.wait_ms), call.tell) | note
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


async def _request(offer: SquadToolDeps, call: Call, given: StatelessArguments | StatefulArguments) -> SquadRequest:
    client = call.client
    config = offer.config()
    asked = [
        MemberRequest(
            one.role_id,
            one.task,
            one.cwd,
            one.chat_id if isinstance(one, ChatMember) else None,
            given.visible or one.visible,
        )
        for one in given.members
    ]
    for warning in filter(None, (directory_of(client.env)[1], *squad_settings.warnings_of(client.env))):
        log.warning(warning, client=client.name)
    read = await asyncio.to_thread(squad_settings.read, client.env, offer.squads.root, config, client.name)
    found = await asyncio.to_thread(offer.library.listing, directory_of(client.env)[0])
    env = await asyncio.to_thread(environment_of, client)
    return SquadRequest(call.req, asked, read, found, env, offer.show(client))


def _withheld(request: SquadRequest, config: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, list[str]]:
    """The settings that these members lack because the user has not allowed them: file -> keys."""
    read = request.settings
    found = {name: ["template"] for name in read.withheld}
    if read.run is not None:
        return found  # with a run template, members get only what the template contains
    roles = [role for one in request.members if (role := request.roles.roles.get(one.role_id)) is not None]
    found |= {role.file: list(role.withheld) for role in roles if role.withheld}
    keys = [key for key in ("trust",) if key in config]
    if "approval" in config and any(not role.approval and not role.withheld for role in roles):
        keys.append("approval")
    if "engine" in config and not read.engine_command and not env.get("ENGINE"):
        row = table.ENGINES[config["engine"]]
        keys += ["engine"] if row.headless is not None and row is not read.row else []
    return found | ({PROJECT_FILE: keys} if keys else {})


def _wait_s(call: Call, wait_ms: int | None) -> float | None:
    """Seconds that this call may still take; None: until all members have ended."""
    bounds = [answer_by_s(call.client), None if wait_ms is None else wait_ms / 1000]
    known = [one for one in bounds if one is not None]
    return max(0.0, min(known) - call.age_s) if known else None
