"""Tokens and cost of a team: read when something happens, given to the task at that time, and summed for people."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from orchestrator.core import decisions
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.team.people import usage_accounts
from orchestrator.team.people.usage_account import task_usage
from orchestrator.team.people.usage_accounts import EVERY_S, NOT_FOUND, SETTLE_S, UsageAccounts, recorded_usage
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio
SESSION, SECOND = "0a1b2c3d-session", "second-session"


class Accounts:
    """A team whose agents are Claude Codes with transcripts in ``tmp_path``, and the accounts under test."""

    def __init__(self, root: Path, **config) -> None:
        self.root = root
        self.team = Team(root, **config).load()
        self.usage = UsageAccounts(self.team.roster)
        self.changed: list[str] = []
        self.usage.changed = lambda entry: self.changed.append(entry.agent_id)
        self.team.roster.listeners.append(self.usage.seen)
        self.place = root / "claude" / "projects" / "p"
        self.place.mkdir(parents=True, exist_ok=True)

    async def agent(self, name="a1", engine="claude", **policies):
        entry = await self.team.agent(name, **policies)
        entry.state.spec["engine"] = engine
        entry.session = SESSION
        return entry

    def say(self, number, *, at=None, file=f"{SESSION}.jsonl", **usage):
        """One more request in the transcript, now."""
        path = self.place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        message = {"id": f"m{number}", "model": "claude-x", "usage": {"input_tokens": 1, "output_tokens": 10} | usage}
        line = {"type": "assistant", "timestamp": at or self.at(), "message": message}
        with path.open("a") as transcript:
            transcript.write(json.dumps(line) + "\n")

    def at(self):
        return self.team.clock.now().isoformat()

    async def idle(self):
        """Wait until nothing is being read."""
        while running := list(self.usage._tasks):
            await asyncio.wait(running)
        await settle()

    async def happens(self, entry):
        """Something happened to the agent; what is counted of it then."""
        self.usage.seen(entry)
        await self.idle()
        view = self.usage.usage_of(entry)
        return (view["requests"], view["output"]) if view is not None else None

    async def passes(self, seconds):
        await self.team.clock.advance(seconds)
        await self.idle()

    def lines(self, agent_id="a1"):
        return [json.loads(line) for line in self.team.paths.usage(agent_id).read_text().splitlines()]

    async def task(self, entry, task_id, *, ends=True):
        """The agent gets a task, asks its model, and reports the end; the clock moves at each step."""
        team, at = self.team, self.team.clock
        made = decisions.enqueue(
            entry.state, task_id=task_id, payload={"say": 1}, stored={"say": 1}, limits=decisions.QueueLimits(),
            req=f"c:{task_id}", at=self.stamp(), title="",
        )  # fmt: skip
        await team.roster.commit(entry, made.drafts)
        await at.advance(1)
        offer = decisions.next_command(
            entry.state, visible_inbox=entry.inbox.visible_seq, waited_s=0, handed_out=0, limits=decisions.QueueLimits(),
            at=self.stamp(), req=f"w:{task_id}",
        )  # fmt: skip
        await team.roster.commit(entry, list(offer.drafts))
        await at.advance(1)
        self.say(task_id)
        await at.advance(1)
        if ends:
            await self.end(entry, task_id)

    async def end(self, entry, task_id):
        for kind in ("ack", "result"):
            made = decisions.emit(
                entry.state, kind=kind, task_id=task_id, payload={}, done=None, req=f"e:{kind}:{task_id}",
                at=self.stamp(),
            )  # fmt: skip
            await self.team.roster.commit(entry, made.drafts)
        await self.idle()
        await self.team.clock.advance(1)

    def stamp(self):
        return self.team.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def close(self):
        self.team.close()


@pytest.fixture
def begin(tmp_path, monkeypatch):
    made = []
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))

    def new(**config):
        made.append(Accounts(tmp_path, **config))
        return made[-1]

    yield new
    for accounts in made:
        accounts.close()


async def test_a_transcript_is_read_when_something_happened_and_not_again_before(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say(1)
    assert await lot.happens(entry) == (1, 10)
    lot.say(2)
    assert await lot.happens(entry) == (1, 10)  # nothing happened
    await lot.passes(SETTLE_S)
    assert lot.usage.usage_of(entry)["requests"] == 2  # what a CLI writes a moment later
    lot.say(3)
    await lot.passes(60)
    assert lot.usage.usage_of(entry)["requests"] == 2  # nobody looks
    entry.turn = "ended"
    assert await lot.happens(entry) == (3, 30)
    assert set(lot.changed) == {"a1"}
    assert lot.usage.usage_of(entry)["models"] == ["claude-x"]


async def test_while_somebody_looks_or_a_budget_is_set_it_is_read_again_and_again(begin):
    lot = begin()
    entry = await lot.agent()
    await lot.happens(entry)
    await lot.passes(SETTLE_S)
    lot.usage.watched(True)
    await lot.idle()
    lot.say(1)
    await lot.passes(EVERY_S)
    assert lot.usage.usage_of(entry)["requests"] == 1
    entry.turn = "parked"  # its transcript stands still
    lot.say(2)
    await lot.passes(EVERY_S)
    assert lot.usage.usage_of(entry)["requests"] == 1
    entry.turn = "working"
    lot.usage.watched(False)
    await lot.passes(10 * EVERY_S)
    assert lot.usage.usage_of(entry)["requests"] == 1
    assert lot.usage._due is None
    lot.team.config = lot.team.config.model_copy(update={"budget_usd": 1.0})
    lot.usage.watched(False)
    await lot.passes(EVERY_S)
    assert lot.usage.usage_of(entry)["requests"] == 2


async def test_a_request_belongs_to_the_task_that_the_agent_had_at_that_time(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say("before")
    await lot.team.clock.advance(1)
    await lot.task(entry, "t1")
    lot.say("between")
    await lot.team.clock.advance(1)
    await lot.task(entry, "t2", ends=False)
    late = lot.at()
    await lot.team.clock.advance(1)
    await lot.end(entry, "t2")
    lot.say("late", at=late)  # written after the end of its task, as Gemini CLI does
    lot.say("after")
    entry.turn = "ended"
    await lot.happens(entry)
    assert {line["id"]: line["task_id"] for line in lot.lines()} == {
        "mbefore": None, "mt1": "t1", "mbetween": None, "mt2": "t2", "mlate": "t2", "mafter": None,
    }  # fmt: skip
    used = task_usage(lot.team.paths, "a1", {})
    assert {task: view["requests"] for task, view in used.items()} == {"t1": 1, "t2": 2, None: 3}


async def test_a_request_read_before_its_task_has_ended_belongs_to_the_task(begin):
    lot = begin()
    entry = await lot.agent()
    lot.usage.watched(True)
    await lot.happens(entry)
    await lot.task(entry, "t1", ends=False)  # no record of it is durable yet but that it was given
    await lot.passes(EVERY_S)
    assert [line["task_id"] for line in lot.lines()] == ["t1"]


async def test_the_next_daemon_counts_nothing_twice_and_gives_what_it_missed_to_the_last_task(begin):
    lot = begin()
    await lot.task(await lot.agent(), "t1")
    lot.say("missed", at="2026-01-01T00:00:00.000Z")
    lot.team.roster.close()
    follower = begin()
    entry = follower.team.roster.agents["a1"]
    entry.state.spec["engine"], entry.session = "claude", SESSION
    assert await follower.happens(entry) == (2, 20)
    assert [line["id"] for line in follower.lines()] == ["mt1", "mmissed"]
    assert follower.lines()[-1]["task_id"] == "t1"


async def test_what_was_there_before_anything_was_counted_belongs_to_no_task(begin):
    lot = begin()
    await lot.task(await lot.agent(), "t1")
    lot.team.paths.usage("a1").unlink()
    lot.team.roster.close()
    follower = begin()
    entry = follower.team.roster.agents["a1"]
    entry.state.spec["engine"], entry.session = "claude", SESSION
    await follower.happens(entry)
    assert [line["task_id"] for line in follower.lines()] == [None]


async def test_a_forked_session_and_subagents_are_counted_once(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say(1)
    lot.say("sub", file=f"{SESSION}/subagents/agent-1.jsonl")
    assert await lot.happens(entry) == (2, 20)
    shutil.copy(lot.place / f"{SESSION}.jsonl", lot.place / "other-session.jsonl")
    lot.say(2, file="other-session.jsonl")
    lot.say("sub2", file="other-session/subagents/agent-2.jsonl")
    lot.say("sub2", file="other-session/subagents/agent-2.jsonl")
    lot.say(3)  # its last line in the old file
    entry.session = "other-session"
    assert await lot.happens(entry) == (5, 50)
    assert lot.lines()[-1]["session"] == "other-session"


def rollout(place, thread, *lines):
    """A rollout of Codex with these payloads."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"rollout-2026-01-01T00-00-00-{thread}.jsonl").open("a") as file:
        for kind, payload in lines:
            file.write(json.dumps({"type": kind, "payload": payload}) + "\n")


