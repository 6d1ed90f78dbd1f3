"""Team data that did not come about here: nothing of it acts, all of it can be read, and one question adopts it."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import orjson
import pytest

from orchestrator.base.platform import process_facts
from orchestrator.journal.log_lines import encode, is_sealed
from orchestrator.journal.project_files import Paths
from orchestrator.team.life.launch_exits import recorded
from orchestrator.team.recovery.team_adoption import preview, seal_files
from orchestrator.team.roster.agent_fold import folded
from tests.security import hostile
from tests.security.hostile import git
from tests.security.human import Human
from tests.support.stage import lines_of, tree, until

V1 = Path(__file__).resolve().parents[1] / "logs" / "v1"
DATA = ".agents/agents", ".agents/run"


def worked(stage, boss):
    """A new agent does a task to its end: whatever the daemon does by itself, it has had the time to."""
    made = boss.tool("agent_create", {"name": "honest", "role": "r", "engine": "shell"})
    assert made["ready"], made
    boss.tool("task_enqueue", {"agent_id": made["agent_id"], "task": {"payload": {"command": "true"}}})
    until(lambda: "result" in stage.types(made["agent_id"]) or None)
    return made["agent_id"]


def untouched(root, before):
    """What of the stranger's files has changed."""
    after = tree(root)
    return {name: (kept, after.get(name)) for name, kept in before.items() if after.get(name) != kept}


@pytest.fixture(autouse=True)
def same_state(request, monkeypatch):
    """What is looked at in the test's own process is judged with the stage's state directory."""
    if "stage" in request.fixturenames:
        state = request.getfixturevalue("stage").env["ORCHESTRATOR_STATE_DIR"]
        monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", state)


@pytest.fixture
def marker(stage):
    """What the stranger's command would leave."""
    return stage.base / "marker"


def keep_config(stage):
    return {".agents/config.toml": (stage.root / ".agents" / "config.toml").read_bytes()}


def cloned(stage, marker):
    """The stage's project is the clone of a hostile repository."""
    found = keep_config(stage) | hostile.files(marker, stage.root)
    hostile.repository(stage.base / "upstream", found)
    shutil.rmtree(stage.root)
    git(stage.base, "clone", "-q", str(stage.base / "upstream"), str(stage.root))


# -- a repository -------------------------------------------------------------------------------------------------


def test_a_cloned_repository_runs_nothing_and_can_be_read(stage, marker):
    cloned(stage, marker)
    before = tree(stage.root / ".agents" / "agents" / "helper") | tree(stage.root / ".agents" / "run")
    boss = stage.begun()
    [row] = boss.tool("agent_list", {"scope": "all"})["agents"]
    assert (row["agent_id"], row["status"]) == ("helper", "unknown")
    assert "not of this machine" in row["reason"]
    assert [one["type"] for one in boss.tool("events_read", {"agent_id": "helper"})["events"]] == [
        "starting",
        "ready",
    ]
    assert boss.tool("agent_get", {"agent_id": "helper"})["meta"]["command"] == hostile.command(marker)
    for tool, more in (
        ("task_enqueue", {"task": {"payload": 1}}), ("agent_restart", {}), ("agent_delete", {}),
        ("task_cancel", {"task_id": "t-1"}),
    ):  # fmt: skip
        assert boss.tool(tool, {"agent_id": "helper", **more})["error"]["code"] == "foreign_data", tool
    assert worked(stage, boss) == "honest"
    assert not marker.exists()
    assert not (stage.root / "stolen").exists()
    assert set(stage.tagged().values()) == {"honest"}
    for line in (("status",), ("events", "helper"), ("why", "helper"), ("verify",)):
        done = stage.cli(*line)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 6), (line, done)
    assert "not of this machine" in stage.cli("status").stdout
    after = tree(stage.root / ".agents" / "agents" / "helper") | tree(stage.root / ".agents" / "run")
    assert {name: after.get(name) for name in before} == before


def test_an_ordinary_clone_with_what_users_write_works_at_once(stage):
    found = keep_config(stage) | {".agents/roles/tester.md": b"---\nname: Tester\n---\nTest.\n"}
    hostile.repository(stage.base / "upstream", found)
    shutil.rmtree(stage.root)
    git(stage.base, "clone", "-q", str(stage.base / "upstream"), str(stage.root))
    worked(stage, stage.begun())
    assert preview(Paths(stage.root)) == []


