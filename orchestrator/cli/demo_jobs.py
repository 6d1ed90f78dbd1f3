"""The demo's thirty jobs: what three agents do to a copy of this repository, and how each is to end. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

AGENTS = (("lint", "lint and spelling"), ("types", "type checks"), ("tests", "tests and counts"))
"""Name and role of each agent; each gets the ten jobs under its name."""

LONG = 'while :; do i=$((i+1)); echo "counting until canceled: $i"; sleep 0.2; done'
FAILING = "echo 'this job fails on purpose, with exit code 3'; exit 3"

# What the agents find in their environment would tell the tests that they run inside an agent.
_OUTSIDE = "env -u ORCHESTRATOR_AGENT_ID -u ORCHESTRATOR_PROJECT "


@dataclass(frozen=True)
class DemoJob:
    """One task of the demo; ``outcome`` is the type of the terminal event it is to end with."""

    task_id: str
    agent: str
    title: str
    command: str
    outcome: str = "result"


def jobs(python: str) -> list[DemoJob]:
    """The thirty jobs, ten for each agent, in the order they are enqueued; ``python`` runs the tools."""
    py = shlex.quote(python)
    # The copy lies in a directory that git ignores; ruff would find nothing to do there.
    ruff = f"{py} -m ruff check --no-cache --no-respect-gitignore "
    mypy = f"{py} -m mypy --cache-dir=.cache/mypy "
    pytest = f"{_OUTSIDE}{py} -m pytest -q "
    out: list[DemoJob] = []

    def add(agent: str, title: str, command: str, outcome: str = "result") -> None:
        number = sum(job.agent == agent for job in out) + 1
        out.append(DemoJob(f"{agent}-{number:02d}", agent, title, command, outcome))

    for place in ("core", "journal", "tmux", "team", "daemon", "cli"):
        add("lint", f"ruff check {place}", f"{ruff}orchestrator/{place}")
    add("lint", "ruff format --check", f"{py} -m ruff format --no-cache --no-respect-gitignore --check orchestrator")
    add("lint", "spelling of the docs", f"{py} -m codespell_lib README.md docs prompts && echo no misspelling")
    add("lint", "spelling of the code", f"{py} -m codespell_lib orchestrator && echo no misspelling")
    add("lint", "longest files", "find orchestrator -name '*.py' | xargs wc -l | sort -n | tail -n 15")

    for module in (
        "base/errors",
        "base/clock",
        "edge/project_location",
        "base/package_data",
        "core/prompts",
        "core/state",
        "worker/shell_command",
    ):
        add("types", f"mypy {module}.py", f"{mypy}orchestrator/{module}.py")
    add("types", "compile everything", f"{py} -m compileall -q orchestrator tests && echo compiled")
    add(
        "types",
        "JSON Schemas parse",
        f"find .agents-schema -name '*.json' -print -exec {py} -m json.tool {{}} /dev/null ';'",
    )
    add("types", "count definitions", f"{py} -c {shlex.quote(_COUNT)}")

    add("tests", "pytest state", f"{pytest}tests/unit/core/test_state.py")
    add("tests", "pytest prompts", f"{pytest}tests/unit/core/test_prompts.py")
    add("tests", "count until canceled", LONG, "canceled")
    add("tests", "pytest layout", f"{pytest}tests/unit/tmux/test_window_layout.py")
    add("tests", "fail on purpose", FAILING, "error")
    add("tests", "pytest worker payload", f"{pytest}tests/unit/worker/test_shell_command.py")
    add("tests", "pytest architecture", f"{pytest}tests/unit/test_architecture.py")
    add("tests", "count the tests", "grep -rc 'def test_' --include='test_*.py' tests | sort -t: -k2 -n | tail -n 15")
    add(
        "tests",
        "lines of code and tests",
        "for d in orchestrator tests; do echo $d; find $d -name '*.py' | xargs cat | wc -l; done",
    )
    add("tests", "words of the docs", "find README.md docs prompts -name '*.md' | xargs wc -w")
    return out


_COUNT = """
import ast, collections, pathlib
found = collections.Counter()
for path in pathlib.Path("orchestrator").rglob("*.py"):
    found.update(type(node).__name__ for node in ast.walk(ast.parse(path.read_text())))
for kind in ("ClassDef", "FunctionDef", "AsyncFunctionDef", "Raise", "Assert"):
    print(f"{found[kind]:6} {kind}")
"""
