"""The real CLIs of the end-to-end tests: pinned versions, installed on first use into a cache outside the repository.

``program(kind)`` is the path of the executable. The cache is ``$ORCHESTRATOR_E2E_CACHE``, else
``${XDG_CACHE_HOME:-~/.cache}/orchestrator-e2e``, as they stood when this module was imported (tests have a home of
their own). Each CLI has a folder ``<name>@<version>`` there; one that is there is whole, because it is renamed into
place when all of it is installed. What is installed stands in ``clis/<name>/package-lock.json``; a folder made from
another lock file is replaced. npm and node are needed, and on first use a network.

By hand: ``python -m tests.e2e.clis`` installs all and prints their paths.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from tests.e2e.models.turn import KINDS, Kind

ENVIRON = dict(os.environ)
_HERE = Path(__file__).parent / "clis"
_INSTALL_S = 900


class Cli(NamedTuple):
    """One CLI: its folder's name, its version, its executable, and whether its install scripts must run."""

    name: str
    version: str
    command: str
    scripts: bool


CLIS: dict[Kind, Cli] = {
    "gemini": Cli("gemini-cli", "0.61.0", "gemini", scripts=False),
    "claude": Cli("claude-code", "2.1.329", "claude", scripts=True),
    "codex": Cli("codex", "0.169.0", "codex", scripts=False),
    "opencode": Cli("opencode-ai", "1.18.33", "opencode", scripts=True),
}


class Missing(Exception):
    """A CLI cannot be had; the sentence says what to do."""


def cache() -> Path:
    """Where the CLIs are kept."""
    if own := ENVIRON.get("ORCHESTRATOR_E2E_CACHE"):
        return Path(own)
    base = ENVIRON.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(ENVIRON.get("HOME", "~")).expanduser() / ".cache") / "orchestrator-e2e"


def folder(kind: Kind) -> Path:
    """The folder of a CLI in the cache; it may not exist yet."""
    cli = CLIS[kind]
    return cache() / f"{cli.name}@{cli.version}"


def program(kind: Kind) -> Path:
    """The executable of a CLI, installed if it is not yet; raises ``Missing``."""
    place, lock = folder(kind), (_HERE / CLIS[kind].name / "package-lock.json")
    found = place / "node_modules" / ".bin" / CLIS[kind].command
    if not _whole(place, lock):
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock", timeout=_INSTALL_S):
            if not _whole(place, lock):
                _install(kind, place)
    if not os.access(found, os.X_OK):
        raise Missing(f"{found} is not there although its folder is whole; remove {place} and try again")
    return found


def programs() -> dict[Kind, Path]:
    """Every CLI's executable."""
    return {kind: program(kind) for kind in KINDS}


def _whole(place: Path, lock: Path) -> bool:
    # npm leaves the file it installed from beside what it installed.
    try:
        return (place / "package-lock.json").read_bytes() == lock.read_bytes()
    except OSError:
        return False


def _install(kind: Kind, place: Path) -> None:
    for needed in ("npm", "node"):
        if shutil.which(needed, path=ENVIRON.get("PATH")) is None:
            raise Missing(f"{needed} is not on PATH; the end-to-end tests need node 20 or newer with npm")
    new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        new.chmod(0o755)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(_HERE / CLIS[kind].name / name, new / name)
        _npm(kind, new)
        done = _run([str(new / "node_modules" / ".bin" / CLIS[kind].command), "--version"], new)
        if CLIS[kind].version not in done.stdout:
            raise Missing(f"{kind} was installed but does not tell its version: {(done.stdout + done.stderr)[-500:]}")
        old = new.with_name(f"{new.name}.old")
        if place.exists():
            place.rename(old)
        new.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _npm(kind: Kind, place: Path) -> None:
    options = ["--omit-lockfile-registry-resolved=true", "--no-audit", "--no-fund", "--no-update-notifier"]
    if not CLIS[kind].scripts:
        options.append("--ignore-scripts")
    done = _run(["npm", "ci", *options], place)
    if done.returncode:
        raise Missing(f"npm could not install {kind}: {(done.stderr or done.stdout)[:1000]}")


def _run(argv: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    # A home of its own would lose the user's npm settings; the CLI's own first start must not touch the user's.
    env = ENVIRON if argv[0] == "npm" else {**ENVIRON, "HOME": str(place / ".home")}
    try:
        return subprocess.run(
            argv, cwd=place, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_INSTALL_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{argv[0]} failed: {error}") from None
    finally:
        shutil.rmtree(place / ".home", ignore_errors=True)


if __name__ == "__main__":
    for each in KINDS:
        print(f"{each}: {program(each)}")
