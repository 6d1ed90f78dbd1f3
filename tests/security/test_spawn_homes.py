"""Homes of spawn runs that a stranger has written: cloned, pulled, unpacked, copied. Nothing in them acts."""

import asyncio
import hashlib
import shutil
import socket
import sqlite3
import subprocess
from dataclasses import replace

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.spawn import ddl, home_location, run_adoption
from orchestrator.spawn.run_data import RunSettings
from orchestrator.trust import identity
from orchestrator.trust.state_dir import VARIABLE
from tests.security.strangers import commit, elsewhere, git
from tests.support import mounts, spawn_stage
from tests.support.spawn_stage import code_of, run, status, tool
from tests.support.spawns import opened, planted, row
from tests.support.stage import tree
from tests.unit.spawn.test_runs import play
from tests.unit.spawn.test_runs import until as until_async


def rows_of(home):
    """All that the database says, table by table."""
    with opened(home) as con:
        return {
            name: [tuple(one) for one in con.execute(f"SELECT * FROM {name}")]
            for name in sorted(ddl.tables(con))
            if name != "_health_probe"
        }


def run_of(home, run_id):
    with opened(home) as con:
        return tuple(con.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone())


# -- a daemon that a relay starts, without a tool call -----------------------------------------------------------


class Arrival:
    """A stranger's project with a home in it, and the ways it gets here."""

    def __init__(self, base, monkeypatch, project, fake):
        self.base = base
        self.origin = base / "theirs"
        self.home = self.origin / "home"
        self.origin.mkdir()
        hostile = RunSettings(base_url=f"{fake.url}/stolen", planner_url=fake.planner_url, max_parallel_runs=1)
        dead = {"host": socket.gethostname(), "boot_id": "another", "pid": 4194300, "start": 1}
        with elsewhere(monkeypatch, base):
            planted(
                self.home,
                *(
                    replace(row(name, settings=hostile, mode="plan", task="1. Say a\n2. Say b", **asked), project=project)
                    for name, asked in {
                        "engine": {"engines": ("claude",)}, "agent": {"agents": ("builder",)}, "model": {},
                        "canceled": {"engines": ("claude",)}, "orphan": {"engines": ("claude",)},
                    }.items()
                ),
            )  # fmt: skip
        with opened(self.home) as con:
            con.execute("UPDATE runs SET cancel_requested = 1 WHERE id = 'canceled'")
            con.execute(
                "UPDATE runs SET owner_host = :host, owner_boot_id = :boot_id, owner_pid = :pid, owner_start = :start, "
                "status = 'running', active = 1 WHERE id = 'orphan'",
                dead,
            )
        place = self.home / "artifacts" / "engine"
        place.mkdir(parents=True)
        (place / ".half.tmp").write_text("half")
        git(self.origin, "init", "-q")
        commit(self.origin)

    def arrived(self, how, into):
        """The home, come into the directory."""
        if how == "clone":
            git(self.base, "clone", "-q", str(self.origin), str(into / "repo"))
        elif how == "tar":
            subprocess.run(["tar", "-C", str(self.base), "-cf", str(self.base / "a.tar"), "theirs"], check=True)
            (into / "repo").mkdir()
            subprocess.run(
                ["tar", "-C", str(into / "repo"), "--strip-components=1", "-xf", str(self.base / "a.tar")], check=True
            )
        else:
            subprocess.run(["cp", "-r", str(self.origin), str(into / "repo")], check=True)
        return into / "repo" / "home"


