"""Random programs of calls by several hosts of a fleet, as plain values that hypothesis can shrink.

What a program leaves open (the next number, the owner, the fence) `fleet_comparison.py` looks up as it runs, so that
most calls get far; offsets make the others wrong on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

HOSTS = ("a", "b", "c")
BASES = ("w", "x")
NAMES = ("w", "w-2", "x", "x-2", "none")
TASKS = ("t1", "t2", "t3")
RUNS = ("run-1", "run-2")
LIVES = ("starting", "ready", "exited", "failed", "stopped", "deleted")
TYPES = ("ack", "result", "error", "task")


class Op(NamedTuple):
    """One step of a program: what is done, by which host, with which choices."""

    name: str
    host: str
    choices: Mapping[str, Any]


def _op(name: str, **choices: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.builds(Op, st.just(name), st.sampled_from(HOSTS), st.fixed_dictionaries(choices))


_agents = st.sampled_from(("w", "w", "w", "w-2", "x", "x", "none"))
_offsets = st.sampled_from((0, 0, 0, 0, 0, -1, 1))
_reqs = st.integers(0, 9)
_lines = st.lists(
    st.tuples(st.sampled_from(TYPES), st.sampled_from(TASKS), st.sampled_from(("", "é", "other"))), max_size=3
)
_places = st.sampled_from((0, 1, 2, 2))
_engines = st.sampled_from((("shell",), ("shell", "codex")))
_new = st.fixed_dictionaries(
    {
        "base": st.sampled_from(BASES), "taken": st.sampled_from(((), ("w",), ("w-2", "x"))),
        "to": st.sampled_from((*HOSTS, None, None, "z")), "engine": st.sampled_from(("shell", "shell", "codex")),
        "lost": st.sampled_from(("move", "move", "wait")), "req": st.integers(0, 99),
    }
)  # fmt: skip

# The first one changes nothing: what a failing program does not need shrinks to it.
OPS = st.one_of(
    _op("ownership"),
    _op("join", boot=st.sampled_from("112"), copy=st.sampled_from((False, False, True)), repository=st.sampled_from(("r", "", "other"))),
    _op("beat", fresh=st.booleans(), view=st.sampled_from((None, {}, {"w": "é"})), known=st.integers(0, 2), places=_places, engines=_engines),
    _op("time", seconds=st.sampled_from((0.25, 2.0, 5.0, 10.0, 15.0, 20.0, 20.000_6))),
    _op("beats", others=st.sampled_from((HOSTS, ("a", "c"), ("a",), ("b", "c"))), rounds=st.integers(1, 14)),
    _op("create", run=st.sampled_from(RUNS), new=st.lists(_new, min_size=1, max_size=2)),
    _op("task", agent=_agents, task=st.sampled_from(TASKS), req=_reqs, limit=st.sampled_from((1, 2, 9))),
    _op("done", agent=_agents, task=st.sampled_from(TASKS), req=_reqs, type=st.sampled_from(("result", "error"))),
    _op("cancel", agent=_agents, task=st.sampled_from(TASKS), req=_reqs),
    _op("restart", agent=_agents, req=_reqs),
    _op("stop", agent=_agents, req=_reqs, force=st.booleans()),
    _op("take", after=st.integers(0, 3), each=st.sampled_from((1, 2, 100))),
    _op("ship", parts=st.lists(st.tuples(_agents, _offsets, _offsets, _offsets, st.sampled_from(LIVES), _lines, _lines), min_size=1, max_size=2, unique_by=lambda part: part[0]), stranger=st.sampled_from((False, False, False, True))),
    _op("lose", dead=st.sampled_from(HOSTS), given_up=st.sampled_from((False, False, True)), back=st.booleans()),
    _op("move", dead=st.sampled_from((*HOSTS, "z"))),
    _op("read", agent=_agents, log=st.sampled_from(("inbox", "outbox")), after=st.integers(0, 2), lines=st.integers(1, 3), bytes=st.sampled_from((1, 40, 9999))),
    _op("read_new", inbox=st.integers(0, 2), outbox=st.integers(0, 2)),
    _op("late", agent=_agents, fence=st.integers(1, 2), lines=st.lists(st.tuples(st.sampled_from(("inbox", "outbox")), st.integers(1, 2), st.sampled_from(("x", "yy", "zzz"))), max_size=3)),
    _op("late_lines", agent=_agents, after=st.integers(0, 3), lines=st.integers(1, 4), bytes=st.integers(0, 3)),
    _op("take_run", run=st.sampled_from((*RUNS, "run-9")), gen=st.integers(1, 3)),
    _op("forget", agents=st.lists(_agents, max_size=3)),
    _op("ask", to=st.sampled_from((*HOSTS, "z")), body=st.sampled_from(({}, {"n": "é"})), wait=st.sampled_from((1.0, 10.0))),
    _op("asks"),
    _op("answer", ask=st.integers(0, 3), answer=st.sampled_from(({"answer": None}, {"answer": [1]}, {"error": {}}))),
    _op("answered", ask=st.integers(0, 3)),
    _op("drain", draining=st.booleans()),
    _op("give_up"),
)  # fmt: skip
# Most calls get far only where the hosts live and have agents, so every program begins with them.
_BEGIN = [Op("join", host, {"boot": "1", "copy": False, "repository": "r"}) for host in HOSTS] + [
    Op("beat", host, {"fresh": True, "view": None, "known": 0, "places": 2, "engines": ("shell", "codex")[: 1 + (host != "a")]})
    for host in HOSTS
]  # fmt: skip
_CREATE = st.lists(st.tuples(st.sampled_from(HOSTS), _new), min_size=1, max_size=3).map(
    lambda made: [Op("create", "a", {"run": "run-1", "new": [{**new, "to": to} for to, new in made]})]
)


def programs(ops: int) -> st.SearchStrategy[list[Op]]:
    """Programs of at most this many calls after the hosts have joined and agents were made."""
    calls = st.lists(OPS, min_size=ops // 2, max_size=ops)  # without a minimum most have five
    return st.builds(lambda first, rest: [*_BEGIN, *first, *rest], _CREATE, calls)
