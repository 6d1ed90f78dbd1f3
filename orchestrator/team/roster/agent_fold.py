"""Folds one agent from its files alone, from the first record to the last. Reads only."""

from __future__ import annotations

from pathlib import Path

from orchestrator.base.errors import BadRequest, Corrupt
from orchestrator.core import state
from orchestrator.core.record_types import INBOX_TYPES, OUTBOX_TYPES
from orchestrator.journal.log_lines import foreign
from orchestrator.journal.log_reader import place, read_all
from orchestrator.journal.project_files import Paths, check_id
from orchestrator.journal.segments import log_exists


def folded(paths: Paths, agent_id: str, *, own: bool = False) -> tuple[state.Agent, int]:
    """The agent's state and its last outbox seq; BadRequest ``unknown_agent``, Corrupt with file and line.

    With ``own``, raises Environment foreign_data at the first record that was not written on this machine.
    """
    check_id(agent_id, "agent_id")
    must_be_there(paths, agent_id)
    agent, last = state.Agent(agent_id), 0
    for log, path, types in (
        ("inbox", paths.inbox(agent_id), INBOX_TYPES),
        ("outbox", paths.outbox(agent_id), OUTBOX_TYPES),
    ):
        last = 0
        seal = paths.provenance.seal("agent", agent_id, log) if own else None
        if own and seal is None:
            raise foreign(path, 1)
        for record in read_all(path, types, seal=seal):
            last = record["seq"]
            try:
                state.apply(agent, log, record)
            except Corrupt as error:
                raise located(error, path) from None
    return agent, last


def must_be_there(paths: Paths, agent_id: str) -> None:
    """Raise BadRequest ``unknown_agent`` if the agent has no outbox; the message names gc if gc removed it."""
    if paths.collected(paths.agent_dir(agent_id)).exists():
        raise BadRequest("unknown_agent", f"agent {agent_id!r} was deleted, and gc has removed its data")
    if not log_exists(paths.outbox(agent_id)):
        raise BadRequest("unknown_agent", f"no agent is called {agent_id!r}")


def located(error: Corrupt, path: Path) -> Corrupt:
    """The error with its file added, which the fold of a record does not know."""
    if "file" in error.facts:
        return error
    seq = error.facts["line"]
    file, line = place(path, seq)
    return Corrupt(error.code, f"{file}:{line}: {error.message}", file=str(file), line=line, seq=seq)
