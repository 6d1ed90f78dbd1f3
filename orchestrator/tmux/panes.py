"""Panes that exist: find the master's, tag ours, list, read, respawn and kill them. Acts on tmux only.

Rules of a good guest, which every function of ``tmux`` keeps: panes are named by id on an explicit socket, never by
"the current client"; only panes with our tag are killed or respawned, and check and act are one invocation; focus and
zoom stay as the user left them; options are set only on our own panes, by ``borders`` on the window, and by
``clients``, which has options of its own, on the sessions that show it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.base.errors import Environment
from orchestrator.base.public_names import AGENT_TAG
from orchestrator.tmux.command_words import literal, source, start_words
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.window_layout import PaneSize

RUN = "@orchestrator_run"
EPOCH = "@orchestrator_epoch"
# A condition for tmux; by comparison, because the bare option would be false for an agent named "0".
TAGGED = f"#{{!=:#{{{AGENT_TAG}}},}}"
UNTAGGED = f"#{{==:#{{{AGENT_TAG}}},}}"

# Free text comes last; a session's name cannot contain a colon, so the first colon ends it.
INFO = (
    "#{pane_id} #{window_id} #{session_id} #{pane_pid} #{pane_width} #{pane_height} #{window_zoomed_flag} "
    "t#{pane_tty} #{session_name}:#{pane_title}"
)
_INFO_LINE = re.compile(r"(%\d+) (@\d+) (\$\d+) (\d+) (\d+) (\d+) ([01]) t(\S*) ([^:]*):(.*)")
_TAGGED_INFO = (
    "#{pid} #{pane_id} #{window_id} #{pane_pid} d#{pane_dead} s#{pane_dead_status} g#{pane_dead_signal} "
    f"m#{{pane_in_mode}} #{{{AGENT_TAG}}} #{{{RUN}}} #{{{EPOCH}}} #{{pane_start_command}}"
)
_TAGGED_LINE = re.compile(r"(\d+) (%\d+) (@\d+) (\d+) d(\d?) s(\d*) g(\S*) m(\d*) (\S+) (\S+) (\d+) (.*)", re.DOTALL)


@dataclass(frozen=True)
class PaneInfo:
    """What tmux reports of a pane; ``width`` and ``height`` are those of the whole window while it is zoomed."""

    pane_id: str
    window_id: str
    session_id: str
    session_name: str
    pid: int
    tty: str
    width: int
    height: int
    zoomed: bool
    title: str


@dataclass(frozen=True)
class TaggedPane:
    """A pane of ours; ``dead`` if its process has ended.

    ``dead_status`` (exit code) and ``dead_signal`` are None while the process runs; of a dead pane one of them is
    set. tmux may notice the end of the terminal first: if both are None then, list again.
    """

    pane_id: str
    window_id: str
    pid: int
    agent_id: str
    run_id: str
    epoch: int
    dead: bool
    dead_status: int | None
    dead_signal: int | None
    in_mode: bool
    start_command: str


@dataclass(frozen=True)
class NewPane:
    """An agent pane to be made: its tag, and the argv tmux starts in it without any shell.

    ``minimum`` is the smallest readable size, in columns and rows; None uses the minimum of the layout's limits.
    """

    agent_id: str
    run_id: str
    epoch: int
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    minimum: PaneSize | None = None

    @property
    def whose(self) -> str:
        """The owner of the pane, for a sentence."""
        return f"agent {self.agent_id}"

    @property
    def tags(self) -> dict[str, str]:
        """The pane options that tag the pane as the agent's."""
        return {AGENT_TAG: self.agent_id, RUN: self.run_id, EPOCH: str(self.epoch)}


def find_master(socket: TmuxSocket, pids: Sequence[int], tmux_pane: str | None, tty: str | None) -> PaneInfo | None:
    """The pane the master runs in: that of the nearest of ``pids``, else ``tmux_pane``, else the one on ``tty``.

    ``pids`` are the ancestors of the master's relay, nearest first. None if no pane matches; raises as
    `Tmux.run`, with ``server_gone`` if there is no server.
    """
    every = list_panes(socket)
    by_pid = {pane.pid: pane for pane in every}
    for pid in pids:
        if pid in by_pid:
            return by_pid[pid]
    by_id = {pane.pane_id: pane for pane in every}
    if tmux_pane in by_id:
        return by_id[tmux_pane]
    return next((pane for pane in every if tty and pane.tty == tty), None)


