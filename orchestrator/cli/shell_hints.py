"""Replace MCP tools and resources in an error's next step by commands of the command line. Pure."""

from __future__ import annotations

import re

_GSD = "orchestrator gsd"
COMMANDS = {
    "gsd_query_intel": f"{_GSD} query",
    "gsd_blast_radius": f"{_GSD} blast",
    "gsd_pre_edit_check": f"{_GSD} blast",
    "gsd_phase_status": f"{_GSD} phase",
    "gsd_requirement_status": f"{_GSD} requirement",
    "gsd_untraceable_requirements": f"{_GSD} requirement",
    "gsd_codebase_patterns": f"{_GSD} patterns",
    "gsd_get_conventions": f"{_GSD} patterns",
    "gsd_similar_past_work": f"{_GSD} past",
    "gsd_phase_relevant_files": f"{_GSD} files",
    "gsd_verify_behavior": f"{_GSD} verify",
    "gsd_verify_artifact": f"{_GSD} verify --artifact",
    "gsd://project/requirements/pending": f"{_GSD} requirement",
    "project_root": "orchestrator -C DIR",
}
"""Each tool, resource and argument of gsd that a next step may name, with what a shell has instead."""
_NAMED = re.compile(r"(?<![\w/])(?:" + "|".join(map(re.escape, COMMANDS)) + r")(?![\w/])")


def in_the_shell(step: str) -> str:
    """The next step with commands for what only an MCP client can call; any other text as it is."""
    return _NAMED.sub(lambda found: COMMANDS[found[0]], step)
