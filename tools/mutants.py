"""Mutation tests: change the pure core in thousands of small ways and count the changes that no test notices.

``python tools/mutants.py [CHILDREN]`` runs mutmut as `[tool.mutmut]` of pyproject.toml says, in ``mutants/``, then
prints the score of each module and every survivor. Exit status 1 if a module is below `LEAST` percent.
``python -m mutmut show NAME`` shows one survivor.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 85
NOTICED = {"killed", "timeout", "segfault", "caught by type check"}
"""A test failed, or the changed code ran for ever or crashed."""


def parsed(lines: Iterable[str]) -> dict[str, str]:
    """The state of each mutant of ``mutmut results --all true``: its name -> killed, survived, no tests, ...

    >>> parsed(["    a.b.x_f__mutmut_1: survived", "", "    a.b.x_f__mutmut_2: no tests"])
    {'a.b.x_f__mutmut_1': 'survived', 'a.b.x_f__mutmut_2': 'no tests'}
    """
    pairs = (line.strip().rsplit(": ", 1) for line in lines if "__mutmut_" in line)
    return dict(pairs)


def scores(states: dict[str, str]) -> dict[str, tuple[int, int]]:
    """For each module: how many of its mutants were noticed, and how many there are.

    >>> scores({"a.b.x_f__mutmut_1": "survived", "a.b.x_f__mutmut_2": "killed"})
    {'a.b': (1, 2)}
    """
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for name, state in states.items():
        counts[name.rsplit(".", 1)[0]][state in NOTICED] += 1
    return {module: (count[True], count.total()) for module, count in sorted(counts.items())}


def main(arguments: list[str]) -> int:
    """Run all mutants, print the scores and the survivors."""
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut = [sys.executable, "-m", "mutmut"]
    children = arguments[0] if arguments else "2"
    if subprocess.run([*mutmut, "run", "--max-children", children], cwd=ROOT, check=False).returncode:
        print("mutmut could not run; its own tests of the unchanged code must pass first", file=sys.stderr)
        return 2
    told = subprocess.run([*mutmut, "results", "--all", "true"], cwd=ROOT, capture_output=True, text=True, check=True)
    states = parsed(told.stdout.splitlines())
    for name, state in states.items():
        if state not in NOTICED:
            print(f"{state}: {name}")
    table = scores(states)
    for module, (noticed, whole) in table.items():
        print(f"{module:<36} {noticed:>5} of {whole:>5}  {100 * noticed / whole:5.1f} %")
    noticed, whole = (sum(column) for column in zip(*table.values(), strict=True))
    print(f"{'all':<36} {noticed:>5} of {whole:>5}  {100 * noticed / whole:5.1f} %")
    return 1 if any(100 * noticed < LEAST * whole for noticed, whole in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