def list_panes(socket: TmuxSocket, window_id: str | None = None) -> list[PaneInfo]:
    """The panes of one window in window order, or of the whole server; each once. Raises as `Tmux.run`."""
    scope = ["-t", window_id] if window_id else ["-a"]
    by_id: dict[str, PaneInfo] = {}
    for line in tmux(socket).run("list-panes", *scope, "-F", INFO).split("\n"):
        info = parse_info(line)
        # A window linked into several sessions is listed once for each.
        if info is not None:
            by_id.setdefault(info.pane_id, info)
    return list(by_id.values())


def pane(socket: TmuxSocket, pane_id: str) -> PaneInfo | None:
    """The pane as it is now, None if it is gone; raises as `Tmux.run`."""
    info = parse_info("\n".join(tmux(socket).pane(pane_id).cmd("display-message", "-p", INFO).stdout))
    return info if info and info.pane_id == pane_id else None


def typed_in(socket: TmuxSocket, since: float) -> set[str]:
    """The panes in which a person has pressed a key since that time (seconds since 1970). Raises as `Tmux.run`."""
    lines = tmux(socket).run("list-clients", "-F", "#{client_activity} #{pane_id}").split("\n")
    seen = [line.split(" ") for line in lines if line]
    return {pane_id for activity, pane_id in seen if activity.isdigit() and int(activity) >= since}


def parse_info(line: str) -> PaneInfo | None:
    """What tmux printed for ``INFO``, None for anything else."""
    match = _INFO_LINE.fullmatch(line)
    if match is None:
        return None
    pane_id, window_id, session_id, pid, width, height, zoomed, tty, name, title = match.groups()
    size = int(width), int(height)
    return PaneInfo(pane_id, window_id, session_id, name, int(pid), tty, *size, zoomed == "1", title)


def tag(socket: TmuxSocket, pane_id: str, agent_id: str, run_id: str, epoch: int) -> None:
    """Mark the pane as the agent's and make it stay when its process ends. Raises as `Tmux.run`."""
    set_tags(socket, pane_id, {AGENT_TAG: agent_id, RUN: run_id, EPOCH: str(epoch)})


def set_tags(socket: TmuxSocket, pane_id: str, tags: Mapping[str, str]) -> None:
    """Mark the pane as ours by these options and make it stay when its process ends. Raises as `Tmux.run`."""
    options = {**tags, "remain-on-exit": "on"}
    tmux(socket).chain(*[["set-option", "-p", "-t", pane_id, name, value] for name, value in options.items()])


def untag(socket: TmuxSocket, pane_id: str, agent_id: str, run_id: str) -> None:
    """Remove our tag from the pane; it is the user's from then on. Raises as `Tmux.run`."""
    options = (AGENT_TAG, RUN, EPOCH, "remain-on-exit")
    commands = [["set-option", "-pu", "-t", pane_id, name] for name in options]
    tmux(socket).guarded(pane_id, _ours(agent_id, run_id), *commands)


def list_tagged(socket: TmuxSocket) -> list[TaggedPane]:
    """All panes of the server that carry our tag, of every project and run. Raises as `Tmux.run`."""
    listed = _list_tagged(socket)
    unreaped = {
        server
        for server, tagged in listed
        if tagged.dead and tagged.dead_status is None and tagged.dead_signal is None
    }
    if not unreaped:
        return [tagged for _, tagged in listed]
    # tmux before 3.5 can miss the end of a child (libutempter takes the signal) and would never say how it
    # ended; a second SIGCHLD makes it look, and means nothing to anybody else.
    for server in unreaped:
        with contextlib.suppress(OSError):
            os.kill(server, signal.SIGCHLD)
    return [tagged for _, tagged in _list_tagged(socket)]


def _list_tagged(socket: TmuxSocket) -> list[tuple[int, TaggedPane]]:
    by_pane: dict[str, tuple[int, TaggedPane]] = {}
    for line in tmux(socket).run("list-panes", "-a", "-f", TAGGED, "-F", _TAGGED_INFO).split("\n"):
        match = _TAGGED_LINE.fullmatch(line)
        if match is None:
            continue
        server, pane_id, window_id, pid, dead, status, ended_by, mode, agent, run, epoch, command = match.groups()
        tagged = TaggedPane(
            pane_id=pane_id,
            window_id=window_id,
            pid=int(pid),
            agent_id=agent,
            run_id=run,
            epoch=int(epoch),
            dead=dead == "1",
            dead_status=int(status) if dead == "1" and status else None,
            dead_signal=int(ended_by) if dead == "1" and ended_by.isdigit() else None,
            in_mode=mode not in {"", "0"},
            start_command=command,
        )
        by_pane.setdefault(pane_id, (int(server), tagged))
    return list(by_pane.values())