def test_an_agent_of_a_name_that_a_stranger_took_gets_another_id(stage, marker):
    cloned(stage, marker)
    boss = stage.begun()
    assert boss.tool("agent_create", {"name": "helper", "role": "r", "engine": "shell"})["agent_id"] == "helper-2"


@pytest.mark.parametrize("way", ["pull", "checkout", "tar"])
def test_what_comes_into_a_trusted_project_runs_nothing_and_the_team_goes_on(stage, marker, way):
    upstream = stage.base / "upstream"
    hostile.repository(upstream, {})
    git(stage.root, "init", "-q")
    git(stage.root, "remote", "add", "origin", str(upstream))
    git(stage.root, "pull", "-q", "origin", "main")
    boss = stage.begun()
    honest = worked(stage, boss)
    boss.tool("task_enqueue", {"agent_id": honest, "task": {"payload": {"command": "sleep 1000"}}})
    boss.close()
    stage.stop_daemon()
    before = stage.records(honest)
    added = hostile.files(marker, stage.root)
    # A pull writes over files that git ignores, also over those of an agent that is there.
    added[f".agents/agents/{honest}/engine/launch.json"] = added[".agents/agents/helper/engine/launch.json"]
    if way == "tar":
        hostile.put(stage.base / "loot", added)
        with tarfile.open(stage.base / "loot.tar", "w") as archive:
            archive.add(stage.base / "loot", arcname=".")
        subprocess.run(["tar", "-x", "-f", stage.base / "loot.tar", "-C", stage.root], check=True)
    else:
        branch = "main" if way == "pull" else "other"
        git(upstream, "checkout", "-q", "-B", branch)
        hostile.put(upstream, added)
        git(upstream, "add", "-f", ".")
        git(upstream, "commit", "-q", "-m", "More")
        git(stage.root, "fetch", "-q", "origin")
        if way == "pull":
            git(stage.root, "pull", "-q", "--no-rebase", "origin", branch)
        else:
            git(stage.root, "checkout", "-q", "-f", f"origin/{branch}")
    (stage.run_dir() / "stopped").unlink()
    boss = stage.begun()
    rows = {row["agent_id"]: row for row in boss.tool("agent_list", {"scope": "all"})["agents"]}
    assert "not of this machine" in rows["helper"]["reason"]
    assert stage.records(honest)[: len(before)] == before
    assert rows[honest]["status"] != "failed"
    second = boss.tool("agent_create", {"name": "second", "role": "r", "engine": "shell"})
    assert second["ready"]
    assert not marker.exists()


def test_an_outbox_written_over_makes_that_agent_foreign_and_no_other(stage, marker):
    boss = stage.begun()
    for name in ("a", "b"):
        boss.tool("agent_create", {"name": name, "role": "r", "engine": "shell"})
    stage.end_tmux()
    boss.close()
    stage.stop_daemon()
    (stage.root / ".agents/agents/a/outbox.jsonl").write_bytes(hostile.outbox(marker, agent="a", cwd=str(stage.root)))
    (stage.run_dir() / "stopped").unlink()
    boss = stage.begun()

    def listed():
        return {row["agent_id"]: row for row in boss.tool("agent_list", {"scope": "all"})["agents"]}

    rows = listed()
    assert "not of this machine" in rows["a"]["reason"]
    assert "not of this machine" not in rows["b"]["reason"]
    # The daemon looks at the processes after it has begun to answer: until then the other agent too is unknown.
    until(lambda: listed()["b"]["status"] != "unknown" or None)
    worked(stage, boss)
    assert not marker.exists()


# -- records in another place -------------------------------------------------------------------------------------


def put_back(place, kept):
    """Make the entries below a directory what ``tree`` has told of them; directories are not made anew."""
    for name, entry in sorted(tree(place).items(), reverse=True):
        if entry != kept.get(name):
            path = place / name
            if not stat.S_ISDIR(entry[0]):
                path.unlink()
            elif name not in kept:
                path.rmdir()
    for name, (mode, content) in kept.items():
        path = place / name
        if stat.S_ISDIR(mode):
            path.mkdir(exist_ok=True)
        elif stat.S_ISREG(mode) and not path.exists():
            path.write_bytes(content)
        path.chmod(stat.S_IMODE(mode))
    assert tree(place) == kept


