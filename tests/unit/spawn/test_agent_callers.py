"""Nodes of spawn runs that an agent answers: over real journals, the agent's part played, time moved by hand."""

import asyncio

import pytest

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import OrchestratorError
from orchestrator.core import supervision
from orchestrator.spawn import squad_and_agent_callers
from orchestrator.spawn.run_data import Fault, NodeCall, Reply
from orchestrator.spawn.squad_and_agent_callers import AgentCaller
from orchestrator.team.roster import delivery
from orchestrator.team.roster.ask_agent import ANSWER
from tests.support.stage import BOUND_S, until
from tests.support.team import Team, settle

TASK = "spawn-t1"


class Play:
    """A team with the agent ``a1``, and a caller that asks it."""

    def __init__(self, root, **config):
        self.team = Team(root, **config)
        self.roster = self.team.roster
        self.caller = AgentCaller(self.roster)
        self.entry = None

    async def begin(self):
        self.entry = await self.team.agent()
        return self

    def ask(self, prompt="Why?", *, agent_id="a1", token="t1", timeout_s=100.0, system="You judge."):
        return NodeCall("run", "n1", 1, token, f"agent:{agent_id}", system, prompt, 100, timeout_s)

    async def asked(self, ask=None):
        """Begin a call, and return once its task is queued."""
        call = asyncio.create_task(self.caller.call(ask or self.ask()))
        await asyncio.to_thread(until, lambda: call.done() or TASK in self.entry.state.unfinished)
        return call

    async def take(self):
        """The agent takes its next task; the task's payload."""
        answer = await delivery.wait_for_command(self.roster, "a1", 1, timeout_s=0, age_s=0, req="w")
        return answer["command"]["payload"]

    async def say(self, kind, payload=None):
        """The agent ends its task."""
        await delivery.emit_event(
            self.roster, "a1", 1, kind=kind, task_id=None, payload=payload, done=None, req=f"e:{kind}"
        )

    async def life(self, drafts):
        """Something happens to the agent's life."""
        await self.roster.commit(self.entry, drafts)

    @property
    def at(self):
        return rfc3339(self.team.clock.now())

    def types(self):
        """What became of the task, in order."""
        records, _ = self.entry.outbox.since(0, 100, 1 << 20)
        return [record["type"] for record in records if record.get("task_id") == TASK]

    def asked_for(self):
        """The types of the agent's inbox records."""
        records, _ = self.entry.inbox.since(0, 100, 1 << 24)
        return [record["type"] for record in records]


@pytest.fixture
def played(tmp_path):
    """Runs a test's coroutine with a play."""
    plays = []

    def run(body, **config):
        async def whole():
            plays.append(Play(tmp_path, **config))
            return await asyncio.wait_for(body(await plays[-1].begin()), BOUND_S)

        return asyncio.run(whole())

    yield run
    for play in plays:
        play.team.close()


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("plain", "plain"),
        ({"text": "a", "output": "b", "summary": "c", "result": "d"}, "a"),
        ({"summary": "c", "result": "d"}, "c"),
        ({"result": "d", "more": 1}, "d"),
        ({"text": ["no string"], "n": 1}, '{"text":["no string"],"n":1}'),
        ([1, 2], "[1,2]"),
        (False, "false"),
    ],
)
def test_an_agents_result_is_the_answer_as_text(played, payload, text):
    async def body(play):
        call = await play.asked()
        assert await play.take() == {
            "instructions": "You judge.\n\nWhy?", "answer": ANSWER, "run_id": "run", "node_id": "n1"
        }  # fmt: skip
        assert not call.done()
        await play.say("result", payload)
        assert await call == Reply(text, model="agent:a1")
        assert play.types() == ["delivered", "result"]

    played(body)


