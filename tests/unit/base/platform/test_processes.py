"""Which of the watched processes have a stopped one below them."""

import os
import signal
import subprocess
import sys

from orchestrator.base.platform.processes import stopped_below

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True); import sys; sys.stdin.read()'])"


def test_a_stopped_descendant_counts_for_the_watched_process_until_it_continues():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()  # the child runs
        [child] = map(int, _children(parent.pid))
        try:
            assert stopped_below([parent.pid]) == {}
            os.kill(child, signal.SIGSTOP)
            while not stopped_below([parent.pid, os.getpid()]):
                pass
            assert stopped_below([parent.pid, os.getpid()]) == {parent.pid: child}
            assert stopped_below([os.getpid()]) == {os.getpid(): child}
            os.kill(child, signal.SIGCONT)
            while stopped_below([parent.pid]):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def _children(pid):
    out = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in out.splitlines() if line.split()[1] == str(pid)]
