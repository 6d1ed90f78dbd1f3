"""`top` with 200 agents and 50 changes a second: its start, its frames, its CPU, and the tmux processes of a frame.

The display runs in a process of its own on a pseudo terminal of 120x40; what it draws is read and thrown away.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

AGENTS, CHANGES_PER_S, NEWS_PER_S, SECONDS = 200, 50, 5, 12.0
WIDTH, HEIGHT = 120, 40
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec")


def main() -> dict[str, float]:
    """The figures, in milliseconds and percent of a core."""
    out = _on_a_terminal([sys.executable, "-m", "benchmarks.top"])
    starts = [_start_s() for _ in range(7)]
    return {**out, "start_p50_ms": statistics.median(starts) * 1000, "start_max_ms": max(starts) * 1000}


def _open(command: list[str], env: dict[str, str], cwd: str | None = None) -> tuple[subprocess.Popen[bytes], int]:
    fd, slave = os.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("4H", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env={**os.environ, "TERM": "xterm-256color", **env},
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    return process, fd


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""


def _on_a_terminal(command: list[str]) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("r") as answer:
        process, fd = _open(command, {"BENCH_TOP": answer.name})
        drawn = 0
        while data := _read(fd):
            drawn += len(data)
        process.wait()
        os.close(fd)
        return {**json.loads(answer.read()), "kb_per_s": drawn / SECONDS / 1000}


def _start_s() -> float:
    """From the start of the command to the first screen of an empty project."""
    with tempfile.TemporaryDirectory(prefix="bench-top-") as base:
        project = Path(base, "shop")
        (project / ".agents").mkdir(parents=True)
        env = {"ORCHESTRATOR_STATE_DIR": f"{base}/state", "ORCHESTRATOR_RUN_BASE": base, "HOME": base}
        begun = time.perf_counter()
        process, fd = _open([sys.executable, "-P", "-m", "orchestrator", "top"], env, str(project))
        seen = b""
        while b"agent create" not in seen:
            data = _read(fd)
            if not data:
                raise RuntimeError(seen.decode(errors="replace"))
            seen += data
        took = time.perf_counter() - begun
        process.kill()
        process.wait()
        os.close(fd)
        return took


def shown() -> None:
    """The process that is measured: the display over snapshots of which a thread changes some rows."""
    from tests.support.top_team import Requests, Snapshots, asking, busy, item, snapshot, top_of

    asks = item("aaaa0001", "agent-000")
    rows: list[dict[str, Any]] = [asking("agent-000", asks)]
    rows += [busy(f"agent-{n:03}", f"make part {n}", screen_line="$ make") for n in range(1, AGENTS)]
    first = snapshot(rows, [asks])
    app = top_of(first, requests=Requests())
    source: Snapshots = app.source
    frames: list[float] = []
    news = app._show_news

    def timed() -> None:
        begun = time.perf_counter()
        news()
        app._team.call_after_refresh(lambda: frames.append((time.perf_counter() - begun) * 1000))

    app._show_news = timed
    result: dict[str, float] = {}
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in STARTS else None)

    def change() -> None:
        at, number = 1, 0
        time.sleep(2.0)
        usage = time.process_time()
        started.clear()
        begun = time.perf_counter()
        while time.perf_counter() - begun < SECONDS:
            newer = list(rows)
            for _ in range(CHANGES_PER_S // NEWS_PER_S):
                at, number = at % (AGENTS - 1) + 1, number + 1
                newer[at] = {**rows[at], "running_task_title": f"make part {number}", "last_event_seq": number}
            rows[:] = newer
            source.publish(snapshot(rows, [asks], version=number))
            time.sleep(1 / NEWS_PER_S)
        wall = time.perf_counter() - begun
        result["cpu_percent"] = (time.process_time() - usage) / wall * 100
        result["children"] = float(len(started))
        result["frames"] = len(frames)
        result["frame_p50_ms"] = statistics.median(frames)
        result["frame_p95_ms"] = sorted(frames)[int(len(frames) * 0.95)]
        result["frame_max_ms"] = max(frames)
        Path(os.environ["BENCH_TOP"]).write_text(json.dumps(result))
        app.call_from_thread(app.exit)

    threading.Thread(target=change, daemon=True).start()
    app.run()


if __name__ == "__main__":
    shown()
