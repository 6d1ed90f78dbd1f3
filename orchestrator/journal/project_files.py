"""Paths of a project's `.agents` tree, atomic replacement of small files, and confinement to a directory.

Touches the files it is given by name, nothing else; knows the names of the tree and none of its rules.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Corrupt, Environment, OrchestratorError
from orchestrator.journal.syscalls import REAL, SysIO
from orchestrator.trust.provenance import Provenance
from orchestrator.trust.state_dir import StateDirUnsafe

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}(@fleet)?")
FENCED = re.compile(r".+\.fenced-[0-9]+")
"""The name of a directory that an agent had here before it moved to another host: no id that we make has a dot."""
IGNORE = """\
# Made by orchestrator. Everything here is run data, except what you write yourself:
*
!/config.toml
!/team.toml
!/roles/
!/roles/**
"""
MAX_LISTED = 1000
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_COUNT = itertools.count()  # two replacements of one file at once must not share a temporary


@dataclass(frozen=True)
class Paths:
    """The paths of all files of one project, and whether they were made here. Joins names only."""

    root: Path

    @cached_property
    def provenance(self) -> Provenance:
        """Distinguishes files that were written here from those that came with a clone, a pull or an archive."""
        return Provenance(self.home)

    @property
    def home(self) -> Path:
        return self.root / ".agents"

    @property
    def config(self) -> Path:
        return self.home / "config.toml"

    @property
    def team(self) -> Path:
        return self.home / "team.toml"

    @property
    def roles(self) -> Path:
        return self.home / "roles"

    @property
    def agents(self) -> Path:
        return self.home / "agents"

    @property
    def runs(self) -> Path:
        return self.home / "run"

    @property
    def squads(self) -> Path:
        return self.home / "squads"

    @property
    def cache(self) -> Path:
        return self.home / "cache.sqlite"

    def agent_dir(self, agent_id: str) -> Path:
        return self.agents / agent_id

    def inbox(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "inbox.jsonl"

    def outbox(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "outbox.jsonl"

    def meta(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "meta.json"

    def artifacts(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "artifacts"

    def engine_dir(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "engine"

    def usage(self, agent_id: str) -> Path:
        """The model requests of the agent, one line each; no log: nothing is decided from it."""
        return self.agent_dir(agent_id) / "usage.jsonl"

    def launch(self, agent_id: str) -> Path:
        return self.engine_dir(agent_id) / "launch.json"

    def process(self, agent_id: str) -> Path:
        """Names the process of the agent's CLI, so that it is known again when its pane is gone."""
        return self.engine_dir(agent_id) / "process.json"

    def nudges(self, agent_id: str) -> Path:
        """How often a line was pasted to wake the agent for one command."""
        return self.engine_dir(agent_id) / "nudges.json"

    def go(self, agent_id: str) -> Path:
        """Names the epoch whose launch stub may continue."""
        return self.engine_dir(agent_id) / "go"

    @staticmethod
    def collected(directory: Path) -> Path:
        """What gc leaves in the directory of an agent or run whose data it has removed."""
        return directory / "collected.json"

    def is_collected(self, directory: Path) -> bool:
        """Whether gc has begun to remove, or has removed, the data of that agent or run; a foreign note is none."""
        path = self.collected(directory)
        try:
            return path.exists() and self.provenance.owns(read_json(path), "collected", directory.name)
        except OrchestratorError:
            return False

    def mirror(self, agent_id: str) -> Path:
        """Names the owner of a replica, which a directory with this file is."""
        return self.agent_dir(agent_id) / "mirror.json"

    def is_replica(self, directory: Path) -> bool:
        """Whether that is our copy of the logs of another host's agent; with a foreign or damaged note it is none."""
        path = self.mirror(directory.name)
        try:
            return path.exists() and self.provenance.owns(read_json(path), "mirror", directory.name)
        except OrchestratorError:
            return False

    @staticmethod
    def may_be_agent(directory: Path) -> bool:
        """Whether an entry of the agents' directory may be an agent, or a replica of one, by its name and kind."""
        name = directory.name
        aside = name.startswith(".") or FENCED.fullmatch(name) is not None
        return not aside and directory.is_dir() and not directory.is_symlink()

    def run_dir(self, run_id: str) -> Path:
        return self.runs / run_id

    def run_json(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "run.json"

    def broadcast(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "broadcast.jsonl"

    def squad_dir(self, squad_id: str) -> Path:
        return self.squads / squad_id

    def squad_json(self, squad_id: str) -> Path:
        return self.squad_dir(squad_id) / "squad.json"

    @staticmethod
    def quarantine(log: Path, at: datetime) -> Path:
        """The name that a corrupt log is moved to: next to it, with the time in its name."""
        return log.with_name(f"{log.name}.quarantine-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}")


def ensure_home(paths: Paths) -> None:
    """Make `.agents/`, to be claimed; BadRequest ``path_escape`` when it is a link out of the project."""
    confine(paths.root, str(paths.home), what=".agents")
    make_dir(paths.home, 0o755)


def ensure_agents_dir(paths: Paths) -> None:
    """Make `.agents/` with its agents and run directories, its generated .gitignore and identity; harmless again.

    The two directories are the user's alone (0700). Raises ``BadRequest("path_escape")`` when one of them
    is a link out of the project: a cloned repository must not choose where we write. ``Environment``
    state_dir_unsafe when the identity cannot be kept.
    """
    try:
        make_dir(paths.home, 0o755)
        for directory in (paths.agents, paths.runs):
            confine(paths.root, str(directory), what=f".agents/{directory.name}")
            make_dir(directory, 0o700)
        ignore = paths.home / ".gitignore"
        if not ignore.exists():
            replace(ignore, IGNORE.encode(), mode=0o644)
        paths.provenance.establish()
    except StateDirUnsafe as error:
        raise Environment("state_dir_unsafe", str(error)) from error
    except OSError as error:
        raise failure(paths.home, error) from error


def make_dir(path: Path, mode: int = 0o700, io: SysIO = REAL) -> None:
    """Make a directory and its missing parents, durably: after a power cut all of them are there.

    Harmless when it exists (its mode is left alone); raises ``Environment("io_failed")`` or ``disk_full``.
    """
    missing = list(itertools.takewhile(lambda at: not at.is_dir(), (path, *path.parents)))
    try:
        for directory in reversed(missing):
            try:
                io.mkdir(directory, mode)
            except FileExistsError:
                if not directory.is_dir():
                    raise
            try:
                io.fsync_dir(directory.parent)
            except OSError:
                with contextlib.suppress(OSError):  # else the next call would find it there, and not sync it
                    directory.rmdir()
                raise
    except OSError as error:
        raise failure(path, error) from error


def replace(path: Path, data: bytes, *, mode: int = 0o644, cache: bool = False, io: SysIO = REAL) -> None:
    """Replace a file atomically and durably: a reader, or a crash, sees the old content or the new, never a mix.

    ``cache``: a power cut may bring the old content back, which saves one of two syncs.
    Raises ``Environment("disk_full")`` or ``Environment("io_failed")``, with the old content in place.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_COUNT)}.tmp")
    try:
        # A dead process of the same pid may have left one, with another mode or owner.
        with contextlib.suppress(FileNotFoundError):
            io.unlink(temporary)
        fd = io.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            written = 0
            while written < len(data):
                count = io.pwrite(fd, data[written:], written)
                if count == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += count
            io.fsync(fd)
        finally:
            io.close(fd)
        io.rename(temporary, path)
        if not cache:
            io.fsync_dir(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            io.unlink(temporary)
        raise failure(path, error) from error


def read_json(path: Path) -> Any:
    """The JSON of a small file; Corrupt if it is not JSON, Environment if it cannot be read.

    A pipe in its place, which an archive may contain, does not block.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
            return orjson.loads(file.read() or b"")
    except OSError as error:
        raise failure(path, error) from error
    except orjson.JSONDecodeError as error:
        raise Corrupt("corrupt_log", f"{path}: not JSON: {error}", file=str(path), line=error.lineno) from None


def failure(path: Path, error: OSError) -> Environment:
    """The error of a failed system call, by who must act."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = error.strerror or str(error)
    return Environment("disk_full" if full else "io_failed", f"{path}: {reason}", file=str(path))


def of_the_machine(error: OrchestratorError) -> bool:
    """Whether the machine refused and no one file is to blame: the disk full or read-only, no descriptors left."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in OF_THE_MACHINE


def check_id(value: str, what: str) -> str:
    """The id, if it may become part of a path; BadRequest ``bad_id`` otherwise."""
    if not ID.fullmatch(value) or ".." in value:
        raise BadRequest("bad_id", f"{what} {value[:80]!r} must match {ID.pattern} without '..'")
    return value


def confine(root: Path, candidate: str, *, what: str) -> Path:
    """The path that ``candidate`` means below ``root``, links resolved; BadRequest ``path_escape`` outside of it."""
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in candidate):
        raise BadRequest("path_escape", f"{what} has control characters")
    try:
        base = root.resolve()
        path = (base / candidate).resolve()
        # A link loop or a name too long resolves to itself; only asking the system for it tells.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadRequest("path_escape", f"{what} {candidate!r} cannot be resolved: {error}") from None
    if not path.is_relative_to(base):
        raise BadRequest("path_escape", f"{what} {candidate!r} leaves {base}")
    return path


def _files_below(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Regular files below a directory in order of their names, links neither listed nor followed."""
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield entry


def list_artifacts(directory: Path) -> list[dict[str, Any]]:
    """The files below an artifacts directory, links left out: ``[{name, bytes, modified_at}]``, at most 1000.

    Names that are not UTF-8 are left out too: no message could carry them.
    """
    artifacts: list[dict[str, Any]] = []
    try:
        for entry in _files_below(directory):
            try:
                entry.path.encode()
                stat = entry.stat(follow_symlinks=False)
            except (FileNotFoundError, UnicodeEncodeError):
                continue  # the agent works on while we look
            at = rfc3339(datetime.fromtimestamp(stat.st_mtime, UTC))
            name = str(Path(entry.path).relative_to(directory))
            artifacts.append({"name": name, "bytes": stat.st_size, "modified_at": at})
            if len(artifacts) == MAX_LISTED:
                break
    except OSError as error:
        raise failure(directory, error) from error
    return artifacts


def read_artifact(directory: Path, name: str, limit: int) -> bytes:
    """The first ``limit`` bytes of an artifact; BadRequest ``path_escape`` or ``unknown_resource``."""
    path = confine(directory, name, what="artifact")
    try:
        if not path.is_file():
            raise BadRequest("unknown_resource", f"no artifact is called {name!r}")
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise failure(path, error) from error
