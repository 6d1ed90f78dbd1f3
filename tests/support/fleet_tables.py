"""The functions of the fleet's database as plain Python on plain dicts: what PostgreSQL does, in the fewest lines.

Each function of `FleetTables` is one transaction, given who calls and the time of the database. It does no I/O, and
iterates over no set. Its rules are in `fleet_rules.py`. `fleet_model.py` gives it a clock and the failures of a network.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from orchestrator.base.clock import rfc3339
from orchestrator.base.errors import BadRequest, Conflict, Environment, NotReady
from orchestrator.base.final_states import TERMINAL
from orchestrator.fleet import database_functions as functions
from tests.support.fleet_rows import Agent, AskRow, Host, LogRow, PostRow, Project, Run
from tests.support.fleet_rules import ENDED_LIVES, SCHEMA, Caller, FleetRules, as_text


def _mirrored(rows: Sequence[LogRow]) -> list[functions.MirroredLine]:
    return [functions.MirroredLine(row.seq, row.fence, row.line) for row in rows]


class FleetTables(FleetRules):
    """All functions. Each takes who calls and when, and otherwise what `FleetDatabase` says."""

    # -- hosts ---------------------------------------------------------------------------------------------------

    def join(self, caller: Caller, facts: functions.HostFacts) -> functions.Joined:
        if self.schema != SCHEMA:
            code = "schema_newer" if self.schema > SCHEMA else "schema_older"
            raise Environment(code, f"the schema is {self.schema}, this program has {SCHEMA}")
        project = self.project(caller)
        host = project.hosts[caller.host]
        if facts.repository and project.repository not in ("", facts.repository):
            raise Conflict("project_taken", f"{caller.project} is another project")
        if host.instance not in ("", facts.instance) or (host.boot != facts.boot and self.lives(caller, host)):
            raise Conflict("host_taken", f"{caller.host} is another machine or copy")
        project.repository = project.repository or facts.repository
        host.instance, host.boot, host.version, host.log_v = facts.instance, facts.boot, facts.version, facts.log_v
        host.caps, host.lost = json.loads(as_text(facts.caps)), False
        return functions.Joined(caller.project, caller.host, self.incarnation, self.timeline)

    def beat(self, caller: Caller, request: functions.BeatRequest) -> functions.Beat:
        project = self.project(caller)
        host = project.hosts[caller.host]
        if (host.instance, host.boot) != (request.instance, request.boot):
            raise Conflict("host_taken", f"{caller.host} is another machine or copy")
        if request.fresh or self.gap(caller, host):
            host.unbroken_since = caller.now
        host.lease_until, host.lost = caller.now + timedelta(seconds=functions.LEASE_S), False
        host.caps = json.loads(as_text(request.caps))
        if request.view is not None:
            host.view, host.view_n = as_text(request.view), host.view_n + 1
        agents = sorted(project.agents.items())
        homes = {name: project.runs[agent.run_id].home for name, agent in agents}
        led = {one.host for name, one in agents if homes[name] == caller.host}
        return functions.Beat(
            self.incarnation,
            self.timeline,
            own=tuple(
                functions.OwnAgent(
                    name, one.run_id, homes[name], one.fence, one.last_post,
                    one.end("inbox"), one.end("outbox"), one.on_host_lost, one.ends, len(one.late),
                )
                for name, one in agents if one.host == caller.host
            ),
            homes=tuple(
                functions.HomeAgent(
                    name, one.run_id, one.host, one.fence, one.last_post, one.end("inbox"), one.end("outbox"),
                )
                for name, one in agents if homes[name] == caller.host != one.host
            ),
            hosts=tuple(self._host_row(caller, project, name) for name in sorted(project.hosts)),
            runs=tuple(
                functions.RunHomeRow(run_id, run.home, run.gen)
                for run_id, run in sorted(project.runs.items()) if caller.host in run.homes
            ),
            views=tuple(
                functions.HostView(name, one.view_n, json.loads(one.view)) if name in led
                else functions.HostView(name, 0, {"engines": one.caps.get("engines", [])})
                for name, one in sorted(project.hosts.items())
                if name != caller.host and one.view is not None
                and (name not in led or one.view_n > request.known_views.get(name, 0))
            ),
            asks=tuple(self.asks(caller)),
        )  # fmt: skip

    def _host_row(self, caller: Caller, project: Project, name: str) -> functions.HostRow:
        host = project.hosts[name]
        left = None if host.lease_until is None else (host.lease_until - caller.now).total_seconds()
        places, agents = int(host.caps.get("places", 0)), self.live_agents(project, name)
        return functions.HostRow(name, left, host.version, host.log_v, host.draining, host.lost, places, agents)

    # -- posts ---------------------------------------------------------------------------------------------------

    def create(
        self, caller: Caller, run_id: str, agents: Sequence[functions.NewFleetAgent]
    ) -> list[functions.PlacedAgent]:
        project = self.project(caller)
        run = project.runs.setdefault(run_id, Run(caller.host, homes=[caller.host]))
        if run.home != caller.host:
            raise Conflict("not_home", f"the home of {run_id} is {run.home}")
        return [self._placed(caller, project, run_id, new) for new in agents]

    def _placed(
        self, caller: Caller, project: Project, run_id: str, new: functions.NewFleetAgent
    ) -> functions.PlacedAgent:
        for name, agent in project.agents.items():
            if agent.run_id == run_id and agent.posts[0].req == new.req:
                return functions.PlacedAgent(name, agent.host, "", again=True)
        if new.host is None:
            host = self.most_free(caller, lambda each: new.engine in each.caps.get("engines", ()))
            why = "" if host else "no_host"
        else:
            host, why = new.host, self._unfit(caller, project, new.host, new.engine)
        if why or host is None:
            return functions.PlacedAgent("", host or "", why, again=False)
        ids = itertools.chain([new.base], (f"{new.base}-{n}" for n in itertools.count(2)))
        name = next(each for each in ids if each not in project.agents and each not in new.taken)
        agent = Agent(host, run_id, new.engine, new.on_host_lost, project.hosts[host].log_v)
        project.agents[name] = agent
        self._insert(caller, agent, functions.NewPost(name, "create", new.req, new.body), 0)
        return functions.PlacedAgent(name, host, "", again=False)

    def _unfit(self, caller: Caller, project: Project, name: str, engine: str) -> str:
        host = project.hosts.get(name)
        if host is None:
            return "host_unknown"
        if not self.lives(caller, host):
            return "host_away"
        if host.draining:
            return "host_draining"
        return "" if engine in host.caps.get("engines", ()) else "engine_missing"

    def _insert(self, caller: Caller, agent: Agent, post: functions.NewPost, position: int) -> PostRow:
        seq, at = self.next_number(agent), rfc3339(caller.now)
        row = PostRow(seq, post.kind, post.task_id, post.req, caller.host, at, as_text(post.body), position)
        agent.posts.append(row)
        agent.next_post = agent.last_post = seq
        agent.tasks += post.kind == "task"
        agent.closing = agent.closing or post.kind == "stop"
        return row

    def post(self, caller: Caller, post: functions.NewPost) -> functions.PostAnswer:
        agent = self.project(caller).agents.get(post.agent)
        if agent is None:
            return functions.PostAnswer("no_agent", "")
        unfinished = max(0, agent.tasks - agent.ended)  # an end may outlive its post in a failover
        answer = functions.PostAnswer("accepted", agent.host, unfinished=unfinished, life=agent.life)
        for row in agent.posts:
            if row.req == post.req:
                return answer._replace(status="again", seq=row.seq, position=row.position)
        known = next((row for row in agent.posts if row.kind == "task" and row.task_id == post.task_id), None)
        outcome = agent.outcome(post.task_id) if known and post.task_id else ""
        if post.kind == "cancel" and known is None:
            return answer._replace(status="unknown_task")
        if post.kind == "cancel" and outcome:
            return answer._replace(status="task_over", outcome=outcome)
        if post.kind == "task" and known is not None:
            return answer._replace(
                status="known_task", seq=known.seq, position=known.position, body=json.loads(known.body),
                outcome=outcome,
            )  # fmt: skip
        if self._takes_no(post, agent):
            return answer._replace(status="agent_ended")
        if post.kind == "task" and unfinished >= post.limit:
            return answer._replace(status="queue_full")
        row = self._insert(caller, agent, post, unfinished + 1 if post.kind == "task" else 0)
        return answer._replace(seq=row.seq, position=row.position)

    def _takes_no(self, post: functions.NewPost, agent: Agent) -> bool:
        """Whether the agent's end refuses a post: a failed agent can be restarted, and whatever is left be stopped."""
        if post.kind == "task":
            return agent.closing or agent.life in ENDED_LIVES
        if post.kind == "restart":
            return agent.closing or agent.life in ("stopped", "deleted")
        if post.kind == "stop":
            return (agent.closing and not post.force) or agent.life == "deleted"
        return False

    def take(self, caller: Caller, after: Mapping[str, int], each: int) -> list[functions.Post]:
        project = self.project(caller)
        return [
            functions.Post(name, *row[:6], json.loads(row.body))
            for name in sorted(after)
            if (agent := project.agents.get(name)) is not None and agent.host == caller.host
            for row in [row for row in agent.posts if row.seq > after[name]][:each]
        ]

    def untaken(self, caller: Caller, after: Mapping[str, int], each: int) -> list[functions.UntakenPost]:
        project = self.project(caller)
        return [
            functions.UntakenPost(
                name, row.seq, row.kind, row.task_id, row.at,
                json.loads(row.body).get("title", "").replace("\0", "\ufffd")[:80] if row.kind == "task" else "",
            )
            for name in sorted(after) if name in project.agents
            for row in [row for row in project.agents[name].posts if row.seq > after[name]][:each]
        ]  # fmt: skip

    # -- the mirror ----------------------------------------------------------------------------------------------

    def ship(self, caller: Caller, parts: Sequence[functions.LogPart]) -> list[functions.ShipAnswer]:
        project = self.project(caller)
        return [self._ship(caller, project, part) for part in parts]

    def _ship(self, caller: Caller, project: Project, part: functions.LogPart) -> functions.ShipAnswer:
        agent = project.agents.get(part.agent)
        if agent is None:
            return functions.ShipAnswer(part.agent, "fenced", 0, 0, 0, "")
        status = self._misfit(caller, agent, part) or "stored"
        if status == "stored":
            for log, lines in self._logs(part):
                rows = [LogRow(row.seq, part.fence, row.type, row.task_id, row.line) for row in lines]
                agent.logs[log].extend(rows)
                agent.ended += sum(log == "outbox" and row.type in TERMINAL for row in rows)
            agent.life, agent.log_v = part.life, project.hosts[caller.host].log_v
        ends = agent.end("inbox"), agent.end("outbox")
        return functions.ShipAnswer(part.agent, status, *ends, agent.fence, agent.host)

    @staticmethod
    def _logs(part: functions.LogPart) -> Iterator[tuple[str, Sequence[functions.ShippedLine]]]:
        yield "inbox", part.inbox
        yield "outbox", part.outbox

    def _misfit(self, caller: Caller, agent: Agent, part: functions.LogPart) -> str:
        if not self.owns(caller, agent, part.fence):
            return "fenced"
        misfits = [self.first_misfit(agent, log, lines) for log, lines in self._logs(part)]
        if "forked" in misfits or "gap" in misfits:
            return "forked" if "forked" in misfits else "gap"
        ends = [row.task_id for row in part.outbox if row.type in TERMINAL and row.task_id is not None]
        twice = len(dict.fromkeys(ends)) < len(ends) or any(agent.outcome(task_id) for task_id in ends)
        return "forked" if twice else ""

    def ownership(self, caller: Caller, agents: Sequence[str]) -> dict[str, functions.Ownership]:
        known = self.project(caller).agents
        return {name: functions.Ownership(known[name].host, known[name].fence) for name in agents if name in known}

    def move(self, caller: Caller, dead: str) -> list[functions.MovedAgent]:
        project = self.project(caller)
        host = project.hosts.get(dead)
        if host is None:
            raise BadRequest("host_unknown", f"no host {dead}")
        if not self.expired(caller, host):
            raise Conflict("host_alive", f"the lease of {dead} has not expired")
        if not self.unbroken(caller, project.hosts[caller.host]):
            raise NotReady("too_early", f"{caller.host} has not renewed for long enough")
        moved = []
        for name, agent in sorted(project.agents.items()):
            target = self._target(caller, project, dead, agent)
            if target is not None:
                agent.host, agent.ends = target
                agent.fence += 1
                agent.closing = agent.closing or agent.ends
                moved.append(functions.MovedAgent(name, agent.host, agent.fence, agent.ends))
        return moved

    def _target(self, caller: Caller, project: Project, dead: str, agent: Agent) -> tuple[str, bool] | None:
        """The next owner of an agent of a lost host, and whether it only writes the end; None: it stays."""
        if agent.host != dead or agent.life == "deleted":
            return None

        def fits(host: Host) -> bool:
            return agent.engine in host.caps.get("engines", ()) and host.log_v >= agent.log_v

        if agent.on_host_lost == "move" and not agent.ends:
            target = self.most_free(caller, fits)
            if target is not None:
                return target, False
        home = project.runs[agent.run_id].home
        return (home, True) if project.hosts[dead].lost and home != dead else None

    def read(
        self, caller: Caller, agent: str, log: str, after: int, lines: int, max_bytes: int
    ) -> list[functions.MirroredLine]:
        known = self.project(caller).agents.get(agent)
        rows = [row for row in known.logs[log] if row.seq > after][:lines] if known else []
        sizes = itertools.accumulate(len(row.line.encode()) for row in rows)
        fits = sum(size <= max_bytes for size in sizes)
        return _mirrored(rows[: max(1, fits)])

    def read_new(self, caller: Caller, after: Mapping[str, tuple[int, int]]) -> list[functions.NewLines]:
        agents = self.project(caller).agents
        new = []
        for name, (inbox, outbox) in sorted(after.items()):
            logs = agents[name].logs if name in agents else {}
            parts = [
                tuple(_mirrored([row for row in logs.get(log, ()) if row.seq > start][: functions.NEW_LINES]))
                for log, start in (("inbox", inbox), ("outbox", outbox))
            ]
            if any(parts):
                new.append(functions.NewLines(name, *parts))
        return new

    def late(self, caller: Caller, agent: str, fence: int, lines: Sequence[functions.LateLine]) -> None:
        known = self.project(caller).agents.get(agent)
        if known is None:
            return
        kept = {row[1:5] for row in known.late}
        for line in lines:
            if (fence, caller.host, line.log, line.seq) not in kept:
                known.late.append(functions.KeptLateLine(len(known.late) + 1, fence, caller.host, *line))

    def late_lines(
        self, caller: Caller, agent: str, after: int, lines: int, max_bytes: int
    ) -> list[functions.KeptLateLine]:
        known = self.project(caller).agents.get(agent)
        rows = [row for row in known.late if row.n > after][:lines] if known else []
        rows = [row if len(row.line.encode()) <= max_bytes else row._replace(line="") for row in rows]
        sizes = itertools.accumulate(len(row.line.encode()) for row in rows)
        return rows[: sum(size <= max_bytes for size in sizes)]

    def take_run(self, caller: Caller, run_id: str, gen: int) -> functions.RunHomeRow:
        run = self.project(caller).runs.get(run_id)
        if run is None:
            raise BadRequest("unknown_run", f"no run {run_id}")
        if run.gen == gen and run.home != caller.host:
            run.home, run.gen = caller.host, gen + 1
            run.homes = [*run.homes, caller.host]
        return functions.RunHomeRow(run_id, run.home, run.gen)

    def forget(self, caller: Caller, agents: Sequence[str]) -> list[str]:
        project = self.project(caller)
        gone = [
            name
            for name in sorted(dict.fromkeys(agents))
            if (agent := project.agents.get(name)) is not None
            and agent.life == "deleted"
            and project.runs[agent.run_id].home == caller.host
        ]
        for name in gone:
            del project.agents[name]
        return gone

    # -- questions -----------------------------------------------------------------------------------------------

    def ask(self, caller: Caller, to_host: str, verb: str, body: Any, wait_s: float) -> int:
        project = self.project(caller)
        if to_host not in project.hosts:
            raise BadRequest("host_unknown", f"no host {to_host}")
        ask_id, self.next_ask = self.next_ask, self.next_ask + 1
        until = caller.now + timedelta(seconds=wait_s)
        project.asks[ask_id] = AskRow(caller.host, to_host, verb, as_text(body), until)
        return ask_id

    def asks(self, caller: Caller) -> list[functions.Ask]:
        return [
            functions.Ask(
                ask_id, one.by_host, one.verb, json.loads(one.body), (one.until - caller.now).total_seconds()
            )
            for ask_id, one in sorted(self.project(caller).asks.items())
            if one.to_host == caller.host and one.answer is None and one.until > caller.now
        ]

    def answer(self, caller: Caller, ask_id: int, answer: Any) -> None:
        one = self.project(caller).asks.get(ask_id)
        if one and one.to_host == caller.host and one.answer is None and one.until > caller.now:
            one.answer = as_text(answer)

    def answered(self, caller: Caller, ask_id: int) -> tuple[bool, Any]:
        project = self.project(caller)
        one = project.asks.get(ask_id)
        if one is None or one.by_host != caller.host or one.answer is None:
            return False, None
        del project.asks[ask_id]
        return True, json.loads(one.answer)
