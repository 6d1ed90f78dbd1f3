"""The table of models: their prices, and the choice of a model for a task. Pure.

The shipped rows are used until a server's own list is read, and for models that it lacks. Their prices are set high,
because money is reserved by them (issue 6). Tiers and categories are the Smart Spawn API's (A4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.spawn.local_planner import Category
from orchestrator.spawn.run_data import Price, RunBudget

MILLION = Decimal(1_000_000)
TIERS: dict[RunBudget, tuple[Decimal, Decimal]] = {
    "low": (Decimal(0), Decimal(1)),
    "medium": (Decimal(0), Decimal(5)),
    "high": (Decimal(2), Decimal(20)),
    "any": (Decimal(0), Decimal("Infinity")),
}
"""Dollars per million prompt tokens, both ends included (A4)."""
_NEAREST: dict[RunBudget, tuple[RunBudget, ...]] = {
    "low": ("medium", "high", "any"),
    "medium": ("high", "any"),
    "high": ("medium", "any"),
    "any": (),
}
MARGIN = Decimal("1.25")
"""A shipped price is the public price times this factor."""
UNKNOWN = Price(Decimal(20) / MILLION, Decimal(100) / MILLION, Decimal("0.01"))
"""The price assumed for a model without a known price: higher than every shipped price."""
_LEAST = Decimal("1e-15")
MIN_ROOM = 32_000
"""Context size in tokens that a model needs to be chosen automatically."""

# id, dollars per million prompt and completion tokens, tokens it reads, how good it is, what it is good at
_ROWS = """
anthropic/claude-opus-4.1        15    75     200000  93  coding reasoning creative research vision general
anthropic/claude-opus-4.5         5    25     200000  97  coding reasoning creative research vision general
anthropic/claude-sonnet-4.5       3    15     200000  95  coding reasoning creative research vision general
anthropic/claude-sonnet-4         3    15     200000  90  coding reasoning creative vision general
anthropic/claude-haiku-4.5        1     5     200000  82  coding fast-cheap vision general
openai/gpt-5                      1.25 10     400000  94  coding reasoning research vision general
openai/gpt-5-mini                 0.25  2     400000  84  coding reasoning fast-cheap vision general
openai/gpt-5-nano                 0.05  0.40  400000  68  fast-cheap general
openai/gpt-4.1                    2     8    1047576  85  coding creative vision general
openai/gpt-4.1-mini               0.40  1.60 1047576  74  coding fast-cheap vision general
openai/gpt-4o                     2.50 10     128000  80  creative vision general
openai/gpt-4o-mini                0.15  0.60  128000  64  fast-cheap vision general
openai/o4-mini                    1.10  4.40  200000  83  coding reasoning vision
google/gemini-2.5-pro             1.25 10    1048576  91  coding reasoning research vision general
google/gemini-2.5-flash           0.30  2.50 1048576  80  research fast-cheap vision general
google/gemini-2.5-flash-lite      0.10  0.40 1048576  70  fast-cheap vision general
deepseek/deepseek-chat-v3.1       0.30  1.20  128000  81  coding reasoning creative general
deepseek/deepseek-r1              0.70  2.50  128000  79  reasoning research
meta-llama/llama-3.3-70b-instruct 0.25  0.75  128000  66  creative fast-cheap general
mistralai/mistral-medium-3.1      0.40  2     128000  75  coding creative vision general
qwen/qwen3-235b-a22b              0.25  1      40960  76  reasoning general
qwen/qwen3-coder                  0.40  1.60  262144  78  coding
x-ai/grok-4                       3    15     256000  89  reasoning research vision general
x-ai/grok-code-fast-1             0.20  1.50  256000  77  coding fast-cheap
moonshotai/kimi-k2                0.60  2.50  128000  78  coding creative general
z-ai/glm-4.6                      0.60  2.20  200000  79  coding reasoning general
"""


_MODEL = re.compile(r"~?[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)+")


def is_model(model_id: str) -> bool:
    """Whether a text can be a model's id: ``provider/name``, never ``engine:…`` or ``agent:…``."""
    return len(model_id) <= 200 and _MODEL.fullmatch(model_id) is not None


