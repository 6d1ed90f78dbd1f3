"""The model of the fleet's database and PostgreSQL answer the same generated calls alike."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import datetime

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from orchestrator.fleet import database_functions as functions
from orchestrator.fleet.migrations import migrate
from orchestrator.fleet.private_cluster import PrivateCluster, running
from tests.support.fleet_comparison import Comparison, ModelFleet
from tests.support.fleet_programs import HOSTS, Op, programs
from tests.support.fleet_sql import SqlConnection

CLOCK = """
create schema test_clock;
create table test_clock.now (at timestamptz not null);
insert into test_clock.now values (now());
create or replace function orchestrator_fleet.db_now() returns timestamptz language sql volatile
  as $$ select at from test_clock.now $$;
"""
PROJECTS = itertools.count(1)
AGREE = settings(
    max_examples=30, derandomize=True, print_blob=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivateCluster]:
    """A server with the schema, whose functions read a clock that the test sets."""
    with running(durable=False, tcp=False) as cluster:
        with psycopg.connect(cluster.dsn(), autocommit=True) as owner:
            migrate(owner)
            owner.execute(CLOCK)
        yield cluster


class PostgresFleet:
    """A new project of the cluster with `HOSTS`, each with its role and connection."""

    def __init__(self, project: str, owner: psycopg.AsyncConnection) -> None:
        self.project = project
        self._owner = owner
        self._connections: dict[str, SqlConnection] = {}

    @classmethod
    async def make(cls, cluster: PrivateCluster, project: str) -> PostgresFleet:
        made = cls(project, await psycopg.AsyncConnection.connect(cluster.dsn(), autocommit=True))
        await made._owner.execute("insert into orchestrator_fleet.project values (%s)", [project])
        for host in HOSTS:
            role = f"{project}_{host}"
            await made._owner.execute(f'create role "{role}" login')
            await made._owner.execute(
                "insert into orchestrator_fleet.host (project, host, role) values (%s, %s, %s)", [project, host, role]
            )
            await made._owner.execute("select orchestrator_fleet.grant_host(%s)", [role])
            connection = await psycopg.AsyncConnection.connect(cluster.dsn(user=role), autocommit=True)
            made._connections[host] = SqlConnection(connection)
        return made

    def session(self, host: str) -> functions.FleetDatabase:
        return self._connections[host]

    async def set_time(self, at: datetime) -> None:
        await self._owner.execute("update test_clock.now set at = %s", [at])

    async def drain(self, host: str, draining: bool) -> None:
        await self._set(host, "draining", draining)

    async def give_up(self, host: str) -> None:
        await self._set(host, "lost", True)

    async def _set(self, host: str, column: str, value: bool) -> None:
        change = f"update orchestrator_fleet.host set {column} = %s where project = %s and host = %s"
        await self._owner.execute(change, [value, self.project, host])

    async def close(self) -> None:
        for one in (*(each.connection for each in self._connections.values()), self._owner):
            await one.close()


def agree(cluster: PrivateCluster, program: list[Op]) -> None:
    async def compare() -> None:
        other = await PostgresFleet.make(cluster, f"p{next(PROJECTS)}")
        try:
            await Comparison(ModelFleet(other.project), other).run(program)
        finally:
            await other.close()

    asyncio.run(compare())


@AGREE
@given(program=programs(60))
def test_the_model_and_postgresql_agree(cluster, program):
    agree(cluster, program)


@pytest.mark.slow
@settings(AGREE, max_examples=2000, derandomize=False)
@given(program=programs(200))
def test_the_model_and_postgresql_agree_in_long_programs(cluster, program):
    agree(cluster, program)
