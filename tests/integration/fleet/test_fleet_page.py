"""Every command line of docs/fleet.md is run in its order, with a private PostgreSQL and an ssh that stays here."""

from __future__ import annotations

import shlex

import psycopg
import pytest

from orchestrator.fleet.private_cluster import running
from tests.support.documented import git, prepared, put, run
from tests.support.page_blocks import lines_of

PAGE = "docs/fleet.md"
DSN = "postgresql://fleet@db.example/fleet?sslmode=verify-full"
SSH = """#!/bin/sh
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
        variables = {**box.env, "HOME": str(box.root.parent)}  # its name there is the project's name here
        put(
            stage.base / "ssh",
            SSH.format(variables=shlex.join(f"{k}={v}" for k, v in variables.items())),
            program=True,
        )
        stage.env["ORCHESTRATOR_SSH"] = str(stage.base / "ssh")
        setting.values[DSN] = lambda: owner
        yield setting


@pytest.mark.tmux
def test_the_commands_of_the_page_do_what_it_says(laptop):
    shown = {line: run(laptop, line) for line in lines_of(PAGE) if not line.startswith("pipx")}
    assert "round trip" in shown["orchestrator host add me@box"]
    assert "box" in shown["orchestrator status"]
    assert "no violations" in shown["orchestrator verify --fleet"]
    assert "tested" in shown["orchestrator peek builder"]
    assert "[fleet]" not in (laptop.stage.root / ".agents" / "config.toml").read_text()
