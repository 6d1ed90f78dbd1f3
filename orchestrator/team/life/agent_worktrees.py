"""Worktrees of agents: created, inspected and removed from the event loop; git runs in threads.

agent_create makes an agent's worktree as one of its steps, agent_get inspects it, agent_delete leaves it in place. It
is removed only when no agent lives in it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from orchestrator.base.errors import Conflict, OrchestratorError
from orchestrator.journal.project_files import check_id
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.agent_views import worktree_of
from orchestrator.team.roster.roster import Roster
from orchestrator.team.worktrees import inspection, worktrees

FRESH_S = 3.0
"""Seconds for which a result is reused: agent_get is called in loops."""


async def check(roster: Roster, spec: dict[str, Any]) -> None:
    """Raise the error that prevents a worktree for an agent of that spec; writes nothing."""
    await asyncio.to_thread(worktrees.plan, roster.root, Path(spec["cwd"]))


async def give(roster: Roster, agent_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Make a worktree for the agent and return the spec with it. The caller holds ``TeamPanes.placing``."""
    roster.begin_writing()
    return await asyncio.to_thread(worktrees.fitted, roster.root, agent_id, spec)


async def take_back(roster: Roster, spec: dict[str, Any]) -> None:
    """Remove the worktree of an agent that could not be recorded, if `give` has made one."""
    if "worktree" in spec:
        await asyncio.to_thread(worktrees.undo, roster.root, spec["worktree"])


async def seen(roster: Roster, entry: AgentEntry) -> dict[str, Any] | None:
    """The state of the agent's worktree (`inspection.look`); git is asked at most once in ``FRESH_S``."""
    if "worktree" not in entry.state.spec:
        return None
    if entry.remote is not None:
        return worktree_of(entry.state)
    at = roster.clock.monotonic()
    if entry.looked is None or at - entry.looked[0] >= FRESH_S:
        looking = asyncio.to_thread(_look, roster, entry)
        entry.looked = at, asyncio.get_running_loop().create_task(looking)
    return await asyncio.shield(entry.looked[1])


def _look(roster: Roster, entry: AgentEntry) -> dict[str, Any] | None:
    try:
        return inspection.look(roster.root, entry.agent_id)
    except OrchestratorError as error:  # its directory is a link out of the project: the rest of the answer is valid
        return (worktree_of(entry.state) or {}) | {"error": error.message}


async def left_behind(roster: Roster, entry: AgentEntry) -> dict[str, Any]:
    """The worktree of a deleted agent for its answer, with a note if it or its branch holds work."""
    entry.looked = None  # its last seconds count too
    worktree = await seen(roster, entry)
    if worktree is None:
        return {}
    work = [worktree["error"]] if "error" in worktree else []
    work += [f"commits to merge: {worktree['ahead']}"] if worktree.get("ahead") else []
    work += ["changes that are not committed"] if worktree.get("dirty") else []
    if not work:
        return {}
    note = f"its worktree stays ({', '.join(work)}): {worktree['path']}, branch {worktree['branch']}"
    return {"worktree": worktree, "note": f"{note}; in the end: orchestrator worktree remove {entry.agent_id}"}


async def remove(supervisor: Supervisor, agent_id: str) -> dict[str, Any]:
    """Remove the worktree of a deleted agent, or a worktree without an agent (`worktrees.remove`).

    Conflict ``worktree_busy`` while the agent lives or is being made.
    """
    roster = supervisor.roster
    if check_id(agent_id, "agent_id") in roster.corrupt:
        raise roster.corrupt[agent_id]
    async with supervisor.team_panes.placing:  # an agent being created gets its worktree shortly before its record
        entry = roster.agents.get(agent_id)
        if entry is not None and entry.live:
            raise Conflict(
                "worktree_busy", f"agent {agent_id} is not deleted", f"orchestrator agent delete {agent_id}"
            )
        if entry is not None:
            entry.looked = None
        return await asyncio.to_thread(worktrees.remove, roster.root, agent_id)
