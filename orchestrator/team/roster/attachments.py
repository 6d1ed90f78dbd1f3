"""Copies of the files that belong to a task, in `artifacts/attachments/<task id>/` of its agent.

They are made before the task is queued. An agent can write in its artifacts: every directory is opened without
following a link, and everything below is done relative to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.base import entropy
from orchestrator.base.errors import BadRequest
from orchestrator.core import decisions
from orchestrator.journal.project_files import confine, failure
from orchestrator.team.roster.agent_entry import AgentEntry
from orchestrator.team.roster.roster import Roster

FOLDER = "attachments"
MAX_FILES = 20
"""As many files as one task may have."""
_BLOCK = 1 << 20
_INTO = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


async def attach(roster: Roster, *, agent_id: str, task_id: str, files: list[str]) -> dict[str, Any]:
    """Copy the files for a task that will be queued: ``{directory, attachments}``, the latter relative to artifacts.

    A task that the agent knows already keeps its files: nothing is copied. All files are copied or none. Raises
    Conflict ``agent_ended``, BadRequest ``payload_too_large``, and ``bad_argument`` for what is no regular file.
    """
    if agent_id in roster.replicas:
        raise BadRequest(
            "bad_argument",
            f"{agent_id} is on another host, which does not get attachments",
            "commit the files, or put them where that host can read them",
        )
    entry = roster.entry(agent_id)
    decisions.check_task_id(task_id)
    names = _names(files)
    if not _known(entry, task_id):
        with roster.naming_successor(entry):
            decisions.must_live(entry.state)
        roster.begin_writing()
        limit = roster.config().max_attachment_bytes
        pairs = list(zip(files, names, strict=True))
        await asyncio.to_thread(_copy, _artifacts(roster, entry), task_id, pairs, limit)
    return {
        "directory": f"{entry.artifacts}/{FOLDER}/{task_id}",
        "attachments": [f"{FOLDER}/{task_id}/{name}" for name in names],
    }


async def detach(roster: Roster, *, agent_id: str, task_id: str) -> dict[str, Any]:
    """Remove the copies for a task that was refused; does nothing if the agent has this task."""
    entry = roster.entry(agent_id)
    decisions.check_task_id(task_id)
    if not _known(entry, task_id):
        await asyncio.to_thread(_remove, _artifacts(roster, entry), task_id)
    return {"ok": True}


def _known(entry: AgentEntry, task_id: str) -> bool:
    return task_id in entry.state.unfinished or entry.state.ended(task_id) is not None


def _artifacts(roster: Roster, entry: AgentEntry) -> Path:
    return confine(roster.root, entry.artifacts, what="artifacts")


def _names(files: Sequence[str]) -> list[str]:
    """The name of each copy; the second of two files of one name gets a number."""
    if not files or len(files) > MAX_FILES or not all(Path(file).is_absolute() for file in files):
        raise BadRequest("bad_argument", f"a task takes 1 to {MAX_FILES} attachments, given by absolute paths")
    names: list[str] = []
    for file in files:
        name = Path(file).name
        if not name.isprintable() or name in ("", ".", ".."):
            raise BadRequest("bad_argument", f"{file!r} has a name that no attachment can have", "copy or rename it")
        stem, dot, ending = name.rpartition(".") if name.rfind(".") > 0 else (name, "", "")
        numbers = (name if n == 1 else f"{stem}-{n}{dot}{ending}" for n in range(1, MAX_FILES + 2))
        names.append(next(candidate for candidate in numbers if candidate not in names))
    return names


def _copy(artifacts: Path, task_id: str, files: Sequence[tuple[str, str]], limit: int) -> None:
    try:
        with _opened(artifacts, task_id, make=True) as (folder, _, _):
            for file, name in files:
                _copy_file(file, folder, name, limit)
            os.fsync(folder)
    except OSError as error:
        _remove(artifacts, task_id)
        raise failure(artifacts / FOLDER / task_id, error) from error
    except BadRequest:
        _remove(artifacts, task_id)
        raise


def _copy_file(file: str, folder: int, name: str, limit: int) -> None:
    """Copy one regular file; it is complete under its name, or not there."""
    try:
        source = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadRequest("bad_argument", f"{file}: {reason}", "attach a file that you can read") from None
    if not stat.S_ISREG(os.fstat(source).st_mode):
        os.close(source)
        raise BadRequest("bad_argument", f"{file} is no regular file", "attach a file, not a directory or a device")
    with os.fdopen(source, "rb") as reading:
        temporary = f".{entropy.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as writing:
            size = 0
            while block := reading.read(_BLOCK):  # the file may grow meanwhile
                size += len(block)
                if size > limit:
                    step = "attach a smaller file, or name its path in the words; the limit is max_attachment_bytes"
                    raise BadRequest("payload_too_large", f"{file} has more than {limit} bytes", step)
                writing.write(block)
            writing.flush()
            os.fsync(writing.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(artifacts: Path, task_id: str) -> None:
    with contextlib.suppress(OSError, BadRequest), _opened(artifacts, task_id, make=False) as (folder, above, top):
        for name in os.listdir(folder):  # noqa: PTH208  (a descriptor)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
        os.rmdir(task_id, dir_fd=above)
        os.rmdir(FOLDER, dir_fd=top)


@contextlib.contextmanager
def _opened(artifacts: Path, task_id: str, *, make: bool) -> Iterator[tuple[int, int, int]]:
    """A task's directory, the one above it, and the artifacts; BadRequest ``path_escape`` if any is a link."""
    opened: list[int] = []
    try:
        try:
            opened.append(os.open(artifacts, _INTO))
            for part in (FOLDER, task_id):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=opened[-1])
                opened.append(os.open(part, _INTO, dir_fd=opened[-1]))
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise BadRequest("path_escape", f"{artifacts / FOLDER / task_id} is a link, or behind one") from None
        top, above, folder = opened
        yield folder, above, top
    finally:
        for fd in opened:
            os.close(fd)