def used(number):
    usage = {"input_tokens": 5, "output_tokens": 10}
    return "token_usage_record", {"response_id": f"r{number}", "usage": usage}


def starts(*threads):
    return "event_msg", {
        "type": "item_completed",
        "item": {"type": "CollabAgentToolCall", "receiver_thread_ids": threads},
    }


async def test_the_threads_that_codex_starts_are_counted_once_with_their_own_threads(begin, monkeypatch, tmp_path):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    place = tmp_path / "codex" / "sessions" / "2026" / "01" / "01"
    lot = begin()
    entry = await lot.agent(engine="codex")
    rollout(place, SESSION, used(1), starts("sub-thread-1", "../../evil", 7), used(2))
    rollout(place, "sub-thread-1", used(2), used(3), starts("sub-thread-2", "sub-thread-1", SESSION))
    assert await lot.happens(entry) == (3, 30)
    rollout(place, "sub-thread-2", used(4))  # is written later
    entry.turn = "ended"
    assert await lot.happens(entry) == (4, 40)
    rollout(place, "a-strangers-thread", used(5))
    await lot.passes(SETTLE_S)
    assert (await lot.happens(entry))[0] == 4
    follower = UsageAccounts(lot.team.roster)
    follower.seen(entry)
    await asyncio.wait(list(follower._tasks))
    assert follower.usage_of(entry)["requests"] == 4


