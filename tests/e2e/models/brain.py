"""The scripted brain behind all four protocols: plays an agent, a master, or the one-shot run of a prompt.

``answer(turn)`` is what a server calls. Tests steer it: ``open(gate)``, ``misbehave(fault, agent_id, tasks)``,
``play(words, **part)``, ``trouble(...)``, ``script(name, generator function)``. It decides from the conversation alone; what it keeps besides
is which task a fault has hit, how much trouble is left, and how far a master's script has come.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from tests.e2e.models import agent, oneshot
from tests.e2e.models.faults import Faults, Trouble
from tests.e2e.models.gemini import SIDE_ANSWERS
from tests.e2e.models.master import Masters, Script, marked
from tests.e2e.models.turn import Reply, Turn

PACE_S = 0.25
"""How long a heartbeat of a held task waits for its gate before it goes out."""


class Brain:
    """One brain for any number of conversations; safe to ask from several threads."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.masters = Masters()
        self._gates: dict[str, threading.Event] = {}
        self._troubles: list[Trouble] = []
        self._parts: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()

    # -- what tests steer -----------------------------------------------------------------------------------------

    def open(self, gate: str) -> None:
        """Let every task and every one-shot run that holds at this gate go on."""
        self._gate(gate).set()

    def misbehave(self, fault: str, agent_id: str | None = None, tasks: int | None = 1) -> None:
        """Misbehave as `faults.FAULTS` says at the next ``tasks`` tasks (None: for ever) of that agent (None: any)."""
        self.faults.add(fault, agent_id, tasks)

    def trouble(self, status: int = 500, times: int | None = 1, **more: Any) -> Trouble:
        """Make the API fail as `faults.Trouble` says; the answer may be given to `calm`."""
        one = Trouble(status=status, times=times, **more)
        with self._lock:
            self._troubles.append(one)
        return one

    def play(self, words: str, **part: Any) -> None:
        """Do a task whose text holds ``words`` as an agent's payload of these keys says (`agent`)."""
        with self._lock:
            self._parts.append((words, part))

    def calm(self, trouble: Trouble | None = None) -> None:
        """End that trouble, or all of it."""
        with self._lock:
            self._troubles = [one for one in self._troubles if trouble is not None and one is not trouble]

    def script(self, name: str, script: Script) -> str:
        """Register a master's script; the line that a prompt must hold."""
        self.masters.add(name, script)
        return f"MASTER SCRIPT {name}"

    # -- what a server asks ---------------------------------------------------------------------------------------

    def who(self, turn: Turn) -> str | None:
        """The agent a conversation belongs to, None for a master, a one-shot run or nobody."""
        return None if marked(turn) or oneshot.script_of(turn) is not None else agent.agent_of(turn)

    def answer(self, turn: Turn) -> Reply:
        """The model's reply to a request."""
        agent_id = self.who(turn)
        if trouble := self._next_trouble(turn, agent_id):
            headers = tuple(trouble.headers.items())
            return Reply(status=trouble.status, headers=headers, body=trouble.body, hang=trouble.hang)
        if turn.side_call:
            return Reply(self._side(turn, agent_id))
        if mark := marked(turn):
            return self.masters.reply(turn, *mark)
        if agent_id is None:
            return oneshot.reply(turn)
        memory = agent.remember(agent_id, turn.messages)
        if memory.task and (part := self._part(memory.payload)):
            memory.task = {**memory.task, "payload": part}
        faults = self.faults.of(agent_id, memory.task_id) if memory.task else frozenset[str]()
        return agent.next_move(turn, memory, faults, self._is_open)

    def _side(self, turn: Turn, agent_id: str | None) -> str:
        if turn.side_call == "compression":
            who = f"You are agent {agent_id}. " if agent_id else ""
            return f"<state_snapshot>{who}The work goes on: call wait_for_command.</state_snapshot>"
        title = json.dumps({"title": "Scripted work"}) if turn.kind == "codex" else "Scripted work"
        return SIDE_ANSWERS.get(str(turn.side_call), title)

    def _part(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        text = payload.get("task")
        with self._lock:
            return next((part for words, part in self._parts if isinstance(text, str) and words in text), None)

    def _gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(name, threading.Event())

    def is_open(self, gate: str) -> bool:
        """Whether that gate has been opened."""
        return self._gate(gate).is_set()

    def _is_open(self, gate: str) -> bool:
        return self._gate(gate).wait(PACE_S)

    def _next_trouble(self, turn: Turn, agent_id: str | None) -> Trouble | None:
        with self._lock:
            for one in self._troubles:
                if one.times == 0 or (one.main_only and turn.side_call):
                    continue
                if one.agent_id not in {None, agent_id} or one.kind not in {None, turn.kind}:
                    continue
                if one.times is not None:
                    one.times -= 1
                return one
        return None
