"""The items that an agent's records alone show."""

from dataclasses import replace

import pytest

from orchestrator.core.inbox_items import InboxItem, in_order, item_id, of_agent, recorded_items
from orchestrator.core.state import Agent, Block, ItemAnswer, LastEnd, Proof, Task

AT = "2026-01-01T00:00:00.000Z"


def agent(**facts):
    return Agent("c1", spec={"name": "coder", "run_id": "run-1"}, **facts)


def blocked(*blocks):
    return agent(blocks={block.kind: block for block in blocks})


@pytest.mark.parametrize(
    ("block", "kind", "by"),
    [
        ("permission", "permission", "screen"), ("dialog", "dialog", "screen"), ("hooks", "dialog", "records"),
        ("trust", "trust", "records"), ("login", "login", "records"), ("rate_limit", "rate_limit", "records"),
        ("context_full", "blocked", "records"), ("", "blocked", "records"),
    ],
)  # fmt: skip
def test_each_cause_that_blocks_an_agent_is_an_item(block, kind, by):
    (item,) = recorded_items(blocked(Block(block, "why", "5pm", AT, 7)))
    assert (item.kind, item.by, item.text, item.since, item.until) == (kind, by, "why; until 5pm", AT, "5pm")
    assert (item.agent_id, item.name, item.run_id, item.holds, item.answers) == ("c1", "coder", "run-1", True, ())


def test_the_same_cause_that_comes_back_is_another_item():
    ids = {
        recorded_items(blocked(Block(kind, "why", None, AT, seq)))[0].item_id
        for kind in ("login", "trust")
        for seq in (7, 9)
    }
    assert len(ids) == 4


def test_a_question_that_a_hook_asks_too_is_one_item():
    asking = blocked(Block("permission", "Bash: make", None, AT, 7), Block("login", "log in", None, AT, 8))
    assert [item.kind for item in recorded_items(asking, asked_elsewhere=True)] == ["login"]


def test_a_stalled_and_a_failed_agent_are_items_with_the_reason_and_the_time_of_their_records():
    proofs = {"stalled": Proof("outbox", 5, "stalled", "a"), "life": Proof("outbox", 6, "failed", "b")}
    stalled, failed = recorded_items(
        agent(stalled="no event", proofs=proofs, life="failed", failure={"reason": "exit 1"})
    )
    assert (stalled.kind, stalled.text, stalled.since, stalled.holds) == ("stalled", "no event", "a", True)
    assert (failed.kind, failed.text, failed.since, failed.holds) == ("failed", "exit 1", "b", True)
    assert recorded_items(agent(life="failed", proofs=proofs))[0].text == "failed"
    assert recorded_items(agent(stalled="no event")) == recorded_items(agent(life="failed")) == []


def test_a_task_that_ended_in_error_is_an_item_until_somebody_takes_note():
    end = LastEnd("t1", "make check", "error", "exit 2", AT, 9)

    def items(ended, **facts):
        return recorded_items(agent(errors={ended.task_id: ended}, **facts))

    (item,) = items(end)
    assert (item.kind, item.text, item.since, item.holds) == ("error", "make check: exit 2", AT, False)
    assert (item.task_id, item.task_title, item.answers) == ("t1", "make check", ("dismiss",))
    (untitled,) = items(end._replace(title="", reason=""))
    assert (untitled.text, untitled.task_title) == ("t1", "t1")
    noted = {item.item_id: ItemAnswer("dismiss", "", 10)}
    assert items(end, answers=noted) == items(end, life="deleted") == []
    assert items(end._replace(seq=10))[0].item_id != item.item_id


def test_items_that_hold_an_agent_come_first_and_the_oldest_of_them_on_top():
    def item(name, since, *, holds=True):
        return InboxItem(name, "login", "c1", "", since, holds=holds)

    items = [item("d", "1", holds=False), item("c", "3"), item("b", "2"), item("a", "3")]
    assert [one.item_id for one in in_order(items)] == ["b", "a", "c", "d"]


