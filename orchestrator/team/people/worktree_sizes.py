"""How much agents have changed in their worktrees, and which of these would not merge, while somebody looks.

Git runs in threads, only while a face is open or for a single look, and only if the agent has done something or the
main tree has changed since the last look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.secret_masks import one_line
from orchestrator.core.inbox_items import InboxItem, item_id, of_agent
from orchestrator.team.people.watched_rounds import WatchedRounds
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster
from orchestrator.team.worktrees import git, inspection

log = structlog.get_logger()

EVERY_S = 10.0
CHECK_S = 20.0
LOOKERS = 2
FILES_NAMED = 5
FILES_LISTED = 200
TEXT_MAX = 300


class _Conflicts(NamedTuple):
    """The files in which an agent's commits conflict with the main tree, and their common ancestor commit."""

    files: tuple[str, ...] = ()
    fork: str = ""


NO_CONFLICTS = _Conflicts()


@dataclass
class _WorktreeSize:
    """What was seen of one worktree, and what the agent had done by then."""

    mark: tuple[Any, ...] = ()
    size: dict[str, int] | None = None
    conflicts: _Conflicts = NO_CONFLICTS
    since: str = ""  # of these conflicts


class WorktreeSizes:
    """The sizes of a roster's worktrees. ``changed`` is called with an agent of which something else is seen."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.changed: Callable[[AgentEntry], None] = lambda _entry: None
        self._sizes: dict[str, _WorktreeSize] = {}
        self._rounds = WatchedRounds(roster.clock, EVERY_S, self._tick)
        self._lookers = asyncio.Semaphore(LOOKERS)

    async def close(self) -> None:
        """Stop looking."""
        await self._rounds.close()

    def watched(self, is_open: bool) -> None:
        """Whether a face is open."""
        self._rounds.watched(is_open)

    async def glance(self) -> None:
        """Look once, for a caller that opens no face."""
        await self._rounds.glance()

    def size_of(self, entry: AgentEntry) -> dict[str, int] | None:
        """``{files, added, removed}`` against the commit at which its branch began; None without a worktree."""
        seen = self._sizes.get(entry.agent_id)
        return seen.size if seen is not None else None

    def items(self, entry: AgentEntry) -> list[InboxItem]:
        """The item of an agent whose commits have conflicts with the main tree."""
        seen = self._sizes.get(entry.agent_id)
        if seen is None or not seen.conflicts.files:
            return []
        files, fork = seen.conflicts
        conflict_item = item_id(entry.agent_id, "conflict", fork, *files)
        if conflict_item in entry.state.answers:
            return []
        more = len(files) - FILES_NAMED
        names = ", ".join(files[:FILES_NAMED]) + (f" and {more} more" if more > 0 else "")
        text = one_line(f"its commits have conflicts in {names}", TEXT_MAX)
        item = InboxItem(
            conflict_item, "conflict", entry.agent_id, text, seen.since,
            holds=False, asked="\n".join(one_line(name, TEXT_MAX) for name in files[:FILES_LISTED]),
            answers=("dismiss",), cut=len(files) > FILES_LISTED,
        )  # fmt: skip
        return [of_agent(item, entry.state)]

    # -- looking ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        gone = self._sizes.keys() - self._roster.agents.keys()
        for agent_id in gone:
            del self._sizes[agent_id]
        entries = [e for e in self._roster.agents.values() if e.live and "worktree" in e.state.spec]
        if entries and not list(self._rounds.tasks):
            self._rounds.tasks.start(self._look(entries))

    async def _look(self, entries: list[AgentEntry]) -> None:
        try:
            heads = await asyncio.to_thread(_heads, frozenset(map(_tree_of, entries)))
            marks = {entry: _mark(entry, heads[_tree_of(entry)]) for entry in entries}
            due = [entry for entry, mark in marks.items() if self._of(entry).mark != mark]
            await asyncio.gather(*(self._look_at(entry, marks[entry]) for entry in due))
        except Exception:
            log.exception("bug while looking at worktrees")

    async def _look_at(self, entry: AgentEntry, mark: tuple[Any, ...]) -> None:
        async with self._lookers:
            if not self._rounds.anybody_looks:
                return
            look, conflicts = await asyncio.to_thread(_seen, self._roster.root, entry.agent_id)
        seen = self._of(entry)
        seen.mark = mark
        size, before = size_of(look), (seen.size, seen.conflicts)
        if conflicts is not None and conflicts != seen.conflicts:
            seen.conflicts, seen.since = conflicts, rfc3339(self._roster.clock.now())
        seen.size = size
        if before != (seen.size, seen.conflicts):
            self.changed(entry)

    def _of(self, entry: AgentEntry) -> _WorktreeSize:
        return self._sizes.setdefault(entry.agent_id, _WorktreeSize())


def size_of(look: Mapping[str, Any] | None) -> dict[str, int] | None:
    """The size of a worktree that `inspection.look` has seen; None if there is none, or git did not say it.

    A new file that git does not know counts as a file without lines.
    """
    if look is None or "files_changed" not in look:
        return None
    return {"files": look["files_changed"], "added": look["insertions"], "removed": look["deletions"]}


def _mark(entry: AgentEntry, main: str) -> tuple[Any, ...]:
    """What must have changed before the agent's worktree is looked at again."""
    agent = entry.state
    lease, ended = agent.lease, agent.last_end
    task = lease.task_id if lease is not None else ""
    return entry.calls, task, ended.seq if ended is not None else 0, entry.turn, agent.life, agent.epoch, main


def _tree_of(entry: AgentEntry) -> str:
    return str(entry.state.spec["worktree"].get("tree", ""))


def _heads(trees: frozenset[str]) -> dict[str, str]:
    """The commit of each main tree; empty if git does not say it."""
    heads = dict.fromkeys(trees, "")
    for tree in trees:
        with contextlib.suppress(OrchestratorError):
            heads[tree] = git.run(Path(tree), "rev-parse", "--verify", "HEAD", seconds=inspection.LOOK_S).line
    return heads


def _seen(root: Path, agent_id: str) -> tuple[dict[str, Any] | None, _Conflicts | None]:
    """The look at a worktree, and the conflicts of its commits; each is None if git failed.

    The fork changes only when somebody has solved the conflicts: later conflicts in the same files are new.
    """
    try:
        look = inspection.look(root, agent_id)
        if look is None or "ahead" not in look:
            return look, None
        if not look["ahead"] or not look["behind"]:
            return look, NO_CONFLICTS  # nothing to merge, or nothing else to merge it with
        files = tuple(sorted(inspection.merge_check(root, agent_id, seconds=CHECK_S)["conflicts"]))
        if not files:
            return look, NO_CONFLICTS
        place = inspection.known(root, agent_id)
        main = git.run(place.tree, "rev-parse", "--verify", "HEAD", seconds=inspection.LOOK_S).line
        fork = git.run(place.path, "merge-base", main, "HEAD", seconds=inspection.LOOK_S).line
    except OrchestratorError as error:
        log.debug("a worktree was not seen", agent=agent_id, **error.as_dict())
        return None, None
    return look, _Conflicts(files, fork)
