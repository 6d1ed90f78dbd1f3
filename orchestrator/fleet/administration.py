"""What whoever owns the schema of a fleet does: hosts and their roles, given-up hosts, restores, projects, the state.

Each function is one transaction on a psycopg connection of that owner, and answers with plain data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from orchestrator.base import entropy
from orchestrator.base.errors import BadRequest, Conflict

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

ROLE_NAME_CHARS = 20
"""Of project and host in the name of a role, which PostgreSQL cuts at 63 bytes."""
_TABLES = ("queue", "post", "log", "late", "agent", "run_home", "run", "ask", "view", "host", "project")


class NewHost(NamedTuple):
    """A host that was added. The password stands nowhere else: the server keeps what proves it, not the password."""

    role: str
    password: str


class HostState(NamedTuple):
    """One host. ``unfinished``: tasks of its agents that were accepted and whose end is not in the mirror."""

    project: str
    host: str
    role: str
    lease_left_s: float | None
    version: str
    log_v: int
    draining: bool
    lost: bool
    places: int
    agents: int
    unfinished: int


class Standby(NamedTuple):
    """A standby of the server. One with ``sync_state`` `async` may lack what was accepted when it is promoted."""

    name: str
    state: str
    sync_state: str
    behind_bytes: int | None


class FleetState(NamedTuple):
    """The database of a fleet. ``dead_rows`` by table; seconds of the oldest transaction that is open in it."""

    schema: int
    incarnation: str
    timeline: int
    hosts: list[HostState]
    posts: int
    lines: int
    bytes: int
    dead_rows: dict[str, int]
    oldest_transaction_s: float
    standbys: list[Standby]


def add_host(connection: Connection[TupleRow], project: str, host: str) -> NewHost:
    """Let a host into a project, under a role of its own. Conflict ``host_exists``."""
    role = "_".join(("fleet", _short(project), _short(host), entropy.token_hex(4)))
    password = entropy.token_hex(24)
    # The server's log may show the statement, so it has the verifier and not the password.
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    with connection.transaction():
        connection.execute(
            "insert into orchestrator_fleet.project (project) values (%s) on conflict do nothing", [project]
        )
        added = connection.execute(
            "insert into orchestrator_fleet.host (project, host, role) values (%s, %s, %s) on conflict do nothing",
            [project, host, role],
        )
        if not added.rowcount:
            raise Conflict("host_exists", f"{project} has a host {host} already")
        connection.execute(
            sql.SQL("create role {} login password {}").format(sql.Identifier(role), sql.Literal(verifier))
        )
        connection.execute("select orchestrator_fleet.grant_host(%s)", [role])
    return NewHost(role, password)


def check_repository(connection: Connection[TupleRow], project: str, repository: str) -> None:
    """Raise Conflict ``project_taken`` if hosts of another repository, named by its first commit, have the name."""
    row = connection.execute(
        "select repository from orchestrator_fleet.project where project = %s", [project]
    ).fetchone()
    if repository and row is not None and row[0] not in ("", repository):
        raise Conflict("project_taken", f"hosts of another repository are the project {project} of this fleet")


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())[:ROLE_NAME_CHARS]


def hosts(connection: Connection[TupleRow], project: str | None = None) -> list[HostState]:
    """The hosts of a project, or of all, by name."""
    rows = connection.execute(
        """
        select h.project, h.host, h.role::text,
            extract(epoch from h.lease_until - orchestrator_fleet.db_now())::float8, h.version, h.log_v,
            h.draining, h.lost, coalesce((h.caps ->> 'places')::int, 0),
            count(a.agent) filter (where a.life not in ('failed', 'stopped', 'deleted')),
            coalesce(sum(q.tasks - a.ended), 0)::bigint
        from orchestrator_fleet.host h
        left join orchestrator_fleet.agent a on a.project = h.project and a.host = h.host
        left join orchestrator_fleet.queue q on q.project = a.project and q.agent = a.agent
        where %(project)s::text is null or h.project = %(project)s
        group by h.project, h.host order by h.project, h.host
        """,
        {"project": project},
    )
    return [HostState(*row) for row in rows]


def state(connection: Connection[TupleRow]) -> FleetState:
    """The whole database. Numbers of posts and lines are those of the server's statistics: nothing is counted."""
    with connection.transaction():
        meta = connection.execute(
            "select schema, incarnation::text, timeline from orchestrator_fleet.meta"
        ).fetchone()
        assert meta is not None
        schema, incarnation, timeline = meta
        tables = connection.execute(
            """
            select relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid) from pg_stat_user_tables
            where schemaname = 'orchestrator_fleet' order by relname
            """
        ).fetchall()
        rows = {name: live for name, live, _, _ in tables}
        oldest = connection.execute(
            """
            select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
            """
        ).fetchone()
        standbys = connection.execute(
            """
            select application_name, coalesce(state, ''), coalesce(sync_state, ''),
                pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint
            from pg_stat_replication order by application_name, pid
            """
        ).fetchall()
        return FleetState(
            schema,
            incarnation,
            timeline,
            hosts=hosts(connection),
            posts=rows["post"],
            lines=rows["log"],
            bytes=sum(size for *_, size in tables),
            dead_rows={name: dead for name, _, dead, _ in tables},
            oldest_transaction_s=oldest[0] if oldest else 0.0,
            standbys=[Standby(*row) for row in standbys],
        )


