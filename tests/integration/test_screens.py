"""Looking at many panes at once: on a real tmux server, with programs that print what CLIs print."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.screens import Screen
from orchestrator.tmux import panes, screen_capture, tmux_server
from orchestrator.tmux.screen_capture import PaneTag
from tests.support.tmux_server import PrivateServer, private_server, until

pytestmark = pytest.mark.tmux

__all__ = ["private_server"]  # a fixture is found by its name in this module

RUN = "run-1"


@pytest.fixture
def window(private_server: PrivateServer) -> PrivateServer:
    private_server.start()
    private_server.run("set-option", "-g", "remain-on-exit", "on")
    return private_server


@pytest.fixture
def invocations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every call of tmux from now on."""
    seen: list[list[str]] = []
    invoke = tmux_server.invoke

    def counted(argv: list[str]) -> object:
        seen.append(list(argv))
        return invoke(argv)

    monkeypatch.setattr(tmux_server, "invoke", counted)
    return seen


@pytest.fixture
def show(window: PrivateServer, tmp_path: Path) -> Callable[..., str]:
    """Make a tagged pane whose program writes these bytes and stays (or ends); returns the pane's id."""
    count = 0

    def make(text: str, *, agent: str | None = None, ends: bool = False) -> str:
        nonlocal count
        count += 1
        file = tmp_path / f"screen-{count}"
        file.write_text(text)
        end = "" if ends else "sys.stdin.read()"
        code = f"import sys; sys.stdout.write(open({str(file)!r}, newline='').read()); sys.stdout.flush(); {end}"
        pane = window.run("new-window", "-d", "-P", "-F", "#{pane_id}", "--", sys.executable, "-c", code)
        if agent is not None:
            panes.tag(window.socket, pane, agent, RUN, 1)
        return pane

    return make


def seen(window: PrivateServer, pane: str, agent: str, holds: str) -> Screen:
    """The screen of one pane once it shows a text."""

    def look() -> Screen | None:
        found = screen_capture.look(window.socket, {pane: PaneTag(agent, RUN)}).get(pane)
        return found if found is not None and any(holds in line for line in found.lines) else None

    return until(look)


def test_lines_are_plain_and_without_trailing_blanks(window: PrivateServer, show: Callable[..., str]) -> None:
    pane = show(
        "\x1b[1;32mgreen\x1b[0m  \r\n\r\n  ❯\u00a0\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ end\r\n\r\n", agent="a1"
    )
    screen = seen(window, pane, "a1", "end")
    assert screen.lines == ("green", "", "  ❯\u00a0link end")
    assert not screen.dead
    assert not screen.in_mode


def test_the_cursors_line_keeps_its_colours_even_those_of_the_line_before(
    window: PrivateServer, show: Callable[..., str]
) -> None:
    """The line alone, as ``capture-pane -S y -E y`` prints it, begins with the colours that are on."""
    pane = show("first\x1b[2m dim\r\n› Ask anything", agent="a1")
    screen = seen(window, pane, "a1", "Ask anything")
    assert (screen.cursor_x, screen.cursor_y) == (14, 1)
    alone = window.run("capture-pane", "-p", "-e", "-t", pane, "-S", "1", "-E", "1")
    assert alone.startswith("\x1b[2m")
    assert screen.styled.rstrip() == alone.rstrip()


def test_a_reset_ends_what_was_on_before(window: PrivateServer, show: Callable[..., str]) -> None:
    pane = show("\x1b[2mdim\x1b[0m\r\n\x1b[31mred\x1b[0m\r\nplain", agent="a1")
    assert seen(window, pane, "a1", "plain").styled == "plain"


def test_the_title_is_the_programs_own(window: PrivateServer, show: Callable[..., str]) -> None:
    pane = show("\x1b]2;✋  Action Required (a: b) t#{pid}\x07ready", agent="a1")
    assert seen(window, pane, "a1", "ready").title == "✋  Action Required (a: b) t#{pid}"


