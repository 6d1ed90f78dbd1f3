"""Conversations straight over the daemon's sockets, so that hundreds of agents cost the benchmark little."""

from __future__ import annotations

import json
import secrets
from typing import Any

from benchmarks.project import Project
from benchmarks.wire import Wire
from orchestrator.edge.project_location import INSTALL, PROTO, SOCKET, VERSION, agent_socket

AT_ONCE = 50


async def master(project: Project) -> Wire:
    return await _wire(project, SOCKET, kind="cli")


async def agents(project: Project, leader: Wire, names: list[str], command: list[str]) -> dict[str, Wire]:
    """Agents whose panes run this command; by id, who speaks for each and has asked once for a task."""
    wires: dict[str, Wire] = {}
    for first in range(0, len(names), AT_ONCE):
        made = await leader.call(
            "agents_create",
            agents=[
                {"name": name, "role": "bench", "engine": "command", "command": command}
                for name in names[first : first + AT_ONCE]
            ],
            ready_wait_ms=0,
        )
        for row in made["agents"]:
            wires[row["agent_id"]] = await agent(project, row["agent_id"])
    return wires


async def agent(project: Project, agent_id: str) -> Wire:
    """Who speaks for this agent and has asked once for a task."""
    launch = json.loads((project.root / ".agents/agents" / agent_id / "engine/launch.json").read_text())
    claim = {"id": agent_id, "epoch": launch["epoch"], "secret": launch["secret"]}
    wire = await _wire(project, agent_socket(agent_id), kind="relay", agent=claim)
    await wire.call("wait_for_command", agent_id=agent_id, timeout_ms=0)
    return wire


async def _wire(project: Project, name: str, **facts: Any) -> Wire:
    hello = {"proto": PROTO, "version": VERSION, "install": INSTALL, "project": str(project.root)}
    hello |= {"conn": secrets.token_hex(8), "toolsets": ["team"], **facts}
    wire = await Wire.to_daemon(project.run_directory() / name, hello)
    await wire.greet()
    return wire
