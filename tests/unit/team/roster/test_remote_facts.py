"""The status of another host's agent: by its records, by what its host published of it, and by which is newer."""

import pytest

from orchestrator.core.state import Agent
from orchestrator.team.roster.remote_facts import RemoteFacts


def status(published, **facts):
    facts = {"away_since": "", "epoch": 1, **facts}
    row = {"status": published, "reason": "as seen there", "epoch": facts["epoch"]}
    agent = Agent("builder", life="ready", epoch=1)
    return RemoteFacts("box", "run-1", away_since=facts["away_since"], row=row if published else {}).status(agent)


@pytest.mark.parametrize("seen", ["idle", "parked", "unknown"])
def test_what_no_record_shows_is_as_its_host_published_it(seen):
    assert status(seen) == (seen, "as seen there")


@pytest.mark.parametrize("before", ["starting", "busy", "blocked", "stalled"])
def test_an_agent_whose_call_is_newer_than_what_its_host_published_is_between_two_calls(before):
    assert status(before) == ("idle", "between two calls")


@pytest.mark.parametrize("facts", [{"published": "exited"}, {"published": ""}, {"published": "idle", "epoch": 2}])
def test_nothing_is_guessed_of_an_agent(facts):
    assert status(**facts)[0] == "unknown"


def test_nobody_sees_an_agent_whose_host_is_away():
    assert status("idle", away_since="2026-11-27T20:00:00Z") == (
        "unknown",
        "host box is away since 2026-11-27T20:00:00Z",
    )


@pytest.mark.parametrize("row", [{}, {"status": "parked", "reason": "", "epoch": 1}])
def test_an_agent_that_is_newer_than_what_its_host_published_was_just_heard(row):
    new = Agent("builder", life="ready", epoch=2)
    assert RemoteFacts("box", "run-1", row=row, published=True).status(new) == ("idle", "between two calls")
    unheard = RemoteFacts("box", "run-1", row=row).status(new)
    assert unheard == ("unknown", "host box has not reported what it does now")
