"""The shell worker against a scripted server: every outcome, every way to die, nothing left behind."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from orchestrator.base import errors
from orchestrator.trust.provenance import Provenance
from orchestrator.worker import relay_client, task_loop
from tests.support.stage import until

FAKES = Path(__file__).parents[1] / "fakes"
LIMIT_S = 40
START = (
    "import json, sys; from orchestrator.worker import pane_keys, relay_client, task_loop; "
    "[setattr(place, name, value) for name, value in json.loads(sys.argv[3]).items() "
    "for place in (task_loop, relay_client, pane_keys) if hasattr(place, name)]; "
    "sys.exit(task_loop.main([sys.executable, '-I', '-S', sys.argv[1], sys.argv[2]]))"
)
NEVER_S = 10 * LIMIT_S


class Bench:
    """One agent's project, the script of its server, and the worker process."""

    def __init__(self, root: Path):
        self.root = root
        self.calls_file = root / "calls.jsonl"
        self.script = root / "script.json"
        self.artifacts = root / ".agents" / "agents" / "lint" / "artifacts"
        self.pane = root / "pane.txt"
        (root / ".agents").mkdir()
        Provenance(root / ".agents").establish()
        self.processes: list[subprocess.Popen] = []
        self.limits: dict = {}  # constants of the worker that a test wants otherwise

    def task(self, task_id: str, payload, **more) -> dict:
        return {"kind": "task", "task_id": task_id, "payload": payload, "artifacts": str(self.artifacts), **more}

    def start(self, commands: list[dict], stdout=None, **script) -> subprocess.Popen:
        self.script.write_text(
            json.dumps({"calls": str(self.calls_file), "commands": commands, "stop": True, **script})
        )
        env = dict(os.environ)
        env.update(
            ORCHESTRATOR_AGENT_ID="lint",
            ORCHESTRATOR_AGENT_EPOCH="1",
            ORCHESTRATOR_AGENT_SECRET="s3cret",
            ORCHESTRATOR_PROJECT=str(self.root),
            HOME=str(self.root),
        )
        server = [str(FAKES / "scripted_server.py"), str(self.script)]
        argv = [sys.executable, "-P", "-c", START, *server, json.dumps(self.limits)]
        with self.pane.open("ab") as out:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout or out,
                stderr=out,
                env=env,
                cwd=self.root,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def finish(self, commands: list[dict], **script) -> list[dict]:
        """Run until the worker stops by itself; the accepted terminal events."""
        process = self.start(commands, **script)
        assert process.wait(LIMIT_S) == 0, self.pane.read_text(errors="replace")
        return [c for c in self.events() if c["type"] in {"result", "error", "canceled"} and not c.get("fault")]

    def calls(self) -> list[dict]:
        if not self.calls_file.exists():
            return []
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]

    def events(self) -> list[dict]:
        return [c for c in self.calls() if c["tool"] == "emit_event"]

    def until(self, look, what: str):
        """Wait for a fact, bounded."""
        try:
            return until(look, LIMIT_S)
        except AssertionError:
            raise AssertionError(f"{what}\n{self.calls()}\n{self.pane.read_text(errors='replace')}") from None

    def ours(self, name: str | None = None) -> list[psutil.Process]:
        """Every living process that stands in this bench, whoever its parent is; or those of that name."""
        found = []
        for process in psutil.process_iter():
            try:  # each may end between two looks at it
                here = process.status() != psutil.STATUS_ZOMBIE and process.environ().get("HOME") == str(self.root)
                if here and name in {None, process.name()}:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def nothing_left(self) -> None:
        self.until(lambda: not self.ours(), "processes are left over")


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody reaps does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def opened(root: Path):
    """A bench, and the end of all it has started."""
    bench = Bench(root)
    yield bench
    for process in bench.processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    for left in bench.ours():
        with contextlib.suppress(psutil.NoSuchProcess):  # the guard ends by itself, a moment after its worker
            left.kill()


@pytest.fixture
def bench(tmp_path):
    with opened(tmp_path) as bench:
        yield bench


