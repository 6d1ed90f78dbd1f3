"""Replace MCP tools and resources in an error's next step by commands of the command line. Pure."""

from __future__ import annotations

import re

COMMANDS = {
    "agent_create": "orchestrator agent create",
    "agents_create": "orchestrator up",
    "agent_list(scope='all')": "orchestrator agent list",
    "agent_list": "orchestrator agent list",
    "agent_get": "orchestrator agent show",
    "agent_restart": "orchestrator agent restart",
    "agent_delete": "orchestrator agent delete",
    "task_enqueue": "orchestrator task add",
    "task_cancel": "orchestrator task cancel",
    "events_read": "orchestrator events",
    "broadcast_read": "orchestrator broadcast",
    "list_roles": "orchestrator roles list",
    "start_squad_members": "orchestrator squad start",
    "smartspawn_run_create": "orchestrator spawn create",
    "smartspawn_run_status": "orchestrator spawn status",
    "smartspawn_run_result": "orchestrator spawn result",
    "smartspawn_run_list": "orchestrator spawn list",
    "smartspawn_run_cancel": "orchestrator spawn cancel",
    "smartspawn_artifact_get": "orchestrator spawn artifact",
    "smartspawn_health": "orchestrator spawn health",
    "gsd_query_intel": "orchestrator gsd query",
    "gsd_blast_radius": "orchestrator gsd blast",
    "gsd_pre_edit_check": "orchestrator gsd blast",
    "gsd_phase_status": "orchestrator gsd phase",
    "gsd_requirement_status": "orchestrator gsd requirement",
    "gsd_untraceable_requirements": "orchestrator gsd requirement",
    "gsd_codebase_patterns": "orchestrator gsd patterns",
    "gsd_get_conventions": "orchestrator gsd patterns",
    "gsd_similar_past_work": "orchestrator gsd past",
    "gsd_phase_relevant_files": "orchestrator gsd files",
    "gsd_verify_behavior": "orchestrator gsd verify",
    "gsd_verify_artifact": "orchestrator gsd verify --artifact",
    "gsd://project/requirements/pending": "orchestrator gsd requirement",
    "project_root": "orchestrator -C DIR",
}
"""Each tool, resource and argument that a next step may name, with what a shell has instead; longer names first."""
_NAMED = re.compile(r"(?<![\w/])(?:" + "|".join(map(re.escape, COMMANDS)) + r")(?![\w/])")


def in_the_shell(step: str) -> str:
    """The next step with commands for what only an MCP client can call; any other text as it is."""
    return _NAMED.sub(lambda match: COMMANDS[match[0]], step)
