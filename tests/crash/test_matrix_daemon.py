"""The daemon killed with -9 at every step of a task's and an agent's life: one answer per call, nothing lost or twice.

Each row is a step and what makes the team pass it. Here stand a third of the rows of a task and a sixth of those of
an agent, and those of one batch share a team's life; ``make soak`` has all rows, and gives each a life of its own.
"""

import pytest

from tests.crash.moves import AGAIN, CREATE, DELETE, FAIL, MORE, MOVES, TASK, batches, sixth, third


def play(stage, rows):
    master = stage.master()
    worker = master.do("agent_create", name="w", role="r")["agent_id"]
    for step, move in rows:
        stage.arm(step)
        try:
            MOVES[move](stage, master, worker)
            stage.spent(step)
            stage.check(broadcast=False)
        except BaseException as error:
            error.add_note(f"killed at {step} of {move}")
            raise
    master.close()
    stage.finish()


@pytest.mark.parametrize("rows", batches(third(TASK), 9))
def test_a_daemon_killed_at_any_step_of_a_task_loses_nothing_and_does_nothing_twice(stage, rows):
    play(stage, rows)


@pytest.mark.parametrize("rows", batches(sixth(CREATE), 7))
def test_a_daemon_killed_while_it_creates_agents_makes_each_once(stage, rows):
    play(stage, rows)


@pytest.mark.parametrize("many", [False, True])
def test_an_agent_whose_role_sets_what_nobody_has_allowed_is_made_once_too(stage, many):
    role = stage.root / ".agents/roles/r.md"
    role.parent.mkdir(parents=True, exist_ok=True)
    role.write_text("---\ndescription: d\napproval: all\n---\nYou work.\n")
    master = stage.master()
    stage.arm("outbox:starting:after")
    agent = {"name": "a", "role": "r"}
    made = master.do("agents_create", agents=[agent]) if many else master.do("agent_create", **agent)
    stage.spent("outbox:starting:after")
    assert made["untrusted"]["files"] == [{"file": ".agents/roles/r.md", "keys": ["approval"]}]
    assert [row["agent_id"] for row in master.do("agent_list")["agents"]] == ["a"]
    assert master.do("agent_create", name="b", role="r")["agent_id"] == "b"
    stage.check(broadcast=False)
    master.close()
    stage.finish()


@pytest.mark.parametrize("rows", batches(sixth(FAIL), 7))
def test_a_daemon_killed_while_an_agent_is_lost_relaunches_it_once(stage, rows):
    play(stage, rows)


@pytest.mark.parametrize("rows", batches(sixth(DELETE), 7))
def test_a_daemon_killed_while_it_deletes_an_agent_deletes_it_and_its_pane(stage, rows):
    play(stage, rows)


@pytest.mark.parametrize("rows", batches(sixth(AGAIN), 10))
def test_a_daemon_killed_while_an_agent_gets_another_life_begins_it_once(stages, rows):
    play(stages(config="timeout_grace_s = 0.5\n"), rows)


@pytest.mark.slow
@pytest.mark.parametrize("rows", batches(AGAIN + TASK + CREATE + MORE + FAIL + DELETE, 1))
def test_a_daemon_killed_once_in_a_life_leaves_no_trace(stages, rows):
    play(stages(config="timeout_grace_s = 0.5\n"), rows)
