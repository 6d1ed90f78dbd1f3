"""Projects held in memory: read by one at a time, let go when others are asked about, told of what changes."""

import os
import threading

import pytest

from orchestrator.base.errors import Corrupt
from orchestrator.gsd import projects
from orchestrator.gsd.index.indexing import index
from orchestrator.gsd.index.store import STORE
from orchestrator.gsd.projects import Projects
from tests.support.gsd_trees import write
from tests.support.stage import BOUND_S, until


class Store:
    """Stands for both stores of a project; each instance is one loading. ``during``: what a reading does."""

    during = None

    def __init__(self, root):
        self.root = root
        self.reading = 0
        self.most = 0
        self.reads = 0
        self.told = []
        self.heard = threading.Event()
        STORES.setdefault(root, []).append(self)

    def read(self):
        self.reading += 1
        self.most = max(self.most, self.reading)
        self.reads += 1
        Store.during(self.root)
        self.reading -= 1
        return self.root.name, self.root.name

    def entity(self, name):
        return name

    def touched(self, paths):
        self.told += paths
        self.heard.set()


STORES = {}


@pytest.fixture(autouse=True)
def _stores(monkeypatch):
    """The stores are ours, and nothing is watched unless a test says so."""
    STORES.clear()
    monkeypatch.setattr(Store, "during", lambda _root: None)
    monkeypatch.setattr(projects, "PlanningStore", Store)
    monkeypatch.setattr(projects, "IntelStore", Store)


