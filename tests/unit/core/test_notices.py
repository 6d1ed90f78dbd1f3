"""What is announced, once, and in which words."""

from __future__ import annotations

import pytest

from orchestrator.core.notices import NAMES_MAX, Announcements, Notice, RunWork, announcement

STARTED = "2026-01-01T10:00:00.000Z"
NEW = "2026-01-01T10:00:05.000Z"


def needs(
    agent: str, item: str = "", since: str = NEW, text: str = "asks to use Bash: make", kind: str = "permission"
):
    return Notice("needs_human", "run-1", text, agent, agent, item or f"i-{agent}", kind, since)


def failed(agent: str, text: str = "3 restarts"):
    return Notice("failed", "run-1", text, agent, agent, f"f-{agent}", "failed", NEW)


def error(agent: str, task: str = "t1"):
    return Notice("failed", "run-1", "make check: exit 2", agent, agent, f"e-{task}", "error", NEW)


def work(unfinished: int, results: int = 0, errors: int = 0) -> dict[str, RunWork]:
    return {"run-1": RunWork(unfinished, results, errors)}


class Seen:
    """Announcements, told step by step; ``due`` gives the ids, ``all_done`` for the end of all work."""

    def __init__(self) -> None:
        self.announcements = Announcements()
        self.see()

    def see(self, *items: Notice, runs: dict[str, RunWork] | None = None) -> None:
        self.announcements.seen(items, work(0) if runs is None else runs, STARTED)

    def due(self, *in_front: str) -> list[str]:
        return [notice.item or f"{notice.kind} {notice.text}" for notice in self.announcements.due(in_front)]


def test_an_item_is_announced_once() -> None:
    seen = Seen()
    seen.see(needs("c1"))
    assert seen.due() == ["i-c1"]
    seen.see(needs("c1"), needs("c2"))
    assert seen.due() == ["i-c2"]
    seen.see()
    seen.see(needs("c1"))
    assert (seen.due(), seen.announcements.waiting) == ([], False)


def test_what_is_over_before_it_was_announced_is_not_announced() -> None:
    seen = Seen()
    seen.see(needs("c1"))
    seen.see()
    assert not seen.announcements.waiting
    seen.see(needs("c1"))
    assert seen.due() == ["i-c1"]


def test_what_began_before_the_daemon_is_known() -> None:
    seen = Seen()
    seen.see(needs("c1", since="2026-01-01T09:59:59.999Z"), needs("c2", since=STARTED))
    assert seen.due() == ["i-c2"]
    seen.see(needs("c1"))
    assert seen.due() == []


def test_an_agent_in_front_of_a_person_is_announced_when_it_is_not_any_more() -> None:
    seen = Seen()
    seen.see(needs("c1"), needs("c2"))
    assert seen.due("c1") == ["i-c2"]
    assert seen.announcements.waiting
    assert seen.announcements.concerns("run-1")
    assert not seen.announcements.concerns("run-2")
    assert seen.due("c1") == []
    assert seen.due() == ["i-c1"]


def test_the_end_of_all_work_is_announced_once_per_quiet() -> None:
    seen = Seen()
    seen.see(runs=work(2))
    seen.see(runs=work(1, 1))
    assert seen.due() == []
    seen.see(runs=work(0, 1, 1))
    assert seen.due() == ["all_done 1 ✓ 1 ✕"]
    seen.see(runs=work(0, 1, 1))
    assert seen.due() == []
    seen.see(runs=work(1, 1, 1))
    seen.see(runs=work(0, 2, 1))
    assert seen.due() == ["all_done 1 ✓"]


def test_work_that_goes_on_at_once_is_no_end() -> None:
    seen = Seen()
    seen.see(runs=work(1))
    seen.see(runs=work(0, 1))
    assert seen.announcements.waiting
    seen.see(runs=work(1, 1))
    assert not seen.announcements.waiting
    seen.see(runs=work(0, 2))
    assert seen.due() == ["all_done 2 ✓"]


def test_canceled_tasks_alone_are_no_work_that_has_ended() -> None:
    seen = Seen()
    seen.see(runs=work(3))
    seen.see(runs=work(0))
    assert seen.due() == []


def test_a_task_between_two_looks_is_announced_too_and_old_work_is_not() -> None:
    announcements = Announcements()
    announcements.seen([], {"run-1": RunWork(0, 7, 2)}, STARTED)
    assert announcements.due() == []
    announcements.seen([], {"run-1": RunWork(0, 8, 2), "run-2": RunWork(0, 1, 0)}, STARTED)
    assert [(notice.run_id, notice.text) for notice in announcements.due()] == [("run-1", "1 ✓"), ("run-2", "1 ✓")]


