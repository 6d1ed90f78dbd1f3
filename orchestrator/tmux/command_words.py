"""Quotes words for tmux: command arguments, formats, and the end of a command that starts a program. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def escaped(word: str) -> str:
    """The word as an argument of ``tmux``, which takes a last ``;`` for a separator, also after ``--``."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def source(*commands: Sequence[str]) -> str:
    """The commands as one text of tmux's language, for commands that take commands (``if-shell``)."""
    return " ; ".join(" ".join(_quoted(word) for word in command) for command in commands)


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    # Single quotes are literal, except that tmux drops the blanks after a newline in any quotes.
    return "'" + word.replace("'", "'\\''").replace("\n", "'\"\\n\"'") + "'"


def literal(text: str) -> str:
    """The text as part of a format, in which ``#``, ``,`` and ``}`` would have a meaning."""
    return text.replace("#", "##").replace(",", "#,").replace("}", "#}")


def start_words(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> list[str]:
    """The last words of a command that starts ``argv`` in a pane, with no shell between."""
    # tmux gives a single word to a shell and starts several directly; env(1) execs, so the pid stays.
    words = argv if len(argv) > 1 else ["env", *argv]
    variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    return ["-c", cwd.replace("#", "##"), *variables, "--", *words]
