"""The fenced blocks of a page of the documentation, and the command lines in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of(page: str) -> list[tuple[str, str]]:
    """The blocks of a page in order: language and text."""
    return FENCE.findall((ROOT / page).read_text("utf-8"))


def command_lines(text: str) -> list[str]:
    """The command lines of a block; a here-document belongs to its line."""
    lines: list[str] = []
    rest = text.splitlines()
    while rest:
        line = rest.pop(0)
        if end := re.search(r"<<-? ?'?(\w+)'?", line):
            while rest and rest[0] != end[1]:
                line += "\n" + rest.pop(0)
            line += "\n" + rest.pop(0)
        if line.strip():
            lines.append(line)
    return lines


def lines_of(page: str) -> list[str]:
    """The command lines of a page's ``sh`` blocks, in order."""
    return [line for language, text in blocks_of(page) if language == "sh" for line in command_lines(text)]
