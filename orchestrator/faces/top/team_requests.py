"""What top asks of the daemon, and the commands it runs: one connection, each request in a thread of the caller.

Never starts a daemon by itself: only a command that the user chose does, as on the command line.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.edge.project_location import Project, RunDirUnsafe, own_command
from orchestrator.faces.daemon_client import DaemonClient

COMMAND_S = 120.0


class TeamRequests:
    """The requests of one face."""

    def __init__(self, place: Project) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._link: DaemonClient | None = None

    def close(self) -> None:
        """End the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer of the daemon; NotReady if none answers. A request that failed is not sent again."""
        with self._lock:
            try:
                if self._link is None:
                    self._link = DaemonClient(self.place, start=False, survive=False)
                return self._link.ask(method, params)
            except (NotReady, OSError) as error:
                self.close()
                if isinstance(error, OSError):
                    raise NotReady("daemon_down", "the daemon ended before it answered") from None
                raise
            except RunDirUnsafe as error:
                raise NotReady("daemon_down", str(error)) from None

    def answer(self, item: str, decision: str, text: str = "") -> dict[str, Any]:
        """Answer exactly this item of the inbox."""
        return self.ask("orchestrator/answer", {"item": item, "decision": decision, "text": text, "face": "top"})

    def screen(self, agent_id: str, lines: int = 0) -> list[str]:
        """What the agent's pane shows now; with ``lines`` that many, what has scrolled away included."""
        return list(self.ask("orchestrator/peek", {"agent_id": agent_id, "lines": lines})["lines"])

    def meta(self, agent_id: str) -> dict[str, Any]:
        """The meta of agent_get, from the files if no daemon answers."""
        try:
            asked = {"name": "agent_get", "arguments": {"agent_id": agent_id}}
            answer = self.ask("tools/call", asked)
            content = answer.get("structuredContent") or {}
            if not answer.get("isError") and "meta" in content:
                return dict(content["meta"])
        except OrchestratorError:
            pass
        from orchestrator.team.roster import offline_view  # noqa: PLC0415  (loads the log readers)

        return offline_view.agent(self.place.root, agent_id)

    def command(self, *words: str, stdin: str = "") -> tuple[int, str]:
        """Run one of our commands; its exit status and what it printed, errors last."""
        try:
            done = subprocess.run(
                self.command_line(*words), cwd=self.place.root, input=stdin, capture_output=True, text=True,
                errors="replace", timeout=COMMAND_S, check=False, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 1, f"orchestrator {words[0]} took longer than {COMMAND_S:g} s; it may have done its work"
        return done.returncode, (done.stdout + done.stderr).strip()

    def command_line(self, *words: str) -> list[str]:
        """The command line of one of our commands, for this project."""
        return own_command("--project", str(self.place.root), *words)

    def run_quietly(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a program that shows nothing here. Returns its exit status and output, or errors if it failed."""
        try:
            done = subprocess.run(
                list(command), cwd=self.place.root, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=COMMAND_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error)
        return done.returncode, (done.stderr if done.returncode else done.stdout).strip()
