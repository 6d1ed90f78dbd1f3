"""The timeline of a team run: of each agent its launches, the attempts at its tasks, and its waits for a human.

Only `timeline_of` reads files; the rest folds what it is given. Used by the report, `top` and the web page. All texts
are masked and printable; a face still escapes them for its own medium. Times are RFC 3339 in UTC with milliseconds,
as in the records, so that they compare as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.base.final_states import TERMINAL
from orchestrator.base.secret_masks import one_line
from orchestrator.core.task_words import reason_of, title_of
from orchestrator.team.roster.log_salvage import LogGap
from orchestrator.team.roster.run_records import AgentRecords, RunRecords, run_records

QUESTIONS = frozenset({"permission", "question", "dialog"})
"""Kinds that an answer ends; a screen and a hook may name the same one differently."""
TITLE, TEXT = 80, 320


@dataclass(slots=True)
class Bar:
    """One attempt at a task.

    ``begin`` is None for a task that ended without a delivery (canceled in the queue, or the record is missing);
    ``end`` is None while it runs. ``outcome``: result, error, canceled, requeued, unknown (its end is missing), or ""
    while it runs. ``why`` is the reason of any end but a result.
    """

    task_id: str
    title: str
    begin: str | None
    end: str | None
    outcome: str
    attempt: int
    why: str = ""


@dataclass(slots=True)
class Wait:
    """One wait for a human, as the inbox counts them; ``end`` is None while it lasts.

    ``kind`` is that of `blocked` (permission, login, rate_limit, …; blocked without a kind), stalled, or failed.

    ``answer`` is the decision that was recorded (approve, always, deny, answer, release, dismiss), ``by`` who made it
    and where ("human, ann, top"; "rule" for one that a human made before); both are empty if it ended otherwise, for
    the recorded ``reason``.
    """

    begin: str
    end: str | None
    kind: str
    text: str
    answer: str = ""
    by: str = ""
    reason: str = ""


@dataclass(slots=True)
class Life:
    """One launch of the agent's CLI; ``how`` says how it ended: exited, failed, stopped, or "" while it runs."""

    epoch: int
    begin: str
    ready: str | None = None
    end: str | None = None
    how: str = ""
    why: str = ""


@dataclass(slots=True)
class Lane:
    """One agent: its launches, attempts and waits, each in the order of their begin."""

    agent_id: str
    name: str
    engine: str
    role: str = ""
    bars: list[Bar] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    deleted: str | None = None  # when


@dataclass(slots=True)
class Timeline:
    """One team run from ``begin`` to ``end`` (None while it is live); ``gaps`` are records that are missing."""

    run_id: str
    begin: str
    end: str | None
    agents: list[Lane]
    gaps: list[LogGap]


def timeline_of(root: Path, run_id: str) -> Timeline:
    """The timeline of a run from its files, damaged ones included; BadRequest ``unknown_run``."""
    return timeline(run_records(root, run_id, without_payload))


def timeline(run: RunRecords) -> Timeline:
    """The timeline that the records of a run show."""
    lanes = [lane_of(agent) for agent in run.agents]
    times = [record["at"] for agent in run.agents for record in agent.outbox[:1] + agent.inbox[:1]]
    begin = str(run.file.get("created_at") or "") or min(times, default="")
    end = run.file.get("ended_at")
    if not run.file and all(lane.deleted for lane in lanes):  # without its file, it ends with its last agent
        end = max((str(lane.deleted) for lane in lanes), default=None)
    gaps = [*run.gaps, *(gap for agent in run.agents for gap in agent.gaps)]
    return Timeline(run.run_id, begin, end, lanes, gaps)


def lane_of(agent: AgentRecords) -> Lane:
    """One agent's lane, folded from its records; nothing is expected of them but their order."""
    spec = agent.spec
    shown = {key: one_line(str(spec.get(key) or ""), TITLE) for key in ("name", "engine", "role")}
    lane = Lane(agent.agent_id, shown["name"] or agent.agent_id, shown["engine"], shown["role"])
    lane.deleted = (agent.note or {}).get("deleted_at")
    fold = _Fold(lane, _titles(agent.inbox))
    for record in agent.outbox:
        fold.add(record)
    for bar in lane.bars:
        bar.title = bar.title or one_line(bar.task_id, TITLE)
    return lane


