"""Learns, at the home of a run, which posts an absent host has not taken yet: they are in no mirror.

Nothing is read of an agent whose host takes its posts at once: only of one that was behind at one renewal and still
is at the next, and of one whose host is away.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.fleet.database_functions import Beat, FleetDatabase
from orchestrator.fleet.due_names import DueNames
from orchestrator.fleet.fleet_agent_ids import replica
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.remote_facts import WaitingPost
from orchestrator.team.roster.roster import Roster

PAGE_POSTS = 500


class WaitingPosts:
    """The posts that wait for the hosts of this home's replicas; ``changed`` hears of agents with new ones."""

    def __init__(self, database: FleetDatabase, roster: Roster, changed: Callable[[AgentEntry], None]) -> None:
        self._database = database
        self._roster = roster
        self._changed = changed
        self._last_posts: dict[str, int] = {}  # of the last renewal
        self._restored = ("", 0)
        self._due = DueNames(self._read, "reading waiting posts", roster.clock)

    def begin(self) -> None:
        """Read from now on."""
        self._due.begin()

    async def close(self) -> None:
        """Stop; the next daemon reads them again."""
        await self._due.close()

    def beaten(self, beat: Beat) -> None:
        """See which agents are behind their posts, since the renewal before this one at least."""
        if (beat.incarnation, beat.timeline) != self._restored:
            self._restored = beat.incarnation, beat.timeline
            self._forget_all()
        before, self._last_posts = self._last_posts, {row.agent: row.last_post for row in beat.homes}
        for row in beat.homes:
            entry = replica(self._roster, row.agent)
            if entry is None or entry.remote is None:
                continue
            behind = entry.state.ref < before.get(row.agent, 0) or bool(entry.remote.away_since)
            if behind and row.last_post > _known(entry):
                self._due.add([row.agent])

    def posted(self, name: str) -> None:
        """Something was posted to this agent: it is shown at once if its host is away."""
        entry = replica(self._roster, name)
        if entry is not None and entry.remote is not None and entry.remote.away_since:
            self._due.add([name])

    def _forget_all(self) -> None:
        """The database was restored, and may have lost posts that were read."""
        for entry in self._roster.replicas.values():
            if entry.remote is not None and entry.remote.posts:
                entry.remote.posts = ()
                self._changed(entry)

    async def _read(self, names: list[str]) -> None:
        """Read what is new of these agents' posts."""
        while names:
            entries = {name: entry for name in names if (entry := replica(self._roster, name)) is not None}
            posts = await self._database.untaken({name: _known(entry) for name, entry in entries.items()}, PAGE_POSTS)
            new: dict[str, list[WaitingPost]] = {}
            for post in posts:
                new.setdefault(post.agent, []).append(WaitingPost._make(post[1:]))
            for name, page in new.items():
                entry = entries[name]
                if entry.remote is not None and entry is replica(self._roster, name):
                    kept = [post for post in entry.remote.posts if post.seq > entry.state.ref]
                    last = kept[-1].seq if kept else 0
                    entry.remote.posts = (*kept, *(post for post in page if post.seq > last))
                    self._changed(entry)
            names = [name for name, page in new.items() if len(page) >= PAGE_POSTS]


def _known(entry: AgentEntry) -> int:
    """Number of the last post of the agent that is known here: taken, or read."""
    posts = entry.remote.posts if entry.remote is not None else ()
    return max(entry.state.ref, posts[-1].seq if posts else 0)