def normalised(model_id: str) -> str:
    """The id the server knows: without the ``openrouter/`` some clients write before it (A7).

    ``openrouter/auto`` and its like are real ids and stay.
    """
    name = model_id.strip()
    rest = name.removeprefix("openrouter/")
    return rest if "/" in rest else name


@dataclass(frozen=True)
class ModelFilter:
    """Which models may be called: globs on their ids. Deny wins; an empty ``allow`` allows all (B4.36).

    A denied model is denied with each ``:variant`` too.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __contains__(self, model_id: object) -> bool:
        name = normalised(str(model_id))
        without_variant = name.partition(":")[0]
        denied = [normalised(glob) for glob in self.deny]
        if any(fnmatchcase(name, glob) or fnmatchcase(without_variant, glob) for glob in denied):
            return False
        return not self.allow or any(fnmatchcase(name, normalised(glob)) for glob in self.allow)

    @property
    def named(self) -> tuple[str, ...]:
        """The models that ``allow`` names in full and that may be asked."""
        full = (normalised(glob) for glob in self.allow if not any(mark in glob for mark in "*?["))
        return tuple(name for name in dict.fromkeys(full) if name in self)


@dataclass(frozen=True)
class Model:
    """One model. ``context``: the tokens that it reads; ``score``: its quality, 100 the best, 0 unknown.

    Without categories it is never picked; it is called only if a request names it.
    """

    id: str
    price: Price
    context: int
    categories: frozenset[str]
    score: float

    @property
    def provider(self) -> str:
        return self.id.partition("/")[0]


@dataclass(frozen=True)
class Pick:
    """A model for a piece of work, the reason, and in ``note`` what differs from the request."""

    model: str
    reason: str
    note: str = ""


class ModelTable:
    """The models that can be picked, and the prices of those and others."""

    def __init__(self, models: Iterable[Model], known: Mapping[str, Model] | None = None) -> None:
        self.models = {model.id: model for model in models}
        self._known = known or self.models

    def refreshed(self, body: object) -> ModelTable:
        """The table after ``GET /models`` (A7), whose JSON is ``body``.

        Then what the server does not list is not picked. A price that is missing, ``-1`` or nonsense comes from the
        shipped rows, else it is ``UNKNOWN``. Rows that are no models are passed over; none left: the table stays.
        """
        rows = body.get("data") if isinstance(body, Mapping) else None
        models = [model for row in (rows if isinstance(rows, list) else ()) if (model := self._read(row)) is not None]
        return ModelTable(models, self._known) if models else self

    def price(self, model_id: str) -> Price:
        """What a model costs; its ``source`` says who says so. Not listed: ``:free`` nothing, others UNKNOWN."""
        name = normalised(model_id)
        model = self.models.get(name) or self._known.get(name)
        if model is not None:
            return model.price
        return Price(Decimal(0), Decimal(0)) if name.endswith(":free") else UNKNOWN

    def score(self, model_id: str) -> float:
        """How good a model is, 100 the best, 0 not known."""
        name = normalised(model_id)
        model = self.models.get(name) or self._known.get(name)
        return model.score if model is not None else 0.0

    def pick(
        self, category: Category, budget: RunBudget, allowed: ModelFilter, exclude: Collection[str] = ()
    ) -> Pick:
        """The best model for a piece of work. BadRequest ``model_not_allowed`` if none may be asked.

        ``exclude`` is kept to as long as others are left.
        """
        return self.recommend(category, budget, 1, allowed, exclude)[0]

    def recommend(
        self, category: Category, budget: RunBudget, count: int, allowed: ModelFilter, exclude: Collection[str] = ()
    ) -> list[Pick]:
        """``count`` models, best first, of as many providers as possible; repeated if there are fewer.

        A model must have the category, or ``general``, and be in the budget's tier; if none is, in the nearest tier
        that has one. Errors as ``pick``.
        """
        ranked, tier = self._ranked(category, budget, allowed)
        fresh = [model for model in ranked if model.id not in exclude] or ranked
        if not fresh:
            raise BadRequest("model_not_allowed", f"no model is left for {category} work on a {budget} budget")
        note = "" if tier == budget else f"no model for {category} work on a {budget} budget: taken from {tier}"
        providers: set[str] = set()
        first: list[Model] = []
        second: list[Model] = []
        for model in fresh:
            (second if model.provider in providers else first).append(model)
            providers.add(model.provider)
        chosen = [*first, *second]
        picks = [
            Pick(model.id, f"best of {len(fresh)} for {category} work on a {tier} budget", note)
            for model in (chosen * count)[:count]
        ]
        if len(chosen) < count:
            few = f"only {len(chosen)} models may be asked: some are asked more than once"
            picks = [replace(pick, note=f"{pick.note}; {few}" if pick.note else few) for pick in picks]
        return picks

    def _ranked(self, category: Category, budget: RunBudget, allowed: ModelFilter) -> tuple[list[Model], RunBudget]:
        open_to = [model for model in self.models.values() if model.categories and model.id in allowed]
        suited = [model for model in open_to if model.categories & {category, "general"}] or open_to
        for tier in (budget, *_NEAREST[budget]):
            low, high = TIERS[tier]
            tier_models = [model for model in suited if low <= model.price.prompt * MILLION <= high]
            if tier_models:
                return sorted(tier_models, key=lambda model: self._rank(model, category)), tier
        named = [Model(name, self.price(name), 0, frozenset(), 0.0) for name in allowed.named]
        return named, budget

    @staticmethod
    def _rank(model: Model, category: Category) -> tuple[bool, float, Decimal, str]:
        suits = category in model.categories and model.score > 0
        return (not suits, -model.score, model.price.prompt, model.id)

    def _read(self, row: Any) -> Model | None:
        name = row.get("id") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or not is_model(name := normalised(name)):
            return None
        known = self._known.get(name)
        price = _price(row.get("pricing"), known.price if known is not None else UNKNOWN)
        context = row.get("context_length")
        room = context if isinstance(context, int) and not isinstance(context, bool) else 0
        if known is not None:
            return replace(known, price=price, context=room or known.context)
        picked = price.source == "prices" and room >= MIN_ROOM and "text" in _kinds(row, "output_modalities", "text")
        categories = {"general", *({"vision"} & _kinds(row, "input_modalities", ""))} if picked else set()
        return Model(name, price, room, frozenset(categories), 0.0)


def shipped() -> ModelTable:
    """The models this version knows."""
    return ModelTable(_row(line) for line in _ROWS.strip().splitlines())


def _row(line: str) -> Model:
    name, prompt, completion, context, score, *categories = line.split()
    price = Price(Decimal(prompt) * MARGIN / MILLION, Decimal(completion) * MARGIN / MILLION)
    return Model(name, price, int(context), frozenset(categories), float(score))


def _kinds(row: Mapping[str, Any], key: str, otherwise: str) -> set[str]:
    """The kinds of input or output of a model; ``vision`` needs images as input."""
    shape = row.get("architecture")
    kinds = shape.get(key) if isinstance(shape, Mapping) else None
    if not isinstance(kinds, list):
        return {otherwise}
    return {"vision" if kind == "image" else kind for kind in kinds if isinstance(kind, str)}


def _price(pricing: Any, otherwise: Price) -> Price:
    prices = pricing if isinstance(pricing, Mapping) else {}
    prompt, completion = _dollars(prices.get("prompt")), _dollars(prices.get("completion"))
    request = _dollars(prices.get("request", "0"))
    if prompt is None or completion is None or request is None:
        return Price(
            otherwise.prompt if prompt is None else prompt,
            otherwise.completion if completion is None else completion,
            otherwise.request if request is None else request,
        )
    return Price(prompt, completion, request, "prices")


def _dollars(value: Any) -> Decimal | None:
    """None: no price; one over ten dollars, even for a request, is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if len(value) > 40 if isinstance(value, str) else not 0 <= value <= 10:
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 <= amount <= 10:
        return None
    return amount if amount >= _LEAST else Decimal(0)
