"""The names of the toolsets: those a connection may ask for, and those a role may give its agents. Pure.

What a role gives only reads. Engines name these tools to a CLI before any connection exists, so their names are
repeated here; a test compares them with the tools of the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

TEAM, SQUAD, SMARTSPAWN, GSD = "team", "squad", "smartspawn", "gsd"
TOOLSETS = (TEAM, SQUAD, SMARTSPAWN, GSD)
DEFAULT_TOOLSETS = (TEAM, SQUAD)
"""What a connection gets that names none."""

GSD_TOOLS = (
    "gsd_query_intel",
    "gsd_blast_radius",
    "gsd_phase_relevant_files",
    "gsd_codebase_patterns",
    "gsd_similar_past_work",
    "gsd_verify_behavior",
    "gsd_verify_artifact",
    "gsd_requirement_status",
    "gsd_phase_status",
    "gsd_pre_edit_check",
    "gsd_untraceable_requirements",
    "gsd_get_conventions",
)
READ_ONLY: Mapping[str, tuple[str, ...]] = MappingProxyType({GSD: GSD_TOOLS})
"""Name of a toolset -> names of its tools."""


def tools_of(toolsets: Collection[str]) -> tuple[str, ...]:
    """The tools of those ``toolsets`` that an agent may have, in the order of the table."""
    return tuple(tool for name, tools in READ_ONLY.items() if name in toolsets for tool in tools)
