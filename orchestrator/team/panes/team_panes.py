"""The agents' panes: creates, lists and removes them in the window of their run.

It connects the supervisor with `tmux`. Every tmux call runs in a thread, and those of one run run one after the
other, so that no two plans use the same picture of a window.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

import structlog

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.core.screens import Screen, readable
from orchestrator.engines.definition import Engine
from orchestrator.team.panes.detached_session import MasterWindow
from orchestrator.team.panes.run_windows import RunWindows
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.tmux import borders, member_tags, panes, paste, screen_capture, splits
from orchestrator.tmux.panes import NewPane, TaggedPane
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.splits import PaneRequest
from orchestrator.tmux.window_layout import STRIP, LayoutLimits, PaneSize

log = structlog.get_logger()

T = TypeVar("T")

LOOKED_BACK = 60  # rows, including blank rows


def lines_wanted(mode: Literal["auto"] | bool, socket: TmuxSocket, window_id: str, own: Sequence[str]) -> bool:
    """Whether the window gets border lines; ``own`` are our panes in it except the members' panes."""
    there = [info.pane_id for info in panes.list_panes(socket, window_id)]
    if borders.borders_wanted(mode, there, own):
        return True
    shown = [pane.pane_id for pane in member_tags.list_members(socket, window_id)]
    return bool(shown) and borders.borders_wanted(mode, there, [*own, *shown])


