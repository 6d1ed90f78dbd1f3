r"""The keys with which a human interrupts the worker in its pane: Ctrl-C, Ctrl-\ and Ctrl-Z.

The command runs in a session of its own, so the terminal's signals reach the worker alone. It decides what they mean:
they are for the task in hand and never end the worker. Touches the signal handlers of this process.
"""

from __future__ import annotations

import asyncio
import signal
import time
from types import FrameType

from orchestrator.worker.pane_output import PaneOutput

SAME_PRESS_S = 1.0
"""Presses closer together than this belong to one task: a key that is held down must not reach the next task."""

SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)


class Presses:
    """How often a human has interrupted one task. ``hard``: the command is to be killed at once."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.any = False
        self.hard = False
        self._new = asyncio.Event()

    def add(self, *, hard: bool) -> None:
        """Note a press."""
        self.any = True
        self.hard = self.hard or hard
        self._new.set()

    async def next(self) -> None:
        """Wait for a press that no earlier call has returned for."""
        await self._new.wait()
        self._new.clear()


class PaneKeys:
    """Gives each press to the task in hand, and says in the pane what it does."""

    def __init__(self, agent_id: str, pane: PaneOutput) -> None:
        """From now on the signals have no effect until `listen`; the command does not inherit this."""
        self._agent_id, self._pane = agent_id, pane
        self._task: Presses | None = None
        self._last: tuple[float, str] | None = None  # when a press came, and for which task
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on presses count; the loop runs in the main thread."""

        def heard(number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._pressed, number)

        for number in SIGNALS:
            signal.signal(number, heard)

    def begin(self, task_id: str) -> Presses:
        """The presses for this task, which is in hand from now on."""
        self._task = Presses(task_id)
        return self._task

    def end(self) -> None:
        """No task can be interrupted from now on."""
        self._task = None

    def _pressed(self, number: int) -> None:
        self._pane.typed()
        task, now = self._task, time.monotonic()
        task_id = "" if task is None else task.task_id
        before, self._last = self._last, (now, task_id)
        again = before is not None and now - before[0] < SAME_PRESS_S
        if again and before is not None and before[1] != task_id:
            self._last = (now, before[1])
            if task is not None:
                self._pane.say(
                    f"this key was for {before[1] or 'no task'}; to cancel {task_id}, press it again later"
                )
        elif number == signal.SIGTSTP:
            if not again:
                self._pane.say("Ctrl-Z has no effect here; Ctrl-C cancels the task")
        elif task is not None:
            self._pane.say(
                f"canceling {task_id}" + ("" if task.any else "; Ctrl-C again sends the next signal at once")
            )
            task.add(hard=number == signal.SIGQUIT)
        elif not again:
            self._pane.say(f"idle: nothing to cancel; to end this agent: orchestrator agent delete {self._agent_id}")
