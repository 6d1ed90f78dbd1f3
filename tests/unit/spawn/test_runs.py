"""The spawn runs of one process, without a daemon: what breaks around them, and what they make of it."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import Environment, OrchestratorError
from orchestrator.spawn import artifacts, home_location, local_planner
from orchestrator.spawn.recorded_runs import recorded_runs
from orchestrator.spawn.run_data import Fault, Reply, RequestedMerge, RunRequest
from orchestrator.spawn.runs import RunCreation, SpawnRuns

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef"
OTHER_KEY = "sk-or-v1-fedcba9876543210fedcba9876543210"
BOUND_S = 30.0


@dataclass
class Peer:
    """Answers nodes at once, or holds them until it is told to go on."""

    resumes: bool = False
    held: bool = False
    asks: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    at: list = field(default_factory=list)

    def __post_init__(self):
        self.go = asyncio.Event()
        self.came = asyncio.Event()

    async def call(self, ask):
        self.asks.append(ask)
        self.came.set()
        if self.held:
            await self.go.wait()
        if self.faults:
            return self.faults.pop(0)
        return Reply(f"{ask.node_id} says yes. " * 40, model=ask.model)


class Desk:
    """The runs of one test, with one connection's variables."""

    def __init__(self, base, clock, **env):
        self.home = base / "home"
        self.env = {"SMART_SPAWN_MCP_HOME": str(self.home), "SMART_SPAWN_API_URL": "off", **env}
        self.peer = Peer()
        self.ended = []
        self.runs = SpawnRuns(base, clock, {"engine": self.peer}, lambda _: None, self.ended.append)

    async def create(self, task="Say yes.", mode="single", *, env=None, made=lambda _: None, req="", **more):
        more = (
            more if "engines" in more or "OPENROUTER_API_KEY" in (env or self.env) else {"engines": ("one",), **more}
        )
        found = await self.runs.create(
            RunCreation(RunRequest(task=task, mode=mode, **more), env or self.env, req, made)
        )
        return found["run_id"]

    async def status(self, run_id, wait_s=0.0):
        return await self.runs.status(self.env, run_id, wait_s)

    async def result(self, run_id, wait_s=BOUND_S):
        return await self.runs.result(self.env, run_id, wait_s, include_raw=False, tell=lambda _: None)

    def rows(self, look, *args):
        return self.runs._homes[self.home].db.read(look, *args)


async def until(look):
    """Wait for a fact that nobody tells."""
    async with asyncio.timeout(BOUND_S):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def play(base, coroutine, clock=None, **env):
    """Run a test's coroutine function with a desk, and close that."""

    async def all_of_it():
        desk = Desk(base, clock or SystemClock(), **env)
        async with asyncio.timeout(BOUND_S * 2):
            try:
                return await coroutine(desk)
            finally:
                await desk.runs.close()

    return asyncio.run(all_of_it())


def model_env(fake, **more):
    return {"OPENROUTER_API_KEY": KEY, "OPENROUTER_BASE_URL": fake.url, **more}


# -- the home --------------------------------------------------------------------------------------------------------


def test_a_key_file_that_others_may_read_holds_up_no_run_but_those_that_wait_for_it(tmp_path, fake):
    async def leave(desk):
        fake.rule(hold="gate", per="all")
        await desk.create()
        await until(lambda: fake.waiting("gate"))

    play(tmp_path, leave, **model_env(fake))
    file = tmp_path / "home" / "openrouter.key"
    file.write_text(OTHER_KEY)
    file.chmod(0o644)

    async def go_on(desk):
        run_id = await desk.create(engines=("one",))
        return (await desk.result(run_id))["status"]

    assert play(tmp_path, go_on) == "completed"


def test_a_home_that_cannot_be_opened_leaves_no_thread_behind_however_often_it_is_tried(tmp_path):
    (tmp_path / "home").write_text("a file")

    async def try_again(desk):
        before = threading.active_count()
        for _ in range(20):
            with contextlib.suppress(OrchestratorError):
                await desk.runs.listed(desk.env, None, None)
        assert threading.active_count() <= before + 4  # those of the loop's own pool
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("spawn-db") == 0

    play(tmp_path, try_again)


