"""Lives, budgets, backoff, restarts by hand, silence and time limits: the pure decisions."""

import pytest

from orchestrator.base.errors import Conflict
from orchestrator.core import agent_status as derived
from orchestrator.core import decisions, state, supervision
from orchestrator.core.supervision import EndingStep, RestartBudget
from tests.support.pure_team import BUDGET, Desk, essence, refold


@pytest.fixture
def desk():
    made = Desk()
    made.start(max_restarts=3)
    made.ready()
    return made


def holds(desk, task="t1", **more):
    """The agent holds a task."""
    made = decisions.enqueue(
        desk.agent, task_id=task, payload=None, stored=None, limits=desk.limits, req=f"c:{task}", at=desk.at(), **more
    )
    desk.write(made.drafts)
    desk.wait()
    assert desk.agent.lease.task_id == task


def last(desk, log="outbox"):
    return desk.logs[log][-1]


# -- budget and backoff -------------------------------------------------------------------------------------------


def test_it_is_restarted_as_often_as_its_budget_allows_and_then_fails(desk):
    for life in (2, 3, 4):
        desk.exit()
        assert (desk.agent.life, desk.agent.epoch) == ("starting", life)
        desk.ready()
    desk.exit()
    assert desk.agent.life == "failed"
    assert last(desk)["reason"] == "x; relaunched 3 of 3 times within 600 s already"
    assert essence(refold(desk)) == essence(desk.agent)


def test_launches_before_the_window_do_not_count(desk):
    for _ in range(3):
        desk.exit()
        desk.ready()
    began = desk.agent.restarts[1]
    assert supervision.spent(desk.agent, began) == 2
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="exit", reason="x", code=1))
    desk.write(supervision.after_exit(desk.agent, at=desk.at(), budget=RestartBudget(began, 1.0)))
    assert desk.agent.life == "starting"


def test_a_launch_that_a_clock_set_back_has_put_into_the_future_counts(desk):
    desk.exit()
    desk.ready()
    assert supervision.spent(desk.agent, "2020-01-01T00:00:00.000Z") == 1


@pytest.mark.parametrize(("before", "pause"), [(0, 0), (1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (50, 60)])
def test_the_pause_before_a_relaunch_doubles_up_to_a_minute(before, pause):
    agent = state.Agent("a", restarts=["2026-01-01T00:00:00.000Z"] * before)
    assert supervision.pause_s(agent, RestartBudget("2026-01-01T00:00:00.000Z", 2.0)) == pause


def test_a_restart_asked_for_waits_for_no_pause_and_gives_the_budget_back(desk):
    for _ in range(3):
        desk.exit()
        desk.ready()
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="exit", reason="x", code=1))
    assert supervision.pause_s(desk.agent, BUDGET) > 0
    desk.write(supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()))
    assert supervision.pause_s(desk.agent, BUDGET) == 0
    desk.after_exit()
    assert (desk.agent.life, last(desk)["asked"], desk.agent.restarts) == ("starting", last(desk, "inbox")["seq"], [])
    assert not desk.agent.restart_due
    assert essence(refold(desk)) == essence(desk.agent)


@pytest.mark.parametrize(
    ("restart", "how", "code", "life"),
    [
        ("on-failure", "exit", 0, "failed"),
        ("on-failure", "exit", 1, "starting"),
        ("on-failure", "signal", None, "starting"),
        ("on-failure", "pane_closed", None, "starting"),
        ("on-failure", "timed_out", 0, "starting"),
        ("always", "exit", 0, "starting"),
        ("never", "signal", None, "failed"),
        ("never", "timed_out", 0, "failed"),
    ],
)
def test_policy_decides_what_follows_an_exit(restart, how, code, life):
    desk = Desk()
    desk.start(restart=restart, max_restarts=3)
    desk.ready()
    desk.write(supervision.exited(desk.agent, at=desk.at(), how=how, reason="x", code=code))
    desk.after_exit()
    assert desk.agent.life == life


def test_without_a_place_it_fails_and_says_why(desk):
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="tmux_gone", reason="the tmux server is gone"))
    desk.after_exit("the tmux server is gone")
    assert last(desk)["type"] == "failed"
    assert "nothing to launch it into" in last(desk)["reason"]


# -- a pane that a human closes -------------------------------------------------------------------------------------


def closes(desk, *, how="pane_closed", code=129, nowhere=""):
    desk.write(supervision.exited(desk.agent, at=desk.at(), how=how, reason="its pane was closed", code=code))
    desk.after_exit(nowhere)


def closable(**policies):
    made = Desk()
    made.start(**{"max_restarts": 3, "on_pane_closed": "cancel"} | policies)
    made.ready()
    return made


