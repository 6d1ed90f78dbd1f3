"""Creates and removes git worktrees of agents: `.agents/worktrees/<agent_id>`, each on its own branch.

A worktree is made *before* the agent's `starting` record becomes durable, by the same call. So the directory in the
record always exists, and a refusal of git is an error of that call, with nothing left behind. A kill -9 in between
leaves a worktree that no record names and that holds no work. `make` removes it when the id is used again (a re-sent
agent_create gets the same id), and `listed` shows it until then.

Everything else is derived from git at the time of the call; nothing that holds work is removed. All of it blocks.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest, Conflict, Environment, OrchestratorError
from orchestrator.journal.project_files import check_id, make_dir
from orchestrator.team.worktrees import git, include
from orchestrator.team.worktrees.inspection import WorktreeLocation, home, known, place_of, state_of


@dataclass(frozen=True)
class WorktreePlan:
    """The origin of a new worktree: the main tree, its commit, and the agent's directory below it."""

    tree: Path
    base: str
    below: str


@dataclass(frozen=True)
class _KeptReason:
    """Why a worktree is kept: the error code, a reason, the first files concerned."""

    code: str
    why: str
    files: list[str]


# -- making ---------------------------------------------------------------------------------------------------------


def plan(root: Path, cwd: Path) -> WorktreePlan:
    """The plan of a worktree for an agent in ``cwd``; writes nothing.

    The tree is the one that holds ``cwd``, the commit its HEAD now, on a branch or not. Raises BadRequest
    ``not_a_repository`` if there is no commit, Conflict ``worktree_busy`` during a merge or rebase, whose state is
    temporary.
    """
    toplevel = git.run(cwd, "rev-parse", "--show-toplevel")
    if toplevel.code and ("not a git repository" in toplevel.err or "work tree" in toplevel.err):
        raise BadRequest("not_a_repository", f"{cwd} is in no git repository with a working tree")
    if toplevel.code:
        raise git.refused("rev-parse", toplevel)
    tree = Path(toplevel.line)
    own = git.linked(tree)
    if own is not None and not root.is_relative_to(tree):
        raise BadRequest("bad_argument", f"{cwd} is in a worktree already", "give a cwd in the project's main tree")
    operation = git.under_way(own or Path(git.ask(tree, "rev-parse", "--absolute-git-dir").line))
    if operation:
        raise Conflict("worktree_busy", f"a {operation} is under way in {tree}", "finish or abort it first")
    head = git.run(tree, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    if head.code:
        raise BadRequest("not_a_repository", f"the repository {tree} has no commit yet", "commit something first")
    below = os.path.relpath(cwd, tree)
    if below != "." and git.run(tree, "cat-file", "-t", f"{head.line}:{below}").out != b"tree\n":
        raise BadRequest(
            "bad_argument",
            f"{cwd} is not part of the last commit, so a worktree would not have it",
            "commit it first",
        )
    return WorktreePlan(tree, head.line, below)


def make(root: Path, agent_id: str, given: WorktreePlan, suffix: str = "") -> dict[str, Any]:
    """Make the agent's worktree; returns its part of the `starting` record.

    The branch is new: `orchestrator/<agent_id><suffix>`, with -2, -3 … when taken. Files of `.worktreeinclude` are
    copied; files that cannot be copied are reported, not fatal. Raises Conflict ``worktree_taken`` if something with
    work is in the way; Environment ``git_failed`` or ``disk_full``, with nothing left behind.
    """
    make_dir(home(root))
    path = home(root) / check_id(agent_id, "agent_id")
    with git.turn(home(root)) as held:
        failpoints.passed("worktree:begin")
        _clear_way(root, agent_id, given, held)
        branch = _free_branch(given.tree, f"{agent_id}{suffix}")
        place = WorktreeLocation(agent_id, path, given.tree, branch, given.base)
        failpoints.passed("worktree:chosen")
        try:
            git.ask(
                given.tree, "worktree", "add", "--quiet", "--no-track", "-b", branch, str(path), given.base,
                seconds=git.WRITE_S, held=held,
            )  # fmt: skip
            failpoints.passed("worktree:added")
            if not (path / given.below).is_dir():
                raise Environment("git_failed", f"git did not check out {given.below} (a sparse checkout?)")
            copied, not_copied = include.copy(given.tree, path)
        except OrchestratorError:
            _discard(place, held)
            raise
        failpoints.passed("worktree:copied")
    return {
        "path": str(path),
        "branch": branch,
        "base": given.base,
        "tree": str(given.tree),
        "copied": copied,
        "not_copied": not_copied,
    }


def fitted(root: Path, agent_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of an agent with a worktree made for it: ``worktree``, and its ``cwd`` at the same place in it.

    The branch of a fleet's agent names the fence too: a former owner must never write over it.
    """
    given = plan(root, Path(spec["cwd"]))
    fence = (spec.get("fleet") or {}).get("fence", 0)
    worktree = make(root, agent_id, given, f"-f{fence}" if fence else "")
    return spec | {"cwd": os.path.normpath(Path(worktree["path"], given.below)), "worktree": worktree}


def undo(root: Path, worktree: dict[str, Any]) -> None:
    """Remove a worktree whose agent could not be recorded; if git refuses, `listed` shows it."""
    with contextlib.suppress(OrchestratorError), git.turn(home(root)) as held:
        path = Path(worktree["path"])
        _discard(
            WorktreeLocation(path.name, path, Path(worktree["tree"]), worktree["branch"], worktree["base"]), held
        )


def _free_branch(tree: Path, named: str) -> str:
    answer = git.ask(tree, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/orchestrator/")
    branches = answer.out.decode(errors="replace").splitlines()
    wanted = name = f"orchestrator/{named}"
    n = 1
    while any(branch == name or branch.startswith(f"{name}/") for branch in branches):
        n += 1
        name = f"{wanted}-{n}"
    return name


def _discard(place: WorktreeLocation, held: int) -> None:
    """Remove an unfinished worktree that holds no work, in any state."""
    words = ("worktree", "remove", "--force", "--force", str(place.path))
    git.run(place.tree, *words, seconds=git.WRITE_S, held=held)
    with contextlib.suppress(OSError):
        place.path.rmdir()
    _drop_branch(place, held)


def _clear_way(root: Path, agent_id: str, given: WorktreePlan, held: int) -> None:
    """Remove the leftover of a daemon that was killed; Conflict ``worktree_taken`` if it may hold work."""
    place = place_of(root, agent_id)
    if place is not None:
        git_dir = place.git_dir
        if git_dir is not None and (git.locked(git_dir) or "").startswith("initializing"):
            _discard(place, held)  # we hold the lock, so no other process is making it
            return
        kept = _kept(place)
        if kept is not None:
            raise Conflict("worktree_taken", f"{place.path} belongs to no agent, and is kept: {kept.why}")
        _remove(place, held)
        _drop_branch(place, held)
        return
    path = home(root) / agent_id
    if not os.path.lexists(path):
        # If it was removed by hand, git still knows it and would refuse the path.
        git.run(given.tree, "worktree", "remove", "--force", "--force", str(path), held=held)
        return
    try:
        path.rmdir()  # fails unless it is empty
    except OSError:
        raise Conflict("worktree_taken", f"{path} is in the way, and is no worktree of git") from None


# -- removing -------------------------------------------------------------------------------------------------------


def removable(root: Path, agent_id: str) -> tuple[bool, str]:
    """Whether `remove` would remove the agent's worktree, and if not, why.

    False without a worktree. The caller must check whether the agent is alive. Raises only for a bad id.
    """
    try:
        place = known(root, agent_id)
        kept = _kept(place)
    except OrchestratorError as error:
        if error.code in ("bad_id", "path_escape"):
            raise
        return False, error.message
    return (True, "") if kept is None else (False, kept.why)


def remove(root: Path, agent_id: str) -> dict[str, Any]:
    """Remove the worktree of an agent that has ended; never a worktree that holds work.

    Conflict ``worktree_dirty`` (with ``files``) or ``worktree_busy``. The branch is removed too if it has no commit
    of its own or the main tree has them all: ``{agent_id, path, branch, branch_removed, note}``. A repeated call
    returns the same.
    """
    place = known(root, agent_id)
    make_dir(home(root))
    with git.turn(home(root)) as held:
        kept = _kept(place)
        if kept is not None:
            raise Conflict(kept.code, f"{place.path} is kept: {kept.why}", files=kept.files)
        _remove(place, held)
        failpoints.passed("worktree:removed")
        note = _drop_branch(place, held)
    return {
        "agent_id": agent_id,
        "path": str(place.path),
        "branch": place.branch,
        "branch_removed": not note,
        "note": note,
    }


def _kept(place: WorktreeLocation) -> _KeptReason | None:
    """Why the worktree may not be removed; None if nothing would be lost."""
    if not os.path.lexists(place.path):
        return None
    git_dir = place.git_dir
    if git_dir is None:
        return _KeptReason(
            "worktree_dirty", "git no longer knows it as a worktree, so its content cannot be judged", []
        )
    operation, lock = git.under_way(git_dir), git.locked(git_dir)
    if operation:
        return _KeptReason("worktree_busy", f"a {operation} is under way in it", [])
    if (git_dir / "index.lock").exists():
        return _KeptReason("worktree_busy", "a git command is running in it, or was killed there (index.lock)", [])
    if lock:
        return _KeptReason("worktree_busy", f"it is locked: {lock}", [])
    state = state_of(place, exact=True)
    if state.dirt:
        count = len(state.dirt)
        return _KeptReason(
            "worktree_dirty", f"{count} file{'s are' if count > 1 else ' is'} not committed", state.named
        )
    if git.run(place.path, "rev-list", "-n", "1", "HEAD", "--not", "--branches", "--tags", "--remotes").out:
        return _KeptReason("worktree_dirty", "its HEAD has commits that no branch holds", [])
    return None


def _remove(place: WorktreeLocation, held: int) -> None:
    """Remove a worktree that `_kept` allows; git itself checks once more."""
    if not os.path.lexists(place.path):
        git.run(place.tree, "worktree", "remove", str(place.path), held=held)  # removed by hand: git forgets it too
        return
    for name in state_of(place, exact=True).copies:
        (place.path / name).unlink(missing_ok=True)
    git.ask(place.tree, "worktree", "remove", str(place.path), seconds=git.WRITE_S, held=held)


def _drop_branch(place: WorktreeLocation, held: int) -> str:
    """Delete the branch if that loses no commit; otherwise return why it is kept."""
    ref = f"refs/heads/{place.branch}"
    if not place.branch:
        return "its branch is none of ours, and is kept"
    tip = git.run(place.tree, "rev-parse", "--quiet", "--verify", ref).line
    if not tip:
        return ""
    elsewhere = git.ask(place.tree, "for-each-ref", "--format=%(worktreepath)", ref).line
    if elsewhere:
        return f"branch {place.branch} is kept: it is checked out in {elsewhere}"
    if tip != place.base and git.run(place.tree, "merge-base", "--is-ancestor", ref, "HEAD").code:
        return f"branch {place.branch} is kept: the main tree does not have all its commits"
    # Only if it still points there: a commit made at this moment keeps the branch.
    gone = git.run(place.tree, "update-ref", "-d", ref, tip, held=held)
    return f"branch {place.branch} is kept: {gone.err}" if gone.code else ""
