"""The environment that squad members get. Looks at processes."""

from __future__ import annotations

import os

from orchestrator.base.platform.processes import environ_of
from orchestrator.engines import table
from orchestrator.protocol.tool_calls import Client


def environment_of(client: Client) -> dict[str, str]:
    """The environment for members: the variables of the client's process, then those of our relay, which win.

    Some CLIs pass few variables to their MCP servers, and users put keys into the server entry's own env block.
    """
    inherited: dict[str, str] = {}
    for pid in (*client.origin.pids[:1], client.peer):
        inherited |= environ_of(pid) if pid else {}
    return table.passed_on(inherited or os.environ, {})
