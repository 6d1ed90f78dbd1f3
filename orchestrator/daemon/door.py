"""The daemon's door: its lock, its socket, its markers, and who may come in with which hello.

It touches the run directory only. The lock and the listening socket come from whoever started the daemon
(``daemon_connection.try_start``), or are taken here for a daemon in the foreground.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.edge.daemon_connection import claim
from orchestrator.edge.project_location import (
    FAILED,
    INSTALL,
    LOCK,
    PER_CONNECTION,
    SOCKET,
    STARTS,
    VERSION,
    RunDirUnsafe,
    run_dir,
    run_dirs,
    why_not,
)

HELLO_MAX = 1 << 20
COUNT_MAX = (1 << 53) - 1  # what every JSON reader keeps exactly

Inode = tuple[int, int]


@dataclass(frozen=True)
class AgentClaim:
    """Who a connection says it is; only the secret proves it, and it is never shown."""

    id: str
    epoch: int
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Hello:
    """The handshake of a connection. ``pending``: (request id, age in ms) of re-sent ones; ``env`` may have keys."""

    proto: int
    version: str
    install: str
    project: str
    conn: str
    boot: int
    kind: str
    cwd: str
    toolsets: tuple[str, ...]
    tmux: str | None
    tmux_pane: str | None
    tty: str | None
    pids: tuple[int, ...]
    agent: AgentClaim | None
    env: Mapping[str, str] = field(repr=False)
    pending: tuple[tuple[str | int, int], ...]
    call_limit_s: int | None = None  # how long the client lets one call run, where somebody has told the relay


class Door:
    """Lock and listening socket of the one daemon of a project, held until it ends.

    ``listener`` is the listening socket, ``directory`` the run directory. Children inherit neither descriptor: a
    child that outlived the daemon would keep the lock.
    """

    def __init__(self, directory: Path, lock_fd: int, listener: socket.socket) -> None:
        self.directory = directory
        self.listener = listener
        self._lock_fd = lock_fd
        # Both files stay referenced by our descriptors, so that their inode numbers cannot be used again.
        self._lock_inode = _inode(os.fstat(lock_fd))
        self._socket_inode = _inode((directory / SOCKET).lstat())

    def still_ours(self) -> bool:
        """Whether both paths still lead to this daemon; a daemon that cannot or must not be reached has to end.

        No client connects in a directory that is open to other users: all look in the other one.
        """
        if why_not(self.directory) is not None:
            return False
        try:
            lock, door = (self.directory / LOCK).lstat(), (self.directory / SOCKET).lstat()
        except OSError:
            return False
        return (_inode(lock), _inode(door)) == (self._lock_inode, self._socket_inode)

    def write_failed(self, error: Mapping[str, Any]) -> None:
        """Say why this start cannot succeed (an error in wire form): relays report it and try seldom."""
        with suppress(OSError):  # no room even for the marker: the log says it, and starts in vain are counted
            write_failed(self.directory, error)

    def clear_failed(self) -> None:
        """Forget failures and starts in vain: the daemon is up."""
        for name in (FAILED, STARTS):
            (self.directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next daemon in at once; a daemon that just dies is as good."""
        if self.still_ours():
            with suppress(OSError):
                (self.directory / SOCKET).unlink()
        self.listener.close()
        os.close(self._lock_fd)


def adopt(lock_fd: int, socket_fd: int, root: Path) -> Door:
    """The door handed down by whoever started this daemon for the project at ``root``.

    ``Conflict`` daemon_running when lock or socket are not (any more) the project's, ``BadRequest`` bad_argument
    when the descriptors are no lock file and no listening socket, ``Environment`` run_dir_unsafe. Either of the
    project's run directories may be the door's: what decides between them may have changed since the start.
    """
    directory = _run_dir(root)
    try:
        for fd in (lock_fd, socket_fd):
            os.set_inheritable(fd, False)
        if not stat.S_ISREG(os.fstat(lock_fd).st_mode) or not stat.S_ISSOCK(os.fstat(socket_fd).st_mode):
            raise OSError("wrong kind of descriptor")  # noqa: TRY301 - one refusal for all ways of being wrong
        listener = socket.socket(fileno=socket_fd)
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        name = listener.getsockname()
    except OSError as error:
        raise BadRequest(
            "bad_argument", f"--lock-fd and --socket-fd are for the relay that starts it: {error}"
        ) from error
    try:
        # Granted to the description that holds it already; refused when another daemon has it.
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory = next((one for one in run_dirs(root) if name == str(one / SOCKET)), directory)
        door = Door(directory, lock_fd, listener)
        if listening and name == str(directory / SOCKET) and door.still_ours():
            return door
    except OSError:
        pass  # the lock is another's, or the socket's path is gone: the same refusal
    listener.detach()  # what is not our door is not ours to close
    raise Conflict("daemon_running", f"the lock or the socket in {directory} is not this daemon's")


