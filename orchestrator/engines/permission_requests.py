"""The types of a CLI's request to its user, through a hook or plugin, and of the answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.core.inbox_items import ItemDecision

LAUNCH_SECRET = "launch_secret"  # noqa: S105 - the name of a key
"""The key under which an engine finds the secret of the agent's launch beside the data of an event."""


@dataclass(frozen=True)
class Asked:
    """What a CLI asks, as its hook or plugin reports it: unmasked and whole, unless ``cut``.

    ``text`` is the command, patch or path that the human decides on; ``line`` the same as one masked line: "asks to
    use Bash: make". ``questions`` are those of a question: ``{question, header, multi, options: [{label,
    description}]}``.
    """

    kind: Literal["permission", "question"]
    tool: str
    text: str
    line: str
    tool_input: Mapping[str, Any] = field(default_factory=dict)
    cwd: str = ""
    questions: tuple[dict[str, Any], ...] | None = None
    by: Literal["hook", "plugin"] = "hook"
    cut: bool = False


@dataclass(frozen=True)
class PermissionRequest:
    """One request of a CLI.

    ``output`` gives the keys of the daemon's message that carries a decision and its text: for a hook ``{"output":
    what it prints}``. ``dialog_meanwhile``: the CLI shows its own dialog too, and the first answer wins. ``key``
    tells the request from others of the agent; "": the hook's connection does. ``dialog_covers``: what an answer
    in the CLI's own dialog may settle for later requests too, which the CLI then does not ask. ``refused``: no human
    is asked, the CLI gets the denial at once. ``subagent``: the id of the subagent that asks; "" for the
    main conversation.
    """

    asked: Asked
    output: Callable[[ItemDecision, str], dict[str, Any]]
    dialog_meanwhile: bool
    key: str = ""
    dialog_covers: frozenset[str] = frozenset()
    refused: bool = False
    subagent: str = ""
