"""The whole protocol against a model of it: lists and words, written from the design and not from the code.

Every call is put to both, and both must answer alike: enqueue, wait, emit, cancel, restart, delete, exits, time limits,
silence, calls of old lives, and power cuts that take with them what was not synced yet. The interesting states are
counted, so that a run which never reached them fails.
"""

import copy
from collections import Counter

import hypothesis.strategies as st
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.core import decisions, state, supervision
from orchestrator.core.record_types import UNSYNCED
from tests.support.pure_team import Desk, essence, refold

reached = Counter()
MAX_ATTEMPTS, MAX_RESTARTS, GRACE_S = 2, 3, 30.0


class Model:
    """One agent as the design tells it. ``queue`` holds unfinished tasks in order; the lease is the first."""

    def __init__(self):
        self.epoch, self.life = 1, "starting"
        self.queue = []  # [task, payload, attempt, canceled, limit]
        self.held = ""  # "", "delivered", "running": what the agent does with the head
        self.again = 0  # how often the head was handed out again after its ack, in this life
        self.ends = {}  # task -> (word, by)
        self.payloads = {}
        self.restarts = 0
        self.stop = self.stalled = False

    def find(self, task):
        return next((one for one in self.queue if one[0] == task), None)

    def end(self, task, word, by):
        one = self.find(task)
        if self.held and self.queue[0] is one:
            self.held = ""
        self.queue.remove(one)
        self.ends[task] = (word, by)

    def ready(self):
        if self.life == "starting":
            self.life = "ready"

    def lost(self):
        """What becomes of the lease when its agent is lost."""
        if not self.held:
            return
        task, _, attempt, canceled, late = self.queue[0]
        if late == "late":
            self.end(task, "error", "orchestrator")
        elif canceled:
            self.end(task, "canceled", "orchestrator")
        elif attempt < MAX_ATTEMPTS:
            self.queue[0][2] += 1
            self.held = ""
        else:
            self.end(task, "error", "orchestrator")
        self.again = 0

    def settle_cancels(self):
        for one in [one for one in self.queue if one[3]]:
            if not (self.held and self.queue[0] is one):
                self.end(one[0], "canceled", "orchestrator")


