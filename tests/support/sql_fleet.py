"""A fleet on PostgreSQL whose sessions call the functions of the schema as `database.FleetConnection` does, in short.

Tests of the schema use it: it has no reconnection and no news, and the time of the database is what the test sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg

from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady
from orchestrator.fleet import administration, migrations
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_programs import HOSTS

REFUSALS = {
    "OF001": (BadRequest, "host_unknown"), "OF002": (Conflict, "host_taken"), "OF003": (Conflict, "project_taken"),
    "OF004": (Environment, "schema_newer"), "OF005": (Environment, "schema_older"), "OF006": (Conflict, "not_home"),
    "OF007": (Conflict, "host_alive"), "OF008": (NotReady, "too_early"), "OF009": (BadRequest, "unknown_run"),
}  # fmt: skip
TABLES = ("queue", "post", "log", "late", "agent", "run_home", "run", "ask", "view")
SET_CLOCK = """
create table if not exists orchestrator_fleet.set_clock (at timestamptz not null);
create or replace function orchestrator_fleet.db_now() returns timestamptz language sql volatile as
    'select coalesce((select at from orchestrator_fleet.set_clock), clock_timestamp())';
"""


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def value(stored: str | None) -> Any:
    return None if stored is None else json.loads(stored)


@contextmanager
def coded() -> Iterator[None]:
    """Refusals of the functions as errors of the product."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate not in REFUSALS:
            raise
        kind, code = REFUSALS[error.sqlstate]
        raise kind(code, str(error)) from None


