"""Look at many panes in one tmux invocation. Reads only; `core` interprets a screen."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from orchestrator.base.public_names import AGENT_TAG
from orchestrator.core.screens import Screen
from orchestrator.tmux.command_words import source
from orchestrator.tmux.panes import RUN, TAGGED
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.servers import tmux

# Free text comes last.
_FACTS = (
    "#{pane_id} #{pane_dead} #{pane_in_mode} #{cursor_x} #{cursor_y} "
    f"#{{{AGENT_TAG}}} #{{{RUN}}} t#{{pane_title}}"
)
_HEAD = re.compile(r"(%\d+) (\d*) (\d*) (\d*) (\d*) (\S+) (\S+) t(.*)")
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
# What tmux puts between the characters with -e: colours, hyperlinks, shifts of the character set.
_CODES = re.compile(r"\x1b\[[0-9;:]*m|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)|[\x0e\x0f]")
_LEADING = re.compile(r"(?:\x1b\[[0-9;:]*m)+")
_BATCH_BYTES = 12_000  # tmux refuses invocations of 16 KiB and more
_TEXTS = 160  # panes in one invocation: at most 12,000 bytes, and tmux 3.7 refuses more than 1,000 words


class PaneTag(NamedTuple):
    """The tag a pane must carry to be looked at."""

    agent_id: str
    run_id: str


def look(socket: TmuxSocket, wanted: Mapping[str, PaneTag]) -> dict[str, Screen]:
    """The visible screens of these panes by pane id; absent are panes that are gone or not whose they should be.

    Copy mode does not hide the program's screen. One invocation for some 35 panes. Raises as `Tmux.run`.
    """
    screens: dict[str, Screen] = {}
    # What a program prints cannot be taken for a separator, because it cannot know this word.
    nonce = secrets.token_hex(12)
    for batch in _batches(wanted, nonce):
        text = tmux(socket).chain(*batch)
        for part in text.split(f"{nonce} ")[1:]:
            head, _, body = part.partition("\n")
            facts = _HEAD.fullmatch(head)
            if facts is None or wanted.get(facts[1]) != (facts[6], facts[7]):
                continue
            screens[facts[1]] = parsed(
                facts[8],
                body.split("\n"),
                (int(facts[4] or 0), int(facts[5] or 0)),
                in_mode=facts[3] not in ("", "0"),
                dead=facts[2] == "1",
            )
    return screens


def look_at(socket: TmuxSocket, pane_id: str) -> Screen:
    """The visible screen of one pane, whoever's it is. Raises as `Tmux.run`."""
    facts = [
        "display-message",
        "-p",
        "-t",
        pane_id,
        "#{pane_dead} #{pane_in_mode} #{cursor_x} #{cursor_y} t#{pane_title}",
    ]
    text = tmux(socket).chain(facts, ["capture-pane", "-p", "-e", "-t", pane_id])
    head, _, body = text.partition("\n")
    dead, mode, x, y, title = head.split(" ", 4)
    place = int(x or 0), int(y or 0)
    return parsed(title[1:], body.split("\n"), place, in_mode=mode not in ("", "0"), dead=dead == "1")


def _batches(wanted: Iterable[str], nonce: str) -> Iterable[list[list[str]]]:
    batch: list[list[str]] = []
    size = 0
    for pane_id in wanted:
        facts = ["display-message", "-p", "-t", pane_id, f"{nonce} {_FACTS}"]
        screen = ["capture-pane", "-p", "-e", "-t", pane_id]
        # A target that is gone fails an `if-shell` quietly, and every other command loudly, with all behind it.
        command = ["if-shell", "-F", "-t", pane_id, TAGGED, source(facts, screen)]
        length = sum(len(word) + 1 for word in command)
        if batch and size + length > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(command)
        size += length
    if batch:
        yield batch


def parsed(title: str, rows: list[str], cursor: tuple[int, int], *, in_mode: bool, dead: bool) -> Screen:
    """A screen from the rows that ``capture-pane -e`` printed, top first. Pure."""
    lines = [_CODES.sub("", row).rstrip(" ") for row in rows]
    while lines and not lines[-1]:
        lines.pop()
    x, y = cursor
    styled = ""
    if y < len(rows):
        # tmux says a colour once: what was on at the end of the row above is still on.
        begin = _LEADING.match(rows[y])
        rest = begin.end() if begin else 0
        styled = _on_after("".join([*rows[:y], rows[y][:rest]])) + rows[y][rest:]
    return Screen(title, tuple(lines), styled, x, y, in_mode, dead)


def _on_after(text: str) -> str:
    """The codes that bring about the style at the end of a text, in tmux's order: attributes, ink, paper."""
    attributes: list[str] = []
    ink = paper = ""
    for code in _SGR.finditer(text):
        params = (code[1] or "0").split(";")
        while params:
            param = params.pop(0)
            if param in ("38", "48") and params:
                length = 1 if params[0] == "5" else 3
                param = ";".join([param, *params[: length + 1]])
                del params[: length + 1]
            if param == "0":
                attributes, ink, paper = [], "", ""
            elif param in ("39", "49"):
                ink, paper = (ink, "") if param == "49" else ("", paper)
            elif param[:2] == "38" or re.fullmatch(r"[39][0-7]", param):
                ink = param
            elif param[:2] == "48" or re.fullmatch(r"(4|10)[0-7]", param):
                paper = param
            elif param not in attributes:
                attributes.append(param)
    return "".join(f"\x1b[{codes}m" for codes in (";".join(attributes), ink, paper) if codes)


def texts(socket: TmuxSocket, wanted: Mapping[str, PaneTag]) -> dict[str, list[str]]:
    """The lines on these panes' screens by pane id, without colours; absent are panes as in `look`.

    One invocation for some 160 panes: it costs less than `look`. Raises as `Tmux.run`.
    """
    shown: dict[str, list[str]] = {}
    panes = list(wanted)
    for first in range(0, len(panes), _TEXTS):
        nonce = secrets.token_hex(4)
        batch: list[list[str]] = [["list-panes", "-a", "-F", f"#{{pane_id}} #{{{AGENT_TAG}}} #{{{RUN}}}"]]
        for pane_id in panes[first : first + _TEXTS]:
            # As in `_batches`, in its shortest form: #D is empty for a pane that is gone. The tags are compared here.
            look_there = source(["display", "-p", f"{nonce} {pane_id[1:]}"], ["capturep", f"-pt{pane_id}"])
            batch.append(["if", "-Ft", pane_id, "#D", look_there])
        tags, *parts = tmux(socket).chain(*batch).split(f"{nonce} ")
        tagged = {tuple(line.split(" ", 2)) for line in tags.splitlines()}
        for part in parts:
            number, _, body = part.partition("\n")
            pane_id = f"%{number}"
            if pane_id in wanted and (pane_id, *wanted[pane_id]) in tagged:
                shown[pane_id] = body.split("\n")
    return shown
