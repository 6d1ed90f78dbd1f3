"""`gsd index` of a repository of 1,000 real files: at first, with nothing new, after one change, after one new file.

The files are the sources of what is installed beside this package, and of npm where there is one; without network.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.gsd.index import parsing
from orchestrator.gsd.index.indexing import IndexDone, index

FILES = 1000
SCRIPTS = 300
ROUNDS = 5
"""Of each kind; the median counts."""


def sources(root: Path, endings: tuple[str, ...], skipped: tuple[str, ...] = ()) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.suffix in endings and path.is_file() and path.stat().st_size and not {*skipped} & {*path.parts}:
            yield path


def repository(root: Path) -> None:
    """Put the files where a repository of their owners would have them: whole packages, under git."""
    python = Path(sysconfig.get_path("purelib"))
    npm = shutil.which("npm")
    scripts = Path(npm).resolve().parents[1] if npm else None
    found = (
        [(path, Path("lib") / path.relative_to(scripts)) for path in sources(scripts, (".js", ".ts"))]
        if scripts
        else []
    )
    several = found[:SCRIPTS]
    for path in itertools.islice(sources(python, (".py",), ("__pycache__",)), FILES - len(several)):
        several.append((path, Path("src") / path.relative_to(python)))
    for path, place in several:
        # Names that an index leaves out as nobody's own source.
        target = root / Path(
            *("modules" if part in {"node_modules", "dist", "build", "vendor"} else part for part in place.parts)
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    subprocess.run(["git", "init", "-q", str(root)], check=True)


def median(runs: list[IndexDone]) -> float:
    return sorted(run.seconds for run in runs)[len(runs) // 2]


def index_figures() -> dict[str, Any]:
    """Seconds of each kind of run, files, edges, bytes; ``alone_s``: the first run with one process to parse."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "repository"
        root.mkdir()
        repository(root)
        first = index(root)
        cold = [first, *(index(root, rebuild=True) for _ in range(ROUNDS - 1))]
        worth, parsing.WORTH = parsing.WORTH, sys.maxsize
        alone = [index(root, rebuild=True) for _ in range(ROUNDS)]
        parsing.WORTH = worth
        idle = [index(root) for _ in range(ROUNDS)]
        changed, added = [], []
        target = sorted(root.rglob("*.py"))[FILES // 3]
        for n in range(ROUNDS):
            target.write_text(target.read_text("utf-8", "replace") + f"\nADDED_{n} = {n}\n")
            changed.append(index(root))
            target.with_name(f"brand_new_{n}.py").write_text("import json\n")
            added.append(index(root))
        assert all(run.changed == 1 for run in changed)
        assert all(run.added == 1 for run in added)
        return {
            "files": first.files, "edges": first.edges, "bytes": first.bytes, "languages": first.languages,
            "unreadable": len(first.unreadable), "cold_s": median(cold), "alone_s": median(alone),
            "idle_s": median(idle), "changed_s": median(changed), "added_s": median(added),
        }  # fmt: skip


if __name__ == "__main__":
    print(index_figures())
