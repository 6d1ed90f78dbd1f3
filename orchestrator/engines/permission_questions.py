"""What a CLI asks its user, as the events of its hook or plugin report it: the tool and what it is to do. Pure.

The names of tools and arguments are those of the CLIs: `tool_input` comes from Claude Code, Codex and our opencode
plugin, `details` from Gemini CLI.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.base.secret_masks import MASK, READ_CHARS, one_line
from orchestrator.core.screens import ScreenFinding

INPUT_CHARS = 200
"""Maximum length of what is shown of a tool's input."""

_SAYS_ALL = ("command", "file_path", "filePath", "filepath", "notebook_path", "path", "url", "urls", "query", "plan")
_CONTENTS = frozenset({"content", "contents", "new_string", "old_string", "new_source", "edits", "diff", "patch"})
_PATCHED = re.compile(r"(?m)^\*\*\* (Add|Update|Delete) File: (.+)$")
_QUESTION = re.compile(r'"question": ?("(?:[^"\\]|\\.)*")')


def asked(data: Mapping[str, Any]) -> ScreenFinding | None:
    """What the event asks, masked and on one line; None if the event does not name a tool."""
    details, tool = data.get("details"), data.get("tool_name")
    if isinstance(details, dict):
        known = {name: details[name] for name in _SAYS_ALL if name in details}
        return _permission(_of_gemini(details), _input(known))
    if not isinstance(tool, str) or not tool:
        return None
    given = data.get("tool_input")
    if not isinstance(given, dict):
        return _permission(tool, "")
    if question := _question(given):
        return ScreenFinding("dialog", f"asks a question: {one_line(question, INPUT_CHARS)}")
    return _permission(tool, _input(given))


def _permission(tool: str, text: str) -> ScreenFinding:
    shown = one_line(text, INPUT_CHARS)
    tool = one_line(tool, 100) or "a tool"
    return ScreenFinding("permission", f"asks to use {tool}: {shown}" if shown else f"asks to use {tool}")


def _of_gemini(details: Mapping[str, Any]) -> str:
    """The tool's name; the title of a dialog for a shell or a file is a sentence about it."""
    if details.get("type") == "mcp":
        return f"{details.get('toolName', 'a tool')} of the MCP server {details.get('serverName', '')}".rstrip()
    names = {"exec": "Shell", "edit": "Edit", "info": "WebFetch"}
    return names.get(str(details.get("type")), str(details.get("title") or "a tool"))


def _question(given: Mapping[str, Any]) -> str:
    """The first question of a tool that asks its user something; "" for any other tool."""
    questions = given.get("questions")
    if isinstance(questions, list):
        questions = json.dumps(questions)
    match = _QUESTION.search(questions) if isinstance(questions, str) else None
    return str(json.loads(match[1], strict=False)) if match else ""


def _input(given: Mapping[str, Any]) -> str:
    """What of a tool's input says what the tool does: a command, a path, else all its arguments but contents."""
    command = given.get("command")
    if isinstance(command, list):  # a program with its arguments
        return " ".join(map(str, command))
    if isinstance(command, str) and (files := _PATCHED.findall(command)):
        verb, path = files[0]
        return f"{verb.lower()} {path.strip()}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    for name in _SAYS_ALL:
        if value := given.get(name):
            return value if isinstance(value, str) else _json(value)
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else _json(value)}"
        for name, value in given.items()
        if name not in _CONTENTS
    )


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= READ_CHARS else text[:READ_CHARS] + MASK
