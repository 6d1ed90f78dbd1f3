"""The part of an agent: what its conversation tells, and what it does next. Pure; follows the loop of the agent prompt.

A task's payload says what the scripted model does, all parts in this order, any of them left out:

    {"progress": 3}        three progress events
    {"calls": [{"name": "run_shell_command", "arguments": {...}}]}   calls of the CLI's own tools, by suffix
    {"at_once": true}      those calls in one message, not one after the other
    {"hold": "gate"}       heartbeats until the test opens that gate (`Brain.open`) or cancels the task
    {"fail": "why"}        ends in error {"code": "scripted", "message": "why"}
    {"tell": true}         ends in result {"told": [the JSON, else the text, that each of those calls came back with]}
    {"say": "x"}           ends in result {"said": "x"}
    {"result": {...}}      ends in result with that payload
    {"misbehave": ["forget_ack"]}    faults of `faults.FAULTS` at this task
    anything else          ends in result {"echo": payload}

A cancel seen in any answer ends the task in canceled {"left": "nothing"}.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.models.turn import Call, Message, Reply, Result, Turn

WAIT, EMIT = "wait_for_command", "emit_event"
TERMINAL = ("result", "error", "canceled")
WAIT_MS = 45_000
_NAMED = (
    re.compile(r"\byou are agent\s+[`\"']?([a-z0-9][a-z0-9-]{0,127})", re.IGNORECASE),
    re.compile(r"\bagent_id[`\"']?\s*[:=]?\s*[`\"']([a-z0-9][a-z0-9-]{0,127})[`\"']"),
)
_OVER = frozenset({"replaced", "agent_ended"})
_ASIDE = re.compile(
    r"<(system-reminder|environment_context)>.*?</\1>|\[Request interrupted by user[^\]]*\]", re.DOTALL
)
_NO_TOOL = frozenset({"do_everything", "invalid"})  # opencode puts `invalid` in the place of an unknown tool


def agent_of(turn: Turn) -> str | None:
    """The agent this conversation belongs to; None for a master and for anything else.

    Told by the system prompt or a user message, else by the arguments of its own calls, else by a `reminder`.
    """
    texts = [turn.system, *(message.text for message in turn.messages if message.role == "user")]
    for text in texts:
        for pattern in _NAMED:
            if found := pattern.search(text):
                return found[1]
    for message in turn.messages:
        for call in message.calls:
            if call.is_of(WAIT) and isinstance(call.arguments.get("agent_id"), str):
                return str(call.arguments["agent_id"])
    for message in reversed(turn.messages):
        for result in message.results:
            reminder = (result.value or {}).get("reminder")
            if isinstance(reminder, str) and (found := _NAMED[0].search(reminder)):
                return found[1]
    return None


@dataclass
class Memory:
    """What an agent knows from its conversation."""

    agent_id: str
    cursor: str | None = None
    task: dict[str, Any] | None = None  # the command as last handed out
    redelivered: bool = False
    emitted: list[str] = field(default_factory=list)  # types stored for the task it holds, in order
    refused: int = 0  # errors in a row, those of strays left out
    waits: int = 0  # waits since the task was first handed out
    others: list[Result] = field(default_factory=list)  # what calls of other tools came back with since then
    strays: int = 0  # events for something else since then
    texts: int = 0  # turns it ended since then
    cancel: bool = False
    started: bool = False  # has called a tool at all
    parked: bool = False
    answers: tuple[Result, ...] = ()  # of the last round
    heard: str = ""  # what the last user message says

    @property
    def task_id(self) -> str:
        """The task it holds, or an empty text."""
        return str(self.task["task_id"]) if self.task else ""

    @property
    def payload(self) -> dict[str, Any]:
        """The task's payload, if it is an object."""
        payload = self.task.get("payload") if self.task else None
        return payload if isinstance(payload, dict) else {}

    def done(self) -> list[Result]:
        """What the calls of tools that there are came back with, for the task it holds."""
        return [result for result in self.others if result.call.name not in _NO_TOOL]

    @property
    def ended(self) -> int:
        """How many terminal events of the task it knows to be stored."""
        return sum(1 for kind in self.emitted if kind in TERMINAL)


