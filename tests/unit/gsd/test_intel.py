"""The intel store of real trees and made-up ones: what is read, when it is read again, and what is told of the rest."""

import json
import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from benchmarks import gsd
from orchestrator.base.errors import Corrupt
from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.intel import entity_files, graph_db
from orchestrator.gsd.intel import files as intel_source
from orchestrator.gsd.intel import reading as intel
from orchestrator.gsd.intel.reading import IntelStore
from orchestrator.gsd.intelligence import Intelligence
from orchestrator.gsd.model import FileFacts, Trouble
from orchestrator.gsd.place import Asking
from tests.support.gsd_trees import unpack, write

AT = datetime(2026, 1, 1, tzinfo=UTC)
INTEL = ".planning/intel"


def entity(path, *links, purpose="P", type_="module"):
    lines = "\n".join(f"- [[{link}]]" for link in links)
    return f"---\npath: {path}\ntype: {type_}\n---\n# x\n\n## Purpose\n\n{purpose}\n\n## Dependencies\n\n{lines}\n"


def made_db(root, *ids):
    path = root / INTEL / "graph.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE nodes (body TEXT)")
        con.execute("CREATE TABLE edges (source TEXT, target TEXT)")
        con.executemany(
            "INSERT INTO nodes VALUES (?)", [(json.dumps({"id": each, "path": f"{each}.ts"}),) for each in ids]
        )
    return path


def paths(store):
    return sorted(node.path for node in store.read()[0].nodes.values())


class Index:
    """Our own index as `index_store` answers for it, kept in memory; its file is only there to change."""

    def __init__(self, monkeypatch, root):
        self.root, self.generation, self.files, self.fail, self.asked = root, 0, {}, None, []
        monkeypatch.setattr(index_store, "read", self.read)

    def write(self, *facts, removed=()):
        self.generation += 1
        for each in facts:
            self.files[each.path] = (self.generation, each)
        for path in removed:
            self.files[path] = (self.generation, None)
        write(self.root, {index_store.STORE: f"generation {self.generation:09}"})

    def read(self, root, since=0):
        self.asked.append(since)
        if self.fail:
            raise self.fail
        new = {path: facts for path, (generation, facts) in self.files.items() if generation > since}
        complete = not since or not self.generation
        return index_store.IndexRead(
            self.generation, "2026-01-01T00:00:00.000Z" if self.generation else "",
            [facts for facts in new.values() if facts], [] if complete else [path for path in new if not new[path]],
            complete=complete, troubles=[Trouble("bad.py", 3, "is no Python", "unreadable")],
            conventions='{"naming": {"exports": "camelCase"}}', summary="# Ours\n",
        )  # fmt: skip


@pytest.fixture
def index(monkeypatch, tmp_path):
    return Index(monkeypatch, tmp_path)


def test_pike_lsp(tmp_path):
    graph, told = IntelStore(unpack("pike-lsp", tmp_path)).read()
    # 36 nodes, 36 entities and 40 indexed files stand for 40 files: the second ids of one file are no files.
    assert (len(graph.nodes), graph.edges) == (40, 69)
    assert told.troubles == ()
    assert [(node.path, count) for node, count in graph.hotspots(3)] == [
        ("packages/pike-lsp-server/src/core/logging.ts", 10),
        ("packages/pike-bridge/src/types.ts", 7),
        ("packages/pike-lsp-server/src/constants/index.ts", 6),
    ]
    bridge = graph.locate("home-smuks-opencode-pike-lsp-packages-pike-bridge-src-bridge").node
    assert bridge.id == "packages-pike-bridge-src-bridge"
    assert (bridge.type, bridge.sources) == ("service", ("graph.db", "entity", "index.json"))
    assert {node.path: via for node, via in graph.dependencies(bridge.id)} == {
        "packages/pike-bridge/src/constants.ts": "graph.db, entity, index.json",
        "packages/pike-bridge/src/process.ts": "graph.db+suffix, entity+suffix, index.json",
        "packages/pike-bridge/src/types.ts": "graph.db, entity",
    }
    # It imports ./logging.js and ./errors.js, which nobody indexed: those of another package are not meant.
    assert graph.locate("/home/smuks/OpenCode/pike-lsp/packages/pike-bridge/src/bridge.ts").node == bridge
    assert told.sources["graph.db"]["edges"] == 76
    assert told.conventions["directories"]["services"]["files"] == 3
    assert told.summary.startswith("# Codebase Intelligence Summary")


