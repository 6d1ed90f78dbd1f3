"""What opencode asks its user, as our plugin reports it, and the message that carries a human's answer. Pure.

opencode shows its dialog meanwhile, and the first answer wins. All requests of a session wait side by side. A denial
always carries a message: without one opencode ends the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.core.inbox_items import ItemDecision
from orchestrator.engines import permission_hooks, permission_questions, question_answers
from orchestrator.engines.permission_requests import Asked, PermissionRequest


def request(event: str, data: Mapping[str, Any]) -> PermissionRequest | None:
    """What an event of the plugin asks; None if it asks nothing, or nothing that can be answered from here."""
    key = data.get("request")
    if not isinstance(key, str) or not key:
        return None
    if event == "permission.asked":
        return PermissionRequest(_permission(data), lambda decision, text: _reply(key, decision, text), True, key)
    questions = question_answers.questions_of(data) if event == "question.asked" else None
    if questions is None:
        return None
    asked = Asked(
        kind="question",
        tool="question",
        text=question_answers.text_of(questions),
        line=str(data.get("message") or "asks a question"),
        cwd=str(data.get("cwd") or ""),
        questions=questions,
        by="plugin",
    )
    fixed = [question.get("custom") is False for question in data["questions"]]

    def output(decision: ItemDecision, text: str) -> dict[str, Any]:
        if decision != "answer":
            return {"request": key, "reply": "reject" if decision == "deny" else ""}
        answers = question_answers.answers_of(questions, text)
        for question, chosen, is_fixed in zip(questions, answers, fixed, strict=True):
            labels = {option["label"] for option in question["options"]}
            if is_fixed and not labels.issuperset(chosen):
                message = f"the question takes one of its options only: {question['question']}"
                raise BadRequest("cannot_answer", message, "name an option by its label or number")
        return {"request": key, "answers": answers}

    return PermissionRequest(asked, output, True, key)


def _permission(data: Mapping[str, Any]) -> Asked:
    tool = str(data.get("tool_name") or "a tool")
    known, args = _table(data, "metadata"), _table(data, "args")
    patterns = data.get("patterns")
    listed = [str(pattern) for pattern in patterns] if isinstance(patterns, list) else []
    diff, path = known.get("diff"), known.get("filepath")
    if isinstance(diff, str) and isinstance(path, str):  # the arguments say the same, before they were applied
        given, text = known, f"{path}\n{diff}"
    else:
        given = {**args, **known}
        if not given:
            given = {"path": ", ".join(listed)}
        text = permission_hooks.text_of(given)
    line = permission_questions.asked({"tool_name": tool, "tool_input": given})
    return Asked(
        kind="permission",
        tool=tool,
        text=text,
        line=line.reason if line is not None else f"asks to use {tool}",
        tool_input=given,
        cwd=str(data.get("cwd") or ""),
        by="plugin",
        cut=data.get("cut") is True,
    )


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _reply(key: str, decision: ItemDecision, text: str) -> dict[str, Any]:
    """An approval is for this once: what the CLI calls "always" is wider than what a human sees."""
    if decision in ("approve", "always"):
        return {"request": key, "reply": "once"}
    if decision == "deny":
        return {"request": key, "reply": "reject", "message": text.strip() or permission_hooks.DENIED}
    return {"request": key, "reply": ""}
