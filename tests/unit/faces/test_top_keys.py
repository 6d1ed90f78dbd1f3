"""The keys of top: every action has one, and a user's settings are checked at the start."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.faces.top.agent_actions import AgentActions
from orchestrator.faces.top.key_bindings import ACTIONS, bindings_for, key_label, keys_of
from orchestrator.faces.top.team_screen import TAB_OF, TeamScreen


def test_every_action_has_a_key_and_something_that_it_does():
    bindings = bindings_for({})
    for action in ACTIONS:
        assert keys_of(action.name, bindings)
        assert action.name in TAB_OF or callable(getattr(TeamScreen, f"do_{action.name}"))
    assert issubclass(TeamScreen, AgentActions)


def test_no_two_actions_have_the_same_key():
    keys = [key for action in ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys))


def test_a_user_gives_an_action_another_key():
    bindings = bindings_for({"approve": "y ctrl+y"})
    assert keys_of("approve", bindings) == ["y", "Ctrl-Y"]
    assert "a" not in bindings


def test_a_key_that_is_given_to_another_action_leaves_its_own():
    bindings = bindings_for({"approve": "k"})
    assert bindings["k"].name == "approve"
    assert bindings["up"].name == "up"


@pytest.mark.parametrize(
    "keys",
    [
        {"never": "y"},
        {"approve": ""},
        {"approve": "nosuchkey"},
        {"approve": "super+x"},
        {"approve": "y", "deny": "y"},
        {"approve": "d"},  # deny has no other key
    ],
)
def test_settings_that_cannot_be_kept_are_refused(keys):
    with pytest.raises(BadRequest) as caught:
        bindings_for(keys)
    assert caught.value.code == "bad_config"


def test_keys_are_written_as_people_read_them():
    assert [key_label(key) for key in ("question_mark", "enter", "ctrl+d", "shift+tab", "G")] == [
        "?", "⏎", "Ctrl-D", "Shift-Tab", "G",
    ]  # fmt: skip
