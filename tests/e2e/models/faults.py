"""How a scripted agent can be told to misbehave, and the API trouble a server can make. Keeps the counts."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

FAULTS = {
    "forget_ack": "does the task without an ack",
    "forget_terminal": "waits instead of ending the task; ends it when it is handed out once more",
    "never_terminal": "as forget_terminal, and never ends it",
    "terminal_twice": "sends the terminal event twice",
    "end_turn": "after the terminal event says something instead of waiting, which ends its turn",
    "plain_text": "answers a task with words instead of a tool, which ends its turn",
    "unknown_tool": "calls a tool that does not exist, then goes on",
    "wrong_agent_id": "reports its first event as another agent, then goes on",
    "wrong_task_id": "ends another task than the one it holds, then goes on",
    "amnesia": "forgets everything but the last answer after its ack, and works by `reminder` alone",
    "parallel": "sends the terminal event and the next wait in one turn",
    "double_wait": "after the terminal event calls wait twice in one turn",
}


@dataclass
class _Order:
    fault: str
    agent_id: str | None
    left: int | None  # tasks; None: for ever


class Faults:
    """Orders to misbehave, each bound to the tasks it hits, so that a repeated request gets the same reply."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []
        self._bound: dict[tuple[str, str], frozenset[str]] = {}
        self._lock = threading.Lock()

    def add(self, fault: str, agent_id: str | None = None, tasks: int | None = 1) -> None:
        """Misbehave at the next ``tasks`` tasks (None: all) of that agent (None: of each agent together)."""
        if fault not in FAULTS:
            raise ValueError(f"no such fault: {fault}; there are {', '.join(FAULTS)}")
        with self._lock:
            self._orders.append(_Order(fault, agent_id, tasks))

    def of(self, agent_id: str, task_id: str) -> frozenset[str]:
        """The faults at this task; the first question binds them."""
        with self._lock:
            found = self._bound.get((agent_id, task_id))
            if found is None:
                orders = [o for o in self._orders if o.agent_id in {None, agent_id} and o.left != 0]
                for order in orders:
                    if order.left is not None:
                        order.left -= 1
                found = self._bound[agent_id, task_id] = frozenset(order.fault for order in orders)
            return found


@dataclass
class Trouble:
    """API trouble for the next ``times`` requests (None: for ever) of that agent (None: of anybody).

    ``main_only`` spares side calls. ``hang`` never answers, else ``status`` with ``headers`` and ``body`` (empty: an
    error of the form the CLI's protocol uses).
    """

    status: int = 500
    times: int | None = 1
    agent_id: str | None = None
    kind: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    hang: bool = False
    main_only: bool = True
