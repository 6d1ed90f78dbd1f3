"""The site as an ASGI application: shells without data, streams of pages, answers, downloads, one-time codes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.base.errors import BadRequest, OrchestratorError
from orchestrator.faces.shell_hints import in_the_shell
from orchestrator.faces.web.access_tokens import AccessTokens
from orchestrator.faces.web.bug_lines import BugLines, bug
from orchestrator.faces.web.html_elements import Markup, element
from orchestrator.faces.web.live_pages import LivePages, access_message
from orchestrator.faces.web.page_content import page_request
from orchestrator.faces.web.request_guard import Access, Judge, RequestGuard, refuse
from orchestrator.faces.web.site_address import SiteAddress
from orchestrator.team.roster import artifact_files

STATIC = Path(__file__).with_name("static")
SEND_S = 20.0
"""A client that does not take a message for so long is dropped."""
CHUNK = 1 << 16
PAGES = (("/", "Team"), ("/inbox", "Inbox"), ("/timeline", "Timeline"), ("/runs", "Runs"), ("/files", "Files"))

SendAnswer = Callable[[str, str, str], dict[str, Any]]
"""Answers an item with a decision and a text; blocks, and raises OrchestratorError as the daemon does."""


class Site(NamedTuple):
    """What the application serves: the project, its pages, who may come in, how an answer is sent, and its bugs."""

    root: Path
    pages: LivePages
    tokens: AccessTokens
    answer: SendAnswer
    address: SiteAddress
    judge: Judge
    bugs: BugLines


def web_app(site: Site) -> RequestGuard:
    """The application, behind its guard."""
    routes = [
        *(Route(path, _shell, methods=["GET"]) for path, _ in PAGES),
        Route("/agents/{agent:path}", _shell, methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
        Route("/events", _PageStream(site), methods=["GET"]),
        Route("/download/{agent}/{name:path}", _Download(site), methods=["GET"]),
        Route("/answer", _answering(site), methods=["POST"]),
        Route("/code", _exchanging(site.tokens), methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _nothing, 405: _nothing, 500: _failed})
    app.router.redirect_slashes = False  # a path is a page as it stands, or none
    return RequestGuard(
        app, site=site.address, tokens=site.tokens, judge=site.judge, public=_is_public, bugs=site.bugs
    )


def _is_public(path: str) -> bool:
    """Whether a path holds no data of the project: the shells, and what they load."""
    return path.startswith(("/static/", "/agents/")) or any(path == page for page, _ in PAGES)


# -- shells ---------------------------------------------------------------------------------------------------------


def _shell_html() -> bytes:
    links = [element("a", name, href=path, data_page=path) for path, name in PAGES]
    head = Markup("").join((
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "orchestrator"),
        element("link", rel="icon", href="/static/icon.svg"),
        element("link", rel="stylesheet", href="/static/web.css"),
        element("script", src="/static/web.js", defer=True),
    ))  # fmt: skip
    body = Markup("").join((
        element("a", "Skip to the content", href="#main", class_="skip"),
        element("header", element("div", data_slot="summary"), element("nav", *links, aria_label="Pages")),
        element("div", data_slot="news", role="status", class_="unseen"),
        element("p", "", id="trouble", role="alert", hidden=True),
        element("main", element("p", "Loading …"), id="main", tabindex="-1"),
        element("dialog", id="decision", aria_labelledby="decision-title"),
        element("noscript", element("p", "This page needs JavaScript, which it loads from this server only.")),
    ))  # fmt: skip
    html = element("html", element("head", Markup(head)), element("body", Markup(body)), lang="en")
    return f"<!doctype html>\n{html}\n".encode()


SHELL = _shell_html()


async def _shell(_request: Request) -> Response:
    return Response(SHELL, media_type="text/html; charset=utf-8")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ("web.js", "web.css", "icon.svg"):
        return await _nothing(request, BadRequest("unknown_resource", "there is no such file"))
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response((STATIC / name).read_bytes(), media_type=kind)


async def _nothing(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": BadRequest("web_refused", "there is no such page").as_dict()}, 404)


async def _failed(_request: Request, _error: Exception) -> Response:
    # Starlette raises the error again after this answer, and the guard notes it.
    return JSONResponse({"error": bug().as_dict()}, 500)


# -- data -----------------------------------------------------------------------------------------------------------


class _PageStream:
    """The stream of a page: server-sent events, which the page reads with fetch, since a header has the token."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access: Access = scope["state"]["access"]
        try:
            wanted = page_request(Request(scope).query_params)
            with self._site.pages.place():
                await self._stream(access, wanted, receive, send)
        except OrchestratorError as error:
            await refuse(send, error, 503 if error.code == "web_busy" else None)

    async def _stream(self, access: Access, wanted: Any, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_gone(receive))
        messages = self._site.pages.messages(wanted)
        try:
            may_answer = access.scope == "approve" and access.peer.rights == "all"
            await _give(send, access_message("approve" if may_answer else "read"))
            following = asyncio.create_task(self._follow(messages, send))
            await asyncio.wait((gone, following), return_when=asyncio.FIRST_COMPLETED)
            following.cancel()
            (ended,) = await asyncio.gather(following, return_exceptions=True)
            if isinstance(ended, Exception) and not isinstance(ended, TimeoutError):  # else it is slow, and dropped
                raise ended
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, messages: Any, send: Send) -> None:
        async for message in messages:
            await _give(send, message)


async def _give(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Download:
    """An artifact as a file to keep: never a page, whatever is in it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        words = scope["path_params"]
        try:
            opened = await asyncio.to_thread(artifact_files.opened, self._site.root, words["agent"], words["name"])
        except OrchestratorError as error:
            await refuse(send, error, 404)
            return
        file, size = opened
        name = quote(words["name"].split("/")[-1], safe="")
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
        ]
        with file, contextlib.suppress(TimeoutError):  # who is too slow is dropped
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            left = size if scope["method"] == "GET" else 0
            while left > 0 and (data := await asyncio.to_thread(file.read, min(CHUNK, left))):
                left -= len(data)
                await _give(send, data)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _answering(site: Site) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        access: Access = request.scope["state"]["access"]
        try:
            access.insist_on_answers()
            words = await _json(request, "item", "decision", "text")
            answered = await asyncio.to_thread(site.answer, words["item"], words["decision"], words["text"])
        except OrchestratorError as error:
            return _error(error)
        return JSONResponse(answered)

    return answer


def _exchanging(tokens: AccessTokens) -> Callable[[Request], Any]:
    async def exchange(request: Request) -> Response:
        try:
            code = (await _json(request, "code"))["code"]
            token = tokens.exchange(code, time.monotonic())
            if token is None:
                raise BadRequest("web_token", "the code is wrong, used, or too old")
        except OrchestratorError as error:
            return _error(error)
        return JSONResponse({"token": token})

    return exchange


async def _json(request: Request, *names: str) -> dict[str, str]:
    """The words of a request's body; BadRequest ``bad_argument`` unless it is an object of texts with these names."""
    try:
        value = json.loads(await request.body())
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(value.get(name, ""), str) for name in names):
        raise BadRequest("bad_argument", f"the request is no JSON object with the texts {', '.join(names)}")
    return {name: value.get(name, "") for name in names}


def _error(error: OrchestratorError) -> Response:
    statuses = {"not_allowed_to_answer": 403, "origin_unknown": 403, "web_token": 401, "unknown_item": 404}
    status = statuses.get(error.code, {"Conflict": 409, "NotReady": 503}.get(error.kind, 400))
    step = in_the_shell(error.next_step, error.code)
    return JSONResponse({"error": error.as_dict() | {"next_step": step}}, status)
