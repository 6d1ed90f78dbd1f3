"""The daemon's door: its lock, its socket and its markers.

It touches the run directory only. The lock and the listening socket come from whoever started the daemon
(``daemon_connection.try_start``), or are taken here for a daemon in the foreground.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.base.errors import BadRequest, Conflict, Environment
from orchestrator.edge.daemon_connection import claim
from orchestrator.edge.project_location import (
    FAILED,
    LOCK,
    SOCKET,
    STARTS,
    RunDirUnsafe,
    run_dir,
    run_dirs,
    why_not,
)

Inode = tuple[int, int]


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


def take_over(lock_fd: int, socket_fd: int, root: Path) -> Door:
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
        directory = next((candidate for candidate in run_dirs(root) if name == str(candidate / SOCKET)), directory)
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


def _run_dir(root: Path) -> Path:
    try:
        return run_dir(root)
    except RunDirUnsafe as error:
        raise Environment("run_dir_unsafe", str(error)) from error


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino
