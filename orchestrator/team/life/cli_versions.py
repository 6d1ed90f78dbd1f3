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
    found = shutil.which(program, path=env.get("PATH", os.defpath)) if program else None
    if found is None:
        return None
    path = Path(found).resolve()
    try:
        key = (str(path), path.stat().st_mtime_ns)
    except OSError:
        return None
    if key not in _known:
        _known[key] = _version_output(found, env)
    return _known[key]


def _version_output(program: str, env: Mapping[str, str]) -> str | None:
    try:
        asking = subprocess.Popen(
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
    with asking:
        try:
            said, _ = asking.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # A CLI may be a script that has started the real program, which must end too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(asking.pid, signal.SIGKILL)
            return None
    return start_failures.version_in(said) if asking.returncode == 0 else None
