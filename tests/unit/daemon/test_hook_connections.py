"""Events of hooks on their way to the parking: what goes wrong there holds no CLI up."""

import pytest

from orchestrator.daemon import hook_connections
from orchestrator.team.wake.parking import HookEvent
from tests.support.hook_channels import Line, Lot
from tests.support.team import Team

pytestmark = pytest.mark.anyio


async def test_a_bug_with_an_event_leaves_the_question_to_the_cli(tmp_path, monkeypatch):
    """The connection's end alone would bring the hook back with the same event, without end."""
    team = Team(tmp_path)
    lot = await Lot(team).begin()
    line = Line()

    def bug(*_):
        raise RecursionError

    monkeypatch.setattr(lot.parking, "heard", bug)
    hook_connections.pass_on(lot.parking, lot.entry, line.channel, HookEvent("PermissionRequest"))
    assert line.said == "release"
    await lot.parking.close()
    team.close()
