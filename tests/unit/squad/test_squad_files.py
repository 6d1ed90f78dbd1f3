"""A squad's files: how outputs are cut, what is written when, what is removed."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import Corrupt, Environment
from orchestrator.core.file_models import MemberFile, SquadFile
from orchestrator.journal.project_files import Paths
from orchestrator.squad import squad_files

SQUAD = "11111111-2222-3333-4444-555555555555"
TEXT = "aé€🎉\0b" * 200


def file(squad_id=SQUAD):
    member = MemberFile(member_id=f"{squad_id}-m0", role_id="coder", cwd=None, state="planned", chat_id=None)
    return SquadFile(
        v=1, squad_id=squad_id, req="r", created_at="2026-01-01T00:00:00.000Z", stateful=False, members=[member]
    )


def cut(text):
    """The parts of a cut output before and behind the line that says what is missing, and how many bytes are."""
    before, behind = text.split("\n[... ", 1)
    gap, behind = behind.split("]\n", 1)
    count, rest = gap.split(" ", 1)
    return before, behind, int(count), rest


@pytest.fixture
def anyio_backend():
    return "asyncio"


# -- outputs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", range(1024, 1044))
@pytest.mark.parametrize("shift", range(4))
def test_a_cut_never_goes_through_a_character_and_counts_every_byte(tmp_path, limit, shift):
    path = tmp_path / "stdout"
    data = b"x" * shift + TEXT.encode()
    path.write_bytes(data)
    text, was_cut = squad_files.output(path, limit)
    before, behind, left, rest = cut(text)
    assert was_cut
    assert data.startswith(before.encode())
    assert data.endswith(behind.encode())
    assert len(before.encode()) + len(behind.encode()) + left == len(data)
    assert len(before.encode()) + len(behind.encode()) > limit - 8
    assert rest == f"bytes left out; all of it: {path}"


@given(size=st.integers(0, 300), limit=st.integers(8, 300))
def test_an_output_is_cut_exactly_when_it_is_longer_than_the_limit(tmp_path_factory, size, limit):
    path = tmp_path_factory.mktemp("o") / "stdout"
    data = bytes(97 + at % 26 for at in range(size))
    path.write_bytes(data)
    text, was_cut = squad_files.output(path, limit)
    assert was_cut is (size > limit)
    if not was_cut:
        assert text == data.decode()
        return
    before, behind, left, _ = cut(text)
    assert (len(before), len(before) + len(behind), left) == (limit // 4, limit, size - limit)
    assert data.startswith(before.encode())
    assert data.endswith(behind.encode())


@given(data=st.binary(max_size=200), limit=st.integers(8, 100))
def test_whatever_bytes_an_output_has_it_becomes_text(tmp_path_factory, data, limit):
    path = tmp_path_factory.mktemp("o") / "stdout"
    path.write_bytes(data)
    text, was_cut = squad_files.output(path, limit)
    text.encode()
    assert was_cut or text == data.decode(errors="replace")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd"), lambda _: None])
def test_what_is_no_file_is_no_output(tmp_path, make):
    path = tmp_path / "stdout"
    make(path)
    assert squad_files.output(path, 1024) == ("", False)
    assert squad_files.beginning(path) == ""


def test_a_pipe_that_somebody_writes_into_is_no_output_either(tmp_path):
    path = tmp_path / "stdout"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    try:
        for _ in range(2):
            assert squad_files.output(path, 1024) == ("", False)
            assert squad_files.beginning(path) == ""
            os.write(fd, b"chat-1")
    finally:
        os.close(fd)


# -- the squad's file -------------------------------------------------------------------------------------------


def test_a_squads_file_is_read_as_it_was_written_and_is_the_users_alone(tmp_path):
    paths = Paths(tmp_path)
    squad_files.prepare(paths, SQUAD, 2)
    assert sorted(path.name for path in paths.squad_dir(SQUAD).iterdir()) == ["m0", "m1"]
    made = file()
    asyncio.run(squad_files.SquadRecord(paths.squad_json(SQUAD), made, paths.provenance).write())
    assert paths.squad_json(SQUAD).stat().st_mode & 0o777 == 0o600
    assert paths.squads.stat().st_mode & 0o777 == 0o700
    assert squad_files.read(paths.squad_json(SQUAD), paths.provenance) == made
    assert squad_files.known(paths) == [made]
    squad_files.forget(paths, SQUAD)
    assert squad_files.known(paths) == []
    assert not paths.squad_dir(SQUAD).exists()


def test_many_that_write_at_once_write_seldom_and_the_last_state_stands(tmp_path, monkeypatch):
    paths, made, writes = Paths(tmp_path), file(), []
    squad_files.prepare(paths, SQUAD, 1)
    book = squad_files.SquadRecord(paths.squad_json(SQUAD), made, paths.provenance)
    real = squad_files.replace
    monkeypatch.setattr(squad_files, "replace", lambda *args, **more: (writes.append(1), real(*args, **more)))

    async def many():
        async def one(at):
            made.members[0].reason = str(at)
            await book.write()

        await asyncio.gather(*(one(at) for at in range(20)))

    asyncio.run(many())
    assert squad_files.read(paths.squad_json(SQUAD), paths.provenance).members[0].reason == "19"
    assert len(writes) <= 2


def test_a_write_that_failed_is_made_by_the_next_one(tmp_path):
    paths = Paths(tmp_path)
    book = squad_files.SquadRecord(paths.squad_json(SQUAD), file(), paths.provenance)

    async def twice():
        with pytest.raises(Environment):
            await book.write()
        squad_files.prepare(paths, SQUAD, 1)
        await book.write()

    asyncio.run(twice())
    assert squad_files.known(paths) == [file()]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"v": 1}', "null", "\0", None])
def test_a_squads_file_that_is_none_is_told_and_hides_no_other(tmp_path, content):
    paths = Paths(tmp_path)
    squad_files.prepare(paths, SQUAD, 1)
    asyncio.run(squad_files.SquadRecord(paths.squad_json(SQUAD), file(), paths.provenance).write())
    other = paths.squad_json("x")
    other.parent.mkdir()
    os.mkfifo(other) if content is None else other.write_text(content)
    with pytest.raises(Corrupt):
        squad_files.read(other, paths.provenance)
    assert squad_files.known(paths) == [file()]


def test_a_squads_file_of_another_name_is_not_taken(tmp_path):
    paths = Paths(tmp_path)
    squad_files.prepare(paths, "other", 1)
    asyncio.run(squad_files.SquadRecord(paths.squad_json("other"), file(), paths.provenance).write())
    with pytest.raises(Corrupt, match=SQUAD):
        squad_files.read(paths.squad_json("other"), paths.provenance)


def test_a_prompt_is_not_written_through_a_link(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "prompt.md").symlink_to("target")
    with pytest.raises(Environment):
        squad_files.write_prompt(tmp_path / "prompt.md", "evil")
    assert (tmp_path / "target").read_text() == "mine"
