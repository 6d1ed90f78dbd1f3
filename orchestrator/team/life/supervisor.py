"""The supervisor: launches agents, detects exits, restarts and ends agents, and continues after a crash.

One reconcile function (`tend`) derives an agent's next step from its records and its pane. Creation, deletion and
recovery after a kill -9 all go through it, so an interrupted step is simply repeated.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import structlog

from orchestrator.base import failpoints
from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.platform import processes
from orchestrator.base.waiting import call_off, elapse, wait_until
from orchestrator.core import supervision
from orchestrator.core.record_types import EXITS
from orchestrator.edge import project_location
from orchestrator.edge.temporary_directories import name_of_agent
from orchestrator.engines import table
from orchestrator.journal.project_files import replace
from orchestrator.team.life import launch_exits, launch_files
from orchestrator.team.life.deadlines import Deadlines
from orchestrator.team.life.deletion import DeletionLadder
from orchestrator.team.life.process_exits import ProcessExits
from orchestrator.team.life.readiness import cause_of
from orchestrator.team.life.restart_pause import RestartPauses
from orchestrator.team.life.screen_keeping import ScreenKeeping
from orchestrator.team.life.screen_watch import ScreenWatch
from orchestrator.team.panes.border_lines import BorderLines
from orchestrator.team.panes.pane_focus import PaneFocus
from orchestrator.team.panes.team_panes import TeamPanes
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.meta_files import MetaFiles
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux.panes import NewPane, TaggedPane
from orchestrator.trust import state_dir

log = structlog.get_logger()

REAP_S = 2.0
"""Longest wait until tmux knows the exit status of a pane's process."""


