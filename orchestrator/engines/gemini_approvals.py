"""How a human decides a tool call of Gemini CLI from outside its pane: by its hook `BeforeTool` and a policy. Pure.

The hook runs before the CLI decides whether to ask. Its empty answer changes nothing: the CLI asks as before, or does
not. A call that a human approves gets a mark into its arguments, and a policy of the agent's own home allows calls
with the mark. So a hook or daemon that is killed, hooks that are switched off and an untrusted folder all lead to the
CLI's own dialog. The CLI does not say which calls it would ask about; `asking_tools` leaves out what the user's own
settings and policies may decide, and `request` what the CLI knows as harmless.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from orchestrator.core.inbox_items import ItemDecision
from orchestrator.engines import permission_hooks, permission_questions
from orchestrator.engines.gemini_screen import EDIT
from orchestrator.engines.permission_requests import LAUNCH_SECRET, Asked, PermissionRequest

EVENT = "BeforeTool"
POLICY = "approvals.toml"
"""The file of our policy in the agent's engine directory."""
LIMIT_MS = 86_400_000
"""How long the CLI lets the hook wait; the daemon releases it much earlier."""
HOOK_NAME = "waiting for your answer in orchestrator"
"""The hook's name, which the CLI shows while the hook waits."""
RULE = (
    "If the result of a tool call ends with the note that its input was modified by a hook, your user has approved "
    "that call: it ran exactly as you wrote it."
)
"""A rule of agents: the CLI tells the model of the mark, but not what it is."""

SHELL = "run_shell_command"
TITLES = {SHELL: "Shell", "write_file": "WriteFile", "replace": "Edit", "web_fetch": "WebFetch"}
"""The tools that are decided here, with the names that the CLI's dialogs give them."""
_MARK_KEY = "orchestrator_approval"
_OTHER_NAMES = {"ShellTool": SHELL, "WriteFileTool": "write_file", "EditTool": "replace", "WebFetchTool": "web_fetch"}
_NAMED_IN = ("allowed", "core", "exclude", "confirmationRequired")
_ONCE_NAMED_IN = ("allowedTools", "coreTools", "excludeTools")
_EDIT_MODE = "autoEdit"
_MODES = ("default", _EDIT_MODE)
_WORD = re.compile(r"[^\s;&|()<>`$\"']+")
# What Gemini CLI 0.61 runs unasked while it stays in the project: its isSafeToCallWithExec, and what that checks more
# closely. A command of several parts is asked about in any case.
_HARMLESS = frozenset((
    "cat", "cd", "cut", "echo", "expr", "false", "grep", "head", "id", "ls", "nl", "paste", "pwd", "rev", "seq",
    "stat", "tail", "tr", "true", "uname", "uniq", "wc", "which", "whoami", "numfmt", "tac", "base64", "find", "rg",
    "ripgrep",
))  # fmt: skip
_HARMLESS_WITH = {"git": frozenset(["status", "log", "diff", "show", "branch"]), "sed": frozenset(("-n",))}
_SEVERAL = re.compile(r"[;&|\n`]|\$\(")


def approval_mark(secret: str) -> str:
    """The mark of the calls that a human has approved in the launch with this secret."""
    return hashlib.sha256(f"gemini approval {secret}".encode()).hexdigest()[:32]


def policy(secret: str) -> str:
    """The policy that allows the marked calls, and no other; the weakest of the user's level."""
    return (
        "# Calls that a human has approved through orchestrator have this mark in their arguments.\n"
        "[[rule]]\n"
        f"toolName = {json.dumps(list(TITLES))}\n"
        f'argsPattern = "{approval_mark(secret)}"\n'
        'decision = "allow"\n'
        "allowRedirection = true\n"
        "priority = 0\n"
        f"modes = {json.dumps(list(_MODES))}\n"
    )


def hook_group(tools: Sequence[str], hook: Mapping[str, Any]) -> dict[str, Any]:
    """The group of hooks of the event, for these tools alone."""
    return {"matcher": f"^({'|'.join(tools)})$", "hooks": [{**hook, "name": HOOK_NAME}]}


# -- what the CLI would ask about ----------------------------------------------------------------------------------


def asking_tools(approval: str, layers: Sequence[Mapping[str, Any]], policies: Sequence[str]) -> tuple[str, ...]:
    """The tools that the CLI asks about as far as its user's configuration says, which may be none.

    ``layers``: the settings of user, project and system, the strongest last; ``policies``: the texts of the user's
    and the system's policies. A tool that any of them names is left to the CLI, whatever they say of it.
    """
    mode = {"edits": "auto_edit", "all": "yolo"}.get(approval) or _mode(layers)
    asked = {"default": tuple(TITLES), "auto_edit": (SHELL,)}.get(mode, ())
    if any(layer.get("policyPaths") or layer.get("adminPolicyPaths") for layer in layers):
        return ()  # policies that nobody has read
    named = {_OTHER_NAMES.get(name, name) for layer in layers for name in _named(layer)}
    try:
        rules = [rule for text in policies for rule in _rules(text)]
    except ValueError:
        return ()
    return tuple(tool for tool in asked if tool not in named and not any(_names(rule, tool) for rule in rules))