class Made:
    """A project with two agents of this machine, and no daemon. Each test finds it as it was made."""

    def __init__(self, stage):
        self.stage, self.paths = stage, Paths(stage.root)
        boss = stage.begun()
        for name in ("a", "b"):
            boss.tool("agent_create", {"name": name, "role": "r", "engine": "shell"})
            boss.tool("task_enqueue", {"agent_id": name, "task": {"payload": {"command": "true"}}})
            until(lambda name=name: "result" in stage.types(name) or None)
        stage.end_tmux()
        boss.close()
        stage.stop_daemon()
        stage.end()
        self._kept = {place: tree(place) for place in self._places()}
        self._known = {path.name for path in stage.base.iterdir()}

    def _places(self):
        return self.stage.root, self.stage.base / "state", self.stage.run_base

    def put_back(self):
        """End what a test has started; every file is again as it was, and each directory the same one."""
        try:
            self.stage.end()
        finally:
            self.stage.wires.clear()
            self.stage.sound = True
            for place, kept in self._kept.items():
                put_back(place, kept)
            for path in self.stage.base.iterdir():
                if path.name not in self._known:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def log(self, agent, name):
        return self.paths.agent_dir(agent) / f"{name}.jsonl"

    def lines(self, agent, name):
        return self.log(agent, name).read_bytes().splitlines(keepends=True)

    def foreign(self, agent):
        """Whether a new daemon would set the agent aside."""
        try:
            folded(Paths(self.stage.root), agent, own=True)
        except Exception as error:  # noqa: BLE001 - damage is another refusal
            return getattr(error, "code", type(error).__name__)
        return None


@pytest.fixture(scope="module")
def history(shared_stage):
    return Made(shared_stage)


@pytest.fixture
def made(history, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", history.stage.env["ORCHESTRATOR_STATE_DIR"])
    yield history
    history.put_back()


def test_no_record_serves_in_another_log_of_another_agent_or_at_another_place(made):
    assert made.foreign("a") is None
    inbox, outbox = made.lines("a", "inbox"), made.lines("a", "outbox")
    whole = {("a", "inbox"): inbox, ("a", "outbox"): outbox}
    for agent, log, lines in (
        ("a", "inbox", made.lines("b", "inbox")),  # of another agent
        ("a", "outbox", made.lines("b", "outbox")),
    ):
        made.log(agent, log).write_bytes(b"".join(lines))
        assert made.foreign("a") == "foreign_data", (agent, log)
        made.log(agent, log).write_bytes(b"".join(whole[agent, log]))
    # The same words with another number, its checksum right and the old MAC kept.
    record = json.loads(inbox[0])
    body = orjson.dumps({key: value for key, value in record.items() if key not in ("mac", "crc")} | {"seq": 2})
    moved = encode(
        orjson.loads(body) and {k: v for k, v in record.items() if k not in ("v", "seq", "mac", "crc")}, 2
    )[1]
    seal = made.paths.provenance.seal("agent", "a", "inbox")
    assert not is_sealed(moved[:-1], seal)
    made.log("a", "inbox").write_bytes(inbox[0] + moved)
    assert made.foreign("a") == "foreign_data"


def test_a_record_appended_by_a_stranger_makes_the_agent_foreign(made):
    lines = made.lines("a", "inbox")
    task = {
        "at": hostile.AT,
        "type": "task",
        "epoch": 1,
        "task_id": "evil",
        "payload": {"command": "x"},
        "position": 1,
    }
    made.log("a", "inbox").write_bytes(b"".join(lines) + encode(task, len(lines) + 1)[1])
    assert made.foreign("a") == "foreign_data"
    assert made.foreign("b") is None


def test_a_copied_project_asks_and_a_moved_one_goes_on(made):
    root = made.stage.root
    copy = made.stage.base / "copy"
    subprocess.run(["cp", "-r", root, copy], check=True)
    assert {row["name"] for row in preview(Paths(copy))} >= {"a", "b"}
    assert preview(Paths(root)) == []
    moved = made.stage.base / "moved"
    root.rename(moved)
    assert preview(Paths(moved)) == []
    moved.rename(root)


def test_a_restored_backup_asks(made):
    home = made.stage.root / ".agents"
    subprocess.run(["cp", "-r", home, made.stage.base / "backup"], check=True)
    home.rename(made.stage.base / "lost")
    subprocess.run(["cp", "-r", made.stage.base / "backup", home], check=True)
    assert {row["name"] for row in preview(Paths(made.stage.root))} >= {"a", "b"}
    shutil.rmtree(home)
    (made.stage.base / "lost").rename(home)


def test_a_bind_mount_is_the_same_project(made):
    place = made.stage.base / "mount"
    place.mkdir()
    script = f'mount --bind "{made.stage.root}" "{place}" && exec "{sys.executable}" -P -c "$1" "{place}"'
    code = (
        "import sys; from pathlib import Path; from orchestrator.journal.project_files import Paths; "
        "from orchestrator.team.recovery.team_adoption import preview; print(preview(Paths(Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", code],
        capture_output=True, text=True, check=False, env=made.stage.env | {"PATH": os.environ["PATH"]},
    )  # fmt: skip
    if "denied" in done.stderr or "not permitted" in done.stderr.lower():
        pytest.skip("no mount may be made here")
    assert done.stdout.strip() == "[]", done


