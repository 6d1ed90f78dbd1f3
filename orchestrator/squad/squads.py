"""Start squads of members, run each member to its end, and keep the results until they have been read.

Touches `.agents/squads/` and the processes of members, nothing of the team. A squad's file is written before its
first process starts, so no daemon starts a member twice: the next daemon ends the processes that are left and answers
`interrupted`.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from orchestrator.base import failpoints
from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import FOR_EVER_S, Clock, rfc3339
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.base.platform import process_facts
from orchestrator.base.waiting import Signal, wait_until
from orchestrator.config.keys import Config
from orchestrator.core.file_models import MemberFile, SquadFile
from orchestrator.edge.temporary_directories import TemporaryDirectories, name_of_member
from orchestrator.journal.project_files import Paths, failure
from orchestrator.protocol.tool_calls import Tell
from orchestrator.roles.catalogue import RoleListing
from orchestrator.squad import member_process, results, squad_files, squad_plan
from orchestrator.squad.member_beginnings import MemberBeginnings
from orchestrator.squad.member_process import CommandOutcome, StopRequest
from orchestrator.squad.member_turns import MemberTurns
from orchestrator.squad.member_watch import Show, WatchedProcess, hidden, shown_as
from orchestrator.squad.results import ENDED
from orchestrator.squad.squad_plan import CHAT, MemberCommand, MemberPlan, MemberRequest, PlanInputs
from orchestrator.squad.squad_settings import SquadSettings
from orchestrator.trust import launched
from orchestrator.trust.state_dir import StateDirUnsafe

log = structlog.get_logger()

INTERRUPTED = "interrupted"
CANCELED = "canceled"


SHOWN = 20
"""How many squads people see in the snapshot."""


@dataclass
class SquadRequest:
    """One call of start_squad_members: its request and its resources."""

    req: str
    members: Sequence[MemberRequest]
    settings: SquadSettings
    roles: RoleListing
    env: Mapping[str, str]
    show: Show | None = None


@dataclass
class Squad:
    """One squad in memory. ``changed`` is notified at each step of a member."""

    book: squad_files.SquadRecord
    stop: StopRequest = field(default_factory=StopRequest)
    changed: Signal = field(default_factory=Signal)
    begun: bool = False  # its beginning is written down: nothing is answered before
    over: bool = False  # nothing of it runs any more, and that is written down
    failed: OrchestratorError | None = None  # not even its beginning could be written down

    @property
    def file(self) -> SquadFile:
        return self.book.file


class Squads:
    """The squads of one project."""

    def __init__(
        self,
        paths: Paths,
        clock: Clock,
        config: Callable[[], Config],
        claim: Callable[[], None] = lambda: None,
        temporary: TemporaryDirectories | None = None,
    ) -> None:
        """``claim`` is called before anything is written: it refuses where another daemon has the project's files."""
        self._temporary = temporary or TemporaryDirectories(paths.root)
        self._paths = paths
        self._claim = claim
        self._clock = clock
        self._config = config
        self._squads: dict[str, Squad] = {}
        self._by_req: dict[str, str] = {}
        self._chats = MemberTurns()
        self._beginnings = MemberBeginnings(clock)
        self._tasks = BackgroundTasks()
        self._closing = StopRequest()

    @property
    def root(self) -> Path:
        """The project."""
        return self._paths.root

    @property
    def active(self) -> int:
        """How many squads have a member that has not ended."""
        return sum(not squad.over for squad in self._squads.values())

    # -- what callers ask ---------------------------------------------------------------------------------------

    async def start(self, request: SquadRequest) -> str:
        """Start a squad and return its id. A re-sent call (same ``req``) gets the id of the existing squad.

        An invalid request raises before anything is written or started.
        """
        known = self._by_req.get(request.req)
        if known is not None:
            return known
        if self._paths.root in (Path("/"), Path.home()):
            raise BadRequest("no_project", f"{self._paths.root} is not a project")
        squad_id = str(uuid.uuid4())
        plans = await asyncio.to_thread(self._plans, request, squad_id)
        await asyncio.to_thread(_write_down)
        known = self._by_req.get(request.req)
        if known is not None:
            return known
        file = SquadFile(
            v=1,
            squad_id=squad_id,
            req=request.req,
            created_at=rfc3339(self._clock.now()),
            stateful=request.settings.stateful,
            members=[
                MemberFile(
                    member_id=plan.member_id,
                    role_id=plan.request.role_id,
                    cwd=plan.request.cwd,
                    state="planned",
                    chat_id=(plan.request.chat_id or "") if request.settings.stateful else None,
                )
                for plan in plans
            ],
        )
        self._tasks.start(self._run(self._enter(file), plans, request))
        return squad_id

    async def answer(self, squad_id: str, wait_s: float | None, tell: Tell) -> dict[str, Any]:
        """Wait until all members have ended, ``wait_s`` at most (None: as long as it takes); the squad as it is then.

        BadRequest ``unknown_squad``.
        """
        squad = self._of(squad_id)
        deadline = self._clock.monotonic() + (FOR_EVER_S if wait_s is None else wait_s)
        began = self._clock.monotonic() + FOR_EVER_S
        await wait_until(lambda: squad.begun or squad.over or None, squad.changed, began, self._clock)
        last_progress = ""
        while not squad.over and self._clock.monotonic() < deadline:
            progress = results.progress(squad.file)
            if progress != last_progress:
                tell(progress)
                last_progress = progress

            def moved(before: str = progress) -> bool | None:
                return True if squad.over or results.progress(squad.file) != before else None

            await wait_until(moved, squad.changed, deadline, self._clock)
        if squad.failed is not None:
            raise squad.failed
        place, at, whole = self._paths.squad_dir(squad_id), self._clock.now(), squad.over
        if whole:  # before it is read: it is kept long enough for that
            squad.file.read_at = rfc3339(at)
        limit = results.share(self._config().squad_output_bytes, len(squad.file.members))
        answer = await asyncio.to_thread(results.shown, squad.file, place, limit, at)
        if whole:
            with contextlib.suppress(OrchestratorError):  # it only says how long the results are kept
                await squad.book.write()
        return answer

    def cancel(self, squad_id: str) -> None:
        """End the members that still run; those that have not begun never will. BadRequest ``unknown_squad``."""
        squad = self._of(squad_id)
        if not squad.over:
            squad.file.canceled = True
            squad.stop.ask(CANCELED)

    def listed(self) -> list[dict[str, Any]]:
        """Every squad there is, the newest last: id, when it began, how many members have ended."""
        rows = sorted(self._squads.values(), key=lambda squad: squad.file.created_at)
        return [results.listed(squad.file) for squad in rows]

    def people_rows(self) -> list[dict[str, Any]]:
        """The squads as people see them in the snapshot, the newest first."""
        squads = sorted(self._squads.values(), key=lambda squad: squad.file.created_at, reverse=True)
        return [results.people_row(squad.file) for squad in squads[:SHOWN]]

    # -- the life of the daemon ---------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Take over the squads of an earlier daemon: their results, and the ends of members that it did not record.

        Remaining processes of those members are ended in the background; until then their squads have not ended.
        """
        await asyncio.to_thread(squad_files.clear, self._paths)
        files = await asyncio.to_thread(squad_files.known, self._paths)
        for file in files:
            squad = self._enter(file)
            squad.begun, squad.over = True, file.ended_at is not None
            if not squad.over:
                open_ = [member.member_id for member in file.members if member.state not in ENDED]
                self._temporary.own(map(name_of_member, open_))
                self._tasks.start(self._interrupt(squad))

    async def close(self) -> None:
        """End all members and write down how; for the end of the daemon."""
        self._closing.ask(f"{INTERRUPTED}: the daemon was stopped")
        for squad in self._squads.values():
            squad.stop.ask(self._closing.why)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Forget squads whose results have been kept long enough (`squad_keep_s`; unread ones `gc_after_s`)."""
        config, now = self._config(), self._clock.now()
        for squad_id, squad in list(self._squads.items()):
            if not squad.over or not (squad.failed or _due(squad.file, now, config)):
                continue
            try:
                await asyncio.to_thread(squad_files.forget, self._paths, squad_id)
            except OrchestratorError as error:
                log.warning("a squad's files cannot be removed", squad=squad_id, reason=error.message)
                continue
            self._squads.pop(squad_id, None)
            self._by_req.pop(squad.file.req, None)

    # -- one squad ----------------------------------------------------------------------------------------------

    def _enter(self, file: SquadFile) -> Squad:
        squad = Squad(squad_files.SquadRecord(self._paths.squad_json(file.squad_id), file, self._paths.provenance))
        self._squads[file.squad_id] = squad
        self._by_req[file.req] = file.squad_id
        return squad

    def _of(self, squad_id: str) -> Squad:
        squad = self._squads.get(squad_id)
        if squad is None:
            raise BadRequest("unknown_squad", f"no squad has the id {squad_id[:80]!r}")
        return squad

    def _plans(self, request: SquadRequest, squad_id: str) -> list[MemberPlan]:
        config = self._config()
        inputs = PlanInputs(self._paths.root, request.settings, request.env, config.approval, config.trust)
        plans = []
        for at, member_request in enumerate(request.members):
            place = self._paths.squad_dir(squad_id) / f"m{at}"
            role = request.roles.role(member_request.role_id)
            plans.append(squad_plan.make(inputs, member_request, role, f"{squad_id}-m{at}", place))
        return plans

    async def _run(self, squad: Squad, plans: Sequence[MemberPlan], request: SquadRequest) -> None:
        """Run a squad until its end is recorded, or ``failed`` if not even its start could be recorded."""
        try:
            self._claim()
            await asyncio.to_thread(self._lay_out, squad, plans)
            failpoints.passed("squad:prepared")
            await squad.book.write()
        except OrchestratorError as error:
            squad.failed, squad.over = error, True
            self._by_req.pop(squad.file.req, None)
            squad.changed.notify()
            return
        failpoints.passed("squad:intended")
        squad.begun = True
        squad.changed.notify()
        room = asyncio.Semaphore(request.settings.together(plans[0].program))
        show = request.show

        async def run_member(at: int) -> None:
            member = squad.file.members[at]
            # A CLI keeps a chat in one place: two members of one take turns.
            plan = plans[at]
            chat = plan.request.chat_id and (plan.program, plan.request.chat_id)
            place, record = plan.beginning()
            beginning = self._beginnings.of((plan.program, place), record, squad.stop)
            try:
                async with room, self._chats.of(chat, squad.stop), beginning:
                    try:
                        await self._member(squad, plan, member, show if plan.request.visible else None)
                    finally:
                        self._temporary.end(name_of_member(plan.member_id))
            except Exception:
                log.exception("bug in a squad", member=member.member_id)
                _end(
                    member,
                    CommandOutcome(started=False, reason="a bug in orchestrator; see the daemon's log"),
                    self._clock,
                )
            await self._written(squad)
            failpoints.passed("squad:told")

        await asyncio.gather(*(run_member(at) for at in range(len(plans))))
        await self._over(squad)

    def _lay_out(self, squad: Squad, plans: Sequence[MemberPlan]) -> None:
        squad_files.prepare(self._paths, squad.file.squad_id, len(plans))
        for plan in plans:
            squad_files.write_prompt(plan.prompt_file, plan.prompt)

    async def _member(self, squad: Squad, plan: MemberPlan, member: MemberFile, show: Show | None) -> None:
        member.started_at = rfc3339(self._clock.now())
        chat = plan.request.chat_id or ""
        if plan.new_chat:
            chat, create = plan.creation()
            if create is not None:
                outcome = await self._execute(squad, plan, member, create, "create", None)
                chat = (await asyncio.to_thread(squad_files.beginning, plan.place / "create.stdout")).strip()
                if outcome.status == "completed" and not CHAT.fullmatch(chat):
                    outcome = CommandOutcome(outcome.exit_code, reason=f"no chat's id was printed, but {chat[:80]!r}")
                if outcome.status != "completed":
                    _end(member, outcome, self._clock)
                    return
            member.chat_id = chat
        outcome = await self._execute(squad, plan, member, plan.run(chat), "run", show)
        if plan.new_chat and not chat:
            outputs = [
                await asyncio.to_thread(squad_files.beginning, plan.place / name) for name in ("stdout", "stderr")
            ]
            chat = plan.chat_id_from(*outputs)
            member.chat_id = chat if CHAT.fullmatch(chat) else ""
            if outcome.status == "completed" and not member.chat_id:
                outcome = CommandOutcome(
                    outcome.exit_code, reason="the program did not tell the id of the chat it began"
                )
        _end(member, outcome, self._clock)

    async def _execute(  # noqa: PLR0917  (one command, and all that it belongs to)
        self, squad: Squad, plan: MemberPlan, member: MemberFile, command: MemberCommand, step: Any, show: Show | None
    ) -> CommandOutcome:
        config, settings = self._config(), plan.inputs.settings
        prefix = "create." if step == "create" else ""
        process_command = member_process.CommandToRun(
            member_id=plan.member_id,
            argv=command.argv,
            cwd=plan.cwd,
            env={**plan.inputs.env, **await self._temporary_of(plan), **command.env},
            stdin=await asyncio.to_thread(_input, plan, command),
            stdout=plan.place / f"{prefix}stdout",
            stderr=plan.place / f"{prefix}stderr",
            timeout_s=settings.timeout_s,
            limit_bytes=config.squad_file_bytes,
            grace_s=config.kill_grace_s,
        )
        member.step = step
        hiding: list[asyncio.Task[Callable[[], Awaitable[None]]]] = []

        def started(pid: int, start: int | None) -> None:
            member.state, member.pid, member.start, member.boot_id = "running", pid, start, process_facts.boot_id()
            squad.changed.notify()
            self._tasks.start(self._recorded(squad))
            if show is not None and start is not None:
                seen = WatchedProcess(
                    plan.member_id, plan.request.role_id, pid, start, (process_command.stdout, process_command.stderr)
                )
                hiding.append(asyncio.get_running_loop().create_task(shown_as(show, seen)))

        outcome = await member_process.run(process_command, self._clock, squad.stop, started)
        for task in hiding:
            self._tasks.start(hidden(task, self._clock, self._closing))
        return outcome

    async def _temporary_of(self, plan: MemberPlan) -> dict[str, str]:
        name = name_of_member(plan.member_id)
        return await asyncio.to_thread(self._temporary.variables, name, plan.inputs.env)

    async def _written(self, squad: Squad) -> None:
        """Put the squad's file on the disk; a disk that refuses costs no member its result."""
        try:
            await squad.book.write()
        except OrchestratorError as error:
            log.warning("a squad's file cannot be written", squad=squad.file.squad_id, reason=error.message)
        squad.changed.notify()

    async def _recorded(self, squad: Squad) -> None:
        await self._written(squad)
        failpoints.passed("squad:recorded")

    async def _over(self, squad: Squad) -> None:
        squad.file.ended_at = rfc3339(self._clock.now())
        await self._written(squad)
        failpoints.passed("squad:ended")
        squad.over = True
        squad.changed.notify()

    async def _interrupt(self, squad: Squad) -> None:
        """End what an earlier daemon's members left, and say so of each that had not ended."""
        grace_s = self._config().kill_grace_s
        open_ = [member for member in squad.file.members if member.state not in ENDED]
        await asyncio.gather(*(self._end_left(member, grace_s) for member in open_))
        for member in open_:
            before = "" if member.state == "running" else " before it began"
            _end(
                member, CommandOutcome(started=False, reason=f"{INTERRUPTED}: the daemon ended{before}"), self._clock
            )
        await self._over(squad)

    async def _end_left(self, member: MemberFile, grace_s: float) -> None:
        leader = None
        if member.pid is not None and member.start is not None and member.boot_id == process_facts.boot_id():
            leader = member.pid if process_facts.alive(member.pid, member.start) else None
        count = await member_process.end(member.member_id, leader, grace_s, self._clock, leader=leader)
        if leader is not None or count:
            log.info("ended what a dead daemon left of a squad's member", member=member.member_id, processes=count)
        self._temporary.end(name_of_member(member.member_id))


