"""A PostgreSQL server of its own, in a directory of its own: for tests, measurements and the demo. Loads no driver.

It never touches another cluster of the machine. PostgreSQL refuses to run as root: then an unprivileged user runs it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.base.errors import Environment
from orchestrator.base.platform import processes
from orchestrator.base.platform.basic_facts import ProcessEnd

OLDEST = 15
OWNER = "fleet_owner"
"""The superuser of a private cluster; it has no password, so it comes in by the socket only."""
UNPRIVILEGED = ("postgres", "nobody")
LISTENS_S = 60
"""Longest time for the server to start or stop; only a broken machine reaches it."""
PORTS = range(15_000, 31_000)
"""Below the ports that systems give to outgoing connections: one of those would keep a server from coming back."""

# mmap: files of a server that was killed lie in its directory, not in /dev/shm.
_SETTINGS = """
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 32MB
dynamic_shared_memory_type = mmap
log_min_messages = warning
"""
_UNSAFE = """
fsync = off
full_page_writes = off
"""
_ACCESS = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""


def programs() -> Path:
    """The directory of the newest server programs of this machine; Environment ``no_postgres`` without them."""
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += Path("/usr/lib/postgresql").glob("*/bin")
    usable = [
        (_version(place), place) for place in places if all((place / name).exists() for name in ("initdb", "pg_ctl"))
    ]
    newest = max(usable, default=(0, Path()))
    if newest[0] < OLDEST:
        raise Environment("no_postgres", f"no server of PostgreSQL {OLDEST} or newer is installed here")
    return newest[1]


def _version(place: Path) -> int:
    said = subprocess.run([place / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+", said)
    return int(number[0]) if number else 0


@dataclass(frozen=True)
class _User:
    """Who runs the server: another one than we are, if we are root."""

    uid: int | None = None
    gid: int | None = None

    @classmethod
    def fitting(cls) -> _User:
        if os.geteuid() != 0:
            return cls()
        for name in UNPRIVILEGED:
            with contextlib.suppress(KeyError):
                entry = pwd.getpwnam(name)
                return cls(entry.pw_uid, entry.pw_gid)
        raise Environment("no_postgres", "there is no unprivileged user (postgres, nobody) to run the server as")


class PrivateCluster:
    """One server below a new directory of the system's temporary files, or below ``parent``, which others may enter.

    It is reached by a socket that only its user and root can open, without a password, and with ``tcp`` also at
    127.0.0.1, with one. ``durable=False`` never syncs: for what does not test what a power cut leaves. ``directory``
    is that of an earlier one, to be ended.
    """

    def __init__(
        self, *, parent: Path | None = None, directory: Path | None = None, durable: bool = True, tcp: bool = True
    ) -> None:
        self._bin = programs()
        self._user = _User.fitting()
        self._durable, self._tcp = durable, tcp
        self.directory = directory or Path(tempfile.mkdtemp(prefix="orchestrator-pg-", dir=parent))
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.port = _free_port(self.directory)

    def create(self) -> None:
        """Make the files of the cluster."""
        if self._user.uid is not None and self._user.gid is not None:
            os.chown(self.directory, self._user.uid, self._user.gid)
        sync = () if self._durable else ("--no-sync",)
        self._run("initdb", "-D", self.data, "-U", OWNER, "-E", "UTF8", "--locale=C", "-k", "-A", "trust", *sync)
        settings = _SETTINGS if self._durable else _SETTINGS + _UNSAFE
        settings += f"unix_socket_directories = '{self.directory}'\nport = {self.port}\n"
        settings += f"listen_addresses = '{'127.0.0.1' if self._tcp else ''}'\n"
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)
        (self.data / "pg_hba.conf").write_text(_ACCESS, encoding="utf-8")

    def start(self) -> None:
        """Start the server; it answers when this returns, also after `kill`."""
        self._run("pg_ctl", "start", "-w", "-t", str(LISTENS_S), "-s", "-D", self.data, "-l", self.log)

    def stop(self) -> None:
        """Stop the server as an operator does; who is connected loses the connection."""
        self._run("pg_ctl", "stop", "-w", "-t", str(LISTENS_S), "-s", "-m", "fast", "-D", self.data)

    def restart(self) -> None:
        """Stop and start; the address stays."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End all processes of the server at once, as `kill -9` or the end of the machine does."""
        if self.pid is None:
            return
        tree = processes.tree_of(self.pid)
        ends = []
        for pid, _ in tree:
            with contextlib.suppress(ProcessLookupError):
                ends.append(ProcessEnd(pid))
        processes.send(tree, signal.SIGKILL)
        for end in ends:  # while one process lives, the server's shared memory keeps a new one from starting
            select.select([end], [], [], LISTENS_S)
            end.close()
        # They name a process that is a zombie where nobody collects it, and so seems to run.
        for file in (self.data / "postmaster.pid", self.directory / f".s.PGSQL.{self.port}.lock"):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """End the server if it runs, and remove its files."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """The server's process, if it runs."""
        try:
            pid = int((self.data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0])
        except (OSError, ValueError):
            return None
        return pid if str(self.data) in processes.command_of(pid) else None

    def dsn(self, database: str = "postgres", user: str = OWNER, *, tcp: bool = False) -> str:
        """How to connect: by the socket, or at 127.0.0.1, where a password is asked for."""
        host = "127.0.0.1" if tcp else self.directory
        return f"host={host} port={self.port} dbname={database} user={user}"

    def _run(self, program: str, *args: str | Path) -> None:
        # Into a file, for the server would hold a pipe open.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._bin / program), *map(str, args)],
                # Not ours: the server's user may not enter our directory, and PGDATA and others of our variables act.
                cwd=self.directory,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=self._user.uid,
                group=self._user.gid,
                extra_groups=None if self._user.uid is None else [],
                check=False,
            )
            output.seek(0)
            words = output.read().decode("utf-8", "replace").split()
        if done.returncode:
            raise Environment("no_postgres", f"{program} failed: {' '.join(words)[-500:]}", f"look into {self.log}")


_WATCH = 'cat >/dev/null; kill -9 "$(head -n 1 "$0/data/postmaster.pid")" 2>/dev/null; rm -rf "$0"'
"""Ends the server of a directory when the process that began this is gone, however: its end of the pipe closes."""


@contextlib.contextmanager
def running(*, durable: bool = True, tcp: bool = True) -> Iterator[PrivateCluster]:
    """A private cluster that answers; its server and files are gone afterwards, also if this process is killed."""
    cluster = PrivateCluster(durable=durable, tcp=tcp)
    watch = ["sh", "-c", _WATCH, str(cluster.directory)]
    with subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True):
        try:
            cluster.create()
            cluster.start()
            yield cluster
        finally:
            cluster.remove()


def _free_port(directory: Path) -> int:
    """A port that nobody listens at, another one for each directory."""
    first = zlib.crc32(os.fsencode(directory))
    for number in range(len(PORTS)):
        port = PORTS[(first + number) % len(PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Environment("no_postgres", "no port of 127.0.0.1 is free")
