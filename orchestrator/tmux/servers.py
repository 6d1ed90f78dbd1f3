"""The tmux servers this process speaks to, one object each."""

from __future__ import annotations

from functools import lru_cache

from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.tmux_server import Tmux


@lru_cache(maxsize=64)
def tmux(socket: TmuxSocket) -> Tmux:
    """The server at that socket; nothing is asked of it yet, and it need not run."""
    return Tmux(socket)
