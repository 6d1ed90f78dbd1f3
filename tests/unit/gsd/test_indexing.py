"""Making and renewing the index: what is read, what is left alone, what a run costs and survives."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest, Corrupt, NotReady
from orchestrator.gsd.index import indexing, parse_child, parsing, source_files
from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.index.indexing import index
from orchestrator.gsd.index.stale import stale
from orchestrator.gsd.index.writing import writing
from tests.support.gsd_trees import write

APP = {
    "pyproject.toml": "",
    "src/app/__init__.py": '"""The app."""\n',
    "src/app/db.py": '"""Talks to the database. Always."""\ndef get_user(): ...\n',
    "src/app/api.py": "from app.db import get_user\nimport requests\n",
    "web/package.json": '{"name": "web"}',
    "web/src/lib/auth.ts": "/** Who is there. */\nexport const login = () => 1\n",
    "web/src/Login.svelte": "<script>import {login} from '$lib/auth'</script>",
    "tests/test_api.py": "from app import api\n",
    "main.go": 'package main\n\nimport "fmt"\n',
    "README.md": "# App\n",
}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """No child to start: that it is one is tested for itself."""

    def parse_files(root, paths):
        for path in paths:
            yield parsing._looked(path, parse_child.look(str(root), path))

    monkeypatch.setattr(indexing, "parse_files", parse_files)
    monkeypatch.setattr(source_files, "SETTLED_NS", -(10**18))  # every time stamp tells


def files(root, since=0):
    return {facts.path: facts for facts in index_store.read(root, since).files}


def later(path, text=None):
    """Write a file, or touch it, so that its time differs."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    if text is not None:
        path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_project_is_indexed(tmp_path):
    root = write(tmp_path, APP)
    done = index(root)
    assert (done.files, done.added, done.changed, done.removed, done.edges) == (7, 7, 0, 0, 3)
    assert done.languages == {"python": 4, "go": 1, "svelte": 1, "typescript": 1}
    assert (done.unreadable, done.bytes) == ([], (root / index_store.STORE).stat().st_size)
    assert done.generation == index_store.generation(root)
    found = files(root)
    assert found["src/app/api.py"].imports == ("src/app/db.py",)
    assert found["src/app/api.py"].packages == ("requests",)
    assert found["src/app/db.py"].purpose == "Talks to the database."
    assert found["src/app/db.py"].exports == ("get_user",)
    assert found["tests/test_api.py"].imports == ("src/app/api.py",)
    assert found["web/src/Login.svelte"].imports == ("web/src/lib/auth.ts",)
    assert (found["main.go"].type, found["main.go"].lines, found["main.go"].imports) == ("module", 3, ())


def test_copies_of_conventions_and_summary_lie_beside_the_index(tmp_path):
    root = write(tmp_path, APP)
    index(root)
    read = index_store.read(root)
    assert (root / index_store.CONVENTIONS).read_text() == read.conventions + "\n"
    assert (root / index_store.SUMMARY).read_text() == read.summary
    (root / index_store.SUMMARY).write_text("mine")
    later(root / "main.go", "package main\n")
    index(root)
    assert (root / index_store.SUMMARY).read_text() == index_store.read(root).summary


def test_nothing_is_written_anywhere_else(tmp_path):
    root = write(tmp_path, APP)
    before = sorted(path for path in root.rglob("*"))
    index(root)
    made = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path not in before)
    assert made == [
        ".agents", ".agents/.gitignore", ".agents/gsd", ".agents/gsd/conventions.json", ".agents/gsd/index.db",
        ".agents/gsd/lock", ".agents/gsd/summary.md",
    ]  # fmt: skip


def test_a_run_with_nothing_new_reads_and_writes_nothing(tmp_path, monkeypatch):
    root = write(tmp_path, APP)
    first = index(root)
    monkeypatch.setattr(indexing, "parse_files", lambda root, paths: iter(paths and pytest.fail(f"parsed {paths}")))
    inode = (root / index_store.STORE).stat().st_ino
    done = index(root)
    assert (root / index_store.STORE).stat().st_ino == inode
    assert replace(done, seconds=0) == replace(first, seconds=0, added=0)


