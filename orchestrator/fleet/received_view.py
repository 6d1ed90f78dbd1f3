"""What another host shows of its agents, checked before people see it: that host may send anything. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from orchestrator.base.secret_masks import one_line, shown_text
from orchestrator.core.inbox_items import InboxItem, item_of
from orchestrator.engines import question_answers

LINE_MAX = 4000
ITEMS_MAX = 1000


def _line(text: str) -> str:
    return one_line(text, LINE_MAX)


Line = Annotated[str, AfterValidator(_line)]
Count = Annotated[int, Field(ge=0)]


class _PublishedUsage(BaseModel):
    input: Count
    cached: Count
    output: Count
    requests: Count
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    models: list[Line] = []
    unknown: Line = ""


class _PublishedDiff(BaseModel):
    files: Count = 0
    added: Count = 0
    removed: Count = 0


class _PublishedRow(BaseModel):
    status: Line
    epoch: Count
    reason: Line = ""
    usage: _PublishedUsage | None = None
    diff: _PublishedDiff | None = None
    screen_line: Line = ""


_ITEM = TypeAdapter(InboxItem)


def row_of(view: Mapping[str, Any], agent: str) -> dict[str, Any]:
    """What the view shows of this agent, as `RemoteFacts.row`; {} if it shows nothing that a host of ours would."""
    rows = view.get("agents")
    try:
        return (
            _PublishedRow.model_validate(rows[agent]).model_dump() if isinstance(rows, dict) and agent in rows else {}
        )
    except ValidationError:
        return {}


def items_of(view: Mapping[str, Any], agent: str) -> list[dict[str, Any]]:
    """The inbox items that the view has of this agent, as `RemoteFacts.items`, without those that are none."""
    items = view.get("items")
    shown = items[:ITEMS_MAX] if isinstance(items, list) else []
    checked = (_item(item) for item in shown if isinstance(item, dict) and item.get("agent_id") == agent)
    return [item.as_dict() for item in checked if item is not None]


def _item(shown: Mapping[str, Any]) -> InboxItem | None:
    texts = {name: _line(text) for name, text in shown.items() if isinstance(text, str)}
    asked, questions = shown.get("asked", ""), shown.get("questions")
    if not isinstance(asked, str):
        return None
    known = question_answers.shown(question_answers.questions_of(shown) or ()) if questions is not None else None
    whole = {**shown, **texts, "asked": shown_text(asked), "questions": known}
    try:
        return _ITEM.validate_python(vars(item_of(whole, texts["agent_id"])))
    except (ValidationError, KeyError, TypeError):
        return None
