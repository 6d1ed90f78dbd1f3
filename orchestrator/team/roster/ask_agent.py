"""Asks an agent a question: one task, whose terminal event is the answer.

For callers that wait for the end of one task instead of reading events. Goes through `delivery`, as the master's
tools do; writes a text that is too long for a task into the agent's artifacts. Never creates or ends agents.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
from orchestrator.base.waiting import wait_until
from orchestrator.core import decisions
from orchestrator.journal.project_files import confine, make_dir, read_artifact, replace
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster, payload_bytes

ANSWER = (
    'End this task with emit_event type result and payload {"text": "<your whole answer>"}. '
    "Write an answer that is too long for one event into a file in your artifacts directory and use "
    'payload {"file": "<its name>"}.'
)
"""How an agent must answer a question; `text_of` reads that answer."""
ANSWER_KEYS = ("text", "output", "summary", "result")
TROUBLE_KEYS = ("message", "reason", "error", *ANSWER_KEYS)


def check(roster: Roster, agent_id: str) -> None:
    """Raise if the agent cannot be asked: BadRequest ``unknown_agent``, Conflict ``agent_ended``."""
    entry = roster.entry(agent_id)
    with roster.naming_successor(entry):
        decisions.must_live(entry.state)


async def put(
    roster: Roster, agent_id: str, task_id: str, instructions: str, about: Mapping[str, str], *, req: str
) -> None:
    """Queue a question as a task; returns once it is durable. A task id that the agent had before is ignored.

    The payload is ``{instructions, answer, **about}``; instructions over `max_payload_bytes` are written into a
    file of the agent's artifacts, which the instructions and ``file`` then name. Raises the errors of task_enqueue.
    """
    entry = roster.entry(agent_id)
    if task_id in entry.state.unfinished or entry.state.ended(task_id) is not None:
        return
    with roster.naming_successor(entry):
        decisions.must_live(entry.state)
    payload = {"instructions": instructions, "answer": ANSWER, **about}
    try:
        payload_bytes(payload, roster.config().max_payload_bytes)
    except BadRequest as error:
        if error.code != "payload_too_large":
            raise
        file = await asyncio.to_thread(_written, roster, entry, f"{task_id}.md", instructions)
        payload |= {
            "instructions": f"Your instructions are in {file}: read the whole file and follow it.",
            "file": file,
        }
    await delivery.enqueue(roster, agent_id, task_id=task_id, payload=payload, req=req)


async def outcome(roster: Roster, agent_id: str, task_id: str, deadline: float) -> dict[str, Any] | None:
    """The outbox record that ends a task, also an old one; None at ``deadline`` (monotonic).

    Raises Conflict ``agent_ended`` if the agent fails (its queue stays, but nothing works on it), BadRequest
    ``unknown_agent`` or ``unknown_task`` if its files are removed.
    """
    while True:
        entry = roster.entry(agent_id)

        def look(entry: AgentEntry = entry) -> tuple[bool, dict[str, Any] | None] | None:
            # doctor --fix loads a new entry for the agent; the old entry is never notified again.
            if roster.agents.get(agent_id) is not entry:
                return False, None
            end = _end_of(entry, task_id)
            return None if end is None else (True, end)

        seen = await wait_until(look, entry.changed, deadline, roster.clock)
        if seen is None or seen[0]:
            return None if seen is None else seen[1]


async def withdraw(roster: Roster, agent_id: str, task_id: str, *, req: str) -> None:
    """Cancel a task softly, unless it has ended."""
    with contextlib.suppress(OrchestratorError):
        await delivery.cancel(roster, agent_id, task_id=task_id, req=req)


async def withdraw_all(roster: Roster, about: Mapping[str, str], *, req: str) -> None:
    """Cancel softly every unfinished question whose ``about`` contains these items."""
    for agent_id, entry in list(roster.agents.items()):
        for task in list(entry.state.unfinished.values()):
            payload = task.payload if isinstance(task.payload, dict) else {}
            put = payload.get("answer") == ANSWER and all(payload.get(key) == value for key, value in about.items())
            if put and not task.cancel_asked:
                await withdraw(roster, agent_id, task.task_id, req=f"{req}:{task.task_id}")


async def text_of(roster: Roster, agent_id: str, payload: Any, limit: int) -> tuple[str, bool]:
    """The text of a result, and whether it was cut at ``limit`` bytes of a file.

    A string is the text itself. An object gives the artifact named by ``file``, else the first of `ANSWER_KEYS` with
    a string. Anything else becomes compact JSON; null becomes an empty text.
    """
    if isinstance(payload, dict) and isinstance(payload.get("file"), str):
        # An agent may name any file, even one it has edited: only an artifact is an answer.
        with contextlib.suppress(OrchestratorError):
            place = roster.paths.artifacts(agent_id)
            data = await asyncio.to_thread(read_artifact, place, payload["file"], limit + 1)
            return data[:limit].decode(errors="replace"), len(data) > limit
    return _words(payload, ANSWER_KEYS), False


def trouble_of(payload: Any) -> str:
    """The message of an ``error`` or ``canceled``; may be empty."""
    return _words(payload, TROUBLE_KEYS)


def _written(roster: Roster, entry: AgentEntry, name: str, text: str) -> str:
    place = confine(roster.root, entry.artifacts, what="artifacts")
    path = confine(place, name, what="artifact")
    make_dir(place)
    replace(path, text.encode(), mode=0o600)
    return str(path)


def _end_of(entry: AgentEntry, task_id: str) -> dict[str, Any] | None:
    agent = entry.state
    if task_id in agent.unfinished:
        if agent.life == "failed" and not agent.restart_due:
            why = (agent.failure or {}).get("reason", "")
            raise Conflict("agent_ended", f"agent {agent.agent_id} has failed: {why}")
        return None
    ended = agent.ended(task_id)
    if ended is None:
        raise BadRequest("unknown_task", f"{agent.agent_id} has no task {task_id!r}")
    if ended.ref > entry.outbox.visible_seq:
        return None
    (record,), _ = entry.outbox.since(ended.ref - 1, 1, 1)
    return record


def _words(payload: Any, keys: tuple[str, ...]) -> str:
    if payload is None:
        return ""
    if isinstance(payload, dict):
        text = next((payload[key] for key in keys if isinstance(payload.get(key), str)), None)
        if text is not None:
            return str(text)
    return payload if isinstance(payload, str) else orjson.dumps(payload).decode()
