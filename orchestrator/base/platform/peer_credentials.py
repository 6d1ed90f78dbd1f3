"""Which process is at the other end of a unix socket, as the kernel says.

Linux: SO_PEERCRED, and a pidfd of the very process. Elsewhere: LOCAL_PEERPID and LOCAL_PEERCRED of macOS. A kernel
that does not say it is not asked otherwise: then nobody knows the process, and it gets no rights of a master.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
from typing import NamedTuple, Protocol

from orchestrator.base.platform import process_facts
from orchestrator.base.platform.basic_facts import LINUX

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)  # Linux 6.5
# xnu, bsd/sys/un.h: SOL_LOCAL, LOCAL_PEERCRED and LOCAL_PEERPID. Python has names for none of them everywhere.
SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID = 0, 1, 2
# xnu, bsd/sys/ucred.h: struct xucred has a version, which is 0, the user id, and up to 16 groups.
XUCRED_BYTES, XUCRED_VERSION = 76, 0


class HasOptions(Protocol):
    """A socket, or what asyncio shows of one."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


class PeerCredentials(NamedTuple):
    """Pid and user id of the process that connected; the pid is that of then and may be another's now."""

    pid: int
    uid: int


def credentials_of(sock: HasOptions) -> PeerCredentials:
    """The process that connected; pid 0 and user -1 for what the system does not report."""
    if not LINUX:
        return PeerCredentials(_local_pid(sock), _local_uid(sock))
    try:
        pid, uid, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
    except (OSError, struct.error):
        return PeerCredentials(0, -1)
    return PeerCredentials(int(pid), int(uid))


def _local_pid(sock: HasOptions) -> int:
    try:
        (pid,) = struct.unpack("=i", sock.getsockopt(SOL_LOCAL, LOCAL_PEERPID, 4))
    except (OSError, struct.error):
        return 0
    return max(0, int(pid))


def _local_uid(sock: HasOptions) -> int:
    try:
        version, uid = struct.unpack_from("=Ii", sock.getsockopt(SOL_LOCAL, LOCAL_PEERCRED, XUCRED_BYTES))
    except (OSError, struct.error):
        return -1
    return int(uid) if version == XUCRED_VERSION else -1


def is_own_user(sock: HasOptions) -> bool:
    """Whether the process that connected runs as our own user.

    A system that names no user is believed only because nobody else can enter the directory of the socket.
    """
    pid, uid = credentials_of(sock)
    if uid == -1 and not LINUX:
        return pid == 0 or process_facts.is_own(pid)
    return uid == os.geteuid()


def pidfd_of(sock: HasOptions) -> int | None:
    """A descriptor of the very process that connected; None where the kernel has none to give.

    ``ProcessLookupError`` when that process is gone, ``OSError`` when no descriptor is left.
    """
    if not LINUX:
        return None
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
