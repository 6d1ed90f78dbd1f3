"""The files of a home of spawn runs, each put there by a stranger; and rows of any shape."""

import contextlib
import hashlib
import os
import sqlite3
import struct
from dataclasses import replace

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.spawn import api_key, artifacts, home_location
from orchestrator.spawn.run_data import RunSettings
from tests.security.strangers import elsewhere, git
from tests.security.test_spawn_homes import left_in_the_middle, looked_after
from tests.support.spawn_stage import KEY
from tests.support.spawns import AT, DIAMOND, old_home, opened, planted, row
from tests.support.stage import tree
from tests.unit.spawn.test_runs import play


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("what", ["link", "directory", "pipe"])
def test_what_lies_beside_the_database_and_is_no_file_is_not_opened(tmp_path, end, what):
    home = planted(tmp_path / "home", row())
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    for name in ("-wal", "-shm"):
        home.joinpath(f"db.sqlite{name}").unlink(missing_ok=True)
    file = home / f"db.sqlite{end}"
    if what == "link":
        file.symlink_to(target)
    elif what == "directory":
        file.mkdir()
    else:
        os.mkfifo(file)
    assert not home_location.has_work(home, "/p")

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.runs.listed(desk.env, None, None)
        assert refused.value.code == "home_unusable"

    play(tmp_path, look)
    assert target.read_bytes() == b"precious"


