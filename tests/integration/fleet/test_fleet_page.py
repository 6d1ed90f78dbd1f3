"""Every command line of docs/fleet.md, and every example in the help of `fleet` and `host`, is run.

With a private PostgreSQL, and an ssh that stays here.
"""

from __future__ import annotations

import re
import shlex
import shutil

import psycopg
import pytest

from orchestrator.fleet.private_cluster import running
from tests.integration.test_help_examples import OF_A_FLEET, examples, without_jq
from tests.support.documented import git, prepared, put, run
from tests.support.page_blocks import lines_of

PAGE = "docs/fleet.md"
DSN = re.compile(r"postgresql://fleet@[^']*")
STORY = """
    orchestrator fleet init --dsn 'postgresql://fleet@db/fleet?sslmode=verify-full' --project shop --host laptop
    orchestrator daemon restart
    orchestrator fleet member --json
    orchestrator host add me@box --name gpu --path src/shop
    orchestrator host add me@box
    orchestrator host list --json | jq '.hosts[] | select(.state == "live")'
    orchestrator host doctor gpu
    orchestrator agent create builder --engine shell --role builds --host gpu
    orchestrator task add builder "make test" --wait
    orchestrator fleet status --json | jq '.hosts[] | {host, state}'
    orchestrator fleet doctor --json | jq '.findings[] | select(.level == "bad")'
    orchestrator fleet restore --yes
    orchestrator agent delete builder
    orchestrator host drain gpu
    orchestrator host drain gpu --undo
    orchestrator host remove gpu --lost
    orchestrator host remove gpu
    orchestrator fleet leave
"""
ELSEWHERE = {
    "orchestrator fleet join < membership.json",  # `host add` calls it on the other machine
    "orchestrator fleet take-run run-20261127-101500-a1b2c3",  # needs a master on another host: test_hosts_together
    "orchestrator host attach gpu",  # would show a tmux that is not the test's: test_fleet_commands
    "orchestrator host attach gpu builder",
}
SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
[ "$1" = me@box ] || exit 255
shift
exec env -i SSH_CONNECTION="1 2 3 4" {variables} sh -c "$*"
"""


@pytest.fixture
def owner():
    """How the user connects that the page makes: no superuser, but one that makes roles."""
    with running(durable=False) as cluster:
        with psycopg.connect(cluster.dsn(), autocommit=True) as server:
            server.execute("create role fleet login createrole in role pg_monitor")
            server.execute("create database fleet owner fleet template template0 encoding 'UTF8'")
        yield cluster.dsn("fleet", "fleet")


@pytest.fixture
def laptop(make_stage, owner):
    """The first machine; its ssh leads to a home in which the project is checked out already."""
    with prepared(make_stage()) as setting:
        stage, box = setting.stage, make_stage()
        put(stage.root / "Makefile", "test:\n\t@echo tested\n")
        git(stage, "add", "-A")
        git(stage, "commit", "-q", "-m", "tests")
        git(box, "init", "-q")
        git(box, "pull", "-q", str(stage.root))
        for one in (stage, box):
            one.allow(".agents/config.toml")
        variables = {
            **box.env,
            "HOME": str(box.root.parent),  # its name there is the project's name here
            "ORCHESTRATOR_TMUX_SOCKET": box.server.socket.name,
        }
        put(
            stage.base / "ssh",
            SSH.format(variables=shlex.join(f"{k}={v}" for k, v in variables.items())),
            program=True,
        )
        stage.env["ORCHESTRATOR_SSH"] = str(stage.base / "ssh")
        setting.values |= {line: (lambda line=line: DSN.sub(owner, line)) for line in _lines() if DSN.search(line)}
        yield setting
        for checkout in (box.root, box.root.parent / "src" / "shop"):
            box.cli("-C", str(checkout), "daemon", "stop")


def _lines() -> list[str]:
    return [*lines_of(PAGE), *(line.strip() for line in STORY.strip().splitlines())]


@pytest.mark.tmux
def test_the_commands_of_the_page_do_what_it_says(laptop):
    shown = {line: run(laptop, line) for line in lines_of(PAGE) if not line.startswith("pipx")}
    assert "round trip" in shown["orchestrator host add me@box"]
    assert "box" in shown["orchestrator status"]
    assert "no violations" in shown["orchestrator verify --fleet"]
    assert "tested" in shown["orchestrator peek builder"]
    assert "[fleet]" not in (laptop.stage.root / ".agents" / "config.toml").read_text()


@pytest.mark.tmux
def test_the_examples_of_the_help_do_what_they_say(laptop):
    laptop.ends["orchestrator host remove gpu --lost"] = 3  # its lease has not expired
    for line in STORY.strip().splitlines():
        run(laptop, line.strip() if shutil.which("jq") else without_jq(line.strip()))


def test_every_example_of_a_fleet_is_run():
    told = [line.strip() for line in STORY.strip().splitlines()]
    shown = {line for line in examples() if line.startswith(OF_A_FLEET)}
    assert shown - set(told) == ELSEWHERE
