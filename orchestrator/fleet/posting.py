"""Posts calls for agents of the fleet: what a caller is answered, by the rules of local calls.

The database accepts (`FleetDatabase.post`: committed when it returns); what its answer means is decided here with the
functions of `core.decisions`, so that a remote agent answers as a local one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest, NotReady, OrchestratorError
from orchestrator.core import decisions
from orchestrator.core.decisions import QueueLimits
from orchestrator.fleet.database_functions import FleetDatabase, NewPost, PostAnswer


class Posting:
    """The posts of one host. After the commit the owner is notified; if that is lost, the next beat shows it."""

    def __init__(self, database: FleetDatabase, host: str, look: Callable[[list[str]], None]) -> None:
        self._database = database
        self._host = host
        self._look = look  # takes posts for agents of this host

    def tell(self, host: str, names: list[str]) -> None:
        """Tell the owner of these agents that something was posted to them."""
        if host == self._host:
            self._look(names)
        else:
            self._database.tell(host, "posts", names)

    async def enqueue(
        self,
        name: str,
        *,
        task_id: str,
        payload: Any,
        req: str,
        timeout_s: float | None,
        title: str,
        limits: QueueLimits,
    ) -> dict[str, Any]:
        """Post a task; ``{position, task_id, state, duplicate?}`` as `decisions.enqueue` answers."""
        body: dict[str, Any] = {"payload": payload}
        body |= {"title": title} if title else {}
        body |= {"timeout_s": timeout_s} if timeout_s is not None else {}
        answer = await self._post(
            NewPost(name, "task", req, body, task_id=task_id, limit=limits.max_unfinished_tasks)
        )
        if answer.status == "known_task":
            decisions.must_be_same(task_id, (answer.body or {}).get("payload"), payload)
            state = answer.outcome or "queued"
            return {"position": answer.position, "task_id": task_id, "state": state, "duplicate": True}
        if answer.status == "queue_full":
            raise decisions.queue_full(name, answer.unfinished)
        return {"position": answer.position, "task_id": task_id, "state": "queued"}

    async def cancel(self, name: str, *, task_id: str, req: str) -> dict[str, Any]:
        """Post a cancel; ``{ok, state}``. It stays `cancel_requested` while the owner is away."""
        answer = await self._post(NewPost(name, "cancel", req, {}, task_id=task_id))
        if answer.status == "unknown_task":
            raise decisions.unknown_task(name, task_id)
        if answer.status == "task_over":
            raise decisions.task_finished(task_id, answer.outcome)
        return {"ok": True, "state": "cancel_requested"}

    async def stop(self, name: str, *, force: bool, req: str, reason: str) -> None:
        """Post the agent's end; nothing for one that is ending already."""
        body: dict[str, Any] = {"force": True} if force else {}
        body |= {"reason": reason} if reason else {}
        await self._post(NewPost(name, "stop", req, body, force=force), ended_is_fine=True)

    async def restart(self, name: str, *, fresh: bool, req: str) -> None:
        """Post a new launch."""
        await self._post(NewPost(name, "restart", req, {"fresh": True} if fresh else {}))

    async def _post(self, post: NewPost, *, ended_is_fine: bool = False) -> PostAnswer:
        try:
            answer = await self._database.post(post)
        except NotReady as error:
            if error.facts.get("sent") and post.task_id is not None:
                said = f"{error.message}; the {post.kind} may have been accepted"
                step = f"repeat the call later, with task_id {post.task_id!r}; orchestrator fleet status"
                raise NotReady(error.code, said, step, task_id=post.task_id, sent=True) from None
            raise
        failpoints.passed("fleet:posted")
        if answer.status == "no_agent":
            raise unknown(post.agent)
        if answer.status == "agent_ended" and not ended_is_fine:
            stopping = answer.life not in ("failed", "stopped", "deleted")
            raise decisions.agent_ended(post.agent, decisions.ending_of(answer.life, stopping=stopping))
        if answer.status in ("accepted", "again"):
            self.tell(answer.host, [post.agent])
        return answer


def unknown(name: str) -> OrchestratorError:
    """The error for an agent that neither this host nor the fleet has."""
    return BadRequest("unknown_agent", f"neither this host nor the fleet has an agent {name!r}")
