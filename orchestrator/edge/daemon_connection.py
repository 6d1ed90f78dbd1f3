"""Connects to the project's daemon, starts it if none runs, and builds the handshake.

Shared by relay, command line and the daemon; standard library only. It touches the run directory and forks. A started
daemon holds the lock until it ends and inherits the listening socket, so nobody polls for readiness.
"""
# os.stat and os.getcwd: bytes that are not UTF-8 survive.
# ruff: noqa: PTH109, PTH116

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.base.platform.basic_facts import close_all_but, own_ancestors
from orchestrator.edge.project_location import (
    AGENT_ENV,
    FAILED,
    INSTALL,
    LOCK,
    LOG,
    MEMBER_ENV,
    PER_CONNECTION,
    PROTO,
    RESTARTING,
    SOCKET,
    STARTS,
    VERSION,
    Project,
    agent_socket,
    is_stopped,
    own_command,
    run_dir,
)

FAILED_PACE_S = 3.0  # after a start that failed for a known reason, all relays together wait this long
FREE_STARTS = 3  # this many failed starts may follow each other without a pause
PACE_MAX_S = 10.0
LOG_MAX = 4 << 20


def connect(project: Project) -> socket.socket | None:
    """A connection (non-blocking) to the project's daemon, or None when nothing listens.

    An agent connects to its own socket, or to the project's while its own does not answer (the daemon loads). The
    caller sends `hello` first. Raises ``RunDirUnsafe``.
    """
    directory, agent_id = run_dir(project.root), os.environ.get(AGENT_ENV[0])
    for name in (agent_socket(agent_id), SOCKET) if agent_id else (SOCKET,):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(str(directory / name))
        except OSError:  # also a full backlog: it is retried like an absent daemon
            sock.close()
        else:
            return sock
    return None


def claim(directory: Path) -> tuple[int, socket.socket] | None:
    """The daemon's lock and a fresh listening socket (mode 0600), or None while another process holds the lock.

    A free lock proves that no daemon runs, so a stale socket is removed. Both descriptors are non-inheritable.
    """
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held, named = os.fstat(lock), os.stat(directory / LOCK)
        except (BlockingIOError, FileNotFoundError):
            os.close(lock)
            return None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):  # somebody cleaned the directory meanwhile
            os.close(lock)
            return None
        (directory / SOCKET).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listener.bind(str(directory / SOCKET))
        finally:
            os.umask(mask)
        listener.listen(512)
    except OSError:
        os.close(lock)
        raise
    return lock, listener


def daemon_command(project: Project, lock: int, listener: int) -> list[str]:
    """How a daemon is started that inherits both descriptors."""
    fds = ("--lock-fd", str(lock), "--socket-fd", str(listener))
    return own_command("daemon", "run", "--project", str(project.root), *fds)


def try_start(project: Project, directory: Path) -> bool:
    """Start the project's daemon unless one holds the lock, it was stopped by hand, or a start just failed.

    True if this call started a daemon: connect at once, the backlog holds callers while it loads. Failed starts are
    counted for all callers together, and the pause between them grows. Raises ``OSError`` if the start fails.
    """
    if _held_back(directory):
        return False
    claimed = claim(directory)
    if claimed is None:
        return False
    lock, listener = claimed
    try:
        # Who stops the daemon by hand leaves the marker first and looks at the lock then, and a daemon that fails
        # leaves its own while it holds the lock: only with the lock in hand is it sure that there is none.
        if _held_back(directory):
            (directory / SOCKET).unlink(missing_ok=True)
            return False
        _spawn(daemon_command(project, lock, listener.fileno()), directory, lock, listener.fileno())
        _count_start(directory)
    finally:
        os.close(lock)
        listener.close()
    return True


def _held_back(directory: Path) -> bool:
    if is_stopped(directory) or 0 <= _age(directory / FAILED) < FAILED_PACE_S:
        return True
    vain = vain_starts(directory) - FREE_STARTS
    return vain >= 0 and 0 <= _age(directory / STARTS) < min(PACE_MAX_S, 0.25 * 2.0 ** min(vain, 10))


def vain_starts(directory: Path) -> int:
    """How many daemons were started since a daemon was last ready; the last may still become ready."""
    try:
        return (directory / STARTS).stat().st_size
    except OSError:
        return 0


def _count_start(directory: Path) -> None:
    with suppress(OSError):  # a full disk: then the pace is that of each caller alone
        fd = os.open(directory / STARTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b".")
        finally:
            os.close(fd)


def failure(kind: str, code: str, message: str, next_step: str) -> dict[str, Any]:
    """The wire form of an error of ``orchestrator.base.errors``, whose table knows kind and code."""
    return {"kind": kind, "code": code, "message": message, "next_step": next_step}


