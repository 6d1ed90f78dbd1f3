"""The callers of spawn runs that are not the model API: a one-member squad, or a task of a team's agent.

The one place where spawn runs meet squads and the team. Every call ends in a Reply or a Fault; a canceled
call ends the work that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.base.clock import Clock
from orchestrator.base.errors import NotReady, OrchestratorError
from orchestrator.base.waiting import Signal, wait_until
from orchestrator.config.keys import Config
from orchestrator.engines import table
from orchestrator.protocol.tool_calls import Client
from orchestrator.roles.catalogue import Role, RoleListing
from orchestrator.spawn.callers import Caller, caller_kind, caller_name
from orchestrator.spawn.run_data import Fault, NodeCall, Reply
from orchestrator.squad import squad_files, squad_plan, squad_settings
from orchestrator.squad.member_environment import environment_of
from orchestrator.squad.member_process import StopRequest
from orchestrator.squad.member_turns import MemberTurns
from orchestrator.squad.results import SPAWN
from orchestrator.squad.squad_plan import MemberRequest, PlanInputs
from orchestrator.squad.squad_settings import SquadSettings
from orchestrator.squad.squads import CANCELED, SquadRequest, Squads
from orchestrator.team.roster import ask_agent
from orchestrator.team.roster.roster import Roster

BY_VARIABLES = "command"
"""The engine's name for: what the connection's ENGINE, ENGINE_COMMAND and RUN_TEMPLATE say."""
ROLE = "spawn-node"
NO_ROLE = "You answer one question of a larger piece of work. What you write is the answer."
ANSWER_BYTES = 64 << 20
COMING_S = 15.0
"""How long after a daemon's start the connections are waited for whose runs an earlier daemon began."""
OUTPUT_CHARS = 500
KEY, KEY_CHARS = "OPENROUTER_API_KEY", 8  # what is shorter is no key, and may stand in any text


