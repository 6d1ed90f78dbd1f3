"""The fleet on the command line: two projects on this machine, a private PostgreSQL, and an ssh that stays here."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from orchestrator.fleet import administration
from orchestrator.fleet.private_cluster import PrivateCluster, running
from tests.support import sshd
from tests.support.stage import until

SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
[ "$1" = nobody@nowhere ] && {{ echo "no route to host" >&2; exit 255; }}
shift
exec env -i SSH_CONNECTION="1 2 3 4" {variables} sh -c "$*"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateCluster]:
    with running(durable=False) as one:
        yield one


@pytest.fixture
def owner(cluster, request):
    """The owner's DSN of a new database."""
    name = f"fleet_{abs(hash(request.node.name)) % 10**8}"
    with psycopg.connect(cluster.dsn(), autocommit=True) as server:
        server.execute(f"create database {name} template template0")
    return cluster.dsn(name)


def script(stage):
    """Let scripts of this user give trust, which no terminal asks for."""
    directory = stage.home / ".config" / "orchestrator"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text("trust_by_digest = true\n")


def asked(stage, *args, env=None):
    done = stage.cli(*args, "--json", env=env)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def refused(stage, *args, env=None):
    code, answer = asked(stage, *args, env=env)
    return code, answer["error"]["code"]


@pytest.fixture
def laptop(make_stage, owner):
    """A project that is the first host of its fleet."""
    stage = make_stage()
    script(stage)
    stage.allow(".agents/config.toml")
    code, answer = asked(stage, "fleet", "init", "--dsn", owner, "--project", "shop", "--host", "laptop")
    assert (code, answer["joined"], answer["schema_before"]) == (0, True, 0), answer
    return stage


@pytest.fixture
def box(make_stage, laptop):
    """Another project of the same name, which the first one reaches by its ssh."""
    stage = make_stage()
    program = laptop.base / "ssh"
    variables = shlex.join(f"{name}={value}" for name, value in stage.env.items())
    program.write_text(SSH.format(variables=variables))
    program.chmod(0o755)
    laptop.env["ORCHESTRATOR_SSH"] = str(program)
    stage.allow(".agents/config.toml")
    return stage


def test_init_makes_this_project_a_host_once(laptop, owner):
    config = laptop.root / ".agents" / "config.toml"
    text = config.read_text()
    assert text.startswith("tmux_socket")
    assert owner not in text
    passfile = laptop.base / "state" / "fleet" / "shop.laptop.pgpass"
    assert stat.S_IMODE(passfile.stat().st_mode) == 0o600
    assert passfile.read_text().rsplit(":", 1)[1].strip() not in text
    code, again = asked(laptop, "fleet", "init")
    assert (code, again["joined"], again["schema_before"]) == (0, False, again["schema"])
    assert config.read_text() == text
    assert refused(laptop, "fleet", "init", "--project", "shop", "--host", "other") == (3, "other_fleet")
    assert asked(laptop, "fleet", "doctor")[0] == 0
    code, status = asked(laptop, "fleet", "status")
    assert [(row["host"], row["state"]) for row in status["hosts"]] == [("laptop", "live")]
    assert status["database"]["schema"] == again["schema"]
    with psycopg.connect(owner, autocommit=True) as connection:  # as where the database was made anew
        administration.remove_host(connection, "shop", "laptop")
    code, anew = asked(laptop, "fleet", "init")
    assert (code, anew["joined"]) == (0, True), anew
    assert asked(laptop, "fleet", "init")[1]["joined"] is False
    assert config.read_text().count("dsn = ") == 1
    asked(laptop, "daemon", "restart")
    assert asked(laptop, "fleet", "doctor")[0] == 0
    assert asked(laptop, "fleet", "leave")[0] == 0
    assert "[fleet]" not in config.read_text()
    assert not passfile.exists()
    assert refused(laptop, "fleet", "status") == (2, "no_fleet")


