"""The end of a turn as a pure question: which word it gets, for every state an agent can be in."""

import pytest

from orchestrator.core import decisions, state, supervision, turn_end
from orchestrator.core.record_types import Draft

AT = "2026-01-01T00:00:00.000Z"


class Life:
    """An agent folded from drafts."""

    def __init__(self, *, ready=True):
        self.agent = state.Agent("a1")
        self.seqs = {"inbox": 0, "outbox": 0}
        spec = {"name": "a1", "role": "r", "engine": "codex", "run_id": "run-1", "cwd": "/", "policies": {}}
        self.write([supervision.starting("a1", at=AT, req="c:1", spec=spec)])
        if ready:
            self.write(decisions.ready(self.agent, at=AT, req=None))

    def write(self, drafts: list[Draft]):
        for draft in drafts:
            self.seqs[draft.log] += 1
            state.apply(self.agent, draft.log, {**draft.fields, "seq": self.seqs[draft.log]})
        if more := supervision.settle(self.agent, AT):
            self.write(more)
        return self

    def task(self, task_id="t-1"):
        asked = decisions.enqueue(
            self.agent,
            task_id=task_id,
            payload=1,
            stored=None,
            limits=decisions.QueueLimits(),
            req=f"m:{task_id}",
            at=AT,
        )
        return self.write(asked.drafts)

    def lease(self, task_id="t-1"):
        self.task(task_id)
        offer = decisions.next_command(
            self.agent, visible_inbox=99, waited_s=0, handed_out=0, limits=decisions.QueueLimits(), at=AT, req="w:1"
        )
        return self.write(list(offer.drafts))

    def cancel(self, task_id="t-1"):
        return self.write(decisions.cancel(self.agent, task_id=task_id, req="m:c", at=AT).drafts)

    def stop(self):
        return self.write(decisions.stop(self.agent, force=False, req="m:s", at=AT))

    def ignored(self):
        blocked = {"at": AT, "type": "blocked", "epoch": 1, "reason": "no terminal event", "by": "orchestrator"}
        return self.write([Draft("outbox", "blocked", blocked)])

    def exited(self):
        return self.write(supervision.exited(self.agent, at=AT, how="exit", reason="r", code=1))


@pytest.mark.parametrize(
    ("life", "cause", "first", "fourth"),
    [
        (Life(), "", "park", "park"),
        (Life(ready=False), "start", "wake", "release"),
        (Life().task(), "task", "wake", "release"),
        (Life().task().cancel(), "", "park", "park"),
        (Life().lease(), "lease", "wake", "release"),
        (Life().lease().cancel(), "cancel", "wake", "release"),
        (Life().lease().ignored(), "", "park", "park"),
        (Life().lease().ignored().cancel(), "cancel", "wake", "release"),
        (Life().stop(), "stop", "wake", "release"),
        (Life().exited(), "", "release", "release"),
    ],
    ids=[
        "idle",
        "starting",
        "task",
        "canceled",
        "lease",
        "lease canceled",
        "ignored",
        "then canceled",
        "stop",
        "exited",
    ],
)
def test_what_the_end_of_a_turn_is_answered(life, cause, first, fourth):
    assert turn_end.due(life.agent, visible_inbox=99) == cause
    assert turn_end.turn_end(cause, life.agent, 0).word == first
    assert turn_end.turn_end(cause, life.agent, turn_end.MAX_WAKES).word == fourth


def test_what_is_not_durable_yet_wakes_nobody():
    life = Life().task()
    assert turn_end.due(life.agent, visible_inbox=0) == ""
    assert turn_end.due(Life().stop().agent, visible_inbox=0) == ""
    assert not turn_end.may_park(life.agent, visible_inbox=99, empty_waits=9, park_after=2)


def test_a_stop_that_was_handed_out_lets_the_turn_end():
    agent = Life().stop().agent
    cause = turn_end.due(agent, visible_inbox=99, told_stop=True)
    assert turn_end.turn_end(cause, agent, 0).word == "release"


def test_a_cancel_that_was_known_at_the_park_is_no_news():
    agent = Life().lease().ignored().cancel().agent
    assert turn_end.due(agent, visible_inbox=99, known_cancel="t-1") == ""
    assert turn_end.due(agent, visible_inbox=99, known_cancel="t-0") == "cancel"


@pytest.mark.parametrize(
    ("empty", "after", "may"),
    [(0, 2, False), (1, 2, False), (2, 2, True), (9, 2, True), (9, 0, False), (0, 0, False)],
)
def test_how_many_empty_waits_make_a_park(empty, after, may):
    assert turn_end.may_park(Life().agent, visible_inbox=9, empty_waits=empty, park_after=after) is may


def test_parked_and_woken_are_recorded_once_each_and_only_of_a_living_agent():
    life = Life()
    assert turn_end.woken(life.agent, at=AT, reason="x") == []
    life.write(turn_end.parked(life.agent, at=AT))
    assert life.agent.parked
    assert turn_end.parked(life.agent, at=AT) == []
    life.write(turn_end.woken(life.agent, at=AT, reason="x"))
    assert not life.agent.parked
    assert turn_end.parked(Life(ready=False).agent, at=AT) == []
    life.write(turn_end.parked(life.agent, at=AT)).exited()
    assert turn_end.woken(life.agent, at=AT, reason="x") == []