def hot_journal(file, named):
    """Beside the database a journal that is played back as it is opened, and that names another file."""
    content = file.read_bytes()
    size = struct.unpack(">H", content[16:18])[0]
    page, nonce = content[:size], 7
    check = (nonce + sum(page[at] for at in range(size - 200, 0, -200))) & 0xFFFFFFFF
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 1, nonce, len(content) // size, 512, size)
    name = os.fsencode(named)
    total = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFFFFFF
    tail = struct.pack(">I", (1 << 30) // size + 1) + name + struct.pack(">II", len(name), total)
    record = struct.pack(">I", 1) + page + struct.pack(">I", check)
    file.with_name(f"{file.name}-journal").write_bytes(
        head.ljust(512, b"\0") + record + tail + bytes.fromhex("d9d505f920a163d7")
    )


def test_a_journal_that_names_another_file_is_not_played_back(tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    # What SQLite does with it by itself.
    plain = tmp_path / "plain.sqlite"
    for file in (plain, planted(tmp_path / "home", row()) / "db.sqlite"):
        with contextlib.closing(sqlite3.connect(file)) as con:
            con.execute("PRAGMA journal_mode = DELETE").fetchall()
            con.execute("CREATE TABLE IF NOT EXISTS _health_probe (a)")
        hot_journal(file, target)
    with contextlib.closing(sqlite3.connect(plain)) as con:
        con.execute("SELECT * FROM _health_probe").fetchall()
    assert not target.exists(), "the journal is none: the test shows nothing"

    target.write_text("precious")
    assert not home_location.has_work(tmp_path / "home", "/p")

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.create()
        assert refused.value.code == "corrupt_home"

    play(tmp_path, look)
    assert target.read_text() == "precious"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    home = planted(tmp_path / "home", row())
    (home / "db.lock").unlink()
    (home / "db.lock").symlink_to(tmp_path / "target")

    async def look(desk):
        with pytest.raises(OrchestratorError):
            await desk.create()

    play(tmp_path, look)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("where", ["repository", "project"])
def test_the_key_in_a_home_that_came_along_is_not_used(tmp_path, fake, where):
    base = tmp_path / "base"
    home = (base if where == "project" else tmp_path / "repo") / "home"
    home.mkdir(mode=0o700, parents=True)
    if where == "repository":
        git(tmp_path / "repo", "init", "-q")
    base.mkdir(exist_ok=True)
    file = home / "openrouter.key"
    file.write_text(KEY)
    file.chmod(0o600)
    env = {"OPENROUTER_BASE_URL": fake.url, "SMART_SPAWN_MCP_HOME": str(home)}

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.create(env={**desk.env, "OPENROUTER_API_KEY": ""})
        assert refused.value.code == "key_unsafe"
        found = await desk.runs.create(model_request(desk, OPENROUTER_API_KEY="sk-or-v1-my-own-one"))
        return (await desk.result(found["run_id"]))["status"]

    assert play(base, look, **env) == "completed"
    assert {call.key for call in fake.calls()} == {"sk-or-v1-my-own-one"}


def model_request(desk, **env):
    from orchestrator.spawn.run_data import RunRequest
    from orchestrator.spawn.runs import RunCreation

    return RunCreation(RunRequest(task="Say it.", mode="single"), {**desk.env, **env}, "")


def test_the_key_in_the_users_own_home_counts_wherever_that_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    home = tmp_path / ".smart-spawn-mcp"
    home.mkdir(mode=0o700)
    (home / "openrouter.key").write_text(KEY)
    (home / "openrouter.key").chmod(0o600)
    assert api_key.key_of({}, home, str(tmp_path)) == KEY


def test_a_salt_that_a_stranger_knows_gives_no_run_of_theirs_a_key(tmp_path, fake, monkeypatch):
    home = tmp_path / "home"
    with elsewhere(monkeypatch, tmp_path):
        fingerprint = api_key.fingerprint(home, KEY)  # they know the salt, and even the key
        theirs = row("evil", settings=RunSettings(base_url=fake.url, planner_url=""))
        planted(home, replace(theirs, key_fp=fingerprint, project=str(tmp_path)))

    async def look(desk):
        found = await desk.runs.create(model_request(desk))
        assert (await desk.result(found["run_id"]))["status"] == "completed"
        return (await desk.status("evil"))["foreign"]

    assert play(tmp_path, look, OPENROUTER_API_KEY=KEY, OPENROUTER_BASE_URL=fake.url)
    assert len(fake.calls()) == 1


@pytest.mark.parametrize("part", ["artifacts", "artifacts/r1"])
def test_half_written_files_are_not_looked_for_where_a_link_leads(tmp_path, part):
    target = tmp_path / "target"
    (target / "r1").mkdir(parents=True)
    for at in (target, target / "r1"):
        (at / ".mine.tmp").write_text("precious")
    home = tmp_path / "home"
    (home / part).parent.mkdir(parents=True)
    (home / part).symlink_to(target)
    artifacts.clear(home, "r1")
    assert len(list(target.rglob(".mine.tmp"))) == 2
    with pytest.raises(OrchestratorError):
        artifacts.clear(home, "../../target")


@pytest.mark.parametrize("path", ["openrouter.key", "salt", "artifacts/../salt", "db.sqlite"])
def test_an_artifacts_row_reaches_no_other_file_of_the_home(tmp_path, path):
    home = planted(tmp_path / "home", row())
    for name in ("openrouter.key", "salt"):
        (home / name).write_text(KEY)
    data = (home / path.removeprefix("artifacts/../")).read_bytes()
    with opened(home) as con:
        values = (path, len(data), hashlib.sha256(data).hexdigest(), AT)
        con.execute("INSERT INTO artifacts VALUES ('r1:x', 'r1', 'x', 'raw', ?, ?, ?, ?, '')", values)

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.runs.artifact(desk.env, "r1", "x", 0)
        return refused.value.code

    assert play(tmp_path, look) == "corrupt_home"


def test_an_upgrades_copy_is_not_written_through_a_link(tmp_path):
    home = old_home(tmp_path / "home")
    target = tmp_path / "target"
    target.write_text("precious")
    for name in (".db.sqlite.backup.tmp", ".db.sqlite.backup.tmp-journal", ".db.sqlite.backup.tmp-wal"):
        (home / name).symlink_to(target)

    async def look(desk):
        with contextlib.suppress(OrchestratorError):
            await desk.runs.listed(desk.env, None, None)

    play(tmp_path, look)
    assert target.read_text() == "precious"


def test_a_home_of_the_original_tool_is_not_upgraded_before_somebody_asks_for_it(tmp_path):
    home = old_home(tmp_path / "home")
    before = tree(home)
    assert not home_location.has_work(home, "/p")

    async def look(desk):
        await desk.runs.resume(desk.env)
        assert await desk.runs.foreign(desk.env) == []
        assert tree(home) == before
        return {one["status"] for one in (await desk.runs.listed(desk.env, None, None))["runs"]}

    assert play(tmp_path, look) == {"completed", "failed", "canceled"}


def test_a_home_that_leaves_no_room_for_another_run_says_so(tmp_path, monkeypatch):
    with elsewhere(monkeypatch, tmp_path):
        planted(tmp_path / "home", row("evil"))
    with opened(tmp_path / "home") as con:
        con.execute("UPDATE runs SET number = 9.3e18")

    async def look(desk):
        with pytest.raises(OrchestratorError) as refused:
            await desk.create()
        return refused.value.code

    assert play(tmp_path, look) == "corrupt_home"


def test_a_run_of_this_machine_whose_rows_cannot_be_written_holds_up_no_other(tmp_path):
    run_id = play(tmp_path, left_in_the_middle)
    with opened(tmp_path / "home") as con:
        con.execute("UPDATE events SET seq = 9.3e18 WHERE seq = 1")

    async def look(desk):
        await looked_after(desk)
        return (await desk.status(run_id))["status"], run_id in {ask.run_id for ask in desk.peer.asks}

    assert play(tmp_path, look) == ("running", False)


GARBAGE = [
    "x'ff00'",
    "-1",
    "9223372036854775807",
    "1e308",
    "NULL",
    "'" + "[" * 50 + "'",
    "CAST(x'c328' AS TEXT)",
]


@pytest.mark.parametrize("value", GARBAGE)
def test_a_row_of_any_shape_is_shown_and_holds_up_no_run_of_this_machine(tmp_path, monkeypatch, value):
    home = tmp_path / "home"
    with elsewhere(monkeypatch, tmp_path):
        planted(home, replace(row("evil", engines=("one",)), project=str(tmp_path)), plan=DIAMOND)
    with opened(home) as con:
        con.execute(
            "INSERT INTO attempts VALUES ('evil','a',1,'t','done','1','1','usage',1,1,'m',?,NULL,NULL)", (AT,)
        )
        for table in ("runs", "nodes", "events", "attempts", "artifacts"):
            kept = {"id", "status"} if table == "runs" else {"id", "run_id"}
            columns = [one[1] for one in con.execute(f"PRAGMA table_info({table})") if one[1] not in kept]
            for column in columns:
                with contextlib.suppress(sqlite3.IntegrityError):
                    con.execute(f"UPDATE {table} SET {column} = {value}")
        con.execute("UPDATE runs SET number = 3")
        con.execute("UPDATE attempts SET node_id = 'a' WHERE rowid = 1")

    async def look(desk):
        mine = await looked_after(desk)
        listed = await desk.runs.listed(desk.env, None, None)
        await desk.status("evil")
        await desk.runs.result(desk.env, "evil", 0, include_raw=True, tell=lambda _: None)
        await desk.runs.whole(desk.env, "evil")
        await desk.runs.events(desk.env, "evil", 0, 10)
        assert len(await desk.runs.foreign(desk.env)) == 1
        return {one["run_id"] for one in listed["runs"]} == {"evil", mine}

    assert play(tmp_path, look)
