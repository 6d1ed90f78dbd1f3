"""What a question of each CLI is about, from events as the real CLIs send them."""

import json

import pytest

from orchestrator.engines.permission_questions import asked

LONG = "sed -n 1,80p " + "/home/ada/project/src/some/long/path.py " * 20
PATCH = "*** Begin Patch\n*** Add File: /home/ada/x.txt\n+hello\n*** End Patch"
QUESTIONS = [{"question": "Which one?", "header": "Choice", "options": [{"label": "A"}, {"label": "B"}]}]


def hook(tool, given):
    return {"tool_name": tool, "tool_input": given}


def notice(**details):
    return {"notification_type": "ToolPermission", "message": "Tool x requires execution", "details": details}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # Claude Code
        (hook("Bash", {"command": "touch a && echo one", "description": "x"}), "asks to use Bash: touch a && echo one"),
        (hook("Write", {"file_path": "/p/new.txt", "content": "x\n"}), "asks to use Write: /p/new.txt"),
        (hook("Edit", {"old_string": "a", "new_string": "b", "file_path": "/p/a"}), "asks to use Edit: /p/a"),
        (hook("WebFetch", {"url": "https://ada:pw12@x.example/a", "prompt": "p"}), "asks to use WebFetch: https://ada:…@x.example/a"),
        (hook("mcp__db__query", {"table": "t", "limit": 3, "all": True}), "asks to use mcp__db__query: table: t, limit: 3, all: true"),
        (hook("mcp__db__login", {"user": "ada", "password": "hunter2"}), "asks to use mcp__db__login: user: ada, password: …"),
        (hook("Bash", {"command": "cat <<EOF\n  a\nEOF"}), "asks to use Bash: cat <<EOF ⏎ a ⏎ EOF"),
        (hook("Bash", {}), "asks to use Bash"),
        (hook("Bash", "no object"), "asks to use Bash"),
        (hook("ExitPlanMode", {"plan": "1. Do it\n2. Test it"}), "asks to use ExitPlanMode: 1. Do it ⏎ 2. Test it"),
        # Codex
        (hook("apply_patch", {"command": PATCH}), "asks to use apply_patch: add /home/ada/x.txt"),
        (hook("apply_patch", {"command": PATCH + "\n*** Delete File: /y"}), "asks to use apply_patch: add /home/ada/x.txt and 1 more"),
        (hook("shell", {"command": ["bash", "-lc", "ls"]}), "asks to use shell: bash -lc ls"),
        # opencode
        (hook("edit", {"path": "src/a.py"}), "asks to use edit: src/a.py"),
        # Gemini CLI
        (notice(type="exec", title="Confirm Shell Command", command="rm -rf x", rootCommand="rm"), "asks to use Shell: rm -rf x"),
        (notice(type="edit", title="Confirm Write: a", fileName="a", filePath="/p/a", fileDiff="-"), "asks to use Edit: /p/a"),
        (notice(type="mcp", title="Confirm MCP", serverName="db", toolName="drop"), "asks to use drop of the MCP server db"),
        (notice(type="info", title="Confirm Web Fetch", prompt="p", urls=["https://x.example"]), 'asks to use WebFetch: ["https://x.example"]'),
        (notice(type="new", title="Something new"), "asks to use Something new"),
    ],
)  # fmt: skip
def test_a_permission_names_the_tool_and_what_it_is_to_do(data, reason):
    found = asked(data)
    assert (found.kind, found.reason) == ("permission", reason)


@pytest.mark.parametrize("questions", [QUESTIONS, json.dumps(QUESTIONS), json.dumps(QUESTIONS)[:40]])
def test_a_question_is_a_dialog(questions):
    found = asked(hook("AskUserQuestion", {"questions": questions}))
    assert (found.kind, found.reason) == ("dialog", "asks a question: Which one?")


@pytest.mark.parametrize(
    "data", [{}, {"message": "needs your permission"}, {"details": "x"}, {"tool_name": 3}, hook("", {})]
)
def test_an_event_without_a_tool_asks_nothing_exact(data):  # fmt: skip
    assert asked(data) is None


def test_a_long_command_is_cut_and_invisible_characters_are_shown():
    reason = asked(hook("Bash", {"command": LONG})).reason
    assert len(reason) <= len("asks to use Bash: ") + 200 and reason.endswith("…")
    assert asked(hook("Bash", {"command": "a\u202eb"})).reason == "asks to use Bash: a\\u202eb"
    assert "\n" not in asked(hook("Ba\nsh", {"command": ["a", 1]})).reason
