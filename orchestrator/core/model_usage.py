"""Tokens and cost of model requests: one request, the sums over many, and their cost at list prices. Pure.

Every CLI counts in its own way; here ``input`` has no tokens that came from or went into the provider's cache, and
``output`` has those of reasoning. A cost is always an estimate: it is what the CLI reports, or tokens times price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MODELS = 20
OTHER_MODELS = "other models"
"""The name under which the requests of all models after the first `MODELS` are counted."""
NO_MODEL = "this engine uses no model"
"""What is unknown of the usage of an agent that asks no model."""
TOKENS_MAX = 10**12
"""No request has more tokens: a larger number is not counted."""

Prices = Mapping[str, Mapping[str, float]]
"""Model name or its beginning -> USD per million tokens of ``input``, ``cached``, ``cache_write``, ``output``."""


class ModelRequest(NamedTuple):
    """One request to a model, as its CLI has recorded it.

    ``cost`` is in USD; None if the CLI reports none. ``at``: when (RFC 3339), if the CLI says so.
    """

    request_id: str
    model: str
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float | None = None
    at: str = ""

    @property
    def figures(self) -> tuple[int, int, int, int, float | None]:
        """What is counted of it."""
        return self.input, self.cached, self.cache_write, self.output, self.cost


@dataclass
class _Sum:
    """The requests of one model, of which all have a cost reported by the CLI, or none."""

    requests: int = 0
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float = 0.0

    def add(self, request: ModelRequest, times: int = 1) -> None:
        self.requests += times
        self.input += times * request.input
        self.cached += times * request.cached
        self.cache_write += times * request.cache_write
        self.output += times * request.output
        self.cost += times * (request.cost or 0.0)


@dataclass
class UsageSums:
    """Sums over requests, by model; their size does not grow with the number of requests."""

    _sums: dict[tuple[str, bool], _Sum] = field(default_factory=dict)

    def add(self, request: ModelRequest, *, instead_of: ModelRequest | None = None) -> None:
        """Count a request; ``instead_of`` is what was counted of it before."""
        if instead_of is not None:
            self._of(instead_of).add(instead_of, -1)
        self._of(request).add(request)

    def _of(self, request: ModelRequest) -> _Sum:
        key = request.model, request.cost is not None
        if key not in self._sums and len({model for model, _ in self._sums} - {request.model}) >= MODELS:
            key = OTHER_MODELS, key[1]
        return self._sums.setdefault(key, _Sum())

    def view(self, prices: Prices, missing: str = "") -> dict[str, Any]:
        """``{input, cached, output, requests, cost_usd, models, unknown}``; tokens written to a cache are input.

        ``cost_usd`` is None if the cost of a request is not known; ``unknown`` says why. ``missing`` is why requests
        are missing in the sums.
        """
        sums = self._counted()
        unpriced = sorted({model for (model, _), cost in self._costs(prices).items() if cost is None})
        unknown = missing or (f"no price is known of {', '.join(unpriced)}" if unpriced else "")
        return {
            "input": sum(total.input + total.cache_write for total in sums.values()),
            "cached": sum(total.cached for total in sums.values()),
            "output": sum(total.output for total in sums.values()),
            "requests": sum(total.requests for total in sums.values()),
            "cost_usd": None if unknown else round(self.known_cost(prices), 6),
            "models": sorted({model for model, _ in sums}),
            "unknown": unknown,
        }

    def known_cost(self, prices: Prices) -> float:
        """The cost of those requests whose cost is known, in USD."""
        return sum(cost for cost in self._costs(prices).values() if cost is not None)

    def _costs(self, prices: Prices) -> dict[tuple[str, bool], float | None]:
        return {
            (model, has_cost): total.cost if has_cost else _at_price(total, _price_of(model, prices))
            for (model, has_cost), total in self._counted().items()
        }

    def _counted(self) -> dict[tuple[str, bool], _Sum]:
        return {key: total for key, total in self._sums.items() if total.requests}


def usage_total(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The sum of what agents used: ``{input, cached, output, requests, cost_usd, cost_unknown}``.

    ``cost_usd`` is None if no agent's cost is known; ``cost_unknown`` counts the agents of which it is not known,
    without those that use no model.
    """
    known = [usage for usage in usages if usage is not None and usage["unknown"] != NO_MODEL]
    costs = [usage["cost_usd"] for usage in known if usage["cost_usd"] is not None]
    counted = {name: sum(usage[name] for usage in known) for name in ("input", "cached", "output", "requests")}
    cost = round(sum(costs), 6) if costs else None
    return {**counted, "cost_usd": cost, "cost_unknown": len(known) - len(costs)}


def _price_of(model: str, prices: Prices) -> Mapping[str, float] | None:
    """The price of the longest name that the model's name begins with."""
    named = [name for name in prices if name and model.startswith(name)]
    return prices[max(named, key=len)] if named else None


def _at_price(total: _Sum, price: Mapping[str, float] | None) -> float | None:
    """Tokens times price; a cache has the price of input unless it has its own. None if a needed price is missing."""
    if price is None or not {"input", "output"} <= price.keys():
        return None
    cost = total.input * price["input"] + total.output * price["output"]
    cost += total.cached * price.get("cached", price["input"])
    cost += total.cache_write * price.get("cache_write", price["input"])
    return cost / 1e6
