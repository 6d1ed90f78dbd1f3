"""Reads a server's list of models, in each form in which servers of chat/completions give it. Pure.

OpenRouter lists prices and context lengths. llama.cpp, LM Studio, Ollama, vLLM and most hosted APIs list little more
than ids; some give a bare list, or call it ``models``. Nothing in a list makes this raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from orchestrator.spawn.run_data import Price

_LEAST = Decimal("1e-15")
_CONTEXT_MAX = 10**12
_CONTEXTS = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens")
"""Where servers write how many tokens a model reads: OpenRouter, vLLM, Groq, Mistral, and others."""
_LLAMA_CPP = ("n_ctx", "n_ctx_train")
_SPECIAL = re.compile(r"embed|rerank|whisper|moderation|(?:^|[-_/:.])(?:tts|bge|clip)(?:$|[-_/:.])", re.IGNORECASE)


@dataclass(frozen=True)
class ListedModel:
    """A model as the server lists it. ``context`` in tokens, 0 if the server does not say; each price may be None.

    ``reads`` and ``writes`` are the kinds of its input and output; empty if the server does not say. ``special``: by
    its name it embeds or ranks texts and does not answer.
    """

    id: str
    prompt: Decimal | None
    completion: Decimal | None
    request: Decimal | None
    context: int
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def special(self) -> bool:
        return _SPECIAL.search(self.id) is not None

    def price(self, otherwise: Price) -> Price:
        """Its price; what the list does not say comes from ``otherwise``, and then so does the source."""
        if self.prompt is None or self.completion is None or self.request is None:
            return Price(
                otherwise.prompt if self.prompt is None else self.prompt,
                otherwise.completion if self.completion is None else self.completion,
                otherwise.request if self.request is None else self.request,
            )
        return Price(self.prompt, self.completion, self.request, source="prices")


def models(body: object) -> Iterator[ListedModel]:
    """The models of a list, ``body`` being its JSON; entries that are no models are passed over."""
    for row in _rows(body):
        name = _name(row)
        if name:
            yield _model(name, row)


def is_list(body: object) -> bool:
    """Whether a body is a list of models at all, however empty."""
    if isinstance(body, Mapping):
        # Ollama without a model has `data` null.
        return any(key in body and isinstance(body[key], list | None) for key in ("data", "models"))
    return isinstance(body, list) and all(isinstance(row, Mapping) for row in body)


def _rows(body: object) -> list[Mapping[str, Any]]:
    """The entries: of ``data``, else of ``models``, else of the body itself."""
    rows = body
    if isinstance(body, Mapping):
        # llama.cpp has both; `data` is the form of chat/completions.
        rows = body.get("data") if isinstance(body.get("data"), list) else body.get("models")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _name(row: Mapping[str, Any]) -> str:
    named = (row.get(key) for key in ("id", "model", "name"))
    return next((name for name in named if isinstance(name, str) and name), "")


def _model(name: str, facts: Mapping[str, Any]) -> ListedModel:
    pricing = facts.get("pricing")
    prices = pricing if isinstance(pricing, Mapping) else {}
    return ListedModel(
        name,
        _dollars(prices.get("prompt")),
        _dollars(prices.get("completion")),
        _dollars(prices.get("request", "0")),
        _context(facts),
        _kinds(facts, "input_modalities"),
        _kinds(facts, "output_modalities"),
    )


def _context(facts: Mapping[str, Any]) -> int:
    meta = facts.get("meta")
    values = [facts.get(key) for key in _CONTEXTS]
    values += [meta.get(key) for key in _LLAMA_CPP] if isinstance(meta, Mapping) else []
    return next((value for value in values if type(value) is int and 0 < value < _CONTEXT_MAX), 0)


def _kinds(facts: Mapping[str, Any], key: str) -> frozenset[str]:
    shape = facts.get("architecture")
    kinds = shape.get(key) if isinstance(shape, Mapping) else None
    return frozenset(kind for kind in kinds if isinstance(kind, str)) if isinstance(kinds, list) else frozenset()


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
