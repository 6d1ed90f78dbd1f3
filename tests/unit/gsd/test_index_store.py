"""The index on disk: differences since a generation, tombstones, what is broken, newer, or somebody else's."""

import os
import sqlite3
import stat
from datetime import UTC, datetime

import pytest

from orchestrator.base.errors import BadRequest, Corrupt, Environment, NotReady
from orchestrator.gsd.index import store
from orchestrator.gsd.index import writing as index_writing
from orchestrator.gsd.index.writing import writing as writing_of
from orchestrator.gsd.model import FileFacts, Trouble

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def row(path, *, purpose="", imports=(), trouble="", mtime_ns=1, raw=("./x",)):
    facts = FileFacts(
        path, "service", purpose, ("run", "Lauf"), imports, ("react",), "typescript", 12, mtime_ns=mtime_ns, size=2
    )
    told = Trouble(path, 7, trouble, "unreadable") if trouble else None
    return store.Row(facts, b"0123456789abcdef", raw, "ff", told)


def save(root, *rows, removed=(), touched=None, rebuild=False, at=AT, conventions="{}", settings="", summary=""):
    with writing_of(root, rebuild=rebuild) as writing:
        return writing.save(
            changed=rows, touched=touched or {}, removed=removed, at=at, settings=settings, conventions=conventions,
            summary=summary,
        )  # fmt: skip


def paths(read):
    return sorted(facts.path for facts in read.files)


def test_without_an_index_there_is_no_generation_and_nothing_is_made(tmp_path):
    assert store.generation(tmp_path) is None
    read = store.read(tmp_path)
    assert (read.generation, read.files, read.complete) == (0, [], True)
    assert store.stamps(tmp_path, ["a.py"]) == {}
    assert list(tmp_path.iterdir()) == []


def test_what_was_saved_is_read_again(tmp_path):
    one = row("src/ä b.ts", purpose="Does – it.", imports=("src/b.ts",))
    two = row("src/b.ts", trouble="not UTF-8", raw=())
    meta = save(tmp_path, one, two, conventions='{"version":1}', summary="# S")
    read = store.read(tmp_path)
    assert sorted(read.files, key=lambda f: f.path) == sorted([one.facts, two.facts], key=lambda f: f.path)
    assert read.complete and read.generation == meta.generation == store.generation(tmp_path)
    assert read.built_at == "2026-01-02T03:04:05.000Z"
    assert read.troubles == [Trouble("src/b.ts", 7, "not UTF-8", "unreadable")]
    assert (read.conventions, read.summary) == ('{"version":1}', "# S")
    with writing_of(tmp_path) as writing:
        assert writing.rows() == {"src/ä b.ts": one, "src/b.ts": two}
        assert writing.totals() == ({"typescript": 2}, 1, read.troubles)
        assert writing.stamps()["src/b.ts"] == store.Stamp(1, 2, b"0123456789abcdef")
    assert store.stamps(tmp_path, ["src/b.ts", "none", "\udcff"]) == {"src/b.ts": store.Stamp(1, 2, two.digest)}


def test_a_reader_is_told_what_changed_since_it_read(tmp_path):
    first = save(tmp_path, row("a.py"), row("b.py"), row("c.py")).generation
    second = save(tmp_path, row("b.py", purpose="New."), removed=["a.py"]).generation
    third = save(tmp_path, row("d.py")).generation
    assert third == second + 1 == first + 2
    read = store.read(tmp_path, first)
    assert (read.complete, paths(read), read.removed) == (False, ["b.py", "d.py"], ["a.py"])
    read = store.read(tmp_path, second)
    assert (read.complete, paths(read), read.removed) == (False, ["d.py"], [])
    read = store.read(tmp_path, third)
    assert (read.complete, paths(read), read.removed) == (False, [], [])


def test_a_file_that_came_back_is_no_longer_removed(tmp_path):
    first = save(tmp_path, row("a.py"), row("b.py")).generation
    save(tmp_path, removed=["a.py"])
    save(tmp_path, row("a.py", purpose="Back."))
    read = store.read(tmp_path, first)
    assert (paths(read), read.removed) == (["a.py"], [])


def test_a_new_time_of_the_same_content_is_no_new_generation(tmp_path):
    first = save(tmp_path, row("a.py")).generation
    assert save(tmp_path, touched={"a.py": (77, 2)}).generation == first
    assert store.stamps(tmp_path, ["a.py"])["a.py"].mtime_ns == 77


