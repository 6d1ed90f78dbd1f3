"""The keys of the configuration: default, bounds, unit, and whether a project's file may set them. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator.engines.table import ENGINES
from orchestrator.trust.allowed import Class

ENV_PREFIX = "ORCHESTRATOR_"

HARMLESS_ENGINES = ("", *sorted(row.name for row in ENGINES.values() if row.asks_trust))
"""Engines that a project may choose: a task becomes words for a model, and the CLI asks whether to trust a folder.

`shell` and `command` run what they are given. The others start what a repository's own settings name (MCP servers,
plugins) without a question.
"""


def _key(
    kind: Class, default: Any, description: str, unit: str = "", *, harmless: tuple[Any, ...] = (), **limits: Any
) -> Any:
    """One key of ``Config``: its class, its default, what it does, its unit, and the bounds pydantic checks.

    ``harmless`` are the values of an acting key that permit and run nothing: these count from anywhere.
    """
    extra: dict[str, Any] = {"unit": unit, "per_connection": False, "class": kind}
    if harmless:
        extra["harmless"] = list(harmless)
    return Field(default=default, description=description, json_schema_extra=extra, **limits)


def _add_env_names(schema: dict[str, Any]) -> None:
    for key, said in schema["properties"].items():
        said["env"] = env_name(key)


class Config(BaseModel):
    """Every setting of one project's daemon and team; immutable.

    Keys end in their unit where they have one (``_s`` seconds, ``_ms`` milliseconds). Each field's
    JSON Schema holds ``unit``, ``env`` (its variable), ``per_connection`` and ``class`` (what it may do from a file
    of the project) beside the description.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", title="orchestrator config.toml", json_schema_extra=_add_env_names
    )

    engine: str = _key(
        "acting",
        "",
        "Engine of agents created without one; empty: the kind of the master's client, else shell.",
        harmless=HARMLESS_ENGINES,
    )
    command: str = _key(
        "acting",
        "",
        "Command line of engine `command`, split as a shell would, not run by one; {prompt}, {prompt_file}, {mcp}.",
        harmless=("",),
    )
    approval: Literal["ask", "edits", "all"] = _key(
        "acting",
        "ask",
        "What an agent's CLI may do unasked: ask: as the user has it; edits: change files; all: everything.",
        harmless=("ask",),
    )
    trust: bool = _key(
        "acting",
        False,
        "Spare an agent's CLI its question whether the project's folder is trusted; settings in it then count.",
        harmless=(False,),
    )
    trust_by_digest: bool = _key(
        "own", False, "Let orchestrator trust --expect DIGEST allow what has that digest, without a question."
    )
    durability: Literal["fsync", "os"] = _key(
        "harmless", "fsync", "fsync: a record is on the disk before it counts; os: the kernel decides when it is."
    )
    border: Literal["auto"] | bool = _key(
        "harmless", "auto", "Status line above agent panes; auto: only in windows without other panes of the user."
    )
    overflow: Literal["refuse", "window"] = _key(
        "harmless", "refuse", "What happens when the window has no room for an agent: refuse, or open another window."
    )
    min_pane_width: int = _key("harmless", 30, "Narrowest agent pane.", "columns", ge=2, le=1000)
    min_pane_height: int = _key("harmless", 5, "Lowest agent pane.", "rows", ge=1, le=1000)
    master_share: float = _key(
        "harmless", 0.45, "Smallest part of the master's own pane that it keeps.", "share", ge=0.1, le=0.9
    )
    tmux_socket: str = _key(
        "harmless", "", "Name of the tmux server (tmux -L) used outside tmux; empty: the user's default server."
    )
    session_width: int = _key("harmless", 220, "Width of the session made outside tmux.", "columns", ge=80, le=1000)
    session_height: int = _key("harmless", 60, "Height of the session made outside tmux.", "rows", ge=24, le=1000)
    ready_timeout_s: float = _key(
        "harmless",
        60.0,
        "How long a launched CLI may take to its first call before the agent is failed.",
        "s",
        ge=1,
        le=3600,
    )
    park_after: int = _key(
        "harmless", 2,
        "Number of empty waits in a row after which an agent that can be woken is asked to park; 0: never.", "waits",
        ge=0, le=1000,
    )  # fmt: skip
    ready_wait_ms: int = _key(
        "harmless", 45000, "How long agent_create waits for the first ready by default.", "ms", ge=0, le=110000
    )
    wait_cap_ms: int = _key(
        "harmless", 55000, "Longest wait_for_command; the engine's tool limit may be lower.", "ms", ge=0, le=3_600_000
    )
    poll_cap_ms: int = _key(
        "harmless", 45000,
        "Longest wait_ms of agent_get, events_read and broadcast_read. Not set: that of clients whose limit for one "
        "call is not known; a known one is answered 15 s before its limit.",
        "ms", ge=0, le=3_600_000,
    )  # fmt: skip
    redeliver_after_s: float = _key(
        "harmless", 2.0,
        "How long an acknowledged task's terminal event is awaited before it is handed out again.", "s",
        ge=0, le=600,
    )  # fmt: skip
    max_redeliveries: int = _key(
        "harmless",
        3,
        "How often one life of an agent is handed the same acknowledged task again.",
        "times",
        ge=0,
        le=100,
    )
    max_unfinished_tasks: int = _key(
        "harmless", 1000, "Unfinished tasks one agent may have.", "tasks", ge=1, le=1_000_000
    )
    max_payload_bytes: int = _key(
        "harmless", 262_144, "Largest payload of a task or an event, as JSON.", "bytes", ge=1024, le=16_777_216
    )
    restart: Literal["on-failure", "never", "always"] = _key(
        "harmless", "on-failure", "When an agent whose CLI has exited is launched again."
    )
    max_restarts: int = _key(
        "harmless",
        3,
        "How often an agent is launched again within restart_window_s before it is failed.",
        "times",
        ge=0,
        le=100,
    )
    restart_window_s: float = _key(
        "harmless", 600.0, "How far back launches count against max_restarts.", "s", ge=1, le=31_536_000
    )
    restart_backoff_s: float = _key(
        "harmless", 1.0,
        "Pause before the second relaunch within the window; doubles with each further one, up to 60 s.", "s",
        ge=0, le=60,
    )  # fmt: skip
    on_lost: Literal["requeue", "fail"] = _key(
        "harmless", "requeue", "What becomes of the task a lost agent held: back to the head of its queue, or error."
    )
    max_attempts: int = _key(
        "harmless", 2,
        "How often one task may be handed to a new life of its agent before it ends in error.", "times",
        ge=1, le=100,
    )  # fmt: skip
    stall_after_s: float = _key(
        "harmless", 300.0,
        "How long an agent may hold a task without a call and without a change on its screen.", "s",
        ge=1, le=31_536_000,
    )  # fmt: skip
    timeout_grace_s: float = _key(
        "harmless", 30.0,
        "How long after the soft cancel of a task that ran out of time its agent is launched anew.", "s",
        ge=0, le=86_400,
    )  # fmt: skip
    stop_grace_s: float = _key(
        "harmless", 5.0, "How long agent_delete waits for the agent to stop by itself.", "s", ge=0, le=600
    )
    quit_grace_s: float = _key(
        "harmless", 3.0, "How long after its own quit command an agent's CLI gets SIGTERM.", "s", ge=0, le=600
    )
    kill_grace_s: float = _key("harmless", 2.0, "How long after SIGTERM a process gets SIGKILL.", "s", ge=0, le=600)
    on_master_exit: Literal["keep", "stop"] = _key(
        "harmless", "keep", "What becomes of the team when the master's CLI has ended: it works on, or is ended too."
    )
    master_grace_s: float = _key(
        "harmless", 30.0, "With on_master_exit = stop: how long a new master may take to come.", "s", ge=0, le=86_400
    )
    segment_bytes: int = _key(
        "harmless", 16_777_216,
        "A larger log goes on in a new file; the old one stays readable as part of it.", "bytes",
        ge=4096, le=1_073_741_824,
    )  # fmt: skip
    squad_keep_s: float = _key(
        "harmless", 3600.0,
        "How long after its end, or after its results were last read, a squad's results are kept.", "s",
        ge=0, le=31_536_000,
    )  # fmt: skip
    squad_output_bytes: int = _key(
        "harmless", 65_536,
        "How much of one output of a squad member is answered; the rest stays in its file.", "bytes",
        ge=1024, le=1_048_576,
    )  # fmt: skip
    squad_file_bytes: int = _key(
        "harmless", 1_073_741_824, "A squad member whose output grows beyond this is ended.", "bytes",
        ge=65_536, le=1_099_511_627_776,
    )  # fmt: skip
    gc_after_s: float = _key(
        "harmless", 604_800.0,
        "How long ago an agent must have been deleted for orchestrator gc to remove its data.", "s",
        ge=0, le=315_360_000,
    )  # fmt: skip
    idle_exit_s: float = _key(
        "harmless", 600.0, "The daemon exits after this long without connection or live agent; 0: never.", "s",
        ge=0, le=31_536_000,
    )  # fmt: skip
    log_level: Literal["debug", "info", "warning", "error"] = _key(
        "harmless", "info", "Least severe line of the daemon's log."
    )
    log_format: Literal["logfmt", "json"] = _key(
        "harmless", "logfmt", "Form of the daemon's log: one event per line."
    )

    @field_validator("engine")
    @classmethod
    def _engine_exists(cls, value: str) -> str:
        if value and value not in ENGINES:
            raise ValueError(f"no engine is called {value!r}; there are: {', '.join(sorted(ENGINES))}")
        return value

    @field_validator("tmux_socket")
    @classmethod
    def _socket_is_a_name(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
            raise ValueError("it is the name of a tmux server (tmux -L), not a path")
        return value


KEYS: tuple[str, ...] = tuple(Config.model_fields)


def env_name(key: str) -> str:
    """The environment variable of a key: ``ORCHESTRATOR_<KEY>``."""
    return ENV_PREFIX + key.upper()


def unit(key: str) -> str:
    """The unit of a key (``s``, ``ms``, ``bytes``, ...), empty where it has none."""
    extra = Config.model_fields[key].json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def class_of(key: str) -> Class:
    """What a key may do when a file of the project says it."""
    extra = Config.model_fields[key].json_schema_extra
    return cast("Class", extra["class"]) if isinstance(extra, dict) else "own"


def acts(key: str, value: Any) -> bool:
    """Whether the value of that key can run, permit or redirect something, and so needs the user's word."""
    extra = Config.model_fields[key].json_schema_extra
    return class_of(key) == "acting" and isinstance(extra, dict) and value not in cast("list[Any]", extra["harmless"])
