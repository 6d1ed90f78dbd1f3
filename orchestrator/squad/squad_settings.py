"""Read and check the squad settings of one connection: its variables and the template files they name.

Users set them in the `env` block of our server entry in their CLI, so they hold for that connection, whoever started
the daemon. Every error in them is raised here, before any process is spawned.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.base.errors import BadRequest
from orchestrator.config.keys import Config
from orchestrator.engines.definition import Engine
from orchestrator.engines.table import ENGINES, engine_of_client
from orchestrator.squad import command_template
from orchestrator.squad.command_template import Template
from orchestrator.trust.allowed import Allowed, name_of
from orchestrator.trust.untrusted_settings import untrusted

SquadMode = Literal["stateless", "stateful"]
TIMEOUT_MS = 600_000
TIMEOUT_MAX_MS = 7 * 86_400_000
PARALLEL = 4
PARALLEL_MAX = 64
TEMPLATE_MAX = 64 * 1024
SEQUENTIAL = frozenset(row.program for row in ENGINES.values() if row.headless and row.headless.sequential)
"""Programs of which several at once disturb each other."""
OF_A_PROGRAM = (
    "ENGINE_COMMAND", "RUN_TEMPLATE_PATH", "RUN_TEMPLATE", "CREATE_CHAT_TEMPLATE_PATH", "CREATE_CHAT_TEMPLATE"
)  # fmt: skip
"""The variables that say how one program is called."""


@dataclass(frozen=True)
class SquadSettings:
    """The settings of one connection's squads.

    ``run`` and ``create`` are the user's templates; without ``run`` the engine's headless form is run.
    ``parallel`` is None if the program decides (`SEQUENTIAL`). ``withheld`` names the project's templates that
    would be used if the user had allowed them.
    """

    mode: SquadMode
    timeout_s: float
    most: int
    execution: Literal["sequential", "parallel"] | None
    engine_command: str
    row: Engine | None
    run: Template | None
    create: Template | None
    withheld: tuple[str, ...] = ()

    @property
    def stateful(self) -> bool:
        return self.mode == "stateful"

    def together(self, program: str) -> int:
        """How many members may run at once, when their program is ``program``."""
        one_by_one = self.execution == "sequential"
        if self.execution is None:
            by_row = self.row is not None and self.row.headless is not None and self.row.headless.sequential
            one_by_one = by_row or Path(program).name in SEQUENTIAL
        return 1 if one_by_one else self.most


def mode_of(env: Mapping[str, str]) -> SquadMode:
    """STATE_MODE; BadRequest ``bad_config`` for anything but its two words."""
    return _word(env, "STATE_MODE", ("stateless", "stateful")) or "stateless"  # type: ignore[return-value]  # one of them


def warnings_of(env: Mapping[str, str]) -> list[str]:
    """Variables that are set twice with different values: the first name wins (C1)."""
    pairs = (
        ("RUN_TEMPLATE_PATH", "RUN_TEMPLATE"),
        ("CREATE_CHAT_TEMPLATE_PATH", "CREATE_CHAT_TEMPLATE"),
    )
    return [
        f"{first} and {second} are both set and differ; {first} is used"
        for first, second in pairs
        if env.get(first) and env.get(second) and env[first] != env[second]
    ]


def read(env: Mapping[str, str], root: Path, config: Config, client_name: str) -> SquadSettings:
    """The settings of a connection; BadRequest ``bad_config``, ``bad_template`` or ``unknown_engine``.

    Environment ``untrusted_setting`` when a variable names a template of the project that nobody has allowed.
    """
    engine_command = env.get("ENGINE_COMMAND", "").strip()
    named = _row_of(env.get("ENGINE", ""))
    files = _Files(root)
    run = _template(env, files, "RUN_TEMPLATE", "run", named)
    create = _template(env, files, "CREATE_CHAT_TEMPLATE", "create-chat", named)
    execution = _word(env, "EXECUTION_MODE", ("sequential", "parallel"))
    return SquadSettings(
        mode=mode_of(env),
        timeout_s=_number(env, "PROCESS_TIMEOUT_MS", TIMEOUT_MS, TIMEOUT_MAX_MS) / 1000,
        most=_number(env, "MAX_PARALLEL_MEMBERS", PARALLEL, PARALLEL_MAX),
        execution=execution,  # type: ignore[arg-type]  # one of the two
        engine_command=engine_command,
        row=named or _guessed(engine_command, run, config, client_name),
        run=run,
        create=create,
        withheld=tuple(files.withheld),
    )


def of_engine(env: Mapping[str, str], name: str) -> dict[str, str]:
    """The variables of a connection for members of the engine ``name``, which replaces ENGINE.

    Variables on how a program is called apply if they belong to that engine, and are left out if they belong to
    another. BadRequest ``unknown_engine``.
    """
    fit = _headless()
    if name not in fit:
        raise BadRequest(
            "unknown_engine", f"no engine is called {name[:80]!r}; squads support: {', '.join(sorted(fit))}"
        )
    named = env.get("ENGINE", "")
    theirs = fit.get(named) if named else _row_of_command(env.get("ENGINE_COMMAND", "").strip())
    kept = env if theirs is fit[name] else {key: env[key] for key in env if key not in OF_A_PROGRAM}
    return {**kept, "ENGINE": name}


def _headless() -> dict[str, Engine]:
    """The rows that squads can run, by their own names and their programs'."""
    fit = {row.name: row for row in ENGINES.values() if row.headless is not None}
    return fit | {row.program: row for row in fit.values() if row.program}


