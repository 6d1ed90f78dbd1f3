"""One host as a member of the fleet: makes the parts that act for it, joins them, begins and ends them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from orchestrator.base.clock import Timer
from orchestrator.base.errors import Conflict, OrchestratorError
from orchestrator.fleet.acceptance import refused
from orchestrator.fleet.artifact_copies import ArtifactCopies
from orchestrator.fleet.branch_pushes import BranchPushes
from orchestrator.fleet.calls import HostCalls, Verb
from orchestrator.fleet.database_functions import Beat, BeatRequest, FleetDatabase, HostFacts, News, Post
from orchestrator.fleet.fleet_agent_ids import fleet_id
from orchestrator.fleet.hosts import KnownHosts
from orchestrator.fleet.known_ends import KnownEnds
from orchestrator.fleet.late_results import LateResults
from orchestrator.fleet.leases import Lease
from orchestrator.fleet.link import HostLink
from orchestrator.fleet.moves import Moves
from orchestrator.fleet.published_view import PublishedView
from orchestrator.fleet.received_view import items_of, row_of
from orchestrator.fleet.replicas import Replicas
from orchestrator.fleet.run_homes import RunHomes
from orchestrator.fleet.settings import FleetSettings
from orchestrator.fleet.shipping import Shipping
from orchestrator.fleet.taking import Taking
from orchestrator.fleet.waiting_posts import WaitingPosts
from orchestrator.team.life import fleet_creation
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.roster.agent_entry import AgentEntry

log = structlog.get_logger()

PUBLISH_AFTER_S = 1.0
"""How long after a change of an agent what its home shows of it is published."""
FIRST_CONTACT_S = 5.0
"""Longest time that a start waits for the database; without it, agents that wait for their host go on."""


class FleetMember:
    """The parts of one host. ``verbs`` are what it answers to other hosts, ``view`` what it shows of its agents."""

    def __init__(
        self,
        database: FleetDatabase,
        supervisor: Supervisor,
        settings: Callable[[], FleetSettings],
        facts: Callable[[], HostFacts],
        *,
        verbs: Mapping[str, Verb],
        view: PublishedView,
        ends: KnownEnds | None = None,
    ) -> None:
        self._database = database
        self._supervisor = supervisor
        self._roster = roster = supervisor.roster
        self._settings = settings
        self._facts = facts
        self._view = view
        self._ends = ends or KnownEnds(None, "")
        self._doubted: list[str] = []  # not compared with their mirrors, for the database was away at the start
        here = settings()
        self.host, self.project = here.host, here.project
        self.hosts = KnownHosts(roster.clock)
        self.lease = Lease(database, roster.clock, self._request, facts)
        self.shipping = Shipping(database, roster, self.lease, self._mirror_refused)
        self.taking = Taking(
            database,
            roster,
            self.lease,
            host=self.host,
            project=self.project,
            refused=self._refused,
            command_of=self._command_of,
            make=self._make,
            tend=supervisor.tend,
        )
        self.replicas = Replicas(
            database, roster, project=self.project, away_since=self.hosts.away_since, placed=self._show_of
        )
        self.moves = Moves(
            database,
            supervisor,
            self.lease,
            (self.shipping, self.taking, self.replicas),
            host=self.host,
            refused=self._refuses_moved,
            command_of=self._command_of,
        )
        self.late_results = LateResults(database, roster, self.lease)
        self.waiting = WaitingPosts(database, roster, self._shown_anew)
        self.calls = HostCalls(database, roster, verbs)
        self.pushes = BranchPushes(lambda: self._settings().push)
        self.copies = ArtifactCopies(roster, self.calls.ask)
        self.homes = RunHomes(database, supervisor, host=self.host)
        self.link = HostLink(
            self.host,
            database,
            roster,
            self.lease,
            self.shipping,
            self.replicas,
            self.calls,
            self.hosts,
            self.homes,
            self.taking.look,
            self.waiting.posted,
        )
        self.lease.before = self.shipping.compare_new
        self.lease.on_accepted = self._tend_all
        self._incarnation = ("", 0)
        self._view_sent = False
        self._publish_due: Timer | None = None
        self.lease.listeners += [
            self.hosts.beaten, self.homes.beaten, self.shipping.beaten, self.moves.beaten, self.replicas.beaten,
            self.late_results.beaten, self.waiting.beaten, self.copies.beaten, self._beaten,
        ]  # fmt: skip

    async def begin(self) -> None:
        """Join the fleet: before agents are supervised it is known, if the database answers, whose they are."""
        roster = self._roster
        roster.begin_writing()
        roster.fleet = self.link
        self.replicas.open_kept()
        for entry in roster.agents.values():
            self.pushes.known(entry)
        for entry in roster.replicas.values():
            self.copies.known(entry)
        roster.listeners += [self.link.seen, self._stirred, self.pushes.seen]
        roster.replica_listeners += [self.link.seen, self.copies.seen]
        self._database.on_news = self._news
        try:
            await asyncio.wait_for(self.lease.renew(fresh=True), FIRST_CONTACT_S)
        except TimeoutError:
            log.warning("the fleet's database does not answer yet", host=self.host)
        except Conflict as error:
            self.lease.refuse(error)
        except OrchestratorError as error:
            self.lease.trouble = error
            log.warning("the fleet's database does not answer yet", **error.as_dict())
        if not self.lease.known:
            own = [entry for entry in roster.agents.values() if entry.state.fleet and entry.live]
            self._doubted = [fleet_id(entry.agent_id) for entry in self._ends.doubted(own)]
            self.lease.fenced |= set(self._doubted)
            if self._doubted:
                log.warning("agents wait until their logs are compared with the fleet's", agents=self._doubted)

    def go_on(self) -> None:
        """Act from now on: the team's agents are supervised."""
        self.lease.begin()
        self.shipping.begin()
        self.taking.begin()
        self.replicas.begin()
        self.moves.begin()
        self.late_results.begin()
        self.waiting.begin()

    async def close(self) -> None:
        """Stop; agents work on, and the next daemon goes on."""
        if self._publish_due is not None:
            self._publish_due.cancel()
        parts = (self.moves, self.homes, self.taking, self.replicas, self.shipping, self.lease, self.calls)
        for part in (*parts, self.late_results, self.waiting, self.pushes, self.copies):
            await part.close()

    # -- what the parts ask -------------------------------------------------------------------------------------

    def _request(self, fresh: bool) -> BeatRequest:
        facts = self._facts()
        if fresh:
            self._view.forget()  # the last one may not have arrived
        view = self._view.changed()
        self._view_sent = view is not None
        return BeatRequest(
            facts.instance,
            facts.boot,
            facts.caps,
            fresh=fresh,
            view=view,
            known_views=dict(self.hosts.view_numbers),
        )

    def _beaten(self, beat: Beat) -> None:
        if (beat.incarnation, beat.timeline) != self._incarnation:
            if self._incarnation != ("", 0):
                log.warning("the fleet's database was restored or has failed over", timeline=beat.timeline)
                self.calls.begin_anew()
            self._incarnation = beat.incarnation, beat.timeline
        self._ends.keep({row.agent: (row.in_seq, row.out_seq) for row in beat.own})
        # Compared by now. Until each goes on or is set aside, for the database may go away again in between.
        self._doubted = [name for name in self._doubted if self.moves.held(name)]
        self.moves.look_up(self._doubted)
        self.taking.look()
        for entry in self._roster.agents.values():
            if entry.state.fleet and entry.state.life == "stopped":
                self._supervisor.tend(entry)  # it is recorded as deleted once all its posts are taken
        self.calls.asked(beat.asks)
        if self._view_sent:
            for home in dict.fromkeys(row.home for row in beat.own if row.home != self.host):
                self._database.tell(home, "moved")
        for view in beat.views:
            self._show(view.host)

    def _stirred(self, entry: AgentEntry) -> None:
        """An own agent has changed: what other hosts see of it is published soon, before the next renewal."""
        own = self.lease.own.get(fleet_id(entry.agent_id)) if entry.state.fleet else None
        if own is not None and own.home != self.host and self._publish_due is None:
            self._publish_due = self._roster.clock.timer(PUBLISH_AFTER_S, self._publish)

    def _publish(self) -> None:
        self._publish_due = None
        if self._view.outdated():
            self.lease.renew_soon()

    def _tend_all(self) -> None:
        """Nothing was done with own agents while this host was refused."""
        for entry in list(self._roster.agents.values()):
            if entry.state.fleet and entry.live:
                self._supervisor.tend(entry)

    def _show(self, host: str) -> None:
        """Give the replicas of this host's agents what it has published of them."""
        for entry in self._roster.replicas.values():
            if entry.remote is not None and entry.remote.host == host and self._show_of(entry):
                self._shown_anew(entry)

    def _show_of(self, entry: AgentEntry) -> bool:
        """Give a replica what its host has published of it; returns whether that is new."""
        facts, name = entry.remote, fleet_id(entry.agent_id)
        assert facts is not None
        view = self.hosts.view_of(facts.host)
        now = row_of(view, name), items_of(view, name), facts.host in self.hosts.views
        if now == (facts.row, facts.items, facts.published):
            return False
        facts.row, facts.items, facts.published = now
        return True

    def _shown_anew(self, entry: AgentEntry) -> None:
        """What is shown of a replica has changed, without a record."""
        for listener in self._roster.replica_listeners:
            listener(entry)

    def _news(self, news: News) -> None:
        if news.kind == "posts":
            self.taking.look(news.agents or None)
        elif news.kind == "log":
            self.replicas.look(news.agents)
        elif news.kind == "ask":
            self.calls.look_soon()
        elif news.kind == "answer":
            self.calls.news()
        else:
            self.lease.renew_soon()

    def _mirror_refused(self, name: str, answer: Any) -> None:
        self.moves.refused_mirror(name, answer)

    def _refused(self, post: Post, spec: Mapping[str, Any]) -> str:
        return refused(self._settings().accept, self.host, post.by_host, post.kind, spec)

    def _refuses_moved(self, entry: AgentEntry, by_host: str) -> str:
        return refused(self._settings().accept, self.host, by_host, "create", entry.state.spec)

    def _command_of(self, name: str) -> tuple[str, ...]:
        return fleet_creation.command_line_of(self._settings().accept.commands, name)

    async def _make(self, run_id: str, home: str, agents: list[fleet_creation.PostedAgent]) -> None:
        names = [fleet_id(agent.agent_id) for agent in agents]
        with self.replicas.giving_way(names):
            for name in names:  # it was another host's, which was lost before it had made the agent
                await self.replicas.drop(name)
            await fleet_creation.make(self._supervisor, run_id, home, agents)
