"""Squads of the real CLIs over MCP: members at once, without chats and with chats that go on; nothing stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engines.table import engine
from tests.e2e.models.oneshot import prompts
from tests.e2e.models.turn import KINDS, Kind
from tests.e2e.world import START_S, World
from tests.support import squads
from tests.support.stage import Wire, until


def script(**parts: Any) -> str:
    return f"Do this:\nSCRIPT: {json.dumps(parts)}"


def connected(world: World, kind: Kind, mode: str) -> Wire:
    return world.stage.begun({**world.env, "ENGINE": kind, "STATE_MODE": mode})


def both(world: World, wire: Wire, members: list[dict[str, Any]], gate: str) -> list[dict[str, Any]]:
    """Two members whose models answer only once both have been asked: their rows."""
    before = world.models.count()
    asked = [{"roleId": "reviewer", **member, "task": f"{member['task']}"} for member in members]
    key = wire.start(squads.TOOL, {"members": asked})
    until(lambda: world.models.count() - before >= 2 or wire.answers(key), START_S)
    world.models.brain.open(gate)
    answer = wire.outcome(until(lambda: wire.answers(key) or None, START_S)[0])
    assert "error" not in answer, answer
    return list(answer["members"])


@pytest.mark.parametrize("kind", KINDS)
def test_two_members_at_once_without_chats_and_with_chats_that_go_on(
    make_world: Callable[..., World], kind: Kind
) -> None:
    world = make_world(kind)
    world.used_before(kind)
    before = world.snapshot(kind)
    names = ("plum", "mango")
    rows = both(
        world,
        connected(world, kind, "stateless"),
        [{"task": f"I am {name}. {script(hold='one', say=f'Hello {name}.')}"} for name in names],
        "one",
    )
    assert [(row["status"], row["rawStdout"]) for row in rows] == [
        ("completed", f"Hello {name}.\n") for name in names
    ], rows
    for request in world.models.select():
        (prompt,) = prompts(request.turn)
        assert prompt.startswith("# Role\n")
        assert "\n# Task\n\nI am " in prompt

    wire = connected(world, kind, "stateful")
    rows = both(
        world, wire, [{"task": f"The word is {name}. {script(hold='two', say=name)}"} for name in names], "two"
    )
    assert [(row["status"], row["rawStdout"]) for row in rows] == [("completed", f"{name}\n") for name in names], rows
    chats = [row["chatId"] for row in rows]
    assert len({*chats, ""}) == 3
    if record := engine(kind).headless.record:  # how the product sees that a chat has begun
        for place in (record(world.env, chat) for chat in chats):
            (file,) = Path(place.folder).glob(place.files)
            assert re.search(place.message, file.read_text())
    going = [{"task": f"Again. {script(hold='three', say='yes')}", "chatId": chat} for chat in chats]
    rows = both(world, wire, going, "three")
    assert [(row["status"], row["rawStdout"], row["chatId"]) for row in rows] == [
        ("completed", "yes\n", chat) for chat in chats
    ], rows
    heard = [prompts(request.turn) for request in world.models.select()[-2:]]
    assert sorted(len(one) for one in heard) == [2, 2]
    assert {name for name in names for one in heard if f"The word is {name}." in one[0]} == set(names)
    assert all(one[0].startswith("# Role\n") and one[1].startswith("# Task\n\nAgain.") for one in heard)
    squads.gone(world.stage)
    until(lambda: not list((world.stage.run_dir() / "tmp").iterdir()))
    assert world.snapshot(kind) == before
