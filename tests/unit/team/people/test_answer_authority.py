"""Who may answer, decided at the time of the answer: the process that connected must still be the one that asks."""

import asyncio
import os
import subprocess
from types import SimpleNamespace

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.base.platform import process_facts
from orchestrator.config.keys import Config
from orchestrator.team.people import answer_authority
from orchestrator.team.people.answer_authority import AnswerAuthority
from orchestrator.trust import relay_holders
from orchestrator.trust.human_origin import HumanOrigin
from orchestrator.trust.origin import KnownProcesses

ME = os.getpid()
START = process_facts.start_time(ME)


@pytest.fixture
def authority(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCHESTRATOR_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(relay_holders, "relays", lambda: iter(()))
    settings = {}
    roster = SimpleNamespace(config=lambda: Config(**settings))
    made = AnswerAuthority(roster, KnownProcesses)
    made.settings = settings
    return made


def client(rights="master", pid=ME, start=START, kind="cli"):
    return SimpleNamespace(rights=rights, peer=pid, peer_start=start, kind=kind)


def origin(authority, *given):
    return asyncio.run(authority.origin(*given)).kind


def refused(authority, given=None, entry=None):
    with pytest.raises(BadRequest) as error:
        asyncio.run(authority.answerer(given or client(), "cli", "me", entry))
    return error.value.code


def test_the_process_that_connected_is_judged_as_it_is_now(authority):
    assert origin(authority, client()) == "human"
    assert origin(authority, client(start=START - 1)) == "unknown", "another process has its number"
    assert origin(authority, client(start=0)) == "unknown"
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert origin(authority, client(pid=ended.pid, start=1)) == "unknown"


@pytest.mark.parametrize("rights", ["reader", "agent", "refused"])
def test_without_the_rights_of_a_master_nobody_answers(authority, rights):
    assert origin(authority, client(rights)) == "unknown"
    assert refused(authority, client(rights)) == "not_allowed_to_answer"
    assert not asyncio.run(authority.may_answer(client(rights)))


def test_a_relay_makes_its_parent_a_holder_and_a_face_below_it_does_not_count(authority):
    with subprocess.Popen(["cat"], stdin=-1) as relay:
        authority.came(client(pid=relay.pid, kind="cli"))
        assert origin(authority, client()) == "human", "only a relay does"
        authority.came(client("agent", pid=relay.pid, kind="relay"))
        assert origin(authority, client()) == "human", "an agent's relay is the agent's"
        authority.came(client(pid=relay.pid, kind="relay"))
        relay.stdin.close()
    assert origin(authority, client()) == "master"
    assert refused(authority) == "not_allowed_to_answer"
    assert not asyncio.run(authority.may_answer(client()))


def test_a_master_answers_where_it_is_allowed_and_never_for_itself(authority, monkeypatch):
    async def of(_client):
        return HumanOrigin("master", frozenset({(7, 1)}))

    monkeypatch.setattr(authority, "origin", of)
    assert refused(authority) == "not_allowed_to_answer"
    authority.settings["approvals_master"] = True
    answerer = asyncio.run(authority.answerer(client(), "cli", "me", SimpleNamespace(pid=8)))
    assert (answerer.acts_as, answerer.face) == ("master", "cli")
    assert asyncio.run(authority.may_answer(client()))
    assert refused(authority, entry=SimpleNamespace(pid=7)) == "not_allowed_to_answer"
    with pytest.raises(BadRequest) as error:
        asyncio.run(authority.human(client()))
    assert error.value.code == "not_allowed_to_answer"


@pytest.mark.parametrize("kind", ["inside", "unknown"])
def test_inside_and_unknown_are_refused_whatever_the_configuration_says(authority, monkeypatch, kind):
    async def of(_client):
        return HumanOrigin(kind)

    monkeypatch.setattr(authority, "origin", of)
    authority.settings["approvals_master"] = True
    assert refused(authority) == "not_allowed_to_answer"
    assert not asyncio.run(authority.may_answer(client()))


def test_what_cannot_be_read_proves_nothing(authority, monkeypatch):
    def full(_pid):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(answer_authority, "lines_of", full)
    assert refused(authority) == "not_allowed_to_answer"