def test_closing_raises_nothing_where_the_home_is_broken_meanwhile(tmp_path):
    async def broken(desk):
        desk.peer.held = True
        await desk.create()
        await desk.peer.came.wait()
        for path in desk.home.iterdir():
            if path.is_file():
                path.unlink()
        (desk.home / "db.sqlite").mkdir()

    play(tmp_path, broken)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["gone", "changed", "emptied"])
def test_an_answer_whose_file_is_not_what_was_written_is_never_merged(tmp_path, harm):
    async def harmed(desk):
        desk.peer.held = True
        run_id = await desk.create("1. Say yes\n2. Say no", "plan", engines=("one",))
        await desk.peer.came.wait()
        desk.peer.came.clear()
        desk.peer.go.set()
        desk.peer.go = asyncio.Event()
        await desk.peer.came.wait()
        file = desk.home / "artifacts" / run_id / "step-1.json"
        if harm == "gone":
            file.unlink()
        else:
            file.write_bytes(b"" if harm == "emptied" else file.read_bytes().replace(b"yes", b"no!"))
        desk.peer.go.set()
        return await desk.result(run_id), [ask.node_id for ask in desk.peer.asks]

    found, asked = play(tmp_path, harmed)
    assert found["status"] == "failed"
    assert "step-1.json" in found["failure"]
    assert "merged" not in asked


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_run_whose_files_cannot_be_written_ends_when_it_is_canceled_or_its_time_is_over(tmp_path, how):
    async def stuck(desk):
        desk.peer.held = True
        run_id = await desk.create()
        await desk.peer.came.wait()
        place = desk.home / "artifacts" / run_id
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        place.symlink_to(tmp_path)
        desk.peer.go.set()
        if how == "cancel":
            await desk.runs.cancel(desk.env, run_id)
        return await desk.result(run_id)

    more = {"RUN_TIMEOUT_SECONDS": "4"} if how == "timeout" else {}
    found = play(tmp_path, stuck, **more)
    assert found["status"] == ("canceled" if how == "cancel" else "failed")


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_run_whose_plan_cannot_be_written_ends_too(tmp_path, how):
    async def stuck(desk):
        await desk.runs.listed(desk.env, None, None)
        (desk.home / "artifacts").write_text("a file")
        run_id = await desk.create()
        while (await desk.status(run_id, 5))["status"] == "queued":
            pass
        if how == "cancel":
            await desk.runs.cancel(desk.env, run_id)
        return await desk.result(run_id)

    more = {"RUN_TIMEOUT_SECONDS": "1"} if how == "timeout" else {}
    found = play(tmp_path, stuck, **more)
    assert found["status"] == ("canceled" if how == "cancel" else "failed")


# -- servers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", ["1e-999999999999", "0.1" + "7" * 5000, "1e-40", "0e-999999999999"])
def test_a_cost_of_absurdly_many_digits_is_a_cost_like_any_other(tmp_path, fake, cost):
    usage = f'{{"prompt_tokens": 1, "completion_tokens": 1, "cost": {cost}}}'
    choice = '{"index": 0, "finish_reason": "stop", "message": {"content": "Yes, of course."}}'
    body = f'{{"id": "g", "model": "m/x", "choices": [{choice}], "usage": {usage}}}'
    fake.rule(path="/v1/chat/completions", body=body, content_type="application/json")

    async def charged(desk):
        return await desk.result(await desk.create())

    found = play(tmp_path, charged, **model_env(fake))
    assert found["status"] == "completed"
    assert 0 <= found["cost"]["usd_estimate"] < 0.2
    for file in (tmp_path / "home" / "artifacts").rglob("*"):
        assert not file.is_file() or file.stat().st_size < 10_000


def test_a_key_that_the_server_says_in_place_of_names_is_written_nowhere(tmp_path, fake):
    choice = f'{{"index": 0, "finish_reason": "{KEY}", "message": {{"content": "Yes, of course. {KEY}"}}}}'
    body = f'{{"id": "{KEY}", "model": "m/{KEY}", "choices": [{choice}]}}'
    fake.rule(path="/v1/chat/completions", body=body, content_type="application/json")

    async def told(desk):
        run_id = await desk.create()
        found = await desk.result(run_id)
        return str(found) + str(await desk.status(run_id)) + str(await desk.runs.events(desk.env, run_id, 0, None))

    assert KEY not in play(tmp_path, told, **model_env(fake))
    for file in (tmp_path / "home").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


