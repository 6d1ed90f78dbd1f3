"""The jobs of the demos: what agents do to the sample project, and how each job is to end. Pure.

The demo has thirty for three agents, the demo of a fleet sixty for nine. They need nothing but Python's standard
library and a POSIX shell, so that they run wherever the wheel is installed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

AGENTS = (("style", "style and outlines"), ("tests", "unit tests"), ("texts", "counts and builds"))
"""Name and role of each agent; each gets the ten jobs under its name."""

LONG = 'while :; do i=$((i+1)); echo "counting until canceled: $i"; sleep 0.2; done'
FAILING = "echo 'this job fails on purpose, with exit code 3'; exit 3"
MODULES = ("words", "sentences", "reading_time", "report")


@dataclass(frozen=True)
class DemoJob:
    """One task of the demo; ``outcome`` is the type of the terminal event it is to end with."""

    task_id: str
    agent: str
    title: str
    command: str
    outcome: str = "result"


def jobs(python: str) -> list[DemoJob]:
    """The thirty jobs, ten for each agent, in the order they are enqueued; ``python`` runs them."""
    py = shlex.quote(python)
    out: list[DemoJob] = []

    def add(agent: str, title: str, command: str, outcome: str = "result") -> None:
        number = sum(job.agent == agent for job in out) + 1
        out.append(DemoJob(f"{agent}-{number:02d}", agent, title, command, outcome))

    for module in MODULES:
        add("style", f"check {module}.py", f"{py} tools/style.py texttally/{module}.py")
    add("style", "check every file", f"{py} tools/style.py")
    add("style", "indentation", f"{py} -m tabnanny -v texttally tests tools")
    add("style", "compile everything", f"{py} -m compileall -q texttally tests tools && echo compiled")
    add("style", "outline of the library", f"{py} tools/outline.py texttally")
    add("style", "outline of the tests", f"{py} tools/outline.py tests")
    add("style", "longest files", "find texttally tests tools -name '*.py' | xargs wc -l | sort -n")

    for module in MODULES:
        add("tests", f"test {module}", f"{py} -m unittest -v tests.test_{module}")
    add("tests", "count until canceled", LONG, "canceled")
    add("tests", "examples in words.py", f"{py} -m doctest -v texttally/words.py")
    add("tests", "examples in sentences.py", f"{py} -m doctest -v texttally/sentences.py")
    add("tests", "fail on purpose", FAILING, "error")
    add("tests", "examples in reading_time.py", f"{py} -m doctest -v texttally/reading_time.py")
    add("tests", "all tests", f"{py} -m unittest -v")

    add("texts", "report on tale.txt", f"{py} -m texttally texts/tale.txt")
    add("texts", "report on notes.txt", f"{py} -m texttally texts/notes.txt")
    add("texts", "report on the README", f"{py} -m texttally README.md")
    add("texts", "expected.json is JSON", f"{py} -m json.tool texts/expected.json")
    add("texts", "documentation of words.py", f"{py} -m pydoc texttally.words")
    add("texts", "documentation of report.py", f"{py} -m pydoc texttally.report")
    add("texts", "headings of the README", "grep -n '^#' README.md")
    add("texts", "how fast words are found", f"{py} -m timeit -s {shlex.quote(_SETUP)} 'words(text)'")
    add("texts", "pack the library", f"{py} -m zipfile -c texttally.zip texttally && echo packed")
    add("texts", "run the packed library", f"PYTHONPATH=texttally.zip {py} -P -m texttally texts/tale.txt")
    return out


_SETUP = "from texttally.words import words; text = open('texts/tale.txt').read()"

FLEET_AGENTS = tuple(f"{name}-{number}" for name, _ in AGENTS for number in (1, 2, 3))
"""The nine agents of the demo of a fleet."""


def fleet_jobs(python: str) -> list[DemoJob]:
    """The sixty jobs of the demo of a fleet, in the order they are enqueued; ``python`` runs them.

    No job needs what another one wrote, so each may run on any host, and again. The third job of each agent takes
    some seconds: in it a host is lost.
    """
    py = shlex.quote(python)
    kinds: dict[str, list[tuple[str, str]]] = {name: [] for name, _ in AGENTS}
    for module in MODULES:
        file, name = f"texttally/{module}.py", f"texttally.{module}"
        kinds["style"] += [
            (f"check {module}.py", f"{py} tools/style.py {file}"),
            (f"outline of {module}.py", f"{py} tools/outline.py {file}"),
            (f"indentation of {module}.py", f"{py} -m tabnanny -v {file}"),
            (f"tokens of {module}.py", f"{py} -m tokenize {file}"),
        ]
        kinds["tests"] += [
            (f"test {module}", f"{py} -m unittest -v tests.test_{module}"),
            (f"test {module}, strictly", f"{py} -W error -m unittest -v tests.test_{module}"),
            (f"examples in {module}.py", f"{py} -m doctest -v {file}"),
            (f"imports of {module}", f"{py} -X importtime -c 'import {name}'"),
        ]
        kinds["texts"] += [
            (f"documentation of {module}.py", f"{py} -m pydoc {name}"),
            (f"syntax tree of {module}.py", f"{py} -m ast {file}"),
            (f"longest lines of {module}.py", f"awk '{{ print length, FNR }}' {file} | sort -rn | head -5"),
        ]
    for text in ("texts/tale.txt", "texts/notes.txt", "README.md"):
        kinds["texts"].append((f"report on {text}", f"{py} -m texttally {text}"))
    kinds["texts"] += [
        ("expected.json is JSON", f"{py} -m json.tool texts/expected.json"),
        ("headings of the README", "grep -n '^#' README.md"),
    ]
    kinds["style"].append(("longest files", "find texttally tests tools -name '*.py' | xargs wc -l | sort -n"))
    kinds["tests"].append(("all tests", f"{py} -m unittest -v"))
    measure = f"{py} -m timeit -r 8 -s {shlex.quote(_SETUP)} 'words(text)'"
    out = []
    for name, kind in kinds.items():
        agents = [agent for agent in FLEET_AGENTS if agent.startswith(name)]
        rows: dict[str, list[tuple[str, str]]] = {agent: [] for agent in agents}
        for index, row in enumerate(kind):
            rows[agents[index % len(agents)]].append(row)
        for agent, own in rows.items():
            own.insert(2, ("measure how fast words are found", measure))
            out += [DemoJob(f"{agent}-{number}", agent, *row) for number, row in enumerate(own, 1)]
    return sorted(out, key=lambda job: job.task_id.rpartition("-")[2])
