"""The functions of the schema: races of two sessions have one winner, roles are bounds, and bytes stay."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from orchestrator.fleet import administration
from orchestrator.fleet.migrations import migrate
from orchestrator.fleet.private_cluster import running
from tests.support.fleet_programs import HOSTS
from tests.support.postgres import made_database

CAPS = json.dumps({"engines": ["shell"], "places": 30})
SET_CLOCK = """
create table orchestrator_fleet.set_clock (at timestamptz not null);
create or replace function orchestrator_fleet.db_now() returns timestamptz language sql volatile as
    'select coalesce((select at from orchestrator_fleet.set_clock), clock_timestamp())';
"""


class Project:
    """A new project whose hosts are `HOSTS`, each with one session; `time` sets the clock of the database."""

    def __init__(self, server) -> None:
        self.server, self.owner = server, server.owner
        self.name = server.project()
        self.dsn = {host: server.add_host(self.name, host) for host in HOSTS}
        self.sessions = {host: self.another(host) for host in HOSTS}
        self.reqs = 0

    def close(self):
        for session in self.sessions.values():
            session.close()

    def another(self, host):
        return psycopg.connect(self.dsn[host], autocommit=True)

    def call(self, who, function, *values):
        session = self.sessions[who] if isinstance(who, str) else who
        return session.execute(
            f"select * from orchestrator_fleet.{function}({', '.join(['%s'] * len(values))})", values
        ).fetchall()

    def begin(self):
        for host in HOSTS:
            self.call(host, "join_host", 1, f"i-{host}", "1", "1.0", 1, CAPS, "")
            self.beat(host, fresh=True)

    def beat(self, host, *, fresh=False):
        return self.call(host, "beat", f"i-{host}", "1", CAPS, fresh, None, "{}")[0]

    def create(self, who, *names, to="a", lost="move", run="run-1"):
        self.reqs += 1
        agents = [
            {"base": name, "taken": [], "host": to, "engine": "shell", "on_host_lost": lost, "req": f"{self.reqs}-{n}", "body": "{}"}
            for n, name in enumerate(names)
        ]  # fmt: skip
        return self.call(who, "create_agents", run, json.dumps(agents))

    def post(self, who, agent, kind="task", *, req, task_id=None, limit=99):
        return self.call(who, "post", agent, kind, req, task_id, "{}", limit, False)[0]

    def post_both(self, who, *, names, req):
        many = (["task"] * 2, [req] * 2, ["t" + req] * 2, ["{}"] * 2, [9] * 2, [False] * 2)
        return self.call(who, "post_all", names, *many)

    def ship(self, who, agent, fence, *outbox, life="ready"):
        parts = [1] * len(outbox), ["outbox"] * len(outbox)
        return self.call(
            who, "ship", [agent], [fence], [life], *parts, *(list(column) for column in zip(*outbox, strict=True))
        )[0]

    def time(self, seconds):
        """Let so many seconds pass."""
        self.owner.execute("update orchestrator_fleet.set_clock set at = at + make_interval(secs => %s)", [seconds])

    def lose(self, dead):
        """Let the lease of a host end for good, while the others renew theirs."""
        for _ in range(13):
            self.time(2)
            for host in HOSTS:
                if host != dead:
                    self.beat(host)

    def race(self, first, second):
        """Answers of two calls: the second one begins while the transaction of the first is open, and waits for it."""
        (who, *one), (other, *two) = first, second
        holder, waiter = self.another(who), self.another(other)
        with ThreadPoolExecutor(1) as pool, holder, waiter:
            with holder.transaction():
                answer = getattr(self, one[0])(holder, *one[1:-1], **one[-1])
                later = pool.submit(getattr(self, two[0]), waiter, *two[1:-1], **two[-1])
                pid = waiter.info.backend_pid
                while not later.done():
                    (blocked,) = self.owner.execute("select cardinality(pg_blocking_pids(%s))", [pid]).fetchone()
                    if blocked:
                        break
                waited = not later.done()
            return answer, later.result(), waited

    def move(self, who, dead):
        return self.call(who, "move", dead)


@pytest.fixture(scope="module")
def clocked(fleet_server):
    """The module's database with a clock that tests set."""
    fleet_server.owner.execute(SET_CLOCK)
    fleet_server.owner.execute("insert into orchestrator_fleet.set_clock values ('2026-01-01T00:00:00Z')")
    return fleet_server


@pytest.fixture
def project(clocked):
    made = Project(clocked)
    made.begin()
    yield made
    made.close()


