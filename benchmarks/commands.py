"""How long a person waits for a command that only tells something, beside an interpreter that prints a line."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.project import Project, agents_of
from benchmarks.wire import OWN

RUNS = 7
"""Of each command in a round, of which the median counts."""
COMMANDS = {
    "help": ["--help"], "version": ["--version"], "status": ["status"], "daemon_status": ["daemon", "status"],
    "relay_help": ["mcp", "--help"],
}  # fmt: skip
FIGURES = (
    Figure("help", "orchestrator --help", "ms", at_most=100),
    Figure("version", "orchestrator --version", "ms", at_most=100),
    Figure("status", "orchestrator status, two agents", "ms", at_most=100),
    Figure("daemon_status", "orchestrator daemon status", "ms", at_most=100),
    Figure("relay_help", "orchestrator mcp --help", "ms"),
    Figure("python", "  limit: python -c 'print()'", "ms"),
)


def program() -> list[str]:
    """The program that a user types, if this interpreter has it."""
    own = Path(sys.executable).with_name("orchestrator")
    return [str(own)] if own.exists() else OWN


async def rounds() -> AsyncIterator[dict[str, float]]:
    async with Project() as project:
        await agents_of(project, 2)
        each = {name: [*program(), *arguments] for name, arguments in COMMANDS.items()}
        each["python"] = [sys.executable, "-c", "print()"]
        for command in each.values():
            run_ms(command, project)  # its bytecode is there from now on
        while True:
            times: dict[str, list[float]] = {name: [] for name in each}
            for _ in range(RUNS):
                for name, command in each.items():
                    times[name].append(run_ms(command, project))
            yield {name: statistics.median(values) for name, values in times.items()}


def run_ms(command: list[str], project: Project) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, cwd=project.root, env=project.env, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return (time.perf_counter() - began) * 1000
