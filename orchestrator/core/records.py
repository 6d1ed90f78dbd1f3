"""The models of records: the form of each line of an inbox, an outbox and a broadcast log.

Pure. The models define the form; `.agents-schema/*.json` is generated from them, and every record that a test writes
is validated against them. The daemon itself builds and reads plain dicts, because a million lines must fold in
seconds; for that it needs only `record_types.py`. It uses these models at the edges only.

To change a record, add an optional key; never change the meaning of one. Anything else needs a new
``journal.log_lines.VERSION``, a reader for the old version, and a fixture under tests/logs/, which must always fold.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from orchestrator.core.file_models import At, Mac

TaskId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
Crc = Annotated[str, Field(pattern=r"^[0-9a-f]{8}$", description="CRC-32 of the line before this key")]


_STRICT = ConfigDict(extra="forbid", strict=True, defer_build=True)
"""Models are built at their first use, because most users of this file need few of them."""


class _Record(BaseModel):
    model_config = _STRICT
    v: Literal[1]
    """Version of the record's form."""
    seq: Annotated[int, Field(ge=1, description="from 1 without gaps in each log; a gap means a lost write")]
    at: At
    epoch: Annotated[int, Field(ge=0, description="the launch of the agent that the record belongs to")]
    req: Annotated[str | None, Field(description="connection id:request id of the call that caused it")] = None
    mac: Mac = None
    crc: Crc


class _Asked(_Record):
    ref: Annotated[int | None, Field(ge=1, description="number of the fleet's post that caused the record")] = None
    by_host: Annotated[str | None, Field(description="host that posted it, with `ref`")] = None


class TaskRefusal(BaseModel):
    """Why a posted task ends at once."""

    model_config = _STRICT
    code: Annotated[str, Field(description="refused_by_host: the task ends in `error`; else in `canceled`")]
    message: str


class TaskAsked(_Asked):
    """A unit of work for the agent."""

    type: Literal["task"]
    task_id: TaskId
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    payload: Any = None
    """What the caller gave."""
    position: Annotated[int, Field(ge=1, description="1: head of the agent's unfinished tasks at that time")]
    timeout_s: Annotated[float | None, Field(gt=0, description="time limit of one attempt, in seconds")] = None
    lost: Annotated[
        bool, Field(description="replaces a damaged line: the task was requested, its payload is unknown")
    ] = False
    refused: Annotated[TaskRefusal | None, Field(description="it is never delivered, and ends at once")] = None
    duplicate: Annotated[
        bool, Field(description="the task is known already; posted again after the database was restored")
    ] = False


class CancelAsked(_Asked):
    """The task shall stop at its next cancel check."""

    type: Literal["cancel"]
    task_id: TaskId
    """The task."""
    reason: Annotated[
        str | None, Field(description="timed_out: it exceeded its time limit; no caller canceled it")
    ] = None
    unknown: Annotated[
        bool,
        Field(description="the agent never got the task: the database lost it, and had it again after a restore"),
    ] = False


class RestartAsked(_Asked):
    """The agent's CLI shall be ended and launched again."""

    type: Literal["restart"]
    fresh: Annotated[bool, Field(description="the new launch does not resume the session of the old one")] = False


class StopAsked(_Asked):
    """The agent shall end; force skips the grace."""

    type: Literal["stop"]
    force: bool = False
    """Skip the grace period."""
    reason: Annotated[str | None, Field(description="the cause, if no call requested it")] = None


class AskedAndLost(_Record):
    """A damaged line was here; doctor --fix kept it in the quarantined file."""

    type: Literal["lost"]
    quarantined: Annotated[str, Field(description="name of the file that the line was in")]


class _Happened(_Record):
    by: Literal["agent", "orchestrator"]
    """`agent`: the agent reported it; `orchestrator`: the daemon decided it."""


class Worktree(BaseModel):
    """The git worktree that was made for an agent."""

    model_config = _STRICT
    path: str
    branch: str
    base: Annotated[str, Field(description="the commit that it was made from")]
    tree: Annotated[str, Field(description="the working tree it was made from")]
    copied: Annotated[int, Field(ge=0, description="files copied by .worktreeinclude")] = 0
    not_copied: Annotated[list[str], Field(description="files that match and could not be, with the reason")] = []