def test_a_command_that_succeeds_is_acked_run_and_reported_with_its_output(bench):
    bench.limits["REPORT_EVERY_S"] = NEVER_S  # a slow machine would have news of it before it ends
    (done,) = bench.finish([bench.task("t-1", {"command": "echo hello; echo oops >&2; pwd"})])
    payload = done["payload"]
    assert (done["type"], done["done"], payload["exit_code"]) == ("result", True, 0)
    assert payload["last_lines"] == ["hello", "oops", str(bench.root)]
    assert payload["artifact"] == ".agents/agents/lint/artifacts/t-1-a1.log"
    log = (bench.root / payload["artifact"]).read_bytes()
    assert log == f"hello\noops\n{bench.root}\n".encode()
    assert payload["output_bytes"] == len(log)
    assert isinstance(payload["duration_s"], float)
    assert [e["type"] for e in bench.events()] == ["ack", "result"]
    pane = bench.pane.read_text()
    assert "t-1" in pane
    assert "$ echo hello" in pane
    assert "\nhello\noops\n" in pane
    assert "result, exit 0" in pane
    bench.nothing_left()


def test_tasks_run_in_order_and_each_outcome_has_its_own_form(bench):
    done = bench.finish(
        [
            bench.task("bad", {"script": "ls"}),
            bench.task("seven", {"command": "echo no; exit 7"}),
            bench.task("killed", {"command": "kill -KILL $$"}),
            bench.task("late", {"command": "sleep 60", "timeout_s": 0.2}),
            bench.task("long", {"command": ": " + "x" * 140_000}),
            bench.task(
                "env", {"command": "echo $A-$ORCHESTRATOR_AGENT_ID-$ORCHESTRATOR_AGENT_SECRET", "env": {"A": "1"}}
            ),
            bench.task("stdin", {"command": "cat; echo $?"}),
        ]
    )
    assert [(e["task_id"], e["type"], e["payload"].get("code")) for e in done] == [
        ("bad", "error", "bad_payload"),
        ("seven", "error", "exit_status"),
        ("killed", "error", "signal"),
        ("late", "error", "timed_out"),
        ("long", "error", "start_failed"),
        ("env", "result", None),
        ("stdin", "result", None),
    ]
    by = {e["task_id"]: e["payload"] for e in done}
    assert by["seven"]["exit_code"] == 7
    assert by["seven"]["last_lines"] == ["no"]
    assert (by["killed"]["exit_code"], by["killed"]["signal"]) == (None, "SIGKILL")
    assert by["late"]["signal"] == "SIGTERM"
    assert by["env"]["last_lines"] == ["1-lint-"]
    assert by["stdin"]["last_lines"] == ["0"]
    assert "script" in by["bad"]["message"]


def test_a_cancel_interrupts_the_command_and_its_children_within_the_ladder(bench):
    # The same signals, without haste: what is asserted is what the first one does.
    bench.limits["CANCEL_LADDER"] = [(number, LIMIT_S) for number, _ in task_loop.CANCEL_LADDER]
    (done,) = bench.finish(
        [
            bench.task(
                "t-1",
                {"command": f"{sys.executable} -c 'import time; print(1, flush=True); time.sleep(99)'; echo after"},
            )
        ],
        cancel_on={"t-1": "progress"},
    )
    assert done["type"] == "canceled"
    assert done["payload"]["signal"] == "SIGINT" or done["payload"]["exit_code"] == 130
    assert "KeyboardInterrupt" in done["payload"]["last_lines"]
    bench.nothing_left()


def test_a_command_that_ignores_interrupt_and_terminate_is_killed(bench):
    bench.limits["CANCEL_LADDER"] = [(number, 0.3) for number, _ in task_loop.CANCEL_LADDER]
    (done,) = bench.finish(
        [bench.task("t-1", {"command": "trap '' INT TERM; echo up; while :; do sleep 0.1; done"})],
        cancel_on={"t-1": "progress"},
    )
    assert (done["type"], done["payload"]["signal"]) == ("canceled", "SIGKILL")
    bench.nothing_left()


