"""Runs on servers that are not OpenRouter: what they list, what is called, what is reserved, what is said of it."""

import pytest

from tests.fakes.model_lists import ANSWERING, LISTS
from tests.unit.spawn.test_runs import model_env, play

MODELS = "/v1/models"
SWARM = "1. Say yes\n2. Say no"


def answered(tmp_path, fake, *, task="Say it.", mode="single", env=None, **asked):
    """The result of one run, and its status."""

    async def one(desk):
        run_id = await desk.create(task, mode, **asked)
        return await desk.result(run_id), await desk.status(run_id)

    return play(tmp_path, one, **model_env(fake, **(env or {})))


def serve(fake, kind):
    fake.rule(path=MODELS, list=kind)
    fake.only = {ANSWERING[kind]} if kind in ANSWERING else {"llama3.2:3b", "phi4:14b"}


@pytest.mark.parametrize("mode", ["single", "collective", "cascade", "swarm", "debate"])
@pytest.mark.parametrize("kind", ANSWERING)
def test_the_only_model_of_a_server_answers_whatever_is_unknown_of_it(tmp_path, fake, kind, mode):
    serve(fake, kind)
    result, status = answered(tmp_path, fake, task=SWARM, mode=mode)
    assert result["status"] == "completed", result
    assert {call.model for call in fake.calls()} == {ANSWERING[kind]}
    (note,) = [note for note in result["notes"] if ANSWERING[kind] in note]
    assert "20 and 100 dollars" in note
    assert result["notes"] == status["notes"]


def test_what_is_reserved_for_a_model_without_a_price_is_by_the_conservative_table(tmp_path, fake):
    serve(fake, "ollama")
    fake.rule(hold="gate", per="all")

    async def held(desk):
        run_id = await desk.create()
        while not (found := await desk.status(run_id, 5))["cost"]["reserved_usd"]:
            pass
        fake.release("gate")
        await desk.result(run_id)
        return found["cost"]

    cost = play(tmp_path, held, **model_env(fake))
    assert cost["usd"] == 0
    assert 0.4 < cost["reserved_usd"] < 0.5  # 4096 tokens at 100 dollars per million, and the prompt


@pytest.mark.parametrize(
    ("kind", "says"),
    [("llama.cpp", "reads only 8192"), ("vllm", "reads only 16384"), ("ollama", "how much it reads is not known")],
)
def test_a_note_says_how_much_the_only_model_reads(tmp_path, fake, kind, says):
    serve(fake, kind)
    result, _ = answered(tmp_path, fake)
    assert any(says in note and "MAX_PROMPT_CHARS" in note for note in result["notes"])


def test_between_two_models_nothing_decides_and_the_failure_says_what_is_missing_and_what_changes_it(tmp_path, fake):
    serve(fake, "two")
    result, _ = answered(tmp_path, fake)
    assert result["status"] == "failed"
    assert fake.calls() == []
    for words in (
        "2 models of the server", "2 have no price", "1 has no context length", "1 has a context under 32000 tokens",
        "MODEL_ALLOWLIST", "--models",
    ):  # fmt: skip
        assert words in result["failure"]


@pytest.mark.parametrize(
    ("env", "asked"),
    [
        ({"MODEL_ALLOWLIST": "phi4:14b"}, {}),
        ({"MODEL_ALLOWLIST": "phi*"}, {}),
        ({"MODEL_DENYLIST": "llama3.2:3b"}, {}),
        ({"MODEL_DENYLIST": "llama3.2"}, {}),
        ({}, {"models": ("phi4:14b",)}),
    ],
)
def test_the_model_that_is_configured_or_named_or_left_answers(tmp_path, fake, env, asked):
    serve(fake, "two")
    result, _ = answered(tmp_path, fake, env=env, **asked)
    assert result["status"] == "completed"
    assert {call.model for call in fake.calls()} == {"phi4:14b"}
    assert any("phi4:14b: its price is not known" in note for note in result["notes"])


def test_forbidden_models_are_counted_in_the_failure(tmp_path, fake):
    serve(fake, "two")
    result, _ = answered(tmp_path, fake, env={"MODEL_DENYLIST": "*"})
    assert "2 are forbidden by MODEL_ALLOWLIST or MODEL_DENYLIST" in result["failure"]


@pytest.mark.parametrize("rule", [{"status": 404}, {"list": "empty"}, {"list": "null"}, {"nonsense": "html"}])
def test_without_a_list_the_configured_model_answers(tmp_path, fake, rule):
    fake.rule(path=MODELS, **rule)
    fake.only = {"local"}
    result, _ = answered(tmp_path, fake, env={"MODEL_ALLOWLIST": "local"})
    assert result["status"] == "completed"
    assert [call.model for call in fake.calls()] == ["local"]


@pytest.mark.parametrize("rule", [{"status": 404}, {"list": "empty"}])
def test_without_a_list_and_a_name_the_note_and_the_failure_say_how_to_name_one(tmp_path, fake, rule):
    fake.rule(path=MODELS, **rule)
    fake.only = {"local"}
    result, _ = answered(tmp_path, fake)
    assert result["status"] == "failed"
    assert "MODEL_ALLOWLIST" in result["failure"]
    assert any("shipped table" in note for note in result["notes"])


def test_a_server_that_lists_its_models_for_a_key_only_is_given_it_and_no_other_is(tmp_path, fake):
    serve(fake, "ollama")
    fake.private = True
    assert answered(tmp_path, fake)[0]["status"] == "completed"
    assert [bool(call.key) for call in fake.calls(MODELS)] == [False, True]


def test_models_of_the_call_take_turns_and_a_cascade_asks_the_first_first(tmp_path, fake):
    serve(fake, "two")
    fake.rule(model="llama3.2:3b", answer="I cannot help with that.")
    both = ("llama3.2:3b", "phi4:14b")
    result, status = answered(tmp_path, fake, mode="cascade", models=both)
    assert result["status"] == "completed"
    models = {node["node_id"]: node["model"] for node in status["nodes"]}
    assert (models["cheap"], models["premium"], models["merged"]) == (*both, both[1])
    _, status = answered(tmp_path, fake, mode="collective", models=both, count=2)
    assert [node["model"] for node in status["nodes"]][:2] == list(both)


def test_a_model_that_a_planner_names_and_the_server_does_not_have_is_replaced(tmp_path, fake):
    serve(fake, "ollama")
    result, status = answered(tmp_path, fake, env={"SMART_SPAWN_API_URL": fake.planner_url})
    assert result["status"] == "completed"
    assert status["planner"] == "smart-spawn-api"
    assert any("is not a model of the server" in note for note in result["notes"])


def test_every_list_of_a_server_is_tested():
    assert LISTS.keys() - ANSWERING.keys() == {"two", "empty", "null"}
