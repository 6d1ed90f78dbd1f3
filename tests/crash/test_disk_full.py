"""A whole team on a real file system that has no room, no inodes, or may not be written for a while. Root only."""

import contextlib
import json
import random

import pytest

from tests.crash.conftest import Stage, over
from tests.crash.moves import AGENT
from tests.fakes.relays import until
from tests.support import mounts

pytestmark = pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "it can")

LOG_LINES = 400
"""More than a team's life of this length writes into the daemon's log, far less than one that spins."""


class Team:
    """A master and two agents on a stage; ``accepted`` are the tasks it was told are queued."""

    def __init__(self, stage):
        self.stage = stage
        self.master = stage.master()
        self.workers = [self.master.do("agent_create", name=stage.new("w"), **AGENT)["agent_id"] for _ in range(2)]
        self.accepted = []
        self.refused = []

    def ask(self, tool, **arguments):
        """The answer, or None when the disk refused, clearly."""
        told, error = self.master.told(self.master.ask(tool, **arguments))
        if error:
            assert told["error"]["code"] in ("disk_full", "io_failed"), told
            assert told["error"]["next_step"]
            self.refused.append(told["error"]["code"])
            return None
        return told

    def enqueue(self, chance, times=1):
        for _ in range(times):
            task = {"task_id": self.stage.new("t"), "payload": self.stage.payload(pad="x" * chance.randrange(3000))}
            if self.ask("task_enqueue", agent_id=chance.choice(self.workers), task=task) is not None:
                self.accepted.append(task["task_id"])

    def finish(self):
        """All that was accepted ends once, and the digest tells of it; then the team goes without a trace."""
        for task in self.accepted:
            assert self.stage.ended(task)["type"] == "result"
        self.stage.told()
        self.stage.check()
        until(lambda: all(self.fresh(agent) for agent in self.workers))
        self.master.close()
        self.stage.finish()
        lines = self.stage.log().count("\n")
        assert lines < LOG_LINES, f"{lines} lines in the daemon's log"

    def fresh(self, agent):
        place = self.stage.root / ".agents" / "agents" / agent
        with contextlib.suppress(OSError, ValueError):
            last = len((place / "outbox.jsonl").read_bytes().splitlines())
            return json.loads((place / "meta.json").read_text())["last_event_seq"] == last
        return False


def on(base, body, *options, config=""):
    """Play ``body`` with a stage whose project lies on a file system of its own."""

    def played():
        base.mkdir()
        mounts.tmpfs(base / "p", *options)
        stage = Stage(base, config=config)
        try:
            body(stage)
        finally:
            print(stage.log()[-6000:])
            stage.close()

    mounts.apart(played)


def full(stage, chance, faults, rounds, kills):
    team = Team(stage)
    for number in range(rounds):
        team.enqueue(chance, chance.randrange(1, 4))
        filler = mounts.fill(stage.root)
        if number in kills:
            stage.daemon().kill()
        team.enqueue(chance, 3)
        name = stage.new("x")
        made = team.ask("agent_create", name=name, **AGENT)
        if made is None:
            assert not (stage.root / ".agents" / "agents" / name).exists(), "what was refused leaves nothing"
        going = None if made is None else team.master.ask("agent_delete", agent_id=name)
        team.enqueue(chance, 2)
        filler.unlink()
        if going is not None:
            told, error = team.master.told(going)
            assert told.get("status") == "deleted" or (error and told["error"]["code"] == "disk_full"), told
        told = team.master.do("agent_create", name=name, **AGENT)
        assert told["ready"]
        team.master.do("agent_delete", agent_id=told["agent_id"], force=True, confirm=told["agent_id"])
        faults("disk, tiny file system")
    assert "disk_full" in team.refused
    assert set(team.refused) == {"disk_full"}
    team.finish()


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 3), *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in range(2, 8))]
)
def test_a_disk_without_room_refuses_clearly_loses_nothing_and_works_again(tmp_path, faults, seed, rounds):
    chance = random.Random(seed)
    kills = set(chance.sample(range(rounds), rounds // 3))
    on(tmp_path / "s", lambda stage: full(stage, chance, faults, rounds, kills), "size=3m")


def no_inodes(stage, chance, faults):
    team = Team(stage)
    hoard = stage.root / "hoard"
    hoard.mkdir()
    with contextlib.suppress(OSError):
        for number in range(10_000):
            (hoard / str(number)).touch()
    before = len(team.accepted)
    team.enqueue(chance, 4)
    assert len(team.accepted) == before + 4, "a task needs no new file"
    assert team.ask("agent_create", name="late", **AGENT) is None
    assert team.refused == ["disk_full"]
    stage.daemon().kill()
    team.enqueue(chance, 2)
    for task in team.accepted:
        assert stage.ended(task)["type"] == "result"
    for file in hoard.iterdir():
        file.unlink()
    assert team.master.do("agent_create", name="late", **AGENT)["agent_id"] == "late"
    faults("disk, tiny file system", 2)
    team.finish()


def test_a_disk_without_inodes_lets_the_team_work_and_refuses_new_agents(tmp_path, faults):
    on(tmp_path / "s", lambda stage: no_inodes(stage, random.Random(1), faults), "size=3m", "nr_inodes=200")


def read_only(stage, chance, faults):
    team = Team(stage)
    mounts.read_only(stage.root)
    team.enqueue(chance, 2)
    assert team.ask("agent_create", name="late", **AGENT) is None
    for task in team.accepted:
        assert stage.ended(task)["type"] == "result"
    assert team.refused == ["io_failed"]
    # A daemon that starts now can write nothing at all: it must say so, and no agent may be given up for it.
    daemon = stage.daemon()
    daemon.kill()
    until(lambda: over(daemon))
    task = {"task_id": stage.new("t"), "payload": stage.payload()}
    asked = team.master.ask("task_enqueue", agent_id=team.workers[0], task=task)
    until(lambda: list((stage.base / "run").glob("*/failed")))
    mounts.release(stage.root)
    told, error = team.master.told(asked)
    assert not error or told["error"]["code"] == "io_failed", told
    until(lambda: team.ask("task_enqueue", agent_id=team.workers[0], task=task))
    team.accepted.append(task["task_id"])
    faults("disk, tiny file system", 2)
    team.finish()


def test_a_directory_that_is_read_only_for_a_while_is_told_and_no_agent_is_given_up(tmp_path, faults):
    on(tmp_path / "s", lambda stage: read_only(stage, random.Random(1), faults), "size=3m")


def no_room_for_the_log(stage, chance, faults):
    team = Team(stage)
    full = [mounts.fill(stage.root), mounts.fill(stage.base / "run")]
    [log] = (stage.base / "run").glob("*/log")
    with contextlib.suppress(OSError), log.open("ab", buffering=0) as file:
        while file.write(b"x"):
            pass  # what is left of the log's own last block
    team.enqueue(chance, 3)
    assert team.ask("agent_create", name="late", **AGENT) is None
    for filler in full:
        filler.unlink()
    team.enqueue(chance, 3)
    faults("disk, tiny file system")
    team.finish()


def test_a_daemon_whose_log_has_no_room_either_goes_on(tmp_path, faults):
    def played(stage):
        mounts.tmpfs(stage.base / "run", "size=256k")
        no_room_for_the_log(stage, random.Random(1), faults)

    on(tmp_path / "s", played, "size=3m")