def test_an_answer_that_a_filter_cut_off_is_marked_as_cut_off(tmp_path, fake):
    fake.rule(answer="Half of it, and then", finish="content_filter")

    async def cut_off(desk):
        run_id = await desk.create()
        return await desk.result(run_id), (await desk.status(run_id))["nodes"][0]

    found, node = play(tmp_path, cut_off, **model_env(fake))
    assert found["status"] == "completed"
    assert "cut off" in found["summary"]
    assert node["truncated"] is True


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks5://127.0.0.1:1"), ("SSL_CERT_FILE", "/no/such/file")]
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_told_as_what_they_are(
    tmp_path, fake, monkeypatch, name, value
):
    monkeypatch.setenv(name, value)

    async def failed(desk):
        health = await desk.runs.health(desk.env)
        return health, await desk.result(await desk.create())

    env = model_env(fake) | {"SMART_SPAWN_API_URL": fake.planner_url}
    health, found = play(tmp_path, failed, **env)
    assert health["worker_alive"] is True
    assert health["smart_spawn_api_reachable"] is False
    assert "environment" in health["reasons"]["smart_spawn_api_reachable"]
    assert found["status"] == "failed"
    assert "environment" in found["failure"]
    assert "bug" not in str(found)


@pytest.mark.parametrize("key", ["\udcff\udcfe", "clé", "two words", "k" * 5000])
def test_a_key_that_is_none_spoils_nothing_but_what_needs_one(tmp_path, key):
    async def asked(desk):
        env = {**desk.env, "OPENROUTER_API_KEY": key}
        assert (await desk.runs.listed(env, None, None)) == {"runs": []}
        assert "openrouter_configured" in (await desk.runs.health(env))["reasons"]
        with pytest.raises(OrchestratorError) as refused:
            await desk.create(env=env)
        assert refused.value.code == "key_unsafe"
        return await desk.result(await desk.create(env=env, engines=("one",)))

    assert play(tmp_path, asked)["status"] == "completed"


# -- many at once ----------------------------------------------------------------------------------------------------


def test_who_waits_for_a_run_in_the_queue_is_answered_when_it_is_canceled(tmp_path):
    async def canceled(desk):
        desk.peer.held = True
        for _ in range(2):  # the places there are
            await desk.create()
        await desk.peer.came.wait()
        run_id = await desk.create()
        result = asyncio.create_task(desk.result(run_id))
        status = asyncio.create_task(desk.status(run_id, BOUND_S))
        await asyncio.sleep(0)
        assert await desk.runs.cancel(desk.env, run_id) == {"status": "canceled"}
        async with asyncio.timeout(BOUND_S * 2 / 3):
            return (await result)["status"], (await status)["status"]

    assert play(tmp_path, canceled) == ("canceled", "canceled")


def test_a_round_writes_nothing_for_runs_that_have_no_place(tmp_path):
    async def rounds(desk):
        desk.peer.held = True
        for _ in range(12):
            await desk.create()
        await until(lambda: len(desk.peer.asks) == 2)  # those that have a place write nothing more
        home = desk.runs._homes[desk.home]
        await home.run_queue._look_at_runs()
        written, write = [], home.db.write
        home.db.write = lambda *args: written.append(args) or write(*args)
        await home.run_queue._look_at_runs()
        home.db.write = write
        assert home.run_queue.active == 12
        return written

    assert play(tmp_path, rounds) == []


def test_fifty_calls_that_wait_for_one_run_read_it_together(tmp_path):
    async def reads(desk):
        desk.peer.held = True
        run_id = await desk.create("\n".join(f"- say yes {at}" for at in range(20)), "swarm")
        await desk.peer.came.wait()
        home = desk.runs._homes[desk.home]
        calls = [asyncio.create_task(desk.result(run_id)) for _ in range(50)]
        await until(lambda: home._waiting == len(calls))
        looks, read, before = [], home.db.read, home.count(run_id)
        home.db.read = lambda fn, *args: looks.append(fn) or read(fn, *args)
        desk.peer.go.set()
        assert {(await call)["status"] for call in calls} == {"completed"}
        return [fn.__name__ for fn in looks].count("run_moment"), home.count(run_id) - before

    looked, changes = play(tmp_path, reads)
    assert 0 < looked <= changes


