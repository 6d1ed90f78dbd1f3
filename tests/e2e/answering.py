"""What tests of answers to real CLIs share: a human's commands and keys, the hook that waits, an item that is over."""

from __future__ import annotations

import contextlib
import re

import pytest

from orchestrator.base.errors import OrchestratorError
from tests.e2e.world import START_S
from tests.support.stage import until


def told(agent, task_id):
    """What the calls of a task came back with, as text."""
    return str(agent.end(task_id)["payload"]["told"])


def hook_of(agent):
    """The process of the hook that waits; a shell around it is not meant."""

    def found():
        commands = {pid: words.split() for pid, words in agent.world.stage.processes().items() if "/hook.py" in words}
        return next((pid for pid, words in commands.items() if words[1] == "-IS"), None)

    return until(found, START_S)


def says(agent, *words):
    """What a human types in a shell: a command of ours that must do what it says."""
    done = agent.world.orchestrator(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def press_in(agent, asked, key="Enter"):
    """Answer the dialog in the pane, which takes no key in its first moments; ``asked`` is what only it shows."""
    agent.terminal.shows(asked)

    def gone():
        return not re.search(asked, agent.terminal.text(), re.MULTILINE)

    def pressed():
        # A second key right behind the first would answer the next dialog.
        agent.terminal.press(key)
        with contextlib.suppress(AssertionError):
            until(gone, 20.0)
        return gone()

    until(pressed, START_S)


def is_over(face, item):
    """An answer to this item is refused."""
    until(lambda: item["id"] not in [each["id"] for each in face.inbox()], START_S)
    with pytest.raises(OrchestratorError) as error:
        face.answer(item, "approve")
    return error.value.code == "item_over"
