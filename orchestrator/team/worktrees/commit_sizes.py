"""The sizes of the commits that an agent has made in its worktree, each with its time. Asks git; blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.team.worktrees import git
from orchestrator.team.worktrees.inspection import LOOK_S, place_of

COMMITS_MAX = 5000
_LOG = (
    "log", "--first-parent", "--no-merges", "--no-color", "--no-show-signature", "--no-ext-diff", "--no-textconv",
    "--no-renames", "--numstat", "--format=%x01%ct", f"--max-count={COMMITS_MAX}",
)  # fmt: skip
_FILE = re.compile(rb"(\d+|-)\t(\d+|-)\t(.+)")


class CommitSize(NamedTuple):
    """One commit: when it was made (seconds since 1970), its files, its lines added and removed."""

    at: int
    files: frozenset[bytes]
    added: int
    removed: int


def commit_sizes(root: Path, agent_id: str, seconds: float = LOOK_S) -> list[CommitSize] | None:
    """The commits of the agent's branch since the branch was made, merges not counted, the newest first.

    None if the agent has no worktree on record. Environment ``git_failed``, also if its branch is gone.
    """
    place = place_of(root, agent_id)
    if place is None or not place.base:
        return None
    where, tip = (place.tree, f"refs/heads/{place.branch}") if place.git_dir is None else (place.path, "HEAD")
    answer = git.ask(where, *_LOG, f"{place.base}..{tip}", "--", seconds=seconds)
    texts = answer.out.split(b"\x01")[1:]
    return [_size(text.split(b"\n")) for text in (texts[:-1] if answer.cut else texts)]


def sum_within(sizes: Iterable[CommitSize], spans: Sequence[tuple[str, str]]) -> dict[str, int]:
    """``{commits, files, added, removed}`` of the commits that were made within these spans (RFC 3339)."""
    whole = [(int(_seconds(begin)), _seconds(end) + 1) for begin, end in spans]  # git counts in seconds
    made = [size for size in sizes if any(begin <= size.at < end for begin, end in whole)]
    return {
        "commits": len(made),
        "files": len(frozenset[bytes]().union(*(size.files for size in made))),
        "added": sum(size.added for size in made),
        "removed": sum(size.removed for size in made),
    }


def _size(lines: Sequence[bytes]) -> CommitSize:
    files = [match.groups() for line in lines[1:] if (match := _FILE.fullmatch(line))]
    added, removed = (sum(int(counts[at]) for counts in files if counts[at] != b"-") for at in (0, 1))
    return CommitSize(int(lines[0]), frozenset(name for _, _, name in files), added, removed)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