async def test_gemini_writes_an_answer_several_times_and_its_subagents_in_a_folder_of_the_session(begin, monkeypatch):
    lot = begin()
    entry = await lot.agent(engine="gemini")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(lot.root))
    chats = lot.root / ".gemini" / "tmp" / "shop" / "chats"
    (chats / SESSION).mkdir(parents=True)

    def answer(number, tokens):
        return (
            json.dumps({"id": f"g{number}", "timestamp": lot.at(), "type": "gemini", "model": "g", "tokens": tokens})
            + "\n"
        )

    some = {"input": 10, "output": 1, "cached": 4, "thoughts": 2}
    lines = answer(1, None) + answer(1, {**some, "output": 0}) + answer(1, some) + answer(2, some) + answer(2, None)
    (chats / f"session-2026-11-26T19-43-{SESSION[:8]}.jsonl").write_text(lines)
    (chats / SESSION / "helper-1.jsonl").write_text(answer(3, some))
    assert await lot.happens(entry) == (3, 9)
    assert lot.usage.usage_of(entry)["input"] == 18


async def test_a_session_that_is_no_plain_id_leads_to_no_file(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say(1)
    for session in ("../p/" + SESSION, "*", "", "a" * 500):
        entry.session = session
        assert await lot.happens(entry) in ((0, 0), None)


async def test_what_is_not_known_is_said(begin):
    lot = begin()
    entry = await lot.agent()
    await lot.happens(entry)
    view = lot.usage.usage_of(entry)
    assert (view["cost_usd"], view["unknown"]) == (None, NOT_FOUND)
    lot.say(1)
    entry.turn = "ended"
    await lot.happens(entry)
    assert "claude-x" in lot.usage.usage_of(entry)["unknown"]
    shell = await lot.agent("s1", "shell")
    assert lot.usage.usage_of(shell)["unknown"] == NO_MODEL
    command = await lot.agent("c1", "command")
    assert lot.usage.usage_of(command)["unknown"] == "this engine reports no tokens"
    assert lot.usage.usage_of(await lot.agent("x1", "no-such-engine")) is None
    assert not lot.team.paths.usage("s1").exists()
    assert recorded_usage(lot.team.paths, "a1", "claude", {})["requests"] == 1
    assert recorded_usage(lot.team.paths, "a1", "no-such-engine", {}) is None


async def test_a_plugin_reports_requests_with_their_cost(begin):
    lot = begin()
    entry = await lot.agent(engine="opencode")
    message = {"id": "m1", "model": "big", "cost": 0.25, "tokens": {"input": 5, "output": 7}}
    for reported in (message, message, {"id": 1}, {}, {**message, "tokens": {"input": -1}}):
        lot.usage.reported(entry, reported)
    await lot.idle()
    view = lot.usage.usage_of(entry)
    assert (view["requests"], view["cost_usd"], view["unknown"]) == (1, 0.25, "")
    lot.usage.reported(await lot.agent("s1", "shell"), message)
    await lot.idle()
    assert not lot.team.paths.usage("s1").exists()


async def test_a_price_that_the_user_sets_makes_a_cost_at_once(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say(1, input_tokens=1_000_000, output_tokens=0)
    await lot.happens(entry)
    lot.team.config = lot.team.config.model_copy(update={"prices": {"claude": {"input": 3.0, "output": 15.0}}})
    assert lot.usage.usage_of(entry)["cost_usd"] == 3.0


async def two_with_a_budget(begin):
    """Two agents, each with a session of its own, and one dollar: a million tokens."""
    lot = begin(budget_usd=1.0, prices={"claude": {"input": 1.0, "output": 0.0}})
    first, second = await lot.agent("a1"), await lot.agent("a2")
    second.session = SECOND
    return lot, first, second


async def test_a_run_over_its_budget_is_one_item_until_somebody_takes_note(begin):
    lot, first, second = await two_with_a_budget(begin)
    lot.say(1, input_tokens=600_000)
    await lot.happens(first)
    assert lot.usage.items(first) == []
    lot.say(2, input_tokens=600_000, file=f"{SECOND}.jsonl")
    await lot.happens(second)
    (item,) = lot.usage.items(first)
    assert (item.kind, item.holds, item.answers, item.run_id) == ("budget", False, ("dismiss",), "run-1")
    assert "1.20" in item.text and lot.usage.items(second) == []
    lot.say(3, input_tokens=600_000)
    first.turn = "ended"
    await lot.happens(first)
    assert [other.item_id for other in lot.usage.items(first)] == [item.item_id]
    first.state.answers[item.item_id] = object()
    assert lot.usage.items(first) == []


async def test_a_dismissed_budget_stays_dismissed_when_the_agent_with_the_record_is_deleted(begin):
    lot, first, second = await two_with_a_budget(begin)
    lot.say(1, input_tokens=1_200_000)
    await lot.happens(first)
    (item,) = lot.usage.items(first)
    first.state.answers[item.item_id] = object()
    first.state.life = "deleted"
    lot.say(2, input_tokens=600_000, file=f"{SECOND}.jsonl")
    await lot.happens(second)
    assert (lot.usage.items(first), lot.usage.items(second)) == ([], [])


async def test_the_next_daemon_counts_deleted_agents_towards_the_budget(begin):
    lot, first, second = await two_with_a_budget(begin)
    lot.say(1, input_tokens=900_000)
    await lot.happens(first)
    first.state.life = "deleted"
    lot.say(2, input_tokens=200_000, file=f"{SECOND}.jsonl")
    lot.team.roster.listeners.remove(lot.usage.seen)
    lot.usage = UsageAccounts(lot.team.roster)
    await lot.happens(second)
    (item,) = lot.usage.items(second)
    assert "1.10" in item.text


async def test_an_agent_that_ended_keeps_its_sums_and_not_its_ids(begin):
    lot = begin()
    entry = await lot.agent()
    lot.say(1)
    await lot.happens(entry)
    lot.say(2)
    entry.state.life = "deleted"
    assert await lot.happens(entry) == (2, 20)
    lot.say(3)
    await lot.passes(SETTLE_S)
    account = lot.usage._agents["a1"].account
    assert not account.is_loaded and not account._known
    follower = UsageAccounts(lot.team.roster)
    follower.seen(entry)
    assert not list(follower._tasks)  # an agent that ended before this daemon is read when somebody asks
    assert follower.usage_of(entry) is None
    await asyncio.wait(list(follower._tasks))
    assert follower.usage_of(entry)["requests"] == 3


async def test_a_bug_while_reading_stops_neither_the_daemon_nor_the_next_reading(begin, monkeypatch):
    lot = begin()
    entry = await lot.agent()
    lot.say(1)
    monkeypatch.setattr(usage_accounts, "read_on", lambda *_: 1 / 0)
    await lot.happens(entry)
    monkeypatch.undo()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(lot.root / "claude"))
    entry.turn = "ended"
    assert await lot.happens(entry) == (1, 10)


async def test_closing_ends_all_of_it(begin):
    lot = begin(budget_usd=1.0)
    entry = await lot.agent()
    await lot.happens(entry)
    await lot.usage.close()
    entry.turn = "ended"
    lot.usage.seen(entry)
    assert not list(lot.usage._tasks)
    await lot.passes(EVERY_S)
    assert lot.usage._due is None or lot.usage._due.canceled
