"""What an agent has done in its worktree: its changes as a diff, its commits, and their merge into the project.

Every answer comes from git at the time of the call. Only `merge` changes the project's branch and files. All block.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.base.errors import Conflict
from orchestrator.journal.project_files import make_dir
from orchestrator.team.worktrees import git
from orchestrator.team.worktrees.inspection import WorktreeLocation, home, known, merge_check, state_of

COMMITS_SHOWN = 200
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


@dataclass(frozen=True)
class WorktreeDiff:
    """``text`` is git's diff from the commit ``base``, uncommitted changes included; ``cut``: there is more.

    ``untracked`` are new files that git does not know; no diff has them. ``gone``: the worktree is gone, and ``text``
    is the diff of its branch.
    """

    base: str
    text: bytes
    cut: bool
    untracked: list[str]
    gone: bool = False


def diff(root: Path, agent_id: str, *, stat: bool = False) -> WorktreeDiff:
    """The agent's changes since its branch left the main tree's HEAD; ``stat``: files and counts only.

    If the worktree is gone, those of its branch. BadRequest ``no_worktree``, Environment ``git_failed``.
    """
    place = known(root, agent_id)
    words = (*_DIFF, *(("--stat=100",) if stat else ("--patch",)))
    tip = _tip(place)
    base = _fork(place, tip)
    if place.git_dir is None:
        answer = git.ask(place.tree, *words, base, tip, "--", seconds=git.WRITE_S)
        return WorktreeDiff(base, answer.out, answer.cut, [], gone=True)
    answer = git.ask(place.path, *words, base, "--", seconds=git.WRITE_S)
    state = state_of(place)
    listing = ("ls-files", "--others", "--exclude-standard", "-z")
    copies = set(state.copies)
    untracked = [git.shown(name) for name in git.names(git.ask(place.path, *listing)) if name not in copies]
    return WorktreeDiff(base, answer.out, answer.cut, untracked)


def merge_preview(root: Path, agent_id: str) -> dict[str, Any]:
    """What `merge` would do: as `inspection.merge_check`, with ``head``, ``commits`` and ``uncommitted``.

    A commit is ``{commit, subject}``, the oldest first, at most 200; ``uncommitted`` are the first files that no
    commit has.
    """
    place = known(root, agent_id)
    check = merge_check(root, agent_id)
    tip = _tip(place)
    main = git.ask(place.tree, "rev-parse", "--verify", "HEAD^{commit}").line
    words = ("log", "--reverse", "--no-color", "-z", "--format=%h%x09%s", f"--max-count={COMMITS_SHOWN}")
    lines = git.ask(place.tree, *words, f"{main}..{tip}", "--").out.decode(errors="replace").split("\0")
    commits = [dict(zip(("commit", "subject"), line.split("\t", 1), strict=True)) for line in lines if "\t" in line]
    uncommitted = state_of(place).named if place.git_dir is not None else []
    return {**check, "head": tip, "commits": commits, "uncommitted": uncommitted}


def merge(root: Path, agent_id: str) -> dict[str, Any]:
    """Merge the agent's commits into the branch that the main tree has checked out: `merge_preview` and ``merged``.

    ``merged`` is the new commit, or None if there was nothing to merge. Refused, with nothing changed, unless the
    main tree is on a branch, has no uncommitted change and no operation under way, and the merge has no conflict:
    Conflict ``worktree_busy``, ``worktree_dirty``, ``merge_conflict``. Runs no hook of git.
    """
    make_dir(home(root))
    with git.turn(home(root)) as held:
        preview = merge_preview(root, agent_id)
        place = known(root, agent_id)
        if not preview["commits"]:
            return preview | {"merged": None}
        if not preview["clean"]:
            names = ", ".join(preview["conflicts"][:5])
            raise Conflict(
                "merge_conflict",
                f"{preview['branch']} has conflicts with {preview['into']}: {names}",
                f"run: git merge {preview['branch']}, and solve them",
                conflicts=preview["conflicts"],
            )
        _free(place)
        message = f"Merge branch '{preview['branch']}'"
        words = ("merge", "--no-ff", "--no-edit", "--quiet", "-m", message, preview["head"])
        answer = git.run(place.tree, *words, seconds=git.WRITE_S, held=held)
        if answer.code:
            git.run(place.tree, "merge", "--abort", held=held)
            raise git.refused("merge", answer)
        return preview | {"merged": git.ask(place.tree, "rev-parse", "--short", "HEAD").line}


def _free(place: WorktreeLocation) -> None:
    """Raise Conflict unless a merge into the main tree can neither lose nor mix up anything."""
    if git.run(place.tree, "symbolic-ref", "-q", "HEAD").code:
        raise Conflict("worktree_busy", f"{place.tree} is on no branch", "git switch BRANCH, then try again")
    operation = git.under_way(Path(git.ask(place.tree, "rev-parse", "--absolute-git-dir").line))
    if operation:
        raise Conflict("worktree_busy", f"a {operation} is under way in {place.tree}", "finish or abort it first")
    changed = git.names(git.ask(place.tree, "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"))
    if changed:
        first = ", ".join(git.shown(line[3:]) for line in changed[:5])
        raise Conflict(
            "worktree_dirty", f"{place.tree} has uncommitted changes: {first}", "commit or stash them, then try again"
        )


def _tip(place: WorktreeLocation) -> str:
    """The agent's last commit: of its worktree, else of its branch."""
    if place.git_dir is not None:
        return state_of(place).head
    return git.ask(place.tree, "rev-parse", "--verify", f"refs/heads/{place.branch}^{{commit}}").line


def _fork(place: WorktreeLocation, tip: str) -> str:
    """The commit at which the agent's branch left the main tree's HEAD."""
    main = git.ask(place.tree, "rev-parse", "--verify", "HEAD^{commit}").line
    return git.run(place.tree, "merge-base", main, tip).line or place.base or tip