def _mode(layers: Sequence[Mapping[str, Any]]) -> str:
    modes = [
        mode
        for layer in layers
        for table, key in (("tools", "approvalMode"), ("general", "defaultApprovalMode"))
        if isinstance(layer.get(table), dict) and isinstance(mode := layer[table].get(key), str)
    ]
    return modes[-1] if modes else "default"


def _named(layer: Mapping[str, Any]) -> list[str]:
    tools = layer.get("tools")
    lists = [tools.get(key) for key in _NAMED_IN] if isinstance(tools, dict) else []
    lists += [layer.get(key) for key in _ONCE_NAMED_IN]
    return [str(name).partition("(")[0] for names in lists if isinstance(names, list) for name in names]


def _rules(text: str) -> list[dict[str, Any]]:
    """The rules of a policy; ValueError if they cannot be read."""
    content = tomllib.loads(text)
    known = [content.get(kind, []) for kind in ("rule", "safety_checker")]
    if not all(isinstance(rules, list) and all(isinstance(rule, dict) for rule in rules) for rules in known):
        raise ValueError("not a policy")
    return [rule for rules in known for rule in rules]


def _names(rule: Mapping[str, Any], tool: str) -> bool:
    if "mcpName" in rule:
        return False
    if "commandPrefix" in rule or "commandRegex" in rule:
        return tool == SHELL
    names = rule.get("toolName", "*")
    return any(fnmatchcase(tool, str(name)) for name in (names if isinstance(names, list) else [names]))


# -- one call -----------------------------------------------------------------------------------------------------


def request(event: str, data: Mapping[str, Any]) -> PermissionRequest | None:
    """What a call of a tool asks; None if the CLI decides it alone."""
    tool, given = data.get("tool_name"), data.get("tool_input")
    if event != EVENT or tool not in TITLES or not isinstance(given, dict) or data.get("cut"):
        return None
    mark = approval_mark(str(data.get(LAUNCH_SECRET) or ""))
    command = str(given.get("command") or "")
    line = permission_questions.asked({"tool_name": TITLES[tool], "tool_input": given})
    asked = Asked(
        kind="permission",
        tool=tool,
        text=permission_hooks.text_of(given),
        line=line.reason if line is not None else f"asks to use {TITLES[tool]}",
        tool_input=given,
        cwd=str(data.get("cwd") or ""),
    )
    if mark in json.dumps(given):
        forged = {"output": _denied("This call has the mark of approved calls, which no call may have by itself.")}
        return PermissionRequest(asked, lambda _decision, _text: forged, False, refused=True)
    if tool == SHELL and _is_harmless(command):
        return None
    return PermissionRequest(asked, _output(tool, given, mark), False, dialog_covers=_covered(tool, command))


def _output(tool: str, given: Mapping[str, Any], mark: str) -> Callable[[ItemDecision, str], dict[str, Any]]:
    def output(decision: ItemDecision, text: str) -> dict[str, Any]:
        if decision in ("approve", "always"):
            return {"output": {"decision": "allow", "hookSpecificOutput": {"tool_input": marked(tool, given, mark)}}}
        if decision == "deny":
            return {"output": _denied(text.strip() or permission_hooks.DENIED)}
        return {"output": {}}

    return output


def _denied(reason: str) -> dict[str, Any]:
    return {"decision": "deny", "reason": reason}


def marked(tool: str, given: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """The call's arguments with the mark.

    The parts of a shell command are judged one by one, each with nothing of the call but its directory. There a name
    followed by ``..`` changes nothing: the CLI takes it away before it looks for the directory.
    """
    if tool == SHELL:
        return {**given, "dir_path": f"{given.get('dir_path') or '.'}/{mark}/.."}
    return {**given, _MARK_KEY: mark}


def _is_harmless(command: str) -> bool:
    """Whether the command may be such that the CLI runs it unasked."""
    words = _WORD.findall(command)
    if not words or _SEVERAL.search(command.strip()):
        return False
    program = words[0].rpartition("/")[2]
    return program in _HARMLESS or bool(_HARMLESS_WITH.get(program, frozenset()) & set(words))


def _covered(tool: str, command: str) -> frozenset[str]:
    """What an "always" in the CLI's own dialog about this call would cover: programs, all edits, or all pages."""
    if tool == SHELL:
        starts = (_WORD.search(part) for part in re.split(r"[;&|\n`(){}]+", command))
        return frozenset(match[0] for match in starts if match is not None) or frozenset((SHELL,))
    return frozenset((EDIT if tool in ("write_file", "replace") else tool,))
