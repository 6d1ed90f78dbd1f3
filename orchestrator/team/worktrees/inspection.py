"""Inspects the agents' worktrees: where each is, what it contains, whether it would merge.

Every answer comes from git at the time of the call, and from the agent's first record. Changes nothing; blocks.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.core.record_types import OUTBOX_TYPES
from orchestrator.journal.log_reader import page
from orchestrator.journal.project_files import ID, Paths, check_id, confine, failure
from orchestrator.team.worktrees import git, include

LOOK_S = 5.0
NAMED = 10  # files that an error or a listing names
MERGE_TREE = (2, 38)  # the git that can merge without a working tree
_STAT = re.compile(rb"(\d+) (file|insertion|deletion)")
_BRANCH = "ref: refs/heads/"


@dataclass(frozen=True)
class WorktreeLocation:
    """One worktree, from its record and directory; ``branch`` and ``base`` are empty without a record."""

    agent_id: str
    path: Path
    tree: Path
    branch: str
    base: str

    @property
    def git_dir(self) -> Path | None:
        """Its own part of the repository; None if it is gone or no longer a worktree."""
        return None if self.path.is_symlink() else git.linked(self.path)


def home(root: Path) -> Path:
    """The directory of all worktrees of a project; BadRequest ``path_escape`` if a link leads out of it."""
    return confine(root, ".agents/worktrees", what=".agents/worktrees")


@dataclass(frozen=True)
class WorktreeStatus:
    """The git status: commit, branch (None: detached), uncommitted files, files that are only copies."""

    head: str
    branch: str | None
    dirt: list[str]
    copies: list[str]
    untracked: int

    @property
    def named(self) -> list[str]:
        """The first uncommitted files, safe for messages."""
        return [git.shown(name) for name in self.dirt[:NAMED]]


def place_of(root: Path, agent_id: str) -> WorktreeLocation | None:
    """The agent's worktree from its record, else a leftover of that name; None if there is neither."""
    path = home(root) / check_id(agent_id, "agent_id")
    record = _recorded(root, agent_id)
    if record is not None:
        return WorktreeLocation(agent_id, path, Path(record["tree"]), record["branch"], record["base"])
    place = WorktreeLocation(agent_id, path, root, "", "")
    git_dir = place.git_dir
    if git_dir is None:
        return None
    try:
        common = (git_dir / (git_dir / "commondir").read_text("utf-8", "surrogateescape").strip()).resolve()
        head = (git_dir / "HEAD").read_text("utf-8", "replace").strip()
    except OSError as error:
        raise failure(git_dir, error) from None
    branch = head.removeprefix(_BRANCH) if head.startswith(f"{_BRANCH}orchestrator/") else ""
    return WorktreeLocation(agent_id, path, common.parent if common.name == ".git" else root, branch, "")


def known(root: Path, agent_id: str) -> WorktreeLocation:
    """As `place_of`; BadRequest ``no_worktree`` if there is none."""
    place = place_of(root, agent_id)
    if place is None:
        raise BadRequest("no_worktree", *_without(root, agent_id))
    return place


def _without(root: Path, agent_id: str) -> tuple[str, str]:
    """Why this host has no worktree of the agent, and what shows more ("" for what the error says)."""
    paths = Paths(root)
    if not paths.is_replica(paths.agent_dir(agent_id)):
        return f"agent {agent_id} has no worktree", ""
    message = f"agent {agent_id} runs on another host; this host has no worktree of it"
    return message, "the setting fleet_push of its host has its branch pushed when a task ends"


def look(root: Path, agent_id: str, seconds: float = LOOK_S) -> dict[str, Any] | None:
    """The content of the worktree now, compared to the main tree's HEAD; None if it is gone or never existed.

    ``ahead`` and ``behind`` count commits; ``files_changed``, ``insertions`` and ``deletions`` count from its
    branching point, with uncommitted changes; a new file counts as a file. ``merged``: it has commits of its
    own, and the main tree has all of them. If git does not answer within ``seconds``, the result is an ``error``.
    """
    place = place_of(root, agent_id)
    if place is None or not os.path.lexists(place.path):
        return None
    row: dict[str, Any] = {"path": str(place.path), "branch": place.branch, "base": place.base}
    git_dir = place.git_dir
    if git_dir is None:
        return row | {"error": "it is no worktree of git any more"}
    row |= {"operation": git.under_way(git_dir), "locked": git.locked(git_dir)}
    try:
        return row | _measured(place, time.monotonic() + seconds)
    except OrchestratorError as error:
        return row | {"error": error.message}


