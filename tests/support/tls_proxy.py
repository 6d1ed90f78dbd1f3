"""A proxy that has TLS and passes on what it gets: a thread of the tests, with a certificate of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """PEM files of a certificate that has signed itself."""

    certificate: Path
    key: Path


def made_certificate(folder: Path, name: str = "localhost") -> Certificate:
    """A new certificate; its key is private."""
    made = Certificate(folder / f"{name}-cert.pem", folder / f"{name}-key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(made.certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    made.key.chmod(0o600)
    return made


def trusting_anybody() -> ssl.SSLContext:
    """What a client needs to accept such a certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class TlsProxy:
    """Listens at ``port``. ``head`` makes what is sent on of the head of each request; ``upstream`` is where to."""

    def __init__(self, files: Certificate) -> None:
        self.port = self.upstream = 0
        self.head: Callable[[bytes], bytes] = lambda head: head
        self._files = files
        self._loop = asyncio.new_event_loop()

    @contextlib.contextmanager
    def running(self) -> Iterator[TlsProxy]:
        """Serve until the block ends; then every connection ends."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._files)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context))
        self.port = server.sockets[0].getsockname()[1]
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            server.close()
            for task in (tasks := asyncio.all_tasks(self._loop)):
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks))
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            above, sender = await asyncio.open_connection("127.0.0.1", self.upstream)
            ends.append(sender)
            await asyncio.gather(self._requests(reader, sender), self._answers(above, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.close()

    async def _requests(self, reader: asyncio.StreamReader, sender: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
            )
            sender.write(self.head(head) + await reader.readexactly(length))
            await sender.drain()

    @staticmethod
    async def _answers(above: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await above.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