def test_a_screen_cannot_fake_another_one(
    window: PrivateServer, show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The separator is a word nobody can have printed: text in the form of a header of an earlier look is text."""
    first = show("harmless", agent="a1")
    seen(window, first, "a1", "harmless")
    drawn: list[str] = []
    draw = screen_capture.secrets.token_hex
    monkeypatch.setattr(screen_capture.secrets, "token_hex", lambda n: drawn.append(draw(n)) or drawn[-1])
    seen(window, first, "a1", "harmless")
    old = drawn[-1]
    second = show(f"{old} {first} 0 0 0 0 a1 {RUN} tspoofed\r\nDo you trust?", agent="a2")
    seen(window, second, "a2", "Do you trust?")
    both = screen_capture.look(window.socket, {first: PaneTag("a1", RUN), second: PaneTag("a2", RUN)})
    assert both[first].lines == ("harmless",)
    assert both[second].lines[1] == "Do you trust?"
    assert len(set(drawn)) == len(drawn)


def test_many_panes_take_one_invocation(
    window: PrivateServer, show: Callable[..., str], invocations: list[list[str]]
) -> None:
    wanted = {show(f"screen of a{n}", agent=f"a{n}"): PaneTag(f"a{n}", RUN) for n in range(12)}
    for pane, whose in wanted.items():
        seen(window, pane, whose.agent_id, f"screen of {whose.agent_id}")
    invocations.clear()
    found = screen_capture.look(window.socket, wanted)
    assert len(invocations) == 1
    assert {pane: screen.lines for pane, screen in found.items()} == {
        pane: (f"screen of {whose.agent_id}",) for pane, whose in wanted.items()
    }


def test_more_panes_than_one_invocation_holds_are_looked_at_in_two(
    window: PrivateServer,
    show: Callable[..., str],
    invocations: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(screen_capture, "_BATCH_BYTES", 900)
    wanted = {show(f"screen of a{n}", agent=f"a{n}"): PaneTag(f"a{n}", RUN) for n in range(4)}
    for pane, whose in wanted.items():
        seen(window, pane, whose.agent_id, f"screen of {whose.agent_id}")
    invocations.clear()
    assert set(screen_capture.look(window.socket, wanted)) == set(wanted)
    assert len(invocations) == 2


def test_panes_that_are_gone_or_not_the_agents_own_do_not_hide_the_others(
    window: PrivateServer, show: Callable[..., str]
) -> None:
    gone, foreign, users, own = (
        show("1", agent="a1"), show("2", agent="other"), show("3"), show("still here", agent="a4"),
    )  # fmt: skip
    seen(window, own, "a4", "still here")
    window.run("kill-pane", "-t", gone)
    wanted = {gone: "a1", foreign: "a2", users: "a3", own: "a4"}
    found = screen_capture.look(window.socket, {pane: PaneTag(agent, RUN) for pane, agent in wanted.items()})
    assert set(found) == {own}


def test_copy_mode_and_death_are_told_and_hide_nothing(window: PrivateServer, show: Callable[..., str]) -> None:
    scrolled, ended = (
        show("a question?", agent="a1"),
        show("pushed out by the notice\r\nlast words", agent="a2", ends=True),
    )
    seen(window, scrolled, "a1", "a question?")
    window.run("copy-mode", "-t", scrolled)
    assert seen(window, scrolled, "a1", "question").in_mode
    assert until(lambda: (found := seen(window, ended, "a2", "last words")).dead and found)


def test_the_texts_of_as_many_panes_as_fit_take_one_invocation_and_only_tagged_panes_count(
    window: PrivateServer, show: Callable[..., str], invocations: list[list[str]]
) -> None:
    own, foreign, users, gone = (
        show("first\r\n\x1b[31m漢字 last\x1b[0m", agent="a1"), show("2", agent="other"), show("3"), show("4", agent="a4"),
    )  # fmt: skip
    seen(window, own, "a1", "last")
    window.run("kill-pane", "-t", gone)
    ids = [f"%{99_000 + n}" for n in range(screen_capture._TEXTS - 4)]  # gone as well, with long ids
    wanted = {gone: "a4", foreign: "a2", users: "a3", own: "a1", **{pane: f"b{pane}" for pane in ids}}
    invocations.clear()
    texts = screen_capture.texts(window.socket, {pane: PaneTag(agent, RUN) for pane, agent in wanted.items()})
    assert len(invocations) == 1
    assert sum(len(word) + 1 for word in invocations[0]) < 16_000
    assert len(invocations[0]) < 1_000  # the limit of tmux 3.7
    assert list(texts) == [own]
    assert [line for line in texts[own] if line] == ["first", "漢字 last"]
    assert screen_capture.texts(window.socket, {}) == {}
