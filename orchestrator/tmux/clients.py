"""The terminals attached to a tmux server: what each shows, a message, a bell, a count for their status lines.

Types into no pane. The count is kept in an option of our own, of a window and of the sessions that show the window.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.base.errors import Environment
from orchestrator.tmux.command_words import literal, source
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux

NEEDS = "@orchestrator_needs"
"""The option of a session for its status line: how many agents need somebody; not set if none does."""
TALLY = "@orchestrator_tally"
"""The option of a window: a mark for each run in it, then a stroke for each agent that needs somebody.

tmux adds up all strokes of a session's windows."""
_MESSAGE = "@orchestrator_message"
SHOWN_MS = 4000
FREEZING_BEFORE = (3, 6)
"""Older versions stop drawing a client's panes while it shows a message."""
_STROKES_MAX = 999
_STROKE = "x"  # not a hexadecimal digit, because marks consist of these
_ALL = f"#{{s/[^{_STROKE}]//:#{{W:#{{{TALLY}}}}}}}"

_WINDOW = f"#{{window_id}} #{{session_id}} #{{{NEEDS}}} #{{{TALLY}}}"
# Free text comes last.
_CLIENT = (
    "#{client_flags} #{client_control_mode} #{client_width} #{session_id} #{pane_id} v#{version} "
    "w#{W:<#{window_id}>} t#{client_tty} #{client_name}"
)
_CLIENT_LINE = re.compile(r"(\S*) ([01]?) (\d+) (\$\d+) (%\d+) v(\S*) w(\S*) t(\S*) (.+)")


class AttachedClient(NamedTuple):
    """A terminal that shows a session. ``pane_id`` is the active pane of what it shows.

    ``focused`` is False only if the terminal has reported that another window of the desktop has the keyboard.
    """

    name: str
    tty: str
    session_id: str
    pane_id: str
    windows: frozenset[str]
    width: int
    focused: bool
    utf8: bool
    control: bool
    version: tuple[int, int]


class _CountedWindow(NamedTuple):
    """A window in a session that shows it, with the session's count and the window's tally; both may be empty."""

    window_id: str
    session_id: str
    needs: str
    tally: str


def attached(socket: TmuxSocket) -> list[AttachedClient]:
    """The clients of the server, with the windows of the session that each shows; empty if the server is gone.

    Else raises as `Tmux.run`.
    """
    try:
        lines = tmux(socket).run("list-clients", "-F", _CLIENT).split("\n")
    except Environment as error:
        if is_gone(error):
            return []
        raise
    return [client for client in map(_parsed, lines) if client is not None]


def _parsed(line: str) -> AttachedClient | None:
    match = _CLIENT_LINE.fullmatch(line)
    if match is None:
        return None
    flags, control, width, session, pane, version, windows, tty, name = match.groups()
    numbers = re.search(r"(\d+)\.(\d+)", version)
    flagged = flags.split(",")
    return AttachedClient(
        name,
        tty,
        session,
        pane,
        frozenset(re.findall(r"@\d+", windows)),
        int(width),
        focused="focused" in flagged,
        utf8="UTF-8" in flagged,
        control=control == "1",
        version=(int(numbers[1]), int(numbers[2])) if numbers else FREEZING_BEFORE,
    )


def show_message(socket: TmuxSocket, client: AttachedClient, text: str) -> None:
    """Show the text, as it is, in the client's status line for a few seconds, or until a key is pressed.

    The key reaches the pane all the same. Harmless if the client has gone; else raises as `Tmux.run`.
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    flags = [] if client.version < FREEZING_BEFORE else ["-C"]
    where = ["-t", client.session_id, _MESSAGE]
    # Without it tmux would read the option of the session that was used last.
    place = ["-t", f"{client.session_id}:"]
    try:
        # A message is expanded as a time and as a format, which versions quote differently; the value of an option is
        # only drawn, as a style string.
        tmux(socket).chain(
            ["set-option", *where, printable.replace("#", "##")],
            ["display-message", *flags, "-c", client.name, "-d", str(SHOWN_MS), *place, f"#{{{_MESSAGE}}}"],
            ["set-option", "-qu", *where],
        )
    except Environment as error:
        with contextlib.suppress(Environment):
            tmux(socket).run("set-option", "-qu", *where)
        if not is_gone(error) and "can't find client" not in error.message:
            raise


def ring(client: AttachedClient) -> bool:
    """Ring the bell of the client's terminal; False if its device is not a terminal of this user, or is busy."""
    if client.control or not client.tty.startswith("/dev/"):
        return False
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        device = os.open(client.tty, flags)
    except OSError:
        return False
    with contextlib.closing(os.fdopen(device, "wb", buffering=0)) as terminal:
        status = os.fstat(terminal.fileno())
        if not stat.S_ISCHR(status.st_mode) or status.st_uid != os.geteuid() or not terminal.isatty():
            return False
        # A bell changes nothing on a screen; tmux writes whole sequences, so that it comes between two.
        with contextlib.suppress(OSError):
            return terminal.write(b"\a") == 1
        return False


def set_needs(socket: TmuxSocket, window_id: str, run_id: str, count: int) -> None:
    """Set how many agents of the run in this window need somebody, for all sessions that show the window.

    Counts of other runs stay; counts of this run in other windows are removed. Does nothing if the window or the
    server is gone; otherwise raises as `Tmux.run`.
    """
    mark = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    try:
        listed = tmux(socket).run("list-windows", "-a", "-F", _WINDOW).split("\n")
        windows = [_CountedWindow(*line.split(" ", 3)) for line in listed if line.count(" ") == 3]
        shown = {window.session_id for window in windows if window_id == window.window_id or window.needs}
        tallies = {window.window_id: 0 for window in windows if mark in window.tally}
        if window_id in {window.window_id for window in windows}:
            tallies[window_id] = count
        tallied = [command for window, strokes in tallies.items() for command in _tally(window, mark, strokes)]
        totals = [command for session in shown for command in _total(session)]
        if totals:
            tmux(socket).chain(*tallied, *totals)
    except Environment as error:
        if not is_gone(error):
            raise


def _tally(window_id: str, mark: str, count: int) -> list[Sequence[str]]:
    """Commands that replace the run's strokes. tmux edits the option, because another daemon may do so just then."""
    ours = mark + _STROKE * min(count, _STROKES_MAX) if count else ""
    here = ["-t", window_id]
    take = source(["set-option", "-wqu", *here, TALLY])
    return [
        ["set-option", "-wF", *here, TALLY, f"#{{s/{mark}{_STROKE}*//:{TALLY}}}{ours}"],
        ["if-shell", "-F", *here, f"#{{==:#{{{TALLY}}},}}", take],
    ]


def _total(session: str) -> list[Sequence[str]]:
    """Commands that set the session's count, or take it away; they do nothing if there is no such session."""
    this = f"#{{==:#{{session_id}},{literal(session)}}}"
    put = source(["set-option", "-F", "-t", session, NEEDS, f"#{{n:{_ALL}}}"])
    take = source(["set-option", "-qu", "-t", session, NEEDS])
    return [
        ["if-shell", "-F", "-t", session, f"#{{&&:{this},{_ALL}}}", put],
        ["if-shell", "-F", "-t", session, f"#{{&&:{this},#{{==:{_ALL},}}}}", take],
    ]