def test_new_conventions_alone_are_a_new_generation(tmp_path):
    first = save(tmp_path, row("a.py")).generation
    assert save(tmp_path, conventions='{"version":1}').generation == first + 1


def test_a_generation_of_another_life_of_the_index_is_answered_with_everything(tmp_path):
    old = save(tmp_path, row("a.py"), row("b.py")).generation
    new = save(tmp_path, row("b.py"), rebuild=True, at=datetime(2026, 1, 2, 3, 5, tzinfo=UTC)).generation
    assert new > old
    for since in (0, old, new + 5):
        read = store.read(tmp_path, since)
        assert (read.complete, paths(read), read.removed) == (True, ["b.py"], [])


def test_forgotten_tombstones_are_answered_with_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(index_writing, "TOMBSTONES", 2)
    first = save(tmp_path, *(row(f"{n}.py") for n in range(5))).generation
    second = save(tmp_path, removed=["0.py", "1.py"]).generation
    read = store.read(tmp_path, first)
    assert (read.complete, read.removed) == (False, ["0.py", "1.py"])
    save(tmp_path, removed=["2.py"])
    read = store.read(tmp_path, first)
    assert (read.complete, paths(read), read.removed) == (True, ["3.py", "4.py"], [])
    read = store.read(tmp_path, second)
    assert (read.complete, read.removed) == (False, ["2.py"])


def test_a_reader_keeps_the_index_it_began_with(tmp_path):
    save(tmp_path, row("a.py"))
    with store._opened(tmp_path) as con:
        assert con.execute("SELECT count(*) FROM files").fetchone() == (1,)
        save(tmp_path, row("b.py"))
        assert con.execute("SELECT count(*) FROM files").fetchone() == (1,)
    assert paths(store.read(tmp_path)) == ["a.py", "b.py"]


def test_a_journal_that_somebody_laid_beside_it_is_not_rolled_back(tmp_path):
    save(tmp_path, *(row(f"{n}.py") for n in range(500)))
    path, copy = tmp_path / store.STORE, tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    con = sqlite3.connect(copy)
    con.executescript("PRAGMA cache_size = 1; BEGIN; UPDATE files SET purpose = path || path || path;")
    path.with_name("index.db-journal").write_bytes((tmp_path / "copy.db-journal").read_bytes())
    con.close()
    assert len(store.read(tmp_path).files) == 500
    assert path.with_name("index.db-journal").exists()


def test_one_writer_at_a_time_and_readers_do_not_mind(tmp_path):
    save(tmp_path, row("a.py"))
    with writing_of(tmp_path):
        with pytest.raises(NotReady) as caught, writing_of(tmp_path):
            pass
        assert caught.value.code == "index_busy"
        assert paths(store.read(tmp_path)) == ["a.py"]
    save(tmp_path, row("b.py"))


def test_the_directory_gets_the_generated_gitignore_and_nothing_else(tmp_path):
    save(tmp_path, row("a.py"))
    assert sorted(p.name for p in (tmp_path / ".agents").iterdir()) == [".gitignore", "gsd"]
    assert "\n*\n" in (tmp_path / ".agents/.gitignore").read_text()
    assert stat.S_IMODE((tmp_path / ".agents").stat().st_mode) == 0o755 & ~_umask()
    assert sorted(p.name for p in (tmp_path / ".agents/gsd").iterdir()) == ["index.db", "lock"]


def test_a_directory_of_others_is_not_hidden_from_git_but_the_index_is(tmp_path):
    (tmp_path / ".agents/skills").mkdir(parents=True)
    with writing_of(tmp_path):
        pass
    assert sorted(p.name for p in (tmp_path / ".agents").iterdir()) == ["gsd", "skills"]
    assert (tmp_path / ".agents/gsd/.gitignore").read_text() == "*\n"


def test_a_users_gitignore_is_left_alone(tmp_path):
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents/.gitignore").write_text("mine\n")
    save(tmp_path, row("a.py"))
    assert (tmp_path / ".agents/.gitignore").read_text() == "mine\n"


def _umask():
    old = os.umask(0o22)
    os.umask(old)
    return old


