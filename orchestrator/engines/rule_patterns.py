"""The pattern of a rule of `approve --always`: exactly the command, files or call that the human saw. Pure.

Two requests have the same pattern only if the second shows a human nothing that the first did not show. If this is
not certain, the request has no pattern: it is asked each time.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.engines.permission_requests import Asked

COMMAND_TOOLS = frozenset({"Bash", "bash", "run_shell_command"})
EDIT_TOOLS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "write_file": "file_path",
    "replace": "file_path",
    "edit": "filepath",
}
"""Tools that change one file -> the argument that names it."""
PATCH_TOOL = "apply_patch"
_WORDS_ABOUT = frozenset({"description"})
"""Arguments in which a model says what a command is for: they change nothing."""
_TEXT_MAX = 100_000


@dataclass(frozen=True)
class RulePattern:
    """``exact``: equal for requests of one pattern, and for no others. ``text``: how the rule is listed, unmasked.

    ``paths``: what it names, absolute; a rule counts only while they lead to the same places.
    """

    kind: Literal["command", "edit", "call"]
    exact: str
    text: str
    paths: tuple[str, ...] = ()


def rule_pattern(asked: Asked) -> RulePattern | None:
    """The pattern of a permission that a CLI asks for; None if no rule can be made of it.

    A command counts in its directory only, a file for each change of it, anything else with exactly its arguments.
    """
    if asked.kind != "permission" or asked.cut or len(asked.text) > _TEXT_MAX or not _plain(asked.text):
        return None
    if not posixpath.isabs(asked.cwd):
        return None
    given = asked.tool_input
    if asked.tool in COMMAND_TOOLS:
        return _command(asked, given)
    if asked.tool in EDIT_TOOLS:
        path = given.get(EDIT_TOOLS[asked.tool])
        return _edit(asked, [path]) if isinstance(path, str) and not _removes(given) else None
    if asked.tool == PATCH_TOOL:
        patch = given.get("command")
        return _edit(asked, list(_patched(patch))) if isinstance(patch, str) else None
    exact = _json(["call", asked.tool, asked.cwd, given, asked.text])
    return None if exact is None else RulePattern("call", exact, f"{asked.tool}: {asked.text}", (asked.cwd,))


def _command(asked: Asked, given: Mapping[str, Any]) -> RulePattern | None:
    command = given.get("command")
    if not isinstance(command, str) or not command.strip() or command not in asked.text:
        return None
    exact = _json(["command", asked.cwd, {name: value for name, value in given.items() if name not in _WORDS_ABOUT}])
    return None if exact is None else RulePattern("command", exact, command, (asked.cwd,))


def _edit(asked: Asked, names: list[str | None]) -> RulePattern | None:
    """Each change of exactly these files; None if one of them is not known to be only changed."""
    if not names or not all(name and name.strip() == name and name in asked.text for name in names):
        return None
    if any(str(name).startswith("~") for name in names):
        return None  # a file of that name to one CLI, one in the home directory to another
    paths = tuple(sorted({posixpath.join(asked.cwd, str(name)) for name in names}))
    return RulePattern("edit", json.dumps(["edit", *paths]), ", ".join(paths), paths)


def _removes(given: Mapping[str, Any]) -> bool:
    """Whether a change may do more than change this file: it removes it, or there are several."""
    diff = given.get("diff")
    if not isinstance(diff, str):
        return "files" in given
    files = [line for line in diff.split("\n") if line.startswith("+++ ")]
    return "files" in given or len(files) > 1 or "+++ /dev/null" in files or " +0,0 @@" in diff


_CHANGES = ("*** Add File: ", "*** Update File: ")
_MORE = ("*** Delete File:", "*** Move to:")


def _patched(patch: str) -> Iterator[str | None]:
    """The files that a patch changes; None for each that it removes or moves."""
    for line in patch.split("\n"):
        if line.lstrip().startswith(_MORE):
            yield None
        elif line.startswith(_CHANGES):
            yield line.partition(": ")[2]
        elif line.lstrip().startswith(_CHANGES):
            yield None  # one CLI may take it for a header, another for content


def _plain(text: str) -> bool:
    """Whether a human sees all of the text: nothing in it hides or changes the direction of writing."""
    return all(char.isprintable() or char in "\n\t" for char in text)


def _json(value: Any) -> str | None:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
