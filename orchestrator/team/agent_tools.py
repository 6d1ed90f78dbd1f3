"""The two tools of a sub-agent: wait_for_command and emit_event.

This file never imports, even transitively, code that creates or kills agents (a test enforces it): an agent
cannot reach a master's tool.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.base.errors import BadRequest
from orchestrator.base.final_states import TERMINAL
from orchestrator.protocol.tool_calls import Arguments, Call, Id, Tool, argument_names, meant, unknown_argument
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

INSTRUCTIONS = "You are a sub-agent. Call wait_for_command, do what it says, report with emit_event, call it again."

AgentId = Annotated[Id, Field(min_length=1, max_length=128, description="Your agent id.")]


class WaitArguments(Arguments):
    """Arguments of wait_for_command."""

    agent_id: AgentId
    timeout_ms: Annotated[int, Field(ge=0, le=3_600_000, description="Longest wait; 0 polls once.")] = 45_000
    cursor: Annotated[str | None, Field(max_length=64, description="`cursor` of the previous answer.")] = None


class EmitArguments(Arguments):
    """Arguments of emit_event."""

    agent_id: AgentId
    type: Literal["ack", "progress", "result", "error", "canceled", "ready", "heartbeat"]
    """What happened."""
    task_id: Annotated[Id | None, Field(max_length=128, description="Default: the task you hold.")] = None
    payload: Annotated[
        Any,
        Field(description="JSON up to {max_payload_bytes} bytes; more: a file in artifacts/."),
    ] = None
    done: Annotated[bool | None, Field(description="Optional: result, error and canceled imply true.")] = None


_MEANINGS = {
    "payload": "result output data content message text body summary answer value error details response",
    "task_id": "task id",
    "done": "final finished complete completed is_done",
}
"""Names under which models write these arguments of emit_event, besides names that look like them."""


class _AgentAnswer(BaseModel):
    model_config = ConfigDict(extra="allow")

    ignored_arguments: Annotated[
        list[str] | None, Field(description="Arguments that do not exist; the rest was carried out.")
    ] = None


class WaitAnswer(_AgentAnswer):
    """Answer of wait_for_command."""

    status: Literal["command", "timeout"]
    """Whether there is a command."""
    command: Annotated[
        dict[str, Any] | None,
        Field(
            description='{"kind":"task","task_id","payload","attempt"}, {"kind":"cancel","task_id"}, {"kind":"stop"}'
        ),
    ] = None
    cursor: str
    """Pass it with the next call."""
    park: Annotated[bool | None, Field(description="true: end your turn; a message wakes you.")] = None
    reminder: str
    """Who you are, which task you hold, what to call next."""


class EmitAnswer(_AgentAnswer):
    """Answer of emit_event."""

    ok: bool
    """Always true; a failure is an error."""
    cancel_requested: Annotated[
        bool, Field(description="true: stop the task at the next safe point, then emit canceled.")
    ]
    seq: int | None = None
    """Of the stored record."""
    duplicate: bool | None = None
    """True: already stored, nothing was added."""
    reminder: str
    """Who you are, which task you hold, what to call next."""


def _caller(roster: Roster, call: Call, agent_id: str) -> AgentEntry:
    """The calling agent, after its identity is checked; records the name, version and session of its CLI."""
    client = call.client
    entry = delivery.check_identity(roster, agent_id, claimed=client.agent_id or "", secret=client.secret)
    entry.client = (client.name, client.version)
    row = entry.engine
    session = call.meta.get(row.session_key) if row is not None and row.session_key else None
    if isinstance(session, str) and session:
        entry.session = session
    return entry


def _check_ignored(arguments: EmitArguments, ignored: tuple[str, ...]) -> None:
    """BadRequest ``bad_argument`` if an end of a task lacks what an ignored argument may have held.

    A task ends once: an end without its payload, for another task, or that was not meant as one cannot be repaired.
    """
    if arguments.type not in TERMINAL or not ignored:
        return
    absent = [name for name in _MEANINGS if getattr(arguments, name) is None]
    guesses = {name: _meant_by(name, absent) for name in ignored}
    if "payload" not in absent and not any(guesses.values()):
        return
    complaints = [
        f"{name[:80]}: no such argument; did you mean {guess}?" if guess else unknown_argument(name, absent)
        for name, guess in list(guesses.items())[:5]
    ]
    raise BadRequest(
        "bad_argument",
        f"{'; '.join(complaints)}. The {arguments.type} was not recorded: it ends the task, and a part is lost",
        f"call emit_event again with {', '.join(argument_names(EmitArguments))} only; your report goes into payload",
    )


def _meant_by(name: str, absent: list[str]) -> str:
    plain = name.casefold()
    named = (known for known in absent if plain in _MEANINGS[known].split())
    return next(named, "") or meant(name, absent)


def build(roster: Roster) -> dict[str, Tool]:
    """The two tools of every agent, for the team of one daemon."""

    async def wait_for_command(call: Call, arguments: WaitArguments) -> dict[str, Any]:
        client = call.client
        entry = _caller(roster, call, arguments.agent_id)
        row = entry.engine
        cap = min(roster.config().wait_cap_ms / 1000, (row.tool_limit_s if row else 60.0) - 5.0)
        return await delivery.wait_for_command(
            roster,
            arguments.agent_id,
            client.epoch,
            timeout_s=min(arguments.timeout_ms / 1000, cap),
            age_s=call.age_s,
            req=call.req,
            parks=row is not None and row.parks != "no",
        )

    async def emit_event(call: Call, arguments: EmitArguments) -> dict[str, Any]:
        client = call.client
        _caller(roster, call, arguments.agent_id)
        _check_ignored(arguments, call.ignored)
        return await delivery.emit_event(
            roster,
            arguments.agent_id,
            client.epoch,
            kind=arguments.type,
            task_id=arguments.task_id,
            payload=arguments.payload,
            done=arguments.done,
            req=call.req,
        )

    tools = (
        Tool(
            name="wait_for_command",
            title="Wait for the next command",
            description=(
                "Wait for the next command or the timeout. Carry out the command, then call "
                "this again; repeat until stop. task: work on its payload. cancel: stop that task, emit canceled. "
                "stop: finish, make no further call. On a timeout call again; with park: true end your turn instead."
            ),
            arguments=WaitArguments,
            answer=WaitAnswer,
            run=wait_for_command,
            read_only=True,
            idempotent=True,
            brief=True,
            lenient=True,
        ),
        Tool(
            name="emit_event",
            title="Report on the task you hold",
            description=(
                "Report on your task: ack when you start it, progress now and then, exactly one result, error or "
                "canceled at its end. If an answer has cancel_requested: true, stop at the next safe point and "
                "emit canceled."
            ),
            arguments=EmitArguments,
            answer=EmitAnswer,
            run=emit_event,
            idempotent=True,
            brief=True,
            lenient=True,
            limits=lambda: {"max_payload_bytes": roster.config().max_payload_bytes},
        ),
    )
    return {tool.name: tool for tool in tools}