def test_long_texts_are_split_and_redacted_beside_the_event_loop(tmp_path, fake, monkeypatch):
    threads = []

    def noting(name, whole):
        def note(*args):
            threads.append((name, threading.current_thread() is threading.main_thread()))
            return whole(*args)

        return note

    monkeypatch.setattr(local_planner, "split", noting("split", local_planner.split))
    monkeypatch.setattr(artifacts, "redacted", noting("redacted", artifacts.redacted))

    async def run(desk):
        await desk.result(await desk.create("1. Say yes\n2. Say no", "swarm", engines=("one",)))

    play(tmp_path, run, REDACT_ARTIFACTS="true")
    assert {name for name, _ in threads} == {"split", "redacted"}
    assert not any(on_loop for _, on_loop in threads)


# -- time, and what else goes wrong in between ------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_neither_lengthens_nor_shortens_the_pause_before_another_attempt(tmp_path, hours):
    class Setting(SystemClock):
        offset = timedelta(0)
        ahead = 0.0

        def now(self):
            return super().now() + self.offset

        def monotonic(self):
            return super().monotonic() + self.ahead

    clock = Setting()

    async def paused(desk):
        desk.peer.faults = [Fault("503", "not now", retry=True, retry_after_s=20.0)]
        run_id = await desk.create()
        await until(lambda: len(desk.peer.asks) == 1 and not desk.peer.faults)
        while (await desk.status(run_id))["nodes"][0]["status"] != "retry_pending":
            pass
        clock.offset = timedelta(hours=hours)
        work = desk.runs._homes[desk.home].run_queue._runners[run_id]._state
        work.notify()
        await until(lambda: not work.news)  # the runner has looked, by the clock as it is now
        assert len(desk.peer.asks) == 1
        clock.ahead = 20.0
        work.notify()
        async with asyncio.timeout(BOUND_S / 2):
            return await desk.result(run_id)

    found = play(tmp_path, paused, clock)
    assert found["status"] == "completed"


def test_what_was_kept_for_a_run_that_was_made_before_is_forgotten(tmp_path):
    async def twice(desk):
        made = []
        first = await desk.create(req="one", made=made.append)
        assert await desk.create(req="one", made=made.append) == first
        await desk.result(first)
        return made, desk.ended

    made, ended = play(tmp_path, twice)
    assert len(set(made)) == 2
    assert set(made) <= set(ended)


def test_nothing_personal_of_the_task_stands_in_artifacts_that_are_redacted(tmp_path):
    async def run(desk):
        desk.peer.faults = [Fault("400", "no", retry=False) for _ in range(1)]
        found = await desk.result(await desk.create("Write to ada@example.org", "collective", engines=("one",)))
        return found["status"]

    assert play(tmp_path, run, REDACT_ARTIFACTS="true") == "completed"
    files = [file for file in (tmp_path / "home" / "artifacts").rglob("*") if file.is_file()]
    assert len(files) == 5
    for file in files:
        assert b"ada@example.org" not in file.read_bytes()


def test_who_waits_sees_what_another_daemon_writes_also_behind_an_error_of_the_disk(tmp_path):
    async def canceled(desk):
        desk.peer.held = True
        for _ in range(2):  # the places there are
            await desk.create()
        run_id = await desk.create()
        home = desk.runs._homes[desk.home]
        version, refused = home.db.data_version, []

        async def refuse():
            if len(refused) < 2:
                refused.append(1)
                raise Environment("io_failed", "the disk refuses")
            return await version()

        home.db.data_version = refuse
        result = asyncio.create_task(desk.result(run_id))
        await until(lambda: len(refused) == 2)
        other = SpawnRuns(tmp_path / "other", SystemClock(), {}, lambda _: None)
        await other.cancel(desk.env, run_id)
        async with asyncio.timeout(BOUND_S * 2 / 3):
            found = await result
        await other.close()
        return found["status"]

    assert play(tmp_path, canceled) == "canceled"


