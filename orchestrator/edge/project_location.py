"""Finds the project of a directory, and the run directory in which its daemon is reached.

Shared by relay, hook, launch, CLI and daemon, so it imports the standard library only and stays cheap:
a relay pays for it at every start. It reads the file system and makes the run directory; it writes nothing
into a project.
"""
# os.path keeps paths that are not UTF-8, and answers False where Path raises EACCES:
# ruff: noqa: PTH102, PTH110, PTH111, PTH112, PTH118, PTH120

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from orchestrator.base.platform.basic_facts import SUN_PATH_MAX, VARIABLE, boot_id
from orchestrator.trust import lock_word, state_dir
from orchestrator.trust.state_dir import StateDirUnsafe

# What relay and daemon say to each other before MCP begins. Raised when the hello changes incompatibly;
# the same number is served whatever the version.
PROTO = 1
VERSION = "0.1.0"  # equal to pyproject.toml's (a test compares): importlib.metadata would cost a relay 15 ms
INSTALL = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# Names inside a run directory.
LOCK = "lock"  # held by the daemon for life: free means there is no daemon
SOCKET = "socket"
LOG = "log"
STOPPED = "stopped"  # stopped by hand: relays hold, until `daemon start` or the next boot, whose id is in it
RESTARTING = "restarting"  # beside STOPPED: `daemon restart` is at work, and the next daemon comes by itself
FAILED = "failed"  # JSON of the error that made the last start fail
SHOWN = "shown.json"  # where squad members are shown: windows that must be put back one day
CLEAN = "clean"  # the token of the last daemon that closed its logs properly
FLEET_ENDS = "fleet.json"  # how far the fleet's mirrors went when this host last renewed its lease, and in which boot
STARTS = "starts"  # one byte per start of a daemon since one was ready
TEMPORARY = "tmp"  # the temporary directories of agents and squad members

# Environment variables that hold for one connection's squads, spawn runs and queries, whoever started the
# daemon.
PER_CONNECTION = (
    "STATE_MODE",
    "ENGINE_COMMAND",
    "ENGINE",
    "EXECUTION_MODE",
    "MAX_PARALLEL_MEMBERS",
    "AGENTS_DIRECTORY_PATH",
    "SQUAD_AGENTS_DIR",
    "RUN_TEMPLATE",
    "RUN_TEMPLATE_PATH",
    "CREATE_CHAT_TEMPLATE",
    "CREATE_CHAT_TEMPLATE_PATH",
    "PROCESS_TIMEOUT_MS",
    "GSD_PROJECT_ROOT",
    "OPENROUTER_API_KEY",
    "OPENROUTER_BASE_URL",
    "SMART_SPAWN_API_URL",
    "SMART_SPAWN_MCP_HOME",
    "MAX_PARALLEL_RUNS",
    "MAX_PARALLEL_NODES_PER_RUN",
    "MAX_USD_PER_RUN",
    "NODE_TIMEOUT_SECONDS",
    "RUN_TIMEOUT_SECONDS",
    "CASCADE_EVALUATOR_MODEL",
    "MODEL_ALLOWLIST",
    "MODEL_DENYLIST",
    "MAX_PROMPT_CHARS",
    "MAX_COMPLETION_TOKENS",
    "REDACT_ARTIFACTS",
)
# What tells a relay that it speaks for an agent; never passed on to the daemon's own environment.
AGENT_ENV = ("ORCHESTRATOR_AGENT_ID", "ORCHESTRATOR_AGENT_EPOCH", "ORCHESTRATOR_AGENT_SECRET")

# Say where the daemon and its facts are, and how facts are obtained; an agent gets those of its daemon.
PLACES = ("ORCHESTRATOR_RUN_BASE", "ORCHESTRATOR_STATE_DIR", VARIABLE)

# Stands in the environment of every process of a squad member; such a process leads nobody.
MEMBER_ENV = "ORCHESTRATOR_MEMBER_ID"

