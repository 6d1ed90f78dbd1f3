"""The likely cause why an agent's CLI did not get ready: gathers the facts that `engines.start_failures` judges."""

from __future__ import annotations

import asyncio

from orchestrator.core.screens import Screen, explain
from orchestrator.engines import start_failures, table
from orchestrator.team.life import launch_files
from orchestrator.team.life.cli_versions import version_of
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster


async def cause_of(roster: Roster, entry: AgentEntry, screen: Screen | None = None) -> str:
    """One sentence. ``screen`` belongs to a CLI that still runs; for an ended CLI its last lines are used."""
    agent = entry.state
    row = table.engine(str(agent.spec["engine"]))
    ended = agent.exited
    if ended is not None:
        screen = Screen(lines=tuple(ended.get("last_lines", [])))
    finding = explain(row.patterns, screen) if screen is not None else None
    status = ended.get("code") if ended is not None else None
    version = None
    if row.tested_versions and status not in start_failures.STATUSES:
        env = launch_files.read(roster, entry).get("base_env") or {}
        version = await asyncio.to_thread(version_of, row.program, env)
    return start_failures.likely(
        row,
        finding=finding or entry.finding,
        status=status,
        listed=entry.listed_epoch == agent.epoch,
        version=version,
        lives=ended is None,
    )
