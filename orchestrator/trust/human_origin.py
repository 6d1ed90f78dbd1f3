"""Whether a process comes from a human, or from a program that holds a relay: the shell tool of an AI CLI. Pure.

Needs proof, as rights do: what may come from such a program is never taken for a human's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal, NamedTuple

from orchestrator.base.platform.ancestry import AncestorLine, AncestorProcess
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.trust.origin import KnownProcesses, judge
from orchestrator.trust.relay_holders import KnownHolders

_HOLDER = ("", "")


class HumanOrigin(NamedTuple):
    """The judgement. ``holders``: the programs with a relay that a ``master``'s process comes from."""

    kind: Literal["human", "master", "inside", "unknown"]
    holders: frozenset[ProcessKey] = frozenset()


UNKNOWN = HumanOrigin("unknown")


def human_origin(lines: Sequence[AncestorLine], known: KnownProcesses, holders: KnownHolders) -> HumanOrigin:
    """Where the process at the head of the first line comes from; ``lines`` as `ancestry.lines_of` reads them.

    ``inside``: an agent or a squad member. ``master``: a program with a relay is among its ancestors, or leads a
    session on the way. ``human``: proven to be neither. A shell that has started such a program is above it, and
    what is typed there comes from a human.
    """
    origin = judge(lines, known)
    if origin.kind in ("agent", "member"):
        return HumanOrigin("inside")
    if origin.kind != "outside":
        return UNKNOWN
    if not holders.processes and not holders.sessions:
        return HumanOrigin("human")
    seen = frozenset(_keys(lines) & holders.processes)
    if seen:
        return HumanOrigin("master", seen)
    with_holders = replace(
        known,
        agents={**known.agents, **dict.fromkeys(holders.processes, _HOLDER)},
        above=known.above | holders.above,
        first=min((first for first in (known.first, holders.first) if first is not None), default=None),
    )
    if judge(lines, with_holders).kind != "outside" or _left_behind(lines[0], holders):
        return UNKNOWN
    return HumanOrigin("human")


def _keys(lines: Sequence[AncestorLine]) -> set[ProcessKey]:
    return {(process.pid, process.start) for line in lines for process in line.processes}


def _left_behind(line: AncestorLine, holders: KnownHolders) -> bool:
    """Whether the line passes through an orphan in a session in which a relay was started: it may be the CLI's.

    A process that descends from the leader of its session is none. Above the first leader with a terminal nothing
    is asked: it got that terminal from a terminal's program.
    """
    for part in _by_session(line):
        top = part[-1]
        if top.session == top.pid:
            if top.terminal:
                return False
        elif holders.sessions.get(top.session, top.start + 1) <= top.start:
            return True
    return False


def _by_session(line: AncestorLine) -> Iterator[list[AncestorProcess]]:
    """The line in parts of one session, each up to its leader."""
    for _, group in groupby(line.processes, key=lambda process: process.session):
        yield list(group)
