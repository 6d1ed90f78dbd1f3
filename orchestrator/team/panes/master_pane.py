"""The tmux pane of a master, found from the origin of its connection. Changes nothing."""

from __future__ import annotations

import re

from orchestrator.base.errors import Environment
from orchestrator.base.platform.processes import command_of, environ_of
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.engines import table
from orchestrator.tmux import panes
from orchestrator.tmux.panes import PaneInfo
from orchestrator.tmux.server_address import TmuxSocket, from_env


def socket_of(origin: ConnectionOrigin) -> TmuxSocket | None:
    """The master's tmux server, from its own environment or an ancestor's; None outside tmux."""
    value = origin.tmux
    if not value:
        # Some CLIs clear the environment of their MCP servers, but not their own.
        value = next((variable for pid in origin.pids if (variable := environ_of(pid).get("TMUX"))), "")
    return from_env(value) if value else None


def pane_of(socket: TmuxSocket, origin: ConnectionOrigin) -> PaneInfo | None:
    """The master's pane: by ancestry, else $TMUX_PANE, else its tty; None if its server is gone.

    Raises Environment ``pane_unknown`` for a CLI's background process that serves several panes: its environment may
    belong to another pane (Codex).
    """
    shared = _shared_process(origin)
    if shared is not None:  # even with a pane among its ancestors: only its first CLI was started there
        raise Environment("pane_unknown", f"this MCP server was started by {shared!r}, not in your pane")
    try:
        return panes.find_master(socket, list(origin.pids), origin.tmux_pane, origin.tty)
    except Environment as error:
        if not error.facts.get("server_gone"):
            raise
        return None


def _shared_process(origin: ConnectionOrigin) -> str | None:
    patterns = [row.shared_process for row in table.ENGINES.values() if row.shared_process]
    commands = (command_of(pid) for pid in origin.pids)
    return next((command for command in commands if any(re.search(pattern, command) for pattern in patterns)), None)