class FleetMembership(BaseModel):
    """An agent's place in a fleet."""

    model_config = _STRICT
    project: Annotated[str, Field(description="name of the fleet's project")]
    agent: Annotated[str, Field(description="id of the agent in the fleet")]
    home: Annotated[str, Field(description="host whose master leads the run")]
    host: Annotated[str, Field(description="its first owner; `restarted` names later ones")]
    fence: Annotated[int, Field(ge=1, description="number of its owner; each move raises it")]
    on_host_lost: Literal["wait", "move"]
    """Wait for a lost host, or move to another one."""
    cwd: Annotated[str, Field(description="where it works, relative to the project of each host")]
    command_name: Annotated[
        str | None, Field(description="of engine `command`: name of each host's command line")
    ] = None


class Placed(BaseModel):
    """Where a moved agent works on its new host."""

    model_config = _STRICT
    cwd: str
    worktree: Worktree | None = None
    command: list[str] | None = None


class Starting(_Happened):
    """First launch: the intent of agent_create, with everything that a later launch needs."""

    type: Literal["starting"]
    name: str
    """As given to agent_create."""
    role: str
    """As given to agent_create."""
    engine: str
    """Which CLI runs in the pane."""
    run_id: str
    """The team run."""
    cwd: str
    """Where the CLI works."""
    policies: dict[str, Any]
    """restart, max_restarts, restart_window_s, on_lost, on_pane_closed, max_attempts, stall_after_s."""
    env_names: list[str] = []
    """Names of the added variables, without their values."""
    model: str | None = None
    """The model asked for; null: the CLI's own choice."""
    approval: Literal["ask", "edits", "all"] = "ask"
    """What its CLI may do without asking: ask, edits, all."""
    command: Annotated[list[str] | None, Field(description="argv template of engine `command`")] = None
    worktree: Annotated[Worktree | None, Field(description="its own working tree, if it has one")] = None
    toolsets: Annotated[
        list[Literal["gsd"]], Field(description="toolsets that its role gives it besides its own two tools")
    ] = []
    fleet: Annotated[FleetMembership | None, Field(description="its place in a fleet; null: a local agent")] = None
    ref: Annotated[int | None, Field(ge=1, description="number of the fleet's post that created the agent")] = None
    by_host: Annotated[str | None, Field(description="host that posted it, with `ref`")] = None


class Ready(_Happened):
    """The agent's first wait of this epoch; exactly one per epoch."""

    type: Literal["ready"]
    """What happened."""
    session: Annotated[str | None, Field(description="the CLI's own session id, for a resume")] = None
    wakes: Annotated[bool, Field(description="its hook or plugin has called, so it may be parked")] = False


class Delivered(_Happened):
    """The lease began, or the same task was delivered again."""

    type: Literal["delivered"]
    task_id: TaskId
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    attempt: Annotated[int, Field(ge=1)]
    """How many launches of the agent have been given the task, this one included."""
    redelivered: bool = False
    """Handed out again after its ack."""
    assumed: Annotated[
        bool,
        Field(description="recorded later, because the log had no delivery: with the task's end, or after a move"),
    ] = False


class Ack(_Happened):
    """The agent has taken the task."""

    type: Literal["ack"]
    task_id: TaskId
    """The task."""
    payload: Any = None
    """What the agent gave with it."""


class Progress(_Happened):
    """The agent works on the task."""

    type: Literal["progress"]
    task_id: TaskId
    """The task."""
    payload: Any = None
    """What the agent gave with it."""


class CancelRequested(_Happened):
    """The cancel is recorded; the agent sees it at its next call."""

    type: Literal["cancel_requested"]
    task_id: TaskId
    """The task."""


class Ended(_Happened):
    """The terminal event: exactly one per task."""

    type: Literal["result", "error", "canceled"]
    task_id: TaskId
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    attempt: Annotated[int, Field(ge=1)]
    """How many launches of the agent have been given the task."""
    payload: Any = None
    """What the agent gave with it."""
    timed_out: Annotated[bool, Field(description="it exceeded its time limit; the agent is launched again")] = False


