"""A proxy between one host and PostgreSQL that delays, stalls one way, cuts, and cuts between a commit and its answer.

It listens at a unix socket and knows as much of the protocol as it needs: the frames of both directions, which
statement a client runs, and the `ReadyForQuery` that says that the statement's transaction is over.
"""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

TO_SERVER, TO_CLIENT = "to_server", "to_client"


class _Link:
    """One client's connection and its own to the server."""

    def __init__(self, proxy: PgProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.statements: dict[bytes, bytes] = {}  # prepared: name -> text
        self.lost = False  # the answer of what runs now is not told
        self.pumps = [threading.Thread(target=self._pump, args=(way,), daemon=True) for way in (TO_SERVER, TO_CLIENT)]
        for pump in self.pumps:
            pump.start()

    def cut(self) -> None:
        for one in (self.client, self.server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _pump(self, way: str) -> None:
        source, target = (self.client, self.server) if way == TO_SERVER else (self.server, self.client)
        rest, greeted = b"", way == TO_CLIENT
        try:
            while data := source.recv(1 << 16):
                self.proxy.hold(way)
                rest += data
                passed = b""
                while frame := _frame(rest, typed=greeted):
                    rest = rest[len(frame) :]
                    greeted = True  # through a unix socket nobody asks for encryption first
                    if not self._see(way, frame):
                        return
                    passed += b"" if way == TO_CLIENT and self.lost else frame
                target.sendall(passed)
        except OSError:
            return
        finally:
            self.cut()

    def _see(self, way: str, frame: bytes) -> bool:
        """Note what a frame means; False: nothing of it goes on, and the connection is cut."""
        kind = frame[:1]
        if way == TO_CLIENT:
            if self.lost and kind == b"Z":
                self.proxy.has_fired()
                return False
            return True
        text = b""
        if kind == b"Q":
            text = frame[5:-1]
        elif kind == b"P":
            name, query = frame[5:].split(b"\0")[:2]
            self.statements[name] = query
        elif kind == b"B":
            text = self.statements.get(frame[5:].split(b"\0")[1], b"")
        if not text:
            return True
        when = self.proxy.spend(text)
        if when == "before":
            self.proxy.has_fired()
            return False
        self.lost = self.lost or when == "after"
        return True


def _frame(data: bytes, *, typed: bool) -> bytes:
    """The first whole frame of what has come; empty if it is not whole."""
    head = 1 if typed else 0
    if len(data) < head + 4:
        return b""
    length = head + int.from_bytes(data[head : head + 4])
    return data[:length] if len(data) >= length else b""


class PgProxy:
    """The way of one host to the server whose socket is ``target``; `dsn` replaces the server's directory."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.directory = Path(tempfile.mkdtemp(prefix="orchestrator-pp-"))
        self.fired = threading.Event()
        self.on_fired: Callable[[], None] = lambda: None
        self._links: list[_Link] = []
        self._gates = {way: threading.Event() for way in (TO_SERVER, TO_CLIENT)}
        for gate in self._gates.values():
            gate.set()
        self._cut: tuple[bytes, str] | None = None
        self._lock = threading.Lock()
        self._away = False
        self._delay_s = 0.0
        self._closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.directory / target.name))
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def dsn(self, direct: str) -> str:
        """How a host connects that is told ``direct``."""
        return direct.replace(str(self.target.parent), str(self.directory))

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End all connections; new ones are made."""
        for link in list(self._links):
            link.cut()

    def away(self) -> None:
        """End all connections, and refuse new ones until `back`."""
        self._away = True
        self.cut()

    def stall(self, *ways: str) -> None:
        """Let nothing pass, both ways or one, until `back`; connections stay open."""
        for way in ways or (TO_SERVER, TO_CLIENT):
            self._gates[way].clear()

    def delay(self, seconds: float) -> None:
        """Carry each packet that much later."""
        self._delay_s = seconds

    def back(self) -> None:
        """End `away`, `stall` and `delay`."""
        self._away, self._delay_s = False, 0.0
        for gate in self._gates.values():
            gate.set()

    def cut_at(self, text: str, when: str) -> None:
        """Cut at the next statement with this text: ``before`` the server gets it, or ``after`` it has committed."""
        self.fired.clear()
        with self._lock:
            self._cut = text.encode(), when

    # -- for the links ------------------------------------------------------------------------------------------

    def has_fired(self) -> None:
        self.on_fired()
        self.fired.set()

    def spend(self, text: bytes) -> str:
        with self._lock:
            if self._cut is None or self._cut[0] not in text:
                return ""
            when = self._cut[1]
            self._cut = None
            return when

    def hold(self, way: str) -> None:
        if self._delay_s:
            self._closed.wait(self._delay_s)
        self._gates[way].wait()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._closed.is_set():
                if not selector.select(0.2):
                    continue
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    if self._away:
                        raise ConnectionRefusedError
                    server.connect(str(self.target))
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._links.append(_Link(self, client, server))

    def close(self) -> None:
        """End it with all its connections."""
        self._closed.set()
        self.back()
        self._accepting.join()
        self._listener.close()
        self.cut()
        for link in self._links:
            for pump in link.pumps:
                pump.join()
            link.client.close()
            link.server.close()
        shutil.rmtree(self.directory, ignore_errors=True)
