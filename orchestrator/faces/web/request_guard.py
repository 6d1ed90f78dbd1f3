"""What every request must pass before a page answers it: host, origin, peer, token, rate, size, time.

An ASGI middleware. What the pages supply is below `Access`; a refusal is JSON with a code of `base.errors`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.base.errors import BadRequest, NotReady, OrchestratorError
from orchestrator.faces.web.access_tokens import AccessTokens
from orchestrator.faces.web.bug_lines import BugLines
from orchestrator.faces.web.local_peers import WebPeer
from orchestrator.faces.web.rate_limits import RateLimit
from orchestrator.faces.web.site_address import SiteAddress

BODY_MAX = 64 << 10
BODY_S = 10.0
HEADERS = (
    (b"content-security-policy", (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types orchestrator"
    )),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), clipboard-read=()"),
    (b"cache-control", b"no-store"),
)  # fmt: skip
"""Of every answer. No page of another origin can frame it, read it, or be told where the visitor came from."""
STATUSES = {
    "web_token": 401,
    "web_refused": 403,
    "web_busy": 429,
    "not_for_agents": 403,
    "origin_unknown": 403,
    "not_allowed_to_answer": 403,
    "bad_argument": 400,
}


class Judge(Protocol):
    """Returns the peer of a connection, from both addresses and whether the request has a valid token."""

    def __call__(self, client: Any, server: Any, *, token: bool) -> Awaitable[WebPeer]: ...


class Access(NamedTuple):
    """What a request has proven, as the pages see it: its token's scope, and who asks."""

    scope: str
    peer: WebPeer

    def insist_on_answers(self) -> None:
        """BadRequest if this request may not answer what waits for a human."""
        if self.scope != "approve":
            raise BadRequest("not_allowed_to_answer", "this link can only read", "open the link that can answer")
        if self.peer.rights != "all":
            raise self.peer.why or BadRequest("origin_unknown", "it is not known who asks")


class RequestGuard:
    """Stands before the application. ``public`` are the paths that hold no data and need no token.

    ``judge`` is called once for each connection, and again for each answer. The scope's state has the `Access` of a
    request under ``access``.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        site: SiteAddress,
        tokens: AccessTokens,
        judge: Judge,
        public: Callable[[str], bool],
        bugs: BugLines,
    ) -> None:
        self._app, self._bugs = app, bugs
        self._site, self._tokens, self._judge, self._public = site, tokens, judge, public
        self._requests = RateLimit(rate=100.0, burst=1500.0)  # by token and rights; by machine without a token
        self._failures = RateLimit(rate=0.5, burst=20.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        try:
            try:
                await self._check(scope)
                body = await _body_of(scope, receive)
            except OrchestratorError as error:
                await refuse(answer, error)
                return
            await self._app(scope, _again(body, receive), answer)
        except Exception as error:  # noqa: BLE001  (the last line of defence: the server closes what was begun)
            noted = self._bugs.note(error)
            if not answer.begun:
                await refuse(answer, noted, 500)

    async def _check(self, scope: Scope) -> None:
        headers = _Headers(scope)
        method, path = scope["method"], scope["path"]
        host = headers.only(b"host")
        if host is None or not self._site.is_host(host):
            raise BadRequest("web_refused", "this address is not the one at which orchestrator web was started")
        if method not in ("GET", "HEAD", "POST"):
            raise BadRequest("web_refused", f"no page answers {method[:20]}")
        origin = headers.any(b"origin")
        if origin and not all(self._site.is_origin(each, host) for each in origin):
            raise BadRequest("web_refused", "the request comes from a page of another site")
        if headers.any(b"content-length") and headers.any(b"transfer-encoding"):
            raise BadRequest("web_refused", "the request has both Content-Length and Transfer-Encoding")
        token = (headers.only(b"authorization") or "").removeprefix("Bearer ")
        granted = self._tokens.scope_of(token) if token else None
        peer = await _peer_of(scope, self._judge, token=granted is not None)
        if peer.rights == "none":
            raise peer.why or BadRequest("web_refused", "this program gets nothing")
        public = method in ("GET", "HEAD") and self._public(path)
        # A link may lead to a page from anywhere; data is only for the page itself.
        if not public and headers.any(b"sec-fetch-site") not in ([], ["same-origin"]):
            raise BadRequest("web_refused", "the request comes from a page of another site")
        if method == "POST" and headers.any(b"content-type") != ["application/json"]:
            raise BadRequest("web_refused", "a request that changes something must be JSON")
        scope.setdefault("state", {})["access"] = Access("none", peer)
        if public or path == "/code":
            self._count(scope.get("client"), path == "/code")
            return
        if granted is None:
            # Only wrong tokens are counted here, so that a stranger's guesses never lock the owner out.
            self._count(scope.get("client"), bool(token))
            raise BadRequest("web_token", "the token is missing, wrong, or of an earlier orchestrator web")
        # Counted by rights too: a program that may only read can know the token of a program that may answer, and
        # must not use up its requests.
        if not self._requests.take((granted, peer.rights), time.monotonic()):
            raise NotReady("web_busy", "too many requests with this token")
        scope["state"]["access"] = Access(granted, peer)

    def _count(self, client: Any, guess: bool) -> None:
        now, key = time.monotonic(), client[0] if client else ""
        if not self._requests.take(key, now) or (guess and not self._failures.take(key, now)):
            raise NotReady("web_busy", "too many requests without a valid token")


async def refuse(send: Send, error: OrchestratorError, status: int | None = None) -> None:
    """Answer with an error as JSON, and close the connection."""
    body = json.dumps({"error": error.as_dict()}).encode()
    code = status or STATUSES.get(error.code, 409 if error.kind == "Conflict" else 400)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Headers:
    def __init__(self, scope: Scope) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def any(self, name: bytes) -> list[str]:
        return [value.decode("latin-1").strip() for key, value in self._pairs if key.lower() == name]

    def only(self, name: bytes) -> str | None:
        """The header's value; None if it is missing or there twice, so that nobody can read it in two ways."""
        values = self.any(name)
        return values[0] if len(values) == 1 else None


async def _peer_of(scope: Scope, judge: Judge, *, token: bool) -> WebPeer:
    """The peer, judged once for a connection, and again for every request that changes something."""
    connection: dict[str, Any] = scope.get("state", {}).get("connection", {})
    if scope["method"] == "POST" or "peer" not in connection:
        connection["peer"] = await judge(scope.get("client"), scope.get("server"), token=token)
    peer: WebPeer = connection["peer"]
    return peer


async def _body_of(scope: Scope, receive: Receive) -> bytes:
    """The whole body, bounded in size and time. A request that changes nothing has none."""
    if scope["method"] != "POST":
        return b""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise BadRequest("web_refused", "the request ended in its middle")
                parts.append(message.get("body", b""))
                if sum(map(len, parts)) > BODY_MAX:
                    raise BadRequest("web_refused", f"the request is larger than {BODY_MAX} bytes")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise BadRequest("web_refused", "the request came too slowly") from None


def _again(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body that was read already, and then whatever follows: the end of the connection."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return next_message


class _Answer:
    """The answer to a request, with the headers of every answer. ``begun``: its status has been sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            own = {name for name, _ in HEADERS}
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await self._send(message)
