"""The installed version of a CLI: ``<program> --version``, run once for each installed file. Bounded."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from orchestrator.engines import start_failures

TIMEOUT_S = 15.0
"""A CLI on Node.js needs some seconds on a busy machine."""

_known: dict[tuple[str, int], str | None] = {}


def version_of(program: str, env: Mapping[str, str]) -> str | None:
    """The version of ``program`` on the PATH of ``env``; None if the program is missing or reports none.

    Blocks for up to ``TIMEOUT_S``: not for the event loop.
    """
    executable = shutil.which(program, path=env.get("PATH", os.defpath)) if program else None
    if executable is None:
        return None
    path = Path(executable).resolve()
    try:
        key = (str(path), path.stat().st_mtime_ns)
    except OSError:
        return None
    if key not in _known:
        _known[key] = _version_output(executable, env)
    return _known[key]


def _version_output(program: str, env: Mapping[str, str]) -> str | None:
    try:
        process = subprocess.Popen(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            env=dict(env),
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # A CLI may be a script that has started the real program, which must end too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None
    return start_failures.version_in(output) if process.returncode == 0 else None
