"""One home, several daemons: who may execute a run, with which key, after whose death; and homes that are not well."""

import contextlib
import fcntl
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from orchestrator.base.platform import process_facts
from orchestrator.spawn import database_upgrade, ddl, transitions
from tests.fakes.openrouter import Fake
from tests.support import mounts, spawn_stage, spawns
from tests.support.spawn_stage import KEY, code_of, create, ended, result, run, status, tool
from tests.support.spawns import in_home, old_home
from tests.support.stage import alive, tree, until

OTHER = "sk-or-v1-ffffffffffffffffffffffffffffffff"
ONE = {"times": 1, "per": "all"}
TOOLS = {
    "run_create": {"task": "Say it.", "mode": "single"},
    "run_list": {},
    "run_status": {"run_id": "done"},
    "run_result": {"run_id": "done"},
    "run_cancel": {"run_id": "done"},
    "artifact_get": {"run_id": "done", "node_id": "merged"},
}


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


@pytest.fixture(scope="module")
def neighbour(own_world, shared_stage):
    """A second project, for those tests that need its daemon for a while."""
    from tests.conftest import _new, close_all

    one = spawn_stage.of_one_user(_new(own_world, "", "project"), shared_stage)
    yield one
    close_all([one])


@pytest.fixture
def beside(neighbour, tmp_path, fake):
    """The same home, seen from another project."""
    return spawn_stage.Scene(neighbour, tmp_path, fake)


def row(scene, run_id):
    return scene.rows("SELECT * FROM runs WHERE id = ?", run_id)[0]


def attempts(scene, run_id):
    return scene.rows("SELECT * FROM attempts WHERE run_id = ? ORDER BY attempt", run_id)


def takeovers(scene, run_id):
    return scene.rows("SELECT * FROM events WHERE run_id = ? AND message LIKE 'taken over%'", run_id)


