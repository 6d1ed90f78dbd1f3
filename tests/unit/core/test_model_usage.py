"""Sums of model requests and their cost."""

import pytest

from orchestrator.core.model_usage import MODELS, NO_MODEL, OTHER_MODELS, ModelRequest, UsageSums, usage_total

PRICES = {
    "opus": {"input": 10.0, "cached": 1.0, "cache_write": 20.0, "output": 100.0},
    "o": {"input": 1.0, "output": 2.0},
}


def sums(*requests):
    total = UsageSums()
    for request in requests:
        total.add(request)
    return total


def test_nothing_used_costs_nothing():
    assert UsageSums().view({}) == {
        "input": 0, "cached": 0, "output": 0, "requests": 0, "cost_usd": 0.0, "models": [], "unknown": "",
    }  # fmt: skip


def test_what_is_written_to_a_cache_is_input_and_what_is_read_from_it_is_not():
    view = sums(ModelRequest("r", "m", 1, 10, 100, 1000)).view({})
    assert (view["input"], view["cached"], view["output"], view["requests"]) == (101, 10, 1000, 1)


def test_a_cost_is_what_the_cli_reports_whatever_the_price():
    view = sums(ModelRequest("r", "opus-5", 1_000_000, cost=0.25)).view(PRICES)
    assert (view["cost_usd"], view["unknown"]) == (0.25, "")


def test_a_cost_is_tokens_times_price_by_the_longest_name_that_the_model_begins_with():
    million = 1_000_000
    assert sums(ModelRequest("r", "opus-5", million, million, million, million)).view(PRICES)["cost_usd"] == 131.0
    two = sums(ModelRequest("r", "opus-5", cached=million), ModelRequest("s", "opus-5", cached=million // 2))
    assert (two.view(PRICES)["cached"], two.view(PRICES)["cost_usd"]) == (1_500_000, 1.5)
    # A cache without a price of its own has that of input.
    assert sums(ModelRequest("r", "o3", million, million, million, million)).view(PRICES)["cost_usd"] == 5.0


@pytest.mark.parametrize(
    "prices", [{}, {"z": {"input": 1.0, "output": 1.0}}, {"m": {"input": 1.0}}, {"": PRICES["o"]}]
)
def test_a_request_without_a_price_makes_the_whole_cost_unknown_and_that_is_said(prices):
    total = sums(ModelRequest("r", "m", 1), ModelRequest("s", "paid", 1, cost=2.0))
    view = total.view(prices)
    assert view["cost_usd"] is None and "m" in view["unknown"] and "paid" not in view["unknown"]
    assert total.known_cost(prices) == 2.0


def test_one_model_may_have_requests_with_and_without_a_reported_cost():
    total = sums(ModelRequest("r", "opus", output=1_000_000), ModelRequest("s", "opus", output=1, cost=1.0))
    assert total.view(PRICES)["cost_usd"] == 101.0
    assert total.view({})["cost_usd"] is None


def test_a_request_is_counted_in_place_of_what_was_counted_of_it():
    first, last = ModelRequest("r", "m", 1, 1, 1, 1), ModelRequest("r", "n", 5, 6, 7, 8, 0.5)
    total = sums(first)
    total.add(last, instead_of=first)
    assert total == sums(last) or total.view({}) == sums(last).view({})
    assert total.view({})["models"] == ["n"]


def test_more_models_than_any_agent_uses_are_counted_together():
    total = sums(*(ModelRequest(f"r{number}", f"m{number:03}", 1) for number in range(MODELS + 50)))
    view = total.view({})
    assert len(view["models"]) == MODELS + 1 and OTHER_MODELS in view["models"]
    assert view["requests"] == MODELS + 50
    for number in range(MODELS + 50):
        total.add(ModelRequest(f"r{number}", "same", 2), instead_of=ModelRequest(f"r{number}", f"m{number:03}", 1))
    assert total.view({})["input"] == 2 * (MODELS + 50)


def test_the_total_says_of_how_many_agents_the_cost_is_not_known():
    paid, unpriced = sums(ModelRequest("r", "m", 3, cost=1.5)).view({}), sums(ModelRequest("s", "m", 4)).view({})
    silent, shell = UsageSums().view({}, "no figures"), UsageSums().view({}, NO_MODEL)
    total = usage_total([paid, unpriced, silent, shell, None])
    assert total == {"input": 7, "cached": 0, "output": 0, "requests": 2, "cost_usd": 1.5, "cost_unknown": 2}
    assert usage_total([unpriced])["cost_usd"] is None
    assert usage_total([shell, None]) == {**usage_total([]), "cost_usd": None, "cost_unknown": 0}
