"""Runs the slow syncs of all logs in threads and returns the outcomes on the event loop.

Syncs run in a few threads, several files in parallel. Waking a thread and being woken by it costs about half
as much as the sync of a fast disk, so a sync that is alone in its turn of the event loop runs there
while recent syncs were fast: a disk that becomes slow blocks the loop for one sync, then threads are used.

A failed sync is final: the kernel may have dropped the data and reports the error only once, so nothing
is retried, everything queued fails, and the owner is notified exactly once (the daemon then exits).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from orchestrator.base.clock import Clock, SystemClock

Job = Callable[[], None]
Done = Callable[[Exception | None], None]

FAST_S = 0.001
WEIGHT = 1 / 8  # of the newest sync in the running mean: one of 100 ms keeps the loop free for the next 20


class Syncer:
    """The syncs of one process.

    ``on_failure`` is called on the event loop, once, with the first error any job raised. With
    ``threads=0`` jobs run inside ``submit``: for tools without an event loop, and for deterministic tests.
    ``fast_s`` bounds the mean duration up to which a lone sync may run on the event loop; 0 forbids it.
    """

    def __init__(
        self,
        on_failure: Callable[[Exception], None],
        threads: int = 4,
        fast_s: float = FAST_S,
        clock: Clock | None = None,
    ) -> None:
        self.failed: Exception | None = None
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._failure_reported = False
        self._fast_s = fast_s
        self._mean_s = fast_s  # not known to be fast yet
        self._due: list[tuple[Job, Done]] = []
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._finished: deque[tuple[Done, Exception | None]] = deque()
        self._woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [threading.Thread(target=self._work, name=f"sync-{n}", daemon=True) for n in range(threads)]

    def begin(self) -> None:
        """Start the threads, as the first ``submit`` would; RuntimeError when the system has none to give."""
        if self._threads and self._loop is None:
            for thread in self._threads:
                thread.start()
            self._loop = asyncio.get_running_loop()

    def submit(self, job: Job, done: Done) -> None:
        """Run ``job`` soon, then ``done(error or None)`` on the event loop; call it on the loop only."""
        if not self._threads:
            done(self._run(job))
            self._report_failure()
            return
        self.begin()
        assert self._loop is not None
        # Started only after all tasks that are ready now have run: their appends share the sync, and it is
        # known whether it is alone.
        if not self._due:
            self._loop.call_soon(self._start_due)
        self._due.append((job, done))

    def run_now(self, job: Job) -> Exception | None:
        """Run ``job`` before anything else happens, for the rare one that cannot wait; its error is final as well."""
        error = self._run(job)
        self._report_failure()
        return error

    def close(self) -> None:
        """End the threads after the jobs they hold; outcomes not delivered yet are dropped."""
        if self._loop is not None:
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()
        self._threads = []

    def _start_due(self) -> None:
        due, self._due = self._due, []
        if len(due) == 1 and self._mean_s < self._fast_s:
            job, done = due[0]
            done(self._run(job))
            self._report_failure()
            return
        for item in due:
            self._jobs.put(item)

    def _run(self, job: Job) -> Exception | None:
        if self.failed is not None:
            return self.failed
        start = self._clock.monotonic()
        try:
            job()
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the data must not count as durable
            self.failed = error
            return error
        finally:
            self._note(self._clock.monotonic() - start)
        return None

    def _note(self, took_s: float) -> None:
        self._mean_s += (took_s - self._mean_s) * WEIGHT

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            loop = self._loop
            assert loop is not None
            self._finished.append((done, self._run(job)))
            # One wake-up serves every outcome appended before the loop runs: `_deliver` clears the flag
            # before it empties the queue, so an outcome is never left behind.
            if not self._woken:
                self._woken = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._finished:
            done, error = self._finished.popleft()
            done(error)
        self._report_failure()

    def _report_failure(self) -> None:
        if self.failed is not None and not self._failure_reported:
            self._failure_reported = True
            self._on_failure(self.failed)
