"""Runs the tests marked ``tmux`` on each tmux whose source it finds, and on the machine's own: `make tmux-matrix`.

``python -m tools.tmux_matrix [VERSION|own]... [-- PYTEST_ARGUMENT...]``; without versions all. Sources are
``tmux-VERSION.tar.gz`` or ``.tar.xz`` in ``$TMUX_SOURCES``, else in ``../shared/data/tmux``. Each is built once, into
the cache of the real CLIs (tests/e2e/clis.py). On a version that is too old the tests are those of the refusal.
Prints a line for each version at the end; exit status 1 if one failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from orchestrator.tmux.server_address import supported
from tests.e2e.clis import cache
from tools.counted_run import ROOT, Result, counted, shown, split_words

SOURCES = Path(os.environ.get("TMUX_SOURCES") or ROOT.parent / "shared" / "data" / "tmux")
OWN = "own"
MARKED = ("-m", "tmux and not slow and not e2e")
REFUSAL = "tests/integration/test_old_tmux.py"
BUILD_S = 900


class Unbuilt(Exception):
    """A version cannot be had; the sentence says why."""


def version_of(name: str) -> str | None:
    """The version that an archive's name tells; None for another file.

    >>> version_of("tmux-3.5a.tar.xz"), version_of("tmux-3.3.tar.gz"), version_of("README.md")
    ('3.5a', '3.3', None)
    """
    match = re.fullmatch(r"tmux-(\d[\w.-]*)\.tar\.[gx]z", name)
    return match[1] if match else None


def archives(place: Path) -> dict[str, Path]:
    """The sources in a directory by version, in order of their names."""
    files = sorted(place.iterdir()) if place.is_dir() else []
    return {version: path for path in files if (version := version_of(path.name))}


def built(version: str, archive: Path | None) -> Path:
    """The directory of the program ``tmux`` of this version, built if it is not yet; raises ``Unbuilt``."""
    if archive is None:
        raise Unbuilt(f"there is no tmux-{version}.tar.gz or .tar.xz in {SOURCES}")
    place = cache() / f"tmux@{version}"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    cache().mkdir(parents=True, exist_ok=True)
    with FileLock(cache() / "tmux.lock", timeout=BUILD_S):
        # Of builds that were killed, for we hold the lock; what they started may still write there.
        for left in cache().glob(".tmux@*"):
            shutil.rmtree(left, ignore_errors=True)
        # What is there is whole: it was renamed into place, with the digest of what it was built from.
        if not (place / digest).exists():
            print(f"tmux-matrix: building tmux {version}", flush=True)
            _ran(["sh", "tools/setup.sh", "tmux-build"], ROOT)
            _build(version, archive, digest, place)
    return place


def _build(version: str, archive: Path, digest: str, place: Path) -> None:
    new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        tree = new / "source"
        tree.mkdir()
        _ran(["tar", "-xf", str(archive), "-C", str(tree), "--strip-components=1"], tree)
        if not (tree / "configure").exists():
            _ran(["sh", "autogen.sh"], tree)
        _ran(["./configure", f"--prefix={place}"], tree)
        _ran(["make", f"-j{os.cpu_count() or 1}"], tree)
        (tree / "tmux").rename(new / "tmux")
        version_line = _ran([str(new / "tmux"), "-V"], new).strip()
        if version_line != f"tmux {version}":
            raise Unbuilt(f"{archive.name} makes {version_line!r}")
        (new / digest).touch()
        shutil.rmtree(tree)
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _ran(argv: Sequence[str], place: Path) -> str:
    try:
        done = subprocess.run(
            argv, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=BUILD_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unbuilt(f"{argv[0]} failed: {error}") from None
    if done.returncode:
        raise Unbuilt(f"{' '.join(argv[:2])} failed:\n{done.stdout[-2000:].rstrip()}")
    return done.stdout


def tested(version: str, folder: Path | None, arguments: Sequence[str]) -> Result:
    """Run the tests with the ``tmux`` of this directory first on PATH; None: as it is."""
    env = dict(os.environ)
    if folder is not None:
        env["PATH"] = os.pathsep.join([str(folder), env.get("PATH", os.defpath)])
    chosen = subprocess.run(["tmux", "-V"], env=env, capture_output=True, text=True, check=True).stdout.strip()
    env["TMUX_EXPECTED"] = chosen.removeprefix("tmux ")
    print(f"tmux-matrix: testing on {chosen}", flush=True)
    old = not supported(chosen)
    result = counted(f"tmux {version}", sys.executable, [*MARKED, REFUSAL if old else "tests"], arguments, env)
    notes = [result.note, chosen if version == OWN else "", "is refused" if old else ""]
    return result._replace(note=", ".join(filter(None, notes)))


def main(argv: Sequence[str]) -> int:
    """Build, test, print; the exit status."""
    asked, arguments = split_words(argv)
    sources = archives(SOURCES)
    if not sources:
        print(f"tmux-matrix: no source of tmux in {SOURCES}; name their directory: TMUX_SOURCES=... make tmux-matrix")
        return 0
    results = []
    for version in asked or [*sources, OWN]:
        try:
            folder = None if version == OWN else built(version, sources.get(version))
            results.append(tested(version, folder, arguments))
        except (Unbuilt, OSError) as error:
            print(f"tmux-matrix: no tmux {version}: {error}")
            results.append(Result(f"tmux {version}", failed=1, note="not built"))
    return shown(results)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
