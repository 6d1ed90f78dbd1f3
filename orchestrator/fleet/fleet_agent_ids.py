"""Ids of the fleet's agents on this host. Pure: a local agent of the same id wins, the fleet's is then `id@fleet`."""

from __future__ import annotations

from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

SUFFIX = "@fleet"


def fleet_id(agent_id: str) -> str:
    """The id in the fleet of an id that is used here."""
    return agent_id.removesuffix(SUFFIX)


def local_id(roster: Roster, name: str) -> str:
    """The id here of an agent of the fleet: its own, or with the suffix if a local agent or its files have it."""
    for known in (name, name + SUFFIX):
        if known in roster.replicas or (known in roster.agents and roster.agents[known].state.fleet):
            return known
    if any(name + SUFFIX in run.refs for run in roster.runs.values()):
        return name + SUFFIX  # the broadcast tells of it so
    taken = name in roster.agents or name in roster.corrupt or roster.paths.agent_dir(name).exists()
    return name + SUFFIX if taken else name


def own_entry(roster: Roster, name: str) -> AgentEntry | None:
    """The own agent that has this id in the fleet."""
    for known in (name, name + SUFFIX):
        entry = roster.agents.get(known)
        if entry is not None and entry.state.fleet:
            return entry
    return None


def replica(roster: Roster, name: str) -> AgentEntry | None:
    """The replica of the agent that has this id in the fleet."""
    return roster.replicas.get(name) or roster.replicas.get(name + SUFFIX)
