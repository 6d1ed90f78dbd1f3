"""Parked agents: handles the hooks of their CLIs, holds them, and wakes or releases the agents.

Carries out the decisions of `core.turn_end`. A held hook is a connection that its caller keeps open, here a
`HookChannel`. Writes `parked` and `woken`, and never touches a pane. All methods are synchronous: each message of a
hook is judged before the next one is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args

import structlog

from orchestrator.base.background_tasks import BackgroundTasks
from orchestrator.base.clock import FOR_EVER_S, rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.base.waiting import Signal, call_off, wait_until
from orchestrator.core import blocked
from orchestrator.core import turn_end as rules
from orchestrator.core.prompts import wake_message
from orchestrator.core.record_types import Draft
from orchestrator.core.screens import QUESTIONS, FindingKind, ScreenFinding
from orchestrator.engines.definition import Engine
from orchestrator.engines.permission_questions import asked
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

log = structlog.get_logger()

HEED_S = 10.0
"""Seconds to wait for the call after a wake; then the wake may have been lost."""
LISTED_S = 20.0
"""Maximum seconds for which a CLI's first prompt is held until it has our tools."""
AFTER_LISTED_S = 1.0
"""Seconds that a CLI needs after our answer to load the tools; on a busy machine 0.2 s were too few."""
"""A plugin blocks nothing: its park has no time limit."""

STILL_HOLDS = (
    "You are agent {agent_id} and still hold task {task_id}. As the user I ask you: finish it now and report its end "
    "with one emit_event (result, error or canceled); then call wait_for_command."
)


@dataclass(eq=False)
class HookChannel:
    """One connection of a hook or a plugin. ``say`` sends one message; it does nothing after the connection ended.

    ``keeps``: it stays open as long as its CLI (a plugin); a hook's connection ends with its first answer. ``depth``:
    how many processes are between the hook and the agent's CLI, if known.
    """

    say: Callable[[dict[str, Any]], None]
    keeps: bool = False
    depth: int | None = None
    conn: str = ""  # id of its connection, the same after it came back to another daemon
    returned: bool = False  # it did
    answered: bool = False

    def none(self) -> None:
        self._answer({"answer": "none"})

    def release(self) -> None:
        self._answer({"answer": "release"})

    def wake(self, reason: str) -> None:
        self._answer({"answer": "wake", "reason": reason})

    def decide(self, **output: Any) -> bool:
        """Send a decision on a permission or a question; False if a hook was answered or has ended before."""
        if self.answered and not self.keeps:
            return False
        self._answer({"answer": "decide", **output})
        return True

    def _answer(self, word: dict[str, Any]) -> None:
        if self.keeps or not self.answered:
            self.answered = True
            self.say(word)


@dataclass
class HookEvent:
    """One event of a CLI: the CLI's name for it, its session, and the small facts that it reported."""

    event: str
    session: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return value if isinstance(value, str) else ""


@dataclass
class _ParkedLaunch:
    """The daemon's memory of one epoch of an agent's CLI."""

    epoch: int
    unheeded: int = 0  # consecutive wakes without a call
    calls: int = -1  # the agent's number of calls at its last wake
    depth: int | None = None  # the smallest depth seen of its own hooks
    channel: HookChannel | None = None  # held
    plugin: HookChannel | None = None  # connected, held or not
    holding: asyncio.Task[None] | None = None


class PermissionRequests(Protocol):
    """Who takes what CLIs ask their user (`team.people.approvals`)."""

    def heard(self, entry: AgentEntry, channel: HookChannel, hook_event: HookEvent) -> bool:
        """Take the event if it asks for a permission or a question; False: it is not one for this service."""

    def answered_in_pane(self, entry: AgentEntry, key: str) -> bool:
        """One request has its answer; True if others of the agent wait still."""

    def went_on(self, entry: AgentEntry, kind: str) -> None:
        """The CLI goes on after an event of this kind: what it asked before was answered."""

    def hook_ended(self, entry: AgentEntry, channel: HookChannel) -> None:
        """The connection has ended."""


