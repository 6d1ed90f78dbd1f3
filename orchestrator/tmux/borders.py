"""The border line above our panes: turn it on, write it, put the window back. Sets window and pane options.

The line costs panes a row and is a setting of the whole window, so what the window had before is stored in
the window itself, in the same invocation: a daemon that is killed in between still puts back the right thing.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from orchestrator.base.errors import Environment
from orchestrator.tmux import member_tags, panes
from orchestrator.tmux.command_words import source
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux

if TYPE_CHECKING:
    from libtmux import Window

LINE = "@orchestrator_line"
SAVED = "@orchestrator_saved"
BEFORE = "@orchestrator_border_before"

STATUS = "pane-border-status"
FORMAT = "pane-border-format"
# An agent's pane or a member's.
OURS = f"#{{||:{panes.TAGGED},{member_tags.TAGGED}}}"
# The user's own line stays on the user's panes; #{T:} expands it as tmux itself would.
_FORMAT = f"#{{?{OURS},#{{{LINE}}},#{{T:{BEFORE}}}}}"

Saved = dict[str, str | None]


class BorderLine(NamedTuple):
    """The text of a border line, and the name of its colour; "": that of the user's borders."""

    text: str
    color: str = ""


# What a window had is read and then stored: two callers at once would take each other's for the user's.
_changing: defaultdict[TmuxSocket, threading.Lock] = defaultdict(threading.Lock)


def borders_wanted(mode: Literal["auto"] | bool, window_panes: Collection[str], own_panes: Collection[str]) -> bool:
    """Whether a window gets border lines; "auto" keeps them off where a user's pane would lose a row.

    ``own_panes`` are the master's, the agents' and the members'.
    """
    return set(window_panes) <= set(own_panes) if mode == "auto" else mode


def set_borders(socket: TmuxSocket, window_id: str) -> Saved:
    """Turn border lines on and return what the window had before, for ``restore_window``.

    None as a value means the window had none of its own. A second call changes nothing and returns the same.
    Lines the user has already keep their place and, on the user's panes, their text. Call it before
    ``splits.create_agents``, so that panes get their final size. Raises as `Tmux.run`.
    """
    with _changing[socket]:
        return _set_borders(socket, window_id)


def _set_borders(socket: TmuxSocket, window_id: str) -> Saved:
    stored = saved_borders(socket, window_id)
    if stored is not None:
        return stored
    own = _own_options(socket, window_id)
    saved: Saved = {STATUS: own.get(STATUS), FORMAT: own.get(FORMAT)}
    window = tmux(socket).window(window_id)
    status = _option(window, "-wAv", STATUS)
    shown = _option(window, "-wAv", FORMAT) if status != "off" else ""
    options = {SAVED: json.dumps(saved), BEFORE: shown, FORMAT: _FORMAT}
    if status == "off":
        options[STATUS] = "top"
    tmux(socket).chain(*[["set-option", "-w", "-t", window_id, name, value] for name, value in options.items()])
    return saved


def saved_borders(socket: TmuxSocket, window_id: str) -> Saved | None:
    """What ``set_borders`` stored in the window; None if the window is as the user has it."""
    text = _option(tmux(socket).window(window_id), "-wqv", SAVED)
    return dict(json.loads(text)) if text else None


def restore_window(socket: TmuxSocket, window_id: str, saved: Saved | None = None) -> None:
    """Put the window back as it was before ``set_borders``; harmless twice, or if the window is gone.

    ``saved`` is what ``set_borders`` returned; without it the copy in the window is used. A value that the
    user has changed meanwhile is left alone.
    """
    try:
        stored = saved_borders(socket, window_id)
        if stored is None:
            return
        own = _own_options(socket, window_id)
        commands = [["set-option", "-wu", "-t", window_id, name] for name in (SAVED, BEFORE)]
        for name, value in (stored if saved is None else saved).items():
            # Also the format of an earlier version, set before this one was installed.
            ours = LINE in (own.get(name) or "") if name == FORMAT else own.get(name) == "top"
            if ours and value is None:
                commands.append(["set-option", "-wu", "-t", window_id, name])
            elif ours and value is not None:
                commands.append(["set-option", "-w", "-t", window_id, name, value])
        tmux(socket).chain(*commands)
    except Environment as error:
        if not is_gone(error):
            raise


def _own_options(socket: TmuxSocket, window_id: str) -> dict[str, str]:
    """The values of the two options where the window has its own, not the global ones."""
    window = tmux(socket).window(window_id)
    names = {line.split(" ", 1)[0] for line in window.cmd("show-options", "-w").stdout}
    return {name: _option(window, "-wv", name) for name in (STATUS, FORMAT) if name in names}


def _option(window: Window, flags: str, name: str) -> str:
    return "\n".join(window.cmd("show-options", flags, name).stdout)


def set_line(socket: TmuxSocket, lines: Mapping[str, BorderLine]) -> None:
    """Write the border line of many panes at once; panes that are gone or not ours are passed over."""
    batch: list[list[str]] = []
    size = 0
    for pane_id, line in lines.items():
        printable = "".join(char if char.isprintable() else " " for char in line.text)
        # A border line is drawn as a style string, in which "#[" starts a colour.
        drawn = (f"#[fg={line.color},bold]" if line.color else "") + printable.replace("#", "##")
        setting = source(["set-option", "-p", "-t", pane_id, LINE, drawn])
        command = ["if-shell", "-F", "-t", pane_id, OURS, setting]
        size += sum(len(word.encode()) + 1 for word in command)
        # tmux refuses invocations of 16 KiB and more.
        if batch and size > 12_000:
            tmux(socket).chain(*batch)
            batch, size = [], 0
        batch.append(command)
    if batch:
        tmux(socket).chain(*batch)
