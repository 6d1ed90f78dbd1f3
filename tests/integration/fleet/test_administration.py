"""Whoever owns the schema of a fleet: migrations, hosts and their roles, given-up hosts, projects, the state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.fleet import administration, migrations
from orchestrator.fleet.owner_session import session
from tests.support.postgres import made_database


@pytest.fixture
def empty(postgres):
    with made_database(postgres, schema=False) as server:
        yield server


@pytest.fixture
def server(postgres):
    with made_database(postgres) as made:
        yield made


def code_of(call, *args, **options):
    with pytest.raises(OrchestratorError) as caught:
        call(*args, **options)
    return caught.value.code


def test_the_program_knows_the_newest_file():
    assert migrations.migrations()[-1].version == migrations.SCHEMA
    assert [one.version for one in migrations.migrations()] == sorted(one.version for one in migrations.migrations())


def test_a_schema_is_made_once_also_by_four_at_a_time(empty):
    def one(_):
        with psycopg.connect(empty.cluster.dsn(empty.database), autocommit=True) as connection:
            return migrations.migrate(connection)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(one, range(4))) == [(0, 1), (1, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize("made", ["create schema orchestrator_fleet", "create table orchestrator_fleet.meta (x int)"])
def test_the_schema_of_another_program_is_left_alone(empty, made):
    empty.owner.execute("create schema if not exists orchestrator_fleet")
    if "table" in made:
        empty.owner.execute(made)
    assert code_of(migrations.migrate, empty.owner) == "schema_foreign"


def test_a_newer_schema_is_left_alone(server):
    server.owner.execute("update orchestrator_fleet.meta set schema = 2")
    assert code_of(migrations.migrate, server.owner) == "schema_newer"


def test_a_database_of_another_encoding_is_refused(empty):
    empty.owner.execute("create database latin encoding 'LATIN1' locale 'C' template template0")
    with psycopg.connect(empty.cluster.dsn("latin"), autocommit=True) as connection:
        assert code_of(migrations.migrate, connection) == "server_unsupported"


def test_a_failed_migration_leaves_nothing(empty, monkeypatch):
    files = [*migrations.migrations(), migrations.Migration(1, "0001_9_wrong.sql", "select nothing")]
    monkeypatch.setattr(migrations, "migrations", lambda: files)
    with pytest.raises(psycopg.Error):
        migrations.migrate(empty.owner)
    assert migrations.version(empty.owner) == 0


def test_a_password_lets_in_and_stands_nowhere(server):
    role, password = administration.add_host(server.owner, "p", "box")
    dsn = server.cluster.dsn(server.database, role, tcp=True)
    with psycopg.connect(dsn, password=password) as connection:
        assert connection.execute("select session_user").fetchone() == (role,)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn, password="wrong")
    (stored,) = server.owner.execute("select rolpassword from pg_authid where rolname = %s", [role]).fetchone()
    assert stored.startswith("SCRAM-SHA-256$")
    assert code_of(administration.add_host, server.owner, "p", "box") == "host_exists"


def test_a_long_name_of_any_letters_gets_a_role(server):
    role, _ = administration.add_host(server.owner, "Großes Projekt " * 9, 'b"ox' * 30)
    assert len(role) <= 63


def joined(server, host, lease="1 h"):
    role, _ = administration.add_host(server.owner, "p", host)
    server.owner.execute(
        'update orchestrator_fleet.host set caps = \'{"engines": ["shell"], "places": 2}\', instance = host,'
        " lease_until = clock_timestamp() + %s::interval where host = %s",
        [lease, host],
    )
    return role


NEW = '[{"base": "w", "taken": [], "host": "b", "engine": "shell", "on_host_lost": "wait", "req": "1", "body": "{}"}]'


def test_a_host_with_agents_is_given_up_before_it_is_removed(server):
    owner, role = server.owner, joined(server, "a")
    gone = joined(server, "b")
    with psycopg.connect(server.cluster.dsn(server.database, role), autocommit=True) as session:
        session.execute("select orchestrator_fleet.create_agents('run-1', %s)", [NEW])
    (a, b) = administration.hosts(owner, "p")
    assert (a.agents, b.agents, b.places, b.role) == (0, 1, 2, gone)
    for host in "ab":
        assert code_of(administration.remove_host, owner, "p", host) == "host_has_agents"
    assert code_of(administration.give_up, owner, "p", "b") == "host_alive"
    owner.execute(
        "update orchestrator_fleet.host set lease_until = clock_timestamp() - interval '1 min' where host = 'b'"
    )
    administration.give_up(owner, "p", "b")
    assert administration.hosts(owner, "p")[1].lost
    owner.execute("delete from orchestrator_fleet.agent")
    administration.remove_host(owner, "p", "b")
    assert owner.execute("select from pg_roles where rolname = %s", [gone]).fetchall() == []
    assert code_of(administration.drain, owner, "p", "b") == "host_unknown"


def test_deleted_agents_do_not_keep_a_host(server):
    owner, role, _ = server.owner, joined(server, "a"), joined(server, "b")
    with psycopg.connect(server.cluster.dsn(server.database, role), autocommit=True) as session:
        session.execute("select orchestrator_fleet.create_agents('run-1', %s)", [NEW])
    owner.execute("update orchestrator_fleet.agent set life = 'deleted'")
    administration.remove_host(owner, "p", "b")  # its owner: the home still has the logs to collect
    assert owner.execute("select agent from orchestrator_fleet.agent").fetchall() == [("w",)]
    administration.remove_host(owner, "p", "a")
    for table in ("agent", "queue", "post"):
        assert owner.execute(f"select from orchestrator_fleet.{table}").fetchall() == []


def test_drain_and_undrain(server):
    joined(server, "a")
    administration.drain(server.owner, "p", "a")
    assert administration.hosts(server.owner)[0].draining
    administration.drain(server.owner, "p", "a", draining=False)
    assert not administration.hosts(server.owner)[0].draining


def test_a_removed_project_leaves_no_row_and_no_role(server):
    role = joined(server, "b")
    with psycopg.connect(server.cluster.dsn(server.database, role), autocommit=True) as session:
        session.execute("select orchestrator_fleet.create_agents('run-1', %s)", [NEW])
    administration.remove_project(server.owner, "p")
    tables = server.owner.execute(
        "select table_name from information_schema.columns"
        " where table_schema = 'orchestrator_fleet' and column_name = 'project'"
    ).fetchall()
    assert len(tables) > 9
    for (table,) in tables:
        assert server.owner.execute(f"select from orchestrator_fleet.{table} where project = 'p'").fetchall() == []
    assert server.owner.execute("select from pg_roles where rolname = %s", [role]).fetchall() == []
    assert code_of(administration.remove_project, server.owner, "p") == "host_unknown"


def test_the_state_shows_what_is_open(server):
    joined(server, "a")
    with psycopg.connect(server.cluster.dsn(server.database)) as other:
        other.execute("select 1")
        state = administration.state(server.owner)
    assert state.oldest_transaction_s > 0
    assert (state.schema, state.standbys, [one.host for one in state.hosts]) == (migrations.SCHEMA, [], ["a"])
    assert state.bytes > 0
    assert "queue" in state.dead_rows


def test_an_owner_need_not_be_a_superuser(empty):
    empty.owner.execute("create role plain_owner login createrole")
    empty.owner.execute(f"alter database {empty.database} owner to plain_owner".encode())
    with psycopg.connect(empty.cluster.dsn(empty.database, "plain_owner"), autocommit=True) as owner:
        migrations.migrate(owner)
        role = administration.add_host(owner, "p", "a").role
        with psycopg.connect(empty.cluster.dsn(empty.database, role), autocommit=True) as host:
            host.execute("select orchestrator_fleet.join_host(1, 'i', '1', '1.0', 1, '{}', '')")
        assert administration.state(owner).hosts[0].host == "a"
        administration.restore(owner)
        administration.remove_project(owner, "p")


def test_a_command_is_refused_through_a_pooler(server, monkeypatch):
    dsn = server.cluster.dsn(server.database)
    with session(dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 1)  # who greeted, not who serves
    with pytest.raises(OrchestratorError) as caught, session(dsn):
        pass
    assert caught.value.code == "pooler_refused"
