"""Where a process comes from: from an agent or a squad member, from outside, or unknown. Pure.

Only what the kernel reports counts, never what a process claims of itself; but a claim (the mark in its environment)
can take rights away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, NamedTuple

from orchestrator.base.platform.ancestry import AgentKey, AncestorLine, AncestorProcess
from orchestrator.base.platform.process_facts import ProcessKey


@dataclass
class KnownProcesses:
    """The agents and squad members of this user since the machine was booted.

    ``agents``: the process of each launch, also of those that have ended. ``leaders``: daemons that have started
    squad members. ``above``: the ancestors of all of these, which adopt their orphans. ``first``: when the first of
    them was started; None before.
    """

    agents: dict[ProcessKey, AgentKey] = field(default_factory=dict)
    leaders: AbstractSet[ProcessKey] = frozenset()
    above: AbstractSet[ProcessKey] = frozenset()
    first: int | None = None

    def add(self, more: KnownProcesses) -> None:
        """Know that too."""
        self.agents.update(more.agents)
        self.leaders = self.leaders | more.leaders
        self.above = self.above | more.above
        if more.first is not None:
            self.first = more.first if self.first is None else min(self.first, more.first)


class ProcessOrigin(NamedTuple):
    """The judgement. ``agents``: whom it comes from, more than one for a process that carries another's mark."""

    kind: Literal["outside", "agent", "member", "unknown"]
    agents: frozenset[AgentKey] = frozenset()

    def other_than(self, agent: AgentKey) -> frozenset[AgentKey]:
        """The agents it comes from that are not this one; a mark without a project is that of any project's."""
        return frozenset(other for other in self.agents if other[1] != agent[1] or other[0] not in ("", agent[0]))


UNKNOWN = ProcessOrigin("unknown")


def judge(lines: Sequence[AncestorLine], known: KnownProcesses) -> ProcessOrigin:
    """Where the process at the head of the first line comes from.

    *Inside* by a process that was launched as an agent's or carries its mark, among its ancestors or above the
    leader of a session on the way: also when the ancestors in between have ended. *Outside* needs a proof: an
    ancestor that is older than every agent, one from outside this pid namespace, or one with a terminal that
    belongs to no agent. An ancestor counts only below the first that may have adopted the process.
    """
    everyone = [process for line in lines for process in line.processes]
    agents = frozenset(_agents(everyone, known))
    if agents:
        return ProcessOrigin("agent", agents)
    if any(process.member or (process.pid, process.start) in known.leaders for process in everyone):
        return ProcessOrigin("member")
    own = [(_proven(line.processes, known), line) for line in lines]
    if any(known.first is not None and process.start < known.first for proven, _ in own for process in proven):
        return ProcessOrigin("outside")
    if any(line.end == "outside" and len(proven) == len(line.processes) for proven, line in own):
        return ProcessOrigin("outside")
    ended_agents = frozenset(_ended_agents(everyone, known))
    if ended_agents:
        return ProcessOrigin("agent", ended_agents)
    if any(process.terminal for proven, _ in own for process in proven):
        return ProcessOrigin("outside")
    if known.first is None and lines:
        return ProcessOrigin("outside")
    return UNKNOWN


def _agents(everyone: Iterable[AncestorProcess], known: KnownProcesses) -> Iterable[AgentKey]:
    for process in everyone:
        if process.agent is not None:
            yield process.agent
        if (process.pid, process.start) in known.agents:
            yield known.agents[process.pid, process.start]


def _ended_agents(everyone: Sequence[AncestorProcess], known: KnownProcesses) -> Iterable[AgentKey]:
    """The agents whose CLI has ended and in whose session one of these still is."""
    alive = {process.pid for process in everyone}
    orphaned = {
        process.session: process.start for process in everyone if process.session and process.session not in alive
    }
    for (pid, start), agent in known.agents.items():
        if orphaned.get(pid, -1) >= start:
            yield agent


def _proven(line: Sequence[AncestorProcess], known: KnownProcesses) -> list[AncestorProcess]:
    """The part of a line from which its first process certainly descends; above an adopter nothing is certain."""
    return [*line[:1], *takewhile(lambda process: (process.pid, process.start) not in known.above, line[1:])]
