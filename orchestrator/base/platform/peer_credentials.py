"""Which process is at the other end of a unix socket, as the kernel says."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
from typing import NamedTuple, Protocol

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)  # Linux 6.5


class HasOptions(Protocol):
    """A socket, or what asyncio shows of one."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


class PeerCredentials(NamedTuple):
    """Pid and user id of the process that connected; the pid is that of then and may be another's now."""

    pid: int
    uid: int


def credentials_of(sock: HasOptions) -> PeerCredentials:
    """The process that connected; (0, -1) if the system does not report it."""
    try:
        pid, uid, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
    except (OSError, struct.error):
        return PeerCredentials(0, -1)
    return PeerCredentials(int(pid), int(uid))


def is_own_user(sock: HasOptions) -> bool:
    """Whether the process that connected runs as our own user."""
    return credentials_of(sock).uid == os.geteuid()


def pidfd_of(sock: HasOptions) -> int | None:
    """A descriptor of the very process that connected; None where the kernel has none to give.

    ``ProcessLookupError`` when that process is gone, ``OSError`` when no descriptor is left.
    """
    try:
        return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4), sys.byteorder, signed=True)
    except OSError as error:
        if error.errno in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            return None
        if error.errno in (errno.EINVAL, errno.ENODATA):
            raise ProcessLookupError(errno.ESRCH, "the process that connected is gone") from error
        raise


def has_ended(pidfd: int) -> bool:
    """Whether the process of that descriptor has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