def remember(agent_id: str, messages: tuple[Message, ...]) -> Memory:
    """Fold a conversation."""
    memory = Memory(agent_id)
    for message in messages:
        if message.role == "assistant":
            memory.started = memory.started or bool(message.calls)
            memory.texts += bool(message.text and not message.calls)
            memory.answers, memory.heard = (), ""
            continue
        memory.answers, memory.heard = message.results, _heard(message.text)
        if not message.results:
            memory.parked = False
        for result in message.results:
            if result.call.is_of(WAIT):
                _wait_answered(memory, result)
            elif result.call.is_of(EMIT):
                _emit_answered(memory, result)
            else:
                memory.others.append(result)
    return memory


def _heard(text: str) -> str:
    """The words of a user or a hook, without what the CLI adds."""
    return _ASIDE.sub(lambda found: found[0] if WAIT in found[0] else "", text).strip()


def _wait_answered(memory: Memory, result: Result) -> None:
    memory.waits += 1
    value = result.value or {}
    if "status" not in value:
        memory.refused += 1
        return
    memory.refused = 0
    memory.cursor = value.get("cursor") or memory.cursor
    memory.parked = bool(value.get("park"))
    command = value.get("command") or {}
    if command.get("kind") == "task":
        if command.get("task_id") != memory.task_id:
            memory.emitted, memory.others = [], []
            memory.waits = memory.texts = memory.strays = 0
        memory.task = command
        memory.redelivered = bool(command.get("redelivered"))
        memory.cancel = False
    elif command.get("kind") == "cancel":
        if memory.task_id != command.get("task_id"):
            memory.task = {"task_id": command.get("task_id")}
            memory.emitted = []
        memory.cancel = True


def _emit_answered(memory: Memory, result: Result) -> None:
    value, arguments = result.value or {}, result.call.arguments
    own = arguments.get("task_id") in {None, memory.task_id} and arguments.get("agent_id") == memory.agent_id
    memory.strays += not own
    if not value.get("ok"):
        memory.refused += own
        return
    memory.refused = 0
    memory.cancel = bool(value.get("cancel_requested"))
    if own:
        memory.emitted.append(str(arguments.get("type")))


def next_move(
    turn: Turn,
    memory: Memory,
    faults: frozenset[str],
    gate_open: Callable[[str], bool],
) -> Reply:
    """What the agent does now. ``gate_open`` may block for a moment; it sets the pace of heartbeats."""
    waits, emits = turn.tool(WAIT), turn.tool(EMIT)
    if waits is None or emits is None:
        return Reply("I do not see the tools wait_for_command and emit_event.")
    me = _Agent(turn, memory, faults, gate_open)
    if not memory.answers or (memory.heard and all(result.value is None for result in memory.answers)):
        if memory.started and WAIT not in memory.heard:
            return Reply(f"You said: {memory.heard[-200:]}")
        return me.wait()
    codes = [_code(result) for result in memory.answers]
    if _OVER & set(codes):
        return Reply("Another life of mine has taken over. Goodbye.")
    if memory.refused > 8:
        return Reply(f"I give up: {memory.answers[-1].text[:200]}")
    for result in memory.answers:
        if ((result.value or {}).get("command") or {}).get("kind") == "stop":
            return Reply("Goodbye.")
    if memory.parked:
        return Reply("Parked.")
    if all((result.value or {}).get("status") == "timeout" for result in memory.answers):
        return me.wait()
    if memory.task is None or (memory.ended and not _handed_out(memory)):
        return me.after_task()
    return me.work()


def _code(result: Result) -> str:
    error = (result.value or {}).get("error")
    return str(error.get("code")) if isinstance(error, dict) else ""


def _handed_out(memory: Memory) -> bool:
    """Whether the last round handed the task out once more although its end was reported."""
    return any(
        ((result.value or {}).get("command") or {}).get("task_id") == memory.task_id for result in memory.answers
    )


