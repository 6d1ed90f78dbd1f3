"""An item of the inbox as lines: what is asked in full, where, for which task. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.faces.top.tab_lines import TabLine, shown_line

DONE = {
    "approve": "approved",
    "always": "approved, from now on always",
    "deny": "denied",
    "answer": "answered",
    "release": "released; its own dialog appears in its pane",
    "dismiss": "noted",
}
"""What was done, by the decision."""


def item_lines(item: Mapping[str, Any]) -> list[TabLine]:
    """All that a person needs to decide."""
    lines: list[TabLine] = [[(shown_line(str(item["text"])), "bold")]]
    facts = [("tool", item.get("tool")), ("in", item.get("cwd")), ("task", item.get("task_title"))]
    facts.append(("until", item.get("until")))
    lines += [[(f"{name}: ", "dim"), (shown_line(str(value)), "")] for name, value in facts if value]
    asked = str(item.get("asked") or "")
    if asked and not item.get("questions"):
        lines += ["", *(shown_line(line) for line in asked.split("\n"))]
    for number, question in enumerate(item.get("questions") or [], 1):
        several = " (several, with commas)" if question.get("multi") else ""
        lines += ["", [(f"{number}. {shown_line(str(question['question']))}{several}", "bold")]]
        for at, option in enumerate(question.get("options") or [], 1):
            about = f": {option['description']}" if option.get("description") else ""
            lines.append(f"   {at} {shown_line(str(option['label']) + about)}")
    if item.get("cut"):
        lines += ["", [("This is not the whole text. Look at it in the agent's pane.", "bold red")]]
    return lines


def item_for(inbox: Sequence[Mapping[str, Any]], row: Mapping[str, Any], decision: str) -> Mapping[str, Any] | None:
    """The agent's item that this decision can answer: the item that holds the agent up, else the oldest."""
    items = [item for item in inbox if item["agent_id"] == row["agent_id"] and decision in item["answers"]]
    first = (row.get("waits_for") or {}).get("item")
    return next((item for item in items if item["id"] == first), items[0] if items else None)


def why_not(inbox: Sequence[Mapping[str, Any]], row: Mapping[str, Any], decision: str, name: str) -> str:
    """Why nothing of this agent can be answered so."""
    items = [item for item in inbox if item["agent_id"] == row["agent_id"]]
    if not items:
        return f"{name} asks nothing"
    item = items[0]
    ways = ", ".join(item["answers"]) or "only in its pane"
    return f"{name}: {decision} does not work for this {item['kind']}; what works: {ways}"


def given_text(item: Mapping[str, Any], values: Sequence[str]) -> str:
    """The text of an answer: that of one question, else a numbered line for each."""
    if len(item.get("questions") or []) <= 1:
        return values[0] if values else ""
    return "\n".join(f"{number}: {value}" for number, value in enumerate(values, 1))
