"""What a user may get wrong about a fleet, with real daemons: one coded error each, and nothing half made."""

import contextlib
import json
import os
import shutil
import subprocess

import psycopg
import pytest

from orchestrator.fleet.migrations import migrate
from orchestrator.fleet.private_cluster import running
from tests.fakes.relays import until
from tests.support import mounts
from tests.support.fleet_stage import FleetHost, FleetStage
from tests.support.postgres import FleetServer


@pytest.fixture
def fleet(fleet_server):
    """A fleet of hosts a and b that has begun; hosts that a test adds to `others` end with it."""
    fleet = FleetStage(fleet_server, "ab")
    fleet.others = []
    try:
        yield fleet.begin()
    finally:
        print(fleet.log())
        for host in fleet.others:
            print(host.log()[-3000:])
            host.kill()
            host.close()
        fleet.close()


def trouble(host, code):
    """Wait until the daemon says so; the whole error."""
    found = until(lambda: (error := (host.fleet() or {}).get("trouble")) and error["code"] == code and error)
    assert found["next_step"]
    return found


def host_of(fleet, name, dsn, **more):
    host = FleetHost(fleet.base / name, name, fleet.project, dsn, **more)
    fleet.others.append(host)
    host.start()
    return host


def works(fleet, host="b"):
    fleet.enqueue(fleet.create(host))
    fleet.over()


def test_a_copy_of_a_host_is_refused_while_the_host_lives_and_the_host_goes_on(fleet):
    first = fleet["b"]
    fleet.create("b")
    copy = FleetHost(fleet.base / "copy", "b", fleet.project, first.env["ORCHESTRATOR_FLEET_DSN"])
    fleet.others.append(copy)
    for place in (copy.root / ".agents", copy.base / "state"):
        shutil.rmtree(place, ignore_errors=True)
    passing = shutil.ignore_patterns("*.tmp")  # gone again before they are copied
    shutil.copytree(first.root / ".agents", copy.root / ".agents", ignore=passing)
    shutil.copytree(first.base / "state", copy.base / "state", ignore=passing)
    copy.start()
    trouble(copy, "host_taken")
    fleet.enqueue("w")
    fleet.over()
    assert first.fleet()["trouble"] is None
    assert copy.panes() == [], "it starts no agent"


def without(directory, *missing):
    """A PATH with what a host needs but for these."""
    directory.mkdir()
    for name in {"sh", "env", "git", "tmux", "setsid", "cat", "ps", "sleep"} - set(missing):
        (directory / name).symlink_to(shutil.which(name))
    return str(directory)


def refused(fleet, **agent):
    """The code of the error of a creation."""
    call = fleet.master.ask("agent_create", **{"name": "w", "role": "r", "engine": "shell", **agent})
    told, error = fleet.master.told(call)
    assert error, told
    assert told["error"]["next_step"]
    return told["error"]["code"]


def test_a_host_without_tmux_takes_no_agent(fleet, fleet_server):
    host = host_of(
        fleet, "c", fleet_server.add_host(fleet.project, "c"), env={"PATH": without(fleet.base / "bin", "tmux")}
    )
    until(lambda: (host.fleet() or {}).get("renewed_s") is not None)
    assert refused(fleet, host="c") == "engine_missing"
    assert fleet.agents() == {}
    assert fleet.master.do("agent_list", scope="all")["agents"] == []
    works(fleet)


@pytest.mark.parametrize(("host", "code"), [("b", "engine_missing"), ("any", "no_host"), ("c", "host_unknown")])
def test_a_host_or_an_engine_that_is_not_there_is_refused_and_nothing_is_made(fleet, host, code):
    assert refused(fleet, host=host, engine="codex") == code
    assert fleet.agents() == {}
    assert fleet.master.do("agent_list", scope="all")["agents"] == []
    works(fleet)


def test_an_agent_that_its_host_cannot_start_says_which_host_and_why(fleet, fleet_server):
    accept = {"hosts": ["a"], "commands": {"build": "no-such-program {prompt}"}}
    env = {"ORCHESTRATOR_FLEET_ACCEPT": json.dumps(accept)}
    host = host_of(fleet, "c", fleet_server.add_host(fleet.project, "c"), env=env)
    until(lambda: (host.fleet() or {}).get("renewed_s") is not None)
    for agent, said in (
        ({"engine": "command", "command": ["build"]}, "no-such-program is not on the PATH of the daemon on host c"),
        ({"cwd": "nowhere"}, "cwd 'nowhere' is no directory"),
    ):
        call = {"name": "w", "role": "r", "engine": "shell", "host": "c", **agent}
        told, error = fleet.master.told(fleet.master.ask("agent_create", **call))
        assert error, told
        assert told["error"]["code"] == "launch_failed"
        assert told["error"]["message"].startswith("agent w")
        assert f"did not start on host c: {said}" in told["error"]["message"]
        assert "pane" not in told["error"]["next_step"], "it has none"


