"""The demo's thirty jobs: what three agents do to the sample project, and how each is to end. Pure.

They need nothing but Python's standard library and a POSIX shell, so that they run wherever the wheel is installed.
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
