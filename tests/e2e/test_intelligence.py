"""The gsd toolset as users of the real CLIs have it: set up alone, asked from below a project, its prompts as commands.

What a team's agents do with it stands in test_team.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.base.toolsets import GSD_TOOLS
from tests.acceptance.test_gsd import SHOP
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import PLAIN, START_S, Terminal, World
from tests.support.gsd_trees import write
from tests.support.stage import until

ALLOWED: dict[Kind, tuple[str, ...]] = {
    "gemini": ("--approval-mode", "yolo"),
    "claude": ("--allowedTools", "mcp__gsd"),
    "codex": PLAIN["codex"],  # asks for no tool that says it only reads
    "opencode": (),
}
"""How each CLI is called so that no question comes."""

SLASH: dict[Kind, str] = {"gemini": "/spawn/planner --phase=1", "claude": "/mcp__gsd__spawn/planner 1"}
PLAINLY: dict[Kind, str] = {
    "gemini": "/spawn_planner --phase=1",
    "claude": "/mcp__gsd__spawn_planner 1",
    "opencode": "/gsd:spawn_planner 1",
}
"""The prompts as the commands that each CLI makes of them; Codex makes none, opencode none with a slash in it."""

READ: dict[Kind, tuple[str, dict[str, Any], str]] = {
    "gemini": ("read_mcp_resource", {"uri": "gsd://project/vision"}, "Tea in a minute."),
    "codex": ("read_mcp_resource", {"server": "gsd", "uri": "gsd://phase/2/plan"}, "Users can log in"),
    "opencode": ("read_mcp_resource", {"server": "gsd", "uri": "gsd://phase/2/plan"}, "Users can log in"),
}
"""How a model reads a resource, and what it finds; Claude Code's has to look for the tool first, Gemini CLI's reads no
template's."""

HEARD = "# Plan a phase of `Shop`"


def asking(kind: Kind, seen: list[Any]) -> Generator[Any, Any, str]:
    """A model that asks one question, and reads one resource."""
    seen.append((yield "gsd_phase_status", {}))
    if kind in READ:
        tool, given, found = READ[kind]
        assert found in str((yield tool, given))
    return "That is all."


def command(pane: Terminal, cwd: Path, words: str) -> str:
    """Give a prompt's command; what the model has heard by it.

    Gemini CLI gets it without a terminal: in one it has no such commands before ``/mcp refresh``, and an Enter may
    choose from a list of others that it shows for a moment.
    """
    world = pane.world
    before = len(world.models.requests)

    def heard() -> list[str]:
        asked = (one.turn for one in world.models.requests[before:] if not one.side_call)
        last = (turn.messages[-1].text for turn in asked if turn.messages[-1].role == "user")
        return [text for text in last if HEARD in text]

    if pane.kind == "gemini":
        done = world.run("gemini", *ALLOWED["gemini"], "-p", words, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return heard()[0]
    pane.paste(words)
    pane.shows(words)
    return until(lambda: heard() or pane.press("Enter"), START_S)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_set_up_alone_it_is_asked_from_below_a_project_and_its_prompts_are_commands(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    run_by_a_prompt = world.home / "run"
    vision = SHOP[".planning/PROJECT.md"].replace("for tea", f"for tea, !`touch {run_by_a_prompt}` and $1 @README.md")
    shop = write(world.root / "apps" / "shop", {**SHOP, ".planning/PROJECT.md": vision})
    deep = shop / "src" / "api"
    write(deep, {"README.md": "# A project\n"})
    world.setup(kind, "--toolsets", "gsd")
    pane = world.start(kind, *ALLOWED[kind], cwd=deep)
    seen: list[Any] = []
    pane.say(world.models.brain.script("ask", lambda: asking(kind, seen)))
    pane.shows("That is all")
    assert [(one["project_root"], one["current_phase"]) for one in seen] == [(str(shop), "2")]
    turn = world.models.select()[-1].turn
    # Claude Code only names what has connected after its first request, until its model looks for it.
    assert [name for name in GSD_TOOLS if turn.tool(name) is None and name not in turn.said()] == []
    assert turn.tool("agent_create") is None

    if kind == "codex":
        pane.paste("/spawn_planner")
        until(lambda: "Unrecognized command" in pane.text() or pane.press("Enter"), START_S)
        return
    for words in filter(None, (SLASH.get(kind), PLAINLY[kind])):
        heard = command(pane, deep, words)
        assert "# A project" not in heard, "a file was attached"
        if kind == "opencode":  # it fills prompts in, runs and attaches by itself
            assert "- phase: 1\n" in heard
            assert f"! `touch {run_by_a_prompt}` and ${{1}} @ README.md" in heard
        else:
            assert "Phase 1: Start" in heard
            assert f"!`touch {run_by_a_prompt}` and $1 @README.md" in heard
    assert not run_by_a_prompt.exists(), "a project's words were run as a command"