def test_a_host_with_a_wrong_role_or_password_is_no_host_and_its_own_team_works(fleet, fleet_server):
    cluster = fleet_server.cluster
    host = host_of(fleet, "c", cluster.dsn(fleet_server.database, "nobody_at_all"))
    trouble(host, "fleet_denied")
    master = host.master()
    told, error = master.told(master.ask("agent_create", name="w", role="r", engine="shell", host="b"))
    assert error
    assert told["error"]["code"] == "fleet_denied"
    assert not (host.root / ".agents" / "agents").exists() or not list((host.root / ".agents" / "agents").iterdir())
    assert fleet.agents() == {}
    assert master.do("agent_create", name="local", role="r", engine="shell")["agent_id"] == "local"
    works(fleet)


def repository(host, word):
    """Make the project a repository whose first commit is another one for each word."""
    for command in (
        ["init", "-q"],
        ["-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-q", "--allow-empty", "-m", word],
    ):
        subprocess.run(["git", *command], cwd=host.root, env=host.env, check=True)


def test_another_project_of_the_same_name_is_refused(fleet_server):
    fleet = FleetStage(fleet_server, "ab")
    try:
        repository(fleet["a"], "shop")
        repository(fleet["b"], "another shop")
        fleet["a"].start()
        until(lambda: (fleet["a"].fleet() or {}).get("renewed_s") is not None)
        fleet["b"].start()
        trouble(fleet["b"], "project_taken")
        fleet.master = fleet["a"].master()
        assert refused(fleet, host="b") == "host_away"
        works(fleet, "a")
    finally:
        fleet.close()


@pytest.mark.parametrize(
    ("change", "code"), [("schema = schema - 1", "schema_older"), ("min_program = 99", "schema_newer")]
)
def test_a_database_of_another_version_is_refused_and_agents_go_on(fleet, change, code):
    fleet.enqueue(fleet.create("b"), hold=str(fleet.base / "hold"))
    until(fleet.ledger.exists)
    [before] = fleet.sql("select schema, min_program from orchestrator_fleet.meta")
    fleet.sql(f"update orchestrator_fleet.meta set {change}")
    try:
        for host in fleet.hosts.values():
            host.kill_daemon()
            host.start()
            trouble(host, code)
        (fleet.base / "hold").touch()
    finally:
        fleet.sql("update orchestrator_fleet.meta set schema = %s, min_program = %s", *before)
    fleet.over()


def test_a_full_database_refuses_in_a_sentence_and_takes_all_when_there_is_room():
    if reason := mounts.why_no_mounts():
        pytest.skip(reason)
    mounts.apart(full)


def full():
    """In a mount namespace of its own: the database lies on a file system of a few megabytes."""
    with running(durable=False) as cluster:
        small, owner_of = cluster.directory / "small", cluster.directory.stat()
        mounts.tmpfs(small, "size=24m", f"uid={owner_of.st_uid}", f"gid={owner_of.st_gid}")
        with psycopg.connect(cluster.dsn(), autocommit=True) as server:
            server.execute(f"create tablespace small location '{small}'")
            server.execute("create database small template template0 tablespace small")
        with psycopg.connect(cluster.dsn("small"), autocommit=True) as owner:
            migrate(owner)
            fleet = FleetStage(FleetServer(cluster, "small", owner), "ab")
            try:
                no_room(fleet.begin(), owner)
            finally:
                print(fleet.log())
                fleet.close()
        cluster.kill()
        subprocess.run(["umount", str(small)], check=True)


def no_room(fleet, owner):
    for lost in ("move", "wait"):
        fleet.enqueue(fleet.create("b", lost, lost=lost), hold=str(fleet.base / "hold"))
    until(lambda: fleet.ledger.exists() and fleet.ledger.read_text().count("\n") == 2)
    with contextlib.suppress(psycopg.errors.DiskFull):
        owner.execute("create table filling (x text)")
        while True:  # what does not fit as one row fits as a shorter one
            owner.execute("insert into filling select repeat('x', 7000) from generate_series(1, 200)")
    with contextlib.suppress(psycopg.errors.DiskFull):
        while True:
            owner.execute("insert into filling values (repeat('x', 7000))")
    payload = {"ledger": str(fleet.ledger), "filling": os.urandom(100_000).hex()}
    task = {"task_id": "large", "payload": payload}
    told, error = fleet.master.told(fleet.master.ask("task_enqueue", agent_id="wait", task=task))
    assert error
    assert told["error"]["code"] == "fleet_full"
    assert told["error"]["next_step"]
    (fleet.base / "hold").touch()
    owner.execute("drop table filling")

    def accepted():
        answer, error = fleet.master.told(fleet.master.ask("task_enqueue", agent_id="wait", task=task))
        assert not error or answer["error"]["code"] in ("fleet_full", "fleet_away"), answer
        return not error

    until(accepted)
    fleet.accepted["large"] = "wait"
    fleet.over()
