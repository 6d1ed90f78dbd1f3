"""Decides for agents of a fleet: what taking a post causes, what follows a move, whether an owner may act. No I/O.

An agent of a fleet obeys the rules of `decisions` and `supervision` as every agent. Three things are its own: its
calls come as numbered posts from a database, its host may be lost and return late, its owner may have been replaced
unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from orchestrator.base.final_states import TERMINAL
from orchestrator.core import decisions
from orchestrator.core.record_drafts import happened, inbox_draft, titled
from orchestrator.core.record_types import EXITS, Draft
from orchestrator.core.state import ENDED_LIVES, Agent
from orchestrator.core.supervision import REFUSED_BY_HOST
from orchestrator.core.task_words import TITLE_CHARS, short_line

SUSPEND_AFTER_S = 10.0
"""Age of the last renewal from which an owner hands out nothing more of an agent that may move."""
MAX_LATE = 100
"""Maximum number of late ends that are recorded of one agent: a former owner that lies cannot fill its log."""


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
    if post.kind == "cancel" and post.task_id not in agent.unfinished and agent.ended(post.task_id or "") is None:
        # Only after two restores: a later copy has the task's post again, whose number this owner has gone past.
        facts["unknown"] = True
    if post.kind != "task":
        return [inbox_draft(agent, post.kind, at, post.req, **_asked(post), **facts)]
    task_id = post.task_id or decisions.task_id_from(post.req)
    more = _wishes(post.body)
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


def _wishes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Time limit and title of a task, as far as they are what a host of ours posts."""
    timeout_s, title = body.get("timeout_s"), body.get("title")
    wishes: dict[str, Any] = {}
    if isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) and timeout_s > 0:
        wishes["timeout_s"] = timeout_s
    if isinstance(title, str) and (line := short_line(title, TITLE_CHARS)):
        wishes["title"] = line
    return wishes


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
    is ending or has failed is not launched again. One that failed can be restarted by hand: that launch is recorded
    as a move too, so that it uses this host's directories.
    """
    if agent.fence >= fence or (agent.life in ENDED_LIVES and not waits_for_move(agent, fence)):
        return []
    if agent.life in ("starting", "ready"):
        drafts: list[Draft] = []
        head = agent.head()
        if agent.life == "ready" and agent.lease is None and head is not None and not head.refused:
            drafts.append(decisions.assumed_delivery(agent, at=at))
        reason = f"host {lost_host} was lost"
        return [*drafts, happened(agent, "exited", at, by="orchestrator", reason=reason, how="host_lost")]
    if agent.life not in ("exited", "failed") or agent.stop_asked:
        return []
    reason = f"{EXITS['host_lost']}; it moved from {lost_host} to {host}"
    fields: dict[str, Any] = {"fence": fence, "host": host, "placed": dict(placed)}
    if agent.life == "failed":
        reason = f"a restart was asked for; it moved from {lost_host} to {host}"
        fields["asked"] = agent.restart_asked
    return [happened(agent, "restarted", at, by="orchestrator", epoch=agent.epoch + 1, reason=reason, **fields)]


def waits_for_move(agent: Agent, fence: int) -> bool:
    """Whether a restart was asked for of an agent that had failed when it moved here, under ``fence``."""
    return agent.life == "failed" and agent.restart_due and agent.fence < fence


def launched_elsewhere(agent: Agent, host: str) -> bool:
    """Whether another host launched what this one must not supervise: its move to here is not recorded yet.

    A crash may come between a takeover and that record, and the database be away afterwards.
    """
    if agent.host == host:
        return False
    return agent.life in ("starting", "ready") or (agent.life == "exited" and not agent.stop_asked)


class LateEnd(NamedTuple):
    """How a task ended on a former owner, as that reports it.

    ``fence`` and ``host`` are what the database knows of the report; the rest is text of that host, and any of it may
    be wrong. ``left_out`` says why the payload is not here, or "".
    """

    fence: int
    host: str
    task_id: str
    kind: str
    payload: Any = None
    left_out: str = ""


def late_end(agent: Agent, end: LateEnd, *, fence: int, visible_inbox: int, at: str) -> list[Draft]:
    """The record of an end that a former owner could not ship in time; nothing if it says nothing new.

    It is no terminal event: the outcome of the task is what the owner under ``fence`` records. At most one is
    recorded of a task and a former owner, and `MAX_LATE` of an agent. Nothing is recorded if the host did not have
    the agent under that fence, nor of a task that is not known, or not durable yet (``visible_inbox``).
    """
    task = agent.unfinished.get(end.task_id)
    known = task.seq <= visible_inbox if task is not None else agent.ended(end.task_id) is not None
    owned = end.fence < fence and agent.owners.get(str(end.fence)) == end.host
    if not known or not owned or end.kind not in TERMINAL or agent.life in ("new", "deleted"):
        return []
    if end.fence in agent.late.get(end.task_id, ()) or sum(map(len, agent.late.values())) >= MAX_LATE:
        return []
    reason = f"host {end.host} reported it after the agent had moved; it is not the outcome"
    fields: dict[str, Any] = {"kind": end.kind, "former_fence": end.fence, "host": end.host}
    fields["reason"] = f"{reason}; {end.left_out}" if end.left_out else reason
    if end.payload is not None:
        fields["payload"] = end.payload
    name = titled(task) if task is not None else {"task_id": end.task_id}
    return [happened(agent, "late", at, by="orchestrator", **name, **fields)]


def may_act(*, moves: bool, fenced: bool, renewal_age_s: float) -> Literal["act", "suspend", "fenced"]:
    """Whether an owner may hand out work of an agent now.

    ``renewal_age_s`` counts from when the last successful renewal was sent, by a clock that runs while the machine
    sleeps, and is read at each delivery: a process that was stopped knows no timer. An agent that waits for its host
    (not ``moves``) has this owner whatever happens to the database, unless it was given up (``fenced``).
    """
    if fenced:
        return "fenced"
    return "suspend" if moves and renewal_age_s >= SUSPEND_AFTER_S else "act"