def test_what_a_killed_writer_left_is_cleared_away(tmp_path):
    save(tmp_path, row("a.py"))
    (tmp_path / ".agents/gsd/.index.db.4711-0.tmp").write_bytes(b"half")
    assert paths(store.read(tmp_path)) == ["a.py"]
    save(tmp_path, row("b.py"))
    assert sorted(p.name for p in (tmp_path / ".agents/gsd").iterdir()) == ["index.db", "lock"]


def broken(tmp_path, how):
    path = tmp_path / store.STORE
    if how == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "text":
        path.write_text("not a database, and long enough to be looked at " * 100)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "directory":
        path.unlink()
        path.mkdir()
    elif how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "link":
        path.rename(tmp_path.parent / "elsewhere.db")
        path.symlink_to(tmp_path.parent / "elsewhere.db")
    else:
        con = sqlite3.connect(path)
        con.executescript(how)
        con.close()


BROKEN = {
    "cut": "cut",
    "text": "text",
    "empty": "empty",
    "directory": "directory",
    "pipe": "pipe",
    "link": "link",
    "newer": "PRAGMA user_version = 2",
    "a view": "ALTER TABLE files RENAME TO f; CREATE VIEW files AS SELECT * FROM f",
    "no meta": "DELETE FROM meta",
    "odd meta": "UPDATE meta SET value = 'x' WHERE key = 'generation'",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_index_is_told_and_rebuilt(tmp_path, how):
    root = tmp_path / "p"
    root.mkdir()
    save(root, *(row(f"{n}.py") for n in range(200)))
    broken(root, BROKEN[how])
    for look in (store.generation, store.read):
        with pytest.raises(Corrupt) as caught:
            look(root)
        assert caught.value.code == "corrupt_index"
        assert "--rebuild" in caught.value.next_step
    with pytest.raises(Corrupt), writing_of(root):
        pass
    if how == "directory":
        (root / store.STORE).rmdir()
    save(root, row("a.py"), rebuild=True)
    assert paths(store.read(root)) == ["a.py"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE files SET path = '../../etc/passwd'",
        "UPDATE files SET path = '/etc/passwd'",
        "UPDATE files SET path = x'00ff'",
        "UPDATE files SET imports = '[\"../../etc/passwd\"]'",
        "UPDATE files SET exports = '[1]'",
        "UPDATE files SET exports = '{'",
        "UPDATE files SET lines = 'many'",
        "UPDATE files SET trouble = '[1]'",
        "UPDATE files SET purpose = CAST(x'ff41' AS TEXT)",
    ],
)
def test_rows_that_cannot_be_true_are_told(tmp_path, change):
    save(tmp_path, row("a.py"))
    broken(tmp_path, change)
    with pytest.raises(Corrupt):
        store.read(tmp_path)


@pytest.mark.parametrize("link", [".agents", ".agents/gsd"])
def test_nothing_is_written_through_a_link_out_of_the_project(tmp_path, link):
    root, outside = tmp_path / "p", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    with pytest.raises(BadRequest) as caught, writing_of(root):
        pass
    assert caught.value.code == "path_escape"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("linked", [False, True])
def test_nothing_is_written_below_planning(tmp_path, linked):
    (tmp_path / ".planning" / "notes").mkdir(parents=True)
    if linked:
        (tmp_path / ".agents").symlink_to(tmp_path / ".planning" / "notes")
    with pytest.raises(BadRequest) as caught, writing_of(tmp_path if linked else tmp_path / ".planning" / "notes"):
        pass
    assert caught.value.code == "path_escape"
    assert list((tmp_path / ".planning").rglob("*")) == [tmp_path / ".planning" / "notes"]


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    root, outside = tmp_path / "p", tmp_path / "outside"
    root.mkdir()
    save(root, row("a.py"))
    (root / store.LOCK).unlink()
    (root / store.LOCK).symlink_to(outside)
    with pytest.raises(Environment), writing_of(root):
        pass
    assert not outside.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where nobody may")
def test_an_index_that_may_only_be_read_is_read(tmp_path):
    save(tmp_path, row("a.py"))
    directory = tmp_path / ".agents/gsd"
    (tmp_path / store.STORE).chmod(0o444)
    directory.chmod(0o555)
    try:
        assert paths(store.read(tmp_path)) == ["a.py"]
    finally:
        directory.chmod(0o755)


def test_a_name_with_all_that_an_address_would_misread(tmp_path):
    root = tmp_path / "a b?c#d%41&e"
    root.mkdir()
    save(root, row("a.py"))
    assert paths(store.read(root)) == ["a.py"]
