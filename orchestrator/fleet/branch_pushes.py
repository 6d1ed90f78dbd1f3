"""Pushes the branch of a fleet's agent to the configured remote when one of its tasks has ended (`fleet_push`).

So the commits of an agent on another host reach the home of its run. A push that fails is logged, and tried again at
the next end; it never delays a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import call_off
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.worktrees import git

log = structlog.get_logger()

PUSH_S = 60.0


class BranchPushes:
    """The pushes of one host; ``remote`` is the name of the git remote, "" if branches are not pushed."""

    def __init__(self, remote: Callable[[], str]) -> None:
        self._remote = remote
        self._pushed: dict[str, int] = {}  # by agent: the terminal record that was seen last
        self._under_way: dict[str, None] = {}
        self._tasks = BackgroundTasks()

    async def close(self) -> None:
        """Start no more pushes; git ends by itself."""
        await call_off(self._tasks)

    def known(self, entry: AgentEntry) -> None:
        """What ended before this daemon began was pushed then."""
        self._pushed[entry.agent_id] = entry.state.last_end.seq if entry.state.last_end else 0

    def seen(self, entry: AgentEntry) -> None:
        """An own agent has changed."""
        agent, name = entry.state, entry.agent_id
        tree = agent.spec.get("worktree") if agent.fleet else None
        if not tree or agent.last_end is None or agent.last_end.seq <= self._pushed.get(name, 0):
            return
        self._pushed[name] = agent.last_end.seq
        remote = self._remote()
        if remote and name not in self._under_way:
            self._under_way[name] = None
            self._tasks.start(self._push(name, remote, Path(tree["path"]), str(tree["branch"])))

    async def _push(self, name: str, remote: str, path: Path, branch: str) -> None:
        ref = f"refs/heads/{branch}"
        try:
            await asyncio.to_thread(git.ask, path, "push", "--quiet", remote, f"{ref}:{ref}", seconds=PUSH_S)
        except OrchestratorError as error:
            log.warning("a branch was not pushed", agent=name, branch=branch, remote=remote, **error.as_dict())
        finally:
            self._under_way.pop(name, None)