def _row_of(name: str) -> Engine | None:
    """The row that ENGINE names, by its own name or its program's; None when nothing is named."""
    if not name:
        return None
    fit = _headless()
    if name not in fit:
        raise BadRequest("unknown_engine", f"ENGINE is {name!r}; squads support: {', '.join(sorted(fit))}")
    return fit[name]


def _guessed(engine_command: str, run: Template | None, config: Config, client_name: str) -> Engine | None:
    """Without ENGINE: the row of the command's program; without a command the configured one, or the master's kind.

    A command that no row knows has none, nor has a template that is the whole command itself.
    """
    if engine_command:
        return _row_of_command(engine_command)
    if run is not None:
        return None
    rows = (ENGINES.get(config.engine), engine_of_client(client_name))
    return next((row for row in rows if row is not None and row.headless is not None), None)


def _row_of_command(engine_command: str) -> Engine | None:
    try:
        words = shlex.split(engine_command)
    except ValueError as error:
        raise BadRequest("bad_config", f"ENGINE_COMMAND is not a command line: {error}") from error
    return _headless().get(Path(words[-1]).name) if words else None


def customary() -> list[str]:
    """The names of the template files that are taken from a project by custom."""
    named = sorted(_headless())
    return [_usual(kind, name) for kind in ("run", "create-chat") for name in (_UNNAMED[kind], *named)]


def named_by(env: Mapping[str, str], root: Path) -> list[str]:
    """The names in the project of the template files that the variables of a connection name."""
    names = []
    for path in (_path_of(env, name) for name in ("RUN_TEMPLATE", "CREATE_CHAT_TEMPLATE")):
        with contextlib.suppress(RuntimeError, ValueError):  # the home of nobody, a NUL
            names.append(name_of(root, root / Path(path).expanduser()) if path else None)
    return [name for name in names if name is not None]


def content_of(path: Path, shown: str) -> bytes:
    """The content of a template file; BadRequest ``bad_template`` if it is not a file, or too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
            data = file.read(TEMPLATE_MAX + 1) if regular else b""
    except OSError as error:
        raise BadRequest("bad_template", f"the template {shown} cannot be read: {error.strerror}") from error
    if not regular:
        raise BadRequest("bad_template", f"the template {shown} cannot be read: it is not a regular file")
    if len(data) > TEMPLATE_MAX:
        raise BadRequest("bad_template", f"the template {shown} has more than {TEMPLATE_MAX} bytes")
    return data


class _Files:
    """The template files of one reading: those of the project count only as the user has allowed them.

    A template is a command line, so all of it acts.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.withheld: list[str] = []
        self._allowed = Allowed(root)

    def load(self, path: Path, shown: str, *, insist: bool) -> Template | None:
        """The template; None if it is not allowed, or ``untrusted_setting`` if the user named it (``insists``)."""
        content = content_of(path, shown)
        name = name_of(self.root, path)
        if name is not None and not self._allowed.counts(name, content):
            if insist:
                raise untrusted({name: ["template"]})
            self.withheld.append(name)
            return None
        try:
            return command_template.load(content.decode("utf-8-sig"), where=shown)
        except UnicodeDecodeError as error:
            raise BadRequest("bad_template", f"the template {shown} is not UTF-8") from error


_UNNAMED = {"run": "agent", "create-chat": ""}


def _usual(kind: str, program: str) -> str:
    return f"templates/{kind}-{program}.template" if program else f"templates/{kind}.template"


def _path_of(env: Mapping[str, str], name: str) -> str:
    """The path that the variables give for a template; empty when they give none, or the text itself."""
    path, given = env.get(f"{name}_PATH", ""), env.get(name, "")
    return path or ("" if _is_text(given) else given)


def _is_text(given: str) -> bool:
    return any(char.isspace() for char in given) or "<%" in given


def _template(env: Mapping[str, str], files: _Files, name: str, kind: str, named: Engine | None) -> Template | None:
    """The template that the variables name, or the one with a default name; None without one.

    With ENGINE set the default is `templates/<kind>-<engine>.template`, else `templates/run-agent.template` and
    `templates/create-chat.template`.
    """
    path = _path_of(env, name)
    if path:
        return files.load(files.root / Path(path).expanduser(), path, insist=True)
    if given := env.get(name, ""):
        return command_template.load(given, where=name)
    programs = [named.program, named.name] if named is not None else [_UNNAMED[kind]]
    for usual in (_usual(kind, program) for program in programs):
        if os.path.lexists(files.root / usual):
            return files.load(files.root / usual, usual, insist=False)
    return None


def _word(env: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | None:
    value = env.get(name, "").strip()
    if value and value not in words:
        raise BadRequest(
            "bad_config", f"{name} is {value[:40]!r}", f"set it to one of: {', '.join(words)}", variable=name
        )
    return value or None


def _number(env: Mapping[str, str], name: str, default: int, most: int) -> int:
    value = env.get(name, "").strip()
    if not value:
        return default
    # Its length first: Python refuses to read a number of thousands of digits.
    if not value.isdecimal() or not value.isascii() or len(value) > 20 or not 1 <= int(value) <= most:
        raise BadRequest("bad_config", f"{name} is {value[:40]!r}", f"set it to a number: 1 to {most}", variable=name)
    return int(value)
