"""What `orchestrator setup` writes is what the real CLIs read: each one connects, and forgets us after --uninstall."""

import json
import re
from pathlib import Path

import pytest

from orchestrator.engines.table import SETUPS
from orchestrator.setup import config_locations, jsonc
from tests.e2e.models.turn import KINDS
from tests.e2e.world import LEAD, START_S
from tests.support.stage import until

CONNECTED = {
    "gemini": r"✓ orchestrator: .* Connected",
    "claude": r"orchestrator: .*✔ Connected",
    "codex": r"^orchestrator +\S+python\S* +-P -m orchestrator mcp .*enabled",
    "opencode": r"✓ orchestrator",
}


def listed(world, kind):
    done = world.run(kind, "mcp", "list")
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def config_of(world, kind) -> Path:
    return config_locations.server_file(SETUPS[kind], world.env)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cli_connects_after_setup_and_knows_nothing_after_uninstall(make_world, kind):
    world = make_world(kind)
    assert "orchestrator" not in listed(world, kind)
    path = config_of(world, kind)
    before = path.read_bytes()
    done = world.orchestrator("setup", kind, "--hooks", "--json")
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert [change["action"] for file in written["files"] for change in file["changes"]].count("added") >= 1
    assert re.search(CONNECTED[kind], listed(world, kind), re.MULTILINE)
    assert "nothing to change" in world.orchestrator("setup", kind, "--hooks").stdout
    world.orchestrator("setup", kind, "--uninstall")
    assert "orchestrator" not in listed(world, kind)
    if kind == "claude":  # it writes counters of its own into the file whenever it runs
        assert "orchestrator" not in path.read_text()
        assert json.loads(before).items() <= json.loads(path.read_text()).items()
    else:
        assert path.read_bytes() == before
    world.orchestrator("daemon", "stop")


@pytest.mark.parametrize("kind", ["codex", "opencode", "gemini"])
def test_without_a_terminal_the_model_is_offered_the_masters_tools_and_the_hooks_do_no_harm(make_world, models, kind):
    world = make_world(kind)
    world.orchestrator("setup", kind, "--hooks")
    words = {
        # Without these the first request may leave before any MCP server is up, or without what needs a question.
        "codex": ["codex", "exec", "-c", "mcp_servers.orchestrator.required=true", "hello there"],
        "gemini": ["gemini", "--yolo", "-p", "hello there"],
        "opencode": ["opencode", "run", "hello there"],
    }[kind]
    done = world.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "I heard 1 prompt" in done.stdout
    assert offers(models, "agent_create")
    world.orchestrator("daemon", "stop")


HELD = '{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"sleep 20"}]}]}}'
WITH_PROMPT = {
    "gemini": ("-i",),
    "opencode": ("--prompt",),
    "codex": ("-c", "mcp_servers.orchestrator.required=true", "--"),
    "claude": ("--settings", HELD, "--"),
}
"""How docs/setup.md starts a master whose prompt is on the command line."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_master_whose_prompt_is_on_the_command_line_has_our_tools_in_its_first_request(make_world, models, kind):
    world = make_world(kind)
    world.used_before(kind)
    world.setup(kind)
    prompt = "Lead a team of three"
    world.start(kind, *LEAD[kind], *WITH_PROMPT[kind], prompt, ready=False)

    def asked():
        # Claude Code and Gemini CLI also ask for titles and the like, which offers no tools.
        return [one for one in models.select() if prompt in one.turn.said() and one.turn.tools]

    first = until(asked, START_S)[0]
    assert any(tool.name.endswith("agent_create") for tool in first.turn.tools)


def offers(models, name):
    """Whether a model was offered the tool, or told of it where the CLI hands out its tools on demand."""
    tools = {tool.name for request in models.requests for tool in request.turn.tools}
    return any(tool.endswith(name) for tool in tools) or any(
        name in request.turn.said() for request in models.requests
    )


def test_setup_beside_a_running_claude_lasts_and_the_next_one_knows_our_tools(make_world, models):
    world = make_world("claude")
    path = config_of(world, "claude")
    pane = world.start("claude")
    done = world.orchestrator(
        "setup", "claude", "--hooks"
    )  # while this claude writes its own file, and holds its lock
    assert done.returncode == 0, done.stderr
    written = path.read_bytes()
    pane.say("please end your turn now")
    pane.paste("/exit")
    until(lambda: pane.press("Enter") or pane.dead(), START_S)
    assert path.read_bytes() != written, "this claude wrote nothing: the test shows nothing"
    assert jsonc.read(path.read_text())["mcpServers"] == jsonc.read(written.decode())["mcpServers"]
    pane = world.start("claude")
    until(world.stage.daemon, START_S)
    until(lambda: (pane.say(f"hello {len(models.requests)}"), offers(models, "agent_create"))[1], START_S)
