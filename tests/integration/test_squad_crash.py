"""The daemon killed with -9 at each step of a squad: nothing is spawned twice, nothing goes on, every member is answered."""

import json
import os
import signal
import subprocess

import pytest

from tests.support import sealed_files, squads
from tests.support.squads import calls, collect, connect, do, file_of, gone, role, start
from tests.support.stage import until

STEPS = ("prepared", "intended", "spawned", "recorded", "told", "ended")
KILLED = ("prepared", "intended", "spawned", "told")  # in make test; the others in make soak
ENDED = {"completed", "error", "timeout"}


@pytest.fixture
def scene(stage):
    role(stage)
    return stage


def armed(scene, step):
    """The variable by which the daemon kills itself at that step, once."""
    file = scene.base / "kill"
    file.write_text("self")
    return {"ORCHESTRATOR_KILL_AT": f"{step}={file}"}


def answered_once(scene, answer, count):
    """Every member has one end, was started once at most, and nothing of it runs."""
    rows = answer["members"]
    assert len(rows) == count
    assert {row["status"] for row in rows} <= ENDED
    for row in rows:
        started = [one for one in calls(scene) if one["member"] == row["memberId"]]
        assert len(started) <= 1
        if row["status"] == "completed":
            assert len(started) == 1
        else:
            assert (row["status"], row["reason"].split(":")[0]) == ("error", "interrupted")
            assert "interrupted" in row["rawStderr"]
    gone(scene)
    return [row["status"] for row in rows]


@pytest.mark.parametrize(
    "step",
    [pytest.param(f"squad:{step}", marks=[] if step in KILLED else pytest.mark.slow) for step in STEPS]
    + [pytest.param(f"answer:{squads.TOOL}", marks=pytest.mark.slow)],
)
def test_a_daemon_killed_at_a_step_of_a_squad_starts_no_member_twice(scene, step):
    wire = connect(scene, **armed(scene, step))
    answer = start(wire, do(say="a"), do(say="b"), do(say="c"))
    assert not (scene.base / "kill").exists(), "the step was passed"
    if step == "squad:prepared":
        # Nothing was promised yet: the same call made the squad anew.
        assert [row["status"] for row in answer["members"]] == ["completed"] * 3
        assert len(calls(scene)) == 3
    else:
        found = answered_once(scene, answer, 3)
        if step in ("squad:ended", f"answer:{squads.TOOL}"):
            assert found == ["completed"] * 3
    again = collect(connect(scene), answer["squadId"])
    assert again["members"] == answer["members"]
    assert file_of(scene, answer["squadId"])["ended_at"]


def test_members_that_outlive_a_killed_daemon_are_ended_and_said_to_be_interrupted(scene):
    wire = connect(scene, MAX_PARALLEL_MEMBERS="3")
    never = str(scene.base / "never")
    tasks = [
        do(say="done"),
        do(say="half", hold=never, deaf=True),
        do(hold=never, linger=["session", "scrubbed"]),
        do(),
    ]
    key = wire.start(squads.TOOL, {"members": [{"roleId": "coder", "task": one} for one in tasks[:3]]})
    until(lambda: len(calls(scene)) == 3 and len(squads.lingering(scene)) == 2)
    (squad_id,) = squads.squads_of(scene)
    until(
        lambda: [one["state"] for one in file_of(scene, squad_id)["members"]] == ["completed", "running", "running"]
    )
    until(lambda: (scene.root / ".agents/squads" / squad_id / "m1/stdout").read_bytes() == b"half")
    scene.kill_daemon()
    answer = wire.outcome(wire.answer(key))
    assert answer["squadId"] == squad_id
    assert answered_once(scene, answer, 3) == ["completed", "error", "error"]
    assert [row["rawStdout"] for row in answer["members"]] == ["done", "half", ""]


def test_a_killed_daemon_leaves_another_programs_process_of_the_same_number_alone(scene):
    """A squad's file names a process by pid, start time and boot; only all three together are the member."""
    wire = connect(scene)
    answer = start(wire, do(hold=str(scene.base / "never")), wait_ms=0)
    until(lambda: calls(scene))
    until(lambda: file_of(scene, answer["squadId"])["members"][0]["pid"])
    scene.kill_daemon()
    for pid in squads.members(scene):
        os.kill(pid, signal.SIGKILL)
    gone(scene)
    bystander = subprocess.Popen(["sleep", "1000"])
    path = scene.root / ".agents/squads" / answer["squadId"] / "squad.json"
    content = json.loads(path.read_text())
    content["members"][0]["pid"] = bystander.pid
    sealed_files.put(scene.env, scene.root, path, content, "squad", answer["squadId"])
    rows = collect(connect(scene), answer["squadId"])["members"]
    assert [row["reason"].split(":")[0] for row in rows] == ["interrupted"]
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_daemon_that_is_stopped_ends_its_members_and_says_so(scene):
    wire = connect(scene)
    key = wire.start(squads.TOOL, {"members": [{"roleId": "coder", "task": do(hold="/never")}] * 2})
    until(lambda: len(calls(scene)) == 2)
    done = scene.cli("daemon", "stop")
    assert done.returncode == 0, done.stderr
    gone(scene)
    (squad_id,) = squads.squads_of(scene)
    assert [one["state"] for one in file_of(scene, squad_id)["members"]] == ["error", "error"]
    scene.cli("daemon", "start")
    rows = wire.outcome(wire.answer(key))["members"]
    assert [row["reason"] for row in rows] == ["interrupted: the daemon was stopped"] * 2


def test_a_squads_file_that_cannot_be_read_hides_no_other_and_stops_no_daemon(scene):
    wire = connect(scene)
    good, bad = start(wire, do(say="x"))["squadId"], start(wire, do())["squadId"]
    (scene.root / ".agents/squads" / bad / "squad.json").write_text('{"v": 1}')
    scene.sound = False
    scene.kill_daemon()
    assert collect(wire, good)["members"][0]["rawStdout"] == "x"
    assert collect(wire, bad)["error"]["code"] == "unknown_squad"
