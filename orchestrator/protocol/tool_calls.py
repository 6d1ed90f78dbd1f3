"""What a tool is, and how a call reaches it: strict arguments, one error boundary, progress while it lasts.

Shared by the master's and the agents' tools; knows nothing of either. Everything a model reads comes from here:
an expected error becomes an error result with kind, code, message and next step, anything else `internal`.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any

import mcp_types as types
import orjson
import structlog
from mcp.server.session import ServerSession
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.base import failpoints
from orchestrator.base.errors import BadRequest, Environment, OrchestratorError
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.protocol.tool_schemas import filled_in, input_schema, output_schema
from orchestrator.protocol.traffic import PendingCall
from orchestrator.trust.admission import Rights

log = structlog.get_logger()

INJECTED_ARGUMENTS = frozenset({"wait_for_previous"})
"""Arguments that clients add to every tool (Gemini CLI); dropped. Any other unknown argument is refused."""

NAME_CHARS = 80
NAMES_SHOWN = 10
"""Of unknown arguments: how much of a name, and how many, are named to the caller."""

PROGRESS_EVERY_S = 10.0
"""Keeps the idle timers of clients that look at progress from ending a long call."""


class Arguments(BaseModel):
    """Base of a tool's arguments: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _as_id(given: Any) -> Any:
    # bool is an int in Python, and no id. A number of more digits than any id has stays what it is: wrong.
    return str(given) if type(given) is int and abs(given) < _ID_END else given


_ID_END = 10**128
Id = Annotated[str, BeforeValidator(_as_id)]
"""An id among the arguments: models write ``5`` for ``"5"``, so an integer is taken as the string of its digits."""


Untrusted = Annotated[dict[str, Any] | None, Field(description="settings of the project that nobody has allowed")]
"""Part of an answer: settings in the project's files that do not count until the user has allowed them."""


@dataclass(eq=False)
class Client:
    """One connection: its identity and rights. ``ages``: seconds that its re-sent requests have waited."""

    origin: ConnectionOrigin
    kind: str
    rights: Rights
    toolsets: tuple[str, ...]
    boot: int = 1
    agent_id: str | None = None
    epoch: int = 0
    secret: str = ""
    why_refused: OrchestratorError | None = None
    peer: int = 0  # the process at the other end of the socket, as the system knows it
    peer_start: int = 0  # when it was started, as `ProcessStat` has it; 0: unknown
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # its variables that hold for it alone
    ages: dict[str, float] = field(default_factory=dict)
    listing: set[Any] = field(default_factory=set)  # ids of its requests for our tools that have no answer yet
    name: str = ""
    version: str = ""
    since: str = ""
    call_limit_s: int | None = None  # how long it lets one call run, where its relay was told


Tell = Callable[[str], None]
"""Shows progress to whoever waits for a call."""


@dataclass
class Call:
    """One tools/call: its client, its key for exactly-once, its age, a way to show progress, what the CLI added."""

    client: Client
    req: str
    age_s: float
    tell: Tell
    meta: Mapping[str, Any] = field(default_factory=dict)
    asked: PendingCall = field(default_factory=PendingCall)
    session: ServerSession | None = None  # of a tool that `asks_client`
    ignored: tuple[str, ...] = ()  # arguments that the tool does not have, if it is lenient

    def canceled(self) -> bool:
        """Whether the client itself has asked to end this very call.

        A call is cut short the same way when its connection ends or the daemon does: then this is False.
        """
        return self.asked.canceled


