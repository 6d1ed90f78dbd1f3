"""What every CLI is told of our MCP server, whatever the form of its configuration: names and a time limit. Pure."""

from __future__ import annotations

SERVER = "orchestrator"
"""The name of our server in every CLI; a CLI makes it a part of the names of our tools."""
AGENT_TOOLS = ("wait_for_command", "emit_event")
"""The tools of a sub-agent, which its CLI may call without a question."""
HOOK_LIMIT_S = 86_400
"""How long a turn-end hook may run: longer than any park, which a CLI's own default would end silently."""
