"""Another machine over the user's own ssh: what is there, our program, the project's checkout. Each step looks first.

Every step can be called again: it goes on where an earlier call stopped, and changes nothing that is as it should be.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.base.errors import Conflict, Environment
from orchestrator.edge import project_location
from orchestrator.fleet import own_wheel

PYTHON, TMUX = (3, 11), (3, 3)
VARIABLE = "ORCHESTRATOR_SSH"
"""The ssh program with options, for tests and odd set-ups."""
SSH_FAILED = 255
SAID_CHARS = 400

# Words of a POSIX shell: what the machine has. Each line is NAME=VALUE.
_LOOK = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say home "$HOME"
ours="$HOME/.local/share/orchestrator/@VERSION@/bin"
for p in "$ours/python" python3.14 python3.13 python3.12 python3.11 python3; do
    v=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    say python "$p"; say python_version "$v"; break
done
say tmux "$(tmux -V 2>/dev/null)"
say git "$(git --version 2>/dev/null)"
for o in "$ours/orchestrator" orchestrator "$HOME/.local/bin/orchestrator"; do
    v=$("$o" --version 2>/dev/null) || continue
    say program "$(command -v "$o")"; say version "${v#orchestrator }"; break
done
"""
_CHECKOUT = r"""
cd "$HOME" || exit 1
p=@PATH@
[ -e "$p" ] || { echo exists=no; exit 0; }
cd "$p" || exit 1
echo exists=yes
printf 'path=%s\n' "$(pwd -P)"
printf 'entries=%s\n' "$(ls -A | head -n 1)"
printf 'root=%s\n' "$(git rev-list --max-parents=0 HEAD 2>/dev/null | tail -n 1)"
"""
_INSTALL = r"""
set -e
d="$HOME/.local/share/orchestrator/@VERSION@"
mkdir -p "$d" && cd "$d"
# An environment whose making was interrupted has a Python, but no pip that works.
bin/python -m pip --version >/dev/null 2>&1 </dev/null || "@PYTHON@" -m venv --clear . >&2 </dev/null
cat > "@WHEEL@"
bin/python -m pip install --quiet --disable-pip-version-check "./@WHEEL@[fleet]" >&2
bin/orchestrator --version
"""
_CLONE = r"""
set -e
cd "$HOME"
p=@PATH@
t="$p.bundle.$$"
mkdir -p "$(dirname "$p")"
trap 'rm -f "$t"' EXIT
cat > "$t"
git clone --quiet "$t" "$p" >&2
cd "$p"
if [ -n @ORIGIN@ ]; then git remote set-url origin @ORIGIN@; else git remote remove origin; fi
pwd -P
"""


