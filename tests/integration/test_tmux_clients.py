"""What attached terminals are shown: a message, a bell and a count, in tmux as it is."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest

from orchestrator.tmux import clients
from orchestrator.tmux.clients import AttachedClient
from tests.support.tmux_server import PrivateServer, private_server, until

__all__ = ["private_server"]

pytestmark = pytest.mark.tmux


@pytest.fixture
def outer(private_server: PrivateServer) -> Iterator[PrivateServer]:
    """A second server: its one pane is the terminal of a client of the first, so that its screen can be read."""
    server = PrivateServer()
    yield server
    server.end()


def attach(outer: PrivateServer, inner: PrivateServer, session: str, width: int = 120) -> AttachedClient:
    command = ["tmux", *inner.socket.flags(), "attach", "-t", session]
    outer.run("new-session", "-d", "-x", str(width), "-y", "20", "--", "env", "-u", "TMUX", *command)
    return until(lambda: next((c for c in clients.attached(inner.socket) if c.width == width), None))


def option(server: PrivateServer, session: str) -> str:
    return server.run("show-options", "-qv", "-t", f"={session}:", clients.NEEDS)


def test_a_client_is_known_with_what_it_shows(private_server: PrivateServer, outer: PrivateServer) -> None:
    first = private_server.start(session="work")
    second = private_server.run("new-window", "-d", "-t", "work:", "-P", "-F", "#{window_id}", "--", "env", "cat")
    private_server.run("new-session", "-d", "-s", "other", "--", "env", "cat")
    assert clients.attached(private_server.socket) == []
    client = attach(outer, private_server, "work")
    assert client.pane_id == first
    assert client.windows == {private_server.show(first, "#{window_id}"), second}
    assert (client.width, client.focused, client.control) == (120, True, False)
    assert client.tty.startswith("/dev/")


def shows(server: PrivateServer, client: clients.Client, outer: PrivateServer, message: str, text: str) -> None:
    """The message appears; it stands for 4 s only, so it is shown again to a test that looks too late."""

    def seen() -> bool:
        clients.show_message(server.socket, client, message)
        return text in outer.run("capture-pane", "-p")

    until(seen)


def test_a_message_is_shown_as_it_is(private_server: PrivateServer, outer: PrivateServer) -> None:
    private_server.start(session="work")
    client = attach(outer, private_server, "work")
    text = "a#b ##c #[fg=red]d #{pid} e} f,g %H %% $(id) #(id) `x` 'q' \"w\" \\ ◐ 한"
    shows(private_server, client, outer, f"{text}\x1b[31m\n;", f"{text} [31m ;")
    assert "@orchestrator_message" not in private_server.run("show-options", "-t", "=work:")


def test_a_message_is_shown_while_another_session_was_used_last(
    private_server: PrivateServer, outer: PrivateServer
) -> None:
    private_server.start(session="work")
    client = attach(outer, private_server, "work")
    private_server.run("new-session", "-d", "-s", "another")
    shows(private_server, client, outer, "c1 asks", "c1 asks")


def test_a_client_that_has_gone_is_no_error(private_server: PrivateServer, outer: PrivateServer) -> None:
    private_server.start(session="work")
    client = attach(outer, private_server, "work")
    private_server.run("detach-client", "-t", client.name)
    until(lambda: not clients.attached(private_server.socket))
    clients.show_message(private_server.socket, client, "late")
    assert "@orchestrator_message" not in private_server.run("show-options", "-t", "=work:")
    private_server.end()
    assert clients.attached(private_server.socket) == []
    clients.show_message(private_server.socket, client, "later")


def test_the_bell_rings_at_the_terminal_and_types_nothing(
    private_server: PrivateServer, outer: PrivateServer
) -> None:
    private_server.start(session="work")
    client = attach(outer, private_server, "work")
    outer.run("set-option", "-g", "monitor-bell", "on")
    outer.run("new-window")  # a bell is kept for a window that nobody sees
    before = private_server.run("capture-pane", "-p", "-t", client.pane_id)
    assert clients.ring(client)
    until(lambda: "1" in outer.run("list-windows", "-F", "#{window_bell_flag}"))
    assert private_server.run("capture-pane", "-p", "-t", client.pane_id) == before


def test_a_device_that_is_no_terminal_of_ours_is_left_alone(
    private_server: PrivateServer, outer: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_server.start(session="work")
    client = attach(outer, private_server, "work")
    for name in ("/dev/null", "/dev/none", "/tmp/x", ""):
        assert not clients.ring(client._replace(tty=name))
    assert not clients.ring(client._replace(control=True))
    master, slave = pty.openpty()
    try:
        assert clients.ring(client._replace(tty=os.ttyname(slave)))
        assert os.read(master, 10) == b"\a"
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not clients.ring(client._replace(tty=os.ttyname(slave)))
    finally:
        os.close(master)
        os.close(slave)


def test_the_count_of_a_session_is_the_sum_of_its_windows(private_server: PrivateServer) -> None:
    first = private_server.show(private_server.start(session="work"), "#{window_id}")
    second = private_server.run("new-window", "-d", "-t", "work:", "-P", "-F", "#{window_id}", "--", "env", "cat")
    private_server.run("new-session", "-d", "-s", "twin", "-t", "work")
    private_server.run("new-session", "-d", "-s", "other", "--", "env", "cat")
    before = private_server.run("show-options", "-t", "=work:")
    clients.set_needs(private_server.socket, first, "run-1", 2)
    clients.set_needs(private_server.socket, second, "run-2", 12)
    assert [option(private_server, name) for name in ("work", "twin", "other")] == ["14", "14", ""]
    clients.set_needs(private_server.socket, first, "run-1", 0)
    assert option(private_server, "work") == "12"
    clients.set_needs(private_server.socket, second, "run-2", 0)
    assert private_server.run("show-options", "-t", "=work:") == before
    assert clients.TALLY not in private_server.run("show-options", "-w", "-t", first)


def test_the_runs_of_two_projects_in_one_window_are_both_counted(private_server: PrivateServer) -> None:
    window = private_server.show(private_server.start(session="work"), "#{window_id}")
    for run_id, count, total in (("a", 2, "2"), ("b", 0, "2"), ("b", 1, "3"), ("a", 5, "6"), ("a", 0, "1")):
        clients.set_needs(private_server.socket, window, run_id, count)
        assert option(private_server, "work") == total
    clients.set_needs(private_server.socket, window, "b", 0)
    assert clients.TALLY not in private_server.run("show-options", "-w", "-t", window)


def test_a_run_that_goes_on_in_another_window_is_counted_there_alone(private_server: PrivateServer) -> None:
    first = private_server.show(private_server.start(session="work"), "#{window_id}")
    private_server.run("new-session", "-d", "-s", "other", "--", "env", "cat")
    second = private_server.run("display-message", "-p", "-t", "=other:", "#{window_id}")
    clients.set_needs(private_server.socket, first, "run-1", 2)
    clients.set_needs(private_server.socket, second, "run-1", 3)
    assert [option(private_server, name) for name in ("work", "other")] == ["", "3"]


def test_a_window_that_has_gone_takes_its_count_with_it(private_server: PrivateServer) -> None:
    private_server.start(session="work")
    window = private_server.run("new-window", "-d", "-t", "work:", "-P", "-F", "#{window_id}", "--", "env", "cat")
    clients.set_needs(private_server.socket, window, "run-1", 3)
    assert option(private_server, "work") == "3"
    private_server.run("kill-window", "-t", window)
    clients.set_needs(private_server.socket, window, "run-1", 0)
    assert option(private_server, "work") == ""
    private_server.end()
    clients.set_needs(private_server.socket, window, "run-1", 1)
