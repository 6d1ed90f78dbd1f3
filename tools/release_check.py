"""Check that a release can be made: version, changelog, wheel, sdist, their description, and the demo from the wheel.

``python tools/release_check.py`` builds into ``dist/``, installs the wheel into a fresh environment, and runs the
demo there in an empty directory. Prints one line per check; exit status 1 if one failed. Writes to ``dist/`` and to a
temporary directory alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
IN_WHEEL = (
    "orchestrator/py.typed", "orchestrator/_data/prompts/agent.md", "orchestrator/_data/schemas/outbox.json",
    "orchestrator/_data/sample/README.md", "orchestrator/engines/plugins/opencode.js",
)  # fmt: skip
IN_SDIST = (
    "CHANGELOG.md",
    "Makefile",
    "requirements.lock",
    "sample/README.md",
    "tests/conftest.py",
    "docs/quickstart.md",
)
HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)]*)\)")


def changelog_fault(text: str, version: str) -> str:
    """What is wrong with the changelog of this version; "" if nothing is.

    >>> changelog_fault("## [Unreleased]", "1.0.0"), changelog_fault("## [1.0.0] - 2026-01-31", "1.0.0")
    ('', '')
    >>> changelog_fault("## [Unreleased]\\n## [1.0.0] - 2026-01-31", "1.0.0")
    '1.0.0 was released already; give pyproject.toml the next version'
    >>> changelog_fault("## [1.0.0]", "1.0.0")
    'the heading of 1.0.0 has no date'
    >>> changelog_fault("## [0.9.0] - 2025-01-31", "1.0.0")
    'its first heading is neither [Unreleased] nor [1.0.0]'
    """
    headings = HEADING.findall(text)
    first, dated = headings[0] if headings else ("", "")
    if first == "Unreleased":
        released = version in [name for name, _ in headings[1:]]
        return f"{version} was released already; give pyproject.toml the next version" if released else ""
    if first != version:
        return f"its first heading is neither [Unreleased] nor [{version}]"
    return "" if dated else f"the heading of {version} has no date"


def missing(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The wanted files that an archive lacks, and what must not be in it.

    >>> missing(["a/b", "x/__pycache__/y.pyc"], ["a/b", "c"])
    ['c is missing', 'x/__pycache__/y.pyc must not be there']
    """
    inside = set(names)
    unwanted = {".agents", "__pycache__", ".venv", ".demo", "mutants", ".git"}
    return [f"{name} is missing" for name in wanted if name not in inside] + [
        f"{name} must not be there" for name in sorted(inside) if unwanted & set(name.split("/"))
    ]


def dead_links(description: str) -> list[str]:
    """The links of a package's description that lead nowhere on a package index, because they are relative.

    >>> dead_links("[a](docs/a.md) [b](https://example.org) [c](#install)")
    ['docs/a.md']
    """
    return LINK.findall(description)


def _run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _archives() -> tuple[Path, Path]:
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def _build() -> str:
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--no-isolation")  # the wheel is built from the sdist
    return ", ".join(f"{path.name} ({path.stat().st_size // 1024} KiB)" for path in _archives())


def _changelog(version: str) -> str:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if fault := changelog_fault(text, version):
        raise RuntimeError(f"CHANGELOG.md: {fault}")
    unreleased = HEADING.findall(text)[0][0] == "Unreleased"
    return f"before the tag, rename [Unreleased] to [{version}] with the date" if unreleased else f"[{version}]"


def _contents() -> str:
    wheel, sdist = _archives()
    in_wheel = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as archive:
        in_sdist = [name.partition("/")[2] for name in archive.getnames()]
    faults = [
        *missing(in_wheel, IN_WHEEL),
        *missing(in_sdist, IN_SDIST),
        *(f"{name} must not be in the wheel" for name in in_wheel if not name.startswith("orchestrator")),
    ]
    if faults:
        raise RuntimeError("\n".join(faults))
    return f"{len(in_wheel)} files in the wheel, {len(in_sdist)} in the sdist"


def _description() -> str:
    wheel, _ = _archives()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        dead = dead_links(archive.read(name).decode())
    if dead:
        raise RuntimeError(f"links that work in the repository only: {', '.join(dead)}")
    _run(sys.executable, "-m", "twine", "check", "--strict", *_archives())
    return "twine has no complaint, and no link is relative"


def _installed(place: Path, version: str) -> str:
    venv.create(place / "venv", with_pip=True)
    wheel, _ = _archives()
    _run(place / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    told = _run(place / "venv/bin/orchestrator", "--version", cwd=place).strip()
    if version not in told.split():
        raise RuntimeError(f"orchestrator --version says {told!r}, pyproject.toml {version}")
    return told


def _demo(place: Path) -> str:
    empty = place / "empty"
    empty.mkdir()
    env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE", "PYTHONPATH")}
    lines = _run(place / "venv/bin/orchestrator", "demo", cwd=empty, env=env).splitlines()
    return next(line for line in lines if "tasks ended" in line).partition(".")[0] + " s"


def main() -> int:
    """Make all checks; a failed one does not hide the next."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    version = project["version"]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        place = Path(scratch)
        checks: list[tuple[str, Callable[[], str]]] = [
            ("changelog", lambda: _changelog(version)),
            ("build", _build),
            ("contents", _contents),
            ("description", _description),
            ("install", lambda: _installed(place, version)),
            ("demo", lambda: _demo(place)),
        ]
        for name, check in checks:
            try:
                print(f"ok    {name}: {check()}", flush=True)
            except (RuntimeError, OSError, ValueError, StopIteration) as error:
                failed += 1
                print(f"FAIL  {name}: {error}", flush=True)
    print(f"{version} can be released" if not failed else f"{failed} of {len(checks)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
