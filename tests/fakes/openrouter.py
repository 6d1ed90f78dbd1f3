"""OpenRouter and the Smart Spawn API on 127.0.0.1, for tests: real HTTP, and it does what it is told to do.

In a test: ``with Fake() as fake: ...`` serves ``fake.url`` (OPENROUTER_BASE_URL) and ``fake.planner_url``
(SMART_SPAWN_API_URL) from a thread of this process, so what it saw outlives a client that is killed. As a process:
``python -m tests.fakes.openrouter`` prints its port and serves until its stdin is closed; ``GET /fake`` says what it
saw, ``POST /fake`` takes ``{"rules": [...], "hold": [names], "release": [names]}``.

Untold, each call is answered at once, at a length of at least 600 characters that depends on model and prompt only,
with usage and a cost by ``fake.prices``, which ``GET /v1/models`` serves. A *rule* is a dict; it comes from
``fake.rule(...)`` or from the prompt itself: ``DO {json}`` anywhere in it (``PLAN {json}`` in a task for the Smart
Spawn API). The first rule that fits applies. Which calls it fits:

  model   a glob              match   a substring of system + prompt       path   a glob, "/v1/chat/completions"
  on      "merge" | "task": whether the prompt asks for a "## Dissent" section
  skip    let so many pass first       times   then so many calls; both counted per call that is the same in model
                                       and messages, or over all calls with "per": "all"

What it does (OpenRouter; status, delay_ms, hold, hang, drop, body, nonsense, headers also for the Smart Spawn API):

  delay_ms       before anything is sent; drip_ms: before each piece of the text
  hold           the name of a gate: wait until fake.release(name);  hang: wait until the client has gone
  drop           close the connection; with "reset": true by RST
     at          where hold, hang, drop take place: "start" (default), "headers", "mid" (half of the text), "end"
                 (all of the text, before finish_reason), "done" (before [DONE])
  status         that HTTP status with a clean error body;  message, metadata, headers as given
  retry_after    seconds;  via: "header" (default), "date", "body", "headers" (metadata.headers), "reset"
  error          that code with HTTP 200;  where: "body" (default), "choice", "event" (an SSE event mid-stream)
  nonsense       "html", "cut", "types", "bytes", "nothing", "list";  body, content_type: verbatim
  answer, finish the text, finish_reason;  content: the content verbatim (null, a part list);  bytes: so long an answer
  served         which model says it answered
  usage          verbatim (null: none);  cost: verbatim, null: none
  json           answer as plain JSON although streaming was asked;  space: so many blanks before it
  comments       so many keep-alive comments before each piece;  eol: line ending;  pieces: into so many
  content_type   of whatever is answered
  list           of GET /v1/models: the list of that kind of server, from model_lists.LISTS

A server of another kind: ``fake.only`` are the models that it has (others are answered with 404), with
``fake.private`` it lists them for a key only.
"""

import asyncio
import contextlib
import fnmatch
import hashlib
import json
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from email.utils import formatdate
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes import smart_spawn
from tests.fakes.model_lists import LISTS

CHAT = "/v1/chat/completions"
OTHER = ("0.000001", "0.000002", "0")
# prompt, completion, request: dollars per token, as the real API serves them
PRICES = {
    "openai/gpt-4o-mini": ("0.00000015", "0.0000006", "0"),
    "meta-llama/llama-3.3-70b-instruct": ("0.0000001", "0.0000003", "0"),
    "google/gemini-2.5-pro": ("0.00000125", "0.00001", "0"),
    "openai/gpt-4o": ("0.0000025", "0.00001", "0"),
    "anthropic/claude-sonnet-4": ("0.000003", "0.000015", "0"),
    "perplexity/sonar": ("0.000001", "0.000001", "0.005"),
    "meta-llama/llama-3.3-70b-instruct:free": ("0", "0", "0"),
    "openrouter/auto": ("-1", "-1", "0"),
}
NONSENSE = {
    "html": b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>",
    "cut": b'{"id":"gen-1","choices":[{"message":{"content":"half an ans',
    "types": b'{"id":7,"choices":[{"message":{"content":{"a":1}},"finish_reason":3}],"usage":"no","model":[]}',
    "bytes": bytes(range(256)) * 8,
    "nothing": b"",
    "list": b'["not", "an", "answer"]',
}


