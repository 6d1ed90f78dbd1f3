"""The snapshot: what followers get by version is what the whole one says, and it is built for nobody."""

import asyncio
import random

import pytest

from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.core.inbox_items import InboxItem
from orchestrator.faces.snapshot_client import merged
from orchestrator.team.people.answer_words import Answerer, GivenAnswer
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.snapshot_feed import EVERY_S, FACES, SnapshotFeed
from orchestrator.team.people.snapshot_rows import RowFacts
from orchestrator.team.roster import delivery
from tests.support.team import Team, settle

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Watched:
    def __init__(self, tmp_path):
        self.team = Team(tmp_path)
        self.opened = []
        self.extra = {}
        self.approvals = Approvals(self.team.roster, ApprovalRules(tmp_path))
        self.inbox = InboxAnswers(self.team.roster, self.approvals, DialogAnswers(None))
        self.inbox.further_items = lambda entry: self.extra.get(entry.agent_id, ())
        self.feed = SnapshotFeed(self.team.roster, self.inbox, RowFacts(), "b1")
        self.feed.watched = self.opened.append

    def face(self, *, answers=False, conn="c1"):
        return self.feed.opened(conn, "top", answers=answers)

    async def news(self, known):
        """What a new face that knows so much knows after one request."""
        number = len(self.opened) + known.get("version", 0)
        face = self.face(conn=f"n{number}")
        face.last = -1000.0
        return merged(known, await self.feed.since(known.get("version", 0), known.get("boot", ""), 0.0, face))


@pytest.fixture
async def watched(tmp_path):
    made = Watched(tmp_path)
    yield made
    await made.approvals.close()
    made.team.close()


def same(one, other):
    return {k: v for k, v in one.items() if k != "at"} == {k: v for k, v in other.items() if k != "at"}


async def test_what_a_follower_puts_together_is_always_the_whole_snapshot(watched):
    """Random work of random agents; after each step the followed snapshot equals a new one."""
    chance, team = random.Random(7), watched.team
    known, number = {}, 0
    names = [f"w{n}" for n in range(5)]
    for _ in range(120):
        step, name = chance.choice(("agent", "task", "wait", "end", "item", "nothing")), chance.choice(names)
        entry = team.roster.agents.get(name)
        if entry is None:
            await team.agent(name)
        elif step == "task":
            number += 1
            await delivery.enqueue(team.roster, name, task_id=f"t{number}", payload="x", req=f"m:{number}")
        elif step == "wait":
            await delivery.wait_for_command(team.roster, name, 1, timeout_s=0, age_s=0, req="w:1")
        elif step == "end" and entry.state.lease is not None:
            number += 1
            kind = chance.choice(("result", "error"))
            await delivery.emit_event(
                team.roster, name, 1, kind=kind, task_id=None, payload={"error": "no"}, done=None, req=f"e:{number}"
            )
        elif step == "item":
            on = (
                ()
                if watched.extra.get(name)
                else (InboxItem("i" + name, "conflict", name, "x", "2026", holds=False),)
            )
            watched.extra[name] = on
            watched.feed.touch(entry)
        await watched.team.clock.advance(chance.choice((0.0, 0.5, 12.0)))
        known = await watched.news(known)
        assert same(known, watched.feed.whole())
    assert len(known["agents"]) == 5
    assert sum(known["totals"]["finished"].values()) > 2


async def test_a_follower_is_answered_when_something_changes_and_else_after_its_time(watched):
    entry = await watched.team.agent("a1")
    known = await watched.news({})
    task = asyncio.ensure_future(watched.feed.since(known["version"], "b1", 30.0, watched.face()))
    await watched.team.clock.advance(5.0)
    assert not task.done()
    await delivery.enqueue(watched.team.roster, "a1", task_id="t1", payload="x", req="m:1")
    await watched.team.clock.advance(1.0)
    assert [row["queue_depth"] for row in (await task)["changed"]] == [1]
    known = watched.feed.whole()
    task = asyncio.ensure_future(watched.feed.since(known["version"], "b1", 30.0, watched.face()))
    await watched.team.clock.advance(29.0)
    assert not task.done()
    await watched.team.clock.advance(2.0)
    assert (await task)["changed"] == []
    assert entry.agent_id == "a1"


async def test_a_change_that_no_record_shows_is_noticed_soon(watched):
    entry = await watched.team.agent("a1")
    entry.touch(watched.team.clock)
    known = await watched.news({})
    assert known["agents"][0]["status"] == "idle"
    task = asyncio.ensure_future(watched.feed.since(known["version"], "b1", 50.0, watched.face()))
    await watched.team.clock.advance(15.0)  # silent for longer than between two calls
    assert [row["status"] for row in (await task)["changed"]] == ["unknown"]


