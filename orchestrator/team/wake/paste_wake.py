"""The last way to wake an agent: pastes a fixed line into its empty composer, waits for the call that must follow.

Used only if there is a reason to call and no hook or plugin delivers it: the CLI is at its prompt after an Esc, after
a park that ended, after wakes that had no effect, or it has no channel at all. Two looks must show the same screen
with an empty composer and nothing else: never over a draft, a dialog or a question. If the return of our line was
lost, the line is submitted, not pasted again. All of it is retried with growing pauses; then the agent is `blocked`,
and a person must look at it.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import orjson
import structlog

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, call_off, wait_until
from orchestrator.core import blocked
from orchestrator.core import turn_end as rules
from orchestrator.core.prompts import wake_message
from orchestrator.core.record_types import Draft
from orchestrator.core.screens import Screen, explain, stands
from orchestrator.engines.definition import Engine
from orchestrator.journal.project_files import read_json, replace
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

SILENT_S = 10.0
"""Without a call for so long, an agent whose turn is not known to run is looked at."""
WORKING_SILENT_S = 60.0
"""The same for one that works as far as we know: Claude tells nobody of an Esc in the middle of a turn."""
SETTLED_S = 1.0
QUIET_S = 10.0
"""How long the empty composer must have been as it is; the longer time where a human may be at it."""
LOOK_AGAIN_S = 2.0
CALLS_WITHIN_S = 15.0
PAUSES_S = (0.0, 30.0, 60.0, 120.0)
"""Before each try; behind the last one a human is asked."""
TROUBLE_S = 600.0
"""An API that fails or a used up quota comes back without a human: then the work must go on."""
HIDDEN_S = 60.0
"""Seconds without an empty composer after which the agent is recorded as blocked."""
CAUSE = "deaf"
TROUBLES = ("api_error", "rate_limit")


class PastePanes(Protocol):
    """The actions on panes; `team_panes` carries them out in tmux."""

    async def look_at_agent(self, entry: AgentEntry) -> Screen | None: ...
    async def paste(self, entry: AgentEntry, line: str) -> bool: ...
    async def submit(self, entry: AgentEntry) -> bool: ...


@dataclass
class _Tried:
    """An agent that did not react: it is tried again only after one of these has changed."""

    epoch: int
    calls: int
    turn: str


class PasteWake:
    """Wakes the agents of one roster that need a paste. ``seen`` may be called at any time."""

    def __init__(self, roster: Roster, panes: PastePanes) -> None:
        self._roster = roster
        self._panes = panes
        self._clock = roster.clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._given_up: dict[str, _Tried] = {}
        self._closed = False

    def seen(self, entry: AgentEntry) -> None:
        """Note that the agent has changed, and wake it if needed."""
        # Soon, not now: a record may be reported as durable before it is folded into the agent's state.
        asyncio.get_running_loop().call_soon(self._consider, entry)

    def _consider(self, entry: AgentEntry) -> None:
        if self._closed or entry.agent_id in self._tasks or not self._wanted(entry):
            return
        task = asyncio.get_running_loop().create_task(self._care(entry))
        self._tasks[entry.agent_id] = task
        task.add_done_callback(lambda _task: self._tasks.pop(entry.agent_id, None))

    async def close(self) -> None:
        """Stop waking agents."""
        self._closed = True
        await call_off(self._tasks.values())

    # -- who needs it -------------------------------------------------------------------------------------------

    def _wanted(self, entry: AgentEntry) -> bool:
        """Whether the agent has a reason to call but does not, and a paste is possible."""
        agent, row = entry.state, entry.engine
        if row is None or row.composer is None or agent.life != "ready" or entry.process == "gone":
            return False
        if entry.waiting is not None or entry.turn == "parked":
            return False
        if self._given_up.get(entry.agent_id) == _Tried(agent.epoch, entry.calls, entry.turn):
            return False
        cause = rules.due(agent, visible_inbox=entry.inbox.visible_seq, told_stop=entry.told_stop)
        if cause in ("task", "stop"):
            return True
        # An agent with a task may be working on it: it is only pasted to if its turn is known to be over.
        # The answer with a task it never acknowledged may have been discarded by an Esc (Gemini CLI).
        unheard = agent.lease is not None and agent.lease.state == "delivered"
        over = entry.turn in ("ended", "rested") or unheard or _in_trouble(entry)
        return (cause == "lease" and over) or (cause == "cancel" and (over or entry.turn == "human"))

    def _silent_s(self, entry: AgentEntry) -> float:
        if entry.at_prompt:
            return 0.0
        return WORKING_SILENT_S if entry.turn == "working" else SILENT_S

    # -- the ladder ---------------------------------------------------------------------------------------------

    async def _care(self, entry: AgentEntry) -> None:
        try:
            row = entry.engine
            if row is not None and await self._silent(entry):
                await self._try(entry, row)
        except OrchestratorError as error:
            log.warning("agent not woken", agent=entry.agent_id, **error.as_dict())
        except Exception:
            log.exception("bug while waking", agent=entry.agent_id)

    async def _silent(self, entry: AgentEntry) -> bool:
        """Wait until the agent has been silent long enough; False if it no longer needs a wake."""
        signs = [sign for sign in (entry.last_call, entry.last_word) if sign is not None]
        since = max(signs, default=self._clock.monotonic())
        while self._wanted(entry):
            seen = (entry.turn, entry.calls, entry.at_prompt)
            until = since + self._silent_s(entry)

            def moved(seen: tuple[str, int, bool] = seen) -> bool | None:
                changed = (entry.turn, entry.calls, entry.at_prompt) != seen
                return True if changed or not self._wanted(entry) else None

            if not await wait_until(moved, entry.changed, until, self._clock):
                return True
            since = self._clock.monotonic()
        return False

    async def _try(self, entry: AgentEntry, row: Engine) -> None:
        key = self._command(entry)
        # One that was given up is tried anew, for something has changed; else the ladder goes on where it was left,
        # also by a daemon that died between a paste and the call.
        before = 0 if self._given_up.pop(entry.agent_id, None) else self._tries(entry, key)
        pauses = itertools.chain(PAUSES_S, itertools.repeat(TROUBLE_S))
        for tried, pause in itertools.islice(enumerate(pauses), min(before, len(PAUSES_S)), None):
            if tried == len(PAUSES_S):
                reason = "needs a human (does not react to a wake)"
                self._note(entry, blocked.block(entry.state, CAUSE, reason, at=self._at()))
            if tried >= len(PAUSES_S) and not _in_trouble(entry):
                break
            screen = await self._settled(entry, row) if await self._still(entry, pause) else None
            if screen is None:
                return
            line, calls = wake_message(entry.agent_id), entry.calls
            self._count(entry, key, tried + 1)
            self._note(entry, rules.woken(entry.state, at=self._at(), reason="a line was pasted"))
            if not may_submit(row, screen, line):
                if not await self._panes.paste(entry, line):
                    continue
                await self._pause(row.paste_gap_s)
            # A busy CLI may lose the return or take it for a newline, but it never loses the line.
            for again in (True, False):
                await self._panes.submit(entry)
                if await self._called(entry, calls):
                    self._count(entry, key, 0)
                    return
                if not again or not await self._lost(entry, row, line):
                    break
        self._given_up[entry.agent_id] = _Tried(entry.state.epoch, entry.calls, entry.turn)

    def _command(self, entry: AgentEntry) -> str:
        """A key of the command for which the agent is woken."""
        agent = entry.state
        cause = rules.due(agent, visible_inbox=entry.inbox.visible_seq, told_stop=entry.told_stop)
        head = agent.head()
        task = agent.lease.task_id if agent.lease is not None else head.task_id if head is not None else ""
        return f"{agent.epoch} {cause} {'' if cause == 'stop' else task}"

    def _tries(self, entry: AgentEntry, key: str) -> int:
        """Number of lines pasted for this command without a call."""
        try:
            record = read_json(self._roster.paths.nudges(entry.agent_id))
            return int(record["tries"]) if record["command"] == key else 0
        except (OrchestratorError, LookupError, TypeError, ValueError):
            return 0

    def _count(self, entry: AgentEntry, key: str, tries: int) -> None:
        data = orjson.dumps({"command": key, "tries": tries}) + b"\n"
        replace(self._roster.paths.nudges(entry.agent_id), data, mode=0o600)

    async def _settled(self, entry: AgentEntry, row: Engine) -> Screen | None:
        """Look until the screen is still and its composer is empty or has our line; None if no wake is needed."""
        clock, line = self._clock, wake_message(entry.agent_id)
        began = clock.monotonic()
        last: Screen | None = None
        since = began
        while self._wanted(entry):
            screen = await self._panes.look_at_agent(entry)
            now = clock.monotonic()
            if screen is None or screen.dead:
                return None
            free = may_paste(row, screen) or may_submit(row, screen, line)
            if not free or entry.finding is not None:
                last = None
                draft = row.composer is not None and row.composer(screen) == "draft" and entry.turn != "working"
                if draft and now - began >= HIDDEN_S:
                    reason = "a wake waits until its input line is empty"
                    self._note(entry, blocked.block(entry.state, CAUSE, reason, at=self._at()))
            elif screen != last:
                last, since = screen, now
            elif now - since >= (QUIET_S if entry.turn in ("human", "working") else SETTLED_S):
                return screen
            await self._still(entry, SETTLED_S if last is not None else LOOK_AGAIN_S)
        return None

    async def _still(self, entry: AgentEntry, seconds: float) -> bool:
        """Wait ``seconds``; True if the agent still needs a wake."""
        wanted: Callable[[], bool | None] = lambda: None if self._wanted(entry) else True  # noqa: E731 - the look
        return not await wait_until(wanted, entry.changed, self._clock.monotonic() + seconds, self._clock)

    async def _called(self, entry: AgentEntry, calls: int) -> bool:
        """Wait for the call that must follow a paste."""

        def moved() -> bool | None:
            return True if entry.calls != calls or entry.state.life != "ready" else None

        until = self._clock.monotonic() + CALLS_WITHIN_S
        return bool(await wait_until(moved, entry.changed, until, self._clock))

    async def _lost(self, entry: AgentEntry, row: Engine, line: str) -> bool:
        """Whether the pasted line is still in the composer, even if the CLI seems to work."""
        screen = await self._panes.look_at_agent(entry)
        return screen is not None and (_holds(row, screen, line) or _holds(row, screen, row.pasted))

    async def _pause(self, seconds: float) -> None:
        await wait_until(lambda: None, Signal(), self._clock.monotonic() + seconds, self._clock)

    def _note(self, entry: AgentEntry, drafts: list[Draft]) -> None:
        try:
            self._roster.write(entry, drafts)
        except OrchestratorError as error:
            log.warning("not recorded", agent=entry.agent_id, **error.as_dict())

    def _at(self) -> str:
        return rfc3339(self._clock.now())


def may_paste(row: Engine, screen: Screen) -> bool:
    """Whether a line pasted now goes into the empty composer of an idle CLI. Pure."""
    return row.composer is not None and row.composer(screen) == "empty" and _rests(row, screen)


def may_submit(row: Engine, screen: Screen, line: str) -> bool:
    """Whether the composer of an idle CLI has only ``line``, because its return was lost. Pure."""
    return _holds(row, screen, line) and _rests(row, screen)


def _holds(row: Engine, screen: Screen, line: str) -> bool:
    return row.composer is not None and row.composer(screen) == "draft" and stands(screen, line)


def _rests(row: Engine, screen: Screen) -> bool:
    # An interruption on the screen means that a person left; an API error stays on the screen until the next
    # turn. In both cases the CLI is idle. Anything else must be resolved first.
    if row.busy and any(re.search(row.busy, line) for line in screen.lines):
        return False
    finding = explain(row.patterns, screen)
    if finding is not None and finding.kind not in ("interrupted", *TROUBLES):
        return False
    return not row.title_idle or re.search(row.title_idle, screen.title) is not None


def _in_trouble(entry: AgentEntry) -> bool:
    """Whether its screen shows an error of the model's API, which ends a turn without a hook event."""
    return entry.seen is not None and entry.seen.kind in TROUBLES