@contextlib.contextmanager
def changing(scene):
    """The home's database, to be written as the daemons write it: alone."""
    with (scene.home / "db.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        con = sqlite3.connect(scene.home / "db.sqlite")
        try:
            with con:
                yield con
        finally:
            con.close()


def orphaned(scene, **more):
    """A run whose call is in flight, whose client has gone, and whose daemon was killed."""
    scene.fake.rule(hold="gate", **ONE)
    wire = scene.connect(**more)
    run_id = create(wire)
    until(lambda: scene.fake.waiting("gate"))
    wire.vanish()
    scene.stage.kill_daemon()
    return run_id


# -- waiting for a key ------------------------------------------------------------------------------------------


def waits(wire, run_id):
    found = until(lambda: one if (one := status(wire, run_id)).get("waiting_for_key") else None)
    assert found["last_event"] == "waiting for key"
    return found


@pytest.mark.parametrize("other", ["", OTHER], ids=["no key", "another key"])
def test_without_its_key_a_run_waits_and_its_clock_stands_and_it_takes_no_place(scene, fake, other):
    run_id = orphaned(scene, MAX_PARALLEL_RUNS="1")
    wire = scene.connect(OPENROUTER_API_KEY=other)
    found = waits(wire, run_id)
    assert found["status"] == "running"
    # The run of somebody else gets the one place, also behind it in the line.
    assert run(scene.connect(OPENROUTER_API_KEY=OTHER, MAX_PARALLEL_RUNS="1"))["status"] == "completed"
    again = status(wire, run_id)
    assert again == found
    assert len(fake.calls(key=KEY)) == 1
    assert row(scene, run_id)["active"] == 0
    said = scene.rows("SELECT * FROM events WHERE run_id = ? AND message = 'waiting for key'", run_id)
    assert len(said) == 1
    # Its own key, by whichever connection, is enough: nobody has to ask for it.
    scene.connect()
    assert ended(wire, run_id)["status"] == "completed"
    assert [one.key for one in fake.calls()].count(KEY) == 2
    assert [one["state"] for one in attempts(scene, run_id)] == ["lost", "done"]


def test_a_run_that_waits_goes_on_when_its_key_is_put_into_the_home(scene, fake):
    run_id = orphaned(scene)
    wire = scene.connect(OPENROUTER_API_KEY="")
    waits(wire, run_id)
    put(scene, KEY)
    assert ended(wire, run_id)["status"] == "completed"
    assert [one.key for one in fake.calls()] == [KEY, KEY]


def put(scene, key, mode=0o600):
    half = scene.home / "half"
    half.write_text(f"{key}\n")
    half.chmod(mode)
    half.rename(scene.home / "openrouter.key")


@pytest.mark.parametrize(
    "content",
    [pytest.param(KEY, id="for all to read"), pytest.param("two words", id="no key", marks=pytest.mark.slow)],
)
def test_a_key_file_that_may_not_be_used_holds_up_nobody_who_needs_none(scene, fake, content):
    run_id = orphaned(scene)
    scene.home.joinpath("openrouter.key").touch()
    put(scene, content, 0o644 if content == KEY else 0o600)
    wire = scene.connect(OPENROUTER_API_KEY=OTHER)
    assert run(wire)["status"] == "completed"
    waits(wire, run_id)
    put(scene, KEY)
    assert ended(wire, run_id)["status"] == "completed"


def test_a_waiting_run_can_be_canceled_and_what_it_had_in_flight_counts(scene, fake):
    run_id = orphaned(scene)
    wire = scene.connect(OPENROUTER_API_KEY="")
    waits(wire, run_id)
    assert tool(wire, "run_cancel", run_id=run_id) == {"status": "canceled"}
    found = status(wire, run_id)
    (attempt,) = attempts(scene, run_id)
    assert (found["status"], attempt["state"]) == ("canceled", "lost")
    assert found["cost"]["usd"] == 0
    assert found["cost"]["maybe_charged_usd"] == pytest.approx(float(attempt["reserved"]))


def test_an_old_run_and_its_key_go_only_to_the_server_it_was_created_for(scene, fake):
    run_id = orphaned(scene)
    with Fake() as other:
        wire = scene.connect(OPENROUTER_BASE_URL=other.url, MAX_COMPLETION_TOKENS="9")
        assert ended(wire, run_id)["status"] == "completed"
        assert other.requests == []
    assert [call.body["max_tokens"] for call in fake.calls()] == [4096, 4096]


# -- two daemons ------------------------------------------------------------------------------------------------


def test_the_daemon_of_another_project_takes_over_what_a_dead_one_left(scene, beside, fake):
    fake.rule(hold="gate", **ONE)
    wire = scene.connect(MAX_PARALLEL_RUNS="1")
    ids = [create(wire, f"Task {at}.") for at in range(3)]
    until(lambda: fake.waiting("gate"))
    other = beside.connect()
    call = other.start("smartspawn_run_result", {"run_id": ids[0], "wait_ms": spawn_stage.WAIT_MS})
    assert status(other, ids[0])["status"] == "running"
    wire.vanish()
    scene.stage.kill_daemon()
    assert other.outcome(other.answer(call))["status"] == "completed"
    for run_id in ids:
        found = ended(other, run_id)
        assert found["status"] == "completed"
        assert found["nodes"][0]["reruns"] == (run_id == ids[0])
        assert len(takeovers(scene, run_id)) == 1
    assert len(fake.calls()) == 4


def test_of_two_daemons_that_find_a_dead_one_only_one_takes_each_of_its_runs(scene, beside, make_stage, fake):
    third = spawn_stage.Scene(spawn_stage.of_one_user(make_stage(), scene.stage), scene.home.parent, fake)
    fake.rule(hold="gate", times=6, per="all")
    wire = scene.connect(MAX_PARALLEL_RUNS="6")
    ids = [create(wire, f"Task {at}.") for at in range(6)]
    until(lambda: fake.waiting("gate") == 6)
    rivals = [beside.connect(), third.connect()]
    for one in rivals:
        assert len(tool(one, "run_list")["runs"]) == 6
    wire.vanish()
    scene.stage.kill_daemon()
    for run_id in ids:
        assert ended(rivals[0], run_id)["status"] == "completed"
        assert len(takeovers(scene, run_id)) == 1
        assert [one["state"] for one in attempts(scene, run_id)] == ["lost", "done"]
    assert len(fake.calls()) == 12
    left = scene.rows("SELECT * FROM events WHERE message = 'left by its daemon'")
    assert len(left) == 6


def test_a_daemon_that_stands_still_is_not_dead(scene, beside, fake):
    fake.rule(hold="gate", **ONE)
    wire = scene.connect()
    run_id = create(wire)
    until(lambda: fake.waiting("gate"))
    before = row(scene, run_id)
    with standing(scene.stage):
        # A round of the line that begins the new run has looked at the old one first.
        assert run(beside.connect())["status"] == "completed"
        assert row(scene, run_id) == before
    fake.release("gate")
    assert ended(wire, run_id)["nodes"][0]["reruns"] == 0
    assert takeovers(scene, run_id) == []


@contextlib.contextmanager
def standing(stage):
    """The stage's daemon does nothing meanwhile."""
    pid = stage.daemon()
    os.kill(pid, signal.SIGSTOP)
    stage.stopped.append(pid)
    try:
        yield pid
    finally:
        stage.let_go()


def test_a_daemon_whose_run_was_taken_from_it_changes_nothing_and_its_call_still_counts(scene, beside, fake):
    fake.rule(hold="gate", answer="The old daemon's answer.", **ONE)
    wire = scene.connect()
    run_id = create(wire)
    until(lambda: fake.waiting("gate"))
    with standing(scene.stage):
        with changing(scene) as con:
            con.execute(
                "UPDATE runs SET owner_host = NULL, owner_boot_id = NULL, owner_pid = NULL, owner_start = NULL, "
                "active = 0, token = token + 1 WHERE id = ?",
                (run_id,),
            )
        other = beside.connect()
        found = ended(other, run_id)
        assert found["status"] == "completed"
        kept = tree(scene.home / "artifacts")
        told = scene.rows("SELECT * FROM events WHERE run_id = ?", run_id)
    log = scene.stage.run_dir() / "log"
    size = log.stat().st_size
    fake.release("gate")
    until(lambda: "taken over by another daemon" in log.read_bytes()[size:].decode(errors="replace"))
    assert tree(scene.home / "artifacts") == kept
    assert scene.rows("SELECT * FROM events WHERE run_id = ?", run_id) == told
    node_id = found["nodes"][0]["node_id"]
    assert "old daemon" not in tool(other, "artifact_get", run_id=run_id, node_id=node_id)["content"]
    # What it asked may be paid: the reservation of its attempt is shown apart, the other's cost besides.
    lost, done = attempts(scene, run_id)
    assert (lost["state"], done["state"]) == ("lost", "done")
    cost = status(wire, run_id)["cost"]
    assert cost["usd"] == pytest.approx(float(done["cost"]))
    assert cost["maybe_charged_usd"] == pytest.approx(float(lost["reserved"]))
    assert sum(call.cost for call in fake.calls()) <= scene.spent(run_id)


def test_a_run_of_another_machines_daemon_is_left_alone(scene, fake):
    run_id = orphaned(scene)
    with changing(scene) as con:
        con.execute("UPDATE runs SET owner_host = 'elsewhere' WHERE id = ?", (run_id,))
    before = row(scene, run_id)
    wire = scene.connect()
    assert run(wire)["status"] == "completed"
    assert row(scene, run_id) == before
    assert tool(wire, "run_cancel", run_id=run_id) == {"status": "canceling"}


def test_a_run_of_another_machines_daemon_goes_on_here_once_it_was_quiet_for_longer_than_a_run_takes(scene, fake):
    run_id = orphaned(scene)
    with changing(scene) as con:
        long_ago = "2026-01-01T00:00:00.000Z"
        con.execute("UPDATE runs SET owner_host = 'elsewhere', updated_at = ? WHERE id = ?", (long_ago, run_id))
    assert ended(scene.connect(), run_id)["status"] == "completed"
    assert len(takeovers(scene, run_id)) == 1


@pytest.mark.parametrize("what", ["a reboot", "a process of the same number"])
def test_an_owner_that_only_looks_alive_is_dead(scene, fake, what):
    run_id = orphaned(scene)
    start = process_facts.start_time(os.getpid())
    boot, start = ("another", start) if what == "a reboot" else (process_facts.boot_id(), start + 1)
    with changing(scene) as con:
        con.execute(
            "UPDATE runs SET owner_boot_id = ?, owner_pid = ?, owner_start = ? WHERE id = ?",
            (boot, os.getpid(), start, run_id),
        )
    assert ended(scene.connect(), run_id)["status"] == "completed"
    assert len(takeovers(scene, run_id)) == 1


# -- homes of other versions, and homes that are not well -------------------------------------------------------


def test_a_home_of_the_original_tool_is_read_and_used(scene, fake):
    old_home(scene.home)
    before = tree(scene.home)
    wire = scene.connect()
    wire.ask("tools/list")
    assert tree(scene.home) == before  # nobody has asked for it yet
    listed = {one["run_id"]: one for one in tool(wire, "run_list")["runs"]}
    assert {name: one["status"] for name, one in listed.items()} == {
        "done": "completed", "going": "failed", "waiting": "failed", "stopped": "canceled",
    }  # fmt: skip
    for name in ("going", "waiting"):
        assert status(wire, name)["failure"] == database_upgrade.INTERRUPTED
        assert result(wire, name)["failure"] == database_upgrade.INTERRUPTED
    found = status(wire, "done")
    assert found["progress"]["done_nodes"] == 3
    assert found["cost"]["usd"] == pytest.approx(0.00021)
    answer = result(wire, "done", include_raw=True)
    assert answer["merged_output"] == "# Merged Output\n\nyes"
    assert answer["raw_outputs"] == [{"node_id": "one", "output": "é", "truncated": False}]
    for node_id in ("one", "done:one"):
        assert tool(wire, "artifact_get", run_id="done", node_id=node_id)["content"] == '{"output": "é"}'
    assert code_of(tool(wire, "run_cancel", run_id="going")) == "spawn_run_finished"
    assert wire.ask("resources/read", {"uri": "smartspawn://run/done/events"})["result"]["contents"]
    assert len([one for one in scene.home.iterdir() if "backup-0.1.0" in one.name]) == 1
    assert run(wire)["status"] == "completed"
    assert len(tool(wire, "run_list")["runs"]) == 5


def refused(wire, code):
    """Every tool says what is wrong with the home, and health says it in words."""
    for name, arguments in TOOLS.items():
        answer = tool(wire, name, **arguments)
        assert code_of(answer) == code, (name, answer)
        assert answer["error"]["next_step"]
    health = tool(wire, "health")
    assert health["db_writable"] is health["worker_alive"] is False
    assert health["reasons"]["db_writable"]


def test_a_home_of_a_newer_version_is_refused_by_every_tool_and_left_as_it_is(scene, fake):
    in_home(scene.home, lambda db: db.write(transitions.create, spawns.row("done"), spawns.AT))
    with changing(scene) as con:
        con.execute(f"PRAGMA user_version = {ddl.VERSION + 1}")
    (scene.home / "artifacts").mkdir(mode=0o700)
    before = tree(scene.home)
    refused(scene.connect(), "home_newer")
    assert tree(scene.home) == before


@pytest.mark.parametrize(
    "content", [b"no database, but long enough for one" * 99, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_home_whose_database_is_none_is_refused_and_kept_until_it_is_put_away(scene, fake, content):
    scene.home.mkdir(mode=0o700)
    (scene.home / "db.sqlite").write_bytes(content)
    wire = scene.connect()
    refused(wire, "corrupt_home")
    assert (scene.home / "db.sqlite").read_bytes() == content
    (scene.home / "db.sqlite").rename(scene.home / "away")
    assert run(wire)["status"] == "completed"


@pytest.mark.parametrize("where", [".", "below"])
def test_a_home_that_cannot_be_made_is_told_and_used_once_it_can(scene, fake, where):
    scene.home.write_text("a file")
    wire = scene.connect(SMART_SPAWN_MCP_HOME=str(scene.home / where))
    refused(wire, "home_unusable")
    assert scene.home.read_text() == "a file"
    scene.home.unlink()
    assert run(wire)["status"] == "completed"


def test_asking_for_a_broken_home_again_and_again_leaves_nothing_running_in_the_daemon(scene, fake):
    scene.home.write_text("a file")
    wire = scene.connect()
    tool(wire, "run_list")
    place = Path(f"/proc/{scene.stage.daemon()}/task")
    before = len(list(place.iterdir()))
    for _ in range(20):
        assert code_of(tool(wire, "run_list")) == "home_unusable"
    until(lambda: len(list(place.iterdir())) < before + 10)  # a young daemon begins a few threads of its own later


@pytest.mark.parametrize("how", ["gone", "garbage", pytest.param("a file", marks=pytest.mark.slow)])
def test_a_daemon_whose_home_is_harmed_while_it_works_says_so_and_ends_in_good_order(stage, tmp_path, fake, how):
    scene = spawn_stage.Scene(stage, tmp_path, fake)
    fake.rule(hold="gate", **ONE)
    wire = scene.connect()
    create(wire)
    until(lambda: fake.waiting("gate"))
    with standing(stage):  # its queue looks every second, and makes a home that is just gone
        scene.home.rename(tmp_path / "away")
        if how == "a file":
            scene.home.write_text("a file")
        elif how == "garbage":
            scene.home.mkdir(mode=0o700)
            (scene.home / "db.sqlite").write_bytes(b"garbage" * 999)
    answer = tool(wire, "run_list")
    if how == "gone":
        assert answer == {"runs": []}
    else:
        assert code_of(answer) == ("home_unusable" if how == "a file" else "corrupt_home")
    wire.vanish()
    stage.stop_daemon()
    assert (stage.run_dir() / "clean").exists()
    assert "Traceback" not in (stage.run_dir() / "log").read_text()


@pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "-")
@pytest.mark.parametrize("told", ["an artifact cannot be written", "a spawn run cannot be written down"])
def test_a_run_whose_disk_is_full_goes_on_once_there_is_room_and_pays_nothing_twice(make_stage, tmp_path, fake, told):
    def body():
        place = tmp_path / "small"
        mounts.tmpfs(place, "size=2m")
        if "artifact" not in told:  # those have room enough
            mounts.tmpfs(place / "spawn-home" / "artifacts", "size=2m")
            (place / "spawn-home").chmod(0o700)
        scene = spawn_stage.Scene(make_stage(), place, fake)
        fake.rule(hold="gate", times=3, per="all")
        wire = scene.connect(MAX_PARALLEL_RUNS="2")
        ids = [create(wire, "Say it.", "collective", collectiveCount=2), create(wire)]
        until(lambda: fake.waiting("gate") == 3)
        filler = mounts.fill(place)
        fake.release("gate")
        log = scene.stage.run_dir() / "log"
        # A database that is closed gives room back, which somebody else uses up at once.
        until(lambda: mounts.fill(place) and log.read_text().count(told) >= 6)
        mounts.fill(place)
        answer = tool(wire, "run_create", task="No room.", mode="single")
        assert code_of(answer) == "disk_full"
        mounts.fill(place)
        health = tool(wire, "health")  # what it tries may make room, so it may also say that all is well
        assert health["openrouter_configured"]
        filler.unlink()
        for run_id in ids:
            assert ended(wire, run_id)["status"] == "completed"
            assert {one["state"] for one in attempts(scene, run_id)} == {"done"}
        assert len(fake.calls()) == 4
        assert scene.spent(ids[0]) + scene.spent(ids[1]) == pytest.approx(fake.charged())
        assert len(tool(wire, "run_list")["runs"]) == 2
        assert run(wire)["status"] == "completed"
        assert "Traceback" not in log.read_text()

    mounts.apart(body)


# -- idleness ---------------------------------------------------------------------------------------------------

LONG_MS = 5000
"""Longer than the daemon's look at its idleness and the limit that these tests set."""


@pytest.fixture
def brief(make_stage, shared_stage, tmp_path, fake):
    """A project whose daemon ends almost at once when nothing needs it."""
    stage = spawn_stage.of_one_user(make_stage("idle_exit_s = 0.2\n"), shared_stage)
    return spawn_stage.Scene(stage, tmp_path, fake)


def test_a_daemon_does_not_go_while_a_run_of_its_own_is_at_work_or_in_line(brief, beside, fake):
    fake.rule(hold="gate", **ONE)
    other = beside.connect(MAX_PARALLEL_RUNS="1")
    first = create(other)
    until(lambda: fake.waiting("gate"))
    wire = brief.connect(MAX_PARALLEL_RUNS="1")
    run_id = create(wire)  # waits for the place
    pid = brief.stage.daemon()
    wire.close()
    fake.rule(delay_ms=LONG_MS, **ONE)
    assert run(beside.connect(MAX_PARALLEL_RUNS="3"))["status"] == "completed"
    assert row(brief, run_id)["status"] == "queued"
    assert alive(pid)
    fake.forget()
    fake.rule(delay_ms=LONG_MS)
    fake.release("gate")
    until(lambda: row(brief, run_id)["status"] == "completed")
    assert takeovers(brief, run_id) == []
    until(lambda: not alive(pid))
    assert ended(other, first)["status"] == "completed"


def test_a_daemon_whose_runs_all_wait_for_a_key_may_go(brief, fake):
    run_id = orphaned(brief)
    wire = brief.connect(OPENROUTER_API_KEY="")
    waits(wire, run_id)
    pid = brief.stage.daemon()
    wire.close()
    until(lambda: not alive(pid))
    assert waits(brief.connect(OPENROUTER_API_KEY=""), run_id)


def test_who_has_no_spawn_runs_gets_no_home_for_them(stage):
    stage.begun().tool("agent_list")
    wire = stage.begun({**stage.env, "OPENROUTER_API_KEY": KEY}, "--toolsets", "team,squad,smartspawn")
    wire.ask("tools/list")
    wire.ask("resources/templates/list")
    assert not (stage.home / ".smart-spawn-mcp").exists()
    assert tool(wire, "run_list") == {"runs": []}
    assert (stage.home / ".smart-spawn-mcp" / "db.sqlite").exists()