def test_a_silent_command_beats_and_sees_the_cancel(bench):
    (done,) = bench.finish([bench.task("t-1", {"command": "exec sleep 99"})], cancel_on={"t-1": "heartbeat"})
    assert done["type"] == "canceled"
    assert [e["type"] for e in bench.events()] == ["ack", "heartbeat", "canceled"]


def test_a_task_canceled_before_its_ack_never_starts(bench):
    (done,) = bench.finish([bench.task("t-1", {"command": "touch started"})], cancel_on={"t-1": "ack"})
    assert done["type"] == "canceled"
    assert not (bench.root / "started").exists()


def test_a_cancel_of_a_task_that_is_not_running_is_answered_with_canceled(bench):
    (done,) = bench.finish([{"kind": "cancel", "task_id": "lost"}])
    assert (done["type"], done["task_id"]) == ("canceled", "lost")


def test_a_redelivered_attempt_is_not_run_twice_but_reported_again(bench):
    bench.limits["REPORT_EVERY_S"] = NEVER_S
    done = bench.finish([bench.task("t-1", {"command": "echo x >> runs"}, again=1)])
    assert [e["type"] for e in done] == ["result", "result"]
    assert done[0]["payload"] == done[1]["payload"]
    assert (bench.root / "runs").read_text() == "x\n"
    assert [e["type"] for e in bench.events()] == ["ack", "result", "result"]


def test_progress_tells_what_is_new(bench):
    # It ends once a report behind the progress has come, and that had nothing new to tell.
    reported = """sed '1,/"progress"/d' calls.jsonl | grep -q '"heartbeat"'"""
    (done,) = bench.finish(
        [bench.task("t-1", {"command": f"echo first; until {reported}; do sleep 0.05; done"})],
    )
    told = [e["payload"] for e in bench.events() if e["type"] == "progress"]
    assert told[0] == {"bytes": 6, "last_line": "first"}
    assert len(told) == 1
    assert done["type"] == "result"


def test_raw_bytes_and_large_output_arrive_whole_in_the_artifact(bench):
    (raw, big) = bench.finish(
        [
            bench.task("raw", {"command": r"printf '\377\376\000 10%%\r 90%%\r'"}),
            bench.task("big", {"command": "head -c 30000000 /dev/zero; echo; echo end"}),
        ]
    )
    assert (bench.artifacts / "raw-a1.log").read_bytes() == b"\xff\xfe\x00 10%\r 90%\r"
    assert raw["payload"]["last_lines"] == ["90%"] or raw["payload"]["last_lines"] == [" 90%"]
    assert big["payload"]["output_bytes"] == 30_000_005
    assert (bench.artifacts / "big-a1.log").stat().st_size == 30_000_005
    assert big["payload"]["last_lines"] == ["end"]


def test_what_a_command_leaves_in_the_background_ends_with_it(bench):
    (done,) = bench.finish([bench.task("t-1", {"command": "sleep 999 & echo $!"})])
    assert done["type"] == "result"
    left = int(done["payload"]["last_lines"][0])
    bench.until(lambda: not alive(left), "it lives")  # killed, and perhaps not quite out of the kernel yet


def test_the_outcome_survives_a_daemon_that_is_away_and_a_server_that_dies(bench):
    done = bench.finish(
        [bench.task("t-1", {"command": "echo x >> runs"})],
        faults=[
            {"tool": "wait_for_command", "nth": 1, "error": {"kind": "NotReady", "code": "daemon_down"}},
            {"tool": "emit_event", "type": "ack", "nth": 1, "die": True},
            {"tool": "emit_event", "type": "result", "nth": 1, "error": {"kind": "Environment", "code": "disk_full"}},
            {"tool": "emit_event", "type": "result", "nth": 2, "die": True},
        ],
    )
    assert [e["type"] for e in done] == ["result"]
    assert (bench.root / "runs").read_text() == "x\n"


def rpc(**message) -> str:
    return json.dumps({"jsonrpc": "2.0", **message})


