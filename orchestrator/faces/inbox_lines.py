"""Lay out the inbox for a terminal: one line an item, and all that a human needs to decide on one of them. Pure.

Items are those of the snapshot; their texts are masked and printable. Nothing here writes or asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.base.text_width import pieces
from orchestrator.core.attach_command import attach_command
from orchestrator.faces.text_table import Column, age, lines_of

NOTHING = "nothing waits for you"
FURTHER = "  > "
"""Before each further piece of a line that is too long."""
TEXT = "    | "
NARROWEST = 20
_DONE = {
    "approve": ("orchestrator approve {id}", ""),
    "always": ("orchestrator approve {id} --always", "the same here is not asked again"),
    "deny": ("orchestrator deny {id} --reason TEXT", ""),
    "answer": ("orchestrator answer {id} TEXT", ""),
    "release": ("orchestrator release {id}", "its pane asks instead"),
    "dismiss": ("orchestrator dismiss {id}", "takes it off this list"),
}
"""Each answer with its command, and what that does where the word does not say it."""


def inbox_lines(items: Sequence[Mapping[str, Any]], width: int | None, now: datetime) -> list[str]:
    """The titles and one line an item, none wider than ``width`` (None: not cut); one sentence without items."""
    if not items:
        return [NOTHING]
    return lines_of(
        [
            Column("ID", [str(item["id"]) for item in items]),
            Column("KIND", [str(item["kind"]) for item in items], least=5),
            Column("AGENT", [str(item["name"] or item["agent_id"]) for item in items], least=5),
            Column("FOR", [age(item["since"], now) for item in items], right=True),
            Column("WHAT", [_flat(item["text"]) for item in items], least=10),
        ],
        width,
    )


def item_lines(item: Mapping[str, Any], width: int | None, now: datetime) -> list[str]:
    """One item in full: its agent, task, text and questions, and the commands that answer it."""
    who = _flat(item["name"] or item["agent_id"])
    task = f", {_flat(item['task_title'])}" if item.get("task_title") else ""
    lines = [f"{item['id']}: {item['kind']} of {who}{task}; for {age(item['since'], now)}"]
    facts = {"tool": item.get("tool"), "directory": item.get("cwd"), "until": item.get("until")}
    lines += [f"  {name:<9} {_flat(value)}" for name, value in facts.items() if value]
    if not item.get("questions"):
        for line in _whole_text(item).split("\n"):
            lines += _broken(line, TEXT, width)
    if item.get("cut"):
        lines.append("  This is not the whole text, so it cannot be approved from here.")
    for number, question in enumerate(item.get("questions") or (), 1):
        lines += _question_lines(number, question, width)
    lines += _ways(item)
    return lines


def _question_lines(number: int, question: Mapping[str, Any], width: int | None) -> list[str]:
    several = " (several can be chosen)" if question.get("multi") else ""
    lines = _broken(f"{number}. {_flat(question.get('question') or '')}{several}", "  ", width)
    for place, option in enumerate(question.get("options") or (), 1):
        about = f": {_flat(option['description'])}" if option.get("description") else ""
        lines += _broken(f"{place} {_flat(option.get('label') or '')}{about}", "     ", width)
    return lines


def _whole_text(item: Mapping[str, Any]) -> str:
    """The text of the request. A conflict also has its sentence, because its text is only a list of files."""
    asked = str(item.get("asked") or "")
    if not asked:
        return str(item["text"])
    return f"{item['text']}\n{asked}" if item["kind"] == "conflict" else asked


def _ways(item: Mapping[str, Any]) -> list[str]:
    """The commands that answer, each as it can be copied."""
    commands = [_DONE[answer] for answer in item["answers"] if answer in _DONE]
    ways = [(command.format(id=item["id"]), about) for command, about in commands]
    if item["by"] == "screen":  # the answer is a key, without a text
        ways = [(command.removesuffix(" --reason TEXT"), about) for command, about in ways]
    if item["kind"] == "conflict":
        ways.append((f"orchestrator worktree merge-check {_flat(item['agent_id'])}", "checks it again"))
    if item["kind"] in ("stalled", "failed"):
        ways.append((f"orchestrator why {_flat(item['agent_id'])}", "shows the records that led to this"))
    elif item.get("holds"):
        attach = attach_command(str(item["agent_id"]), str(item.get("host") or ""))
        ways.append((_flat(attach), "or answer in its pane"))
    size = max((len(command) for command, about in ways if about), default=0)
    return [f"  {command:<{size}}  {about}".rstrip() for command, about in ways]


def _broken(line: str, indent: str, width: int | None) -> list[str]:
    """The line after ``indent``, in pieces that fit: a long text must not look like a line of ours."""
    if width is None:
        return [indent + line]
    first, *rest = pieces(line, max(NARROWEST, width - len(indent) - len(FURTHER)))
    return [indent + first, *(indent + FURTHER + piece for piece in rest)]


def _flat(value: object) -> str:
    return str(value).replace("\n", " ")