def start_as_foreground(root: Path) -> Door:
    """The door of a daemon that was not started for a connection: it takes the lock and the socket itself.

    ``Conflict`` daemon_running if another daemon serves the project, ``Environment`` run_dir_unsafe.
    """
    directory = _run_dir(root)
    try:
        claimed = claim(directory)
    except OSError as error:
        raise Environment("daemon_failed", f"the socket in {directory} cannot be made: {error}") from error
    if claimed is None:
        raise Conflict("daemon_running", f"another daemon serves {root}")
    return Door(directory, *claimed)


def write_failed(directory: Path, error: Mapping[str, Any]) -> None:
    """Leave the marker of a start that fails for a known reason; never half-written."""
    half = directory / f"{FAILED}.{os.getpid()}"
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(dict(error), file, default=str)
    half.replace(directory / FAILED)


class HasOptions(Protocol):
    """A socket, or what asyncio shows of one."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer(sock: HasOptions) -> tuple[int, int]:
    """Pid and user id of the process that connected; (0, -1) if the system does not report them."""
    try:
        pid, uid, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
    except (OSError, struct.error):
        return 0, -1
    return int(pid), int(uid)


def peer_uid_ok(sock: HasOptions) -> bool:
    """Whether the other end of a unix connection is a process of our own user."""
    return peer(sock)[1] == os.geteuid()


def read_hello(line: bytes) -> Hello:
    """A connection's first line; ``BadRequest`` bad_argument for anything else. Unknown keys are let pass.

    Only ``proto``, ``conn`` and ``project`` must be there; of ``env`` only the per-connection variables count.
    """
    if len(line) > HELLO_MAX:
        raise BadRequest("bad_argument", f"a handshake may have at most {HELLO_MAX} bytes")
    try:
        said = json.loads(line.decode())["hello"]
        proto, conn, project = said["proto"], said["conn"], said["project"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadRequest("bad_argument", "the first line of a connection must be a handshake") from error
    if not _count(proto) or not isinstance(conn, str) or not 0 < len(conn) <= 64 or not isinstance(project, str):
        raise BadRequest("bad_argument", "a handshake must name proto, conn and project")
    return Hello(
        proto=proto,
        version=_text(said, "version") or "?",
        install=_text(said, "install") or "?",
        project=project,
        conn=conn,
        boot=_take(said, "boot", _count, 1),
        kind=_text(said, "kind") or "relay",
        cwd=_text(said, "cwd") or project,
        toolsets=_list(said, "toolsets", lambda one: isinstance(one, str)),
        tmux=_text(said, "tmux"),
        tmux_pane=_text(said, "tmux_pane"),
        tty=_text(said, "tty"),
        pids=_list(said, "pids", _count),
        agent=_claim(said.get("agent")),
        env=_variables(said.get("env")),
        pending=tuple((key, age) for key, age in _list(said, "pending", _is_pending)),
        call_limit_s=_take(said, "call_limit_s", lambda value: _count(value) and value > 0, None),
    )


def negotiate(hello: Hello, own_proto: int, idle: bool) -> Literal["serve", "yield"] | Conflict:
    """Whether a connection is served, refused with the conflict, or makes the daemon end for a newer one.

    The same ``proto`` is served, whatever the version; only an ``idle`` daemon ends for a newer one.
    """
    if hello.proto == own_proto:
        return "serve"
    if hello.proto > own_proto and idle:
        return "yield"
    return Conflict(
        "proto_mismatch",
        f"the daemon ({VERSION}, proto {own_proto}, {INSTALL}) and this relay "
        f"({hello.version}, proto {hello.proto}, {hello.install}) use incompatible versions of the protocol",
    )


def _run_dir(root: Path) -> Path:
    try:
        return run_dir(root)
    except RunDirUnsafe as error:
        raise Environment("run_dir_unsafe", str(error)) from error


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def _is_pending(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str | int)
        and not isinstance(value[0], bool)
        and _count(value[1])
    )


def _wrong(name: str) -> BadRequest:
    return BadRequest("bad_argument", f"{name} of the hello has the wrong type")


def _take(said: dict[str, Any], name: str, good: Any, default: Any) -> Any:
    value = said.get(name)
    if value is None:
        return default
    if not good(value):
        raise _wrong(name)
    return value


def _text(said: dict[str, Any], name: str) -> str | None:
    # No path and no variable has a NUL, and no program could be given one.
    text: str | None = _take(said, name, lambda value: isinstance(value, str) and "\0" not in value, None)
    return text


def _list(said: dict[str, Any], name: str, good: Any) -> tuple[Any, ...]:
    return tuple(_take(said, name, lambda value: isinstance(value, list) and all(good(one) for one in value), ()))


def _claim(said: object) -> AgentClaim | None:
    if said is None:
        return None
    if not isinstance(said, dict):
        raise _wrong("agent")
    agent_id, epoch, secret = said.get("id"), said.get("epoch"), said.get("secret")
    if (
        not isinstance(agent_id, str)
        or not isinstance(epoch, int)
        or not _count(epoch)
        or not isinstance(secret, str)
    ):
        raise _wrong("agent")
    return AgentClaim(agent_id, epoch, secret)


def _variables(said: object) -> dict[str, str]:
    if said is None:
        return {}
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise _wrong("env")
    return {name: said[name] for name in PER_CONNECTION if name in said}
