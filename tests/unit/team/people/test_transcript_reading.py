"""Transcripts: read on from where the last reading ended, whatever becomes of the file."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.engines.usage_reading import CLAUDE, CODEX
from orchestrator.team.people import transcript_reading
from orchestrator.team.people.transcript_reading import TranscriptPosition, read_on


def line(number, **more):
    usage = {"input_tokens": number, "output_tokens": 1}
    message = {"id": f"m{number}", "model": "c", "usage": usage, **more}
    return json.dumps({"type": "assistant", "message": message}).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def ids(path, position, usage=CLAUDE):
    """The ids of the requests of one reading."""
    return [request.request_id for request in read_on(path, position, usage)[0]]


def test_only_what_was_added_is_read_and_a_torn_line_when_it_is_whole(path):
    position = TranscriptPosition()
    assert read_on(path, position, CLAUDE) == ([], False)
    path.write_bytes(line(1) + line(2)[:40])
    assert ids(path, position) == ["m1"]
    assert ids(path, position) == []
    path.write_bytes(line(1) + line(2) + line(3))
    assert ids(path, position) == ["m2", "m3"]


def test_a_file_that_was_shortened_or_replaced_is_read_from_its_beginning(path):
    position = TranscriptPosition()
    path.write_bytes(line(1) + line(2))
    assert ids(path, position) == ["m1", "m2"]
    path.write_bytes(line(3))
    assert ids(path, position) == ["m3"]
    other = path.with_name("other")
    other.write_bytes(line(4) + line(5) + line(6))
    other.replace(path)
    assert ids(path, position) == ["m4", "m5", "m6"]


def test_a_file_that_was_written_anew_in_place_and_is_longer_is_read_from_its_beginning(path):
    position = TranscriptPosition()
    path.write_bytes(line(1) + line(2))
    assert ids(path, position) == ["m1", "m2"]
    path.write_bytes(b"".join(map(line, range(10, 16))))
    assert ids(path, position) == [f"m{number}" for number in range(10, 16)]
    assert ids(path, position) == []


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_lines_may_end_anywhere_in_a_chunk(path, monkeypatch, chunk):
    monkeypatch.setattr(transcript_reading, "CHUNK", chunk)
    path.write_bytes(b"\n" + line(1) + b"not json\n" + line(2) + b"\n\n" + line(3))
    assert ids(path, TranscriptPosition()) == ["m1", "m2", "m3"]


def test_a_line_that_is_too_long_is_passed_over_without_its_memory(path, monkeypatch):
    monkeypatch.setattr(transcript_reading, "CHUNK", 100)
    monkeypatch.setattr(transcript_reading, "LINE_MAX", 1000)
    position = TranscriptPosition()
    path.write_bytes(line(1) + line(2, text="x" * 5000)[:-1])
    assert ids(path, position) == ["m1"]
    with path.open("ab") as file:
        file.write(b"y" * 3000 + b"\n" + line(3))
    assert ids(path, position) == ["m3"]


def test_a_long_file_takes_several_readings(path, monkeypatch):
    monkeypatch.setattr(transcript_reading, "CHUNK", 200)
    monkeypatch.setattr(transcript_reading, "READ_MAX", 1000)
    path.write_bytes(b"".join(map(line, range(1, 51))))
    position, seen, goes_on = TranscriptPosition(), [], True
    while goes_on:
        requests, goes_on = read_on(path, position, CLAUDE)
        assert len(requests) < 20
        seen += [request.request_id for request in requests]
    assert seen == [f"m{number}" for number in range(1, 51)]


def test_a_model_named_in_an_earlier_reading_holds(path):
    position = TranscriptPosition()
    path.write_text(json.dumps({"type": "turn_context", "payload": {"model": "gpt"}}) + "\n")
    assert ids(path, position, CODEX) == []
    record = {"type": "token_usage_record", "payload": {"response_id": "r", "usage": {"input_tokens": 1}}}
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    assert [request.model for request in read_on(path, position, CODEX)[0]] == ["gpt"]


def test_hostile_lines_hold_no_request(path):
    deep = b'{"usage": ' + b"[" * 200_000
    lines = [
        deep,
        b'"usage"',
        b'[{"usage": 1}]',
        b'{"type": "assistant", "message": "usage"}',
        b'\xff"usage"',
        b"\0" * 99,
    ]
    path.write_bytes(b"\n".join(lines) + b"\n" + line(1))
    assert ids(path, TranscriptPosition()) == ["m1"]


def test_a_link_a_pipe_a_directory_and_a_strangers_file_hold_none(path, tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.write_bytes(line(1))
    path.symlink_to(target)
    assert ids(path, TranscriptPosition()) == []
    path.unlink()
    os.mkfifo(path)
    assert ids(path, TranscriptPosition()) == []
    assert ids(tmp_path, TranscriptPosition()) == []
    assert ids(Path("/nowhere\0"), TranscriptPosition()) == []
    assert ids(target, TranscriptPosition()) == ["m1"]
    monkeypatch.setattr(transcript_reading.os, "geteuid", lambda: target.stat().st_uid + 1)
    assert ids(target, TranscriptPosition()) == []
