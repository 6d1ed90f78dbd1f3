"""The command that serves the team as web pages, in the foreground. Loads the server only when it runs."""

from __future__ import annotations

import io
import os
import stat
import time
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.cli import options, output
from orchestrator.cli.options import Json
from orchestrator.faces.daemon_client import project_here


def web(  # noqa: PLR0917  (typer calls it by name)
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 takes any free port.")
    ] = 0,
    read_only: Annotated[bool, typer.Option("--read-only", help="Print a link that can only read.")] = False,
    share: Annotated[bool, typer.Option("--share", help="Print also a link that can only read.")] = False,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="ADDR:PORT", help="Listen on this address; needs TLS files or --behind-proxy."
        ),
    ] = "",
    tls_cert: Annotated[str, typer.Option("--tls-cert", metavar="FILE", help="Certificate for TLS, PEM.")] = "",
    tls_key: Annotated[str, typer.Option("--tls-key", metavar="FILE", help="Key of the certificate, PEM.")] = "",
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy with TLS passes the requests on.")
    ] = False,
    host: Annotated[
        list[str],
        typer.Option("--host", metavar="NAME[:PORT]", help="Also serve requests for this host; repeatable."),
    ] = [],  # noqa: B006
    as_json: Json = False,  # noqa: ARG001  (read by the error boundary)
) -> None:
    """Serve the team as web pages on this machine until Ctrl-C.

    Prints a link with a token, once and on the terminal only. The pages show the team and answer what waits for you.
    From another machine: ssh -L PORT:127.0.0.1:PORT HOST. Agents get nothing, even with a valid token.
    """
    options.refuse_agents(changes=not read_only)
    place = project_here()
    from orchestrator.config import sources  # noqa: PLC0415  (loads pydantic)
    from orchestrator.faces.web import site_address  # noqa: PLC0415

    address, number = site_address.listen_address(listen, port) if listen else ("127.0.0.1", port)
    certificate, key = _tls_files(tls_cert, tls_key)
    outside = not site_address.is_loopback(address)
    if outside and certificate is None and not behind_proxy:
        raise BadRequest(
            "bad_argument",
            f"{address} can be reached from other machines, so it needs TLS",
            "give --tls-cert and --tls-key, or --behind-proxy; on this machine leave --listen out and use ssh -L",
        )
    if site_address.is_any(address) and not host:
        raise BadRequest(
            "bad_argument", f"{address} is no address that a browser can open", "say by which: --host NAME:PORT"
        )
    if behind_proxy and not (host and number):
        step = "give the proxy's port here and its name in the browser: --port 8750 --host NAME[:PORT]"
        raise BadRequest("bad_argument", "--behind-proxy needs --port and --host", step)
    _refuse_masters(master_may=sources.load(place.root, os.environ).config.approvals_master)
    with _SecretTerminal() as terminal:
        from orchestrator.faces.web.access_tokens import AccessTokens, Scope  # noqa: PLC0415
        from orchestrator.faces.web.web_server import WebServer, listening  # noqa: PLC0415  (loads uvicorn)

        tokens = AccessTokens()
        scope: Scope = "read" if read_only else "approve"
        with listening(address, number) as listener:
            server = WebServer(
                place,
                tokens,
                listener,
                answers=not read_only,
                certificate=certificate,
                key=key,
                behind_proxy=behind_proxy,
                names=tuple(host),
            )
            base = _base_url(address, listener.getsockname()[1], host, tls=certificate is not None or behind_proxy)

            def ready() -> None:
                does = "can only read" if read_only else "can answer for you"
                terminal.say(f"The team of {place.root.name} as web pages. This link {does}; it is shown once:")
                terminal.say(f"  {base}/#t={tokens.issue(scope)}")
                if share and not read_only:
                    terminal.say("This link can only read:")
                    terminal.say(f"  {base}/#t={tokens.issue('read')}")
                if listen or behind_proxy:
                    code = tokens.issue_code(scope, time.monotonic())
                    terminal.say(f"On a phone open {base} and type this code, once, within 10 minutes:")
                    terminal.say(f"  {code[:5]}-{code[5:]}")
                    terminal.say(_qr_text(f"{base}/#c={code}"))
                terminal.say(
                    "Keep it from agents: they can read this terminal if it is a pane of theirs. Ctrl-C ends."
                )

            server.run(ready)


def _refuse_masters(*, master_may: bool) -> None:
    """What an AI CLI starts counts as that CLI: a master, which answers only if its user allows it."""
    from orchestrator.faces.web.local_peers import own_origin_kind  # noqa: PLC0415

    if own_origin_kind() == "master" and not master_may:
        raise BadRequest("not_allowed_to_answer", "an AI CLI that leads a team has started this command")


def _tls_files(certificate: str, key: str) -> tuple[Path | None, Path | None]:
    if bool(certificate) != bool(key):
        raise BadRequest("bad_argument", "TLS needs both files", "give --tls-cert and --tls-key")
    for name in filter(None, (certificate, key)):
        if not Path(name).is_file():
            raise BadRequest("bad_argument", f"{name!r} is no file", "give the path of a PEM file")
    if not certificate:
        return None, None
    if Path(key).stat().st_mode & stat.S_IROTH:
        raise Environment(
            "web_failed", f"every user of this machine can read {key!r}", "run chmod 600 on it, then try again"
        )
    return Path(certificate), Path(key)


def _base_url(address: str, port: int, hosts: list[str], *, tls: bool) -> str:
    from orchestrator.faces.web.site_address import DEFAULT_PORTS, literal  # noqa: PLC0415

    scheme = "https" if tls else "http"
    if hosts:
        return f"{scheme}://{hosts[0]}"
    return f"{scheme}://{literal(address)}" + ("" if port == DEFAULT_PORTS[scheme] else f":{port}")


def _qr_text(url: str) -> str:
    """The URL as a QR code of block characters; empty where the terminal cannot show them."""
    if not output.utf8():
        return ""
    import segno  # noqa: PLC0415  (only for a phone)

    drawn = io.StringIO()
    segno.make(url, micro=False).terminal(drawn, compact=True)
    return drawn.getvalue()


class _SecretTerminal:
    """The terminal of this process, which alone shows the links: a file or a pipe would keep them.

    BadRequest ``no_terminal`` without one.
    """

    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            raise BadRequest("no_terminal", "this process has no terminal to show the link on") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def say(self, text: str) -> None:
        """Some lines, whole: a link must not be cut."""
        data = f"{text}\n".encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._fd, data) :]


def add_to(app: Any) -> None:
    """Declare the command on the top-level app."""
    options.command(app, "web", "orchestrator web\norchestrator web --read-only --port 0")(web)
