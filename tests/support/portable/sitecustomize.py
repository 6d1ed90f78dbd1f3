"""Makes Linux refuse our own code what only Linux has, in every program of a test: Python imports this at its start.

For the tests in the portable form (``ORCHESTRATOR_PLATFORM=portable``, `make test`). What /proc, pidfds, fdatasync and
SO_PEERCRED tell is refused to code of `orchestrator/`, and to the standard library where that code asked it; psutil may
read. A refusal is no ``OSError``: nothing takes it for an answer. LOCAL_PEERPID and LOCAL_PEERCRED of macOS have a
stand-in here, and `WITHOUT_PEERS` leaves both out. The programs of `edge` get no psutil at all.
"""

import os
import re
import socket
import struct
import sys
from pathlib import Path

WITHOUT_PEERS = "TESTS_WITHOUT_PEERS"
PACKAGE = str(Path(__file__).resolve().parents[3] / "orchestrator") + os.sep
STANDARD = str(Path(os.__file__).parent) + os.sep
SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID = 0, 1, 2
OF_EDGE = {"mcp", "launch", "show", "hook"}


class Refused(Exception):
    """Our own code has asked what this system does not tell."""


def is_ours():
    """Whether code of the package asks, itself or through the standard library."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if "-packages" in name or (name != __file__ and not name.startswith(("<frozen", STANDARD))):
            return name.startswith(PACKAGE)
        frame = frame.f_back
    return False


def look(event, arguments):
    """Refuse to open or list what is below /proc."""
    if event in ("open", "os.listdir", "os.scandir") and arguments:
        path = os.fspath(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        if os.fsdecode(path).startswith("/proc") and is_ours():
            raise Refused(f"{event} {path!r}")


def refused(name, call):
    """The call, refused to our own code."""

    def called(*arguments, **options):
        path = str(arguments[0]) if arguments else ""
        # A user's own path may lead through /proc; what /proc tells of a process is below these.
        if (name != "readlink" or re.match(r"/proc/\w+/(cwd|exe|fd|ns)", path)) and is_ours():
            raise Refused(f"os.{name}")
        return call(*arguments, **options)

    return called


_getsockopt = socket.socket.getsockopt


def getsockopt(sock, level, option, *size):
    """What macOS says of a peer, and to our own code nothing of what Linux says."""
    if level == SOL_LOCAL and option in (LOCAL_PEERCRED, LOCAL_PEERPID) and WITHOUT_PEERS not in os.environ:
        pid, uid, gid = struct.unpack("3i", _getsockopt(sock, socket.SOL_SOCKET, 17, 12))
        if option == LOCAL_PEERPID:
            return struct.pack("=i", pid)
        return struct.pack("=IiHxx16i", 0, uid, 1, gid, *[0] * 15)
    if level == socket.SOL_SOCKET and option in (17, 77) and is_ours():
        raise Refused(f"getsockopt {option}")
    return _getsockopt(sock, level, option, *size)


class NoPsutil:
    """Finds no psutil for a program of the standard library alone."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "psutil":
            raise Refused("psutil in a program of edge")


def begin():
    """Refuse from now on."""
    sys.addaudithook(look)
    for name in ("pidfd_open", "fdatasync", "sched_getaffinity", "readlink"):
        setattr(os, name, refused(name, getattr(os, name)))
    socket.socket.getsockopt = getsockopt
    words = sys.orig_argv
    if "orchestrator" in words and OF_EDGE & set(words[words.index("orchestrator") + 1 :][:1]):
        sys.meta_path.insert(0, NoPsutil)


if os.environ.get("ORCHESTRATOR_PLATFORM") == "portable":
    begin()
