"""The daemon killed with -9 at each step of a spawn run: its clients' open calls are answered by the next daemon."""

import asyncio

import pytest

from orchestrator.base import failpoints
from orchestrator.base.clock import SystemClock
from orchestrator.spawn.run_data import RunRequest
from orchestrator.spawn.runs import RunCreation, SpawnRuns
from tests.support import spawn_stage
from tests.support.spawn_stage import WAIT_MS, create, ended, status
from tests.support.stage import until

EARLY = ("spawn:begun", "spawn:laid", "spawn:claimed")
LATE = ("spawn:answered", "spawn:stored", "spawn:settled", "spawn:merged", "spawn:finished")
OFTEN = ("spawn:begun", "spawn:claimed", "spawn:answered", "spawn:settled", "spawn:finished")
"""In make test; test_spawn_matrix has every step, without clients."""
RERUN = {"spawn:claimed", "spawn:answered"}
"""At these an attempt is in flight, of which nobody knows whether it was paid."""


@pytest.fixture
def kills(shared_stage):
    """Where the stage's daemons look for the step to die at."""
    place = shared_stage.base / "kills"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture
def scene(shared_stage, kills, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake, **{failpoints.VARIABLE: f"*={kills}"})


def arm(kills, step):
    """The next daemon to pass the step dies there; what says whether one has."""
    half = kills / "half"
    half.write_text("self")
    half.rename(kills / step)
    return lambda: list(kills.glob(f"{step}.*"))


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in OFTEN else pytest.mark.slow) for step in EARLY + LATE]
)
def test_a_call_that_waits_for_a_run_is_answered_though_the_daemon_dies(scene, fake, kills, step):
    wire = scene.connect(MAX_PARALLEL_RUNS="1")
    fake.rule(hold=step, times=1, per="all")
    first = create(wire, "Say the first thing.")
    until(lambda: fake.waiting(step))
    # A step that comes before the model is asked is that of a run which waits behind the first one.
    waited = create(wire, "Say the second thing.") if step in EARLY else first
    call = wire.start("smartspawn_run_result", {"run_id": waited, "wait_ms": WAIT_MS})
    status(wire, waited)  # calls are begun in their order
    dead, pid = arm(kills, step), scene.stage.daemon()
    fake.release(step)
    answer = wire.outcome(wire.answer(call))
    assert dead()
    assert scene.stage.daemon() != pid
    assert (answer["run_id"], answer["status"]) == (waited, "completed")
    assert len(wire.answers(call)) == 1
    for run_id in {first, waited}:
        found = ended(wire, run_id)
        assert found["status"] == "completed"
        (row,) = found["nodes"]
        again = run_id == waited and step in RERUN
        assert row["reruns"] == again
        assert [one["state"] for one in attempts(scene, run_id)] == ["lost"] * again + ["done"]
    calls = [one.digest for one in fake.calls()]
    assert len(calls) - len(set(calls)) == (step == "spawn:answered")


def attempts(scene, run_id):
    return scene.rows("SELECT * FROM attempts WHERE run_id = ? ORDER BY attempt", run_id)


def test_what_a_dead_daemon_had_in_flight_counts_whole_and_its_second_run_besides(scene, fake, kills):
    wire = scene.connect()
    dead = arm(kills, "spawn:answered")
    found = ended(wire, create(wire))
    assert dead()
    lost, done = attempts(scene, found["run_id"])
    assert (lost["state"], lost["cost"], lost["cost_source"]) == ("lost", None, "reserved")
    assert (done["state"], done["cost_source"]) == ("done", "usage")
    assert found["cost"]["usd"] == pytest.approx(float(done["cost"]))
    assert found["cost"]["maybe_charged_usd"] == pytest.approx(float(lost["reserved"]))
    assert found["cost"]["sources"] == {"reserved": 1, "usage": 1}
    assert fake.calls()[0].cost <= scene.spent(found["run_id"])