def tells_the_same_again(desk):
    assert essence(refold(desk)) == essence(desk.agent)


def test_closing_the_pane_cancels_the_running_task_for_the_human_and_the_rest_goes_on_in_a_new_pane():
    desk = closable()
    holds(desk)
    desk.enqueue("t2")
    closes(desk)
    (end,) = [r for r in desk.logs["outbox"] if r["type"] == "canceled"]
    assert (end["task_id"], end["attempt"], end["by"]) == ("t1", 1, "orchestrator")
    assert end["payload"] == {"canceled_by": "human", "reason": "its pane was closed"}
    assert (desk.agent.life, desk.agent.epoch) == ("starting", 2)
    desk.ready()
    assert (desk.wait()["task_id"], desk.agent.lease.attempt) == ("t2", 1)
    tells_the_same_again(desk)


def test_closing_the_pane_puts_the_running_task_back_whatever_on_lost_says():
    desk = closable(on_pane_closed="requeue", on_lost="fail")
    holds(desk)
    closes(desk)
    desk.ready()
    assert (desk.wait()["attempt"], desk.agent.outcomes["error"]) == (2, 0)
    closes(desk)
    (end,) = [r for r in desk.logs["outbox"] if r["type"] == "error"]
    assert (end["payload"]["code"], end["attempt"]) == ("agent_lost", 2)  # max_attempts holds for closed panes too
    tells_the_same_again(desk)


@pytest.mark.parametrize("how", ["signal", "exit", "tmux_gone", "vanished", "pid_reused"])
def test_every_other_end_of_a_launch_follows_on_lost(how):
    desk = closable(on_pane_closed="cancel")
    holds(desk)
    closes(desk, how=how)
    assert (desk.types().count("requeued"), desk.agent.outcomes["canceled"]) == (1, 0)


def test_an_agent_from_before_the_policy_follows_on_lost_and_its_budget():
    desk = Desk()
    desk.start(max_restarts=3)
    desk.ready()
    holds(desk)
    closes(desk)
    assert (desk.types().count("requeued"), len(desk.agent.restarts)) == (1, 1)
    assert "pane_closed" not in last(desk)


def test_a_task_canceled_by_its_master_or_out_of_time_ends_as_that_when_the_pane_is_closed():
    desk = closable(on_pane_closed="requeue")
    holds(desk)
    desk.cancel("t1")
    closes(desk)
    (end,) = [r for r in desk.logs["outbox"] if r["type"] == "canceled"]
    assert "canceled_by" not in end["payload"]
    desk = closable()
    holds(desk, timeout_s=60.0)
    late(desk, 60.0)
    closes(desk)
    assert desk.agent.outcomes == {"result": 0, "error": 1, "canceled": 0}


def test_a_closed_pane_uses_up_no_restart_and_waits_for_no_pause():
    desk = closable(max_restarts=1)
    for at in range(5):
        holds(desk, f"t{at}")
        desk.enqueue(f"more{at}")
        desk.write(supervision.exited(desk.agent, at=desk.at(), how="pane_closed", reason="x", code=0))
        assert supervision.pause_s(desk.agent, BUDGET) == 0
        desk.after_exit()
        assert last(desk)["pane_closed"] is True
        desk.ready()
        desk.wait()
        desk.emit("result", f"more{at}")
    assert (desk.agent.restarts, desk.agent.epoch) == ([], 6)
    holds(desk, "crash")
    desk.exit()
    assert (len(desk.agent.restarts), desk.agent.life) == (1, "starting")
    desk.ready()
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="signal", reason="x", signal=9))
    assert supervision.pause_s(desk.agent, BUDGET) > 0
    desk.after_exit()
    assert desk.agent.life == "failed"
    tells_the_same_again(desk)


def test_a_pane_that_is_lost_before_its_launch_was_ready_counts():
    desk = closable(max_restarts=2)
    desk.enqueue("t1")
    closes(desk)
    assert last(desk)["pane_closed"] is True
    for _ in range(2):
        closes(desk)  # in the middle of its start
        assert "pane_closed" not in last(desk)
    closes(desk)
    assert desk.agent.life == "failed"
    assert "relaunched 2 of 2 times" in last(desk)["reason"]


def test_an_agent_whose_pane_was_closed_while_it_had_no_task_gets_the_next_one_with_a_task():
    desk = closable()
    closes(desk)
    assert (desk.agent.life, last(desk)["type"], supervision.rests(desk.agent)) == ("exited", "exited", True)
    shown = derived.status(desk.agent, derived.Presence(process="gone"))
    assert shown == ("exited", "its pane was closed; its next task gets a new one")
    desk.enqueue("t1")
    assert not supervision.rests(desk.agent)
    desk.after_exit()
    assert (desk.agent.life, last(desk)["pane_closed"]) == ("starting", True)
    assert not supervision.rests(desk.agent)
    tells_the_same_again(desk)


