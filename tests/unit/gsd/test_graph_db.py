"""graph.db as GSD writes it, as its next version would have, and as somebody hostile or unlucky might leave it."""

import json
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from orchestrator.gsd.graph.slugs import readings, tails
from orchestrator.gsd.intel import graph_db
from orchestrator.gsd.intel.files import Unreadable
from tests.support.gsd_trees import unpack

V1 = (
    "CREATE TABLE nodes (body TEXT, id TEXT GENERATED ALWAYS AS (json_extract(body, '$.id')) VIRTUAL NOT NULL UNIQUE)",
    "CREATE INDEX id_idx ON nodes(id)",
    """CREATE TABLE edges (source TEXT NOT NULL, target TEXT NOT NULL, relationship TEXT DEFAULT 'depends_on',
    UNIQUE(source, target, relationship) ON CONFLICT REPLACE)""",
)
LOOSE = ("CREATE TABLE nodes (body)", "CREATE TABLE edges (source, target)")
V2 = (
    "CREATE TABLE nodes (id TEXT PRIMARY KEY, path TEXT, type TEXT, purpose TEXT, lines INTEGER, updated TEXT, status TEXT)",
    "CREATE TABLE edges (source TEXT, target TEXT, relationship TEXT)",
)


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "made" / ".planning" / "intel" / "graph.db"
    path.parent.mkdir(parents=True)
    return path


def read(path, **more):
    return graph_db.read(path.parents[2], path, **more)


def make(path, ddl, nodes=(), edges=(), sql="INSERT INTO nodes (body) VALUES (?)"):
    with closing(sqlite3.connect(path)) as con, con:
        for statement in ddl:
            con.execute(statement)
        con.executemany(sql, nodes)
        if edges:
            con.executemany("INSERT INTO edges (source, target) VALUES (?, ?)", edges)
    return path


def names(path):
    return sorted(each.name for each in path.parent.iterdir())


def body(node_id, path="", **more):
    return (json.dumps({"id": node_id, "path": path, **more}),)


def test_the_real_one_is_a2s(tmp_path):
    root = unpack("pike-lsp", tmp_path)
    told = graph_db.read(root, root / ".planning/intel/graph.db")
    assert (told.facts["nodes"], told.facts["edges"], told.troubles) == (36, 76, [])
    ends = [target for each in told.files.values() for target in each.targets]
    ids = set(told.files)
    exact = [end for end in ends if end in ids]
    # A2 counts over the ids alone: 12 ends are ids, 22 more are the one id that ends so.
    with_tail: dict[str, set[str]] = {}
    for node_id in ids:
        for tail in tails(node_id):
            with_tail.setdefault(tail, set()).add(node_id)

    def alone(*words):
        return any(len(with_tail.get(word, ())) == 1 for word in words)

    assert (len(ends), len(exact), sum(end in ids or alone(end) for end in ends)) == (76, 12, 34)
    # Links are also written as paths (core/types, logging.js); read so, 31 more are the end of one id.
    assert sum(end in ids or alone(*readings(end)) for end in ends) == 65
    one = told.files["home-smuks-opencode-pike-lsp-packages-pike-lsp-server-src-server"]
    assert one.path == "packages/pike-lsp-server/src/server.ts"


def test_paths_of_the_entities_themselves_are_no_paths(tmp_path):
    root = unpack("to-tui", tmp_path)
    told = graph_db.read(root, root / ".planning/intel/graph.db")
    assert {each.path for each in told.files.values()} == {""}
    assert sorted(told.files) == ["api", "app-state", "mcp-server", "storage", "todo-item", "todo-list", "ui"]


def test_v2_has_columns(place):
    make(place, V2, [("src-a", "src/a.ts", "service", "Does a", "active")], [("src-a", "b")],
         "INSERT INTO nodes (id, path, type, purpose, status) VALUES (?, ?, ?, ?, ?)")  # fmt: skip
    (node,) = read(place).files.values()
    assert (node.id, node.path, node.type, node.purpose, node.status, node.targets) == (
        "src-a", "src/a.ts", "service", "Does a", "active", ("b",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\0" * 4096, "is not an SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 200, "cannot be read"),
        (b"{}", "is not an SQLite database"),
    ],
)
def test_what_is_no_database_is_told(place, content, what):
    place.write_bytes(content)
    with pytest.raises(Unreadable) as told:
        read(place)
    assert what in told.value.what


