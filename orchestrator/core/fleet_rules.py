"""Decides for agents of a fleet: what taking a post causes, what follows a move, whether an owner may act. No I/O.

An agent of a fleet obeys the rules of `decisions` and `supervision` as every agent. Three things are its own: its
calls come as numbered posts from a database, its host may be lost, its owner may have been replaced unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from orchestrator.core import decisions
from orchestrator.core.record_drafts import happened, inbox_draft
from orchestrator.core.record_types import EXITS, Draft
from orchestrator.core.state import ENDED_LIVES, Agent
from orchestrator.core.supervision import REFUSED_BY_HOST

SUSPEND_AFTER_S = 10.0
"""Age of the last renewal from which an owner hands out nothing more of an agent that may move."""


class PostedCall(NamedTuple):
    """A post as the owner takes it: its number, what it asks for, and who posted it."""

    number: int
    kind: Literal["task", "cancel", "restart", "stop"]
    task_id: str | None
    req: str
    by_host: str
    body: Mapping[str, Any]


def take(agent: Agent, post: PostedCall, *, stored: Any, at: str, refused: str = "") -> list[Draft]:
    """The record that a post causes: exactly one, because posts and records with ``ref`` have the same numbers.

    Taking never refuses: the post was accepted. If the agent is ending or has ended, a task ends at once in
    `canceled`; if this host does not take it (``refused`` says why), in `error` ``refused_by_host`` (`settle` does
    both). A post that was taken before causes nothing. ``stored`` is the payload that is stored under the task's id.
    """
    if post.number <= agent.ref:
        return []
    facts: dict[str, Any] = {"ref": post.number, "by_host": post.by_host}
    if post.kind != "task":
        return [inbox_draft(agent, post.kind, at, post.req, **_asked(post), **facts)]
    task_id = post.task_id or decisions.task_id_from(post.req)
    more = {key: post.body[key] for key in ("timeout_s", "title") if post.body.get(key)}
    if task_id in agent.unfinished or agent.ended(task_id) is not None:
        # Only after a restore: the database forgot a task that this owner knows. Another payload never replaces it.
        facts["duplicate"] = True
        if stored != post.body.get("payload"):
            more["title"] = "posted again with another payload"
    elif refused:
        facts["refused"] = {"code": REFUSED_BY_HOST, "message": refused}
    elif agent.stop_asked or agent.life in ENDED_LIVES:
        facts["refused"] = {"code": "agent_ended", "message": f"agent {agent.agent_id} {decisions.ending(agent)}"}
    position = len(agent.unfinished) + 1
    payload = post.body.get("payload")
    draft = inbox_draft(
        agent, "task", at, post.req, task_id=task_id, payload=payload, position=position, **more, **facts
    )
    return [draft]


def _asked(post: PostedCall) -> dict[str, Any]:
    """The keys of a record that is no task."""
    if post.kind == "cancel":
        return {"task_id": post.task_id}
    key = "force" if post.kind == "stop" else "fresh"
    return {key: True} if post.body.get(key) else {}


def moved(agent: Agent, *, at: str, fence: int, host: str, lost_host: str, placed: Mapping[str, Any]) -> list[Draft]:
    """What the new owner records first of an agent whose host was lost; called until it returns nothing.

    The lost owner may have handed out the head without shipping that, so its delivery is assumed: the task counts as
    begun, and `settle` then requeues it as the next attempt or ends it. No restart budget is used up. An agent that
    is ending or has failed is not launched again.
    """
    if agent.fence >= fence or agent.life in ENDED_LIVES:
        return []
    if agent.life in ("starting", "ready"):
        drafts: list[Draft] = []
        head = agent.head()
        if agent.life == "ready" and agent.lease is None and head is not None and not head.refused:
            drafts.append(decisions.assumed_delivery(agent, at=at))
        reason = f"host {lost_host} was lost"
        return [*drafts, happened(agent, "exited", at, by="orchestrator", reason=reason, how="host_lost")]
    if agent.life != "exited" or agent.stop_asked:
        return []
    reason = f"{EXITS['host_lost']}; it moved from {lost_host} to {host}"
    fields: dict[str, Any] = {"fence": fence, "host": host, "placed": dict(placed)}
    return [happened(agent, "restarted", at, by="orchestrator", epoch=agent.epoch + 1, reason=reason, **fields)]


def may_act(*, moves: bool, fenced: bool, renewal_age_s: float) -> Literal["act", "suspend", "fenced"]:
    """Whether an owner may hand out work of an agent now.

    ``renewal_age_s`` counts from when the last successful renewal was sent, by a clock that runs while the machine
    sleeps, and is read at each delivery: a process that was stopped knows no timer. An agent that waits for its host
    (not ``moves``) has this owner whatever happens to the database, unless it was given up (``fenced``).
    """
    if fenced:
        return "fenced"
    return "suspend" if moves and renewal_age_s >= SUSPEND_AFTER_S else "act"