@pytest.mark.parametrize("how", ["clone", "tar", "cp"])
def test_a_strangers_home_does_nothing_when_a_client_starts_and_can_be_read(stage, tmp_path, fake, monkeypatch, how):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text(f"#!/bin/sh\necho >> {tmp_path}/started\n")
    (programs / "claude").chmod(0o755)
    scene = spawn_stage.Scene(stage, tmp_path, fake, PATH=f"{programs}:{stage.env['PATH']}")
    arrival = Arrival(tmp_path, monkeypatch, str(stage.root), fake)
    home = arrival.arrived(how, stage.root)
    before = tree(home)
    # The daemon itself has the home in its environment, and a connection names it; nobody calls a tool.
    wire = scene.connect(SMART_SPAWN_MCP_HOME=str(home))
    # A run in a home of the user's own goes its whole way meanwhile, by the same daemon.
    assert run(scene.connect())["status"] == "completed"
    assert tree(home) == before

    listed = {one["run_id"]: one for one in tool(wire, "run_list")["runs"]}
    assert len(listed) == 5
    assert all(one["foreign"] for one in listed.values())
    stored = rows_of(home)
    for run_id in listed:
        found = status(wire, run_id)
        assert found["foreign"]
        assert "not of this machine" in found["failure"]
        assert tool(wire, "run_result", run_id=run_id)["foreign"]
        assert code_of(tool(wire, "run_cancel", run_id=run_id)) == "foreign_data"
    # A run of this machine in the same home gets its place, though another has it by what the rows say.
    assert run(scene.connect(SMART_SPAWN_MCP_HOME=str(home), MAX_PARALLEL_RUNS="1"))["status"] == "completed"
    for name in ("runs", "nodes", "attempts", "events"):
        assert stored[name] == [one for one in rows_of(home)[name] if "canceled" in one or one in stored[name]], name
    assert (home / "artifacts" / "engine" / ".half.tmp").exists()
    assert not (tmp_path / "started").exists()
    assert not [call for call in fake.calls() if "stolen" in call.path]


# -- what comes over a home of this machine ----------------------------------------------------------------------


class Shared:
    """A repository with a home in it that the user's own runs are in, and a stranger who may push to it."""

    def __init__(self, base):
        self.base = base
        self.ours, self.bare, self.theirs = base / "ours", base / "bare", base / "theirs"
        self.ours.mkdir()
        git(self.ours, "init", "-q", "-b", "main")

    @property
    def home(self):
        return self.ours / "home"

    def pushed(self):
        """All that is here, the database too, lies where the stranger finds it."""
        git(self.base, "init", "-q", "--bare", "-b", "main", str(self.bare))
        commit(self.ours)
        git(self.ours, "push", "-q", str(self.bare), "main")
        git(self.base, "clone", "-q", str(self.bare), str(self.theirs))

    def pull(self):
        """What the stranger has changed comes over ours."""
        commit(self.theirs)
        git(self.theirs, "push", "-q", "origin", "main")
        git(self.ours, "pull", "-q", str(self.bare), "main")


@pytest.fixture
def shared(tmp_path):
    return Shared(tmp_path)


async def left_in_the_middle(desk):
    """A run whose first step has been answered, and whose second one was in flight as its daemon ended."""
    desk.peer.held = True
    run_id = await desk.create("1. Say yes\n2. Say no", "plan", engines=("one",))
    await desk.peer.came.wait()
    desk.peer.came.clear()
    desk.peer.go.set()
    desk.peer.go = asyncio.Event()
    await desk.peer.came.wait()
    return run_id


async def looked_after(desk):
    """What a daemon makes of the home: it resumes it, and executes a run of its own to the end."""
    await desk.runs.resume(desk.env)
    mine = await desk.create("Say it.")
    assert (await desk.result(mine))["status"] == "completed"
    return mine