def stopped_by_hand(directory: Path) -> bool:
    """Whether no daemon comes before the user starts it; False while `daemon restart` is at work."""
    return is_stopped(directory) and not (directory / RESTARTING).exists()


def held_by(directory: Path) -> dict[str, Any] | None:
    """The error, in wire form, that a marker in the run directory gives for a missing daemon; else None."""
    if is_stopped(directory):
        return failure(
            "NotReady", "daemon_stopped", "the daemon was stopped by hand", "run: orchestrator daemon start"
        )
    with suppress(OSError, ValueError):
        marker = json.loads((directory / FAILED).read_bytes())
        if isinstance(marker, dict) and {"kind", "code", "message", "next_step"} <= marker.keys():
            return marker
    vain = vain_starts(directory)
    if vain > FREE_STARTS:
        message = f"{vain} daemons in a row ended before they were ready"
        return failure(
            "Environment", "daemon_failed", message, f"read {directory / LOG}; the start is retried automatically"
        )
    return None


def handshake_line(
    project: Project,
    *,
    kind: str,
    conn: str,
    boot: int = 1,
    toolsets: Sequence[str] = (),
    pending: Sequence[tuple[str | int, int]] = (),
    call_limit_s: int | None = None,
) -> bytes:
    """The handshake, the first line to the daemon: who connects, from where, and which requests still wait.

    ``kind`` is ``relay``, ``cli`` or ``hook``; ``conn`` 16 hex digits, the same while the caller runs; ``boot``
    counts its connections from 1; ``pending`` are (request id, age in ms) of a relay that connects again;
    ``call_limit_s`` is the client's limit for one call, if it was configured.
    """
    pids, tty = own_ancestors()
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = str(project.root)
    facts = {
        "proto": PROTO,
        "version": VERSION,
        "install": INSTALL,
        "project": str(project.root),
        "conn": conn,
        "boot": boot,
        "kind": kind,
        "cwd": cwd,
        "toolsets": list(toolsets),
        "tmux": os.environ.get("TMUX"),
        "tmux_pane": os.environ.get("TMUX_PANE"),
        "tty": tty,
        "pids": pids,
        "agent": _agent(),
        "env": {name: os.environ[name] for name in PER_CONNECTION if name in os.environ},
        "pending": list(pending),
        "call_limit_s": call_limit_s,
    }
    return json.dumps({"hello": facts}, separators=(",", ":")).encode() + b"\n"


def _spawn(command: list[str], directory: Path, lock: int, listener: int) -> None:
    """Run ``command`` outside our process group and tree, holding nothing of ours but the two descriptors."""
    with suppress(OSError):
        if (directory / LOG).stat().st_size > LOG_MAX:
            (directory / LOG).replace(directory / f"{LOG}.1")
    log = os.open(directory / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    # What holds for one connection, names an agent or points at a terminal is not the daemon's.
    dropped = {*PER_CONNECTION, *AGENT_ENV, MEMBER_ENV, "TMUX", "TMUX_PANE"}
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    child = os.fork()
    if child:
        os.close(log)
        os.close(null)
        if os.waitpid(child, 0)[1]:
            raise OSError(errno.EAGAIN, "its process could not be created")
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        for fd, at in ((null, 0), (log, 1), (log, 2)):
            os.dup2(fd, at)
        # A pipe leaked into us by the CLI would stay open as long as the daemon lives, and the CLI wait for its end.
        close_all_but((lock, listener))
        os.set_inheritable(lock, True)
        os.set_inheritable(listener, True)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGQUIT):  # what we ignore, it and its children would
            signal.signal(number, signal.SIG_DFL)
        os.execve(command[0], command, env)  # noqa: S606 - an argv list
    except BaseException as error:  # noqa: BLE001 - a child must never run on as a second relay
        os.write(2, f"orchestrator: the daemon was not started: {error}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _agent() -> dict[str, Any] | None:
    """The agent this process speaks for, as its environment claims it; the secret proves it to the daemon."""
    agent_id, epoch, secret = (os.environ.get(name, "") for name in AGENT_ENV)
    if not agent_id or not epoch.isdecimal():
        return None
    if AGENT_ENV[2] not in os.environ and "/" not in agent_id:  # some CLIs strip what is named like a secret
        place = Path(os.environ.get("ORCHESTRATOR_PROJECT", "")) / ".agents" / "agents" / agent_id / "engine"
        with suppress(OSError, ValueError, LookupError, TypeError):
            launch = json.loads((place / "launch.json").read_bytes())
            secret = str(launch["secret"]) if launch["epoch"] == int(epoch) else ""
    return {"id": agent_id, "epoch": int(epoch), "secret": secret}


def _age(path: Path) -> float:
    """Seconds since the file was written; -1 when there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return -1.0
