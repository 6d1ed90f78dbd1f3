"""Intel stores that nobody's hook would write: each costs what could not be read, and an answer still stands."""

import os
import sqlite3
from contextlib import closing

import pytest

from orchestrator.gsd import pages
from orchestrator.gsd.graph import code_answers
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.intel import entity_files, graph_db
from orchestrator.gsd.intel.entity_files import EntityFiles
from orchestrator.gsd.intel.files import Unreadable
from orchestrator.gsd.intel.reading import IntelStore
from tests.support.gsd_trees import write

INTEL = ".planning/intel"


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        ('{"naming": ' + "[" * 250 + "]" * 250 + "}", None),
        ('{"naming": {"a": ' + "[" * 900 + "]" * 900 + "}}", None),
        ('{"naming": {"a": "x\\ud800"}}', {"a": "x?"}),
        ('{"naming": {"a": "x\\ud800", "b": NaN}}', None),
    ],
)
def test_conventions_that_no_answer_could_carry_are_told(tmp_path, text, naming):
    write(tmp_path, {f"{INTEL}/conventions.json": text})
    graph, told = IntelStore(tmp_path).read()
    assert told.conventions.get("naming") == naming
    assert len(told.troubles) == (naming is None)
    snapshot = Snapshot(tmp_path, None, graph, told, lambda _: None, lambda _: [])
    assert pages.page(snapshot, uri="gsd://intel/conventions")["mime"] == "application/json"
    notes = code_answers.get_conventions(snapshot).get("notes", [])
    assert [note.split(":")[0] for note in notes] == [f"{INTEL}/conventions.json could not be read"] * (
        naming is None
    )


@pytest.mark.parametrize("many", [False, True])
def test_of_two_entities_that_differ_by_case_one_is_left_when_the_other_goes(tmp_path, many, monkeypatch):
    monkeypatch.setattr(entity_files, "STAT_ALL", 1 if many else 3_000)
    entities = write(tmp_path, {f"{INTEL}/entities/{name}.md": "# x" for name in ("Src-A", "src-a", "b")}) / INTEL
    files = EntityFiles(tmp_path, entities / "entities")
    assert len(files.changes()) == 3
    for gone in ("Src-A", "src-a"):
        (entities / f"entities/{gone}.md").unlink()
        assert files.changes() == {f"{gone}.md": None}
        assert files.file("src-a") == ("src-a.md" if gone == "Src-A" else None)
    assert list(files.ids()) == ["b"]


def test_entities_that_could_not_be_listed_are_looked_for_again(tmp_path, monkeypatch):
    monkeypatch.setattr(entity_files, "STAT_ALL", 1)
    at = write(tmp_path, {f"{INTEL}/entities/{name}.md": "# x" for name in "abc"}) / INTEL / "entities"
    files = EntityFiles(tmp_path, at)
    assert len(files.changes()) == 3
    (at / "d.md").write_text("# x")

    def failing(_path):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(entity_files.os, "scandir", failing)
        assert files.changes() == {}
        assert [each.what for each in files.troubles] == ["cannot be listed: Too many open files"]
    assert list(files.changes()) == ["d.md"]
    assert files.troubles == []


def test_a_log_beside_the_database_is_one_of_this_project(tmp_path):
    root, out = write(tmp_path / "p", {f"{INTEL}/summary.md": ""}), tmp_path / "out"
    path = root / INTEL / "graph.db"
    with closing(sqlite3.connect(path)) as con:
        con.executescript("PRAGMA journal_mode=WAL; CREATE TABLE nodes(id, path); CREATE TABLE edges(source, target)")
    with out.open("wb") as file:
        os.truncate(file.fileno(), graph_db.MAX_BYTES + 1)
    log = path.with_name("graph.db-wal")
    log.symlink_to(out)
    with pytest.raises(Unreadable, match="leads out of the project"):
        graph_db.read(root, path)
    log.unlink()
    out.rename(log)
    with pytest.raises(Unreadable, match="more than the"):
        graph_db.read(root, path)


def test_a_store_that_nobody_may_look_into_is_told(tmp_path, monkeypatch):
    files = {
        f"{INTEL}/index.json": '{"files": {"a.ts": {}, "b.ts": {"imports": ["./a"]}}}',
        f"{INTEL}/entities/a.md": "# x",
    }
    root = write(tmp_path, files)
    store = IntelStore(root)
    looked = os.stat

    def denied(path, *args, **more):
        if (
            isinstance(path, str | os.PathLike)
            and f"{os.fspath(path)}/".startswith(f"{root / INTEL}/")
            and (os.fspath(path) != str(root / INTEL))
        ):
            raise PermissionError(13, "Permission denied")
        return looked(path, *args, **more)

    with monkeypatch.context() as patch:  # root may look everywhere
        patch.setattr(os, "stat", denied)
        graph, told = store.read()
        assert (len(graph.nodes), [(one.file, one.what) for one in told.troubles]) == (
            0, [(INTEL, "cannot be opened: Permission denied")],
        )  # fmt: skip
        snapshot = Snapshot(root, None, graph, told, lambda _: None, lambda _: [])
        (note,) = code_answers.blast_radius(snapshot, file="a.ts")["notes"]
        assert note == f"{INTEL} could not be read: cannot be opened: Permission denied"
    graph, told = store.read()
    assert (len(graph.nodes), told.troubles) == (2, ())


def test_a_database_that_goes_while_it_is_looked_at_is_a_trouble(tmp_path, monkeypatch):
    root = write(tmp_path, {f"{INTEL}/graph.db": "x"})
    monkeypatch.setattr(graph_db, "inside", lambda *_: (root / INTEL / "graph.db").unlink() or True)
    monkeypatch.setattr(graph_db.Path, "is_file", lambda _: True)
    with pytest.raises(Unreadable, match="No such file"):
        graph_db.read(root, root / INTEL / "graph.db")
