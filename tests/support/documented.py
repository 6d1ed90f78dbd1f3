"""A person who runs documented commands: the project and the CLIs that a page supposes, a terminal, what is asked."""

from __future__ import annotations

import contextlib
import json
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.openrouter import Fake
from tests.security.human import ENDED, Human
from tests.support.spawn_stage import KEY
from tests.support.stage import Stage, until

FAKE_CLI = """#!/bin/sh
case "$1" in --version) echo "9.9.9"; exit 0;; esac
echo "It is fine."
"""


@dataclass
class Setting:
    """What a page supposes: what stands for its examples' values, and the expected ends that are not 0."""

    stage: Stage
    values: dict[str, Callable[[], str]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)  # by the line's beginning


def run(setting: Setting, line: str) -> str:
    """Run a line in a shell at a terminal, answer what it asks, end what follows; what the terminal showed."""
    for name, value in setting.values.items():
        if name in line:
            line = line.replace(name, value())
    wanted = next((code for start, code in setting.ends.items() if line.startswith(start)), 0)
    follows = re.search(r"--follow|--watch| -f\b|daemon run|orchestrator web", line) is not None
    follows = follows and " spawn status " not in line  # it ends with its run
    answered = 0
    with Human(setting.stage, "-c", line, columns=120, ours=("sh",)) as human:

        def ended() -> bool:
            nonlocal answered
            screen = human._look()
            if follows and screen.strip() and not answered:
                human.type("\x03")
                answered = 1
            elif " attach " in line and "[" in screen and not answered:
                human.type("\x02d")  # tmux's prefix, and detach
                answered = 1
            elif " top" in line and "help" in screen and not answered:
                human.type("q")
                answered = 1
            elif screen.count("[y/N]") > answered and not follows:
                human.type("y\n")
                answered += 1
            return ENDED.search(human.raw) is not None

        until(ended)
        screen, code = human._look(), human.end()
    assert code == (130 if follows and code else wanted), f"{line}\n{screen}"
    assert "Traceback" not in screen
    return screen


def orchestrator(stage: Stage, *words: str) -> Any:
    """The JSON answer of a command of ours."""
    done = subprocess.run(
        ["orchestrator", *words, "--json"], env=stage.env, cwd=stage.root, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout)


def put(place: Path, text: str, *, program: bool = False) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    if program:
        place.chmod(place.stat().st_mode | stat.S_IXUSR)


def git(stage: Stage, *words: str) -> None:
    name = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", *name, *words], cwd=stage.root, env=stage.env, check=True, capture_output=True)


@contextlib.contextmanager
def prepared(stage: Stage) -> Iterator[Setting]:
    """A project under git with two branches, CLIs on PATH that say one sentence, and a stand-in of the model API."""
    for name in ("claude", "gemini", "codex", "opencode"):
        put(stage.base / "bin" / name, FAKE_CLI, program=True)
    stage.env["PATH"] = f"{stage.base / 'bin'}:{stage.env['PATH']}"
    put(stage.root / "README.md", "# A project\n")
    put(stage.root / "src" / "lib" / "db.ts", "export const db = 1\n")
    put(stage.root / "src" / "login.ts", 'import { db } from "./lib/db"\nexport const login = () => db\n')
    put(stage.root / ".gitignore", ".agents/\n")
    git(stage, "init", "-q")
    git(stage, "add", "-A")
    git(stage, "commit", "-q", "-m", "first")
    git(stage, "branch", "release")
    with Fake() as fake:
        stage.env |= {
            "OPENROUTER_API_KEY": KEY,
            "OPENROUTER_BASE_URL": fake.url,
            "SMART_SPAWN_API_URL": "off",
            "SMART_SPAWN_MCP_HOME": str(stage.base / "spawn-home"),
        }
        yield Setting(stage)
