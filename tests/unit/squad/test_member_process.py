"""One command of a member: how it ends, what ends it, and that nothing of it is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.platform import process_facts, processes
from orchestrator.edge.project_location import MEMBER_ENV
from orchestrator.squad import member_process
from orchestrator.squad.member_process import CommandOutcome, CommandToRun, StopRequest
from orchestrator.squad.member_turns import MemberTurns
from tests.support.stage import until
from tests.support.team import FakeClock, settle

NEVER = "import time; time.sleep(1000)"


@pytest.fixture
def given(tmp_path):
    (tmp_path / "cwd").mkdir()
    return CommandToRun(
        member_id=f"test-{os.getpid()}-{tmp_path.name}",
        argv=("true",),
        cwd=(tmp_path / "cwd").resolve(),
        env={"PATH": os.environ["PATH"]},
        stdin=None,
        stdout=tmp_path / "stdout",
        stderr=tmp_path / "stderr",
        timeout_s=60.0,
        limit_bytes=1 << 20,
        grace_s=5.0,
    )


def python(given, code, **more):
    return replace(given, argv=(sys.executable, "-IS", "-c", code), **more)


def ran(given, stop=None, clock=None):
    """The outcome, and the pids it was told of; fails when something of the member is left."""
    pids = []
    outcome = asyncio.run(
        member_process.run(given, clock or SystemClock(), stop or StopRequest(), lambda pid, start: pids.append(pid))
    )
    assert member_process.left_of({given.member_id}) == []
    return outcome, pids


def test_a_command_that_ends_well_is_completed_and_its_outputs_are_in_the_files(given):
    code = "import sys, os; print(os.getcwd()); print(os.environ['ORCHESTRATOR_MEMBER_ID'], file=sys.stderr)"
    outcome, (pid,) = ran(python(given, code))
    assert outcome == CommandOutcome(exit_code=0)
    assert outcome.status == "completed"
    assert given.stdout.read_text() == f"{given.cwd}\n"
    assert given.stderr.read_text() == f"{given.member_id}\n"
    assert given.stdout.stat().st_mode & 0o777 == 0o600
    assert process_facts.start_time(pid) is None


@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_another_exit_code_is_an_error(given, code):
    outcome, _ = ran(python(given, f"import os; os._exit({code})"))
    assert (outcome.status, outcome.exit_code, outcome.signal, outcome.reason) == ("error", code, None, "")


def test_standard_input_is_the_prompts_file_or_empty(given, tmp_path):
    (tmp_path / "prompt").write_bytes("é\0".encode() * 100_000)
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    ran(python(given, copy, stdin=tmp_path / "prompt"))
    assert given.stdout.read_bytes() == (tmp_path / "prompt").read_bytes()
    ran(python(given, copy))
    assert given.stdout.read_bytes() == b""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"argv": ("/no/such/program",)}, "No such file or directory"),
        ({"argv": ("/etc",)}, "Permission denied"),
        ({"argv": ("a\0b",)}, "null byte"),
        ({"argv": ("true", "x" * 200_000)}, "Argument list too long"),
        ({"cwd": Path("/no/such/directory")}, "No such file or directory: /no/such/directory"),
        ({"cwd": Path("/proc/self/root")}, "it leads elsewhere by now: /proc/self/root"),
        ({"stdout": Path("/no/such/file")}, "No such file or directory: /no/such/file"),
        ({"stdin": Path("/no/such/prompt")}, "No such file or directory: /no/such/prompt"),
    ],
)
def test_what_cannot_be_started_is_an_error_that_names_what_is_wrong(given, more, told):
    outcome, pids = ran(replace(given, **more))
    assert (outcome.status, outcome.started, pids) == ("error", False, [])
    assert outcome.reason.startswith(f"{more.get('argv', given.argv)[0]} could not be started: ")
    assert told in outcome.reason


def test_an_output_is_not_written_through_a_link(given, tmp_path):
    (tmp_path / "target").write_text("mine")
    given.stdout.symlink_to(tmp_path / "target")
    outcome, _ = ran(given)
    assert (outcome.status, outcome.started) == ("error", False)
    assert (tmp_path / "target").read_text() == "mine"


def test_what_was_stopped_before_never_starts(given):
    stop = StopRequest()
    stop.ask("first")
    stop.ask("second")
    outcome, pids = ran(given, stop)
    assert (outcome.reason, outcome.started, outcome.status, pids) == ("first", False, "error", [])
    assert not given.stdout.exists()


def stopped_while_it_runs(given, clock, act):
    """Run it, and act once it has written ``ready``."""

    async def body():
        stop, clock_ = StopRequest(), clock
        task = asyncio.create_task(member_process.run(given, clock_, stop, lambda pid, start: None))
        while not (given.stdout.exists() and given.stdout.read_text()):
            await asyncio.to_thread(until, lambda: given.stdout.exists() and given.stdout.read_text())
        await act(stop, task)
        return await task

    outcome = asyncio.run(body())
    assert member_process.left_of({given.member_id}) == []
    return outcome


READY = "import time; print('ready', flush=True); time.sleep(1000)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


def test_a_stop_ends_it_with_the_reason(given):
    async def act(stop, task):
        stop.ask("canceled")

    outcome = stopped_while_it_runs(python(given, READY), SystemClock(), act)
    assert (outcome.status, outcome.reason, outcome.signal) == ("error", "canceled", "SIGTERM")


def test_a_command_that_ends_well_when_it_is_stopped_did_not_complete(given):
    code = f"import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); {READY}"

    async def act(stop, task):
        stop.ask("canceled")

    outcome = stopped_while_it_runs(python(given, code, grace_s=60.0), SystemClock(), act)
    assert (outcome.status, outcome.exit_code, outcome.reason) == ("error", 0, "canceled")


def test_the_time_is_over_when_the_clock_says_so_and_not_before(given):
    clock = FakeClock()

    async def act(stop, task):
        await clock.advance(59.0)
        assert not task.done()
        assert [one for one in clock.alarms if not one.canceled], "it is still waited for, and not being ended"
        await clock.advance(1.0)

    outcome = stopped_while_it_runs(python(given, READY, grace_s=0.0), clock, lambda *both: pumped(clock, act, *both))
    assert (outcome.status, outcome.reason) == ("timeout", "it had 60 s")
    assert outcome.signal in {"SIGTERM", "SIGKILL"}


async def pumped(clock, act, stop, task):
    """Act, then let the clock go on until the command has ended: what ends it waits by that clock."""
    await act(stop, task)
    while not task.done():
        await clock.advance(0.02)
        await asyncio.wait([task], timeout=0.005)


def test_whoever_is_deaf_is_killed_after_the_grace(given):
    async def act(stop, task):
        stop.ask("canceled")

    outcome = stopped_while_it_runs(python(given, DEAF, grace_s=0.1), SystemClock(), act)
    assert (outcome.status, outcome.signal) == ("error", "SIGKILL")


def test_a_command_that_was_stopped_by_a_signal_is_killed_too(given):
    code = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"

    async def act(stop, task):
        pid = int(given.stdout.read_text())
        await asyncio.to_thread(until, lambda: process_facts.stat_of(pid).state == b"T")
        stop.ask("canceled")

    outcome = stopped_while_it_runs(python(given, code, grace_s=0.1), SystemClock(), act)
    assert outcome.signal == "SIGKILL"


def test_too_much_output_ends_it(given):
    code = f"import sys; sys.stdout.write('x' * 3000); sys.stdout.flush(); {NEVER}"
    outcome, _ = ran(python(given, code, limit_bytes=2000))
    assert (outcome.status, outcome.reason) == ("error", "it wrote more than 2000 bytes")


# -- what is left -----------------------------------------------------------------------------------------------


@pytest.fixture
def child():
    """Starts processes that end with the test."""
    made = []

    def start(argv, **env):
        made.append(
            subprocess.Popen(
                argv, env={"PATH": os.environ["PATH"], **env}, stdout=subprocess.PIPE, start_new_session=True
            )
        )
        return made[-1]

    yield start
    for one in made:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        one.stdout.close()


def pids_of(found):
    return {pid for pid, _ in found}


def test_a_process_is_a_members_by_its_mark_its_session_or_its_parents_and_no_other(child):
    marked = child(["sleep", "1000"], **{MEMBER_ENV: "left-a"})
    other = child(["sleep", "1000"], **{MEMBER_ENV: "left-ab"})
    parent = child(["sh", "-c", "env -i setsid sleep 1000 & echo $!; wait"], **{MEMBER_ENV: "left-c"})
    below = int(parent.stdout.readline())
    until(lambda: processes.command_of(below) == processes.command_of(marked.pid) == "sleep 1000")
    assert pids_of(member_process.left_of({"left-a"})) == {marked.pid}
    assert pids_of(member_process.left_of({"left-a", "left-c"})) == {marked.pid, parent.pid, below}
    assert pids_of(member_process.left_of({"none"}, other.pid)) == set(), "the leader itself is left out"
    assert pids_of(member_process.left_of({"none"}, parent.pid)) == {below}
    assert member_process.left_of({"none"}) == []
    os.kill(below, signal.SIGKILL)  # it is in no group that the fixture ends


def test_a_process_that_was_forked_while_the_others_were_looked_at_is_found(child, monkeypatch):
    """Its parent forked it after the listing and ended before the look: nothing in that listing tells of it."""
    marked = child(["sleep", "1000"], **{MEMBER_ENV: "left-f"})
    until(lambda: processes.command_of(marked.pid) == "sleep 1000")
    listings = []

    def listed(path):
        listings.append(path)
        return [name for name in listing(path) if len(listings) > 1 or name != str(marked.pid)]

    listing = os.listdir
    monkeypatch.setattr(member_process.os, "listdir", listed)
    assert pids_of(member_process.left_of({"left-f"})) == {marked.pid}


def test_a_process_that_is_about_to_execute_its_program_is_looked_at_again(child, monkeypatch):
    """The kernel shows no environment between the old image and the new one."""
    marked = child(["sleep", "1000"], **{MEMBER_ENV: "left-e"})
    until(lambda: processes.command_of(marked.pid) == "sleep 1000")
    looks = []

    def seen(pid):
        looks.append(pid)
        return [] if looks.count(marked.pid) == 1 else look(pid)

    look = process_facts.environment_of
    monkeypatch.setattr(process_facts, "environment_of", seen)
    assert asyncio.run(member_process.end("left-e", None, 5.0, SystemClock())) == 1
    assert marked.wait() == -signal.SIGTERM


def test_a_process_without_any_environment_does_not_hold_the_search_for_ever(child):
    bare = child(["env", "-i", "sleep", "1000"], **{MEMBER_ENV: "left-n"})
    until(lambda: processes.command_of(bare.pid) == "sleep 1000")
    assert asyncio.run(member_process.end("left-n", None, 5.0, SystemClock())) == 0
    assert bare.poll() is None


def test_a_tmux_server_that_a_member_started_is_spared_with_all_that_runs_in_it(child, tmp_path):
    server = tmp_path / "tmux: server"
    server.symlink_to("/bin/sh")
    held = child([str(server), "-c", "sleep 1000 & echo $!; wait"], **{MEMBER_ENV: "left-t"})
    inside = int(held.stdout.readline())
    until(lambda: processes.command_of(inside) == "sleep 1000")
    plain = child(["sleep", "1000"], **{MEMBER_ENV: "left-t"})
    until(lambda: processes.command_of(plain.pid) == "sleep 1000")  # before that the kernel shows no environment
    assert pids_of(member_process.left_of({"left-t"})) == {plain.pid}


def test_children_that_lost_their_parent_while_they_were_ended_are_killed(given, child):
    """Deaf, without the mark, in their own session: only that they were found below it says whose they are."""
    code = f"import os; os.setsid(); {DEAF}"
    parent = child(
        ["sh", "-c", f'env -i "{sys.executable}" -IS -c "{code}" & echo $!; wait'], **{MEMBER_ENV: "left-d"}
    )
    lines = {parent.stdout.readline(), parent.stdout.readline()}  # of two processes, in any order
    assert b"ready\n" in lines
    (below,) = map(int, lines - {b"ready\n"})
    began = process_facts.start_time(parent.pid)
    assert began is not None
    asyncio.run(member_process.end("left-d", None, 0.1, SystemClock()))
    parent.wait()
    until(lambda: process_facts.has_ended(below))


# -- turns ------------------------------------------------------------------------------------------------------


def test_turns_are_taken_in_order_and_leave_nothing_behind():
    async def body():
        turns, order, gate = MemberTurns(), [], asyncio.Event()

        async def one(name, key):
            async with turns.of(key, StopRequest()):
                order.append(name)
                await gate.wait()

        tasks = [asyncio.create_task(one(*who)) for who in (("a", 1), ("b", 1), ("c", 2), ("d", None), ("e", None))]
        await settle()
        assert sorted(order) == ["a", "c", "d", "e"]
        gate.set()
        await asyncio.gather(*tasks)
        assert order[-1] == "b"
        return turns

    assert len(asyncio.run(body())._locks) == 0


def test_no_turn_is_waited_for_once_a_stop_asks_and_the_others_keep_theirs():
    async def body():
        turns, stop, gate, order = MemberTurns(), StopRequest(), asyncio.Event(), []

        async def one(name, stop):
            async with turns.of("k", stop):
                order.append(name)
                if not stop.why:
                    await gate.wait()

        first = asyncio.create_task(one("first", StopRequest()))
        await settle()
        second, third = asyncio.create_task(one("second", stop)), asyncio.create_task(one("third", StopRequest()))
        await settle()
        stop.ask("canceled")
        await second
        assert order == ["first", "second"]
        gate.set()
        await asyncio.gather(first, third)
        assert order == ["first", "second", "third"]

    asyncio.run(body())