class Protocol(RuleBasedStateMachine):
    """The core as the daemon drives it, beside the model."""

    def __init__(self):
        super().__init__()
        self.desk, self.model = Desk(), Model()
        self.desk.start(max_restarts=MAX_RESTARTS, max_attempts=MAX_ATTEMPTS)
        self.count = 0
        self.points = []  # (model, records in inbox, records in outbox) after each step: where the power may fail

    @property
    def agent(self):
        return self.desk.agent

    def asks(self, call):
        """The answer of a call, or the code of its refusal."""
        try:
            return call()
        except OrchestratorError as refused:
            return refused.code

    def point(self):
        logs = self.desk.logs
        self.points.append((copy.deepcopy(self.model), len(logs["inbox"]), len(logs["outbox"])))

    # -- the master ---------------------------------------------------------------------------------------------

    @initialize(many=st.integers(1, 5))
    def begins(self, many):
        self.ready()
        for n in range(many):
            self.enqueue_new(60.0 if n % 2 else None)

    @rule(limit=st.sampled_from([None, 60.0]))
    def enqueue_new(self, limit):
        self.count += 1
        task, model = f"t{self.count}", self.model
        told = self.asks(lambda: self.enqueue(task, self.count, limit))
        if model.stop or model.life in ("failed", "deleted"):
            assert told == "agent_ended"
            reached["enqueue refused"] += 1
        else:
            model.queue.append([task, self.count, 1, False, limit])
            model.payloads[task] = self.count
            assert (told["position"], told["state"]) == (len(model.queue), "queued")
        self.point()

    def enqueue(self, task, payload, limit=None):
        made = decisions.enqueue(
            self.agent, task_id=task, payload=payload, stored=self.model.payloads.get(task), limits=self.desk.limits,
            req=f"c:{task}:{self.desk.clock}", at=self.desk.at(), timeout_s=limit,
        )  # fmt: skip
        self.desk.write(made.drafts)
        return made.answer

    @precondition(lambda self: self.model.payloads)
    @rule(data=st.data(), same=st.booleans())
    def enqueue_again(self, data, same):
        task = data.draw(st.sampled_from(sorted(self.model.payloads)))
        payload = self.model.payloads[task] if same else "another"
        told = self.asks(lambda: self.enqueue(task, payload))
        if not same:
            assert told == "task_exists"
        else:
            assert told["duplicate"]
            one = self.model.find(task)
            assert told["state"] == (self.state_of(one) if one else self.model.ends[task][0])
            reached["duplicate of an ended task"] += one is None

    def state_of(self, one):
        return self.model.held if self.model.held and self.model.queue[0] is one else "queued"

    @precondition(lambda self: self.model.payloads)
    @rule(data=st.data(), the_head=st.booleans())
    def cancel(self, data, the_head):
        model = self.model
        task = data.draw(st.sampled_from(sorted(model.payloads)))
        if the_head and model.queue:
            task = model.queue[0][0]
        self.cancel_task(task)

    def cancel_task(self, task):
        model = self.model
        told = self.asks(lambda: self.desk.cancel(task, req=f"c:x{self.desk.clock}"))
        one = model.find(task)
        if one is None:
            assert told == "task_finished"
        else:
            assert told == {"ok": True, "state": "cancel_requested"}
            reached[f"cancel of a {self.state_of(one)} task"] += 1
            one[3] = True
            model.settle_cancels()
        self.point()

    @precondition(lambda self: self.model.life in ("ready", "failed") or self.count % 5 == 0)
    @precondition(lambda self: self.model.life in ("ready", "failed", "starting"))
    @rule(kept=st.booleans())
    def restart_by_hand(self, kept):
        model, life = self.model, self.model.life
        told = self.asks(
            lambda: supervision.restart(self.agent, fresh=kept, req=f"c:r{self.desk.clock}", at=self.desk.at())
        )
        if model.stop:
            assert told == "agent_ended"
            return
        self.desk.write(told)
        if life in ("ready", "starting"):
            assert supervision.must_end(self.agent) == "restart"
            self.desk.write(supervision.exited(self.agent, at=self.desk.at(), how="restart", reason="r", code=0))
            model.lost()
            model.settle_cancels()
        self.desk.after_exit()
        model.life, model.stalled, model.restarts = "starting", False, 0
        model.epoch += 1
        model.again = 0
        reached[f"restart of a {life} agent"] += 1
        self.point()

    @precondition(lambda self: self.count > 8 and self.model.life != "deleted" and not self.model.stop)
    @rule(at_once=st.booleans())
    def delete(self, at_once):
        model = self.model
        self.desk.write(decisions.stop(self.agent, force=at_once, req="c:s", at=self.desk.at()))
        model.stop = True
        if model.held and model.life == "ready":
            model.queue[0][3] = True
        if at_once:
            self.stopped()
        self.point()

    @precondition(lambda self: self.model.stop and self.model.life != "deleted")
    @rule()
    def stopped(self):
        self.desk.write(supervision.stopped(self.agent, at=self.desk.at(), rungs=[]))
        self.desk.write(supervision.deleted(self.agent, at=self.desk.at()))
        model = self.model
        for one in list(model.queue):
            model.end(one[0], "canceled", "orchestrator")
        model.life, model.held, model.stalled = "deleted", "", False
        reached["deleted"] += 1
        self.point()

    # -- the agent ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.life == "starting")
    @rule()
    def ready(self):
        self.desk.ready()
        self.model.ready()
        self.point()

    @precondition(lambda self: self.model.life == "ready")
    @rule(waited=st.sampled_from([0.0, 2.0, 2.0]), old=st.sampled_from([False] * 9 + [True]))
    def wait(self, waited, old):
        model = self.model
        if old:
            self.late_call()
            return
        self.call_lifts_silence()
        told = self.desk.wait(waited_s=waited)
        head = model.queue[0] if model.queue else None
        if model.stop:
            assert told == {"kind": "stop"}
        elif head is None:
            assert told is None
        elif not model.held:
            assert (told["kind"], told["task_id"], told["payload"], told["attempt"]) == ("task", *head[:3])
            model.held, model.again = "delivered", 0
            reached[f"attempt {head[2]}"] += 1
        elif head[3]:
            assert told == {"kind": "cancel", "task_id": head[0]}
        elif model.held == "delivered":
            assert (told["task_id"], told.get("redelivered")) == (head[0], None)
        elif waited < 2.0:
            assert told is None
        elif model.again < 3:
            model.again += 1
            assert (told["task_id"], told["redelivered"]) == (head[0], True)
            reached["handed out again"] += 1
        else:
            assert told is None
            assert "" in self.agent.blocks
            reached["blocked: no terminal event"] += 1
        self.point()

    # Several steps at once: left to chance, something else mostly comes between them.

    def takes(self):
        """It has its head in hand and has said so."""
        if not self.model.held:
            self.wait(waited=2.0, old=False)
        if self.model.held == "delivered" and self.model.life == "ready":
            self.emit_about("ack", None)

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule()
    def takes_it(self):
        self.takes()

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule()
    def takes_it_and_is_lost(self):
        self.takes()
        self.exit(code=1)

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule()
    def takes_it_and_never_ends_it(self):
        self.takes()
        for _ in range(5):
            self.wait(waited=2.0, old=False)

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule(said=st.booleans())
    def takes_it_and_is_canceled(self, said):
        if said:
            self.takes()
        elif not self.model.held:
            self.wait(waited=2.0, old=False)
        if self.model.queue:
            self.cancel_task(self.model.queue[0][0])

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule(first=st.sampled_from(["", "ack"]), kind=st.sampled_from(sorted(TERMINAL)))
    def takes_it_and_ends_it(self, first, kind):
        if not self.model.held:
            self.wait(waited=2.0, old=False)
        if first and self.model.held == "delivered":
            self.emit_about(first, None)
        if self.model.held:
            self.emit_about(kind, None)

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule(asked=st.sampled_from([0.0, GRACE_S]))
    def takes_it_and_has_no_time_for_it(self, asked):
        if self.model.queue[0][4] is None:
            return
        self.takes()
        for _ in range(2):
            if self.model.held and self.model.life == "ready" and self.model.queue[0][4] is not None:
                self.time_goes_by(1000.0, asked)

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.held)
    @rule(kind=st.sampled_from(sorted(TERMINAL)))
    def ends_a_head_whose_delivery_was_lost(self, kind):
        self.emit_about(kind, self.model.queue[0][0])

    @precondition(lambda self: self.model.epoch > 1)
    @rule()
    def an_old_life_calls(self):
        self.late_call()

    def late_call(self):
        before = [len(log) for log in self.desk.logs.values()]
        assert self.asks(lambda: decisions.check_epoch(self.agent, self.model.epoch - 1)) in (
            "replaced",
            "agent_ended",
        )
        assert [len(log) for log in self.desk.logs.values()] == before
        reached["call of an old life"] += 1

    def call_lifts_silence(self):
        self.desk.write(supervision.recovered(self.agent, at=self.desk.at(), reason="it called"))
        reached["recovered"] += self.model.stalled
        self.model.stalled = False

    @precondition(lambda self: self.model.life == "ready")
    @rule(
        kind=st.sampled_from([*sorted(TERMINAL), "ack", "progress", "heartbeat"]),
        which=st.integers(0, 3),
        data=st.data(),
    )
    def emit(self, kind, which, data):
        """About the task it holds, by name or not; or about another one."""
        model, task = self.model, None
        if which == 1 and model.queue:
            task = model.queue[0][0]
        elif which >= 2 and model.payloads:
            task = data.draw(st.sampled_from(sorted(model.payloads)))
        self.emit_about(kind, task)

    def emit_about(self, kind, task):
        model = self.model
        self.call_lifts_silence()
        told = self.asks(lambda: self.desk.emit(kind, task, req=f"e:{self.desk.clock}"))
        head = model.queue[0] if model.queue else None
        if kind == "heartbeat":
            assert told["ok"]
        elif task is None and not model.held:
            assert told == "no_lease"
        elif task in model.ends:
            assert told["duplicate"]
            reached["late end"] += kind in TERMINAL
        elif model.held and task in (None, head[0]):
            assert told["ok"]
            if kind in TERMINAL:
                assert not told["cancel_requested"]
                reached[f"{kind} of a {model.held} task"] += 1
                model.end(head[0], kind, "agent")
            else:
                assert told["cancel_requested"] == head[3]
                assert bool(told.get("duplicate")) == (kind == "ack" and model.held == "running")
                model.held = "running"
        elif not model.held and head is not None and task == head[0] and kind in TERMINAL:
            assert told["ok"]  # its `delivered` was lost with the power, its outcome was not
            model.end(head[0], kind, "agent")
            reached["end of a head that was not handed out"] += 1
        else:
            assert told == "not_your_task"
        self.point()

    # -- what happens to it -------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.life in ("ready", "starting") and not self.model.stop)
    @rule(code=st.sampled_from([1, 1, 1, 0]))
    def exit(self, code):
        model = self.model
        never = self.agent.ready_epoch == 0
        if model.held:
            reached[f"exit with a {model.held} task, attempt {model.queue[0][2]}"] += 1
        self.desk.exit(code=code)
        model.lost()
        model.settle_cancels()
        model.stalled = False
        if code == 0 or never or model.restarts >= MAX_RESTARTS:
            model.life = "failed"
            reached["failed"] += 1
        else:
            model.restarts += 1
            model.life, model.again = "starting", 0
            model.epoch += 1
        self.point()

    @precondition(lambda self: self.model.held and self.model.life == "ready" and self.model.queue[0][4] is not None)
    @rule(ran=st.sampled_from([59.0, 60.0, 1000.0]), asked=st.sampled_from([0.0, GRACE_S]))
    def time_passes(self, ran, asked):
        self.time_goes_by(ran, asked)

    def time_goes_by(self, ran, asked):
        model, head = self.model, self.model.queue[0]
        known = asked if head[3] else None
        drafts = supervision.overtime(self.agent, at=self.desk.at(), ran_s=ran, asked_s=known, grace_s=GRACE_S)
        self.desk.write(drafts)
        if ran < 60.0 or (model.stop and known is None):
            return
        if not head[3]:
            assert [draft.type for draft in drafts] == ["cancel"]
            head[3], head[4] = True, "late"
            reached["out of time: asked to stop"] += 1
        elif asked >= GRACE_S and head[4] is not None:
            assert [draft.type for draft in drafts] == ["error"]
            model.end(head[0], "error", "orchestrator")
            reached["out of time: ended"] += 1
            if model.stop:
                return
            assert supervision.must_end(self.agent) == "timed_out"
            self.desk.write(supervision.exited(self.agent, at=self.desk.at(), how="timed_out", reason="late", code=0))
            self.desk.after_exit()
            model.stalled = False
            if model.restarts >= MAX_RESTARTS:
                model.life = "failed"
            else:
                model.restarts += 1
                model.life, model.again = "starting", 0
                model.epoch += 1
        self.point()

    @precondition(lambda self: self.model.held and self.model.life == "ready")
    @rule()
    def silence(self):
        told = supervision.stalled(self.agent, at=self.desk.at(), reason="still")
        blocked = bool(self.agent.blocks)
        assert [draft.type for draft in told] == ([] if self.model.stalled or blocked else ["stalled"])
        self.desk.write(told)
        self.model.stalled = self.model.stalled or not blocked
        reached["stalled"] += bool(told)
        self.point()

    @precondition(lambda self: self.model.life == "ready" and self.model.queue and not self.model.stop)
    @rule(back=st.integers(1, 2))
    def takes_it_and_the_power_fails(self, back):
        self.takes()
        self.the_power_fails(back)

    @precondition(lambda self: len(self.points) > 1)
    @rule(back=st.integers(1, 4))
    def power_cut(self, back):
        self.the_power_fails(back)

    def the_power_fails(self, back):
        """All that was synced is there; of what was not, some of the end is gone. Then a daemon starts."""
        logs = self.desk.logs
        for model, inbox, outbox in reversed(self.points[-1 - back : -1]):
            unsynced = all(record["type"] in UNSYNCED for record in logs["outbox"][outbox:])
            if inbox != len(logs["inbox"]) or not unsynced or outbox == len(logs["outbox"]):
                continue
            del logs["outbox"][outbox:]
            self.desk.agent = refold(self.desk)
            self.model = copy.deepcopy(model)
            reached["power cut that took records"] += 1
            break
        self.points.clear()
        self.point()

    # -- both agree ---------------------------------------------------------------------------------------------

    @invariant()
    def both_know_the_same(self):
        model, agent = self.model, self.agent
        assert (agent.life, agent.epoch) == (model.life, model.epoch)
        assert [(t.task_id, t.attempt) for t in agent.unfinished.values()] == [(o[0], o[2]) for o in model.queue]
        assert (agent.lease.state if agent.lease else "") == model.held
        assert {task: end.outcome for task, end in agent.finished.items()} == {t: e[0] for t, e in model.ends.items()}
        assert (agent.stalled is not None) == model.stalled
        by = {r["task_id"]: r["by"] for r in self.desk.logs["outbox"] if r["type"] in TERMINAL}
        assert by == {task: end[1] for task, end in model.ends.items()}

    @invariant()
    def a_restart_sees_the_same(self):
        assert essence(refold(self.desk)) == essence(self.agent)
        assert isinstance(self.agent, state.Agent)


