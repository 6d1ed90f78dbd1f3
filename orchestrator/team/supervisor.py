"""Keeps agents alive as their records ask: launch, notice an exit, launch once more, end, and go on after a crash.

One reconcile function (`tend`) derives the next step of an agent from its records and its pane; creating, deleting
and recovering after a kill -9 all go through it, so a step that was cut off is simply taken again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import time
from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from orchestrator import project, steps
from orchestrator.clock import rfc3339, wait_until
from orchestrator.core import decide, engines
from orchestrator.errors import Environment, OrchestratorError
from orchestrator.store.files import read_json, replace
from orchestrator.team import processes
from orchestrator.team.broadcast import Run
from orchestrator.team.entry import Entry
from orchestrator.team.metas import Metas
from orchestrator.team.roster import Roster
from orchestrator.team.windows import Windows
from orchestrator.term.panes import NewPane, TaggedPane

log = structlog.get_logger()

REAP_S = 2.0
"""tmux needs a moment between the end of a pane's process and knowing its status."""


class Supervisor:
    """Tends every agent of a roster. Its tasks outlive the calls that caused them."""

    def __init__(self, roster: Roster, windows: Windows) -> None:
        self.roster = roster
        self.windows = windows
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self.making: dict[str, asyncio.Task[Any]] = {}  # agents being created, by the call that asked for them
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._metas = Metas(roster)
        roster.listeners.append(windows.repaint)
        roster.listeners.append(self._metas.changed)

    def _at(self) -> str:
        return rfc3339(self.roster.clock.now())

    # -- launching ----------------------------------------------------------------------------------------------

    def launch_argv(self, agent_id: str, epoch: int) -> list[str]:
        """The pane's own command: our stub, which execs the CLI once the pane is ready (design §7)."""
        return project.own_command("launch", agent_id, str(epoch), "--project", str(self.roster.root))

    async def release(self, entry: Entry) -> None:
        """Let the launch stub of the current epoch go; a level, so that it may be repeated."""
        path, epoch = self.roster.paths.go(entry.agent_id), str(entry.state.epoch).encode()
        await asyncio.to_thread(replace, path, epoch, mode=0o600)
        steps.passed("launch:released")

    def write_launch(
        self,
        entry: Entry,
        spec: Mapping[str, Any],
        epoch: int,
        inherited: Mapping[str, str],
        extra: Mapping[str, str],
    ) -> None:
        """Write engine/launch.json (0600) with a fresh secret for this epoch; ``spec`` is the `starting` record's."""
        if "ORCHESTRATOR_RUN_BASE" in os.environ:  # tests: the agent must find this daemon, not start another
            extra = {**extra, "ORCHESTRATOR_RUN_BASE": os.environ["ORCHESTRATOR_RUN_BASE"]}
        row = engines.engine(str(spec["engine"]))
        secret = secrets.token_hex(16)
        env = engines.environment(
            inherited,
            extra,
            agent_id=entry.agent_id,
            epoch=epoch,
            secret=secret,
            project=str(self.roster.root),
        )
        launch = {
            "epoch": epoch,
            "argv": engines.argv_of(row, project.own_command()),
            "env": env,
            "cwd": spec["cwd"],
            "secret": secret,
        }
        replace(self.roster.paths.launch(entry.agent_id), orjson.dumps(launch), mode=0o600)
        entry.secret = secret
        steps.passed("launch:written")

    def read_launch(self, entry: Entry) -> dict[str, Any]:
        """What launch.json says; empty when there is none."""
        path = self.roster.paths.launch(entry.agent_id)
        try:
            found = read_json(path)
        except OrchestratorError:
            return {}
        return found if isinstance(found, dict) else {}

    async def launch(self, run: Run, entries: list[Entry]) -> dict[str, Environment]:
        """Panes first, then all programs start in parallel; agents whose pane could not be made are failed."""
        wanted = [
            NewPane(
                entry.agent_id,
                run.run_id,
                entry.state.epoch,
                self.launch_argv(entry.agent_id, entry.state.epoch),
                str(entry.state.spec["cwd"]),
            )
            for entry in entries
        ]
        failures: dict[str, Environment] = {}
        try:
            outcome = await self.windows.make(run, wanted)
            for entry, made in zip(entries, outcome, strict=True):
                if isinstance(made, str):
                    entry.pane_id = made
                    await self.release(entry)
                else:
                    failures[entry.agent_id] = made
                    await self.roster.commit(
                        entry, decide.failed(entry.state, at=self._at(), reason=made.message, code=made.code)
                    )
        finally:
            for entry in entries:
                self.tend(entry)  # also when tmux or the disk failed: the intents stand
        return failures

    # -- the one reconcile function -----------------------------------------------------------------------------

    def tend(self, entry: Entry) -> None:
        """Take the agent's next steps until it needs none; harmless at any time, one at work per agent."""
        if entry.agent_id in self._tending:
            self._again.add(entry.agent_id)
            return
        task = asyncio.get_running_loop().create_task(self._tend(entry))
        self._tending[entry.agent_id] = task

    async def _tend(self, entry: Entry) -> None:
        pause = 0.2
        try:
            while True:
                self._again.discard(entry.agent_id)
                try:
                    moved = await self._step(entry)
                    pause = 0.2
                except OrchestratorError as error:
                    # Disk full, tmux hanging: the step is taken again, it was decided and not done.
                    log.warning("agent not tended", agent=entry.agent_id, **error.as_dict())
                    moved = True
                    await self._pause(pause)
                    pause = min(pause * 2, 10.0)
                if not moved and entry.agent_id not in self._again:
                    return
        except Exception:
            log.exception("bug while tending", agent=entry.agent_id)
        finally:
            self._tending.pop(entry.agent_id, None)
            entry.changed.notify()

    async def _pause(self, seconds: float) -> None:
        clock = self.roster.clock
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def fire() -> None:
            if not done.done():
                done.set_result(None)

        timer = clock.timer(seconds, fire)
        try:
            await done
        finally:
            timer.cancel()

    async def _step(self, entry: Entry) -> bool:
        """One step; whether to look again at once."""
        agent, run = entry.state, self.roster.runs.get(entry.run_id)
        if agent.life in ("new", "deleted") or run is None:
            return False
        if agent.life == "stopped" or agent.stop_asked:
            await self.roster.durable(entry)
            await self._end(entry, run)
            return False
        pane = (await self.windows.tagged(run)).get(entry.agent_id)
        if agent.life == "exited":
            drafts = decide.after_exit(agent, at=self._at(), may_relaunch=pane is not None)
            await self.roster.commit(entry, drafts)
            return bool(drafts)
        if agent.life == "failed":
            entry.process = "gone"
            return False
        return await self._see(entry, run, pane)

    async def _see(self, entry: Entry, run: Run, pane: TaggedPane | None) -> bool:
        """A living agent: look for its pane of this epoch, and the process in it."""
        agent = entry.state
        if pane is None:
            return await self._without_pane(entry, run)
        entry.pane_id = pane.pane_id
        await self.windows.note(run, entry.agent_id, pane.pane_id)
        if pane.epoch < agent.epoch:
            await self._relaunch(entry, run, pane)
            return True
        if pane.dead:
            await self._exited(entry, run, pane)
            return True
        if agent.life == "starting":
            await self.release(entry)
        self._watch(entry, pane.pid)
        return False

    async def _without_pane(self, entry: Entry, run: Run) -> bool:
        agent = entry.state
        alive = await self.windows.same_server(run)
        if alive and agent.life == "starting" and agent.epoch == 1 and entry.agent_id not in run.file["agents"]:
            # The intent is durable, its pane was never made: a daemon died in between.
            argv = self.launch_argv(entry.agent_id, 1)
            made = await self.windows.adopt_stub(run, entry, argv)
            if made is None:
                if not self.read_launch(entry):
                    self.write_launch(entry, agent.spec, 1, os.environ, {})
                await self.launch(run, [entry])
            return True
        reason = "its pane was closed" if alive else "the tmux server is gone"
        entry.process = "gone"
        await self.roster.commit(
            entry,
            decide.exited(agent, at=self._at(), reason=reason, code=None, signal=None, last_lines=[]),
        )
        return True

    async def _relaunch(self, entry: Entry, run: Run, pane: TaggedPane) -> None:
        """The next life in the same pane; the record of it stands already."""
        agent = entry.state
        if not pane.dead:
            # The old life outlived its record (the daemon was killed in between): it must not work on.
            await self._kill_tree(pane.pid)
            await self._dead(run, entry.agent_id)
        old = self.read_launch(entry)
        if old.get("epoch") != agent.epoch:
            self.write_launch(entry, agent.spec, agent.epoch, old.get("env", {}), {})
        new = NewPane(
            entry.agent_id,
            run.run_id,
            agent.epoch,
            self.launch_argv(entry.agent_id, agent.epoch),
            str(agent.spec["cwd"]),
        )
        if await self.windows.respawn(run, pane.pane_id, new):
            await self.release(entry)

    # -- noticing an exit ---------------------------------------------------------------------------------------

    def _watch(self, entry: Entry, pid: int) -> None:
        watching = self._watching.get(entry.agent_id)
        if entry.pid == pid and watching is not None and not watching.done():
            return
        if watching is not None:
            watching.cancel()
        entry.pid = pid
        entry.process = "alive"
        entry.changed.notify()

        async def watch() -> None:
            await processes.ended(pid)
            entry.process = "gone"
            entry.changed.notify()
            self.tend(entry)

        self._watching[entry.agent_id] = asyncio.get_running_loop().create_task(watch())

    async def _exited(self, entry: Entry, run: Run, pane: TaggedPane) -> None:
        entry.process = "gone"
        pane = await self._dead(run, entry.agent_id) or pane
        if pane.dead_signal is not None:
            reason = f"its program was ended by {processes.signal_name(pane.dead_signal)}"
        elif pane.dead_status is not None:
            reason = f"its program exited with {pane.dead_status}"
        else:
            reason = "its program ended"
        drafts = decide.exited(
            entry.state,
            at=self._at(),
            reason=reason,
            code=pane.dead_status,
            signal=pane.dead_signal,
            last_lines=await self.windows.last_lines(run, pane.pane_id),
        )
        await self.roster.commit(entry, drafts)

    async def _dead(self, run: Run, agent_id: str) -> TaggedPane | None:
        """The pane once tmux knows how its process ended."""
        pane = None
        for _ in range(int(REAP_S / 0.05)):
            pane = (await self.windows.tagged(run)).get(agent_id)
            known = pane is None or (pane.dead and (pane.dead_status is not None or pane.dead_signal is not None))
            if known:
                return pane
            await self._pause(0.05)
        return pane

    # -- the end ------------------------------------------------------------------------------------------------

    async def _end(self, entry: Entry, run: Run) -> None:
        """The ladder of agent_delete: stop command, grace, SIGTERM, SIGKILL of the tree, then the pane."""
        agent = entry.state
        if agent.life != "stopped":
            how = await self._end_process(entry, run)
            steps.passed("delete:process-ended")
            entry.process = "gone"
            await self.roster.commit(entry, decide.stopped(agent, at=self._at(), how=how))
        await self.windows.remove(run, entry.agent_id)
        steps.passed("delete:pane-removed")
        await self.roster.commit(entry, decide.deleted(agent, at=self._at()))
        entry.pane_id = None
        watching = self._watching.pop(entry.agent_id, None)
        if watching is not None:
            watching.cancel()
        await self.windows.end_if_empty(run)
        entry.changed.notify()

    async def _end_process(self, entry: Entry, run: Run) -> str:
        pane = (await self.windows.tagged(run)).get(entry.agent_id)
        if pane is None and entry.state.life == "starting" and await self.windows.same_server(run):
            # Split by a daemon that died before it could tag it: nobody else would ever close it.
            await self.windows.adopt_stub(run, entry, self.launch_argv(entry.agent_id, entry.state.epoch))
            pane = (await self.windows.tagged(run)).get(entry.agent_id)
        if pane is None or pane.dead:
            return "gone already"
        config = self.roster.config()
        pid, began = pane.pid, processes.start_time(pane.pid)
        if began is None:
            return "gone already"
        if entry.state.life == "starting":
            await self.release(entry)
        asked = not entry.state.stop_force and entry.state.life == "ready"
        if asked and await self._gone_within(entry, pid, began, config.stop_grace_s):
            return "stopped by itself"
        tree = await asyncio.to_thread(processes.tree_of, pid)
        processes.send(tree, signal.SIGTERM)
        if await self._all_gone_within(tree, config.kill_grace_s):
            return "SIGTERM"
        await self._kill_tree(pid, tree)
        return "SIGKILL"

    async def _kill_tree(self, pid: int, tree: list[tuple[int, int]] | None = None) -> None:
        now = await asyncio.to_thread(processes.tree_of, pid)
        both = list(dict.fromkeys([*(tree or []), *now]))
        processes.send(both, signal.SIGKILL)
        await self._all_gone_within(both, REAP_S)

    async def _gone_within(self, entry: Entry, pid: int, began: int, seconds: float) -> bool:
        """Whether the process ends in time; a force that arrives meanwhile ends the waiting."""
        clock = self.roster.clock
        ending = asyncio.get_running_loop().create_task(processes.ended(pid))
        ending.add_done_callback(lambda _task: entry.changed.notify())
        try:
            await wait_until(
                lambda: True if ending.done() or entry.state.stop_force else None,
                entry.changed,
                clock.monotonic() + seconds,
                clock,
            )
        finally:
            ending.cancel()
        return not processes.alive(pid, began)

    async def _all_gone_within(self, tree: list[tuple[int, int]], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while any(processes.alive(pid, began) for pid, began in tree):
            if time.monotonic() >= until:
                return False
            await self._pause(0.02)
        return True

    # -- start and stop of the daemon ---------------------------------------------------------------------------

    async def recover(self, *, clean: bool) -> None:
        """After a start: take up every agent where its records left it (C17, B1.12).

        ``clean``: the last daemon ended in good order, so nothing can have been made and not recorded.
        """
        for entry in list(self.roster.agents.values()):
            launch = self.read_launch(entry)
            if launch.get("epoch") == entry.state.epoch:
                entry.secret = launch.get("secret")
            run = self.roster.runs.get(entry.run_id)
            if run is not None:
                entry.pane_id = run.file["agents"].get(entry.agent_id)
            if entry.live:
                self.tend(entry)
            if not clean and self._metas.behind(entry):
                self._metas.changed(entry)
        for run in self.roster.runs.values():
            await self.windows.end_if_empty(run)
        if not clean and not any(run.live for run in self.roster.runs.values()):
            await self.windows.end_abandoned()

    async def settled(self, entry: Entry, deadline: float) -> None:
        """Wait until nothing is being done for the agent, or the deadline."""
        clock = self.roster.clock
        await wait_until(
            lambda: True if entry.agent_id not in self._tending else None, entry.changed, deadline, clock
        )

    @property
    def live_agents(self) -> int:
        """How many agents still need supervision."""
        return sum(1 for entry in self.roster.agents.values() if entry.state.life in ("starting", "ready", "exited"))

    async def close(self) -> None:
        """Stop supervising; the agents work on and are taken up again by the next daemon."""
        tasks = [*self._tending.values(), *self._watching.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._metas.close()
        self.windows.close()


def check_program(row: engines.Engine, path: str) -> None:
    """Environment ``engine_missing`` unless the engine's program is on that PATH."""
    if row.program and shutil.which(row.program, path=path) is None:
        raise Environment("engine_missing", f"{row.program} is not on the PATH of the master's CLI")