@pytest.mark.parametrize("payload", [None, "", {"text": " "}])
def test_a_result_that_says_nothing_is_asked_for_again(played, payload):
    async def body(play):
        call = await play.asked()
        await play.take()
        await play.say("result", payload)
        fault = await call
        assert (fault.code, fault.retry) == ("empty", True)

    played(body)


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        ("error", {"message": "no access"}, "agent a1 ended the task in error: no access"),
        ("error", None, "agent a1 ended the task in error"),
        ("canceled", {"reason": "not mine"}, "agent a1 canceled the task: not mine"),
    ],
)
def test_an_agents_error_is_its_answer_and_not_tried_again(played, kind, payload, told):
    async def body(play):
        call = await play.asked()
        await play.take()
        await play.say(kind, payload)
        assert await call == Fault("agent", told, retry=False)

    played(body)


@pytest.mark.parametrize("taken", [False, True])
def test_an_agent_that_takes_too_long_is_asked_to_stop(played, taken):
    async def body(play):
        call = await play.asked()
        if taken:
            await play.take()
        await play.team.clock.advance(99.0)
        assert not call.done()
        await play.team.clock.advance(1.0)
        fault = await call
        assert (fault.code, fault.retry) == ("timeout", False)
        assert play.types() == (["delivered", "cancel_requested"] if taken else ["cancel_requested", "canceled"])

    played(body)


def test_a_canceled_call_cancels_its_task_unless_the_daemon_ends(played):
    async def body(play):
        for leaving in (False, True):
            call = await play.asked()
            if leaving:
                play.caller.leave()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            if not leaving:
                assert play.types() == ["cancel_requested", "canceled"]
                play.entry = await play.team.agent("a2")
                play.ask = lambda: NodeCall("run", "n1", 1, "t1", "agent:a2", "", "Why?", 100, 100.0)
        assert play.asked_for() == ["task"]
        assert play.types() == []

    played(body)


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_the_same_attempt_asked_again_by_the_next_daemon_finds_its_task_and_its_end(tmp_path, when):
    async def first():
        play = await Play(tmp_path).begin()
        call = await play.asked()
        await play.take()
        if when == "before":
            await play.say("result", "once")
            assert (await call).text == "once"
        play.caller.leave()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        play.team.close()

    async def second():
        play = Play(tmp_path, max_payload_bytes=1024)  # another payload would be made today
        play.team.load()
        play.entry = play.roster.entry("a1")
        if when == "meanwhile":
            await play.say("result", "once")
        call = asyncio.create_task(play.caller.call(play.ask("Why? " * 1000)))
        await settle()
        if when == "after":
            assert not call.done()
            await play.say("result", "once")
        assert await call == Reply("once", model="agent:a1")
        assert play.asked_for() == ["task"]
        play.team.close()

    asyncio.run(asyncio.wait_for(first(), BOUND_S))
    asyncio.run(asyncio.wait_for(second(), BOUND_S))


def test_an_agent_that_is_deleted_ends_the_wait(played):
    async def body(play):
        call = await play.asked()
        await play.life(supervision.stopped(play.entry.state, at=play.at, rungs=()))
        assert await call == Fault("agent", "agent a1 canceled the task: the agent was deleted", retry=False)

    played(body)


@pytest.mark.parametrize("taken", [False, True])
def test_an_agent_that_fails_ends_the_wait_and_does_not_get_the_task_later(played, taken):
    async def body(play):
        call = await play.asked()
        if taken:
            await play.take()
        await play.life(supervision.exited(play.entry.state, at=play.at, how="exit", reason="it crashed", code=1))
        await settle()
        assert not call.done()  # it may be launched again
        await play.life(supervision.failed(play.entry.state, at=play.at, reason="it crashed", code="exited"))
        fault = await call
        assert fault == Fault(
            "agent",
            "agent a1 has failed: it crashed",
            retry=False,
            next_step="restart a failed agent, or create a new one",
        )
        assert play.types()[-1] == "canceled"

    played(body)


