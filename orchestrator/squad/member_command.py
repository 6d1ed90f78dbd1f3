"""Build the command of a squad member from a template and its values, with the engine's command and shell if needed.

Starts nothing and looks for no program; the caller passes the shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.base.errors import BadRequest
from orchestrator.squad.command_template import Template

MAX_WORD_BYTES = 131_071
"""Linux's limit for one argument, without the NUL that ends it."""

# A word without expansions, wholly quoted or not at all: only such can be told to be a program's name.
_WORD = re.compile(r"""(?:\\\n|\s)*('[^']*'|"[^"\\`$]*"|[^\s'"\\`$|;<>&()]+)(?=[\s|;<>&]|\Z)""")


@dataclass(frozen=True)
class Rendered:
    """A command to execute, its program first; ``stdin``: the prompt goes to its standard input."""

    argv: tuple[str, ...]
    stdin: bool


def render(template: Template, values: Mapping[str, str], *, engine_command: str, bash: str | None) -> Rendered:
    """The command that ``template`` gives for these values; ``bash`` is the path of bash, None if it is missing.

    ``engine_command`` replaces the first word if that names the same program, otherwise it precedes it; if it is
    empty, the template is the whole command. With bash a script is run with ``pipefail``, so that a failing engine is
    noticed whatever its output is piped to; plain ``sh`` reports only the last command of a pipe.
    """
    engine = _engine_words(engine_command)
    if not template.shell:
        words = template.words(values)
        if engine:
            words = [*engine, *words[_same_program(words, engine, engine_command) :]]
        if not words or not words[0]:
            raise _empty(template)
        return Rendered(tuple(words), template.stdin)
    script = template.script(values)
    if engine:
        words, ends = _first_words(script, len(engine))
        same = _same_program(words, engine, engine_command)
        script = f"{shlex.join(engine)} {script[ends[same - 1] :] if same else script}"
    if not script.strip():
        raise _empty(template)
    # A blank in front, lest a script that begins with a dash be taken for options of the shell.
    shell = (bash, "-o", "pipefail") if bash else ("sh",)
    return Rendered((*shell, "-c", script if script[0] not in "-+" else f" {script}"), template.stdin)


def check_sizes(argv: Sequence[str]) -> None:
    """Raise what the kernel would refuse only once the process is under way.

    BadRequest ``prompt_too_long`` for a word beyond the limit of one argument, ``bad_argument`` for one that has no
    bytes or holds a NUL; both name the word's place, the program being 0.
    """
    for place, word in enumerate(argv):
        try:
            size = len(word.encode())
        except UnicodeEncodeError as error:
            raise BadRequest(
                "bad_argument",
                f"word {place} of the command contains a lone surrogate at position {error.start}",
                "send text that is valid Unicode",
                place=place,
            ) from None
        if "\0" in word:
            raise BadRequest(
                "bad_argument",
                f"word {place} of the command contains a NUL byte",
                "remove the NUL byte from the task or the role",
                place=place,
            )
        if size > MAX_WORD_BYTES:
            raise BadRequest(
                "prompt_too_long",
                f"word {place} of the command has {size} bytes; one argument may have at most {MAX_WORD_BYTES}",
                place=place,
                bytes=size,
            )


def _engine_words(engine_command: str) -> list[str]:
    try:
        return shlex.split(engine_command)
    except ValueError as error:
        raise BadRequest("bad_config", f"ENGINE_COMMAND cannot be split into words: {error}") from None


def _first_words(script: str, count: int) -> tuple[list[str], list[int]]:
    """Up to ``count`` words that a script begins with, as far as they are plain, and where each ends."""
    words: list[str] = []
    ends: list[int] = []
    while len(words) < count and (match := _WORD.match(script, ends[-1] if ends else 0)):
        words.append(match[1].strip("'\""))
        ends.append(match.end())
    return words, ends


def _same_program(words: Sequence[str], engine: Sequence[str], engine_command: str) -> int:
    """How many of the first words name the program that the engine's command runs."""
    if list(words[: len(engine)]) == list(engine):
        return len(engine)
    names = {engine_command.strip(), engine[-1].rpartition("/")[2]}
    if engine[1:2] and engine[1].startswith("-"):
        names.add(engine[0].rpartition("/")[2])
    return int(bool(words) and not names.isdisjoint((words[0], words[0].rpartition("/")[2])))


def _empty(template: Template) -> BadRequest:
    return BadRequest(
        "bad_template",
        f"{template.where}, line 1, column 1: the template gives no valid command for these values",
        file=template.where,
        line=1,
        column=1,
    )
