"""The border line above agent panes, and the window put back as it was."""

from __future__ import annotations

import json

import pytest

from orchestrator.tmux import borders, panes, splits, tmux_server
from orchestrator.tmux.borders import BorderLine
from orchestrator.tmux.panes import NewPane
from orchestrator.tmux.window_layout import LayoutLimits
from tests.support.tmux_server import PrivateServer, private_server, until

__all__ = ["private_server"]

pytestmark = pytest.mark.tmux


def window_of(server: PrivateServer, pane: str) -> str:
    return server.show(pane, "#{window_id}")


def options(server: PrivateServer, window: str) -> str:
    return server.run("show-options", "-w", "-t", window)


def drawn(server: PrivateServer, pane: str) -> str:
    """What the border line of the pane says, expanded by tmux."""
    return server.show(pane, "#{T:pane-border-format}")


def agents(server: PrivateServer, master: str, count: int = 1) -> list[str]:
    wanted = [NewPane(f"a{number}", "run-1", 1, ["env", "cat"], "/") for number in range(count)]
    return [str(one) for one in splits.create_agents(server.socket, master, [], wanted, LayoutLimits())]


def test_a_window_without_own_values_is_exactly_as_before_afterwards(private_server: PrivateServer) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    before = options(private_server, window), private_server.cells(window)
    saved = borders.set_borders(private_server.socket, window)
    assert saved == {"pane-border-status": None, "pane-border-format": None}
    assert private_server.show(window, "#{pane-border-status}") == "top"
    borders.restore_window(private_server.socket, window, saved)
    assert (options(private_server, window), private_server.cells(window)) == before


@pytest.mark.parametrize("status", ["off", "top", "bottom"])
@pytest.mark.parametrize("form", ["", "#[fg=red,bold] #{pane_index}, {x} '#T' %H", None])
def test_own_values_of_the_window_come_back(private_server: PrivateServer, status: str, form: str | None) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    private_server.run("set-option", "-w", "-t", window, "pane-border-status", status)
    if form is not None:
        private_server.run("set-option", "-w", "-t", window, "pane-border-format", form)
    before = options(private_server, window)
    saved = borders.set_borders(private_server.socket, window)
    assert saved == {"pane-border-status": status, "pane-border-format": form}
    assert options(private_server, window) != before
    borders.restore_window(private_server.socket, window, json.loads(json.dumps(saved)))
    assert options(private_server, window) == before


def test_a_second_call_after_a_crash_still_knows_what_was_before(private_server: PrivateServer) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    private_server.run("set-option", "-w", "-t", window, "pane-border-format", "mine")
    before = options(private_server, window)
    saved = borders.set_borders(private_server.socket, window)
    # Killed before it could store the answer: only what stands in tmux is left.
    assert borders.set_borders(private_server.socket, window) == saved
    borders.restore_window(private_server.socket, window)
    assert options(private_server, window) == before
    assert borders.saved_borders(private_server.socket, window) is None


def test_restoring_twice_or_without_a_window_is_harmless(private_server: PrivateServer) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    saved = borders.set_borders(private_server.socket, window)
    borders.restore_window(private_server.socket, window, saved)
    private_server.run("set-option", "-w", "-t", window, "pane-border-status", "top")
    borders.restore_window(private_server.socket, window, saved)
    assert private_server.show(window, "#{pane-border-status}") == "top"
    borders.restore_window(private_server.socket, "@77", saved)
    private_server.run("kill-server")
    borders.restore_window(private_server.socket, window, saved)


def test_what_the_user_changed_meanwhile_is_left_alone(private_server: PrivateServer) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    saved = borders.set_borders(private_server.socket, window)
    private_server.run("set-option", "-w", "-t", window, "pane-border-status", "bottom")
    borders.restore_window(private_server.socket, window, saved)
    assert private_server.show(window, "#{pane-border-status}") == "bottom"


