"""The part of a master: scripts that tests write as generators, played once per request however often it comes.

A script is a generator function registered under a name; the user's prompt holds a line ``MASTER SCRIPT <name>``:

    def lead():
        made = yield "agents_create", {"agents": [{"name": "a"}]}            # one call: its answer as a dict
        first, second = yield [("agent_get", {...}), ("agent_get", {...})]   # several in one turn: a list
        said = yield "I wait for you."                                       # a text ends the turn: the next prompt
        return "All done."                                                   # the last text

What a script raises ends it with a text; the fixture `models` raises it again at the end of the test.
A tool is named without the CLI's prefix; while the CLI does not offer it yet (Claude Code asks its model before its
servers are up), the model tries again. An answer that is no JSON object comes as ``{"text": ...}``; one that the
CLI marks as failed has ``"failed": True`` besides. ``MASTER CALLS [["tool", {...}], ...]`` in the prompt is a script
without code: one call after the other.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator
from typing import Any

from tests.e2e.models.turn import Call, Message, Reply, Result, Turn

Script = Callable[[], Generator[Any, Any, str | None]]
_MARK = re.compile(r"MASTER SCRIPT ([A-Za-z0-9_-]+)")
_CALLS = re.compile(r"MASTER CALLS (\[.*)", re.DOTALL)
_ASIDE = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
NOT_YET = "not_there_yet"
SEARCH = "ToolSearch"  # Claude Code shows its model most tools only when it looks for them
SERVERS = ("orchestrator", "gsd")  # what `orchestrator setup` calls its entries
_TRIES = 240
_PAUSE_S = 0.25


def marked(turn: Turn) -> tuple[str, int] | None:
    """The last script that a user message asks for (its name, or the calls as JSON), and where that message stands."""
    for index in range(len(turn.messages) - 1, -1, -1):
        message = turn.messages[index]
        if message.role != "user":
            continue
        if found := _MARK.findall(message.text):
            return found[-1], index
        if calls := _CALLS.search(message.text):
            return calls[1], index
    return None


def _literal(text: str) -> Script:
    calls, _end = json.JSONDecoder().raw_decode(text)

    def script() -> Generator[Any, Any, str]:
        yield from (tuple(call) for call in calls)
        return "All calls are made."

    return script


class _Play:
    """One performance: the generator, and every reply it has led to."""

    def __init__(self, script: Script) -> None:
        self._generator = script()
        self._moves: list[Any] = []
        self._over = False
        self.answers: list[Any] = []
        self.error: Exception | None = None

    def move(self, step: int, given: Any) -> Any:
        """The move after ``step`` replies; ``given`` is what the last one came back with."""
        if step < len(self._moves):
            return self._moves[step]
        if self._over:
            return self._moves[-1] if self._moves else ""
        if step:
            self.answers.append(given)
        try:
            move = next(self._generator) if not step else self._generator.send(given)
        except StopIteration as end:
            self._over = True
            move = end.value or "Done."
        except Exception as error:  # noqa: BLE001  (a test's own code; the `models` fixture raises it)
            self._over = True
            self.error = error
            move = f"My script failed: {error!r}"
        self._moves.append(move)
        return move

    @property
    def over(self) -> bool:
        """Whether the script has returned."""
        return self._over


class Masters:
    """The scripts and their performances; one performance per name."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._plays: dict[str, _Play] = {}
        self._lock = threading.Lock()

    def add(self, name: str, script: Script) -> None:
        """Register a script; a second one of the same name starts anew."""
        with self._lock:
            self._scripts[name] = script
            self._plays.pop(name, None)

    def over(self, name: str) -> bool:
        """Whether the script has run to its end."""
        play = self._plays.get(name)
        return play is not None and play.over

    def answers(self, name: str) -> list[Any]:
        """What the script's moves came back with so far."""
        play = self._plays.get(name)
        return list(play.answers) if play else []

    def errors(self) -> list[Exception]:
        """What scripts have raised: a failed assertion, an answer of another shape."""
        return [play.error for play in self._plays.values() if play.error is not None]

    def reply(self, turn: Turn, name: str, start: int) -> Reply:
        """The script's next move in this conversation."""
        later = turn.messages[start + 1 :]
        mine = [message for message in later if message.role == "assistant"]
        tries = sum(1 for message in mine if any(call.name in {NOT_YET, SEARCH} for call in message.calls))
        step = len(mine) - tries
        with self._lock:
            if name not in self._scripts and not name.startswith("["):
                return Reply(f"There is no master script {name}.")
            if name not in self._plays:
                self._plays[name] = _Play(self._scripts[name] if name in self._scripts else _literal(name))
            move = self._plays[name].move(step, _given(later))
        if isinstance(move, str):
            return Reply(move)
        moves = [move] if isinstance(move, tuple) else list(move)
        missing = [tool for tool, _arguments in moves if turn.tool(tool) is None]
        if missing and tries < _TRIES:
            threading.Event().wait(_PAUSE_S)
            return Reply(calls=(_look(turn, missing, tries),))
        return Reply(calls=tuple(_call(turn, tool, arguments) for tool, arguments in moves))


def _look(turn: Turn, missing: list[str], tries: int) -> Call:
    if turn.tool(SEARCH) is None:
        return Call(name=NOT_YET, arguments={"tool": missing[0], "try": tries})
    names = ",".join(f"mcp__{server}__{tool}" for tool in dict.fromkeys(missing) for server in SERVERS)
    return Call(name=SEARCH, arguments={"query": f"select:{names}", "max_results": 10})


def _call(turn: Turn, suffix: str, arguments: dict[str, Any]) -> Call:
    tool = turn.tool(suffix)
    if tool is None:
        return Call(name=suffix, arguments=arguments)
    return Call(name=tool.name, arguments=arguments, namespace=tool.namespace)


def _given(later: tuple[Message, ...]) -> Any:
    if not later:
        return None
    last = later[-1]
    if not last.results:
        return _ASIDE.sub("", last.text).strip()
    values = [_value(result) for result in last.results]
    return values[0] if len(values) == 1 else values


def _value(result: Result) -> dict[str, Any]:
    value = dict(result.value) if result.value is not None else {"text": result.text}
    return value | {"failed": True} if result.failed else value
