"""The agent that a word on the command line means: by its name or id, living before deleted.

Asks the given source of facts, and says on stderr which agent was taken when the word is not its id.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.cli import output
from orchestrator.cli.facts import Facts

if TYPE_CHECKING:
    from orchestrator.team.roster.agent_names import AgentChoice

ALL_AGENTS = "orchestrator agent list --all shows all agents"


def chosen(source: Facts, word: str, *, must_live: bool = False) -> AgentChoice:
    """The agent that the word means; ask once, then use its id: a repeated request must keep its target.

    Raises BadRequest ``unknown_agent`` with the nearest names and, with ``must_live``, Conflict ``agent_ended`` for a
    deleted agent. Otherwise a deleted agent is marked as such on stderr.
    """
    from orchestrator.team.roster import agent_names  # noqa: PLC0415  (not every command names an agent)

    rows = source.agents()
    choice = agent_names.choose(rows, word)
    if choice is not None and choice.others and choice.agent_id != word:
        choice = agent_names.choose(rows, word, source.window_run())
    if choice is None:
        raise _unknown(source, rows, word)
    if choice.deleted:
        ended = ended_sentence(choice)
        if must_live:
            near = {"did_you_mean": [choice.successor]} if choice.successor else {}
            step = f"write {choice.successor} if you mean that agent" if near else "create a new agent"
            raise Conflict("agent_ended", ended, step, **near)
        output.warn(ended)
    elif choice.agent_id != word.removeprefix(agent_names.EXACT):
        others = f"; {', '.join(choice.others)} also {_have(choice.others)} this name" if choice.others else ""
        hidden = f"; the deleted {choice.hidden} is {agent_names.EXACT}{choice.hidden}" if choice.hidden else ""
        output.warn(f"{word} is agent {choice.agent_id}{others}{hidden}")
    elif choice.others and word == choice.agent_id:
        output.warn(f"{', '.join(choice.others)} also {_have(choice.others)} the name {choice.row['name']}")
    return choice


def shown_names(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What to show of each agent, by id: its name where that means it alone, else its id."""
    from orchestrator.team.roster import agent_names  # noqa: PLC0415

    return agent_names.shown_names(rows)


def ended_sentence(choice: AgentChoice, now: datetime | None = None) -> str:
    """When the agent was deleted, and which agent has its name now."""
    at = _local(str(choice.row.get("since") or ""), now)
    after = f"its successor is {choice.successor}" if choice.successor else "no living agent has its name"
    return f"{choice.agent_id} was deleted{at}; {after}"


def _local(at: str, now: datetime | None) -> str:
    try:
        then = datetime.fromisoformat(at).astimezone()
    except ValueError:
        return ""
    today = (now or datetime.now().astimezone()).date() == then.date()
    return f" at {then:%H:%M}" if today else f" on {then:%Y-%m-%d at %H:%M}"


def _unknown(source: Facts, rows: list[dict[str, Any]], word: str) -> BadRequest:
    from orchestrator.team.roster import agent_names  # noqa: PLC0415

    message = ""
    shown = shown_names(rows)
    near = [shown[agent_id] for agent_id in agent_names.near(rows, word)]
    try:
        source.agent(word)  # knows whether gc has removed the agent's data
    except BadRequest as error:
        if error.code == "unknown_agent":
            message = error.message
        elif not near:
            return error
    step = f"did you mean {' or '.join(near)}? {ALL_AGENTS}" if near else ALL_AGENTS
    facts = {"did_you_mean": near} if near else {}
    return BadRequest("unknown_agent", message or f"no agent is called {word!r}", step, **facts)


def _have(others: tuple[str, ...]) -> str:
    return "have" if len(others) > 1 else "has"
