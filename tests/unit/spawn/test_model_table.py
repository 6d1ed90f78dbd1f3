"""The models: what they cost, and which one is picked."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import model_table
from orchestrator.spawn.model_table import MILLION, TIERS, UNKNOWN, ModelFilter
from orchestrator.spawn.run_data import Price

ALL = ModelFilter()
SHIPPED = model_table.shipped()


def listed(name, prompt="0.000001", completion="0.000002", **more):
    return {"id": name, "context_length": 100_000, "pricing": {"prompt": prompt, "completion": completion}, **more}


def refreshed(*rows):
    return SHIPPED.refreshed({"data": list(rows)})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("openrouter/openai/gpt-4o", "openai/gpt-4o"),
        (" openai/gpt-4o ", "openai/gpt-4o"),
        ("openrouter/auto", "openrouter/auto"),
        ("openrouter/free", "openrouter/free"),
        ("openrouter/openrouter/auto", "openrouter/auto"),
        ("openai/gpt-4o:free", "openai/gpt-4o:free"),
        ("local", "local"),
    ],
)
def test_an_id_is_the_one_the_server_knows(given, wanted):
    assert model_table.normalised(given) == wanted


@pytest.mark.parametrize(
    "name",
    ["engine:claude", "agent:a/b", "", "../../x", "a/..", "http://a/x", "a/b c", "a\tb", "\u00e4", "a/" + "b" * 200],
)
def test_what_cannot_be_a_models_id_is_none(name):
    assert not model_table.is_model(name)
    assert name not in refreshed(listed("a/b"), listed(name)).models


@pytest.mark.parametrize(
    "name", ["gpt-4o", "llama3.2:3b", "/models/a.gguf", "C:\\models\\a.gguf", "~anthropic/x", "a/b@c"]
)
def test_the_ids_of_other_servers_are_models_too(name):
    assert model_table.is_model(name)
    assert name in refreshed(listed(name)).models


@pytest.mark.parametrize(
    ("allow", "deny", "name", "may"),
    [
        ((), (), "openai/gpt-4o", True),
        (("openai/*",), (), "openrouter/openai/gpt-4o", True),
        (("openrouter/openai/*",), (), "openai/gpt-4o", True),
        (("openai/*",), (), "x-ai/grok-4", False),
        (("openai/*",), ("*mini",), "openai/gpt-4o-mini", False),
        ((), ("openai/gpt-4o",), "openai/gpt-4o:nitro", False),
        (("openai/gpt-4o",), (), "openai/gpt-4o:online", False),
        (("OpenAI/*",), (), "openai/gpt-4o", False),
    ],
)
def test_deny_wins_over_allow_and_an_empty_allow_allows_all(allow, deny, name, may):
    assert (name in ModelFilter(allow, deny)) is may


def test_what_nobody_knows_the_price_of_is_dearer_than_all_that_is_shipped():
    assert SHIPPED.price("acme/unheard-of") == UNKNOWN
    for model in SHIPPED.models.values():
        assert (UNKNOWN.prompt, UNKNOWN.completion) > (model.price.prompt, model.price.completion)
        assert UNKNOWN.completion > model.price.completion


def test_a_free_model_costs_nothing_and_says_who_said_so():
    assert SHIPPED.price("acme/thing:free") == Price(Decimal(0), Decimal(0), source="table")
    prices = refreshed(listed("acme/thing:free", "0", "0"))
    assert prices.price("openrouter/acme/thing:free") == Price(Decimal(0), Decimal(0), source="prices")


def test_the_servers_own_prices_replace_the_shipped_ones_and_keep_what_else_is_known():
    new = refreshed(listed("openai/gpt-4o", "0.0000025", "0.00001"))
    assert new.price("openai/gpt-4o") == Price(Decimal("0.0000025"), Decimal("0.00001"), Decimal(0), "prices")
    was, now = SHIPPED.models["openai/gpt-4o"], new.models["openai/gpt-4o"]
    assert (now.score, now.categories, now.context) == (was.score, was.categories, 100_000)
    assert new.price("x-ai/grok-4") == SHIPPED.price("x-ai/grok-4")
    assert list(new.models) == ["openai/gpt-4o"], "what the server does not have is not picked"


@pytest.mark.parametrize("bad", ["-1", "", "free", None, True, "NaN", "Infinity", "1e99", [], {}, "9" * 99, 10**30])
def test_a_price_that_is_none_is_taken_to_be_high(bad):
    new = refreshed(listed("acme/thing", bad), listed("openai/gpt-4o", "0.1", bad))
    assert new.price("acme/thing") == Price(UNKNOWN.prompt, Decimal("0.000002"))
    assert new.price("openai/gpt-4o").completion == SHIPPED.price("openai/gpt-4o").completion
    assert new.pick("general", "any", ALL).model == "openai/gpt-4o", "never one without a price"


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": []}, {"data": [None, 3, {}, {"id": 4}]}, [], None])
def test_a_list_without_models_changes_nothing(body):
    assert SHIPPED.refreshed(body) is SHIPPED


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["a/b", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["data", "id", "pricing", "prompt", "completion", "request", "architecture",
                             "context_length", "output_modalities"]), inner, max_size=6)
    ),
    max_leaves=30,
)  # fmt: skip


@given(json, st.lists(json))
def test_no_list_of_models_can_do_harm(pricing, rows):
    new = SHIPPED.refreshed({"data": [*rows, {"id": "a/b", "pricing": pricing, "architecture": pricing}]})
    for model in new.models.values():
        for part in (model.price.prompt, model.price.completion, model.price.request):
            assert isinstance(part, Decimal)
            assert 0 <= part <= 10
    assert new.pick("general", "any", ModelFilter(("a/b",))).model == "a/b"


@pytest.mark.parametrize("budget", list(TIERS))
@pytest.mark.parametrize(
    "category", ["coding", "reasoning", "creative", "research", "general", "fast-cheap", "vision"]
)
def test_what_is_picked_lies_in_the_tier_and_has_the_category(category, budget):
    pick = SHIPPED.pick(category, budget, ALL)
    low, high = TIERS[budget]
    model = SHIPPED.models[pick.model]
    assert low <= model.price.prompt * MILLION <= high
    assert model.categories & {category, "general"}
    assert pick.note == ""


def test_an_empty_tier_gives_way_to_the_nearest_and_says_so():
    pick = SHIPPED.pick("coding", "low", ModelFilter(("anthropic/*",)))
    assert pick.model == "anthropic/claude-sonnet-4.5"
    assert "low" in pick.note
    assert "medium" in pick.note


def test_several_are_of_different_providers_as_long_as_there_are_any():
    picks = SHIPPED.recommend("coding", "medium", 5, ALL)
    assert len({pick.model.partition("/")[0] for pick in picks}) == 5
    few = SHIPPED.recommend("coding", "medium", 5, ModelFilter(("openai/*", "x-ai/*")))
    assert len({pick.model for pick in few}) == 5
    assert [pick.model.partition("/")[0] for pick in few[:2]] != ["openai", "openai"]


def test_too_few_models_are_asked_more_than_once_and_that_is_said():
    picks = SHIPPED.recommend("coding", "any", 3, ModelFilter(("openai/gpt-5", "x-ai/grok-4")))
    assert [pick.model for pick in picks] == ["openai/gpt-5", "x-ai/grok-4", "openai/gpt-5"]
    assert all("only 2" in pick.note for pick in picks)


def test_an_excluded_model_is_picked_only_where_no_other_is_left():
    best = SHIPPED.pick("coding", "medium", ALL).model
    assert SHIPPED.pick("coding", "medium", ALL, {best}).model != best
    assert SHIPPED.pick("coding", "medium", ModelFilter((best,)), {best}).model == best


def test_a_model_the_table_does_not_know_is_picked_where_the_list_names_it_in_full():
    assert SHIPPED.pick("coding", "low", ModelFilter(("acme/own",))).model == "acme/own"


@pytest.mark.parametrize(
    "allowed", [ModelFilter(("acme/*",)), ModelFilter((), ("*",)), ModelFilter(("acme/own",), ("acme/*",))]
)
def test_no_model_at_all_is_the_callers_fault(allowed):
    with pytest.raises(BadRequest) as error:
        SHIPPED.pick("coding", "low", allowed)
    assert error.value.code == "model_not_allowed"


def test_a_new_model_is_picked_only_if_it_has_a_price_reads_enough_and_writes_text():
    image = listed("a/paints", architecture={"output_modalities": ["image"]})
    sees = listed("a/sees", architecture={"input_modalities": ["text", "image"], "output_modalities": ["text"]})
    short = {**listed("a/short"), "context_length": 4096}
    new = refreshed(image, sees, short, listed("a/dear", "-1"))
    assert {name for name, model in new.models.items() if model.categories} == {"a/sees"}
    assert new.models["a/sees"].categories == {"general", "vision"}
