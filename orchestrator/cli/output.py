"""Print JSON, tables and text for the command line; control characters in text are made visible.

Writes stdout and stderr, nothing else. Rich is loaded for tables on a terminal only: it costs 60 ms.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orchestrator.base.text_width import ELLIPSIS
from orchestrator.core import glyphs
from orchestrator.faces import row_words, text_table

_COLORS = {sign: glyph.color for glyph in glyphs.STATUS.values() for sign in (glyph.sign, glyph.ascii)}


def say(text: str) -> None:
    """One line for a human, on stdout, at once: who follows a log through a pipe must not wait for a full buffer."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def say_line(text: str) -> None:
    """As ``say``, line ends made visible too: a file's name must not pass for a line of ours."""
    say(text.replace("\n", "\\n"))


def warn(text: str) -> None:
    """One line for a human that is no part of the answer, on stderr."""
    sys.stderr.write(printable(text) + "\n")


def print_json(value: Any) -> None:
    """One JSON value on one line, at once, as ``say``."""
    sys.stdout.write(json.dumps(value, ensure_ascii=not utf8()) + "\n")
    sys.stdout.flush()


def printable(text: str) -> str:
    """The text with control characters made visible: agents' words must not move a human's cursor."""
    shown = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return shown if utf8() else shown.encode("ascii", "backslashreplace").decode()


def encodable(line: str) -> str:
    """A line of printable text that was cut, with a sign for the cut that stdout can show."""
    return line if utf8() else line.replace(ELLIPSIS, "~")


def short(value: Any, limit: int = 160) -> str:
    """A payload on one line, cut to ``limit`` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\n", "⏎")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def counted(number: int, nouns: str) -> str:
    """A number with its noun, which is given in the plural: ``1 file``, ``2 files``, ``1 summary``."""
    singular = f"{nouns[:-3]}y" if nouns.endswith("ies") else nouns.removesuffix("s")
    return f"{number} {singular if number == 1 else nouns}"


def status_word(status: str) -> str:
    """Glyph and word of a status; the word alone says it all, for screen readers and without colour."""
    return f"{glyphs.status_sign(status, ascii_only=not utf8())} {status}"


def state_word(row: Mapping[str, Any]) -> str:
    """Glyph and word of an agent's state, as all faces show it. ``row`` is a row of the snapshot."""
    state = row_words.state_of(row, ascii_only=not utf8())
    return f"{state.sign} {state.word}"


def age(at: str | None, now: datetime | None = None) -> str:
    """As `text_table.age`, until now."""
    return text_table.age(at, now or datetime.now(UTC))


def local_time(at: str | None) -> str:
    """An RFC 3339 instant as local date and time to the minute; ``-`` for None or nonsense."""
    try:
        return datetime.fromisoformat(str(at)).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return "-"


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    status_column: int | None = None,
    whole_column: int | None = None,
    empty: str = "",
) -> None:
    """Print rows under titles; on a terminal with colour where ``NO_COLOR`` allows, in a pipe plain and uncut.

    A narrow terminal breaks columns within words, but not the ``whole_column``, from which something is copied.
    ``empty`` is the sentence that stands on stderr in place of a table without rows.
    """
    if not rows and empty:
        warn(empty)
        return
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(len(line[i]) for line in [list(titles), *cells]) for i in range(len(titles))]
        for line in [list(titles), *cells]:
            sys.stdout.write("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n")
        return
    from rich.console import Console  # noqa: PLC0415  (see the file's first lines)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for at, title in enumerate(titles):
        shown.add_column(title, overflow="fold", no_wrap=at == whole_column)
    for row, original in zip(cells, rows, strict=True):
        texts = [Text(cell) for cell in row]
        if status_column is not None:
            sign = original[status_column].partition(" ")[0]
            texts[status_column].stylize(_COLORS.get(sign, glyphs.STATUS["unknown"].color))
        shown.add_row(*texts)
    Console(no_color=bool(os.environ.get("NO_COLOR")) or None, highlight=False).print(shown)


def terminal_size() -> os.terminal_size | None:
    """The size of the terminal that stdout is, whatever the environment says; None if stdout is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or 80, size.lines or 24))


def utf8() -> bool:
    """Whether stdout can show any character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def space(count: int) -> str:
    """A number of bytes with its unit, for humans."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