def commit(root):
    (root / "x").write_text("")
    for words in (("init", "-q"), ("add", "x"), ("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=root, check=True)


def test_another_repository_does_not_get_the_name_of_a_project(make_stage, laptop, owner):
    commit(laptop.root)
    asked(laptop, "daemon", "restart")
    until(lambda: (asked(laptop, "daemon", "status")[1].get("fleet") or {}).get("renewed_s") is not None)
    stage = make_stage()
    script(stage)
    stage.allow(".agents/config.toml")
    commit(stage.root)
    (stage.root / "y").write_text("")
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--amend", "-m", "y"],
        cwd=stage.root,
        check=True,
    )
    names = ("--project", "shop", "--host", "other")
    assert refused(stage, "fleet", "init", "--dsn", owner, *names) == (3, "project_taken")
    assert "[fleet]" not in (stage.root / ".agents" / "config.toml").read_text()
    with psycopg.connect(owner) as connection:
        assert [row.host for row in administration.hosts(connection, "shop")] == ["laptop"]


def test_nobody_but_a_human_joins_a_fleet(make_stage, owner):
    stage = make_stage()
    stage.allow(".agents/config.toml")
    init = ("fleet", "init", "--dsn", owner, "--project", "shop", "--host", "laptop")
    agent = {**stage.env, "ORCHESTRATOR_AGENT_ID": "builder"}
    assert refused(stage, *init, env=agent) == (2, "not_for_agents")
    assert refused(stage, *init) == (2, "trust_refused")  # no terminal
    assert "[fleet]" not in (stage.root / ".agents" / "config.toml").read_text()


def test_a_failed_init_leaves_no_half_a_host(make_stage, owner, cluster):
    stage = make_stage()
    script(stage)
    stage.allow(".agents/config.toml")
    before = (stage.root / ".agents" / "config.toml").read_bytes()
    names = ("--project", "shop", "--host", "laptop")
    assert refused(stage, "fleet", "init", "--dsn", "nonsense", *names) == (2, "bad_argument")
    assert refused(stage, "fleet", "init", "--dsn", "host=db.example dbname=x", *names) == (5, "tls_required")
    assert refused(stage, "fleet", "init", "--dsn", owner.replace("fleet_", "none_"), *names)[0] in (4, 5)
    assert refused(stage, "fleet", "init", "--dsn", cluster.dsn("postgres", "stranger"), *names)[0] == 5
    assert refused(stage, "fleet", "init", "--dsn", owner, "--project", "A B", "--host", "x") == (2, "bad_argument")
    assert (stage.root / ".agents" / "config.toml").read_bytes() == before


@pytest.mark.tmux
def test_a_machine_is_added_works_and_is_removed(laptop, box, owner):
    asked(laptop, "daemon", "start")
    code, added = asked(laptop, "host", "add", "me@box", "--path", str(box.root))
    assert (code, added["host"], added["path"]) == (0, "box", str(box.root)), added
    assert added["round_trip_ms"] > 0
    config = (box.root / ".agents" / "config.toml").read_text()
    assert 'host = "box"' in config
    assert 'hosts = ["laptop"]' in config
    assert asked(laptop, "host", "add", "me@box", "--path", str(box.root))[0] == 0  # goes on, and finds all done
    assert (box.root / ".agents" / "config.toml").read_text() == config

    code, made = asked(laptop, "agent", "create", "builder", "--engine", "shell", "--host", "box")
    assert (code, made["host"], made["ready"]) == (0, "box", True), made
    code, done = asked(laptop, "task", "add", "builder", "--command", "pwd", "--wait")
    assert code == 0, done
    first = box.server.run("list-panes", "-a", "-F", "#{pane_start_command}").splitlines()[0]
    assert "status" in first, "the broadcast is written at the home only"
    assert "--watch" in first
    assert asked(laptop, "why", "builder")[0] == 0
    for stage in (laptop, box):  # the copy at the home of the run, and the logs of the owner
        code, report = asked(stage, "verify", "--fleet")
        assert (code, report["violations"], report["checked"]["mirrored agents"]) == (0, [], 1), report
    assert asked(laptop, "fleet", "status")[1]["own"]["trouble"] is None

    assert asked(laptop, "host", "drain", "box")[0] == 0
    assert refused(laptop, "agent", "create", "two", "--engine", "shell", "--host", "box") == (2, "host_draining")
    wanted = {"laptop": "live", "box": "draining"}
    until(lambda: {row["host"]: row["state"] for row in asked(laptop, "host", "list")[1]["hosts"]} == wanted)
    assert asked(laptop, "host", "drain", "box", "--undo")[0] == 0
    assert asked(laptop, "host", "doctor", "box")[0] == 0
    command = asked(laptop, "host", "attach", "box", "builder")[1]["command"]
    assert command[:3] == [laptop.env["ORCHESTRATOR_SSH"], "-t", "me@box"]
    assert command[3].endswith("attach builder")

    assert refused(laptop, "host", "remove", "box", "--lost", "--yes") == (3, "host_alive")
    assert refused(laptop, "host", "remove", "box") == (3, "host_has_agents")
    assert refused(laptop, "host", "remove", "laptop") == (2, "bad_argument")
    assert refused(laptop, "host", "drain", "nowhere") == (2, "host_unknown")
    back = ("agent", "create", "two", "--engine", "shell", "--host", "laptop")
    assert refused(box, *back) == (2, "refused_by_host")  # it accepts nobody: only the added host has [fleet.accept]
    pane = laptop.inside(laptop.server.start(width=30, height=10, session="small"))  # no room, and none is needed
    code, made = asked(laptop, "agent", "create", "three", "--engine", "shell", "--host", "box", env=pane)
    assert (code, made["host"]) == (0, "box"), made
    box.server.run("kill-server")  # as a boot of that machine does
    code, made = asked(laptop, "agent", "create", "four", "--engine", "shell", "--host", "box")
    assert (code, made["ready"]) == (0, True), made
    for agent in ("builder", "three", "four"):
        assert asked(laptop, "agent", "delete", agent)[0] == 0
    until(lambda: asked(laptop, "agent", "list")[1]["agents"] == [])
    until(lambda: asked(laptop, "host", "remove", "box")[0] == 0)  # a deleted agent keeps nobody
    assert refused(laptop, "host", "remove", "box") == (2, "host_unknown")
    assert [row["host"] for row in asked(laptop, "fleet", "status")[1]["database"]["hosts"]] == ["laptop"]
    code, again = asked(laptop, "host", "add", "me@box", "--path", str(box.root))  # its checkout still says it is box
    assert (code, again["host"], again["trouble"]) == (0, "box", None), again
    assert asked(laptop, "host", "remove", "box")[0] == 0


def test_a_machine_that_cannot_be_a_host_is_left_as_it_was(laptop, box, owner):
    add = ("host", "add", "--path", str(box.root))
    assert refused(laptop, *add, "nobody@nowhere", "--name", "far") == (5, "ssh_failed")
    assert refused(laptop, *add, "me@box", "--name", "laptop") == (2, "bad_argument")
    assert refused(laptop, *add, "-oProxyCommand=x") == (2, "bad_argument")
    bin_only = box.base / "bin"
    bin_only.mkdir()
    for name in ("sh", "env", "git"):
        (bin_only / name).symlink_to(f"/usr/bin/{name}")
    program = laptop.base / "ssh"
    text = program.read_text()
    program.write_text(text.replace(f"PATH={box.env['PATH']}", f"PATH={bin_only}"))
    assert refused(laptop, *add, "me@box") == (5, "host_unfit")  # no Python
    program.write_text(text)
    commit(laptop.root)
    assert refused(laptop, *add, "me@box") == (3, "other_checkout")
    with psycopg.connect(owner) as connection:
        assert [row.host for row in administration.hosts(connection, "shop")] == ["laptop"]
    assert "[fleet]" not in (box.root / ".agents" / "config.toml").read_text()


@pytest.mark.tmux
def test_a_machine_is_added_and_attached_to_over_a_real_sshd(laptop, box):
    with sshd.running({"LANG": "C.UTF-8", **box.env}) as words:
        laptop.env["ORCHESTRATOR_SSH"] = shlex.join(words)
        add = ("host", "add", "127.0.0.1", "--name", "box", "--path", str(box.root))
        wrong = shlex.join([*words, "-oUser=nobody-at-all"])
        assert refused(laptop, *add, env=laptop.env | {"ORCHESTRATOR_SSH": wrong}) == (5, "ssh_failed")
        assert "[fleet]" not in (box.root / ".agents" / "config.toml").read_text()
        code, added = asked(laptop, *add)
        assert (code, added["host"], added["path"]) == (0, "box", str(box.root)), added
        assert added["round_trip_ms"] > 0
        code, doctor = asked(laptop, "host", "doctor", "box")
        assert code == 0, doctor
        code, made = asked(laptop, "agent", "create", "builder", "--engine", "shell", "--host", "box")
        assert (code, made["host"], made["ready"]) == (0, "box", True), made
        command = asked(laptop, "host", "attach", "box", "builder")[1]["command"]
        assert command[: len(words) + 2] == [*words, "-t", "127.0.0.1"]
        screen, terminal = os.openpty()
        with subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=laptop.env, start_new_session=True
        ) as attached:
            os.close(terminal)
            try:
                until(lambda: box.server.run("list-clients"))
            finally:
                attached.kill()
                attached.wait()
                os.close(screen)
        until(lambda: not box.server.run("list-clients"))
        assert asked(laptop, "agent", "delete", "builder")[0] == 0
        until(lambda: asked(laptop, "agent", "list")[1]["agents"] == [])
        until(lambda: asked(laptop, "host", "remove", "box")[0] == 0)
