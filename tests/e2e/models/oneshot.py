"""The part of a one-shot run: what the model answers to a prompt that is neither a master's nor an agent's. Pure.

Whatever holds ``SCRIPT: {…}`` in its last user message says what is answered, all parts in this order, any left out:

    {"calls": [{"name": "run_shell_command", "arguments": {...}}]}   calls of the CLI's own tools, by name or suffix, one by one
    {"hold": "gate"}       the answer waits until the test opens that gate (`Brain.open`) or the CLI goes away
    {"say": "x"}           these are the last words

Without ``say`` the words tell what the model was shown: ``I heard 2 prompts; before: …; now: …``, every prompt by its
first line, cut at 80 letters.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.models.turn import Call, Message, Reply, Turn

_SCRIPT = re.compile(r"\bSCRIPT: (?=\{)")
_ASIDE = re.compile(r"<(system-reminder|environment_context|session_context)>.*?</\1>", re.DOTALL)


def prompts(turn: Turn) -> list[str]:
    """What the user has said, one text per message, without what the CLI adds for itself."""
    said = (_ASIDE.sub("", message.text).strip() for message in _asked(turn))
    return [text for text in said if text]


def _asked(turn: Turn) -> list[Message]:
    # A note that comes with a tool's result is no prompt.
    return [message for message in turn.messages if message.role == "user" and not message.results]


def script_of(turn: Turn) -> dict[str, Any] | None:
    """What the last prompt asks for; None when it holds no script."""
    last = prompts(turn)[-1:]
    for found in _SCRIPT.finditer(last[0] if last else ""):
        try:
            script, _end = json.JSONDecoder().raw_decode(found.string[found.end() :])
        except ValueError:
            continue
        if isinstance(script, dict):
            return script
    return None


def reply(turn: Turn) -> Reply:
    """The model's next step in this run."""
    script = script_of(turn) or {}
    wanted = script.get("calls") or []
    made = _made(turn)
    if made < len(wanted):
        name = str(wanted[made]["name"])
        tool = next((tool for tool in turn.tools if tool.name == name), turn.tool(name))
        space = tool.namespace if tool else ""
        arguments = wanted[made].get("arguments") or {}
        return Reply(calls=(Call(name=tool.name if tool else name, arguments=arguments, namespace=space),))
    said = script.get("say")
    return Reply(_heard(turn) if said is None else str(said), hold=str(script.get("hold") or ""))


def _made(turn: Turn) -> int:
    """How many calls the model has made since the last prompt."""
    made = 0
    for message in turn.messages:
        if message.role == "assistant":
            made += len(message.calls)
        elif not message.results:
            made = 0
    return made


def _heard(turn: Turn) -> str:
    lines = [text.splitlines()[0][:80] for text in prompts(turn)]
    before = f"before: {' | '.join(lines[:-1])}; " if lines[1:] else ""
    return f"I heard {len(lines)} prompt{'s' * (len(lines) != 1)}; {before}now: {''.join(lines[-1:])}"
