"""`make bench-engines`: what each real CLI costs as an agent, against the scripted models of the end-to-end tests.

    python -m benchmarks.engines [--idle SECONDS] [gemini] [claude] [codex] [opencode]

Per engine, one at a time: launch to ready and the CLI's own share of it, waking from parked, model requests while
parked, memory of what is ours beside the CLI, and the bytes one task costs in the model's conversation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.agent import schema_bytes
from tests.e2e.models.server import ModelServer, Request
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import START_S, World
from tests.support.stage import MARK, Stage, until

WAKES = 30
IDLE_S = 60.0
BOUND_S = 120.0


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


@contextlib.contextmanager
def scene(kind: Kind) -> Iterator[tuple[World, Any]]:
    """One world with this CLI, and a plain MCP client as its master."""
    base = Path(tempfile.mkdtemp(prefix="ob-"))
    for name in [
        name for name in os.environ if name.startswith("ORCHESTRATOR_") and name != "ORCHESTRATOR_E2E_CACHE"
    ]:
        del os.environ[name]
    stage = Stage(base, "park_after = 1\nready_timeout_s = 120\n")
    with ModelServer() as models:
        world = World(stage, models, [kind])
        try:
            yield world, stage.begun()
        finally:
            world.close()
            stage.close()
            shutil.rmtree(base, ignore_errors=True)


def status(boss: Any) -> str:
    return str(boss.tool("agent_get", {"agent_id": "a"})["meta"]["status"])


def parked(boss: Any) -> None:
    """Until the agent is parked."""
    until(lambda: status(boss) == "parked", BOUND_S)


def pss_kb(pid: int) -> int:
    """The proportional set size of a process; 0 when it has gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def cpu_s(pids: list[int]) -> float:
    """CPU seconds these processes have used."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(place.name))
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


def cycle_bytes(requests: list[Request]) -> int:
    """What the tools answered in the last task's cycle as the model got it: everything new since the wait's answer."""
    last = requests[-1].turn
    answers: list[str] = []
    for message in last.messages:
        answers.extend(result.text for result in message.results)
    # wait (with the task), ack, result: the last three answers
    return sum(len(text.encode()) for text in answers[-3:])


def measure(kind: Kind, idle_s: float) -> dict[str, float]:
    """The figures of one engine, parked for ``idle_s`` in the end."""
    found: dict[str, float] = {}
    with scene(kind) as (world, boss):
        models = world.models
        began = time.monotonic()
        made = boss.tool("agent_create", {"name": "a", "role": "bench", "engine": kind, "ready_wait_ms": 35_000})
        assert "error" not in made, made
        until(lambda: "ready" in world.stage.types("a"), START_S)
        found["ready_s"] = time.monotonic() - began
        first = min(request.at for request in models.select("a"))
        found["first_request_s"] = first - began
        # It ends its turn after each task instead of waiting first: so it is parked at once, not after a long poll.
        payload = {"say": "x", "misbehave": "end_turn"}
        boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "first", "payload": payload}})
        parked(boss)
        found["schema_bytes"] = schema_bytes(models.select("a")[0])
        latencies, recorded = [], []
        for number in range(WAKES):
            parked(boss)
            seen = models.count("a")
            asked = time.monotonic()
            boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": f"w{number}", "payload": payload}})
            until(lambda seen=seen: models.count("a") > seen, BOUND_S)
            latencies.append(models.select("a")[seen].at - asked)
            until(lambda number=number: world.stage.types("a").count("result") > number + 1, BOUND_S)
            recorded.append(time.monotonic() - asked)
        found["wake_p50_ms"] = statistics.median(latencies) * 1000
        found["wake_p95_ms"] = percentile(latencies, 0.95) * 1000
        found["wake_max_ms"] = max(latencies) * 1000
        found["task_p50_ms"] = statistics.median(recorded) * 1000
        found["cycle_bytes"] = cycle_bytes(models.select("a")) - len(json.dumps(payload))
        parked(boss)
        pid = boss.tool("agent_get", {"agent_id": "a"})["meta"]["pid"]
        pids = tree(pid)
        before, cpu, at = models.count("a"), cpu_s(pids), time.monotonic()
        time.sleep(idle_s)
        found["idle_requests"] = models.count("a") - before
        found["idle_cpu_percent"] = (cpu_s(pids) - cpu) / (time.monotonic() - at) * 100
        ours_pids = [p for p, command in world.stage.processes().items() if p in pids and is_ours(command)]
        found["our_pss_mb"] = sum(map(pss_kb, ours_pids)) / 1024
        found["cli_pss_mb"] = sum(pss_kb(p) for p in pids if p not in ours_pids) / 1024
        boss.tool("agent_delete", {"agent_id": "a"})
    return found


def is_ours(command: str) -> bool:
    """Whether it is our relay or our hook."""
    return " -m orchestrator mcp" in command or "hook.py" in command


ROWS = (
    ("launch -> ready", "{ready_s:.2f} s", ""),
    ("  of it until the CLI's first model request", "{first_request_s:.2f} s", ""),
    ("wake: enqueue -> model request, p50 / p95 / max", "{wake_p50_ms:.0f} / {wake_p95_ms:.0f} / {wake_max_ms:.0f} ms",
     "<= 1 s, 30 of 30"),
    ("  enqueue -> result recorded, p50", "{task_p50_ms:.0f} ms", ""),
    ("model requests while parked, in {idle:.0f} s", "{idle_requests:.0f}", "0"),
    ("CPU of the parked CLI and ours", "{idle_cpu_percent:.1f} % of a core", ""),
    ("memory of ours beside the CLI, PSS", "{our_pss_mb:.1f} MB", ""),
    ("  the CLI itself, PSS", "{cli_pss_mb:.0f} MB", ""),
    ("tool schemas in the model's conversation", "{schema_bytes:.0f} bytes", "<= 2 KB"),
    ("tool output of one task cycle beyond the payload", "{cycle_bytes:.0f} bytes", "<= 1.5 KB"),
)  # fmt: skip


def main() -> None:
    """Print one table per engine."""
    assert MARK
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines")
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS", help="how long it is parked")
    parser.add_argument("kinds", nargs="*", metavar="engine", help=f"of {', '.join(KINDS)}; all if none is named")
    args = parser.parse_args()
    if unknown := set(args.kinds) - set(KINDS):
        parser.error(f"no such engine: {', '.join(sorted(unknown))}")
    for kind in args.kinds or KINDS:
        print(f"\n{kind}   (load {os.getloadavg()[0]:.1f} at the start)", flush=True)
        found = {"idle": args.idle, **measure(kind, args.idle)}
        for what, form, target in ROWS:
            print(f"  {what.format(**found):<56} {form.format(**found):<26} {target}", flush=True)


if __name__ == "__main__":
    main()
