"""The names by which other programs know us: our MCP server, an agent's tools, the tag of its pane. Pure."""

from __future__ import annotations

SERVER = "orchestrator"
"""Our MCP server, in the settings of a CLI."""

AGENT_TOOLS = ("wait_for_command", "emit_event")
"""The tools that every agent may call without being asked."""

AGENT_TAG = "@orchestrator_agent"
"""The option of a tmux pane that holds the id of its agent."""
