"""A scratch project with its own tmux server, daemon and environment, and what a benchmark reads of processes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.wire import OWN, Wire, agent_env

TICKS = os.sysconf("SC_CLK_TCK")
PLACE = "BENCH_DIR"
"""The variable with the directory for all files of a benchmark; its disk is the one that is measured."""
_NUMBERS = itertools.count()
IDLE = """\
import signal, sys
if sys.orig_argv[-1:] == ["worker"]:
    while True:
        signal.pause()
"""


class Project:
    """A project below a directory of its own; `close` ends everything that was started for it."""

    def __init__(self, **config: Any) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=os.environ.get(PLACE), prefix="p"))
        self.env = private_env(self.directory)
        self.root = self.directory / "project"
        (self.root / ".agents").mkdir(parents=True)
        self.tmux = f"orchestrator-bench-{os.getpid()}-{time.monotonic_ns()}"
        lines = [f'tmux_socket = "{self.tmux}"', "session_width = 400", "session_height = 200"]
        lines += [f"{key} = {value}" for key, value in config.items()]
        (self.root / ".agents/config.toml").write_text("\n".join(lines) + "\n")
        self._wires: list[Wire] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`orchestrator` with these arguments in the project, as a user calls it."""
        return subprocess.run(
            [*OWN, *arguments], cwd=self.root, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    async def relay(self, *arguments: str, env: dict[str, str] | None = None) -> Wire:
        """A client that has greeted through a relay of its own."""
        wire = await Wire.start(self.root, env or self.env, *arguments)
        self._wires.append(wire)
        await wire.greet()
        return wire

    async def agent_relay(self, agent_id: str) -> Wire:
        """The same as the client of this agent."""
        return await self.relay("--agent", env=agent_env(self.env, self.root, agent_id))

    def site(self, code: str) -> None:
        """Let each Python program of the project run this code first."""
        place = self.directory / "site"
        place.mkdir(exist_ok=True)
        (place / "sitecustomize.py").write_text(code)
        others = self.env.get("PYTHONPATH", "").split(os.pathsep)
        self.env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(place), *others])))

    def run_directory(self) -> Path:
        (found,) = [path.parent for path in (self.directory / "run").rglob("lock")]
        return found

    def daemon_pid(self) -> int:
        answer = self.command("daemon", "status", "--json")
        if answer.returncode:
            raise RuntimeError(answer.stdout + answer.stderr)
        return int(json.loads(answer.stdout)["pid"])

    async def close(self) -> None:
        """A relay that is left, ours or that of a pane, would start the daemon again: the daemon ends last."""
        for wire in self._wires:
            await wire.close()
        for _ in range(2):
            subprocess.run(["tmux", "-L", self.tmux, "kill-server"], capture_output=True, check=False)
            self.command("daemon", "stop")
        shutil.rmtree(self.directory, ignore_errors=True)


def private_env(root: Path) -> dict[str, str]:
    """An environment of its own: home, configuration and run directory below ``root``; no tmux around it.

    Bytecode is written and read as usual: a user's second start compiles nothing.
    """
    left_out = ("TMUX", "ORCHESTRATOR_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    for name in ("home", "run"):
        (root / name).mkdir(exist_ok=True, mode=0o700)
    env.update(
        HOME=str(root / "home"),
        ORCHESTRATOR_RUN_BASE=str(root / "run"),
        ORCHESTRATOR_STATE_DIR=str(root / "state"),
    )
    return env


async def agents_of(project: Project, count: int) -> tuple[Wire, list[str], list[Wire]]:
    """A master and ``count`` agents: in each pane a process that only lives, and a relay of ours that speaks for it."""
    site = project.directory / "idle"
    site.mkdir()
    (site / "sitecustomize.py").write_text(IDLE)
    path = os.pathsep.join(filter(None, [str(site), project.env.get("PYTHONPATH")]))
    master = await project.relay()
    made = await master.call(
        "agents_create",
        agents=[{"name": f"a{n}", "role": "bench", "env": {"PYTHONPATH": path}} for n in range(count)],
        ready_wait_ms=0,
    )
    ids = [row["agent_id"] for row in made["agents"]]
    wires = []
    for agent_id in ids:
        wires.append(await project.agent_relay(agent_id))
        await wires[-1].call("wait_for_command", agent_id=agent_id, timeout_ms=0)
    return master, ids, wires


async def enqueue(master: Wire, agent_id: str, payload: Any = 1) -> str:
    """Give the agent a task with an id of its own, which is returned."""
    task_id = f"t{next(_NUMBERS)}"
    await master.call("task_enqueue", agent_id=agent_id, task={"task_id": task_id, "payload": payload})
    return task_id


async def command(wire: Wire, agent_id: str, timeout_ms: int = 50_000) -> dict[str, Any]:
    """The agent's next task; an answer without one is an error."""
    got = await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=timeout_ms)
    if got["status"] != "command":
        raise RuntimeError(f"{agent_id} waited for a task and got {got}")
    return got


async def until_waiting(master: Wire, *agent_ids: str) -> None:
    """Until the daemon says that all these agents wait for a task."""
    while True:
        rows = (await master.call("agent_list"))["agents"]
        waiting = {row["agent_id"] for row in rows if row["reason"] == "inside wait_for_command"}
        if waiting.issuperset(agent_ids):
            return


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def spread(name: str, values: list[float]) -> dict[str, float]:
    """``{name_p50, name_p95, name_p99, name_max}``."""
    return {
        f"{name}_p50": statistics.median(values), f"{name}_p95": percentile(values, 0.95),
        f"{name}_p99": percentile(values, 0.99), f"{name}_max": max(values),
    }  # fmt: skip


def status_mb(pid: int, name: str) -> float:
    """A size of a process in MB: ``VmRSS``, or ``VmHWM``, its highest so far, which the kernel notes itself."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def cpu_s(*pids: int) -> float:
    """Seconds of CPU that these processes have used, user and system."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS
