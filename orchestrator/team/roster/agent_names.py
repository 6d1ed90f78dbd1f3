"""Which agent a word of a human means, and which agents are near a wrong one. Pure.

Works on the rows of agent_list. People write the name, which can be used again after an agent was deleted; programs
write the id (`builder-2`), which is never used again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.core.agent_ids import ascii_form

if TYPE_CHECKING:
    from orchestrator.core.state import Agent  # the command line does without the records' models

EXACT = "id:"
"""Before an id: exactly that agent, even if it was deleted and a living agent has its name."""
NEAR = 3
MAX_WORD = 200  # longer words are compared with nothing: the comparison is quadratic

Row = Mapping[str, Any]


@dataclass(frozen=True)
class AgentChoice:
    """The agent that a word means.

    ``others`` are the ids of the other living agents of that name. Of a deleted agent ``successor`` is the newest
    living agent of its name; empty if there is none. ``hidden`` is the deleted agent whose id is the word.
    """

    agent_id: str
    row: Row
    others: tuple[str, ...] = ()
    successor: str = ""
    hidden: str = ""

    @property
    def deleted(self) -> bool:
        return not _lives(self.row)


def choose(rows: Iterable[Row], word: str, run_id: str | None = None) -> AgentChoice | None:
    """The agent that the word means; None if nobody ever had that id or name.

    The exact id of an agent that is not deleted; else the newest living agent of that name, first of the run
    ``run_id``, else of the project; else the newest deleted agent of that name, else the deleted agent of that id.
    """
    rows = list(rows)
    exactly = word.startswith(EXACT)
    wanted = word.removeprefix(EXACT)
    same_id = next((row for row in rows if row["agent_id"] == wanted), None)
    named = [] if exactly else [row for row in rows if _is_named(row, wanted)]
    living = _meant_first((row for row in named if _lives(row)), wanted, run_id)
    if same_id is not None and _lives(same_id):
        return _choice(same_id, living)
    if living:
        return _choice(living[0], living, hidden="" if same_id is None else wanted)
    deleted = max(named, key=_age, default=same_id)
    if deleted is None:
        return None
    return AgentChoice(str(deleted["agent_id"]), deleted, successor=successor(rows, deleted))


def shown_names(rows: Iterable[Row]) -> dict[str, str]:
    """What people are shown of each agent, and may write: its name if that means it alone, else its id."""
    rows = list(rows)
    living = [row for row in rows if _lives(row)]
    ids, names = {row["agent_id"] for row in living}, Counter(row["name"] for row in living)
    all_names = Counter(row["name"] for row in rows)

    def shown(row: Row) -> str:
        name, agent_id = str(row["name"]), str(row["agent_id"])
        if not _lives(row):
            return EXACT + agent_id if all_names[agent_id] > (name == agent_id) else agent_id
        alone = names[name] == 1 and (name == agent_id or name not in ids)
        writable = name.isprintable() and name == name.strip() and not name.startswith(("-", EXACT))
        return name if alone and writable else agent_id

    return {str(row["agent_id"]): shown(row) for row in rows}


def near(rows: Iterable[Row], word: str) -> list[str]:
    """The ids of the agents whose id or name is nearest to a wrong word: living ones, else deleted ones."""
    import difflib  # noqa: PLC0415  (for a wrong word only)

    if len(word) > MAX_WORD:
        return []
    by_life: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        by_life[0 if _lives(row) else 1].append(row)
    for group in by_life:
        owners: dict[str, str] = {}
        for row in sorted(group, key=_age):
            owners |= {str(row["name"]).lower(): row["agent_id"], row["agent_id"]: row["agent_id"]}
        close = difflib.get_close_matches(word.lower(), owners, n=2 * NEAR)
        if close:
            return list(dict.fromkeys(owners[key] for key in close))[:NEAR]
    return []


def successor(rows: Iterable[Row], row: Row) -> str:
    """The id of the newest working agent that has the name of ``row`` and is not that agent; "" if there is none."""
    others = [other for other in rows if other["agent_id"] != row["agent_id"] and other["name"] == row["name"]]
    newest = max((other for other in others if _works(other)), key=_age, default=None)
    return "" if newest is None else str(newest["agent_id"])


def rows_of(agents: Iterable[Agent]) -> list[Row]:
    """What the functions here need of the agents in memory."""
    return [
        {
            "agent_id": agent.agent_id,
            "name": agent.spec.get("name", agent.agent_id),
            "status": "stopping" if agent.stop_asked and agent.life != "deleted" else agent.life,
            "run_id": agent.run_id,
            "created_at": agent.created_at,
        }
        for agent in agents
    ]


def unknown(agent_id: str, rows: Iterable[Row], message: str = "") -> BadRequest:
    """The error that no agent has this id; it names the nearest ids."""
    close = near(rows, agent_id)
    step = f"did you mean {' or '.join(close)}? agent_list shows the agents" if close else ""
    facts = {"did_you_mean": close} if close else {}
    return BadRequest("unknown_agent", message or f"no agent is called {agent_id!r}", step, **facts)


def with_successor(error: Conflict, successor_id: str) -> Conflict:
    """An ``agent_ended`` that names the agent that has the ended agent's name now, if there is such an agent."""
    if error.code != "agent_ended" or not successor_id:
        return error
    facts = {**error.facts, "did_you_mean": [successor_id]}
    step = f"{successor_id} has its name now; use that agent_id, or create a new agent"
    return Conflict("agent_ended", error.message, step, **facts)


def _choice(row: Row, living: Sequence[Row], hidden: str = "") -> AgentChoice:
    others = tuple(str(other["agent_id"]) for other in living if other is not row)
    return AgentChoice(str(row["agent_id"]), row, others, hidden=hidden)


def _meant_first(living: Iterable[Row], word: str, run_id: str | None) -> list[Row]:
    def rank(row: Row) -> tuple[bool, bool, bool, tuple[str, int]]:
        return row["name"] == word, _works(row), run_id is not None and row["run_id"] == run_id, _age(row)

    return sorted(living, key=rank, reverse=True)


def _is_named(row: Row, word: str) -> bool:
    name = str(row["name"])
    return word in (name, ascii_form(name) or name)


def _age(row: Row) -> tuple[str, int]:
    """Sorts agents by their creation; agents of one moment by the number in their id."""
    number = re.search(r"-(\d{1,9})$", str(row["agent_id"]))
    return str(row.get("created_at") or ""), int(number[1]) if number else 0


def _lives(row: Row) -> bool:
    return bool(row["status"] != "deleted")


def _works(row: Row) -> bool:
    return row["status"] not in ("deleted", "failed", "stopping", "stopped")
