"""The team file, `.agents/team.toml`: its keys, and the agents it describes.

Reads the file and resolves each cwd; writes nothing. `team_plan` decides what to do with it.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from orchestrator.base.errors import BadRequest
from orchestrator.config import sources
from orchestrator.config.keys import HARMLESS_ENGINES
from orchestrator.core.agent_ids import slug
from orchestrator.engines.table import ENGINES
from orchestrator.journal.project_files import confine
from orchestrator.trust.allowed import Class

TEAM_FILE = ".agents/team.toml"
"""In the project; `orchestrator up` can be given another one."""
MAX_AGENTS = 64
"""As many as one agents_create makes."""
MAX_NAME = 80
MISTAKES_SHOWN = 20
_OURS = "orchestrator"  # the type of pydantic's errors that our own checks raise


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _class(kind: Class, harmless: tuple[Any, ...] = ()) -> dict[str, Any]:
    """What a key may do in a file of the project; ``harmless`` are values that do nothing."""
    return {"class": kind, **({"harmless": list(harmless)} if harmless else {})}


_HARMLESS = Field(json_schema_extra=_class("harmless"))


def _known_engine(name: str) -> str:
    if name and name not in ENGINES:
        raise PydanticCustomError(
            _OURS, "no engine is called {name}", {"name": repr(name), "step": _near(name, ENGINES)}
        )
    return name


def _usable_name(name: str) -> str:
    try:
        slug(name)
    except BadRequest as error:
        raise PydanticCustomError(_OURS, "{text}", {"text": error.message, "step": error.next_step}) from None
    if len(name) > MAX_NAME:
        text = f"a name has at most {MAX_NAME} characters"
        raise PydanticCustomError(_OURS, "{text}", {"text": text, "step": "shorten it"})
    return name


class Policies(_Table):
    """What differs for an agent from the configuration; each default is the setting of the same name."""

    restart: Annotated[Literal["on-failure", "never", "always"] | None, _HARMLESS] = None
    max_restarts: Annotated[int | None, Field(ge=0, le=100), _HARMLESS] = None
    restart_window_s: Annotated[float | None, Field(ge=1, le=31_536_000), _HARMLESS] = None
    on_lost: Annotated[Literal["requeue", "fail"] | None, _HARMLESS] = None
    on_pane_closed: Annotated[Literal["cancel", "requeue"] | None, _HARMLESS] = None
    max_attempts: Annotated[int | None, Field(ge=1, le=100), _HARMLESS] = None
    stall_after_s: Annotated[float | None, Field(ge=1, le=31_536_000), _HARMLESS] = None
    on_host_lost: Annotated[Literal["wait", "move"] | None, _HARMLESS] = None


class Defaults(_Table):
    """What holds for every agent that does not say otherwise; `env` and `policies` are merged key by key."""

    engine: Annotated[
        str,
        AfterValidator(_known_engine),
        Field(
            max_length=64,
            description="which CLI to run; empty: as configured",
            json_schema_extra=_class("acting", HARMLESS_ENGINES),
        ),
    ] = ""
    model: Annotated[
        str, Field(max_length=200, description="model of that CLI; empty: the CLI's own choice"), _HARMLESS
    ] = ""
    approval: Annotated[
        Literal["ask", "edits", "all"] | None,
        Field(
            description="what its CLI may do unasked; default: as configured",
            json_schema_extra=_class("acting", ("ask",)),
        ),
    ] = None
    # Confined to the project (`confine`).
    cwd: Annotated[str, Field(max_length=4096, description="where it works; relative to the project"), _HARMLESS] = (
        "."
    )
    env: Annotated[
        dict[str, str],
        Field(
            description="variables; $NAME and ${NAME} are the caller's own, $$ is a dollar sign",
            json_schema_extra=_class("acting", ({},)),
        ),
    ] = {}
    command: Annotated[
        list[str],
        Field(
            max_length=200,
            description="of engine command: its command line",
            json_schema_extra=_class("acting", ([],)),
        ),
    ] = []
    policies: Annotated[Policies, _HARMLESS] = Policies()
    worktree: Annotated[bool, Field(description="it gets a git worktree and branch of its own"), _HARMLESS] = False
    host: Annotated[
        str, Field(max_length=63, description="host of the fleet, or any; empty: this one, not in a fleet"), _HARMLESS
    ] = ""


class DescribedAgent(Defaults):
    """One agent; the key of its table is its name."""

    role: Annotated[
        str, Field(min_length=1, max_length=80, description="what it is for, as shown to humans"), _HARMLESS
    ]


class TeamFile(_Table):
    """The whole file. Each agent in it is an acting setting: `orchestrator up` starts a program for it."""

    defaults: Annotated[Defaults, _HARMLESS] = Defaults()
    agents: Annotated[
        dict[Annotated[str, AfterValidator(_usable_name)], DescribedAgent],
        Field(min_length=1, max_length=MAX_AGENTS, json_schema_extra=_class("acting")),
    ]


@dataclass(frozen=True)
class TeamFileAgent:
    """One agent as the file describes it, defaults taken in; ``cwd`` is absolute. None: left to the configuration."""

    name: str
    role: str
    engine: str | None
    model: str | None
    approval: str | None
    cwd: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    policies: Mapping[str, Any]
    worktree: bool
    host: str = ""

    def arguments(self, variables: Mapping[str, str]) -> dict[str, Any]:
        """What agents_create takes; BadRequest ``bad_config`` when `env` names a variable that is not set."""
        arguments = {
            "name": self.name,
            "role": self.role,
            "engine": self.engine,
            "model": self.model,
            "approval": self.approval,
            "cwd": self.cwd,
            "command": list(self.command),
            "env": {key: self._filled(key, text, variables) for key, text in self.env.items()},
            "policies": dict(self.policies),
            "worktree": self.worktree,
            "host": self.host,
        }
        return {key: value for key, value in arguments.items() if value}

    def _filled(self, key: str, text: str, variables: Mapping[str, str]) -> str:
        where = f"agents.{self.name}.env.{key}"
        try:
            return string.Template(text).substitute(variables)
        except KeyError as error:
            name = str(error.args[0])
            raise BadRequest(
                "bad_config",
                f"{where}: the variable {name} is not set here",
                f"set {name}, or write $$ for a dollar sign",
                key=where,
            ) from None
        except ValueError:
            raise BadRequest(
                "bad_config", f"{where}: a $ that names no variable", "write $$ for a dollar sign", key=where
            ) from None


def load(path: Path, root: Path) -> list[TeamFileAgent]:
    """The agents that the file describes, in its order; BadRequest ``bad_config`` with file, key, nearest name."""
    return parse(path, content_of(path), root)


def content_of(path: Path) -> bytes:
    """The content of a team file; BadRequest ``bad_config`` when there is none, or it cannot be read."""
    content = sources.content_of(path)
    if content is None:
        raise BadRequest(
            "bad_config", f"there is no team file {path}", "docs/team.md shows how to write one", file=str(path)
        )
    return content


def parse(path: Path, content: bytes, root: Path) -> list[TeamFileAgent]:
    """As `load`, of a content that was read already. The error names every mistake of the file."""
    file = _file(path, content)
    agents: list[TeamFileAgent] = []
    mistakes: list[_Mistake] = []
    for name, agent in file.agents.items():
        try:
            agents.append(_wanted(name, file, agent, root))
        except BadRequest as error:
            mistakes.append(_Mistake(f"agents.{name}.cwd", f"agents.{name}.cwd: {error.message}", error.next_step))
    if mistakes:
        raise _explained(mistakes, path)
    return agents


def acting_of(path: Path, content: bytes) -> dict[str, Any]:
    """What a team file says that acts: its agents, and of each and of the defaults the keys that permit or run.

    BadRequest ``bad_config`` as `load`.
    """
    file = _file(path, content)
    settings: dict[str, Any] = _acting("defaults", file.defaults)
    for name, agent in file.agents.items():
        settings[f"agents.{name}"] = {
            "role": agent.role,
            "engine": agent.engine or file.defaults.engine or "as configured",
        }
        settings |= _acting(f"agents.{name}", agent)
    return settings


def _acting(where: str, table: Defaults) -> dict[str, Any]:
    settings = table.model_dump(exclude_unset=True)
    return {f"{where}.{key}": value for key, value in settings.items() if acts(key, value)}


def acts(key: str, value: Any) -> bool:
    """Whether the value of that key of an agent's table can run, permit or redirect something."""
    extra = DescribedAgent.model_fields[key].json_schema_extra
    return (
        isinstance(extra, dict) and extra["class"] == "acting" and value not in cast("list[Any]", extra["harmless"])
    )


