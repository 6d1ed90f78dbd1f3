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

from orchestrator.base.clock import wait_until
from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
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
    """Raise what keeps an agent from being asked: BadRequest ``unknown_agent``, Conflict ``agent_ended``."""
    decisions.must_live(roster.entry(agent_id).state)


async def put(
    roster: Roster, agent_id: str, task_id: str, instructions: str, about: Mapping[str, str], *, req: str
) -> None:
    """Queue a question as a task; returns once it is durable. One that the agent has, or had, is not queued again.

    The payload is ``{instructions, answer, **about}``; instructions over `max_payload_bytes` stand in a file of the
    agent's artifacts, which they then name, as does ``file``. Raises as task_enqueue.
    """
    entry = roster.entry(agent_id)
    if task_id in entry.state.unfinished or entry.state.ended(task_id) is not None:
        return
    decisions.must_live(entry.state)
    payload = {"instructions": instructions, "answer": ANSWER, **about}
    try:
        payload_bytes(payload, roster.config().max_payload_bytes)
    except BadRequest as error:
        if error.code != "payload_too_large":
            raise
        file = await asyncio.to_thread(_written, roster, entry, f"{task_id}.md", instructions)
        payload |= {
            "instructions": f"Your instructions are in {file}: read all of it and do what it says.",
            "file": file,
        }
    await delivery.enqueue(roster, agent_id, task_id=task_id, payload=payload, req=req)


async def outcome(roster: Roster, agent_id: str, task_id: str, deadline: float) -> dict[str, Any] | None:
    """The outbox record that ends a task, also one that came long ago; None once ``deadline`` (monotonic) is there.

    Conflict ``agent_ended`` when the agent fails: its queue stays, but nobody works on it. BadRequest
    ``unknown_agent`` or ``unknown_task`` when its files go.
    """
    while True:
        entry = roster.entry(agent_id)

        def look(entry: AgentEntry = entry) -> tuple[bool, dict[str, Any] | None] | None:
            # doctor --fix loads an agent anew, and nobody notifies the old one any more.
            if roster.agents.get(agent_id) is not entry:
                return False, None
            found = _end_of(entry, task_id)
            return None if found is None else (True, found)

        seen = await wait_until(look, entry.changed, deadline, roster.clock)
        if seen is None or seen[0]:
            return None if seen is None else seen[1]


async def withdraw(roster: Roster, agent_id: str, task_id: str, *, req: str) -> None:
    """Ask softly for the end of a task, if there is still something to end."""
    with contextlib.suppress(OrchestratorError):
        await delivery.cancel(roster, agent_id, task_id=task_id, req=req)


async def withdraw_all(roster: Roster, about: Mapping[str, str], *, req: str) -> None:
    """Ask softly for the end of every question that was put with this ``about``, or more, and has no end yet."""
    for agent_id, entry in list(roster.agents.items()):
        for task in list(entry.state.unfinished.values()):
            given = task.payload if isinstance(task.payload, dict) else {}
            put = given.get("answer") == ANSWER and all(given.get(key) == value for key, value in about.items())
            if put and not task.cancel_asked:
                await withdraw(roster, agent_id, task.task_id, req=f"{req}:{task.task_id}")


async def text_of(roster: Roster, agent_id: str, payload: Any, limit: int) -> tuple[str, bool]:
    """What a result says, and whether it was cut at ``limit`` bytes of a file.

    A string is the text itself; of an object the artifact that ``file`` names, else the first of `ANSWER_KEYS` with
    a string; anything else is given as compact JSON, nothing at all as an empty text.
    """
    if isinstance(payload, dict) and isinstance(payload.get("file"), str):
        # An agent may call any file so, one that it has worked on as well: only an artifact is an answer.
        with contextlib.suppress(OrchestratorError):
            place = roster.paths.artifacts(agent_id)
            data = await asyncio.to_thread(read_artifact, place, payload["file"], limit + 1)
            return data[:limit].decode(errors="replace"), len(data) > limit
    return _words(payload, ANSWER_KEYS), False


def trouble_of(payload: Any) -> str:
    """What an ``error`` or ``canceled`` says in words; may be empty."""
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
        said = next((payload[key] for key in keys if isinstance(payload.get(key), str)), None)
        if said is not None:
            return str(said)
    return payload if isinstance(payload, str) else orjson.dumps(payload).decode()
