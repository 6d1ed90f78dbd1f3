"""The variables of spawn runs: what they mean, their limits, and that a wrong one is named."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.base.errors import BadRequest
from orchestrator.spawn import home_location, run_settings
from orchestrator.spawn.run_data import RunSettings


def refused(call, env):
    with pytest.raises(BadRequest) as found:
        call(env)
    assert found.value.code == "bad_config"
    return found.value


def test_without_variables_the_defaults_of_the_design_hold():
    found = run_settings.read({})
    assert found == RunSettings()
    assert (found.max_parallel_runs, found.max_parallel_nodes, found.max_usd) == (2, 4, Decimal(5))
    assert (found.node_timeout_s, found.run_timeout_s, found.planner_url) == (
        180,
        1800,
        "https://ss.deeflect.com/api",
    )
    assert run_settings.read({"MAX_PARALLEL_RUNS": " ", "OPENROUTER_BASE_URL": ""}) == found


def test_every_variable_is_read():
    env = {
        "MAX_PARALLEL_RUNS": "3", "MAX_PARALLEL_NODES_PER_RUN": "100", "MAX_USD_PER_RUN": "0.25",
        "NODE_TIMEOUT_SECONDS": "1.5", "RUN_TIMEOUT_SECONDS": "60", "MAX_PROMPT_CHARS": "1000",
        "MAX_COMPLETION_TOKENS": "9", "MODEL_ALLOWLIST": "openai/*, anthropic/claude-*\nx/y",
        "MODEL_DENYLIST": "*:free", "CASCADE_EVALUATOR_MODEL": "a/b", "REDACT_ARTIFACTS": "Yes",
        "OPENROUTER_BASE_URL": "http://127.0.0.1:8080/v1/", "SMART_SPAWN_API_URL": "OFF",
    }  # fmt: skip
    assert run_settings.read(env) == RunSettings(
        base_url="http://127.0.0.1:8080/v1", planner_url="", max_parallel_runs=3, max_parallel_nodes=100,
        max_usd=Decimal("0.25"), node_timeout_s=1.5, run_timeout_s=60, max_prompt_chars=1000, max_completion_tokens=9,
        allow=("openai/*", "anthropic/claude-*", "x/y"), deny=("*:free",), evaluator="a/b", redact=True,
    )  # fmt: skip


NUMBERS = ["0", "-1", "x", "1e3", "nan", "inf", "Infinity", "٣", "+1", "0x1", "1_0", "9" * 5000, "1 2", "NaN", "."]
WRONG = {
    "MAX_PARALLEL_RUNS": [*NUMBERS, "101", "1.5"],
    "MAX_PARALLEL_NODES_PER_RUN": [*NUMBERS, "101"],
    "MAX_USD_PER_RUN": [*NUMBERS, "10000.01", "0.0"],
    "NODE_TIMEOUT_SECONDS": [*NUMBERS, "604801"],
    "RUN_TIMEOUT_SECONDS": [*NUMBERS],
    "MAX_PROMPT_CHARS": [*NUMBERS, "99999999999"],
    "MAX_COMPLETION_TOKENS": [*NUMBERS],
    "MODEL_ALLOWLIST": [",", "a\x01"],
    "MODEL_DENYLIST": [" , ,"],
    "CASCADE_EVALUATOR_MODEL": ["a b", "a\x07"],
    "REDACT_ARTIFACTS": ["maybe", "2"],
    "OPENROUTER_BASE_URL": [
        "off", "openrouter.ai", "ftp://x/y", "http://example.com/v1", "http://127.0.0.1.example.com", "https://", "https:///x",
        "https://user:secret@x/y", "https://secret@x", "https://x/?a=b", "https://x/#f", "https://x:99999/", "https://x\\y",
        "https://a b", "https://[::1", "https://é.example", "http://localhost.example/", "https:/\nx",
    ],
    "SMART_SPAWN_API_URL": ["http://10.0.0.1/api", "none", "https://joe:secret@x"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_refused_and_its_variable_named(name, value):
    error = refused(run_settings.read, {name: value})
    assert error.facts["variable"] == name
    assert name in error.message
    assert "secret" not in str(error.as_dict())
    assert len(str(error.as_dict())) < 1000


@pytest.mark.parametrize(
    "url", ["http://localhost:1/x", "http://[::1]:80", "http://127.1.2.3", "https://example.com/api/v1"]
)
def test_plain_http_is_for_this_machine_alone(url):
    assert run_settings.read({"OPENROUTER_BASE_URL": url}).base_url == url
    assert run_settings.read({"SMART_SPAWN_API_URL": url}).planner_url == url


@given(
    st.builds(
        RunSettings,
        max_usd=st.decimals(0, 10_000, allow_nan=False),
        node_timeout_s=st.floats(0.1, 1e6),
        redact=st.booleans(),
    )
)
def test_frozen_settings_are_read_as_they_were_written(held):
    text = held.model_dump_json()
    assert RunSettings.model_validate_json(text) == held
    assert f'"max_usd":"{held.max_usd}"' in text


def test_the_home_is_the_users_wherever_a_cli_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert home_location.home_of({"HOME": "/h"}) == Path("/h/.smart-spawn-mcp")
    assert home_location.home_of({}) == Path.home() / ".smart-spawn-mcp"
    name = "SMART_SPAWN_MCP_HOME"
    assert home_location.home_of({name: "~/x", "HOME": "/h"}) == Path("/h/x")
    assert home_location.home_of({name: " /a/b "}) == Path("/a/b")
    for value in ("x", "./x", "../x", "~joe/x", "/a\0b"):
        assert refused(home_location.home_of, {name: value}).facts["variable"] == name


def test_a_daemon_without_spawn_runs_loads_nothing_that_executes_them():
    code = "import sys; import orchestrator.daemon.process; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    ours = {name.removeprefix("orchestrator.spawn.") for name in done.stdout.split() if ".spawn." in name}
    assert ours == {"wiring", "ddl", "database_opening", "event_resource", "home_location", "run_seals"}
