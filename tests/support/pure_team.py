"""A team without disk: decisions and folding as the daemon combines them, for tests of the pure core."""

from __future__ import annotations

import copy
from typing import Any

from orchestrator.core import decisions, record_types, records, state, supervision

BUDGET = supervision.RestartBudget("2026-01-01T00:00:00.000Z", 1.0)
"""Every relaunch of a test's agent counts."""


class Desk:
    """One agent's two logs in memory. ``at`` is a counter, so a test can tell records apart."""

    def __init__(self, agent_id: str = "a1") -> None:
        self.agent = state.Agent(agent_id)
        self.logs: dict[str, list[dict[str, Any]]] = {"inbox": [], "outbox": []}
        self.clock = 0
        self.limits = decisions.QueueLimits()

    def at(self) -> str:
        self.clock += 1
        return f"2026-01-01T00:{self.clock // 60000 % 60:02d}:{self.clock // 1000 % 60:02d}.{self.clock % 1000:03d}Z"

    def write(self, drafts: list[record_types.Draft]) -> list[dict[str, Any]]:
        written = [self._put(draft) for draft in drafts]
        while more := supervision.settle(self.agent, self.at()):
            for draft in more:
                self._put(draft)
        return written

    def _put(self, draft: record_types.Draft) -> dict[str, Any]:
        log = self.logs[draft.log]
        record = {"v": 1, "seq": len(log) + 1, **copy.deepcopy(draft.fields), "crc": "00000000"}
        (records.INBOX if draft.log == "inbox" else records.OUTBOX).validate_python(record)
        state.apply(self.agent, draft.log, record)
        log.append(record)
        return record

    def start(self, **policies: Any) -> None:
        spec = {
            "name": "a", "role": "r", "engine": "shell", "run_id": "run-1", "cwd": "/p",
            "policies": {"restart": "on-failure", "max_restarts": 1, "on_lost": "requeue", "max_attempts": 2} | policies,
            "env_names": [],
        }  # fmt: skip
        self.write([supervision.starting(self.agent.agent_id, at=self.at(), req="c:0", spec=spec)])

    def ready(self) -> None:
        self.write(decisions.ready(self.agent, at=self.at(), req=None))

    def enqueue(self, task_id: str, payload: Any = None, req: str | None = None, title: str = "") -> dict[str, Any]:
        stored = payload
        task = self.agent.unfinished.get(task_id)
        if task is not None:
            stored = task.payload
        made = decisions.enqueue(
            self.agent, task_id=task_id, payload=payload, stored=stored, limits=self.limits,
            req=req or f"c:{task_id}", at=self.at(), title=title,
        )  # fmt: skip
        self.write(made.drafts)
        return made.answer

    def cancel(self, task_id: str, req: str = "c:x") -> dict[str, Any]:
        made = decisions.cancel(self.agent, task_id=task_id, req=req, at=self.at())
        self.write(made.drafts)
        return made.answer

    def wait(self, waited_s: float = 0.0, handed_out: int = 0, visible: int | None = None) -> dict[str, Any] | None:
        offer = decisions.next_command(
            self.agent, visible_inbox=len(self.logs["inbox"]) if visible is None else visible,
            waited_s=waited_s, handed_out=handed_out, limits=self.limits, at=self.at(), req="c:w",
        )  # fmt: skip
        self.write(list(offer.drafts))
        return offer.command

    def emit(
        self, kind: str, task_id: str | None = None, payload: Any = None, req: str | None = None
    ) -> dict[str, Any]:
        made = decisions.emit(
            self.agent,
            kind=kind,
            task_id=task_id,
            payload=payload,
            done=None,
            req=req or f"e:{self.clock}",
            at=self.at(),
        )
        self.write(made.drafts)
        return made.answer

    def exit(self, code: int | None = 1, relaunch: bool = True) -> None:
        self.write(supervision.exited(self.agent, at=self.at(), how="exit", reason="x", code=code))
        self.after_exit("" if relaunch else "its window is gone")

    def after_exit(self, nowhere: str = "", session: str | None = None) -> None:
        self.write(supervision.after_exit(self.agent, at=self.at(), budget=BUDGET, nowhere=nowhere, session=session))

    def types(self, log: str = "outbox") -> list[str]:
        return [record["type"] for record in self.logs[log]]


def refold(desk: Desk) -> state.Agent:
    """The state as a restart sees it: the whole inbox first, then the whole outbox."""
    agent = state.Agent(desk.agent.agent_id)
    for log in ("inbox", "outbox"):
        for record in desk.logs[log]:
            state.apply(agent, log, record)
    return agent


def essence(agent: state.Agent) -> dict[str, Any]:
    """What two folds of the same records must agree in."""
    return {
        "life": agent.life, "epoch": agent.epoch, "finished": agent.finished, "outcomes": agent.outcomes,
        "last_end": agent.last_end,
        "lease": agent.lease and agent.lease.task_id, "blocked": agent.blocked, "cancels": agent.cancels,
        "unfinished": [
            (t.task_id, t.title, t.state, t.attempt, t.cancel_asked, t.cancel_requested, t.redeliveries, t.payload)
            for t in agent.unfinished.values()
        ],
        "head": (head := agent.head()) and head.task_id, "restarts": agent.restarts, "calls": set(agent.calls),
    }  # fmt: skip
