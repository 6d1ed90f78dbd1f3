"""A machine that has nothing left to give: file descriptors, processes, threads; calls fail clearly and work again."""

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import threading
from types import SimpleNamespace

import pytest

from orchestrator.base.errors import Environment
from orchestrator.base.platform import processes
from orchestrator.daemon.process import Daemon
from orchestrator.journal.syncer import Syncer
from orchestrator.journal.syscalls import SysIO
from tests.crash.raw import INITIALIZE, Raw, connections, log, ready, settled, started
from tests.support.stage import alive, until


def files(pid, count):
    """Let a process have so many descriptors; the limit before."""
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


@pytest.fixture
def closing():
    """Take a connection, which is closed after the test, however that ends."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


def test_without_descriptors_new_clients_wait_and_nothing_spins(make_stage, faults, closing):
    stage = make_stage("ready_timeout_s = 600\n")
    daemon = started(stage)
    wire = stage.begun()
    ready(wire, "a")
    until(lambda: connections(stage) == 3)  # the master's, the agent's, and that of the pane that shows the broadcast
    held = daemon.num_fds()
    before = files(daemon.pid, held + 5)
    ones = [closing(Raw(stage)) for _ in range(30)]
    for one in ones:
        one.ask("initialize", INITIALIZE)
    until(lambda: "no file descriptor is left" in log(stage))
    refused = wire.tool("agent_create", {"name": "b", "role": "r"})["error"]
    assert (refused["kind"], refused["code"]) in {("Environment", "io_failed"), ("Environment", "tmux_failed")}, (
        refused
    )
    task = {"task_id": "t1", "payload": {"command": "true"}}
    assert "error" not in wire.tool("task_enqueue", {"agent_id": "a", "task": task})
    assert log(stage).count("no file descriptor is left") == 1, "said once, not at every try"
    # Each of the waiting is served as soon as another leaves.
    for one in ones:
        assert "result" in one.answer(1)
        one.sock.close()
        faults("world")
    files(daemon.pid, before[0])
    settled(daemon)
    until(lambda: daemon.num_fds() <= held)  # nothing was lost at a failure
    ready(wire, "c")
    until(lambda: "result" in stage.types("a"))
    wire.tool("agent_delete", {"agent_id": "b"})
    for agent_id in ("a", "c"):
        assert wire.tool("agent_delete", {"agent_id": agent_id})["ok"]
    assert stage.daemon() == daemon.pid
    assert "Traceback" not in log(stage)


@contextlib.contextmanager
def no_processes(pid):
    """Every fork, spawn and thread of a process fails as with a full process table, until the block ends."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = "clone,clone3,fork,vfork"
    tracer = subprocess.Popen(
        ["strace", "-f", "-q", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error=EAGAIN", "-p", str(pid)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        if not until(lambda: traced(pid) or (tracer.poll() is not None and "ended")) or tracer.poll() is not None:
            pytest.skip(f"strace may not attach: {tracer.communicate()[0][-200:]}")
        yield
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        tracer.communicate()


def traced(pid):
    """Whether all threads of the process are traced."""
    from pathlib import Path

    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)


def test_with_a_full_process_table_calls_fail_clearly_and_work_afterwards(make_stage, faults):
    stage = make_stage("ready_timeout_s = 600\n")
    daemon = started(stage)
    wire = stage.begun()
    ready(wire, "a")
    with no_processes(daemon.pid):
        for number in range(3):
            refused = wire.tool("agent_create", {"name": f"n{number}", "role": "r"})["error"]
            assert (refused["kind"], refused["code"]) == ("Environment", "tmux_failed"), refused
            faults("world")
        assert stage.records("a")[-1]["type"] != "exited", "nobody is declared dead because we cannot look"
        task = {"task_id": "t1", "payload": {"command": "true"}}
        wire.tool("task_enqueue", {"agent_id": "a", "task": task})
        until(lambda: "result" in stage.types("a"))
    assert set(stage.tagged().values()) == {"a"}, "nothing half-made is left"
    ready(wire, "b")
    rows = {row["agent_id"]: row["status"] for row in wire.tool("agent_list")["agents"]}
    for agent_id in rows:
        assert wire.tool("agent_delete", {"agent_id": agent_id})["ok"], rows
    assert alive(daemon.pid)
    assert "Traceback" not in log(stage)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("granted", [0, 5, 10])
async def test_a_daemon_that_gets_no_threads_says_so_before_it_serves(granted):
    """A pool that could not start a thread would keep the work, and do it when nobody expects it any more."""
    left = granted
    real = threading.Thread.start

    def start(thread):
        nonlocal left
        if not left:
            raise RuntimeError("can't start new thread")
        left -= 1
        real(thread)

    syncer = Syncer(lambda _error: None)
    loop = asyncio.get_running_loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(Environment) as refused:
            Daemon._take_threads(SimpleNamespace(syncer=syncer), loop)
    assert refused.value.code == "daemon_failed"
    Daemon._take_threads(SimpleNamespace(syncer=Syncer(lambda _error: None)), loop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        left = 0
        assert await asyncio.gather(*(asyncio.to_thread(lambda n=n: n) for n in range(50))) == list(range(50))


def a_process():
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


@pytest.mark.anyio
async def test_the_end_of_a_process_is_noticed_without_a_descriptor_to_watch_it(monkeypatch):
    def none_left(_pid):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", none_left)
    child = a_process()
    watching = asyncio.ensure_future(processes.ended(child.pid))
    await asyncio.sleep(0)
    assert not watching.done()
    child.kill()
    await asyncio.wait_for(watching, 60)
    child.communicate()


def test_a_directory_is_synced_with_the_last_descriptor_there_is(tmp_path):
    class Full(SysIO):
        """No descriptor is left but those that are given back."""

        free = 0

        def open(self, path, flags, mode=0o600):
            if not self.free:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, flags, mode)

    io = Full()
    with pytest.raises(OSError):
        io.fsync_dir(tmp_path)
    io.reserve()
    spare, closed = io._spare, []
    real = os.close

    def close(fd):
        closed.append(fd)
        io.free = 1
        real(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "close", close)
        io.fsync_dir(tmp_path)
    assert closed[0] == spare
    assert io._spare is not None, "there is one again for the next time"
    real(io._spare)
