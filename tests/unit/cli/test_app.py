"""The command line as a whole: errors and exit codes, help, what a command loads, what an agent may not do."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.base.errors import CODES, EXIT_CODES, BadRequest
from orchestrator.cli import agents, app, command_groups, facts, output, tasks
from orchestrator.cli.event_text import EventText
from orchestrator.edge import project_location
from orchestrator.trust import launched
from orchestrator.trust.origin import UNKNOWN
from tests.support import loaded_modules

COMMANDS = [
    ["mcp"], ["launch"], ["worker"], ["demo"], ["events"], ["broadcast"], ["status"], ["top"], ["web"], ["logs"], ["runs"], ["report"], ["attach"], ["peek"], ["diff"], ["merge"], ["doctor"], ["gc"],
    ["schema"], ["agent", "create"], ["agent", "list"], ["agent", "show"], ["agent", "restart"], ["agent", "delete"],
    ["task", "add"], ["task", "cancel"], ["task", "list"], ["task", "show"], ["daemon", "run"], ["daemon", "start"], ["daemon", "stop"],
    ["daemon", "status"], ["daemon", "restart"], ["config", "show"], ["setup"], ["verify"], ["why"], ["up"], ["down"], ["trust"],
    ["worktree", "list"], ["worktree", "merge-check"], ["worktree", "remove"],
    ["roles", "list"], ["roles", "show"], ["roles", "lint"],
    ["squad", "run"], ["squad", "start"], ["squad", "wait"], ["squad", "list"], ["squad", "cancel"],
    ["spawn", "create"], ["spawn", "status"], ["spawn", "result"], ["spawn", "list"], ["spawn", "cancel"],
    ["spawn", "artifact"], ["spawn", "health"], ["spawn", "graph"],
    ["gsd", "query"], ["gsd", "blast"], ["gsd", "phase"], ["gsd", "requirement"], ["gsd", "patterns"], ["gsd", "past"],
    ["gsd", "files"], ["gsd", "verify"], ["gsd", "check"], ["gsd", "index"], ["gsd", "graph"], ["version"],
    ["inbox"], ["approve"], ["deny"], ["answer"], ["release"], ["dismiss"], ["approvals", "list"], ["approvals", "remove"],
    ["fleet", "init"], ["fleet", "join"], ["fleet", "member"], ["fleet", "status"], ["fleet", "doctor"], ["fleet", "restore"],
    ["fleet", "take-run"], ["fleet", "leave"], ["host", "add"], ["host", "list"], ["host", "doctor"], ["host", "drain"],
    ["host", "remove"], ["host", "attach"],
]  # fmt: skip
OWN_HELP = (["mcp"], ["launch"])  # they parse their own words, without this command line
CHANGING = [
    ["agent", "create", "a", "--role", "r"], ["agent", "restart", "a"], ["agent", "delete", "a"],
    ["task", "add", "a", "--command", "true"],
    ["task", "cancel", "a", "t"], ["daemon", "start"], ["daemon", "stop"], ["daemon", "restart"], ["demo"],
    ["setup", "gemini"], ["doctor", "--live"], ["doctor", "--fix"], ["gc"], ["up"], ["down"],
    ["attach", "a"], ["peek", "a"], ["merge", "a"],
    ["worktree", "remove", "a"], ["squad", "run", "r", "--task", "t"], ["squad", "start", "-"], ["squad", "wait", "s"],
    ["squad", "cancel", "s"], ["spawn", "create", "t", "--mode", "single"], ["spawn", "cancel", "r"],
    ["gsd", "index"], ["approve", "x"], ["deny", "x"], ["answer", "x", "y"], ["release", "x"], ["dismiss", "x"],
    ["approvals", "remove", "x"],
    ["fleet", "init"], ["fleet", "join"], ["fleet", "restore"], ["fleet", "take-run", "r"], ["fleet", "leave"],
    ["host", "add", "a@b"], ["host", "drain", "a"], ["host", "remove", "a"], ["host", "attach", "a"],
]  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "p" / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ORCHESTRATOR_RUN_BASE", str(tmp_path / "run"))
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(tmp_path / "p"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "p")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("orchestrator.cli.doctor.project_here", fail)


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_error_has_its_exit_code_one_sentence_and_its_next_step(code, monkeypatch, capsys) -> None:
    cls = CODES[code][0]
    failing(monkeypatch, cls(code, "what is wrong", "what to do"))
    assert app.main(["doctor"]) == (70 if code == "internal" else EXIT_CODES[cls])
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "orchestrator: what is wrong\n  what to do\n"


def test_with_json_an_error_is_one_object_on_stdout(monkeypatch, capsys) -> None:
    failing(monkeypatch, BadRequest("unknown_agent", "m", "n", agent_id="x"))
    assert app.main(["doctor", "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {"kind": "BadRequest", "code": "unknown_agent", "message": "m", "next_step": "n", "agent_id": "x"}
    }


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (project_location.RunDirUnsafe("open to others"), "run_dir_unsafe", 5),
        (PermissionError(13, "Permission denied", "/x"), "io_failed", 5),
        (RuntimeError("a bug"), "internal", 70), (RecursionError(), "internal", 70),
    ],
)  # fmt: skip
def test_what_is_no_error_of_ours_becomes_one(monkeypatch, capsys, error, code, status) -> None:
    failing(monkeypatch, error)
    assert app.main(["doctor", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_a_bug_shows_where_its_traceback_is_and_no_traceback(monkeypatch, capsys, tmp_path) -> None:
    failing(monkeypatch, RuntimeError("a bug"))
    assert app.main(["doctor"]) == 70
    out, err = capsys.readouterr()
    log = project_location.run_dir(tmp_path / "p") / project_location.LOG
    assert "Traceback" not in out + err
    assert str(log) in err
    assert "RuntimeError: a bug" in log.read_text()


def test_a_reader_that_goes_away_ends_every_command_with_the_same_status() -> None:
    for line in (["schema", "inbox"], ["--help"], ["agent", "list", "--help"]):
        command = [sys.executable, "-P", "-m", "orchestrator", *line]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert (done.returncode, done.stderr) == (app.READER_GONE, b"")


def test_every_visible_command_is_in_one_section_of_the_help(capsys) -> None:
    listed = [name for names in command_groups.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(set(command_groups.COMMANDS) - {"mcp", "launch", "worker"})
    assert app.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Every day:")[2], "a first sentence is too long for 80 columns"
    assert [title for title in command_groups.SECTIONS if f"\n{title}:\n" not in shown] == []


@pytest.mark.parametrize("word", command_groups.INSTEAD)
def test_a_word_of_other_tools_is_answered_with_our_command(word, capsys) -> None:
    paths = {" ".join(path) for path in COMMANDS}
    for meant in command_groups.INSTEAD[word]:
        assert meant.partition(" --")[0] in paths
    assert app.main([word]) == 2
    assert f"'{command_groups.INSTEAD[word][0]}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"), [("agent ls", "list"), ("task rm", None), ("agent rm", "delete"), ("task abort", "cancel")]
)
def test_a_synonym_in_a_group_is_answered_with_its_command(line, meant, capsys) -> None:
    assert app.main(line.split()) == 2
    said = capsys.readouterr().err
    assert f"'{meant}'" in said if meant else "Did you mean" not in said


def test_the_version_is_a_command_too(capsys) -> None:
    assert app.main(["version"]) == app.main(["--version"]) == 0
    assert capsys.readouterr().out == f"orchestrator {project_location.VERSION}\n" * 2
    assert app.main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": project_location.VERSION}


def test_ctrl_c_ends_with_130_and_a_closed_pipe_quietly(monkeypatch, capsys) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert app.main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        ["bogus"], ["agent", "create"], ["task", "add"], ["events", "a", "--since", "x"],
        ["events", "a", "--since", "-1"], ["status", "--bogus"], ["-C", "/does/not/exist", "status"],
        ["task", "add", "a", "b", "--file", "c"], ["task", "add", "a", "--payload", "{"],
        ["task", "add", "a", "--payload", "1", "--command", "x"], ["config", "show", "--set", "border"],
        ["config", "show", "--set", "bordr=1"], ["agent", "create", "a", "--role", "r", "--env", "X"],
        ["agent", "create", "a", "--role", "r", "--command", "x 'y"],
        ["schema", "no-such-schema"],
    ],
)  # fmt: skip
def test_a_wrong_command_line_exits_2_with_a_coded_error(line, capsys) -> None:
    assert app.main([*line, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "BadRequest"
    assert app.main(line) == 2
    assert capsys.readouterr().err.startswith("orchestrator: ")


def test_the_tree_of_commands_is_the_documented_one() -> None:
    found = []
    for name in command_groups.COMMANDS:
        command = command_groups.loaded(name)
        below = getattr(command, "commands", None)
        found += [[name, inner] for inner in below] if below else [[name]]
    assert sorted(found) == sorted(COMMANDS)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in OWN_HELP], ids=" ".join)
def test_every_command_has_help_with_an_example_and_json(line, capsys) -> None:
    assert app.main([*line, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example:\n    " in shown
    assert "orchestrator " + (" ".join(line) if line != ["worker"] else "") in shown.split("Example:")[1]
    assert "--json" in shown


def test_help_and_version_need_no_project_and_no_arguments_show_help(capsys) -> None:
    assert app.main(["-V"]) == app.main(["--version"]) == 0
    assert capsys.readouterr().out == f"orchestrator {project_location.version()}\n" * 2
    assert app.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {line[0]} " in shown for line in COMMANDS if line[0] not in ("mcp", "launch", "worker"))


def test_a_group_without_a_command_shows_its_help_on_stderr(capsys) -> None:
    assert app.main(["agent"]) == 2
    assert "create" in capsys.readouterr().err


@pytest.mark.parametrize("line", CHANGING, ids=" ".join)
def test_what_changes_the_team_is_refused_inside_an_agent(line, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "builder")
    assert app.main([*line, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_for_agents"
    assert not (Path.cwd() / ".agents").exists()


@pytest.mark.parametrize("line", CHANGING, ids=" ".join)
def test_a_process_of_unknown_origin_changes_no_team_and_may_play_the_demo(line, monkeypatch, capsys) -> None:
    monkeypatch.setattr(launched, "own_origin", lambda: UNKNOWN)
    monkeypatch.setattr("orchestrator.cli.demo.main", lambda **_: 0)
    status = app.main([*line, "--json"])
    told = json.loads(capsys.readouterr().out or "{}")
    if line == ["demo"]:
        assert status == 0
    else:
        assert (status, told["error"]["code"]) == (2, "origin_unknown")
        assert not (Path.cwd() / ".agents").exists()


@pytest.mark.parametrize(
    ("mark", "who"), [("ORCHESTRATOR_AGENT_ID", "agent x"), (project_location.MEMBER_ENV, "squad member x")]
)
def test_the_refusal_names_whether_it_is_an_agent_or_a_squad_member(mark, who, monkeypatch, capsys) -> None:
    monkeypatch.setenv(mark, "x")
    assert app.main(["agent", "delete", "builder", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "not_for_agents"
    assert f"inside {who}," in error["message"]


def test_what_only_reads_works_inside_an_agent_without_asking_the_daemon(monkeypatch, capsys) -> None:
    monkeypatch.setenv("ORCHESTRATOR_AGENT_ID", "builder")
    monkeypatch.setattr(facts, "DaemonClient", lambda *_, **__: pytest.fail("the daemon was asked"))
    assert app.main(["agent", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"live": False, "agents": []}


@pytest.fixture
def daemon_ended():
    """Ends the daemon that a command of the test may have started."""
    yield
    assert app.main(["daemon", "stop"]) == 0


PYDANTIC = {"pydantic"}


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        (["agent", "create", "--help"], set()), (["schema"], PYDANTIC), (["daemon", "stop"], set()),
        (["task", "cancel", "a", "t", "-C", "/"], set()), (["config", "show"], PYDANTIC), (["agent", "list"], set()),
        (["task", "list"], set()), (["events", "a"], set()), (["inbox"], set()), (["approve", "a"], set()),
        (["approvals", "list"], set()), (["squad", "list"], set()), (["spawn", "list"], set()),
        (["doctor"], PYDANTIC | {"asyncio", "structlog"}), (["runs"], PYDANTIC | {"asyncio", "structlog"}), (["roles", "list"], PYDANTIC), (["roles", "lint"], PYDANTIC),
        (["spawn", "create", "--help"], set()), (["gsd", "index", "--help"], set()),
    ],
    ids=lambda one: " ".join(sorted(one) if isinstance(one, set) else one),
)  # fmt: skip
def test_a_command_loads_no_more_than_it_needs(line, allowed, daemon_ended) -> None:
    before, after = loaded_modules.loaded(line)
    assert before & loaded_modules.HEAVY == set(), "what every command pays for"
    assert after & loaded_modules.HEAVY <= allowed


@pytest.mark.parametrize(
    ("line", "own", "most"),
    [
        (["--help"], set(), 240), (["--version"], set(), 290), (["status"], {"status"}, 310),
        (["daemon", "status"], {"daemon"}, 265), (["statsu"], set(), 240),
    ],
    ids=["help", "version", "status", "daemon status", "unknown"],
)  # fmt: skip
def test_what_is_called_all_day_loads_few_modules_and_no_other_command(line, own, most) -> None:
    _, after = loaded_modules.loaded(line)
    commands = {module for module, _ in command_groups.COMMANDS.values()}
    assert {name for name in commands if f"orchestrator.cli.{name}" in after} == own
    assert after & loaded_modules.HEAVY == set()
    assert len(after) <= most, "a start takes about as long as its imports"


@pytest.mark.parametrize("name", command_groups.COMMANDS)
def test_the_help_lists_each_command_with_its_own_first_sentence(name) -> None:
    command, line = command_groups.loaded(name), command_groups.COMMANDS[name][1]
    assert command.name == name
    assert command.get_short_help_str(200) == line == command.help.partition("\n")[0]


def test_settings_of_the_command_line_reach_the_daemons_environment_and_are_checked_first(
    monkeypatch, capsys
) -> None:
    from orchestrator.cli import daemon

    monkeypatch.setenv("ORCHESTRATOR_IDLE_EXIT_S", "1")
    monkeypatch.setattr(daemon, "_start", lambda _: {"pid": 1, "project": os.environ["ORCHESTRATOR_IDLE_EXIT_S"]})
    assert app.main(["daemon", "start", "--set", "idle_exit_s=30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["project"] == "30"
    assert app.main(["daemon", "start", "--set", "idle_exit_s=soon", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["key"] == "idle_exit_s"


HANGS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.Handlers(int(sys.argv[2])))
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("on_sigterm", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_daemon_that_hangs_is_ended_by_the_lock_it_holds_and_nobody_else_is(
    tmp_path, monkeypatch, capsys, on_sigterm
) -> None:
    from orchestrator.cli import daemon

    real = daemon._signal

    def signaled(pid: int, sign: signal.Signals) -> None:
        real(pid, sign)
        if sign == signal.SIGKILL or on_sigterm == signal.SIG_DFL:  # this one ends it, when the machine comes to it
            monkeypatch.setattr(daemon, "KILL_S", 30.0)

    monkeypatch.setattr(daemon, "KILL_S", 0.5)
    monkeypatch.setattr(daemon, "_signal", signaled)
    lock = project_location.run_dir(tmp_path / "p") / project_location.LOCK
    # As in life: one process takes the lock, its heir holds it, and a bystander has the file open.
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    command = [sys.executable, "-c", HANGS]
    heir = subprocess.Popen([*command, "daemon", str(int(on_sigterm))], pass_fds=[fd], stdout=subprocess.PIPE)
    os.close(fd)
    with lock.open() as opened, heir:
        bystander = subprocess.Popen(
            [*command, "mcp", str(int(on_sigterm))], pass_fds=[opened.fileno()], stdout=subprocess.PIPE
        )
        with bystander:
            try:
                assert heir.stdout.readline() == bystander.stdout.readline() == b"up\n"
                assert app.main(["daemon", "stop", "--json"]) == 0
                assert json.loads(capsys.readouterr().out)["pid"] == heir.pid
                assert heir.wait(30) < 0
                assert bystander.poll() is None
            finally:
                heir.kill()
                bystander.kill()


def test_config_show_names_value_source_and_what_is_per_connection(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ORCHESTRATOR_OVERFLOW", "window")
    assert app.main(["config", "show", "--json", "--set", "border=off"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["keys"]["overflow"]["source"] == "environment ORCHESTRATOR_OVERFLOW"
    assert (found["keys"]["border"]["value"], found["keys"]["border"]["source"]) == (False, "flag --set border")
    assert [row["name"] for row in found["per_connection"]] == list(project_location.PER_CONNECTION)
    assert app.main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "env block" in shown
    assert all(name in shown for name in project_location.PER_CONNECTION)


def test_config_show_refuses_a_bad_file_by_name(tmp_path, capsys) -> None:
    (tmp_path / "p" / ".agents").mkdir()
    file = tmp_path / "p" / ".agents" / "config.toml"
    file.write_text("bordr = true\n")
    assert app.main(["config", "show", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["file"] == str(file)


AGENT = {
    "agent_id": "b", "name": "b", "status": "idle", "run_id": "run-1", "engine": "shell", "created_at": "2026-01-02T03:04:05.678Z",
}  # fmt: skip


class Called(Exception):
    """Ends a command at its tool call, with what it asked for."""


@pytest.fixture
def asked(monkeypatch) -> list:
    calls: list = []

    class Told:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None: ...
        def tool(self, name: str, given: dict, **_: object) -> dict:
            if name == "agent_list":
                return {"agents": [AGENT]}
            calls.append((name, given))
            raise BadRequest("unknown_agent", "as far as this test goes")

    monkeypatch.setattr(agents, "DaemonClient", Told)
    monkeypatch.setattr(tasks, "DaemonClient", Told)
    return calls


def test_agent_create_asks_for_exactly_what_was_given(asked, tmp_path) -> None:
    line = "agent create b --role r --engine shell --cwd sub --env A=1 --env B=x=y --no-wait"
    assert app.main(line.split()) == 2
    assert asked == [
        (
            "agent_create",
            {
                "name": "b", "role": "r", "engine": "shell", "cwd": str(tmp_path / "p" / "sub"),
                "env": {"A": "1", "B": "x=y"}, "ready_wait_ms": 0,
            },
        )
    ]  # fmt: skip
    asked.clear()
    app.main(["agent", "create", "b"])
    assert asked == [("agent_create", {"name": "b", "role": "b"})]
    asked.clear()
    wishes = ["--engine", "command", "--model", "m-7", "--approval", "edits", "--command", "my-cli --ask '{prompt}'"]
    app.main(["agent", "create", "b", "--role", "r", *wishes])
    wanted = {"engine": "command", "model": "m-7", "approval": "edits", "command": ["my-cli", "--ask", "{prompt}"]}
    assert asked == [("agent_create", {"name": "b", "role": "r"} | wanted)]


def test_force_needs_a_yes_and_confirms_by_id(asked, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert app.main(["agent", "delete", "b", "--force", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "confirm_needed"
    assert asked == []
    app.main(["agent", "delete", "b", "--force", "--yes"])
    assert asked == [("agent_delete", {"agent_id": "b", "force": True, "confirm": "b"})]


@pytest.mark.parametrize(
    ("words", "stdin", "payload"),
    [
        (["--command", "make test"], "", {"command": "make test"}), (["--payload", '{"a": [1]}'], "", {"a": [1]}),
        (["-"], '{"command": "x"}\n', {"command": "x"}), (["--payload", "null"], "", None),
    ],
)  # fmt: skip
def test_a_payload_comes_as_command_json_or_stdin(asked, monkeypatch, words, stdin, payload) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    app.main(["task", "add", "b", "--id", "t-1", *words])
    assert asked == [("task_enqueue", {"agent_id": "b", "task": {"payload": payload, "task_id": "t-1"}})]


def record(seq: int, type_: str, task_id: str | None = None, **more: object) -> dict:
    return {"seq": seq, "at": "2026-01-02T03:04:05.678Z", "type": type_, "task_id": task_id, **more}


class Scripted:
    """The daemon's answers to a waiting `task add`, page by page."""

    def __init__(self, pages: list[list[dict]], status: str = "busy") -> None:
        self.pages, self.status = pages, status

    def agents(self) -> list[dict]:
        return [AGENT]

    def agent(self, _: str) -> dict:
        return {"status": self.status, "last_event_seq": 4}

    def events(self, _: str, since: int, __: int, ___: int = 0) -> dict:
        page = self.pages.pop(0)
        return {"events": page, "last_seq": page[-1]["seq"] if page else since, "more": False}


