"""Next steps on the command line name commands, and only commands there are."""

import pytest

from orchestrator.base.errors import CODES
from orchestrator.cli import shell_hints
from tools import docs

TOOLS = {**docs.master(), **docs.squad(), **docs.smartspawn(), **docs.gsd()}


def test_every_tool_has_a_command():
    assert set(TOOLS) - set(shell_hints.COMMANDS) == set()


def test_every_command_exists():
    paths = {" ".join(("orchestrator", *path)) for path, _ in docs.commands()}
    named = {command.removesuffix(" --artifact") for command in shell_hints.COMMANDS.values()}
    assert named - paths - {"orchestrator -C DIR"} == set()


@pytest.mark.parametrize("code", CODES)
def test_no_next_step_names_a_tool_in_the_shell(code):
    step = shell_hints.in_the_shell(CODES[code][2])
    assert [tool for tool in TOOLS if tool in step] == []


def test_a_longer_name_is_not_taken_for_a_shorter_one():
    assert (
        shell_hints.in_the_shell("agent_list(scope='all') shows every run")
        == "orchestrator agent list shows every run"
    )
    for other in ("see my_agent_list", "agent_lists", "a/agent_list", "agent_list/a"):
        assert shell_hints.in_the_shell(other) == other