def test_to_tui(tmp_path):
    graph, told = IntelStore(unpack("to-tui", tmp_path)).read()
    assert len(graph.nodes) == 49  # 45 files and four directories that entities speak of
    assert graph.locate("todo-item").node.path == "src/todo/item.rs"
    assert graph.locate("todo-item").node.sources == ("graph.db", "entity", "index.json")
    assert graph.locate("storage").node.path == "src/storage"
    assert graph.types == {"binary": 2, "library": 1, "module": 42, "unknown": 4}
    assert told.conventions_from == f"{INTEL}/conventions.json"


def test_mlx_manager(tmp_path):
    graph, told = IntelStore(unpack("mlx-manager", tmp_path)).read()
    assert (len(graph.nodes), graph.edges, told.troubles) == (138, 220, ())
    models = graph.locate("backend/mlx_manager/models.py").node
    assert graph.dependents_count(models.id) == 19
    assert graph.locate("backend-mlx_manager-models").node == models
    assert "graph.db" not in told.sources


def test_a_project_without_intel_has_an_empty_graph(tmp_path):
    root = unpack("gsd-v1.9.1", tmp_path)
    before = sorted(root.rglob("*"))
    graph, told = IntelStore(root).read()
    assert (len(graph.nodes), told.troubles, told.sources) == (0, (), {})
    assert sorted(root.rglob("*")) == before


