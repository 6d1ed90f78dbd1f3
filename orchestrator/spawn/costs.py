"""The cost of model calls: reserved, final and summed. Pure; dollars are Decimal, never float (C35, C40)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from orchestrator.spawn.run_data import AttemptRow, CostSource, Fault, Price, Reply

ZERO = Decimal(0)


def reserve(prompt_bytes: int, max_tokens: int, price: Price) -> Decimal:
    """The most an attempt can cost: a token has at least one byte, and an answer at most ``max_tokens``."""
    return prompt_bytes * price.prompt + max_tokens * price.completion + price.request


def final_cost(result: Reply | Fault, price: Price | None, reserved: Decimal) -> tuple[Decimal | None, CostSource]:
    """The cost of an ended attempt, and its source.

    The answer's own ``usage.cost`` first, also of a failed one; then its tokens at ``price`` (``prices`` or
    ``table``). A fault that was never worked on costs 0, source ``none``; any other unknown end costs
    all of ``reserved``.
    ``price`` None: its caller has no price (squad, team), and the cost is None.
    """
    if price is None:
        return None, "none"
    if result.cost is not None:
        return result.cost, "usage"
    if isinstance(result, Fault) and not result.reached:
        return ZERO, "none"
    if result.prompt_tokens is not None and result.completion_tokens is not None:
        used = result.prompt_tokens * price.prompt + result.completion_tokens * price.completion
        return used + price.request, price.source
    return reserved, "reserved"


def spent(attempts: Iterable[AttemptRow]) -> Decimal:
    """Dollars that count against MAX_USD_PER_RUN: known costs, and reservations where the cost is not known yet."""
    return sum((attempt.spent for attempt in attempts), ZERO)


def reported(attempts: Iterable[AttemptRow]) -> Decimal:
    """Dollars that providers reported, as a cost or as tokens."""
    return sum((attempt.reported for attempt in attempts), ZERO)


def maybe_charged(attempts: Iterable[AttemptRow]) -> Decimal:
    """Reservations of ended attempts whose cost nobody reported: at most so much may have been charged besides."""
    return sum((attempt.maybe_charged for attempt in attempts), ZERO)


def shown(usd: Decimal) -> float:
    """Dollars as JSON shows them: a number of eight decimals. For display only, never summed."""
    return round(float(usd), 8)
