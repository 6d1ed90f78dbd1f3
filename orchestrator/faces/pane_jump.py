"""The tmux command that brings a person to an agent's pane. Only resolves the names of sockets."""

from __future__ import annotations

import os


def attach_command(socket: str, pane_id: str, *, inside: str) -> list[str]:
    """The tmux command that shows the pane, zoomed; ``inside`` is $TMUX, empty outside of tmux.

    Inside another tmux server, attaching would be refused as nested: the terminal attaches without its $TMUX.
    """
    here = switches(socket, inside)
    go = ["switch-client", "-t", pane_id] if here else ["attach-session", "-t", pane_id]
    zoom = ["if-shell", "-F", "-t", pane_id, "#{window_zoomed_flag}", "", f"resize-pane -Z -t {pane_id}"]
    commands = [["select-window", "-t", pane_id], ["select-pane", "-t", pane_id], zoom, go]
    words = [word for command in commands for word in (*command, ";")][:-1]
    nested = ["env", "-u", "TMUX"] if inside and not here else []
    return [*nested, "tmux", "-S", socket, *words]


def switches(socket: str, inside: str) -> bool:
    """Whether this terminal is a client of that server: its client then switches, and no program is started in it."""
    return os.path.realpath(inside.rsplit(",", 2)[0]) == os.path.realpath(socket) if inside else False
