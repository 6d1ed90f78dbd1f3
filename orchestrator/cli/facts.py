"""Read agents, events and broadcasts for commands: from the daemon if it answers, else from the files.

Reads only and never starts a daemon. Both sources return the same shapes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient

PAGE = 1000
FOLLOW_MS = 30_000
_LOOK_AGAIN_S = 0.25


class Facts(Protocol):
    """A source of facts; shapes are those of the tools of the same names."""

    live: bool

    def agents(self) -> list[dict[str, Any]]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def window_run(self) -> str | None: ...
    def agent(self, agent_id: str) -> dict[str, Any]: ...
    def events(self, agent_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]: ...
    def broadcast(self, run_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]: ...


class FromFiles:
    """Facts from the files of a project; statuses are ``unknown`` unless final."""

    live = False

    def __init__(self, root: Path) -> None:
        from orchestrator.team.roster import offline_view  # noqa: PLC0415  (loads the log readers)

        self._root = root
        self._reading = offline_view

    def agents(self) -> list[dict[str, Any]]:
        return self._reading.agents(self._root)

    def snapshot(self) -> dict[str, Any]:
        from orchestrator.faces.snapshot_client import offline_snapshot  # noqa: PLC0415

        return offline_snapshot(self._root)

    def window_run(self) -> str | None:
        """The run that is led from this pane; without a daemon nothing knows the other panes of its window."""
        from orchestrator.cli.run_choice import run_of_pane  # noqa: PLC0415

        return run_of_pane(self._reading.runs(self._root))

    def agent(self, agent_id: str) -> dict[str, Any]:
        return self._reading.agent(self._root, agent_id)

    def events(self, agent_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]:
        end = time.monotonic() + wait_ms / 1000
        while True:
            page = self._reading.events(self._root, agent_id, since, count)
            if page["events"] or time.monotonic() >= end:
                return page
            time.sleep(_LOOK_AGAIN_S)

    def broadcast(self, run_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]:
        end = time.monotonic() + wait_ms / 1000
        while True:
            page = self._reading.broadcast(self._root, run_id, since, count)
            if page["events"] or time.monotonic() >= end:
                return page
            time.sleep(_LOOK_AGAIN_S)


class FromDaemon:
    """Facts from the daemon, through the tools every master has."""

    live = True

    def __init__(self, link: DaemonClient) -> None:
        self.link = link
        self._gens: dict[str, int] = {}  # by run: which of its broadcasts is being read

    def agents(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.link.tool("agent_list", {"scope": "all"})["agents"]
        return rows

    def snapshot(self) -> dict[str, Any]:
        return self.link.ask("orchestrator/snapshot", {})

    def window_run(self) -> str | None:
        """The team run of this tmux window, as far as it has agents; outside tmux of the session made for it."""
        rows = self.link.tool("agent_list", {})["agents"]
        return next((str(row["run_id"]) for row in rows if row["run_id"]), None)

    def agent(self, agent_id: str) -> dict[str, Any]:
        meta: dict[str, Any] = self.link.tool("agent_get", {"agent_id": agent_id})["meta"]
        return meta

    def events(self, agent_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]:
        arguments = {"agent_id": agent_id, "since_seq": since, "max_events": min(count, PAGE), "wait_ms": wait_ms}
        return self.link.tool("events_read", arguments, wait_s=wait_ms / 1000)

    def broadcast(self, run_id: str, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]:
        arguments = {"run_id": run_id, "since_seq": since, "max_events": min(count, PAGE), "wait_ms": wait_ms}
        if run_id in self._gens:
            arguments["gen"] = self._gens[run_id]
        page = self.link.tool("broadcast_read", arguments, wait_s=wait_ms / 1000)
        if page.get("gen") is not None:
            self._gens[run_id] = page["gen"]
        return page


def daemon_if_any(place: Project) -> DaemonClient | None:
    """A link to the project's daemon if one answers; inside an agent never, because it would be refused."""
    if os.environ.get("ORCHESTRATOR_AGENT_ID"):
        return None
    try:
        return DaemonClient(place, start=False)
    except (OrchestratorError, project_location.RunDirUnsafe):
        return None


def facts(place: Project) -> Facts:
    """The best source there is right now."""
    link = daemon_if_any(place)
    return FromFiles(place.root) if link is None else FromDaemon(link)


class LogPrinter:
    """One log to print: an agent's events, or a run's broadcast. Goes over to the files if the daemon ends."""

    def __init__(self, place: Project, source: Facts, *, agent_id: str = "", run_id: str = "") -> None:
        self._place = place
        self._facts = source
        self._agent_id = agent_id
        self._run_id = run_id

    def page(self, since: int, count: int, wait_ms: int = 0) -> dict[str, Any]:
        """Records after a seq: ``{events, last_seq, more}``."""
        try:
            return self._read(since, count, wait_ms)
        except NotReady:
            if not self._facts.live:
                raise
            self._facts = FromFiles(self._place.root)
            return self._read(since, count, wait_ms)

    def records(self, since: int, last: int, *, follow: bool) -> Iterator[dict[str, Any]]:
        """Records after ``since``, of the existing ones only the ``last`` (0: all); ``follow``: also all new ones."""
        if last and self._agent_id:
            since = max(since, int(self._facts.agent(self._agent_id)["last_event_seq"]) - last)
        backlog: deque[dict[str, Any]] = deque(maxlen=last or None)
        more = True
        while more:
            page = self.page(since, PAGE)
            since, more = page["last_seq"], page["more"]
            backlog.extend(page["events"])
            while backlog and not last:
                yield backlog.popleft()
        yield from backlog
        while follow:
            page = self.page(since, PAGE, FOLLOW_MS)
            since = page["last_seq"]
            yield from page["events"]
            if page["events"]:  # a busy team has more in a moment, and each page costs its daemon a call
                time.sleep(_LOOK_AGAIN_S)

    def _read(self, since: int, count: int, wait_ms: int) -> dict[str, Any]:
        if self._agent_id:
            return self._facts.events(self._agent_id, since, count, wait_ms)
        return self._facts.broadcast(self._run_id, since, count, wait_ms)