class Supervisor:
    """Supervises every agent of a roster. Its asyncio tasks outlive the calls that started them."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self.roster = roster
        self.team_panes = team_panes
        self.tending: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self.making: dict[str, asyncio.Task[Any]] = {}  # agents being created, by the request id of the call
        self._process_exits = ProcessExits(roster, team_panes, self.tend)
        self._restart_pauses = RestartPauses(roster, self.tend)
        self._deletion = DeletionLadder(roster, team_panes)
        self._screen_keeping = ScreenKeeping(roster, team_panes)
        self._meta_files = MetaFiles(roster)
        self._border_lines = BorderLines(roster)
        self._pane_focus = PaneFocus(roster, team_panes)
        self.screen_watch = ScreenWatch(roster, team_panes, self.tend)
        self.screen_watch.on_look = self._process_exits.look_for_panes
        self.deadlines = Deadlines(roster, team_panes, self.tend)
        roster.listeners.append(self._border_lines.repaint)
        roster.listeners.append(self._pane_focus.seen)
        roster.listeners.append(self._meta_files.changed)
        roster.listeners.append(self.deadlines.seen)
        roster.listeners.append(self._has_work)
        roster.listeners.append(self._screen_keeping.seen)

    def _at(self) -> str:
        return rfc3339(self.roster.clock.now())

    # -- launching ----------------------------------------------------------------------------------------------

    def launch_argv(self, agent_id: str, epoch: int) -> list[str]:
        """The pane's own command: our stub, which execs the CLI once the pane is ready."""
        named = os.environ.get(state_dir.VARIABLE)
        state = ["--state", named] if named else []
        return project_location.own_command(
            "launch", agent_id, str(epoch), "--project", str(self.roster.root), *state
        )

    async def release(self, entry: AgentEntry) -> None:
        """Release the launch stub of the current epoch; may be repeated."""
        path, epoch = self.roster.paths.go(entry.agent_id), str(entry.state.epoch).encode()
        await asyncio.to_thread(replace, path, epoch, mode=0o600)
        failpoints.passed("launch:released")

    async def launch(self, run: TeamRun, entries: list[AgentEntry]) -> dict[str, Environment]:
        """Make all panes, then start all programs in parallel; agents without a pane are failed and returned."""
        wanted = [
            NewPane(
                entry.agent_id,
                run.run_id,
                entry.state.epoch,
                self.launch_argv(entry.agent_id, entry.state.epoch),
                str(entry.state.spec["cwd"]),
                minimum=self.team_panes.minimum(entry.engine),
            )
            for entry in entries
        ]
        failures: dict[str, Environment] = {}
        try:
            outcome = await self.team_panes.make(run, wanted)
            for entry, made in zip(entries, outcome, strict=True):
                if isinstance(made, str):
                    entry.pane_id = made
                    await self.release(entry)
                else:
                    failures[entry.agent_id] = made
                    await self.roster.commit(
                        entry, supervision.failed(entry.state, at=self._at(), reason=made.message, code=made.code)
                    )
        finally:
            for entry in entries:
                self.tend(entry)  # also after a failure of tmux or the disk: the intents are recorded
        return failures

    def _has_work(self, entry: AgentEntry) -> None:
        """Give an agent whose pane was closed a new one as soon as a task of it is queued."""
        if entry.state.life == "exited" and entry.state.unfinished:
            self.tend(entry)

    # -- the one reconcile function -----------------------------------------------------------------------------

    def tend(self, entry: AgentEntry) -> None:
        """Take the agent's next steps until none is due; safe at any time, one run per agent."""
        if entry.agent_id in self.tending:
            self._again.add(entry.agent_id)
            return
        task = asyncio.get_running_loop().create_task(self._tend(entry))
        self.tending[entry.agent_id] = task

    async def _tend(self, entry: AgentEntry) -> None:
        pause = 0.2
        try:
            while True:
                self._again.discard(entry.agent_id)
                try:
                    moved = await self._step(entry)
                    pause, entry.trouble = 0.2, None
                except OrchestratorError as error:
                    # Disk full or tmux hanging: the step was decided but not done, so it is retried.
                    log.warning("agent not tended", agent=entry.agent_id, **error.as_dict())
                    entry.trouble = error
                    moved = True
                    await elapse(pause, self.roster.clock)
                    pause = min(pause * 2, 10.0)
                if not moved and entry.agent_id not in self._again:
                    return
        except Exception:
            log.exception("bug while tending", agent=entry.agent_id)
        finally:
            self.tending.pop(entry.agent_id, None)
            entry.changed.notify()

    async def _step(self, entry: AgentEntry) -> bool:
        """Take one step; True if another may be due at once."""
        agent, run = entry.state, self.roster.runs.get(entry.run_id)
        if agent.life in ("new", "deleted") or run is None:
            return False
        if agent.fleet and (self.roster.fleet is None or self.roster.fleet.holds(entry)):
            return False
        if agent.life == "stopped" or agent.stop_asked:
            await self.roster.durable(entry)
            await self._end(entry, run)
            return False
        pane = (await self.team_panes.tagged(run)).get(entry.agent_id)
        if agent.life == "exited" or (agent.life == "failed" and agent.restart_due):
            return await self._after_exit(entry, run, pane)
        if agent.life == "failed":
            await self._after_failure(entry, run, pane)
            return False
        return await self._see(entry, run, pane)

    async def _after_exit(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane | None) -> bool:
        """Record the next launch (by policy or by request), or that there is none."""
        agent = entry.state
        await self.roster.durable(entry)  # the exit fences the old launch: only then may its remains be ended
        await self._end_remains(entry)
        nowhere = ""
        if pane is None:
            entry.pane_id = None
            nowhere = await self.team_panes.ready_for(run, entry.agent_id, now=not supervision.rests(agent))
        budget = self._restart_pauses.budget(entry)
        wait_s = 0.0 if nowhere else self._restart_pauses.left(entry, budget)
        if wait_s > 0:
            return False
        cause = await cause_of(self.roster, entry) if supervision.never_ready(agent) else ""
        row = entry.engine
        session = (entry.session or agent.session) if row is not None and row.resumes else None
        drafts = supervision.after_exit(
            agent, at=self._at(), budget=budget, nowhere=nowhere, session=session, cause=cause
        )
        await self.roster.commit(entry, drafts)
        return bool(drafts)

    async def _end_remains(self, entry: AgentEntry) -> None:
        """End the process of an ended launch: a CLI that outlived its pane must not work beside the next launch."""
        launch = await asyncio.to_thread(launch_exits.recorded, self.roster.paths, entry.agent_id)
        if launch is None or not launch.alive():
            return
        log.warning("ending a process that outlived its pane", agent=entry.agent_id, pid=launch.pid)
        await self._deletion.at_once(launch.pid)

    async def _see(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane | None) -> bool:
        """Check a live agent's pane of this epoch and the process in it."""
        agent = entry.state
        if pane is None:
            return await self._without_pane(entry, run)
        entry.pane_id = pane.pane_id
        await self.team_panes.note(run, entry.agent_id, pane.pane_id)
        if pane.epoch < agent.epoch:
            await self._relaunch(entry, run, pane)
            return True
        if pane.dead:
            await self._exited(entry, run, pane)
            return True
        foreign = await asyncio.to_thread(
            launch_exits.foreign, self.roster.paths, entry.agent_id, agent.epoch, pane.pid
        )
        if foreign is not None:
            # Someone started another program in its pane: the pane is no longer ours.
            await self.team_panes.let_go(run, entry.agent_id, pane.pane_id)
            await self._commit_exit(entry, foreign)
            return True
        how = supervision.must_end(agent)
        if how:
            await self._end_life(entry, run, pane, how)
            return True
        if agent.life == "starting":
            await self.release(entry)
        self.screen_watch.begin(entry)
        await self._process_exits.process(entry, run, pane.pid)
        return False

    async def _without_pane(self, entry: AgentEntry, run: TeamRun) -> bool:
        agent = entry.state
        alive = await self.team_panes.same_server(run)
        if alive and agent.life == "starting" and entry.agent_id not in run.file["agents"]:
            # The record is durable, but its pane was never made: a new launch, or a daemon died in between.
            argv = self.launch_argv(entry.agent_id, agent.epoch)
            stub_pane = await self.team_panes.take_over_stub(run, entry, argv)
            if stub_pane is None and await self._written(entry):
                await self.launch(run, [entry])
            return True
        launch = await asyncio.to_thread(launch_exits.recorded, self.roster.paths, entry.agent_id)
        status = entry.wait_status[1] if entry.wait_status and entry.wait_status[0] == agent.epoch else None
        server = alive and await self.team_panes.standing(run)
        await self._commit_exit(
            entry, launch_exits.without_pane(agent.epoch, server=server, launch=launch, status=status)
        )
        return True

    async def _commit_exit(
        self, entry: AgentEntry, end: launch_exits.LaunchEnd, last_lines: Sequence[str] = ()
    ) -> None:
        entry.process = "gone"
        drafts = supervision.exited(
            entry.state,
            at=self._at(),
            how=end.how,
            reason=end.reason,
            code=end.code,
            signal=end.signal,
            pid=entry.pid,
            last_lines=last_lines,
        )
        await self.roster.commit(entry, drafts)

    async def _end_life(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane, how: str) -> None:
        """End a CLI whose launch is over by its records, so that the next launch can begin."""
        rungs = await self._deletion.at_once(pane.pid)
        failpoints.passed("restart:ended")
        log.info("ended a launch", agent=entry.agent_id, how=how, by=rungs[-1].rung)
        await self._exited(entry, run, pane)

    async def _relaunch(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane) -> None:
        """Start the next launch in the same pane; it is already recorded."""
        agent = entry.state
        if not pane.dead:
            # The old launch outlived its record (the daemon was killed in between): it must not continue.
            await processes.kill_tree(pane.pid, self.roster.clock)
            await self._dead(run, entry.agent_id)
        if not await self._written(entry):
            return
        new = NewPane(
            entry.agent_id,
            run.run_id,
            agent.epoch,
            self.launch_argv(entry.agent_id, agent.epoch),
            str(agent.spec["cwd"]),
        )
        if await self.team_panes.respawn(run, pane.pane_id, new):
            await self.release(entry)

    async def _written(self, entry: AgentEntry) -> bool:
        """Write the launch file of the current epoch if missing; False if that failed and the agent was failed."""
        agent, old = entry.state, launch_files.read(self.roster, entry)
        if old.get("epoch") == agent.epoch:
            return True
        base = old.get("base_env") or old.get("env") or table.passed_on(os.environ, {})
        try:
            launch_files.write(self.roster, entry, agent.spec, agent.epoch, base)
        except BadRequest as error:  # the user must repair a file: a retry would not help
            reason = f"{error.message}: {error.next_step}"
            await self.roster.commit(entry, supervision.failed(agent, at=self._at(), reason=reason, code=error.code))
            return False
        return True

    # -- noticing an exit ---------------------------------------------------------------------------------------

    async def _exited(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane) -> None:
        pane = await self._dead(run, entry.agent_id) or pane
        lines = await self.team_panes.last_lines(run, pane.pane_id)
        end = launch_exits.of_status(pane.dead_status, pane.dead_signal)
        how = supervision.must_end(entry.state)
        if how:  # a daemon ended it and was killed before it could record that
            end = end._replace(how=how, reason=EXITS[how])
        self._screen_keeping.begin(entry)
        await self._commit_exit(entry, end, lines)
        await self._screen_keeping.finish(entry)  # the next launch may use the pane

    async def _dead(self, run: TeamRun, agent_id: str) -> TaggedPane | None:
        """The pane, once tmux knows how its process ended; None if it is gone."""
        pane = None
        for _ in range(int(REAP_S / 0.05)):
            pane = (await self.team_panes.tagged(run)).get(agent_id)
            known = pane is None or (pane.dead and (pane.dead_status is not None or pane.dead_signal is not None))
            if known:
                return pane
            await elapse(0.05, self.roster.clock)
        return pane

    async def _after_failure(self, entry: AgentEntry, run: TeamRun, pane: TaggedPane | None) -> None:
        """End a CLI that did not get ready in time, so that it cannot start working later, and close its pane."""
        if pane is not None and (entry.state.failure or {}).get("code") == "not_ready":
            self._screen_keeping.begin(entry)
            if not pane.dead:
                await self._deletion.at_once(pane.pid)
            await self._screen_keeping.finish(entry)
            await self.team_panes.remove(run, entry.agent_id)
            entry.pane_id = None
        entry.process = "gone"
        entry.changed.notify()

    # -- the end ------------------------------------------------------------------------------------------------

    async def _end(self, entry: AgentEntry, run: TeamRun) -> None:
        """The steps of agent_delete: stop command, grace, SIGTERM, SIGKILL of the tree, then the pane."""
        agent = entry.state
        self._screen_keeping.begin(entry)  # at once: some CLIs clear their screen when they end
        if agent.life != "stopped":
            rungs = await self._end_process(entry, run)
            failpoints.passed("delete:process-ended")
            entry.process = "gone"
            await self.roster.commit(entry, supervision.stopped(agent, at=self._at(), rungs=rungs))
        await self._screen_keeping.finish(entry)
        await self.team_panes.remove(run, entry.agent_id)
        failpoints.passed("delete:pane-removed")
        self.roster.temporary.end(name_of_agent(entry.agent_id))
        if agent.fleet and (self.roster.fleet is None or not await self.roster.fleet.all_taken(entry)):
            return  # a post that was accepted before the end is taken first; the fleet tends the agent again then
        await self.roster.commit(entry, supervision.deleted(agent, at=self._at()))
        entry.pane_id = None
        self._process_exits.forget(entry)
        await self.team_panes.end_if_empty(run)
        entry.changed.notify()

    async def _end_process(self, entry: AgentEntry, run: TeamRun) -> list[supervision.EndingStep]:
        pane = (await self.team_panes.tagged(run)).get(entry.agent_id)
        if pane is None and entry.state.life == "starting" and await self.team_panes.same_server(run):
            # Split by a daemon that died before it could tag it: nothing else would close it.
            await self.team_panes.take_over_stub(run, entry, self.launch_argv(entry.agent_id, entry.state.epoch))
            pane = (await self.team_panes.tagged(run)).get(entry.agent_id)
        if pane is None or pane.dead:
            launch = await asyncio.to_thread(launch_exits.recorded, self.roster.paths, entry.agent_id)
            return await self._deletion.at_once(launch.pid) if launch is not None and launch.alive() else []
        if entry.state.life == "starting":
            await self.release(entry)
        return await self._deletion.gently(entry, pane.pid)

    async def evict(self, entry: AgentEntry) -> None:
        """End the CLI of an agent that another host owns now, and close its pane; writes no record.

        The caller has made sure that the agent gets nothing more from this host.
        """
        agent_id = entry.agent_id
        if (tending := self.tending.get(agent_id)) is not None:
            await call_off([tending])
        run = self.roster.runs.get(entry.run_id)
        pane = (await self.team_panes.tagged(run)).get(agent_id) if run is not None else None
        if pane is not None and not pane.dead:
            await self._deletion.at_once(pane.pid)
        await self._end_remains(entry)
        if run is not None:
            await self.team_panes.remove(run, agent_id)
        self.roster.temporary.end(name_of_agent(agent_id))
        self._process_exits.forget(entry)

    # -- start and stop of the daemon ---------------------------------------------------------------------------

    async def recover(self, *, clean: bool) -> None:
        """After a start: continue every agent from its records (C17, B1.12).

        ``clean``: the last daemon ended cleanly, so nothing can exist without a record.
        """
        for entry in list(self.roster.agents.values()):
            run = self.roster.runs.get(entry.run_id)
            if run is not None and not entry.live and run.file["agents"].pop(entry.agent_id, None) is not None:
                # Its pane was closed before it was recorded as deleted; only run.json could not be written in time.
                await self.team_panes.save(run)
            self.take_over(entry)
            self.deadlines.seen(entry)
            if not clean and self._meta_files.behind(entry):
                self._meta_files.changed(entry)
        for run in self.roster.runs.values():
            await self.team_panes.end_if_empty(run)

    def take_over(self, entry: AgentEntry) -> None:
        """Continue an agent that another daemon launched, with the secret and pane from our files."""
        launch = launch_files.read(self.roster, entry)
        if launch.get("epoch") == entry.state.epoch:
            entry.secret, entry.session = launch.get("secret"), launch.get("session")
        run = self.roster.runs.get(entry.run_id)
        if run is not None:
            entry.pane_id = run.file["agents"].get(entry.agent_id)
        if entry.live:
            self.tend(entry)

    async def settled(self, entry: AgentEntry, deadline: float) -> None:
        """Wait until no step of the agent runs, or until the deadline (monotonic)."""
        clock = self.roster.clock
        await wait_until(lambda: True if entry.agent_id not in self.tending else None, entry.changed, deadline, clock)

    @property
    def live_agents(self) -> int:
        """How many agents still need supervision; one that waits for a task without a pane does not."""
        lives = [entry.state for entry in self.roster.agents.values()]
        supervised = [agent for agent in lives if agent.life in ("starting", "ready", "exited")]
        return sum(not supervision.rests(agent) for agent in supervised)

    async def close(self) -> None:
        """Stop supervising; the agents continue, and the next daemon supervises them."""
        self._restart_pauses.close()
        await call_off(self.tending.values())
        await self._process_exits.close()
        await self.screen_watch.close()
        await self.deadlines.close()
        await self._screen_keeping.close()
        await self._meta_files.close()
        self._border_lines.close()
        self._pane_focus.close()