def test_what_a_server_says_unasked_is_answered_or_let_pass(bench):
    noise = [
        rpc(method="notifications/progress", params={}),
        rpc(id=77, result={}),
        rpc(id="s", error={"code": 1, "message": "no"}),
        rpc(id="p", method="ping"),
        rpc(id=1, method="roots/list"),
        "[]",
        "",
    ]
    (done,) = bench.finish([bench.task("t-1", {"command": "true"})], says={"tools/call": noise, "initialize": noise})
    assert done["type"] == "result"
    assert "the connection was lost" not in bench.pane.read_text()
    said = [call["said"] for call in bench.calls() if call["tool"] == "client"]
    assert {"id": "p", "result": {}} in said
    assert {one["error"]["code"] for one in said if one["id"] == 1} == {-32601}


THIRD = 3  # the number of a connection's first call, behind its handshake


@pytest.mark.parametrize(
    "nonsense",
    [
        "Welcome!",
        "{",
        rpc(id=THIRD, result=None),
        rpc(id=THIRD),
        rpc(id=THIRD, error=7),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_a_server_that_speaks_no_mcp_is_replaced_and_the_task_runs_once(bench, nonsense):
    bench.limits["FIRST_PAUSE_S"] = 0.01
    process = bench.start([bench.task("t-1", {"command": "echo x >> runs"})], says={"tools/call": [nonsense]})
    bench.until(lambda: "trying again" in bench.pane.read_text(errors="replace"), "nothing was said of it")
    script = json.loads(bench.script.read_text())
    bench.script.with_suffix(".new").write_text(json.dumps({**script, "says": {}}))
    bench.script.with_suffix(".new").replace(bench.script)
    assert process.wait(LIMIT_S) == 0, bench.pane.read_text(errors="replace")
    assert (bench.root / "runs").read_text() == "x\n"


def test_a_server_that_never_answers_is_replaced(bench):
    bench.limits.update(CALL_LIMIT_S=1.0, FIRST_PAUSE_S=0.01)
    done, *_again = bench.finish(  # the report itself may be too slow for so short a limit
        [bench.task("t-1", {"command": "echo x >> runs"})],
        faults=[{"tool": "emit_event", "type": "ack", "nth": 1, "mute": True}],
    )
    assert done["type"] == "result"
    assert (bench.root / "runs").read_text() == "x\n"
    assert "no answer to tools/call" in bench.pane.read_text()


def test_a_server_that_cannot_be_started_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(relay_client, "FIRST_PAUSE_S", 0.01)
    script, program = tmp_path / "script.json", tmp_path / "server"
    script.write_text(json.dumps({"calls": str(tmp_path / "calls"), "stop": True}))
    said = []

    def say(text):
        said.append(text)
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {FAKES}/scripted_server.py {script}\n")
        program.chmod(0o700)

    async def play():
        link = relay_client.RelayClient([str(program)], say)
        keeping = asyncio.create_task(link.keep())
        try:
            return await link.call("wait_for_command", {})
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    assert asyncio.run(play()) == {"status": "command", "command": {"kind": "stop"}, "cursor": "x"}
    assert len(said) == 1 and "No such file" in said[0]


def test_an_event_the_daemon_refuses_for_good_does_not_stop_the_loop(bench):
    done = bench.finish(
        [bench.task("t-1", {"command": "true"}, again=0), bench.task("t-2", {"command": "true"})],
        faults=[{"tool": "emit_event", "type": "ack", "nth": 1, "error": {"kind": "BadRequest", "code": "no_lease"}}],
    )
    assert [e["task_id"] for e in done] == ["t-1", "t-2"]


def test_a_call_that_is_no_valid_request_is_given_up_and_the_next_task_runs(bench):
    bench.limits["FIRST_PAUSE_S"] = 0.01
    done = bench.finish(
        [bench.task("t-1", {"command": "true"}, again=0), bench.task("t-2", {"command": "true"})],
        faults=[{"tool": "emit_event", "type": "ack", "nth": nth, "declined": -32600} for nth in (1, 2, 3, 4)],
    )
    assert [e["task_id"] for e in done] == ["t-1", "t-2"]
    assert len([c for c in bench.calls() if c.get("fault")]) == 4


def test_a_worker_whose_question_for_commands_is_declined_ends_with_one_sentence(bench):
    bench.limits["FIRST_PAUSE_S"] = 0.01
    process = bench.start([], faults=[{"tool": "wait_for_command", "nth": 1, "from": 1, "declined": -32601}])
    assert process.wait(LIMIT_S) == 3
    assert b"Traceback" not in bench.pane.read_bytes()


@pytest.mark.parametrize(("code", "exit_code"), [("agent_ended", 0), ("replaced", 3), ("not_an_agent", 3)])
def test_a_worker_that_is_sent_away_ends_its_command_and_goes(bench, code, exit_code):
    process = bench.start(
        [bench.task("t-1", {"command": "echo up; sleep 999"})],
        faults=[{"tool": "emit_event", "type": "progress", "nth": 1, "error": {"kind": "Conflict", "code": code}}],
    )
    assert process.wait(LIMIT_S) == exit_code
    bench.nothing_left()


def test_a_pane_stopped_by_its_reader_does_not_hold_up_the_reports(bench):
    process = bench.start(
        [bench.task("t-1", {"command": "head -c 1000000 /dev/zero"}), bench.task("t-2", {"command": "yes"})],
        stdout=subprocess.PIPE,
        cancel_on={"t-2": "progress"},
    )
    assert process.wait(LIMIT_S) == 0
    process.stdout.close()
    assert [e["type"] for e in bench.events() if e["type"] in {"result", "canceled"}] == ["result", "canceled"]
    bench.nothing_left()


def running(bench: Bench) -> subprocess.Popen:
    process = bench.start([bench.task("t-1", {"command": "sleep 998 & sleep 999; echo after"})])
    bench.until(lambda: len(bench.ours("sleep")) == 2, "the command never started")
    return process


def test_kill_9_of_the_worker_ends_the_command_and_its_children(bench):
    running(bench).kill()
    bench.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_the_worker(bench, number):
    process = running(bench)
    process.send_signal(number)
    assert process.wait(LIMIT_S) == 128 + number
    bench.nothing_left()


# -- the human's hand ---------------------------------------------------------------------------------------------


def ends(bench: Bench) -> list[dict]:
    return [c for c in bench.events() if c["type"] in {"result", "error", "canceled"}]


def shown(bench: Bench) -> str:
    return bench.pane.read_text(errors="replace")


def interrupted(bench: Bench, command: str, *more: dict, number=signal.SIGINT, **script) -> subprocess.Popen:
    """A worker whose first task has printed ``up`` and has got the signal of a key."""
    process = bench.start([bench.task("t-1", {"command": command}), *more], **script)
    bench.until(lambda: "\nup\n" in shown(bench), "the command never started")
    process.send_signal(number)
    return process


def test_ctrl_c_cancels_the_command_for_the_human_and_the_worker_goes_on_with_its_queue(bench):
    bench.limits["CANCEL_LADDER"] = [(number, LIMIT_S) for number, _ in task_loop.CANCEL_LADDER]
    process = interrupted(bench, "echo up; exec sleep 999", bench.task("t-2", {"command": "echo two"}))
    assert process.wait(LIMIT_S) == 0, shown(bench)
    first, second = ends(bench)
    assert (first["task_id"], first["type"], first["payload"]["canceled_by"]) == ("t-1", "canceled", "human")
    assert (first["payload"]["signal"], first["payload"]["last_lines"]) == ("SIGINT", ["up"])
    assert (second["task_id"], second["type"]) == ("t-2", "result")
    bench.nothing_left()


def test_a_command_that_makes_the_best_of_ctrl_c_is_canceled_all_the_same(bench):
    bench.limits["CANCEL_LADDER"] = [(number, LIMIT_S) for number, _ in task_loop.CANCEL_LADDER]
    process = interrupted(bench, "trap 'echo saved; exit 0' INT; echo up; while :; do sleep 0.05; done")
    assert process.wait(LIMIT_S) == 0, shown(bench)
    (end,) = ends(bench)
    assert (end["type"], end["payload"]["canceled_by"], end["payload"]["exit_code"]) == ("canceled", "human", 0)
    assert end["payload"]["last_lines"] == ["up", "saved"]


def test_each_further_ctrl_c_sends_the_next_signal_at_once(bench):
    bench.limits["CANCEL_LADDER"] = [(number, NEVER_S) for number, _ in task_loop.CANCEL_LADDER]
    heard = "trap 'echo int' INT; trap 'echo term' TERM; echo up; while :; do sleep 0.05; done"
    process = interrupted(bench, heard)
    bench.until(lambda: "\nint\n" in shown(bench), "no SIGINT")
    process.send_signal(signal.SIGINT)
    bench.until(lambda: "\nterm\n" in shown(bench), "no SIGTERM")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0, shown(bench)
    (end,) = ends(bench)
    assert (end["type"], end["payload"]["canceled_by"], end["payload"]["signal"]) == ("canceled", "human", "SIGKILL")
    bench.nothing_left()


def test_ctrl_backslash_kills_the_command_at_once(bench):
    bench.limits["CANCEL_LADDER"] = [(number, NEVER_S) for number, _ in task_loop.CANCEL_LADDER]
    stubborn = "trap '' INT TERM QUIT; echo up; while :; do sleep 0.05; done"
    process = interrupted(bench, stubborn, number=signal.SIGQUIT)
    assert process.wait(LIMIT_S) == 0, shown(bench)
    (end,) = ends(bench)
    assert (end["type"], end["payload"]["canceled_by"], end["payload"]["signal"]) == ("canceled", "human", "SIGKILL")
    bench.nothing_left()


def test_ctrl_c_that_is_held_down_does_not_reach_the_next_task(bench):
    bench.limits["SAME_PRESS_S"] = NEVER_S
    go = bench.root / "go"
    second = bench.task("t-2", {"command": f"echo two; until [ -e {go} ]; do sleep 0.05; done"})
    process = interrupted(bench, "echo up; exec sleep 999", second)
    bench.until(lambda: "\ntwo\n" in shown(bench), "the second task never started")
    said = shown(bench)
    process.send_signal(signal.SIGINT)
    bench.until(lambda: shown(bench) != said, "nothing was said")
    go.touch()
    assert process.wait(LIMIT_S) == 0, shown(bench)
    assert [(e["task_id"], e["type"]) for e in ends(bench)] == [("t-1", "canceled"), ("t-2", "result")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP])
def test_a_key_while_the_worker_is_idle_changes_nothing_and_says_so(bench, number):
    bench.limits["SAME_PRESS_S"] = 0.0
    process = bench.start([], stop=False)
    bench.until(lambda: any(c["tool"] == "wait_for_command" for c in bench.calls()), "it never waited")
    said = shown(bench)
    process.send_signal(number)
    bench.until(lambda: shown(bench) != said, "nothing was said")
    script = json.loads(bench.script.read_text())
    bench.script.with_suffix(".new").write_text(
        json.dumps({**script, "commands": [bench.task("t-1", {"command": "echo x >> runs"})], "stop": True})
    )
    bench.script.with_suffix(".new").replace(bench.script)
    server_of(process).kill()  # the next server reads the new script
    assert process.wait(LIMIT_S) == 0, shown(bench)
    assert [e["type"] for e in ends(bench)] == ["result"]
    assert (bench.root / "runs").read_text() == "x\n"


def server_of(worker: subprocess.Popen) -> psutil.Process:
    return next(p for p in psutil.Process(worker.pid).children() if "scripted_server" in " ".join(p.cmdline()))


def test_ctrl_z_does_not_stop_the_command_or_the_worker(bench):
    go = bench.root / "go"
    process = interrupted(bench, f"echo up; until [ -e {go} ]; do sleep 0.05; done", number=signal.SIGTSTP)
    bench.until(lambda: "Ctrl-Z" in shown(bench), "nothing was said")
    assert psutil.Process(process.pid).status() != psutil.STATUS_STOPPED
    go.touch()
    assert process.wait(LIMIT_S) == 0, shown(bench)
    assert [e["type"] for e in ends(bench)] == ["result"]


def test_ctrl_c_before_the_command_starts_cancels_it_unstarted(bench):
    # The server is silent about the ack until the worker gives it up and asks a new one.
    bench.limits.update(CALL_LIMIT_S=2.0, FIRST_PAUSE_S=0.01)
    process = bench.start(
        [bench.task("t-1", {"command": "touch started"}), bench.task("t-2", {"command": "true"})],
        faults=[{"tool": "emit_event", "type": "ack", "nth": 1, "mute": True}],
    )
    bench.until(lambda: any(e["type"] == "ack" for e in bench.events()), "no ack")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0, shown(bench)
    first, second = ends(bench)
    assert (first["type"], first["payload"]["canceled_by"], second["type"]) == ("canceled", "human", "result")
    assert not (bench.root / "started").exists()


def test_a_task_that_its_master_and_a_human_cancel_has_one_end(bench):
    bench.limits["CANCEL_LADDER"] = [(number, NEVER_S) for number, _ in task_loop.CANCEL_LADDER]
    heard = "trap 'echo int' INT; trap 'echo term' TERM; echo up; while :; do sleep 0.05; done"
    process = bench.start([bench.task("t-1", {"command": heard})], cancel_on={"t-1": "progress"})
    bench.until(lambda: "\nint\n" in shown(bench), "the master's cancel never came")
    process.send_signal(signal.SIGINT)  # the human has no patience for the master's gentle cancel
    bench.until(lambda: "\nterm\n" in shown(bench), "no SIGTERM")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0, shown(bench)
    (end,) = ends(bench)
    assert (end["type"], "canceled_by" in end["payload"]) == ("canceled", False)  # the master was first


def test_ctrl_c_after_the_command_has_ended_does_not_change_its_outcome(bench):
    bench.limits.update(CALL_LIMIT_S=2.0, FIRST_PAUSE_S=0.01, REPORT_EVERY_S=NEVER_S)
    process = bench.start(
        [bench.task("t-1", {"command": "echo up"}), bench.task("t-2", {"command": "true"})],
        faults=[{"tool": "emit_event", "type": "result", "nth": 1, "mute": True}],
    )
    bench.until(lambda: any(e["type"] == "result" for e in bench.events()), "no result")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0, shown(bench)
    assert [e["type"] for e in ends(bench) if not e.get("fault")] == ["result", "result"]


def test_kill_9_of_the_worker_right_after_ctrl_c_reports_nothing_and_leaves_nothing(bench):
    bench.limits["CANCEL_LADDER"] = [(number, NEVER_S) for number, _ in task_loop.CANCEL_LADDER]
    process = interrupted(bench, "trap 'echo int' INT; echo up; while :; do sleep 0.05; done")
    bench.until(lambda: "\nint\n" in shown(bench), "no SIGINT")
    process.kill()
    bench.nothing_left()
    assert ends(bench) == []


# -- the next launch ---------------------------------------------------------------------------------------------


def test_the_next_life_ends_what_the_guard_could_not(bench):
    process = running(bench)
    # Asked again: a process has no words yet for a moment of its exec.
    children = psutil.Process(process.pid).children
    guard = bench.until(
        lambda: next((p for p in children() if "while read -r next" in " ".join(p.cmdline())), None), "no guard"
    )
    guard.kill()
    process.kill()
    process.wait()
    bench.until(lambda: len(bench.ours("sleep")) == 2, "the command should have survived")
    left = {p.pid for p in bench.ours("sleep")}
    second = bench.start([], stop=False)
    bench.until(lambda: not any(alive(pid) for pid in left), "the earlier life's command lives")
    second.terminate()
    second.wait(LIMIT_S)
    bench.nothing_left()


def test_without_an_identity_the_worker_says_so_in_one_sentence(bench, monkeypatch):
    monkeypatch.delenv("ORCHESTRATOR_AGENT_ID", raising=False)
    with pytest.raises(errors.BadRequest) as refused:
        task_loop.main()
    assert refused.value.code == "not_an_agent"