def _write_down() -> None:
    """Let all daemons of this user know that what we start from now on are squad members."""
    try:
        launched.record_members()
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error
    except OSError as error:
        raise failure(Path(error.filename or launched.PLACE), error) from error


def _input(plan: MemberPlan, command: MemberCommand) -> Path | None:
    """The file with what comes on a command's standard input: mostly the prompt as it is."""
    if command.stdin is None or command.stdin == plan.prompt:
        return None if command.stdin is None else plan.prompt_file
    path = plan.place / "stdin"
    squad_files.write_prompt(path, command.stdin)
    return path


def _end(member: MemberFile, outcome: CommandOutcome, clock: Clock) -> None:
    member.state = outcome.status  # type: ignore[assignment]  # one of its three words
    member.exit_code, member.signal, member.reason = outcome.exit_code, outcome.signal, outcome.reason
    member.ended_at = rfc3339(clock.now())


def _due(file: SquadFile, now: datetime, config: Config) -> bool:
    """Whether an ended squad has been kept long enough: much longer if nobody has read its results."""
    last = file.read_at or file.ended_at or file.created_at
    keep_s = config.squad_keep_s if file.read_at is not None else max(config.squad_keep_s, config.gc_after_s)
    return now - datetime.fromisoformat(last) > timedelta(seconds=keep_s)