def find_stub(socket: TmuxSocket, argv: Sequence[str]) -> PaneInfo | None:
    """The untagged pane that was started with these words in a row: split, and not yet tagged when we died."""
    words = list(argv)
    listing = "#{pane_id} #{pane_start_command}"
    for line in tmux(socket).run("list-panes", "-a", "-f", UNTAGGED, "-F", listing).split("\n"):
        pane_id, _, command = line.partition(" ")
        try:
            started = shlex.split(command)
        except ValueError:
            continue
        if any(started[at : at + len(words)] == words for at in range(len(started))):
            return pane(socket, pane_id)
    return None


def kill(socket: TmuxSocket, pane_id: str, agent_id: str, run_id: str) -> bool:
    """End the pane if it carries the tag of this agent and run at that moment; else as ``kill_if``."""
    return kill_if(socket, pane_id, _ours(agent_id, run_id))


def kill_if(socket: TmuxSocket, pane_id: str, ours: str) -> bool:
    """End the pane if the condition, in tmux's own words, holds for it at that moment; False if there is none such.

    Another pane that fills the window stays zoomed. A server that is gone is False too; else raises as `Tmux.run`.
    """
    look = ["display-message", "-p", "-t", pane_id, "done #{window_zoomed_flag}#{pane_active} #{window_id}"]
    try:
        answer = tmux(socket).guarded(pane_id, ours, look, ["kill-pane", "-t", pane_id]).split(" ")
        if answer[1:2] == ["10"]:
            # tmux unzooms before it kills; the zoom was on another pane, and is the user's to keep.
            again = source(["resize-pane", "-Z", "-t", answer[2]])
            tmux(socket).run("if-shell", "-F", "-t", answer[2], "#{window_zoomed_flag}", "", again)
        return answer[0] == "done"
    except Environment as error:
        if is_gone(error):
            return False
        raise


def respawn(socket: TmuxSocket, pane_id: str, new: NewPane) -> bool:
    """Start ``new`` in the dead pane of the same agent and run, with the new epoch on its tag.

    Does nothing and returns False if the pane is gone, is not dead, or is not that agent's. Raises as `Tmux.run`.
    """
    guard = f"#{{&&:#{{pane_dead}},{_ours(new.agent_id, new.run_id)}}}"
    commands = [
        ["set-option", "-p", "-t", pane_id, EPOCH, str(new.epoch)],
        ["respawn-pane", "-t", pane_id, *start_words(new.argv, new.cwd, new.env)],
        ["display-message", "-p", "done"],
    ]
    return tmux(socket).guarded(pane_id, guard, *commands) == "done"


def _ours(agent_id: str, run_id: str) -> str:
    agent = f"#{{==:#{{{AGENT_TAG}}},{literal(agent_id)}}}"
    run = f"#{{==:#{{{RUN}}},{literal(run_id)}}}"
    # The tag itself is part of it: an empty id must not match the panes that carry none.
    return f"#{{&&:{TAGGED},#{{&&:{agent},{run}}}}}"


def capture(socket: TmuxSocket, pane_id: str, lines: int, *, joined: bool = False) -> list[str]:
    """The last ``lines`` lines of the pane's screen and history, without blank ones at the end.

    ``joined``: a line that the pane's width has wrapped is one line again, without blanks at its end.
    Of a dead pane they are its program's last lines, not the notice tmux puts below them. Raises as
    `Tmux.run`, fact ``missing`` if the pane is gone.
    """
    look = ["capture-pane", "-p", *(["-J"] if joined else []), "-t", pane_id, "-S", f"-{lines}"]
    dead, _, text = (
        tmux(socket).chain(["display-message", "-p", "-t", pane_id, "d#{pane_dead}"], look).partition("\n")
    )
    rows = text.split("\n")
    shown = _without_blank_end([row.rstrip(" ") for row in rows] if joined else rows)
    if dead == "d1" and shown and shown[-1].startswith("Pane is dead"):
        shown = _without_blank_end(shown[:-1])
    return shown[-lines:]


def _without_blank_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
