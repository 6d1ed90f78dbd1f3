"""What the shell worker accepts as a payload, and what it makes of raw output."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trust.identity import DirectoryIdentity
from orchestrator.trust.seals import Seal
from orchestrator.worker.shell_command import MAX_LINE_BYTES, BadPayload, Guard, plain_lines, read_payload


def test_a_minimal_payload_runs_in_the_agents_own_directory_without_a_limit(tmp_path):
    job = read_payload({"command": "make"}, tmp_path, tmp_path)
    assert (job.command, job.cwd, job.timeout_s, dict(job.env)) == ("make", tmp_path, None, {})


def test_cwd_is_relative_to_the_agents_directory_and_may_climb_inside_the_project(tmp_path):
    agent = tmp_path / "a"
    agent.mkdir()
    (tmp_path / "b").mkdir()
    assert read_payload({"command": "x", "cwd": "../b"}, agent, tmp_path).cwd == tmp_path / "b"


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "make",
        [],
        {},
        {"command": ""},
        {"command": "  "},
        {"command": 3},
        {"command": ["ls"]},
        {"command": "a\0b"},
        {"command": "x", "timeout": 3},
        {"command": "x", "timeout_s": 0},
        {"command": "x", "timeout_s": -1},
        {"command": "x", "timeout_s": "3"},
        {"command": "x", "timeout_s": True},
        {"command": "x", "timeout_s": float("nan")},
        {"command": "x", "timeout_s": float("inf")},
        {"command": "x", "env": {"A": 1}},
        {"command": "x", "env": ["A=1"]},
        {"command": "x", "env": {"": "1"}},
        {"command": "x", "env": {"A=B": "1"}},
        {"command": "x", "env": {"A": "\0"}},
        {"command": "x", "env": {"ORCHESTRATOR_TASK_FILE": "/x"}},
        {"command": "x", "private": 1},
        {"command": "x", "cwd": 1},
        {"command": "x", "cwd": ""},
        {"command": "x", "cwd": "missing"},
        {"command": "x", "cwd": "a\0b"},
    ],
)
def test_a_payload_that_is_not_understood_is_refused(payload, tmp_path):
    with pytest.raises(BadPayload) as refused:
        read_payload(payload, tmp_path, tmp_path)
    assert refused.value.code == "bad_payload"


def test_a_directory_outside_the_project_is_refused_also_through_a_link(tmp_path):
    project = tmp_path / "p"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    for cwd in ("..", "/", "link", "link/p/.."):
        with pytest.raises(BadPayload) as refused:
            read_payload({"command": "x", "cwd": cwd}, project, project)
        assert refused.value.code == "path_escape"


def test_last_lines_are_the_final_state_of_redrawn_lines_without_escapes():
    raw = b"one\n 10%\r 50%\r100%\r\n\x1b[31mred\x1b[0m\n\xff\xfe bad\n"
    assert plain_lines(raw) == ["one", "100%", "red", "�� bad"]


@given(st.binary(max_size=9000))
def test_last_lines_hold_twenty_lines_and_four_kilobytes_whatever_the_bytes(raw: bytes):
    lines = plain_lines(raw)
    assert len(lines) <= 20
    assert sum(len(line.encode()) for line in lines) <= MAX_LINE_BYTES
    assert all(c == "\t" or c >= " " for line in lines for c in line)


def test_a_record_of_another_boot_or_a_reused_number_kills_nobody(tmp_path, monkeypatch):
    record = tmp_path / "worker.json"
    killed = []
    monkeypatch.setattr("os.killpg", lambda pid, sig: killed.append((pid, sig)))
    import json
    import os

    from orchestrator.worker import shell_command

    seal = Seal(DirectoryIdentity("0" * 32, b"k" * 32, tmp_path), "agent", "a", "worker")
    own = {"pid": os.getpid(), "started": shell_command._started(os.getpid()), "boot": shell_command.boot_id()}
    for left in ({**own, "boot": "other"}, {**own, "started": 1}, {**own, "pid": 1}, {**own, "pid": -1}, {}, []):
        record.write_text(json.dumps(seal.sealed(left) if left else left))
        assert Guard(record, "", seal).end_previous() is None
    for text in ("not json", json.dumps(own), json.dumps({**seal.sealed(own), "pid": os.getppid()})):
        record.write_text(text)
        assert Guard(record, "", seal).end_previous() is None, "nobody of this machine wrote it"
    assert killed == []
    record.write_text(json.dumps(seal.sealed(own)))
    assert Guard(record, "", seal).end_previous() == os.getpid()
    assert killed == [(os.getpid(), signal.SIGKILL)]
    assert not record.exists()


def test_a_task_with_input_or_a_private_command_needs_its_task_file(tmp_path):
    given = {"plain": {}, "private": {"private": True}, "input": {"input": None}, "not private": {"private": False}}
    jobs = {name: read_payload({"command": "x", **more}, tmp_path, tmp_path) for name, more in given.items()}
    assert [name for name, job in jobs.items() if job.needs_file] == ["private", "input"]
    assert [name for name, job in jobs.items() if job.private] == ["private"]