def test_a_crashed_agent_without_a_task_does_not_rest():
    desk = closable()
    closes(desk, how="signal", code=None)
    assert (desk.agent.life, supervision.rests(desk.agent)) == ("starting", False)


def test_an_agent_that_rests_starts_when_somebody_asks_and_ends_when_somebody_asks():
    desk = closable()
    closes(desk)
    desk.write(supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()))
    assert not supervision.rests(desk.agent)
    desk.after_exit()
    assert (desk.agent.life, "pane_closed" in last(desk)) == ("starting", False)
    desk = closable()
    closes(desk)
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    assert not supervision.rests(desk.agent)


def test_a_closed_pane_ends_an_agent_that_shall_never_be_restarted_or_has_no_window():
    desk = closable(restart="never")
    closes(desk)
    assert (desk.agent.life, supervision.rests(desk.agent)) == ("failed", False)
    assert last(desk)["reason"] == "its pane was closed; restart = 'never'"
    desk = closable()
    closes(desk, nowhere="its window is gone")
    assert desk.agent.life == "failed"
    assert "nothing to launch it into" in last(desk)["reason"]


@pytest.mark.parametrize("restart", ["on-failure", "always"])
@pytest.mark.parametrize("code", [0, 1, 129, None])
def test_how_the_cli_exits_when_its_pane_is_closed_does_not_matter(restart, code):
    desk = closable(restart=restart)
    desk.enqueue("t1")
    closes(desk, code=code)
    assert desk.agent.life == "starting"


def test_a_session_is_resumed_in_the_new_pane():
    desk = closable(on_pane_closed="requeue")
    holds(desk)
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="pane_closed", reason="x", code=0))
    desk.after_exit(session="s1")
    assert (last(desk)["resume"], last(desk)["pane_closed"]) == ("s1", True)


# -- restart by hand ----------------------------------------------------------------------------------------------


def test_a_failed_agent_begins_anew_when_somebody_asks_and_keeps_its_queue(desk):
    desk.enqueue("t1")
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="exit", reason="x", code=1))
    desk.after_exit("its window is gone")
    desk.write(supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()))
    desk.after_exit()
    desk.ready()
    assert desk.agent.epoch == 2
    assert desk.wait()["task_id"] == "t1"
    assert desk.agent.failure is None


def test_a_living_agent_must_end_first(desk):
    holds(desk)
    assert supervision.must_end(desk.agent) == ""
    desk.write(supervision.restart(desk.agent, fresh=True, req="c:r", at=desk.at()))
    assert supervision.must_end(desk.agent) == "restart"
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="restart", reason="x", code=0))
    desk.after_exit(session="s1")
    assert "resume" not in last(desk)
    assert (desk.agent.head().task_id, desk.agent.head().attempt) == ("t1", 2)
    assert supervision.must_end(desk.agent) == ""


def test_the_session_is_gone_on_with_unless_a_fresh_one_is_wanted(desk):
    desk.write(supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()))
    desk.write(supervision.exited(desk.agent, at=desk.at(), how="restart", reason="x", code=0))
    desk.after_exit(session="s1")
    assert last(desk)["resume"] == "s1"


def test_a_resent_call_asks_once(desk):
    desk.write(supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()))
    assert supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at()) == []
    assert supervision.restart(desk.agent, fresh=False, req="c:r2", at=desk.at()) != []


def test_an_agent_that_is_to_end_is_not_restarted(desk):
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    with pytest.raises(Conflict) as refused:
        supervision.restart(desk.agent, fresh=False, req="c:r", at=desk.at())
    assert refused.value.code == "agent_ended"
    assert supervision.must_end(desk.agent) == ""


# -- tasks with a time limit --------------------------------------------------------------------------------------


def late(desk, ran_s, asked_s=None, grace_s=30.0):
    drafts = supervision.overtime(desk.agent, at=desk.at(), ran_s=ran_s, asked_s=asked_s, grace_s=grace_s)
    desk.write(drafts)
    return [draft.type for draft in drafts]


def test_a_task_without_a_limit_is_never_late(desk):
    holds(desk)
    assert late(desk, 1e9) == []