def test_agents_whose_files_were_removed_take_their_tasks_out_of_the_count() -> None:
    announcements = Announcements()
    announcements.seen([], work(0, 7), STARTED)
    announcements.seen([], work(0, 2), STARTED)
    assert announcements.due() == []
    announcements.seen([], work(0, 3), STARTED)
    assert [notice.text for notice in announcements.due()] == ["1 ✓"]


@pytest.mark.parametrize(
    ("notices", "line"),
    [
        ([needs("c1")], "◐ c1: asks to use Bash: make · orchestrator attach c1"),
        ([needs("c1", text="")], "◐ c1: needs you · orchestrator attach c1"),
        (
            [needs("c1"), needs("c3"), needs("w2")],
            "◐ 3 agents need you: c1, c3, w2 · orchestrator inbox",
        ),
        ([needs("c1", "a"), needs("c1", "b")], "◐ c1 needs you · orchestrator attach c1"),
        ([failed("w1")], "✕ w1 failed: 3 restarts · orchestrator attach w1"),
        ([failed("w1", "")], "✕ w1 failed · orchestrator attach w1"),
        ([failed("w1"), failed("w1")], "✕ w1 failed · orchestrator attach w1"),
        ([failed("w1"), failed("w2")], "✕ 2 agents failed: w1, w2 · orchestrator inbox"),
        ([error("c1")], "✕ c1: task failed: make check: exit 2 · orchestrator attach c1"),
        ([error("c1", "t1"), error("c1", "t2")], "✕ 2 tasks failed: c1 · orchestrator attach c1"),
        ([failed("w1", ""), error("c1")], "✕ w1 failed · c1: task failed: make check: exit 2 · orchestrator inbox"),
        (
            [failed("w1"), needs("c1")],
            "◐ c1: asks to use Bash: make · w1 failed: 3 restarts · orchestrator inbox",
        ),
        (
            [Notice("all_done", "run-1", "3 ✓ 1 ✕")],
            "✓ all tasks have ended: 3 ✓ 1 ✕ · orchestrator status",
        ),
    ],
)
def test_the_words_of_an_announcement(notices: list[Notice], line: str) -> None:
    assert announcement(notices).line() == line


def test_many_names_are_counted() -> None:
    text = announcement([needs(f"c{number}") for number in range(NAMES_MAX + 3)]).text
    assert text == "7 agents need you: c0, c1, c2, c3 and 3 more"
    text = announcement([needs(f"c{number}") for number in range(NAMES_MAX)]).text
    assert text == "4 agents need you: c0, c1, c2, c3"


def test_a_narrow_line_cuts_the_text_then_leaves_out_the_command_and_ascii_has_signs_of_its_own() -> None:
    said = announcement([needs("c1", text="한" * 20)])
    whole = said.line()
    assert len(whole) == 51
    assert said.line(71) == whole
    assert said.line(70) == f"◐ c1: {'한' * 19}… · orchestrator attach c1"
    assert said.line(52) == f"◐ c1: {'한' * 10}… · orchestrator attach c1"
    assert said.line(50) == f"◐ c1: {'한' * 20}"
    assert said.line(ascii_only=True) == f"! c1: {'한' * 20} - orchestrator attach c1"
    assert said.line(52, ascii_only=True) == f"! c1: {'한' * 9}... - orchestrator attach c1"


def test_a_reader_elsewhere_is_told_the_project_in_text_and_command() -> None:
    line = announcement([needs("c1")]).line(project="/srv/my shop")
    assert line == "◐ my shop: c1: asks to use Bash: make · orchestrator -C '/srv/my shop' attach c1"


def test_control_characters_of_a_name_or_text_reach_nobody() -> None:
    said = announcement([needs("c1", text="a\x1b]0;x\x07\nb\u202ec")])
    assert said.line().isprintable()


@pytest.mark.parametrize(("agent", "host", "link"), [
    ("c1", "", "orchestrator attach c1"), ("c1", "box", "orchestrator host attach box c1"),
    ("c1@fleet", "box", "orchestrator host attach box c1"), ("a b", "$x", "orchestrator host attach '$x' 'a b'"),
])  # fmt: skip
def test_the_command_leads_to_the_pane_on_the_host_that_has_it(agent, host, link):
    assert needs(agent)._replace(host=host).link == link
