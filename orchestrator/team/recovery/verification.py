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
from orchestrator.base.final_states import TERMINAL
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
from orchestrator.core.schemas import SCHEMAS
from orchestrator.team.recovery.log_audit import COLLECTED, MIRROR, Evidence, directories

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
        names_record = self.log is not None and self.seq is not None and self.task_id is None and self.outcome is None
        if self.log == "broadcast":
            return names_record and self.run_id is not None
        names_task = self.log is None and self.seq is None and self.task_id is not None
        return self.agent_id is not None and (names_record or names_task)


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
        self.evidence = Evidence(live)
        self.answers: dict[str, list[AnsweredLine]] = {}
        self.answers_file = ""
        self.digests: dict[str, tuple[AuditedLog, dict[str, list[AuditedRecord]]]] = {}
        self.damaged: set[str] = set()  # runs whose broadcast was set aside
        self.elsewhere: set[str] = set()  # runs of another host: nobody reads what this one told of its agents
        self.collected: set[str] = set()
        self.homes: dict[str, str] = {}  # agent -> its run; "" when its intent cannot be read
        self.calls: dict[str, AuditedRecord] = {}
        self.late = 0
        self.unmirrored = 0
        self.left_out: list[str] = []
        self.counts = {"agents": 0, "runs": 0, "tasks": 0, "ended": 0, "answers": 0}

    def report(self, answered: Path | None) -> Report:
        if answered is not None:
            self._read_answers(answered)
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
        self._check_stray_answers(seen)
        if self.late:
            self.evidence.notes.append(
                f"{self.late} records are not in the broadcast: the daemon was killed, and the next start adds them"
            )
        if self.unmirrored:
            text = "are told once the fleet's database is known to have them: their agents may move to another host"
            self.evidence.notes.append(f"{self.unmirrored} records {text}")
        order = sorted(
            self.evidence.violations, key=lambda violation: (violation.file, violation.line or 0, violation.kind)
        )
        if self.evidence.live:
            self.left_out += [f"{kind}: {what}" for kind, what in LEFT_OUT.items()]
        return Report(order, self.evidence.notes, self.left_out, {**self.counts, "records": self.evidence.records})

    # -- the caller's word --------------------------------------------------------------------------------------

    def _read_answers(self, path: Path) -> None:
        """Read the answered file; an unfinished last line does not count."""
        self.answers_file = str(path)
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
            name = answer.run_id if answer.log == "broadcast" else answer.agent_id
            self.answers.setdefault(name, []).append(answer)  # type: ignore[arg-type]
            self.counts["answers"] += 1

    def _check_answers(self, name: str, kind: str, inbox: AuditedLog, outbox: AuditedLog) -> None:
        """Check that what callers were answered about an agent, or a run (then ``inbox`` is empty), exists."""
        answers = [
            answer for answer in self.answers.get(name, ()) if (answer.log == "broadcast") == (kind == "broadcast")
        ]
        if not answers:
            return
        task_ids = {record.task_id for record in inbox.lines if record.type == "task"}
        ends = {(record.task_id, record.type) for record in outbox.lines if record.type in TERMINAL}
        numbers = {
            log: {record.seq for record in audited.lines} for log, audited in (("inbox", inbox), (kind, outbox))
        }
        for answer in answers:
            if answer.log is not None and answer.seq not in numbers[answer.log]:
                self._missing(answer, f"record {answer.seq} of the {answer.log} of {name} was read and is not there")
            elif answer.task_id is not None and answer.task_id not in task_ids:
                self._missing(answer, f"task {answer.task_id} was accepted for {name} and is not there")
            elif answer.outcome is not None and (answer.task_id, answer.outcome) not in ends:
                self._missing(
                    answer, f"the {answer.outcome} of task {answer.task_id} of {name} was seen and is not there"
                )

    def _missing(self, answer: AnsweredLine, text: str) -> None:
        self.evidence.violations.append(
            Violation(
                "answered_missing",
                text,
                self.answers_file,
                answer.line,
                answer.seq,
                answer.agent_id,
                answer.task_id,
                answer.run_id,
            )
        )

    def _check_stray_answers(self, seen: set[str]) -> None:
        """Answers about agents and runs that have no files at all."""
        for name, answers in self.answers.items():
            for answer in answers:
                here = name in self.collected or name in (self.digests if answer.log == "broadcast" else seen)
                if not here and (self.only is None or answer.run_id == self.only):
                    self._missing(answer, f"a caller was answered about {name}, of which there is nothing")
            if name in self.collected:
                self.evidence.notes.append(f"the answers about {name} are not checked: gc removed its data")

    # -- runs and agents ----------------------------------------------------------------------------------------

    def _run(self, directory: Path) -> None:
        run, place = directory.name, directory / "run.json"
        notes, violations = len(self.evidence.notes), len(self.evidence.violations)
        if "broadcast" in self.evidence.set_aside(directory):
            self.damaged.add(run)
        log = self.evidence.read(directory, "broadcast", run=run)
        if (directory / COLLECTED).exists():
            del self.evidence.notes[notes:], self.evidence.violations[violations:]
            self.collected.add(run)
            return
        if not (log and log.lines) and not place.exists():
            return  # made for a run that never began
        self.counts["runs"] += 1
        if log is None:
            log = AuditedLog(str(directory / "broadcast.jsonl"), [], whole=False)
            if not self.evidence.live:
                self._lacks(log.file, "the run has no broadcast", run=run)
        try:
            content: Any = json.loads(place.read_bytes())
            SCHEMAS["run"].validate_python(content)
        except OSError:
            self._lacks(str(place), "the run has no run.json", run=run)
        except ValueError as error:
            text = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
            self.evidence.violations.append(Violation("schema", text, str(place), 1, run=run))
        else:
            if home := content.get("home"):
                self.elsewhere.add(run)
                self.left_out.append(f"the broadcast of {run}, for host {home} is its home")
        by_agent: dict[str, list[AuditedRecord]] = {}
        for record in log.lines:
            by_agent.setdefault(record.agent_id or "", []).append(record)
        self.digests[run] = (log, by_agent)
        self._check_answers(run, "broadcast", AuditedLog("", []), log)

    def _lacks(self, file: str, text: str, **whose: str) -> None:
        self.evidence.violations.append(Violation("missing_log", text, file, **whose))  # type: ignore[arg-type]

    def _agent(self, directory: Path) -> None:
        agent = directory.name
        notes, violations = len(self.evidence.notes), len(self.evidence.violations)
        aside = self.evidence.set_aside(directory)
        outbox = self.evidence.read(directory, "outbox", agent=agent)
        inbox = self.evidence.read(directory, "inbox", agent=agent)
        if (directory / COLLECTED).exists():  # looked for last: gc may have begun meanwhile
            del self.evidence.notes[notes:], self.evidence.violations[violations:]
            self.collected.add(agent)
            return
        run = str(outbox.lines[0].spec.get("run_id", "")) if outbox is not None and outbox.lines else ""
        self.homes[agent] = run
        if self.only is not None and run != self.only and (run or agent not in self.digests[self.only][1]):
            del self.evidence.notes[notes:], self.evidence.violations[violations:]
            return
        if aside:
            whole = {"inbox": inbox, "outbox": outbox}
            inbox, outbox = (
                AuditedLog(str(directory / f"{name}.jsonl"), log.lines if log else [], whole=False)
                for name, log in whole.items()
            )
        if not (inbox and inbox.lines) and not (outbox and outbox.lines) and not aside:
            self._check_answers(agent, "outbox", AuditedLog("", []), AuditedLog("", []))
            return  # its intent never became durable, and no call was answered
        self.counts["agents"] += 1
        if (directory / MIRROR).exists():
            self._copy(agent, run, inbox, outbox)
            return
        for name, log in (("inbox", inbox), ("outbox", outbox)):
            if log is None and not self.evidence.live:
                self._lacks(str(directory / f"{name}.jsonl"), f"the agent has no {name}", agent=agent)
        inbox = inbox or AuditedLog(str(directory / "inbox.jsonl"), [], whole=False)
        outbox = outbox or AuditedLog(str(directory / "outbox.jsonl"), [], whole=False)
        for fault in agent_faults(agent, inbox, outbox):
            if fault.kind == "undelivered_result" and not self.closed:
                text = f"{fault.file}, line {fault.line}: {fault.message}: the power may have taken that record"
                self.evidence.notes.append(text)
            else:
                self.evidence.violations.append(fault)
        if not (inbox.whole and outbox.whole):
            laws = ", ".join(sorted(NEEDS_ALL))
            self.left_out.append(f"{laws}: of agent {agent}, for lines of its logs cannot be used")
        self._calls(agent, inbox, outbox)
        self._digest(agent, run, outbox, aside)
        self._check_answers(agent, "outbox", inbox, outbox)
        self.counts["tasks"] += sum(record.type == "task" for record in inbox.lines)
        self.counts["ended"] += sum(record.type in TERMINAL for record in outbox.lines)

    def _copy(self, agent: str, run: str, inbox: AuditedLog | None, outbox: AuditedLog | None) -> None:
        """Check the copy of another host's agent: its lines are checked, and what it lacks is at most a note.

        It is written without a sync and may be behind everything that was taken from it.
        """
        logs = [log or AuditedLog("", [], whole=False) for log in (inbox, outbox)]
        faults = list(agent_faults(agent, *logs))
        if run in self.digests and run not in self.damaged:
            log, by_agent = self.digests[run]
            faults += digest_faults(run, agent, by_agent.get(agent, []), logs[1], broadcast=log)
        for fault in faults:
            text = (
                f"{fault.file}, line {fault.line}: {fault.message}: this copy of another host's agent may be behind"
            )
            self.evidence.notes.append(text)
        if self.answers.get(agent):
            self.evidence.notes.append(f"the answers about {agent} are not checked: it is another host's agent")

    def _calls(self, agent: str, inbox: AuditedLog, outbox: AuditedLog) -> None:
        """One call makes one agent, or one task of one agent."""
        tasks = (record for record in inbox.lines if record.type == "task" and not record.duplicate)
        causes = [*tasks, *outbox.lines[:1]]
        for record in causes:
            if record.req is None:
                continue
            before = self.calls.setdefault(record.req, record)
            if before is not record and before.file != record.file:
                text = f"call {record.req} was carried out before: {before.file}, line {before.line}"
                self.evidence.violations.append(at_line("call_twice", record, agent, text))

    def _digest(self, agent: str, run: str, outbox: AuditedLog, aside: set[str]) -> None:
        if not run:
            return  # its intent cannot be read, and was told of
        if run not in self.digests:
            if (self.runs / run / "run.json").is_file():
                return  # begun since the runs were read
            text = f"its team run {run!r} has no files"
            self.evidence.violations.append(at_line("unknown_run", outbox.lines[0], agent, text, run=run))
            return
        if "outbox" in aside or run in self.damaged or run in self.elsewhere:
            return
        log, by_agent = self.digests[run]
        published = by_agent.get(agent, [])
        self.evidence.violations += digest_faults(run, agent, published, outbox, broadcast=log)
        if self.evidence.live or not log.whole:
            return
        missing = untold(published, outbox)
        if (outbox.lines[0].spec.get("fleet") or {}).get("on_host_lost") == "move":
            self.unmirrored += len(missing)
            return
        if not self.settled:
            self.late += len(missing)
            return
        for record in missing:
            text = f"record {record.seq} ({record.type}) is not in the broadcast of {run}"
            self.evidence.violations.append(at_line("broadcast_missing", record, agent, text, run=run))

    def _strangers(self, seen: set[str]) -> None:
        """Broadcast records of agents that are not there, or that belong to another run."""
        for run, (_, by_agent) in self.digests.items():
            for agent, lines in by_agent.items():
                if agent in self.collected or run in self.elsewhere:
                    continue
                if agent not in seen:
                    text = f"it names agent {agent}, which has no files"
                elif self.homes.get(agent) not in ("", run):
                    text = f"it names agent {agent}, which belongs to another run"
                else:
                    continue
                for record in lines:
                    self.evidence.violations.append(at_line("unknown_agent", record, agent, text, run=run))
