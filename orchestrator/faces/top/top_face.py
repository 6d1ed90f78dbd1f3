"""What the views of top share: the snapshot, the requests, and work in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from orchestrator.base.errors import Environment, OrchestratorError

Result = TypeVar("Result")


class PeopleRequester(Protocol):
    """What top asks and runs; `team_requests.TeamRequests` in use."""

    def answer(self, item: str, decision: str, text: str = "") -> dict[str, Any]: ...
    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]: ...
    def screen(self, agent_id: str, lines: int = 0) -> list[str]: ...
    def meta(self, agent_id: str) -> dict[str, Any]: ...
    def command(self, *words: str, stdin: str = "") -> tuple[int, str]: ...
    def command_line(self, *words: str) -> list[str]: ...
    def run_quietly(self, command: Sequence[str]) -> tuple[int, str]: ...


class TopFace:
    """``deliver`` runs a call in the event loop's thread. ``commands`` are our own commands, each with its help.

    ``popup``: the tmux command that opens this popup again; empty if top is not in a popup. ``key_tables``: tmux
    sockets and key tables with bindings to remove when top ends.
    """

    def __init__(
        self,
        root: Path,
        requests: PeopleRequester,
        *,
        ascii_only: bool = False,
        popup: Sequence[str] = (),
        commands: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.root = root
        self.requests = requests
        self.ascii_only = ascii_only
        self.popup = popup
        self.key_tables: set[tuple[str, str]] = set()
        self.commands = commands
        self.snapshot: dict[str, Any] | None = None
        self.seen = True
        self.deliver: Callable[[Callable[[], None]], None] = lambda call: call()

    def in_thread(
        self,
        work: Callable[[], Result],
        then: Callable[[Result], None],
        failed: Callable[[OrchestratorError], None] | None = None,
    ) -> None:
        """Do what blocks in a thread, which keeps nobody from quitting; then go on in the loop's thread."""

        def run() -> None:
            try:
                result = work()
            except OrchestratorError as error:
                refused: OrchestratorError = error
            except Exception as error:  # noqa: BLE001  (the thread's end must reach who waits for it)
                refused = Environment("internal", f"internal error in orchestrator: {type(error).__name__}: {error}")
            else:
                self.deliver(lambda: then(result))
                return
            if failed is not None:
                self.deliver(lambda: failed(refused))

        threading.Thread(target=run, daemon=True, name="top work").start()
