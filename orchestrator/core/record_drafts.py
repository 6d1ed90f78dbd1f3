"""The three kinds of record draft that the core makes. Pure."""

from __future__ import annotations

from typing import Any

from orchestrator.core.record_types import Draft
from orchestrator.core.state import Agent, Task


def inbox_draft(agent: Agent, kind: str, at: str, req: str | None, **fields: Any) -> Draft:
    """A record of the inbox: what was requested of the agent."""
    record = {"at": at, "type": kind, "epoch": agent.epoch, **fields}
    if req is not None:
        record["req"] = req
    return Draft("inbox", kind, record)


def happened(
    agent: Agent,
    kind: str,
    at: str,
    /,
    *,
    by: str,
    req: str | None = None,
    epoch: int | None = None,
    **fields: Any,
) -> Draft:
    """A record of the outbox: what happened, and who reports it."""
    record = {"at": at, "type": kind, "epoch": agent.epoch if epoch is None else epoch, **fields, "by": by}
    if req is not None:
        record["req"] = req
    return Draft("outbox", kind, record)


def titled(task: Task) -> dict[str, Any]:
    """The keys that name a task in a record: its id, and its title if it has one."""
    return {"task_id": task.task_id, "title": task.title} if task.title else {"task_id": task.task_id}


def ended(agent: Agent, task: Task, kind: str, at: str, payload: dict[str, Any], **fields: Any) -> Draft:
    """The terminal event of a task, on behalf of the agent."""
    event = {**titled(task), "payload": payload, "attempt": task.attempt, **fields}
    return happened(agent, kind, at, by="orchestrator", **event)
