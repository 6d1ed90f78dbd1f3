"""Shows squad members in panes of the window from which they were started, beside its other panes.

A member needs no pane, so nothing here may harm a member: what cannot be shown is logged and left out. A window with
members only is no team run. The note that such a window must be restored is in the daemon's run directory, which
lives about as long as a tmux server; the panes' own tags name their members.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
import structlog

from orchestrator.base import failpoints
from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.edge import project_location
from orchestrator.journal.project_files import failure, read_json, replace
from orchestrator.team.panes.team_panes import TeamPanes, lines_wanted
from orchestrator.team.roster.broadcast import TeamRun
from orchestrator.team.roster.roster import Roster
from orchestrator.tmux import borders, member_tags, panes, splits
from orchestrator.tmux.borders import BorderLine
from orchestrator.tmux.member_tags import NewMemberPane
from orchestrator.tmux.server_address import ServerIdentity, TmuxSocket
from orchestrator.tmux.servers import tmux

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True)
class ShownMember:
    """Where a member is shown: the identity of the tmux server, the window, and the pane that it is ``beside``.

    It is written before anything is changed there; the fields are the keys of that file.
    """

    tmux_socket: str | None
    tmux_name: str | None
    server_pid: int
    server_start: int
    window_id: str
    beside: str

    @property
    def socket(self) -> TmuxSocket:
        return TmuxSocket(path=self.tmux_socket, name=self.tmux_name)


class MemberPanes:
    """The members' panes of one project."""

    def __init__(self, roster: Roster, team_panes: TeamPanes) -> None:
        self._roster = roster
        self._team_panes = team_panes
        self._shown: dict[str, ShownMember] = {}
        self._changing = asyncio.Lock()  # one change at a time, as in tmux itself
        self._tasks = BackgroundTasks()

    async def show(self, origin: ConnectionOrigin, title: str, mark: str, argv: list[str]) -> str | None:
        """Run ``argv`` in a pane of the caller's window and return its id; None if that is not possible.

        ``mark`` is unique for one member. Never raises. A caller canceled while it waits may still get the pane:
        `hide` with the mark closes it.
        """
        return await self._finished(partial(self._show, origin, title, mark, argv), mark)

    async def hide(self, pane_id: str, mark: str) -> None:
        """Close the member's pane, if it still exists, and restore the window after the last of our panes.

        Never raises; the next `sweep` retries what failed.
        """
        await self._finished(partial(self._hide, pane_id, mark), mark)

    async def sweep(self, living: Collection[str]) -> None:
        """Close the panes left by a killed daemon, except those of ``living`` members. Never raises; called first."""
        await self._finished(partial(self._sweep, living), "")

    async def _finished(self, work: Callable[[], Coroutine[Any, Any, T]], mark: str) -> T | None:
        """The result of work that runs to its end even if its caller is canceled: tmux has already begun it."""
        return await asyncio.shield(self._tasks.start(self._quietly(work, mark)))

    async def _quietly(self, work: Callable[[], Coroutine[Any, Any, T]], mark: str) -> T | None:
        try:
            async with self._changing:
                return await work()
        except OrchestratorError as error:
            log.info("a member's pane was not made or closed", member=mark, **error.as_dict())
        except Exception:
            log.exception("bug while showing a member", member=mark)
        return None

    # -- showing ------------------------------------------------------------------------------------------------

    async def _show(self, origin: ConnectionOrigin, title: str, mark: str, argv: list[str]) -> str | None:
        team_panes = self._team_panes
        place = await team_panes.place_of(origin, make=False)
        if place is None or place.detached:
            raise Environment(
                "pane_unknown", "the caller works outside tmux", "do nothing: the member works without a pane"
            )
        server = await asyncio.to_thread(lambda: tmux(place.socket).identity())
        run = self._run_in(place.pane.window_id, server)
        neighbour = run.file["master_pane"] if run is not None else place.pane.pane_id
        shown = ShownMember(place.socket.path, place.socket.name, *server, place.pane.window_id, neighbour)
        self._shown[mark] = shown
        made: str | Environment | None = None
        try:
            await self._save()
            failpoints.passed("member:noted")
            new = NewMemberPane(mark, [*member_tags.begun(mark), *argv], str(self._roster.root))
            made = await (self._add(shown, new) if run is None else self._add_to(run, shown, new))
            if isinstance(made, Environment):
                raise made
        finally:
            if not isinstance(made, str):
                await self._close({mark: shown})
        with contextlib.suppress(Environment):  # it is shown anyway
            await asyncio.to_thread(borders.set_line, shown.socket, {made: BorderLine(f" {title} ")})
        return made

    async def _add(self, shown: ShownMember, new: NewMemberPane) -> str | Environment:
        """Make a pane in a window without a run."""
        socket, window, mode = shown.socket, shown.window_id, self._roster.config().border
        if mode is not False and await asyncio.to_thread(lines_wanted, mode, socket, window, [shown.beside]):
            await asyncio.to_thread(borders.set_borders, socket, window)
        return await self._split(shown, new, ())

    async def _add_to(self, run: TeamRun, shown: ShownMember, new: NewMemberPane) -> str | Environment:
        async with self._team_panes.lock(run):
            if not run.live:
                return await self._add(shown, new)
            await self._team_panes.borders_on(run, [new])
            return await self._split(shown, new, self._team_panes.agents_of(run))

    async def _split(self, shown: ShownMember, new: NewMemberPane, agents: Sequence[str]) -> str | Environment:
        [made] = await asyncio.to_thread(
            splits.create_agents,
            shown.socket,
            shown.beside,
            agents,
            [new],
            self._team_panes.limits(),
            window_id=shown.window_id,
        )
        failpoints.passed("member:shown")
        return made

    def _run_in(self, window_id: str, server: ServerIdentity) -> TeamRun | None:
        here = {"window_id": window_id, "server_pid": server.pid, "server_start": server.start_time}
        return next(
            (run for run in self._roster.runs.values() if run.live and here.items() <= run.file.items()), None
        )

    # -- hiding -------------------------------------------------------------------------------------------------

    async def _hide(self, pane_id: str, mark: str) -> None:
        if mark in self._shown:
            await self._close({mark: self._shown[mark]})
        else:
            log.debug("a member's pane is not known", pane=pane_id, member=mark)

    async def _sweep(self, living: Collection[str]) -> None:
        for path in (*self._elsewhere(), self._record()):
            if await asyncio.to_thread(path.exists):
                try:
                    records = await asyncio.to_thread(read_json, path)
                    self._shown |= {mark: ShownMember(**record) for mark, record in records.items()}
                except (OrchestratorError, TypeError, AttributeError) as error:
                    log.warning("what members' panes there were is not known", path=str(path), reason=str(error))
        await self._close({mark: shown for mark, shown in self._shown.items() if mark not in living})

    async def _close(self, members: dict[str, ShownMember]) -> None:
        """Close these members' panes, window by window, and forget them; raises if a tmux server refuses."""
        trouble: OrchestratorError | None = None
        for server in {(member.socket, member.server_pid, member.server_start) for member in members.values()}:
            there = {
                mark: member
                for mark, member in members.items()
                if (member.socket, member.server_pid, member.server_start) == server
            }
            try:
                if await asyncio.to_thread(_lives, *server):
                    touched = await asyncio.to_thread(_close_panes, server[0], there)
                    for window_id, neighbour in touched.items():
                        await self._put_right(server[0], ServerIdentity(*server[1:]), window_id, neighbour)
            except OrchestratorError as error:
                trouble = error
                continue
            for mark in there:
                self._shown.pop(mark, None)
        if members:
            await self._save()
        if trouble is not None:
            raise trouble

    async def _put_right(self, socket: TmuxSocket, server: ServerIdentity, window_id: str, neighbour: str) -> None:
        """Even out our remaining panes in the window; after the last one, restore the user's layout."""
        run = self._run_in(window_id, server)
        if run is not None:
            async with self._team_panes.lock(run):
                if run.live:
                    await self._leave_to(run, socket, window_id)
                    return
        if await asyncio.to_thread(_is_ours, socket, window_id):
            with contextlib.suppress(Environment):  # the window is gone or busy: this can wait
                await asyncio.to_thread(splits.arrange, socket, window_id, neighbour, (), self._team_panes.limits())
        else:
            await asyncio.to_thread(borders.restore_window, socket, window_id)
        failpoints.passed("member:hidden")

    async def _leave_to(self, run: TeamRun, socket: TmuxSocket, window_id: str) -> None:
        """Leave the restoring to the run: at its end it also reverts the changes made for members."""
        if run.file["changed"] is None:
            with contextlib.suppress(Environment):
                run.file["changed"] = await asyncio.to_thread(borders.saved_borders, socket, window_id)
            if run.file["changed"] is not None:
                await self._team_panes.save(run)
        await self._team_panes.arrange(run)

    # -- what is remembered -------------------------------------------------------------------------------------

    def _record(self) -> Path:
        try:
            return project_location.run_dir(self._roster.root) / project_location.SHOWN
        except project_location.RunDirUnsafe as error:
            raise Environment("run_dir_unsafe", str(error)) from error

    def _elsewhere(self) -> list[Path]:
        """The records of a daemon that used the project's other run directory."""
        own = self._record()
        return [
            path
            for directory in project_location.run_dirs(self._roster.root)
            if (path := directory / project_location.SHOWN) != own
        ]

    async def _save(self) -> None:
        path, outdated = self._record(), self._elsewhere()
        if self._shown:
            data = orjson.dumps({mark: asdict(shown) for mark, shown in self._shown.items()})
            await asyncio.to_thread(replace, path, data, mode=0o600)
        else:
            outdated.append(path)
        for outdated_path in outdated:
            try:
                await asyncio.to_thread(outdated_path.unlink, missing_ok=True)
            except OSError as error:
                raise failure(outdated_path, error) from error


