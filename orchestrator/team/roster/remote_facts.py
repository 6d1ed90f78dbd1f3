"""What is known here of an agent that another host owns, besides its mirrored records; and its status from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestrator.base.final_states import FINAL_LIVES
from orchestrator.core import agent_status, state

SHOWN_BY_PRESENCE = ("idle", "parked", "unknown")
"""Statuses that no record shows."""
UNTIL_A_CALL = ("starting", "busy", "blocked", "stalled")
"""Statuses that end with a call of the agent's CLI."""


class WaitingPost(NamedTuple):
    """A post that was accepted and that the agent's host has not taken; ``title`` is "" without one."""

    seq: int
    kind: str
    task_id: str | None
    at: str
    title: str


@dataclass
class RemoteFacts:
    """What is known here of an agent that another host owns, besides its records.

    ``row`` is the row of its owner's snapshot, ``items`` those of its inbox, as last published; ``published``: this
    daemon has received what that host publishes, though perhaps without this agent. ``posts`` are those
    that were read while they waited for the host; `waiting` leaves out what it has taken since.
    """

    host: str
    run_id: str
    away_since: str = ""  # RFC 3339; "" while its host renews its lease
    row: Mapping[str, Any] = field(default_factory=dict)
    items: Sequence[Mapping[str, Any]] = ()
    published: bool = False
    posts: tuple[WaitingPost, ...] = ()

    def waiting(self, agent: state.Agent) -> list[WaitingPost]:
        """The posts that wait for the host, in order."""
        return [post for post in self.posts if post.seq > agent.ref]

    def waiting_tasks(self, agent: state.Agent) -> list[dict[str, Any]]:
        """The tasks among them, as agent_get shows tasks; ``waits_for_host`` names the host."""
        posts = self.waiting(agent)
        canceled = {post.task_id for post in posts if post.kind == "cancel"}
        tasks = [
            post
            for post in posts
            if post.kind == "task"
            and post.task_id is not None
            and post.task_id not in agent.unfinished
            and agent.ended(post.task_id) is None
        ]
        return [
            {
                "task_id": post.task_id,
                "title": post.title or post.task_id,
                "state": "queued",
                "position": place,
                "attempt": 1,
                "cancel_requested": post.task_id in canceled,
                "timeout_s": None,
                "waits_for_host": self.host,
                "posted_at": post.at,
            }
            for place, post in enumerate(tasks, len(agent.unfinished) + 1)
        ]

    def status(self, agent: state.Agent) -> tuple[str, str]:
        """The status and its reason; `unknown` while its host is away, for nobody can see the agent."""
        if agent.life in FINAL_LIVES:
            return agent_status.status(agent, agent_status.Presence())
        if self.away_since:
            waiting = len(self.waiting(agent))
            calls = f"; {waiting} accepted call{'s wait' if waiting > 1 else ' waits'} for it" if waiting else ""
            return "unknown", f"host {self.host} is away since {self.away_since}{calls}"
        by_records = agent_status.status(agent, agent_status.Presence())
        if by_records[0] != "unknown":
            return by_records
        # Where the records do not show what it does, its owner does; unless they are newer than what that published.
        shown = str(self.row["status"]) if self.row.get("epoch") == agent.epoch else ""
        if shown in UNTIL_A_CALL or (self.published and not shown):
            # A live host publishes every change within seconds, so the call that the last record shows was just now.
            return "idle", "between two calls"
        if shown not in SHOWN_BY_PRESENCE:
            return "unknown", f"host {self.host} has not reported what it does now"
        return shown, str(self.row.get("reason", ""))
