"""The files of a replica for their readers: whose the agent is, and whether its logs are what was mirrored.

Loads no event loop: the command line uses it when no daemon answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.base.errors import OrchestratorError
from orchestrator.journal.log_reader import READ
from orchestrator.journal.project_files import Paths, read_json
from orchestrator.journal.segments import log_files
from orchestrator.trust.accepted_logs import GrowingPrefix
from orchestrator.trust.seals import Seal

LOGS = ("inbox", "outbox")


class AgentOwner(NamedTuple):
    """Which host of which fleet project owns an agent, and since which fence."""

    project: str
    host: str
    fence: int


def owner_of(paths: Paths, agent_id: str) -> AgentOwner | None:
    """Which host owns the agent of a replica, by its `mirror.json`; None for an agent of this host."""
    path = paths.mirror(agent_id)
    if not paths.is_replica(path.parent):
        return None
    content: dict[str, Any] = read_json(path)
    return AgentOwner(content["project"], content["host"], content["fence"])


def other_host(root: Path, row: Mapping[str, Any]) -> str:
    """The other host that runs the agent of this row of agent_list; "" if it is an agent of this host."""
    owner = owner_of(Paths(root), str(row["agent_id"]))
    return "" if owner is None else str(row.get("host") or owner.host)


def note_of(path: Path) -> Path:
    """The note beside a log of a replica: what this host has written of it."""
    return path.with_suffix(".mirrored")


def as_noted(path: Path, seal: Seal) -> GrowingPrefix | None:
    """What the log of a replica holds, if that is exactly what its note says; None if it is not."""
    growing, note = GrowingPrefix(), note_of(path)
    try:
        for file in log_files(path):
            with os.fdopen(os.open(file, READ), "rb") as lines:
                for line in lines:
                    growing.add(line.removesuffix(b"\n"))
        if not note.exists():
            return None if growing.prefix.seq else growing
        content = read_json(note)
    except (OSError, OrchestratorError):
        return None
    noted = seal.holds(content) and (content.get("seq"), content.get("digest")) == growing.prefix
    return growing if noted else None


def is_unchanged(paths: Paths, agent_id: str) -> bool:
    """Whether the logs of a replica hold exactly what this host wrote, for those who read it without the daemon."""
    seals = {name: paths.provenance.seal("mirror", agent_id, name) for name in LOGS}
    directory = paths.agent_dir(agent_id)
    return all(
        seal is not None and as_noted(directory / f"{name}.jsonl", seal) is not None for name, seal in seals.items()
    )