def test_out_of_time_means_a_soft_cancel_then_an_error_and_a_new_life(desk):
    holds(desk, timeout_s=60.0)
    assert late(desk, 59.9) == []
    assert late(desk, 60.0) == ["cancel"]
    assert last(desk, "inbox")["reason"] == "timed_out"
    assert desk.agent.lease.cancel_requested
    assert late(desk, 61.0, 1.0) == []
    assert late(desk, 90.0, 29.9) == []
    assert supervision.must_end(desk.agent) == ""
    assert late(desk, 91.0, 30.0) == ["error"]
    end = last(desk)
    assert (end["timed_out"], end["payload"]["code"], end["by"]) == (True, "timed_out", "orchestrator")
    assert supervision.must_end(desk.agent) == "timed_out"
    assert desk.emit("result", "t1")["duplicate"]
    assert desk.agent.outcomes == {"result": 0, "error": 1, "canceled": 0}
    desk.exit()
    assert supervision.must_end(desk.agent) == ""
    assert essence(refold(desk)) == essence(desk.agent)


def test_an_agent_that_obeys_in_time_ends_the_task_by_its_own_word(desk):
    holds(desk, timeout_s=60.0)
    late(desk, 60.0)
    desk.emit("canceled", "t1")
    assert desk.agent.outcomes["canceled"] == 1
    assert late(desk, 1000.0, 1000.0) == []
    assert supervision.must_end(desk.agent) == ""


def test_a_masters_cancel_does_not_lift_the_limit(desk):
    holds(desk, timeout_s=60.0)
    desk.cancel("t1")
    assert late(desk, 30.0, 30.0) == []
    assert late(desk, 60.0, 60.0) == ["error"]


def test_a_task_out_of_time_whose_agent_is_lost_in_the_grace_is_not_run_again(desk):
    holds(desk, timeout_s=60.0)
    late(desk, 60.0)
    desk.exit()
    ends = [r for r in desk.logs["outbox"] if r["type"] == "error"]
    assert [(r["task_id"], r["timed_out"]) for r in ends] == [("t1", True)]
    assert desk.agent.life == "starting"


# -- silence ------------------------------------------------------------------------------------------------------


def test_stalled_is_said_once_and_taken_back_once(desk):
    assert supervision.stalled(desk.agent, at=desk.at(), reason="r") == []
    holds(desk)
    desk.write(supervision.stalled(desk.agent, at=desk.at(), reason="still"))
    assert derived.status(desk.agent, derived.Presence(process="alive")) == ("stalled", "still")
    assert supervision.stalled(desk.agent, at=desk.at(), reason="still") == []
    desk.write(supervision.recovered(desk.agent, at=desk.at(), reason="it called"))
    assert derived.status(desk.agent, derived.Presence(process="alive"))[0] == "busy"
    assert supervision.recovered(desk.agent, at=desk.at(), reason="it called") == []


def test_a_new_life_is_not_stalled(desk):
    holds(desk)
    desk.write(supervision.stalled(desk.agent, at=desk.at(), reason="still"))
    desk.exit()
    assert desk.agent.stalled is None


# -- what proves a status -----------------------------------------------------------------------------------------


def proofs(desk, status):
    return [(proof.type, proof.seq) for proof in derived.proof_of(desk.agent, status)]


def test_the_records_that_prove_a_status_are_known(desk):
    assert proofs(desk, "idle") == [("ready", 2)]
    holds(desk)
    assert proofs(desk, "busy") == [("delivered", 3), ("ready", 2)]
    desk.write(supervision.stalled(desk.agent, at=desk.at(), reason="still"))
    assert proofs(desk, "stalled")[0] == ("stalled", 4)
    desk.exit()
    assert proofs(desk, "starting") == [("restarted", 7)]
    desk.ready()
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    assert proofs(desk, "stopping")[0] == ("stop", 2)
    assert [p._asdict() for p in derived.proof_of(refold(desk), "stopping")] == [
        p._asdict() for p in derived.proof_of(desk.agent, "stopping")
    ]


# -- the ladder ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rungs", "how"),
    [
        ([], "gone already"),
        ([EndingStep("stop", 1.5)], "stopped by itself"),
        ([EndingStep("stop", 5), EndingStep("quit", 0.5)], "quit by its own command"),
        (
            [EndingStep("stop", 5), EndingStep("quit", 3), EndingStep("SIGTERM", 2), EndingStep("SIGKILL", 0.01)],
            "SIGKILL",
        ),
    ],
)
def test_each_rung_that_was_tried_is_recorded(desk, rungs, how):
    desk.write(decisions.stop(desk.agent, force=False, req="c:s", at=desk.at()))
    desk.write(supervision.stopped(desk.agent, at=desk.at(), rungs=rungs))
    (record,) = [r for r in desk.logs["outbox"] if r["type"] == "stopped"]
    assert record["how"] == how
    assert [one["rung"] for one in record["rungs"]] == [one.rung for one in rungs]
