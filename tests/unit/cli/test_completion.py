"""What Tab offers: living agents by name, engines and CLIs, without a daemon and never a shell's own characters."""

import json

import pytest

from orchestrator.cli import completion
from orchestrator.engines.table import ENGINES, SETUPS


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """Writes agents' meta files into a project without a daemon."""
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(tmp_path))
    home = tmp_path / ".agents" / "agents"

    def write(agent_id, name=None, status="idle", text=None):
        (home / agent_id).mkdir(parents=True)
        meta = {"agent_id": agent_id, "name": name or agent_id, "status": status, "created_at": None}
        (home / agent_id / "meta.json").write_text(json.dumps(meta) if text is None else text)

    return write


def test_only_living_agents_are_offered_by_name_where_it_is_theirs_alone(agents):
    for number in range(2, 106):
        agents(f"w-{number}", "w", status="deleted")
    agents("w", status="deleted")
    agents("w-106", "w")
    agents("b-2", "b")
    agents("b-3", "b", status="failed")
    assert completion.agents("") == ["b-2", "b-3", "w"]
    assert completion.agents("b") == ["b-2", "b-3"]
    assert completion.agents("w-1") == ["w-106"], "an id that was begun is completed"
    assert completion.agents("x") == []


def test_what_a_shell_would_act_on_is_never_offered(agents):
    agents("a", "$(reboot)")
    agents("b", "two words")
    agents("c", "Prüfer")
    agents("$(reboot)")
    agents("d", text="{")
    agents("e", text="[]")
    assert completion.agents("") == ["Prüfer", "a", "b"]


def test_without_a_team_nothing_is_offered_and_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_PROJECT", str(tmp_path))
    assert completion.agents("") == []
    assert list(tmp_path.iterdir()) == []


def test_engines_and_clis_are_offered():
    assert completion.engines("") == list(ENGINES)
    assert completion.engines("cl") == ["claude"]
    assert completion.clis("") == [*SETUPS, "tmux"]
