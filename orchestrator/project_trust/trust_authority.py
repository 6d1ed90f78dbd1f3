"""Who may give trust: a human at a terminal, and nothing that an AI CLI has started. Reads /proc, changes nothing.

The same look is taken by the command line, for its own process, and by the daemon, for the process that the system
names as its peer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from orchestrator.base.errors import BadRequest
from orchestrator.base.platform import process_facts
from orchestrator.base.platform.process_facts import ProcessKey
from orchestrator.base.platform.processes import environ_of
from orchestrator.edge.project_location import AGENT_ENV, MEMBER_ENV
from orchestrator.team.wake.masters import SHELLS

DEPTH = 256
"""No process has more ancestors; a chain that is cut short there is refused."""

RELAY = b"mcp"
WORDS = 16
"""As many words of a command line are looked at."""


def chain_of(pid: int) -> list[int]:
    """The process and its ancestors, nearest first, without init."""
    chain: list[int] = []
    at: int | None = pid
    while at is not None and at > 1 and len(chain) < DEPTH:
        chain.append(at)
        at = process_facts.parent_of(at)
    return chain


def refuse(chain: Sequence[int], *, inside: Collection[int] = (), held: Collection[ProcessKey] = ()) -> None:
    """BadRequest ``trust_refused`` unless a chain of processes (`chain_of`) comes from a human's hands.

    It must not pass through an agent (``inside`` are their processes), a squad member, or a process that holds a
    relay, now or earlier (``held``): the shell tool of an AI CLI.
    """
    if not chain or len(chain) >= DEPTH:
        raise BadRequest("trust_refused", "the ancestors of this process cannot be determined")
    for pid in chain:
        variables = environ_of(pid)
        if pid in inside or AGENT_ENV[0] in variables:
            raise BadRequest("trust_refused", f"process {pid} is an agent's, or was started by one")
        # A member may have executed another program, which has lost its mark: what a daemon starts are members.
        if MEMBER_ENV in variables or _is(pid, b"daemon"):
            raise BadRequest("trust_refused", f"process {pid} is a squad member's, or has started one")
    holding = holders() | {pid for pid, start in held if process_facts.start_time(pid) == start}
    for pid in chain:
        if pid in holding:
            raise BadRequest(
                "trust_refused", f"process {pid} is an AI CLI that uses orchestrator, or has started one"
            )


def holders() -> set[int]:
    """The processes that hold a relay (`orchestrator mcp`), of whatever project."""
    return {holder for relay in relays() for holder in held_by(relay)}


def held_by(relay: int) -> Iterator[int]:
    """The processes that hold this relay: its parent, and what has started that one to carry it."""
    parent = process_facts.parent_of(relay)
    while parent is not None and parent > 1:
        yield parent
        above = process_facts.parent_of(parent)
        parent = above if above is not None and _carries(parent, above) else None


def relays() -> Iterator[int]:
    """The relays that run now."""
    yield from (pid for pid in process_facts.pids() if _is(pid, RELAY))


def _is(pid: int, command: bytes) -> bool:
    """`orchestrator COMMAND`, run by its own name, by a Python that is given its path, or as a module."""
    words = process_facts.words_of(pid)[:WORDS]
    at = _at(words, command)
    return at == 0 or (at is not None and _name(words[0]).startswith("python") and all(map(_is_flag, words[1:at])))


def _carries(pid: int, above: int) -> bool:
    """Whether the process only runs a relay for its parent: a shell with one command, or such as `uvx`.

    Another session shows that the parent is none of its own: it was handed over when its own had ended.
    """
    words = process_facts.words_of(pid)[:WORDS]
    shell = _name(words[0] if words else b"") in SHELLS
    if (
        not (shell and any(_is_flag(word) and word.endswith(b"c") for word in words[1:3]))
        and _at(words, RELAY) is None
    ):
        return False
    try:
        return above > 1 and os.getsid(pid) == os.getsid(above)
    except OSError:
        return False


def _at(words: Sequence[bytes], command: bytes) -> int | None:
    """Where a command line names a command of ours: the place of `orchestrator` before it."""
    pairs = enumerate(pairwise(words))
    return next(
        (at for at, (word, then) in pairs if _name(word).startswith("orchestrator") and then == command), None
    )


def _name(word: bytes) -> str:
    return os.fsdecode(os.path.basename(word))  # noqa: PTH119 - one word of a command line


def _is_flag(word: bytes) -> bool:
    return word.startswith(b"-")