def _lives(socket: TmuxSocket, pid: int, start: int) -> bool:
    try:
        return tmux(socket).identity() == (pid, start)
    except Environment as error:
        if error.facts.get("server_gone"):
            return False
        raise


def _close_panes(socket: TmuxSocket, members: dict[str, ShownMember]) -> dict[str, str]:
    """Close the panes of these members on one server; returns their windows, each with the pane beside them."""
    windows = {shown.window_id: shown.beside for shown in members.values()}
    tagged = member_tags.list_members(socket)
    for pane in tagged:
        if pane.mark in members:
            member_tags.kill(socket, pane.pane_id, pane.mark)
            failpoints.passed("member:closed")
            windows.setdefault(pane.window_id, members[pane.mark].beside)
    for mark in members.keys() - {pane.mark for pane in tagged}:
        stub = panes.find_stub(socket, member_tags.begun(mark))
        if stub is not None:  # split by a daemon that died before it could tag the pane
            panes.set_tags(socket, stub.pane_id, {member_tags.MEMBER: mark})
            member_tags.kill(socket, stub.pane_id, mark)
    return windows


def _is_ours(socket: TmuxSocket, window_id: str) -> bool:
    """Whether the window still has a pane of an agent or a member of any project."""
    if member_tags.list_members(socket, window_id):
        return True
    return any(pane.window_id == window_id for pane in panes.list_tagged(socket))