class Requeued(_Happened):
    """The lease of a lost agent went back to the head of the queue."""

    type: Literal["requeued"]
    task_id: TaskId
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    attempt: Annotated[int, Field(ge=2, description="the attempt that comes next")]
    reason: str
    """Why, in words."""


class Late(_Happened):
    """A lost host returned and reported an end of the task that came too late. It is never the task's outcome."""

    type: Literal["late"]
    task_id: TaskId
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    kind: Literal["result", "error", "canceled"]
    """How the task ended on that host."""
    former_fence: Annotated[
        int | None, Field(ge=1, description="number of the owner that reports it; absent after a repair")
    ] = None
    host: Annotated[str | None, Field(description="host that reports it; absent after a repair")] = None
    reason: str
    """Why it is late, in words."""
    payload: Any = None
    """What the agent gave with it there; left out if it is too large."""


class Parked(_Happened):
    """The agent ended its turn and costs nothing until it is woken; or it was woken."""

    type: Literal["parked", "woken"]
    reason: str = ""
    """Why, in words."""


class Judged(_Happened):
    """The agent's condition changed."""

    type: Literal["stalled", "recovered", "blocked", "unblocked"]
    reason: str = ""
    """Why, in words."""
    kind: Annotated[str | None, Field(description="what blocks: permission, login, rate_limit, …")] = None
    until: Annotated[str | None, Field(description="when it ends, as the CLI shows it")] = None
    task_id: TaskId | None = None
    """The task."""


class AnsweredBy(BaseModel):
    """Who answered, and from where."""

    model_config = _STRICT
    face: Annotated[str, Field(description="where the answer was given: cli, top, web, rule")]
    user: Annotated[str, Field(description="the user of the machine")] = ""
    acts_as: Annotated[
        Literal["human", "master", "rule"], Field(description="rule: one that a human made answered by itself")
    ]


class ItemAnswered(_Happened):
    """An item of the inbox was answered: a permission, a question, or one that a human has dismissed."""

    type: Literal["answered"]
    item: Annotated[str, Field(description="id of the item of the inbox")]
    kind: str
    """What the item was: permission, question, error, …"""
    decision: Literal["approve", "always", "deny", "answer", "release", "dismiss"]
    """What was decided. release: the CLI was told to show its own dialog."""
    who: AnsweredBy
    """Who answered, from which face, and as what."""
    tool: Annotated[str, Field(description="the tool that was asked for")] = ""
    asked: Annotated[str, Field(description="what was asked for, as one masked line")] = ""
    digest: Annotated[str | None, Field(description="SHA-256 of the whole text that was asked for")] = None
    text: Annotated[str, Field(description="the answer to a question, or the reason of a denial")] = ""
    rule: Annotated[str | None, Field(description="id of the rule that was made or that answered")] = None
    task_id: TaskId | None = None
    """The task."""


class Exited(_Happened):
    """The CLI's process ended."""

    type: Literal["exited"]
    reason: str
    """Why the process ended."""
    how: Annotated[
        Literal[
            "exit",
            "signal",
            "pane_closed",
            "vanished",
            "tmux_gone",
            "pid_reused",
            "restart",
            "timed_out",
            "host_lost",
        ]
        | None,
        Field(description="what ended it; absent in records of before 2026-12"),
    ] = None
    pid: int | None = None
    """Process id."""
    code: int | None = None
    """Exit code of the process."""
    signal: int | None = None
    """Number of the signal that ended the process."""
    last_lines: list[str] = []
    """What the pane showed at the end."""


