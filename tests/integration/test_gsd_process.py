"""The process that reads projects, and the daemon's end of it: killed, stopped, stuck, talking nonsense, left alone."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.base.errors import OrchestratorError
from orchestrator.edge.project_location import own_command
from orchestrator.gsd import reader_process, reader_program
from orchestrator.gsd.reader_process import Reader, error_of
from tests.support.gsd_trees import unpack, write
from tests.support.stage import BOUND_S, alive, until

ODD = [sys.executable, "-P", str(Path(__file__).parents[1] / "fakes" / "odd_reader.py")]
LONG_S = BOUND_S
NOWHERE = {"cwd": "/", "named": "", "variable": "", "roots": []}
pytestmark = pytest.mark.anyio


class Raw:
    """The process itself, its wire in our hands."""

    def __init__(self, command, place):
        self.errors = place / "errors"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )  # fmt: skip

    def say(self, key, question, place=NOWHERE, **arguments):
        line = json.dumps({"id": key, "op": question, "place": place, "args": arguments}).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, question, place=NOWHERE, **arguments):
        self.say(1, question, place, **arguments)
        return self.hear()


@pytest.fixture
def begun(tmp_path):
    """Begin processes; all of them are ended at the end."""
    made = []

    def begin(command=ODD):
        made.append(Raw(command, tmp_path))
        return made[-1]

    yield begin
    for one in made:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            with contextlib.suppress(OSError):  # what was never sent
                pipe.close()


@pytest.fixture
async def read(monkeypatch):
    """Make the daemon's ends, with processes that can be told to be odd."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    made = []

    def make(command=None, told=None):
        made.append(Reader((told if told is not None else []).append, command or ODD, "the.log"))
        return made[-1]

    yield make
    for one in made:
        await one.close()
        assert one.pid is None


async def ask(reader, do="", within_s=LONG_S, **more):
    return await reader.ask("odd", NOWHERE, {"do": do, **more}, within_s)


async def code_of(asking):
    with pytest.raises(OrchestratorError) as caught:
        await asking
    return caught.value.code


async def met(fact):
    """Wait for a fact while the loop goes on."""
    async with asyncio.timeout(BOUND_S):
        while not fact():
            await asyncio.wait([asyncio.create_task(asyncio.to_thread(lambda: None))])


# -- the process ----------------------------------------------------------------------------------------------------


def test_it_answers_about_a_project_and_tells_errors_in_their_wire_form(begun, tmp_path):
    raw = begun(own_command("gsd-reader"))
    root = unpack("to-tui", tmp_path)
    there = {**NOWHERE, "cwd": str(root / ".planning" / "phases")}
    answer = raw.ask("gsd_phase_status", there, phase="")
    assert answer["ok"]["project_root"] == str(root)
    assert raw.ask("where", there)["ok"] == {"project_root": str(root)}
    assert raw.ask("gsd_phase_status")["error"]["code"] == "no_gsd_project"
    assert raw.ask("no_such_question", there)["error"]["code"] == "bad_argument"
    assert raw.ask("page", uri="gsd://phase/current")["ok"]["project_root"] == ""


