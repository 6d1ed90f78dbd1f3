"""Real indexing processes: killed at their steps they leave the old index or the new one, and two never mix."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import NotReady
from orchestrator.gsd.index import store as index_store
from orchestrator.gsd.index.indexing import index
from tests.support.gsd_trees import write

HERE = Path(__file__).resolve().parents[3]
# It says each step before it is taken, and takes it when it hears a line.
PROCESS = """
import sys
from pathlib import Path
from orchestrator.gsd.index import indexing
from orchestrator.gsd.index import writing as index_writing
from orchestrator.journal import project_files
from orchestrator.journal.syscalls import SysIO

def step(name):
    print(name, flush=True)
    if not sys.stdin.readline():
        sys.exit(1)

class Slow(SysIO):
    pass

def slowed(name):
    real = getattr(SysIO, name)
    def call(self, *args, **kwargs):
        step(name)
        return real(self, *args, **kwargs)
    setattr(Slow, name, call)

for name in ("open", "pwrite", "fsync", "rename", "fsync_dir"):
    slowed(name)
index_writing.replace = lambda path, data: project_files.replace(path, data, io=Slow())
indexing.index(Path(sys.argv[1]), tell=lambda name, done, total: step(f"{name} {done}"))
step("end")
"""
OLD = {"a.py": "'''Old.'''\nimport b\n", "b.py": "", "c.py": ""}
NEW = {"a.py": "'''New, and longer.'''\nimport d\n", "d.py": ""}


class Process:
    def __init__(self, root):
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", PROCESS, str(root)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=HERE, text=True)

    def until(self, wanted):
        """The steps it took before the wanted one, at which it now stands."""
        taken = []
        while (said := self.process.stdout.readline().strip()) != wanted:
            assert said, f"it ended before {wanted}, having taken {taken}"
            taken.append(said)
            self.go()
        return taken

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def says(root):
    read = index_store.read(root)
    return read.generation, sorted((facts.path, facts.purpose, facts.imports) for facts in read.files)


@pytest.fixture
def project(tmp_path):
    root = write(tmp_path / "p", OLD)
    index(root)
    before = says(root)
    write(root, NEW)
    (root / "c.py").unlink()
    return root, before


AFTER = [("a.py", "New, and longer.", ("d.py",)), ("b.py", "", ()), ("d.py", "", ())]


@pytest.mark.parametrize(
    ("step", "new"),
    [("walk 0", False), ("parse 1", False), ("pwrite", False), ("rename", False),
     ("fsync_dir", True), ("save 2", True)],
)  # fmt: skip
def test_killed_at_any_step_it_leaves_the_old_index_or_the_new_one(project, step, new):
    root, before = project
    with Process(root) as indexing:
        indexing.until(step)
        assert says(root) == ((before[0] + 1, AFTER) if new else before)
    assert says(root) == ((before[0] + 1, AFTER) if new else before)
    done = index(root)
    assert says(root) == (before[0] + 1, AFTER)
    assert (done.changed + done.added + done.removed) == (0 if new else 3)
    assert sorted(path.name for path in (root / index_store.DIRECTORY).iterdir()) == [
        "conventions.json", "index.db", "lock", "summary.md",
    ]  # fmt: skip
    assert (root / index_store.SUMMARY).read_text() == index_store.read(root).summary


def test_killed_at_its_first_index_it_leaves_none(tmp_path):
    root = write(tmp_path / "p", OLD)
    with Process(root) as indexing:
        indexing.until("rename")
    assert index_store.generation(root) is None
    assert index(root).added == 3


def test_of_two_processes_the_second_is_told_and_readers_see_the_old_one(project):
    root, before = project
    with Process(root) as first:
        first.until("parse 1")
        with pytest.raises(NotReady) as caught:
            index(root)
        assert caught.value.code == "index_busy"
        assert says(root) == before
        first.go()
        first.until("end")
        assert says(root) == (before[0] + 1, AFTER)
        assert index(root).changed == 0