class TeamPanes(RunWindows):
    """The tmux side of a roster: the windows of its runs, and the panes in them."""

    # -- panes --------------------------------------------------------------------------------------------------

    def minimum(self, engine: Engine | None) -> PaneSize:
        """The smallest pane of an agent of that engine; of a squad member or an unknown CLI for None."""
        config = self._roster.config()
        width, height = engine.min_pane if engine is not None else STRIP
        return PaneSize(config.min_pane_width or width, config.min_pane_height or height)

    def limits(self, run: TeamRun | None = None) -> LayoutLimits:
        """What a layout must grant the agents of the run and other panes of ours."""
        config, others = self._roster.config(), self.minimum(None)
        own: dict[str, PaneSize] = {}
        for agent_id, pane_id in run.file["agents"].items() if run is not None else ():
            entry = self._roster.agents.get(agent_id)
            own[pane_id] = self.minimum(entry.engine if entry is not None else None)
        large = set(self.large.get(run.run_id, {}).values()) if run is not None else set()
        return LayoutLimits(*others, config.master_share, own, large if config.layout == "focus" else None)

    def agents_of(self, run: TeamRun) -> list[str]:
        """The panes of the run's agents that have one."""
        return [pane_id for pane_id in run.file["agents"].values() if pane_id]

    async def let_go(self, run: TeamRun, agent_id: str, pane_id: str) -> None:
        """Detach the agent from the pane, because another program was started in it."""
        async with self.lock(run):
            await asyncio.to_thread(panes.untag, self.socket_of(run), pane_id, agent_id, run.run_id)
            run.file["agents"].pop(agent_id, None)
            await asyncio.to_thread(run.save)

    async def room(
        self, place: MasterWindow, run: TeamRun | None, engines: Sequence[Engine | None]
    ) -> tuple[int, str]:
        """How many more agents of these engines fit now, and why not more; checked before anything is written."""
        if self._roster.config().overflow == "window":
            return len(engines), ""
        agents = self.agents_of(run) if run is not None else []
        wanted = [self.minimum(engine) for engine in engines]
        return await asyncio.to_thread(
            splits.room, place.socket, place.pane.pane_id, agents, wanted, self.limits(run)
        )

    async def make(self, run: TeamRun, wanted: Sequence[NewPane]) -> list[str | Environment]:
        """Make panes for new agents, tagged and with their final size; returns a pane id or an error for each."""
        async with self.lock(run):
            socket, mode = self.socket_of(run), self._roster.config().border
            await self.borders_on(run, wanted)

            def opened(window_id: str, team: Sequence[str]) -> None:
                self._further(run, window_id)
                with contextlib.suppress(Environment):  # the agents matter more than their labels
                    if mode is not False and lines_wanted(mode, socket, window_id, team):
                        borders.set_borders(socket, window_id)

            outcome = await asyncio.to_thread(
                splits.create_agents,
                socket,
                run.file["master_pane"],
                self.agents_of(run),
                wanted,
                self.limits(run),
                overflow=self._roster.config().overflow == "window",
                window_id=run.file["window_id"],
                opened=opened,
            )
            for new, made in zip(wanted, outcome, strict=True):
                if isinstance(made, str):
                    run.file["agents"][new.agent_id] = made
            await self.save(run)
            return outcome

    @staticmethod
    def _further(run: TeamRun, window_id: str) -> None:
        if window_id not in run.file.setdefault("windows", []):
            run.file["windows"].append(window_id)

    async def borders_on(self, run: TeamRun, wanted: Sequence[PaneRequest]) -> None:
        """Turn on the window's border lines if it will have some of these new panes. The caller holds `lock`."""
        mode = self._roster.config().border
        socket, window = self.socket_of(run), run.file["window_id"]
        if mode is False or run.file["changed"] is not None:
            return
        own = [run.file["master_pane"], *self.agents_of(run)]
        if not wanted or not await asyncio.to_thread(lines_wanted, mode, socket, window, own):
            return
        if len(own) == 1 and not await self._any_fits(run, wanted):
            return  # the line would take a row from the master's pane for agents of other windows
        run.file["changed"] = await asyncio.to_thread(borders.set_borders, socket, window)
        await self.save(run)

    async def _any_fits(self, run: TeamRun, wanted: Sequence[PaneRequest]) -> bool:
        sizes = [request.minimum for request in wanted]
        try:
            fits, _ = await asyncio.to_thread(
                partial(splits.room, lines=True),
                self.socket_of(run),
                run.file["master_pane"],
                [],
                sizes,
                self.limits(run),
            )
        except Environment:  # the master's pane is closed: the agents join others
            return True
        return fits > 0

    async def tagged(self, run: TeamRun) -> dict[str, TaggedPane]:
        """The run's panes by agent; empty if its tmux server is gone."""
        try:
            if not await self.same_server(run):
                return {}
            tagged = await asyncio.to_thread(panes.list_tagged, self.socket_of(run))
        except Environment as error:
            if error.facts.get("server_gone"):
                return {}
            raise
        return {pane.agent_id: pane for pane in tagged if pane.run_id == run.run_id}

    async def take_over_stub(self, run: TeamRun, entry: AgentEntry, argv: Sequence[str]) -> str | None:
        """Tag the pane that was split for this launch by a daemon that died before it could tag it."""
        socket = self.socket_of(run)
        info = await asyncio.to_thread(panes.find_stub, socket, argv)
        if info is None:
            return None
        async with self.lock(run):
            await asyncio.to_thread(panes.tag, socket, info.pane_id, entry.agent_id, run.run_id, entry.state.epoch)
            run.file["agents"][entry.agent_id] = info.pane_id
            await self.save(run)
            await self.arrange(run)
        return info.pane_id

    async def note(self, run: TeamRun, agent_id: str, pane_id: str) -> None:
        """Record in run.json a pane that was tagged by a daemon which died before it could record it."""
        if run.file["agents"].get(agent_id) == pane_id:
            return
        async with self.lock(run):
            run.file["agents"][agent_id] = pane_id
            await self.save(run)
            await self.arrange(run)

    async def respawn(self, run: TeamRun, pane_id: str, new: NewPane) -> bool:
        """Start the next launch of an agent in its dead pane."""
        done = await asyncio.to_thread(panes.respawn, self.socket_of(run), pane_id, new)
        failpoints.passed("tmux:respawn-pane")
        return done

    async def last_lines(self, run: TeamRun, pane_id: str) -> list[str]:
        """The last lines of the pane, as `readable`; empty if the pane is gone."""
        try:
            lines = await asyncio.to_thread(panes.capture, self.socket_of(run), pane_id, LOOKED_BACK)
        except OrchestratorError:
            return []
        return readable(lines)

    async def history(self, run: TeamRun, agent_id: str, count: int) -> list[str]:
        """The last ``count`` lines of the agent's pane and its history, not wrapped; empty if it has no pane now.

        Raises as `tmux.panes.capture`.
        """
        pane = (await self.tagged(run)).get(agent_id)
        if pane is None:
            return []
        return await asyncio.to_thread(panes.capture, self.socket_of(run), pane.pane_id, count, joined=True)

    async def look(self, run: TeamRun, entries: Sequence[AgentEntry]) -> dict[str, Screen]:
        """The screens of these agents of one run by agent id, in one look; agents without a pane are absent."""
        return await self._shown(screen_capture.look, run, entries)

    async def texts(self, run: TeamRun, entries: Sequence[AgentEntry]) -> dict[str, list[str]]:
        """The lines on the screens of these agents of one run, as `look`; cheaper, for hundreds of agents."""
        return await self._shown(screen_capture.texts, run, entries)

    async def _shown(
        self,
        seen: Callable[[TmuxSocket, Mapping[str, screen_capture.PaneTag]], dict[str, T]],
        run: TeamRun,
        entries: Sequence[AgentEntry],
    ) -> dict[str, T]:
        wanted = {
            entry.pane_id: screen_capture.PaneTag(entry.agent_id, run.run_id) for entry in entries if entry.pane_id
        }
        try:
            screens = await asyncio.to_thread(seen, self.socket_of(run), wanted)
        except OrchestratorError as error:
            log.debug("screens not seen", run=run.run_id, **error.as_dict())
            return {}
        return {wanted[pane_id].agent_id: screen for pane_id, screen in screens.items()}

    async def look_at_agent(self, entry: AgentEntry) -> Screen | None:
        """The screen of one agent; None when it cannot be seen."""
        run = self._roster.runs.get(entry.run_id)
        return (await self.look(run, [entry])).get(entry.agent_id) if run is not None else None

    async def paste(self, entry: AgentEntry, line: str) -> bool:
        """Paste a line into the agent's pane, unsubmitted; False if that failed."""
        return await self._at_pane(entry, partial(paste.paste, line=line))

    async def submit(self, entry: AgentEntry) -> bool:
        """Submit the text in the composer of the agent's pane; False if that failed."""
        return await self._at_pane(entry, paste.submit)

    async def press(self, entry: AgentEntry, key: str, shown: Sequence[str]) -> bool:
        """Press a key in the agent's pane while all of ``shown`` is on its screen; False if that failed."""
        return await self._at_pane(entry, partial(paste.press, key=key, shown=shown))

    async def _at_pane(
        self, entry: AgentEntry, act: Callable[[TmuxSocket, str, screen_capture.PaneTag], bool]
    ) -> bool:
        run = self._roster.runs.get(entry.run_id)
        if run is None or entry.pane_id is None:
            return False
        whose = screen_capture.PaneTag(entry.agent_id, run.run_id)
        return await asyncio.to_thread(act, self.socket_of(run), entry.pane_id, whose)

    async def look_at_master(self, run: TeamRun) -> Screen | None:
        """The screen of the pane the run's master works in; None when it cannot be seen."""
        try:
            return await asyncio.to_thread(screen_capture.look_at, self.socket_of(run), run.file["master_pane"])
        except OrchestratorError:
            return None

    async def remove(self, run: TeamRun, agent_id: str) -> None:
        """Close the agent's pane, even out the others, and restore the window after the last agent."""
        async with self.lock(run):
            pane = (await self.tagged(run)).get(agent_id)
            pane_id = pane.pane_id if pane is not None else run.file["agents"].get(agent_id)
            socket = self.socket_of(run)
            same = await self.same_server(run)
            if pane is not None and pane.window_id != run.file["window_id"]:
                self._further(run, pane.window_id)  # a daemon may have died before it could record the window
            if same and pane_id is not None:
                await asyncio.to_thread(panes.kill, socket, pane_id, agent_id, run.run_id)
                failpoints.passed("tmux:kill-pane")
            run.file["agents"].pop(agent_id, None)
            if same:
                await self.leave_windows(run)
                await self.arrange(run)
            await self.save(run)

    async def arrange(self, run: TeamRun, window_id: str = "", *, unless_watched: bool = False) -> bool:
        """Even out our panes in that window of the run, else in all of them; the caller holds `lock`.

        Windows that are gone are passed over. False if a window stayed as it was; see `splits.arrange`.
        """
        done = True
        for window in [window_id] if window_id else [run.file["window_id"], *run.file.get("windows", [])]:
            arrange = partial(splits.arrange, self.socket_of(run), window, run.file["master_pane"])
            try:
                done &= await asyncio.to_thread(
                    arrange, self.agents_of(run), self.limits(run), unless_watched=unless_watched
                )
            except Environment as error:
                if not is_gone(error):
                    raise
        return done
