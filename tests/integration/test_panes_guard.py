"""Whose pane it is: finding the master, killing and respawning only our own, one detached session."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from orchestrator.base.errors import Environment
from orchestrator.tmux import panes, server_address, splits, tmux_server
from orchestrator.tmux.panes import NewPane
from orchestrator.tmux.server_address import TmuxSocket
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.window_layout import LayoutLimits
from tests.support.tmux_server import PrivateServer, private_server, until

__all__ = ["private_server"]

pytestmark = pytest.mark.tmux

LIMITS = LayoutLimits()
RUN = "run-1"


def one_agent(server: PrivateServer, master: str, argv: tuple[str, ...] = ("env", "cat")) -> str:
    new = NewPane("a1", RUN, 1, argv, "/")
    (pane,) = splits.create_agents(server.socket, master, [], [new], LIMITS)
    assert isinstance(pane, str)
    return pane


# --- kill and respawn -------------------------------------------------------------------------------------


def test_kill_ends_a_pane_with_our_tag_and_never_another(private_server: PrivateServer) -> None:
    master = private_server.start()
    pane = one_agent(private_server, master)
    assert not panes.kill(private_server.socket, master, "a1", RUN)
    assert not panes.kill(private_server.socket, master, "", "")
    assert not panes.kill(private_server.socket, pane, "a2", RUN)
    assert not panes.kill(private_server.socket, pane, "a1", "run-2")
    assert not panes.kill(private_server.socket, "%99", "a1", RUN)
    assert private_server.panes(master) == [master, pane]
    assert panes.kill(private_server.socket, pane, "a1", RUN)
    assert private_server.panes(master) == [master]


def test_kill_checks_and_acts_in_one_invocation(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = one_agent(private_server, private_server.start())
    real, calls = tmux_server.invoke, []
    monkeypatch.setattr(tmux_server, "invoke", lambda argv: (calls.append(argv), real(argv))[1])
    assert panes.kill(private_server.socket, pane, "a1", RUN)
    assert len(calls) == 1


def test_killing_the_last_pane_of_a_server_is_a_success(private_server: PrivateServer) -> None:
    pane = private_server.start()
    panes.tag(private_server.socket, pane, "a1", RUN, 1)
    assert panes.kill(private_server.socket, pane, "a1", RUN)
    assert not panes.kill(private_server.socket, pane, "a1", RUN)


def test_respawn_starts_the_next_epoch_in_the_dead_pane_and_keeps_its_tag(
    private_server: PrivateServer, tmp_path: Path
) -> None:
    master = private_server.start()
    stub = f"tmux -L {private_server.socket.name} wait-for go; exit 1"
    pane = one_agent(private_server, master, ("sh", "-c", stub))
    again = NewPane(
        "a1", RUN, 2, ["sh", "-c", 'echo "it\'s $0; #S"; exec cat', "new one;"], str(tmp_path), {"K": "v;\n  'w'"}
    )
    assert not panes.respawn(private_server.socket, pane, again), "it lives"
    tmux(private_server.socket).run("wait-for", "-S", "go")
    until(lambda: panes.list_tagged(private_server.socket)[0].dead)
    other = NewPane("a2", RUN, 2, ["env", "cat"], "/")
    assert not panes.respawn(private_server.socket, pane, other)
    assert not panes.respawn(private_server.socket, "%99", again)
    assert panes.respawn(private_server.socket, pane, again)
    (tagged,) = panes.list_tagged(private_server.socket)
    assert (tagged.pane_id, tagged.agent_id, tagged.run_id, tagged.epoch, tagged.dead) == (pane, "a1", RUN, 2, False)
    until(lambda: panes.capture(private_server.socket, pane, 5)[-1:] == ["it's new one;; #S"])
    # Empty for the moment in which the shell becomes cat.
    environ = until(lambda: Path(f"/proc/{tagged.pid}/environ").read_text())
    assert "K=v;\n  'w'" in environ.split("\0")
    assert Path(f"/proc/{tagged.pid}/cwd").readlink() == tmp_path


def test_a_tmux_that_missed_how_a_process_ended_is_made_to_look(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_agent(
        private_server,
        private_server.start(),
        ("sh", "-c", f"tmux -L {private_server.socket.name} wait-for go; exit 7"),
    )
    tmux(private_server.socket).run("wait-for", "-S", "go")
    until(lambda: panes.list_tagged(private_server.socket)[0].dead_status == 7)
    real, poked = tmux_server.invoke, []

    def forgetful(argv: list[str]) -> object:
        done = real(argv)
        if not poked:
            done.stdout = done.stdout.replace(" s7 ", " s ")
        return done

    monkeypatch.setattr(tmux_server, "invoke", forgetful)
    monkeypatch.setattr(os, "kill", lambda pid, number: poked.append((pid, number)))
    assert panes.list_tagged(private_server.socket)[0].dead_status == 7
    assert poked == [(int(private_server.show("user:", "#{pid}")), signal.SIGCHLD)]


def test_a_process_that_has_ended_but_was_not_waited_for_has_no_start_time() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert tmux_server.start_time(child.pid) is None
    child.wait()
    assert tmux_server.start_time(child.pid) is None
    assert tmux_server.start_time(os.getpid()) is not None


# --- finding ----------------------------------------------------------------------------------------------


def test_the_master_is_the_pane_whose_process_is_the_nearest_ancestor(private_server: PrivateServer) -> None:
    first = private_server.start()
    second = private_server.split(first)
    third = private_server.split(second)
    pid = {pane: int(private_server.show(pane, "#{pane_pid}")) for pane in (first, second)}
    tty = private_server.show(third, "#{pane_tty}")
    socket = private_server.socket
    found = panes.find_master(socket, [999_999_999, pid[second], pid[first], 1], first, tty)
    assert found is not None
    assert found.pane_id == second
    assert (found.session_name, found.width, found.height) == ("user", 54, 60)
    by_pane = panes.find_master(socket, [1], first, tty)
    assert by_pane is not None
    assert by_pane.pane_id == first
    by_tty = panes.find_master(socket, [1], "%77", tty)
    assert by_tty is not None
    assert by_tty.pane_id == third
    assert panes.find_master(socket, [1], "%77", "/dev/pts/none") is None
    assert panes.find_master(socket, [1], None, None) is None


def test_names_with_blanks_and_colons_do_not_confuse_what_is_read(private_server: PrivateServer) -> None:
    pane = private_server.start(session="my session")
    private_server.run("select-pane", "-t", pane, "-T", "a: title %1 @2 t/dev | ü")
    (info,) = panes.list_panes(private_server.socket)
    assert (info.session_name, info.title) == ("my session", "a: title %1 @2 t/dev | ü")
    assert panes.pane(private_server.socket, pane) == info
    assert panes.pane(private_server.socket, "%55") is None


def test_another_pane_is_never_taken_for_the_one_asked_for(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = private_server.start()
    real = tmux_server.invoke
    # What a tmux would do that falls back to the current pane.
    monkeypatch.setattr(tmux_server, "invoke", lambda argv: real([pane if word == "%55" else word for word in argv]))
    assert panes.pane(private_server.socket, "%55") is None


def test_what_is_read_does_not_depend_on_the_locale(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    pane = private_server.start()
    private_server.run("select-pane", "-t", pane, "-T", "grüße")
    assert panes.list_panes(private_server.socket)[0].title == "grüße"


def test_inside_a_nested_tmux_the_panes_are_made_in_the_inner_one(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = private_server.start()
    inner = PrivateServer()
    try:
        command = ["tmux", "-L", str(inner.socket.name), "-f", "/dev/null", "new-session", "-s", "in", "cat"]
        private_server.run("respawn-pane", "-k", "-t", outer, "--", "env", "-u", "TMUX", *command)
        until(lambda: inner.path().exists())
        value = until(lambda: inner_value(inner))
        # A daemon that was started inside the outer one carries its TMUX.
        monkeypatch.setenv("TMUX", private_server.show(outer, "#{socket_path},#{pid},0"))
        monkeypatch.setenv("TMUX_PANE", outer)
        socket = server_address.from_env(value)
        master = panes.list_panes(socket)[0]
        made = splits.create_agents(socket, master.pane_id, [], [NewPane("a1", RUN, 1, ["env", "cat"], "/")], LIMITS)
        assert inner.panes(master.pane_id) == [master.pane_id, *made]
        assert private_server.panes(outer) == [outer]
    finally:
        inner.end()


def inner_value(inner: PrivateServer) -> str | None:
    try:
        return inner.run("list-panes", "-a", "-F", "#{socket_path},#{pid},0")
    except Environment:
        return None


def test_tagged_panes_of_all_windows_and_sessions_are_listed_once(private_server: PrivateServer) -> None:
    first = private_server.start(session="one")
    second = private_server.start(session="two")
    made = [one_agent(private_server, master) for master in (first, second)]
    private_server.run("link-window", "-s", "one:0", "-t", "two:5")
    every = [pane.pane_id for pane in panes.list_panes(private_server.socket)]
    assert sorted(every) == sorted([first, second, *made])
    tagged = panes.list_tagged(private_server.socket)
    assert sorted(pane.pane_id for pane in tagged) == sorted(made)
    assert all(pane.start_command == "env cat" and not pane.dead and not pane.in_mode for pane in tagged)
    private_server.run("copy-mode", "-t", made[0])
    assert {pane.pane_id: pane.in_mode for pane in panes.list_tagged(private_server.socket)}[made[0]]


def test_a_pane_split_but_not_yet_tagged_is_found_by_its_launch_words(private_server: PrivateServer) -> None:
    master = private_server.start()
    words = ["launch", "a1", "3", "--project", "/some where/it's"]
    made = private_server.run(
        "split-window", "-d", "-t", master, "-P", "-F", "#{pane_id}", "--", "sh", "-c", "exec cat", *words
    )
    private_server.run("split-window", "-d", "-t", master, "--", "sh", "-c", "exec cat", "launch", "a1", "33")
    found = panes.find_stub(private_server.socket, words)
    assert found is not None
    assert found.pane_id == made
    assert panes.find_stub(private_server.socket, ["launch", "a1", "4"]) is None
    panes.tag(private_server.socket, made, "a1", RUN, 3)
    assert panes.find_stub(private_server.socket, words) is None


# --- the detached session ---------------------------------------------------------------------------------


def test_a_server_without_any_session_has_no_detached_one(private_server: PrivateServer) -> None:
    tmux(private_server.socket).chain(["start-server"], ["set-option", "-s", "exit-empty", "off"])
    assert splits.find_detached(private_server.socket, "team") is None
    assert splits.make_detached(private_server.socket, "team", ["env", "cat"], "/").session_name == "team"


def test_ten_callers_at_once_get_one_detached_session(private_server: PrivateServer) -> None:
    found: list[panes.PaneInfo] = []

    def work() -> None:
        found.append(splits.make_detached(private_server.socket, "team", ["env", "cat"], "/"))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert {pane.pane_id for pane in found} == {"%0"}
    assert (
        private_server.run("list-sessions", "-F", "#{session_name} #{window_width}x#{window_height}") == "team 220x60"
    )


def test_the_first_pane_of_the_detached_session_is_found_again_and_survives_its_program(
    private_server: PrivateServer,
) -> None:
    private_server.start(session="team-other")
    first = splits.make_detached(private_server.socket, "team", ["sh", "-c", "exit 3"], "/")
    until(lambda: private_server.show(first.pane_id, "#{pane_dead}") == "1")
    one_agent(private_server, first.pane_id)
    private_server.run("swap-pane", "-d", "-U", "-t", private_server.panes(first.pane_id)[1])
    again = splits.make_detached(private_server.socket, "team", ["env", "cat"], "/")
    assert again.pane_id == first.pane_id
    assert again.session_name == "team"


def test_a_name_with_a_dot_is_one_session_too(private_server: PrivateServer) -> None:
    first = splits.make_detached(private_server.socket, "my.project:1", ["env", "cat"], "/")
    assert splits.make_detached(private_server.socket, "my.project:1", ["env", "cat"], "/") == first


def test_ending_the_detached_session_leaves_what_the_user_put_there(private_server: PrivateServer) -> None:
    assert splits.find_detached(private_server.socket, "team") is None
    home = splits.make_detached(private_server.socket, "team", ["env", "cat"], "/")
    assert splits.find_detached(private_server.socket, "team") == home
    mine = private_server.split(home.pane_id)
    splits.end_detached(private_server.socket, "team")
    assert private_server.panes(mine) == [mine]
    splits.end_detached(private_server.socket, "team")
    assert private_server.panes(mine) == [mine]
    private_server.run("kill-session", "-t", "team")
    splits.end_detached(private_server.socket, "team")


def test_ending_the_detached_session_ends_it(private_server: PrivateServer) -> None:
    private_server.start()
    splits.make_detached(private_server.socket, "team", ["env", "cat"], "/")
    splits.end_detached(private_server.socket, "team")
    assert private_server.run("list-sessions", "-F", "#{session_name}") == "user"


# --- the invocation ---------------------------------------------------------------------------------------


def test_no_server_is_told_from_a_missing_pane(private_server: PrivateServer) -> None:
    with pytest.raises(Environment) as gone:
        panes.list_panes(private_server.socket)
    assert gone.value.code == "no_tmux"
    assert gone.value.facts["server_gone"]
    private_server.start()
    with pytest.raises(Environment) as missing:
        splits.create_agents(private_server.socket, "%42", [], [], LIMITS)
    assert missing.value.code == "tmux_failed"
    assert missing.value.facts["missing"]
    with pytest.raises(Environment) as missing_window:
        splits.arrange(private_server.socket, "@42", "%0", [], LIMITS)
    assert missing_window.value.facts["missing"]


def test_the_default_server_is_not_the_one_the_daemon_happens_to_run_in(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pane = private_server.start()
    with monkeypatch.context() as patch:
        patch.setenv("TMUX", private_server.show(pane, "#{socket_path},#{pid},0"))
        patch.setenv("TMUX_TMPDIR", str(tmp_path))
        with pytest.raises(Environment) as gone:
            panes.list_panes(TmuxSocket())
    assert gone.value.facts["server_gone"]


def test_a_server_that_has_ended_is_gone(private_server: PrivateServer) -> None:
    private_server.start()
    private_server.run("kill-server")
    until(lambda: is_gone(private_server))


def is_gone(server: PrivateServer) -> bool:
    try:
        server.run("list-sessions")
    except Environment as error:
        return bool(error.facts.get("server_gone"))
    return False


def test_a_machine_without_tmux_says_so(private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        with pytest.raises(Environment) as missing:
            panes.list_panes(private_server.socket)
    assert missing.value.code == "no_tmux"
    assert "server_gone" not in missing.value.facts


def test_a_tmux_that_hangs_is_given_up(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bin" / "tmux"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec cat /dev/zero > /dev/null\n")
    fake.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        patch.setattr(tmux_server, "TIMEOUT", 0.2)
        with pytest.raises(Environment) as hung:
            panes.list_panes(private_server.socket)
    assert hung.value.code == "no_tmux"


def test_a_restarted_server_has_another_identity(private_server: PrivateServer) -> None:
    private_server.start()
    first = tmux(private_server.socket).identity()
    assert tmux(private_server.socket).identity() == first
    private_server.run("kill-server")
    # Its process, not its answer: a server that is just ending takes calls, and drops them.
    until(lambda: tmux_server.start_time(first.pid) is None)
    private_server.start()
    assert tmux(private_server.socket).identity() != first


def test_the_version_is_known_with_and_without_a_server(private_server: PrivateServer) -> None:
    installed = tmux(private_server.socket).version()
    private_server.start()
    assert tmux(private_server.socket).version() == installed
    assert server_address.supported(installed)
    assert installed == os.environ.get("TMUX_EXPECTED", installed), "make tmux-matrix has chosen another one"


def test_a_tmux_that_is_installed_later_counts_without_a_new_start(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = '#!/bin/sh\n[ "$1" = -V ] && echo "tmux {}" && exit\necho "no server running on x" >&2\nexit 1\n'
    for version in ("3.2a", "3.5a"):
        (tmp_path / "tmux").write_text(program.format(version))
        (tmp_path / "tmux").chmod(0o755)
        assert tmux(private_server.socket).version() == version


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("3.3a", True),
        ("3.3", True),
        ("tmux 3.10", True),
        ("3.2a", False),
        ("2.9", False),
        ("4.0", True),
        ("next-3.5", True),
        ("master", True),
        ("openbsd-7.3", True),
    ],
)
def test_versions_from_3_3_on_are_supported(version: str, enough: bool) -> None:
    assert server_address.supported(version) is enough


def test_the_socket_comes_from_the_environments_value() -> None:
    assert server_address.from_env("/tmp/tmux-0/a,b,123,0") == TmuxSocket(path="/tmp/tmux-0/a,b")
    assert server_address.from_env("") == TmuxSocket()
    assert TmuxSocket(path="/x").flags() == ["-S", "/x"]
    assert TmuxSocket(name="y", config="/dev/null").flags() == ["-L", "y", "-f", "/dev/null"]


def test_capture_returns_the_last_lines_and_nothing_of_an_empty_pane(private_server: PrivateServer) -> None:
    pane = private_server.start()
    assert panes.capture(private_server.socket, pane, 5) == []
    private_server.run("respawn-pane", "-k", "-t", pane, "--", "sh", "-c", "seq 1 200; exec cat")
    until(lambda: panes.capture(private_server.socket, pane, 3) == ["198", "199", "200"])
    assert len(panes.capture(private_server.socket, pane, 150)) == 150
