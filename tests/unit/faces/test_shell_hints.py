"""Next steps on the command line name commands, and only commands there are."""

import pytest

from orchestrator.base.errors import CODES
from orchestrator.faces import shell_hints
from tools import docs

TOOLS = {**docs.master(), **docs.squad(), **docs.smartspawn(), **docs.gsd()}


def test_every_tool_has_a_command():
    assert set(TOOLS) - set(shell_hints.COMMANDS) == set()


def test_every_command_exists():
    paths = {" ".join(("orchestrator", *path)) for path, _ in docs.commands()}
    named = {command.removesuffix(" --artifact") for command in shell_hints.COMMANDS.values()}
    assert named - paths - {"orchestrator -C DIR"} == set()


ONLY_A_CLIENT = ("schema", "tools/", "resources/", "emit_event", "wait_for_command", "task_id", "confirm", "your CLI")


@pytest.mark.parametrize("code", CODES)
def test_no_next_step_in_the_shell_names_what_only_a_client_has(code):
    step = shell_hints.in_the_shell(CODES[code][2], code)
    assert [word for word in (*TOOLS, *ONLY_A_CLIENT) if word in step] == []


@pytest.mark.parametrize("code", CODES)
def test_no_next_step_only_sends_back_to_the_message(code):
    assert "see the message" not in CODES[code][2]


def test_a_step_that_an_error_brings_itself_is_kept():
    assert shell_hints.in_the_shell("give an existing directory", "bad_argument") == "give an existing directory"
    assert shell_hints.in_the_shell(CODES["task_exists"][2], "task_exists") == shell_hints.STEPS["task_exists"]


def test_a_longer_name_is_not_taken_for_a_shorter_one():
    assert (
        shell_hints.in_the_shell("agent_list(scope='all') shows every run")
        == "orchestrator agent list shows every run"
    )
    for other in ("see my_agent_list", "agent_lists", "a/agent_list", "agent_list/a"):
        assert shell_hints.in_the_shell(other) == other
