"""Lives of a process that executes spawn runs, each ended by kill -9 at a chosen step: a nursery that forks them.

The nursery is a process of its own without threads, which has imported everything once; a life is a fork of it, so
that hundreds of deaths cost seconds. It reads one JSON order per line and answers each with how the life ended:
``{"signal": 9}`` or ``{"answer": {...}}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 30.0


class Nursery:
    """The process that forks lives; ``live`` starts one and waits for its end."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.spawn_lives"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def live(self, **order: Any) -> dict[str, Any]:
        """One life: ``env``, ``project``, what it shall create (``asked``) or await (``run_id``), and where it shall
        die (``kill``: step and how many times it is passed before)."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the nursery has died"
        found = json.loads(line)
        assert "wrong" not in found, found["wrong"]
        return found


async def _life(order: dict[str, Any]) -> dict[str, Any]:
    from orchestrator.base.clock import SystemClock
    from orchestrator.spawn.run_data import RunRequest
    from orchestrator.spawn.runs import RunCreation, SpawnRuns

    runs = SpawnRuns(Path(order["project"]), SystemClock(), {}, lambda _run_id: None)
    env = order["env"]
    run_id = order.get("run_id")
    if run_id is None:
        run_id = (
            await runs.create(RunCreation(RunRequest.model_validate(order["asked"]), env, order.get("req", "req")))
        )["run_id"]
    else:
        await runs.resume(env)
    found = await runs.result(env, run_id, WAIT_S, include_raw=False, tell=lambda _: None)
    state = await runs.status(env, run_id, 0)
    await runs.close()
    return {"result": found, "status": state}


def _born(order: dict[str, Any], out: str) -> None:
    """A life, in the forked process."""
    from orchestrator.base import failpoints
    from orchestrator.spawn import attempt_outcome

    attempt_outcome.backoff_s = lambda *_: 0.01
    passed: Counter[str] = Counter()
    step, times = order.get("kill") or ("", 0)

    def pass_(name: str) -> None:
        passed[name] += 1
        if name == step and passed[name] == times:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.passed = pass_
    try:
        found = {"answer": asyncio.run(_life(order)), "passed": dict(passed)}
    except BaseException:  # noqa: BLE001  (told to the test)
        found = {"wrong": traceback.format_exc()}
    Path(out).write_text(json.dumps(found))
    os._exit(0)


def _main() -> None:
    import structlog

    import orchestrator.spawn.runs  # noqa: F401  (once, for all lives)

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is the wire

    with tempfile.TemporaryDirectory() as place:
        for line in sys.stdin:
            out = str(Path(place) / "out.json")
            Path(out).unlink(missing_ok=True)
            pid = os.fork()
            if pid == 0:
                _born(json.loads(line), out)
            _, how = os.waitpid(pid, 0)
            said = json.dumps({"signal": os.WTERMSIG(how)}) if os.WIFSIGNALED(how) else Path(out).read_text()
            sys.stdout.write(said + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _main()