def _file(path: Path, content: bytes) -> TeamFile:
    try:
        return TeamFile.model_validate(sources.toml_of(path, content))
    except ValidationError as error:
        items = error.errors(include_url=False, include_input=False)
        raise _explained([_mistake(item) for item in items], path) from None


def _wanted(name: str, file: TeamFile, agent: DescribedAgent, root: Path) -> TeamFileAgent:
    settings = file.defaults.model_dump(exclude_unset=True) | agent.model_dump(exclude_unset=True)
    engine = str(settings.get("engine", ""))
    cwd = str(confine(root, str(settings.get("cwd", ".")), what="cwd"))
    policies = file.defaults.policies.model_dump(exclude_none=True) | agent.policies.model_dump(exclude_none=True)
    return TeamFileAgent(
        name=name,
        role=agent.role,
        engine=engine or None,
        model=settings.get("model") or None,
        approval=settings.get("approval"),
        cwd=cwd,
        command=tuple(settings.get("command", ())),
        env=file.defaults.env | agent.env,
        policies=policies,
        worktree=bool(settings.get("worktree", False)),
        host=str(settings.get("host") or ""),
    )


class _Mistake(NamedTuple):
    """One mistake of a team file: the key, a sentence about it, and what to do."""

    key: str
    text: str
    step: str


