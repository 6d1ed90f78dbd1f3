"""The command line over files alone: logs written by hand, no daemon, real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from orchestrator.base.text_width import columns_of
from tests.security.human import OURS, Human

RUN = "run-20260102-030405-abcdef"
AT = "2026-01-02T03:04:05.678Z"


def log(path: Path, *records: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        first = path.read_bytes().count(b"\n") + 1
        for seq, record in enumerate(records, first):
            body = json.dumps({"v": 1, "seq": seq, "at": AT, **record}, separators=(",", ":")).encode()[:-1]
            file.write(b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body)))
    return path


def happened(type_: str, **more: object) -> dict:
    return {"type": type_, "epoch": 1, **more, "by": "orchestrator"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "p"
    agent = root / ".agents" / "agents" / "builder"
    spec = {"name": "builder", "role": "builds", "engine": "shell", "run_id": RUN, "cwd": str(root), "policies": {}}
    log(
        agent / "inbox.jsonl",
        {"type": "task", "epoch": 1, "task_id": "t-1", "payload": {"command": "true"}, "position": 1},
        {"type": "task", "epoch": 1, "task_id": "t-2", "payload": {"command": "false"}, "position": 2},
    )
    log(
        agent / "outbox.jsonl",
        happened("starting", **spec, env_names=[]),
        happened("ready"),
        happened("delivered", task_id="t-1", attempt=1),
        happened("ack", task_id="t-1"),
        happened("result", task_id="t-1", attempt=1, payload={"exit_code": 0, "text": "\u001b[2J"}),
    )
    log(
        root / ".agents" / "run" / RUN / "broadcast.jsonl",
        {"type": "starting", "agent_id": "builder", "ref": 1, "epoch": 1, "by": "orchestrator"},
        {"type": "ready", "agent_id": "builder", "ref": 2, "epoch": 1, "by": "orchestrator"},
        {
            "type": "result",
            "agent_id": "builder",
            "ref": 5,
            "epoch": 1,
            "task_id": "t-1",
            "payload": {"exit_code": 0},
        },
    )
    run_json(root, RUN, None)
    return root


def run_json(root: Path, run_id: str, ended_at: str | None) -> None:
    file = root / ".agents" / "run" / run_id / "run.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    said = {
        "v": 1, "run_id": run_id, "created_at": AT, "tmux_socket": "/nowhere", "tmux_name": "", "server_pid": 1,
        "server_start": 1, "window_id": "@0", "master_pane": "%0", "session": "s", "detached": True, "changed": None,
        "agents": {"builder": "%1"}, "ended_at": ended_at,
    }  # fmt: skip
    file.write_text(json.dumps(said))


class Shell:
    """Runs command lines in the project, with nothing of this machine's own configuration."""

    def __init__(self, root: Path) -> None:
        base = root.parent
        for name in ("home", "run"):
            (base / name).mkdir(mode=0o700, exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ORCHESTRATOR_", "XDG_"))}
        own = {"HOME": str(base / "home"), "ORCHESTRATOR_RUN_BASE": str(base / "run"), "PYTHONUTF8": "1"}
        own["ORCHESTRATOR_STATE_DIR"] = str(base / "state")
        self.env = {**kept, **own, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.env.pop("TMUX", None)
        self.root = root

    def command(self, *line: str) -> list[str]:
        return [sys.executable, "-P", "-m", "orchestrator", *line]

    def __call__(self, *line: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            self.command(*line), cwd=self.root, env=self.env, capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def json(self, *line: str, status: int = 0) -> dict:
        done = self(*line, "--json")
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    def records(self, *line: str) -> list[dict]:
        done = self(*line, "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(text) for text in done.stdout.splitlines()]


@pytest.fixture
def shell(root: Path) -> Shell:
    return Shell(root)


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_reading_commands_tell_the_facts_with_status_unknown_and_write_nothing(shell: Shell) -> None:
    before = snapshot(shell.root)
    (row,) = shell.json("agent", "list")["agents"]
    assert (row["agent_id"], row["status"], row["queue_depth"], row["run_id"]) == ("builder", "unknown", 1, RUN)
    (line,) = shell.json("status")["agents"]
    assert (line["status"], line["last_event_at"]) == ("unknown", AT)
    meta = shell.json("agent", "show", "builder")["meta"]
    assert meta["finished"]["result"] == 1
    assert [task["task_id"] for task in shell.json("task", "list", "builder")["tasks"]] == ["t-2"]
    for words in (["agent", "list"], ["status"], ["agent", "show", "builder"], ["task", "list", "builder"]):
        done = shell(*words)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
    assert snapshot(shell.root) == before
    assert not list((shell.root.parent / "run").rglob("socket")), "a reader never starts a daemon"


def test_what_a_task_used_is_shown_by_task_show_runs_and_the_report(shell: Shell) -> None:
    assert shell.json("task", "show", "t-1")["usage"] is None
    agent = shell.root / ".agents" / "agents" / "builder"
    records = [json.loads(line) for line in (agent / "outbox.jsonl").read_bytes().splitlines()]
    (agent / "outbox.jsonl").unlink()
    records[0]["engine"] = "opencode"
    log(agent / "outbox.jsonl", *({k: v for k, v in record.items() if k != "crc"} for record in records))
    request = {"id": "m1", "model": "big", "input": 1200, "cached": 0, "cache_write": 0, "output": 34, "cost": 0.5}
    lines = [request | {"at": AT, "task_id": "t-1"}, request | {"id": "m2", "at": AT, "task_id": None}]
    (agent / "usage.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert shell.json("task", "show", "t-1")["usage"]["cost_usd"] == 0.5
    assert re.search(r"used: +1,200 in, 34 out, \$0.50", shell("task", "show", "t-1").stdout)
    assert shell.json("runs")["runs"][0]["usage"]["cost_usd"] == 1.0
    assert "$1.00" in shell("runs").stdout
    values = shell.json("report")
    assert values["tasks"][0]["usage"]["cost_usd"] == 0.5
    assert values["totals"]["usage"]["requests"] == 2


def test_a_report_is_written_from_damaged_files_and_replaces_only_a_report(shell: Shell) -> None:
    log(
        shell.root / ".agents" / "agents" / "builder" / "outbox.jsonl",
        happened("delivered", task_id="t-2", attempt=1),
    )
    with (shell.root / ".agents" / "agents" / "builder" / "outbox.jsonl").open("ab") as damaged:
        damaged.write(b"half a line\n")
    done = shell("report")
    page = shell.root / ".agents" / "reports" / f"{RUN}.html"
    assert (done.returncode, done.stdout.strip()) == (0, str(page))
    assert "Records of this run are missing" in page.read_text()
    assert "\x1b" not in page.read_text()
    assert shell("report", RUN).returncode == 0
    values = shell.json("report")
    assert (values["file"], values["run"]["run_id"], values["totals"]["finished"]["result"]) == (None, RUN, 1)
    assert [task["state"] for task in values["tasks"]] == ["result", "running"]
    assert [gap["first_seq"] for gap in values["gaps"]] == [7]
    page.write_text("mine")
    assert shell.json("report", "-o", str(page), status=2)["error"]["code"] == "bad_argument"
    assert page.read_text() == "mine"
    assert shell.json("report", "-o", str(page), "--force")["file"] == str(page)
    printed = shell("report", "-o", "-").stdout
    assert printed.startswith("<!doctype html>") and printed.rstrip().endswith("</html>")
    assert not (shell.root / "-").exists()
    for wrong, code in (("run-0", "unknown_run"), ("../x", "bad_id")):
        assert shell.json("report", wrong, status=2)["error"]["code"] == code


def agents(root: Path, count: int) -> None:
    """Further agents, each at work on a task with a long title in wide letters."""
    for n in range(count):
        agent = root / ".agents" / "agents" / f"worker-with-a-long-name-{n}"
        spec = {"name": agent.name, "role": "r", "engine": "shell", "run_id": RUN, "cwd": str(root), "policies": {}}
        title = "테스트를 모두 실행하고 결과를 보고하세요 and report every failure with its reason"
        log(agent / "inbox.jsonl", {"type": "task", "epoch": 1, "task_id": "t-1", "payload": title, "position": 1})
        log(
            agent / "outbox.jsonl",
            happened("starting", **spec, env_names=[]),
            happened("ready"),
            happened("delivered", task_id="t-1", attempt=1),
        )


def test_the_status_of_eight_agents_fits_a_narrow_pane(shell: Shell, tmp_path: Path) -> None:
    agents(shell.root, 7)
    shell.base = tmp_path
    with Human(shell, "status", columns=36) as human:
        assert human.end() == 0
        shown = human.see("ended with").splitlines()
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown][:-1]
    assert len(lines) <= 8 + 3
    assert max(columns_of(line) for line in lines) <= 36
    assert sum("worker" in line for line in lines) == 7


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", ["status", "inbox", "report"])
def test_a_command_that_was_started_without_a_stream_does_its_work(shell: Shell, line: str, closed: str) -> None:
    agents(shell.root, 2)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -P -m orchestrator {line} {closed}"],
        cwd=shell.root, env=shell.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("line", [("status",), ("status", "--watch"), ("inbox", "--watch")], ids=" ".join)
def test_a_narrow_terminal_without_utf8_is_shown_in_ascii(
    shell: Shell, tmp_path: Path, line: tuple[str, ...]
) -> None:
    agents(shell.root, 2)
    shell.base = tmp_path
    words = ["env", "PYTHONIOENCODING=ascii", *OURS, *line]
    with Human(shell, *words, columns=20, ours=()) as human:
        human.see("agents" if line[0] == "status" else "nothing waits")
        human.type("\x03")
        human.end()
    assert b"internal error" not in human.raw
    assert human.raw.isascii()


def test_a_watched_status_is_redrawn_in_place_until_ctrl_c(shell: Shell, tmp_path: Path) -> None:
    shell.base = tmp_path
    with Human(shell, "status", "--watch", "-n", "0.2", columns=60) as human:
        human.see("1 agent")
        agents(shell.root, 2)
        human.see("3 agents")
        human.type("\x03")
        human.see("\x1b[?1049l")
        raw = human.raw.decode()
    assert raw.count("\x1b[?1049h") == raw.count("\x1b[?1049l") == 1, "the terminal is as it was before"
    drawn = raw[raw.index("\x1b[?1049h") : raw.index("\x1b[?1049l")]
    assert drawn.count("\x1b[2J") == 1, "a frame is written over the one before it"
    assert drawn.count("\x1b[H") > 1
    done = shell("status", "--watch")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)


def test_the_card_of_an_agent_names_all_that_a_person_asks(shell: Shell) -> None:
    agent = shell.root / ".agents" / "agents" / "builder"
    end = {"exit_code": 2, "message": "the command ended with exit code 2"}
    log(
        agent / "outbox.jsonl",
        happened("delivered", task_id="t-2", attempt=1),
        happened("error", task_id="t-2", attempt=1, payload=end),
    )
    screens = agent / "artifacts" / "screens"
    screens.mkdir(parents=True)
    (screens / "t-2-1.txt").write_text("make: ***\n")
    shown = shell("status", "builder")
    assert shown.returncode == 0
    assert "✕ t-2, " in shown.stdout
    assert "exit code 2" in shown.stdout
    assert "artifacts/screens/t-2-1.txt" in shown.stdout
    answer = shell.json("status", "builder")
    assert answer["meta"]["last_task"]["outcome"] == "error"
    assert answer["files"]["screen"].endswith("t-2-1.txt")
    assert shell.json("status", "nobody", status=2)["error"]["code"] == "unknown_agent"
    explained = shell("why", "builder")
    assert "✕ t-2: the command ended" in explained.stdout
    assert "t-2-1.txt" in explained.stdout


def test_a_task_is_shown_whole_by_its_id_or_the_beginning_of_it(shell: Shell) -> None:
    agent = shell.root / ".agents" / "agents" / "builder"
    report = agent / "artifacts" / "report.md"
    report.parent.mkdir()
    report.write_text("whole")
    outside = shell.root.parent / "secret"
    outside.write_text("x")
    text = "see .agents/agents/builder/artifacts/report.md and " + "x" * 500
    payload = {"text": text, "artifact": "gone.log", "more": {"artifacts": ["../../../../secret", str(outside)]}}
    log(
        agent / "outbox.jsonl",
        happened("delivered", task_id="t-2", attempt=1),
        happened("ack", task_id="t-2"),
        happened("requeued", task_id="t-2", attempt=2, reason="its program exited with 1"),
        happened("delivered", task_id="t-2", attempt=2) | {"epoch": 2},
        happened("error", task_id="t-2", attempt=2, payload=payload) | {"epoch": 2},
    )
    task = shell.json("task", "show", "t-2")
    assert (task["state"], task["payload"], task["result"]) == ("error", {"command": "false"}, payload)
    assert [(a["attempt"], a["epoch"], a["how"]) for a in task["attempts"]] == [(1, 1, "requeued"), (2, 2, "error")]
    assert task["attempts"][0]["reason"] == "its program exited with 1"
    named = [(Path(artifact["path"]).name, artifact["bytes"]) for artifact in task["artifacts"]]
    assert named == [("report.md", 5), ("gone.log", None)], "nothing outside of the project is looked at"
    shown = shell("task", "show", "t-2")
    assert "x" * 500 in shown.stdout
    assert "its program exited with 1" in shown.stdout
    assert shell.json("task", "show", "builder/t-1")["state"] == "result"
    assert shell.json("task", "show", "t-1", "--agent", "builder")["task_id"] == "t-1"
    assert shell.json("task", "show", "t-", status=2)["error"]["code"] == "bad_argument"
    assert shell.json("task", "show", "t-9", status=2)["error"]["code"] == "unknown_task"
    assert shell.json("task", "show", "../x/t-1", status=2)["error"]["code"] in ("bad_id", "unknown_agent")
    agents(shell.root, 1)
    error = shell.json("task", "show", "t-1", status=2)["error"]
    assert "builder/t-1" in error["next_step"]


def test_tasks_are_listed_over_all_agents_and_by_their_end(shell: Shell) -> None:
    agents(shell.root, 1)
    other = "worker-with-a-long-name-0"
    unfinished = shell.json("task", "list")["tasks"]
    assert [(task["agent_id"], task["task_id"], task["state"]) for task in unfinished] == [
        ("builder", "t-2", "queued"), (other, "t-1", "delivered"),
    ]  # fmt: skip
    assert [task["task_id"] for task in shell.json("task", "list", "--all", "--agent", "builder")["tasks"]] == [
        "t-2",
        "t-1",
    ]
    assert shell.json("task", "list", "--failed")["tasks"] == []
    assert shell("task", "list", "--failed").stderr == "no failed tasks\n"
    log(
        shell.root / ".agents/agents" / other / "outbox.jsonl",
        happened("error", task_id="t-1", attempt=1, payload="no"),
    )
    (failed,) = shell.json("task", "list", "--failed")["tasks"]
    assert (failed["agent_id"], failed["reason"]) == (other, "no")
    assert "false" in shell("task", "list").stdout


def test_events_since_last_and_all(shell: Shell) -> None:
    assert [one["seq"] for one in shell.records("events", "builder")] == [1, 2, 3, 4, 5]
    assert [one["type"] for one in shell.records("events", "builder", "--since", "3")] == ["ack", "result"]
    assert [one["seq"] for one in shell.records("events", "builder", "-n", "2")] == [4, 5]
    assert [one["seq"] for one in shell.records("events", "builder", "-n", "99")] == [1, 2, 3, 4, 5]
    assert "\x1b" not in shell("events", "builder").stdout


def test_broadcast_reads_the_only_run_and_the_last_of_it(shell: Shell) -> None:
    assert [one["type"] for one in shell.records("broadcast")] == ["starting", "ready", "result"]
    assert [one["seq"] for one in shell.records("broadcast", "-n", "1", "--run", RUN)] == [3]


def test_broadcast_asks_which_run_only_where_several_are_live(shell: Shell) -> None:
    other = "run-20260102-030406-fedcba"
    run_json(shell.root, other, AT)
    assert len(shell.records("broadcast")) == 3
    run_json(shell.root, other, None)
    error = shell.json("broadcast", status=2)["error"]
    assert RUN in error["next_step"]
    assert other in error["next_step"]
    assert shell.json("broadcast", "--run", "run-x", status=2)["error"]["code"] == "unknown_run"


@pytest.mark.parametrize("words", [["events", "builder", "-n", "1", "-f"], ["broadcast", "-n", "1", "-f"]])
def test_following_prints_what_is_appended_until_ctrl_c(shell: Shell, words: list[str]) -> None:
    following = subprocess.Popen(
        shell.command(*words, "--json"), cwd=shell.root, env=shell.env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with following:
        try:
            assert json.loads(following.stdout.readline())["type"] == "result"
            agent = shell.root / ".agents" / "agents" / "builder"
            log(agent / "outbox.jsonl", happened("exited", reason="gone", code=1, signal=None, last_lines=[]))
            said = {"type": "exited", "agent_id": "builder", "ref": 6, "epoch": 1, "reason": "gone"}
            log(shell.root / ".agents" / "run" / RUN / "broadcast.jsonl", said)
            assert json.loads(following.stdout.readline())["type"] == "exited"
            following.send_signal(signal.SIGINT)
            out, err = following.communicate(timeout=30)
            assert (out, err, following.returncode) == ("", "", 130)
        finally:
            following.kill()


def test_a_reader_that_leaves_the_pipe_is_no_error(shell: Shell) -> None:
    line = f"{sys.executable} -P -m orchestrator events builder | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=shell.root, env=shell.env, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in {"0", "1", "141"}


@pytest.mark.parametrize(
    "words", [["--help"], ["status"], ["status", "--json"], ["agent", "get", "nobody", "--json"]]
)
def test_output_that_finds_no_room_is_one_error_of_the_environment(shell: Shell, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", *words],
            cwd=shell.root, env=shell.env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[0]) == (5, "orchestrator: No space left on device")
    assert len(done.stderr.splitlines()) == 2


def test_doctor_is_content_with_good_logs_and_changes_nothing(shell: Shell) -> None:
    before = snapshot(shell.root)
    assert shell.json("doctor")["ok"] is True
    assert snapshot(shell.root) == before


@pytest.mark.parametrize("name", ["inbox.jsonl", "outbox.jsonl"])
def test_doctor_names_file_and_line_of_a_corrupt_log(shell: Shell, name: str) -> None:
    file = shell.root / ".agents" / "agents" / "builder" / name
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1].replace(b"epoch", b"Epoch") + b"".join(lines[2:]))
    bad = [one for one in shell.json("doctor", status=6)["findings"] if one["level"] == "bad"]
    assert [(one["file"], one["line"]) for one in bad] == [(str(file), 2)]
    assert shell("agent", "show", "builder").returncode == 6


def test_doctor_names_file_and_line_of_a_corrupt_broadcast(shell: Shell) -> None:
    file = shell.root / ".agents" / "run" / RUN / "broadcast.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"exit_code":0', b'"exit_code":1'))
    bad = [one for one in shell.json("doctor", status=6)["findings"] if one["level"] == "bad"]
    assert [(one["file"], one["line"]) for one in bad] == [(str(file), 3)]


def test_doctor_exits_5_for_what_the_operator_must_change(shell: Shell) -> None:
    (shell.root / ".agents" / "config.toml").write_text("bordr = true\n")
    bad = [one for one in shell.json("doctor", status=5)["findings"] if one["level"] == "bad"]
    assert [one["check"] for one in bad] == ["config"]


def test_doctor_finds_no_tmux_and_goes_on(shell: Shell, tmp_path: Path) -> None:
    shell.env["PATH"] = str(tmp_path)
    found = shell.json("doctor", status=5)["findings"]
    assert [one["check"] for one in found if one["level"] == "bad"] == ["tmux"]
    assert [one["check"] for one in found][-2:] == ["logs", "leftovers"]


def test_doctor_notes_a_variable_that_is_almost_a_setting(shell: Shell) -> None:
    shell.env["ORCHESTRATOR_MAX_RESTART"] = "1"
    (note,) = [one for one in shell.json("doctor")["findings"] if "MAX_RESTART" in one["message"]]
    assert "ORCHESTRATOR_MAX_RESTARTS" in note["next_step"]


def test_an_unknown_agent_exits_2_and_no_daemon_4(shell: Shell) -> None:
    assert shell.json("events", "nobody", status=2)["error"]["code"] == "unknown_agent"
    assert shell.json("events", "../../x", status=2)["error"]["code"] == "bad_id"
    assert shell.json("daemon", "status", status=4)["error"]["code"] == "daemon_down"


def test_a_stop_without_a_daemon_holds_until_start(shell: Shell) -> None:
    assert shell.json("daemon", "stop") == {
        "ok": True, "was_running": False, "pid": None, "project": str(shell.root)
    }  # fmt: skip
    assert shell.json("daemon", "status", status=4)["error"]["code"] == "daemon_stopped"
    assert shell.json("task", "cancel", "builder", "t-2", status=4)["error"]["code"] == "daemon_stopped"


def test_the_project_can_be_named_from_elsewhere(shell: Shell) -> None:
    elsewhere = shell.root.parent / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        shell.command("-C", str(shell.root), "agent", "list", "--json"),
        cwd=elsewhere, env=shell.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert [row["agent_id"] for row in json.loads(done.stdout)["agents"]] == ["builder"]


def test_completion_offers_commands_and_agent_ids(shell: Shell) -> None:
    def offered(words: str) -> str:
        env = {**shell.env, "_ORCHESTRATOR_COMPLETE": "complete_bash", "COMP_WORDS": words}
        env["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        done = subprocess.run(shell.command(), cwd=shell.root, env=env, capture_output=True, text=True, timeout=60)
        return done.stdout

    assert "broadcast" in offered("orchestrator br")
    assert "builder" in offered("orchestrator events b")