# -- each file that can cause something ---------------------------------------------------------------------------


def test_a_launch_file_of_a_stranger_is_not_executed(made, marker):
    """The stub itself refuses it, whatever the pane's tag and the release say."""
    from orchestrator.edge import launch_stub

    evil = {"epoch": 1, "argv": hostile.command(marker), "env": {}, "cwd": str(made.stage.root), "secret": "s"}
    made.paths.launch("a").write_text(json.dumps(evil))
    made.paths.launch("a").chmod(0o600)
    (made.paths.engine_dir("a") / "go").write_text("1")
    with pytest.raises(launch_stub.Refusal) as refused:
        launch_stub.read_launch(made.stage.root, "a", 1)
    assert refused.value.status == launch_stub.REFUSED
    (made.stage.run_dir() / "stopped").unlink()
    boss = made.stage.begun()
    restarted = boss.tool("agent_restart", {"agent_id": "a"})
    assert restarted["ready"], "it is launched with a launch file of ours"
    assert not marker.exists()


def test_repair_believes_no_meta_file_of_a_stranger(made):
    """The first line of a damaged log is made from the meta file: a stranger's must not become a specification."""
    meta = json.loads(made.paths.meta("a").read_text())
    made.paths.meta("a").write_text(json.dumps(meta | {"approval": "all", "engine": "claude", "cwd": "/"}))
    whole = made.log("a", "outbox").read_bytes()
    made.log("a", "outbox").write_bytes(b"X" + whole[1:])
    (made.stage.run_dir() / "stopped").unlink()
    made.stage.begun()
    made.stage.cli("doctor", "--fix")
    [spec] = [record for record in made.stage.records("a") if record["type"] == "starting"]
    assert spec.get("approval", "ask") == "ask"
    assert spec["engine"] != "claude"


def test_a_broadcast_of_a_stranger_tells_a_master_nothing(made):
    [path] = (made.stage.root / ".agents/run").glob("*/broadcast.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    fake = {
        "at": hostile.AT, "type": "result", "agent_id": "a", "ref": 99, "epoch": 1, "task_id": "t-x", "by": "agent",
        "payload": "all is done",
    }  # fmt: skip
    path.write_bytes(b"".join(lines) + encode(fake, len(lines) + 1)[1])
    run_id = path.parent.name
    (made.stage.run_dir() / "stopped").unlink()
    boss = made.stage.begun()
    assert boss.tool("agent_get", {"agent_id": "a"})["meta"]["agent_id"] == "a"
    status = json.loads(made.stage.cli("daemon", "status", "--json").stdout)
    assert status["corrupt"][run_id]["code"] == "foreign_data"


def test_a_worktree_of_a_stranger_is_no_agents(made):
    """A record that was not written here may name any directory as an agent's worktree."""
    from orchestrator.team.worktrees import inspection

    tree = {"path": "/etc", "tree": "/", "branch": "x", "base": "0" * 40}
    evil = made.stage.root / ".agents/agents/evil"
    evil.mkdir()
    (evil / "outbox.jsonl").write_bytes(hostile.outbox(made.stage.base / "marker", agent="evil", worktree=tree))
    assert inspection.place_of(made.stage.root, "evil") is None


