"""Writes the private files that carry a task's payload to its command, because every user can read a command line.

Touches files named ``task-…`` in the agent's ``engine/`` directory. The standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "ORCHESTRATOR_TASK_FILE"
"""Name of the environment variable that gives the command the path of its task file."""


class Written(NamedTuple):
    """Paths of a task's files; ``script`` is None if the task has a command instead of a script."""

    payload: Path
    script: Path | None


class TaskFiles:
    """The task files of one launch of a worker, readable only by its user. Each path begins with ``prefix``."""

    def __init__(self, engine: Path) -> None:
        self._engine = engine
        # Each launch has its own names: the guard of an earlier launch may still remove that launch's files.
        self.prefix = str(engine / f"task-{secrets.token_hex(8)}")

    def remove_previous(self) -> None:
        """Remove the files that earlier launches of this worker left."""
        self._remove(self._engine / "task-")

    def remove(self) -> None:
        """Remove the files of this launch; does nothing if there are none."""
        self._remove(Path(self.prefix))

    def write(self, payload: Any, script: str | None) -> Written:
        """Write the payload as JSON, and the script as it is.

        Raises OSError, or ValueError for a script that cannot be encoded; leaves no file then.
        """
        made = Written(Path(f"{self.prefix}.json"), Path(f"{self.prefix}.sh") if script is not None else None)
        self.remove()
        try:
            self._engine.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(made.payload, json.dumps(payload).encode() + b"\n")
            if made.script is not None and script is not None:
                _write(made.script, script.encode() + b"\n")
        except (OSError, ValueError):
            self.remove()
            raise
        return made

    @staticmethod
    def _remove(prefix: Path) -> None:
        with contextlib.suppress(OSError):
            for path in prefix.parent.iterdir():
                if path.name.startswith(prefix.name):
                    with contextlib.suppress(OSError):
                        path.unlink()


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
