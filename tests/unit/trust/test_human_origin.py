"""Who answers for a human: a table of ways in which a process comes to be, beside an AI CLI that holds a relay."""

import pytest

from orchestrator.base.platform.ancestry import AncestorLine, AncestorProcess
from orchestrator.trust.human_origin import human_origin
from orchestrator.trust.origin import KnownProcesses
from orchestrator.trust.relay_holders import KnownHolders

TTY, OTHER_TTY = 34816, 34817
BEGUN = 1000  # when the CLI was started
LATE = 2000
AGENT = KnownProcesses({(700, 1500): ("/p", "a")}, frozenset(), {(300, 90)}, 1500)
HOLDERS = KnownHolders({(500, BEGUN)}, {(400, 95), (300, 90), (200, 50)}, {400: BEGUN + 1}, BEGUN)
"""A CLI (500) that a human has started in a shell (400) in a pane of a tmux server (300), below a service manager."""


def one(pid, parent, start=LATE, session=None, terminal=0, **marks):
    return AncestorProcess(pid, parent, start, pid if session is None else session, terminal, **marks)


def line(*processes, end="init"):
    return AncestorLine(processes, end)


user = one(200, 1, 50)
tmux = one(300, 1, 90)
shell = one(400, 300, 95, terminal=TTY)
cli = one(500, 400, BEGUN, session=400, terminal=TTY)
agent = one(700, 300, 1500, terminal=OTHER_TTY)
other = one(410, 300, LATE, terminal=OTHER_TTY)  # another pane

HUMAN = {
    "typed in another pane": [line(one(900, 410, session=410, terminal=OTHER_TTY), other, tmux)],
    "typed in the shell that has started the CLI": [line(one(900, 400, session=400, terminal=TTY), shell, tmux)],
    "a popup of tmux": [line(one(900, 300, terminal=OTHER_TTY), tmux)],
    "over ssh": [line(one(900, 800, session=800, terminal=OTHER_TTY), one(800, 600, terminal=OTHER_TTY), one(600, 1, 20))],
    "left behind in a session without a CLI": [line(one(900, 1, session=410, terminal=OTHER_TTY)), line(other, tmux)],
    "cron, which is older": [line(one(900, 600), one(600, 1, 20))],
    "docker exec": [line(one(900, 0), end="outside")],
    "a terminal that the desktop has started in the CLI's session": [
        line(one(900, 800, session=800, terminal=OTHER_TTY), one(800, 790, terminal=OTHER_TTY), one(790, 1, session=400)),
        line(shell, tmux),
    ],
}  # fmt: skip
MASTER = {
    "the CLI's shell tool": [line(one(900, 500, session=400, terminal=TTY), cli, shell, tmux)],
    "in a session of its own": [line(one(900, 500), cli, shell, tmux)],
    "on a terminal of its own": [line(one(900, 890, session=890, terminal=OTHER_TTY), one(890, 500, terminal=OTHER_TTY), cli, shell, tmux)],
    "an orphan in the session of its shell tool": [
        line(one(900, 1, session=890)), line(one(890, 500), cli, shell, tmux),
    ],
}  # fmt: skip
UNKNOWN = {
    "forked twice, in a session of its own": [line(one(900, 1))],
    "the same, adopted by the service manager": [line(one(900, 200), user)],
    "with nohup, left in the terminal of the CLI": [line(one(900, 1, session=400, terminal=TTY)), line(shell, tmux)],
    "the same, adopted by an ancestor of the CLI": [
        line(one(900, 200, session=400, terminal=TTY), user), line(shell, tmux),
    ],
    "a session of its own below such an orphan": [
        line(one(900, 890), one(890, 1, session=400, terminal=TTY)), line(shell, tmux),
    ],
    "left in the terminal whose shell has ended too": [line(one(900, 1, session=400))],
}  # fmt: skip
INSIDE = {
    "an agent's shell": [line(one(900, 700, session=700), agent, tmux)],
    "its mark": [line(one(900, 1, agent=("/p", "a")))],
    "a member's mark": [line(one(900, 1, member=True))],
}


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (kind, lines)
        for kind, table in (("human", HUMAN), ("master", MASTER), ("unknown", UNKNOWN), ("inside", INSIDE))
        for lines in table.values()
    ],
    ids=[*HUMAN, *MASTER, *UNKNOWN, *INSIDE],
)
def test_a_human_is_proven_and_what_may_come_from_a_cli_is_none(kind, lines):
    judged = human_origin(lines, AGENT, HOLDERS)
    assert judged.kind == kind
    assert judged.holders == ({(500, BEGUN)} if kind == "master" else frozenset())


@pytest.mark.parametrize("known", [AGENT, KnownProcesses()], ids=["with an agent", "without"])
def test_what_is_left_in_the_session_of_a_cli_that_has_ended_is_no_humans(known):
    """As the first process of its pane, a CLI leads the session of all it starts."""
    holders = KnownHolders({(500, BEGUN)}, {(300, 90)}, {500: BEGUN + 1}, BEGUN)
    for parent, above in ((1, ()), (300, (tmux,))):
        assert human_origin([line(one(900, parent, session=500), *above)], known, holders).kind == "unknown"


def test_without_any_relay_the_rights_decide():
    lines = [line(one(900, 1, 1400, terminal=TTY))]
    assert human_origin(lines, AGENT, KnownHolders()).kind == "human"
    assert human_origin([line(one(900, 1))], AGENT, KnownHolders()).kind == "unknown"
    assert human_origin([], AGENT, HOLDERS).kind == "unknown"


def test_a_cli_that_is_the_first_process_of_a_container_leaves_its_session():
    """Init is in no line, so what it has started is known by the session in which its relay was."""
    holders = KnownHolders(set(), set(), {1: 50}, 50)
    tool = [line(one(900, 890, session=1, terminal=TTY), one(890, 1, session=1, terminal=TTY))]
    assert human_origin(tool, AGENT, holders).kind == "unknown"
    assert human_origin([line(one(900, 0), end="outside")], AGENT, holders).kind == "human"