def test_an_id_tells_its_parts_apart():
    assert len({item_id("a", "b"), item_id("ab"), item_id("a", "b", ""), item_id("b", "a")}) == 4
    assert len(item_id("\ud800")) == 8


def test_items_of_different_kinds_and_agents_never_share_an_id():
    proof = Proof("outbox", 5, "", AT)
    facts = {
        "blocks": {"login": Block("login", "", None, AT, 5)}, "stalled": "", "life": "failed",
        "proofs": {"stalled": proof, "life": proof}, "errors": {"t": LastEnd("t", "", "error", "", AT, 5)},
    }  # fmt: skip
    ids = {item.item_id for name in ("c1", "c2") for item in recorded_items(Agent(name, **facts))}
    assert len(ids) == 8


def test_an_item_names_its_agent_and_the_task_that_waits():
    waiting = InboxItem("1", "login", "c1", "", AT)
    task = Task("t1", 3, 1, None, "Review")
    known = of_agent(waiting, agent(lease=task))
    assert (known.name, known.run_id, known.task_id, known.task_title) == ("coder", "run-1", "t1", "Review")
    assert of_agent(waiting, agent(lease=replace(task, title=""))).task_title == "t1"
    own = of_agent(replace(waiting, task_id="t0", task_title="Plan"), agent(lease=task))
    assert (own.task_id, own.task_title) == ("t0", "Plan")
    nameless = of_agent(waiting, Agent("c1"))
    assert (nameless.name, nameless.run_id, nameless.task_id, nameless.task_title) == ("c1", "", None, None)


def test_a_face_gets_every_fact_of_an_item_as_json():
    asked = ({"question": "Which?"},)
    item = InboxItem("1", "question", "c1", "text", AT, questions=asked, answers=("answer", "deny"))
    assert item.as_dict() == {
        "id": "1", "kind": "question", "agent_id": "c1", "text": "text", "since": AT, "holds": True, "name": "",
        "run_id": "", "task_id": None, "task_title": None, "until": None, "tool": "", "cwd": "", "asked": "", "host": "",
        "questions": [{"question": "Which?"}], "answers": ["answer", "deny"], "by": "records", "cut": False,
    }  # fmt: skip
    assert replace(item, questions=None).as_dict()["questions"] is None


def test_ids_stay_what_they_were_so_that_an_answered_item_stays_answered():
    def ids(seq):
        proof = Proof("outbox", seq, "", AT)
        stands = agent(
            blocks={"login": Block("login", "", None, AT, seq)}, stalled="", life="failed",
            proofs={"stalled": proof, "life": proof}, errors={"t": LastEnd("t", "", "error", "", AT, seq)},
        )  # fmt: skip
        assert {item.agent_id for item in recorded_items(stands)} == {"c1"}
        return {item.kind: item.item_id for item in recorded_items(stands)}

    assert ids(5) == {"login": "3a5f62d1", "stalled": "59bae3b9", "failed": "7bda208e", "error": "bb95f65a"}
    assert not set(ids(5).values()) & set(ids(6).values())


def test_the_end_of_a_limit_is_said_once_and_an_instant_in_words():
    def text(until, reason="its limit is reached"):
        return recorded_items(blocked(Block("rate_limit", reason, until, AT, 7)))[0].text

    assert text("5pm") == "its limit is reached; until 5pm"
    assert text("2026-11-26T23:05:59.000Z") == "its limit is reached; until 2026-11-26 23:05 UTC"
    assert text("Zone T") == "its limit is reached; until Zone T"
    assert text("10 Z") == "its limit is reached; until 10 Z"
    assert text("AT 10 PTZ") == "its limit is reached; until AT 10 PTZ"
    assert text("5pm", "its limit is reached until 5pm") == "its limit is reached until 5pm"
    assert text(None) == "its limit is reached"