class _Fold:
    """Adds records to a lane; knows which attempt, launch and waits are open."""

    def __init__(self, lane: Lane, titles: dict[str, str]) -> None:
        self.lane = lane
        self.titles = titles
        self.bar: Bar | None = None
        self.waits: dict[str, Wait] = {}

    def add(self, record: dict[str, Any]) -> None:
        kind, at = str(record["type"]), str(record["at"])
        if kind == "delivered":
            self._delivered(record, at)
        elif kind == "requeued" or kind in TERMINAL:
            self._ended(kind, record, at)
        elif kind in ("blocked", "stalled"):
            self._waits(record, at)
        elif kind == "unblocked":
            self._over(_kind(record), at, record)
        elif kind == "recovered":
            self._over("stalled", at, record)
        elif kind == "answered":
            self._answered(record, at)
        elif kind in ("starting", "restarted"):
            self._all_over(at)
            self.lane.lives.append(Life(int(record["epoch"]), at))
        elif kind == "ready":
            if self.lane.lives:
                self.lane.lives[-1].ready = at
        elif kind in ("exited", "failed", "stopped"):
            self._life_over(kind, record, at)
        elif kind == "deleted":
            self.lane.deleted = at

    def _delivered(self, record: dict[str, Any], at: str) -> None:
        task_id, attempt = str(record["task_id"]), int(record.get("attempt") or 1)
        bar = self.bar
        if bar is not None and (bar.task_id, bar.attempt) == (task_id, attempt):
            return  # delivered again
        if bar is not None:  # its end is among the missing records
            bar.end, bar.outcome = at, "unknown"
        self.bar = Bar(task_id, self._title(record), at, None, "", attempt)
        self.lane.bars.append(self.bar)

    def _ended(self, kind: str, record: dict[str, Any], at: str) -> None:
        task_id, bar = str(record["task_id"]), self.bar
        why = str(record.get("reason") or "") if kind == "requeued" else _why(kind, record)
        if bar is not None and bar.task_id == task_id:
            self.bar = None
        else:
            attempt = int(record.get("attempt") or 1) - (kind == "requeued")
            bar = Bar(task_id, self._title(record), None, None, "", attempt)
            self.lane.bars.append(bar)
        bar.end, bar.outcome, bar.why = at, kind, one_line(why, TEXT)

    def _waits(self, record: dict[str, Any], at: str) -> None:
        kind = _kind(record) if record["type"] == "blocked" else str(record["type"])
        self._over(kind, at, {"reason": "something else followed"})
        wait = self.waits[kind] = Wait(at, None, kind, one_line(str(record.get("reason") or kind), TEXT))
        self.lane.waits.append(wait)

    def _over(self, kind: str, at: str, record: dict[str, Any]) -> None:
        wait = self.waits.pop(kind, None)
        if wait is not None:
            wait.end, wait.reason = at, one_line(str(record.get("reason") or ""), TEXT)

    def _all_over(self, at: str, why: str = "its CLI was launched again") -> None:
        for kind in list(self.waits):
            self._over(kind, at, {"reason": why})

    def _answered(self, record: dict[str, Any], at: str) -> None:
        kind = str(record.get("kind") or "")
        questions = [wait for name, wait in self.waits.items() if name in QUESTIONS]
        wait = self.waits.get(kind) or (questions[-1] if questions and kind in QUESTIONS else None)
        if wait is None:
            if kind not in QUESTIONS:
                return  # somebody has taken note of something that held nobody up
            # A rule answered at once, so nobody was seen waiting.
            wait = Wait(at, at, kind, one_line(str(record.get("asked") or kind), TEXT))
            self.lane.waits.append(wait)
        who = record.get("who")
        words = [str(who.get(key) or "") for key in ("acts_as", "user", "face")] if isinstance(who, dict) else []
        wait.answer = one_line(str(record.get("decision") or ""), TITLE)
        wait.by = one_line(", ".join(dict.fromkeys(filter(None, words))), TITLE)

    def _life_over(self, kind: str, record: dict[str, Any], at: str) -> None:
        self._all_over(at, f"its CLI {'has stopped' if kind == 'stopped' else 'has ended'}")
        life = self.lane.lives[-1] if self.lane.lives else None
        if life is not None and life.end is None:
            life.end, life.how = at, kind
            life.why = one_line(str(record.get("reason") or record.get("how") or ""), TEXT)
        if kind == "failed":
            self._waits(record, at)

    def _title(self, record: dict[str, Any]) -> str:
        return one_line(str(record.get("title") or ""), TITLE) or self.titles.get(str(record["task_id"]), "")


def _kind(record: dict[str, Any]) -> str:
    return one_line(str(record.get("kind") or ""), TITLE) or "blocked"


def _why(kind: str, record: dict[str, Any]) -> str:
    if record.get("timed_out"):
        return "out of time"
    return "" if kind == "result" else str(record.get("why") or "") or reason_of(record.get("payload"))


def _titles(inbox: Iterable[dict[str, Any]]) -> dict[str, str]:
    return {
        str(record["task_id"]): one_line(str(record.get("title") or "") or title_of(record.get("payload")), TITLE)
        for record in inbox
        if record["type"] == "task"
    }


def without_payload(_agent_id: str, record: dict[str, Any]) -> dict[str, Any]:
    """A record without its payload; the title and the reason, which are made of it, stay."""
    if "payload" not in record:
        return record
    slim = {key: value for key, value in record.items() if key != "payload"}
    if record["type"] == "task":
        slim["title"] = record.get("title") or title_of(record["payload"])
    elif record["type"] in TERMINAL and record["type"] != "result":
        slim["why"] = reason_of(record["payload"])
    return slim
