"""What our calls to tmux cost: how many processes, and how long, on a private server with ten panes of ours."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks.figures import Figure
from orchestrator.base.errors import Environment
from orchestrator.tmux import panes, screen_capture, splits, tmux_server
from orchestrator.tmux.panes import NewPane
from orchestrator.tmux.screen_capture import PaneTag
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.tmux_server import Tmux
from orchestrator.tmux.window_layout import LayoutLimits

PANES = 10
LIMITS = LayoutLimits()
NAMES = {
    "list": "tmux: list panes",
    "capture": "tmux: capture one pane",
    "look": f"tmux: look at {PANES} panes",
    "split": f"tmux: split beside {PANES}, tag, even out, kill",
}
FIGURES = (
    *(
        figure
        for name, words in NAMES.items()
        for figure in (Figure(f"{name}_ms", words, "ms"), Figure(f"{name}_processes", "  processes"))
    ),
    Figure("tmux_ms", "  limit: one call of tmux that prints a letter", "ms"),
)


def calls_of(socket: TmuxSocket, server: Tmux) -> dict[str, Callable[[], Any]]:
    """The calls by name, on a server with its panes."""
    size = ["-x", "400", "-y", "200"]
    master = server.run("new-session", "-d", "-s", "bench", *size, "-P", "-F", "#{pane_id}", "--", "env", "cat")
    made = splits.create_agents(socket, master, [], [_new(number) for number in range(PANES)], LIMITS)
    ours = [pane_id for pane_id in made if isinstance(pane_id, str)]
    wanted = {pane_id: PaneTag(f"a{number}", "r") for number, pane_id in enumerate(ours)}

    def split_and_kill() -> None:
        [pane_id] = splits.create_agents(socket, master, ours, [_new(99)], LIMITS)
        panes.kill(socket, str(pane_id), "a99", "r")

    return {
        "list": lambda: panes.list_tagged(socket),
        "capture": lambda: panes.capture(socket, ours[0], 20),
        "look": lambda: screen_capture.look(socket, wanted),
        "split": split_and_kill,
    }


async def rounds() -> AsyncIterator[dict[str, float]]:
    socket = TmuxSocket(name=f"orchestrator-bench-{uuid.uuid4().hex[:12]}", config="/dev/null")
    server = tmux(socket)
    try:
        calls = calls_of(socket, server)
        while True:
            out: dict[str, float] = {}
            for name, call in calls.items():
                out[f"{name}_ms"], out[f"{name}_processes"] = _measured(5 if name == "split" else 15, call)
            out["tmux_ms"], _ = _measured(15, lambda: server.run("display-message", "-p", "x"))
            yield out
    finally:
        try:
            server.run("kill-server")
        except Environment as error:
            if not error.facts.get("server_gone"):
                raise


def _new(number: int) -> NewPane:
    return NewPane(f"a{number}", "r", 1, ["env", "cat"], "/")


def _measured(times: int, call: Callable[[], Any]) -> tuple[float, float]:
    """Median milliseconds of the call, and the processes of tmux that one starts."""
    real, started, took = tmux_server.invoke, [0], []

    def counted(argv: Any) -> Any:
        started[0] += 1
        return real(argv)

    tmux_server.invoke = counted
    try:
        for _ in range(times):
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)
    finally:
        tmux_server.invoke = real
    return 1000 * statistics.median(took), started[0] / times
