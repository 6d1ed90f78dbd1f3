"""The configuration: its keys, read from five sources, and where each value came from.

Reads ``.agents/config.toml``, the user's ``config.toml``, environment variables and flags; writes nothing.
Strict on purpose: a mistyped key that is quietly ignored costs a user an afternoon.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_origin

from pydantic import ValidationError

from orchestrator.base.errors import BadRequest
from orchestrator.config.fleet_values import FLEET
from orchestrator.config.keys import KEYS, Config, acts, class_of, env_name, unit
from orchestrator.trust.allowed import Allowed

DEFAULT = "default"
MAX_BYTES = 1 << 20
PROJECT_FILE = ".agents/config.toml"
"""The project file's name in the project: under this its content is allowed."""

NONE: Mapping[str, Any] = MappingProxyType({})
NOT_SHOWN = frozenset({"fleet_dsn"})
"""Keys whose refused value no error repeats: it may have a password in it."""
FILE_ONLY = frozenset({"approvals_master"})
"""Keys that only the user's file sets: whoever starts a daemon, a master too, gives it environment and flags."""
_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "share": "0.1 to 0.9"}


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

    Acting values of the project file count only if the user has allowed its content (`Loaded.withheld`). Missing
    files and empty variables count as not given. Variables that name no key are ignored, because an agent's identity
    uses the same prefix. BadRequest ``bad_config`` names source, key and fault.
    """
    user, project = user_file(env, home), project_file(root)
    of_user = _checked_keys(user, content_of(user))
    content = content_of(project)
    of_project = _checked_keys(project, content)
    ours = {key: value for key, value in of_project.items() if class_of(key) != "own"}
    acting = {key: value for key, value in ours.items() if acts(key, value)}
    harmless = {key: value for key, value in ours.items() if key not in acting}
    # The very bytes that were parsed are compared: a file that changes meanwhile is another one.
    counts = bool(acting) and content is not None and Allowed(root).counts(PROJECT_FILE, content)
    layers = [(f"user config {user}", of_user), (f"project config {project}", harmless)]
    over = [*_of_environment(env), *_of_flags(flags)]
    plain = _merged([*layers, *over])
    ignored = tuple(key for key in of_project if key not in ours)
    if counts:
        loaded = _merged([*layers, (f"project config {project}", acting), *over])
        _refuse_half_fleet(loaded)
        return replace(loaded, ignored=ignored, allowed=content, without=plain)
    over_it = {key for _, settings in over for key in settings}
    withheld = {
        key: value
        for key, value in acting.items()
        if key not in over_it and getattr(plain.config, key) != value  # else it would make no difference
    }
    _refuse_half_fleet(plain, withheld)
    return replace(plain, withheld=withheld, ignored=ignored)


def acting_of(path: Path, content: bytes) -> dict[str, Any]:
    """What the content of a project's configuration file says that acts; BadRequest ``bad_config`` as `load`."""
    return {key: value for key, value in _checked_keys(path, content).items() if acts(key, value)}


def _merged(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> Loaded:
    values: dict[str, Any] = {}
    sources = dict.fromkeys(KEYS, DEFAULT)
    for source, settings in layers:
        values |= settings
        sources |= dict.fromkeys(settings, source)
    return Loaded(Config.model_validate(values), sources)


def _of_environment(env: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in KEYS:
        name = env_name(key)
        text = env.get(name, "")
        if text:
            source = f"environment {name}"
            _refuse_elsewhere(key, source, env=name)
            yield source, {key: _checked(key, _parsed(key, text), source, env=name)}


def _of_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in flags.items():
        key = name.replace("-", "_")
        flag = f"flag --set {key}"
        _refuse_unknown(key, flag, flag=name)
        _refuse_elsewhere(key, flag, flag=name)
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


def _checked_keys(path: Path, content: bytes | None) -> dict[str, Any]:
    """The keys of a configuration file's content, each checked."""
    out: dict[str, Any] = {}
    for key, value in _flat(toml_of(path, content or b"")):
        if key in out:
            raise BadRequest("bad_config", f"{path}: {key} is given twice", "keep one of them", file=str(path))
        _refuse_unknown(key, str(path), file=str(path))
        out[key] = _checked(key, value, str(path), file=str(path))
    return out


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of a file; a table holds the keys that begin with its name: ``approvals.hold``, ``approvals_hold``."""
    for name, value in settings.items():
        if isinstance(value, dict) and name not in KEYS:
            known = any(key.startswith(f"{name}_") for key in KEYS)
            yield from ((f"{name}_{part}", inner) for part, inner in value.items()) if known else ((name, value),)
        else:
            yield name, value


def content_of(path: Path) -> bytes | None:
    """The bytes of a configuration file; None if there is none. BadRequest ``bad_config`` if it is no regular file.

    A pipe or device in its place does not block, and a file larger than `MAX_BYTES` is not read.
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


def _refuse_elsewhere(key: str, source: str, **facts: Any) -> None:
    if key in FILE_ONLY:
        raise BadRequest(
            "bad_config",
            f"{source}: only your own configuration file can set {key}",
            "set it there",
            key=key,
            **facts,
        )


def _refuse_half_fleet(loaded: Loaded, withheld: Mapping[str, Any] = NONE) -> None:
    """BadRequest ``bad_config`` if a fleet is named in part, unless the rest waits for the user's word."""
    given = [key for key in FLEET if getattr(loaded.config, key)]
    missing = [key for key in FLEET if key not in given]
    if given and any(key not in withheld for key in missing):
        raise BadRequest(
            "bad_config",
            f"{loaded.sources[given[0]]}: {given[0]} is set without {' and '.join(missing)}",
            f"set {', '.join(FLEET)}, or none of them",
            key=missing[0],
        )


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
        shown = key if key in NOT_SHOWN else f"{key} = {repr(value)[:200]}"
        cause = None if key in NOT_SHOWN else error  # it repeats the value too
        raise BadRequest("bad_config", f"{source}: {shown}: {reasons}", step, key=key, **facts) from cause


def _parsed(key: str, text: str) -> Any:
    """The text of a variable or flag as the type of its key; what does not parse stays text and is refused."""
    kind = Config.model_fields[key].annotation
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return int(text) if kind is int else float(text)
    elif get_origin(kind) in (list, dict):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
    elif key == "border" or kind is bool:
        word = text.lower()
        return True if word in _TRUE else False if word in _FALSE else text
    return text