class SqlSession(functions.FleetDatabase):
    """One connection as one host."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.on_news = lambda news: None

    def call(self, function: str, *values: Any, types: str = "") -> list[tuple[Any, ...]]:
        marks = ", ".join(f"%s::{kind}" if kind else "%s" for kind in types.split(" "))
        with coded():
            # A plain connection: no test is slow enough for another one to matter.
            return self.connection.execute(
                f"select * from orchestrator_fleet.{function}({marks if values else ''})".encode(), values
            ).fetchall()

    def tell(self, host: str, kind: functions.NewsKind, agents: Iterable[str] = ()) -> None:
        pass

    async def join(self, facts: functions.HostFacts) -> functions.Joined:
        (row,) = self.call(
            "join_host", migrations.SCHEMA, facts.instance, facts.boot, facts.version, facts.log_v, text(facts.caps),
            facts.repository, types="int text text text int text text",
        )  # fmt: skip
        return functions.Joined(*row)

    async def beat(self, request: functions.BeatRequest) -> functions.Beat:
        view = None if request.view is None else text(request.view)
        (row,) = self.call(
            "beat", request.instance, request.boot, text(request.caps), request.fresh, view, text(request.known_views),
            types="text text text bool text text",
        )  # fmt: skip
        kinds: tuple[Any, ...] = (
            functions.OwnAgent, functions.HomeAgent, functions.HostRow, functions.RunHomeRow, functions.HostView, functions.Ask,
        )  # fmt: skip
        return functions.Beat(
            *row[:2], *(tuple(kind(*one) for one in rows) for kind, rows in zip(kinds, row[2:], strict=True))
        )

    async def create(self, run_id: str, agents: Sequence[functions.NewFleetAgent]) -> list[functions.PlacedAgent]:
        new = [{**vars(one), "body": text(one.body)} for one in agents]
        rows = self.call("create_agents", run_id, text(new), types="text text")
        return [functions.PlacedAgent(*row[1:]) for row in rows]

    async def post(self, post: functions.NewPost) -> functions.PostAnswer:
        (row,) = self.call(
            "post", post.agent, post.kind, post.req, post.task_id, text(post.body), post.limit, post.force,
            types="text text text text text int bool",
        )  # fmt: skip
        answer = functions.PostAnswer(*row)
        return answer._replace(body=value(row[6]))

    async def take(self, after: Mapping[str, int], each: int = functions.POSTS_A_ROUND) -> list[functions.Post]:
        rows = self.call("take", list(after), list(after.values()), each, types="text[] bigint[] int")
        return [functions.Post(*row[:-1], value(row[-1])) for row in rows]

    async def ship(self, parts: Sequence[functions.LogPart]) -> list[functions.ShipAnswer]:
        lines = [
            (n, log, *line)
            for n, part in enumerate(parts, 1)
            for log, each in (("inbox", part.inbox), ("outbox", part.outbox))
            for line in each
        ]
        rows = self.call(
            "ship", [part.agent for part in parts], [part.fence for part in parts], [part.life for part in parts],
            *([line[n] for line in lines] for n in range(6)),
            types="text[] bigint[] text[] int[] text[] bigint[] text[] text[] text[]",
        )  # fmt: skip
        return [functions.ShipAnswer(*row[1:]) for row in rows]

    async def ownership(self, agents: Sequence[str]) -> dict[str, functions.Ownership]:
        rows = self.call("ownership", list(agents), types="text[]")
        return {row[0]: functions.Ownership(*row[1:]) for row in rows}

    async def move(self, dead: str) -> list[functions.MovedAgent]:
        return [functions.MovedAgent(*row) for row in self.call("move", dead, types="text")]

    async def read(
        self, agent: str, log: functions.LogName, after: int, lines: int, max_bytes: int
    ) -> list[functions.MirroredLine]:
        rows = self.call("read", agent, log, after, lines, max_bytes, types="text text bigint int bigint")
        return [functions.MirroredLine(*row) for row in rows]

    async def read_new(self, after: Mapping[str, tuple[int, int]]) -> list[functions.NewLines]:
        rows = self.call(
            "read_new", list(after), [ends[0] for ends in after.values()], [ends[1] for ends in after.values()],
            functions.NEW_LINES, types="text[] bigint[] bigint[] int",
        )  # fmt: skip
        agents = dict.fromkeys(row[0] for row in rows)
        return [
            functions.NewLines(
                agent,
                *(tuple(functions.MirroredLine(*row[2:]) for row in rows if row[:2] == (agent, log))
                  for log in ("inbox", "outbox")),
            )
            for agent in agents
        ]  # fmt: skip

    async def late(self, agent: str, fence: int, lines: Sequence[functions.LateLine]) -> None:
        columns = ([line[n] for line in lines] for n in range(3))
        self.call("late", agent, fence, *columns, types="text bigint text[] bigint[] text[]")

    async def late_lines(self, agent: str) -> list[tuple[int, functions.LateLine]]:
        return [(row[0], functions.LateLine(*row[1:])) for row in self.call("late_lines", agent, types="text")]

    async def take_run(self, run_id: str, gen: int) -> functions.RunHomeRow:
        (row,) = self.call("take_run", run_id, gen, types="text int")
        return functions.RunHomeRow(*row)

    async def forget(self, agents: Sequence[str]) -> list[str]:
        return [row[0] for row in self.call("forget", list(agents), types="text[]")]

    async def ask(self, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        ((ask_id,),) = self.call("ask", to_host, verb, text(body), wait_s, types="text text text float8")
        return int(ask_id)

    async def asks(self) -> list[functions.Ask]:
        return [functions.Ask(*row[:3], value(row[3]), row[4]) for row in self.call("asks")]

    async def answer(self, ask_id: int, answer: Any) -> None:
        self.call("answer", ask_id, text(answer), types="bigint text")

    async def answered(self, ask_id: int) -> tuple[bool, Any]:
        ((done, answer),) = self.call("answered", ask_id, types="bigint")
        return done, value(answer)


class SqlFleet:
    """A project whose hosts are `HOSTS`, with a clock that is set; a `FleetUnderTest`."""

    def __init__(self, dsn: str, project: str = "p") -> None:
        self.dsn, self.project = dsn, project
        self.owner = psycopg.connect(dsn, autocommit=True)
        migrations.migrate(self.owner)
        self.owner.execute(SET_CLOCK)
        self.roles = {host: administration.add_host(self.owner, project, host).role for host in HOSTS}
        self._sessions = {host: self.another(host) for host in HOSTS}

    def another(self, host: str) -> SqlSession:
        """One more connection as a host."""
        return SqlSession(f"{self.dsn} user={self.roles[host]}")

    def session(self, host: str) -> SqlSession:
        return self._sessions[host]

    async def set_time(self, at: datetime) -> None:
        self.owner.execute("delete from orchestrator_fleet.set_clock")
        self.owner.execute("insert into orchestrator_fleet.set_clock values (%s)", [at.astimezone(UTC)])

    async def drain(self, host: str, draining: bool) -> None:
        administration.drain(self.owner, self.project, host, draining=draining)

    async def give_up(self, host: str) -> None:
        """As the model does, without a look at the lease."""
        self.owner.execute("update orchestrator_fleet.host set lost = true where host = %s", [host])

    def empty(self) -> None:
        """Make it new."""
        for table in TABLES:
            self.owner.execute(f"delete from orchestrator_fleet.{table}".encode())
        self.owner.execute("update orchestrator_fleet.project set repository = ''")
        self.owner.execute(
            "update orchestrator_fleet.host set instance = '', boot = '', version = '', log_v = 0, caps = '{}',"
            " lease_until = null, unbroken_since = null, draining = false, lost = false, view_n = 0"
        )

    def close(self) -> None:
        for session in self._sessions.values():
            session.connection.close()
        self.owner.close()