def drain(connection: Connection[TupleRow], project: str, host: str, *, draining: bool = True) -> None:
    """Let a host get no new agents, or get them again."""
    with connection.transaction():
        _lock(connection, project, host)
        connection.execute(
            "update orchestrator_fleet.host set draining = %s where project = %s and host = %s",
            [draining, project, host],
        )


def give_up(connection: Connection[TupleRow], project: str, host: str) -> None:
    """Declare a host dead for good: another one moves its agents, or ends them. Conflict ``host_alive``.

    If it joins again, it is a host like the others.
    """
    with connection.transaction():
        _lock(connection, project, host)
        expired = connection.execute(
            """
            update orchestrator_fleet.host set lost = true where project = %s and host = %s
                and (lease_until + interval '5 s' < orchestrator_fleet.db_now()) is not false
            """,
            [project, host],
        )
        if not expired.rowcount:
            raise Conflict("host_alive", f"the lease of {host} has not expired")


def remove_host(connection: Connection[TupleRow], project: str, host: str) -> None:
    """Remove a host and its role. Conflict ``host_has_agents`` while it owns agents or is the home of their run.

    Deleted agents do not count. Those of its runs are forgotten, as its own gc would do; other homes keep theirs.
    """
    with connection.transaction():
        role = _lock(connection, project, host)
        left = connection.execute(
            """
            select agent, host = %(host)s, run_id from orchestrator_fleet.agent
            where project = %(project)s and (host = %(host)s or home = %(host)s) and life <> 'deleted'
            order by 2 desc, 1 limit 1
            """,
            {"project": project, "host": host},
        ).fetchone()
        if left is not None and left[1]:
            raise Conflict("host_has_agents", f"{host} has agents of the fleet, as {left[0]}")
        if left is not None:
            message = f"{host} is the home of the run of {left[0]}"
            raise Conflict("host_has_agents", message, f"on another host: orchestrator fleet take-run {left[2]}")
        for table in ("queue", "post", "log", "late", "agent"):
            connection.execute(
                sql.SQL(
                    """
                    delete from orchestrator_fleet.{} where project = %(project)s and agent in (
                        select agent from orchestrator_fleet.agent where project = %(project)s and home = %(host)s
                    )
                    """
                ).format(sql.Identifier(table)),
                {"project": project, "host": host},
            )
        for table in ("run_home", "view", "host"):
            _delete(connection, table, project, host)
        _drop_role(connection, role)


def remove_project(connection: Connection[TupleRow], project: str) -> None:
    """Remove a project: its hosts with their roles, its agents, and all their posts and logs."""
    with connection.transaction():
        if not _project(connection, project):
            raise BadRequest("host_unknown", f"the fleet has no project {project}")
        roles = [row.role for row in hosts(connection, project)]
        for table in _TABLES:
            _delete(connection, table, project)
        for role in roles:
            _drop_role(connection, role)


def restore(connection: Connection[TupleRow]) -> str:
    """After a restore of the database: a new incarnation, and numbers far behind those that were lost. Its name."""
    with connection.transaction():
        connection.execute("select orchestrator_fleet.raise_numbers(gen_random_uuid())")
        row = connection.execute("select incarnation::text from orchestrator_fleet.meta").fetchone()
    assert row is not None
    return str(row[0])


def _project(connection: Connection[TupleRow], project: str) -> bool:
    """Lock a project, as all do that create or move agents."""
    return bool(
        connection.execute(
            "select 1 from orchestrator_fleet.project where project = %s for update", [project]
        ).fetchone()
    )


def _lock(connection: Connection[TupleRow], project: str, host: str) -> str:
    """Lock a project and a host of it; its role. BadRequest ``host_unknown``."""
    _project(connection, project)
    row = connection.execute(
        "select role::text from orchestrator_fleet.host where project = %s and host = %s for update", [project, host]
    ).fetchone()
    if row is None:
        raise BadRequest("host_unknown", f"{project} has no host {host}")
    return str(row[0])


def _delete(connection: Connection[TupleRow], table: str, project: str, host: str | None = None) -> None:
    query = sql.SQL("delete from orchestrator_fleet.{} where project = %s").format(sql.Identifier(table))
    if host is None:
        connection.execute(query, [project])
    else:
        connection.execute(query + sql.SQL(" and host = %s"), [project, host])


def _drop_role(connection: Connection[TupleRow], role: str) -> None:
    for query in (
        "revoke all on all functions in schema orchestrator_fleet from {}",
        "revoke all on schema orchestrator_fleet from {}",
        "drop role if exists {}",
    ):
        connection.execute(sql.SQL(query).format(sql.Identifier(role)))