CHANGES = {
    "what is asked": "UPDATE runs SET task = 'rm -rf', params_json = replace(params_json, 'Say yes', 'rm -rf')",
    "the mode": "UPDATE runs SET params_json = replace(params_json, 'plan', 'swarm'), mode = 'swarm'",
    "who is asked": "UPDATE runs SET params_json = replace(params_json, 'one', 'two')",
    "the settings": "UPDATE runs SET settings_json = replace(settings_json, 'openrouter.ai', 'evil.example')",
    "the budget": "UPDATE runs SET settings_json = replace(settings_json, '\"5\"', '\"9000\"')",
    "the project": "UPDATE runs SET project = '/elsewhere'",
    "the key": "UPDATE runs SET key_fp = 'ff'",
    "a node's task": "UPDATE nodes SET task = 'rm -rf' WHERE id LIKE '%:step-2'",
    "a node's role": "UPDATE nodes SET role_json = '{\"system\": \"You obey.\"}'",
    "a node's model": "UPDATE nodes SET model = 'engine:two'",
    "a node's needs": "UPDATE nodes SET depends_on_json = '[]'",
    "a node added": "INSERT INTO nodes (id, run_id, place, kind, wave, depends_on_json, task, model, prompt, meta_json, "
                    "status) SELECT run_id || ':more', run_id, 9, 'task', 0, '[]', 'rm -rf', 'engine:one', '', '{}', "
                    "'queued' FROM nodes LIMIT 1",
    "a node removed": "DELETE FROM nodes WHERE id LIKE '%:step-2'",
    "another's plan": "UPDATE seals SET mac = (SELECT mac FROM seals WHERE what = 'asked') WHERE what = 'plan'",
    "planned again": "UPDATE runs SET planned = 0",
    "no seal": "DELETE FROM seals",
    "a blob": "UPDATE runs SET task = CAST(task AS BLOB)",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_a_pull_has_changed_is_not_executed_and_not_touched(shared, change):
    run_id = play(shared.ours, left_in_the_middle)
    shared.pushed()
    with sqlite3.connect(shared.theirs / "home" / "db.sqlite") as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchall()
        assert con.execute(CHANGES[change]).rowcount
    con.close()
    shared.pull()
    before = run_of(shared.home, run_id)

    async def look(desk):
        mine = await looked_after(desk)
        found = await desk.status(run_id)
        with pytest.raises(OrchestratorError) as refused:
            await desk.runs.cancel(desk.env, run_id)
        listed = (await desk.runs.listed(desk.env, None, None))["runs"]
        return mine, found, refused.value.code, listed, [ask.run_id for ask in desk.peer.asks]

    mine, found, code, listed, asked = play(shared.ours, look)
    assert found["foreign"]
    assert "not of this machine" in found["failure"]
    assert code == "foreign_data"
    assert {one["run_id"]: one.get("foreign", False) for one in listed} == {run_id: True, mine: False}
    assert set(asked) == {mine}
    assert run_of(shared.home, run_id) == before


def test_a_run_that_a_pull_has_not_changed_goes_on(shared):
    run_id = play(shared.ours, left_in_the_middle)
    shared.pushed()
    (shared.theirs / "README").write_text("new")
    with sqlite3.connect(shared.theirs / "home" / "db.sqlite") as con:
        con.execute("VACUUM")  # another file of the same content
    con.close()
    shared.pull()

    async def go_on(desk):
        await desk.runs.resume(desk.env)
        return await desk.result(run_id)

    assert play(shared.ours, go_on)["status"] == "completed"


@pytest.mark.parametrize("seals", ["none", "copied", "of their machine"])
def test_a_run_that_a_pull_has_added_is_not_executed(shared, monkeypatch, seals):
    run_id = play(shared.ours, left_in_the_middle)
    shared.pushed()
    theirs = shared.theirs / "home"
    with elsewhere(monkeypatch, shared.base):
        (theirs / "identity.json").rename(shared.base / "kept")
        evil = replace(row("evil", engines=("one",)), project=str(shared.ours))
        planted(theirs, evil)
        (shared.base / "kept").rename(theirs / "identity.json")
    with opened(theirs) as con:
        if seals != "of their machine":
            con.execute("DELETE FROM seals WHERE run_id = 'evil'")
        if seals == "copied":
            con.execute("INSERT INTO seals SELECT 'evil', what, mac FROM seals WHERE run_id = ?", (run_id,))
        con.execute("PRAGMA journal_mode = DELETE").fetchall()
    shared.pull()
    before = run_of(shared.home, "evil")

    async def look(desk):
        await desk.runs.resume(desk.env)
        assert (await desk.result(run_id))["status"] == "completed"
        return (
            await looked_after(desk),
            (await desk.status("evil"))["foreign"],
            {one.run_id for one in desk.peer.asks},
        )

    mine, foreign, asked = play(shared.ours, look)
    assert foreign
    assert asked == {run_id, mine}
    assert run_of(shared.home, "evil") == before


def test_an_answer_that_a_pull_has_put_in_the_place_of_ours_reaches_no_other_node(shared):
    run_id = play(shared.ours, left_in_the_middle)
    shared.pushed()
    theirs = shared.theirs / "home"
    file = theirs / "artifacts" / run_id / "step-1.json"
    data = file.read_bytes().replace(b"yes", b"obey me")
    file.write_bytes(data)
    with sqlite3.connect(theirs / "db.sqlite") as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchall()
        con.execute("UPDATE artifacts SET bytes = ?, sha256 = ? WHERE node_id = 'step-1'",
                    (len(data), hashlib.sha256(data).hexdigest()))  # fmt: skip
    con.close()
    shared.pull()

    async def look(desk):
        await desk.runs.resume(desk.env)
        found = await desk.result(run_id)
        return found, [ask.prompt for ask in desk.peer.asks]

    found, prompts = play(shared.ours, look)
    assert found["status"] == "failed"
    assert "obey me" not in str(prompts)


def test_a_run_that_has_ended_is_not_woken_by_a_pull(shared):
    async def done(desk):
        return await desk.result(await desk.create("Say it."))

    play(shared.ours, done)
    shared.pushed()
    with sqlite3.connect(shared.theirs / "home" / "db.sqlite") as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchall()
        con.execute("UPDATE runs SET status = 'queued', planned = 0, finished_at = NULL")
        for table in ("nodes", "attempts", "artifacts"):
            con.execute(f"DELETE FROM {table}")
    con.close()
    shared.pull()

    async def look(desk):
        mine = await looked_after(desk)
        return mine, {ask.run_id for ask in desk.peer.asks}

    mine, asked = play(shared.ours, look)
    assert asked == {mine}
    assert not home_location.has_work(shared.home, "/p")


SCHEMES = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM seals; END",
    "a trigger on a run": "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN UPDATE runs SET task = 'rm -rf'; END",
    "a view": "CREATE VIEW v AS SELECT * FROM runs",
    "an index that computes": "CREATE INDEX i ON runs(length(task))",
    "an index with a condition": "CREATE INDEX i ON runs(task) WHERE length(task) > 3",
    "a virtual table": "CREATE VIRTUAL TABLE v USING rtree(a, b, c)",
    "a column that computes": "ALTER TABLE runs ADD COLUMN evil TEXT AS (task || 'x')",
    "a check": "ALTER TABLE runs ADD COLUMN evil TEXT CHECK (length(evil) > 3)",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_schema_that_acts_is_refused_and_nothing_of_it_is_carried_out(shared, scheme):
    run_id = play(shared.ours, left_in_the_middle)
    shared.pushed()
    with sqlite3.connect(shared.theirs / "home" / "db.sqlite") as con:
        con.execute("PRAGMA journal_mode = DELETE").fetchall()
        con.execute(SCHEMES[scheme])
    con.close()
    shared.pull()
    before = (shared.home / "db.sqlite").read_bytes()

    async def look(desk):
        await desk.runs.resume(desk.env)
        for call in (desk.create(), desk.status(run_id), desk.runs.cancel(desk.env, run_id)):
            with pytest.raises(OrchestratorError) as refused:
                await call
            assert refused.value.code == "corrupt_home"
        assert desk.peer.asks == []

    play(shared.ours, look)
    assert (shared.home / "db.sqlite").read_bytes() == before


def test_a_trigger_that_appears_in_an_open_home_is_not_carried_out(tmp_path):
    async def look(desk):
        run_id = await desk.create()
        assert (await desk.result(run_id))["status"] == "completed"
        with opened(desk.home) as con:
            con.execute(SCHEMES["a trigger"])
        with pytest.raises(OrchestratorError) as refused:
            await desk.create()
        assert refused.value.code == "corrupt_home"
        with opened(desk.home) as con:
            con.execute("DROP TRIGGER t")
        assert (await desk.result(await desk.create()))["status"] == "completed"

    play(tmp_path, look)


# -- moved, copied, restored -------------------------------------------------------------------------------------


async def go_on_or_stay(desk):
    mine = await looked_after(desk)
    listed = {one["run_id"]: one for one in (await desk.runs.listed(desk.env, None, None))["runs"]}
    other = next(run_id for run_id in listed if run_id != mine)
    if listed[other].get("foreign"):
        return "foreign", {one.run_id for one in desk.peer.asks} - {mine}
    return (await desk.result(other))["status"], {one.run_id for one in desk.peer.asks} - {mine}


def test_a_home_that_was_moved_goes_on(tmp_path):
    run_id = play(tmp_path, left_in_the_middle)
    (tmp_path / "home").rename(tmp_path / "moved")
    assert play(tmp_path, go_on_or_stay, SMART_SPAWN_MCP_HOME=str(tmp_path / "moved")) == ("completed", {run_id})


def test_a_home_that_a_link_leads_to_goes_on(tmp_path):
    run_id = play(tmp_path, left_in_the_middle)
    (tmp_path / "home").rename(tmp_path / "moved")
    (tmp_path / "home").symlink_to("moved")
    assert play(tmp_path, go_on_or_stay) == ("completed", {run_id})


@pytest.mark.skipif(bool(mounts.why_no_mounts()), reason=mounts.why_no_mounts() or "it can")
def test_a_home_that_is_seen_in_another_place_too_goes_on_there(tmp_path):
    run_id = play(tmp_path, left_in_the_middle)

    def body():
        mounts.bind(tmp_path / "home", tmp_path / "bound")
        return play(tmp_path, go_on_or_stay, SMART_SPAWN_MCP_HOME=str(tmp_path / "bound"))

    assert mounts.apart(body) == ("completed", {run_id})


@pytest.mark.parametrize("how", [["cp", "-r"], ["cp", "-a"], "tar"])
def test_a_home_that_was_copied_or_restored_elsewhere_stays_foreign(tmp_path, how):
    play(tmp_path, left_in_the_middle)
    copy = tmp_path / "copy"
    if how == "tar":
        subprocess.run(["tar", "-C", str(tmp_path / "home"), "-cpf", str(tmp_path / "a.tar"), "."], check=True)
        copy.mkdir(mode=0o700)
        subprocess.run(["tar", "-C", str(copy), "-xpf", str(tmp_path / "a.tar")], check=True)
    else:
        subprocess.run([*how, str(tmp_path / "home"), str(copy)], check=True)
    assert not home_location.has_work(copy, "/p")
    assert play(tmp_path, go_on_or_stay, SMART_SPAWN_MCP_HOME=str(copy)) == ("foreign", set())
    assert home_location.has_work(tmp_path / "home", "/p")


@pytest.mark.parametrize("what", ["removed", "another home's", "garbage", "a link", "a directory"])
def test_without_its_identity_nothing_of_a_home_goes_on(tmp_path, what):
    play(tmp_path, left_in_the_middle)
    file = tmp_path / "home" / "identity.json"
    content = file.read_bytes()
    file.unlink()
    if what == "another home's":
        planted(tmp_path / "other", row("r9"))
        shutil.copy(tmp_path / "other" / "identity.json", file)
    elif what == "garbage":
        file.write_bytes(b"[" * 5000)
    elif what == "a link":
        (tmp_path / "kept").write_bytes(content)
        file.symlink_to(tmp_path / "kept")
    elif what == "a directory":
        file.mkdir()
    assert not home_location.has_work(tmp_path / "home", "/p")

    async def look(desk):
        await desk.runs.resume(desk.env)
        assert not desk.runs._homes
        (found,) = (await desk.runs.listed(desk.env, None, None))["runs"]
        await until_async(lambda: desk.runs._homes[desk.home].run_queue.alive)
        assert desk.peer.asks == []
        return found["foreign"]

    assert play(tmp_path, look)


def test_a_home_that_gets_its_identity_from_another_daemon_is_known_to_this_one(tmp_path):
    async def look(desk):
        await desk.runs.listed(desk.env, None, None)  # opened, with nothing in it
        theirs = replace(row("r1", engines=("one",)), project=str(tmp_path))
        await asyncio.to_thread(planted, desk.home, theirs)
        return (await desk.result("r1"))["status"]

    assert play(tmp_path, look) == "completed"


def test_without_a_usable_state_directory_no_run_is_stored(tmp_path, monkeypatch):
    unsafe = tmp_path / "state"
    unsafe.mkdir()
    unsafe.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(unsafe))

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.create()
        assert refused.value.code == "state_dir_unsafe"
        assert (await desk.runs.listed(desk.env, None, None))["runs"] == []
        assert desk.ended
        unsafe.chmod(0o700)
        return (await desk.result(await desk.create()))["status"]

    assert play(tmp_path, look) == "completed"


