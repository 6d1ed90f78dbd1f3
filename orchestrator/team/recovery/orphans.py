"""Orphaned processes of ended launches: finds them, proves that they are ours, ends them.

There are two proofs. ``engine/process.json`` has pid, start time and boot of the CLI of one epoch: all three must
match the process. Or a process has the id of its agent and our project in its environment, which its children inherit
even after their parent has ended. A pid alone proves nothing: pids are reused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from orchestrator.base.clock import Clock
from orchestrator.base.platform import process_facts, processes
from orchestrator.journal.project_files import Paths
from orchestrator.team.life import launch_exits


class ProvenProcess(NamedTuple):
    """One living process of an agent; ``epoch`` is the launch that started it, 0 if unknown."""

    pid: int
    began: int
    agent_id: str
    epoch: int


def by_record(paths: Paths, agent_id: str) -> list[ProvenProcess]:
    """The agent's recorded process, if just that one still runs."""
    process = launch_exits.recorded(paths, agent_id)
    # Where no boot is shown, a start time proves nothing.
    if process is None or not process.boot_id or not process.alive():
        return []
    return [ProvenProcess(process.pid, process.start, agent_id, process.epoch)]


def by_environment(root: Path) -> list[ProvenProcess]:
    """Every living process of this user that was started in an agent of this project."""
    agent_processes = []
    for pid in process_facts.pids():
        if pid == os.getpid():
            continue
        began = process_facts.start_time(pid)
        env = processes.environ_of(pid)
        agent_id = env.get("ORCHESTRATOR_AGENT_ID")
        if not agent_id or began is None or env.get("ORCHESTRATOR_PROJECT") != str(root):
            continue
        if not process_facts.is_own(pid):
            continue
        stat = process_facts.stat_of(pid)  # only now: a process gets its environment and its name when it executes
        if stat is None or stat.ended or stat.start != began or stat.name.startswith(processes.SPARED):
            continue
        epoch = env.get("ORCHESTRATOR_AGENT_EPOCH", "")
        agent_processes.append(ProvenProcess(pid, began, agent_id, int(epoch) if epoch.isdecimal() else 0))
    return sorted(agent_processes)


async def end(process: ProvenProcess, grace_s: float, clock: Clock) -> str:
    """End that very process and its descendants; how it ended, ``gone already`` when another has its pid."""
    return await processes.end_tree(process.pid, grace_s, clock, process.began)
