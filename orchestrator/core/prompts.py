"""The words we put before models: a prompt file filled in, the reminder of every agent tool. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with each ``{name}`` of ``values`` replaced by its value.

    Every other brace stays as it is, so that JSON examples need no escaping; a value is never expanded again.
    """
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def reminder(agent_id: str, lease_task_id: str | None, cancel_requested: bool) -> str:
    """Who the agent is, what it holds and what it calls next, in at most 60 tokens.

    It ends every answer of an agent tool, because an agent that has compacted its conversation knows nothing
    else of the loop.
    """
    if lease_task_id is None:
        return f"You are agent {agent_id}; you hold no task. Call wait_for_command now, and again after each answer."
    if cancel_requested:
        return (
            f"You are agent {agent_id}; the master canceled task {lease_task_id}. Stop at the next safe "
            "point, call emit_event type canceled for it, then wait_for_command."
        )
    return (
        f"You are agent {agent_id}; you hold task {lease_task_id}. Work on it, end it with one emit_event "
        "(result, error or canceled), then call wait_for_command."
    )