def test_a_touched_file_is_no_change(tmp_path, monkeypatch):
    root = write(tmp_path, APP)
    first = index(root)
    later(root / "src/app/db.py")
    monkeypatch.setattr(indexing, "parse_files", lambda root, paths: iter(paths and pytest.fail(f"parsed {paths}")))
    done = index(root)
    assert (done.generation, done.changed) == (first.generation, 0)
    assert files(root)["src/app/db.py"].mtime_ns == (root / "src/app/db.py").stat().st_mtime_ns


def test_one_changed_file_is_one_row_of_the_next_generation(tmp_path):
    root = write(tmp_path, APP)
    first = index(root)
    later(root / "src/app/db.py", "def other(): ...\n")
    done = index(root)
    assert (done.changed, done.added, done.removed) == (1, 0, 0)
    assert done.generation == first.generation + 1
    assert list(files(root, first.generation)) == ["src/app/db.py"]


def test_a_file_that_comes_or_goes_changes_what_others_import(tmp_path):
    root = write(tmp_path, APP)
    first = index(root)
    (root / "src/app/db.py").rename(root / "src/app/store.py")
    done = index(root)
    assert (done.changed, done.added, done.removed) == (1, 1, 1)
    assert files(root)["src/app/api.py"].imports == ("src/app/__init__.py",)
    read = index_store.read(root, first.generation)
    assert ([f.path for f in read.files], read.removed) == (["src/app/api.py", "src/app/store.py"], ["src/app/db.py"])
    (root / "src/app/store.py").rename(root / "src/app/db.py")
    index(root)
    assert files(root)["src/app/api.py"].imports == ("src/app/db.py",)


def test_changed_settings_change_what_files_import(tmp_path):
    root = write(tmp_path, {"a.ts": "import '#x/b'", "lib/b.ts": ""})
    index(root)
    assert files(root)["a.ts"].imports == ()
    write(root, {"tsconfig.json": '{"compilerOptions": {"paths": {"#x/*": ["./lib/*"]}}}'})
    assert index(root).changed == 1
    assert files(root)["a.ts"].imports == ("lib/b.ts",)


def test_files_are_read_again_when_the_rules_of_reading_have_changed(tmp_path, monkeypatch):
    root = write(tmp_path, APP)
    first = index(root)
    monkeypatch.setattr(indexing, "RULES", 999)
    monkeypatch.setattr(parse_child, "parse_python", lambda path, data: parsing.Parsed(purpose="New."))
    done = index(root)
    assert (done.changed, done.generation) == (4, first.generation + 1)


ODD = {
    "two.py": b"print 'two'\n",
    "latin.py": "x = 'gr\xfc\xdf'\n".encode("latin-1"),
    "binary.py": b"x\0y",
    "deep.py": b"x = " + b"-" * 100_000 + b"1\n",
    "large.ts": b"// " + b"x" * (1 << 20),
    "latin.ts": b"import './ok'\n// gr\xfc\xdf\n",
    "binary.go": b"\0" * 100,
    "odd.ts": b"import './ok'\nlet = = ;\n",
    "ok.ts": b"",
}


def test_what_cannot_be_read_is_a_node_and_told(tmp_path):
    root = write(tmp_path, ODD)
    (root / "away.ts").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe.py")
    done = index(root)
    assert done.files == len(ODD)
    assert {(t.file, t.kind) for t in done.unreadable} == {
        *((name, "unreadable") for name in ODD if name not in {"ok.ts", "odd.ts"}),
        ("odd.ts", "odd"),
    }
    assert {path for path, facts in files(root).items() if facts.imports} == {"odd.ts"}
    assert index_store.read(root).troubles == done.unreadable
    assert index(root).generation == done.generation


