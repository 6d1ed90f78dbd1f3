"""Sizes and conflicts of worktrees on a real repository: while somebody looks, and after something happened."""

import asyncio
import shutil
from pathlib import Path

import pytest

from orchestrator.team.people import watched_rounds, worktree_sizes
from orchestrator.team.people.worktree_sizes import EVERY_S, WorktreeSizes
from orchestrator.team.worktrees import git
from tests.integration.test_worktrees import commit, give, repository, sh, write
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio


class Sizes:
    """A repository with a worktree for each agent; ``runs`` counts what git was asked."""

    def __init__(self, root: Path) -> None:
        self.root = repository(root)
        self.team = Team(self.root).load()
        self.sizes = WorktreeSizes(self.team.roster)
        self.changed: list[str] = []
        self.sizes.changed = lambda entry: self.changed.append(entry.agent_id)
        self.runs = 0

    async def agent(self, name):
        entry = await self.team.agent(name)
        shutil.rmtree(self.team.paths.agent_dir(name))  # `give` writes the record that claims the worktree
        tree, entry.state.spec["worktree"] = give(self.root, name)
        return entry, tree

    async def idle(self):
        while running := list(self.sizes._rounds.tasks):
            await asyncio.wait(running)
        await settle()

    async def passes(self, seconds=EVERY_S):
        await self.team.clock.advance(seconds)
        await self.idle()


@pytest.fixture
def lot(tmp_path, monkeypatch):
    made, run = Sizes(tmp_path / "shop"), git.run

    def counted(*given, **more):
        made.runs += 1
        return run(*given, **more)

    monkeypatch.setattr(git, "run", counted)
    monkeypatch.setattr(watched_rounds, "GLANCE_S", 60.0)  # git takes its time on a busy machine
    yield made
    made.team.close()


async def test_nothing_is_asked_of_git_until_somebody_looks_and_then_only_after_something_happened(lot):
    entry, tree = await lot.agent("a1")
    write(tree, "a.txt", "one\ntwo\nthree\n")
    write(tree, "new.txt", "n\n")
    before = lot.runs
    await lot.passes(5 * EVERY_S)
    assert lot.sizes.size_of(entry) is None and lot.runs == before
    lot.sizes.watched(True)
    await lot.idle()
    assert lot.sizes.size_of(entry) == {"files": 2, "added": 2, "removed": 0}
    assert lot.changed == ["a1"]
    commit(tree, "work")
    asked = lot.runs
    await lot.passes()
    assert lot.runs == asked + 1  # where the main tree stands
    entry.calls += 1
    await lot.passes(EVERY_S - 1)
    assert lot.runs == asked + 1
    await lot.passes(1)
    assert lot.sizes.size_of(entry) == {"files": 2, "added": 3, "removed": 0}
    lot.sizes.watched(False)
    entry.calls += 1
    asked = lot.runs
    await lot.passes(5 * EVERY_S)
    assert lot.runs == asked


async def test_an_agent_without_a_worktree_has_no_size(lot):
    entry = await lot.team.agent("plain")
    lot.sizes.watched(True)
    await lot.passes()
    assert lot.sizes.size_of(entry) is None and lot.runs == 0 and lot.sizes.items(entry) == []


async def test_commits_that_conflict_are_one_item_until_they_do_not_or_somebody_takes_note(lot):
    (entry, tree), (other, _) = await lot.agent("a1"), await lot.agent("a2")
    write(tree, "a.txt", "mine\n")
    write(tree, "a\x1b[31m.txt", "mine\n")
    commit(tree, "mine")
    lot.sizes.watched(True)
    await lot.idle()
    assert lot.sizes.items(entry) == []
    write(lot.root, "a.txt", "theirs\n")
    write(lot.root, "a\x1b[31m.txt", "theirs\n")
    commit(lot.root, "theirs")  # nothing has happened to the agent, but to the main tree
    await lot.passes()
    (item,) = lot.sizes.items(entry)
    assert (item.kind, item.holds, item.answers, item.agent_id) == ("conflict", False, ("dismiss",), "a1")
    assert "a.txt" in item.text and item.text.isprintable() and len(item.asked.splitlines()) == 2
    assert lot.sizes.items(other) == []
    entry.calls += 1
    lot.team.clock.seconds += 1
    await lot.passes()
    assert lot.sizes.items(entry) == [item]
    entry.state.answers[item.item_id] = object()
    assert lot.sizes.items(entry) == []
    entry.state.answers.clear()
    sh(tree, "merge", "-q", "-X", "ours", "main")
    entry.calls += 1
    await lot.passes()
    assert lot.sizes.items(entry) == []


async def test_conflicts_after_solved_ones_are_another_item(lot):
    entry, tree = await lot.agent("a1")

    async def conflict(number):
        for place, text in ((tree, "mine"), (lot.root, "theirs")):
            write(place, "a.txt", f"{text} {number}\n")
            commit(place, f"{text} {number}")
        await lot.sizes.glance()
        (item,) = lot.sizes.items(entry)
        return item

    first = await conflict(1)
    assert await conflict(2) == first
    sh(tree, "merge", "-q", "-X", "ours", "main")
    entry.calls += 1
    await lot.sizes.glance()
    assert lot.sizes.items(entry) == []
    entry.calls += 1
    second = await conflict(3)
    assert second.text == first.text and second.item_id != first.item_id


async def test_who_looks_once_sees_it_although_no_face_is_open(lot):
    entry, tree = await lot.agent("a1")
    write(tree, "a.txt", "two\n")
    await lot.sizes.glance()
    assert lot.sizes.size_of(entry) == {"files": 1, "added": 1, "removed": 1}
    asked = lot.runs
    await lot.passes(5 * EVERY_S)
    assert lot.runs == asked


async def test_a_worktree_that_is_gone_or_slow_has_no_size_and_stops_nothing(lot, monkeypatch):
    entry, tree = await lot.agent("a1")
    lot.sizes.watched(True)
    await lot.idle()
    assert lot.sizes.size_of(entry) == {"files": 0, "added": 0, "removed": 0}
    sh(lot.root, "worktree", "remove", "--force", str(tree))
    entry.calls += 1
    await lot.passes()
    assert lot.sizes.size_of(entry) is None
    monkeypatch.setattr(worktree_sizes, "_seen", lambda *_: 1 / 0)
    entry.calls += 1
    await lot.passes()
    assert lot.sizes.size_of(entry) is None
    lot.team.roster.agents.pop("a1")
    await lot.passes()
    assert lot.sizes._sizes == {}
    await lot.sizes.close()
