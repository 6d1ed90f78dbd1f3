"""Each fault of the model API, each mode, kill -9 at each step of a run: it ends, and nothing is paid twice."""

import itertools
import sqlite3
from decimal import Decimal

import pytest

from tests.crash.spawn_lives import Nursery
from tests.fakes.openrouter import Fake
from tests.support.spawn_stage import ENDED, KEY

STEPS = (
    "spawn:begun", "spawn:loaded", "spawn:planned", "spawn:laid", "spawn:claimed", "spawn:answered", "spawn:stored",
    "spawn:settled", "spawn:uncalled", "spawn:merged", "spawn:finished",
)  # fmt: skip
MODES = {
    "single": "Say what tea is.",
    "collective": "Say what tea is.",
    "cascade": "Say what tea is.",
    "plan": "1. Collect facts.\n2. Then write them down.",
    "swarm": "1. Research tea\n2. Research coffee\n3. Write the documentation of both",
}
FAULTS = {
    "none": {},
    "rate limit": {"status": 429, "times": 1, "retry_after": 0},
    "server": {"status": 503, "times": 1},
    "refused": {"status": 403, "times": 1},
    "in the body": {"error": 502, "where": "body", "times": 1},
    "in the stream": {"error": 502, "where": "event", "times": 1},
    "dropped": {"drop": True, "at": "mid", "times": 1},
    "empty": {"answer": "", "times": 1},
    "odd price": {"cost": -1},
    "no usage": {"usage": None},
    "short": {"answer": "No.", "on": "task"},
    "always down": {"status": 500},
}


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as one:
        yield one


class Case:
    """One run in its own home, lived through by one process after the other."""

    def __init__(self, nursery, fake, base, mode, **env):
        self.nursery, self.fake, self.base, self.mode = nursery, fake, base, mode
        self.home = base / "home"
        self.env = {
            "OPENROUTER_API_KEY": KEY, "OPENROUTER_BASE_URL": fake.url, "SMART_SPAWN_API_URL": "off",
            "SMART_SPAWN_MCP_HOME": str(self.home), "CASCADE_EVALUATOR_MODEL": "openai/gpt-4o-mini", **env,
        }  # fmt: skip

    def live(self, kill=None):
        """A life of the run, the first of which creates it."""
        order = {"env": self.env, "project": str(self.base), "kill": kill}
        if self.rows("SELECT id FROM runs"):
            return self.nursery.live(**order, run_id=self.rows("SELECT id FROM runs")[0]["id"])
        return self.nursery.live(**order, asked={"task": MODES[self.mode], "mode": self.mode})

    def rows(self, query):
        file = self.home / "db.sqlite"
        if not file.exists():
            return []
        con = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        con.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in con.execute(query)]
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error), error
            return []
        finally:
            con.close()

    def check(self, *, deaths):
        """What must hold of the home once the run has ended, however often its process was killed."""
        (run,) = self.rows("SELECT * FROM runs")
        assert run["status"] in ENDED
        assert run["owner_host"] is None
        nodes = self.rows("SELECT * FROM nodes")
        assert all(one["status"] in {"completed", "failed", "skipped", "canceled"} for one in nodes)
        attempts = self.rows("SELECT * FROM attempts")
        assert all(one["state"] in {"done", "failed", "lost", "canceled"} for one in attempts)
        calls = self.fake.calls()
        assert len(calls) <= len(attempts)  # each call was reserved first
        assert len(attempts) <= len(calls) + deaths * 4
        for node in nodes:
            node_id = node["id"].partition(":")[2]
            mine = [one for one in attempts if one["node_id"] == node_id]
            assert [one["attempt"] for one in mine] == list(range(1, len(mine) + 1))
            assert node["reruns"] <= 1
            assert sum(one["state"] == "done" for one in mine) == (node["status"] == "completed")
            assert not mine or mine[-1]["state"] == "done" or node["status"] != "completed"
            assert node["cost_usd"] == pytest.approx(float(sum(map(spent, mine))))
        told = [Decimal(one["cost"]) for one in attempts if one["cost_source"] == "usage"]
        charged = [call.cost for call in calls if call.how == "answered" and call.cost is not None]
        for cost in set(told):
            assert told.count(cost) <= sum(1 for one in charged if one == pytest.approx(cost))
        assert sum(map(spent, attempts)) <= Decimal(5)
        events = self.rows("SELECT seq FROM events ORDER BY seq")
        assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
        said = self.rows("SELECT message FROM events WHERE node_id IS NULL")
        finals = [one for one in said if one["message"].startswith(run["status"])]
        assert len(finals) == 1
        if run["status"] == "completed":
            assert (self.home / "artifacts" / run["id"] / "merged.md").read_text()
        assert not list(self.home.rglob("*.tmp"))
        return run