def test_two_posts_get_two_numbers_and_one_limit_holds(project):
    project.create("a", "w")
    one, two, waited = project.race(
        ("b", "post", "w", {"req": "1", "task_id": "t1", "limit": 1}),
        ("c", "post", "w", {"req": "2", "task_id": "t2", "limit": 1}),
    )
    assert waited
    assert (one[0], one[2], two[0]) == ("accepted", 2, "queue_full")
    one, two, _ = project.race(
        ("b", "post", "w", {"req": "3", "task_id": "t3"}), ("b", "post", "w", {"req": "3", "task_id": "t3"})
    )
    assert (one[0], one[2:4]) == ("accepted", (3, 2))
    assert (two[0], two[2:4]) == ("again", (3, 2))


def test_an_answer_again_is_as_durable_as_the_first(project):
    """It writes, so its commit waits for the disk and for a synchronous standby."""
    project.create("a", "w")
    project.post("b", "w", req="1", task_id="t1")
    with project.sessions["b"].transaction():
        assert project.post("b", "w", req="1", task_id="t1")[0] == "again"
        (writes,) = project.sessions["b"].execute("select pg_current_xact_id_if_assigned() is not null").fetchone()
    assert writes


def test_a_stop_closes_before_the_next_task(project):
    project.create("a", "w")
    one, two, waited = project.race(
        ("b", "post", "w", "stop", {"req": "1"}), ("c", "post", "w", "task", {"req": "2", "task_id": "t"})
    )
    assert (one[0], two[0], waited) == ("accepted", "agent_ended", True)


def test_two_creations_never_share_an_id(project):
    one, two, waited = project.race(("a", "create", "w", "w", {}), ("b", "create", "w", {"run": "run-2"}))
    assert waited
    assert [row[1] for row in [*one, *two]] == ["w", "w-2", "w-3"]


def test_any_spreads_twenty_agents_over_three_hosts_in_one_call(project):
    placed = project.create("a", *["w"] * 20, to=None)
    assert sorted(sum(row[2] == host for row in placed) for host in HOSTS) == [6, 7, 7]


def test_a_move_fences_the_ship_that_waits_for_it(project):
    project.create("b", "w", to="a")
    project.lose("a")
    (moved,), shipped, waited = project.race(
        ("b", "move", "a", {}), ("a", "ship", "w", 1, (1, "ready", None, "{}"), {})
    )
    assert waited
    assert moved[0] == "w"
    assert moved[2] == 2
    assert shipped[1:3] == ("w", "fenced")
    assert shipped[5:] == (2, moved[1])


def test_a_ship_that_began_first_is_in_the_mirror_that_moves(project):
    project.create("b", "w", to="a")
    project.lose("a")
    shipped, moved, waited = project.race(("a", "ship", "w", 1, (1, "ready", None, "{}"), {}), ("b", "move", "a", {}))
    assert (shipped[2], waited, len(moved)) == ("stored", True, 1)
    own = project.beat(moved[0][1])[2]
    assert [(row[0], row[3], row[6]) for row in own] == [("w", 2, 1)]
    assert project.call("c", "read", "w", "outbox", 0, 9, 999) == [(1, 1, "{}")]


def test_two_movers_move_once(project):
    project.create("b", "w", "x", to="a")
    project.lose("a")
    one, two, waited = project.race(("b", "move", "a", {}), ("c", "move", "a", {}))
    assert ([row[0] for row in one], two, waited) == (["w", "x"], [], True)


def test_a_damaged_part_leaves_the_others_stored(project):
    project.create("a", "w", "x", "y")
    answers = project.call(
        "a", "ship", ["w", "x", "y"], [1, 1, 1], ["ready"] * 3, [1, 2, 2, 3, 3], ["outbox"] * 5, [1, 1, 2, 1, 3],
        ["ready", "result", "result", "ready", "result"], [None, "t", "t", None, "t"], ["1", "2", "3", "4", "5"],
    )  # fmt: skip
    assert [row[2] for row in answers] == ["stored", "forked", "gap"]
    assert project.call("a", "ownership", ["w", "x"]) == [("w", "a", 1), ("x", "a", 1)]
    assert project.call("a", "read", "x", "outbox", 0, 9, 99) == []


def test_a_host_that_was_given_up_and_renews_is_none_of_the_lost(project):
    project.create("a", "w", to="b", lost="wait")
    project.time(21)
    for _ in range(11):
        project.time(2)
        project.beat("a")
    given_up = "update orchestrator_fleet.host set lost = true where project = %s and host = 'b'"
    project.owner.execute(given_up, [project.name])
    project.beat("b")
    for _ in range(11):
        project.time(2)
        project.beat("a")
    assert project.call("a", "move", "b") == []