WANTED = {
    "attempt 2": 5, "blocked: no terminal event": 25, "call of an old life": 5, "cancel of a delivered task": 2,
    "cancel of a queued task": 25, "cancel of a running task": 12, "canceled of a running task": 2, "deleted": 5,
    "duplicate of an ended task": 25, "end of a head that was not handed out": 2, "enqueue refused": 12,
    "error of a running task": 5, "exit with a delivered task, attempt 1": 2,
    "exit with a running task, attempt 1": 10, "exit with a running task, attempt 2": 2, "failed": 12,
    "handed out again": 25, "late end": 2, "out of time: asked to stop": 5, "out of time: ended": 2,
    "power cut that took records": 2, "recovered": 5, "restart of a failed agent": 10,
    "restart of a ready agent": 12, "restart of a starting agent": 5, "result of a delivered task": 2,
    "result of a running task": 5, "stalled": 7,
}  # fmt: skip
"""What a run must have reached, and how often at least."""


ROUNDS = 6
"""What hypothesis draws changes with every constant in a module of ours that is loaded, so one round may miss a rare step."""


def test_the_core_answers_as_the_model_of_the_protocol_does():
    reached.clear()
    short = WANTED
    for number in range(ROUNDS):
        run_state_machine_as_test(
            seed(number)(Protocol),
            settings=settings(
                max_examples=300,
                stateful_step_count=60,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        short = {name: (reached[name], least) for name, least in WANTED.items() if reached[name] < least}
        if not short:
            break
    assert not short, short
