"""Reads what a server reports of the cost of a call: the ``usage`` of its answer or its error. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_UP, Context, Decimal, InvalidOperation
from typing import Any

from orchestrator.spawn.run_data import Fault

SANE_USD = 10_000
LEAST_USD = Decimal("1e-30")
WIDE = Context(prec=50)
SANE_TOKENS = 10**12


def charged(fault: Fault, usage: object) -> Fault:
    """The fault with what its server reported: a provider may charge for a call that it fails."""
    if not isinstance(usage, Mapping):
        return fault
    prompt, completion = tokens_of(usage)
    return replace(fault, cost=cost_of(usage), prompt_tokens=prompt, completion_tokens=completion)


def cost_of(usage: Mapping[str, Any]) -> Decimal | None:
    """``usage.cost`` in dollars, held high to 30 places, where it can be one: finite, not negative, below 10,000."""
    amount = usage.get("cost")
    if isinstance(amount, bool) or not isinstance(amount, int | float | Decimal | str):
        return None
    try:
        cost = Decimal(str(amount))
    except (InvalidOperation, ValueError):
        return None
    if not cost.is_finite() or not 0 <= cost < SANE_USD:
        return None
    # Written out, a number like 1e-999999999 would fill the memory.
    return WIDE.normalize(cost.quantize(LEAST_USD, ROUND_UP, WIDE))


def tokens_of(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The tokens of prompt and answer; None for a number that cannot be one."""

    def count(name: str) -> int | None:
        number = usage.get(name)
        return number if type(number) is int and 0 <= number < SANE_TOKENS else None

    return count("prompt_tokens"), count("completion_tokens")
