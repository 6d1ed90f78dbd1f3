"""The spawn prompts of a connection: what planner, executor and verifier are told of the project (B3.29).

Each under two names: not every client can make a slash command of the document's ``spawn/planner``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import mcp_types as types
from mcp.server.session import ServerSession

from orchestrator.base.errors import BadRequest
from orchestrator.gsd.questions import Questions

WHO = {
    "planner": "Plan a phase: its goal, with the project's vision, code and conventions",
    "executor": "Execute a plan: its text, with what its files affect",
    "verifier": "Verify a phase: what must be true of it, with what is known of the code",
}
PROMPTS = {f"spawn{sign}{who}": about for sign in "/_" for who, about in WHO.items()}
ARGUMENTS = {
    "phase": "its number; default: the current one",
    "phase_goal": "what it is to reach; default: what the roadmap says",
    "plan": "id of a plan (03-02); default: of the phase the next one",
}
MAX_CHARS = 4000

_PLACE = re.compile(r"\$\d+")
_MARKS = (
    (re.compile(r"!(?=`)"), "! "),
    (re.compile(r"\$(\d+|ARGUMENTS)"), r"${\1}"),
    (re.compile(r"(?<![\w`])@(?=[^\s`,])"), "@ "),
)
_NAMED = """

## What the user named

{lines}

What is filled in here counts, whatever stands above: where it is another phase or plan, ask `gsd_phase_status` or
read its files before you begin. Above, `@ x`, `! x` and `${{1}}` stand for the same without the space or the braces.
"""


def as_template(text: str, places: Mapping[str, str]) -> str:
    """The text of a prompt for a client that fills it in by itself: ``places`` are its marks, argument -> ``$1``.

    opencode asks for every prompt with its own marks as arguments. In what it gets it puts the user's words in their
    place, and then it runs each ``!`command` `` and attaches each ``@file``, unasked: words of a project's files must
    not look like that.
    """
    for mark, plain in _MARKS:
        text = mark.sub(plain, text)
    return text.rstrip() + _NAMED.format(lines="\n".join(f"- {name}: {place}" for name, place in places.items()))


class SpawnPrompts:
    """A `PromptSource`: `PROMPTS`, for one connection."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.names = tuple(PROMPTS)

    def listed(self) -> list[types.Prompt]:
        """The prompts, with their arguments; none is needed."""
        arguments = [
            types.PromptArgument(name=name, description=about, required=False) for name, about in ARGUMENTS.items()
        ]
        return [types.Prompt(name=name, description=about, arguments=arguments) for name, about in PROMPTS.items()]

    async def get(self, name: str, arguments: Mapping[str, str], session: ServerSession) -> types.GetPromptResult:
        """One of `PROMPTS`, filled with the project's facts, or saying that there is none.

        BadRequest ``bad_argument`` or ``unknown_phase``, Environment ``gsd_failed``.
        """
        wrong = [key for key in arguments if key not in ARGUMENTS]
        if wrong:
            raise BadRequest("bad_argument", f"{name} takes {', '.join(ARGUMENTS)}, not {wrong[0][:80]!r}")
        long = [key for key, value in arguments.items() if len(value) > MAX_CHARS]
        if long:
            raise BadRequest("bad_argument", f"{long[0]} may have {MAX_CHARS} characters")
        who = name.removeprefix("spawn")[1:]
        places = {key: value for key, value in arguments.items() if _PLACE.fullmatch(value)}
        given = {key: value for key, value in arguments.items() if key not in places}
        answer = await self._questions.ask("prompt", {"who": who, **given}, session)
        text = as_template(answer["text"], places) if places else answer["text"]
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=PROMPTS[name], messages=[message])
