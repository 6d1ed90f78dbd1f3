"""Which GSD project a question is about: detection per call, and what a named one is confined to. Reads names alone.

The order (B3.2, C27): the argument, the connection's ``GSD_PROJECT_ROOT``, the client's roots, the working directory;
from each upwards to the nearest directory that holds a project.
"""
# os.path answers False where Path raises EACCES or ENAMETOOLONG, and keeps names that are not UTF-8:
# ruff: noqa: PTH110, PTH111, PTH112, PTH113, PTH118

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from orchestrator.base.errors import BadRequest
from orchestrator.edge.project_location import barred_roots, main_tree

VARIABLE = "GSD_PROJECT_ROOT"
PLANNING = ".planning"
MARKS = ("PROJECT.md", "ROADMAP.md", "STATE.md", "intel")
"""One of these makes a `.planning/` a project's; other tools have directories of that name too."""
INDEX = ".agents/gsd/index.db"
NO_PROJECT = "No GSD project detected. Run /gsd:new-project or /gsd:analyze-codebase first."
"""The sentence of the GSD document (B3.3)."""
ROOTS_MAX = 64
_ROOT = Path("/")


@dataclass(frozen=True)
class Asking:
    """Where a question comes from. ``cwd``: the asker's working directory; ``named``: the argument ``project_root``.

    ``variable``: the value of ``GSD_PROJECT_ROOT``; ``roots``: the client's roots as it gave them (URIs). Empty
    strings count as not given.
    """

    cwd: str
    named: str = ""
    variable: str = ""
    roots: tuple[str, ...] = ()


def find(asking: Asking) -> Path:
    """The root (a real path) of the project that a question is about.

    BadRequest ``no_gsd_project`` with the document's sentence when there is none, ``path_escape`` for an argument
    that lies neither in the client's roots nor in the working directory's tree, ``bad_argument`` or ``bad_config``
    for an argument or a variable that is no directory.
    """
    cwd = _real(asking.cwd or "/")
    if cwd is None:
        raise BadRequest("bad_argument", "the working directory has a name that no directory can have")
    if asking.named:
        return _named(asking, cwd)
    if asking.variable:
        return _by_variable(asking.variable, cwd)
    starts = [*_nearest_first(asking.roots, cwd), cwd]
    for start in starts:
        found = above(start)
        if found is not None:
            return found
    raise BadRequest("no_gsd_project", NO_PROJECT, looked_from=[str(one) for one in starts[:5]])


def above(start: Path) -> Path | None:
    """The nearest project from a directory (a real path) upwards; None where there is none.

    Inside a git worktree that has none of its own it is the main tree's. ``/`` is no project, and the home directory
    is one only for who stands in it.
    """
    main = main_tree(start)
    if main != start:
        own = next((at for at in _upwards(start, _top(start)) if is_project(at)), None)
        if own is not None:
            return own
    return next((at for at in _upwards(main) if is_project(at)), None)


def is_project(at: Path) -> bool:
    """Whether a directory holds a GSD project's `.planning/`, or an index of ours."""
    planning = os.path.join(at, PLANNING)
    if any(os.path.exists(os.path.join(planning, mark)) for mark in MARKS):
        return True
    return os.path.isfile(os.path.join(at, INDEX))


def directory_of(uri: str) -> Path | None:
    """The directory that a root of a client names: a real path; None for what is no local ``file://`` URI."""
    try:
        split = urlsplit(uri)
        if split.scheme != "file" or split.netloc not in ("", "localhost"):
            return None
        path = _real(os.fsdecode(unquote_to_bytes(split.path)))
    except ValueError:
        return None
    return path if path is not None and os.path.isdir(path) else None


def _named(asking: Asking, cwd: Path) -> Path:
    at = _real(asking.named, cwd)
    if at is None:
        raise BadRequest("bad_argument", "project_root: no directory can have this name")
    if not any(at == base or base in at.parents for base in _open(asking, cwd)):
        raise BadRequest(
            "path_escape",
            f"project_root {str(at)!r} lies outside the working directory's tree and the client's roots",
            f"name a directory inside them, or set {VARIABLE} where your CLI starts this server",
        )
    if not os.path.isdir(at):
        raise BadRequest("bad_argument", f"project_root: there is no directory {str(at)!r}")
    found = above(at)
    if found is None:
        raise BadRequest("no_gsd_project", NO_PROJECT, looked_from=[str(at)])
    return found


def _open(asking: Asking, cwd: Path) -> Iterator[Path]:
    """The directories below which an argument may name a project: no more than could be asked about without it."""
    yield from (root for root in _directories(asking.roots) if root != _ROOT)
    if asking.variable:
        variable = _real(asking.variable, cwd)
        if variable is not None and variable != _ROOT:
            yield variable
    if cwd != _ROOT:
        yield cwd
    project = above(cwd)
    if project is not None:
        yield project
    tree = _top(cwd)
    if tree is not None and tree not in barred_roots():
        yield tree


def _by_variable(value: str, cwd: Path) -> Path:
    fix = f"change {VARIABLE} where your CLI starts this server, or take it out"
    at = _real(value, cwd)
    if at is None or not os.path.isdir(at):
        raise BadRequest("bad_config", f"{VARIABLE} is {value[:200]!r}, and there is no such directory", fix)
    found = above(at)
    if found is None:
        step = f"{VARIABLE} is {str(at)!r}: {fix.partition(' ')[0]} it, or run there: orchestrator gsd index"
        raise BadRequest("no_gsd_project", NO_PROJECT, step, looked_from=[str(at)])
    return found


def _nearest_first(roots: tuple[str, ...], cwd: Path) -> list[Path]:
    """The client's roots: first those that hold the working directory, the nearest before all; then as given."""
    found = _directories(roots)
    holding = sorted((one for one in found if one == cwd or one in cwd.parents), key=lambda one: -len(one.parts))
    return [*holding, *(one for one in found if one not in holding)]


def _directories(roots: tuple[str, ...]) -> list[Path]:
    found = (directory_of(uri) for uri in roots[:ROOTS_MAX])
    return list(dict.fromkeys(one for one in found if one is not None))


def _upwards(start: Path, last: Path | None = None) -> Iterator[Path]:
    """``start`` and what lies above it, to ``last``; never ``/``, and the home directory only as the start."""
    barred = barred_roots()
    for at in (start, *start.parents):
        if at == _ROOT or (at in barred and at != start):
            return
        yield at
        if at == last or at in barred:
            return


def _top(start: Path) -> Path | None:
    """The top of the git tree or worktree that a directory lies in."""
    return next((at for at in (start, *start.parents) if os.path.lexists(os.path.join(at, ".git"))), None)


def _real(name: str, base: Path = _ROOT) -> Path | None:
    """The real path of a name, taken from ``base``; None where no file can have it (a NUL, half a character)."""
    try:
        return Path(os.path.realpath(os.path.join(base, os.path.expanduser(name))))
    except ValueError:
        return None