def test_an_agent_whose_row_disagrees_with_its_log_is_forked_alone(project):
    project.create("a", "w", "x")
    first = ["w"], [1], ["ready"], [1], ["outbox"], [1], ["ready"], [None], ["1"]
    assert project.call("a", "ship", *first)[0][2] == "stored"
    undone = "update orchestrator_fleet.agent set out_seq = 0 where project = %s and agent = 'w'"
    project.owner.execute(undone, [project.name])
    both = ["w", "x"], [1, 1], ["ready"] * 2, [1, 2], ["outbox"] * 2, [1, 1], ["ready"] * 2, [None] * 2, ["1", "2"]
    answers = project.call("a", "ship", *both)
    assert [(row[0], row[1], row[2]) for row in answers] == [(1, "w", "forked"), (2, "x", "stored")]
    assert [row[0] for row in project.call("a", "read", "x", "outbox", 0, 9, 99)] == [1]


@pytest.mark.parametrize(
    "query",
    [
        "select * from orchestrator_fleet.post", "insert into orchestrator_fleet.project values ('x')",
        "select orchestrator_fleet.raise_numbers()", "select orchestrator_fleet.grant_host('x')",
        "select orchestrator_fleet.caller()", "create table orchestrator_fleet.x ()",
        "create or replace function orchestrator_fleet.db_now() returns timestamptz language sql as 'select now()'",
        "set session authorization fleet_owner",
    ],
)  # fmt: skip
def test_a_host_has_the_functions_and_nothing_else(project, query):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        project.sessions["a"].execute(query)


def test_a_host_acts_in_its_own_project_alone(project, clocked):
    project.create("a", "w")
    other = Project(clocked)
    other.begin()
    assert other.post("a", "w", req="1", task_id="t")[0] == "no_agent"
    assert other.call("a", "take", ["w"], [0], 9) == []
    assert other.ship("a", "w", 1, (1, "ready", None, "{}"))[2] == "fenced"
    assert project.call("b", "take", ["w"], [0], 9) == []
    other.close()


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ('{"title": "two"}', "two"),
        ('{"payload": "\\u0000", "title": "a\\u0000b"}', "a\ufffdb"),
        ('{"payload": "\\ud800", "title": "two"}', ""),
        ('{"title": 7}', "7"),
        ('{"title": null}', ""),
        ('{"title": "' + "x" * 100_000 + '"}', "x" * 80),
        ("[]", ""),
        ("7", ""),
        ('{"title"', ""),
        ("", ""),
    ],
)
def test_the_title_of_a_post_is_found_whatever_its_sender_wrote(clocked, body, title):
    assert clocked.owner.execute("select orchestrator_fleet.title_in(%s)", [body]).fetchone() == (title,)


@pytest.mark.parametrize(
    "said", ['{"t":"grün 😀"}', '{"a":1, "a" : 2.50,"n":1e400}', '{"t" : "\\u0000"}', '{"t":"' + "x" * 100_000 + '"}']
)
def test_bodies_and_lines_come_back_byte_for_byte(project, said):
    project.create("a", "w")
    project.call("b", "post", "w", "task", "1", "t", said, 9, False)
    assert project.call("a", "take", ["w"], [1], 9)[0][-1] == said
    project.ship("a", "w", 1, (1, "ready", None, said))
    assert project.call("b", "read", "w", "outbox", 0, 9, 1) == [(1, 1, said)]


def test_a_promoted_standby_skips_numbers_before_any_post():
    """What the old server accepted last may be lost: its numbers are never used again."""
    with running(durable=False) as cluster:
        with made_database(cluster) as server:
            project = Project(server)
            project.begin()
            project.create("a", "w")
            assert project.post("b", "w", req="1", task_id="t")[2] == 2
            incarnation, timeline, *_ = project.beat("a")
            name = server.database
            project.close()
        cluster.stop()
        (cluster.data / "standby.signal").touch()
        cluster.start()
        with psycopg.connect(cluster.dsn(name), autocommit=True) as owner:
            assert owner.execute("select pg_promote()").fetchone() == (True,)
            for host in HOSTS:
                project.sessions[host] = project.another(host)
            (before,) = owner.execute("select (extract(epoch from now()) * 1000000)::bigint").fetchone()
            failed_over = project.post("b", "w", req="2", task_id="t2")[2]
            assert failed_over > before
            assert project.post("c", "w", req="1", task_id="t")[2] == 2
            assert project.beat("a")[:2] == (incarnation, timeline + 1)
            assert administration.restore(owner) != incarnation
            assert project.post("b", "w", req="3", task_id="t3")[2] > failed_over + 1_000_000
            assert migrate(owner) == (1, 1)
        project.close()


