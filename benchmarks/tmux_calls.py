"""What our calls to tmux cost: how many processes, and how long, on a private server with ten panes of ours."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from orchestrator.base.errors import Environment
from orchestrator.tmux import panes, screen_capture, splits, tmux_server
from orchestrator.tmux.panes import NewPane
from orchestrator.tmux.screen_capture import PaneTag
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.window_layout import LayoutLimits

PANES = 10
LIMITS = LayoutLimits()


def main(rounds: int = 30) -> dict[str, dict[str, float]]:
    """For each kind of call: ``processes`` started, and ``p50_ms`` of one call."""
    socket = TmuxSocket(name=f"orchestrator-bench-{uuid.uuid4().hex[:12]}", config="/dev/null")
    server = tmux(socket)
    size = ["-x", "400", "-y", "200"]
    try:
        master = server.run("new-session", "-d", "-s", "bench", *size, "-P", "-F", "#{pane_id}", "--", "env", "cat")
        made = splits.create_agents(socket, master, [], [_new(number) for number in range(PANES)], LIMITS)
        ours = [pane_id for pane_id in made if isinstance(pane_id, str)]
        wanted = {pane_id: PaneTag(f"a{number}", "r") for number, pane_id in enumerate(ours)}

        def split_and_kill() -> None:
            [pane_id] = splits.create_agents(socket, master, ours, [_new(99)], LIMITS)
            panes.kill(socket, str(pane_id), "a99", "r")

        return {
            "list": _measured(rounds, lambda: panes.list_tagged(socket)),
            "capture one pane": _measured(rounds, lambda: panes.capture(socket, ours[0], 20)),
            f"look at {PANES} panes": _measured(rounds, lambda: screen_capture.look(socket, wanted)),
            f"split beside {PANES}, tag, even out, kill": _measured(rounds // 3, split_and_kill),
        }
    finally:
        try:
            server.run("kill-server")
        except Environment as error:
            if not error.facts.get("server_gone"):
                raise


def _new(number: int) -> NewPane:
    return NewPane(f"a{number}", "r", 1, ["env", "cat"], "/")


def _measured(rounds: int, call: Callable[[], Any]) -> dict[str, float]:
    real, started, times = tmux_server.invoke, [0], []

    def counted(argv: Any) -> Any:
        started[0] += 1
        return real(argv)

    tmux_server.invoke = counted
    try:
        for _ in range(rounds):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    finally:
        tmux_server.invoke = real
    return {"processes": started[0] / rounds, "p50_ms": 1000 * statistics.median(times)}
