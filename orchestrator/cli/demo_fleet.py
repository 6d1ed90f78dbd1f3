"""``orchestrator demo --fleet``: nine agents on three hosts do sixty jobs, and one host is lost in the middle.

All of it is on this machine: three hosts with daemons and tmux servers of their own, and a private PostgreSQL server.
The master is on the first host and speaks to its daemon as any master does. `cli/demo_hosts.py` makes and ends hosts.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.base.final_states import TERMINAL
from orchestrator.cli import demo_hosts, fleet_session, output
from orchestrator.cli.demo import call, ended_by_signals, first_expected
from orchestrator.cli.demo_hosts import HOSTS, PROJECT, DemoFleet
from orchestrator.cli.demo_jobs import FLEET_AGENTS, DemoJob, fleet_jobs
from orchestrator.cli.demo_project import environment
from orchestrator.core.glyphs import outcome_sign
from orchestrator.edge import project_location
from orchestrator.faces.daemon_client import error_from

if TYPE_CHECKING:
    from mcp import Client

LIMIT_S = 240.0
"""Longest time for the sixty jobs; they need some forty seconds, most of them until the lost host is given up."""
LOST = HOSTS[-1]
BEFORE_THE_LOSS = 2
"""Jobs of each agent on the lost host that end before it is lost: the one after them takes seconds."""


@dataclass
class FleetReport:
    """What the demo found: where agents were and are, each job's terminal events, and all that was not expected."""

    placed: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)
    run_id: str = ""
    lost_at: float | None = None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def at(self) -> str:
        """The time since the beginning, as each line begins with it."""
        return f"{time.monotonic() - self.began:5.1f} s"


def main(demos: Path, *, keep: bool, as_json: bool) -> int:
    """Run the demo; 0 when every job ended once, 1 otherwise, 130 after Ctrl-C. ``keep`` leaves all running."""
    fleet_session.need_driver()
    report = FleetReport()
    write = output.warn if as_json else output.say

    def say(text: str) -> None:
        write(f"{report.at()}  {text}")

    ended_by_signals()
    fleet = demo_hosts.prepare(demos)
    interrupted = True
    with demo_hosts.watched(fleet):
        try:
            _begin(fleet, say)
            asyncio.run(_lead(fleet, report, keep, say))
            interrupted = False
        except KeyboardInterrupt:
            say("interrupted: ending the hosts and the database")
        except BaseExceptionGroup as several:  # the SDK and both watchers wrap what they raise
            raise first_expected(several) from several
        finally:
            signal.signal(signal.SIGINT, lambda *_: None)  # cleaning up is bounded; let it finish
            keep = keep and not interrupted
            if not keep:
                if not interrupted:
                    say("stopping the hosts and the database")
                    report.differs += demo_hosts.stop(fleet)
                report.differs += demo_hosts.end(fleet)
                if interrupted or not report.differs:
                    report.differs += demo_hosts.remove(fleet)
    if interrupted:
        return 130
    _show(fleet, report, keep, as_json)
    return 1 if report.differs else 0


def _begin(fleet: DemoFleet, say: Callable[[str], None]) -> None:
    say("starting a PostgreSQL server of its own: hosts share nothing but this database")
    version = demo_hosts.start_database(fleet)
    say(f"PostgreSQL {version} runs; starting the hosts {', '.join(HOSTS)}, each with its own daemon and tmux")
    demo_hosts.start_hosts(fleet)
    say("each host has a lease, which it renews every 2 s")


async def _lead(fleet: DemoFleet, report: FleetReport, keep: bool, say: Callable[[str], None]) -> None:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 half a second that no other command pays

    first = fleet.hosts[HOSTS[0]]
    command = project_location.own_command("mcp", "--project", str(first.project))
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment(first), cwd=first.project)
    async with Client(server) as master:
        await _create(master, report, say)
        work = fleet_jobs(sys.executable)
        try:
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as both:
                both.create_task(_enqueue(master, work, say))
                both.create_task(_watch(master, fleet, report, work, say))
        except TimeoutError:
            report.differs.append(f"not all jobs had ended after {LIMIT_S:.0f} s")
        report.seconds = time.monotonic() - report.began
        _compare(fleet, report, work)
        if not keep:
            await asyncio.gather(*(call(master, "agent_delete", agent_id=name) for name in FLEET_AGENTS))


async def _create(master: Client, report: FleetReport, say: Callable[[str], None]) -> None:
    say(f'the master on {HOSTS[0]} creates nine shell agents with host "any"')
    policies = {"on_host_lost": "move"}
    wanted = [
        {"name": name, "role": "jobs", "engine": "shell", "host": "any", "policies": policies}
        for name in FLEET_AGENTS
    ]
    answer = await call(master, "agents_create", agents=wanted, ready_wait_ms=60_000)
    for name, agent in zip(FLEET_AGENTS, answer["agents"], strict=True):
        if "error" in agent:
            raise error_from(agent["error"])
        report.run_id = agent["run_id"]
        report.placed[name] = str(agent["host"])
    for host in HOSTS:
        say(f"  {host:<7} {', '.join(name for name in FLEET_AGENTS if report.placed[name] == host)}")


async def _enqueue(master: Client, work: list[DemoJob], say: Callable[[str], None]) -> None:
    for job in work:
        # The texts have letters that the encoding of the user's locale may lack.
        payload = {"command": job.command, "timeout_s": LIMIT_S, "env": {"PYTHONUTF8": "1"}}
        await call(master, "task_enqueue", agent_id=job.agent, task={"task_id": job.task_id, "payload": payload})
    say(f"{len(work)} jobs are accepted: they are committed in the database")


