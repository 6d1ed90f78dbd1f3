"""Write, read, cut and remove a squad's file and its members' outputs, below `.agents/squads/` only."""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

import orjson
import structlog
from pydantic import ValidationError

from orchestrator.base.errors import Corrupt, Environment, OrchestratorError
from orchestrator.core.file_models import SquadFile
from orchestrator.journal.project_files import (
    Paths,
    confine,
    ensure_agents_dir,
    failure,
    make_dir,
    read_json,
    replace,
)
from orchestrator.journal.removal import remove
from orchestrator.trust.provenance import Provenance

log = structlog.get_logger()
PROMPT = "prompt.md"
_SQUAD = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MEMBER = re.compile(r"m[0-9]+")
HEAD_SHARE = 4
"""Of an output too long to be answered, a quarter is its beginning: what counts mostly stands at the end."""


class SquadRecord:
    """One squad's file, kept up to date: `write` returns once all that was changed before it is on the disk."""

    def __init__(self, path: Path, file: SquadFile, provenance: Provenance) -> None:
        self.path = path
        self.file = file
        self._provenance = provenance
        self._asked = 0
        self._done = 0
        self._lock = asyncio.Lock()

    async def write(self) -> None:
        """Write the file as it is now, or as a later caller leaves it; raises Environment."""
        self._asked += 1
        wanted = self._asked
        async with self._lock:
            if self._done >= wanted:
                return
            now = self._asked
            sealed = self._provenance.sealed(self.file.model_dump(mode="json"), "squad", self.file.squad_id)
            data = orjson.dumps(sealed)
            await asyncio.to_thread(replace, self.path, data, mode=0o600)
            self._done = now


def prepare(paths: Paths, squad_id: str, members: int) -> None:
    """Make the squad's directories; raises as `ensure_agents_dir`."""
    ensure_agents_dir(paths)
    confine(paths.root, str(paths.squads), what=".agents/squads")
    make_dir(paths.squads, 0o700)
    for at in range(members):
        make_dir(paths.squad_dir(squad_id) / f"m{at}")


def known(paths: Paths) -> list[SquadFile]:
    """Every squad on the disk whose file can be read; of the others a line is logged."""
    files = []
    if paths.squads.is_symlink():
        return []
    for path in sorted(paths.squads.glob("*/squad.json")):
        try:
            files.append(read(path, paths.provenance))
        except OrchestratorError as error:
            log.warning("a squad's file cannot be used", file=str(path), reason=error.message)
    return files


def clear(paths: Paths) -> None:
    """Remove the files of squads whose start was never recorded: none of their members ran."""
    if paths.squads.is_symlink() or paths.provenance.identity is None:
        return
    for place in paths.squads.glob("*"):
        try:
            if _only_laid_out(place):
                remove(place)
        except (OSError, OrchestratorError) as error:
            log.warning("what is left of a squad cannot be removed", place=str(place), reason=str(error))


def _only_laid_out(place: Path) -> bool:
    """Whether it is a squad's directory and holds prompts of members at most: whatever else there is stays."""
    if not _SQUAD.fullmatch(place.name) or place.is_symlink() or not place.is_dir():
        return False
    return all(
        _MEMBER.fullmatch(entry.name)
        and entry.is_dir()
        and not entry.is_symlink()
        and all(file.name == PROMPT for file in entry.iterdir())
        for entry in place.iterdir()
    )


def read(path: Path, provenance: Provenance) -> SquadFile:
    """One squad's file; Corrupt or Environment, foreign_data for one that was not written on this machine."""
    if path.is_symlink() or not path.is_file():
        raise Corrupt("corrupt_log", f"{path} is not a regular file", file=str(path))
    content = read_json(path)
    try:
        file = SquadFile.model_validate(content)
    except ValidationError as error:
        raise Corrupt("corrupt_log", f"{path}: {error.error_count()} fields are wrong", file=str(path)) from None
    if file.squad_id != path.parent.name:
        raise Corrupt("corrupt_log", f"{path} names the squad {file.squad_id}", file=str(path))
    if not provenance.owns(content, "squad", file.squad_id):
        raise Environment("foreign_data", f"{path} was not written on this machine", file=str(path))
    return file.model_copy(update={"mac": None})


def forget(paths: Paths, squad_id: str) -> None:
    """Remove all of a squad; raises Environment."""
    remove(paths.squad_dir(squad_id))


def output(path: Path, limit: int) -> tuple[str, bool]:
    """The output of a member, invalid UTF-8 replaced, and whether it was cut.

    At most ``limit`` bytes are read, whatever the file's size; a line at the cut says how much is missing.
    """
    try:
        with _opened(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= limit:
                return file.read(limit).decode(errors="replace"), False
            head = file.read(limit // HEAD_SHARE)
            file.seek(size - (limit - len(head)))
            tail = file.read(limit - len(head))
    except OSError:
        return "", False
    # Where the cut goes through a character, all of it is left out.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    begin = decoder.decode(head)
    whole = len(head) - len(decoder.getstate()[0])
    skip = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
    left = size - whole - (len(tail) - skip)
    gap = f"\n[... {left} bytes left out; all of it: {path}]\n"
    return begin + gap + tail[skip:].decode(errors="replace"), True


def beginning(path: Path, limit: int = 65_536) -> str:
    """The first bytes of an output, as text; empty without one."""
    try:
        with _opened(path) as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _opened(path: Path) -> BinaryIO:
    """The file to read, if it is one: a member can put anything in the place of its outputs, also a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    file = os.fdopen(fd, "rb")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return file


def size(path: Path) -> int:
    """How many bytes an output has; 0 without one."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def write_prompt(path: Path, text: str) -> None:
    """Write a member's prompt; raises Environment."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise failure(path, error) from error
