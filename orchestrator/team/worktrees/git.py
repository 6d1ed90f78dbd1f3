"""Runs git: one bounded subprocess per question, never through a shell; changes of worktrees run one at a time.

git sees the user's own configuration and none of the daemon's ``GIT_*`` variables. It runs no hook, no file system
monitor and no background clean-up: everything it starts ends with it. Paths are passed unchanged and returned as
bytes (``-z``). Everything here blocks; the daemon calls it in threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.base.errors import Conflict, Environment
from orchestrator.edge.project_location import worktree_at
from orchestrator.journal.project_files import failure

LIMIT = 4 << 20
"""Maximum number of bytes read of an answer: the daemon runs for long and must not hold more."""
READ_S = 20.0
WRITE_S = 120.0  # the checkout of a large tree
LOOK_AGAIN_S = 0.05

_OFF = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True)
class GitAnswer:
    """The output of git; ``cut``: it exceeded ``LIMIT``, and git was ended."""

    code: int
    out: bytes
    err: str
    cut: bool = False

    @property
    def line(self) -> str:
        """A one-line answer without git's final newline; a path may contain more newlines."""
        return os.fsdecode(self.out.removesuffix(b"\n"))


def run(where: Path, *words: str, seconds: float = READ_S, held: int | None = None) -> GitAnswer:
    """The output of ``git -C where words…``, whatever its status; after ``seconds`` its process group is killed.

    ``held`` is the descriptor of a lock that git keeps even if the daemon dies (`turn`). Raises Environment
    ``git_failed`` if git is missing or takes too long.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                ["git", *_OFF, "-C", str(where), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, env=_environment(), start_new_session=True, pass_fds=() if held is None else (held,),
            )  # fmt: skip
        except OSError as error:
            raise Environment("git_failed", f"git cannot be started: {error.strerror}", "install git") from None
        late = cut = False
        try:
            out, cut = _read(process, deadline)
            if not cut:
                process.wait(max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, TimeoutError):
            late = True
        finally:
            _end(process)
        if late:
            raise Environment("git_failed", f"git {words[0]} took longer than {seconds:g} s in {where}")
        errors.seek(0)
        err = errors.read(4096).decode(errors="replace").strip()
    return GitAnswer(process.returncode, out, err, cut)


def ask(where: Path, *words: str, seconds: float = READ_S, held: int | None = None) -> GitAnswer:
    """As `run`, but raises Environment ``git_failed`` with git's own last words if git fails."""
    answer = run(where, *words, seconds=seconds, held=held)
    if answer.code and not answer.cut:
        raise refused(words[0], answer)
    return answer


def refused(what: str, answer: GitAnswer) -> Environment:
    """The error with git's message."""
    return Environment("git_failed", f"git {what} failed: {answer.err or f'status {answer.code}'}")


@contextlib.contextmanager
def turn(place: Path, seconds: float = WRITE_S) -> Iterator[int]:
    """Take the lock for changing worktrees; yields its descriptor, for ``held``.

    ``place`` is an existing directory. A git that outlives a killed daemon still holds the lock it inherited, so the
    next daemon never looks at a half-made worktree that is still being made. Raises Conflict ``worktree_busy`` if
    the lock is not released within ``seconds``.
    """
    path = place / ".lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure(path, error) from None
    try:
        deadline, pause = time.monotonic() + seconds, threading.Event()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Conflict("worktree_busy", f"another git works on the worktrees in {place}") from None
                pause.wait(LOOK_AGAIN_S)
        yield lock
    finally:
        os.close(lock)


def names(answer: GitAnswer) -> list[str]:
    """The names in a ``-z`` answer, usable as paths; a last name that was cut is left out."""
    return [os.fsdecode(name) for name in answer.out.split(b"\0")[:-1]]


def shown(name: str) -> str:
    """A name that is safe in messages: git's names need not be UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def linked(tree: Path) -> Path | None:
    """The git directory of a linked worktree; None for a main tree, a submodule, or a directory that is no worktree.

    git itself must not be asked first: in a directory without its ``.git`` it would answer for the repository above,
    and a ``.git`` file from an archive may name any repository.
    """
    worktree = worktree_at(tree)
    return worktree.git_dir if worktree is not None else None


def under_way(git_dir: Path) -> str | None:
    """The unfinished operation of a worktree (such as a merge), as a word; None if there is none."""
    return next((word for name, word in _OPERATIONS.items() if (git_dir / name).exists()), None)


def locked(git_dir: Path) -> str | None:
    """Why a worktree is locked; None if it is not. git locks it with ``initializing`` while it makes it."""
    try:
        return (git_dir / "locked").read_text("utf-8", "replace").strip() or "no reason given"
    except OSError:
        return None


def _environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") and name != "LANGUAGE"}
    # Optional locks: a query must never make the git of an agent fail.
    return env | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """All its output until it closes stdout, and whether it was cut; TimeoutError at the deadline."""
    assert process.stdout is not None
    out, ready = bytearray(), select.poll()
    ready.register(process.stdout, select.POLLIN)
    while len(out) <= LIMIT:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0 or not ready.poll(remaining_s * 1000):
            raise TimeoutError
        block = os.read(process.stdout.fileno(), 1 << 16)
        if not block:
            return bytes(out), False
        out += block
    return bytes(out), True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process group; the process was not reaped before, so the group id is still its own."""
    assert process.stdout is not None
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process.stdout.close()
