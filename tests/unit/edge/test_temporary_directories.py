"""Each agent and member has a temporary directory of its own, unless its user has decided otherwise."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from orchestrator.base.platform.basic_facts import SUN_PATH_MAX
from orchestrator.edge import project_location, temporary_directories
from orchestrator.edge.temporary_directories import TemporaryDirectories, name_of_agent, name_of_member

NAME = name_of_agent("builder")


@pytest.fixture
def root(tmp_path, own_world, monkeypatch):
    """A project whose run directory has a path as short as a user's."""
    base = own_world / "runs" / os.urandom(3).hex()
    base.parent.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base))
    return tmp_path


def places(root):
    return project_location.run_dir(root) / project_location.TEMPORARY


def test_it_is_private_in_the_run_directory_and_the_same_for_every_launch(root):
    temporary = TemporaryDirectories(root)
    given = temporary.variables(NAME, {})
    path = Path(given["TMPDIR"])
    assert path == places(root) / NAME
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (path / "kept").touch()
    assert temporary.variables(NAME, given) == given, "its own value is no wish of the user"
    assert (path / "kept").exists()
    # A reboot takes all of /tmp.
    (path / "kept").unlink()
    path.rmdir()
    assert temporary.variables(NAME, {}) == given and path.is_dir()


def test_a_value_that_the_user_gave_this_agent_wins(root):
    assert TemporaryDirectories(root).variables(NAME, {"TMPDIR": "/tmp"}, chosen=True) == {}
    assert not places(root).exists()


def test_an_inherited_directory_wins_only_on_another_file_system(root, tmp_path, monkeypatch):
    temporary = TemporaryDirectories(root)
    for own in ("", "/tmp", str(tmp_path), "relative", "/no/such/directory"):
        assert temporary.variables(NAME, {"TMPDIR": own}), own
    elsewhere = next((path for path in ("/dev/shm", "/proc") if Path(path).stat().st_dev != root.stat().st_dev), None)
    assert temporary.variables(NAME, {"TMPDIR": elsewhere}) == {}


def test_a_socket_in_it_has_room_for_its_name(own_world, tmp_path, monkeypatch):
    room = SUN_PATH_MAX - temporary_directories.SOCKET_ROOM
    above = own_world / "runs"
    above.mkdir(mode=0o700, exist_ok=True)
    base = above / ("r" * (room - len(f"{above}/") - len(f"/{'0' * 16}/tmp/{NAME}") - 1))
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base))
    given = TemporaryDirectories(tmp_path).variables(NAME, {})
    assert len(given["TMPDIR"]) + 1 == room
    base = base.rename(f"{base}r")
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(base))
    assert TemporaryDirectories(tmp_path).variables(NAME, {}) == {}
    for uid in (0, 4_294_967_294):
        usual = f"/tmp/orchestrator-{uid}/{'0' * 16}/{project_location.TEMPORARY}/{NAME}"
        assert len(usual) <= room


@pytest.mark.parametrize("what", ["link", "file", "link above"])
def test_what_is_not_ours_in_its_place_is_not_used_and_nothing_fails(root, tmp_path, what):
    place = places(root) if what == "link above" else places(root) / NAME
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if what == "file":
        place.touch()
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    temporary = TemporaryDirectories(root)
    assert temporary.variables(NAME, {}) == {}
    if what == "link above":
        (tmp_path / "elsewhere" / "kept").mkdir()
        assert temporary.leftovers() == []


def test_at_its_owners_end_it_is_gone_at_once_and_removed_soon(root):
    temporary = TemporaryDirectories(root)
    path = Path(temporary.variables(NAME, {})["TMPDIR"])
    other = Path(temporary.variables(name_of_member("m"), {})["TMPDIR"])
    (path / "library.so").write_bytes(b"0" * 1000)

    async def body():
        temporary.end(NAME)
        names = [aside.name for aside in temporary.leftovers()]
        assert [name.startswith(f"{NAME}.") for name in names] == [True], "no process finds it under its name"
        assert await temporary.remove()

    asyncio.run(body())
    assert list(places(root).iterdir()) == [other]


def test_the_next_daemon_removes_what_nobody_owns_and_nothing_else(root):
    before = TemporaryDirectories(root)
    kept = [Path(before.variables(name, {})["TMPDIR"]) for name in (NAME, name_of_member("m1"))]
    for name in (name_of_agent("deleted"), name_of_member("m2"), f"{NAME}.0a1b2c3d"):
        (places(root) / name / "below").mkdir(parents=True)
    after = TemporaryDirectories(root)
    after.own(path.name for path in kept)
    assert asyncio.run(after.remove())
    assert sorted(places(root).iterdir()) == sorted(kept)


def test_a_removal_ends_with_the_daemon_and_the_next_goes_on(root):
    temporary = TemporaryDirectories(root)
    (places(root) / "a.x").mkdir(parents=True)
    (places(root) / "a.x" / "file").touch()
    temporary.close()
    assert not asyncio.run(temporary.remove())
    assert asyncio.run(TemporaryDirectories(root).remove())
    assert temporary.leftovers() == []