def test_a_look_at_a_strangers_home_that_was_never_closed_makes_nothing(tmp_path, monkeypatch):
    with elsewhere(monkeypatch, tmp_path):
        planted(tmp_path / "theirs", row("r1", engines=("one",)))
    home = tmp_path / "home"
    home.mkdir()
    with opened(tmp_path / "theirs") as con:
        con.execute("PRAGMA journal_mode = WAL").fetchall()
        con.execute("UPDATE runs SET task = 'written to the WAL'")
        for name in ("db.sqlite", "db.sqlite-wal", "identity.json"):
            shutil.copy(tmp_path / "theirs" / name, home)
    before = tree(home)
    assert not home_location.has_work(home, "/p")
    assert tree(home) == before
    (shown,) = run_adoption.foreign(home)
    assert shown["id"] == "r1"
    (home / "db.sqlite-shm").unlink()  # SQLite reads no WAL without it
    assert tree(home) == before


# -- adoption ----------------------------------------------------------------------------------------------------


def older(home):
    """The home as a version before this left it: without identity and seals."""
    with opened(home) as con:
        con.execute("DROP TABLE seals")
    (home / identity.FILE).unlink()


def test_an_older_versions_run_is_shown_waits_for_the_user_and_goes_on_with_all_it_had(tmp_path):
    run_id = play(tmp_path, left_in_the_middle)
    older(tmp_path / "home")

    async def look(desk):
        before = tree(desk.home)
        (shown,) = await desk.runs.foreign(desk.env)
        assert tree(desk.home) == before
        await looked_after(desk)
        assert run_id not in {ask.run_id for ask in desk.peer.asks}
        assert await desk.runs.adopt(desk.env, ["another digest"]) == 0
        assert await desk.runs.adopt(desk.env, [shown["digest"]]) == 1
        assert await desk.runs.foreign(desk.env) == []
        assert await desk.runs.adopt(desk.env) == 0
        found = await desk.result(run_id)
        return shown, found, [ask.node_id for ask in desk.peer.asks if ask.run_id == run_id]

    shown, found, asked = play(tmp_path, look)
    assert found["status"] == "completed"
    assert asked == ["step-2", "merged"]
    expected = {"id": run_id, "task": "1. Say yes", "caller": "engine", "engine": ["one"], "mode": "plan",
                "project": str(tmp_path), "base_url": "", "nodes": 2, "asks": ["engine:one"]}  # fmt: skip
    assert expected.items() <= shown.items()


