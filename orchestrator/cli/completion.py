"""What the shell offers at Tab: living agents, engines, CLIs, items of the inbox, hosts of the fleet.

Reads small files; only items and hosts are asked of a daemon, if one runs. Starts nothing.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

TAB_S = 0.5
"""Nobody waits longer for what Tab offers."""
# A shell reads what is offered: ids and names come from files that anybody may have written.
_PLAIN = re.compile(r"\w[\w.+-]*")


def agents(incomplete: str) -> list[str]:
    """The names of the agents that are not deleted; the id where a name does not mean one agent alone."""
    from orchestrator.faces.daemon_client import project_here  # noqa: PLC0415
    from orchestrator.team.roster import agent_names  # noqa: PLC0415

    rows = []
    try:
        with os.scandir(project_here().root / ".agents" / "agents") as directories:
            rows = [row for row in map(_row, directories) if row is not None]
    except OSError:
        return []
    shown = agent_names.shown_names(rows)
    offered = [shown[row["agent_id"]] for row in rows]
    if not any(name.startswith(incomplete) for name in offered):
        offered = [row["agent_id"] for row in rows]
    return sorted(name for name in offered if name.startswith(incomplete) and _PLAIN.fullmatch(name))


def items(incomplete: str) -> list[str]:
    """The ids of the items of the inbox."""
    from orchestrator.base.errors import OrchestratorError  # noqa: PLC0415
    from orchestrator.edge.project_location import RunDirUnsafe  # noqa: PLC0415
    from orchestrator.faces.daemon_client import DaemonClient, project_here  # noqa: PLC0415

    try:
        with DaemonClient(project_here(), start=False, survive=False, return_s=TAB_S) as link:
            inbox = link.ask("orchestrator/snapshot", {})["inbox"]
    except (OrchestratorError, RunDirUnsafe, OSError):
        return []
    return [item["id"] for item in inbox if item["id"].startswith(incomplete) and _PLAIN.fullmatch(item["id"])]


def hosts(incomplete: str) -> list[str]:
    """The hosts of the fleet, and `any`; nothing without a daemon that is one of them."""
    from orchestrator.base.errors import OrchestratorError  # noqa: PLC0415
    from orchestrator.edge.project_location import RunDirUnsafe  # noqa: PLC0415
    from orchestrator.faces.daemon_client import DaemonClient, project_here  # noqa: PLC0415

    try:
        with DaemonClient(project_here(), start=False, survive=False, return_s=TAB_S) as link:
            rows = link.ask("orchestrator/fleet_hosts", {})["hosts"]
    except (OrchestratorError, RunDirUnsafe, OSError):
        return []
    names = [str(row["host"]) for row in rows] + ["any"]
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def engines(incomplete: str) -> list[str]:
    """The names of all engines."""
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415

    return [name for name in ENGINES if name.startswith(incomplete)]


def clis(incomplete: str) -> list[str]:
    """The CLIs that setup supports."""
    from orchestrator.engines.table import SETUPS  # noqa: PLC0415

    return [name for name in [*SETUPS, "tmux"] if name.startswith(incomplete)]


def _row(directory: os.DirEntry[str]) -> dict[str, Any] | None:
    """An agent as its meta.json has it, which the daemon keeps; None if it was deleted or is no agent."""
    try:
        with open(f"{directory.path}/meta.json", encoding="utf-8") as file:  # noqa: PTH123  (of a string)
            meta = json.load(file)
    except (OSError, ValueError):
        meta = {}
    if not isinstance(meta, dict) or not (meta or os.path.exists(f"{directory.path}/outbox.jsonl")):  # noqa: PTH110
        return None
    if meta.get("status") == "deleted":
        return None
    name = meta.get("name")
    plain = isinstance(name, str) and _PLAIN.fullmatch(name)
    return {
        "agent_id": directory.name,
        "name": name if plain else directory.name,
        "status": str(meta.get("status")),
        "run_id": "",
        "created_at": str(meta.get("created_at")),
    }
