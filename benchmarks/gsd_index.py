"""`gsd index` of a repository of 1,000 real files: at first, with nothing new, after one change, after one new file.

The files are the sources of what is installed beside this package, and of npm where there is one; without network.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest import mock

from benchmarks.figures import Figure
from benchmarks.project import PLACE
from orchestrator.gsd.index import parsing
from orchestrator.gsd.index.indexing import index

FILES = 1000
SCRIPTS = 300
FIGURES = (
    Figure("first_s", f"gsd index of {FILES:,} files, all of them", "s"),
    Figure("alone_s", "  with one process", "s"),
    Figure("changed_s", "  after one change", "s"),
    Figure("added_s", "  after one new file", "s"),
    Figure("idle_s", "  with nothing new", "s"),
)


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


async def rounds() -> AsyncIterator[dict[str, float]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get(PLACE)) as directory:
        root = Path(directory) / "repository"
        root.mkdir()
        repository(root)
        index(root)
        target = sorted(root.rglob("*.py"))[FILES // 3]
        number = 0
        while True:
            number += 1
            out = {"first_s": index(root, rebuild=True).seconds}
            with mock.patch.object(parsing, "WORTH", sys.maxsize):
                out["alone_s"] = index(root, rebuild=True).seconds
            out["idle_s"] = index(root).seconds
            target.write_text(target.read_text("utf-8", "replace") + f"\nADDED_{number} = {number}\n")
            changed = index(root)
            target.with_name(f"brand_new_{number}.py").write_text("import json\n")
            added = index(root)
            if (changed.changed, added.added) != (1, 1):
                raise RuntimeError(f"{changed.changed} files changed and {added.added} came instead of one each")
            yield {**out, "changed_s": changed.seconds, "added_s": added.seconds}
