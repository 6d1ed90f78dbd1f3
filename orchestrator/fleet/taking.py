"""Takes the posts of own agents: each becomes one record, by the rules of local calls, in the order of its number.

Posts were accepted already, so taking never refuses. What was taken is known from the logs (`state.Agent.ref`): after
a crash the owner goes on behind that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.core import fleet_rules
from orchestrator.core.fleet_rules import PostedCall
from orchestrator.fleet.database_functions import POSTS_A_ROUND, FleetDatabase, OwnAgent, Post
from orchestrator.fleet.due_names import DueNames
from orchestrator.fleet.fleet_agent_ids import local_id, own_entry
from orchestrator.fleet.leases import Lease
from orchestrator.team.life.fleet_creation import PostedAgent
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

GIVEN_UP = "its host was given up before it had made the agent"
"""Why an agent is recorded and not launched: its new owner only writes its end."""

UNREADABLE = "its host posted what is no JSON object"
"""Why a task or an agent is refused."""

Refused = Callable[[Post, Mapping[str, Any]], str]
"""Why this host does not take a post about an agent with this spec; "" if it does."""
Make = Callable[[str, str, list[PostedAgent]], Any]
"""Makes the agents of one run: run_id, home, agents."""


class Taking:
    """The posts of one host's agents.

    ``refused`` decides what this host takes, ``command_of`` gives its command line of a name. ``make`` creates
    agents, ``tend`` carries out what a record asks for.
    """

    def __init__(
        self,
        database: FleetDatabase,
        roster: Roster,
        lease: Lease,
        *,
        host: str,
        project: str,
        refused: Refused,
        command_of: Callable[[str], tuple[str, ...]],
        make: Make,
        tend: Callable[[AgentEntry], None],
    ) -> None:
        self._database = database
        self._roster = roster
        self._lease = lease
        self._host, self._project = host, project
        self._refused = refused
        self._command_of = command_of
        self._make = make
        self._tend = tend
        self._due = DueNames(self._take_due, "taking posts", roster.clock)
        self.blocked: dict[str, None] = {}  # own agents that must be taken over before a post of them is taken

    def begin(self) -> None:
        """Take from now on."""
        self._due.begin()

    async def close(self) -> None:
        """Stop between two records."""
        await self._due.close()

    def look(self, names: Iterable[str] | None = None) -> None:
        """There may be posts for these agents, or (None) for all that the last renewal shows to have some."""
        if names is None:
            names = [row.agent for row in self._lease.own.values() if self._behind(row)]
        self._due.add(names)

    def _behind(self, row: OwnAgent) -> bool:
        entry = own_entry(self._roster, row.agent)
        return row.last_post > (entry.state.ref if entry is not None else 0)

    async def _take_due(self, names: list[str]) -> None:
        await self.take([name for name in names if name not in self.blocked])

    async def take(self, names: list[str]) -> None:
        """Take until nothing is left for these agents; raises what the disk, tmux or the database refuses."""
        while names:
            # Until a renewal shows an agent as ours, its logs may be older than its mirror, or it may have moved.
            names = [n for n in names if n in self._lease.own or own_entry(self._roster, n) is None]
            entries = {name: own_entry(self._roster, name) for name in names}
            after = {name: entry.state.ref if entry is not None else 0 for name, entry in entries.items()}
            posts = await self._database.take(after)
            if not posts:
                return
            failpoints.passed("fleet:taken")
            await self._create([post for post in posts if post.kind == "create"])
            written: list[AgentEntry] = []
            names = []
            for name, group in groupby(posts, key=lambda post: post.agent):
                entry, taken = own_entry(self._roster, name), list(group)
                if entry is not None:
                    written.append(entry)
                    self._record(entry, taken)
                    if len(taken) == POSTS_A_ROUND:  # of fewer, none was left; what came since is told by itself
                        names.append(name)
            for entry in written:
                await self._roster.durable(entry)

    def _record(self, entry: AgentEntry, posts: list[Post]) -> None:
        """Write the record of each post; nothing happens between a decision and its record."""
        for post in posts:
            if post.kind == "create":
                continue
            call = PostedCall(post.seq, post.kind, post.task_id, post.req, post.by_host, post.body or {})
            stored = delivery.stored_payload(entry, post.task_id) if post.task_id is not None else None
            drafts = fleet_rules.take(
                entry.state,
                call,
                stored=stored,
                at=rfc3339(self._roster.clock.now()),
                refused=self._refused(post, entry.state.spec) if post.body is not None else UNREADABLE,
            )
            self._roster.write(entry, drafts)
            if post.kind in ("restart", "stop"):
                self._tend(entry)

    async def _create(self, posts: list[Post]) -> None:
        """Make the agents of these posts, those of each run together."""
        wanted: dict[tuple[str, str], list[PostedAgent]] = {}
        for post in posts:
            own = self._lease.own.get(post.agent)
            if own is None:  # created after the last renewal, or moved away since
                await self._lease.renew(fresh=False)
                own = self._lease.own.get(post.agent)
            if own is None or post.agent in self.blocked:
                continue
            # With records in its mirror it was made before, and is taken over from there.
            if own.out_seq == 0 and own_entry(self._roster, post.agent) is None:
                wanted.setdefault((own.run_id, own.home), []).append(self._posted(post, own))
        for (run_id, home), agents in wanted.items():
            await self._make(run_id, home, agents)

    def _posted(self, post: Post, own: OwnAgent) -> PostedAgent:
        body = post.body or {}
        name = body.get("command_name")
        membership: dict[str, Any] = {
            "project": self._project,
            "agent": post.agent,
            "home": own.home,
            "host": self._host,
            "fence": own.fence,
            "on_host_lost": own.on_host_lost,
            "cwd": body.get("cwd") or ".",
        }
        if name:
            membership["command_name"] = name
        return PostedAgent(
            agent_id=local_id(self._roster, post.agent),
            body=body,
            membership=membership,
            ref=post.seq,
            by_host=post.by_host,
            req=post.req,
            refuses=(lambda _spec: GIVEN_UP) if own.ends else partial(self._refused, post),
            command=self._command_of(str(name)) if name else (),
        )
