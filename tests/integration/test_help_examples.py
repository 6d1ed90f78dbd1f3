"""Every `Example:` of a command's help is run, in stories in which one makes sense after the other."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable

import pytest

from tests.acceptance.test_gsd import SHOP
from tests.support.documented import Setting, git, orchestrator, prepared, put, run
from tests.support.gsd_trees import write
from tests.support.stage import Stage
from tools import docs

ELSEWHERE = {
    "claude mcp add orchestrator -- orchestrator mcp --toolsets team,squad": "tests/e2e/test_setup.py",
    "orchestrator doctor --live codex": "tests/e2e/test_doctor.py",
    "orchestrator demo --keep": "tests/acceptance/test_install.py",
    "orchestrator web": "tests/e2e/test_web.py",  # its fixed port may be taken
    **dict.fromkeys(
        [
            "orchestrator approve 3f2a91bc",
            "orchestrator approve 3f2a91bc --always",
            "orchestrator deny 3f2a91bc --reason 'use the build directory'",
            "orchestrator answer 3f2a91bc Postgres",
            "orchestrator answer 3f2a91bc 2 yes",
            "orchestrator release 3f2a91bc",
            "orchestrator approvals remove 5d0c77f0a1b2",
        ],
        "tests/unit/cli/test_inbox.py",
    ),
}
"""What runs these with the real CLI, with a CLI that asks, or at full length."""

OF_A_FLEET = ("orchestrator fleet ", "orchestrator host ")
"""How examples begin that tests/integration/fleet/test_fleet_page.py runs, with a database and another machine."""

TEAM = "".join(f'[agents.{name}]\nrole = "{name}"\nengine = "shell"\n' for name in ("builder", "reviewer", "tester"))
TEAM = TEAM.replace('"builder"\n', '"builder"\nworktree = true\n')
MAKEFILE = "test lint docs:\n\t@echo $@\n"

STORIES = {
    "agents": r"""
        orchestrator version
        orchestrator schema
        orchestrator schema config > config.schema.json
        orchestrator config show
        orchestrator config show --set idle_exit_s=60
        orchestrator agent create builder --role builds --engine shell  # starts one
        orchestrator agent delete builder
        orchestrator agent create builder --role 'runs the builds' --engine shell
        orchestrator agent list --json | jq '.agents[].agent_id'
        orchestrator agent show builder
        orchestrator agent restart builder
        orchestrator agent restart builder --fresh
        orchestrator task add builder "make test" --wait
        orchestrator events builder -n 20 -f
        orchestrator broadcast -f --json | jq .type
        orchestrator attach builder
        orchestrator peek builder
        orchestrator peek builder -n 200
        orchestrator logs builder
        orchestrator task add builder --payload '{"command": "make lint", "timeout_s": 60}'
        jq -n '{command: "make docs"}' | orchestrator task add builder -
        orchestrator task add builder "sleep 600" --id t-7
        orchestrator why builder
        orchestrator task list
        orchestrator task cancel builder t-7
        orchestrator why builder/t-7
        orchestrator task show builder/t-7
        orchestrator task show t-3cf763d69597
        orchestrator agent delete builder --force --yes
        orchestrator runs
        orchestrator report
        orchestrator report run-7c21 -o team.html
        orchestrator verify --json | jq '.violations[]'
        orchestrator doctor --json | jq '.findings[] | select(.level == "bad")'
        orchestrator doctor --fix
        orchestrator gc --older-than 12h
        orchestrator gc --apply
    """,
    "a team": r"""
        orchestrator trust --dry-run
        orchestrator trust
        orchestrator trust --list
        orchestrator trust --revoke all
        orchestrator up --dry-run
        orchestrator up
        orchestrator up --recreate --prune
        orchestrator status
        orchestrator status builder
        orchestrator status --watch
        orchestrator top
        orchestrator web --read-only --port 0
        orchestrator task add reviewer "Review src/login.py" --attach notes.md
        orchestrator task add reviewer --file task.md --title 'Review the login'
        orchestrator task add tester "echo 3 passed" --wait
        orchestrator logs tester -f
        orchestrator task list --failed
        orchestrator task add builder "echo new > new.txt && git add -A && git commit -qm new" --wait
        orchestrator worktree list
        orchestrator worktree list --json | jq '.worktrees[] | select(.dirty)'
        orchestrator worktree merge-check builder --into main
        orchestrator diff builder --stat
        orchestrator diff builder | git apply
        rm new.txt
        orchestrator merge builder --dry-run
        orchestrator merge builder
        orchestrator down
        orchestrator worktree remove builder
        orchestrator down --yes --stop-daemon
        orchestrator daemon start
        orchestrator daemon status --json | jq .pid
        orchestrator daemon restart
        orchestrator daemon stop
        rm -f "$ORCHESTRATOR_RUN_BASE"/*/stopped
        orchestrator daemon run --set log_level=debug
    """,
    "the inbox": r"""
        orchestrator agent create builder --role builds --engine shell  # the first
        orchestrator task add builder "exit 3" --wait
        orchestrator inbox
        orchestrator inbox 3f2a91bc
        orchestrator inbox --watch
        orchestrator dismiss 3f2a91bc
        orchestrator approvals list
    """,
    "set-up, roles and squads": r"""
        orchestrator setup gemini --dry-run
        orchestrator setup claude --hooks
        orchestrator setup codex --toolsets gsd
        orchestrator setup codex --uninstall
        orchestrator setup tmux --dry-run
        orchestrator roles list
        orchestrator roles list --json | jq -r '.roles[].id'
        orchestrator roles show reviewer
        orchestrator roles lint
        orchestrator roles lint --json | jq '.findings[]'
        ENGINE=claude orchestrator squad run reviewer --task "Review the last commit"
        STATE_MODE=stateful orchestrator squad run architect --task "And the tests?" --chat-id 4f1c2a90-...
        orchestrator squad start squad.json
        echo '{"members": [{"roleId": "reviewer", "task": "Review src/"}]}' | orchestrator squad start -
        orchestrator squad list
        orchestrator squad wait 1f0c...
        orchestrator squad cancel 1f0c...
    """,
    "spawn runs": r"""
        orchestrator spawn health
        orchestrator spawn create "Compare three ways to cache sessions" --mode collective --wait
        orchestrator spawn status 6f0c
        orchestrator spawn status 6f0c --follow
        orchestrator spawn result 6f0c --wait
        orchestrator spawn result 6f0c --raw
        orchestrator spawn artifact 6f0c merged -o answer.md
        orchestrator spawn artifact 6f0c plan
        orchestrator spawn graph 6f0c
        orchestrator spawn graph 6f0c --format svg -o run.svg
        orchestrator spawn list --status running
        orchestrator spawn cancel 6f0c
        orchestrator spawn create - --mode swarm --engine claude,codex < task.md
    """,
    "plans and code": r"""
        orchestrator gsd index
        orchestrator gsd index packages/server
        orchestrator gsd index --rebuild
        orchestrator gsd query auth session
        orchestrator gsd query login --type service --max 5
        orchestrator gsd blast src/lib/db.ts
        orchestrator gsd blast src/lib/db.ts --change deletion
        orchestrator gsd phase
        orchestrator gsd phase 2.1
        orchestrator gsd requirement AUTH-03
        orchestrator gsd requirement
        orchestrator gsd patterns error handling
        orchestrator gsd past add a payment provider
        orchestrator gsd files rate limiting for the login
        orchestrator gsd verify "users can reset their password"
        orchestrator gsd verify src/services/mail.ts
        orchestrator gsd verify --artifact "POST /api/auth/reset"
        orchestrator gsd check
        orchestrator gsd check --json | jq '.troubles[]'
        orchestrator gsd graph
        orchestrator gsd graph src/lib/db.ts -o db.html
    """,
}
"""Examples in the order of a story; other lines bring about what the next example supposes."""


def lines_of_story(name: str) -> list[str]:
    return [line.strip() for line in STORIES[name].splitlines() if line.strip()]


def examples() -> list[str]:
    """The example lines of all commands, as their help shows them."""
    text = (docs.ROOT / "docs/reference/cli.md").read_text("utf-8")
    shown = re.findall(r"Example:(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for part in shown for line in part.splitlines() if line.strip()]


def _agents(setting: Setting) -> None:
    put(setting.stage.root / "Makefile", MAKEFILE)
    setting.values["run-7c21"] = lambda: orchestrator(setting.stage, "runs")["runs"][0]["run_id"]
    setting.values["t-3cf763d69597"] = lambda: orchestrator(setting.stage, "task", "list", "--all")["tasks"][0][
        "task_id"
    ]


def _team(setting: Setting) -> None:
    root = setting.stage.root
    put(root / ".agents" / "team.toml", TEAM)
    put(root / "notes.md", "Look at the session.\n")
    put(root / "task.md", "echo Review the login\n")
    git(setting.stage, "add", "notes.md", "task.md")
    git(setting.stage, "commit", "-qm", "notes")
    git(setting.stage, "branch", "-f", "main")
    put(setting.stage.home / ".gitconfig", "[user]\nname = Kim\nemail = kim@example.com\n")
    setting.ends["orchestrator up --dry-run"] = 1  # there is something to do


def _inbox(setting: Setting) -> None:
    setting.values["3f2a91bc"] = lambda: str(orchestrator(setting.stage, "inbox")["inbox"][0]["id"])
    setting.ends['orchestrator task add builder "exit 3"'] = 1


def _squads(setting: Setting) -> None:
    stage = setting.stage
    stage.env["ENGINE"] = "claude"
    put(stage.root / "squad.json", json.dumps({"members": [{"roleId": "reviewer", "task": "Review src/"}]}))
    begin = ("squad", "run", "architect", "--task", "How is it built?")

    def chat() -> str:
        stage.env["STATE_MODE"] = "stateful"
        return str(orchestrator(stage, *begin)["members"][0]["chatId"])

    setting.values["4f1c2a90-..."] = chat
    setting.values["1f0c..."] = lambda: str(orchestrator(stage, "squad", "list")["squads"][-1]["squadId"])


def _spawns(setting: Setting) -> None:
    stage = setting.stage
    put(stage.root / "task.md", "Compare two ways to log in.\n")
    setting.values["6f0c"] = lambda: orchestrator(stage, "spawn", "list")["runs"][-1]["run_id"]
    setting.ends["orchestrator spawn cancel"] = 3  # it has ended by then


def _gsd(setting: Setting) -> None:
    root = setting.stage.root
    write(root, SHOP)
    put(root / "packages" / "server" / "main.py", "import os\n")
    setting.values |= {"phase 2.1": lambda: "phase 2", "AUTH-03": lambda: "AUTH-02"}
    for nothing_is_found in ("query login --type service", "patterns", "past", "verify"):
        setting.ends[f"orchestrator gsd {nothing_is_found}"] = 1


BEFORE: dict[str, Callable[[Setting], None]] = {
    "agents": _agents, "a team": _team, "the inbox": _inbox,
    "set-up, roles and squads": _squads, "spawn runs": _spawns, "plans and code": _gsd,
}  # fmt: skip


def without_jq(line: str) -> str:
    """The line for a machine on which jq is not installed."""
    line = line.replace("jq -n '{command: \"make docs\"}'", """echo '{"command": "make docs"}'""")
    return re.sub(r" \| jq .*", "", line)


@pytest.mark.parametrize("story", STORIES)
def test_the_examples_of_the_help_do_what_they_say(story: str, make_stage: Callable[..., Stage]) -> None:
    with prepared(make_stage()) as setting:
        BEFORE[story](setting)
        for line in lines_of_story(story):
            run(setting, line if shutil.which("jq") else without_jq(line))


def test_every_example_stands_in_one_story() -> None:
    told = [line for story in STORIES for line in lines_of_story(story)]
    here = [line for line in examples() if not line.startswith(OF_A_FLEET)]
    assert [line for line in here if told.count(line) != 1 and line not in ELSEWHERE] == []
    assert set(ELSEWHERE) <= set(examples())
    assert all((docs.ROOT / name).exists() for name in ELSEWHERE.values())
