"""The model API over HTTP: one attempt at a chat completion, the price list. Touches the network, nothing else.

A call raises only when it is canceled, and sends a key only to the origin for which the key was given.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx2

from orchestrator.base.clock import Clock
from orchestrator.base.errors import BadRequest
from orchestrator.spawn import model_list
from orchestrator.spawn.model_table import normalised
from orchestrator.spawn.replies import Stream, message, read_body
from orchestrator.spawn.run_data import Fault, NodeCall, Reply, RunSettings

ANSWER_BYTES = 64 << 20
ERROR_BYTES = 64 << 10
MODELS_S = 10.0
USAGE_S = 10.0
"""Maximum seconds to wait for the usage of a finished answer."""
CLOSE_S = 0.2
"""Behind its last event a response is read on so long: one that was read to its end leaves its connection usable."""
TEMPERATURE = 0.2
TITLE = "orchestrator"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|[0-9a-f:.]+")


def origin(base_url: str) -> str:
    """``scheme://host:port`` of a server's URL, in one form for all ways to write it.

    BadRequest ``bad_config`` (which does not repeat the URL) for what no key may be sent to: no http(s) URL,
    credentials in it, or http to another machine.
    """
    wrong = ""
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise BadRequest("bad_config", "OPENROUTER_BASE_URL is not a valid URL") from None
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        wrong = "has characters that a URL may not have"
    elif parts.scheme not in {"http", "https"}:
        wrong = "does not begin with https:// or http://"
    elif "@" in parts.netloc:
        wrong = "has a user name or password in it"
    elif not _HOST.fullmatch(host):
        wrong = "names no host"
    elif "?" in base_url or "#" in base_url:
        wrong = "has a query or fragment after its path"
    elif parts.scheme == "http" and host not in LOOPBACK:
        wrong = "is http to another machine, where anybody on the way can read the key; use https"
    if wrong:
        raise BadRequest("bad_config", f"the URL of the server {wrong}")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or (443 if parts.scheme == 'https' else 80)}"


@dataclass
class _Exchange:
    """How far one request and its response have come."""

    sent: bool = False
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    body: bytearray = field(default_factory=bytearray)
    stream: Stream | None = None

    async def trace(self, event: str, _: Mapping[str, Any]) -> None:
        """Called by the transport at each of its steps."""
        self.sent = self.sent or event.endswith("send_request_headers.started")

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


class ModelApi:
    """Calls servers that speak OpenRouter's chat/completions; one of it serves all runs of a daemon."""

    resumes = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._client: httpx2.AsyncClient | None = None
        # Whatever the level of the daemon's log: requests are not told line by line, and headers never.
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)

    async def call(self, ask: NodeCall) -> Reply | Fault:
        """One attempt, limited to ``ask.timeout_s`` from its connection to its last byte.

        If it is canceled, it closes its connection, so that the server can stop. An answer over 64 MB is refused.
        """
        if not (ask.key.isascii() and ask.key.isprintable()):
            return Fault("401", "the key contains characters that a key cannot have", retry=False, reached=False)
        messages = [{"role": "system", "content": ask.system}] if ask.system else []
        body = {
            "model": normalised(ask.model),
            "messages": [*messages, {"role": "user", "content": ask.prompt}],
            "max_tokens": ask.max_tokens,
            "temperature": TEMPERATURE,
            "stream": True,
            # OpenRouter does so anyhow; other servers of this form want to be asked.
            "stream_options": {"include_usage": True},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "X-Title": TITLE,
            **({"Authorization": f"Bearer {ask.key}"} if ask.key else {}),
        }
        done = _Exchange()
        base_url = ask.base_url or RunSettings().base_url
        content = json.dumps(body).encode()
        url = base_url.rstrip("/") + "/chat/completions"
        fault = await self._exchange(done, url, ask.timeout_s, content=content, headers=headers, key=ask.key)
        if done.stream is not None and (fault is None or done.stream.decided):
            return done.stream.end()
        if fault is not None and done.stream is not None:
            return done.stream.broken_off(fault)
        return fault or self._refusal(done, ask.key)

    async def models(self, base_url: str, key: str = "") -> Any | Fault:
        """The body of GET /models, as the server gave it, in one of the forms of `model_list`. At most 10 s.

        The key is sent only to a server that refuses the list without it.
        """
        body = await self._models(base_url, "")
        if key and isinstance(body, Fault) and body.code in {"401", "403"}:
            body = await self._models(base_url, key)
        return body

    async def _models(self, base_url: str, key: str) -> Any | Fault:
        done = _Exchange()
        headers = {"Authorization": f"Bearer {key}"} if key else None
        fault = await self._exchange(done, base_url.rstrip("/") + "/models", MODELS_S, headers=headers, key=key)
        if fault is not None:
            return fault
        if not done.good:
            return self._refusal(done, key)
        try:
            body = json.loads(done.body)
        except (ValueError, RecursionError):
            body = None
        if model_list.is_list(body):
            return body
        return Fault("nonsense", "the server's list of models cannot be read", retry=False)

    async def close(self) -> None:
        """Close all connections; harmless twice, and a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _refusal(self, done: _Exchange, key: str) -> Fault:
        fault = read_body(done.status, done.headers, bytes(done.body), self._clock.now().timestamp(), key)
        assert isinstance(fault, Fault)
        return fault

    async def _exchange(
        self,
        done: _Exchange,
        url: str,
        timeout_s: float,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: str = "",
    ) -> Fault | None:
        """Do one request, noting in ``done`` how far it came; None if it came to the end of what has to be read.

        With a content it is a call of a model, and what comes with a good status is a stream.
        """
        try:
            origin(url)
            client = self._opened()
        except BadRequest as error:
            return Fault("400", error.message, retry=False, reached=False)
        except (httpx2.InvalidURL, ValueError, ImportError, OSError):
            reason = "the proxy or the certificates that the environment names cannot be used"
            return Fault("network", reason, retry=False, reached=False)
        method = "GET" if content is None else "POST"
        extensions = {"trace": done.trace}
        try:
            async with (
                asyncio.timeout(timeout_s) as bound,
                client.stream(method, url, content=content, headers=headers, extensions=extensions) as response,
            ):
                done.status, done.headers = response.status_code, response.headers
                if done.good and content is not None:
                    done.stream = Stream(response.headers, self._clock.now().timestamp(), key)
                return await self._read(done, response, bound)
        except TimeoutError:
            why = Fault("timeout", f"no whole answer within {timeout_s:g} s", retry=True, reached=done.sent)
        except httpx2.DecodingError:
            why = Fault("nonsense", "the answer is not encoded as it says", retry=False)
        except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL):
            why = Fault("network", "such a request cannot be sent", retry=False, reached=False)
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            text = str(error) or type(error).__name__
            where = "the connection broke" if done.sent else "there is no connection"
            why = Fault("network", message(f"{where}: {text}", key), retry=True, reached=done.sent)
        # A response that began with its refusal has said it, however its connection ended.
        return why if done.status == 0 or done.good else None

    @staticmethod
    async def _read(done: _Exchange, response: httpx2.Response, bound: asyncio.Timeout) -> Fault | None:
        hurried = None
        async for chunk in response.aiter_bytes():
            done.size += len(chunk)
            if not done.good and done.size > ERROR_BYTES:
                return None
            if done.size > ANSWER_BYTES:
                return Fault("nonsense", f"the answer is larger than {ANSWER_BYTES >> 20} MB", retry=False)
            if done.stream is None:
                done.body += chunk
                continue
            done.stream.feed(chunk)
            rest_s = CLOSE_S if done.stream.complete else USAGE_S if done.stream.decided else None
            if rest_s is not None and rest_s != hurried:
                hurried = rest_s
                _hurry(bound, rest_s)
        return None

    def _opened(self) -> httpx2.AsyncClient:
        """The client of all calls: made at the first, because reading the certificates takes its time."""
        if self._client is None:
            self._client = httpx2.AsyncClient(
                http2=False,
                follow_redirects=False,
                timeout=None,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
                headers={"User-Agent": TITLE, "Accept-Encoding": "identity"},
                # Runs with different keys share this client: nothing that one is told goes along with another.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                # The environment's proxies and certificates hold, but never for this machine itself.
                mounts={f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK},
            )
        return self._client


def _hurry(bound: asyncio.Timeout, rest_s: float) -> None:
    """Let it end in ``rest_s`` at the latest."""
    end = asyncio.get_running_loop().time() + rest_s
    if not bound.expired():
        bound.reschedule(min(end, bound.when() or end))