@pytest.fixture
def held():
    made = []

    def make(**options):
        made.append(Projects(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def watching(root):
    return [thread for thread in threading.enumerate() if thread.name == f"watch {root}"]


def at_once(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
        assert not thread.is_alive()


def test_a_project_is_read_by_one_thread_at_a_time_and_made_once(held, tmp_path):
    one = held()
    at_once(*[lambda: one.snapshot(tmp_path)] * 8)
    planning, intel = STORES[tmp_path]
    assert (planning.most, intel.most) == (1, 1)
    assert (planning.reads, intel.reads) == (8, 8)


def test_one_project_does_not_keep_another_waiting(held, tmp_path, monkeypatch):
    both = threading.Barrier(2, timeout=BOUND_S)
    monkeypatch.setattr(Store, "during", lambda _root: both.wait())  # each waits for one of the other project
    one = held()
    at_once(lambda: one.snapshot(tmp_path / "a"), lambda: one.snapshot(tmp_path / "b"))


def test_a_project_that_cannot_be_read_keeps_nobody_from_reading_it_again(held, tmp_path, monkeypatch):
    def fail(_root):
        raise Corrupt("corrupt_index", "x")

    one = held()
    with monkeypatch.context() as broken:
        broken.setattr(Store, "during", fail)
        with pytest.raises(Corrupt):
            one.snapshot(tmp_path)
    assert one.snapshot(tmp_path).root == tmp_path


def test_the_one_asked_least_recently_is_let_go(held, tmp_path):
    one = held(held=2)
    for name in "abacaba":
        one.snapshot(tmp_path / name)
    assert {root.name: len(stores) // 2 for root, stores in STORES.items()} == {"a": 1, "b": 2, "c": 1}


def test_a_snapshot_is_of_what_the_stores_say(held, tmp_path):
    made = held().snapshot(tmp_path)
    assert (made.root, made.planning[0], made.graph, made.intel) == (tmp_path, tmp_path.name, *[tmp_path.name] * 2)
    assert made.entity("x") == "x"


def test_a_file_is_stale_when_its_content_is_not_what_the_index_knows(held, tmp_path):
    write(tmp_path, {"same.py": "x = 1", "longer.py": "x = 1", "newer.py": "x = 1", "gone.py": "x = 1"})
    index(tmp_path)
    (tmp_path / "longer.py").write_text("x = 12")
    os.utime(tmp_path / "newer.py", (1, 1))  # as a fresh clone's files are: another time, the same text
    (tmp_path / "gone.py").unlink()
    stale = held().snapshot(tmp_path).stale
    assert stale(["same.py", "longer.py", "newer.py", "gone.py", "unknown.py", "../x"]) == ["longer.py", "gone.py"]


def test_a_broken_index_makes_nothing_stale(held, tmp_path):
    write(tmp_path, {"a.py": "x = 1"})
    index(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")
    assert held().snapshot(tmp_path).stale(["a.py"]) == ["a.py"]
    (tmp_path / STORE).write_bytes(b"no database")
    assert held().snapshot(tmp_path).stale(["a.py"]) == []


def test_what_changes_is_told_to_the_store_and_to_who_listens_and_no_more_once_let_go(held, tmp_path):
    write(tmp_path, {".planning/PROJECT.md": "one"})
    told = []
    one = held(changed=told.append, held=1)
    one.snapshot(tmp_path)
    _, intel = STORES[tmp_path]
    path = tmp_path / ".planning" / "PROJECT.md"
    (thread,) = watching(tmp_path)

    def heard():
        path.write_text("two")
        return intel.heard.wait(0.2)

    assert any(heard() for _ in range(int(BOUND_S * 5)))
    assert path in intel.told
    until(lambda: set(told) == {tmp_path})
    one.snapshot(tmp_path / "other")
    thread.join(BOUND_S)
    assert not thread.is_alive()


def test_nothing_is_read_before_its_watch_stands(held, tmp_path, monkeypatch):
    order, reading = [], threading.Event()

    def watch(*_paths, stop_event, **_more):
        reading.wait(0.5)  # whoever does not wait for the watch has read by then
        order.append("watches")
        stop_event.is_set()  # the watcher asks once it watches
        yield from ()

    def read(_root):
        order.append("reads")
        reading.set()

    monkeypatch.setattr(projects, "watch", watch)
    monkeypatch.setattr(projects, "BEGIN_S", BOUND_S)
    monkeypatch.setattr(Store, "during", staticmethod(read))
    root = write(tmp_path / "p", {".planning/PROJECT.md": "# One\n"})
    held(changed=lambda _root: None).snapshot(root)
    assert order[:2] == ["watches", "reads"]


def test_who_lets_go_of_a_project_that_is_just_being_read_leaves_no_watch_behind(held, tmp_path, monkeypatch):
    (tmp_path / ".planning").mkdir()
    one = held(changed=lambda _root: None)
    monkeypatch.setattr(projects.time, "monotonic", lambda: one.close() or 0.0)  # as it is about to begin its watch
    one.snapshot(tmp_path)
    for thread in watching(tmp_path):
        thread.join(BOUND_S)
    assert not watching(tmp_path)


def test_one_question_begins_no_watch(held, tmp_path):
    (tmp_path / ".planning").mkdir()
    held().snapshot(tmp_path)
    assert not watching(tmp_path)


def test_what_cannot_be_watched_is_read_all_the_same_and_tried_again_seldom(held, tmp_path, monkeypatch):
    (tmp_path / ".planning").mkdir()
    tries = []

    def none_left(*paths, **_options):
        tries.append(paths)
        raise OSError(28, "no space left on device: inotify")

    monkeypatch.setattr(projects, "watch", none_left)
    one = held(changed=lambda _root: None)
    for _ in range(3):
        assert one.snapshot(tmp_path).root == tmp_path
        for thread in watching(tmp_path):
            thread.join(BOUND_S)
    assert tries == [(tmp_path / ".planning",)]
    monkeypatch.setattr(projects, "AGAIN_S", -1.0)
    one.snapshot(tmp_path)
    for thread in watching(tmp_path):
        thread.join(BOUND_S)
    assert len(tries) == 2


def test_no_watch_follows_a_link(held, tmp_path, monkeypatch):
    """One to ``/`` would have the whole disk watched."""
    asked = []
    monkeypatch.setattr(
        projects, "watch", lambda *paths, recursive, **_: asked.append(({*paths}, recursive)) or iter(())
    )
    outside = tmp_path / "outside"
    write(outside, {"PROJECT.md": "", "deep/x": ""})
    plain, linked, out = tmp_path / "plain", tmp_path / "linked", tmp_path / "out"
    for root in (plain, linked):
        write(root, {".planning/phases/01/01-PLAN.md": "", ".agents/gsd/index.db": ""})
    (linked / ".planning" / "phases" / "all").symlink_to(outside)
    out.mkdir()
    (out / ".planning").symlink_to(outside)
    one = held(changed=lambda _root: None)
    for root in (plain, linked, out):
        one.snapshot(root)
        for thread in watching(root):
            thread.join(BOUND_S)
    assert asked == [
        ({plain / ".planning", plain / ".agents" / "gsd"}, True),
        (
            {linked / name for name in (".planning", ".planning/phases", ".planning/phases/01", ".agents/gsd")},
            False,
        ),
    ]
