"""Configuration: every key, read from its five sources, and where each value came from.

Reads ``.agents/config.toml``, the user's ``config.toml``, environment variables and flags; writes nothing.
Strict on purpose: a mistyped key that is quietly ignored costs a user an afternoon.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.core.engines import ENGINES
from orchestrator.errors import BadRequest
from orchestrator.trust.allowed import Allowed, Class

ENV_PREFIX = "ORCHESTRATOR_"
DEFAULT = "default"
MAX_BYTES = 1 << 20
PROJECT_FILE = ".agents/config.toml"
"""The project file's name in the project: under this its content is allowed."""

HARMLESS_ENGINES = ("", *sorted(row.name for row in ENGINES.values() if row.asks_trust))
"""Engines that a project may choose: a task becomes words for a model, and the CLI asks whether to trust a folder.

`shell` and `command` run what they are given. The others start what a repository's own settings name (MCP servers,
plugins) without a question.
"""

NONE: Mapping[str, Any] = MappingProxyType({})
_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "share": "0.1 to 0.9"}


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
        "After how many empty waits an agent that can be woken is told to end its turn; 0: never.", "waits",
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


@dataclass(frozen=True)
class Loaded:
    """A configuration and, for every key, where its value comes from; immutable.

    ``sources[key]`` is ``default``, ``user config <path>``, ``project config <path>``,
    ``environment <NAME>`` or ``flag --set <key>``. ``withheld`` are values of the project's file that would count if
    its content was allowed, as far as they make a difference; ``ignored`` those that never count from there.
    ``allowed`` is the project file's content if acting values of it count, and ``without`` what holds without those.
    """

    config: Config
    sources: Mapping[str, str]
    withheld: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    allowed: bytes | None = None
    without: Loaded | None = None


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


def project_file(root: Path) -> Path:
    """The project's configuration file, existing or not."""
    return root / PROJECT_FILE


def user_file(env: Mapping[str, str], home: Path | None = None) -> Path:
    """The user's configuration file, existing or not; a relative ``XDG_CONFIG_HOME`` is ignored (XDG says so)."""
    xdg = env.get("XDG_CONFIG_HOME", "")
    if xdg.startswith("/"):
        return Path(xdg) / "orchestrator" / "config.toml"
    if home is None:
        home = Path(env["HOME"]) if env.get("HOME", "").startswith("/") else Path.home()
    return home / ".config" / "orchestrator" / "config.toml"


def load(root: Path, env: Mapping[str, str], flags: Mapping[str, Any] = NONE, home: Path | None = None) -> Loaded:
    """Read all sources and merge them: flags, environment, project file, user file, default.

    Of the project file, values that act count only if the user has allowed its content (`Loaded.withheld`).
    Missing files and empty variables count as not given. Variables that name no key are left alone: the prefix is
    shared with an agent's identity. BadRequest ``bad_config`` names source, key and what is wrong.
    """
    user, project = user_file(env, home), project_file(root)
    of_user = _said(user, content_of(user))
    content = content_of(project)
    said = _said(project, content)
    ours = {key: value for key, value in said.items() if class_of(key) != "own"}
    acting = {key: value for key, value in ours.items() if acts(key, value)}
    harmless = {key: value for key, value in ours.items() if key not in acting}
    # The very bytes that were parsed are compared: a file that changes meanwhile is another one.
    counts = bool(acting) and content is not None and Allowed(root).counts(PROJECT_FILE, content)
    layers = [(f"user config {user}", of_user), (f"project config {project}", harmless)]
    over = [*_of_environment(env), *_of_flags(flags)]
    plain = _merged([*layers, *over])
    ignored = tuple(key for key in said if key not in ours)
    if counts:
        loaded = _merged([*layers, (f"project config {project}", acting), *over])
        return replace(loaded, ignored=ignored, allowed=content, without=plain)
    over_it = {key for _, found in over for key in found}
    withheld = {
        key: value
        for key, value in acting.items()
        if key not in over_it and getattr(plain.config, key) != value  # else it would make no difference
    }
    return replace(plain, withheld=withheld, ignored=ignored)