def test_a_file_that_may_not_be_read_is_told_and_is_no_change_next_time(tmp_path, monkeypatch):
    root = write(tmp_path, {"a.py": "", "b.py": ""})
    real = source_files._open

    def refuse(root, path):
        if path == "a.py":
            raise PermissionError(13, "Permission denied")
        return real(root, path)

    monkeypatch.setattr(source_files, "_open", refuse)
    done = index(root)
    assert [(t.file, t.what) for t in done.unreadable] == [("a.py", "cannot be read: Permission denied")]
    again = index(root)
    assert (again.generation, again.changed) == (done.generation, 0)


def test_a_directory_swapped_for_a_link_out_of_the_project_is_not_followed(tmp_path, monkeypatch):
    root = write(tmp_path / "p", {"d/a.py": "import one\n", "b.py": ""})
    write(tmp_path / "outside", {"a.py": "'''Secret.'''\n"})
    real = parse_child.look

    def swap(at, path):
        if path == "d/a.py":
            shutil.rmtree(root / "d")
            (root / "d").symlink_to(tmp_path / "outside")
        return real(at, path)

    monkeypatch.setattr(parse_child, "look", swap)
    assert index(root).files == 1
    assert "Secret" not in str(files(root))


def test_a_file_that_vanishes_before_it_is_read_is_not_there(tmp_path, monkeypatch):
    root = write(tmp_path, {"a.py": "import b\n", "b.py": ""})
    first = index(root)
    later(root / "b.py", "x = 1")
    real = parse_child.look
    monkeypatch.setattr(parse_child, "look", lambda at, path: (root / path).unlink() or real(at, path))
    done = index(root)
    assert (done.files, done.removed, done.changed) == (1, 1, 1)
    assert index_store.read(root, first.generation).removed == ["b.py"]
    assert files(root)["a.py"].imports == ()


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    root = write(tmp_path, {"a.py": "one = 1\n", "b.py": "one = 1\n"})
    real, reads = source_files._read, []

    def read(fd, limit):
        data = real(fd, limit)
        reads.append(data)
        if data.startswith(b"one = 1\n") and len(reads) == 1:
            later(root / "a.py", "two = 2\n")
        if len(reads) > 2:
            later(root / "b.py", f"n = {len(reads)}\n")
        return data

    monkeypatch.setattr(source_files, "_read", read)
    once = source_files.read_file(str(root), "a.py")
    assert (once.data, once.mtime_ns) == (b"two = 2\n", (root / "a.py").stat().st_mtime_ns)
    ever = source_files.read_file(str(root), "b.py")
    assert (len(reads), ever.data, ever.mtime_ns) == (5, b"n = 4\n", 0)


def test_a_file_just_written_is_looked_at_again(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "SETTLED_NS", 10**18)
    root = write(tmp_path, {"a.py": "x = 1\n"})
    index(root)
    stamp = (root / "a.py").stat().st_mtime_ns
    (root / "a.py").write_text("y = 2\n")
    os.utime(root / "a.py", ns=(stamp, stamp))
    assert stale(root, ["a.py"]) == ["a.py"]
    assert index(root).changed == 1
    assert files(root)["a.py"].exports == ("y",)


@pytest.mark.parametrize("root", ["/", "~", "none", "file"])
def test_what_is_no_project_is_refused(tmp_path, monkeypatch, root):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("")
    place = {"/": Path("/"), "~": tmp_path}.get(root, tmp_path / root)
    with pytest.raises(BadRequest) as caught:
        index(place)
    assert caught.value.code == "no_project"
    assert not (tmp_path / ".agents").exists()


def test_two_at_once_are_one_too_many(tmp_path):
    root = write(tmp_path, APP)
    with writing(root), pytest.raises(NotReady) as caught:
        index(root)
    assert caught.value.code == "index_busy"


def test_a_broken_index_is_told_and_made_anew_on_request(tmp_path):
    root = write(tmp_path, APP)
    first = index(root)
    (root / index_store.STORE).write_bytes(b"broken")
    with pytest.raises(Corrupt):
        index(root)
    done = index(root, rebuild=True)
    assert (done.files, done.added) == (7, 7)
    assert done.generation > first.generation