AGENT_SOCKET = re.compile(r"a[0-9a-f]{5}")  # in a run directory: no longer than SOCKET, whose path must fit

ProjectKind = Literal["agents", "planning", "git", "cwd", "none"]


class Project(NamedTuple):
    """A directory a team works in: ``root`` is a real path, ``kind`` says what made it a project.

    Kind ``none`` (``/`` or the home directory) is served, but refuses every call that changes state.
    """

    root: Path
    kind: ProjectKind


class RunDirUnsafe(Exception):
    """No run directory can be trusted or made; the message is one sentence naming the paths."""


RUN_DIR_STEP = (
    "make one of them yours, mode 0700; or set ORCHESTRATOR_STATE_DIR to a short absolute path that you can write"
)
"""The next step after ``RunDirUnsafe``: one that needs no rights over what belongs to another user."""


class LinkedWorktree(NamedTuple):
    """A linked git worktree: its own part of the repository, and the repository's ``.git``. Both are real paths."""

    git_dir: Path
    common: Path


def version() -> str:
    """The version of the installed distribution: slower than ``VERSION``, right for a repackaged build."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - not on the relay's path
    from importlib.metadata import version as installed  # noqa: PLC0415

    try:
        return installed("orchestrator")
    except PackageNotFoundError:
        return VERSION


def own_command(*args: str) -> list[str]:
    """The one way to start a process of our own; ``-P`` keeps an ``orchestrator`` folder of the cwd out."""
    return [sys.executable, "-P", "-m", "orchestrator", *args]


def hook_command() -> list[str]:
    """The command line of a CLI's hook; it is always the same, because Codex trusts a hook by its command line.

    ``-I -S``: no site packages, no cwd on the path; a hook process runs as long as its agent is parked.
    """
    return [sys.executable, "-IS", os.path.join(INSTALL, "hook.py")]


def find_project(cwd: Path) -> Project:
    """The project a process in ``cwd`` works in; never fails, an unreadable directory just does not count.

    The nearest ancestor with our ``.agents/`` wins, else the nearest ``.planning/``, else the nearest
    ``.git``, else ``cwd`` itself. Inside a git worktree the search runs in the main tree.
    """
    start = Path(os.path.realpath(cwd))
    barred = barred_roots()
    if start in barred:
        return Project(start, "none")
    start = main_tree(start)
    above = [at for at in (start, *start.parents) if at not in barred]
    for kind, marks in _MARKS:
        for at in above:
            if any(os.path.exists(at / mark) for mark in marks):
                return Project(at, kind)
    return Project(start, "cwd")


def named_project(root: Path) -> Project:
    """The project whose root was given explicitly: no search; ``/`` and the home directory stay ``none``."""
    start = Path(os.path.realpath(root))
    if start in barred_roots():
        return Project(start, "none")
    for kind, marks in _MARKS:
        if any(os.path.exists(start / mark) for mark in marks):
            return Project(start, kind)
    return Project(start, "cwd")


def run_dir(root: Path) -> Path:
    """The project's run directory, made 0700 if missing; raises ``RunDirUnsafe``.

    ``/tmp/orchestrator-<uid>/<hash>`` if that is ours or can be made ours, else ``run/<hash>`` in the state
    directory; every CLI finds the same directory, whatever environment it passes on. While a process holds
    `.agents/lock`, the text in it says which of the two is in use. (``ORCHESTRATOR_RUN_BASE`` replaces the first, for
    tests only.)
    """
    word = lock_word.lock_text(os.path.join(root, ".agents", "lock"))
    second = _second(root) if word != lock_word.TMP else None
    if word == lock_word.STATE and second is not None and why_not(second) is None:
        return second
    trouble = trouble_of_first(root)
    if trouble is not None:
        return _made_second(root, trouble)
    # Without a word: a daemon began in the second, or was stopped there, when the first was not usable.
    if second is not None and why_not(second) is None and _in_use(second):
        return second
    return _first(root)


def trouble_of_first(root: Path) -> str | None:
    """Why the first run directory cannot be used, in a sentence; None when it can. Makes it if it is missing."""
    first = _first(root)
    try:
        _fits(first)
        for step in _steps(first):
            _private(step)
    except RunDirUnsafe as trouble:
        return str(trouble)
    return None


def run_dirs(root: Path) -> list[Path]:
    """The run directories of the project that exist and are ours, the first one first; makes nothing."""
    return [path for path in (_first(root), _second(root)) if path is not None and why_not(path) is None]


def run_bases() -> list[Path]:
    """The two directories that contain the run directories of all projects; makes nothing."""
    bases = (path.parent for path in (_first(Path("/")), _second(Path("/"))) if path is not None)
    return [base for base in bases if all(_trouble(step) is None for step in _steps(base / "-")[:-1])]


def why_not(directory: Path) -> str | None:
    """Why a run directory must not be used as it is, in a sentence; None when it is private. Makes nothing."""
    return next((trouble for trouble in map(_trouble, _steps(directory)) if trouble is not None), None)


def is_stopped(directory: Path) -> bool:
    """Whether the daemon was stopped by hand since this boot; a marker without a boot id counts for every boot."""
    try:
        word = (directory / STOPPED).read_bytes()[:_TEXT_MAX].strip()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    boot = boot_id()
    return word in (b"", boot.encode()) or not boot


def write_stopped(directory: Path) -> None:
    """Leave the marker that the daemon was stopped by hand; raises ``OSError``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(directory / STOPPED, flags, 0o600)  # empty for a moment, which counts too
    try:
        with suppress(OSError):  # a full disk: the marker counts without its boot
            os.write(fd, boot_id().encode())
    finally:
        os.close(fd)


