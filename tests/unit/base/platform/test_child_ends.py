"""The end of a child is noticed and not taken note of, with waitid and without it."""

import os
import subprocess
import threading

import pytest

from orchestrator.base.platform import child_ends


@pytest.mark.parametrize("has_waitid", [True, False])
def test_a_child_that_has_ended_stays_a_zombie(monkeypatch, has_waitid):
    if not has_waitid:  # Python on macOS before 3.13
        monkeypatch.delattr(os, "waitid")
        monkeypatch.setattr("orchestrator.base.platform.basic_facts.LINUX", True)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert not child_ends.is_over(child.pid)
        waiting = threading.Thread(target=child_ends.wait_for, args=(child.pid,), daemon=True)
        waiting.start()
        child.stdin.close()
        waiting.join(60)
        assert not waiting.is_alive()
        assert child_ends.is_over(child.pid)
        assert child.wait() == 0, "its status was left for whoever waits for it"
