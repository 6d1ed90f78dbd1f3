"""Models of the small JSON files: meta, run, identity, launch, process, collected, mirror, squad. Pure.

The models define the form of the files; `.agents-schema/*.json` is generated from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

At = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", description="RFC 3339 UTC, ms")]
Mac = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{32}$", description="seal of the machine that wrote it, over the line before this key"),
]
FileMac = Annotated[Mac, Field(description="seal of the machine that wrote the file")]


class PathsOf(BaseModel):
    """Where the agent's files are; absolute paths."""

    meta: str
    inbox: str
    outbox: str
    artifacts: str


class Blocked(BaseModel):
    """What blocks an agent."""

    kind: Annotated[str | None, Field(description="what blocks; null: its task has no terminal event")]
    reason: str
    until: Annotated[str | None, Field(description="when it ends, as the CLI shows it")]
    since: At


class Meta(BaseModel):
    """meta.json: the last answer of agent_get; a cache, the records decide."""

    model_config = ConfigDict(extra="allow")
    agent_id: str
    """The agent."""
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
    status: str
    """One of the statuses of lifecycle.md."""
    reason: str
    """Why it has this status."""
    epoch: int
    """Number of the agent's current launch."""
    tmux_pane_id: str | None
    """The agent's pane."""
    queue_depth: int
    """Tasks that wait behind the running one."""
    running_task_id: str | None
    """The task it holds."""
    running_task_title: Annotated[str | None, Field(description="title of the task it holds")] = None
    attempt: Annotated[int | None, Field(description="attempt of the task it holds; from 1")] = None
    since: Annotated[str | None, Field(description="when its status began, by its records")] = None
    last_task: Annotated[
        dict[str, Any] | None,
        Field(description="the task that ended last: task_id, title, outcome, reason (of an error), at"),
    ] = None
    cancel_requested: bool
    """Whether a cancel of its running task was requested."""
    last_event_seq: int
    """Seq of its last outbox record."""
    finished: dict[str, int]
    """How many tasks ended, by outcome."""
    paths: PathsOf
    """Absolute paths: meta, inbox, outbox, artifacts."""
    created_at: str | None
    """When the agent was created."""
    host: Annotated[str | None, Field(description="of an agent of the fleet: the host that it runs on")] = None
    policies: dict[str, Any]
    """restart, max_restarts, restart_window_s, on_lost, on_pane_closed, max_attempts, stall_after_s."""
    blocked: Annotated[Blocked | None, Field(description="what keeps it from going on")] = None
    model: Annotated[str | None, Field(description="the model asked for; null: the CLI's own choice")] = None
    approval: Annotated[str, Field(description="what its CLI may do without asking: ask, edits, all")] = "ask"
    command: Annotated[list[str] | None, Field(description="argv template of engine `command`")] = None
    session: Annotated[str | None, Field(description="the CLI's own session id, where it is known")] = None
    worktree: Annotated[
        dict[str, Any] | None,
        Field(description="its own git worktree: path, branch, and base, the commit that it was made from"),
    ] = None
    toolsets: Annotated[
        list[str], Field(description="toolsets that its role gives it besides its own two tools")
    ] = []
    engine_version: Annotated[str | None, Field(description="as the CLI reported it to our server")] = None
    evidence: list[dict[str, Any]] = []
    """The records that prove the status: file, seq, type, at."""
    tasks: Annotated[
        list[dict[str, Any]],
        Field(
            description="unfinished tasks, at most 50: task_id, title, state, position, attempt, cancel_requested, "
            "timeout_s; waits_for_host and posted_at if the agent's host has not taken the task yet"
        ),
    ] = []
    tasks_not_shown: int = 0
    """How many more unfinished tasks there are."""
    ready_at: str | None = None
    """Its last ready."""
    env_names: list[str] = []
    """Names of the added variables, without their values."""
    window_id: str | None = None
    """Tmux window of its run."""
    pid: int | None = None
    """Process id of its CLI."""
    last_call_at: str | None = None
    """When it last called a tool of the running daemon."""


class MasterProcess(BaseModel):
    """The CLI that leads a team run, with more than its pid, which may be reused."""

    model_config = ConfigDict(extra="forbid")
    pid: int
    start: Annotated[
        int, Field(description="clock ticks since boot on Linux; elsewhere hundredths of a second since 1970")
    ]
    client: Annotated[str, Field(description="its name, as it reported it to our server; may be empty")]


class RunFile(BaseModel):
    """run.json: the tmux window of a team run, and what orchestrator changed of it."""

    model_config = ConfigDict(extra="forbid")
    v: Literal[1]
    """Version of the file's form."""
    run_id: str
    """The team run."""
    created_at: At
    tmux_socket: Annotated[str | None, Field(description="path of the server's socket")]
    tmux_name: Annotated[str | None, Field(description="-L name, when we were outside tmux")] = None
    server_pid: int
    """Process id of the tmux server."""
    server_start: Annotated[
        int, Field(description="clock ticks since boot on Linux; elsewhere hundredths of a second since 1970")
    ]
    window_id: str
    """Tmux window of the master."""
    master_pane: str
    """Tmux pane of the master."""
    master: Annotated[MasterProcess | None, Field(description="null: the run was created from the command line")] = (
        None
    )
    session: str
    """Tmux session of the master's window."""
    detached: Annotated[bool, Field(description="the session is ours: the master runs outside tmux")] = False
    changed: Annotated[dict[str, Any] | None, Field(description="window options to put back")] = None
    windows: Annotated[list[str], Field(description="further windows that were opened for the team's agents")] = []
    agents: Annotated[dict[str, str], Field(description="agent id -> pane id")] = {}
    ended_at: At | None = None
    """When the team run ended; null while it lives."""
    home: Annotated[str | None, Field(description="host of the fleet whose master leads the run; null: this one")] = (
        None
    )
    gen: Annotated[int | None, Field(ge=1, description="how often the run has got a home in the fleet")] = None
    mac: FileMac = None


