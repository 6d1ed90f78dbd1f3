"""Arguments and answers of the squad tools, in the form of the squad documents (B2.1 to B2.8). No behavior.

Every addition of ours is optional. A connection in stateful mode has chats, so its models have one key more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from orchestrator.protocol.tool_calls import Arguments, Id, Untrusted

MEMBERS_MAX = 64
TASK_MAX = 4_000_000

MemberTask = Annotated[
    str, Field(min_length=1, max_length=TASK_MAX, description="What to do; the member knows nothing more")
]
Visible = Annotated[bool, Field(description="Show its output live in a pane of your tmux window")]


class _Camel(Arguments):
    model_config = ConfigDict(alias_generator=to_camel)


class Member(_Camel):
    """One member to start."""

    role_id: Annotated[Id, Field(min_length=1, max_length=255, description="A role's id, from list_roles")]
    task: MemberTask
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
        Id | None, Field(description="Chat to continue, from an earlier answer; default: start a new chat")
    ] = None


class ListRolesArguments(Arguments):
    """Nothing."""


class _Start(_Camel):
    squad_id: Annotated[
        Id | None,
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
    orchestrator_chat_id: Annotated[Id | None, Field(description="Ignored")] = None
    workspace_id: Annotated[Id | None, Field(description="Ignored")] = None


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