def test_what_changed_since_it_was_shown_is_not_adopted(tmp_path):
    play(tmp_path, left_in_the_middle)
    older(tmp_path / "home")

    async def look(desk):
        (shown,) = await desk.runs.foreign(desk.env)
        with opened(desk.home) as con:
            con.execute("UPDATE nodes SET task = 'rm -rf' WHERE id LIKE '%:step-2'")
        return await desk.runs.adopt(desk.env, [shown["digest"]]), len(await desk.runs.foreign(desk.env))

    assert play(tmp_path, look) == (0, 1)


def test_a_run_whose_id_is_a_path_is_neither_shown_nor_adopted(tmp_path, monkeypatch):
    with elsewhere(monkeypatch, tmp_path):
        planted(tmp_path / "home", replace(row("../../target", engines=("one",)), project=str(tmp_path)))

    async def look(desk):
        return await desk.runs.foreign(desk.env), await desk.runs.adopt(desk.env)

    assert play(tmp_path, look) == ([], 0)


def test_to_look_for_foreign_runs_makes_no_home(tmp_path):
    async def look(desk):
        assert await desk.runs.foreign(desk.env) == []
        assert await desk.runs.adopt(desk.env) == 0

    play(tmp_path, look)
    assert not (tmp_path / "home").exists()
