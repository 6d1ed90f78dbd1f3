"""The team runs: run.json and the broadcast log, the digest of what ended and what changed.

A broadcast record repeats one outbox record (``ref`` is its seq) and is written after that record is durable, in
the order of the agent's outbox. So the last ``ref`` of an agent tells what is missing after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from orchestrator import steps
from orchestrator.core.events import BROADCAST_PAYLOAD_BYTES, BROADCAST_TYPES
from orchestrator.errors import Corrupt, OrchestratorError
from orchestrator.store.files import Paths, check_id, read_json, replace
from orchestrator.store.journal import Journal
from orchestrator.store.syncer import Syncer


@dataclass(eq=False)
class Run:
    """One team run: ``file`` is run.json as a dict, ``refs`` the last outbox seq told of each agent."""

    run_id: str
    path: Path
    file: dict[str, Any]
    journal: Journal
    refs: dict[str, int] = field(default_factory=dict)
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # to be published with the next flush
    read: int = 0  # up to which seq its master has read, in this daemon's life
    read_of: dict[str, int] = field(default_factory=dict)  # the same of single agents' events

    @property
    def live(self) -> bool:
        return self.file.get("ended_at") is None

    def save(self) -> None:
        """Write run.json atomically and durably."""
        replace(self.path, orjson.dumps(self.file, option=orjson.OPT_INDENT_2) + b"\n", mode=0o600)

    def tell(self, agent_id: str, record: dict[str, Any]) -> None:
        """Repeat a durable outbox record with the next `flush`, once: a ``ref`` told already is skipped."""
        if record["seq"] > self.refs.get(agent_id, 0):
            self.told.append((agent_id, record))

    def flush(self) -> None:
        """Write what was told in one go; on a failed append (raised) it stays told."""
        if self.told:
            steps.passed("broadcast:append:before")
            self.journal.append([digest(*one) for one in self.told], sync=True)
            steps.passed("broadcast:append:after")
            for agent_id, record in self.told:
                self.refs[agent_id] = record["seq"]
            self.told.clear()


def digest(agent_id: str, record: dict[str, Any]) -> dict[str, Any]:
    """The broadcast form of an outbox record; a large payload is named by its size only. Pure."""
    out: dict[str, Any] = {
        "at": record["at"],
        "type": record["type"],
        "agent_id": agent_id,
        "ref": record["seq"],
        "epoch": record["epoch"],
    }
    if record.get("task_id") is not None:
        out["task_id"] = record["task_id"]
    out["by"] = record["by"]
    if record.get("payload") is not None:
        size = len(orjson.dumps(record["payload"]))
        if size <= BROADCAST_PAYLOAD_BYTES:
            out["payload"] = record["payload"]
        else:
            out["payload_bytes"] = size
    out |= {key: record[key] for key in ("reason", "kind", "until") if record.get(key)}
    return out


def open_run(
    paths: Paths,
    run_id: str,
    file: dict[str, Any],
    syncer: Syncer,
    durability: Literal["fsync", "os"],
    *,
    clean: bool,
) -> Run:
    """Open the broadcast of a run whose run.json says ``file``, folding the refs."""
    refs: dict[str, int] = {}

    def fold(record: dict[str, Any]) -> None:
        refs[record["agent_id"]] = record["ref"]

    journal = Journal.open(
        paths.broadcast(run_id),
        syncer=syncer,
        types=BROADCAST_TYPES,
        durability=durability,
        clean=clean,
        on_record=fold,
    )
    return Run(run_id, paths.run_json(run_id), file, journal, refs)


def open_runs(
    paths: Paths, syncer: Syncer, durability: Literal["fsync", "os"], *, clean: bool
) -> dict[str, Run | OrchestratorError]:
    """Every run of the project, or why it cannot be read."""
    found: dict[str, Run | OrchestratorError] = {}
    if not paths.runs.is_dir():
        return found
    for directory in sorted(paths.runs.iterdir()):
        run_id = directory.name
        if not (directory / "run.json").is_file():
            continue
        try:
            check_id(run_id, "run id")
            found[run_id] = open_run(paths, run_id, run_file(paths, run_id), syncer, durability, clean=clean)
        except OrchestratorError as error:
            found[run_id] = error
    return found


def run_file(paths: Paths, run_id: str) -> dict[str, Any]:
    """run.json of a run; Corrupt when it is not what we write."""
    path = paths.run_json(run_id)
    content = read_json(path)
    if not isinstance(content, dict) or content.get("v") != 1 or content.get("run_id") != run_id:
        raise Corrupt("corrupt_log", f"{path}: not a run file of this version", file=str(path), line=1)
    return content