def test_a_torn_database_is_told(place):
    make(place, V1, [body(f"n{number}", "x" * 500) for number in range(200)])
    data = place.read_bytes()
    place.write_bytes(data[: len(data) // 2])
    with pytest.raises(Unreadable):
        read(place)


def test_bad_rows_are_left_out_and_counted(place):
    make(
        place, LOOSE,
        [
            body("good", "src/good.ts"), ("not json",), ("[1]",), (None,), (7,), (b"\xff\xfe",), ("x" * 300_000,),
            body(""), body(7), ('{"path": "no/id.ts"}',), ('{"id": "deep"' + "[" * 5_000,), body("bad\ud800".encode(errors="replace").decode()),
        ],
        [("good", "other"), (None, "x"), ("good", 5), ("nobody", "good"), ("good", b"\xff"), ("good", "x" * 5_000)],
    )  # fmt: skip
    told = read(place)
    assert sorted(told.files) == ["bad?", "good"]
    assert told.files["good"].targets == ("other",)
    assert [each.what for each in told.troubles] == [
        "7 nodes have no JSON object for a body, or one too long",
        "3 nodes have no id",
        "4 edges have no texts for their ends",
        "1 edges begin at ids that are no nodes",
    ]


def test_views_virtual_tables_and_triggers_of_a_stranger_are_not_run(place):
    with closing(sqlite3.connect(place)) as con, con:
        con.execute("CREATE TABLE hidden (body)")
        con.execute("CREATE VIEW nodes AS SELECT body FROM hidden")
    with pytest.raises(Unreadable, match="no table of nodes"):
        read(place)
    place.unlink()
    make(place, (
        "CREATE TABLE nodes (body TEXT, id TEXT GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL)",
        "CREATE TABLE edges (source TEXT, target TEXT GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL)",
    ), [body("a")], [])  # fmt: skip
    told = read(place)
    assert list(told.files) == ["a"]
    assert [each.what for each in told.troubles] == ["has no table of edges that is known"]


def test_sql_in_ids_is_text(place):
    evil = "x'); DROP TABLE nodes; --"
    make(place, V1, [body(evil, f"src/{evil}.ts")], [(evil, '" OR 1=1')])
    before = place.read_bytes()
    (node,) = read(place).files.values()
    assert (node.id, node.targets) == (evil.lower(), ('" OR 1=1',))
    assert place.read_bytes() == before


def test_nothing_is_made_beside_the_database(place):
    make(place, V1, [body("a", "src/a.ts")])
    for mode in ("delete", "wal"):
        with closing(sqlite3.connect(place)) as con:
            con.execute(f"PRAGMA journal_mode = {mode}")
        before = names(place)
        assert list(read(place).files) == ["a"]
        assert names(place) == before


def test_what_stands_in_the_log_alone_is_read_and_the_log_left_as_it_is(place):
    make(place, V1, [body("a", "src/a.ts")])
    with closing(sqlite3.connect(place)) as con:
        con.execute("PRAGMA journal_mode = wal")
        con.execute("PRAGMA wal_autocheckpoint = 0")
        con.execute("INSERT INTO nodes (body) VALUES (?)", body("b", "src/b.ts"))
        con.commit()
        before = {name: (place.parent / name).read_bytes() for name in names(place) if "shm" not in name}
        assert len(before) == 2
        assert sorted(read(place).files) == ["a", "b"]
        after = {name: (place.parent / name).read_bytes() for name in names(place) if "shm" not in name}
        assert after == before


def test_a_locked_database_is_waited_for_so_long(place):
    make(place, V1, [body("a", "src/a.ts")])
    with closing(sqlite3.connect(place, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")
        with pytest.raises(graph_db.Locked):
            read(place, wait_s=0)
        con.execute("ROLLBACK")
    assert list(read(place, wait_s=0).files) == ["a"]


def test_links_out_directories_and_pipes_are_told(place, tmp_path):
    elsewhere = make(tmp_path / "elsewhere.db", V1, [body("a")])
    place.symlink_to(elsewhere)
    with pytest.raises(Unreadable, match="leads out"):
        read(place)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(Unreadable, match="regular"):
        read(place)
    place.unlink()
    place.mkdir()
    with pytest.raises(Unreadable):
        read(place)


def test_too_many_nodes_and_edges_are_cut(place, monkeypatch):
    monkeypatch.setattr(graph_db, "MAX_NODES", 10)
    monkeypatch.setattr(graph_db, "MAX_EDGES", 10)
    make(place, V1, [body(f"n{number}") for number in range(12)], [("n1", f"n{number}") for number in range(12)])
    told = read(place)
    assert len(told.files) == 10
    assert [each.what for each in told.troubles] == [
        "has more than 10 nodes; the rest was left out",
        "has more than 10 edges; the rest was left out",
    ]


def test_threads_may_read_at_once(place):
    make(place, V1, [body(f"n{number}") for number in range(50)])
    found = []
    threads = [threading.Thread(target=lambda: found.append(len(read(place).files))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT json_extract('{}', '$')",
        "SELECT load_extension('x')",
        "SELECT secret FROM others",
        "INSERT INTO nodes (body) VALUES ('x')",
        "DELETE FROM edges",
        "DROP TABLE nodes",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode = wal",
        "PRAGMA writable_schema = ON",
        "SELECT body FROM seen",
    ],
)
def test_the_connection_can_do_nothing_but_read_what_is_stored(place, sql):
    make(place, (*V1, "CREATE TABLE others (secret)", "CREATE VIEW seen AS SELECT body FROM nodes"), [body("a")])
    before = place.read_bytes()
    with graph_db._opened(place.parent, place, 0) as con:
        graph_db._trust(con)
        assert con.execute("SELECT length(body) FROM nodes").fetchall()
        with pytest.raises(sqlite3.DatabaseError):
            con.execute(sql).fetchall()
    assert place.read_bytes() == before
    assert names(place) == ["graph.db"]