class _Agent:
    """One decision: the tools by the names this CLI gave them, and the moves."""

    def __init__(self, turn: Turn, memory: Memory, faults: frozenset[str], gate_open: Callable[[str], bool]) -> None:
        own = memory.payload.get("misbehave") or []
        self._turn = turn
        self._memory = memory
        self._faults = faults | frozenset([own] if isinstance(own, str) else own)
        self._gate_open = gate_open

    def _call(self, suffix: str, arguments: dict[str, Any]) -> Call:
        tool = self._turn.tool(suffix)
        if tool is None:
            return Call(name=suffix, arguments=arguments)
        return Call(name=tool.name, arguments=arguments, namespace=tool.namespace)

    def _wait_call(self) -> Call:
        arguments: dict[str, Any] = {"agent_id": self._memory.agent_id, "timeout_ms": WAIT_MS}
        if self._memory.cursor:
            arguments["cursor"] = self._memory.cursor
        return self._call(WAIT, arguments)

    def wait(self) -> Reply:
        """Ask for the next command."""
        return Reply(calls=(self._wait_call(),))

    def _emit(self, kind: str, payload: Any = None) -> Call:
        arguments = {"agent_id": self._memory.agent_id, "task_id": self._memory.task_id, "type": kind}
        if payload is not None:
            arguments["payload"] = payload
        if kind in TERMINAL:
            arguments["done"] = True
        return self._call(EMIT, arguments)

    def after_task(self) -> Reply:
        """Between two tasks."""
        memory, faults = self._memory, self._faults
        reported = any(result.call.is_of(EMIT) for result in memory.answers)
        waited = any(result.call.is_of(WAIT) for result in memory.answers)
        if reported and not waited and memory.ended == 1:
            if "terminal_twice" in faults:
                return Reply(calls=(self._ending(),))
            if "end_turn" in faults and not memory.texts:
                return Reply("I have done the task.")
            if "double_wait" in faults:
                return Reply(calls=(self._wait_call(), self._wait_call()))
        return self.wait()

    def work(self) -> Reply:
        """The next step of the task it holds."""
        memory, faults = self._memory, self._faults
        if "plain_text" in faults and not memory.texts:
            return Reply("I will do that task right away.")
        if "unknown_tool" in faults and not memory.others:
            return Reply(calls=(Call(name="do_everything", arguments={"task_id": memory.task_id}),))
        if memory.cancel:
            return Reply(calls=(self._emit("canceled", {"left": "nothing"}),))
        if memory.ended:
            return self._end()
        if "amnesia" in faults and "ack" in memory.emitted and not memory.redelivered:
            return self._amnesia()
        if "wrong_agent_id" in faults and not memory.strays and "ack" not in memory.emitted:
            stray = {"agent_id": f"not-{memory.agent_id}", "task_id": memory.task_id, "type": "ack"}
            return Reply(calls=(self._call(EMIT, stray),))
        if "ack" not in memory.emitted and "forget_ack" not in faults:
            return Reply(calls=(self._emit("ack"),))
        return self._do() or self._end()

    def _amnesia(self) -> Reply:
        last = self._memory.answers[-1]
        reminder = str((last.value or {}).get("reminder") or last.text)
        if WAIT not in reminder:
            return Reply("I do not know what I am.")
        named = _NAMED[0].search(reminder)
        self._memory.agent_id = named[1] if named else ""
        self._memory.cursor = None
        return self.wait()

    def _do(self) -> Reply | None:
        memory, payload = self._memory, self._memory.payload
        steps = int(payload.get("progress") or 0)
        done = memory.emitted.count("progress")
        if done < steps:
            return Reply(calls=(self._emit("progress", {"step": done + 1, "of": steps}),))
        wanted = payload.get("calls") or []
        made = memory.done()
        if len(made) < len(wanted):
            now = wanted[len(made) :] if payload.get("at_once") else [wanted[len(made)]]
            return Reply(calls=tuple(self._call(one["name"], one.get("arguments") or {}) for one in now))
        gate = payload.get("hold")
        if gate and not self._gate_open(str(gate)):
            return Reply(calls=(self._emit("heartbeat", {"beat": memory.emitted.count("heartbeat") + 1}),))
        return None

    def _ending(self) -> Call:
        memory, payload = self._memory, self._memory.payload
        if memory.cancel:
            return self._emit("canceled", {"left": "nothing"})
        if "fail" in payload:
            return self._emit("error", {"code": "scripted", "message": payload["fail"]})
        if payload.get("tell"):
            told = [result.text if result.value is None else result.value for result in memory.done()]
            return self._emit("result", {"told": told})
        if "result" in payload:
            return self._emit("result", payload["result"])
        if "say" in payload:
            return self._emit("result", {"said": payload["say"]})
        return self._emit("result", {"echo": (memory.task or {}).get("payload")})

    def _end(self) -> Reply:
        memory, faults = self._memory, self._faults
        if "never_terminal" in faults or ("forget_terminal" in faults and not memory.waits):
            return self.wait()
        if "wrong_task_id" in faults and not memory.strays:
            stray = {"agent_id": memory.agent_id, "task_id": "not-mine", "type": "result", "done": True}
            return Reply(calls=(self._call(EMIT, stray),))
        if "parallel" in faults:
            return Reply(calls=(self._ending(), self._wait_call()))
        return Reply(calls=(self._ending(),))