class Parking:
    """The parked agents of one roster.

    ``rested`` is called with an agent whose turn has ended or may have ended, and that no hook holds; ``on_usage``
    with what a plugin reports of a model request.
    """

    def __init__(self, roster: Roster, rested: Callable[[AgentEntry], None] = lambda _entry: None) -> None:
        self._roster = roster
        self._rested = rested
        self._clock = roster.clock
        self._lives: dict[str, _ParkedLaunch] = {}
        self._tasks = BackgroundTasks()
        self._closed = False
        self.asks: PermissionRequests | None = None
        self.on_usage: Callable[[AgentEntry, Mapping[str, Any]], None] = lambda _entry, _data: None

    async def close(self) -> None:
        """Stop answering: the hooks reconnect to the next daemon."""
        self._closed = True
        await call_off(self._tasks)

    # -- what hooks tell ----------------------------------------------------------------------------------------

    def heard(self, entry: AgentEntry, channel: HookChannel, hook_event: HookEvent) -> None:
        """Take one event of an agent's CLI; ``channel`` is answered now or later, exactly once for a hook."""
        row = entry.engine
        if self._closed:
            return  # the hook comes back to the next daemon
        if row is None or entry.state.life not in ("starting", "ready"):
            channel.release()
            return
        life = self._life(entry)
        kind = row.hook_events.get(hook_event.event, "")
        if self._stranger(life, channel):
            channel.none()
            return
        if kind == "usage":
            self.on_usage(entry, hook_event.data)  # it says nothing of the turn
            return
        entry.hook_epoch = entry.state.epoch
        entry.last_word = self._clock.monotonic()
        if hook_event.session:
            entry.session = hook_event.session
        if channel.keeps:
            life.plugin = channel
        if self.asks is not None and self.asks.heard(entry, channel, hook_event):
            entry.changed.notify()
            return
        if kind == "answered":
            if self.asks is not None and self.asks.answered_in_pane(entry, hook_event.text("request")):
                channel.none()
                return
            kind = "prompt"
        if kind not in ("permission", "notice", "start", "tool"):
            entry.finding = None  # the CLI goes on: nobody asks for anything any more
            if self.asks is not None:
                self.asks.went_on(entry, kind)
        if kind != "notice":
            entry.at_prompt = False
        if kind == "turn_end":
            self._turn_ended(entry, life, channel, row)
        elif kind == "prompt":
            self._prompted(entry, life, channel)
        elif _command_ended(entry, kind, hook_event):
            self._let_go(entry, life, "ended", "a human has typed a command")
            entry.turn, entry.at_prompt = "ended", True
            channel.none()
        elif kind == "start" and row.holds_start:
            self._first(entry, channel)
        else:
            self._apply_hook_event(entry, life, channel, kind, hook_event)
            channel.none()
        entry.changed.notify()
        self._rested(entry)

    @staticmethod
    def _stranger(life: _ParkedLaunch, channel: HookChannel) -> bool:
        """Whether the hook is of another CLI, which the agent has started from its own, with its environment."""
        if channel.depth is None:
            return False
        life.depth = channel.depth if life.depth is None else min(life.depth, channel.depth)
        return channel.depth > life.depth + 1  # a shell more or less is no other CLI

    def _apply_hook_event(
        self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel, kind: str, hook_event: HookEvent
    ) -> None:
        if kind == "interrupt":
            self._let_go(entry, life, "human", "a human has interrupted it")
            entry.turn = "human"
        elif kind == "permission":
            if not channel.keeps:  # a CLI with hooks asks one question at a time: this one is new
                answered = blocked.unblock(entry.state, QUESTIONS, at=self._at(), reason="it was answered")
                self._note(entry, answered)
            entry.finding = asked(hook_event.data) or ScreenFinding("permission", "asks for a permission")
        elif kind == "notice":
            message = hook_event.text("message")
            if hook_event.text("notification_type") == "idle_prompt" and entry.turn == "working":
                entry.turn = "ended"
            known = next((kind for kind in get_args(FindingKind) if kind == hook_event.text("kind")), None)
            if known is not None:  # a plugin knows what it tells
                entry.finding = ScreenFinding(known, message, hook_event.text("until") or None)
            elif "permission" in f"{hook_event.text('notification_type')} {message}".lower():
                exact = asked(hook_event.data)
                known_question = entry.finding is not None and entry.finding.kind in QUESTIONS
                if exact is not None or not (known_question or QUESTIONS & entry.state.blocks.keys()):
                    entry.finding = exact or ScreenFinding("permission", message or "asks for a permission")
        elif kind == "end":
            self._let_go(entry, life, "ended", "its session has ended")
            entry.turn = "ended"

    def _prompted(self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel) -> None:
        self._let_go(entry, life, "working", "a message was typed")
        entry.turn = "working"
        self._first(entry, channel)

    def _first(self, entry: AgentEntry, channel: HookChannel) -> None:
        if entry.state.life == "starting" and entry.listed_epoch < entry.state.epoch and not channel.keeps:
            self._tasks.start(self._until_listed(entry, channel))
        else:
            channel.none()

    async def _until_listed(self, entry: AgentEntry, channel: HookChannel) -> None:
        """Hold a first prompt back until the CLI has our tools: its first request must offer them to the model."""
        clock, epoch = self._clock, entry.state.epoch

        def listed() -> bool | None:
            return True if entry.listed_epoch >= epoch or entry.state.life != "starting" else None

        if await wait_until(listed, entry.changed, clock.monotonic() + LISTED_S, clock):
            await wait_until(lambda: None, Signal(), clock.monotonic() + AFTER_LISTED_S, clock)
        channel.none()

    # -- the end of a turn --------------------------------------------------------------------------------------

    def _turn_ended(self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel, row: Engine) -> None:
        if life.channel is not None and life.channel is not channel:
            life.channel.release()  # the newest hook wins
        self._drop(life)
        if entry.waiting is not None:
            entry.waiting.superseded = True  # nobody listens to it any more
        if entry.calls > life.calls:
            life.unheeded = 0
        cause = self._due(entry)
        verdict = rules.turn_end(cause, entry.state, life.unheeded)
        if verdict.word == "wake":
            self._wake(entry, life, channel, verdict.cause)
        elif verdict.word == "park":
            self._park(entry, life, channel, row)
        else:
            entry.turn = "ended"
            channel.release()
            self._note(entry, rules.woken(entry.state, at=self._at(), reason="its turn ends"))
            self._unheeded(entry, row, verdict.cause)

    def _due(self, entry: AgentEntry, known_cancel: str | None = None) -> rules.Cause:
        return rules.due(
            entry.state,
            visible_inbox=entry.inbox.visible_seq,
            told_stop=entry.told_stop,
            known_cancel=known_cancel,
        )

    def _unheeded(self, entry: AgentEntry, row: Engine, cause: rules.Cause) -> None:
        """It was woken again and again and calls nothing: say so, where no other way to reach it is left."""
        if cause in ("lease", "start", "cancel"):
            reason = "ends its turns without reporting" if cause != "start" else "ends its turns without a call"
            self._note(entry, blocked.block(entry.state, "no_report", reason, at=self._at()))
        elif cause == "task" and row.composer is None:
            reason = "does not call wait_for_command"
            self._note(entry, blocked.block(entry.state, "deaf", reason, at=self._at()))

    def _park(self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel, row: Engine) -> None:
        life.channel = channel
        entry.turn = "parked"
        self._note(entry, rules.parked(entry.state, at=self._at()))
        lease = entry.state.lease
        known = lease.task_id if lease is not None and lease.cancel_requested else None
        limit_s = FOR_EVER_S if channel.keeps else row.park_limit_s
        life.holding = self._tasks.start(self._hold(entry, life, channel, limit_s, known))

    async def _hold(
        self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel, limit_s: float, known: str | None
    ) -> None:
        """Wait until there is a reason to wake the agent, the agent calls by itself, or the park's time is over."""

        def look() -> str | None:
            if entry.turn != "parked" or entry.state.epoch != life.epoch:
                return "moved"
            if entry.state.life != "ready":
                return "over"
            return self._due(entry, known) or None

        outcome = await wait_until(look, entry.changed, self._clock.monotonic() + limit_s, self._clock)
        life.holding = None
        if outcome is None:
            pasted = entry.engine is not None and entry.engine.composer is not None
            self._let_go(entry, life, "rested" if pasted else "ended", "one park lasts no longer")
        elif outcome in ("moved", "over"):
            self._drop(life)
            channel.release()
        else:
            self._drop(life)
            self._wake(entry, life, channel, self._due(entry, known))
        entry.changed.notify()

    def _wake(self, entry: AgentEntry, life: _ParkedLaunch, channel: HookChannel, cause: rules.Cause) -> None:
        life.unheeded = 1 if entry.calls > life.calls else life.unheeded + 1
        life.calls = entry.calls
        entry.turn, entry.last_word = "working", self._clock.monotonic()
        lease = entry.state.lease
        if cause == "lease" and lease is not None:
            reason = STILL_HOLDS.format(agent_id=entry.agent_id, task_id=lease.task_id)
        else:
            reason = wake_message(entry.agent_id)
        channel.wake(reason)
        self._note(entry, rules.woken(entry.state, at=self._at(), reason=rules.BECAUSE[cause]))
        self._tasks.start(self._heeded(entry, life, life.unheeded))

    async def _heeded(self, entry: AgentEntry, life: _ParkedLaunch, wake: int) -> None:
        """Say that we do not know what its CLI does when nothing follows a wake: another way is taken then."""
        clock, calls = self._clock, entry.calls

        def moved() -> bool | None:
            other = entry.calls != calls or entry.turn != "working" or life.unheeded != wake
            return True if other else None

        if not await wait_until(moved, entry.changed, clock.monotonic() + HEED_S, clock):
            entry.turn = "unknown"
            entry.changed.notify()
            self._rested(entry)

    # -- the end of a park --------------------------------------------------------------------------------------

    def human(self, entry: AgentEntry) -> None:
        """A human's message waits in the queue of the parked CLI: let the turn end, so that it is sent."""
        # Not `working`: a command of the CLI begins no turn, and the hook of a turn that begins says so.
        self._let_go(entry, self._life(entry), "human", "a human has typed a message")

    def stale(self, entry: AgentEntry) -> None:
        """The CLI has ended its turn and left the hook running (Esc): a wake would be swallowed."""
        self._let_go(entry, self._life(entry), "human", "a human has interrupted it")

    def gone(self, entry: AgentEntry, channel: HookChannel) -> None:
        """The connection ended. A held hook that ends by itself was ended by its CLI: a human pressed Esc."""
        life = self._lives.get(entry.agent_id)
        channel.answered = True
        if self.asks is not None and not self._closed:
            self.asks.hook_ended(entry, channel)
        if life is None or self._closed:
            return
        if life.plugin is channel:
            life.plugin = None
        if life.channel is channel:
            turn = "unknown" if channel.keeps or entry.process == "gone" else "human"
            self._let_go(entry, life, turn, "its CLI has ended the hook")

    def _let_go(self, entry: AgentEntry, life: _ParkedLaunch, turn: str, reason: str) -> None:
        """Release a held hook, if there is one."""
        channel = life.channel
        self._drop(life)
        if channel is None:
            return
        channel.release()
        entry.turn, entry.last_word = turn, self._clock.monotonic()
        self._note(entry, rules.woken(entry.state, at=self._at(), reason=reason))
        entry.changed.notify()
        self._rested(entry)

    @staticmethod
    def _drop(life: _ParkedLaunch) -> None:
        if life.holding is not None:
            life.holding.cancel()
        life.holding = life.channel = None

    # -- small things -------------------------------------------------------------------------------------------

    def _life(self, entry: AgentEntry) -> _ParkedLaunch:
        life, epoch = self._lives.get(entry.agent_id), entry.state.epoch
        if life is None or life.epoch != epoch:
            if life is not None:
                self._drop(life)
                entry.turn, entry.at_prompt, entry.empty_waits = "unknown", False, 0
            life = self._lives[entry.agent_id] = _ParkedLaunch(epoch)
        return life

    def _note(self, entry: AgentEntry, drafts: list[Draft]) -> None:
        try:
            self._roster.write(entry, drafts)
        except OrchestratorError as error:
            # The disk is full: what a hook is answered does not hang on these records.
            log.warning("not recorded", agent=entry.agent_id, **error.as_dict())

    def _at(self) -> str:
        return rfc3339(self._clock.now())


def _command_ended(entry: AgentEntry, kind: str, hook_event: HookEvent) -> bool:
    """Whether a command of the CLI itself has ended, with the CLI at its prompt: no turn follows.

    A compaction that the CLI begins by itself is in the middle of a turn.
    """
    cleared = kind == "start" and hook_event.text("source") == "clear"
    compacted = kind == "compacted" and hook_event.text("trigger") == "manual"
    return entry.state.life == "ready" and (cleared or compacted)