async def test_the_inbox_is_sent_only_when_it_has_changed(watched):
    """A request of a megabyte must not go to every face with every change of another agent."""
    entry = await watched.team.agent("a1")
    watched.extra = {"a1": (InboxItem("00000001", "permission", "a1", "asks", "2026", asked="x" * 1000),)}
    known = watched.feed.whole()
    await delivery.enqueue(watched.team.roster, "a1", task_id="t1", payload="x", req="m:1")
    news = await watched.feed.since(known["version"], "b1", 0.0, watched.face(conn="c1"))
    assert len(news["changed"]) == 1
    assert "inbox" not in news
    assert merged(known, news)["inbox"] == known["inbox"]
    watched.extra = {}
    watched.feed.touch(entry)
    face = watched.face(conn="c2")
    face.last = -1.0
    assert (await watched.feed.since(news["version"], "b1", 0.0, face))["inbox"] == []


async def test_an_unknown_version_or_another_daemon_gets_the_whole(watched):
    await watched.team.agent("a1")
    face = watched.face()
    now = watched.feed.whole()
    for version, boot in ((0, "b1"), (now["version"], "b0"), (now["version"] + 99, "b1"), (-3, "b1")):
        assert "agents" in await watched.feed.since(version, boot, 0.0, face)


async def test_a_face_gets_at_most_five_answers_a_second(watched):
    await watched.team.agent("a1")
    known = await watched.news({})
    face = watched.face()
    await watched.feed.since(known["version"], "b1", 0.0, face)
    second = asyncio.ensure_future(watched.feed.since(known["version"], "b1", 0.0, face))
    await settle()
    assert not second.done()
    await watched.team.clock.advance(0.25)
    assert second.done()


async def test_a_hundred_faces_together_get_no_more_answers_than_ten(watched):
    await watched.team.agent("a1")
    known = await watched.news({})
    faces = [watched.face(conn=f"f{number}") for number in range(10 * FACES - 1)]
    await watched.feed.since(known["version"], "b1", 0.0, faces[0])
    second = asyncio.ensure_future(watched.feed.since(known["version"], "b1", 0.0, faces[0]))
    await watched.team.clock.advance(10 * EVERY_S - 0.05)
    assert not second.done()
    await watched.team.clock.advance(0.1)
    assert second.done()


async def test_faces_are_counted_while_their_connection_is_open(watched):
    watched.face(answers=True, conn="c1")
    watched.face(answers=False, conn="c2")
    assert (watched.approvals.faces, watched.opened) == (1, [True])
    watched.feed.closed("c1")
    assert (watched.approvals.faces, watched.opened) == (0, [True])
    watched.feed.closed("c2")
    watched.feed.closed("c2")
    assert watched.opened == [True, False]


async def test_who_needs_a_human_comes_first_and_items_that_hold_an_agent_before_others(watched):
    for name in ("a1", "b1", "c1"):
        await watched.team.agent(name)
    held = InboxItem("00000001", "permission", "c1", "asks to use Bash: make", "2026-01-01T00:10:00.000Z")
    note = InboxItem("00000002", "error", "b1", "make check", "2026-01-01T00:00:00.000Z", holds=False)
    watched.extra = {"c1": (held,), "b1": (note,)}
    snapshot = watched.feed.whole()
    assert snapshot["agents"][0]["agent_id"] == "c1"
    assert [item["id"] for item in snapshot["inbox"]] == ["00000001", "00000002"]
    assert (snapshot["totals"]["need_you"], snapshot["totals"]["agents"]) == (1, 3)
    row = snapshot["agents"][0]
    assert row["needs_human"]
    assert row["waits_for"] == {
        "kind": "permission", "text": "asks to use Bash: make", "since": "2026-01-01T00:10:00.000Z", "until": None,
        "item": "00000001",
    }  # fmt: skip


async def test_a_spawn_run_that_its_budget_has_stopped_is_one_item_until_somebody_takes_note(watched):
    row = {"kind": "spawn", "id": "r1", "title": "Say yes", "status": "completed", "reason": "its budget is used up"}
    at, noted = "2025-01-01T00:00:00.000Z", []
    runs = [
        {**row, "since": at, "over_budget": True}, {**row, "id": "r0", "over_budget": True, "dismissed": True},
        {**row, "id": "r2", "since": at, "over_budget": False}, {**row, "id": "squad", "since": at},
    ]  # fmt: skip

    async def note(run_id, who):
        noted.append((run_id, who))
        return len(noted) == 1

    watched.inbox.run_items, watched.inbox.dismiss_run = watched.feed.run_items, note
    known = await watched.news({})
    watched.feed.runs = lambda: runs
    known = await watched.news(known)
    (item,) = known["inbox"]
    assert (item["kind"], item["run_id"], item["holds"], item["answers"]) == ("budget", "r1", False, ["dismiss"])
    with pytest.raises(BadRequest) as refused:
        await watched.inbox.answer(item["id"], GivenAnswer("approve", "", Answerer("top", "ada")))
    assert refused.value.code == "cannot_answer"
    dismissed = GivenAnswer("dismiss", "", Answerer("top", "ada"))
    assert (await watched.inbox.answer(item["id"], dismissed))["ok"]
    assert noted == [("r1", "ada (top)")]
    assert (await watched.news(known))["inbox"] == []
    with pytest.raises(Conflict) as over:
        await watched.inbox.answer(item["id"], dismissed)
    assert over.value.code == "item_over"
