"""The tmux commands that let Esc, as the first key in an agent's pane, bring a person back to top. Pure.

The keys of a pane belong to its CLI. So Esc is bound in its own key table, which tmux uses for the first key only.
Any other first key goes to the CLI at once, and so does every later Esc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

TABLE = "orchestrator-top"
SAYS = "Esc: back to top"
AND = "\\;"
"""Ends a command inside a binding; a lone ``;`` would end the binding."""


class Origin(NamedTuple):
    """Where a person comes from, and what was zoomed. ``client`` and ``pane`` are empty outside that server."""

    agent_zoomed: bool = True
    same_window: bool = False
    pane: str = ""
    pane_zoomed: bool = False
    client: str = ""


def facts_command(socket: str, pane_id: str, *, here: bool) -> list[str]:
    """The command whose output `origin_of` reads; ``here``: top runs in this server."""
    there = ["display-message", "-p", "-t", pane_id, "#{window_id} #{window_zoomed_flag}"]
    own = [";", "display-message", "-p", "#{window_id} #{window_zoomed_flag} #{pane_id} #{client_name}"]
    return ["tmux", "-S", socket, *there, *(own if here else [])]


def origin_of(output: str) -> Origin:
    """Parse the output; if it cannot be parsed, return the defaults."""
    lines = [line.split(" ", 3) for line in output.splitlines()]
    if not lines or len(lines[0]) != 2:
        return Origin()
    agent_zoomed = lines[0][1] == "1"
    if len(lines) < 2 or len(lines[1]) != 4:
        return Origin(agent_zoomed)
    window, zoomed, pane, client = lines[1]
    return Origin(agent_zoomed, window == lines[0][0], pane, zoomed == "1", client.strip())


def bind_command(socket: str, pane_id: str, origin: Origin, popup: Sequence[str]) -> list[str]:
    """Bind Esc for one use: go back and restore the windows' zoom. ``popup``: the tmux command that opens it."""
    table = table_of(origin)
    back: list[str] = []
    if not origin.agent_zoomed and not origin.same_window:
        back += ["if-shell", "-F", "-t", pane_id, "#{window_zoomed_flag}", f"resize-pane -Z -t {pane_id}", AND]
    if origin.client and origin.pane:
        back += ["select-window", "-t", origin.pane, AND, "select-pane", "-t", origin.pane, AND]
        if origin.pane_zoomed:
            zoom = f"resize-pane -Z -t {origin.pane}"
            back += ["if-shell", "-F", "-t", origin.pane, "#{window_zoomed_flag}", "", zoom, AND]
        back += ["switch-client", "-c", origin.client, "-t", origin.pane, AND]
        if popup:
            name, *words = popup
            back += [name, "-c", origin.client, "-t", origin.pane, *words, AND]
    else:
        back += ["detach-client", AND]
    return ["tmux", "-S", socket, "bind-key", "-T", table, "Escape", *back, "unbind-key", "-q", "-T", table, "Escape"]


def listen_words(origin: Origin, later: str) -> list[str]:
    """The tmux words that activate Esc and show a hint; they follow the words that go to the pane."""
    client = ["-c", origin.client] if origin.client else []
    return [
        *(";", "switch-client", *client, "-T", table_of(origin)),
        *(";", "display-message", *client, "-d", "4000", f"{SAYS}. After another key: {later}"),
    ]


def unbind_command(socket: str, table: str) -> list[str]:
    """Remove the binding."""
    return ["tmux", "-S", socket, "unbind-key", "-q", "-T", table, "Escape"]


def table_of(origin: Origin) -> str:
    """The key table of the person's client."""
    return f"{TABLE}-{re.sub('[^A-Za-z0-9]+', '-', origin.client).strip('-') or 'attached'}"
