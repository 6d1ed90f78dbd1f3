"""An event loop in virtual time, and processes that die at any moment. Knows nothing of teams and disks.

Nothing here waits: when no callback is ready, the time is that of the next timer. Jobs for threads run in turn as
callbacks of the loop, after a delay that the seed chooses. So the seed of ``chance`` names the whole run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import inspect
import math
import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
THREAD_S = 0.02
"""The longest time until a job of a thread is done."""
TICK_S = 2.0**-20
"""Every time is a multiple of it: sums and differences are exact, and a wait that is not over lets time move."""


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set: what still waits will wait for ever."""


class ProcessDied(BaseException):
    """Ends what runs in a process that has died; no code under test may catch it."""


class Gone(Exception):
    """The process that was called died before its answer arrived."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks as every event loop does, in the order in which they became ready.

    ``failures`` holds what nobody caught; `run` raises it.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.failures: list[BaseException] = []
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = self
        self.processes: list[Process] = []
        self.set_exception_handler(self._failed)
        self.set_task_factory(self._task)

    def time(self) -> float:
        return self._now

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """The result of ``main``; afterwards every process is dead and the loop is closed."""
        result = None
        try:
            result = self.run_until_complete(main)
        except RuntimeError:
            if not self.failures:  # else it was stopped by one
                raise
        finally:
            for process in self.processes:
                process.die()
            for process in self.processes:
                process.bury()
            for task in asyncio.all_tasks(self):
                task.cancel()
            with contextlib.suppress(Deadlock):
                self.run_until_complete(asyncio.sleep(0))
            self.close()
        if self.failures:
            raise self.failures[0]
        return result

    # -- what the base class asks of a loop ---------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[Any]:
        """In place of a selector: let time pass until the next timer; nothing comes from outside."""
        if timeout is None:
            waiting = "\n".join(sorted(map(repr, asyncio.all_tasks(self))))
            raise Deadlock(f"nothing is ready, and no timer is set; these tasks wait for ever:\n{waiting}")
        if timeout > 0:
            self._now = max(self._now, self._scheduled[0]._when)
        while self._scheduled and self._scheduled[0]._when <= self._now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)
        stopped = [handle for handle in self._ready if _is_stopped(handle)]
        for handle in stopped:
            self._ready.remove(handle)
            handle._context[PROCESS].held.append(handle)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle = super()._call_soon(callback, args, context)
        return _unless_dead(handle)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        when = math.ceil(when / TICK_S) * TICK_S
        handle = super().call_at(when, callback, *args, context=context)
        return _unless_dead(handle)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except ProcessDied:
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the job
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self.chance.random() * THREAD_S, work)
        return future

    def _task(self, _loop: Any, work: Any, context: Any = None, **more: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=self, context=context, **more)
        process = (context or contextvars.copy_context()).get(PROCESS)
        if process is not None:
            process.tasks.append(task)
        return task

    def surface(self, task: asyncio.Task[Any]) -> None:
        """For a task that nobody waits for: its error ends the run."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(self, {"exception": error})

    def _failed(self, _loop: Any, what: dict[str, Any]) -> None:
        error = what.get("exception")
        if error is None or not isinstance(error, ProcessDied | Gone):
            self.failures.append(error or AssertionError(str(what)))
            self.stop()


def _is_stopped(handle: asyncio.Handle) -> bool:
    process = handle._context.get(PROCESS)
    return process is not None and process.stopped


def _unless_dead(handle: Any) -> Any:
    process = handle._context.get(PROCESS)
    if process is not None and not process.alive:
        handle.cancel()
    return handle


class Process:
    """One life of a program. Once it has died, none of its callbacks runs and no system call of it is made.

    ``at_step`` is asked before each system call and at each failpoint, by its name; it may raise or call `die`.
    """

    def __init__(self, loop: SimLoop, name: str, disk: Any = None) -> None:
        self.loop = loop
        self.name = name
        self.disk = disk
        self.alive = True
        self.stopped = False
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.at_step: Callable[[str], None] = lambda step: None
        self.on_death: Callable[[], None] = lambda: None
        self._calls: dict[asyncio.Future[Any], None] = {}
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)
        loop.processes.append(self)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in the process."""
        task = self.loop.create_task(work, context=self.context.copy())
        task.add_done_callback(self.loop.surface, context=contextvars.Context())
        return task

    def run(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run a function in the process; ProcessDied when that was its end."""
        return self.context.copy().run(work, *args)

    async def call(self, work: Coroutine[Any, Any, Any], delay_s: float = 0.0) -> Any:
        """What the process answers to a call from outside, ``delay_s`` after it is ready; Gone when it dies before."""
        if not self.alive:
            work.close()
            raise Gone
        answer = self.loop.create_future()
        self._calls[answer] = None

        async def serve() -> None:
            try:
                result = await work
            except Exception as error:  # noqa: BLE001 - it is the caller's
                result = error
            if delay_s:
                await asyncio.sleep(delay_s)
            if not answer.done():
                answer.set_exception(result) if isinstance(result, Exception) else answer.set_result(result)

        task = self.start(serve())
        try:
            return await answer
        except asyncio.CancelledError:
            task.cancel()  # the caller has hung up
            raise
        finally:
            self._calls.pop(answer, None)
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()  # the process died before its first step

    def step(self, name: str) -> None:
        """Say that a step is reached; ProcessDied when it is the last."""
        if not self.alive:
            raise ProcessDied
        self.at_step(name)
        if not self.alive:
            raise ProcessDied

    def die(self) -> None:
        """As kill -9: nothing is cleaned up, and whoever waits for an answer learns that there will be none."""
        if not self.alive:
            return
        self.alive = False
        for handle in [*self.loop._ready, *self.loop._scheduled, *self.held]:
            if handle._context.get(PROCESS) is self:
                handle.cancel()
        self.held.clear()
        calls, self._calls = self._calls, {}
        for answer in calls:
            if not answer.done():
                answer.set_exception(Gone())
        self.on_death()

    def stop(self) -> None:
        """As SIGSTOP: its time goes on, and it does nothing."""
        self.stopped = True

    def go_on(self) -> None:
        """As SIGCONT: what came due meanwhile runs now."""
        self.stopped = False
        held, self.held = self.held, []
        self.loop._ready.extend(held)

    def bury(self) -> None:
        """Close what the dead process left half done, so that the interpreter does not complain of it."""
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]


class SimClock:
    """The clock of one machine in virtual time. ``jump`` moves its wall clock, ``slept`` is what it slept."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.jump = 0.0
        self.slept = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._loop.time() + self.slept + self.jump)

    def monotonic(self) -> float:
        return 1000.0 + self._loop.time()

    def awake(self) -> float:
        return self.monotonic() + self.slept

    def timer(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0.0, delay), callback)
