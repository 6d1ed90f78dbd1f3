"""Two deaths in a row: the daemon again while it recovers, or the daemon and its master, so that nobody asks again."""

import pytest

from tests.crash.moves import AGENT, MOVES
from tests.crash.raw import settled
from tests.fakes.relays import until


@pytest.mark.parametrize(
    ("first", "second", "move"),
    [
        ("outbox:restarted:after", "tmux:respawn-pane", "recover"),
        pytest.param("outbox:exited:after", "outbox:requeued:after", "recover", marks=pytest.mark.slow),
        ("outbox:starting:after", "tmux:split-window", "create"),
        pytest.param("tmux:split-window", "tmux:set-option", "creates", marks=pytest.mark.slow),
        pytest.param("inbox:stop:after", "outbox:stopped:after", "delete", marks=pytest.mark.slow),
        pytest.param("outbox:stopped:before", "tmux:kill-pane", "delete", marks=pytest.mark.slow),
        pytest.param("outbox:result:after", "broadcast:append:before", "work", marks=pytest.mark.slow),
        pytest.param("inbox:cancel:after", "outbox:cancel_requested:after", "cancel", marks=pytest.mark.slow),
    ],
)
def test_a_daemon_killed_again_while_it_recovers_still_does_everything_once(stage, first, second, move):
    master = stage.master()
    worker = master.do("agent_create", name="w", role="r")["agent_id"]
    stage.arm(first)
    stage.arm(second)
    MOVES[move](stage, master, worker)
    stage.spent(first)
    stage.spent(second)
    master.close()
    stage.finish()


@pytest.mark.parametrize(
    ("orphaning", "fatal"),
    [
        ("outbox:starting:before", "outbox:starting:after"),
        pytest.param("launch:written", "tmux:split-window", marks=pytest.mark.slow),
    ],
)
def test_an_agent_whose_master_and_daemon_both_died_is_made_whole_by_the_next_daemon(stage, orphaning, fatal):
    master = stage.master()
    stage.arm(orphaning, master.victim)
    stage.arm(fatal)
    master.ask("agent_create", name="a", env={"MARK": "a"}, **AGENT)
    stage.spent(fatal)
    master.gone()
    other = stage.master()
    assert other.do("agent_get", agent_id="a", wait_ms=40000)["meta"]["status"] in ("idle", "unknown")
    [process] = stage.agents()
    assert process.environ()["MARK"] == "a", "what its caller gave it is not lost with the call"
    MOVES["work"](stage, other, "a")
    other.close()
    stage.finish()


def test_an_agent_deleted_while_its_pane_has_no_tag_yet_leaves_no_pane(stage):
    master = stage.master()
    stage.arm("launch:written", master.victim)
    stage.arm("tmux:split-window")
    master.ask("agent_create", name="a", **AGENT)
    stage.spent("tmux:split-window")
    master.gone()
    other = stage.master()
    assert other.do("agent_delete", agent_id="a", force=True, confirm="a")["status"] == "deleted"
    assert stage.panes() == [""]
    other.close()
    stage.finish()


def test_a_delete_whose_master_and_daemon_both_died_is_carried_out_by_the_next_daemon(stage):
    master = stage.master()
    master.do("agent_create", name="a", **AGENT)
    hold = stage.payload(hold=str(stage.base / "never"))
    master.do("task_enqueue", agent_id="a", task={"task_id": "t", "payload": hold})
    stage.record("a", "ack", "t")
    stage.arm("inbox:stop:before", master.victim)
    stage.arm("inbox:stop:after")
    master.ask("agent_delete", agent_id="a")
    stage.spent("inbox:stop:after")
    master.gone()
    stage.deleted("a")  # the relay of the agent has started the next daemon
    assert stage.found().task("t")[1]["by"] == "agent"
    until(lambda: stage.panes() == [""])
    stage.finish()


@pytest.mark.parametrize(
    ("step", "move"),
    [
        ("tmux:new-session", "create"),
        pytest.param("tmux:set-option", "create", marks=pytest.mark.slow),
        pytest.param("window:restored", "delete", marks=pytest.mark.slow),
        pytest.param("outbox:deleted:after", "delete", marks=pytest.mark.slow),
    ],
)
def test_outside_tmux_a_daemon_killed_around_its_own_session_makes_and_ends_it_once(stages, step, move):
    stage = stages(detached=True)
    master = stage.master()
    stage.arm(step)
    MOVES[move](stage, master, None)
    stage.spent(step)
    master.close()
    stage.finish()


def test_a_session_made_for_a_master_and_by_a_daemon_that_both_died_is_ended(stages):
    stage = stages(detached=True)
    master = stage.master()
    settled(stage.daemon())  # what it looks for after its start passes the second step too
    stage.arm("tmux:new-session")
    # The relay would start the next daemon at once: it goes first, the daemon at work does not notice in time.
    stage.arm("tmux:list-panes", master.victim)
    master.ask("agent_create", name="a", **AGENT)
    stage.spent("tmux:new-session")
    master.gone()
    assert stage.panes() == [""], "the session stands, and no run knows of it"
    other = stage.master()
    assert other.do("agent_list", scope="all")["agents"] == []
    until(lambda: stage.panes() == [])
    other.close()
    stage.stop()
