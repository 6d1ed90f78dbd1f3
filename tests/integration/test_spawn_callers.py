"""Nodes of spawn runs that members of squads answer: real processes, in a project of their own."""

import asyncio
import sys

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import OrchestratorError
from orchestrator.config.keys import Config
from orchestrator.journal.project_files import Paths
from orchestrator.spawn import squad_and_agent_callers
from orchestrator.spawn.run_data import Fault, NodeCall, Reply
from orchestrator.spawn.squad_and_agent_callers import EngineCaller, MemberStart
from orchestrator.squad.squads import Squads
from tests.support.squads import COMMAND, FAKE, calls, do
from tests.support.stage import BOUND_S, processes_with, until

KEY = "sk-or-v1-0123456789"


class Place:
    """A project, the fake CLI as connection variables and as a `claude` on PATH, and a caller over its squads."""

    def __init__(self, base):
        self.base = base
        self.root = base / "project"
        self.root.mkdir()
        programs = base / "bin"
        programs.mkdir()
        (programs / "claude").write_text(f'#!/bin/sh\nexec {sys.executable} -IS {FAKE} "$@"\n')
        (programs / "claude").chmod(0o755)
        self.env = {"PATH": f"{programs}:/usr/bin:/bin", "MEMBER_LOG": str(base / "members.jsonl")}
        self.variables = {"ENGINE_COMMAND": COMMAND, "RUN_TEMPLATE": '"<%= prompt %>"'}
        clock = SystemClock()
        self.squads = Squads(Paths(self.root), clock, lambda: Config(kill_grace_s=0.2))
        self.caller = EngineCaller(self.squads, lambda: Config(kill_grace_s=0.2), clock)

    def kept(self, variables=None, **env):
        return MemberStart({**self.variables, **(variables or {})}, {**self.env, **env})

    def ask(self, prompt="", *, model="engine:command", token="t1", timeout_s=60.0, system="You judge."):
        return NodeCall("run", "n1", 1, token, model, system, prompt, 100, timeout_s)

    def play(self, body):
        """Run a test's coroutine; no member may be left at its end, nor work of the squads."""

        async def whole():
            try:
                return await asyncio.wait_for(body, BOUND_S)
            finally:
                await self.squads.close()

        try:
            return asyncio.run(whole())
        finally:
            assert processes_with(f"MEMBER_LOG={self.env['MEMBER_LOG']}") == {}

    def call(self, *args, kept=None, **more):
        """One call from its beginning to its end."""
        self.caller.keep("run", kept or self.kept())
        return self.play(self.caller.call(self.ask(*args, **more)))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_member_gets_the_role_and_the_prompt_and_its_whole_output_is_the_answer(place):
    reply = place.call(do(say="  forty\ntwo\n", err="warming up"))
    assert reply == Reply("  forty\ntwo", model="engine:command")
    assert reply.cost is None
    (call,) = calls(place)
    assert call["prompt"].startswith("# Role\n\nYou judge.\n\n---\n\n# Task\n\nPlease:\nDO")
    assert call["cwd"] == str(place.root)


def test_an_engine_is_called_its_own_way_whatever_the_connection_says_of_another(place):
    assert place.call(do(say="yes"), model="engine:claude", system="") == Reply("yes", model="engine:claude")
    (call,) = calls(place)
    assert call["argv"][:2] == ["--print", "--no-session-persistence"]
    assert squad_and_agent_callers.NO_ROLE in call["prompt"]


def test_a_long_prompt_and_a_long_answer_arrive_whole(place):
    prompt = do(mb=2) + "\n" + "p" * 300_000
    reply = place.call(prompt, model="engine:claude", kept=place.kept(MEMBER_READS="1"))
    assert reply == Reply("x" * (2 << 20), model="engine:claude")
    (call,) = calls(place)
    assert call["stdin"]
    assert prompt in call["prompt"]


def test_what_is_beyond_the_longest_answer_is_cut_and_said(place, monkeypatch):
    monkeypatch.setattr(squad_and_agent_callers, "ANSWER_BYTES", 1 << 20)
    reply = place.call(do(mb=2))
    assert reply.truncated
    assert reply.text == "x" * (1 << 20)


def test_one_token_starts_one_member(place):
    gate = place.base / "gate"
    place.caller.keep("run", place.kept())

    async def body():
        ask = place.ask(do(say="once", hold=str(gate)))
        both = [asyncio.create_task(place.caller.call(ask)) for _ in range(2)]
        await asyncio.to_thread(until, lambda: calls(place))
        gate.touch()
        return [*await asyncio.gather(*both), await place.caller.call(ask)]

    assert place.play(body()) == [Reply("once", model="engine:command")] * 3
    assert len(calls(place)) == 1


@pytest.mark.parametrize(
    ("done", "code", "retry", "told"),
    [
        ({"exit": 3, "err": "e" * 600 + "no credit"}, "engine", True, "it ended with status 3: eee"),
        ({"exit": 1, "say": "Invalid API key"}, "engine", True, "it ended with status 1: Invalid API key"),
        ({"exit": 1}, "engine", True, "it ended with status 1"),
        ({"kill": 9, "err": "oh"}, "engine", True, "it ended with SIGKILL: oh"),
        ({"say": " \n", "err": "asked for approval"}, "empty", True, "wrote nothing: asked for approval"),
    ],
)
def test_a_member_that_fails_or_says_nothing_is_a_fault_with_what_it_wrote_last(place, done, code, retry, told):
    fault = place.call(do(**done))
    assert isinstance(fault, Fault)
    assert (fault.code, fault.retry, fault.reached) == (code, retry, True)
    assert told in fault.message
    assert len(fault.message) < 600