def acting_of(path: Path, content: bytes) -> dict[str, Any]:
    """What the content of a project's configuration file says that acts; BadRequest ``bad_config`` as `load`."""
    return {key: value for key, value in _said(path, content).items() if acts(key, value)}


def _merged(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> Loaded:
    values: dict[str, Any] = {}
    sources = dict.fromkeys(KEYS, DEFAULT)
    for source, found in layers:
        values |= found
        sources |= dict.fromkeys(found, source)
    return Loaded(Config.model_validate(values), sources)


def _of_environment(env: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in KEYS:
        name = env_name(key)
        text = env.get(name, "")
        if text:
            source = f"environment {name}"
            yield source, {key: _checked(key, _parsed(key, text), source, env=name)}


def _of_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in flags.items():
        key = name.replace("-", "_")
        flag = f"flag --set {key}"
        _refuse_unknown(key, flag, flag=name)
        parsed = _parsed(key, value) if isinstance(value, str) else value
        yield flag, {key: _checked(key, parsed, flag, flag=name)}


def toml_of(path: Path, data: bytes) -> dict[str, Any]:
    """What the content of a TOML file says. BadRequest ``bad_config`` with file and line."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadRequest(
            "bad_config", f"{path} line {line}: not UTF-8", "save the file as UTF-8", file=str(path), line=line
        ) from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) if place else data.count(b"\n") + 1
        raise BadRequest(
            "bad_config", f"{path} line {line}: not valid TOML: {error}", "fix that line", file=str(path), line=line
        ) from error
    except (ValueError, RecursionError) as error:
        # What tomllib leaves to Python: numbers without end, nesting without end.
        raise BadRequest(
            "bad_config", f"{path}: not valid TOML: {type(error).__name__}", "see its values", file=str(path)
        ) from error


def _said(path: Path, content: bytes | None) -> dict[str, Any]:
    """The keys of a configuration file's content, each checked."""
    out: dict[str, Any] = {}
    for key, value in toml_of(path, content or b"").items():
        _refuse_unknown(key, str(path), file=str(path))
        out[key] = _checked(key, value, str(path), file=str(path))
    return out


def content_of(path: Path) -> bytes | None:
    """The bytes of a configuration file; None when there is none. BadRequest ``bad_config`` for what is no such file.

    A pipe or a device in its place is not waited for, and nothing larger than `MAX_BYTES` is read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb") as file:  # noqa: PTH123  (a descriptor, not a path)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise BadRequest("bad_config", f"{path} is not a regular file", "put a file there", file=str(path))
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadRequest("bad_config", f"{path} cannot be read: {error.strerror}", file=str(path)) from error
    if len(data) > MAX_BYTES:
        step = f"at most {MAX_BYTES} bytes are read"
        raise BadRequest("bad_config", f"{path} is too large for a configuration", step, file=str(path))
    return data


def _refuse_unknown(key: str, source: str, **facts: Any) -> None:
    if key in KEYS:
        return
    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
    step = f"did you mean {near[0]!r}?" if near else "orchestrator config show lists every key"
    raise BadRequest("bad_config", f"{source}: unknown key {key[:200]!r}", step, key=key, **facts)


def _checked(key: str, value: Any, source: str, **facts: Any) -> Any:
    try:
        return getattr(Config.model_validate({key: value}), key)
    except ValidationError as error:
        reasons = "; ".join(
            dict.fromkeys(str(item["msg"]).removeprefix("Value error, ") for item in error.errors(include_url=False))
        )
        measure = unit(key)
        step = (
            f"give {key} as a plain number of {_UNIT_WORDS.get(measure, measure)}"
            if measure
            else f"see {key} in orchestrator config show"
        )
        shown = repr(value)[:200]
        raise BadRequest("bad_config", f"{source}: {key} = {shown}: {reasons}", step, key=key, **facts) from error


def _parsed(key: str, text: str) -> Any:
    """The text of a variable or flag as the type of its key; what does not parse stays text and is refused."""
    kind = Config.model_fields[key].annotation
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return int(text) if kind is int else float(text)
    elif key == "border" or kind is bool:
        word = text.lower()
        return True if word in _TRUE else False if word in _FALSE else text
    return text
