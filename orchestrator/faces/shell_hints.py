"""Word an error's next step for people: commands instead of tools, resources and schemas. Pure."""

from __future__ import annotations

import re

from orchestrator.base.errors import CODES

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


STEPS = {
    "bad_argument": "see the options: add --help",
    "unknown_task": "orchestrator task list shows the tasks",
    "unknown_tool": "the daemon is of another version; run: orchestrator daemon restart",
    "unknown_resource": "the daemon is of another version; run: orchestrator daemon restart",
    "payload_too_large": "write it to a file in the project and name the file in the task",
    "not_your_task": "this is a call of an agent; give tasks with: orchestrator task add",
    "no_lease": "this is a call of an agent; give tasks with: orchestrator task add",
    "bad_event": "this is a call of an agent; give tasks with: orchestrator task add",
    "not_for_agents": "finish your own task and report its result",
    "confirm_needed": "add --yes",
    "no_api_key": "set OPENROUTER_API_KEY in your shell, or choose --engine or --agent; see docs/spawn-runs.md",
    "model_not_allowed": "name another model, or change the lists in your shell",
    "prompt_too_large": "shorten them, or raise MAX_PROMPT_CHARS in your shell",
    "task_exists": "give another --id",
    "task_finished": "see how it ended: orchestrator task list",
}
"""The next step of a code on the command line, where the one in `CODES` helps only an MCP client."""


def in_the_shell(step: str, code: str = "") -> str:
    """The next step with commands for what only an MCP client can call; any other text as it is.

    A code's step in `CODES` is replaced by the one in `STEPS`; a step that the error brought itself is kept.
    """
    if code in STEPS and step == CODES[code][2]:
        step = STEPS[code]
    return _NAMED.sub(lambda match: COMMANDS[match[0]], step)
