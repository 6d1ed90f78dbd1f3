"""Paths of the project's tree, atomic replacement, confinement, and the reading of artifacts."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.base.errors import BadRequest, Corrupt, Environment
from orchestrator.journal import project_files
from orchestrator.journal.project_files import Paths
from tests.support.faulty_disk import EIO, ENOSPC, FaultyIO


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_tree_is_the_one_of_the_design(tmp_path):
    paths = Paths(tmp_path)
    shown = {
        str(path.relative_to(tmp_path))
        for path in (
            paths.config, paths.team, paths.roles, paths.meta("a"), paths.inbox("a"), paths.outbox("a"),
            paths.artifacts("a"), paths.engine_dir("a"), paths.launch("a"), paths.run_json("r"), paths.broadcast("r"),
        )
    }  # fmt: skip
    assert shown == {
        ".agents/config.toml", ".agents/team.toml", ".agents/roles", ".agents/agents/a/meta.json",
        ".agents/agents/a/inbox.jsonl", ".agents/agents/a/outbox.jsonl", ".agents/agents/a/artifacts",
        ".agents/agents/a/engine", ".agents/agents/a/engine/launch.json", ".agents/run/r/run.json",
        ".agents/run/r/broadcast.jsonl",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_quarantined_log_stands_beside_the_log_with_the_time_in_its_name(tmp_path):
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert Paths.quarantine(tmp_path / "outbox.jsonl", at) == tmp_path / "outbox.jsonl.quarantine-20260102T030405Z"


def test_the_agents_directory_is_made_once_and_the_users_gitignore_is_left_alone(tmp_path):
    paths = Paths(tmp_path)
    project_files.ensure_agents_dir(paths)
    assert paths.agents.is_dir()
    assert paths.runs.is_dir()
    assert mode(paths.agents) == mode(paths.runs) == 0o700
    (paths.home / ".gitignore").write_text("mine\n")
    project_files.ensure_agents_dir(paths)
    assert (paths.home / ".gitignore").read_text() == "mine\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git decides what git ignores")
def test_git_sees_what_users_write_and_nothing_else(tmp_path):
    paths = Paths(tmp_path)
    project_files.ensure_agents_dir(paths)
    wanted = [".agents/config.toml", ".agents/team.toml", ".agents/roles/coder.md", ".agents/roles/sub/other.md"]
    unwanted = [
        ".agents/agents/a/inbox.jsonl", ".agents/agents/a/roles/x.md", ".agents/agents/config.toml",
        ".agents/run/r/run.json", ".agents/agents/foreign.txt", ".agents/other",
    ]  # fmt: skip
    for name in wanted + unwanted:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environment, check=True)
    shown = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout.split() == sorted(wanted)


@pytest.mark.parametrize("name", [".agents", ".agents/agents", ".agents/run"])
def test_a_link_out_of_the_project_is_not_written_through(tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "project"
    link = root / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(BadRequest) as refused:
        project_files.ensure_agents_dir(Paths(root))
    assert refused.value.code == "path_escape"
    assert list(outside.iterdir()) == []


def test_directories_are_made_with_their_parents_and_each_entry_is_synced(tmp_path):
    io = FaultyIO()
    project_files.make_dir(tmp_path / "a/b/c", 0o700, io)
    assert (io.calls["mkdir"], io.calls["fsync"]) == (3, 3)
    assert mode(tmp_path / "a/b/c") == 0o700
    project_files.make_dir(tmp_path / "a/b/c", 0o755, io)
    assert (io.calls["mkdir"], mode(tmp_path / "a/b/c")) == (3, 0o700)
    (tmp_path / "file").touch()
    for plan, path in (({("mkdir", 1): ENOSPC}, "x"), ({("fsync", 1): EIO}, "y"), ({}, "file"), ({}, "file/below")):
        with pytest.raises(Environment):
            project_files.make_dir(tmp_path / path, 0o700, FaultyIO(plan))


def test_a_replaced_file_has_its_content_and_mode_and_leaves_nothing_else(tmp_path):
    io = FaultyIO()
    project_files.replace(tmp_path / "meta.json", b'{"a":1}', mode=0o600, io=io)
    assert (io.calls["fsync"], io.calls["rename"]) == (2, 1)
    project_files.replace(tmp_path / "meta.json", b"", mode=0o600)
    project_files.replace(tmp_path / "meta.json", b'{"a":2}', mode=0o600)
    assert project_files.read_json(tmp_path / "meta.json") == {"a": 2}
    assert mode(tmp_path / "meta.json") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ({("open", 1): ENOSPC}, "disk_full"),
        ({("pwrite", 1): ENOSPC}, "disk_full"),
        ({("pwrite", 1): ("short", 3), ("pwrite", 2): ENOSPC}, "disk_full"),
        ({("pwrite", 1): ("short", 0)}, "disk_full"),
        ({("fsync", 1): EIO}, "io_failed"),
        ({("rename", 1): EIO}, "io_failed"),
    ],
)
def test_a_failed_replacement_leaves_the_old_content_and_nothing_else(tmp_path, plan, code):
    project_files.replace(tmp_path / "meta.json", b"old")
    with pytest.raises(Environment) as refused:
        project_files.replace(tmp_path / "meta.json", b"the new content", io=FaultyIO(plan))
    assert refused.value.code == code
    assert (tmp_path / "meta.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


def test_a_replacement_written_in_pieces_is_whole(tmp_path):
    project_files.replace(
        tmp_path / "f", b"0123456789", io=FaultyIO({("pwrite", 1): ("short", 3), ("pwrite", 2): ("short", 1)})
    )
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_a_reader_sees_the_old_content_or_the_new(tmp_path):
    path = tmp_path / "meta.json"
    contents = [f'"{letter * 50_000}"'.encode() for letter in "ab"]
    project_files.replace(path, contents[0])
    errors = []

    def replace_often(content):
        try:
            for _ in range(30):
                project_files.replace(path, content)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    writers = [threading.Thread(target=replace_often, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_bytes())
    for writer in writers:
        writer.join()
    assert errors == []
    assert seen <= set(contents)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


def test_a_file_that_is_no_json_is_corrupt_and_a_missing_one_is_an_error_of_the_environment(tmp_path):
    (tmp_path / "f").write_bytes(b'{"a":')
    with pytest.raises(Corrupt) as damage:
        project_files.read_json(tmp_path / "f")
    assert damage.value.facts["file"] == str(tmp_path / "f")
    with pytest.raises(Environment):
        project_files.read_json(tmp_path / "missing")


@pytest.mark.parametrize("good", ["a", "A9", "run-2026.01_x", "0", "a" * 128, "a.b"])
def test_an_id_may_become_part_of_a_path(good):
    assert project_files.check_id(good, "agent id") == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a/b",
        "/",
        "a\\b",
        "a..b",
        "a\0",
        "a\n",
        "a b",
        "ä",
        "😀",
        "a" * 129,
        "٣",
        "a:b",
    ],
)
def test_an_id_that_may_not(bad):
    with pytest.raises(BadRequest) as refused:
        project_files.check_id(bad, "agent id")
    assert refused.value.code == "bad_id"


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "project"
    (root / "sub/deep").mkdir(parents=True)
    (root / "file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "project-2").mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "out-file").symlink_to(tmp_path / "secret")
    (root / "in").symlink_to(root / "sub")
    (root / "dangling").symlink_to(tmp_path / "nothing")
    (root / "loop").symlink_to(root / "loop")
    return root


@pytest.mark.parametrize(
    ("candidate", "found"),
    [
        (".", ""), ("sub", "sub"), ("sub/../file", "file"), ("in/deep", "sub/deep"), ("not/yet/there", "not/yet/there"),
        ("ABSOLUTE/sub", "sub"), ("~", "~"), ("with space/ü😀", "with space/ü😀"), ("sub/deep/../../sub", "sub"),
    ],
)  # fmt: skip
def test_a_path_inside_is_resolved(root, candidate, found):
    candidate = candidate.replace("ABSOLUTE", str(root))
    assert project_files.confine(root, candidate, what="cwd") == root / found


@pytest.mark.parametrize(
    "candidate",
    [
        "..", "../secret", "sub/../../secret", "/", "/etc/passwd", "out", "out/secret", "out-file", "dangling", "loop",
        "loop/x", "../project-2", "a\0b", "a\nb", "a\x1bb", "a\x85b", "\ud800", "x" * 5000, "in/../..", "out/project/../secret",
    ],
)  # fmt: skip
def test_a_path_that_leaves_is_refused(root, candidate):
    with pytest.raises(BadRequest) as refused:
        project_files.confine(root, candidate, what="cwd")
    assert refused.value.code == "path_escape"


def test_a_root_that_is_a_link_itself_confines_to_what_it_means(tmp_path, root):
    (tmp_path / "alias").symlink_to(root)
    assert project_files.confine(tmp_path / "alias", "sub", what="cwd") == root / "sub"
    assert project_files.confine(tmp_path / "alias", str(root / "sub"), what="cwd") == root / "sub"
    with pytest.raises(BadRequest):
        project_files.confine(tmp_path / "alias", "../secret", what="cwd")


def test_artifacts_are_listed_by_name_with_size_and_time_and_links_are_left_out(root):
    os.utime(root / "file", (1_700_000_000, 1_700_000_000))
    (root / "sub/deep/b").write_bytes(b"12")
    os.mkfifo(root / "fifo")
    (root / os.fsdecode(b"not-utf8-\xff")).touch()
    found = project_files.list_artifacts(root)
    assert [(item["name"], item["bytes"]) for item in found] == [("file", 6), ("sub/deep/b", 2)]
    assert found[0]["modified_at"] == "2023-11-14T22:13:20.000Z"
    assert project_files.list_artifacts(root / "missing") == []


def test_the_list_of_artifacts_has_an_end(tmp_path):
    for n in range(project_files.MAX_LISTED + 5):
        (tmp_path / f"{n:05}").touch()
    found = project_files.list_artifacts(tmp_path)
    assert len(found) == project_files.MAX_LISTED
    assert found[-1]["name"] == f"{project_files.MAX_LISTED - 1:05}"


def test_an_artifact_is_read_up_to_the_limit_and_never_outside(root):
    assert project_files.read_artifact(root, "file", 100) == b"inside"
    assert project_files.read_artifact(root, "file", 2) == b"in"
    for escape in ("out-file", "out/secret", "../secret", "/etc/passwd"):
        with pytest.raises(BadRequest) as refused:
            project_files.read_artifact(root, escape, 100)
        assert refused.value.code == "path_escape"


def test_what_is_no_regular_file_is_no_artifact(root):
    os.mkfifo(root / "fifo")
    here = Path.cwd()
    os.chdir(root)
    try:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("sock")
    finally:
        os.chdir(here)
    for name in ("missing", "sub", "fifo", "sock", "."):
        with pytest.raises(BadRequest) as refused:
            project_files.read_artifact(root, name, 100)
        assert refused.value.code == "unknown_resource"
    listening.close()