@dataclass
class RemoteMachine:
    """One machine; ``ssh`` are the words before the address. ``made`` says what was made there by this call."""

    ssh: Sequence[str]
    address: str
    made: list[str] = field(default_factory=list)

    def run(self, script: str, given: bytes = b"") -> str:
        """The output of a script in the shell there; Environment ``ssh_failed`` or ``host_unfit`` if it fails."""
        command = [*self.ssh, self.address, f"sh -c {shlex.quote(script)}"]
        try:
            done = subprocess.run(command, input=given, capture_output=True, check=False)
        except OSError as error:
            raise Environment("ssh_failed", f"{self.ssh[0]} cannot be started: {error.strerror}") from error
        said = _end_of(done.stderr.decode("utf-8", "replace"))
        if done.returncode == SSH_FAILED:
            raise Environment("ssh_failed", f"no connection to {self.address}: {said or 'ssh says no reason'}")
        if done.returncode:
            raise _Failed(done.returncode, said, done.stdout.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace")

    def facts(self) -> dict[str, str]:
        """What the machine has, checked: Environment ``host_unfit`` without Python 3.11, tmux 3.3 or git."""
        facts = _pairs(self._run(_filled(_LOOK, VERSION=project_location.version())))
        version = facts.get("python_version", "")
        if not version or tuple(map(int, version.split("."))) < PYTHON:
            has = f"Python {version}" if version else "no Python"
            raise self._unfit(f"has {has}, and 3.11 or newer is needed", "install Python 3.11 or newer there")
        tmux = re.search(r"(\d+)\.(\d+)", facts.get("tmux", ""))
        if tmux is None or (int(tmux[1]), int(tmux[2])) < TMUX:
            has = facts.get("tmux") or "no tmux"
            raise self._unfit(f"has {has}, and tmux 3.3 or newer is needed", "install tmux 3.3 or newer there")
        if not facts.get("git"):
            raise self._unfit("has no git", "install git there")
        return facts

    def program(self, facts: Mapping[str, str]) -> str:
        """The path of this version of our program there, which is installed if it is missing."""
        version = project_location.version()
        if facts.get("version") == version:
            return facts["program"]
        with tempfile.TemporaryDirectory() as directory:
            wheel = own_wheel.build(Path(directory))
            script = _filled(_INSTALL, VERSION=version, WHEEL=wheel.name, PYTHON=facts["python"])
            try:
                said = self.run(script, wheel.read_bytes())
            except _Failed as error:
                place = f"~/.local/share/orchestrator/{version}"
                step = (
                    f"install what pip names there, then repeat the call; take back: ssh {self.address} rm -r {place}"
                )
                raise self._unfit(f"cannot install orchestrator: {error.said}", step) from None
        if version not in said:
            raise self._unfit(f"has installed another version than {version}: {said.strip()}", "remove it there")
        place = f"{facts['home']}/.local/share/orchestrator/{version}"
        self.made.append(f"{place} (take back: rm -r {place})")
        return f"{place}/bin/orchestrator"

    def checkout(self, root: Path, path: str, commit: str) -> str:
        """The project's directory there, cloned from here if it is missing; Conflict ``other_checkout``."""
        there = _pairs(self._run(_filled(_CHECKOUT, PATH=shlex.quote(path))))
        if there.get("exists") == "yes" and there.get("entries"):
            if there.get("root", "") != commit:
                raise Conflict("other_checkout", f"{path} on {self.address} is not a checkout of this project")
            return there["path"]
        if not commit:
            raise self._unfit(
                f"has no directory {path}, and this project has no commit that could be cloned",
                "make the directory there, and name it with --path",
            )
        with tempfile.TemporaryDirectory() as directory:
            bundle = Path(directory) / "project.bundle"
            _git(root, "bundle", "create", "--quiet", str(bundle), "HEAD", "--branches", "--tags")
            origin = _git(root, "remote", "get-url", "origin", check=False)
            try:
                made = self.run(
                    _filled(_CLONE, PATH=shlex.quote(path), ORIGIN=shlex.quote(origin)), bundle.read_bytes()
                )
            except _Failed as error:
                raise self._unfit(f"cannot clone the project: {error.said}", "see the named cause there") from None
        where = made.strip().splitlines()[-1]
        self.made.append(f"{where} (take back: rm -r {where})")
        return where

    def orchestrator(self, program: str, path: str, *words: str, given: bytes = b"") -> dict[str, Any]:
        """The JSON answer of our program there; Environment ``host_unfit`` with its error's sentence."""
        script = shlex.join([program, "-C", path, *words, "--json"])
        failed = ""
        try:
            said = self.run(script, given)
        except _Failed as error:
            said, failed = error.out, error.said
        try:
            answer = json.loads(said.strip().splitlines()[-1])
        except (ValueError, IndexError):
            answer = {}
        if not failed and isinstance(answer, dict):
            return answer
        fields = answer.get("error") or {} if isinstance(answer, dict) else {}
        message = fields.get("message") or failed or said
        raise self._unfit(f"refuses {words[0]} {words[1]}: {message}", str(fields.get("next_step") or ""))

    def _run(self, script: str) -> str:
        try:
            return self.run(script)
        except _Failed as error:
            raise self._unfit(f"cannot be looked at: {error.said}", "see the named cause there") from None

    def _unfit(self, what: str, step: str) -> Environment:
        return Environment("host_unfit", f"{self.address} {what}", step)


class _Failed(Exception):
    """A script there failed."""

    def __init__(self, code: int, said: str, out: str) -> None:
        super().__init__(f"exit {code}: {said}")
        self.said = said or f"exit {code}"
        self.out = out


def root_commit(root: Path) -> str:
    """The first root commit of a checkout; "" without one."""
    return (_git(root, "rev-list", "--max-parents=0", "HEAD", check=False).split() or [""])[-1]


def _git(root: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if done.returncode and check:
        raise Environment("git_failed", f"git {words[0]}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout.strip() if not done.returncode else ""


def _filled(script: str, **values: str) -> str:
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    return script


def _end_of(text: str) -> str:
    """The last whole lines of what a program said, as one line; of a traceback the last line alone."""
    said = ""
    for line in reversed(text.splitlines()):
        if line.startswith((" ", "\t", "Traceback ")) or not line.strip():
            continue
        words = " ".join(line.split())
        if said and len(words) + len(said) >= SAID_CHARS:
            break
        said = f"{words} {said}".strip()
    return said[-SAID_CHARS:]


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