@pytest.mark.parametrize("path", ["/api/pick", "/v1/models"])
def test_a_run_that_is_canceled_while_it_is_planned_waits_for_no_planner(tmp_path, fake, path):
    fake.rule(path=path, hold="gate")

    async def canceled(desk):
        run_id = await desk.create()
        await until(lambda: fake.waiting("gate"))
        assert await desk.runs.cancel(desk.env, run_id) == {"status": "canceling"}
        found = await desk.result(run_id)
        return found["status"], (await desk.status(run_id))["nodes"]

    assert play(tmp_path, canceled, **model_env(fake) | {"SMART_SPAWN_API_URL": fake.planner_url}) == ("canceled", [])
    assert fake.calls() == []


# -- what people see -------------------------------------------------------------------------------------------------


def test_people_see_a_run_with_its_nodes_and_cost_while_it_goes_on_and_after_its_end(tmp_path):
    async def seen(desk):
        assert await desk.runs.people_rows() == []
        desk.peer.held = True
        run_id = await desk.create("1. Say yes\n2. Say no", "plan", engines=("one",))
        await desk.peer.came.wait()
        (running,) = await desk.runs.people_rows()
        desk.peer.held = False
        desk.peer.go.set()
        await desk.result(run_id)
        return running, *await desk.runs.people_rows()

    running, ended = play(tmp_path, seen)
    assert (running["kind"], running["status"], running["done"], running["wave"]) == ("spawn", "running", 0, 0)
    assert running["title"].startswith("1. Say yes")
    assert (ended["status"], ended["done"], ended["failed"]) == ("completed", ended["total"], 0)
    assert ended["needs_human"] is False


def test_a_merge_that_the_budget_does_not_pay_for_ends_the_run_with_its_answers_side_by_side(tmp_path, fake):
    fake.prices["dear/model"] = ("0", "0.01", "0")

    async def run(desk):
        models = ("openai/gpt-4o-mini",) * 3
        run_id = await desk.create(mode="collective", models=models, merge=RequestedMerge(model="dear/model"))
        return await desk.result(run_id), await desk.runs.events(desk.env, run_id, 0, None)

    answer, events = play(tmp_path, run, **model_env(fake, MAX_USD_PER_RUN="0.01"))
    assert (answer["status"], answer["summary"].partition(";")[0]) == ("completed", "partial: budget")
    assert answer["merged_output"].count("## collective-") == 3
    assert len(fake.calls()) == 3
    assert sum("MAX_USD_PER_RUN" in event["message"] for event in events) == 1


@pytest.mark.parametrize(
    ("error", "summary"), [("budget", "0 of 2 nodes answered"), (None, "partial: budget; 1 of 2")]
)
def test_people_see_that_a_run_has_ended_because_its_budget_was_used_up(tmp_path, error, summary):
    async def seen(desk):
        run_id = await desk.create("Say yes", engines=("one",))
        await desk.result(run_id)
        before = await desk.runs.people_rows()
        (home,) = desk.runs._homes.values()
        words = "UPDATE runs SET error = ?, summary = ? WHERE id = ?"
        await home.db.write(lambda con: con.execute(words, (error, summary, run_id)) and None)
        rows = *before, *await desk.runs.people_rows()
        assert home_location.has_work(home.path, desk.runs._project)
        assert not home_location.has_work(home.path, "/another/project")
        noted = [await desk.runs.dismiss_budget(run_id, who) for who in ("ada (cli)", "bob (top)")]
        assert not home_location.has_work(home.path, desk.runs._project)
        events = await desk.runs.events(desk.env, run_id, 0, None)
        env, now = {"SMART_SPAWN_MCP_HOME": str(home.path)}, SystemClock().now()
        (recorded,) = recorded_runs(env, desk.runs._project, "2000", "3000", now)
        assert (recorded["id"], recorded["done"], recorded["over_budget"]) == (run_id, rows[-1]["done"], True)
        assert recorded["began"] <= recorded["ended"] == recorded["since"]
        assert recorded_runs(env, "/another/project", "2000", "3000", now) == []
        assert recorded_runs(env, desk.runs._project, "2000", "2001", now) == []
        return *rows, *await desk.runs.people_rows(), noted, [event["message"] for event in events]

    before, after, dismissed, noted, messages = play(tmp_path, seen)
    assert (before["over_budget"], before["reason"]) == (False, "")
    assert after["over_budget"] and "budget" in after["reason"] and not after["dismissed"]
    assert dismissed == {**after, "dismissed": True}
    assert (noted, sum("ada (cli)" in said for said in messages)) == ([True, False], 1)
    assert "bob" not in "".join(messages)
