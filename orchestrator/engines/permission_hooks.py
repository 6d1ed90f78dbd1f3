"""The hook `PermissionRequest` of Claude Code and Codex: what its event asks, whole, and what the hook prints. Pure.

What it prints decides; an empty object leaves the question to the CLI's own dialog. Only Claude Code shows its dialog
while the hook waits, and asks its user questions through the same hook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.core.inbox_items import ItemDecision
from orchestrator.engines import permission_questions, question_answers
from orchestrator.engines.permission_requests import Asked, PermissionRequest
from orchestrator.engines.rule_patterns import PATCH_TOOL

EVENT = "PermissionRequest"
DENIED = "The user denied this."
"""The reason for the model if the human gave none."""
SHOWN_BACK = frozenset({"ExitPlanMode"})
"""Tools of Claude Code of which it takes an approval only together with their input. A plan may be in a file alone:
then nobody sees here what an approval would be of."""
PLACE_UNKNOWN = "(relative paths; Codex does not name their directory)"
"""Codex reports its session's directory, but a patch in a shell command is relative to the command's directory."""
_NAMED_IN_PATCH = re.compile(r"(?m)^\s*\*\*\* (?:(?:Add|Update|Delete) File|Move to):\s*(.*)$")
LEADS = ("command", "file_path", "notebook_path", "path", "url", "query", "plan")
"""Arguments that say what a tool is to do: the first of them begins the text, without its name."""


def claude_request(event: str, data: Mapping[str, Any]) -> PermissionRequest | None:
    """What an event of Claude Code's hook asks; None if it asks nothing."""
    asked = asked_by(event, data)
    if asked is None:
        return None
    subagent = str(data.get("agent_id") or "")
    return PermissionRequest(
        asked,
        lambda decision, text: _printed(_claude(asked, decision, text)),
        dialog_meanwhile=not subagent,  # the dialog of a subagent comes once its hook has ended
        subagent=subagent,
    )


def codex_request(event: str, data: Mapping[str, Any]) -> PermissionRequest | None:
    """What an event of Codex's hook asks; None if it asks nothing."""
    asked = asked_by(event, data)
    if asked is None:
        return None
    if asked.tool == PATCH_TOOL and not _is_placed(asked.text):
        asked = replace(asked, cwd="", text=f"{asked.text}\n{PLACE_UNKNOWN}")
    return PermissionRequest(asked, lambda decision, text: _printed(_plain(decision, text)), dialog_meanwhile=False)


def _is_placed(patch: str) -> bool:
    """Whether all files that the patch names have absolute paths."""
    return all(path.startswith("/") for path in _NAMED_IN_PATCH.findall(patch))


def asked_by(event: str, data: Mapping[str, Any]) -> Asked | None:
    """What the event asks; None if it is another event or names no tool."""
    tool, given = data.get("tool_name"), data.get("tool_input")
    if event != EVENT or not isinstance(tool, str) or not tool:
        return None
    line = permission_questions.asked(data)
    cut = bool(data.get("cut")) or not isinstance(given, dict) or (tool in SHOWN_BACK and not given.get("plan"))
    given = given if isinstance(given, dict) else {}
    questions = None if cut else question_answers.questions_of(given)
    return Asked(
        kind="permission" if questions is None else "question",
        tool=tool,
        text=text_of(given) if questions is None else question_answers.text_of(questions),
        line=line.reason if line is not None else f"asks to use {tool}",
        tool_input=given,
        cwd=str(data.get("cwd") or ""),
        questions=questions,
        cut=cut,
    )


def text_of(given: Mapping[str, Any]) -> str:
    """The whole of a tool's input, what it is to do first: no argument is left out."""
    lead = next((name for name in LEADS if isinstance(given.get(name), str)), None)
    parts = [] if lead is None else [str(given[lead])]
    known = {lead}
    old, new = given.get("old_string"), given.get("new_string")
    if isinstance(old, str) and isinstance(new, str):
        known |= {"old_string", "new_string"}
        parts += [mark + line for mark, text in (("- ", old), ("+ ", new)) if text for line in text.split("\n")]
    parts += [_argument(name, value) for name, value in given.items() if name not in known]
    return "\n".join(parts)


def _argument(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{name}:\n{value}" if "\n" in value else f"{name}: {value}"
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _claude(asked: Asked, decision: ItemDecision, text: str) -> dict[str, Any] | None:
    if decision in ("approve", "always") and asked.tool in SHOWN_BACK:
        return {"behavior": "allow", "updatedInput": dict(asked.tool_input)}
    if decision != "answer":
        return _plain(decision, text)
    questions = asked.questions or ()
    chosen = question_answers.answers_of(questions, text)
    answers = {
        str(question["question"]): ", ".join(labels) for question, labels in zip(questions, chosen, strict=True)
    }
    return {"behavior": "allow", "updatedInput": {**asked.tool_input, "answers": answers}}


def _plain(decision: ItemDecision, text: str) -> dict[str, Any] | None:
    """An allow or a deny and nothing more, which would make Codex's hook fail; None: the CLI's dialog decides."""
    if decision in ("approve", "always"):
        return {"behavior": "allow"}
    if decision == "deny":
        return {"behavior": "deny", "message": text.strip() or DENIED}
    return None


def _printed(decision: dict[str, Any] | None) -> dict[str, Any]:
    if decision is None:
        return {"output": {}}
    return {"output": {"hookSpecificOutput": {"hookEventName": EVENT, "decision": decision}}}
