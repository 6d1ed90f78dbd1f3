"""What even the hook asks of the system: its form, this boot, our ancestors, a process's end, open descriptors.

Imports os, select and sys only: a hook lives as long as its agent is parked. Where another system has other calls,
this package has two forms of a fact: that of Linux, and a portable one for macOS, which
``ORCHESTRATOR_PLATFORM=portable`` takes on Linux too. Nothing outside this package knows which one is taken.
"""

from __future__ import annotations

import errno
import os
import select
import sys

TYPE_CHECKING = False  # as `typing` has it, which would cost the hook a megabyte
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

VARIABLE = "ORCHESTRATOR_PLATFORM"
PORTABLE = "portable"
MACOS = sys.platform == "darwin"
LINUX = sys.platform in ("linux", "android") and os.environ.get(VARIABLE) != PORTABLE
"""Whether the form of Linux is taken."""
SUN_PATH_MAX = 107 if LINUX else 103
"""Bytes of a unix socket's path without the NUL: sun_path of sys/un.h has 108 on Linux and 104 elsewhere."""
PROC = "/proc"
SYSCTL = ("/usr/sbin/sysctl", "/sbin/sysctl")
"""Where the program is; /usr/sbin is not on every user's PATH."""


def why_unsupported() -> tuple[str, str] | None:
    """Why orchestrator cannot work on this system, in one sentence, and the next step; None if it can."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", PORTABLE):
        return f"{VARIABLE} is {wanted!r}, which names no form of a system", f"unset {VARIABLE}"
    if sys.platform not in ("linux", "android", "darwin"):
        step = "use it in WSL" if sys.platform in ("win32", "cygwin", "msys") else "use it on Linux or macOS"
        return f"orchestrator works on Linux and macOS, not on {sys.platform}", step
    if LINUX and not os.path.exists(f"{PROC}/self/stat"):  # noqa: PTH110 - no pathlib: see the head
        return f"{PROC} does not show the processes of this machine", f"mount it: mount -t proc proc {PROC}"
    return None


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1


def boot_id() -> str:
    """Tells one boot of this machine from another; empty where the system does not show it."""
    if not LINUX:
        return _asked_boot()
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123  (as above)
            return file.read().strip()
    except OSError:
        return ""


_boot: list[str] = []


def _asked_boot() -> str:
    """As a program of the system prints it, which is asked once."""
    if not _boot:
        import subprocess  # noqa: PLC0415 - in the portable form only, and there seldom

        name = "kern.bootsessionuuid" if MACOS else "kernel.random.boot_id"
        program = next(filter(os.path.exists, SYSCTL), SYSCTL[0])
        try:
            answer = subprocess.run([program, "-n", name], capture_output=True, timeout=10, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return ""
        _boot.append(answer.decode("ascii", "replace").strip())
    return _boot[0]


def own_ancestors() -> tuple[list[int], str | None]:
    """The pids above this process, nearest first and without init, and the terminal of the nearest that has one.

    The portable form leaves the pids out: they only take rights away, and the daemon sees the ancestors of its peer
    by itself.
    """
    pids: list[int] = []
    if not LINUX:
        try:
            return pids, next((os.ttyname(fd) for fd in (0, 1, 2) if os.isatty(fd)), None)
        except OSError:  # one that has no name here, as in a container
            return pids, None
    terminal, pid = None, os.getpid()
    while pid > 1 and len(pids) < 64:
        try:
            with open(f"{PROC}/{pid}/stat", "rb") as file:  # noqa: PTH123  (as above)
                fields = file.read().rpartition(b")")[2].split()
            pid, device = int(fields[1]), int(fields[4]) & 0xFFFFFFFF
        except (OSError, ValueError, IndexError):
            break
        terminal = terminal or _name_of_terminal(device)
        if pid > 1:
            pids.append(pid)
    return pids, terminal


def _name_of_terminal(device: int) -> str | None:
    """The path of a terminal by its device number, as Linux numbers devices."""
    major, minor = (device >> 8) & 0xFFF, (device & 0xFF) | ((device >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return f"/dev/pts/{(major - 136) * 256 + minor}"
    return f"/dev/tty{minor}" if major == 4 else None


def close_all_but(kept: Iterable[int]) -> None:
    """Close every descriptor of this process but the standard ones and these."""
    spared = {0, 1, 2, *kept}
    if LINUX:
        ends = sorted(spared)
        for last, following in zip(ends, [*ends[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(last + 1, following)  # one call of the system for each gap
        return
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - no pathlib: see the head. A limit of macOS may be none at all
        if int(name) not in spared:
            try:
                os.close(int(name))
            except OSError:  # the descriptor that listed the others is closed already
                continue


class ProcessEnd:
    """The end of a process, to wait for: a poll or an event loop finds it readable once the process has ended.

    ``ProcessLookupError`` when the process is gone, another ``OSError`` where there is nothing to wait on: no
    descriptor is left, or this system has neither pidfds nor kqueues. Then look now and then.
    """

    def __init__(self, pid: int) -> None:
        self._queue: Any = None
        self._fd = -1
        if LINUX:
            self._fd = os.pidfd_open(pid)
            return
        system: Any = select
        if not hasattr(system, "kqueue"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._queue = system.kqueue()
        try:
            event = system.kevent(pid, system.KQ_FILTER_PROC, system.KQ_EV_ADD, system.KQ_NOTE_EXIT)
            self._queue.control([event], 0)
        except OSError:
            self._queue.close()
            raise

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd if self._queue is None else int(self._queue.fileno())

    def close(self) -> None:
        """Give the descriptor back."""
        if self._queue is None:
            os.close(self._fd)
        else:
            self._queue.close()
