"""The connection of a host to the fleet's database: every function on a real server, news, and each way it is away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal

import psycopg
import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.base.waiting import give_way
from orchestrator.core.decisions import QueueLimits
from orchestrator.fleet import fleet_connection, server_connection
from orchestrator.fleet.database_functions import (
    BeatRequest,
    HostFacts,
    LateLine,
    LogPart,
    MirroredLine,
    NewFleetAgent,
    NewPost,
    News,
    Ownership,
    ShippedLine,
)
from orchestrator.fleet.fleet_connection import AGAIN_WITHIN_S, FleetConnection
from orchestrator.fleet.host_news import SILENT_S, TOGETHER_S, check_listening
from orchestrator.fleet.posting import Posting
from orchestrator.fleet.private_cluster import running
from orchestrator.fleet.server_connection import GIVEN_UP_S, LONGEST_PAUSE_S, check_direct
from tests.support.pg_proxy import PgProxy
from tests.support.postgres import made_database
from tests.support.team import FakeClock
from tests.support.tmux_server import BOUND

pytestmark = pytest.mark.anyio

CAPS = {"engines": ["shell"], "places": 3}
BODIES = {
    "nul": {"prompt": "before\0after", "list": [None, 1.5, -(2**62)]},
    "wide": {"prompt": "😀 é ﷽ \u2028 \\u0000 %s {} ' \"", "é": {}},
    "256 KiB": {"prompt": "x\n\0😀" * 32_768},
}


class Hosts:
    """Hosts a and b of a new project, each with its connection and the news that it got."""

    def __init__(self, server, clock=None) -> None:
        self.server = server
        self.clock = clock or SystemClock()
        self.project = server.project()
        self.reqs = itertools.count()
        self.dsn, self.connections, self.news = {}, {}, {}
        for name in "ab":
            self.dsn[name] = server.add_host(self.project, name)
            self.connections[name] = FleetConnection(self.dsn[name], self.project, name, self.clock)
            self.news[name] = asyncio.Queue()
            self.connections[name].on_news = self.news[name].put_nowait

    async def __aenter__(self):
        for name, connection in self.connections.items():
            await connection.join(HostFacts(name, "boot", "1", 1, CAPS))
            await self.beat(name, fresh=True)
        return self

    async def __aexit__(self, *error) -> None:
        for connection in self.connections.values():
            await connection.close()

    async def beat(self, name, **more):
        return await self.connections[name].beat(BeatRequest(name, "boot", CAPS, **more))

    async def agent(self, host="b"):
        """An agent of a's run at this host."""
        new = NewFleetAgent("worker", (), host, "shell", "move", f"req-{next(self.reqs)}", {"prompt": "p"})
        (placed,) = await self.connections["a"].create("run", [new])
        return placed.agent

    def task(self, agent, req=None, **more) -> NewPost:
        return NewPost(agent, "task", req or f"req-{next(self.reqs)}", {"prompt": "p"}, limit=10_000, **more)

    async def heard(self, name) -> News:
        return await asyncio.wait_for(self.news[name].get(), BOUND)

    async def listener(self, name, other_than=0) -> int:
        """The server process that serves the listener of this host, once it listens."""
        query = "select pid from pg_stat_activity where application_name = %s and usename = %s and pid <> %s"
        role = psycopg.conninfo.conninfo_to_dict(self.dsn[name])["user"]
        values = (f"orchestrator {name} listen", role, other_than)

        def look():
            row = self.server.owner.execute(query, values).fetchone()
            return row[0] if row and self.connections[name]._listener.listening else None

        return await seen(look)


