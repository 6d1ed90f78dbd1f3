"""Where a process comes from, judged from what the kernel shows: a table of ways to be started."""

import pytest

from orchestrator.base.platform.ancestry import AncestorLine, AncestorProcess
from orchestrator.trust.origin import KnownProcesses, ProcessOrigin, judge

A, B = ("/p", "a"), ("/p", "b")
FIRST = 1000  # when the first agent was started
TMUX, USER, CLI, DAEMON = (300, 90), (200, 50), (400, FIRST), (500, 95)
KNOWN = KnownProcesses({CLI: A}, {DAEMON}, {TMUX, USER}, FIRST)
"""Agent a in a pane of a tmux server that was adopted by the user's service manager, a subreaper."""
NOBODY = KnownProcesses()
LATE = 2000


def one(pid, parent, start=LATE, session=None, terminal=0, **marks):
    return AncestorProcess(pid, parent, start, pid if session is None else session, terminal, **marks)


def line(*processes, end="init"):
    return AncestorLine(processes, end)


tmux = one(*TMUX[:1], USER[0], TMUX[1])
user = one(USER[0], 1, USER[1])
cli = one(CLI[0], TMUX[0], CLI[1], terminal=34816)
orphan = one(900, 1)

INSIDE = {
    "its shell": [line(one(900, 400, session=400, terminal=34816), cli, tmux, user)],
    "a shell with a terminal of its own": [line(one(900, 400, terminal=34817), cli, tmux, user)],
    "an orphan with its mark": [line(orphan._replace(agent=A))],
    "an orphan below one with its mark": [line(orphan._replace(parent=899), one(899, 1, agent=A))],
    "an orphan in the session of its CLI": [line(orphan._replace(session=400)), line(cli, tmux, user)],
    "an orphan in a session below it": [
        line(orphan._replace(session=800, terminal=34817)),
        line(one(800, 400, terminal=34817), cli, tmux, user),
    ],
    "an orphan in the session of its CLI that has ended": [line(orphan._replace(session=400))],
    "the same, adopted by the service manager": [line(orphan._replace(session=400, parent=200), user)],
    "an old process that is its": [line(one(400, 1, FIRST))],
}
OUTSIDE = {
    "a shell in a terminal": [line(one(900, 700), one(700, 1, terminal=34820))],
    "a shell in a pane of the agents' tmux server": [line(one(900, 700, terminal=34820), tmux, user)],
    "a server of a CLI, in a session of its own": [line(one(900, 800), one(800, 700, terminal=34820), user)],
    "cron": [line(one(900, 600), one(600, 1, 20))],
    "below what cron has started, the CLI itself late": [line(one(900, 800), one(800, 600), one(600, 1, 20))],
    "in a session whose leader is older": [line(orphan._replace(session=600)), line(one(600, 1, 20))],
    "older than every agent itself": [line(one(900, 200, FIRST - 1), user)],
    "an ancestor of the agents itself": [line(user)],
    "docker exec": [line(one(900, 0), end="outside")],
    "below docker exec": [line(one(900, 800), one(800, 0), end="outside")],
    "the first process of a container": [line(one(1, 0, 20), end="outside")],
    "in the session of a container's first process": [line(orphan._replace(session=1)), line(one(1, 0), end="outside")],
    "in a terminal, an ancestor has just ended": [line(one(900, 700, terminal=34820), end="unknown")],
}  # fmt: skip
UNKNOWN = {
    "an orphan": [line(orphan)],
    "an orphan of the service manager, which is older": [line(orphan._replace(parent=200), user)],
    "below an orphan of the service manager": [line(one(901, 900), orphan._replace(parent=200), user)],
    "a job of the tmux server": [line(one(900, 300), tmux, user)],
    "of an agent's tick": [line(one(900, 1, FIRST))],
    "an ancestor has just ended": [line(one(900, 800), end="unknown")],
    "gone": [],
}


@pytest.mark.parametrize("name", INSIDE)
def test_who_comes_from_an_agent_is_known(name):
    assert judge(INSIDE[name], KNOWN) == ProcessOrigin("agent", frozenset({A}))


@pytest.mark.parametrize("name", OUTSIDE)
def test_who_comes_from_outside_is_known(name):
    assert judge(OUTSIDE[name], KNOWN) == ProcessOrigin("outside")


@pytest.mark.parametrize("name", UNKNOWN)
def test_of_everybody_else_nothing_is_known(name):
    assert judge(UNKNOWN[name], KNOWN) == ProcessOrigin("unknown")


@pytest.mark.parametrize("name", {**OUTSIDE, **UNKNOWN})
def test_before_the_first_agent_everybody_comes_from_outside(name):
    lines = {**OUTSIDE, **UNKNOWN}[name]
    assert judge(lines, NOBODY).kind == ("outside" if lines else "unknown")


def test_a_member_is_known_by_its_mark_and_by_its_daemon():
    daemon = one(DAEMON[0], 1, DAEMON[1])
    assert judge([line(one(900, 500), daemon)], KNOWN) == ProcessOrigin("member")
    assert judge([line(one(900, 700, terminal=34820, member=True))], KNOWN) == ProcessOrigin("member")
    assert judge([line(one(900, 800, session=801)), line(one(801, 500), daemon)], KNOWN) == ProcessOrigin("member")
    assert judge([line(one(900, 500), one(500, 1, LATE))], KNOWN).kind == "unknown", "another process with that pid"


def test_an_agent_that_carries_anothers_mark_is_both():
    found = judge([line(one(900, 400, agent=B), cli, tmux)], KNOWN)
    assert found.agents == {A, B}
    assert found.other_than(B) == {A}
    assert found.other_than(A) == {B}


def test_an_agent_of_the_same_id_in_another_project_is_another():
    assert ProcessOrigin("agent", frozenset({("/q", "a")})).other_than(A) == {("/q", "a")}
    assert ProcessOrigin("agent", frozenset({("", "a")})).other_than(A) == frozenset(), (
        "its CLI hands on no more than the id"
    )


def test_another_process_with_the_pid_of_an_agents_is_not_the_agents():
    assert judge([line(one(900, 400), one(400, 1, LATE, terminal=34820))], KNOWN) == ProcessOrigin("outside")


def test_an_older_process_in_a_session_with_the_number_of_an_agents_is_not_the_agents():
    assert judge([line(one(900, 1, FIRST - 5, session=400))], KNOWN) == ProcessOrigin("outside")
