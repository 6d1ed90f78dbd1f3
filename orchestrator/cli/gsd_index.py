"""Run ``orchestrator gsd index``: choose the directory, show the progress and print the result.

Writes nothing itself; `orchestrator.gsd.index.indexing` does, and only below `.agents/gsd/`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.base.errors import BadRequest
from orchestrator.cli import output
from orchestrator.edge import project_location

if TYPE_CHECKING:
    from orchestrator.gsd.place import Asking

STEP_S = 0.1
"""Minimum seconds between updates of the progress line."""
SHOWN = 20
"""Maximum number of files that are named as not understood; --json has all of them."""
STEPS = {"walk": "looking", "parse": "parsing", "resolve": "following imports", "save": "saving"}


def root_of(directory: str, asking: Asking) -> Path:
    """What to index: the named directory, else the GSD project asked from, else the project of the directory.

    BadRequest ``bad_argument`` for what is no directory, ``no_project`` for ``/`` and the home directory.
    """
    from orchestrator.gsd import place  # noqa: PLC0415

    if directory:
        if "\0" in directory or not Path(directory).is_dir():
            raise BadRequest(
                "bad_argument",
                f"{directory[:80]!r} is not a directory",
                "to index the current directory: orchestrator gsd index",
            )
        project = project_location.named_project(Path(directory))
    else:
        try:
            project = project_location.named_project(place.find(asking))
        except BadRequest as error:
            if error.code != "no_gsd_project" or asking.variable:
                raise
            project = project_location.find_project(Path(asking.cwd))
    if project.kind == "none":
        step = "name a directory: orchestrator gsd index DIR"
        raise BadRequest("no_project", f"{project.root}: / and the home directory are not indexed", step)
    return project.root


def run(root: Path, *, rebuild: bool, as_json: bool) -> None:
    """Make or renew the index, say what it holds now."""
    from orchestrator.gsd.index import indexing  # noqa: PLC0415

    line = _ProgressLine(quiet=as_json or not sys.stderr.isatty())
    try:
        done = indexing.index(root, rebuild=rebuild, tell=line.tell)
    finally:
        line.clear()
    if as_json:
        output.print_json({"project": str(root), **asdict(done)})
        return
    output.say(os.path.relpath(root / ".agents" / "gsd" / "index.db"))
    languages = ", ".join(
        f"{count} {name}" for name, count in sorted(done.languages.items(), key=lambda pair: -pair[1])
    )
    files, imports = output.counted(done.files, "files"), output.counted(done.edges, "imports")
    output.say(f"  {files}{f' ({languages})' if languages else ''}, {imports} between them")
    output.say(
        f"  {done.added} added, {done.changed} changed, {done.removed} removed in {done.seconds:.2f} s; "
        f"{done.bytes / 1024:.0f} KiB on disk"
    )
    for trouble in done.unreadable[:SHOWN]:
        output.say_line(f"{os.path.relpath(root / trouble.file)}:{max(trouble.line, 1)}: {trouble.what}")
    if len(done.unreadable) > SHOWN:
        output.say(f"{len(done.unreadable) - SHOWN} more; orchestrator gsd index --json lists all")


class _ProgressLine:
    """One line on stderr that says how far it is; nothing where nobody looks on."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown = 0
        self._at = -STEP_S

    def tell(self, step: str, done: int, total: int) -> None:
        """So many files of so many are through a step (walk, parse, resolve, save)."""
        now = time.monotonic()
        if self._quiet or (done < total and now - self._at < STEP_S):
            return
        text = f"{STEPS.get(step, step)}: {done} of {output.counted(total, 'files')}"
        sys.stderr.write(f"\r{text.ljust(self._shown)}")
        sys.stderr.flush()
        self._shown, self._at = len(text), now

    def clear(self) -> None:
        """Leave the line as it was before."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * self._shown}\r")
            sys.stderr.flush()