def test_a_process_file_of_a_stranger_names_no_process(made, tmp_path):
    victim = subprocess.Popen(["sleep", "1000"])
    try:
        facts = {
            "pid": victim.pid, "start": process_facts.start_time(victim.pid), "boot_id": process_facts.boot_id(), "epoch": 1
        }  # fmt: skip
        made.paths.process("a").write_text(json.dumps(facts))
        assert recorded(Paths(made.stage.root), "a") is None
    finally:
        victim.kill()
        victim.wait()


def test_a_note_of_a_stranger_that_an_agent_was_collected_hides_nothing(made):
    note = {"run_id": "run-x", "created_at": None, "collected_at": hostile.AT, "agent_id": "a"}
    (made.paths.agent_dir("a") / "collected.json").write_text(json.dumps(note))
    (made.stage.run_dir() / "stopped").unlink()
    boss = made.stage.begun()
    assert {row["agent_id"] for row in boss.tool("agent_list", {"scope": "all"})["agents"]} == {"a", "b"}
    done = made.stage.cli("gc", "--apply", "--older-than", "0s", "--json")
    assert made.log("a", "outbox").exists(), done


def test_a_cache_of_a_stranger_says_nothing(made, marker):
    """A checkpoint could hold any specification: here one is planted with the checksum that older caches had."""
    import sqlite3
    from zlib import crc32

    cache = made.paths.cache
    con = sqlite3.connect(cache)
    [(owner, body)] = con.execute("SELECT owner, body FROM checkpoint WHERE owner = 'agent:a'").fetchall()
    evil = body.replace(b'"engine":"shell"', b'"engine":"evil!"')
    con.execute(
        "UPDATE checkpoint SET body = ?, crc = ? WHERE owner = ?", (evil, crc32(owner.encode() + b"\0" + evil), owner)
    )
    con.commit()
    con.close()
    assert evil != body
    (made.stage.run_dir() / "stopped").unlink()
    boss = made.stage.begun()
    assert boss.tool("agent_get", {"agent_id": "a"})["meta"]["engine"] == "shell"


@pytest.mark.parametrize("side", ["-wal", "-shm", "-journal"])
def test_a_link_beside_the_cache_is_not_written_through(made, side):
    target = made.stage.base / "precious"
    target.write_text("mine")
    for path in made.paths.cache.parent.glob("cache.sqlite-*"):
        path.unlink()
    made.paths.cache.with_name(f"cache.sqlite{side}").symlink_to(target)
    (made.stage.run_dir() / "stopped").unlink()
    worked(made.stage, made.stage.begun())
    assert target.read_text() == "mine"


def test_a_journal_beside_the_cache_that_names_another_file_removes_nothing(tmp_path):
    """SQLite removes the file that the journal of a database names at its end, when it plays the journal back."""
    from orchestrator.journal.cache import Cache
    from orchestrator.trust.identity import DirectoryIdentity
    from orchestrator.trust.seals import Seal

    path, seal = tmp_path / "cache.sqlite", Seal(DirectoryIdentity("0" * 32, b"k" * 32, tmp_path), "cache")
    target = tmp_path / "precious"
    target.write_text("mine")
    Cache.open(path, 1, seal).close()
    name = str(target).encode()
    total = sum(byte if byte < 128 else byte - 256 for byte in name) & 0xFFFFFFFF
    super_name = name + len(name).to_bytes(4, "big") + total.to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    head = bytes.fromhex("d9d505f920a163d7") + bytes(20)
    path.with_name("cache.sqlite-journal").write_bytes(head.ljust(512, b"\0") + bytes(4) + super_name)
    Cache.open(path, 1, seal).close()
    assert target.read_text() == "mine"
    assert not path.with_name("cache.sqlite-journal").exists()


def test_repair_changes_nothing_where_links_lead(made):
    made.stage.sound = False
    place = made.stage.base / "elsewhere"
    place.mkdir()
    for name in ("launch.json", ".x.9999999-1.tmp", "open"):
        (place / name).write_text("mine")
        (place / name).chmod(0o644)
    evil = made.stage.root / ".agents/agents/evil"
    evil.mkdir()
    (evil / "engine").symlink_to(place)
    (evil / "inbox.jsonl").touch()
    before = tree(place)
    (made.stage.run_dir() / "stopped").unlink()
    made.stage.begun()
    made.stage.cli("doctor", "--fix")
    assert tree(place) == before