def test_our_panes_show_their_line_and_the_users_stay_blank(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    borders.set_borders(private_server.socket, window_of(private_server, master))
    one, two = agents(private_server, master, 2)
    lines = {one: "a1 tester busy", two: "a2", user: "never", "%99": "gone"}
    borders.set_line(private_server.socket, {pane: BorderLine(text) for pane, text in lines.items()})
    assert [drawn(private_server, pane) for pane in (one, two, user, master)] == ["a1 tester busy", "a2", "", ""]
    assert "never" not in private_server.run("show-options", "-p", "-t", user)


def test_a_users_own_line_stays_on_the_users_panes(private_server: PrivateServer) -> None:
    master = private_server.start()
    window = window_of(private_server, master)
    private_server.run("set-option", "-g", "pane-border-status", "bottom")
    private_server.run("set-option", "-g", "pane-border-format", "#{?pane_active,#[fg=red#,bold],}{#{pane_id}, x}")
    plain = drawn(private_server, master)
    assert master in plain
    borders.set_borders(private_server.socket, window)
    (pane,) = agents(private_server, master)
    borders.set_line(private_server.socket, {pane: BorderLine("ours")})
    assert drawn(private_server, master) == plain
    assert drawn(private_server, pane) == "ours"
    assert private_server.show(window, "#{pane-border-status}") == "bottom"


@pytest.mark.parametrize("text", ["50% #[fg=red]x #{pane_id} #(id)", 'it\'s "q"; \\ $HOME ~ {a}', "-p", "", "ü;"])
def test_the_line_is_shown_as_it_is_whatever_it_says(private_server: PrivateServer, text: str) -> None:
    master = private_server.start()
    borders.set_borders(private_server.socket, window_of(private_server, master))
    (pane,) = agents(private_server, master)
    borders.set_line(private_server.socket, {pane: BorderLine(text)})
    assert drawn(private_server, pane) == text.replace("#", "##")


def test_a_colour_is_drawn_and_a_narrow_pane_keeps_the_beginning(private_server: PrivateServer) -> None:
    master = private_server.start(width=65, height=20)
    borders.set_borders(private_server.socket, window_of(private_server, master))
    (pane,) = agents(private_server, master)
    line = BorderLine(" ◐ c1 · blocked: #[fg=red] asks to use Bash: make", "yellow")
    borders.set_line(private_server.socket, {pane: line})
    outer = PrivateServer()
    attach = ["tmux", *private_server.socket.flags(), "attach", "-t", "user"]
    try:
        outer.run("new-session", "-d", "-x", "65", "-y", "20", "--", "env", "-u", "TMUX", *attach)
        until(lambda: "c1" in outer.run("capture-pane", "-p"))
        drawn = next(row for row in outer.run("capture-pane", "-p", "-e").split("\n") if "c1" in row)
    finally:
        outer.end()
    assert "◐ c1 · blocked: #[fg=red]" in drawn
    assert "make" not in drawn
    assert "33m" in drawn.partition("◐")[0], repr(drawn)


def test_control_characters_of_a_line_become_blanks(private_server: PrivateServer) -> None:
    (pane,) = agents(private_server, private_server.start())
    borders.set_line(private_server.socket, {pane: BorderLine("a\nb\x1b[31m\tc")})
    assert private_server.show(pane, "#{@orchestrator_line}") == "a b [31m c"


def test_thirty_long_lines_are_written_in_few_invocations(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = agents(private_server, private_server.start(), 30)
    real, calls = tmux_server.invoke, []
    monkeypatch.setattr(tmux_server, "invoke", lambda argv: (calls.append(argv), real(argv))[1])
    borders.set_line(private_server.socket, dict.fromkeys(made, BorderLine("ü#" * 300)))
    assert 1 < len(calls) < 10
    assert {private_server.show(pane, "#{@orchestrator_line}") for pane in made} == {"ü##" * 300}


def test_agents_keep_their_minimum_below_the_border_line(private_server: PrivateServer) -> None:
    master = private_server.start(80, 24)
    borders.set_borders(private_server.socket, window_of(private_server, master))
    made = agents(private_server, master, 3)
    assert {int(private_server.show(pane, "#{pane_height}")) for pane in made} <= {6, 7, 8}
    tagged = panes.list_tagged(private_server.socket)
    assert {pane.pane_id for pane in tagged} == set(made)


def test_auto_means_only_where_no_pane_of_the_user_would_lose_a_row() -> None:
    assert borders.borders_wanted("auto", ["%0", "%1"], ["%0", "%1", "%2"])
    assert not borders.borders_wanted("auto", ["%0", "%1", "%5"], ["%0", "%1"])
    assert borders.borders_wanted(True, ["%0", "%5"], ["%0"])
    assert not borders.borders_wanted(False, ["%0"], ["%0"])
