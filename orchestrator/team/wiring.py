"""Wire the team into the daemon: what supervises, wakes and repairs agents, and what each connection gets of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from secrets import compare_digest
from typing import Any

from orchestrator.base.toolsets import TEAM
from orchestrator.edge import temporary_directories
from orchestrator.protocol.offers import AdminMethods, Offer
from orchestrator.protocol.tool_calls import Client
from orchestrator.team import agent_tools, agent_toolsets
from orchestrator.team import tools as team_tools
from orchestrator.team.life import agent_commands, agent_worktrees
from orchestrator.team.life.supervisor import Supervisor
from orchestrator.team.panes.pane_views import PaneViews
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.people.agent_figures import AgentFigures
from orchestrator.team.people.answer_authority import AnswerAuthority
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.notifications import Notifications
from orchestrator.team.people.people_requests import PeopleRequests
from orchestrator.team.people.snapshot_feed import SnapshotFeed
from orchestrator.team.recovery.garbage_collection import GarbageCollection
from orchestrator.team.recovery.repair import TeamRepair
from orchestrator.team.recovery.team_adoption import TeamAdoption
from orchestrator.team.roster import attachments
from orchestrator.team.roster.roster import Roster
from orchestrator.team.team_prompts import AGENT, TeamPrompts
from orchestrator.team.team_resources import TeamResources
from orchestrator.team.wake.held_masters import HeldMasters
from orchestrator.team.wake.masters import GONE, MasterConnection, Masters
from orchestrator.team.wake.parking import Parking
from orchestrator.team.wake.paste_wake import PasteWake
from orchestrator.trust.origin import KnownProcesses


class TeamWiring:
    """The team of one daemon, from its start to its end.

    ``masters`` are the connections that may lead now, ``launches`` all agents and members of this user.
    """

    def __init__(
        self,
        roster: Roster,
        masters: Callable[[], list[MasterConnection]],
        boot: str,
        launches: Callable[[], KnownProcesses],
    ) -> None:
        self._roster = roster
        self.panes = TeamPanes(roster)
        self.supervisor = Supervisor(roster, self.panes)
        self.adoption = TeamAdoption(self.supervisor)
        self._garbage_collection = GarbageCollection(self.supervisor)
        self._repair = TeamRepair(self.supervisor)
        self._paste_wake = PasteWake(roster, self.panes)
        self.parking = Parking(roster, self._paste_wake.seen)
        self.held_masters = HeldMasters(roster, self.panes, masters)
        self.supervisor.screen_watch.on_human = self.parking.human
        self.supervisor.screen_watch.on_stale = self.parking.stale
        stop = partial(agent_commands.end, self.supervisor, force=False, req=None, reason=GONE)
        self._masters = Masters(roster, self.panes, masters, stop)
        rules = ApprovalRules(roster.root)
        self.approvals = Approvals(roster, rules)
        self.inbox = InboxAnswers(roster, self.approvals, DialogAnswers(self.panes))
        self.authority = AnswerAuthority(roster, launches)
        self.parking.asks = self.approvals
        self._figures = AgentFigures(roster, self.panes)
        self.parking.on_usage = self._figures.usage.reported
        self.inbox.further_items = self._figures.items
        self.feed = SnapshotFeed(roster, self.inbox, self._figures.facts(), boot)
        self.feed.watched = self._figures.watched
        self.feed.glance = self._figures.glance
        self.inbox.run_items = self.feed.run_items
        self.approvals.changed = self.feed.touch
        self.supervisor.screen_watch.on_dialog = self.feed.touch
        self.approvals.answered = self.supervisor.screen_watch.answered
        self.supervisor.screen_watch.on_screen = self.approvals.seen
        self.supervisor.screen_watch.waits_with_dialog = self.approvals.waits_with_dialog
        self.supervisor.screen_watch.on_dialog_gone = self.approvals.dialog_gone
        self._people = PeopleRequests(self.feed, self.inbox, self.authority, rules)
        self._notifications = Notifications(roster, self.inbox.items)
        self._agent_tools = agent_tools.build(roster)
        self._master_tools = team_tools.build(self.supervisor, self._masters)

    @property
    def live_agents(self) -> int:
        """How many agents have not ended."""
        return self.supervisor.live_agents

    async def begin(self, *, clean: bool) -> None:
        """Take over the agents of an earlier daemon; ``clean`` says that it ended properly."""
        self._own_temporary_directories()
        await self.supervisor.recover(clean=clean)
        self._roster.listeners.append(self._paste_wake.seen)
        for entry in self._roster.agents.values():
            self._paste_wake.seen(entry)
        self._figures.begin(self.feed.touch)
        self._masters.begin()
        self._roster.listeners.append(self._notifications.seen)
        self.feed.listeners.append(self._notifications.seen)
        self._notifications.begin()

    async def follow_up(self, *, clean: bool) -> None:
        """What an earlier daemon may have left and no agent needs; ``clean`` as in `begin`."""
        if not clean:
            await self.panes.end_abandoned_session()

    async def release(self) -> None:
        """Let go of what hooks hold, before any connection ends: they shall come back to the next daemon."""
        await self.inbox.close()
        await self.approvals.close()
        await self._figures.close()
        await self.parking.close()
        await self._paste_wake.close()
        await self.held_masters.close()
        await self._masters.close()

    async def close(self) -> None:
        """Stop supervising; the agents live on."""
        await self.supervisor.close()
        await self._notifications.close()

    def offer(self, client: Client) -> Offer:
        """The toolset, if the connection has it; prompts and resources in any case."""
        leads = TEAM in client.toolsets
        return Offer(
            self._master_tools if leads else {},
            team_tools.INSTRUCTIONS if leads else "",
            TeamPrompts(self._roster, client),
            TeamResources(self._roster, self.feed),
        )

    def agent_offer(self, client: Client, queries: agent_toolsets.Offered) -> Offer:
        """What an agent gets: its two tools, and those of ``queries`` that its role names."""
        tools = self._agent_tools | agent_toolsets.tools(self._roster, client, queries)
        return Offer(tools, agent_tools.INSTRUCTIONS, self.agent_prompts(client))

    def agent_prompts(self, client: Client) -> TeamPrompts:
        """The prompts of a connection that may not lead."""
        return TeamPrompts(self._roster, client, (AGENT,))

    def came(self, client: Client) -> None:
        """A connection has come."""
        self.authority.came(client)

    def part(self, client: Client) -> None:
        """A connection has ended."""
        self._people.part(client)

    def admin(self, client: Client) -> AdminMethods:
        """Requests that only the command line makes."""
        views = PaneViews(self._roster, self.panes)
        return {
            "worktree": partial(agent_worktrees.remove, self.supervisor),
            "attach": partial(attachments.attach, self._roster),
            "detach": partial(attachments.detach, self._roster),
            "gc": self._gc,
            "fix": self._repair.run,
            "peek": views.peek,
            "pane": views.pane,
            **self._people.admin(client),
        }

    def listed_tools(self, client: Client, answered: Any) -> None:
        """Once an agent's CLI has been sent our tools, its first prompt may go (`team.wake.parking`).

        ``answered`` is the id of a request whose answer is being sent.
        """
        entry = self._roster.agents.get(client.agent_id or "")
        if answered in client.listing and entry is not None and client.rights == "agent":
            client.listing.discard(answered)
            if entry.secret is not None and compare_digest(entry.secret, client.secret):
                entry.listed_epoch = client.epoch
                entry.changed.notify()

    def _own_temporary_directories(self) -> None:
        """Keep those of all agents that were not deleted, also of damaged and foreign ones: their CLIs may live."""
        paths, agents = self._roster.paths, self._roster.agents
        over = {name for name, entry in agents.items() if entry.state.life == "deleted"}
        with contextlib.suppress(OSError):
            kept = {
                path.name for path in paths.agents.iterdir() if path.name in agents or not paths.is_collected(path)
            }
            self._roster.temporary.own(map(temporary_directories.name_of_agent, kept - over))

    async def _gc(
        self, *, apply: bool = False, older_than_s: float | None = None, artifacts: bool = False
    ) -> dict[str, Any]:
        """`orchestrator gc`; ``older_than_s`` None: as configured."""
        age_s = self._roster.config().gc_after_s if older_than_s is None else float(older_than_s)
        return await self._garbage_collection.run(apply=bool(apply), age_s=age_s, artifacts=bool(artifacts))