def test_posts_of_one_call_are_answered_as_single_ones_in_their_order(project):
    project.create("a", "w", "v")

    def post_all(*posts):
        columns = list(zip(*posts, strict=True))
        return project.call("b", "post_all", *map(list, columns))

    rows = post_all(
        ("w", "task", "1", "t1", "{}", 2, False), ("v", "task", "2", "t1", "{}", 2, False),
        ("w", "task", "1", "t1", "{}", 2, False), ("w", "task", "3", "t1", '{"payload":1}', 2, False),
        ("nobody", "task", "4", "t4", "{}", 2, False), ("w", "task", "5", "t5", "{}", 2, False),
        ("w", "task", "6", "t6", "{}", 2, False), ("w", "stop", "7", None, "{}", 2, False),
        ("w", "task", "8", "t8", "{}", 2, False),
    )  # fmt: skip
    assert [(row[0], row[2]) for row in rows] == [
        ("accepted", 2), ("accepted", 2), ("again", 2), ("known_task", 2), ("no_agent", 0), ("accepted", 3),
        ("queue_full", 0), ("accepted", 4), ("agent_ended", 0),
    ]  # fmt: skip
    assert [row[1:4] for row in project.call("a", "take", ["w"], [1], 9)] == [
        (2, "task", "t1"), (3, "task", "t5"), (4, "stop", None),
    ]  # fmt: skip


def test_two_calls_of_several_posts_do_not_lock_each_other(project):
    project.create("a", "w", "v")
    one, two, waited = project.race(
        ("b", "post_both", {"names": ["w", "v"], "req": "1"}), ("c", "post_both", {"names": ["v", "w"], "req": "2"})
    )
    assert waited
    assert [row[0] for row in (*one, *two)] == ["accepted"] * 4


BAD = {
    "kind": ("post", "w", "create", "r", "t", "{}", 9, False),
    "task": ("post", "w", "task", "r", "../t", "{}", 9, False),
    "long task": ("post", "w", "task", "r", "t" * 129, "{}", 9, False),
    "request": ("post", "w", "task", "", "t", "{}", 9, False),
    "body": ("post", "w", "task", "r", "t", "no json", 9, False),
    "body that is a list": ("post", "w", "task", "r", "t", "[]", 9, False),
    "deep body": ("post", "w", "task", "r", "t", '{"a":' + "[" * 100_000, 9, False),
    "caps": ("beat", "i-b", "1", '{"places": "x"}', False, None, "{}"),
    "places": ("beat", "i-b", "1", '{"places": 1e30}', False, None, "{}"),
    "engines": ("beat", "i-b", "1", '{"engines": 7}', False, None, "{}"),
    "view": ("beat", "i-b", "1", "{}", False, "no json", "{}"),
    "question": ("ask", "a", "peek", "no json", 1.0),
    "time": ("ask", "a", "peek", "{}", float("nan")),
    "answer": ("answer", 1, "no json"),
    "run": ("create_agents", "../run", "[]"),
    "joining": ("join_host", 1, "i-b", "1", "1.0", 1, "[]", ""),
    "version": ("join_host", 1, "i-b", "1", "1.0\x1b[2J", 1, CAPS, ""),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_a_host_cannot_write_what_would_stop_the_others(project, call):
    project.create("a", "w")
    with pytest.raises(psycopg.Error) as refused:
        project.call("b", *call)
    assert refused.value.sqlstate == "OF010"
    for host in HOSTS:
        project.beat(host)


@pytest.mark.parametrize(
    "wrong",
    [{"base": "../w"}, {"base": "w.fenced-1"}, {"base": ""}, {"req": ""}, {"on_host_lost": "stay"}, {"body": "x"}],
    ids=str,
)
def test_a_host_cannot_make_an_agent_that_its_owner_cannot_take(project, wrong):
    agent = {
        "base": "w",
        "taken": [],
        "host": "a",
        "engine": "shell",
        "on_host_lost": "wait",
        "req": "1",
        "body": "{}",
    }
    with pytest.raises(psycopg.Error) as refused:
        project.call("b", "create_agents", "run-1", json.dumps([agent | wrong]))
    assert refused.value.sqlstate == "OF010"


def test_a_host_that_asks_without_end_is_refused(project):
    project.owner.execute(
        "insert into orchestrator_fleet.ask (project, to_host, by_host, verb, body, until)"
        " select %s, 'a', 'b', 'ping', '{}', orchestrator_fleet.db_now() + interval '1 min' from generate_series(1, 1000)",
        [project.name],
    )
    with pytest.raises(psycopg.Error) as refused:
        project.call("b", "ask", "a", "ping", "{}", 1.0)
    assert refused.value.sqlstate == "OF010"
    assert len(project.call("c", "ask", "a", "ping", "{}", 1.0)) == 1
