"""The payload of a new task, from what the caller gives: words, a file, stdin, an editor, a command or JSON.

Reads the caller's input before the daemon is asked; what words become depends on the agent's engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from orchestrator.base.errors import BadRequest
from orchestrator.cli import output

MAX_TEXT = 16 << 20  # as many characters as the largest payload that can be configured has bytes
ATTACHMENTS = "ORCHESTRATOR_ATTACHMENTS"
"""Names the directory of its attachments to a command."""
_FILE = "give a readable text file; other files can be attached: --attach PATH"


class Source(NamedTuple):
    """What the caller gave: a JSON ``payload``, a ``command``, ``words`` (one text or several); else ``editor``."""

    kind: Literal["payload", "command", "words", "editor"]
    value: Any = None


def given(words: list[str], *, file: str, command: str, payload: str) -> Source:
    """Read the one source that was given; stdin if there is none, and an editor if stdin is a terminal.

    BadRequest ``bad_argument`` for several sources, for no words, and for a text that may be a damaged payload.
    """
    if sum(map(bool, (words, file, command, payload))) > 1:
        raise BadRequest("bad_argument", "give the task once: as words, or with --file, --command or --payload")
    if payload:
        return Source("payload", _json(payload, "--payload"))
    if command:
        return Source("command", command)
    if file:
        return Source("words", _text(file))
    if words and words != ["-"]:
        return Source("words", _some(words[0]) if len(words) == 1 else words)
    if not words and sys.stdin is not None and sys.stdin.isatty():
        return Source("editor")
    return _of_stdin(_stdin())


def payload_for(source: Source, agent: str, engine: str) -> Any:
    """The payload as the engine's agents understand it; BadRequest ``bad_argument`` for a command to others.

    Several words of the command line are one text, and for a command what a shell makes of the same words.
    """
    if source.kind == "payload":
        return source.value
    commands = takes(engine) == "command"
    if source.kind == "command" and not commands:
        raise BadRequest(
            "bad_argument",
            f"agent {agent} ({engine}) takes words, not a shell command",
            f"say in words what to do: orchestrator task add {agent} {shlex.quote(f'run {source.value}')}",
        )
    value = source.value
    if not isinstance(value, str):
        value = shlex.join(value) if commands else " ".join(value)
    return {"command" if commands else "task": value}


def takes(engine: str) -> str:
    """What the agents of an engine take: ``words`` or a ``command``; an engine of another version takes words."""
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415  (not at every start)

    return ENGINES[engine].takes if engine in ENGINES else "words"


def with_attachments(payload: Any, engine: str, copied: dict[str, Any]) -> Any:
    """The payload with its attachments: their names for who reads words, their directory for a command."""
    if not isinstance(payload, dict):
        raise BadRequest("bad_argument", "attachments need words, a command or a payload that is an object")
    if takes(engine) == "command":
        env = payload.get("env", {})
        return {**payload, "env": {**env, ATTACHMENTS: copied["directory"]}} if isinstance(env, dict) else payload
    return {**payload, "attachments": copied["attachments"]}


@contextlib.contextmanager
def edited(agent: str, engine: str) -> Iterator[Source]:
    """The words that the user writes in an editor; BadRequest ``bad_argument`` if there are none.

    The file is kept, and named on stderr, if the block ends with an error: the words may be an hour's work.
    """
    fd, name = tempfile.mkstemp(prefix=f"task-{agent}-", suffix=".md")
    words = ""
    try:
        what = "command" if takes(engine) == "command" else "task"
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(f"\n# Write the {what} for {agent} ({engine}). Lines that begin with # are dropped.\n")
            file.write("# If nothing is left, nothing is queued.\n")
        _run_editor(name)
        lines = _read_file(name).splitlines()
        words = "\n".join(line for line in lines if not line.startswith("#")).strip()
        yield Source("words", _some(words))
    except BaseException:
        if words:
            output.warn(f"your words are kept in {name}")
        else:
            Path(name).unlink(missing_ok=True)
        raise
    Path(name).unlink(missing_ok=True)


def _run_editor(name: str) -> None:
    line = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    step = "set EDITOR, or write the words after the agent's name"
    try:
        ended = subprocess.run([*shlex.split(line), name], check=False)
    except (OSError, ValueError) as error:
        raise BadRequest("bad_argument", f"the editor {line!r} cannot be started: {error}", step) from None
    if ended.returncode != 0:
        raise BadRequest(
            "bad_argument", f"the editor {line!r} ended with {ended.returncode}; nothing was queued", step
        )


def _of_stdin(text: str) -> Source:
    """A JSON object or array is the payload itself; any other text is words."""
    start = text.lstrip()[:1]
    try:
        value = json.loads(text) if start in ("{", "[") else None
    except ValueError as error:
        if start == "{":
            step = "repair it; to pass it as words or as a command: --file -"
            raise BadRequest(
                "bad_argument", f"stdin begins like a JSON payload, and is none: {error}", step
            ) from None
        value = None
    return Source("words", _some(text.strip())) if value is None else Source("payload", value)


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        step = "give the task as words if it is no JSON"
        raise BadRequest("bad_argument", f"{source} is not JSON: {error}", step) from error


def _text(file: str) -> str:
    return _some((_stdin() if file == "-" else _read_file(file)).strip())


def _stdin() -> str:
    return "" if sys.stdin is None else _read(sys.stdin, "stdin")


def _read_file(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8") as stream:
            return _read(stream, file)
    except OSError as error:
        raise BadRequest("bad_argument", f"{file}: {error.strerror or error}", _FILE) from None


def _read(stream: IO[str], name: str) -> str:
    try:
        text = stream.read(MAX_TEXT + 1)
    except UnicodeDecodeError:
        raise BadRequest("bad_argument", f"{name} is not UTF-8 text", _FILE) from None
    if len(text) > MAX_TEXT:
        raise BadRequest(
            "payload_too_large", f"{name} has more than {MAX_TEXT} characters", "attach it: --attach PATH"
        )
    return text


def _some(words: str) -> str:
    if not words.strip():
        raise BadRequest(
            "bad_argument",
            "no words were given; nothing was queued",
            'write them: orchestrator task add AGENT "words"',
        )
    return words
