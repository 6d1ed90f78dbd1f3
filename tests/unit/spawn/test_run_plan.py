"""From what a planner found to a plan that can be run."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import model_table, run_plan
from orchestrator.spawn.modes.spawn_mode import PlanStep
from orchestrator.spawn.run_data import Node, RunRequest, RunSettings
from orchestrator.spawn.run_plan import PlannerAnswer

TABLE = model_table.shipped()
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def make(mode, task="design it; build it; test it", steps=None, source="smart-spawn-api", settings=None, **asked):
    one = RunRequest(task=task, mode=mode, **asked)
    found = run_plan.local(one) if steps is None else PlannerAnswer(source, tuple(steps))
    return run_plan.plan_of(one, settings or RunSettings(), TABLE, found)


def shape(made):
    return [(node.id, node.kind, node.wave, node.needs) for node in made.nodes]


def node(name, *needs, kind="task"):
    return Node(name, kind, 0, needs, "t", "x/y")


def test_single_is_one_node_without_a_merge():
    made = make("single")
    assert shape(made) == [("single", "task", 0, ())]
    assert made.source == "local"
    assert made.notes == ()


def test_collective_is_peers_of_different_models_and_a_merge():
    made = make("collective", count=4)
    names = tuple(f"collective-{at}" for at in (1, 2, 3, 4))
    assert shape(made) == [*((name, "task", 0, ()) for name in names), ("merged", "merge", 1, names)]
    assert len({one.model.partition("/")[0] for one in made.nodes[:4]}) == 4
    assert made.nodes[-1].model == max((one.model for one in made.nodes[:4]), key=TABLE.score)


@pytest.mark.parametrize(("count", "nodes"), [(-3, 3), (1, 3), (5, 6), (99, 6)])
def test_a_collective_has_two_to_five_peers(count, nodes):
    assert len(make("collective", count=count).nodes) == nodes


def test_cascade_is_a_cheap_and_a_premium_answer_and_a_merge_by_the_premium_model():
    made = make("cascade")
    assert shape(made) == [
        ("cheap", "task", 0, ()),
        ("premium", "task", 1, ("cheap",)),
        ("merged", "merge", 2, ("cheap", "premium")),
    ]
    cheap, premium, merged = made.nodes
    assert (cheap.tier, premium.tier, merged.tier) == ("cheap", "premium", "")
    assert TABLE.price(cheap.model).prompt < TABLE.price(premium.model).prompt
    assert merged.model == premium.model


def test_an_evaluator_stands_between_the_two_answers_of_a_cascade():
    made = make("cascade", settings=RunSettings(evaluator="openrouter/openai/gpt-5-nano"))
    assert shape(made) == [
        ("cheap", "task", 0, ()),
        ("evaluate", "evaluate", 1, ("cheap",)),
        ("premium", "task", 2, ("cheap", "evaluate")),
        ("merged", "merge", 3, ("cheap", "premium")),
    ]
    assert made.nodes[1].model == "openai/gpt-5-nano"


def test_plan_is_a_chain_and_swarm_a_graph_whose_merge_needs_every_node():
    chain = make("plan")
    assert shape(chain) == [
        ("step-1", "task", 0, ()),
        ("step-2", "task", 1, ("step-1",)),
        ("step-3", "task", 2, ("step-2",)),
        ("merged", "merge", 3, ("step-1", "step-2", "step-3")),
    ]
    graph = make("swarm", task="- test it\n- build one half\n- build the other half")
    assert shape(graph) == [
        ("swarm-2", "task", 0, ()),
        ("swarm-3", "task", 0, ()),
        ("swarm-1", "task", 1, ("swarm-2", "swarm-3")),
        ("merged", "merge", 2, ("swarm-1", "swarm-2", "swarm-3")),
    ]


@pytest.mark.parametrize("mode", ["plan", "swarm"])
@pytest.mark.parametrize("steps", [None, [], [PlanStep("x", "other text", ("y",), "openai/gpt-5")]])
def test_a_task_that_does_not_fall_apart_is_one_node_and_that_is_said(mode, steps):
    made = make(mode, task="one thing", steps=steps)
    assert shape(made) == [("single", "task", 0, ())]
    assert made.nodes[0].task == "one thing"
    assert "cannot be split" in made.notes[0]


@pytest.mark.parametrize("bad", ["", "engine:claude", "agent:x", "nonsense", "acme/forbidden"])
def test_a_model_that_is_none_or_forbidden_is_replaced_and_that_is_said(bad):
    made = make("single", steps=[PlanStep("single", "t", model=bad)], settings=RunSettings(deny=("acme/*",)))
    assert made.nodes[0].model in TABLE.models
    assert made.nodes[0].model in made.notes[0]
    assert made.source == "smart-spawn-api"


def test_peers_of_a_collective_that_are_missing_are_filled_up_with_other_models():
    steps = [
        PlanStep("collective-1", "t", model="anthropic/claude-sonnet-4.5"),
        PlanStep("collective-2", "t", model="a/no"),
    ]
    made = make("collective", steps=steps, settings=RunSettings(deny=("a/*",)))
    models = [one.model for one in made.nodes[:3]]
    assert models[0] == "anthropic/claude-sonnet-4.5"
    assert len(set(models)) == 3
    assert len(made.notes) >= 2


@pytest.mark.parametrize(
    ("asked", "settings", "code"),
    [
        ({"merge": {"model": "acme/x"}}, {"deny": ("acme/*",)}, "model_not_allowed"),
        ({"merge": {"model": "engine:claude"}}, {}, "bad_argument"),
        ({}, {"evaluator": "acme/x", "allow": ("openai/*",)}, "model_not_allowed"),
        ({}, {"allow": ("acme/*",)}, "model_not_allowed"),
    ],
)
def test_a_model_asked_for_by_name_is_not_replaced_and_none_at_all_is_an_error(asked, settings, code):
    with pytest.raises(BadRequest) as error:
        make("cascade", settings=RunSettings(**settings), **asked)
    assert error.value.code == code


def test_the_merge_model_is_the_one_asked_for_else_the_best_else_the_first_workers():
    assert make("plan", merge={"model": "openrouter/x-ai/grok-4"}).nodes[-1].model == "x-ai/grok-4"
    steps = [PlanStep("a", "t", model="a/one"), PlanStep("b", "t", model="b/two")]
    assert make("swarm", steps=steps).nodes[-1].model == "a/one"
    assert make("swarm", steps=[*steps, PlanStep("c", "t", model="x-ai/grok-4")]).nodes[-1].model == "x-ai/grok-4"


def test_engines_and_agents_answer_in_turn_and_the_last_one_merges():
    made = make("collective", engines=("claude", "codex"))
    assert [one.model for one in made.nodes] == ["engine:claude", "engine:codex", "engine:claude", "engine:codex"]
    cascade = make("cascade", agents=("a", "b", "c"), settings=RunSettings(evaluator="x/y", allow=("none/*",)))
    assert [(one.id, one.model) for one in cascade.nodes] == [
        ("cheap", "agent:a"),
        ("premium", "agent:c"),
        ("merged", "agent:c"),
    ]
    assert make("plan", engines=("claude", "codex"), merge={"model": "claude"}).nodes[-1].model == "engine:claude"
    other = make("plan", engines=("claude",), merge={"model": "openai/gpt-5"})
    assert other.nodes[-1].model == "engine:claude"
    assert "openai/gpt-5" in other.notes[-1]


def test_every_answer_and_the_merge_have_the_role_but_not_the_evaluator():
    made = make("cascade", settings=RunSettings(evaluator="x/y"), role_body="be kind")
    assert [one.system for one in made.nodes] == ["be kind", "", "be kind", "be kind"]


@given(
    st.lists(st.text(max_size=80) | st.sampled_from(["merged", "Plan", "a", "A", "../x", "..", "a-2"]), max_size=30)
)
def test_ids_are_safe_as_file_names_and_each_is_there_once(ids):
    names = run_plan.sanitised(ids)
    assert len({name.lower() for name in names} | {"merged", "plan"}) == len(ids) + 2
    for name in names:
        assert SAFE.fullmatch(name)
        assert ".." not in name


def test_a_good_id_stays_as_it_is():
    assert run_plan.sanitised(["swarm-1", "a.b_c", "../../etc/passwd", "merged", "A", "a"]) == (
        "swarm-1", "a.b_c", "etc-passwd", "merged-2", "A", "a-2",
    )  # fmt: skip


def test_needs_that_are_no_node_or_the_node_itself_are_dropped_and_that_is_said():
    made = run_plan.runnable_plan([node("a", "a", "ghost"), node("b", "a", "a")], "local")
    assert shape(made) == [("a", "task", 0, ()), ("b", "task", 1, ("a",))]
    assert ["itself" in made.notes[0], "ghost" in made.notes[1]] == [True, True]


def test_the_second_of_two_equal_ids_is_renamed_and_merged_all_the_same_and_that_is_said():
    made = run_plan.runnable_plan(
        [node("a"), node("a"), node("b", "a"), node("merged", "a", "b", kind="merge")], "local"
    )
    assert shape(made) == [
        ("a", "task", 0, ()),
        ("a-2", "task", 0, ()),
        ("b", "task", 1, ("a",)),
        ("merged", "merge", 2, ("a", "a-2", "b")),
    ]
    assert "a-2" in made.notes[0]


def test_a_circle_becomes_a_chain_in_the_given_order_and_that_is_said():
    made = run_plan.runnable_plan(
        [node("a", "c"), node("b"), node("c", "a"), node("merged", "a", "b", "c", kind="merge")], "local"
    )
    assert shape(made) == [
        ("a", "task", 0, ()),
        ("b", "task", 1, ("a",)),
        ("c", "task", 2, ("b",)),
        ("merged", "merge", 3, ("a", "b", "c")),
    ]
    assert "form a cycle" in made.notes[0]


def test_a_node_stands_behind_those_it_needs_on_the_longest_way():
    made = run_plan.runnable_plan([node("d", "a", "c"), node("c", "b"), node("b", "a"), node("a")], "local")
    assert [(one.id, one.wave) for one in made.nodes] == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]


def test_what_a_plan_has_no_room_for_stands_in_its_last_step():
    steps = [PlanStep(f"s{at}", f"do {at}", (f"s{at + 300}",) if at < 9 else ()) for at in range(310)]
    made = make("swarm", steps=steps)
    assert len(made.nodes) == run_plan.MAX_NODES
    joined = next(one for one in made.nodes if one.id == "s298")
    assert joined.task.split() == " ".join(f"do {at}" for at in range(298, 310)).split()
    assert [one.needs for one in made.nodes if one.id in {"s0", "s8"}] == [("s298",), ("s298",)]
    assert "310 steps" in made.notes[0]


def test_the_notes_are_few_and_short():
    made = run_plan.runnable_plan([node("a", *(f"{at}{'x' * 999}" for at in range(99)))], "local", ["y" * 999])
    assert len(made.notes) == run_plan.MAX_NOTES
    assert max(len(one) for one in made.notes) <= 300
    assert made.notes[-1] == "and 81 more"
