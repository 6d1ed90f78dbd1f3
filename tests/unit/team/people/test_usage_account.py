"""One agent's model requests in its `usage.jsonl`: each is counted once, and nothing of the file does any harm."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.core.model_usage import ModelRequest
from orchestrator.journal.project_files import Paths
from orchestrator.team.people import usage_account
from orchestrator.team.people.usage_account import REPLACEABLE, UsageAccount, task_usage

AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = Paths(tmp_path).usage("a1")
    place.parent.mkdir(parents=True)
    return place


def request(number, **figures):
    return ModelRequest(f"r{number}", "m", **({"input": 1} | figures))


def facts(_request, task_id=None):
    return {"at": AT, "task_id": task_id, "session": "s", "epoch": 1}


def counted(account):
    view = account.sums.view({})
    return view["requests"], view["input"], view["output"]


def again(path):
    """The account as the next daemon loads it."""
    account = UsageAccount(path)
    account.load()
    return account


def test_a_request_is_one_line_and_is_counted_once_over_sessions_and_daemons(path):
    account = UsageAccount(path)
    assert account.add([request(1), request(2, output=5)], facts) is True
    assert account.add([request(1), request(2, output=5)], facts) is False  # a forked session has all old lines
    assert counted(account) == counted(again(path)) == (2, 2, 5)
    line, _ = map(json.loads, path.read_text().splitlines())
    assert line == {
        "id": "r1", "model": "m", "input": 1, "cached": 0, "cache_write": 0, "output": 0, "cost": None, **facts(None)
    }  # fmt: skip
    next_daemons = again(path)
    assert next_daemons.add([request(1), request(2, output=5)], facts) is False
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_last_figures_of_a_request_count(path):
    account = UsageAccount(path)
    account.add([request(1, output=1), request(1, output=9)], facts)
    assert len(path.read_text().splitlines()) == 1
    account.add([request(1, output=20)], facts)
    assert counted(account) == counted(again(path)) == (1, 1, 20)
    assert len(path.read_text().splitlines()) == 2


def test_an_old_request_is_known_when_it_can_no_longer_be_replaced(path):
    account = UsageAccount(path)
    account.add([request(number) for number in range(REPLACEABLE + 10)], facts)
    assert account.add([request(0, output=7)], facts) is False
    assert account.add([request(REPLACEABLE, output=7)], facts) is True


def test_it_rests_and_goes_on(path):
    account = UsageAccount(path)
    account.add([request(1)], facts)
    account.rest()
    assert counted(account) == (1, 1, 0)
    assert account.add([request(1), request(2)], facts) is True
    assert counted(account) == (2, 2, 0)


def test_a_torn_line_costs_itself_only(path):
    account = UsageAccount(path)
    account.add([request(1), request(2)], facts)
    path.write_bytes(path.read_bytes()[:-30])
    account = again(path)
    account.add([request(2), request(3)], facts)
    assert counted(account) == counted(again(path)) == (3, 3, 0)


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[]", b"1", b'{"id": 7}', b"[" * 100_000, b'{"id": "x", "input": -5}', b'{"id": "y", "input": 1e300}',
     b'{"id": "z", "input": true}', b"\0" * 5000, b'{"id": "w", "input": NaN}'],
)  # fmt: skip
def test_a_line_that_is_no_request_is_passed_over(path, line):
    UsageAccount(path).add([request(1)], facts)
    with path.open("ab") as file:
        file.write(line + b"\n")
    account = again(path)
    account.add([request(2)], facts)
    assert counted(account) == counted(again(path)) == (2, 2, 0)


def test_a_link_a_pipe_and_a_directory_in_its_place_are_left_alone(path, tmp_path):
    target = tmp_path / "target"
    target.write_text("theirs")
    path.symlink_to(target)
    assert UsageAccount(path).add([request(1)], facts) is True
    assert target.read_text() == "theirs"
    path.unlink()
    os.mkfifo(path)
    assert UsageAccount(path).add([request(1)], facts) is True
    path.unlink()
    path.mkdir()
    assert UsageAccount(path).add([request(1)], facts) is True
    assert list(path.iterdir()) == []


def test_what_a_full_disk_has_refused_is_written_with_the_next_request(path, monkeypatch):
    account, write = UsageAccount(path), os.write
    account.add([request(1)], facts)

    def full(fd, data):
        write(fd, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(usage_account.os, "write", full)
    account.add([request(2)], facts)
    assert counted(account) == (2, 2, 0)
    monkeypatch.undo()
    account.add([request(3)], facts)
    assert counted(again(path)) == (3, 3, 0)


def test_any_number_of_requests_is_written_at_once_and_only_so_many_are_kept_for_a_full_disk(path, monkeypatch):
    monkeypatch.setattr(usage_account, "UNWRITTEN_MAX", 5)
    account = UsageAccount(path)
    account.add([request(number) for number in range(20)], facts)
    assert counted(again(path)) == (20, 20, 0)
    path.rename(path.with_name("kept"))
    path.mkdir()
    account.add([request(number) for number in range(20, 40)], facts)
    path.rmdir()
    path.with_name("kept").rename(path)
    account.add([request(40)], facts)
    assert counted(account) == (41, 41, 0)
    assert counted(again(path)) == (26, 26, 0)


def test_an_agent_whose_directory_is_gone_gets_none(path):
    path.parent.rmdir()
    assert UsageAccount(path).add([request(1)], facts) is True
    assert not path.parent.exists()


def test_what_each_task_used(path, tmp_path):
    account = UsageAccount(path)
    account.add([request(1, output=1), request(2)], lambda _request: facts(None, "t1"))
    account.add([request(3, cost=0.5)], lambda _request: facts(None, "t2"))
    account.add([request(4)], facts)
    account.add([request(1, output=5)], lambda _request: facts(None, "t1"))
    used = task_usage(Paths(tmp_path), "a1", {})
    assert {task: (one["requests"], one["output"], one["cost_usd"]) for task, one in used.items()} == {
        "t1": (2, 5, None), "t2": (1, 0, 0.5), None: (1, 0, None),
    }  # fmt: skip
    assert task_usage(Paths(tmp_path), "nobody", {}) == {}
