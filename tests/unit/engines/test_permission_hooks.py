"""What Claude Code and Codex ask through their hook, and what the hook prints for each decision."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.engines.permission_hooks import (
    DENIED,
    EVENT,
    PLACE_UNKNOWN,
    claude_request,
    codex_request,
    text_of,
)
from orchestrator.engines.rule_patterns import rule_pattern

QUESTIONS = [
    {
        "question": "Which one?",
        "header": "One",
        "multiSelect": False,
        "options": [{"label": "A", "description": "the first"}, {"label": "B"}],
    },
    {
        "question": "Which ones?",
        "header": "Several",
        "multiSelect": True,
        "options": [{"label": "X"}, {"label": "Y"}],
    },
]


def claude(tool="Bash", given=None, **facts):
    given = {"command": "touch a"} if given is None else given
    return claude_request(EVENT, {"tool_name": tool, "tool_input": given, "cwd": "/w", **facts})


def printed(request, decision, text=""):
    """What the hook prints decides; without a decision it prints an empty object."""
    output = request.output(decision, text)["output"]
    if not output:
        return None
    assert set(output) == {"hookSpecificOutput"}
    assert output["hookSpecificOutput"]["hookEventName"] == EVENT
    return output["hookSpecificOutput"]["decision"]


@pytest.mark.parametrize("request_of", [claude_request, codex_request])
def test_only_the_event_that_asks_is_a_request(request_of):
    assert request_of("Stop", {"tool_name": "Bash", "tool_input": {}}) is None
    assert request_of(EVENT, {}) is None
    assert request_of(EVENT, {"tool_name": 5, "tool_input": {}}) is None
    assert request_of(EVENT, {"tool_name": "Bash", "tool_input": {}}).asked.kind == "permission"


def test_only_claude_code_shows_its_dialog_meanwhile():
    asked = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert claude_request(EVENT, asked).dialog_meanwhile
    assert not codex_request(EVENT, asked).dialog_meanwhile


def test_the_whole_command_is_asked_for_and_every_other_argument():
    command = "make\n" * 200 + "rm -rf build TOKEN=abcdefgh12345678"
    asked = claude(given={"command": command, "run_in_background": True, "description": "Builds"}).asked
    assert asked.text == f"{command}\nrun_in_background: true\ndescription: Builds"
    assert (asked.tool, asked.cwd, asked.cut, asked.by) == ("Bash", "/w", False, "hook")
    assert asked.line.startswith("asks to use Bash: make")
    assert "abcdefgh12345678" not in asked.line
    assert "\n" not in asked.line


def test_the_text_shows_files_edits_patches_and_arguments():
    assert text_of({"file_path": "/x", "content": "a\nb"}) == "/x\ncontent:\na\nb"
    edit = {"file_path": "/x", "old_string": "a\nb", "new_string": "c", "replace_all": False}
    assert text_of(edit) == "/x\n- a\n- b\n+ c\nreplace_all: false"
    assert text_of({"file_path": "/x", "old_string": "", "new_string": "c"}) == "/x\n+ c"
    assert text_of({"query": "q", "limit": 5, "é": ["ü"]}) == 'q\nlimit: 5\né: ["ü"]'
    assert text_of({"command": ["ls", "-l"]}) == 'command: ["ls", "-l"]'
    assert text_of({}) == ""


@pytest.mark.parametrize("facts", [{"cut": True}, {"tool_input": None}, {"tool_input": "ls"}])
def test_a_request_that_is_not_whole_is_marked(facts):
    assert claude(**facts).asked.cut


@pytest.mark.parametrize("request_of", [claude_request, codex_request])
def test_an_approval_is_a_plain_allow_and_a_denial_has_a_reason(request_of):
    request = request_of(EVENT, {"tool_name": "Bash", "tool_input": {"command": "ls"}})
    assert printed(request, "approve") == printed(request, "always") == {"behavior": "allow"}
    assert printed(request, "deny", " not here ") == {"behavior": "deny", "message": "not here"}
    assert printed(request, "deny") == {"behavior": "deny", "message": DENIED}
    assert printed(request, "release") is None
    assert printed(request, "dismiss") is None


def test_a_plan_is_approved_together_with_its_text():
    request = claude("ExitPlanMode", {"plan": "1. build"})
    assert request.asked.text == "1. build"
    assert printed(request, "approve") == {"behavior": "allow", "updatedInput": {"plan": "1. build"}}
    assert printed(request, "deny")["behavior"] == "deny"
    assert not request.asked.cut and claude("ExitPlanMode", {}).asked.cut


def test_a_subagent_of_claude_code_is_told_from_the_main_conversation():
    asked = claude(agent_id="a5")
    assert (claude().subagent, asked.subagent, asked.dialog_meanwhile) == ("", "a5", False)


def test_questions_are_answered_with_the_labels_beside_the_questions_as_received():
    given = {"questions": QUESTIONS, "metadata": {"source": "x"}}
    request = claude("AskUserQuestion", given)
    assert request.asked.kind == "question"
    assert [one["multi"] for one in request.asked.questions] == [False, True]
    assert request.asked.questions[0]["options"][0] == {"label": "A", "description": "the first"}
    assert "1: Which one?\n  1 A: the first\n  2 B\n2: Which ones? (several)" in request.asked.text
    answers = {"Which one?": "B", "Which ones?": "X, Y"}
    assert printed(request, "answer", "b\n2, 1") == {
        "behavior": "allow",
        "updatedInput": {**given, "answers": answers},
    }
    with pytest.raises(BadRequest) as error:
        request.output("answer", "B")
    assert error.value.code == "cannot_answer"


@pytest.mark.parametrize(
    ("header", "placed"),
    [
        ("*** Update File: /w/a", True),
        ("*** Update File: a", False),
        ("*** Add File: /w/a\n*** Move to: ../b", False),
        ("  *** Delete File: a", False),
    ],
)
def test_a_patch_of_codex_with_relative_paths_says_that_its_directory_is_not_known(header, placed):
    """Codex tells the directory of its session, also of a patch in a shell command of another directory."""
    patch = f"*** Begin Patch\n{header}\n@@\n-x\n+y\n*** End Patch"
    event = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "cwd": "/w"}
    asked = codex_request(EVENT, event).asked
    assert (asked.cwd, asked.text) == (("/w", patch) if placed else ("", f"{patch}\n{PLACE_UNKNOWN}"))
    assert (rule_pattern(asked) is not None) is placed
