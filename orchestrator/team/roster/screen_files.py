"""The kept screens of agents: what their panes showed when they ended or a task failed. Writes and lists files.

They are artifacts: `artifacts/screens/<task id or "end">-<epoch>.txt`, at most ``KEPT`` of an agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.base.errors import Environment
from orchestrator.journal.project_files import Paths, failure, make_dir, replace

FOLDER = "screens"
KEPT = 20
END = "end"
"""Stands in the name of the file for the task id: the screen at the end of the agent's CLI."""
_NAME = re.compile(r"(?P<what>.+)-(?P<epoch>\d+)\.txt")


def folder_of(paths: Paths, agent_id: str) -> Path:
    """Where an agent's screens are kept; it need not exist."""
    return paths.artifacts(agent_id) / FOLDER


def is_ours(folder: Path) -> bool:
    """Whether the folder exists and no link leads elsewhere: an agent can write in its artifacts."""
    return folder.is_dir() and not folder.is_symlink() and not folder.parent.is_symlink()


def keep(paths: Paths, agent_id: str, what: str, epoch: int, lines: Sequence[str]) -> Path:
    """Write a screen, readable by the user alone, and remove the oldest beyond ``KEPT``.

    ``what`` is a task id or ``END``. Raises Environment ``io_failed`` if a link leads elsewhere.
    """
    folder = folder_of(paths, agent_id)
    if folder.is_symlink() or folder.parent.is_symlink():
        raise Environment("io_failed", f"{folder} is a link; nothing is kept there", file=str(folder))
    make_dir(folder)
    path = folder / f"{what}-{epoch}.txt"
    replace(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), mode=0o600)
    try:
        for old in listed(paths, agent_id)[KEPT:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise failure(folder, error) from error
    return path


def listed(paths: Paths, agent_id: str) -> list[Path]:
    """The agent's kept screens, the newest first; empty if there are none or they cannot be read."""
    folder = folder_of(paths, agent_id)
    if not is_ours(folder):
        return []
    try:
        entries = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name) and not entry.is_symlink()]
        return sorted(entries, key=lambda entry: (entry.stat().st_mtime_ns, entry.name), reverse=True)
    except OSError:
        return []


def of_task(paths: Paths, agent_id: str, task_id: str) -> list[Path]:
    """The kept screens of one task, the newest first."""
    return [path for path in listed(paths, agent_id) if _what(path) == task_id]


def of_epoch(paths: Paths, agent_id: str, epoch: int) -> Path | None:
    """The screen at the end of that launch; None if none was kept."""
    path = folder_of(paths, agent_id) / f"{END}-{epoch}.txt"
    return path if path in listed(paths, agent_id) else None


def _what(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match["what"] if match else ""
