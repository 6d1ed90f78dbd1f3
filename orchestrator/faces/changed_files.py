"""What an agent without a worktree may have changed: a guess by the times of the project's files. Blocks."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.errors import OrchestratorError

MOST_FILES = 500


class GuessedChanges(NamedTuple):
    """``says`` is what the files are, or why they are not known; ``files`` is None if they are not known."""

    says: str
    files: list[str] | None


def guessed_changes(root: Path, row: dict[str, Any]) -> GuessedChanges:
    """The files of the project that changed since the running or last task of a row was delivered."""
    from orchestrator.team.roster import replica_files  # noqa: PLC0415  (loads the log readers)

    if host := replica_files.other_host(root, row):
        return GuessedChanges(
            f"It runs on host {host}: its files are there, and what it changed is not shown here.", None
        )
    task_id = row.get("running_task_id") or (row.get("last_task") or {}).get("task_id")
    if not task_id:
        return GuessedChanges("It has no worktree and has had no task.", None)
    from orchestrator.team.roster import task_views  # noqa: PLC0415  (loads the log readers)

    since = task_views.task_of(root, str(row["agent_id"]), str(task_id)).get("delivered_at")
    try:
        files = changed_since(root, str(since)) if since else []
    except OrchestratorError as error:
        if error.code != "git_failed":
            raise
        says = "It has no worktree, and git knows nothing of the project: what it changed is not known."
        return GuessedChanges(says, None)
    says = "It has no worktree, so this is a guess: files of the project that changed since its task was delivered."
    return GuessedChanges(says, files)


def changed_since(root: Path, at: str) -> list[str]:
    """Files that git would commit and that were written after the instant; ends with … if there are more."""
    from orchestrator.team.worktrees import git  # noqa: PLC0415  (not every face asks git)

    then = datetime.fromisoformat(at).timestamp()
    answer = git.ask(root, "ls-files", "-z", "--modified", "--others", "--exclude-standard")
    out = []
    for name in git.names(answer):
        with contextlib.suppress(OSError, ValueError):
            if not name.startswith(".agents/") and (root / name).lstat().st_mtime > then:
                out.append(git.shown(name))
        if len(out) > MOST_FILES:
            return [*out[:MOST_FILES], "…"]
    return out