@dataclass(frozen=True)
class MemberStart:
    """What the members of a run are started with: the connection's variables, and the environment they get."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_name: str = ""


def member_start_of(client: Client) -> MemberStart:
    """What a run created by this client keeps of it; looks at processes, so not for the event loop."""
    return MemberStart(dict(client.env), environment_of(client), client.name)


class EngineCaller:
    """Answers a node with one stateless member of a squad; ``engine:<name>`` takes what ENGINE takes, or ``command``.

    A member cannot be found again after its daemon's death, for it is ended then: it does not resume. Engines that
    disturb each other run one after the other; waiting for the turn counts against the node's time.
    """

    resumes = False

    def __init__(self, squads: Squads, config: Callable[[], Config], clock: Clock) -> None:
        self._squads = squads
        self._config = config
        self._clock = clock
        self._starts: dict[str, MemberStart] = {}
        self._offers: dict[Client, MemberStart | None] = {}  # of living connections; None: being read
        self._came = Signal()
        self._began = clock.monotonic()
        self._turns = MemberTurns()

    def keep(self, run_id: str, start: MemberStart) -> None:
        """Start the members of that run with this."""
        self._starts[run_id] = start

    async def offer(self, client: Client) -> None:
        """A connection has arrived: runs that it created under an earlier daemon continue with its variables.

        If their connection does not arrive within `COMING_S` of this daemon's start, the latest other connection is
        used, or the daemon's own environment, which has no variables of a connection.
        """
        self._offers[client] = None
        start = await asyncio.to_thread(member_start_of, client)
        if client in self._offers:
            self._offers[client] = start
            self._came.notify()

    def withdraw(self, client: Client) -> None:
        """That connection has ended: nothing of it stays in memory, except for runs that it has created."""
        self._offers.pop(client, None)

    def forget(self, run_id: str) -> None:
        """The run has ended: nothing of its environment stays in memory. Harmless for a run that is not known."""
        self._starts.pop(run_id, None)

    async def check(self, name: str, start: MemberStart) -> None:
        """Raise what would keep a member from starting; starts nothing.

        BadRequest ``unknown_engine``, ``bad_config`` or ``bad_template``, Environment ``engine_missing``.
        """
        await asyncio.to_thread(self._planned, name, start, "", "")

    async def call(self, ask: NodeCall) -> Reply | Fault:
        """The member's whole stdout; asked twice with one token, it starts one member."""
        deadline = self._clock.monotonic() + ask.timeout_s
        start = self._starts.get(ask.run_id) or await self._offered(ask, deadline)
        late = StopRequest()
        timer = self._clock.timer(deadline - self._clock.monotonic(), lambda: late.ask("late"))
        try:
            request, program = await asyncio.to_thread(self._request, ask, start)
            async with self._turns.of(program, late):
                left_s = deadline - self._clock.monotonic()
                if late.why or left_s <= 0:
                    message = f"its turn did not come within {ask.timeout_s:g} s: {program} runs one at a time"
                    return Fault("timeout", message, retry=True, reached=False)
                request.settings = replace(request.settings, timeout_s=left_s)
                row = await self._row(await self._squads.start(request))
        except OrchestratorError as error:
            again = isinstance(error, NotReady)
            return Fault("engine", error.message, retry=again, reached=False, next_step=error.next_step)
        finally:
            timer.cancel()
        return await asyncio.to_thread(_read, row, ask, start)

    async def _offered(self, ask: NodeCall, deadline: float) -> MemberStart:
        conn = ask.req.partition(":")[0]

        def own() -> MemberStart | None:
            return next((start for client, start in self._offers.items() if client.origin.conn == conn), None)

        own_start = await wait_until(own, self._came, min(deadline, self._began + COMING_S), self._clock)
        others = [start for start in self._offers.values() if start is not None]
        return own_start or (others[-1] if others else MemberStart(env=table.passed_on(os.environ, {})))

    async def _row(self, squad_id: str) -> dict[str, Any]:
        """The squad's one member, once it has ended."""
        try:
            answer = await self._squads.answer(squad_id, None, _ignore_progress)
        except asyncio.CancelledError:
            self._squads.cancel(squad_id)
            with contextlib.suppress(OrchestratorError):
                await self._squads.answer(squad_id, None, _ignore_progress)
            raise
        row: dict[str, Any] = answer["members"][0]
        return row

    def _request(self, ask: NodeCall, start: MemberStart) -> tuple[SquadRequest, str | None]:
        """The command that starts the member, and the exclusive thing that it needs; None: nothing."""
        wanted, role, program = self._planned(caller_name(ask.model), start, ask.system, ask.prompt)
        members = [MemberRequest(ROLE, ask.prompt)]
        request = SquadRequest(f"{SPAWN}{ask.token}", members, wanted, RoleListing({ROLE: role}), start.env)
        return request, Path(program).name if wanted.together(program) == 1 else None

    def _planned(self, name: str, start: MemberStart, system: str, prompt: str) -> tuple[SquadSettings, Role, str]:
        """Settings, role and program of a member, with all that would be refused raised already."""
        env = start.variables if name == BY_VARIABLES else squad_settings.of_engine(start.variables, name)
        config, root = self._config(), self._squads.root
        read = squad_settings.read({**env, "STATE_MODE": ""}, root, config, start.client_name)
        role = Role(id=ROLE, name=ROLE, description="", body=system or NO_ROLE, source="", file="")
        inputs = PlanInputs(root, read, start.env, config.approval, config.trust)
        member_plan = squad_plan.make(inputs, MemberRequest(ROLE, prompt), role, ROLE, root)
        return read, role, member_plan.program


