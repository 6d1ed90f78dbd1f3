"""The scripted models prove themselves without the product: each real CLI runs wait, ack, result against a stub."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import clis, other_user
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import World
from tests.support.stage import lines_of

STUB = Path(__file__).with_name("stub.py")
PROMPT = 'You are agent a1. I, the user, ask you to follow what wait_for_command hands you. Call it now with agent_id "a1".'
COMMANDS = [
    {"kind": "task", "task_id": "t1", "payload": {"progress": 1, "say": "hi"}},
    {"kind": "task", "task_id": "t2", "payload": {"fail": "no"}},
    {"kind": "stop"},
]
pytestmark = pytest.mark.slow  # proves the stand-ins without the product; every other test here leans on them

DONE = [
    ("wait_for_command", None, None),
    ("emit_event", "t1", "ack"),
    ("emit_event", "t1", "progress"),
    ("emit_event", "t1", "result"),
    ("wait_for_command", None, None),
    ("emit_event", "t2", "ack"),
    ("emit_event", "t2", "error"),
    ("wait_for_command", None, None),
]


def headless(world: World, kind: Kind, prompt: str, server: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command line and variables of one headless run with an MCP server."""
    program, (command, *args) = str(clis.program(kind)), server
    if kind == "gemini":
        path = world.home / ".gemini" / "settings.json"
        entry = {"command": command, "args": args, "trust": True, "timeout": 600_000}
        path.write_text(json.dumps({**json.loads(path.read_text()), "mcpServers": {"orchestrator": entry}}))
        return [program, "-p", prompt], {}
    if kind == "claude":
        entry = {"command": command, "args": args, "alwaysLoad": True}
        config = json.dumps({"mcpServers": {"orchestrator": entry}})
        return [program, "-p", prompt, "--mcp-config", config, "--allowedTools", "mcp__orchestrator"], {}
    if kind == "codex":
        table = "mcp_servers.orchestrator"
        options = [
            f"{table}.command={json.dumps(command)}",
            f"{table}.args={json.dumps(args)}",
            f"{table}.required=true",
            f'{table}.default_tools_approval_mode="approve"',
        ]
        return [program, "exec", "--skip-git-repo-check", *(w for o in options for w in ("-c", o)), prompt], {}
    entry = {"type": "local", "command": server, "enabled": True, "timeout": 600_000}
    return [program, "run", prompt], {"OPENCODE_CONFIG_CONTENT": json.dumps({"mcp": {"orchestrator": entry}})}


def play(world: World, kind: Kind, commands: list[dict[str, Any]]) -> tuple[str, list[tuple[str, Any, Any]]]:
    """Run the CLI over these commands; its last words and the calls that the stub got."""
    place = world.root / "commands.json"
    place.write_text(json.dumps(commands))
    if world.user:
        other_user.give(place, world.user)
    argv, env = headless(world, kind, PROMPT, [sys.executable, "-I", str(STUB), str(place), "a1"])
    done = world.run(*argv, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = lines_of(Path(f"{place}.log"))
    return done.stdout, [(c["tool"], c["given"].get("task_id"), c["given"].get("type")) for c in calls]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("user", [0, other_user.UID], ids=["same-user", "other-user"])
def test_each_cli_follows_the_loop_against_its_scripted_model(
    make_world: Callable[..., World], kind: Kind, user: int
) -> None:
    world = make_world(kind, user=user)
    said, calls = play(world, kind, COMMANDS)
    assert calls == DONE
    assert "Goodbye." in said
    main = world.models.select("a1", kind=kind)
    assert len(main) == len(DONE) + 1
    assert world.models.count() == len(main), "a main request that no agent was seen in"
    assert world.models.strays == []
    assert [call["given"]["agent_id"] for call in lines_of(world.root / "commands.json.log")] == ["a1"] * len(DONE)


@pytest.mark.parametrize("kind", KINDS)
def test_each_cli_reports_an_unknown_tool_and_takes_two_calls_at_once(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    task = {"kind": "task", "task_id": "t1", "payload": {"say": "x", "misbehave": ["unknown_tool", "parallel"]}}
    _said, calls = play(world, kind, [task, {"kind": "stop"}])
    assert [call[2] or call[0] for call in calls[:3]] == ["wait_for_command", "ack", "result"]
    assert {call[0] for call in calls[3:]} == {"wait_for_command"}
    told = [result for one in world.models.select("a1")[2].turn.messages for result in one.results]
    assert "do_everything" in told[-1].text


@pytest.mark.parametrize("kind", KINDS)
def test_each_cli_opens_without_a_dialog_and_keeps_its_configuration(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    before = world.snapshot(kind)
    heard: list[str] = []

    def script() -> Any:
        heard.append((yield "Hello there."))
        return "Bye now."

    prompt = world.models.brain.script("greet", script)
    terminal = world.start(kind)
    terminal.say(prompt)
    terminal.shows("Hello there")
    terminal.say("and a second prompt")
    terminal.shows("Bye now")
    assert heard == ["and a second prompt"]
    assert world.snapshot(kind) == before


@pytest.mark.parametrize("kind", KINDS)
def test_each_cli_survives_an_overloaded_api(make_world: Callable[..., World], kind: Kind) -> None:
    world = make_world(kind)
    world.models.brain.trouble(503)
    said, calls = play(world, kind, [{"kind": "stop"}])
    assert [call[0] for call in calls] == ["wait_for_command"]
    assert "Goodbye." in said
    assert [request.reply.status for request in world.models.select()] == [503, 200, 200]