@dataclass
class Call:
    """One request as it came, and how it ended: ``answered``, ``dropped`` by us, ``closed`` by the client."""

    method: str
    path: str
    query: dict
    headers: dict
    body: dict
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    how: str = ""
    cost: Decimal | None = None

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    def said(self, role: str) -> str:
        return "\n".join(str(m.get("content")) for m in self.body.get("messages", ()) if m.get("role") == role)

    @property
    def prompt(self) -> str:
        return self.said("user")

    @property
    def system(self) -> str:
        return self.said("system")

    @property
    def merges(self) -> bool:
        return "## Dissent" in self.system + self.prompt

    @property
    def digest(self) -> str:
        """The same for calls with the same model and messages."""
        what = json.dumps([self.path, self.model, self.body.get("messages"), sorted(self.query.items())])
        return hashlib.sha256(what.encode()).hexdigest()[:12]

    def shown(self) -> dict:
        return {**vars(self), "cost": str(self.cost), "key": self.key, "model": self.model, "prompt": self.prompt}


class Dropped(Exception):
    """The connection is to be closed here."""


class Fake:
    """The stand-in. Its lists are only appended to, so a test may read them at any time."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Call] = []
        self.prices = dict(PRICES)
        self.only: set[str] = set()
        self.private = False
        self.busy = 0
        self.busiest = 0
        self.accepted = 0
        self.rules: list[dict] = []
        self._used: Counter = Counter()
        self._open: set[str] = set()
        self._waiting: Counter = Counter()
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._moved = asyncio.Event()
        # Bound here, so that whoever made it can connect at once; served in a thread, whose loop is its own.
        self._sock = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self._sock.getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"
        self.planner_url = f"{self.root}/api"
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._serving.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what a test says and asks --------------------------------------------------------------------------------

    def rule(self, **what) -> dict:
        """Add a rule; those added first apply first, all of them before those of the prompt."""
        self.rules.append(what)
        return what

    def forget(self) -> None:
        """Drop the rules that were added, and the counts of all."""
        self.rules.clear()
        self._used.clear()

    def hold(self, name: str) -> None:
        """Close a gate that was released: every gate is closed before its first release."""
        self._open.discard(name)

    def release(self, *names: str) -> None:
        """Let go on who waits at these gates, and whoever comes to them later."""
        self._open.update(names)
        self._loop.call_soon_threadsafe(self._wake)

    def waiting(self, name: str) -> int:
        """How many calls stand at that gate (``hang``: those that hang)."""
        return self._waiting[name]

    def calls(self, path: str = CHAT, **facts) -> list[Call]:
        """The calls so far of that path (a glob) whose attributes are so."""
        found = [one for one in list(self.requests) if fnmatch.fnmatchcase(one.path, path)]
        return [one for one in found if all(getattr(one, key) == value for key, value in facts.items())]

    def charged(self) -> Decimal:
        """What all answers told their clients that they cost: a check on what the client counted.

        A client may have read its answer before this server's thread has noted that it was sent.
        """
        asyncio.run_coroutine_threadsafe(self._noted(), self._loop).result(10)
        return sum((one.cost or Decimal(0) for one in self.calls(how="answered")), Decimal(0))

    def close(self) -> None:
        """End every connection, the server and its thread; harmless twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    # -- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        made = self._loop.create_server(lambda: Connection(self), sock=self._sock, backlog=1024)
        server = self._loop.run_until_complete(made)
        self._loop.call_soon(self._serving.set)
        self._loop.run_forever()
        self._loop.run_until_complete(self._settle(server))
        self._loop.close()

    async def _noted(self) -> None:
        while any(call.cost is not None and not call.how for call in self.requests):
            await self._moved.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _settle(self, server: asyncio.Server) -> None:
        # Nothing more is accepted, and what was gets its transport first: one that finds its server closed is lost.
        self._loop.remove_reader(self._sock)
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()
        for one in list(self._connections):
            one.end()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*left, return_exceptions=True)
        # A connection that was just being accepted ends one turn behind the others, each end in a turn of its own.
        for _ in range(5):
            for one in list(self._connections):
                one.end()
            await asyncio.sleep(0)
        # What a transport does behind its end, it does in the loop's next rounds.
        for _ in range(3):
            await asyncio.sleep(0)

    async def serve(self, call: Call, wire: "Connection") -> None:
        wire.at = nowhere
        if call.path == "/fake":
            await self._told(call, wire)
            return
        self.requests.append(call)
        chat = call.path == CHAT
        self.busy += chat
        self.busiest = max(self.busiest, self.busy)
        try:
            await self._answer(call, wire)
            call.how = "answered"
        except Dropped:
            call.how = "dropped"
            raise
        finally:
            self.busy -= chat
            call.how = call.how or "closed"
            call.ended = time.monotonic()
            self._wake()

    async def _told(self, call: Call, wire: "Connection") -> None:
        self.rules += call.body.get("rules", ())
        self._open -= set(call.body.get("hold", ()))
        self._open |= set(call.body.get("release", ()))
        self._wake()
        state = {"requests": [one.shown() for one in self.requests], "busy": self.busy, "busiest": self.busiest}
        await wire.reply(200, state | {"waiting": dict(self._waiting)})

    def _rule_of(self, call: Call) -> dict:
        word, said = (
            ("DO", call.prompt) if call.path == CHAT else ("PLAN", smart_spawn.task_of(call.query, call.body))
        )
        for rule in [*self.rules, *told(word, said)]:
            kind = "merge" if call.merges else "task"
            fits = (
                fnmatch.fnmatchcase(call.model, rule.get("model", "*"))
                and fnmatch.fnmatchcase(call.path, rule.get("path", "*" if rule not in self.rules else CHAT))
                and rule.get("match", "") in call.system + call.prompt + said
                and rule.get("on", kind) == kind
            )
            if not fits:
                continue
            count = (json.dumps(rule, sort_keys=True), "" if rule.get("per") == "all" else call.digest)
            self._used[count] += 1
            used = self._used[count] - rule.get("skip", 0)
            if 0 < used <= rule.get("times", sys.maxsize):
                return rule
        return {}

    async def _at(self, place: str, rule: dict) -> None:
        if rule.get("at", "start") != place:
            return
        gate = rule.get("hold") or ("hang" if rule.get("hang") else "")
        if gate:
            self._waiting[gate] += 1
            try:
                while rule.get("hang") or gate not in self._open:
                    await self._moved.wait()
            finally:
                self._waiting[gate] -= 1
        if rule.get("drop"):
            raise Dropped

    async def _answer(self, call: Call, wire: "Connection") -> None:
        rule = self._rule_of(call)
        wire.reset = bool(rule.get("reset"))
        wire.at = lambda place: self._at(place, rule)
        await asyncio.sleep(rule.get("delay_ms", 0) / 1000)
        await self._at("start", rule)
        kind = rule.get("content_type")
        if "body" in rule or "nonsense" in rule:
            data = rule["body"].encode() if "body" in rule else NONSENSE[rule["nonsense"]]
            await wire.reply(rule.get("status", 200), data, kind or "text/html")
        elif "status" in rule:
            await wire.reply(rule["status"], *failure(rule))
        elif call.path == CHAT and not call.key:
            await wire.reply(401, {"error": {"code": 401, "message": "No auth credentials found"}})
        elif call.path == CHAT and self.only and call.model not in self.only:
            await wire.reply(404, {"error": {"code": 404, "message": f"model {call.model!r} not found"}})
        elif call.path == CHAT:
            await self._chat(call, rule, wire)
        elif call.path == "/v1/models" and self.private and not call.key:
            await wire.reply(401, {"error": {"code": 401, "message": "No API key provided"}})
        elif call.path == "/v1/models" and "list" in rule:
            await wire.reply(200, LISTS[rule["list"]], kind=kind)
        elif call.path == "/v1/models":
            await wire.reply(200, {"data": [smart_spawn.listed(*one) for one in self.prices.items()]}, kind=kind)
        elif call.path.startswith("/api/"):
            status, found, more = smart_spawn.answer(call.method, call.path, call.query, call.body, self.prices, rule)
            await wire.reply(status, found, more, kind)
        else:
            await wire.reply(404, {"error": {"code": 404, "message": f"there is no {call.path}"}})

    def price(self, call: Call, rule: dict) -> Decimal:
        tokens = self._tokens(call, self._text(call, rule))
        prompt, completion, request = (max(Decimal(p), Decimal(0)) for p in self.prices.get(call.model, OTHER))
        return tokens[0] * prompt + tokens[1] * completion + request

    @staticmethod
    def _tokens(call: Call, text: str) -> tuple[int, int]:
        said = len((call.system + call.prompt).encode(errors="replace")) // 4 + 1
        return said, min(len(text) // 4 + 1, int(call.body.get("max_tokens") or 1 << 30))

    @staticmethod
    def _text(call: Call, rule: dict) -> str:
        if "content" in rule:
            return "" if rule["content"] is None else json.dumps(rule["content"])
        if "answer" in rule:
            return str(rule["answer"])
        line = f"{call.model} has thought about {call.digest} and has this to say of it. "
        text = line * (int(rule.get("bytes", 640)) // len(line) + 1)
        text = text[: int(rule["bytes"])] if "bytes" in rule else text.strip()
        return text + "\n\n## Dissent\nNone" if call.merges and "bytes" not in rule else text

    def _usage(self, call: Call, rule: dict) -> dict | None:
        if "usage" in rule:
            return rule["usage"]
        prompt, completion = self._tokens(call, self._text(call, rule))
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        cost = rule.get("cost", float(self.price(call, rule)))
        if isinstance(cost, int | float) and cost >= 0:
            call.cost = Decimal(str(cost))
        return usage if cost is None else usage | {"cost": cost}

    async def _chat(self, call: Call, rule: dict, wire: "Connection") -> None:
        text = self._text(call, rule)
        finish = rule.get("finish", "stop")
        head = {"id": f"gen-{call.digest}", "model": rule.get("served", call.model), "provider": "Fake"}
        usage = self._usage(call, rule)
        spent = {} if usage is None else {"usage": usage}
        where = rule.get("where", "body") if "error" in rule else ""
        if where == "body":
            await wire.reply(200, *failure(rule))
            return
        if rule.get("json") or not call.body.get("stream"):
            message = {"role": "assistant", "content": rule.get("content", text)}
            choice = {"index": 0, "finish_reason": finish, "message": message}
            if where:
                choice |= {"finish_reason": "error", "error": failure(rule)[0]["error"]}
            found = {**head, "object": "chat.completion", "choices": [choice], **spent}
            kind = rule.get("content_type") or "application/json"
            await wire.reply(200, b" " * rule.get("space", 0) + json.dumps(found).encode(), kind)
            return
        eol = rule.get("eol", "\n")
        await wire.begin(rule.get("content_type") or "text/event-stream")
        await self._at("headers", rule)

        def chunk(delta: dict, reason: str | None = None, **more) -> bytes:
            choices = [{"index": 0, "delta": delta, "finish_reason": reason, **more.pop("choice", {})}]
            return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choices, **more})}{eol}{eol}".encode()

        count = max(1, rule.get("pieces", 4))
        size = max(1, -(-len(text) // count))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        if "content" in rule:
            pieces = [rule["content"]]
        await wire.piece(chunk({"role": "assistant", "content": ""}))
        for at, piece in enumerate(pieces):
            if at == (len(pieces) + 1) // 2:
                await self._at("mid", rule)
                if where == "event":
                    wrong = failure(rule)[0]["error"]
                    await wire.piece(chunk({"content": ""}, "error", error=wrong))
                    break
            await wire.piece(f": OPENROUTER PROCESSING{eol}{eol}".encode() * rule.get("comments", 0))
            await asyncio.sleep(rule.get("drip_ms", 0) / 1000)
            await wire.piece(chunk({"content": piece}))
        else:
            await self._at("end", rule)
            if where == "choice":
                await wire.piece(chunk({}, "error", choice={"error": failure(rule)[0]["error"]}))
            else:
                await wire.piece(chunk({"content": ""}, finish))
        if usage is not None:
            await wire.piece(f"data: {json.dumps({**head, 'choices': [], **spent})}{eol}{eol}".encode())
        await self._at("done", rule)
        await wire.piece(f"data: [DONE]{eol}{eol}".encode())
        await wire.finish()


def told(word: str, text: str) -> list[dict]:
    """The rules that stand in a text behind that word."""
    found = []
    for match in re.finditer(rf"\b{word} (?=\{{)", text):
        with contextlib.suppress(ValueError):
            found.append(json.JSONDecoder().raw_decode(text, match.end())[0])
    return found


def failure(rule: dict) -> tuple[dict, dict]:
    """The error body a rule asks for, and the headers that come with it."""
    code = rule.get("status", rule.get("error"))
    metadata = dict(rule.get("metadata", {}))
    headers = dict(rule.get("headers", {}))
    if "retry_after" in rule:
        after = rule["retry_after"]
        match rule.get("via", "header"):
            case "date":
                headers["Retry-After"] = formatdate(time.time() + after, usegmt=True)
            case "body":
                metadata["retry_after_seconds"] = after
            case "headers":
                metadata["headers"] = {"retry-after": str(after)}
            case "reset":
                headers["X-RateLimit-Reset"] = str(int((time.time() + after) * 1000))
            case _:
                headers["Retry-After"] = str(after)
    error = {"code": code, "message": rule.get("message", f"told to fail with {code}")}
    return {"error": error | ({"metadata": metadata} if metadata else {})}, headers


async def nowhere(_: str) -> None:
    """Nothing is to happen at any place of this answer."""


class Connection(asyncio.Protocol):
    """One client's connection: requests one behind another, each answered by ``Fake.serve``."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.reset = False
        self.at = nowhere
        self.task: asyncio.Task | None = None
        self._buffer = bytearray()
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport) -> None:
        self.transport = transport
        # else each answer would wait 40 ms for an acknowledgement between its pieces
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fake._connections.add(self)
        self.fake.accepted += 1

    def connection_lost(self, exc) -> None:
        self.fake._connections.discard(self)
        if self.task is not None:
            self.task.cancel()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _next(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if self.task is not None or end < 0:
            return
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if len(self._buffer) < end + 4 + size:
            return
        data = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        method, target, _ = first.split(" ")
        parts = urlsplit(target)
        body = {}
        with contextlib.suppress(ValueError):
            body = json.loads(data) if data else {}
        body = body if isinstance(body, dict) else {"": body}
        call = Call(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)
        self.task = self.fake._loop.create_task(self._serve(call))

    async def _serve(self, call: Call) -> None:
        try:
            await self.fake.serve(call, self)
        except Dropped:
            if self.reset:
                sock = self.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            else:
                self.transport.close()
            return
        except Exception:
            # A fault of this file: the client is not to wait for it.
            self.transport.abort()
            raise
        finally:
            self.task = None
        self._next()

    async def _send(self, data: bytes) -> None:
        self.transport.write(data)
        await self._room.wait()

    async def reply(self, status: int, body: object, more: object = None, kind: str | None = None) -> None:
        """A whole answer: bytes as they are, else as JSON; ``more`` is its content type or further headers."""
        headers = more if isinstance(more, dict) else {}
        kind = kind or (more if isinstance(more, str) else "application/json")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Told", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        await self.at("headers")
        await self._send(data[: len(data) // 2])
        await self.at("mid")
        await self._send(data[len(data) // 2 :])

    async def begin(self, kind: str) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self._send(head.encode("latin-1"))

    async def piece(self, data: bytes) -> None:
        if data:
            await self._send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def finish(self) -> None:
        await self._send(b"0\r\n\r\n")


if __name__ == "__main__":
    with Fake(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as served:
        print(served.port, flush=True)
        sys.stdin.read()