class IdentityFile(BaseModel):
    """identity.json: the id of a directory of team data; it counts only if the state directory has the same id."""

    model_config = ConfigDict(extra="forbid")
    v: Literal[1]
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="random, made at the directory's birth")]


class CollectedFile(BaseModel):
    """collected.json: what gc leaves of a deleted agent or an ended run, so that its id is never reused."""

    model_config = ConfigDict(extra="forbid")
    run_id: str
    created_at: str | None
    collected_at: At
    agent_id: str | None = None
    name: str | None = None
    role: str | None = None
    engine: str | None = None
    deleted_at: At | None = None
    ended_at: At | None = None
    finished: Annotated[dict[str, int], Field(description="how many tasks had which outcome")] = {}
    mac: FileMac = None


class MirrorFile(BaseModel):
    """mirror.json: marks the copy of another host's agent, which is read from the fleet's database."""

    model_config = ConfigDict(extra="forbid")
    v: Literal[1]
    """Version of the file's form."""
    agent_id: str
    """The agent."""
    project: Annotated[str, Field(description="the fleet's name of the project")]
    host: Annotated[str, Field(description="the host that owns the agent")]
    fence: Annotated[int, Field(ge=0, description="the fence under which it does; 0: not known")]
    mac: FileMac = None


class LaunchFile(BaseModel):
    """engine/launch.json (0600): what the launch stub executes for one epoch."""

    model_config = ConfigDict(extra="forbid")
    epoch: int
    """Number of the agent's launch."""
    argv: list[str]
    """The command line; no shell reads it."""
    env: dict[str, str]
    """The whole environment of the CLI."""
    cwd: str
    """Where the CLI works."""
    secret: str
    """Proves the agent's calls; new for every epoch."""
    base_env: Annotated[
        dict[str, str],
        Field(description="the environment without the engine's and our own variables, for the next launch"),
    ] = {}
    session: Annotated[str | None, Field(description="session id preset for, or resumed by, this launch")] = None
    mac: FileMac = None


class ProcessFile(BaseModel):
    """engine/process.json: the process of the agent's CLI; pids are reused, the three values together are not."""

    model_config = ConfigDict(extra="forbid")
    pid: int
    start: Annotated[
        int, Field(description="clock ticks since boot on Linux; elsewhere hundredths of a second since 1970")
    ]
    boot_id: str
    epoch: int
    mac: FileMac = None


class MemberFile(BaseModel):
    """One member of a squad: its process and its outcome."""

    model_config = ConfigDict(extra="forbid")
    member_id: str
    """The squad's id and the member's position in the call."""
    role_id: str
    """The role, as the caller gave it."""
    cwd: Annotated[str | None, Field(description="as the caller gave it; null: not given")]
    state: Literal["planned", "running", "completed", "error", "timeout"]
    """Planned, running, or how it ended."""
    chat_id: Annotated[str | None, Field(description="of a stateful squad; empty: no chat came about")] = None
    step: Annotated[Literal["create", "run"], Field(description="the command that runs, or ran last")] = "run"
    pid: Annotated[int | None, Field(description="of its process, which leads a process group and session")] = None
    start: Annotated[
        int | None, Field(description="clock ticks since boot on Linux; elsewhere hundredths of a second since 1970")
    ] = None
    boot_id: str | None = None
    """Tells one boot of the machine from another."""
    started_at: At | None = None
    """When its first command began."""
    ended_at: At | None = None
    """When its last command ended."""
    exit_code: int | None = None
    """Of its last command."""
    signal: Annotated[str | None, Field(description="the signal that ended it")] = None
    reason: Annotated[
        str, Field(description="why it did not complete; with state `error` also at the end of rawStderr")
    ] = ""


class SquadFile(BaseModel):
    """squad.json: a squad's members; written before the first is started and at each step of one."""

    model_config = ConfigDict(extra="forbid")
    v: Literal[1]
    """Version of the file's form."""
    squad_id: str
    """The squad."""
    req: Annotated[str, Field(description="the call that asked for it: a re-sent one is answered from here")]
    created_at: At
    stateful: bool
    """Whether the members' chats are kept."""
    members: list[MemberFile]
    """One entry per member, in the order of the call."""
    canceled: bool = False
    """Whether the client has canceled it."""
    ended_at: At | None = None
    """When its last member ended; null before."""
    read_at: Annotated[At | None, Field(description="when all its results were last answered")] = None
    mac: FileMac = None