def spent(row):
    return Decimal(row["reserved"] if row["cost"] is None and row["cost_source"] == "reserved" else row["cost"] or 0)


def played(case, step, times):
    """A run whose process is killed at that step, and that the next one brings to its end."""
    first = case.live([step, times])
    deaths = "signal" in first
    if deaths:
        assert first["signal"] == 9
        second = case.live()
        assert second["answer"]["result"]["status"] in ENDED
    return deaths, case.check(deaths=deaths)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_a_run_ends_as_if_nothing_had_happened(nursery, fake, tmp_path, mode, step):
    case = Case(nursery, fake, tmp_path, mode)
    deaths, run = played(case, step, 1)
    assert run["status"] == "completed"
    reached = {"spawn:uncalled": mode == "cascade"}
    assert deaths == reached.get(step, True)
    calls = [call.digest for call in fake.calls()]
    again = len(calls) - len(set(calls))
    # what the dead process had in flight is asked once more; what it had stored, never
    assert again <= (case.rows("SELECT COUNT(*) AS n FROM attempts WHERE state = 'lost'")[0]["n"])
    if step in {"spawn:stored", "spawn:settled"} and mode in {"single", "plan"}:
        assert again == 0


PASSINGS = tuple(itertools.product(("spawn:claimed", "spawn:answered", "spawn:stored", "spawn:settled"), (1, 2)))
PAIRS = tuple(itertools.product([name for name in FAULTS if name != "none"], MODES))


def halved(pairs):
    """Every second pair; the others are for the soak. Each fault is there, and each mode."""
    return [pair if at % 2 == 0 else pytest.param(*pair, marks=pytest.mark.slow) for at, pair in enumerate(pairs)]


@pytest.mark.parametrize(("fault", "mode"), halved(PAIRS))
def test_each_fault_and_a_kill_in_the_middle_leave_a_defined_end_and_no_double_cost(nursery, tmp_path, fault, mode):
    # each pair meets one passing of a step, neighbours another one; the whole matrix is in the soak
    step, times = PASSINGS[PAIRS.index((fault, mode)) % len(PASSINGS)]
    with Fake() as fake:
        fake.rule(per="all", **FAULTS[fault])
        _, run = played(Case(nursery, fake, tmp_path, mode), step, times)
        if fault == "always down":
            assert run["status"] == "failed"
            assert "500" in run["error"]
        elif fault != "refused":
            assert run["status"] == "completed", run["error"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
def test_the_whole_matrix_with_a_kill_at_each_passing_of_each_step(nursery, tmp_path, mode, fault, step):
    for times in range(1, 12):
        base = tmp_path / str(times)
        base.mkdir()
        with Fake() as fake:
            fake.rule(per="all", **FAULTS[fault])
            deaths, _ = played(Case(nursery, fake, base, mode), step, times)
        if not deaths:
            break


@pytest.mark.parametrize("mode", ["single", "swarm"])
def test_a_node_that_is_in_flight_at_two_deaths_is_not_asked_a_third_time(nursery, fake, tmp_path, mode):
    case = Case(nursery, fake, tmp_path, mode, MAX_PARALLEL_NODES_PER_RUN="1")
    for _ in range(2):
        assert case.live(["spawn:answered", 1]) == {"signal": 9}
    case.live()
    run = case.check(deaths=2)
    assert run["status"] == "failed"
    assert "run again already" in run["error"]
    first = fake.calls()[0].digest
    assert [call.digest for call in fake.calls()].count(first) == 2
    lost = case.rows("SELECT * FROM attempts WHERE state = 'lost'")
    assert len(lost) == 2
    assert all(one["cost"] is None and Decimal(one["reserved"]) > 0 for one in lost)


def test_killed_again_and_again_a_swarm_still_ends(nursery, fake, tmp_path):
    case = Case(nursery, fake, tmp_path, "swarm", MAX_PARALLEL_NODES_PER_RUN="1")
    steps = (
        "begun", "planned", "laid", "loaded", "stored", "begun", "stored", "loaded", "settled", "merged", "finished",
    )  # fmt: skip
    for step in steps:
        assert case.live([f"spawn:{step}", 1]) == {"signal": 9}, step
    case.live()
    assert case.check(deaths=len(steps))["status"] == "completed"
    assert not case.rows("SELECT * FROM attempts WHERE state = 'lost'")
    assert len(fake.calls()) == 4
