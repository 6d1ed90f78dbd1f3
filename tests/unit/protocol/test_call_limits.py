"""How long a call may wait: what clients are known to allow, what a relay was told, what the user has set."""

import pytest

from orchestrator.config.keys import env_name
from orchestrator.config.sources import load
from orchestrator.core.connection import ConnectionOrigin
from orchestrator.engines.table import ENGINES, call_limit_s
from orchestrator.protocol.call_limits import answer_by_s
from orchestrator.protocol.tool_calls import Client
from orchestrator.team.tools import poll_cap_s


def client(name, told=None):
    return Client(ConnectionOrigin("c", "/"), "relay", "master", ("team",), name=name, call_limit_s=told)


@pytest.mark.parametrize(
    ("name", "limit", "answered"),
    [
        ("opencode", 60, 45), ("claude-code", 120, 105), ("codex-mcp-client", 300, 285),
        ("gemini-cli-mcp-client", 600, 585),
    ],
)  # fmt: skip
def test_a_known_client_is_answered_fifteen_seconds_below_its_limit(name, limit, answered):
    assert call_limit_s(name) == limit
    assert answer_by_s(client(name)) == answered


@pytest.mark.parametrize("name", ["", "orchestrator-cli", "somebody"])
def test_nothing_is_known_of_other_clients_and_of_the_command_line(name):
    assert call_limit_s(name) is None
    assert answer_by_s(client(name)) is None


def test_no_client_is_claimed_by_two_rows():
    names = [name for row in ENGINES.values() for name in row.clients]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["opencode", "gemini-cli-mcp-client", "somebody"])
@pytest.mark.parametrize(("told", "answered"), [(86_400, 86_385), (600, 585), (90, 75), (20, 10), (1, 0.5)])
def test_the_limit_that_a_relay_was_told_wins_and_leaves_half_where_it_is_short(name, told, answered):
    assert answer_by_s(client(name, told)) == answered


@pytest.mark.parametrize(
    ("name", "told", "config", "cap_s"),
    [
        ("somebody", None, {}, 45),
        ("opencode", None, {}, 45),
        ("claude-code", None, {}, 105),
        ("opencode", 600, {}, 585),
        ("somebody", 30, {}, 15),
        ("somebody", None, {"poll_cap_ms": 5000}, 5),
        ("claude-code", None, {"poll_cap_ms": 5000}, 5),
        ("claude-code", None, {"poll_cap_ms": 45_000}, 45),
        ("claude-code", None, {"poll_cap_ms": 600_000}, 105),
        ("somebody", None, {"poll_cap_ms": 600_000}, 600),
    ],
)
def test_a_poll_lasts_as_long_as_the_client_allows_unless_the_user_has_set_a_cap(name, told, config, cap_s, tmp_path):
    env = {env_name(key): str(value) for key, value in config.items()}
    settings = load(tmp_path, env, {}, tmp_path).config
    assert poll_cap_s(settings, client(name, told)) == cap_s
