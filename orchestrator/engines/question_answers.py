"""Questions that a model asks its user through a tool of its CLI, and the text with which a human answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.base.errors import BadRequest
from orchestrator.base.secret_masks import shown_text

Question = dict[str, Any]
"""``{question, header, multi, options: [{label, description}]}``"""

_NUMBERED = re.compile(r"\s*(\d{1,2})\s*[:.)]\s*(.*\S)\s*\Z")


def questions_of(given: Mapping[str, Any]) -> tuple[Question, ...] | None:
    """The questions in a tool's input; None if it asks none, or asks in a form that is not known."""
    asked = given.get("questions")
    if not isinstance(asked, list) or not asked:
        return None
    questions = []
    for entry in asked:
        if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
            return None
        options = entry.get("options") or []
        if not isinstance(options, list) or not all(
            isinstance(option, dict) and isinstance(option.get("label"), str) for option in options
        ):
            return None
        questions.append(
            {
                "question": entry["question"],
                "header": str(entry.get("header") or ""),
                "multi": bool(entry.get("multiSelect") or entry.get("multiple") or entry.get("multi")),
                "options": [
                    {"label": option["label"], "description": str(option.get("description") or "")}
                    for option in options
                ],
            }
        )
    return tuple(questions)


def shown(questions: Sequence[Question]) -> tuple[Question, ...]:
    """The questions for a human: secrets masked, invisible characters as escapes."""
    return tuple(
        {
            **question,
            "question": shown_text(question["question"]),
            "header": shown_text(question.get("header", "")),
            "options": [
                {name: shown_text(text) for name, text in option.items()} for option in question.get("options", ())
            ],
        }
        for question in questions
    )


def text_of(questions: Sequence[Question]) -> str:
    """The questions with their numbered options, as one text."""
    lines = []
    for number, question in enumerate(questions, 1):
        before = f"{number}: " if len(questions) > 1 else ""
        lines.append(before + question["question"] + (" (several)" if question["multi"] else ""))
        for place, option in enumerate(question["options"], 1):
            about = f": {option['description']}" if option["description"] else ""
            lines.append(f"  {place} {option['label']}{about}")
    return "\n".join(lines)


def answers_of(questions: Sequence[Question], text: str) -> list[list[str]]:
    """For each question what was chosen: labels, or what else the human wrote.

    Several questions are answered by a line each, in their order or as ``2: answer``. An option is named by its label
    or its number, several by commas; any other text is an answer of its own. BadRequest ``cannot_answer`` if a
    question gets no answer, or more than one.
    """
    if not text.strip():
        raise BadRequest("cannot_answer", "the answer is empty", "name an option by its label or number")
    if len(questions) == 1:
        return [_chosen(questions[0], text.strip())]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [_NUMBERED.match(line) for line in lines]
    if all(numbered):
        places = [int(match[1]) for match in numbered if match]
        lines = [match[2] for match in numbered if match]
    else:
        places = list(range(1, len(lines) + 1))
    if sorted(places) != list(range(1, len(questions) + 1)):
        raise BadRequest(
            "cannot_answer",
            f"there are {len(questions)} questions, and each needs one answer",
            "give one answer for each, in their order",
        )
    given = dict(zip(places, lines, strict=True))
    return [_chosen(question, given[place]) for place, question in enumerate(questions, 1)]


def _chosen(question: Question, text: str) -> list[str]:
    labels = [str(option["label"]) for option in question["options"]]
    if (label := _label(labels, text)) is not None:
        return [label]
    if question["multi"]:
        parts = [_label(labels, part.strip()) for part in text.split(",") if part.strip()]
        if parts and None not in parts:
            return [label for label in labels if label in parts]
    return [text]


def _label(labels: Sequence[str], text: str) -> str | None:
    """The option of that label, whatever its case, or else of that number."""
    for label in labels:
        if label == text:
            return label
    for label in labels:
        if label.casefold() == text.casefold():
            return label
    if text.isdecimal() and text.isascii() and 1 <= int(text) <= len(labels):
        return labels[int(text) - 1]
    return None
