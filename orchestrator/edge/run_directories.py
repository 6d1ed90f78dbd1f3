"""Find and remove run directories of dead daemons. Touches only directories of this user alone.

A running daemon holds the lock in its directory. The removal holds the same lock, so that no daemon starts in the
directory meanwhile; a start that waited for the lock finds the directory gone and creates it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orchestrator.base import failpoints
from orchestrator.base.errors import Environment
from orchestrator.base.platform import file_trees, process_facts
from orchestrator.edge import project_location
from orchestrator.edge.project_location import Project
from orchestrator.edge.temporary_directories import listed
from orchestrator.trust.launched import Launched

UNUSED_S = 86_400.0
"""How long after its last daemon a run directory goes, unless the caller names another age."""
_KNOWN = re.compile(
    rf"{project_location.LOCK}|{project_location.SOCKET}|{project_location.AGENT_SOCKET.pattern}|{project_location.LOG}(\.1)?|clean|{project_location.FAILED}(\.\d+)?|{project_location.STARTS}|{project_location.STOPPED}|{project_location.RESTARTING}|{project_location.FLEET_ENDS}(\.new)?|\.{project_location.SHOWN}\..+\.tmp"
)
_NAME = re.compile(r"[0-9a-f]{16}")


def collect(
    place: Project, age_s: float = UNUSED_S, *, apply: bool, go_on: Callable[[], bool] = lambda: True
) -> list[dict[str, Any]]:
    """The run directories that no daemon of this user needs; removed with ``apply``. Rows as those of gc.

    ``go_on`` is asked before each directory and each temporary file, and ends the work early: with the rows so far.
    Not removed: directories of a running daemon, of a project with a living agent or relay, directories changed
    within ``age_s`` or in the future, directories with the note that a daemon was stopped by hand since this boot or
    a window must be restored, and any with a file that is not ours. Two callers at once do no harm.
    """
    here = project_location.run_dir(place.root)
    rows: list[dict[str, Any]] = []
    in_use: set[str] | None = None
    for directory in itertools.takewhile(lambda _: go_on(), _directories()):
        lock = _claimed(directory) if directory != here else None
        if lock is None:
            continue
        try:
            sizes = _unused(directory, age_s)
            if sizes is None:
                continue
            # With the lock in hand: an agent that is started from now on waits for its daemon.
            in_use = _in_use() if in_use is None else in_use
            if directory.name not in in_use:
                rows.append(_removed_directory(directory, sizes, go_on, apply=apply))
        finally:
            os.close(lock)
    return rows


def touch(directory: Path) -> None:
    """Note that a daemon uses the directory: its age begins when the last one has ended.

    Temporary directories are touched too: systems remove what nobody has used in /tmp for some days, and an agent may
    idle for longer.
    """
    for path in [directory / project_location.LOCK, *listed([directory / project_location.TEMPORARY])]:
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)


def _directories() -> Iterator[Path]:
    for base in project_location.run_bases():
        with contextlib.suppress(OSError):
            yield from sorted(path for path in base.iterdir() if _NAME.fullmatch(path.name))


def _claimed(directory: Path) -> int | None:
    """The lock of a private directory without a living daemon; None for any other.

    The lock is made where a command only looked for a daemon: with the directory's time, which decides then.
    """
    path = directory / project_location.LOCK
    try:
        if project_location.why_not(directory) is not None:
            return None
        directory_stat = directory.lstat()
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            lock = os.open(path, flags)
        except FileNotFoundError:
            lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            os.utime(lock, ns=(directory_stat.st_mtime_ns, directory_stat.st_mtime_ns))
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another caller may have removed the directory since, and a daemon have made it again.
        if os.path.samestat(os.fstat(lock), path.lstat()):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _in_use() -> set[str]:
    """The names of the run directories of projects with a living agent or relay, as far as the system shows them."""
    roots = {project for life, (project, _) in Launched().known().agents.items() if process_facts.alive(*life)}
    with contextlib.suppress(OSError):
        roots.update(root for pid in process_facts.pids() if (root := _root_of_relay(pid)))
    return {project_location.name_of_run_dir(Path(root)) for root in roots}


def _root_of_relay(pid: int) -> str:
    """The project of a relay of this user; empty for any other process."""
    words = [os.fsdecode(word) for word in process_facts.words_of(pid)]
    # `python -m orchestrator mcp`, or the installed script.
    at = next((at for at, word in enumerate(words[1:], 1) if word == "mcp"), 0)
    if not at or os.path.basename(words[at - 1]) != "orchestrator" or not process_facts.is_own(pid):  # noqa: PTH119
        return ""
    options = words[at + 1 :]
    with contextlib.suppress(OSError):
        cwd = Path(process_facts.directory_of(pid))
        for word, value in itertools.pairwise(options):
            if word == "--project":
                return str(project_location.named_project(cwd / value).root)
        return str(project_location.find_project(cwd).root)
    return ""


def _unused(directory: Path, age_s: float) -> tuple[int, int] | None:
    """How many files and bytes it has, when all of them are known and old enough."""
    if project_location.is_stopped(directory):
        return None
    file_stats = []
    try:
        for path in directory.iterdir():
            if path.name == project_location.TEMPORARY:
                continue
            if not _KNOWN.fullmatch(path.name) or path.is_dir():
                return None
            file_stats.append(path.lstat())
        # Not the directory's own time: a removal that was cut off has changed it.
        age = time.time() - max(file_stat.st_mtime for file_stat in file_stats)
    except OSError:
        return None
    if age < 0 or age < age_s:
        return None
    files, size = file_trees.measure(directory / project_location.TEMPORARY)
    return files + len(file_stats), size + sum(file_stat.st_size for file_stat in file_stats)


def _removed_directory(
    directory: Path, sizes: tuple[int, int], go_on: Callable[[], bool], *, apply: bool
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": "run directory", "name": str(directory), "why": "no daemon uses it", "files": sizes[0],
        "bytes": sizes[1], "note": "", "done": False,
    }  # fmt: skip
    if not apply:
        return row
    temporary = directory / project_location.TEMPORARY
    try:
        if not file_trees.remove(temporary, go_on):
            if not go_on():
                return row
            return row | {"error": Environment("io_failed", f"{temporary} cannot be removed").as_dict()}
        failpoints.passed("gc:run-directory-temporary")
        # The lock last: while it has its name, nobody else gets in.
        files = sorted(directory.iterdir(), key=lambda path: path.name == project_location.LOCK)
        if project_location.is_stopped(directory):  # just now; a later marker is in none of our hands, and stays
            return row | {"note": "the daemon was just stopped by hand"}
        for path in files:
            path.unlink()
            failpoints.passed("gc:run-directory-file")
    except OSError as error:
        return row | {"error": Environment("io_failed", f"{directory}: {error.strerror}").as_dict()}
    with contextlib.suppress(OSError):  # gone, or a daemon has begun in it: the directory is that daemon's now
        directory.rmdir()
    return row | {"done": True}