@pytest.mark.parametrize("done", [{"say": f"it is {KEY}."}, {"err": KEY, "exit": 1}])
def test_the_key_is_in_no_answer_and_in_no_fault(place, done):
    answer = place.call(do(**done), kept=place.kept(OPENROUTER_API_KEY=KEY))
    assert KEY not in repr(answer)
    assert "[masked]" in repr(answer)
    assert KEY not in repr(place.kept({"OPENROUTER_API_KEY": KEY}, OPENROUTER_API_KEY=KEY))


def test_a_member_that_takes_too_long_is_ended(place):
    fault = place.call(do(hold="/nowhere", err="thinking"), timeout_s=3.0)
    assert (fault.code, fault.retry) == ("timeout", True)
    assert fault.message.startswith("command did not end within 3 s")


def test_a_canceled_call_returns_once_its_member_is_gone(place):
    place.caller.keep("run", place.kept())

    async def body():
        task = asyncio.create_task(place.caller.call(place.ask(do(hold="/nowhere", linger=["session"]))))
        await asyncio.to_thread(until, lambda: calls(place))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert place.squads.active == 0
        assert processes_with(f"MEMBER_LOG={place.env['MEMBER_LOG']}") == {}

    place.play(body())


def test_a_member_canceled_by_hand_is_not_tried_again_but_one_that_the_daemon_ends_is(place):
    place.caller.keep("run", place.kept())

    async def body(end, token):
        task = asyncio.create_task(place.caller.call(place.ask(do(hold="/nowhere"), token=token)))
        count = len(calls(place))
        await asyncio.to_thread(until, lambda: len(calls(place)) > count)
        await end()
        return await task

    async def by_hand():
        place.squads.cancel(place.squads.listed()[-1]["squadId"])

    async def whole():
        return [await body(by_hand, "t1"), await body(place.squads.close, "t2")]

    canceled, ended = place.play(whole())
    assert (canceled.code, canceled.retry) == ("canceled", False)
    assert (ended.code, ended.retry) == ("engine", True)
    assert "interrupted" in ended.message


@pytest.mark.parametrize(
    ("model", "variables", "env", "code"),
    [
        ("nonsense", {}, {}, "unknown_engine"),
        ("", {}, {}, "unknown_engine"),
        ("codex", {}, {}, "engine_missing"),
        ("command", {"ENGINE_COMMAND": "no-such-cli"}, {}, "engine_missing"),
        ("command", {"ENGINE_COMMAND": "", "RUN_TEMPLATE": ""}, {}, "bad_config"),
        ("command", {"RUN_TEMPLATE": "<%= prompt"}, {}, "bad_template"),
    ],
)
def test_what_cannot_be_started_is_refused_beforehand_and_a_fault_that_no_retry_mends(
    place, model, variables, env, code
):
    kept = place.kept(variables, **env)
    with pytest.raises(OrchestratorError) as caught:
        place.play(place.caller.check(model, kept))
    assert caught.value.code == code
    fault = place.call("x", model=f"engine:{model}", kept=kept)
    assert (fault.code, fault.retry, fault.reached) == ("engine", False, False)
    assert fault.message == caught.value.message
    assert calls(place) == []


def test_what_can_be_started_passes_the_check_and_nothing_is_started(place):
    place.play(place.caller.check("claude", place.kept()))
    place.play(place.caller.check("command", place.kept({"STATE_MODE": "stateful"})))
    assert not (place.root / ".agents").exists()


def test_a_prompt_that_no_program_can_be_given_is_a_fault(place):
    assert (place.call("a\0b").code, place.call("a\0b").retry) == ("engine", False)
    assert place.call("p" * 200_000).retry is False  # for the template has no place for a long one
    assert calls(place) == []


def test_engines_that_disturb_each_other_take_turns_and_wait_no_longer_than_they_may(place):
    gate = place.base / "gate"
    place.caller.keep("run", place.kept({"EXECUTION_MODE": "sequential"}))

    async def body():
        first = asyncio.create_task(place.caller.call(place.ask(do(say="one", hold=str(gate)))))
        await asyncio.to_thread(until, lambda: calls(place))
        late = await place.caller.call(place.ask(do(say="two"), token="t2", timeout_s=0.3))
        assert (late.code, late.retry, late.reached) == ("timeout", True, False)
        assert len(calls(place)) == 1
        second = asyncio.create_task(place.caller.call(place.ask(do(say="three"), token="t3")))
        gate.touch()
        return [(await first).text, (await second).text]

    assert place.play(body()) == ["one", "three"]
    assert len(calls(place)) == 2


def test_a_run_keeps_its_connections_environment_until_it_is_forgotten(place, monkeypatch):
    for name, value in {**place.env, "MY_KEY": "the daemon's", "ORCHESTRATOR_AGENT_ID": "a1"}.items():
        monkeypatch.setenv(name, value)
    place.caller.keep("run", place.kept(MY_KEY="the connection's"))
    monkeypatch.setattr(squad_and_agent_callers, "COMING_S", 0.0)  # no connection comes

    async def body():
        for token in ("t1", "t2"):
            await place.caller.call(place.ask(do(say="x"), model="engine:claude", token=token))
            place.caller.forget("run")

    place.play(body())
    assert [call["secret"] for call in calls(place)] == ["the connection's", "the daemon's"]