def word_of(directory: Path) -> str:
    """The word (`lock_word`) for a run directory."""
    return lock_word.STATE if directory.parent == _state_base() else lock_word.TMP


@lru_cache(1024)  # asked whenever a record of the agent becomes visible
def agent_socket(agent_id: str) -> str:
    """The name of an agent's own socket in the run directory; two agents may share one."""
    return f"a{hashlib.sha256(os.fsencode(agent_id)).hexdigest()[:5]}"


_MARKS: tuple[tuple[ProjectKind, tuple[str, ...]], ...] = (
    # Other tools have an .agents/ too.
    ("agents", (".agents/config.toml", ".agents/team.toml", ".agents/agents", ".agents/run", ".agents/squads")),
    ("planning", (".planning",)),
    ("git", (".git",)),
)


def barred_roots() -> tuple[Path, ...]:
    """The directories that are never a project: ``/`` and the home directory."""
    return Path("/"), Path(os.path.realpath(os.path.expanduser("~")))


def main_tree(start: Path) -> Path:
    """``start`` (a real path), or its counterpart in the main tree if it is in a git worktree.

    A submodule is not a worktree, and neither is a directory that only claims to be one (`worktree_at`).
    """
    barred = barred_roots()
    for at in (start, *start.parents):
        if at in barred:
            continue
        mark = at / ".git"
        if os.path.isdir(mark):
            return start
        text, _ = _text(mark)
        if text is not None and not text.startswith(_GITDIR):
            continue
        if text is None and not os.path.lexists(mark):
            continue
        tree = worktree_at(at)
        if tree is None or tree.common.name != ".git" or tree.common.parent in barred:
            return start  # a bare repository has no main tree
        return tree.common.parent / start.relative_to(at)
    return start