def test_a_run_file_of_a_stranger_moves_no_pane_and_ends_nothing(made):
    [path] = (made.stage.root / ".agents/run").glob("*/run.json")
    file = json.loads(path.read_text())
    path.write_text(json.dumps(file | {"tmux_socket": "/tmp/other", "session": "theirs", "detached": True}))
    (made.stage.run_dir() / "stopped").unlink()
    boss = made.stage.begun()
    page = boss.tool("broadcast_read", {"run_id": file["run_id"]})
    assert page["events"], "reading works"
    worked(made.stage, boss)


def test_a_squad_file_of_a_stranger_ends_no_process(stage):
    squad = "11111111-2222-3333-4444-555555555555"
    victim = subprocess.Popen(["sleep", "1000"], env={"ORCHESTRATOR_MEMBER_ID": f"{squad}-m0"})
    try:
        member = {
            "member_id": f"{squad}-m0", "role_id": "x", "cwd": None, "state": "running", "chat_id": None, "pid": victim.pid,
            "start": process_facts.start_time(victim.pid), "boot_id": process_facts.boot_id(),
        }  # fmt: skip
        file = {
            "v": 1,
            "squad_id": squad,
            "req": "c:1",
            "created_at": hostile.AT,
            "stateful": False,
            "members": [member],
        }
        hostile.put(stage.root, {f".agents/squads/{squad}/squad.json": json.dumps(file).encode()})
        worked(stage, stage.begun())
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_an_identity_of_a_stranger_or_of_another_project_is_none(made, make_stage):
    made.stage.sound = False
    own = json.loads((made.stage.root / ".agents/identity.json").read_text())["id"]
    for claimed in ("0" * 32, "../../etc", 7, None, own.upper()):
        (made.stage.root / ".agents/identity.json").write_text(json.dumps({"v": 1, "id": claimed}))
        assert Paths(made.stage.root).provenance.identity is None
    other = make_stage()
    shutil.copytree(made.stage.root / ".agents/agents", other.root / ".agents/agents")
    (other.root / ".agents/identity.json").write_text(json.dumps({"v": 1, "id": own}))
    assert Paths(other.root).provenance.identity is None


# -- adoption -----------------------------------------------------------------------------------------------------


def old_project(root):
    """A project of before this change: the old logs, and one agent with a queue."""
    place = root / ".agents" / "agents" / "we-ird-n-me"
    place.mkdir(parents=True)
    for log in ("inbox", "outbox"):
        shutil.copy(V1 / f"{log}.jsonl", place / f"{log}.jsonl")
    run_id = next(record["run_id"] for record in lines_of(V1 / "outbox.jsonl") if record["type"] == "starting")
    run = root / ".agents" / "run" / run_id
    run.mkdir(parents=True)
    shutil.copy(V1 / "broadcast.jsonl", run / "broadcast.jsonl")
    (run / "run.json").write_bytes(hostile.run_json({}, run_id=run_id, ended_at=hostile.AT))
    return place, run


def bare(path):
    """The records of a log without what adoption adds."""
    return [{key: value for key, value in record.items() if key not in ("mac", "crc")} for record in lines_of(path)]


def test_the_data_of_before_is_adopted_without_loss(tmp_path):
    place, run = old_project(tmp_path)
    logs = [place / "inbox.jsonl", place / "outbox.jsonl", run / "broadcast.jsonl"]
    before = [bare(path) for path in logs]
    paths = Paths(tmp_path)
    [agent, team] = preview(paths)
    assert (agent["kind"], agent["name"], team["kind"]) == ("agent", "we-ird-n-me", "run")
    seal_files(paths)
    assert [bare(path) for path in logs] == before
    assert preview(Paths(tmp_path)) == []
    again, last = folded(Paths(tmp_path), "we-ird-n-me", own=True)
    assert again.life == "deleted"
    assert last == len(before[1])


@pytest.mark.parametrize("at", range(1, 4))
def test_an_adoption_that_was_cut_off_is_made_whole_by_the_next(tmp_path, monkeypatch, at):
    from orchestrator.team.recovery import team_adoption

    old_project(tmp_path)
    real, count = team_adoption.rewrite, iter(range(1, 100))

    def cut(path, lines):
        if next(count) == at:
            raise KeyboardInterrupt
        real(path, lines)

    monkeypatch.setattr(team_adoption, "rewrite", cut)
    with pytest.raises(KeyboardInterrupt):
        seal_files(Paths(tmp_path))
    monkeypatch.setattr(team_adoption, "rewrite", real)
    assert preview(Paths(tmp_path)), "what is half done is foreign still"
    seal_files(Paths(tmp_path))
    assert preview(Paths(tmp_path)) == []
    folded(Paths(tmp_path), "we-ird-n-me", own=True)