def test_a_project_without_source_has_an_empty_index(tmp_path):
    root = write(tmp_path, {"README.md": "x"})
    done = index(root)
    assert (done.files, done.edges, index_store.read(root).files) == (0, 0, [])


def test_progress_is_told(tmp_path):
    root = write(tmp_path, APP)
    told = []
    index(root, tell=lambda *step: told.append(step))
    assert told[0] == ("walk", 0, 0)
    assert ("walk", 7, 7) in told
    assert [step for step in told if step[0] == "parse"] == [("parse", n, 7) for n in range(1, 8)]
    assert told[-1] == ("save", 7, 7)


def test_stale_are_those_whose_content_differs(tmp_path):
    root = write(tmp_path, {"a.py": "x = 1\n", "b.py": "", "c.py": "", "d.py": ""})
    assert stale(root, ["a.py"]) == []
    index(root)
    later(root / "a.py", "x = 2\n")
    later(root / "b.py")
    (root / "c.py").unlink()
    (root / "new.py").write_text("")
    assert stale(root, ["d.py", "c.py", "b.py", "a.py", "a.py", "new.py", "../x", "a\0"]) == ["c.py", "a.py"]


# -- incremental equals from scratch -------------------------------------------------------------------------------

PLACES = (
    "m.py",
    "pkg/__init__.py",
    "pkg/a.py",
    "pkg/b.py",
    "web/x.ts",
    "web/y/index.ts",
    "web/y.tsx",
    "web/z.svelte",
)
CONTENTS = (
    "", "import pkg.a\nfrom pkg import b\nclass K: ...\n", "from . import a\nfrom .b import *\n", "import m\n",
    "'''Says.'''\ndef f(): ...\n", "import '@/x'; import './y'; export const q = 1", "/** Is. */ import './z.svelte'",
    "<script>import './x'; import w from 'web'</script>", "def (:",
)  # fmt: skip
SETTINGS = ('{"compilerOptions": {"paths": {"@/*": ["./*"]}}}', "{}", '{"name": "web", "main": "x.ts"}')
EDIT = st.one_of(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(CONTENTS)),
    st.tuples(st.sampled_from(("web/tsconfig.json", "web/package.json")), st.sampled_from(SETTINGS)),
    st.tuples(st.sampled_from((*PLACES, "web/tsconfig.json")), st.none()),
    st.tuples(st.sampled_from(PLACES), st.just("touch")),
)


def said(root):
    """What the index says, whatever its generation and the files' times."""
    read = index_store.read(root)
    facts = sorted((replace(each, mtime_ns=0) for each in read.files), key=lambda each: each.path)
    return facts, read.troubles, index_store.orjson.loads(read.conventions) | {"updated": 0}, read.summary


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(st.lists(EDIT, max_size=4), min_size=1, max_size=5))
def test_an_index_renewed_step_by_step_says_what_one_from_scratch_says(tmp_path_factory, rounds):
    root = tmp_path_factory.mktemp("project")
    scratch = tmp_path_factory.mktemp("scratch")
    known, told = 0, {}
    for count, edits in enumerate(rounds):
        for path, content in edits:
            file = root / path
            if content is None:
                file.unlink(missing_ok=True)
            elif content != "touch":
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            if file.exists():
                os.utime(file, ns=(count * 10**9, count * 10**9))
        index(root)
        fresh = scratch / str(count)
        shutil.copytree(root, fresh, ignore=shutil.ignore_patterns(".agents"))
        index(fresh)
        assert said(root) == said(fresh)
        # And so does a reader that takes the differences.
        read = index_store.read(root, known)
        told = {} if read.complete else {path: facts for path, facts in told.items() if path not in read.removed}
        told |= {facts.path: replace(facts, mtime_ns=0) for facts in read.files}
        known = read.generation
        assert sorted(told.values(), key=lambda each: each.path) == said(root)[0]
