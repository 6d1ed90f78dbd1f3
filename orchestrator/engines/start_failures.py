"""Why a CLI did not become ready: the likely cause in one sentence, from screen, exit status and version. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.core.screens import ScreenFinding
from orchestrator.engines.definition import Engine

WHY: dict[str, str] = {
    "login": "it is not logged in",
    "trust": "it asks whether its folder is trusted",
    "hooks": "it asks to review our hooks",
    "permission": "it asks for a permission",
    "rate_limit": "it has hit a limit of its provider",
    "api_error": "its provider answers with errors",
    "loop": "it has stopped, because it detected a loop in its work",
    "context_full": "its context is full",
    "dialog": "a dialog waits for an answer",
    "no_tools": "it could not start our MCP server",
    "interrupted": "a human interrupted it",
}
"""One sentence for each `screens.FindingKind`; docs/troubleshooting.md lists the remedies."""

STATUSES = {
    75: "the daemon did not release its launch in time",
    78: "its launch file or its pane does not belong to this launch",
    126: "its program cannot be run",
    127: "its program was not found, or the interpreter in the program's first line was not",
}
"""Exit statuses of the launch stub; they have this meaning for a shell too."""

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


def version_in(text: str) -> str | None:
    """The version number in what ``--version`` printed."""
    match = _VERSION.search(text)
    return match[0] if match else None


def likely(
    row: Engine, *, finding: ScreenFinding | None, status: int | None, listed: bool, version: str | None, lives: bool
) -> str:
    """The likely cause, and a warning about an untested version; empty if nothing explains the exit.

    ``finding``: what its screen shows; ``status``: the exit status of an ended program; ``listed``: whether the CLI
    has listed our server's tools; ``lives``: whether its process still runs.
    """
    if finding is not None:
        cause = WHY[finding.kind] + (f" ({finding.reason})" if finding.reason else "")
        if finding.until:
            cause += f", until {finding.until}"
    elif status in STATUSES:
        cause = STATUSES[status]
    elif not lives:
        cause = ""
    elif listed:
        cause = "it has our tools, but its model has not called wait_for_command"
    else:
        cause = "it has not asked our MCP server for tools, so it may still be starting, or it waits for a human"
    return "; ".join(filter(None, (cause, _version_warning(row.program, version, row.tested_versions))))


def _version_warning(program: str, version: str | None, tested: Sequence[str]) -> str:
    if version is None or not tested or version in tested:
        return ""
    return f"{program} {version} is not a version we have tested ({', '.join(tested)})"
