"""Serves the site in the foreground until Ctrl-C: a listening socket, uvicorn with bounds, the snapshot's thread."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import Environment
from orchestrator.base.waiting import AT_ONCE, call_off
from orchestrator.edge.project_location import Project
from orchestrator.faces.snapshot_client import SnapshotClient
from orchestrator.faces.web.access_tokens import AccessTokens
from orchestrator.faces.web.bounded_http import BoundedHttp
from orchestrator.faces.web.bug_lines import BugLines
from orchestrator.faces.web.live_pages import MOST_STREAMS, LivePages
from orchestrator.faces.web.local_peers import LocalPeers, PeerQueues
from orchestrator.faces.web.site_address import SiteAddress, site_address
from orchestrator.faces.web.site_pages import DaemonCalls, SitePages
from orchestrator.faces.web.web_app import Site, web_app

BACKLOG = 128
OTHERS = 400
"""Connections beside the streams: of pages, answers and downloads, and of those who have not said what they want."""
HEAD_MAX = 16 << 10
END_S = 3


@dataclass(frozen=True)
class WebServer:
    """How the site is served. ``answers``: some token may answer, so CLIs wait for this face.

    ``certificate`` and ``key`` are PEM files for TLS. ``names`` are further hosts by which it is asked for.
    """

    place: Project
    tokens: AccessTokens
    listener: socket.socket
    answers: bool
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    names: tuple[str, ...] = ()

    @property
    def address(self) -> SiteAddress:
        """Where it is asked for."""
        host, port = self.listener.getsockname()[:2]
        scheme = "https" if self.certificate is not None else "http"
        return site_address(host, port, scheme=scheme, names=self.names, behind_proxy=self.behind_proxy)

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM; ``ready`` is called once the port is open.

        Raises KeyboardInterrupt after SIGINT; Environment ``web_failed`` if the TLS files cannot be used.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        _allow_descriptors(2 * (MOST_STREAMS + OTHERS))
        with SnapshotClient(self.place, face="web", answers=self.answers) as snapshots:
            calls = DaemonCalls(self.place)
            try:
                asyncio.run(self._serve(snapshots, calls, ready))
            finally:
                calls.close()

    async def _serve(self, snapshots: SnapshotClient, calls: DaemonCalls, ready: Callable[[], None]) -> None:
        bugs = BugLines()
        pages = LivePages(snapshots, SitePages(self.place.root, calls), SystemClock(), bugs)
        peers = PeerQueues(LocalPeers(behind_proxy=self.behind_proxy))
        site = Site(self.place.root, pages, self.tokens, calls.answer, self.address, peers.judge, bugs)
        server = _Server(self._config(web_app(site)), pages.end)
        following = asyncio.create_task(pages.follow())
        ready()
        try:
            await server.serve(sockets=[self.listener])
        finally:
            pages.end()
            await call_off([following])

    def _config(self, app: Any) -> uvicorn.Config:
        try:
            config = uvicorn.Config(
                app,
                http=BoundedHttp,
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=MOST_STREAMS + OTHERS,
                backlog=AT_ONCE,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=END_S,
                h11_max_incomplete_event_size=HEAD_MAX,
                ssl_certfile=self.certificate,
                ssl_keyfile=self.key,
            )
            config.load()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            step = "give a certificate and its own key as PEM files"
            raise Environment("web_failed", f"the TLS files cannot be used: {error}", step) from error
        return config


class _Server(uvicorn.Server):
    """Ends the streams when it shall end, so that it waits for none of them."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        self._ending()
        await super().shutdown(sockets)


def listening(address: str, port: int) -> socket.socket:
    """A socket that listens there; Environment ``web_failed`` if it cannot."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        step = "give an address of this machine" if error.errno == errno.EADDRNOTAVAIL else ""
        raise Environment("web_failed", f"{address} port {port}: {error.strerror}", step) from error
    return listener


def _allow_descriptors(wanted: int) -> None:
    """Let this process have so many descriptors, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < limit:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
