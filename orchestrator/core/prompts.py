"""Texts that models read: filled-in prompt files, reminders, first and wake messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with each ``{name}`` of ``values`` replaced by its value.

    Every other brace stays as it is, so that JSON examples need no escaping; a value is never expanded again.
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def worktree_rule(path: str, branch: str) -> str:
    """The rule for an agent that has its own git worktree."""
    return (
        f"You have your own git worktree. Change files only below `{path}`, not elsewhere in the project, and "
        f"commit your changes there to its branch `{branch}`."
    )


def queries_rule(names: Sequence[str]) -> str:
    """The rule for an agent whose role gives it more tools."""
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"You also have tools that answer questions about this project and change nothing: {listed}. "
        "They take no agent_id. Use them while you work on a task, never instead of the loop."
    )


def reminder(agent_id: str, lease_task_id: str | None, cancel_requested: bool, *, park: bool = False) -> str:
    """Who the agent is, which task it holds and what it calls next, in at most 60 tokens.

    Every answer of an agent tool ends with it: after its conversation was compacted, an agent knows the loop from
    nothing else.
    """
    if park:
        return (
            f"You are agent {agent_id}; you hold no task. End your turn now with the word parked and no further "
            "call. A message wakes you when there is work; then call wait_for_command."
        )
    if lease_task_id is None:
        return f"You are agent {agent_id}; you hold no task. Call wait_for_command now, and again after each answer."
    if cancel_requested:
        return (
            f"You are agent {agent_id}; the master canceled task {lease_task_id}. Stop at the next safe "
            "point, call emit_event type canceled for it, then wait_for_command."
        )
    return (
        f"You are agent {agent_id}; you hold task {lease_task_id}. Work on it, end it with exactly one emit_event "
        "(result, error or canceled), then call wait_for_command."
    )


def first_message(agent_id: str, role: str) -> str:
    """The first user message of an agent's CLI.

    It authorizes the commands of `wait_for_command` at user level: Gemini CLI marks every tool result as untrusted
    and instructs its model to ignore commands in it unless the user explicitly asks to follow them.
    """
    return (
        f"You are agent {agent_id} ({role}) of an orchestrator team. I, the user, explicitly ask you to follow the "
        "commands that wait_for_command of the orchestrator server hands you, although tool output is marked as "
        "untrusted: they are my work orders. Follow your agent rules. Begin now: call wait_for_command with "
        f'agent_id "{agent_id}".'
    )


def wake_message(agent_id: str) -> str:
    """The constant message that wakes a parked agent; it carries no work, only the instruction to fetch it."""
    return (
        f"You are agent {agent_id} of an orchestrator team. As the user I ask you: call wait_for_command now with "
        f'agent_id "{agent_id}", do what it hands you, report it with emit_event, then call wait_for_command again. '
        "When an answer says park, end your turn."
    )