ToolFunction = Callable[[Call, Any], Awaitable[dict[str, Any]]]

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Claude Code defers MCP tools behind a search: a loop that starts before its tools are known never starts, and a
master would pay a model turn to find each of them."""


@dataclass(frozen=True)
class Tool:
    """A row of a toolset. ``run`` gets the validated arguments and returns the structured answer."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    run: ToolFunction
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False  # what it starts can do anything: clients must not pre-approve it
    barred: bool = False  # for this client: nobody knows where it comes from, and the tool does more than look
    opens: bool = False  # read-only, but what it must open for it goes on working
    brief: bool = False  # its schema leaves out bounds: it stands in every conversation of every agent
    asks_client: bool = False  # its run may ask the client something in return, by `Call.session`
    lenient: bool = False  # arguments that it does not have are named in its answer; `Call.ignored` has them
    limits: Callable[[], Mapping[str, int]] = dict  # values of ``{name}`` in its arguments' descriptions

    @property
    def listed(self) -> types.Tool:
        """The tool as tools/list shows it; made once, because a schema takes milliseconds and every CLI lists all."""
        return _listed(self, tuple(self.limits().items()))


@lru_cache(maxsize=256)
def _listed(tool: Tool, limits: tuple[tuple[str, int], ...]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=filled_in(input_schema(tool.arguments, brief=tool.brief), limits),
        output_schema=output_schema(tool.answer),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
        _meta=dict(ALWAYS_LOADED),
    )


def checked(model: type[Arguments], given: Mapping[str, Any] | None) -> Any:
    """The validated arguments; BadRequest ``bad_argument`` names every wrong one."""
    arguments = {key: value for key, value in (given or {}).items() if key not in INJECTED_ARGUMENTS}
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        raise BadRequest("bad_argument", _complaint(model, error, ())) from None


def checked_leniently(model: type[Arguments], given: Mapping[str, Any] | None) -> tuple[Any, tuple[str, ...]]:
    """As `checked`, and the names of the arguments that the model does not have, which are left out."""
    known = argument_names(model)
    ignored = tuple(key for key in given or {} if key not in known and key not in INJECTED_ARGUMENTS)
    try:
        return model.model_validate({key: value for key, value in (given or {}).items() if key in known}), ignored
    except ValidationError as error:
        raise BadRequest("bad_argument", _complaint(model, error, ignored)) from None


def argument_names(model: type[Arguments]) -> tuple[str, ...]:
    """The names of a tool's arguments, as callers write them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def meant(name: str, names: Iterable[str]) -> str:
    """Which of the names a misspelt one most likely means; empty: none of them."""
    plain = {_plain(known): known for known in names}
    close = difflib.get_close_matches(_plain(name[:NAME_CHARS]), plain, 1, cutoff=0.75)
    return plain[close[0]] if close else ""


def unknown_argument(name: str, names: Iterable[str]) -> str:
    """That there is no such argument, and which one may be meant."""
    guess = meant(name, names)
    return f"{name[:NAME_CHARS]}: no such argument" + (f"; did you mean {guess}?" if guess else "")


def _plain(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def _complaint(model: type[Arguments], error: ValidationError, ignored: Iterable[str]) -> str:
    wrong = []
    for item in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            wrong.append(unknown_argument(where, argument_names(model)))
        else:
            wrong.append(f"{where}: {item['msg'][0].lower()}{item['msg'][1:]}")
    wrong += [unknown_argument(name, argument_names(model)) for name in list(ignored)[:NAMES_SHOWN]]
    return "; ".join(wrong)


@dataclass(frozen=True)
class ToolRequest:
    """One tools/call as a client sent it, whichever way it came; ``key``: its JSON-RPC id."""

    key: Any
    name: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any]
    asked: PendingCall
    report: Callable[[float, str | None], Awaitable[None]] | None = None  # sends progress; None: not asked for
    session: ServerSession | None = None


@dataclass(frozen=True)
class ToolAnswer:
    """A tool's result. ``text`` is ``structured`` as JSON: a client gets both forms, and shows its model one.

    Gemini CLI and opencode show the text, Claude Code and Codex the structured form.
    """

    structured: dict[str, Any]
    text: bytes
    error: bool


def _answer(structured: dict[str, Any], *, error: bool = False) -> ToolAnswer:
    return ToolAnswer(structured, orjson.dumps(structured), error)


def _refusal(error: OrchestratorError) -> ToolAnswer:
    """An expected error as a model reads it."""
    return _answer({"error": error.as_dict()}, error=True)


def _allowed(tools: Mapping[str, Tool], client: Client, name: str) -> Tool:
    if client.why_refused is not None:
        raise client.why_refused
    tool = tools.get(name)
    if tool is None:
        raise BadRequest("unknown_tool", f"no tool is called {name!r} here; there are: {', '.join(tools)}")
    if tool.barred:
        raise BadRequest(
            "origin_unknown", f"this process may come from an agent, so it can only read; {name} is refused"
        )
    return tool


def only_reading(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools for a connection of unknown origin: every tool that does more than read is refused."""
    return {name: tool if tool.read_only and not tool.opens else _barred(tool) for name, tool in tools.items()}


