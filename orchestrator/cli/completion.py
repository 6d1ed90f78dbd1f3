"""What the shell offers at Tab: living agents, engines, CLIs. Reads small files, asks no daemon, starts nothing."""

from __future__ import annotations

import json
import os
import re
from typing import Any

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


def engines(incomplete: str) -> list[str]:
    """The names of all engines."""
    from orchestrator.engines.table import ENGINES  # noqa: PLC0415

    return [name for name in ENGINES if name.startswith(incomplete)]


def clis(incomplete: str) -> list[str]:
    """The CLIs that setup supports."""
    from orchestrator.engines.table import SETUPS  # noqa: PLC0415

    return [name for name in SETUPS if name.startswith(incomplete)]


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
