"""Follow the snapshot of a project's team: from its daemon, which sends what changes, else from the files.

One thread and one connection for each client, however often it is asked. Never starts a daemon.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orchestrator.base.clock import SystemClock, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.core.attention import in_order, past_of_run, totals
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.faces.daemon_client import DaemonClient

WAIT_MS = 20_000
RETRY_S = 1.0
"""How often a daemon is looked for while none answers, and the files are read again."""


def offline_snapshot(root: Path, version: int = 1) -> dict[str, Any]:
    """The snapshot as the files say it: no daemon answers, so statuses are ``unknown`` unless they are final."""
    from orchestrator.team.people.snapshot_rows import offline_rows  # noqa: PLC0415  (loads the log readers)

    rows, items, deleted = offline_rows(root)
    counted = totals(rows, past_of_run(rows, deleted))
    shown = {"version": version, "totals": counted, "agents": in_order(rows), "inbox": items}
    return empty_snapshot(root) | shown


def empty_snapshot(root: Path) -> dict[str, Any]:
    """The snapshot of a team of which nothing is known."""
    return {
        "version": 0, "boot": "", "at": rfc3339(SystemClock().now()), "project": str(root), "title": root.name,
        "live": False, "totals": totals(()), "agents": [], "inbox": [], "runs": [],
    }  # fmt: skip


def read_snapshot(place: Project) -> dict[str, Any]:
    """The snapshot once: from the daemon if one answers, else from the files."""
    try:
        with DaemonClient(place, start=False) as link:
            return link.ask("orchestrator/snapshot", {})
    except (OrchestratorError, project_location.RunDirUnsafe):
        return offline_snapshot(place.root)


class SnapshotClient:
    """The newest snapshot of a project, kept current by a thread; a context manager.

    ``face`` names who looks; ``answers`` says that it can answer items, for which some CLIs then wait. While no
    daemon answers the snapshot is that of the files, with ``live`` false; a daemon that comes back is found.
    """

    def __init__(self, place: Project, *, face: str, answers: bool = False) -> None:
        self._place = place
        self._face = face
        self._answers = answers
        self._changed = threading.Condition()
        self._snapshot: dict[str, Any] | None = None
        self._number = 0
        self._closed = False
        self._link: DaemonClient | None = None
        self._thread = threading.Thread(target=self._follow, name=f"{face} snapshot", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the face is closed for the daemon."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._link is not None:
            self._link.hang_up()

    def latest(self) -> dict[str, Any] | None:
        """The newest snapshot; None before the first. It is replaced, never changed."""
        return self._snapshot

    def wait(self, number: int, timeout_s: float) -> int:
        """Wait until there is a newer snapshot than the ``number``-th; the number of the newest one."""
        with self._changed:
            self._changed.wait_for(lambda: self._number != number or self._closed, timeout_s)
            return self._number

    # -- the thread ---------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._closed:
            try:
                self._follow_daemon()
            except Exception:  # noqa: BLE001 - an odd answer too must not leave an old snapshot that looks alive
                if not self._closed:
                    self._publish(self._offline())
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed, RETRY_S)

    def _offline(self) -> dict[str, Any]:
        """The snapshot of the files; if they cannot be read, the last one, which is no longer live."""
        try:
            return offline_snapshot(self._place.root, self._number + 1)
        except Exception:  # noqa: BLE001 - as above: whoever looks must see that nothing is known any more
            return {**(self._snapshot or empty_snapshot(self._place.root)), "live": False}

    def _follow_daemon(self) -> None:
        with DaemonClient(self._place, start=False, survive=False) as link:
            self._link = link
            known: dict[str, Any] = {}
            while not self._closed:
                asked = {
                    "since": known.get("version", 0),
                    "boot": known.get("boot", ""),
                    "wait_ms": WAIT_MS if known else 0,
                    "face": self._face,
                    "answers": self._answers,
                }
                news = link.ask("orchestrator/snapshot", asked, wait_s=WAIT_MS / 1000)
                before, known = known, merged(known, news)
                if known["version"] != before.get("version") or known["boot"] != before.get("boot"):
                    self._publish(known)

    def _publish(self, snapshot: dict[str, Any]) -> None:
        with self._changed:
            self._snapshot = snapshot
            self._number += 1
            self._changed.notify_all()


def merged(known: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
    """The snapshot after an answer of the daemon: a whole one, or what has changed since ``known``."""
    if "agents" in news:
        return news
    rows = {row["agent_id"]: row for row in known["agents"]}
    rows |= {row["agent_id"]: row for row in news["changed"]}
    kept = {name: value for name, value in news.items() if name not in ("changed", "gone", "order")}
    return {
        "inbox": known["inbox"],
        **kept,
        "agents": [rows[agent_id] for agent_id in news["order"] if agent_id in rows],
    }
