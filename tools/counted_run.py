"""One counted run of the tests: what `make tmux-matrix` and `make test-pythons` print a line of."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
THREE_AT_ONCE = ("-n", "3", "--dist", "loadscope", "--no-loadscope-reorder", "-q")
"""As `make test` does."""
NOTHING_SELECTED = 5


class Result(NamedTuple):
    """What the tests said on one version."""

    name: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    note: str = ""

    def line(self) -> str:
        """For the table at the end.

        >>> Result("tmux 3.5a", 12, 0, 61.4).line()
        'tmux 3.5a       12 passed    0 failed    61 s'
        """
        text = f"{self.name:<12} {self.passed:>5} passed {self.failed:>4} failed {self.seconds:>5.0f} s"
        return f"{text}  {self.note}" if self.note else text


def counted(
    name: str, python: str, wanted: Sequence[str], arguments: Sequence[str], env: Mapping[str, str]
) -> Result:
    """Run the tests ``wanted`` with that interpreter; ``arguments`` of the user may leave none of them."""
    with tempfile.TemporaryDirectory(prefix="counted-run-") as place:
        report, began = Path(place, "report.xml"), time.monotonic()
        argv = [python, "-m", "pytest", *THREE_AT_ONCE, f"--junit-xml={report}", *wanted, *arguments]
        status = subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode
        seconds, passed, failed = time.monotonic() - began, 0, 0
        with contextlib.suppress(OSError, ET.ParseError):  # pytest itself was ended: the status tells it
            for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 (our pytest wrote it)
                bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
                failed += bad
                passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    if status and not failed and not (status == NOTHING_SELECTED and arguments):
        return Result(name, passed, 1, seconds, f"pytest ended with {status}")
    return Result(name, passed, failed, seconds)


def shown(results: Sequence[Result]) -> int:
    """Print a line for each; 1 if one failed."""
    print(*(result.line() for result in results), sep="\n")
    return 1 if any(result.failed for result in results) else 0


def split_words(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before ``--``, and what after it for pytest.

    >>> split_words(["3.5a", "--", "-k", "paste"]), split_words([])
    ((['3.5a'], ['-k', 'paste']), ([], []))
    """
    at = list(argv).index("--") if "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])