def test_an_agent_that_cannot_be_asked_is_refused_beforehand_and_a_fault(played):
    async def body(play):
        await play.life(supervision.stopped(play.entry.state, at=play.at, rungs=()))
        for agent_id, code in (("nobody", "unknown_agent"), ("a1", "agent_ended"), ("../a1", "bad_id")):
            with pytest.raises(OrchestratorError) as caught:
                play.caller.check(agent_id)
            assert caught.value.code == code
            fault = await play.caller.call(play.ask(agent_id=agent_id))
            assert fault == Fault("agent", caught.value.message, retry=False, next_step=caught.value.next_step)

    played(body)


def test_an_agent_with_a_full_queue_is_asked_again_later(played):
    async def body(play):
        play.caller.check("a1")
        await delivery.enqueue(play.roster, "a1", task_id="other", payload=1, req="r")
        fault = await play.caller.call(play.ask())
        assert (fault.code, fault.retry) == ("agent", True)

    played(body, max_unfinished_tasks=1)


def test_a_prompt_too_long_for_a_task_stands_in_a_file_that_it_names(played):
    async def body(play):
        prompt = "p" * 300_000
        call = await play.asked(play.ask(prompt))
        payload = await play.take()
        file = play.team.paths.artifacts("a1") / f"{TASK}.md"
        assert payload["file"] == str(file)
        assert str(file) in payload["instructions"]
        assert payload["answer"] == ANSWER
        assert file.read_text() == f"You judge.\n\n{prompt}"
        assert file.stat().st_mode & 0o777 == 0o600
        await play.say("result", "read")
        assert (await call).text == "read"

    played(body)


def test_an_artifacts_directory_that_leads_elsewhere_gets_no_file(played, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    async def body(play):
        place = play.team.paths.artifacts("a1")
        place.rmdir()
        place.symlink_to(elsewhere)
        fault = await play.caller.call(play.ask("p" * 300_000))
        assert (fault.code, fault.retry) == ("agent", False)
        assert list(elsewhere.iterdir()) == []

    played(body)


def test_an_answer_too_long_for_an_event_is_read_from_the_artifact_that_it_names(played):
    async def body(play):
        call = await play.asked()
        (play.team.paths.artifacts("a1") / "answer.md").write_text("x" * (2 << 20))
        await play.take()
        await play.say("result", {"summary": "done", "file": "answer.md"})
        assert await call == Reply("x" * (2 << 20), model="agent:a1")

    played(body)


def test_an_answer_in_a_file_is_cut_where_the_longest_answer_ends(played, monkeypatch):
    monkeypatch.setattr(squad_and_agent_callers, "ANSWER_BYTES", 5)

    async def body(play):
        call = await play.asked()
        (play.team.paths.artifacts("a1") / "answer.md").write_text("123456")
        await play.take()
        await play.say("result", {"file": "answer.md"})
        answer = await call
        assert (answer.text, answer.truncated) == ("12345", True)

    played(body)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../secret", "none.md", "a\0b", "src/fixed.py"])
def test_a_file_that_is_no_artifact_is_not_read(played, name):
    async def body(play):
        (play.roster.root / "secret").write_text("no")
        call = await play.asked()
        await play.take()
        await play.say("result", {"summary": "I fixed it", "file": name})
        assert (await call).text == "I fixed it"

    played(body)


def test_an_agent_whose_files_are_read_anew_is_waited_for_all_the_same(played):
    async def body(play):
        call = await play.asked()
        await settle()
        play.roster.forget_collected("a1")
        play.entry = play.roster.take_up("a1")
        await settle()
        assert not call.done()
        await play.take()
        await play.say("result", "late")
        assert (await call).text == "late"

    played(body)


def test_an_agent_whose_files_are_gone_ends_the_wait(played):
    async def body(play):
        call = await play.asked()
        await settle()
        play.roster.forget_collected("a1")
        fault = await call
        assert (fault.code, fault.message, fault.retry) == ("agent", "no agent is called 'a1'", False)

    played(body)
