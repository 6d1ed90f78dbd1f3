"""The keys of the configuration: default, bounds, unit, and whether a project's file may set them. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator.config.fleet_values import FLEET, AcceptTable, Dsn, Name, Remote
from orchestrator.engines.table import ENGINES
from orchestrator.trust.allowed import Class

ENV_PREFIX = "ORCHESTRATOR_"

HARMLESS_ENGINES = ("", *sorted(row.name for row in ENGINES.values() if row.asks_trust))
"""Engines that a project may choose: a model reads the task, and the CLI asks whether to trust the folder.

`shell` and `command` run what they are given. The other engines start what a repository's settings name (MCP servers,
plugins) without a question.
"""


def _key(
    kind: Class, default: Any, description: str, unit: str = "", *, harmless: tuple[Any, ...] = (), **limits: Any
) -> Any:
    """One key of ``Config``: its class, default, description, unit, and the limits that pydantic checks.

    ``harmless`` are the values of an acting key that permit and start nothing; these count from any file.
    """
    extra: dict[str, Any] = {"unit": unit, "per_connection": False, "class": kind}
    if harmless:
        extra["harmless"] = list(harmless)
    return Field(default=default, description=description, json_schema_extra=extra, **limits)


def _add_env_names(schema: dict[str, Any]) -> None:
    for key, entry in schema["properties"].items():
        entry["env"] = env_name(key)


Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class Config(BaseModel):
    """Every setting of one project's daemon and team; immutable.

    A key with a unit ends in it (``_s`` seconds, ``_ms`` milliseconds). Each field's JSON Schema
    has ``unit``, ``env`` (its variable), ``per_connection`` and ``class`` (what it may do from a file
    of the project) besides the description.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", title="orchestrator config.toml", json_schema_extra=_add_env_names
    )

    engine: str = _key(
        "acting",
        "",
        "Engine of agents that are created without one; empty: the engine of the master's CLI, or shell.",
        harmless=HARMLESS_ENGINES,
    )
    command: str = _key(
        "acting",
        "",
        "Command line of the engine `command`: split as by a shell, run without one; {prompt}, {prompt_file}, {mcp}.",
        harmless=("",),
    )
    approval: Literal["ask", "edits", "all"] = _key(
        "acting",
        "ask",
        "What an agent's CLI may do without asking; ask: as the user's settings say; edits: change files; all.",
        harmless=("ask",),
    )
    trust: bool = _key(
        "acting",
        False,
        "Do not let an agent's CLI ask whether the project's folder is trusted; settings in the folder then count.",
        harmless=(False,),
    )
    trust_by_digest: bool = _key(
        "own", False, "Let orchestrator trust --expect DIGEST allow the files with that digest without a question."
    )
    durability: Literal["fsync", "os"] = _key(
        "harmless",
        "fsync",
        "fsync: a record is written to the disk before it counts; os: the kernel decides when to write it.",
    )
    border: Literal["auto"] | bool = _key(
        "harmless", "auto", "Status line above agent panes; auto: only in windows that have no other panes."
    )
    layout: Literal["even", "focus"] = _key(
        "harmless",
        "even",
        "How agents share a window that is too small for all; even: as many as fit get equal panes; focus: the agent "
        "that needs somebody gets a large pane, the others share strips of small panes.",
    )
    overflow: Literal["refuse", "window"] = _key(
        "harmless", "window", "What happens when the window has no room for an agent: refuse, or open another window."
    )
    min_pane_width: int = _key(
        "harmless",
        0,
        "Smallest width of an agent pane; 0: as its engine needs (30 for shell, 60 for the others).",
        "columns",
        ge=0,
        le=1000,
    )
    min_pane_height: int = _key(
        "harmless",
        0,
        "Smallest height of an agent pane; 0: as its engine needs (5 for shell, 12 for the others).",
        "rows",
        ge=0,
        le=1000,
    )
    master_share: float = _key(
        "harmless", 0.45, "Smallest share of its own pane that the master keeps.", "share", ge=0.1, le=0.9
    )
    tmux_socket: str = _key(
        "harmless", "", "Name of the tmux server (tmux -L) used outside tmux; empty: the user's default server."
    )
    session_width: int = _key(
        "harmless", 220, "Width of the session that is created outside tmux.", "columns", ge=80, le=1000
    )
    session_height: int = _key(
        "harmless", 60, "Height of the session that is created outside tmux.", "rows", ge=24, le=1000
    )
    ready_timeout_s: float = _key(
        "harmless",
        60.0,
        "Maximum time from the launch of a CLI to its first call; after it the agent is `failed`.",
        "s",
        ge=1,
        le=3600,
    )
    park_after: int = _key(
        "harmless", 2,
        "Number of empty waits in a row after which an agent that can be woken is parked; 0: never.", "waits",
        ge=0, le=1000,
    )  # fmt: skip
    ready_wait_ms: int = _key(
        "harmless", 45000, "Default time that agent_create waits for the agent to be ready.", "ms", ge=0, le=110000
    )
    wait_cap_ms: int = _key(
        "harmless",
        55000,
        "Maximum wait of wait_for_command; the limit of the agent's CLI may be lower.",
        "ms",
        ge=0,
        le=3_600_000,
    )
    poll_cap_ms: int = _key(
        "harmless", 45000,
        "Maximum wait_ms of agent_get, events_read and broadcast_read. If it "
        "is not set, the default applies to clients "
        "whose limit for one call is unknown; the others are answered 15 s before their limit.",
        "ms", ge=0, le=3_600_000,
    )  # fmt: skip
    redeliver_after_s: float = _key(
        "harmless", 2.0,
        "Time to wait for the terminal event of an acknowledged task before the task is delivered again.", "s",
        ge=0, le=600,
    )  # fmt: skip
    max_redeliveries: int = _key(
        "harmless",
        3,
        "Maximum number of times an acknowledged task is delivered again within one launch.",
        "times",
        ge=0,
        le=100,
    )
    max_unfinished_tasks: int = _key(
        "harmless", 1000, "Maximum number of unfinished tasks of one agent.", "tasks", ge=1, le=1_000_000
    )
    max_payload_bytes: int = _key(
        "harmless",
        262_144,
        "Maximum size of the payload of a task or an event, as JSON.",
        "bytes",
        ge=1024,
        le=16_777_216,
    )
    max_attachment_bytes: int = _key(
        "harmless",
        10_485_760,
        "Maximum size of one file that `task add --attach` copies for a task.",
        "bytes",
        ge=0,
        le=1_073_741_824,
    )
    restart: Literal["on-failure", "never", "always"] = _key(
        "harmless", "on-failure", "When an agent is launched again after its CLI has exited."
    )
    max_restarts: int = _key(
        "harmless",
        3,
        "How often an agent is launched again within restart_window_s before it is `failed`.",
        "times",
        ge=0,
        le=100,
    )
    restart_window_s: float = _key(
        "harmless", 600.0, "Period in which relaunches count against max_restarts.", "s", ge=1, le=31_536_000
    )
    restart_backoff_s: float = _key(
        "harmless", 1.0,
        "Pause before the second relaunch within restart_window_s; it doubles "
        "with each further one, up to 60 s.", "s",
        ge=0, le=60,
    )  # fmt: skip
    on_lost: Literal["requeue", "fail"] = _key(
        "harmless",
        "requeue",
        "What happens to the running task of a lost agent: back to the head of its queue, or `error`.",
    )
    on_pane_closed: Literal["auto", "cancel", "requeue"] = _key(
        "harmless",
        "auto",
        "What happens to the running task of an agent whose pane a human closes: `canceled`, or back to the head of "
        "its queue; auto: cancel for the engine `shell`, requeue for the others.",
    )
    max_attempts: int = _key(
        "harmless", 2,
        "How often a task may be started before it ends in `error`.", "times",
        ge=1, le=100,
    )  # fmt: skip
    stall_after_s: float = _key(
        "harmless", 300.0,
        "Maximum time that an agent may hold a task without a call and without a change on its screen.", "s",
        ge=1, le=31_536_000,
    )  # fmt: skip
    timeout_grace_s: float = _key(
        "harmless", 30.0,
        "Time from the soft cancel of a task that exceeded its time limit to the restart of its agent.", "s",
        ge=0, le=86_400,
    )  # fmt: skip
    stop_grace_s: float = _key(
        "harmless", 5.0, "Time that agent_delete waits for the agent to stop by itself.", "s", ge=0, le=600
    )
    quit_grace_s: float = _key(
        "harmless", 3.0, "Time from the quit command of an agent's CLI to SIGTERM.", "s", ge=0, le=600
    )
    kill_grace_s: float = _key("harmless", 2.0, "Time from SIGTERM to SIGKILL.", "s", ge=0, le=600)
    on_master_exit: Literal["keep", "stop"] = _key(
        "harmless",
        "keep",
        "What happens to the team when the master's CLI has ended; keep: it continues; stop: it is ended.",
    )
    master_grace_s: float = _key(
        "harmless",
        30.0,
        "With on_master_exit = stop: time to wait for a new master before the team is ended.",
        "s",
        ge=0,
        le=86_400,
    )
    segment_bytes: int = _key(
        "harmless", 16_777_216,
        "Size at which a log is continued in a new file; the old file stays part of the log.", "bytes",
        ge=4096, le=1_073_741_824,
    )  # fmt: skip
    squad_keep_s: float = _key(
        "harmless", 3600.0,
        "How long a squad's results are kept after they were last read. Results that nobody has read are kept for "
        "gc_after_s, if that is longer.", "s",
        ge=0, le=31_536_000,
    )  # fmt: skip
    squad_output_bytes: int = _key(
        "harmless", 65_536,
        "Maximum size of one output of a squad member in an answer; its file has the rest.", "bytes",
        ge=1024, le=1_048_576,
    )  # fmt: skip
    squad_file_bytes: int = _key(
        "harmless", 1_073_741_824, "Maximum size of a squad member's output; a "
        "member that exceeds it is ended.", "bytes",
        ge=65_536, le=1_099_511_627_776,
    )  # fmt: skip
    approvals_master: bool = _key(
        "own", False, "Let a master's CLI answer what agents ask; never for itself. Only your own file can set this."
    )
    approvals_hold: Literal["faces", "always", "never"] = _key(
        "own",
        "faces",
        "When Codex and Gemini CLI wait for an answer from outside, with no dialog in the pane. faces: while top or "
        "the web page is open.",
    )
    approvals_hold_s: float = _key(
        "own",
        600.0,
        "Maximum time that Codex or Gemini CLI waits for an answer from outside; then its own dialog appears.",
        "s",
        ge=1,
        le=86_400,
    )
    notify: list[Literal["tmux", "bell", "desktop", "command"]] = _key(
        "own", ["tmux"], "How you are notified when an agent needs you or fails, or when all tasks have ended."
    )
    notify_command: list[str] = _key(
        "own", [], "Program with its arguments that is started for each notification; it gets JSON on stdin."
    )
    budget_usd: float = _key(
        "harmless",
        0.0,
        "Estimated cost of a team run above which the inbox shows an item; 0: no limit. Nothing is stopped.",
        "USD",
        ge=0,
        le=1_000_000,
    )
    prices: dict[str, dict[Literal["input", "cached", "cache_write", "output"], Price]] = _key(
        "harmless",
        {},
        "Prices of models whose CLI reports no cost, in USD per million tokens, by model name or its beginning.",
    )
    top_keys: dict[str, str] = _key(
        "own", {}, "Keys of orchestrator top, by action name; separate several keys by spaces."
    )
    gc_after_s: float = _key(
        "harmless", 604_800.0,
        "Time after which orchestrator gc removes the data of a deleted agent.", "s",
        ge=0, le=315_360_000,
    )  # fmt: skip
    idle_exit_s: float = _key(
        "harmless", 600.0, "Time without a connection or live agent after which the daemon exits; 0: never.", "s",
        ge=0, le=31_536_000,
    )  # fmt: skip
    log_level: Literal["debug", "info", "warning", "error"] = _key(
        "harmless", "info", "Least severe level that is written to the daemon's log."
    )
    log_format: Literal["logfmt", "json"] = _key(
        "harmless", "logfmt", "Format of the daemon's log; it has one event per line."
    )

    fleet_dsn: Dsn = _key(
        "acting", "",
        "The fleet's PostgreSQL database: postgresql://HOST/DATABASE or key=value, with passfile and no password. "
        "With fleet_project and fleet_host this daemon is a host of the fleet.",
        harmless=("",),
    )  # fmt: skip
    fleet_project: Name = _key("acting", "", "Name of this project in the fleet.", harmless=("",))
    fleet_host: Name = _key("acting", "", "Name of this host in the fleet.", harmless=("",))
    fleet_places: int = _key(
        "harmless", 8, "Number of agents of the fleet for which this host has places.", "agents", ge=1, le=1000
    )
    fleet_on_host_lost: Literal["wait", "move"] = _key(
        "harmless", "wait",
        "What happens to an agent of the fleet whose host is lost; wait: it waits for its host; move: another host "
        "goes on with it.",
    )  # fmt: skip
    fleet_push: Remote = _key(
        "acting", "",
        "Remote of git to which the branches of the fleet's agents are pushed when a task ends; empty: none.",
        harmless=("",),
    )  # fmt: skip
    fleet_accept: AcceptTable = _key(
        "acting", {},
        "What this host takes from other hosts: hosts, engines and roles (lists, `*`: each), the highest approval, "
        "peek, and commands (name = command line) for the engine `command`. Empty: nothing from another host.",
        harmless=({},),
    )  # fmt: skip

    @property
    def in_fleet(self) -> bool:
        """Whether this daemon is a host of a fleet."""
        return all(getattr(self, key) for key in FLEET)

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
    """The unit of a key (``s``, ``ms``, ``bytes``, ...); "" if it has none."""
    extra = Config.model_fields[key].json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def class_of(key: str) -> Class:
    """What a key may do when a file of the project sets it."""
    extra = Config.model_fields[key].json_schema_extra
    return cast("Class", extra["class"]) if isinstance(extra, dict) else "own"


def acts(key: str, value: Any) -> bool:
    """Whether this value of the key can start, permit or redirect something, and so needs the user's approval."""
    extra = Config.model_fields[key].json_schema_extra
    return (
        class_of(key) == "acting"
        and isinstance(extra, dict)
        and value not in cast("list[Any]", extra.get("harmless", []))
    )
