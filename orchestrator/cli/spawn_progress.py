"""Show the progress of a spawn run: a bar on a terminal, else a line per change. Writes stderr only."""

from __future__ import annotations

import os
import sys
from typing import Any, Self

from orchestrator.cli import output
from orchestrator.faces.daemon_client import DaemonClient

LOOK_MS = 1000
"""How long the daemon may keep a look waiting for a change: a human watches the clock too."""
ENDED = ("completed", "failed", "canceled")
NAMES = 6  # so many running nodes are named
BAR = 20


def follow(link: DaemonClient, run_id: str) -> dict[str, Any]:
    """Show how far a run is until it has ended or is foreign; its last status. Ctrl-C leaves the run as it is."""
    answer = link.tool("smartspawn_run_status", {"run_id": run_id})
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    with _Bar() if live else _ProgressLines() as shown:
        while True:
            shown.show(answer)
            if answer["status"] in ENDED or answer.get("foreign"):
                return answer
            arguments = {"run_id": run_id, "wait_ms": LOOK_MS}
            answer = link.tool("smartspawn_run_status", arguments, wait_s=LOOK_MS / 1000)


def counted(answer: dict[str, Any]) -> str:
    """Done, failed and all nodes, in words."""
    progress = answer["progress"]
    parts = [f"{progress['done_nodes']}/{progress['total_nodes']} nodes"]
    parts += [
        f"{progress[f'{kind}_nodes']} {kind}" for kind in ("failed", "skipped") if progress.get(f"{kind}_nodes")
    ]
    return ", ".join(parts)


def spent(answer: dict[str, Any]) -> str:
    """What a run has cost so far and may cost; empty where its answers have no price."""
    from orchestrator.spawn.picture_words import dollars, maybe_charged  # noqa: PLC0415

    cost = answer.get("cost") or {}
    if cost.get("usd") is None:
        return ""
    known = f"{dollars(cost['usd'])} of {dollars(cost.get('limit_usd'))}"
    return "; ".join(filter(None, (known, maybe_charged(cost))))


def busy(answer: dict[str, Any]) -> str:
    """Which nodes are being answered and which are tried again; or that the run is foreign, or waits for its key."""
    if answer.get("foreign"):
        return str(answer.get("failure"))
    if answer.get("waiting_for_key"):
        return "waiting for the key it was created with"
    groups = []
    for word, status in (("running", "running"), ("waiting for retry", "retry_pending")):
        names = [str(node["node_id"]) for node in answer.get("nodes", ()) if node["status"] == status]
        if names:
            more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
            groups.append(f"{word}: {', '.join(names[:NAMES])}{more}")
    return "; ".join(groups)


def ending(answer: dict[str, Any]) -> str:
    """How a run has ended, without repetition: a summary may begin with the status and contain the failure."""
    state, summary, failure = (str(answer.get(key) or "") for key in ("status", "summary", "failure"))
    if not summary.startswith(state):
        summary = f"{state}; {summary}" if summary else state
    return summary if failure in summary else f"{summary}; {failure}"


class _ProgressLines:
    """A line for each change; time alone is none."""

    def __init__(self) -> None:
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, answer: dict[str, Any]) -> None:
        parts = [answer["status"], counted(answer), spent(answer), busy(answer), answer.get("last_event") or ""]
        line = "; ".join(part for part in parts if part)
        if line != self._last:
            output.warn(line)
        self._last = line


class _Bar:
    """A bar with two lines of words, drawn over itself."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (60 ms, and only a terminal needs it)
        from rich.live import Live  # noqa: PLC0415

        console = Console(file=sys.stderr, no_color=bool(os.environ.get("NO_COLOR")) or None, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, answer: dict[str, Any]) -> None:
        self._live.update(_drawn(answer), refresh=True)


def _drawn(answer: dict[str, Any]) -> Any:
    from rich.console import Group  # noqa: PLC0415
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from orchestrator.spawn.picture_words import seconds  # noqa: PLC0415

    progress = answer["progress"]
    ended = sum(progress.get(f"{kind}_nodes") or 0 for kind in ("done", "failed", "skipped"))
    words = [answer["status"], counted(answer), seconds(answer.get("elapsed_s")), spent(answer)]
    if answer.get("eta_s") is not None:
        words.append(f"{seconds(answer['eta_s'])} left")
    head = Table.grid(padding=(0, 2))
    head.add_row(
        ProgressBar(total=max(1, progress["total_nodes"]), completed=ended, width=BAR),
        Text(output.printable("; ".join(word for word in words if word))),
    )
    detail = output.printable(busy(answer) or answer.get("last_event") or "").replace("\n", " ")
    return Group(head, Text(detail, no_wrap=True, overflow="ellipsis"))