def test_it_runs_with_less_priority_than_who_began_it(begun):
    raw = begun(own_command("gsd-reader"))
    assert raw.ask("ping")["ok"] == {}
    assert os.getpriority(os.PRIO_PROCESS, raw.process.pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


@pytest.mark.parametrize("busy", ["", "hang", "spin"])
def test_it_ends_at_once_when_nobody_asks_any_more_whatever_it_does(begun, busy):
    raw = begun()
    for key in range(1, 6):  # one more than it has threads
        raw.say(key, "odd", do=busy)
    raw.say(9, "ping")
    while raw.hear()["id"] != 9:
        pass
    raw.process.stdin.close()
    assert raw.process.wait(BOUND_S) == 0


def test_while_all_its_threads_are_busy_it_says_that_it_lives(begun):
    raw = begun()
    for key in range(1, 8):
        raw.say(key, "odd", do="spin")
    raw.say(9, "ping")
    assert raw.hear() == {"id": 9, "ok": {}}


def test_nothing_but_answers_comes_out_of_it(begun):
    raw = begun()
    assert raw.ask("odd", do="print")["ok"] == {"pid": raw.process.pid}
    assert {"printed", "written", "said by a child"} <= set(raw.errors.read_text().splitlines())


def test_a_bug_is_answered_as_one_and_told_to_the_log_and_the_next_question_is_answered(begun):
    raw = begun()
    assert raw.ask("odd", do="bug")["error"]["code"] == "internal"
    assert "ZeroDivisionError: a bug" in raw.errors.read_text()
    assert "Traceback" in raw.errors.read_text()
    assert "ok" in raw.ask("odd", do="other")


def test_what_json_cannot_carry_is_told_as_well_as_can_be(begun):
    found = begun().ask("odd", do="strange")["ok"]
    assert found["half"] == "?"
    assert (found["path"], found["set"]) == ("/p", [1, 2])
    assert found["mapping"]["PATH"] == os.environ["PATH"]


def test_what_no_json_can_carry_at_all_is_an_error_and_keeps_nobody_waiting(begun):
    raw = begun()
    assert raw.ask("odd", do="deep")["error"]["code"] == "internal"
    assert "RecursionError" in raw.errors.read_text()


def test_an_answer_longer_than_a_message_may_be_is_an_error(begun):
    assert begun().ask("odd", do="huge")["error"]["code"] == "gsd_failed"


@pytest.mark.parametrize("said", [b"x" * 10, b"[]\n", b"{}\n"])
def test_who_is_no_daemon_of_ours_ends_it(begun, said):
    raw = begun(own_command("gsd-reader"))
    raw.process.stdin.write(said)
    raw.process.stdin.close()
    assert raw.process.wait(BOUND_S) in {0, 70}
    assert "Traceback" not in raw.errors.read_text()


# -- the daemon's end -----------------------------------------------------------------------------------------------


async def test_one_process_answers_all_and_begins_with_the_first_question(read):
    reader = read()
    assert reader.pid is None
    answers = await asyncio.gather(*(ask(reader, "tell") for _ in range(20)))
    assert {one["pid"] for one in answers} == {reader.pid}


async def test_a_question_that_was_lost_with_its_process_is_asked_once_more(read, tmp_path):
    reader = read()
    before = (await ask(reader, "tell"))["pid"]
    after = await ask(reader, "die", once=str(tmp_path / "once"))
    assert after["pid"] == reader.pid != before


async def test_a_process_killed_by_somebody_is_replaced_and_all_that_waited_are_answered(read, tmp_path):
    reader = read()
    pid = (await ask(reader, "tell"))["pid"]
    waiting = [asyncio.create_task(ask(reader, "hang", once=str(tmp_path / str(at)))) for at in range(4)]
    await met(lambda: len(list(tmp_path.iterdir())) == 4)
    os.kill(pid, signal.SIGKILL)
    assert {one["pid"] for one in await asyncio.gather(*waiting)} == {reader.pid}
    await met(lambda: not alive(pid))


async def test_a_process_is_asked_whether_it_lives_again_and_again_while_a_question_has_no_answer(monkeypatch):
    class Child:
        over = False

        def __init__(self):
            self.asked, self.enough = 0, asyncio.Event()

        async def ask(self, *_):
            await self.enough.wait()
            return {"late": True}

        def suspect(self):
            self.asked += 1
            if self.asked == 3:
                self.enough.set()

    monkeypatch.setattr(reader_process, "SUSPECT_S", 0.01)
    reader = Reader(lambda _: None)
    reader._child = child = Child()
    assert await reader.ask("tell", NOWHERE, {}, LONG_S) == {"late": True}
    assert child.asked == 3


async def test_a_question_that_kills_each_process_is_an_error_and_many_deaths_make_it_wait(read, monkeypatch):
    reader = read()
    assert await code_of(ask(reader, "die")) == "gsd_failed"
    with pytest.raises(OrchestratorError, match="in a row") as caught:
        await ask(reader, "die")
    assert caught.value.code == "gsd_failed"
    assert "the.log" in caught.value.next_step
    assert await code_of(ask(reader, "tell")) == "gsd_failed"
    assert reader.pid is None
    reader._refused_until = 0.0  # half a minute later
    assert (await ask(reader, "tell"))["pid"] == reader.pid


async def test_a_process_that_was_stopped_is_replaced_and_the_question_answered(read, monkeypatch, tmp_path):
    monkeypatch.setattr(reader_process, "PONG_S", 0.2)
    reader = read()
    before = (await ask(reader, "tell"))["pid"]
    monkeypatch.setattr(reader_process, "SUSPECT_S", 0.2)
    asking = asyncio.create_task(ask(reader, "stop", once=str(tmp_path / "once")))
    await met(lambda: not alive(before))
    monkeypatch.setattr(reader_process, "SUSPECT_S", 90.0)  # the next process has time to begin
    after = await asking
    assert after["pid"] == reader.pid != before
    await met(lambda: not alive(before))


async def test_a_process_that_works_on_is_left_alone_however_long_it_is_suspected(read, monkeypatch, tmp_path):
    monkeypatch.setattr(reader_process, "SUSPECT_S", 0.0)
    reader = read()
    pid = (await ask(reader, "tell"))["pid"]
    assert await code_of(ask(reader, "spin", within_s=0.5)) == "gsd_failed"
    assert (await ask(reader, "tell"))["pid"] == pid


async def test_a_late_answer_harms_nobody(read):
    reader = read()
    pid = (await ask(reader, "tell"))["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert await code_of(ask(reader, "tell", within_s=0.1)) == "gsd_failed"
    os.kill(pid, signal.SIGCONT)
    assert (await ask(reader, "tell"))["pid"] == pid


async def test_who_stops_waiting_keeps_nobody_else_waiting(read, tmp_path):
    reader = read()
    first = asyncio.create_task(ask(reader, "tell"))  # while the process is being begun
    await asyncio.wait([first], timeout=0)
    first.cancel()
    assert (await ask(reader, "tell"))["pid"] == reader.pid
    hanging = asyncio.create_task(ask(reader, "hang", once=str(tmp_path / "once")))
    await met((tmp_path / "once").exists)
    hanging.cancel()
    assert (await ask(reader, "tell"))["pid"] == reader.pid


async def test_what_nobody_waits_for_any_more_is_not_begun(read, tmp_path):
    reader, fifo, ran = read(), tmp_path / "fifo", tmp_path / "ran"
    os.mkfifo(fifo)
    await ask(reader, "tell")
    busy = [asyncio.create_task(ask(reader, f"fifo {fifo}")) for _ in range(reader_program.THREADS)]
    await asyncio.wait(busy, timeout=0)
    behind = [asyncio.create_task(ask(reader, "tell", once=str(ran))) for _ in range(3)]
    await asyncio.wait(behind, timeout=0)
    assert len(reader._child._waiting) == reader_program.THREADS + len(behind), "all of them have been sent"
    for one in behind:
        one.cancel()
    await asyncio.wait(behind)
    await reader._child.ask("ping", {}, {})  # answered behind what was said before
    end = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    await asyncio.gather(*busy)
    os.close(end)
    await ask(reader, "tell")
    assert not ran.exists()
    assert not reader._child._working


async def test_a_question_that_is_too_long_costs_its_asker_alone(read):
    reader = read()
    pid = (await ask(reader, "tell"))["pid"]
    for _ in range(reader_process.DEATHS):
        assert await code_of(ask(reader, "tell", more="x" * reader_process.QUESTION_MAX)) == "bad_argument"
    assert (await ask(reader, "tell"))["pid"] == pid


async def test_a_directory_whose_name_is_no_text_is_asked_about_as_any_other(read, tmp_path):
    place = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(place)  # noqa: PTH102  (a name that is no text)
    root = write(Path(os.fsdecode(place)), {".planning/PROJECT.md": "# Odd\n"})
    reader = read(own_command("gsd-reader"))
    there = {**NOWHERE, "cwd": str(root)}
    assert "Odd" in (await reader.ask("page", there, {"uri": "gsd://project/vision"}, LONG_S))["text"]


async def test_questions_that_never_end_cost_the_process_its_life(read, monkeypatch):
    reader = read()
    pid = (await ask(reader, "tell"))["pid"]
    assert await code_of(ask(reader, "hang", within_s=0.2)) == "gsd_failed"
    reader.look_around()
    assert reader.pid == pid
    monkeypatch.setattr(reader_process, "STUCK_S", 0.0)
    reader.look_around()
    await met(lambda: reader.pid is None)
    assert (await ask(reader, "tell"))["pid"] != pid


@pytest.mark.parametrize("nonsense", ["garbage", "endless", "no id"])
async def test_a_process_that_talks_nonsense_is_replaced(read, tmp_path, nonsense):
    reader = read()
    before = (await ask(reader, "tell"))["pid"]
    after = await ask(reader, nonsense, once=str(tmp_path / "once"))
    assert after["pid"] == reader.pid != before


async def test_an_answer_to_a_question_nobody_asked_is_let_pass(read):
    reader = read()
    assert (await ask(reader, "stranger"))["pid"] == (await ask(reader, "tell"))["pid"]


@pytest.mark.parametrize("command", [["/no/such/program"], ["/bin/false"], ["/bin/true"]])
async def test_a_process_that_cannot_begin_is_an_error(read, command):
    reader = read(command)
    assert await code_of(ask(reader, "tell")) == "gsd_failed"


async def test_a_process_nobody_asks_any_more_is_ended_and_that_is_no_death(read, monkeypatch):
    reader = read()
    for _ in range(4):  # more often than it may die
        pid = (await ask(reader, "tell"))["pid"]
        reader.look_around()
        assert reader.pid == pid
        with monkeypatch.context() as later:
            later.setattr(reader_process, "IDLE_S", -1.0)
            reader.look_around(needed=True)
            assert reader.pid == pid
            reader.look_around()
        await met(lambda: reader.pid is None)


async def test_a_daemon_that_ends_ends_the_process_and_begins_no_other(read):
    reader = read()
    waiting = asyncio.create_task(ask(reader, "hang"))
    await met(lambda: reader.pid is not None)
    pid = reader.pid
    await reader.close()
    assert not alive(pid)
    assert await code_of(waiting) == "gsd_failed"
    assert await code_of(ask(reader, "tell")) == "gsd_failed"


async def test_the_daemon_hears_when_files_of_a_project_that_is_held_change(read, tmp_path):
    told = []
    reader = read(None, told)
    root = write(tmp_path / "p", {".planning/PROJECT.md": "# One\n"})
    place = {**NOWHERE, "cwd": str(root)}
    assert "One" in (await reader.ask("page", place, {"uri": "gsd://project/vision"}, LONG_S))["text"]
    (root / ".planning" / "PROJECT.md").write_text("# Two\n")
    assert "Two" in (await reader.ask("page", place, {"uri": "gsd://project/vision"}, LONG_S))["text"], "at once"
    await met(lambda: told)
    assert set(told) == {str(root)}


def test_an_error_of_the_process_is_one_of_ours_whatever_it_says():
    found = error_of({"kind": "BadRequest", "code": "unknown_phase", "message": "m", "next_step": "n", "near": ["1"]})
    assert (type(found).__name__, found.code, found.next_step, found.facts) == (
        "BadRequest", "unknown_phase", "n", {"near": ["1"]},
    )  # fmt: skip
    assert error_of({"kind": "X", "code": "of another version", "message": "m", "next_step": ""}).code == "internal"


# -- in a real daemon -----------------------------------------------------------------------------------------------


def reader_of(stage):
    """The pid of the reading process of a stage's daemon."""
    return next((pid for pid, command in stage.processes().items() if command.endswith(" gsd-reader ")), None)


def test_a_killed_daemon_leaves_no_process_and_the_question_is_answered_by_the_next(stage):
    write(stage.root, {".planning/PROJECT.md": "# P\n"})
    wire = stage.begun(None, "--toolsets", "gsd")
    assert "error" not in wire.tool("gsd_phase_status")
    pid = until(lambda: reader_of(stage))
    os.kill(pid, signal.SIGSTOP)
    waiting = wire.start("gsd_phase_status")
    stage.kill_daemon()
    os.kill(pid, signal.SIGCONT)
    until(lambda: not alive(pid))
    assert "error" not in wire.outcome(wire.answer(waiting))
    assert reader_of(stage) not in {None, pid}


def test_no_process_is_begun_before_somebody_asks(stage):
    wire = stage.begun(None, "--toolsets", "gsd")
    assert len(wire.ask("tools/list")["result"]["tools"]) == 12
    wire.ask("resources/list")
    wire.ask("prompts/list")
    assert reader_of(stage) is None
