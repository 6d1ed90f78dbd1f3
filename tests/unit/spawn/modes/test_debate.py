"""The mode `debate`: its plan, and what becomes of it when debaters fail or the money is used up."""

from dataclasses import replace

import pytest

from orchestrator.spawn import model_table, node_prompts, run_plan
from orchestrator.spawn.run_data import NodeRow, RunRequest, RunSettings
from orchestrator.spawn.scheduler import Scheduler

FIRST = ("debater-1-round-1", "debater-2-round-1", "debater-3-round-1")
SECOND = ("debater-1-round-2", "debater-2-round-2", "debater-3-round-2")


def planned(**asked):
    request = RunRequest(task="Tea or coffee?", mode="debate", **asked)
    return request, run_plan.plan_of(request, RunSettings(), model_table.shipped(), run_plan.local(request))


def play(stop_after=0, **outcomes):
    """Run a debate to its end; a node of ``outcomes`` ends in that state, all others are completed.

    With ``stop_after`` the budget is used up once that number of nodes have started.
    """
    scheduler = Scheduler("debate", 8, [NodeRow(node, "queued") for node in planned()[1].nodes])
    rows, started = scheduler.rows, []
    while True:
        stop = "budget" if stop_after and len(started) >= stop_after else ""
        steps = scheduler.next_steps(stop=stop)
        if steps.end is not None:
            return steps.end, started, rows
        assert steps.start, rows
        for node_id in steps.start:
            status = outcomes.get(node_id.replace("-", "_"), "completed")
            error = "broke" if status == "failed" else None
            scheduler.take(replace(rows[node_id], status=status, error=error))
            started.append(node_id)


def test_a_debate_is_two_rounds_of_the_same_models_and_a_judge_of_the_last_round():
    _, plan = planned()
    assert [(node.id, node.kind, node.wave, node.needs) for node in plan.nodes] == [
        *((name, "task", 0, ()) for name in FIRST),
        *((name, "task", 1, FIRST) for name in SECOND),
        ("merged", "merge", 2, SECOND),
    ]
    models = [node.model for node in plan.nodes]
    assert models[:3] == models[3:6]
    assert len(set(models[:3])) == 3


@pytest.mark.parametrize(("count", "nodes"), [(1, 5), (2, 5), (5, 11), (50, 11)])
def test_the_estimate_is_the_number_of_nodes(count, nodes):
    request, plan = planned(count=count)
    assert (run_plan.estimated_steps(request), len(plan.nodes)) == (nodes, nodes)


def test_callers_of_a_debate_keep_their_debater_in_every_round():
    _, plan = planned(engines=("claude", "codex"))
    assert [node.model for node in plan.nodes] == [
        *("engine:claude", "engine:codex", "engine:claude") * 2, "engine:codex",
    ]  # fmt: skip


def test_the_second_round_is_asked_the_whole_task_with_all_answers_of_the_first():
    request, plan = planned()
    node = plan.nodes[3]
    prompt = node_prompts.task_prompt(request, node, [(name, request.task, f"by {name}") for name in FIRST], 10_000)
    assert request.task in prompt
    assert f"yours is {FIRST[0]}" in prompt
    assert all(f"by {name}" in prompt for name in FIRST)


def test_the_judge_decides_unless_another_style_is_asked_for():
    assert node_prompts.style(planned()[0]) == "decision"


def test_a_round_waits_for_the_whole_round_before():
    end, started, _ = play()
    assert started == [*FIRST, *SECOND, "merged"]
    assert (end.status, end.from_nodes) == ("completed", ())


def test_a_debater_that_failed_in_one_round_answers_in_the_next():
    end, started, _ = play(debater_2_round_1="failed")
    assert started == [*FIRST, *SECOND, "merged"]
    assert end.status == "completed"
    assert "debater-2-round-1" in end.summary


def test_the_only_answer_of_the_last_round_is_the_result_without_a_judge():
    end, started, rows = play(debater_1_round_2="failed", debater_3_round_2="failed")
    assert "merged" not in started
    assert rows["merged"].status == "skipped"
    assert (end.status, end.from_nodes) == ("completed", ("debater-2-round-2",))


def test_a_debate_without_any_first_answer_fails_with_its_first_error():
    end, started, _ = play(**{name.replace("-", "_"): "failed" for name in FIRST})
    assert started == list(FIRST)
    assert (end.status, end.error) == ("failed", "debater-1-round-1: broke")


def test_a_debate_that_runs_out_of_money_keeps_the_answers_of_its_last_round():
    end, started, _ = play(stop_after=3)
    assert started == list(FIRST)
    assert (end.status, end.from_nodes) == ("completed", FIRST)
