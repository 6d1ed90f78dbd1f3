"""Which process is at the other end of a TCP connection within this machine, as the system shows it. Decides nothing.

Linux lists every TCP socket with its user and inode, and every process with the inodes of its sockets. Elsewhere
psutil shows the sockets of this user's processes, and no others.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from orchestrator.base.platform.basic_facts import LINUX, PROC
from orchestrator.base.platform.linux_processes import read
from orchestrator.base.platform.process_facts import pids

Address = tuple[str, int]
"""An IP address as text, and a port."""
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class SocketHolders(NamedTuple):
    """The processes that have a socket open.

    ``hidden`` are the processes of this user whose descriptors cannot be read, each of which may have it open too:
    programs that the kernel protects, such as sshd's, and any program that asked for it.
    """

    pids: tuple[int, ...]
    hidden: tuple[int, ...]


class TcpSocket(NamedTuple):
    """One end of a connection: the user who made the socket, and its inode (0: closed by its process).

    ``holders`` are the processes that have it open, where the system shows these and no inode.
    """

    uid: int
    inode: int
    holders: SocketHolders | None = None


def plain(address: str) -> str:
    """The address without a zone, IPv4 in the form of IPv6 as IPv4; ValueError if it is none."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)


LOOKS = 3
LOOPBACK = ("127.", "::1")


def is_here(address: str) -> bool:
    """Whether a connection from there certainly comes from this machine, also if no socket is known of it."""
    ip = plain(address)
    return ip.startswith(LOOPBACK) or (not LINUX and ip in _own_addresses())


def socket_of(local: Address, remote: Address) -> TcpSocket | None:
    """The socket of this machine that is bound to ``local`` and connected to ``remote``; None if there is none."""
    wanted = (plain(local[0]), local[1]), (plain(remote[0]), remote[1])
    if not LINUX:
        return _shown_socket(wanted)
    ports = b":%04X" % local[1], b":%04X" % remote[1]  # an address is parsed only if both ports match
    # The kernel returns a table in pieces. If the table changes meanwhile, a row may be missing: look again.
    for name in ("tcp", "tcp6") * LOOKS:
        try:
            table = read_table(name)
        except OSError:
            continue
        for fields in table:
            fits = fields[1].endswith(ports[0]) and fields[2].endswith(ports[1])
            if fits and (_address(fields[1]), _address(fields[2])) == wanted:
                return TcpSocket(int(fields[7]), int(fields[9]))
    return None


def read_table(name: str) -> Iterator[list[bytes]]:
    """The rows of ``/proc/net/<name>``, split into fields; raises ``OSError``."""
    with open(f"{PROC}/net/{name}", "rb") as file:  # noqa: PTH123  (as in `process_facts.read`)
        rows = file.read().splitlines()[1:]
    return (fields for row in rows if len(fields := row.split()) > 9)


def holders_of(inode: int, *, first: Iterable[int] = ()) -> SocketHolders:
    """The processes that have the socket open; those of ``first`` are looked at before all others.

    If one of these has it, no other process is looked at.
    """
    for pid in first:
        with contextlib.suppress(PermissionError):
            if _has(pid, inode):
                return SocketHolders((pid,), ())
    holders: list[int] = []
    hidden: list[int] = []
    for pid in pids():
        if pid == os.getpid():
            continue
        try:
            if _has(pid, inode):
                holders.append(pid)
        except PermissionError:
            if _user_of(pid) == os.geteuid():
                hidden.append(pid)
    return SocketHolders(tuple(holders), tuple(hidden))


def _has(pid: int, inode: int) -> bool:
    """Whether the process has the socket open; raises ``PermissionError`` if its descriptors cannot be read."""
    directory = f"{PROC}/{pid}/fd"
    try:
        names = os.listdir(directory)  # noqa: PTH208  (as in `process_facts.read`)
    except PermissionError:
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return False
    for name in names:
        try:
            match = _SOCKET.fullmatch(os.readlink(f"{directory}/{name}"))  # noqa: PTH115  (as above)
        except FileNotFoundError:
            continue  # closed meanwhile
        if match is not None and int(match[1]) == inode:
            return True
    return False


def _user_of(pid: int) -> int:
    """The effective user of a process, whose directory in /proc may belong to root; -1 if it is gone."""
    try:
        status = read(pid, "status")
    except OSError:
        return -1
    match = re.search(rb"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    return int(match[1]) if match else -1


def _address(field: bytes) -> Address:
    """``0100007F:1F90`` as (``127.0.0.1``, 8080): words of four bytes in the order of the machine."""
    digits, _, port = field.partition(b":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    return plain(str(ipaddress.ip_address(packed))), int(port, 16)


# -- the portable form --------------------------------------------------------------------------------------------


def _shown_socket(wanted: tuple[Address, Address]) -> TcpSocket | None:
    import psutil  # noqa: PLC0415 - in this form only

    holders: list[int] = []
    hidden: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.uids().effective != os.geteuid():
                continue
            rows: list[Any] = process.net_connections("tcp")  # of a socket that only listens, raddr is empty
            if wanted in [(_end(row.laddr), _end(row.raddr)) for row in rows if row.raddr]:
                holders.append(process.pid)
        except psutil.AccessDenied:
            hidden.append(process.pid)
        except psutil.Error:
            continue  # it has ended
    if not holders and not is_here(wanted[0][0]):
        return None
    return TcpSocket(os.geteuid(), -1, SocketHolders(tuple(holders), () if holders else tuple(hidden)))


def _end(address: Any) -> Address:
    return plain(address.ip), address.port


def _own_addresses() -> set[str]:
    import psutil  # noqa: PLC0415 - in this form only

    addresses: set[str] = set()
    for rows in psutil.net_if_addrs().values():
        for row in rows:
            with contextlib.suppress(ValueError):  # the address of a card
                addresses.add(plain(row.address))
    return addresses
