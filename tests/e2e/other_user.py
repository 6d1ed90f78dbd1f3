"""Running as an unprivileged user: the words to put before a command, so that root starts it as somebody else.

What the command needs may lie below a directory closed to others (an interpreter or a cache in root's home). Then a
mount namespace of its own shows that directory with nothing but the needed parts in it; no file is changed or
copied. Needs root that may mount; ``why_not`` says what is missing.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

UID = 65534


def closed_above(path: Path) -> Path | None:
    """The topmost directory on the way to ``path`` that others may not pass; None when the way is free."""
    real = path.resolve()
    for place in (*reversed(real.parents), real):
        if place.is_dir() and place.stat().st_mode & 0o005 != 0o005:
            return place
    return None


def needed() -> list[Path]:
    """What every command of the tests needs to read: the interpreter, its packages, and this repository."""
    return [Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]]


def prefix(paths: Iterable[Path], uid: int = UID) -> list[str]:
    """The words that make the rest of the command line run as ``uid`` with these paths readable."""
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--"]
    hidden: dict[Path, list[Path]] = {}
    for path in paths:
        if (closed := closed_above(path)) is not None:
            hidden.setdefault(closed, []).append(path.resolve())
    if not hidden:
        return become
    lines = ["set -eu"]
    for closed, inner in hidden.items():
        at = shlex.quote(str(closed))
        # The mounts below a directory are reached through a second view of it once the first is covered.
        lines += ["stash=$(mktemp -d)", f'mount --rbind {at} "$stash"', f"mount -t tmpfs -o mode=755 none {at}"]
        for path in inner:
            below = shlex.quote(str(path.relative_to(closed)))
            name = shlex.quote(str(path))
            lines.append(f'mkdir -p {name}; mount --rbind "$stash"/{below} {name}')
        lines.append('umount -l "$stash"; rmdir "$stash"')
    lines.append('exec "$@"')
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", "\n".join(lines), "sh", *become]


@functools.cache
def why_not() -> str:
    """Why this machine cannot run a command as another user; an empty text when it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        return "setpriv and unshare (util-linux) are not installed"
    words = [*prefix(needed()), sys.executable, "-c", "import orchestrator, os; print(os.getuid())"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd="/")
    if done.returncode or done.stdout.strip() != str(UID):
        return f"a command cannot run as another user here: {(done.stderr or done.stdout).strip()[-300:]}"
    return ""


def give(path: Path, uid: int = UID) -> None:
    """Make a tree belong to that user, links themselves included."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, uid, follow_symlinks=False)
