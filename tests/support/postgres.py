"""PostgreSQL for tests: one private server for each worker of pytest, a database with the schema for each module."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from orchestrator.base.errors import Environment
from orchestrator.fleet import administration
from orchestrator.fleet.migrations import migrate
from orchestrator.fleet.private_cluster import PrivateCluster, running

_COUNT = itertools.count(1)


@dataclass
class FleetServer:
    """A database with the schema of a fleet; each test takes projects of its own."""

    cluster: PrivateCluster
    database: str
    owner: psycopg.Connection
    _projects: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def project(self) -> str:
        """A name that no test has used."""
        return f"project-{next(self._projects)}"

    def add_host(self, project: str, host: str) -> str:
        """Let a host in; how it connects."""
        return self.cluster.dsn(self.database, administration.add_host(self.owner, project, host).role)


@contextmanager
def made_database(cluster: PrivateCluster, *, schema: bool = True) -> Iterator[FleetServer]:
    """A new database of a server; without ``schema`` it is empty."""
    name = f"fleet_{next(_COUNT)}"
    with psycopg.connect(cluster.dsn(), autocommit=True) as server:
        server.execute(f"create database {name} template template0")
    with psycopg.connect(cluster.dsn(name), autocommit=True) as owner:
        if schema:
            migrate(owner)
        yield FleetServer(cluster, name, owner)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivateCluster]:
    """The server of this worker. What it has committed survives its processes, not the machine."""
    try:
        server = running(durable=False)
        cluster = server.__enter__()
    except Environment as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{error.message}: tools/setup.sh postgres")
    try:
        yield cluster
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def fleet_server(postgres: PrivateCluster) -> Iterator[FleetServer]:
    """A database of the module on the worker's server."""
    with made_database(postgres) as server:
        yield server
