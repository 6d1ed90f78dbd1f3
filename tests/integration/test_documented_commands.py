"""Every command line of the documentation is run, in the order of its page, as a person at a terminal runs it."""

import json
import shlex
from collections.abc import Callable, Iterator

import pytest

from tests.support.documented import Setting, orchestrator, prepared, put, run
from tests.support.page_blocks import ROOT, lines_of
from tests.support.stage import Stage

ELSEWHERE = {
    "make": ".ci/run and Makefile",
    "pipx": "tests/acceptance/test_install.py",
    "orchestrator web": "tests/integration/test_web.py",
    "claude": "tests/e2e/test_setup.py",
    "orchestrator doctor --live gemini": "tests/e2e/test_doctor.py",
}
PAGES_ELSEWHERE = {
    "docs/fleet.md": "tests/integration/fleet/test_fleet_page.py",
    "docs/tutorial.md": "tests/e2e/test_tutorial.py",
}
"""Lines of other programs, or with a real CLI, and pages: what runs them."""
PAGES = [str(path.relative_to(ROOT)) for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])]
TOUCHED = [page for page in PAGES if lines_of(page) and page not in PAGES_ELSEWHERE]


@pytest.fixture
def setting(make_stage: Callable[..., Stage]) -> Iterator[Setting]:
    """What most pages suppose."""
    with prepared(make_stage()) as found:
        yield found


def _recovery(setting: Setting) -> None:
    stage = setting.stage
    run(setting, "orchestrator agent create builder --role builds")
    run(setting, "orchestrator task add builder --command true --wait")
    put(stage.root / "told.jsonl", "")
    setting.values["run-20261122-101500-a1b2c3"] = lambda: orchestrator(stage, "agent", "list")["agents"][0]["run_id"]


def _report(setting: Setting) -> None:
    run(setting, "orchestrator agent create builder --role builds")
    run(setting, "orchestrator task add builder --command true --wait")


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
    "docs/report.md": _report,
    "docs/spawn-runs.md": _spawn,
    "docs/squads.md": _squads,
    "docs/team.md": _team,
    "docs/worktrees.md": _worktrees,
}


def follow(page: str, setting: Setting) -> None:
    """Run all lines of a page but those that run elsewhere."""
    for line in lines_of(page):
        program = next((word for word in shlex.split(line, comments=True) if "=" not in word), "")
        if program not in ELSEWHERE and not any(line.startswith(other) for other in ELSEWHERE):
            run(setting, line)


@pytest.mark.parametrize("page", TOUCHED)
def test_the_commands_of_a_page_do_what_it_says(page: str, setting: Setting) -> None:
    SETTINGS.get(page, lambda _: None)(setting)
    follow(page, setting)


def test_the_quickstart_can_be_followed_twice(setting: Setting) -> None:
    for _ in range(2):
        follow("docs/quickstart.md", setting)
    rows = orchestrator(setting.stage, "agent", "list", "--all")["agents"]
    assert {row["agent_id"]: row["status"] for row in rows} == {"builder": "deleted", "builder-2": "deleted"}


def test_what_is_not_run_here_is_run_elsewhere() -> None:
    for where in (*ELSEWHERE.values(), *PAGES_ELSEWHERE.values()):
        assert all((ROOT / name).exists() for name in where.split(" and "))