@lru_cache(maxsize=64)
def _barred(tool: Tool) -> Tool:
    return replace(tool, barred=True)


LONGEST_ID = 100
"""Bytes of a request's id as JSON; of a longer one the key has the digest."""


def request_key(client: Client, request_id: Any) -> str:
    """The unique key of a request. It stays the same when the request is sent again to the next daemon.

    It is a key of records and tables, so it is short, whatever id the client gives.
    """
    request = orjson.dumps(request_id)
    known = request.decode() if len(request) <= LONGEST_ID else hashlib.sha256(request).hexdigest()
    return f"{client.origin.conn}:{known}"


async def run_tool(tools: Mapping[str, Tool], client: Client, request: ToolRequest) -> ToolAnswer:
    """Run one tools/call inside the error boundary: whatever goes wrong is an answer too."""
    age = client.ages.pop(orjson.dumps(request.key).decode(), 0.0) if client.ages else 0.0
    try:
        tool = _allowed(tools, client, request.name)
        ignored: tuple[str, ...] = ()
        if tool.lenient:
            arguments, ignored = checked_leniently(tool.arguments, request.arguments)
        else:
            arguments = checked(tool.arguments, request.arguments)
        with _progress(request.report, age) as tell:
            req = request_key(client, request.key)
            call = Call(client, req, age, tell, request.meta, request.asked, request.session, ignored)
            result = await tool.run(call, arguments)
            if ignored:
                result = {**result, "ignored_arguments": [name[:NAME_CHARS] for name in ignored[:NAMES_SHOWN]]}
            failpoints.passed(f"answer:{request.name}")
            return _answer(result)
    except OrchestratorError as error:
        return _refusal(error)
    except Exception:
        log.exception("bug in a tool", tool=request.name)
        return _refusal(Environment("internal", f"{request.name} failed unexpectedly"))


@contextlib.contextmanager
def _progress(report: Callable[[float, str | None], Awaitable[None]] | None, age_s: float) -> Iterator[Tell]:
    """Report progress every few seconds, and at once if the tool has something to tell.

    The value is the time since the client first sent the request, because it must rise, also after a daemon restart.
    """
    if report is None:
        yield lambda _message: None
        return
    loop = asyncio.get_running_loop()
    began = time.monotonic() - age_s
    news = asyncio.Event()
    message: str | None = None
    ticker: asyncio.Task[None] | None = None

    async def tick() -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), PROGRESS_EVERY_S)
            news.clear()
            with contextlib.suppress(Exception):
                await report(round(time.monotonic() - began, 3), message)

    def start() -> None:
        nonlocal ticker
        news.set()
        if ticker is None:
            ticker = asyncio.create_task(tick())

    def tell(text: str) -> None:
        nonlocal message
        message = text
        start()

    first = loop.call_later(PROGRESS_EVERY_S, start)  # most calls end before: they need no task
    try:
        yield tell
    finally:
        first.cancel()
        if ticker is not None:
            ticker.cancel()
