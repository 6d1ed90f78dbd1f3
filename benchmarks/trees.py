"""A checkout that is measured: its interpreter, and a process for each group of figures (`benchmarks.rounds`)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from benchmarks.project import PLACE
from benchmarks.run import program

ROOT = Path(__file__).resolve().parents[1]
ROUND_S = 900.0
"""A round that takes longer has failed."""


class Tree:
    """A checkout with the interpreter of its ``.venv``; without one, this interpreter gets its package."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not (self.root / "orchestrator" / "__main__.py").is_file():
            raise FileNotFoundError(f"{root} is no checkout: it has no orchestrator/__main__.py")
        own = self.root / ".venv/bin/python"
        self.python = str(own) if own.exists() else sys.executable
        self.env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        if not own.exists() and self.root != ROOT:
            path = self.env.get("PYTHONPATH")
            self.env["PYTHONPATH"] = str(self.root) + (f"{os.pathsep}{path}" if path else "")

    def interpreter(self) -> str:
        """Its Python: version, compiler and place. Two builds of one version differ by as much as 15 % of CPU."""
        program = "import os, sys; print(sys.version, os.path.realpath(sys.executable))"
        return subprocess.check_output([self.python, "-c", program], text=True).strip()


class GroupRun:
    """The measuring of one group of one tree. ``failed`` says why it gives no more rounds."""

    def __init__(self, tree: Tree, group: str, place: Path) -> None:
        self.failed = ""
        # A session of its own: ctrl-C is passed on once, so that what it has started can be ended in peace.
        self._process = subprocess.Popen(
            program(tree.root, "rounds", group, python=tree.python), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**tree.env, PLACE: str(place)}, text=True, start_new_session=True,
        )  # fmt: skip

    def measure(self) -> dict[str, float]:
        """The figures of the next round; none if the group has failed."""
        if self.failed:
            return {}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        bound = threading.Timer(ROUND_S, self._process.send_signal, [signal.SIGINT])
        bound.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write("round\n")
                self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline() or '{"failed": "it ended without an answer"}')
        finally:
            bound.cancel()
        self.failed = answer.get("failed", "")
        figures: dict[str, float] = answer.get("figures", {})
        return figures

    def close(self, *, at_once: bool = False) -> None:
        """Wait until it has ended what it started; ``at_once``: in the middle of a round."""
        if at_once:
            self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]


def end_left_processes(place: Path) -> int:
    """End what still runs of this run: every process whose environment names its directory; how many."""
    word, ended = str(place).encode(), 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and word in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
    return ended
