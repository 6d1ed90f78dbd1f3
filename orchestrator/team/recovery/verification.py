"""The checker of `orchestrator verify`: whether the project's files form a possible and complete history.

Reads only files, so it needs no daemon and is safe beside a running daemon: effects are read before their causes
(answers, then digests, then outboxes, then inboxes), so that no effect is ever seen without its cause.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.base.errors import BadRequest, Environment
from orchestrator.core.file_models import SCHEMAS
from orchestrator.core.invariants import (
    NEEDS_ALL,
    AuditedLog,
    AuditedRecord,
    Violation,
    agent_faults,
    at_line,
    digest_faults,
    untold,
)
from orchestrator.core.records import TERMINAL
from orchestrator.team.recovery.log_audit import COLLECTED, Evidence, directories

LEFT_OUT = {
    "broadcast_missing": "records at the end of an outbox that its broadcast does not have yet",
    "unfinished lines": "a last line without its end, which may be being written",
    "missing_log": "logs of an agent that may be being made",
}
"""What is not checked while a daemon is at work, because it may be under way."""


@dataclass
class Report:
    """What was checked and what is wrong; ``ok`` if nothing is. ``checked`` counts agents, runs, records."""

    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.violations


class AnsweredLine(BaseModel):
    """One line of an answered file: a task accepted, a terminal event seen, or a record read."""

    model_config = ConfigDict(extra="forbid", strict=True)
    agent_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    outcome: Annotated[str | None, Field(pattern="^(result|error|canceled)$")] = None
    log: Literal["inbox", "outbox", "broadcast"] | None = None
    seq: Annotated[int | None, Field(ge=1)] = None
    line: Annotated[int, Field(exclude=True)] = 0

    @property
    def sensible(self) -> bool:
        """Whether it says one thing."""
        read = self.log is not None and self.seq is not None and self.task_id is None and self.outcome is None
        if self.log == "broadcast":
            return read and self.run_id is not None
        told = self.log is None and self.seq is None and self.task_id is not None
        return self.agent_id is not None and (read or told)


def verify(root: Path, *, live: bool, settled: bool, answered: Path | None = None, run: str | None = None) -> Report:
    """Check every file of a project's team, or of one team run.

    ``live``: a daemon may be running, so unfinished steps are left out. ``settled``: the last daemon ended properly,
    so nothing may be missing; otherwise records that are not in a broadcast yet are a note, because the next daemon
    adds them. ``answered`` is a file of JSON lines that a caller wrote; all that it names must exist. BadRequest for
    an invalid run or answered file, Environment if a file cannot be read.
    """
    return _Check(root, live=live, settled=settled, run=run).report(answered)


class _Check:
    def __init__(self, root: Path, *, live: bool, settled: bool, run: str | None) -> None:
        self.agents, self.runs = root / ".agents" / "agents", root / ".agents" / "run"
        self.settled = settled
        self.closed = settled and not live
        self.only = run
        self.found = Evidence(live)
        self.said: dict[str, list[AnsweredLine]] = {}
        self.answered = ""
        self.digests: dict[str, tuple[AuditedLog, dict[str, list[AuditedRecord]]]] = {}
        self.damaged: set[str] = set()  # runs whose broadcast was set aside
        self.collected: set[str] = set()
        self.homes: dict[str, str] = {}  # agent -> its run; "" when its intent cannot be read
        self.calls: dict[str, AuditedRecord] = {}
        self.late = 0
        self.left_out: list[str] = []
        self.counts = {"agents": 0, "runs": 0, "tasks": 0, "ended": 0, "answers": 0}

    def report(self, answered: Path | None) -> Report:
        if answered is not None:
            self._listen(answered)
        if self.only is not None and not (self.runs / self.only / "run.json").is_file():
            raise BadRequest("unknown_run", f"no team run is called {self.only!r}", "orchestrator status shows them")
        for directory in directories(self.runs):
            if self.only in (None, directory.name):
                self._run(directory)
        seen = set()
        for directory in directories(self.agents):
            seen.add(directory.name)
            self._agent(directory)
        self._strangers(seen)
        self._unheard(seen)
        if self.late:
            self.found.notes.append(
                f"{self.late} records are not in the broadcast: the daemon was killed, and the next start adds them"
            )
        order = sorted(self.found.violations, key=lambda one: (one.file, one.line or 0, one.kind))
        if self.found.live:
            self.left_out += [f"{kind}: {what}" for kind, what in LEFT_OUT.items()]
        return Report(order, self.found.notes, self.left_out, {**self.counts, "records": self.found.records})

    # -- the caller's word --------------------------------------------------------------------------------------

    def _listen(self, path: Path) -> None:
        """Read the answered file; an unfinished last line does not count."""
        self.answered = str(path)
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise Environment("io_failed", f"{path}: {error.strerror}", file=str(path)) from error
        for number, line in enumerate(lines, 1):
            try:
                answer = AnsweredLine.model_validate({**json.loads(line), "line": number})
            except (ValueError, TypeError, ValidationError):
                answer = AnsweredLine()
            if not answer.sensible:
                step = 'a line is {"agent_id", "task_id", "outcome"?} or {"log", "agent_id" or "run_id", "seq"}'
                raise BadRequest("bad_argument", f"{path}, line {number}: not an answer", step)
            self.said.setdefault(answer.run_id if answer.log == "broadcast" else answer.agent_id, []).append(answer)  # type: ignore[arg-type]
            self.counts["answers"] += 1

    def _heard(self, name: str, kind: str, inbox: AuditedLog, outbox: AuditedLog) -> None:
        """Check that what callers were answered about an agent, or a run (then ``inbox`` is empty), exists."""
        answers = [one for one in self.said.get(name, ()) if (one.log == "broadcast") == (kind == "broadcast")]
        if not answers:
            return
        asked = {one.task_id for one in inbox.lines if one.type == "task"}
        ends = {(one.task_id, one.type) for one in outbox.lines if one.type in TERMINAL}
        numbers = {log: {one.seq for one in found.lines} for log, found in (("inbox", inbox), (kind, outbox))}
        for one in answers:
            if one.log is not None and one.seq not in numbers[one.log]:
                self._missing(one, f"record {one.seq} of the {one.log} of {name} was read and is not there")
            elif one.task_id is not None and one.task_id not in asked:
                self._missing(one, f"task {one.task_id} was accepted for {name} and is not there")
            elif one.outcome is not None and (one.task_id, one.outcome) not in ends:
                self._missing(one, f"the {one.outcome} of task {one.task_id} of {name} was seen and is not there")

    def _missing(self, one: AnsweredLine, text: str) -> None:
        self.found.violations.append(
            Violation(
                "answered_missing", text, self.answered, one.line, one.seq, one.agent_id, one.task_id, one.run_id
            )
        )

    def _unheard(self, seen: set[str]) -> None:
        """Answers about agents and runs that have no files at all."""
        for name, answers in self.said.items():
            for one in answers:
                here = name in self.collected or name in (self.digests if one.log == "broadcast" else seen)
                if not here and (self.only is None or one.run_id == self.only):
                    self._missing(one, f"a caller was answered about {name}, of which there is nothing")
            if name in self.collected:
                self.found.notes.append(f"the answers about {name} are not checked: gc removed its data")

    # -- runs and agents ----------------------------------------------------------------------------------------

    def _run(self, directory: Path) -> None:
        run, place = directory.name, directory / "run.json"
        notes, violations = len(self.found.notes), len(self.found.violations)
        if "broadcast" in self.found.set_aside(directory):
            self.damaged.add(run)
        log = self.found.read(directory, "broadcast", run=run)
        if (directory / COLLECTED).exists():
            del self.found.notes[notes:], self.found.violations[violations:]
            self.collected.add(run)
            return
        if not (log and log.lines) and not place.exists():
            return  # made for a run that never began
        self.counts["runs"] += 1
        if log is None:
            log = AuditedLog(str(directory / "broadcast.jsonl"), [], whole=False)
            if not self.found.live:
                self._lacks(log.file, "the run has no broadcast", run=run)
        try:
            content: Any = json.loads(place.read_bytes())
            SCHEMAS["run"].validate_python(content)
        except OSError:
            self._lacks(str(place), "the run has no run.json", run=run)
        except ValueError as error:
            text = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
            self.found.violations.append(Violation("schema", text, str(place), 1, run=run))
        told: dict[str, list[AuditedRecord]] = {}
        for one in log.lines:
            told.setdefault(one.agent_id or "", []).append(one)
        self.digests[run] = (log, told)
        self._heard(run, "broadcast", AuditedLog("", []), log)

    def _lacks(self, file: str, text: str, **whose: str) -> None:
        self.found.violations.append(Violation("missing_log", text, file, **whose))  # type: ignore[arg-type]

    def _agent(self, directory: Path) -> None:
        agent = directory.name
        notes, violations = len(self.found.notes), len(self.found.violations)
        aside = self.found.set_aside(directory)
        outbox = self.found.read(directory, "outbox", agent=agent)
        inbox = self.found.read(directory, "inbox", agent=agent)
        if (directory / COLLECTED).exists():  # looked for last: gc may have begun meanwhile
            del self.found.notes[notes:], self.found.violations[violations:]
            self.collected.add(agent)
            return
        run = str(outbox.lines[0].spec.get("run_id", "")) if outbox is not None and outbox.lines else ""
        self.homes[agent] = run
        if self.only is not None and run != self.only and (run or agent not in self.digests[self.only][1]):
            del self.found.notes[notes:], self.found.violations[violations:]
            return
        if aside:
            whole = {"inbox": inbox, "outbox": outbox}
            inbox, outbox = (
                AuditedLog(str(directory / f"{name}.jsonl"), log.lines if log else [], whole=False)
                for name, log in whole.items()
            )
        if not (inbox and inbox.lines) and not (outbox and outbox.lines) and not aside:
            self._heard(agent, "outbox", AuditedLog("", []), AuditedLog("", []))
            return  # its intent never became durable, and no call was answered
        self.counts["agents"] += 1
        for name, log in (("inbox", inbox), ("outbox", outbox)):
            if log is None and not self.found.live:
                self._lacks(str(directory / f"{name}.jsonl"), f"the agent has no {name}", agent=agent)
        inbox = inbox or AuditedLog(str(directory / "inbox.jsonl"), [], whole=False)
        outbox = outbox or AuditedLog(str(directory / "outbox.jsonl"), [], whole=False)
        for fault in agent_faults(agent, inbox, outbox):
            if fault.kind == "undelivered_result" and not self.closed:
                text = f"{fault.file}, line {fault.line}: {fault.message}: the power may have taken that record"
                self.found.notes.append(text)
            else:
                self.found.violations.append(fault)
        if not (inbox.whole and outbox.whole):
            laws = ", ".join(sorted(NEEDS_ALL))
            self.left_out.append(f"{laws}: of agent {agent}, for lines of its logs cannot be used")
        self._calls(agent, inbox, outbox)
        self._digest(agent, run, outbox, aside)
        self._heard(agent, "outbox", inbox, outbox)
        self.counts["tasks"] += sum(one.type == "task" for one in inbox.lines)
        self.counts["ended"] += sum(one.type in TERMINAL for one in outbox.lines)

    def _calls(self, agent: str, inbox: AuditedLog, outbox: AuditedLog) -> None:
        """One call makes one agent, or one task of one agent."""
        causes = [*(one for one in inbox.lines if one.type == "task"), *outbox.lines[:1]]
        for one in causes:
            if one.req is None:
                continue
            before = self.calls.setdefault(one.req, one)
            if before is not one and before.file != one.file:
                text = f"call {one.req} was carried out before: {before.file}, line {before.line}"
                self.found.violations.append(at_line("call_twice", one, agent, text))

    def _digest(self, agent: str, run: str, outbox: AuditedLog, aside: set[str]) -> None:
        if not run:
            return  # its intent cannot be read, and was told of
        if run not in self.digests:
            if (self.runs / run / "run.json").is_file():
                return  # begun since the runs were read
            text = f"its team run {run!r} has no files"
            self.found.violations.append(at_line("unknown_run", outbox.lines[0], agent, text, run=run))
            return
        if "outbox" in aside or run in self.damaged:
            return
        log, by_agent = self.digests[run]
        told = by_agent.get(agent, [])
        self.found.violations += digest_faults(run, agent, told, outbox, broadcast=log)
        if self.found.live or not log.whole:
            return
        missing = untold(told, outbox)
        if not self.settled:
            self.late += len(missing)
            return
        for one in missing:
            text = f"record {one.seq} ({one.type}) is not in the broadcast of {run}"
            self.found.violations.append(at_line("broadcast_missing", one, agent, text, run=run))

    def _strangers(self, seen: set[str]) -> None:
        """Broadcast records of agents that are not there, or that belong to another run."""
        for run, (_, told) in self.digests.items():
            for agent, lines in told.items():
                if agent in self.collected:
                    continue
                if agent not in seen:
                    text = f"it names agent {agent}, which has no files"
                elif self.homes.get(agent) not in ("", run):
                    text = f"it names agent {agent}, which belongs to another run"
                else:
                    continue
                for one in lines:
                    self.found.violations.append(at_line("unknown_agent", one, agent, text, run=run))
