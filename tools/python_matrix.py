"""Runs the unit tests on each Python from 3.11 to 3.14 that it finds: `make test-pythons`.

``python -m tools.python_matrix [-- PYTEST_ARGUMENT...]``. It looks on PATH and where pyenv keeps its versions. Each
gets the locked packages in ``.venv-3.N``; for the Python of ``.venv`` that is used. Prints a line for each version at
the end; exit status 1 if one failed. It says which one it did not find; that is no failure.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.counted_run import ROOT, Result, counted, shown, split_words

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
UNIT = "tests/unit"


def candidates(version: str) -> Iterator[Path]:
    """Where a program of that version may be: each directory of PATH, then pyenv's."""
    for folder in os.get_exec_path():
        yield Path(folder, f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def runs(program: Path, version: str) -> bool:
    """Whether the program is that version: one of pyenv's on PATH may only say that it is not chosen."""
    look = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", look], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == version


def python_of(version: str) -> str | None:
    """The interpreter of an environment for that version, made if it is not yet; None without such a Python."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    program = next((path for path in candidates(version) if runs(path, version)), None)
    if program is None:
        return None
    venv = f".venv-{version}"
    env = {**os.environ, "PYTHON": str(program)}
    subprocess.run(["sh", "tools/setup.sh", "venv", venv], cwd=ROOT, env=env, check=True)
    return str(ROOT / venv / "bin" / "python")


def main(argv: Sequence[str]) -> int:
    """Make the environments, test, print; the exit status."""
    _, arguments = split_words(argv)
    results = []
    for version in VERSIONS:
        try:
            python = python_of(version)
        except subprocess.CalledProcessError:
            results.append(Result(f"python {version}", failed=1, note="no environment"))
            continue
        if python is None:
            print(f"test-pythons: no Python {version} was found")
            continue
        print(f"test-pythons: testing on Python {version}", flush=True)
        results.append(counted(f"python {version}", python, [UNIT], arguments, os.environ))
    return shown(results)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
