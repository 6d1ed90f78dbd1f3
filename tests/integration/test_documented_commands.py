"""Every command line of the documentation is run, in the order of its page, as a person at a terminal runs it."""

import json
import shlex
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openrouter import Fake
from tests.security.human import ENDED, Human
from tests.support.page_blocks import ROOT, lines_of
from tests.support.spawn_stage import KEY
from tests.support.stage import Stage, until

ELSEWHERE = {
    "make": ".ci/run and Makefile",
    "pipx": "tests/acceptance/test_install.py",
    "claude": "tests/e2e/test_setup.py",
    "orchestrator doctor --live gemini": "tests/e2e/test_doctor.py",
}
"""Lines of other programs, or with a real CLI: what runs them."""
FAKE_CLI = """#!/bin/sh
case "$1" in --version) echo "9.9.9"; exit 0;; esac
echo "It is fine."
"""


PAGES = [str(path.relative_to(ROOT)) for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])]
TOUCHED = [page for page in PAGES if lines_of(page)]


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
    follows = "--follow" in line or "--watch" in line
    answered = 0
    with Human(setting.stage, "-c", line, columns=120, ours=("sh",)) as human:

        def ended() -> bool:
            nonlocal answered
            screen = human._look()
            if follows and screen.strip() and not answered:
                human.type("\x03")
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


@pytest.fixture
def setting(make_stage: Callable[..., Stage], request: pytest.FixtureRequest) -> Iterator[Setting]:
    """A project under git with two branches, CLIs on PATH that say one sentence, and a stand-in of the model API."""
    stage = make_stage(getattr(request, "param", ""))
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


def _recovery(setting: Setting) -> None:
    stage = setting.stage
    run(setting, "orchestrator agent create builder --role builds")
    run(setting, "orchestrator task add builder --command true --wait")
    put(stage.root / "told.jsonl", "")
    setting.values["run-20261122-101500-a1b2c3"] = lambda: orchestrator(stage, "agent", "list")["agents"][0]["run_id"]


def _spawn(setting: Setting) -> None:
    stage = setting.stage
    put(stage.root / "review.md", "- The login has no test.\n")
    put(stage.root / "README.md", "# A changed project\n")
    setting.values["6f0c"] = lambda: orchestrator(stage, "spawn", "list")["runs"][-1]["run_id"]
    setting.ends["orchestrator spawn cancel"] = 3  # it has ended by then


def _squads(setting: Setting) -> None:
    stage = setting.stage
    stage.env["ENGINE"] = "claude"
    put(stage.root / "squad.json", json.dumps({"members": [{"roleId": "reviewer", "task": "Review src/"}]}))


TEAM = '[agents.builder]\nrole = "runs the builds"\nengine = "shell"\n'


def _team(setting: Setting) -> None:
    stage = setting.stage
    put(stage.root / ".agents" / "team.toml", TEAM)
    stage.env["ORCHESTRATOR_TRUST_BY_DIGEST"] = "true"
    setting.values["DIGEST"] = lambda: str(orchestrator(stage, "trust", "--dry-run")["digest"])


def _worktrees(setting: Setting) -> None:
    again = "orchestrator worktree remove login"  # after the agent's end, as the page says
    setting.values[again] = lambda: f"orchestrator agent delete login && {again}"


SETTINGS: dict[str, Callable[[Setting], None]] = {
    "docs/recovery.md": _recovery,
    "docs/spawn-runs.md": _spawn,
    "docs/squads.md": _squads,
    "docs/team.md": _team,
    "docs/worktrees.md": _worktrees,
}


@pytest.mark.parametrize("page", TOUCHED)
def test_the_commands_of_a_page_do_what_it_says(page: str, setting: Setting) -> None:
    SETTINGS.get(page, lambda _: None)(setting)
    for line in lines_of(page):
        program = next((word for word in shlex.split(line, comments=True) if "=" not in word), "")
        if program in ELSEWHERE or any(line.startswith(other) for other in ELSEWHERE):
            continue
        run(setting, line)


def test_what_is_not_run_here_is_run_elsewhere() -> None:
    for where in ELSEWHERE.values():
        assert all((ROOT / name).exists() for name in where.split(" and "))