def _measured(place: WorktreeLocation, deadline: float) -> dict[str, Any]:
    def ask(where: Path, *words: str) -> git.GitAnswer:
        return git.ask(where, *words, seconds=max(0.1, deadline - time.monotonic()))

    state = state_of(place, max(0.1, deadline - time.monotonic()))
    main = ask(place.tree, "rev-parse", "--verify", "HEAD^{commit}").line
    behind, ahead = ask(place.path, "rev-list", "--left-right", "--count", f"{main}...{state.head}").line.split()
    fork = git.run(place.path, "merge-base", main, state.head).line or place.base or state.head
    words = ("diff", "--shortstat", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=none")
    counts = {kind: int(number) for number, kind in _STAT.findall(ask(place.path, *words, fork, "--").out)}
    return {
        "on": state.branch,
        "ahead": int(ahead),
        "behind": int(behind),
        "files_changed": counts.get(b"file", 0) + state.untracked,
        "insertions": counts.get(b"insertion", 0),
        "deletions": counts.get(b"deletion", 0),
        "dirty": bool(state.dirt),
        "files": state.named,
        "merged": ahead == "0" and bool(place.base) and state.head != place.base,
    }


def state_of(place: WorktreeLocation, seconds: float = git.READ_S, *, exact: bool = False) -> WorktreeStatus:
    """Ask git for the state of an existing worktree (``git_dir``); takes no lock that its agent may need.

    ``exact``: compare copies byte by byte.
    """
    words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames")
    answer = git.ask(place.path, *words, "--ignore-submodules=none", seconds=seconds)
    head, branch = "", None
    dirt: list[str] = []
    copies: list[str] = []
    untracked = 0
    for line in git.names(answer):
        kind, _, rest = line.partition(" ")
        if rest.startswith("branch.oid "):
            head = rest.removeprefix("branch.oid ")
        elif rest.startswith("branch.head "):
            branch = rest.removeprefix("branch.head ")
        elif kind == "?" and include.same(place.tree, place.path, rest, exact=exact):
            copies.append(rest)  # identical to the main tree's file: it holds no work
        elif kind == "?":
            untracked += 1
            dirt.append(rest)
        elif kind in ("1", "u"):
            dirt.append(rest.split(" ", 7 if kind == "1" else 9)[-1])
    if answer.cut:
        dirt.append("more than can be listed")
    return WorktreeStatus(head, None if branch == "(detached)" else branch, dirt, copies, untracked)


def _recorded(root: Path, agent_id: str) -> dict[str, Any] | None:
    """The worktree of the agent's first record on this host; None without one, or if its log cannot be read.

    A record that was not written on this machine is ignored: it could name any directory. Of an agent that moved here
    that record is the first launch after the move.
    """
    paths = Paths(root)
    seal = paths.provenance.seal("agent", agent_id, "outbox")
    if seal is None:
        return None
    seq, several = (0, 1) if seal.accepted is None else (seal.accepted.seq, 50)
    with suppress(OrchestratorError):
        while records := page(paths.outbox(agent_id), OUTBOX_TYPES, seq, (several, 1 << 20), seal=seal):
            for record in records:
                placed = record if record["type"] == "starting" else record.get("placed")
                if seal.accepted is None or placed is not None:
                    worktree: dict[str, Any] | None = (placed or {}).get("worktree")
                    return worktree
            seq = records[-1]["seq"]
    return None


def listed(root: Path) -> list[dict[str, Any]]:
    """Every worktree below `.agents/worktrees/`, as `look`, with ``agent_id`` and whether it is ``recorded``."""
    try:
        names = sorted(path.name for path in home(root).iterdir() if ID.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failure(home(root), error) from None
    rows = []
    for name in names:
        content = look(root, name, git.READ_S) or {
            "path": str(home(root) / name), "branch": "", "base": "", "error": "it is no worktree of git"
        }  # fmt: skip
        rows.append({"agent_id": name, "recorded": _recorded(root, name) is not None, **content})
    return rows


def merge_check(root: Path, agent_id: str, into: str = "", *, seconds: float = git.WRITE_S) -> dict[str, Any]:
    """Whether the agent's commits would merge into the main tree's HEAD, or ``into``, without conflict.

    ``{branch, into, clean, conflicts, dirty, operation}``; the files in ``conflicts`` are unordered.
    Changes only git's object store, within ``seconds``. ``dirty``: there are uncommitted changes, which are not
    checked.
    """
    place = known(root, agent_id)
    version = git.ask(root, "version").line
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < MERGE_TREE:
        raise Environment("git_failed", f"this needs git 2.38 or newer, and here is {version}", "install a newer git")
    git_dir = place.git_dir
    state = None if git_dir is None else state_of(place)
    mine = state.head if state is not None else f"refs/heads/{place.branch}"
    # By its id from here on, so that no given name can be an option of git.
    target = git.run(place.tree, "rev-parse", "--quiet", "--verify", f"{into or 'HEAD'}^{{commit}}")
    if target.code:
        raise BadRequest("bad_argument", f"{place.tree} has no branch or commit {into!r}", "git branch shows them")
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", target.line, mine)
    answer = git.run(place.tree, *words, seconds=seconds)
    if answer.code not in (0, 1):
        raise git.refused("merge-tree", answer)
    return {
        "agent_id": agent_id,
        "branch": (state.branch if state is not None else place.branch) or mine,
        "into": into or git.run(place.tree, "symbolic-ref", "-q", "--short", "HEAD").line or "HEAD",
        "clean": answer.code == 0,
        "conflicts": [git.shown(name) for name in git.names(answer)[1:]],
        "dirty": state is not None and bool(state.dirt),
        "operation": None if git_dir is None else git.under_way(git_dir),
    }
