"""The daemon killed with -9 while it saves checkpoints: the next one knows every task, and runs none twice."""

import pytest

from tests.crash.moves import AGENT

STEPS = [f"cache:save:{side}" for side in ("before", "commit", "after")]


def work(stage, master, worker):
    """A task done; its id."""
    task = stage.new("t")
    told = master.do("task_enqueue", agent_id=worker, task={"task_id": task, "payload": stage.payload()})
    assert told["position"] == 1
    assert stage.ended(task)["type"] == "result"
    return task


def known(stage, master, worker, done):
    """Every task that was done is known, by its id, its payload and its outcome."""
    for task in done:
        told = master.do("task_enqueue", agent_id=worker, task={"task_id": task, "payload": stage.payload()})
        assert told == {"position": 1, "task_id": task, "state": "result", "duplicate": True}
    stage.check(broadcast=False)


@pytest.mark.slow
@pytest.mark.parametrize("gone", [False, True])
def test_a_daemon_killed_while_it_saves_checkpoints_forgets_nothing(stage, gone):
    """``gone``: somebody deletes the cache before the next daemon looks for it."""
    master = stage.master()
    worker = master.do("agent_create", name="w", **AGENT)["agent_id"]
    done = []
    for step in STEPS:
        done.append(work(stage, master, worker))
        stage.arm(step)
        daemon = stage.daemon()
        daemon.terminate()  # the clean end saves what went on
        stage.spent(step)
        if gone:
            (stage.root / ".agents" / "cache.sqlite").unlink(missing_ok=True)
        known(stage, master, worker, done)
    master.close()
    stage.finish()


def test_a_daemon_killed_while_a_quiet_agent_is_saved_forgets_nothing(stage):
    master = stage.master()
    worker = master.do("agent_create", name="w", **AGENT)["agent_id"]
    stage.arm("cache:save:commit")  # before the work: the quiet after it may be over before this test goes on
    done = [work(stage, master, worker) for _ in range(3)]
    stage.spent("cache:save:commit")  # nobody calls: it is the quiet that saves
    stage.arm("cache:save:after")
    done.append(work(stage, master, worker))
    known(stage, master, worker, done)
    stage.spent("cache:save:after")
    known(stage, master, worker, done)
    master.do("agent_delete", agent_id=worker)
    known(stage, master, worker, done)
    master.close()
    stage.finish()
    assert not (stage.root / ".agents" / "cache.sqlite-wal").exists(), "a clean end leaves one file"