def test_a_re_sent_create_makes_one_run(scene, fake, kills):
    wire = scene.connect()
    fake.rule(hold="gate")
    dead = arm(kills, "answer:smartspawn_run_create")
    answer = wire.tool("smartspawn_run_create", {"task": "Say it.", "mode": "single"})
    assert dead()
    assert answer["status"] == "queued"
    listed = wire.tool("smartspawn_run_list")["runs"]
    assert [one["run_id"] for one in listed] == [answer["run_id"]]
    assert listed[0]["created_at"] == answer["created_at"]
    fake.release("gate")
    assert ended(wire, answer["run_id"])["status"] == "completed"


def test_a_create_that_finds_its_run_made_keeps_nothing_for_another_id(tmp_path):
    kept = []
    env = {"SMART_SPAWN_MCP_HOME": str(tmp_path / "home"), "SMART_SPAWN_API_URL": "off"}
    asked = RunRequest(task="Say it.", mode="single", engines=("nobody",))

    async def play():
        runs = SpawnRuns(tmp_path, SystemClock(), {"engine": Nobody()}, lambda _run_id: None, kept.remove)
        request = RunCreation(asked, env, "req", kept.append)
        found = [(await runs.create(request))["run_id"] for _ in range(2)]
        assert found[0] == found[1]
        assert set(kept) == {found[0]}
        await runs.close()

    asyncio.run(play())


class Nobody:
    """A caller that never answers."""

    resumes = False

    async def call(self, _ask):
        await asyncio.Event().wait()


def test_calls_of_several_clients_and_a_subscription_outlive_the_daemon(scene, fake):
    fake.rule(hold="gate", times=1, per="all")
    one, two = scene.connect(), scene.connect()
    run_id = create(one)
    until(lambda: fake.waiting("gate"))
    uri = f"smartspawn://run/{run_id}/events"
    two.ask("resources/subscribe", {"uri": uri})
    calls = [
        (wire, wire.start("smartspawn_run_result", {"run_id": run_id, "wait_ms": WAIT_MS})) for wire in (one, two)
    ]
    for wire in (one, two):
        status(wire, run_id)
    scene.stage.kill_daemon()
    for wire, call in calls:
        assert wire.outcome(wire.answer(call))["status"] == "completed"
        assert len(wire.answers(call)) == 1
    until(lambda: [one for one in two.told("notifications/resources/updated") if one["params"]["uri"] == uri])


def test_a_cancel_that_the_daemon_dies_over_is_carried_out(scene, fake, kills):
    fake.rule(hang=True)
    wire = scene.connect()
    run_id = create(wire)
    until(lambda: fake.waiting("hang"))
    dead = arm(kills, "answer:smartspawn_run_cancel")
    answer = wire.tool("smartspawn_run_cancel", {"run_id": run_id})
    assert dead()
    # Sent again it finds the run canceled, being canceled, or ended by what it did the first time.
    assert answer.get("status") in {"canceling", "canceled"} or answer["error"]["code"] == "spawn_run_finished"
    found = ended(wire, run_id)
    assert found["status"] == "canceled"
    assert len(fake.calls()) == 1
    assert [one["state"] for one in attempts(scene, run_id)] in (["lost"], ["canceled"])


def test_a_daemon_that_is_stopped_in_good_order_hands_its_runs_on_and_pays_no_reservation_twice(scene, fake):
    fake.rule(hold="gate", times=1, per="all")
    wire = scene.connect()
    run_id = create(wire)
    until(lambda: fake.waiting("gate"))
    call = wire.start("smartspawn_run_result", {"run_id": run_id, "wait_ms": WAIT_MS})
    status(wire, run_id)
    pid = scene.stage.daemon()
    assert scene.stage.cli("daemon", "restart").returncode == 0
    assert wire.outcome(wire.answer(call))["status"] == "completed"
    assert scene.stage.daemon() != pid
    assert [one["state"] for one in attempts(scene, run_id)] == ["lost", "done"]
    assert status(wire, run_id)["nodes"][0]["reruns"] == 1
