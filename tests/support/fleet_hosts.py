"""Hosts of a fleet without tmux and processes: real roster, delivery and fleet code over any `FleetDatabase`.

`FakeSupervisor` does what the supervisor does with records: it launches nothing, but records the ends that a deletion,
a restart or a lost CLI cause, with the functions of the core.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.base.clock import Clock, rfc3339
from orchestrator.base.waiting import Signal
from orchestrator.config.keys import Config
from orchestrator.core import supervision
from orchestrator.core.supervision import RestartBudget
from orchestrator.fleet.database_functions import FleetDatabase, HostFacts
from orchestrator.fleet.known_ends import KnownEnds
from orchestrator.fleet.member import FleetMember
from orchestrator.fleet.published_view import PublishedView
from orchestrator.fleet.settings import FleetSettings
from orchestrator.journal.project_files import Paths
from orchestrator.journal.syncer import Syncer
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun, new_run
from orchestrator.team.roster.roster import Roster

RUN_FILE = {
    "v": 1, "created_at": "2026-11-27T00:00:00.000Z", "tmux_socket": None, "server_pid": 1, "server_start": 1,
    "window_id": "@1", "master_pane": "%1", "session": "s", "agents": {}, "ended_at": None,
}  # fmt: skip


class FakePanes:
    """The runs of a roster, without windows."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.placing = asyncio.Lock()

    async def run_of_fleet(self, run_id: str, home: str) -> TeamRun:
        """As `RunWindows.run_of_fleet`; without ``home`` the run of a master of this host."""
        run = self._roster.runs.get(run_id)
        if run is None:
            self._roster.begin_writing()
            file = {**RUN_FILE, "run_id": run_id, **({"home": home} if home else {})}
            run = new_run(self._roster.paths, run_id, file, self._roster.syncer, "fsync")
            self._roster.runs[run_id] = run
        return run

    async def end_if_empty(self, run: TeamRun) -> None:
        """A run without a window ends with the test."""


class FakeSupervisor:
    """Records what follows from requests; ``launched`` are the (agent, epoch) that a CLI would be started for."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.team_panes = FakePanes(roster)
        self.tending: dict[str, object] = {}
        self.launched: list[tuple[str, int]] = []
        self.evicted: list[str] = []
        self.taken_over: list[str] = []
        self.changed = Signal()

    async def launch(self, run: TeamRun, entries: list[AgentEntry]) -> dict:
        for entry in entries:
            self.tend(entry)
        return {}

    def tend(self, entry: AgentEntry) -> None:
        agent, at = entry.state, rfc3339(self.roster.clock.now())
        if agent.fleet and (self.roster.fleet is None or self.roster.fleet.holds(entry)):
            return
        if agent.stop_asked and agent.life not in ("deleted", "new"):
            if agent.life != "stopped":
                self.roster.write(entry, supervision.stopped(agent, at=at, rungs=[]))
            self._deleting = asyncio.get_running_loop().create_task(self._delete(entry))
        elif supervision.must_end(agent):
            how = supervision.must_end(agent)
            self.roster.write(entry, supervision.exited(agent, at=at, how=how, reason=how))
            self.tend(entry)
        elif agent.life == "exited" or (agent.life == "failed" and agent.restart_due):
            budget = RestartBudget("", 0.0)
            self.roster.write(entry, supervision.after_exit(agent, at=at, budget=budget))
            self.tend(entry)
        elif agent.life == "starting" and (entry.agent_id, agent.epoch) not in self.launched:
            self.launched.append((entry.agent_id, agent.epoch))
            self.changed.notify()

    async def _delete(self, entry: AgentEntry) -> None:
        fleet = self.roster.fleet
        if entry.state.life == "stopped" and (fleet is None or await fleet.all_taken(entry)):
            self.roster.write(entry, supervision.deleted(entry.state, at=rfc3339(self.roster.clock.now())))

    async def evict(self, entry: AgentEntry) -> None:
        self.evicted.append(entry.agent_id)

    def take_over(self, entry: AgentEntry) -> None:
        self.taken_over.append(entry.agent_id)


@dataclass
class FleetHost:
    """One host: ``start`` is the start of its daemon, ``stop`` its clean end, ``crash`` leaves everything."""

    root: Path
    host: str
    clock: Clock
    database: FleetDatabase
    settings: FleetSettings
    config: Config = field(default_factory=Config)
    boot: str = "boot"
    engines: tuple[str, ...] = ("shell",)
    syncer: Syncer | None = None
    verbs: dict = field(default_factory=dict)

    def start(self) -> None:
        """Load the project's files, as a daemon does."""
        self.root.mkdir(parents=True, exist_ok=True)
        syncer = self.syncer or Syncer((_ for _ in ()).throw, threads=0)
        self.roster = Roster(self.root, Paths(self.root), self.clock, syncer, lambda: self.config)
        self.roster.load(clean=False)
        self.supervisor = FakeSupervisor(self.roster)
        view = PublishedView(self.roster, lambda: {"agents": [], "inbox": []})
        ends = KnownEnds(self.root / "fleet.json", self.boot)
        self.member = FleetMember(
            self.database, self.supervisor, lambda: self.settings, self.facts, verbs=self.verbs, view=view, ends=ends
        )

    def facts(self) -> HostFacts:
        """Who this host is."""
        identity = self.roster.paths.provenance.identity
        caps = {"engines": list(self.engines), "places": self.settings.places}
        return HostFacts(identity.id if identity else "", self.boot, "0.1.0", 1, caps)

    async def join(self) -> None:
        """What `Features.begin` does with the fleet."""
        await self.member.begin()
        for entry in list(self.roster.agents.values()):
            if entry.live:
                self.supervisor.tend(entry)
        self.member.go_on()

    async def stop(self) -> None:
        """End the daemon cleanly."""
        await self.member.close()
        await self.roster.flush()
        self.roster.close()

    async def crash(self) -> None:
        """End the daemon as kill -9 does: nothing more is written."""
        await self.member.close()
        self.roster.close()

    @property
    def link(self):
        return self.member.link

    def entry(self, agent_id: str) -> AgentEntry:
        """The agent as this host sees it."""
        return self.roster.agents.get(agent_id) or self.roster.replicas[agent_id]