@pytest.mark.parametrize(("end", "status"), [("result", 0), ("error", 1), ("canceled", 1)])
def test_a_waiting_add_exits_by_how_the_task_ended(monkeypatch, capsys, end, status) -> None:
    class Told:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None: ...
        def tool(self, *_: object, **__: object) -> dict:
            return {"task_id": "t-1", "state": "queued", "position": 1}

    pages = [[record(5, "result", "t-0")], [], [record(6, "ack", "t-1"), record(7, end, "t-1", payload={"x": 1})]]
    monkeypatch.setattr(tasks, "DaemonClient", Told)
    monkeypatch.setattr(tasks, "FromDaemon", lambda _: Scripted(pages))
    assert app.main(["task", "add", "b", "--command", "x", "--wait", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["terminal"]["seq"] == 7


def test_a_waiting_add_ends_when_its_agent_has_ended_without_a_terminal_event(monkeypatch) -> None:
    with pytest.raises(tasks.Conflict) as caught:
        tasks._follow(Scripted([[], []], "failed"), "b", "t-1", 4, None)
    assert caught.value.code == "agent_ended"


def test_a_terminal_event_written_as_the_agent_ends_is_still_found() -> None:
    pages = [[], [record(5, "canceled", "t-1")]]
    assert tasks._follow(Scripted(pages, "deleted"), "b", "t-1", 4, None)["type"] == "canceled"


def test_text_of_agents_cannot_command_the_terminal(capsys) -> None:
    output.say("a\x1b[2Jb\x9bc\x07")
    output.table(["X"], [["\x1b]0;title\x07\n"]])
    EventText(Path(), "b").show([record(1, "progress", "t", payload={"text": "\x1b[31m\x9b"})])
    shown = capsys.readouterr().out
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


def test_a_table_in_a_pipe_is_plain_and_uncut(capsys) -> None:
    output.table(["A", "B"], [["x" * 300, "y"], ["z", ""]])
    assert capsys.readouterr().out == f"{'A':<300}  B\n{'x' * 300}  y\nz\n"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (172800, "2d"), (-5, "0s")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds, shown) -> None:
    then = datetime(2026, 1, 2, tzinfo=UTC)
    assert output.age("2026-01-02T00:00:00.000Z", then + timedelta(seconds=seconds)) == shown
    assert output.age(None) == output.age("nonsense") == "-"