def test_reading_leaves_every_real_tree_as_it_was(tmp_path):
    root = unpack("pike-lsp", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    store = IntelStore(root)
    store.read()
    store.entity("test-e2e-server")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_what_has_not_changed_is_not_read_again(tmp_path, monkeypatch):
    root = unpack("pike-lsp", tmp_path)
    store = IntelStore(root)
    first = store.read()
    opened = []
    monkeypatch.setattr(intel_source.os, "open", lambda *args: opened.append(args))
    monkeypatch.setattr(graph_db, "read", lambda *args, **more: opened.append(args))
    again = store.read()
    assert (again[0] is first[0], again[1] is first[1], opened) == (True, True, [])


def test_entities_that_come_change_and_go(tmp_path):
    write(tmp_path, {f"{INTEL}/entities/{name}.md": entity(f"src/{name}.ts") for name in "abcdefgh"})
    store = IntelStore(tmp_path)
    graph = store.read()[0]
    base = graph.base
    write(tmp_path, {f"{INTEL}/entities/a.md": entity("src/a.ts", "src-b", purpose="New")})
    changed = store.read()[0]
    assert [node.path for node, _ in changed.dependents("src-b")] == ["src/a.ts"]
    assert (changed.nodes["src-a"].purpose, graph.nodes["src-a"].purpose) == ("New", "P")
    (tmp_path / INTEL / "entities/b.md").unlink()
    write(tmp_path, {f"{INTEL}/entities/n.md": entity("src/n.ts", "src-a")})
    after = store.read()[0]
    assert "src/b.ts" not in paths(store)
    assert (after.edges, after.dangling) == (1, 1)
    assert list(changed.dependents("src-b"))  # a reader that holds it still sees it so
    assert after.base is base


def test_many_entities_are_not_looked_at_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(entity_files, "STAT_ALL", 5)
    write(tmp_path, {f"{INTEL}/entities/{name}.md": entity(f"src/{name}.ts") for name in "abcdefgh"})
    store = IntelStore(tmp_path)
    store.read()
    place = tmp_path / INTEL / "entities"
    mark = place.stat()
    (place / "a.md").write_text(entity("src/a.ts", purpose="In place"))
    os.utime(place, ns=(mark.st_atime_ns, mark.st_mtime_ns))
    store.read()  # the directory has another ctime: the listing is looked at, in which nothing is new
    assert store.read()[0].nodes["src-a"].purpose == "P"
    store.touched([place / "a.md", f"{INTEL}/entities/none.md", "src/a.ts"])
    assert store.read()[0].nodes["src-a"].purpose == "In place"
    (place / "new").write_text(entity("src/b.ts", purpose="Replaced"))
    (place / "new").rename(place / "b.md")
    (place / "c.md").unlink()
    graph = store.read()[0]
    assert graph.nodes["src-b"].purpose == "Replaced"
    assert "src-c" not in graph.nodes
    store.touched([f"{INTEL}/entities/d.md"])
    (place / "d.md").unlink()
    assert "src-d" not in store.read()[0].nodes


def test_stores_written_whole_are_read_anew_and_kept_while_they_cannot_be_read(tmp_path):
    path = made_db(tmp_path, "a", "b")
    store = IntelStore(tmp_path)
    assert paths(store) == ["a.ts", "b.ts"]
    made_db(tmp_path, "a", "c")
    assert paths(store) == ["a.ts", "c.ts"]
    path.write_bytes(b"SQLite format 3\0 torn")
    graph, told = store.read()
    assert len(graph.nodes) == 2
    (trouble,) = told.troubles
    assert (trouble.file, trouble.kind) == (f"{INTEL}/graph.db", "unreadable")
    assert "what it said before is used" in trouble.what
    made_db(tmp_path, "d")
    assert (paths(store), store.read()[1].troubles) == (["d.ts"], ())
    path.unlink()
    assert paths(store) == []


def test_a_locked_database_keeps_what_it_said_and_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(intel, "LOCKED_S", 0)
    path = made_db(tmp_path, "a")
    write(tmp_path, {f"{INTEL}/entities/e.md": entity("src/e.ts")})
    store = IntelStore(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("BEGIN EXCLUSIVE")
        assert paths(store) == ["src/e.ts"]
        (trouble,) = store.read()[1].troubles
        assert trouble.what == "is locked by whoever writes it"
        con.execute("ROLLBACK")
        assert paths(store) == ["a.ts", "src/e.ts"]
        assert store.read()[1].troubles == ()
        con.execute('INSERT INTO nodes VALUES (\'{"id": "b"}\')')
        con.execute("BEGIN EXCLUSIVE")
        assert paths(store) == ["a.ts", "src/e.ts"]
        assert "what it said before is used" in store.read()[1].troubles[0].what
        con.execute("ROLLBACK")
    assert paths(store) == ["a.ts", "b", "src/e.ts"]


def test_json_stores_in_the_middle_of_being_written_keep_what_they_said(tmp_path):
    write(tmp_path, {f"{INTEL}/index.json": json.dumps({"files": {"src/a.ts": {}}})})
    store = IntelStore(tmp_path)
    assert paths(store) == ["src/a.ts"]
    write(tmp_path, {f"{INTEL}/index.json": '{"files": {"src/'})
    assert paths(store) == ["src/a.ts"]
    (trouble,) = store.read()[1].troubles
    assert trouble.what.startswith("is not JSON")
    assert trouble.what.endswith("what it said before is used")
    write(tmp_path, {f"{INTEL}/index.json": json.dumps({"files": {}})})
    assert paths(store) == []


def test_v3_and_what_lies_beside(tmp_path):
    write(tmp_path, {
        f"{INTEL}/file-roles.json": json.dumps({"entries": {"src/a.ts": {"imports": ["./b"]}, "src/b.ts": {}}}),
        f"{INTEL}/api-map.json": json.dumps({"_meta": {}, "entries": {"GET /x": {"file": "src/a.ts"}}}),
        f"{INTEL}/stack.json": "[]", f"{INTEL}/arch.md": "# Arch", f"{INTEL}/conventions.json": "7",
    })  # fmt: skip
    graph, told = IntelStore(tmp_path).read()
    assert [(node.path, via) for node, via in graph.dependents("src-b")] == [("src/a.ts", "files.json")]
    assert (dict(told.apis), told.summary, told.summary_from) == (
        {"GET /x": {"file": "src/a.ts"}}, "# Arch", f"{INTEL}/arch.md",
    )  # fmt: skip
    assert {each.file for each in told.troubles} == {f"{INTEL}/stack.json", f"{INTEL}/conventions.json"}
    assert told.sources["files.json"]["from"] == f"{INTEL}/file-roles.json"


def test_our_own_index_is_merged_lowest_and_changed_by_generation(tmp_path, index):
    write(tmp_path, {f"{INTEL}/entities/a.md": entity("src/a.ts", purpose="Theirs")})
    index.write(
        FileFacts("src/a.ts", "service", "Ours", ("a",), ("src/b.ts",)),
        *[FileFacts(f"src/{name}.ts", "util", "Ours") for name in "bcdefghij"],
    )
    store = IntelStore(tmp_path)
    graph, told = store.read()
    assert (graph.nodes["src-a"].purpose, graph.nodes["src-a"].type, graph.nodes["src-a"].exports) == (
        "Theirs", "module", ("a",),
    )  # fmt: skip
    assert (told.sources["index"]["files"], told.sources["index"]["updated"]) == (10, "2026-01-01T00:00:00.000Z")
    assert (told.summary, told.summary_from, told.conventions_from) == (
        "# Ours\n", ".agents/gsd/summary.md", ".agents/gsd/conventions.json",
    )  # fmt: skip
    assert told.troubles == (Trouble("bad.py", 3, "is no Python", "unreadable"),)
    index.write(FileFacts("src/k.ts", imports=("src/b.ts",)), removed=["src/c.ts"])
    changed = store.read()[0]
    assert index.asked == [0, 1]
    assert (changed.dependents_count("src-b"), "src-c" in changed.nodes) == (2, False)
    assert changed.base is graph.base
    index.fail = Corrupt("corrupt_index", "index.db: broken")
    index.write(FileFacts("src/l.ts"))
    broken, told = store.read()
    assert "src-l" not in broken.nodes
    assert "src-k" in broken.nodes
    assert [each.what for each in told.troubles] == ["index.db: broken; run: orchestrator gsd index --rebuild"]
    (tmp_path / index_store.STORE).unlink()
    index.fail, index.files, index.generation = None, {}, 0
    assert paths(store) == ["src/a.ts"]


def test_an_index_that_appears_later_is_read(tmp_path, index):
    store = IntelStore(tmp_path)
    assert paths(store) == []
    index.write(FileFacts("src/a.py"))
    assert paths(store) == ["src/a.py"]


def test_entity_texts_by_any_of_a_files_ids(tmp_path):
    store = IntelStore(unpack("pike-lsp", tmp_path))
    hooked = "home-smuks-opencode-pike-lsp-packages-pike-bridge-src-process"
    text = store.entity(hooked)
    assert text is not None and "Low-level subprocess IPC wrapper" in text
    assert store.entity(hooked.upper()) == store.entity(f"{hooked}.md") == text
    assert store.entity("packages-pike-bridge-src-process") == text


@pytest.mark.parametrize(
    "entity_id",
    [
        "",
        "..",
        "../conventions",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "a\0",
        "x" * 300,
        "secret",
        "pipe",
        "gone",
        "big",
        "a\nb",
        ".",
    ],
)
def test_entity_ids_are_confined(tmp_path, entity_id):
    outside = write(tmp_path / "outside", {"secret.md": "secret"})
    root = write(tmp_path / "p", {f"{INTEL}/conventions.md": "no", f"{INTEL}/entities/big.md": "x" * (300 << 10)})
    (root / INTEL / "entities/secret.md").symlink_to(outside / "secret.md")
    (root / INTEL / "entities/gone.md").symlink_to(outside / "nothing.md")
    os.mkfifo(root / INTEL / "entities/pipe.md")
    assert IntelStore(root).entity(entity_id) is None


def test_entities_that_are_no_files_are_told(tmp_path):
    outside = write(tmp_path / "outside", {"secret.md": entity("src/secret.ts")})
    root = write(
        tmp_path / "p", {f"{INTEL}/entities/a.md": entity("src/a.ts"), f"{INTEL}/entities/big.md": "x" * (300 << 10)}
    )
    place = root / INTEL / "entities"
    (place / "secret.md").symlink_to(outside / "secret.md")
    (place / "dir.md").mkdir()
    os.mkfifo(place / "pipe.md")
    (place / os.fsdecode(b"bad\xff.md")).write_text(entity("src/bad.ts"))
    store = IntelStore(root)
    assert paths(store) == ["src/a.ts"]
    found = {each.file.rpartition("/")[2]: each.what for each in store.read()[1].troubles}
    assert sorted(found) == ["bad\ufffd.md", "big.md", "dir.md", "pipe.md", "secret.md"]
    assert "leads out" in found["secret.md"]


@pytest.mark.parametrize(("levels", "known"), [(90, True), (120, False), (900, False)])
def test_conventions_that_no_answer_could_carry_are_told_and_the_rest_is_answered(tmp_path, levels, known):
    write(
        tmp_path,
        {".planning/intel/conventions.json": f'{{"naming": {{}}, "x": {"[" * levels}{"]" * levels}}}'},
    )
    intelligence = Intelligence()
    found = intelligence.snapshot(tmp_path).intel
    assert (bool(found.conventions), bool(found.troubles)) == (known, not known)
    asking = Asking(str(tmp_path))
    text = intelligence.answer("page", asking, {"uri": "gsd://intel/conventions"})["text"]
    assert isinstance(json.loads(text), dict)
    intelligence.close()


def test_a_store_that_is_a_link_out_of_the_project_is_not_read(tmp_path):
    outside = write(tmp_path / "outside", {
        "entities/a.md": entity("src/a.ts"), "index.json": json.dumps({"files": {"src/b.ts": {}}}), "summary.md": "secret",
    })  # fmt: skip
    root = tmp_path / "p"
    (root / ".planning").mkdir(parents=True)
    (root / INTEL).symlink_to(outside)
    graph, told = IntelStore(root).read()
    assert (len(graph.nodes), told.summary) == (0, "")
    assert {each.kind for each in told.troubles} == {"unreadable"}


def test_readers_see_one_state_while_it_changes(tmp_path, index):
    """Each generation moves every edge from one hub to the other: no reader may see some here and some there."""
    files = [f"src/f{number}.ts" for number in range(30)]
    hubs = ["src/one.ts", "src/two.ts"]
    index.write(*[FileFacts(hub) for hub in hubs], *[FileFacts(path, imports=(hubs[0],)) for path in files],
                *[FileFacts(f"src/rest{number}.ts") for number in range(400)])  # fmt: skip
    store = IntelStore(tmp_path)
    base = store.read()[0].base
    stop = threading.Event()
    seen, wrong = set(), []

    def reader():
        while not stop.is_set():
            graph = store.read()[0]
            counts = tuple(graph.affected(f"src-{hub}", 3, 5).direct for hub in ("one", "two"))
            seen.add(counts)
            if sum(counts) != len(files) or graph.edges != len(files):
                wrong.append(counts)

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        index.write(*[FileFacts(path, imports=(hubs[turn % 2],)) for path in files])
        store.read()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert seen <= {(30, 0), (0, 30)}
    assert store.read()[0].base is base


def test_the_benchmark_works_on_a_tiny_project(tmp_path):
    gsd.write_stores(tmp_path, list(gsd.files(60, 300)))
    got = gsd.ask(tmp_path, 0)
    assert got["nodes"] == 60
    assert 150 < got["edges"] <= 300
    assert SimpleNamespace(**got).query_p95 > 0