def strip(root):
    """The project as an older version would have left it: nothing has a seal, and there is no identity."""
    home = root / ".agents"
    (home / "identity.json").unlink()
    for path in (home / "cache.sqlite", home / "cache.sqlite-wal", home / "cache.sqlite-shm"):
        path.unlink(missing_ok=True)
    for path in [*home.glob("agents/*/*box.jsonl"), *home.glob("run/*/broadcast.jsonl")]:
        plain = [
            {k: v for k, v in record.items() if k not in ("v", "seq", "mac", "crc")} for record in lines_of(path)
        ]
        path.write_bytes(b"".join(encode(record, seq)[1] for seq, record in enumerate(plain, 1)))
    for path in [*home.glob("agents/*/*.json"), *home.glob("agents/*/engine/*.json"), *home.glob("run/*/run.json")]:
        content = json.loads(path.read_text())
        content.pop("mac", None)
        path.write_text(json.dumps(content))


@pytest.mark.tmux
def test_a_running_team_of_before_goes_on_after_one_question(stage):
    inside = stage.inside(stage.server.start())
    boss = stage.begun(inside)
    assert boss.tool("agent_create", {"name": "a", "role": "r", "engine": "shell"})["ready"]
    boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t-1", "payload": {"command": "sleep 1000"}}})
    until(lambda: "ack" in stage.types("a") or None)
    boss.tool("task_enqueue", {"agent_id": "a", "task": {"task_id": "t-2", "payload": {"command": "true"}}})
    pane = boss.tool("agent_get", {"agent_id": "a"})["meta"]["tmux_pane_id"]
    boss.close()
    stage.stop_daemon()
    strip(stage.root)
    before = [record["type"] for record in stage.records("a")]
    (stage.run_dir() / "stopped").unlink()
    boss = stage.begun(inside)
    [row] = boss.tool("agent_list", {"scope": "all"})["agents"]
    assert "not of this machine" in row["reason"]
    with Human(stage, "trust") as human:
        shown = human.see("[y/N]")
        assert "t-1" in shown and "t-2" in shown
        human.type("y\n")
        assert human.end() == 0
    meta = until(
        lambda: ((found := boss.tool("agent_get", {"agent_id": "a"})["meta"])["status"] == "busy" and found) or None
    )
    assert (meta["tmux_pane_id"], meta["epoch"], meta["running_task_id"]) == (pane, 1, "t-1"), "it was never ended"
    assert stage.types("a")[: len(before)] == before
    boss.tool("task_cancel", {"agent_id": "a", "task_id": "t-1"})
    until(lambda: [r for r in stage.records("a") if r["type"] == "result" and r["task_id"] == "t-2"] or None)
    assert json.loads(stage.cli("verify", "--json").stdout)["ok"]


def test_who_says_no_leaves_all_as_it_is(stage, marker):
    cloned(stage, marker)
    before = tree(stage.root / ".agents" / "agents")
    with Human(stage, "trust", columns=400) as human:
        shown = human.see("[y/N]")
        assert "helper" in shown and str(marker) in shown and "touch stolen" in shown
        human.type("n\n")
        assert human.end() == 1
    worked(stage, stage.begun())
    assert not marker.exists()
    after = tree(stage.root / ".agents" / "agents")
    assert {name: after.get(name) for name in before} == before


def test_a_copy_that_is_adopted_takes_no_pane_and_no_process_of_the_original(made):
    copy = made.stage.base / "copy"
    subprocess.run(["cp", "-r", made.stage.root, copy], check=True)
    paths = Paths(copy)
    seal_files(paths)
    for path in (copy / ".agents/run").glob("*/run.json"):
        file = json.loads(path.read_text())
        assert not any(file["agents"].values())
        assert file["server_pid"] == 0
    assert recorded(paths, "a") is None
    assert not paths.provenance.owns(json.loads(paths.launch("a").read_text()), "agent", "a", "launch")