async def _watch(
    master: Client, fleet: DemoFleet, report: FleetReport, work: list[DemoJob], say: Callable[[str], None]
) -> None:
    """Follow the team's broadcast until every job has its terminal event; lose a host on the way."""
    by_id = {job.task_id: job for job in work}
    doomed = {name for name, host in report.placed.items() if host == LOST}
    place: dict[str, Any] = {"since_seq": 0}
    while len(report.ended) < len(work):
        page = await call(master, "broadcast_read", run_id=report.run_id, max_events=50, wait_ms=5_000, **place)
        place = {"since_seq": page["last_seq"]} | ({"gen": page["gen"]} if page.get("gen") else {})
        for event in page["events"]:
            await _note(master, report, by_id, event, say)
        ended = Counter(by_id[task_id].agent for task_id in report.ended)
        if report.lost_at is None and all(ended[name] >= BEFORE_THE_LOSS for name in doomed):
            await _lose(fleet, report, say)


async def _lose(fleet: DemoFleet, report: FleetReport, say: Callable[[str], None]) -> None:
    killed = await asyncio.to_thread(demo_hosts.kill, fleet.hosts[LOST])
    report.lost_at = time.monotonic()
    say(f"{LOST} IS LOST: its daemon, tmux and agents were ended with kill -9 ({killed} processes)")
    say("  it may only be slow, so the others wait until its lease has expired, and work on")


async def _note(
    master: Client, report: FleetReport, by_id: dict[str, DemoJob], event: dict[str, Any], say: Callable[[str], None]
) -> None:
    kind, agent, job = event["type"], str(event["agent_id"]), by_id.get(str(event.get("task_id")))
    if kind in TERMINAL and job is not None:
        if job.task_id in report.ended:
            report.differs.append(f"{job.task_id} has two terminal events")
        report.ended[job.task_id] = event
        count, glyph = f"[{len(report.ended):>2}/{len(by_id)}]", outcome_sign(kind)
        host = report.moved.get(agent, report.placed[agent])
        say(f"{count} {glyph} {job.task_id:<9} {kind:<6} on {host:<7} {job.title}")
    elif kind == "requeued" and job is not None:
        report.again[job.task_id] = int(event.get("attempt") or 2)
        say(f"  {job.task_id} was running there: it is queued again")
    elif kind == "restarted" and report.lost_at is not None:
        host = str((await call(master, "agent_get", agent_id=agent))["meta"]["host"])
        if host != report.placed[agent]:
            report.moved[agent] = host
            waited = time.monotonic() - report.lost_at
            say(f"  {agent} now runs on {host}, {waited:.0f} s after the loss of {LOST}")
    elif kind in {"exited", "failed", "blocked"}:
        say(f"  {agent}: {kind}" + (f" ({event['reason']})" if event.get("reason") else ""))


def _compare(fleet: DemoFleet, report: FleetReport, work: list[DemoJob]) -> None:
    """Every job has ended once with a result, in what the master saw and in the database."""
    for job in work:
        event = report.ended.get(job.task_id)
        if event is None or event["type"] != "result":
            ending = event["type"] if event else "no terminal event"
            report.differs.append(f"{job.task_id} ({job.title}): {ending}, expected result")
    with fleet.owner() as connection:
        rows = connection.execute(
            "select task_id, count(*) from orchestrator_fleet.log where project = %s and type = any(%s) group by 1",
            [PROJECT, sorted(TERMINAL)],
        ).fetchall()
    stored = {str(task_id): number for task_id, number in rows}
    if stored != {job.task_id: 1 for job in work}:
        report.differs.append(f"the database has {sum(stored.values())} ends of {len(stored)} jobs")
    if not report.moved:
        report.differs.append(f"no agent of {LOST} was moved")
    elif set(report.moved) != {name for name, host in report.placed.items() if host == LOST}:
        report.differs.append(f"not every agent of {LOST} was moved")


def _show(fleet: DemoFleet, report: FleetReport, stays: bool, as_json: bool) -> None:
    work = fleet_jobs(sys.executable)
    if as_json:
        tasks = [
            {
                "task_id": job.task_id,
                "agent": job.agent,
                "title": job.title,
                "outcome": (report.ended.get(job.task_id) or {}).get("type"),
                "attempts": report.again.get(job.task_id, 1),
            }
            for job in work
        ]
        facts = {"ok": not report.differs, "differs": report.differs, "seconds": round(report.seconds, 1)}
        hosts = {"lost": LOST, "placed": report.placed, "moved": report.moved}
        output.print_json({**facts, "tasks": tasks, "hosts": hosts, "kept": stays, "home": str(fleet.home)})
        return
    output.say("")
    once = sum(1 for event in report.ended.values() if event["type"] == "result")
    output.say(f"{once} of {len(work)} jobs ended with a result, each once, in {report.seconds:.1f} s.")
    for task_id, attempt in sorted(report.again.items()):
        output.say(f"  {task_id} ran {attempt} times, because {LOST} was lost while it ran")
    if stays:
        output.say("The hosts are still there. Look at them with:")
        for host, words in ((HOSTS[0], "status"), (HOSTS[0], "fleet status"), (LOST, "daemon start")):
            note = f"    # {LOST} comes back" if host == LOST else ""
            output.say(f"  {shlex.quote(str(fleet.hosts[host].home / 'orchestrator'))} {words}{note}")
        program = Path(sys.executable).with_name("orchestrator")  # which need not be on the PATH
        output.say(f"End them, in this directory, with: {shlex.quote(str(program))} demo --end")
    elif not report.differs:
        output.say("Nothing is left running, and no file.")
    else:
        output.say(f"The files are kept: {fleet.home}")
    for line in report.differs:
        output.say(f"NOT AS EXPECTED: {line}")
