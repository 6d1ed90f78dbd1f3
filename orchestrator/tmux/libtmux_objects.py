"""libtmux's own objects on a tmux server of ours: all their commands go the way of `Tmux.run`, with its rules.

What libtmux does with several calls, or without a time limit, is not used (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libtmux
from libtmux import exc
from libtmux.common import get_version_str, tmux_cmd

from orchestrator.base.errors import Environment
from orchestrator.tmux.server_address import TmuxSocket

Run = Callable[..., str]
"""`Tmux.run` of the server."""


class TmuxAnswer(tmux_cmd):
    """What one command printed, as libtmux's objects expect it; a command that fails raises instead."""

    def __init__(self, words: list[str], text: str) -> None:  # not super's: it runs
        self.cmd = words
        self.returncode = 0
        self.stdout = text.rstrip("\n").split("\n") if text.strip("\n") else []
        self.stderr = []


class _LibtmuxServer(libtmux.Server):
    def __init__(self, socket: TmuxSocket, run: Run) -> None:
        super().__init__(socket_name=socket.name, socket_path=socket.path, config_file=socket.config)
        self._run = run

    def cmd(  # type: ignore[override]  # the form of libtmux.Server.cmd, which breaks its own protocol too
        self, cmd: str, *args: Any, target: str | int | None = None
    ) -> TmuxAnswer:
        where = [] if target is None else ["-t", str(target)]
        words = [cmd, *where, *map(str, args)]
        return TmuxAnswer(words, self._run(*words))


def pane(socket: TmuxSocket, run: Run, pane_id: str) -> libtmux.Pane:
    """A pane of the server; nothing is asked of tmux."""
    return libtmux.Pane(server=_LibtmuxServer(socket, run), pane_id=pane_id)


def window(socket: TmuxSocket, run: Run, window_id: str) -> libtmux.Window:
    """A window of the server; nothing is asked of tmux."""
    return libtmux.Window(server=_LibtmuxServer(socket, run), window_id=window_id)


def installed_version() -> str:
    """The version of the program on PATH; Environment ``no_tmux`` or ``tmux_failed``."""
    try:
        get_version_str.cache_clear()  # the user may have installed another one since
        return get_version_str()  # knows OpenBSD's tmux, which has no -V
    except exc.TmuxCommandNotFound:
        raise Environment("no_tmux", "tmux is not installed") from None
    except exc.LibTmuxException as error:
        raise Environment("tmux_failed", f"tmux does not print its version: {error}") from None