async def seen(look):
    """The first true value; bounded by what only a broken product reaches."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BOUND
    while not (value := look()):
        assert loop.time() < deadline, "waited in vain"
        await asyncio.to_thread(lambda: None)  # lets time pass without a pause of its own
    return value


async def code_of(work) -> str:
    with pytest.raises(OrchestratorError) as caught:
        await work
    assert "geheim" not in str(caught.value.as_dict())
    return caught.value.code


# -- every function --------------------------------------------------------------------------------------------------


async def test_what_others_have_set_for_a_role_or_a_process_changes_nothing(fleet_server, monkeypatch):
    hosts, settings = Hosts(fleet_server), (
        "default_transaction_isolation = 'serializable'", "client_encoding = 'LATIN1'", "DateStyle = 'German'",
        "IntervalStyle = 'sql_standard'", "TimeZone = 'Asia/Kathmandu'", "search_path = 'pg_catalog'",
        "synchronous_commit = 'off'", "bytea_output = 'escape'", "extra_float_digits = 0",
    )  # fmt: skip
    for dsn in hosts.dsn.values():
        role = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
        for setting in settings:
            fleet_server.owner.execute(f'alter role "{role}" set {setting}')
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_isolation=repeatable\\ read")
    async with hosts:
        a, b, body = hosts.connections["a"], hosts.connections["b"], BODIES["wide"]
        agent = await hosts.agent()
        await a.post(NewPost(agent, "task", "q2", body, "t1", 5))
        posts = await b.take({agent: 1})
        assert [(post.task_id, post.body) for post in posts] == [("t1", body)]
        assert posts[0].at.endswith("Z")
        beat = await hosts.beat("b")
        assert all(row.lease_left_s > 0 for row in beat.hosts)
        for connection in (a._work, a._ship, a._notify):
            assert await connection.call("show default_transaction_isolation") == [("read committed",)]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_every_function_carries_what_it_is_given(fleet_server, body):
    async with Hosts(fleet_server) as hosts:
        a, b = hosts.connections["a"], hosts.connections["b"]
        new = NewFleetAgent("worker", ("worker",), "b", "shell", "move", "q1", body)
        (placed,) = await a.create("run", [new])
        assert placed == ("worker-2", "b", "", False)
        assert (await a.create("run", [new]))[0].again
        answer = await a.post(NewPost("worker-2", "task", "q2", body, "t1", 5))
        assert (answer.status, answer.host, answer.seq, answer.body) == ("accepted", "b", 2, None)
        known = await a.post(NewPost("worker-2", "task", "q3", {}, "t1", 5))
        assert (known.status, known.body) == ("known_task", body)
        assert (await a.post(NewPost("nobody", "task", "q4", {}, "t1", 5))).status == "no_agent"

        posts = await b.take({"worker-2": 0, "nobody": 3})
        assert [(post.seq, post.kind, post.task_id, post.by_host, post.body) for post in posts] == [
            (1, "create", None, "a", body),
            (2, "task", "t1", "a", body),
        ]
        assert await a.take({"worker-2": 0}) == []

        titled = {**body, "title": "two\0 and more" * 20}
        await a.post(NewPost("worker-2", "task", "q5", titled, "t2", 5))
        seen = await a.untaken({"worker-2": 1, "nobody": 0}, 9)
        assert [post[:4] for post in seen] == [("worker-2", 2, "task", "t1"), ("worker-2", 3, "task", "t2")]
        assert [post.title for post in seen] == ["", titled["title"].replace("\0", "\ufffd")[:80]]
        assert seen[0].at == posts[1].at
        assert len(await a.untaken({"worker-2": 0}, 1)) == 1

        line = str(body["prompt"])[:100_000].replace("\0", "\\u0000")
        part = LogPart(
            "worker-2", 1, "ready", (ShippedLine(1, "task", "t1", line),), (ShippedLine(1, "x", None, line),)
        )
        assert await b.ship([part]) == [("worker-2", "stored", 1, 1, 1, "b")]
        assert [answer.status for answer in await a.ship([part])] == ["fenced"]
        assert await b.ship([]) == []
        assert await a.read("worker-2", "inbox", 0, 10, 1) == [MirroredLine(1, 1, line)]
        (new_lines,) = await a.read_new({"worker-2": (0, 1)})
        assert new_lines == ("worker-2", (MirroredLine(1, 1, line),), ())
        assert await a.ownership(["worker-2", "nobody"]) == {"worker-2": Ownership("b", 1)}
        await b.late("worker-2", 1, [LateLine("outbox", 2, line)])
        await b.late("worker-2", 1, [LateLine("outbox", 2, line)])
        assert await a.late_lines("worker-2", 0, 9, 1 << 20) == [(1, 1, "b", "outbox", 2, line)]
        assert await a.late_lines("worker-2", 1, 9, 1 << 20) == []
        assert [row.line for row in await a.late_lines("worker-2", 0, 9, 10)] == [""]

        beat = await hosts.beat("b", view=body)
        assert [(row.agent, row.last_post, row.in_seq, row.out_seq) for row in beat.own] == [("worker-2", 3, 1, 1)]
        beat = await hosts.beat("a")
        assert [(row.host, row.fence, row.last_post) for row in beat.homes] == [("b", 1, 3)]
        assert [row.view for row in beat.views] == [body]
        assert [(row.host, row.places, row.agents) for row in beat.hosts] == [("a", 3, 0), ("b", 3, 1)]
        assert beat.runs == (("run", "a", 1),)
        assert (await hosts.beat("a", known_views={"b": 1})).views == ()

        number = await a.ask("b", "peek", body, 60.0)
        (asked,) = await b.asks()
        assert (asked.id, asked.by_host, asked.verb, asked.body) == (number, "a", "peek", body)
        assert await a.answered(number) == (False, None)
        await b.answer(number, body)
        assert await a.answered(number) == (True, body)

        assert await code_of(a.move("b")) == "host_alive"
        assert await b.take_run("run", 1) == ("run", "b", 2)
        assert await code_of(a.create("run", [new])) == "not_home"
        assert await code_of(a.take_run("no-run", 1)) == "unknown_run"
        assert await code_of(a.ask("nobody", "peek", {}, 1.0)) == "host_unknown"
        assert await b.forget(["worker-2"]) == []
        assert await code_of(a.join(HostFacts("another", "boot", "1", 1, CAPS))) == "host_taken"


async def test_what_no_json_file_can_hold_is_the_callers_error(fleet_server):
    async with Hosts(fleet_server) as hosts:
        post = NewPost(await hosts.agent(), "task", "q", {"prompt": "\ud800"}, limit=5)
        assert await code_of(hosts.connections["a"].post(post)) == "bad_argument"


# -- news ------------------------------------------------------------------------------------------------------------


async def test_the_first_news_goes_at_once_and_the_others_together(fleet_server):
    clock = FakeClock()
    async with Hosts(fleet_server, clock) as hosts:
        a = hosts.connections["a"]
        await hosts.listener("b")
        a.tell("b", "posts", ["x"])
        assert await hosts.heard("b") == News("posts", ("x",))
        for name in ("y", "z", "y"):
            a.tell("b", "posts", [name])
        a.tell("b", "ask")
        a.tell("b", "log", [f"agent-{number:05}" for number in range(1000)])
        await a.ownership([])  # on the same connection: what was sent before it has arrived
        assert hosts.news["b"].empty()
        await clock.advance(TOGETHER_S)
        # More than a notification holds: all of its names are left out.
        assert [await hosts.heard("b") for _ in range(3)] == [News("posts", ()), News("log", ()), News("ask", ())]
        a.tell("nobody", "posts", ["x"])
        await clock.advance(TOGETHER_S)
        a.tell("b", "answer")
        assert await hosts.heard("b") == News("answer", ())


@pytest.mark.parametrize("how", ["lost", "silent"])
async def test_a_listener_that_is_lost_or_silent_is_replaced(fleet_server, how):
    clock = FakeClock()
    async with Hosts(fleet_server, clock) as hosts:
        first = await hosts.listener("b")
        if how == "lost":
            hosts.server.owner.execute("select pg_terminate_backend(%s)", [first])
        else:
            await clock.advance(SILENT_S)
        await hosts.listener("b", other_than=first)
        hosts.connections["a"].tell("b", "posts", ["x"])
        assert await hosts.heard("b") == News("posts", ("x",))


async def test_a_listener_whose_host_beats_is_not_replaced(fleet_server):
    clock = FakeClock()
    async with Hosts(fleet_server, clock) as hosts:
        first = await hosts.listener("b")
        listener = hosts.connections["b"]._listener
        for _ in range(10):
            await clock.advance(2.0)
            due = listener.silent_s > 3.0
            await hosts.beat("b")
            if due:
                await seen(lambda: listener.silent_s < 1.0)
        assert await hosts.listener("b") == first
        assert hosts.news["b"].empty()


async def test_a_pooler_is_refused():
    check_direct(7, 7)
    check_listening("mine", ["mine"])
    for refused in (lambda: check_direct(7, 8), lambda: check_listening("mine", [])):
        with pytest.raises(OrchestratorError) as caught:
            refused()
        assert caught.value.code == "pooler_refused"


# -- bad input -------------------------------------------------------------------------------------------------------


def connection(dsn, clock=None):
    return FleetConnection(dsn, "project", "a", clock or FakeClock())


WRONG = {
    "wrong password": ("host=127.0.0.1 port={port} dbname={database} user={role} password=geheim", "fleet_denied"),
    "no password": ("host=127.0.0.1 port={port} dbname={database} user={role}", "fleet_denied"),
    "no role": ("host={directory} port={port} dbname={database} user=nobody_at_all", "fleet_denied"),
    "no host": ("host={directory} port={port} dbname={database} user=stranger", "fleet_denied"),
    "no database": ("host={directory} port={port} dbname=none user={role} password=geheim", "fleet_unreachable"),
    "no server": ("host={directory} port=1 dbname={database} user={role}", "fleet_away"),
    "no schema": ("host={directory} port={port} dbname=postgres user={role}", "schema_missing"),
    "no TLS": ("host=192.0.2.1 dbname={database} user={role} password=geheim", "tls_required"),
    "TLS unchecked": ("host=192.0.2.1 dbname=x user=x password=geheim sslmode=require", "tls_required"),
    "server without TLS": ("host=127.0.0.1 port={port} dbname=x user=x sslmode=verify-full", "fleet_unreachable"),
    "nonsense": ("host=127.0.0.1 password=geheim geheim", "bad_config"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_dsn_is_one_sentence_without_the_password(fleet_server, name):
    template, code = WRONG[name]
    role = psycopg.conninfo.conninfo_to_dict(fleet_server.add_host(fleet_server.project(), "a"))["user"]
    fleet_server.owner.execute("drop role if exists stranger")
    fleet_server.owner.execute("create role stranger login")
    cluster = fleet_server.cluster
    dsn = template.format(port=cluster.port, directory=cluster.directory, database=fleet_server.database, role=role)
    host = connection(dsn)
    try:
        assert await code_of(host.join(HostFacts("i", "boot", "1", 1, CAPS))) == code
    finally:
        await host.close()


async def test_variables_and_services_of_libpq_lead_to_no_other_server(fleet_server, monkeypatch, tmp_path):
    """The DSN names a socket; without this, libpq would take the address from there."""
    (tmp_path / "services").write_text("[team]\nhostaddr=192.0.2.1\nsslmode=disable\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    async with Hosts(fleet_server) as hosts:
        for name, value in (("PGHOSTADDR", "192.0.2.1"), ("PGSERVICE", "team")):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                host = FleetConnection(hosts.dsn["a"], hosts.project, "a", hosts.clock)
                assert await host.ownership([]) == {}
                await host.close()


async def test_a_server_that_is_reached_elsewhere_is_left_at_once(fleet_server, monkeypatch):
    monkeypatch.setattr(server_connection, "reached_unsafely", lambda *_reached: "it is elsewhere")
    async with contextlib.AsyncExitStack() as stack:
        host = connection(fleet_server.add_host(fleet_server.project(), "a"))
        stack.push_async_callback(host.close)
        assert await code_of(host.join(HostFacts("i", "boot", "1", 1, CAPS))) == "tls_required"


STATES = {
    "53100": "fleet_full", "57P01": "fleet_away", "57P03": "fleet_away", "40001": "fleet_away", "40P01": "fleet_away",
    "53300": "fleet_away", "25006": "fleet_away", "28000": "fleet_denied", "42883": "schema_older",
    "42P01": "schema_older", "22P05": "fleet_failed", "XX000": "fleet_failed", "OF002": "host_taken",
    "OF003": "project_taken", "OF004": "schema_newer", "OF005": "schema_older", "OF008": "too_early",
}  # fmt: skip


async def test_each_sqlstate_is_a_code(fleet_server):
    async with Hosts(fleet_server) as hosts:
        line = hosts.connections["a"]._work
        for state, code in STATES.items():
            raised = f"do $$ begin raise exception using errcode = '{state}', message = 'm'; end $$"
            assert (state, await code_of(line.call(raised))) == (state, code)
        assert await code_of(line.call("select %s", ["\0"])) == "fleet_failed"
        await hosts.connections["a"].asks()


# -- away ------------------------------------------------------------------------------------------------------------


async def test_a_server_that_is_killed_keeps_every_acknowledged_post(faults):
    with running(durable=False, tcp=False) as cluster, made_database(cluster) as server:
        clock = FakeClock()
        hosts = Hosts(server, clock)
        async with hosts:
            a, agent = hosts.connections["a"], await hosts.agent()
            acknowledged, begun = [], asyncio.Event()

            async def load() -> str:
                while True:
                    post = hosts.task(agent)
                    try:
                        assert (await a.post(post)).status == "accepted"
                    except NotReady as error:
                        acknowledged.append(post)  # sent again below: done, not done, or done and not told
                        return error.code
                    acknowledged.append(post)
                    if len(acknowledged) == 20:
                        begun.set()

            work = asyncio.get_running_loop().create_task(load())
            await asyncio.wait_for(begun.wait(), BOUND)
            await asyncio.to_thread(cluster.kill)
            while not work.done():  # the call whose answer was lost is sent again for a while
                await clock.advance(AGAIN_WITHIN_S)
                await asyncio.to_thread(lambda: None)
            assert await work == "fleet_away"
            await clock.advance(LONGEST_PAUSE_S)
            assert await code_of(a.asks()) == "fleet_away"
            assert await code_of(hosts.beat("a")) == "fleet_away"
            faults("kill -9 database")
            cluster.start()
            # It answers again, but it is too early for another try: the call fails at once.
            assert await code_of(a.asks()) == "fleet_away"
            await clock.advance(LONGEST_PAUSE_S)
            *sure, last = acknowledged
            assert {(await a.post(post)).status for post in sure} == {"again"}
            assert (await a.post(last)).status in ("again", "accepted")
            await code_of(hosts.beat("b"))  # its connection was lost as well
            await hosts.beat("b", fresh=True)
            posts = await hosts.connections["b"].take({agent: 1}, 10_000)
            assert [post.req for post in posts] == [post.req for post in acknowledged]
            await clock.advance(LONGEST_PAUSE_S)
            with psycopg.connect(cluster.dsn(server.database), autocommit=True) as server.owner:
                await hosts.listener("b")
            a.tell("b", "posts", [agent])
            assert await hosts.heard("b") == News("posts", (agent,))


@pytest.fixture
def locked(fleet_server):
    """Another session that can lock the queues, until it is rolled back."""
    with psycopg.connect(fleet_server.cluster.dsn(fleet_server.database)) as session:
        yield session
        session.rollback()


async def waits_for_a_lock(hosts) -> None:
    role = psycopg.conninfo.conninfo_to_dict(hosts.dsn["a"])["user"]
    query = "select 1 from pg_stat_activity where usename = %s and wait_event_type = 'Lock'"
    await seen(lambda: hosts.server.owner.execute(query, [role]).fetchone())


async def test_a_statement_that_waits_too_long_is_away_and_the_connection_goes_on(fleet_server, locked, monkeypatch):
    monkeypatch.setattr(server_connection, "STATEMENT_S", 4)
    async with Hosts(fleet_server) as hosts:
        a, agent = hosts.connections["a"], await hosts.agent()
        serving = a._work._connection.info.backend_pid
        locked.execute("select from orchestrator_fleet.queue for update")
        post = hosts.task(agent)
        assert await code_of(a.post(post)) == "fleet_away"
        await hosts.beat("a")  # on a connection of its own: a long statement never costs the lease
        locked.rollback()
        assert (await a.post(post)).status == "accepted"
        assert a._work._connection.info.backend_pid == serving


async def test_a_call_that_is_cancelled_leaves_nothing_open(fleet_server, locked, monkeypatch):
    monkeypatch.setattr(server_connection, "STATEMENT_S", 60)
    async with Hosts(fleet_server) as hosts:
        a, agent = hosts.connections["a"], await hosts.agent()
        serving = a._work._connection.info.backend_pid
        locked.execute("select from orchestrator_fleet.queue for update")
        first, second = hosts.task(agent), hosts.task(agent)
        loop = asyncio.get_running_loop()
        begun = loop.create_task(a.post(first))
        await waits_for_a_lock(hosts)
        queued = loop.create_task(a.post(second))
        await give_way()  # it waits for the connection now
        for task in (queued, begun):
            task.cancel()
        await asyncio.gather(begun, queued, return_exceptions=True)
        assert (begun.cancelled(), queued.cancelled()) == (True, True)
        after = loop.create_task(a.post(hosts.task(agent)))
        locked.rollback()
        assert (await after).status == "accepted"
        # What was begun was brought to its end; what was not begun was not done.
        assert [(await a.post(post)).status for post in (first, second)] == ["again", "accepted"]
        assert a._work._connection.info.backend_pid == serving
        open_ones = "select count(*) from pg_stat_activity where state like 'idle in transaction%%' and usename = %s"
        role = psycopg.conninfo.conninfo_to_dict(hosts.dsn["a"])["user"]
        assert fleet_server.owner.execute(open_ones, [role]).fetchone() == (0,)


async def test_a_server_that_says_nothing_is_given_up(fleet_server):
    clock = FakeClock()
    async with Hosts(fleet_server, clock) as hosts:
        a = hosts.connections["a"]
        serving = a._work._connection.info.backend_pid
        os.kill(serving, signal.SIGSTOP)
        try:
            call = asyncio.get_running_loop().create_task(a.asks())
            await clock.advance(GIVEN_UP_S)
            assert await code_of(call) == "fleet_away"
            assert await a.asks() == []  # on a new connection
        finally:
            os.kill(serving, signal.SIGCONT)


async def test_closing_does_not_wait_for_a_lock(fleet_server, locked):
    async with Hosts(fleet_server) as hosts:
        agent = await hosts.agent()
        locked.execute("select from orchestrator_fleet.queue for update")
        call = asyncio.get_running_loop().create_task(hosts.connections["a"].post(hosts.task(agent)))
        await waits_for_a_lock(hosts)
        await hosts.connections["a"].close()
        assert await code_of(call) == "fleet_away"
        assert await code_of(hosts.connections["a"].asks()) == "fleet_away"


# -- an answer that is lost ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def through_proxy(hosts):
    """Another connection of host a, and the proxy that it goes through."""
    cluster = hosts.server.cluster
    proxy = PgProxy(cluster.directory / f".s.PGSQL.{cluster.port}")
    try:
        yield proxy, FleetConnection(proxy.dsn(hosts.dsn["a"]), hosts.project, "a", hosts.clock)
    finally:
        proxy.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_whose_answer_is_lost_is_sent_again_and_accepted_once(fleet_server, when):
    async with Hosts(fleet_server) as hosts:
        agent = await hosts.agent()
        with through_proxy(hosts) as (proxy, a):
            proxy.cut_at("orchestrator_fleet.post(", when)
            answer = await a.post(hosts.task(agent, task_id="t1"))
            assert (answer.status, answer.seq) == ("accepted" if when == "before" else "again", 2)
            proxy.cut_at("orchestrator_fleet.create_agents(", when)
            new = NewFleetAgent("other", (), "b", "shell", "move", "q", {})
            ((name, host, why, again),) = await a.create("run", [new])
            assert (name, host, why, again) == ("other", "b", "", when == "after")
            await a.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_posts_of_one_transaction_whose_answer_is_lost_are_accepted_once_each(
    fleet_server, locked, when, monkeypatch
):
    monkeypatch.setattr(server_connection, "STATEMENT_S", 60)
    async with Hosts(fleet_server) as hosts:
        agent = await hosts.agent()
        with through_proxy(hosts) as (proxy, a):
            locked.execute("select from orchestrator_fleet.queue for update")
            loop = asyncio.get_running_loop()
            first = loop.create_task(a.post(hosts.task(agent)))
            await waits_for_a_lock(hosts)
            rest = [loop.create_task(a.post(hosts.task(agent))) for _ in range(5)]
            await give_way()  # they wait for the first, and go together
            proxy.cut_at("orchestrator_fleet.post_all(", when)
            locked.rollback()
            assert (await first).status == "accepted"
            answers = [await each for each in rest]
            told = "accepted" if when == "before" else "again"
            assert [(answer.status, answer.seq) for answer in answers] == [(told, number) for number in range(3, 8)]
            posts = await hosts.connections["b"].take({agent: 1}, 99)
            assert [post.seq for post in posts] == [2, 3, 4, 5, 6, 7]
            await a.close()


async def test_a_call_that_may_have_been_accepted_says_so_with_its_task(fleet_server, monkeypatch):
    monkeypatch.setattr(fleet_connection, "AGAIN_WITHIN_S", 0.2)
    async with Hosts(fleet_server) as hosts:
        agent = await hosts.agent()
        with through_proxy(hosts) as (proxy, a):
            posting = Posting(a, "a", lambda _names: None)
            task = {"task_id": "t1", "payload": 1, "timeout_s": None, "title": "", "limits": QueueLimits(9, 9)}
            proxy.cut_at("orchestrator_fleet.post(", "after")
            proxy.on_fired = proxy.away
            with pytest.raises(NotReady) as caught:
                await posting.enqueue(agent, **task, req="q1")
            assert (caught.value.code, caught.value.facts) == ("fleet_away", {"task_id": "t1", "sent": True})
            proxy.back()

            async def repeated():
                with contextlib.suppress(NotReady):
                    return await posting.enqueue(agent, **task, req="q2")

            answer = await asyncio.wait_for(until_true(repeated), BOUND)
            assert answer == {"position": 1, "task_id": "t1", "state": "queued", "duplicate": True}
            await a.close()


async def until_true(look):
    while not (value := await look()):
        await asyncio.to_thread(lambda: None)
    return value
