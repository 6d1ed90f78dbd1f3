"""The table of models: their prices, and the choice of a model for a task. Pure.

The shipped rows are used until a server's own list is read, and for models that it lacks. Their prices are set high,
because money is reserved by them (issue 6). Tiers and categories are the Smart Spawn API's (A4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import model_list
from orchestrator.spawn.callers import caller_kind
from orchestrator.spawn.local_planner import Category
from orchestrator.spawn.model_list import ListedModel
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
MIN_ROOM = 32_000
"""Context size in tokens that a model needs to be chosen from several."""
NO_PRICE = "no price"

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


_MODEL = re.compile(r"(?!.*://|(?:.*/)?\.\.(?:/|$))[!-~]{1,200}")


def is_model(model_id: str) -> bool:
    """Whether a text can be a model's id: ``provider/name``, ``llama3.2:3b``, a path; no URL, no ``..``."""
    return _MODEL.fullmatch(model_id) is not None and caller_kind(model_id) == "model"


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

    A model without categories is called only if it is named or is the only model; ``lacks`` says why. A model with
    ``answers`` False is called only if it is named.
    """

    id: str
    price: Price
    context: int
    categories: frozenset[str]
    score: float
    lacks: tuple[str, ...] = ()
    answers: bool = True

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
    """The models that can be picked, and the prices of those and others.

    ``listed``: they are those of the server's list. ``note`` is what a plan says that takes its models from here.
    """

    def __init__(self, models: Iterable[Model], known: Mapping[str, Model] | None = None, note: str = "") -> None:
        self.models = {model.id: model for model in models}
        self.listed = known is not None
        self.note = note
        self._known = known or self.models

    def refreshed(self, body: object) -> ModelTable:
        """The table after ``GET /models`` (A7), whose JSON is ``body``.

        Then what the server does not list is not picked. A price that is missing, ``-1`` or nonsense comes from the
        shipped rows, else it is ``UNKNOWN``. Rows that are no models are passed over; none left: the table stays.
        """
        models = [self._read(row) for row in model_list.models(body) if is_model(normalised(row.id))]
        return ModelTable(models, self._known) if models else self

    def noting(self, note: str) -> ModelTable:
        """The same table with another note."""
        return ModelTable(self.models.values(), self._known if self.listed else None, note)

    def offers(self, model_id: str) -> bool:
        """Whether the server may have that model: its list has it, also as a ``:variant``, or is not known."""
        name = normalised(model_id)
        return not self.listed or name in self.models or name.partition(":")[0] in self.models

    def unknowns(self, model_id: str) -> str:
        """What is not known of a model that is called all the same, and what follows; empty: enough is known."""
        name = normalised(model_id)
        model = self.models.get(name) or self._known.get(name)
        facts = [] if self.offers(name) else ["the server does not list it"]
        if self.price(name) == UNKNOWN or (model is not None and NO_PRICE in model.lacks):
            price = self.price(name)
            prompt, completion = (
                f"{dollars * MILLION:f}".rstrip("0").rstrip(".") for dollars in (price.prompt, price.completion)
            )
            facts.append(f"its price is not known, so {prompt} and {completion} dollars per million tokens count")
        context = model.context if model is not None else 0
        if context < MIN_ROOM:
            size = f"it reads only {context} tokens" if context else "how much it reads is not known"
            facts.append(f"{size}: if calls fail, lower MAX_PROMPT_CHARS and MAX_COMPLETION_TOKENS")
        return f"{name}: {'; '.join(facts)}" if facts else ""

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
        that has one. If there is none at all, the models that the allowlist names in full are taken, else the only
        model there is, whatever is unknown of them; the note says what. Errors as ``pick``.
        """
        ranked, tier = self._ranked(category, budget, allowed)
        if ranked:
            fresh = [model.id for model in ranked if model.id not in exclude] or [model.id for model in ranked]
            reason = f"best of {len(fresh)} for {category} work on a {tier} budget"
            notes = (
                [] if tier == budget else [f"no model for {category} work on a {budget} budget: taken from {tier}"]
            )
        else:
            all_ = allowed.named or self._only(allowed)
            if not all_:
                raise self._no_model(category, budget, allowed)
            fresh = [name for name in all_ if name not in exclude] or list(all_)
            reason = "named in MODEL_ALLOWLIST" if allowed.named else "the only model of the server"
            notes = []
        providers: set[str] = set()
        first: list[str] = []
        second: list[str] = []
        for name in fresh:
            provider = name.partition("/")[0]
            (second if provider in providers else first).append(name)
            providers.add(provider)
        chosen = [*first, *second]
        if len(chosen) < count:
            few = "1 model" if len(chosen) == 1 else f"{len(chosen)} models"
            notes.append(f"only {few} may be asked: some are asked more than once")
        return [
            Pick(name, reason, "; ".join(filter(None, (*notes, "" if ranked else self.unknowns(name)))))
            for name in (chosen * count)[:count]
        ]

    def _ranked(self, category: Category, budget: RunBudget, allowed: ModelFilter) -> tuple[list[Model], RunBudget]:
        open_to = [model for model in self.models.values() if model.categories and model.id in allowed]
        suited = [model for model in open_to if model.categories & {category, "general"}] or open_to
        for tier in (budget, *_NEAREST[budget]):
            low, high = TIERS[tier]
            tier_models = [model for model in suited if low <= model.price.prompt * MILLION <= high]
            if tier_models:
                return sorted(tier_models, key=lambda model: self._rank(model, category)), tier
        return [], budget

    def _only(self, allowed: ModelFilter) -> tuple[str, ...]:
        """The one model that is left to answer; empty if there are several or none: nothing decides between them."""
        answering = [model.id for model in self.models.values() if model.answers and model.id in allowed]
        return tuple(answering) if len(answering) == 1 else ()

    def _no_model(self, category: Category, budget: RunBudget, allowed: ModelFilter) -> BadRequest:
        """Which condition which number of models did not meet, and which variable changes it."""
        models = list(self.models.values())
        left = [model for model in models if model.id in allowed]
        lacks = Counter(why for model in left for why in model.lacks)
        facts = [f"{number} {'has' if number == 1 else 'have'} {why}" for why, number in lacks.most_common()]
        if forbidden := len(models) - len(left):
            verb = "is" if forbidden == 1 else "are"
            facts.append(f"{forbidden} {verb} forbidden by MODEL_ALLOWLIST or MODEL_DENYLIST")
        whose = "of the server" if self.listed else "that this version knows"
        message = f"no model is left for {category} work on a {budget} budget: of {len(models)} models {whose}, "
        names = "name one in `models` of the call (spawn create --models), or in MODEL_ALLOWLIST"
        step = names if left else "change MODEL_ALLOWLIST or MODEL_DENYLIST"
        return BadRequest(
            "model_not_allowed", message + ", ".join(facts), f"{step} where your CLI starts this server"
        )

    @staticmethod
    def _rank(model: Model, category: Category) -> tuple[bool, float, Decimal, str]:
        suits = category in model.categories and model.score > 0
        return (not suits, -model.score, model.price.prompt, model.id)

    def _read(self, row: ListedModel) -> Model:
        name = normalised(row.id)
        known = self._known.get(name)
        price = row.price(known.price if known is not None else UNKNOWN)
        if known is not None:
            return replace(known, price=price, context=row.context or known.context)
        answers = not row.special and (not row.writes or "text" in row.writes)
        lacks = tuple(
            why
            for why, applies in (
                ("another purpose than to answer", not answers),
                (NO_PRICE, price.source != "prices"),
                ("no context length", not row.context),
                (f"a context under {MIN_ROOM} tokens", 0 < row.context < MIN_ROOM),
            )
            if applies
        )
        categories = {"general", *({"vision"} if "image" in row.reads else ())}
        return Model(name, price, row.context, frozenset() if lacks else frozenset(categories), 0.0, lacks, answers)


def shipped() -> ModelTable:
    """The models this version knows."""
    return ModelTable(_row(line) for line in _ROWS.strip().splitlines())


def _row(line: str) -> Model:
    name, prompt, completion, context, score, *categories = line.split()
    price = Price(Decimal(prompt) * MARGIN / MILLION, Decimal(completion) * MARGIN / MILLION)
    return Model(name, price, int(context), frozenset(categories), float(score))
