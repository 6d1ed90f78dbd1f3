"""The local splitter: what a task falls into, and which part waits for which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.spawn import local_planner, run_plan
from orchestrator.spawn.run_data import RunRequest


@pytest.mark.parametrize(
    ("task", "parts", "ordered"),
    [
        ("Please do:\n1. Read it\n2) Fix it", ["Read it", "Fix it"], True),
        ("Do\n- read it\n* fix it\n\u2022 ship it", ["read it", "fix it", "ship it"], False),
        ("Read it, then fix it and finally ship it.", ["Read it", "fix it", "ship it."], True),
        ("First, read it. Next, fix it; after that ship it", ["read it.", "fix it", "ship it"], True),
        ("Read it; fix it;", ["Read it", "fix it"], False),
        ("Read it\n\nFix it\n \n\nShip it", ["Read it", "Fix it", "Ship it"], False),
        (
            "1. Read it\n   1. all of it\n   2. twice\n2. Fix it",
            ["Read it\n   1. all of it\n   2. twice", "Fix it"],
            True,
        ),
        ("1. Read it\n  - all of it\n  - twice\n2. Fix it", ["Read it\n  - all of it\n  - twice", "Fix it"], True),
    ],
)
def test_a_task_falls_into_its_parts(task, parts, ordered):
    assert local_planner.split(task) == local_planner.Split(tuple(parts), ordered)


@pytest.mark.parametrize(
    "task",
    [
        "",
        "Read it",
        "1. Read it",
        "If it fails then fix it",
        "It has been broken since then",
        "Plan the next release of the finally block",
        "Explain `a; b` and\n```\n1. x\n2. y\n\nz;\n```",
        "- \n---\n;",
    ],
)
def test_a_task_that_is_one_thing_does_not_fall_apart(task):
    assert local_planner.split(task).parts == ()


@pytest.mark.parametrize("limit", [local_planner.PLAN_PARTS, local_planner.SWARM_PARTS])
def test_what_is_over_the_limit_stands_in_the_last_part(limit):
    found = local_planner.split("\n".join(f"- do {at}" for at in range(limit + 3)), limit).parts
    assert len(found) == limit
    assert found[-1] == "\n".join(f"do {at}" for at in range(limit - 1, limit + 3))


def waits(task):
    return local_planner.dependencies(local_planner.split(task, local_planner.SWARM_PARTS))


def test_parts_that_follow_each_other_make_a_chain():
    assert waits("1. deploy it\n2. design it\n3. test it") == [(), (0,), (1,)]


def test_a_part_waits_for_all_of_the_phase_before_it_and_for_no_other():
    task = "- test all of it\n- design the tables\n- build one half\n- build the other half\n- release it"
    assert waits(task) == [(2, 3), (), (1,), (1,), (0,)]


def test_within_a_phase_a_part_waits_for_an_earlier_one_that_speaks_of_the_same_kind_of_thing():
    assert waits("- write the login page\n- write the importer\n- write the settings page") == [(), (), (0,)]


def test_a_part_does_not_wait_for_what_those_it_waits_for_have_waited_for():
    assert waits("- write one page\n- write a second page\n- write a third page") == [(), (0,), (1,)]


def test_keywords_are_whole_words():
    assert local_planner.phase("a building of specific ships") == local_planner.phase("build")
    assert local_planner.category("the suburban debt") == "general"
    assert local_planner.category("Debugging the Python endpoints") == "coding"
    assert local_planner.category("Write a short story for a blog") == "creative"


@pytest.mark.parametrize(
    ("text", "budget", "wanted"),
    [
        ("a simple fix", "medium", "low"),
        ("a simple fix", "low", "low"),
        ("a critical fix", "medium", "high"),
        ("a simple but critical fix", "medium", "medium"),
        ("a critical fix", "any", "any"),
    ],
)
def test_a_parts_budget_follows_its_words(text, budget, wanted):
    assert local_planner.adjusted_budget(text, budget) == wanted


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({"mode": "single"}, 1),
        ({"mode": "collective"}, 4),
        ({"mode": "collective", "count": 1}, 3),
        ({"mode": "collective", "count": 50}, 6),
        ({"mode": "cascade"}, 3),
        ({"mode": "plan"}, 4),
        ({"mode": "swarm"}, 4),
        ({"mode": "plan", "task": "one"}, 1),
        ({"mode": "plan", "task": "a;" * 80}, 51),
        ({"mode": "swarm", "task": "a;" * 280}, 201),
    ],
)
def test_the_steps_are_counted_before_any_planning(asked, steps):
    assert run_plan.estimated_steps(RunRequest(**{"task": "a; b; c", **asked})) == steps


lines = st.lists(
    st.sampled_from(["1. design", "- test the api", "then", "code `x; y`", "", ";", "```", "ship the docs"]),
    max_size=30,
)


@given(lines, st.sampled_from(["\n", " ", ", "]))
def test_whatever_the_text_parts_have_words_and_wait_only_for_what_can_come_before(found, join):
    split = local_planner.split(join.join(found))
    assert len(split.parts) != 1
    assert all(part.strip() for part in split.parts)
    done, left = set(), dict(enumerate(local_planner.dependencies(split)))
    while left:
        ready = [at for at, needs in left.items() if set(needs) <= done]
        assert ready, "a cycle"
        done |= set(ready)
        for at in ready:
            del left[at]
