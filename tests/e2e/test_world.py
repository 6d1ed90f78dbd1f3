"""The stage proves itself: each real CLI, registered by `setup`, leads a shell agent of the real product from its pane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e import clis, other_user
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import World


def leading(world: World, seen: list[Any]) -> Callable[[], Any]:
    """A master's script: one shell agent, one task that tells its user id, the outcome, and the end of the agent.

    The agent's window is looked at in the middle of it, because the pane goes with the agent.
    """

    def lead() -> Any:
        made = yield "agents_create", {"agents": [{"name": "sh", "role": "worker", "engine": "shell"}]}
        seen.append(world.server.show(made["agents"][0]["tmux_pane_id"], "#{window_id}"))
        yield "task_enqueue", {"agent_id": "sh", "task": {"task_id": "t1", "payload": {"command": "id -u"}}}
        since, result = 0, None
        while result is None:
            read = yield "broadcast_read", {"since_seq": since, "wait_ms": 20_000}
            since = read["last_seq"]
            result = next((event for event in read["events"] if event["type"] == "result"), None)
        seen.append(result["payload"]["last_lines"])
        seen.append((yield "agent_delete", {"agent_id": "sh"})["status"])
        return "The team is done."

    return lead


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind == "opencode" else []) for kind in KINDS]
)
@pytest.mark.parametrize(
    "user", [0, pytest.param(other_user.UID, marks=pytest.mark.slow)], ids=["same-user", "other-user"]
)
def test_each_cli_leads_an_agent_in_its_own_window(make_world: Callable[..., World], kind: Kind, user: int) -> None:
    world = make_world(kind, user=user)
    seen: list[Any] = []
    terminal = world.lead(kind, world.models.brain.script("lead", leading(world, seen)))
    window = terminal.show("#{window_id}")
    terminal.shows("The team is done")
    assert seen == [window, [str(world.uid())], "deleted"]
    assert world.models.strays == []


def test_a_gemini_master_may_wait_for_its_team_as_often_as_it_takes(make_world: Callable[..., World]) -> None:
    """Gemini CLI asks its human what to do at the fifth identical call; the cursor of each answer keeps them apart."""

    def lead() -> Any:
        yield "agents_create", {"agents": [{"name": "sh", "role": "worker", "engine": "shell"}]}
        given: dict[str, Any] = {"since_seq": 0}
        for _ in range(8):
            page = yield "broadcast_read", {**given, "wait_ms": 50}
            given = {"since_seq": page["last_seq"], "cursor": page["cursor"]}
        yield "agent_delete", {"agent_id": "sh"}
        return "The team is done."

    world = make_world("gemini")
    world.lead("gemini", world.models.brain.script("lead", lead)).shows("The team is done")
    assert world.models.strays == []


def test_two_codex_masters_on_one_background_process_are_refused_not_mixed_up(
    make_world: Callable[..., World],
) -> None:
    """Plain `codex` shares one process among panes, whose servers have the environment of the first pane."""
    world = make_world("codex")
    world.setup("codex")
    config = world.home / ".codex" / "config.toml"
    entry = "[mcp_servers.orchestrator]\n"
    assert entry in config.read_text()
    allowed = f'{entry}default_tools_approval_mode = "approve"\n'
    config.write_text(config.read_text().replace(entry, allowed))  # a flag would keep it from sharing
    told: dict[str, Any] = {}

    def leading_from(name: str) -> str:
        def lead() -> Any:
            told[name] = yield "agent_create", {"name": name, "role": "worker", "engine": "shell"}
            return f"Master {name} is done."

        return world.models.brain.script(name, lead)

    prompts = {name: leading_from(name) for name in ("one", "two")}
    panes = {name: world.open(str(clis.program("codex")), kind="codex") for name in prompts}
    for name, pane in panes.items():
        pane.ready()
        pane.say(prompts[name])
        pane.shows(f"Master {name} is done")
    assert any(" app-server" in command for command in world.stage.processes().values())
    for name, answer in told.items():
        assert answer["error"]["code"] == "pane_unknown", (name, answer)
        assert "--no-daemon" in answer["error"]["next_step"]
    assert world.stage.tagged() == {}