def worktree_at(at: Path) -> LinkedWorktree | None:
    """The linked git worktree whose top is ``at``; None for a main tree, a submodule, or any other directory.

    A file called ``.git`` counts only if the repository that it names lists this directory among its worktrees and
    belongs to this user or to the owner of the file: a file in an unpacked archive may name any repository. Reads
    three small files, runs no git, and never raises.
    """
    at = Path(os.path.realpath(at))
    try:
        text, owner = _text(at / ".git")
        if text is None or not text.startswith(_GITDIR):
            return None
        own = _joined(at, text.removeprefix(_GITDIR))
        common, _ = _text(own / "commondir")
        back, knower = _text(own / "gitdir")
        if common is None or back is None or knower not in (owner, os.geteuid()):
            return None
        worktree = LinkedWorktree(own, _joined(own, common))
        known = own.parent == worktree.common / "worktrees" and _joined(own, back) == at / ".git"
    except ValueError:  # a NUL in a name
        return None
    return worktree if known else None


_GITDIR = "gitdir:"
_TEXT_MAX = 1 << 14  # no path is longer, with a few words around it


def _joined(base: Path, text: str) -> Path:
    """The real path that a file of git names, relative to ``base`` unless it is absolute."""
    return Path(os.path.realpath(base / text.lstrip(" ").rstrip("\r\n")))


def _text(path: Path) -> tuple[str | None, int]:
    """The content of a small file and its owner's id; None if it is not a readable regular file. Never blocks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, -1
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _TEXT_MAX:
            return None, -1
        return os.fsdecode(os.read(fd, _TEXT_MAX)), status.st_uid
    except OSError:
        return None, -1
    finally:
        os.close(fd)


# -- the two run directories --------------------------------------------------------------------------------------


def _first(root: Path) -> Path:
    base = os.environ.get("ORCHESTRATOR_RUN_BASE") or f"/tmp/orchestrator-{os.geteuid()}"  # noqa: S108 - owner checked
    return Path(base, name_of_run_dir(root))


def _second(root: Path) -> Path | None:
    base = _state_base()
    return base / name_of_run_dir(root) if base is not None else None


def name_of_run_dir(root: Path) -> str:
    """The name of the project's run directory, whichever of the two it is."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]


_bases: dict[str | None, Path | None] = {}  # the password database may lie on a server, and a relay asks often


def _state_base() -> Path | None:
    """The directory of the second run directories; None for a user without a home directory."""
    key = os.environ.get(state_dir.VARIABLE)
    if key not in _bases:
        try:
            _bases[key] = state_dir.state_dir() / _RUN
        except StateDirUnsafe:
            return None
    return _bases[key]


_RUN = "run"


def _made_second(root: Path, trouble: str) -> Path:
    try:
        second = state_dir.state_dir() / _RUN / name_of_run_dir(root)
        _fits(second)
        state_dir.private_dir(_RUN, second.name)
    except (StateDirUnsafe, RunDirUnsafe) as other:
        raise RunDirUnsafe(f"no run directory can be used: {trouble}; {other}") from other
    return second


def _in_use(directory: Path) -> bool:
    return is_stopped(directory) or lock_word.held(directory / LOCK)


def _steps(directory: Path) -> list[Path]:
    """What has to be ours for a run directory to be, from the top."""
    base = directory.parent
    return [*([base.parent] if base == _state_base() else []), base, directory]


def _fits(directory: Path) -> None:
    if len(os.fsencode(directory / SOCKET)) > SUN_PATH_MAX:
        raise RunDirUnsafe(f"the path of the socket in {directory} is longer than {SUN_PATH_MAX} bytes")


def _private(path: Path) -> None:
    """Make ``path`` if missing and insist on a directory that is ours alone."""
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
    except OSError as error:
        raise RunDirUnsafe(f"the run directory {path} cannot be created: {error.strerror}") from error
    trouble = _trouble(path)
    if trouble is not None:
        raise RunDirUnsafe(trouble)


def _trouble(path: Path) -> str | None:
    """Why a directory does not belong to this user alone, in a sentence."""
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"the run directory {path} cannot be used: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory"
    if status.st_uid != os.geteuid():
        return f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}"
    if status.st_mode & 0o077:
        return f"{path} is open to others (mode {stat.S_IMODE(status.st_mode):04o}, wanted 0700)"
    return None
