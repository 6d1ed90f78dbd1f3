"""``orchestrator demo``: a scripted master leads three shell agents through thirty jobs on a sample project.

It speaks to the team as any master does: an MCP client over stdio. Touches ``.demo/`` of the current directory, the
run directory of the sample project there, and tmux: panes of the user's own window, or a private server outside tmux.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.errors import OrchestratorError
from orchestrator.base.final_states import TERMINAL
from orchestrator.cli import output
from orchestrator.cli.demo_jobs import AGENTS, DemoJob, jobs
from orchestrator.cli.demo_project import DemoProject, demo_dir, earlier_demos, end, environment, prepare
from orchestrator.core.glyphs import outcome_sign
from orchestrator.edge import project_location
from orchestrator.faces.daemon_client import error_from
from orchestrator.trust.state_dir import VARIABLE

if TYPE_CHECKING:
    from mcp import Client

LIMIT_S = 300.0  # for the thirty jobs; they need some ten seconds on two cores


@dataclass
class DemoReport:
    """What the demo found: the terminal event of each task, and every difference from what was expected."""

    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    run_id: str = ""
    seconds: float = 0.0


def main(keep: bool = False, as_json: bool = False, end_kept: bool = False) -> int:
    """Run the demo; 0 when every task ended as expected, 1 otherwise, 130 after Ctrl-C.

    ``keep`` leaves panes and daemon running; ``end_kept`` ends what earlier demos left, and does nothing else.
    ``as_json`` prints one JSON object at the end and the progress on stderr.
    """
    say = output.warn if as_json else output.say
    demos = demo_dir()
    if end_kept:
        return _end_kept(demos, say)
    ended_by_signals()
    place = prepare(demos)
    outcome = DemoReport()
    interrupted = True
    try:
        asyncio.run(_lead(place, outcome, keep, say))
        interrupted = False
    except KeyboardInterrupt:
        say("interrupted: ending the agents")
    except BaseExceptionGroup as several:  # the SDK and both watchers wrap what they raise
        interrupted, keep = False, False
        raise first_expected(several) from several
    finally:
        keep = keep and not interrupted
        if not keep:
            signal.signal(signal.SIGINT, lambda *_: None)  # cleaning up is bounded; let it finish
            outcome.differs += [f"process {pid} was still running" for pid in end(place)]
    if interrupted:
        return 130
    _show(place, outcome, keep, as_json)
    return 1 if outcome.differs else 0


def ended_by_signals() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP end the demo by KeyboardInterrupt, so that it cleans up.

    Ctrl-C works also where the shell that started us ignores it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def _end_kept(demos: Path, say: Callable[[str], None]) -> int:
    pids = []
    for place in earlier_demos(demos):
        pids += end(place)
        say(f"ended the demo of {place.home.name}")
    left = [f"process {pid} was still running" for pid in pids]
    from orchestrator.cli import demo_hosts  # noqa: PLC0415 the demo of one machine does without it

    for fleet in demo_hosts.earlier(demos):
        left += demo_hosts.end(fleet) + demo_hosts.remove(fleet)
        say(f"ended the demo of {fleet.home.name}, and removed its files")
    for line in left:
        say(line)
    return 1 if left else 0


def first_expected(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first expected error inside, else the first of all."""
    leaves: list[BaseException] = []
    waiting: list[BaseException] = [several]
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
        else:
            leaves.append(error)
    return next((leaf for leaf in leaves if isinstance(leaf, OrchestratorError)), leaves[0])