def _mistake(item: ErrorDetails) -> _Mistake:
    keys = [str(part) for part in item["loc"] if part != "[key]"]
    where = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in ".".join(keys) or "the file"
    )
    if item["type"] == "extra_forbidden":
        return _Mistake(where, f"unknown key '{where}'", _near(keys[-1], _keys_at(keys[:-1])))
    if item["type"] == "missing" and keys[-1] in ("role", "agents"):
        step = 'every agent needs role = "..."' if keys[-1] == "role" else "describe each agent in [agents.NAME]"
        return _Mistake(where, f"{where} is missing", step)
    step = str(item["ctx"]["step"]) if item["type"] == _OURS else "docs/team.md shows every key"
    return _Mistake(where, f"{where}: {item['msg']}", step)


def _explained(mistakes: Sequence[_Mistake], path: Path) -> BadRequest:
    """All that is wrong with the file; ``key`` names the first."""
    first = mistakes[0]
    if len(mistakes) == 1:
        return BadRequest("bad_config", f"{path}: {first.text}", first.step, file=str(path), key=first.key)
    lines = [f"  {mistake.text}; {mistake.step}" for mistake in mistakes[:MISTAKES_SHOWN]]
    if len(mistakes) > MISTAKES_SHOWN:
        lines.append(f"  and {len(mistakes) - MISTAKES_SHOWN} more")
    message = "\n".join([f"{path} has {len(mistakes)} mistakes:", *lines])
    return BadRequest("bad_config", message, "docs/team.md shows every key", file=str(path), key=first.key)


def _keys_at(place: Sequence[str]) -> Iterable[str]:
    model: type[BaseModel] = TeamFile
    if place and place[-1] == "policies":
        model = Policies
    elif place:
        model = DescribedAgent if place[0] == "agents" else Defaults
    return model.model_fields


def _near(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
