"""Build the prompt of a squad member, in three forms. Pure; the wording follows the contract (B2.14 to B2.18, C2)."""

from __future__ import annotations

FOOTER = """\
---

# Setup & Reporting Rules

If you notice any setup or environment problems that prevent you from completing your task,
you MUST clearly report them as SETUP / ENVIRONMENT ISSUES.

Explain what you observed and suggest specific steps for the human to fix.
Do not pretend the task succeeded if the environment blocks you."""


def stateless(body: str, task: str) -> str:
    """Of a member that keeps no chat: its role and the task."""
    return f"# Role\n\n{body}\n\n---\n\n# Task\n\n{task}\n\n{FOOTER}"


def new_chat(body: str, task: str) -> str:
    """The first of a chat: its role and the initial task."""
    return f"# Role\n\n{body}\n\n---\n\n# Initial Task\n\n{task}\n\n{FOOTER}"


def existing_chat(task: str) -> str:
    """A later one of a chat: the task alone, for the chat knows the role."""
    return f"# Task\n\n{task}\n\n{FOOTER}"