async def _lead(place: DemoProject, outcome: DemoReport, keep: bool, say: Callable[[str], None]) -> None:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 half a second that no other command pays

    command = project_location.own_command("mcp", "--project", str(place.project))
    env = environment(place)
    server = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=place.project)
    began = time.monotonic()
    async with Client(server) as master:
        await _create(master, outcome, say)
        say(f"3 agents ready after {time.monotonic() - began:.1f} s")
        attach = next((agent["attach"] for agent in outcome.agents.values() if agent.get("attach")), None)
        say(f"watch them: {attach}" if attach else "watch them in the panes of this window")
        work = jobs(sys.executable)
        for number in range(len(work) // len(AGENTS)):
            for job in work[number :: len(work) // len(AGENTS)]:
                payload = {"command": job.command, "timeout_s": LIMIT_S, "env": {"PYTHONUNBUFFERED": "1"}}
                task = {"task_id": job.task_id, "payload": payload}
                queued = await call(master, "task_enqueue", agent_id=_id(outcome, job), task=task)
                if queued["position"] > number + 1:
                    outcome.differs.append(f"{job.task_id} was queued at position {queued['position']}")
        say(f"{len(work)} tasks queued, ten for each agent")
        try:
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as both:
                both.create_task(_cancel(master, outcome, next(j for j in work if j.outcome == "canceled"), say))
                both.create_task(_watch(master, outcome, work, say))
        except TimeoutError:
            outcome.differs.append(f"not all tasks had ended after {LIMIT_S:.0f} s")
        outcome.seconds = time.monotonic() - began
        _compare(outcome, work)
        if not keep:
            ids = [agent["agent_id"] for agent in outcome.agents.values()]
            await asyncio.gather(*(call(master, "agent_delete", agent_id=agent_id) for agent_id in ids))


async def _create(master: Client, outcome: DemoReport, say: Callable[[str], None]) -> None:
    say(f"creating the agents {', '.join(name for name, _ in AGENTS)}")
    wanted = [{"name": name, "role": role, "engine": "shell"} for name, role in AGENTS]
    answer = await call(master, "agents_create", agents=wanted, ready_wait_ms=45_000)
    for (name, _), agent in zip(AGENTS, answer["agents"], strict=True):
        if "error" in agent:
            raise error_from(agent["error"])
        outcome.agents[name] = agent
        outcome.run_id = agent["run_id"]
    late = [name for name, agent in outcome.agents.items() if not agent["ready"]]
    for name in late:
        await call(master, "agent_get", agent_id=outcome.agents[name]["agent_id"], wait_ms=45_000)


async def _watch(master: Client, outcome: DemoReport, work: list[DemoJob], say: Callable[[str], None]) -> None:
    """Follow the team's broadcast until every task has its terminal event."""
    by_id = {job.task_id: job for job in work}
    since = 0
    while len(outcome.ended) < len(work):
        page = await call(
            master, "broadcast_read", run_id=outcome.run_id, since_seq=since, max_events=50, wait_ms=20_000
        )
        since = page["last_seq"]
        for event in page["events"]:
            job = by_id.get(str(event.get("task_id")))
            if event["type"] not in TERMINAL or job is None:
                if event["type"] in {"exited", "failed", "blocked", "requeued"}:
                    say(f"        {event['agent_id']}: {event['type']}")
                continue
            if "payload" not in event:  # too large for the digest
                whole = {"agent_id": event["agent_id"], "since_seq": event["ref"] - 1, "max_events": 1}
                event["payload"] = (await call(master, "events_read", **whole))["events"][0].get("payload")
            if job.task_id in outcome.ended:
                outcome.differs.append(f"{job.task_id} has two terminal events")
            outcome.ended[job.task_id] = event
            count, glyph = f"[{len(outcome.ended):>2}/{len(work)}]", outcome_sign(event["type"])
            summary = f"{job.task_id:<9} {event['type']:<8} {_seconds(event):>6} s"
            say(f"{count} {glyph} {summary}  {job.title}")


async def _cancel(master: Client, outcome: DemoReport, job: DemoJob, say: Callable[[str], None]) -> None:
    """Cancel the long job after its first progress event."""
    agent_id, since = _id(outcome, job), 0
    while True:
        page = await call(master, "events_read", agent_id=agent_id, since_seq=since, wait_ms=20_000)
        since = page["last_seq"]
        own = [event["type"] for event in page["events"] if event.get("task_id") == job.task_id]
        if "progress" in own:
            await call(master, "task_cancel", agent_id=agent_id, task_id=job.task_id)
            say(f"        {job.task_id} is running: cancel requested")
            return
        if set(own) & set(TERMINAL):
            return


def _compare(outcome: DemoReport, work: list[DemoJob]) -> None:
    for job in work:
        event = outcome.ended.get(job.task_id)
        ending = event["type"] if event else "no terminal event"
        if ending != job.outcome:
            payload = (event or {}).get("payload") or {}
            lines = "; ".join(payload.get("last_lines", [])[-3:]) if isinstance(payload, dict) else ""
            outcome.differs.append(f"{job.task_id} ({job.title}): {ending}, expected {job.outcome}. {lines}")


async def call(master: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool; raises its error."""
    answer = await master.call_tool(tool, arguments)
    content: dict[str, Any] = answer.structured_content or {}
    if answer.is_error:
        error = content.get("error")
        raise error_from(error if isinstance(error, dict) else {"message": f"{tool} failed"})
    return content


def _id(outcome: DemoReport, job: DemoJob) -> str:
    return str(outcome.agents[job.agent]["agent_id"])


def _seconds(event: dict[str, Any] | None) -> str:
    payload = (event or {}).get("payload") or {}
    duration = payload.get("duration_s") if isinstance(payload, dict) else None
    return f"{duration:.1f}" if isinstance(duration, int | float) else "-"


def _show(place: DemoProject, outcome: DemoReport, stays: bool, as_json: bool) -> None:
    rows = []
    for job in jobs(sys.executable):
        event = outcome.ended.get(job.task_id) or {}
        payload = event.get("payload") if isinstance(event.get("payload"), dict) else {}
        rows.append(
            {
                "task_id": job.task_id,
                "agent": job.agent,
                "title": job.title,
                "outcome": event.get("type"),
                "expected": job.outcome,
                "seconds": (payload or {}).get("duration_s"),
                "output": (payload or {}).get("artifact"),
            }
        )
    if as_json:
        files = {"project": str(place.project), "run_id": outcome.run_id}
        facts = {"ok": not outcome.differs, "differs": outcome.differs, "seconds": round(outcome.seconds, 1)}
        output.print_json({**facts, "tasks": rows, "files": files, "kept": stays})
        return
    cells = [
        [
            str(row["task_id"]), str(row["agent"]), str(row["title"]), str(row["outcome"] or "-"),
            "-" if row["seconds"] is None else f"{row['seconds']:.1f}", str(row["output"] or "-"),
        ]
        for row in rows
    ]  # fmt: skip
    output.say("")
    output.table(["task", "agent", "job", "outcome", "seconds", "output"], cells)
    output.say("")
    output.say(f"{len(outcome.ended)} tasks ended in {outcome.seconds:.1f} s. Files, under {place.project}:")
    output.say("  .agents/agents/<agent>/inbox.jsonl       what was asked of each agent")
    output.say("  .agents/agents/<agent>/outbox.jsonl      what happened")
    output.say("  .agents/agents/<agent>/artifacts/        each task's output")
    output.say(f"  .agents/run/{outcome.run_id}/broadcast.jsonl   the team's digest")
    if stays:
        attach = next((agent["attach"] for agent in outcome.agents.values() if agent.get("attach")), None)
        output.say(f"The agents are still there: {attach or 'in the panes of this window'}")
        program = Path(sys.executable).with_name("orchestrator")  # which need not be on the PATH
        state, root = shlex.quote(str(place.state)), shlex.quote(str(place.project))
        output.say(f"List them with: {VARIABLE}={state} {shlex.quote(str(program))} -C {root} status")
        output.say(f"End them, in this directory, with: {shlex.quote(str(program))} demo --end")
    else:
        output.say("Nothing is left running.")
    for line in outcome.differs:
        output.say(f"NOT AS EXPECTED: {line}")
