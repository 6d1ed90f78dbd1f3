"""Makes the content of each page of the site, and says on what it depends, so that it is made anew only then."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from orchestrator.base.errors import NotReady
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient
from orchestrator.faces.web.agent_page import agent_page
from orchestrator.faces.web.page_content import PageContent, PageRequest
from orchestrator.faces.web.page_parts import inbox_page, team_page
from orchestrator.faces.web.run_pages import files_page, runs_page, timeline_page

EVERY_S = {"screen": 1.0, "log": 2.0, "diff": 10.0, "files": 5.0, "timeline": 5.0, "runs": 2.0}
"""Seconds between two versions of a page whose content is not in the snapshot; `OTHERS_S` for other tabs."""
OTHERS_S = 5.0


class DaemonCalls:
    """What the site asks of the project's daemon. Each call blocks; from any thread. Never starts a daemon."""

    def __init__(self, place: Project) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._link: DaemonClient | None = None

    def screen(self, agent_id: str, lines: int = 0) -> list[str]:
        """The screen of an agent; with ``lines`` so many of its pane's history."""
        return [str(line) for line in self._ask("orchestrator/peek", {"agent_id": agent_id, "lines": lines})["lines"]]

    def meta(self, agent_id: str) -> dict[str, Any]:
        """The meta of agent_get."""
        with self._lock:
            meta: dict[str, Any] = self._linked().tool("agent_get", {"agent_id": agent_id})["meta"]
            return meta

    def answer(self, item: str, decision: str, text: str) -> dict[str, Any]:
        """Answer an item of the inbox as the human who opened this site; raises as the daemon does."""
        # A connection of its own: an answer waits for no screen.
        with DaemonClient(self._place, start=False, survive=False) as link:
            return link.ask("orchestrator/answer", {"item": item, "decision": decision, "text": text, "face": "web"})

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._drop()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                return self._linked().ask(method, params)
            except NotReady:
                self._drop()
                raise

    def _linked(self) -> DaemonClient:
        if self._link is None:
            self._link = DaemonClient(self._place, start=False, survive=False)
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class SitePages:
    """The pages of one project."""

    def __init__(self, root: Path, calls: DaemonCalls) -> None:
        self._root, self._calls = root, calls

    def depends_on(self, request: PageRequest, snapshot: dict[str, Any], now: float) -> object:
        """A value that changes when the page must be made anew."""
        if request.view in ("team", "inbox"):
            return snapshot["boot"], snapshot["live"], snapshot["version"]
        # In a busy team, not every record of another agent causes a read of git, tmux and all agents' files.
        own = next((row for row in snapshot["agents"] if row["agent_id"] == request.agent), None)
        every_s = EVERY_S.get(request.tab or request.view, OTHERS_S)
        return snapshot["boot"], snapshot["live"], snapshot["inbox"], own, int(now / every_s)

    def content(self, request: PageRequest, snapshot: dict[str, Any]) -> PageContent:
        """The page now; blocks, and raises OrchestratorError if it cannot be made."""
        if request.view == "team":
            return team_page(snapshot)
        if request.view == "inbox":
            return inbox_page(snapshot)
        if request.view == "runs":
            return runs_page(self._root, snapshot)
        if request.view == "files":
            return files_page(self._root, snapshot)
        if request.view == "timeline":
            return timeline_page(self._root, request, snapshot)
        return agent_page(self._root, request, snapshot, self._calls)
