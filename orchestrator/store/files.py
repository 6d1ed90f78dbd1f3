"""Paths of a project's `.agents` tree, atomic replacement of small files, and confinement to a directory.

(File of the lead: the journal's author may improve it; its callers rely on these names.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from orchestrator.clock import rfc3339
from orchestrator.errors import BadRequest, Corrupt, Environment
from orchestrator.store.sysio import REAL, SysIO

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
IGNORE = "# made by orchestrator: what it writes is not for the repository\n*\n!.gitignore\n!config.toml\n!team.toml\n!roles/\n!roles/**\n"
MAX_LISTED = 1000


@dataclass(frozen=True)
class Paths:
    """Where everything of one project lies (design §4); joins names, touches nothing."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / ".agents"

    @property
    def agents(self) -> Path:
        return self.home / "agents"

    @property
    def runs(self) -> Path:
        return self.home / "run"

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

    def launch(self, agent_id: str) -> Path:
        return self.engine_dir(agent_id) / "launch.json"

    def go(self, agent_id: str) -> Path:
        """Names the epoch whose launch stub may go on."""
        return self.engine_dir(agent_id) / "go"

    def run_dir(self, run_id: str) -> Path:
        return self.runs / run_id

    def run_json(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "run.json"

    def broadcast(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "broadcast.jsonl"


def ensure_agents_dir(paths: Paths) -> None:
    """Make `.agents/` with its agents and run directories and its generated .gitignore; harmless again."""
    try:
        for directory in (paths.home, paths.agents, paths.runs):
            directory.mkdir(mode=0o755, exist_ok=True)
        ignore = paths.home / ".gitignore"
        if not ignore.exists():
            replace(ignore, IGNORE.encode(), mode=0o644)
    except OSError as error:
        raise failure(paths.home, error) from error


def replace(path: Path, data: bytes, *, mode: int = 0o644, io: SysIO = REAL) -> None:
    """Replace a file atomically and durably: a reader, or a crash, sees the old content or the new, never a mix."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = io.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
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
        io.fsync_dir(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            io.unlink(temporary)
        raise failure(path, error) from error


def read_json(path: Path) -> Any:
    """The JSON of a small file; Corrupt when it is none, Environment when it cannot be read."""
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise failure(path, error) from error
    except orjson.JSONDecodeError as error:
        raise Corrupt("corrupt_log", f"{path}: not JSON: {error}", file=str(path), line=error.lineno) from None


def failure(path: Path, error: OSError) -> Environment:
    """The error of a failed system call, by who must act."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Environment("disk_full" if full else "io_failed", f"{path}: {error.strerror}", file=str(path))


def check_id(value: str, what: str) -> str:
    """The id, if it may become part of a path; BadRequest ``bad_id`` otherwise."""
    if not ID.fullmatch(value) or ".." in value:
        raise BadRequest("bad_id", f"{what} {value[:80]!r} must match {ID.pattern} without '..'")
    return value


def confine(root: Path, candidate: str, *, what: str) -> Path:
    """The path that ``candidate`` means below ``root``, links resolved; BadRequest ``path_escape`` outside of it."""
    if any(ord(char) < 32 or char == "\x7f" for char in candidate):
        raise BadRequest("path_escape", f"{what} has control characters")
    base = root.resolve()
    try:
        found = (base / candidate).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadRequest("path_escape", f"{what} {candidate!r} cannot be resolved: {error}") from None
    if not found.is_relative_to(base):
        raise BadRequest("path_escape", f"{what} {candidate!r} leaves {base}")
    return found


def list_artifacts(directory: Path) -> list[dict[str, Any]]:
    """The files below an artifacts directory, links left out: ``[{name, bytes, modified_at}]``, at most 1000."""
    found: list[dict[str, Any]] = []
    try:
        for path in sorted(directory.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            stat = path.stat()
            at = rfc3339(datetime.fromtimestamp(stat.st_mtime, UTC))
            found.append({"name": str(path.relative_to(directory)), "bytes": stat.st_size, "modified_at": at})
            if len(found) == MAX_LISTED:
                break
    except OSError as error:
        raise failure(directory, error) from error
    return found


def read_artifact(directory: Path, name: str, limit: int) -> bytes:
    """The first ``limit`` bytes of an artifact; BadRequest ``path_escape`` or ``unknown_resource``."""
    path = confine(directory, name, what="artifact")
    if not path.is_file():
        raise BadRequest("unknown_resource", f"no artifact is called {name!r}")
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise failure(path, error) from error
