"""The fence under which this host holds an agent: from the agent's records, or from a note of its takeover.

The note is a sealed file in the agent's `engine/`. It is needed until the first launch here has recorded the fence.
"""

from __future__ import annotations

import orjson

from orchestrator.base.errors import OrchestratorError
from orchestrator.journal.project_files import read_json, replace
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

OWNER_FILE = "owner.json"


def held_fence(roster: Roster, entry: AgentEntry) -> int:
    """The fence under which this host holds the agent."""
    try:
        content = read_json(roster.paths.engine_dir(entry.agent_id) / OWNER_FILE)
    except OrchestratorError:
        content = {}
    sealed = roster.paths.provenance.owns(content, "agent", entry.agent_id, "owner")
    return max(entry.state.fence, int(content["fence"]) if sealed else 0)


def note_takeover(roster: Roster, agent_id: str, fence: int) -> None:
    """Note that this host has taken the agent over under this fence."""
    content = roster.paths.provenance.sealed({"v": 1, "fence": fence}, "agent", agent_id, "owner")
    replace(roster.paths.engine_dir(agent_id) / OWNER_FILE, orjson.dumps(content), mode=0o600)
