"""The process of `top`: how long it takes to its first screen, and a `top` that notes its frames.

The display is on a pseudo terminal of 120x40; what it draws is read and thrown away.
"""

from __future__ import annotations

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

from benchmarks.project import PLACE, cpu_s, percentile

WIDTH, HEIGHT = 120, 40
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec")


def starts(times: int = 5) -> dict[str, float]:
    """Milliseconds to the first screen, and of CPU until then: ``{start_p50, start_cpu}``."""
    found, cpu = zip(*(_start_ms() for _ in range(times)), strict=True)
    return {"start_p50": statistics.median(found), "start_cpu": statistics.median(cpu)}


def _start_ms() -> tuple[float, float]:
    """From the start of the command to the first screen of an empty project, and the CPU that it took."""
    with tempfile.TemporaryDirectory(dir=os.environ.get(PLACE), prefix="t") as base:
        project = Path(base, "shop")
        (project / ".agents").mkdir(parents=True)
        env = {"ORCHESTRATOR_STATE_DIR": f"{base}/state", "ORCHESTRATOR_RUN_BASE": base, "HOME": base}
        fd, slave = os.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("4H", HEIGHT, WIDTH, 0, 0))
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator", "top"], stdin=slave, stdout=slave, stderr=slave, cwd=project,
            env={**os.environ, "TERM": "xterm-256color", **env}, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        seen = b""
        try:
            while b"agent create" not in seen:
                seen += os.read(fd, 1 << 16)  # raises once top has ended
            took = (time.perf_counter() - begun) * 1000
            return took, cpu_s(process.pid) * 1000
        finally:
            process.kill()
            process.wait()
            os.close(fd)


def frames_of(tops: list[dict[str, Any]]) -> dict[str, float]:
    """``{frame_p50, frame_p95, frame_max}`` in milliseconds and ``{frames, started}`` of what `noted_top` wrote."""
    frames = [ms for top in tops for ms in top["frames"]]
    return {
        "frame_p50": statistics.median(frames), "frame_p95": percentile(frames, 0.95), "frame_max": max(frames),
        "frames": len(frames), "started": sum(top["started"] for top in tops),
    }  # fmt: skip


def noted_top(answer: str) -> None:
    """`orchestrator top` in this process; its frames and how many processes it started go into the file at its end."""
    from orchestrator import __main__
    from orchestrator.faces.top.top_app import TopApp

    frames: list[float] = []
    started: list[str] = []
    show_news = TopApp._show_news

    def timed(self: Any) -> None:
        begun = time.perf_counter()
        show_news(self)
        self._team.call_after_refresh(lambda: frames.append((time.perf_counter() - begun) * 1000))

    TopApp._show_news = timed  # type: ignore[method-assign]
    sys.addaudithook(lambda event, _: started.append(event) if event in STARTS else None)
    sys.argv = ["orchestrator", "top"]
    try:
        __main__.main()
    finally:
        Path(answer).write_text(json.dumps({"frames": frames, "started": len(started)}))


if __name__ == "__main__":
    noted_top(sys.argv[1])