class AgentCaller:
    """Answers a node with the end of one task of an agent; ``agent:<agent_id>``.

    The task's id is made of the attempt's token, so that an attempt asked again finds the task there is, and its end.
    """

    resumes = True

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._leaving = False

    def check(self, agent_id: str) -> None:
        """BadRequest ``unknown_agent`` or Conflict ``agent_ended`` when that agent cannot be asked."""
        ask_agent.check(self._roster, agent_id)

    def leave(self) -> None:
        """The daemon ends: a canceled call leaves its task alone from now on, and the next daemon gets the answer."""
        self._leaving = True

    async def forget(self, run_id: str) -> None:
        """The run has ended: cancel the tasks that an earlier daemon's attempts gave to agents for it."""
        if not self._leaving:
            await ask_agent.withdraw_all(self._roster, {"run_id": run_id}, req=f"spawn:{run_id}:end")

    async def call(self, ask: NodeCall) -> Reply | Fault:
        """The answer in the agent's result; its task is softly canceled once nobody waits for it."""
        agent_id, task_id = caller_name(ask.model), f"spawn-{ask.token}"
        deadline = self._roster.clock.monotonic() + ask.timeout_s
        try:
            await self._put(agent_id, task_id, ask)
            record = await ask_agent.outcome(self._roster, agent_id, task_id, deadline)
            if record is not None:
                return await self._read(agent_id, record, ask)
            fault = Fault("timeout", f"agent {agent_id} did not end its task within {ask.timeout_s:g} s", retry=False)
        except OrchestratorError as error:
            fault = Fault("agent", error.message, retry=isinstance(error, NotReady), next_step=error.next_step)
        except asyncio.CancelledError:
            if not self._leaving:
                await self._withdraw(agent_id, task_id, ask)
            raise
        await self._withdraw(agent_id, task_id, ask)
        return fault

    async def _put(self, agent_id: str, task_id: str, ask: NodeCall) -> None:
        instructions = "\n\n".join(text for text in (ask.system, ask.prompt) if text)
        about = {"run_id": ask.run_id, "node_id": ask.node_id}
        await ask_agent.put(self._roster, agent_id, task_id, instructions, about, req=f"spawn:{ask.token}")

    async def _withdraw(self, agent_id: str, task_id: str, ask: NodeCall) -> None:
        await ask_agent.withdraw(self._roster, agent_id, task_id, req=f"spawn:{ask.token}:cancel")

    async def _read(self, agent_id: str, record: dict[str, Any], ask: NodeCall) -> Reply | Fault:
        payload = record.get("payload")
        if record["type"] != "result":
            trouble = ask_agent.trouble_of(payload)[:OUTPUT_CHARS]
            how = "canceled the task" if record["type"] == "canceled" else "ended the task in error"
            return Fault("agent", f"agent {agent_id} {how}" + (f": {trouble}" if trouble else ""), retry=False)
        text, cut = await ask_agent.text_of(self._roster, agent_id, payload, ANSWER_BYTES)
        if not text.strip():
            return Fault("empty", f"agent {agent_id} ended the task without an answer", retry=True)
        return Reply(text, finish_reason="length" if cut else "stop", model=ask.model)


class SquadAndAgentCallers:
    """The callers that one daemon adds to the model API; ``by_kind`` has them as `caller_kind` names them."""

    def __init__(self, roster: Roster, squads: Squads) -> None:
        self.engines = EngineCaller(squads, roster.config, roster.clock)
        self.agents = AgentCaller(roster)
        self.by_kind: Mapping[str, Caller] = {"engine": self.engines, "agent": self.agents}

    async def check(self, client: Client, names: tuple[str, ...]) -> Callable[[str], None]:
        """Raise if the client cannot have its runs answered by these (``engine:claude``, ``agent:builder``).

        Returns a function that keeps, for the id of a run, what its members need of this client. Raises as the
        ``check`` of `EngineCaller` and `AgentCaller`.
        """
        start = await asyncio.to_thread(member_start_of, client) if names else MemberStart()
        for name in names:
            if caller_kind(name) == "engine":
                await self.engines.check(caller_name(name), start)
            else:
                self.agents.check(caller_name(name))

        def keep(run_id: str) -> None:
            if names:
                self.engines.keep(run_id, start)

        return keep


def _read(row: dict[str, Any], ask: NodeCall, start: MemberStart) -> Reply | Fault:
    """What became of a member. The key, which its CLI may have and may repeat, is masked."""
    key = start.env.get(KEY) or start.variables.get(KEY) or ""

    def masked(text: str) -> str:
        return text.replace(key, "[masked]") if len(key) >= KEY_CHARS else text

    engine, reason = caller_name(ask.model), row.get("reason", "")
    stdout, file = row["rawStdout"], row.get("rawStdoutFile")
    # The reason stands behind what the member itself wrote.
    output = row["rawStderr"].removesuffix(reason).strip() or stdout.strip()
    tail = f": {masked(output)[-OUTPUT_CHARS:]}" if output else ""
    if row["status"] == "timeout":
        return Fault("timeout", f"{engine} did not end within {ask.timeout_s:g} s{tail}", retry=True)
    if row["status"] == "error":
        if reason == CANCELED:
            return Fault("canceled", f"the squad of {engine} was canceled", retry=False)
        how = reason or f"it ended with {row.get('signal') or 'status ' + str(row.get('exitCode'))}"
        return Fault("engine", f"{engine}: {how}{tail}", retry=True)
    if file is not None:
        stdout = squad_files.beginning(Path(file), ANSWER_BYTES)
    if not stdout.strip():
        return Fault("empty", f"{engine} ended well and wrote nothing{tail}", retry=True)
    cut = file is not None and squad_files.size(Path(file)) > ANSWER_BYTES
    return Reply(masked(stdout.strip("\r\n")), finish_reason="length" if cut else "stop", model=ask.model)


def _ignore_progress(_progress: str) -> None:
    """Ignores the progress of a squad: the run reports that of its nodes."""
