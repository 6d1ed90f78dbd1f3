"""What attempts are reserved at, what they come to, and the sums."""

from dataclasses import replace
from decimal import Decimal

import pytest

from orchestrator.spawn import costs
from orchestrator.spawn.run_data import AttemptRow, Fault, Price, Reply

PRICE = Price(Decimal("0.000001"), Decimal("0.00001"), Decimal("0.005"), "prices")
TABLE = Price(Decimal(1), Decimal(1))
HELD = Decimal("0.5")


def row(node="a", cost=None, source="reserved", model="m", tokens=(1, 2), reserved="0.5"):
    return AttemptRow(node, 1, "t", "done", Decimal(reserved), cost, source, *tokens, model)


def test_a_reservation_is_every_byte_of_the_prompt_the_longest_answer_and_the_request():
    assert costs.reserve(1000, 100, PRICE) == Decimal("0.007")
    assert costs.reserve(0, 0, TABLE) == 0


@pytest.mark.parametrize(
    ("result", "price", "known"),
    [
        (Reply("x", cost=Decimal("0.1"), prompt_tokens=1, completion_tokens=1), PRICE, ("0.1", "usage")),
        (Reply("x", cost=Decimal(0), prompt_tokens=1, completion_tokens=1), PRICE, ("0", "usage")),
        (Reply("x", prompt_tokens=100, completion_tokens=10), PRICE, ("0.0052", "prices")),
        (Reply("x", prompt_tokens=2, completion_tokens=3), TABLE, ("5", "table")),
        (Reply("x", prompt_tokens=2), PRICE, ("0.5", "reserved")),
        (Reply("x"), PRICE, ("0.5", "reserved")),
        (Fault("empty", "", True, cost=Decimal("0.2")), PRICE, ("0.2", "usage")),
        (Fault("502", "", True, prompt_tokens=2, completion_tokens=3), TABLE, ("5", "table")),
        (Fault("timeout", "", True), PRICE, ("0.5", "reserved")),
        (Fault("429", "", True, reached=False), PRICE, ("0", "none")),
        (Fault("429", "", True, reached=False, cost=Decimal("0.1")), PRICE, ("0.1", "usage")),
    ],
)
def test_the_answers_own_cost_counts_first_its_tokens_second_and_what_is_unknown_as_the_whole_reservation(
    result, price, known
):
    cost, source = costs.final_cost(result, price, HELD)
    assert (cost, source) == (Decimal(known[0]), known[1])


def test_a_caller_without_a_price_costs_nothing_that_is_known():
    assert costs.final_cost(Reply("x", cost=Decimal(1)), None, Decimal(0)) == (None, "none")
    assert costs.final_cost(Fault("engine", "", False), None, Decimal(0)) == (None, "none")


def test_what_is_spent_counts_the_reservations_of_attempts_nobody_knows_the_end_of():
    rows = [row(), row(cost=Decimal("0.1"), source="usage"), row(source="none"), row(cost=Decimal(0), source="none")]
    assert costs.spent(rows) == Decimal("0.6")
    assert costs.spent([]) == Decimal(0)


def test_what_nobody_reported_is_apart_from_what_was_reported_and_running_attempts_are_neither():
    rows = [
        row(cost=Decimal("0.1"), source="usage"),
        row(cost=Decimal("0.5")),  # it ended, and its reservation was written as its cost
        row(),  # its daemon died: no cost was written
        replace(row(), state="running"),
        row(source="none"),
    ]
    assert (costs.reported(rows), costs.maybe_charged(rows)) == (Decimal("0.1"), Decimal("1.0"))
    assert costs.spent(rows) == Decimal("1.6"), "all of it counts against the budget"


@pytest.mark.parametrize(("usd", "number"), [("0.123456789", 0.12345679), ("5", 5.0), ("0.1", 0.1), ("0", 0.0)])
def test_dollars_are_shown_with_eight_decimals(usd, number):
    assert costs.shown(Decimal(usd)) == number