class Restarted(_Happened):
    """The next launch begins; ``epoch`` is the new one."""

    type: Literal["restarted"]
    reason: str
    """Why, in words."""
    resume: Annotated[str | None, Field(description="the CLI session that the new launch resumes")] = None
    asked: Annotated[
        int | None,
        Field(
            description="seq of the inbox record that requested it; such a restart does not count against the budget"
        ),
    ] = None
    pane_closed: Annotated[
        bool,
        Field(description="a human closed the pane of a launch that was ready; it does not count against the budget"),
    ] = False
    fence: Annotated[
        int | None, Field(ge=2, description="its host was lost, and it moved to the host with this number")
    ] = None
    host: Annotated[str | None, Field(description="the new host, with `fence`")] = None
    placed: Annotated[Placed | None, Field(description="where it works there")] = None


class Failed(_Happened):
    """The policy allows no further launch; a human or the master must act."""

    type: Literal["failed"]
    reason: str
    """Why it failed."""
    code: str = "launch_failed"
    """Error code."""
    cause: Annotated[str | None, Field(description="the likely cause, if a CLI was not ready in time")] = None
    last_lines: list[str] = []
    """What the pane showed at the end."""


class TriedStep(BaseModel):
    """One step of the sequence that ends a CLI."""

    model_config = _STRICT
    rung: Literal["stop", "quit", "SIGTERM", "SIGKILL"]
    seconds: Annotated[float, Field(ge=0, description="how long it was given")]


class Stopped(_Happened):
    """The process ended on request; ``how`` names the step that ended it."""

    type: Literal["stopped"]
    how: str
    """Stopped by itself, quit by its own command, SIGTERM, SIGKILL, or gone already."""
    rungs: Annotated[
        list[TriedStep], Field(description="what was tried, in order: stop, quit, SIGTERM, SIGKILL")
    ] = []


class Deleted(_Happened):
    """The agent is deleted; its files stay."""

    type: Literal["deleted"]


class HappenedAndLost(_Happened):
    """A damaged line was here; doctor --fix kept it in the quarantined file."""

    type: Literal["lost"]
    quarantined: Annotated[str, Field(description="name of the file that the line was in")]


InboxRecord = Annotated[
    TaskAsked | CancelAsked | RestartAsked | StopAsked | AskedAndLost, Field(discriminator="type")
]
OutboxRecord = Annotated[
    Starting
    | Ready
    | Delivered
    | Ack
    | Progress
    | CancelRequested
    | Ended
    | Requeued
    | Late
    | Parked
    | Judged
    | ItemAnswered
    | Exited
    | Restarted
    | Failed
    | Stopped
    | Deleted
    | HappenedAndLost,
    Field(discriminator="type"),
]


class BroadcastRecord(BaseModel):
    """One line of a run's digest; ``ref`` is the seq of the outbox record it repeats."""

    model_config = _STRICT
    v: Literal[1]
    """Version of the record's form."""
    seq: Annotated[int, Field(ge=1)]
    """Position in this log, from 1 and without gaps."""
    at: At
    type: str
    """As in the outbox record."""
    agent_id: str
    """The agent."""
    ref: Annotated[int, Field(ge=1)]
    """Seq of the outbox record that it repeats."""
    epoch: Annotated[int, Field(ge=0)]
    """Number of the agent's launch."""
    task_id: TaskId | None = None
    """The task."""
    title: Annotated[str | None, Field(max_length=80, description="the task's title, for people")] = None
    by: Literal["agent", "orchestrator"]
    """`agent`: the agent reported it; `orchestrator`: the daemon decided it."""
    payload: Any = None
    """As in the outbox record."""
    payload_bytes: Annotated[int | None, Field(description="size of a payload too large to repeat here")] = None
    reason: str | None = None
    """As in the outbox record."""
    kind: Annotated[
        str | None, Field(description="of blocked and unblocked: what blocks; of late: how the task ended there")
    ] = None
    until: Annotated[str | None, Field(description="of blocked: when it ends, as the CLI shows it")] = None
    mac: Mac = None
    crc: Crc


INBOX: TypeAdapter[Any] = TypeAdapter(InboxRecord, config=ConfigDict(defer_build=True))
OUTBOX: TypeAdapter[Any] = TypeAdapter(OutboxRecord, config=ConfigDict(defer_build=True))
BROADCAST: TypeAdapter[Any] = TypeAdapter(BroadcastRecord)
