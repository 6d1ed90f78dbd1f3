"""Agent panes in a user's window, on a real tmux: what is made, and all that must not change."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import libtmux
import pytest

from orchestrator.base.errors import Environment
from orchestrator.tmux import panes, splits, tmux_server
from orchestrator.tmux.panes import NewPane, TaggedPane
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.window_layout import LayoutLimits, PaneSize
from tests.support.tmux_server import BOUND, PrivateServer, private_server, until

__all__ = ["private_server"]

pytestmark = pytest.mark.tmux

LIMITS = LayoutLimits()
RUN = "run-1"


def agent(name: str = "a1", *, argv: tuple[str, ...] = ("env", "cat"), cwd: str = "/", epoch: int = 1) -> NewPane:
    return NewPane(agent_id=name, run_id=RUN, epoch=epoch, argv=argv, cwd=cwd)


def create(server: PrivateServer, master: str, count: int, existing: tuple[str, ...] = ()) -> list[str]:
    wanted = [agent(f"a{len(existing) + number + 1}") for number in range(count)]
    made = splits.create_agents(server.socket, master, existing, wanted, LIMITS)
    assert all(isinstance(one, str) for one in made), made
    return [str(one) for one in made]


def sizes(server: PrivateServer, ids: list[str], target: str) -> list[tuple[int, int]]:
    cells = server.cells(target)
    return [tuple(int(part) for part in re.findall(r"\d+", cells[pane])[:2]) for pane in ids]  # type: ignore[misc]


def picture(server: PrivateServer, target: str) -> str:
    """All that a user sees of a window, and the options of window and panes."""
    form = (
        "#{window_id} #{window_index} #{window_name} #{window_layout} #{window_zoomed_flag} "
        "#{pane_id} #{pane_index} #{pane_active} #{pane_last} #{pane_title}"
    )
    options = server.run("show-options", "-w", "-t", target)
    local = [server.run("show-options", "-p", "-t", pane) for pane in server.panes(target)]
    return "\n".join([server.run("list-panes", "-t", target, "-F", form), options, *local])


def ended(server: PrivateServer) -> TaggedPane:
    """The one tagged pane once tmux knows how its process ended."""
    return until(
        lambda: next(
            (
                one
                for one in panes.list_tagged(server.socket)
                if one.dead and (one.dead_status, one.dead_signal) != (None, None)
            ),
            None,
        )
    )


# --- creating ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(220, 60), (80, 24)])
@pytest.mark.parametrize("status", ["off", "top"])
def test_three_agents_get_three_panes_beside_the_master_who_keeps_focus(
    private_server: PrivateServer, width: int, height: int, status: str
) -> None:
    master = private_server.start(width, height)
    private_server.run("set-option", "-w", "-t", master, "pane-border-status", status)
    made = create(private_server, master, 3)
    assert private_server.panes(master) == [master, *made]
    assert all(w >= 30 and h >= 5 for w, h in sizes(private_server, made, master))
    assert len({w for w, _ in sizes(private_server, made, master)}) == 1
    assert sizes(private_server, [master], master)[0][0] >= 0.45 * width
    assert private_server.show(f"{private_server.show(master, '#{window_id}')}", "#{pane_id}") == master
    observer = libtmux.Server(socket_name=private_server.socket.name)
    assert {pane.pane_id for pane in observer.panes} == {master, *made}


def test_the_carved_layout_is_the_one_tmux_reports(private_server: PrivateServer) -> None:
    master = private_server.start()
    made = create(private_server, master, 5)
    layout = private_server.show(master, "#{window_layout}")
    assert [f"%{number}" for number in re.findall(r"\d+x\d+,\d+,\d+,(\d+)(?!x)", layout)] == [master, *made]


def test_other_panes_of_the_user_keep_id_order_size_title_and_focus(private_server: PrivateServer) -> None:
    first = private_server.start()
    master = private_server.split(first, "-h")
    below = private_server.split(master, "-v")
    for number, pane in enumerate((first, below)):
        private_server.run("select-pane", "-t", pane, "-T", f"mine {number}")
    private_server.run("select-pane", "-t", first)
    private_server.run("select-pane", "-t", below)
    before = private_server.cells(master)
    form = "#{pane_id} #{pane_active} #{pane_last} #{pane_title}"
    user_before = private_server.run("list-panes", "-t", master, "-F", form).split("\n")

    made = create(private_server, master, 2)

    after = private_server.cells(master)
    assert {pane: after[pane] for pane in (first, below)} == {pane: before[pane] for pane in (first, below)}
    assert [pane for pane in private_server.panes(master) if pane not in made] == [first, master, below]
    user_after = private_server.run("list-panes", "-t", master, "-F", form).split("\n")
    assert [line for line in user_after if line.split(" ")[0] not in made] == user_before


def test_a_zoomed_window_stays_zoomed_and_its_agents_have_their_final_size(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    private_server.run("select-pane", "-t", user)
    private_server.run("resize-pane", "-Z", "-t", user)
    made = create(private_server, master, 2)
    assert private_server.show(user, "#{window_zoomed_flag} #{pane_active}") == "1 1"
    zoomed = sizes(private_server, made, master)
    private_server.run("resize-pane", "-Z", "-t", user)
    assert sizes(private_server, made, master) == zoomed
    assert all(w < 110 for w, _ in zoomed)


def test_a_window_too_small_is_no_room_and_nothing_has_changed(private_server: PrivateServer) -> None:
    master = private_server.start(50, 9)
    before = picture(private_server, master)
    (refused,) = splits.create_agents(private_server.socket, master, [], [agent()], LIMITS)
    assert isinstance(refused, Environment)
    assert refused.code == "no_room"
    assert "overflow" in refused.next_step
    assert picture(private_server, master) == before


def test_those_that_do_not_fit_fail_alone(private_server: PrivateServer) -> None:
    master = private_server.start(80, 24)
    wanted = [agent(f"a{number}") for number in range(6)]
    made = splits.create_agents(private_server.socket, master, [], wanted, LIMITS)
    assert [isinstance(one, str) for one in made] == [True] * 4 + [False] * 2
    assert [one.code for one in made if isinstance(one, Environment)] == ["no_room", "no_room"]
    assert len(private_server.panes(master)) == 5
    assert all(h >= 5 for _, h in sizes(private_server, [str(one) for one in made[:4]], master))


def test_how_many_fit_is_known_before_anything_changes(private_server: PrivateServer) -> None:
    master = private_server.start(80, 24)
    before = picture(private_server, master)
    assert splits.room(private_server.socket, master, [], [None] * 4, LIMITS) == (4, "")
    fits, reason = splits.room(private_server.socket, master, [], [None] * 6, LIMITS)
    assert fits == 4
    assert reason.startswith("4 of 6 new agents fit in this window of 80x24")
    assert "30x5" in reason
    assert splits.room(private_server.socket, master, [], [PaneSize(60, 12)] * 2, LIMITS)[0] == 1
    assert picture(private_server, master) == before
    made = create(private_server, master, 3)
    assert splits.room(private_server.socket, master, made, [None] * 3, LIMITS)[0] == 1


def test_a_program_that_cannot_live_fails_alone(private_server: PrivateServer) -> None:
    master = private_server.start()
    gone = agent("gone", argv=("sh", "-c", "exit 3"))
    real = tmux_server.invoke

    def slow(argv: list[str]) -> object:
        done = real(argv)
        if "split-window" in argv and "exit 3" in argv:
            until(lambda: len(private_server.panes(master)) == len(argv_panes) + 1)
        return done

    argv_panes = ["one agent was made before"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmux_server, "invoke", slow)
        made = splits.create_agents(private_server.socket, master, [], [agent("a1"), gone, agent("a3")], LIMITS)
    assert isinstance(made[1], Environment)
    assert made[1].code == "launch_failed"
    assert private_server.panes(master) == [master, made[0], made[2]]


def test_thirty_agents_fill_a_large_window_in_an_even_grid(private_server: PrivateServer) -> None:
    master = private_server.start()
    made = create(private_server, master, 30)
    assert private_server.panes(master) == [master, *made]
    measured = sizes(private_server, made, master)
    assert all(w >= 30 and h >= 5 for w, h in measured)
    assert max(w for w, _ in measured) - min(w for w, _ in measured) <= 1


@pytest.mark.parametrize("sentence", ["no space for new pane", "size or position no space for a new pane"])
def test_a_pane_used_up_by_halving_is_evened_out_whatever_this_tmux_says_of_it(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch, sentence: str
) -> None:
    master = private_server.start(400, 120)
    real, refused = tmux_server.invoke, []

    def other_version(argv: list[str]) -> object:
        done = real(argv)
        if "space for" in done.stderr:
            refused.append(argv)
            done.stderr = sentence + "\n"
        return done

    monkeypatch.setattr(tmux_server, "invoke", other_version)
    made = create(private_server, master, 30)
    assert refused
    assert private_server.panes(master) == [master, *made]


def test_agents_added_later_join_the_same_grid(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    before = private_server.cells(master)[user]
    first = create(private_server, master, 2)
    second = create(private_server, master, 1, tuple(first))
    assert private_server.panes(master) == [user, master, *first, *second]
    assert private_server.cells(master)[user] == before
    heights = [h for _, h in sizes(private_server, first + second, master)]
    assert max(heights) - min(heights) <= 1


def test_two_masters_splitting_at_once_do_not_spoil_each_others_layout(private_server: PrivateServer) -> None:
    left = private_server.start(240, 60)
    right = private_server.split(left)
    results: dict[str, list[str | Environment]] = {}

    def work(master: str) -> None:
        wanted = [agent(f"{master[1:]}-{number}") for number in range(3)]
        results[master] = splits.create_agents(private_server.socket, master, [], wanted, LIMITS)

    threads = [threading.Thread(target=work, args=(master,)) for master in (left, right)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [str(one) for master in (left, right) for one in results[master]]
    assert private_server.panes(left) == [left, *results[left], right, *results[right]]
    assert all(w >= 30 and h >= 5 for w, h in sizes(private_server, made, left))


def test_two_callers_never_plan_from_the_same_picture(
    private_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = private_server.start(80, 24)
    real, ready, both, calls = tmux_server.invoke, threading.Barrier(2), threading.Barrier(2), []

    def recorded(argv: list[str]) -> object:
        if threading.get_ident() not in calls:
            # Without a lock both are here at once; with it the first goes on alone after a moment.
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.3)
        calls.append(threading.get_ident())
        return real(argv)

    monkeypatch.setattr(tmux_server, "invoke", recorded)
    outcomes: list[str | Environment] = []

    def work(name: str) -> None:
        # Both live before one of them calls: a thread's number is given again once it has ended.
        ready.wait(BOUND)
        wanted = [agent(f"{name}{number}") for number in range(3)]
        outcomes.extend(splits.create_agents(private_server.socket, master, [], wanted, LIMITS))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6
    assert sum(one != following for one, following in itertools.pairwise(calls)) == 1
    made = [one for one in outcomes if isinstance(one, str)]
    assert all(w >= 30 and h >= 5 for w, h in sizes(private_server, made, master))


def test_with_overflow_the_rest_goes_to_a_further_window_without_renumbering(private_server: PrivateServer) -> None:
    master = private_server.start(80, 24)
    private_server.run("set-option", "-g", "base-index", "1")
    private_server.run("new-window", "-d", "-t", "user:", "-n", "mine", "--", "env", "cat")
    windows = private_server.run("list-windows", "-t", "user", "-F", "#{window_id} #{window_index}").split("\n")
    focus = private_server.show("user:", "#{window_id}")
    wanted = [agent(f"a{number}") for number in range(6)]
    made = splits.create_agents(private_server.socket, master, [], wanted, LIMITS, overflow=True)
    assert all(isinstance(one, str) for one in made)
    assert len(private_server.panes(master)) == 5
    assert len(private_server.panes(str(made[5]))) == 2
    after = private_server.run("list-windows", "-t", "user", "-F", "#{window_id} #{window_index}").split("\n")
    assert after[: len(windows)] == windows
    assert private_server.show("user:", "#{window_id}") == focus
    more = splits.create_agents(
        private_server.socket, master, [str(one) for one in made], [agent("a7")], LIMITS, overflow=True
    )
    assert len(private_server.panes(str(made[5]))) == 3
    assert str(more[0]) in private_server.panes(str(made[5]))


def test_each_further_window_is_named_before_it_is_divided(private_server: PrivateServer) -> None:
    master = private_server.start(80, 24)
    seen: list[tuple[str, int, bool]] = []

    def opened(window_id: str, team: Sequence[str]) -> None:
        there = private_server.panes(window_id)
        seen.append((window_id, len(there), set(there) <= set(team)))

    wanted = [agent(f"a{number}") for number in range(8)]
    made = splits.create_agents(private_server.socket, master, [], wanted, LIMITS, overflow=True, opened=opened)
    windows = list(dict.fromkeys(private_server.show(str(one), "#{window_id}") for one in made))
    assert seen == [(windows[1], 1, True)]
    assert len(private_server.panes(windows[1])) == 4


def test_an_agent_that_needs_more_room_goes_to_a_further_window_where_it_has_that(
    private_server: PrivateServer,
) -> None:
    master = private_server.start(120, 30)
    needs = PaneSize(60, 12)
    wanted = [replace(agent(f"a{number}"), minimum=needs) for number in range(5)]
    made = splits.create_agents(private_server.socket, master, [], wanted, LIMITS, overflow=True)
    for one in made:
        width, height = private_server.show(str(one), "#{pane_width} #{pane_height}").split(" ")
        assert (int(width), int(height)) >= needs
    assert len({private_server.show(str(one), "#{window_id}") for one in made}) > 1


def focused(server: PrivateServer, master: str, made: list[str], large: str, *, unless_watched: bool = True) -> bool:
    limits = LayoutLimits(60, 12, focus={large})
    window = server.show(master, "#{window_id}")
    return splits.arrange(server.socket, window, master, made, limits, unless_watched=unless_watched)


def test_a_large_pane_follows_without_moving_a_pane_or_the_active_one(private_server: PrivateServer) -> None:
    master = private_server.start(120, 40)
    made = create(private_server, master, 6)
    for large in (made[0], made[3], made[5]):
        assert focused(private_server, master, made, large)
        assert private_server.panes(master) == [master, *made]
        assert private_server.show(f"{private_server.show(master, '#{window_id}')}", "#{pane_id}") == master
        heights = dict(zip(made, [h for _, h in sizes(private_server, made, master)], strict=True))
        assert heights[large] >= 12
        assert {height for pane, height in heights.items() if pane != large} == {5}


@pytest.mark.parametrize("watching", ["zoom", "copy mode"])
def test_a_large_pane_stays_while_a_person_is_in_the_window(private_server: PrivateServer, watching: str) -> None:
    master = private_server.start(120, 40)
    made = create(private_server, master, 6)
    assert focused(private_server, master, made, made[0])
    before = private_server.show(master, "#{window_layout}")
    begin = ["resize-pane", "-Z"] if watching == "zoom" else ["copy-mode"]
    private_server.run(*begin, "-t", made[2])
    assert not focused(private_server, master, made, made[5])
    assert private_server.show(master, "#{window_layout}") == before
    end = ["resize-pane", "-Z"] if watching == "zoom" else ["send-keys", "-X"]
    private_server.run(*end, "-t", made[2], *([] if watching == "zoom" else ["cancel"]))
    assert focused(private_server, master, made, made[5])
    assert private_server.show(master, "#{window_layout}") != before


def test_the_pane_in_which_a_person_types_is_known(private_server: PrivateServer) -> None:
    first = private_server.start(session="user")
    second = private_server.split(first)
    assert panes.typed_in(private_server.socket, 0) == set()
    terminal, inner = os.openpty()
    attach = ["tmux", "-L", str(private_server.socket.name), "attach", "-t", "user"]
    env = {**os.environ, "TERM": "xterm"}
    client = subprocess.Popen(attach, stdin=inner, stdout=inner, stderr=inner, env=env, start_new_session=True)
    try:
        os.set_blocking(terminal, False)

        def drained() -> set[str]:
            with contextlib.suppress(BlockingIOError):
                os.read(terminal, 1 << 16)
            return panes.typed_in(private_server.socket, 0)

        assert until(drained) == {second}
        private_server.run("select-pane", "-t", first)
        assert drained() == {first}
        active = int(private_server.run("list-clients", "-F", "#{client_activity}"))
        assert panes.typed_in(private_server.socket, active) == {first}
        assert panes.typed_in(private_server.socket, active + 1) == set()
    finally:
        client.kill()
        client.wait()
        os.close(terminal)
        os.close(inner)


def test_the_argv_reaches_the_program_unchanged_and_through_no_shell(
    private_server: PrivateServer, tmp_path: Path
) -> None:
    master = private_server.start()
    odd = ["a b", "$HOME", "`id`", "semi;", ";", "back\\;", "#{pane_id}", "q'uo\"t", "", "-x", "tab\tnew\nline", "ü"]
    cwd = tmp_path / "odd #S dir"
    cwd.mkdir()
    new = NewPane("a1", RUN, 1, ["env", "sh", "-c", "exec cat", *odd], str(cwd), {"GREETING": "a b; #{x} $y"})
    (pane,) = splits.create_agents(private_server.socket, master, [], [new], LIMITS)
    cat = Path("/proc", private_server.show(str(pane), "#{pane_pid}"))
    # A program has its name a moment before its environment can be read: until then that is empty.
    environ = until(lambda: (cat / "comm").read_text() == "cat\n" and (cat / "environ").read_text())
    assert (cat / "cwd").readlink() == cwd
    assert "GREETING=a b; #{x} $y" in environ.split("\0")
    start = panes.list_tagged(private_server.socket)[0].start_command
    assert "semi;" in start
    # The words themselves, seen by a program that shows them before it becomes cat.
    shown = tmp_path / "argv"
    script = 'for word; do printf "%s\\0" "$word"; done > "$OUT"; exec cat'
    one = NewPane("a2", RUN, 1, ["sh", "-c", script, "sh", *odd], "/", {"OUT": str(shown)})
    splits.create_agents(private_server.socket, master, [str(pane)], [one], LIMITS)
    until(lambda: shown.exists() and shown.read_text().count("\0") == len(odd))
    assert shown.read_text().split("\0")[:-1] == odd


def test_an_agent_may_be_called_0(private_server: PrivateServer) -> None:
    master = private_server.start()
    (pane,) = splits.create_agents(private_server.socket, master, [], [agent("0")], LIMITS)
    assert [one.agent_id for one in panes.list_tagged(private_server.socket)] == ["0"]
    assert panes.find_stub(private_server.socket, ["env", "cat"]) == panes.pane(private_server.socket, master)
    assert panes.kill(private_server.socket, str(pane), "0", RUN)


def test_a_program_of_one_word_is_not_given_to_a_shell(private_server: PrivateServer) -> None:
    master = private_server.start()
    (pane,) = splits.create_agents(private_server.socket, master, [], [agent(argv=("cat",))], LIMITS)
    pid = int(private_server.show(str(pane), "#{pane_pid}"))
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "cat\n")
    assert not Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_only_our_panes_carry_options_and_nothing_global_changes(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    scopes = (["-g"], ["-s"], ["-gw"], ["-w", "-t", master], ["-t", "user"], ["-p", "-t", master], ["-p", "-t", user])
    before = [private_server.run("show-options", *scope) for scope in scopes]
    (pane,) = create(private_server, master, 1)
    assert [private_server.run("show-options", *scope) for scope in scopes] == before
    own = private_server.run("show-options", "-p", "-t", pane).split("\n")
    assert own == ["@orchestrator_agent a1", "@orchestrator_epoch 1", "@orchestrator_run run-1", "remain-on-exit on"]


def test_window_indexes_do_not_matter(private_server: PrivateServer) -> None:
    private_server.start(session="first")
    for option in ("base-index", "pane-base-index"):
        private_server.run("set-option", "-g", option, "1")
    master = private_server.start(session="user")
    made = create(private_server, master, 2)
    private_server.run("move-window", "-s", "user:1", "-t", "user:7")
    more = create(private_server, master, 1, tuple(made))
    assert private_server.panes("user:7") == [master, *made, *more]


def test_a_master_moved_to_another_window_gets_new_agents_there_and_the_old_ones_stay(
    private_server: PrivateServer,
) -> None:
    user = private_server.start()
    master = private_server.split(user)
    old = create(private_server, master, 2)
    private_server.run("break-pane", "-d", "-s", master)
    new = create(private_server, master, 1, tuple(old))
    assert private_server.panes(user) == [user, *old]
    assert private_server.panes(master) == [master, *new]


# --- after something ended -------------------------------------------------------------------------------


def test_after_a_user_killed_an_agents_pane_the_others_are_even_again(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    made = create(private_server, master, 4)
    before = private_server.cells(master)[user]
    private_server.run("kill-pane", "-t", made[1])
    window = private_server.show(master, "#{window_id}")
    assert splits.arrange(private_server.socket, window, master, made, LIMITS)
    left = [made[0], *made[2:]]
    assert private_server.panes(master) == [user, master, *left]
    heights = [h for _, h in sizes(private_server, left, master)]
    assert max(heights) - min(heights) <= 1
    assert private_server.cells(master)[user] == before


def test_when_the_last_agent_leaves_the_window_is_as_it_was(private_server: PrivateServer) -> None:
    user = private_server.start()
    master = private_server.split(user)
    below = private_server.split(master, "-v")
    before = private_server.cells(master)
    made = create(private_server, master, 3)
    for number, pane in enumerate(made):
        assert panes.kill(private_server.socket, pane, f"a{number + 1}", RUN)
        splits.arrange(private_server.socket, private_server.show(master, "#{window_id}"), master, made, LIMITS)
    assert private_server.cells(master) == before
    assert below in before


def test_arrange_leaves_a_window_that_became_too_small_as_tmux_made_it(private_server: PrivateServer) -> None:
    master = private_server.start()
    made = create(private_server, master, 4)
    window = private_server.show(master, "#{window_id}")
    private_server.run("resize-window", "-t", window, "-x", "40", "-y", "10")
    before = private_server.cells(master)
    assert not splits.arrange(private_server.socket, window, master, made, LIMITS)
    assert private_server.cells(master) == before


def test_arrange_never_scrambles_panes_whose_order_no_layout_can_keep(private_server: PrivateServer) -> None:
    user = private_server.start()
    other = private_server.split(user, "-v")
    master = private_server.split(other, "-v")
    made = create(private_server, master, 1)
    # join-pane -f puts the pane's cell at the edge of the window, but not its place in the order.
    private_server.run("break-pane", "-d", "-s", other)
    private_server.run("join-pane", "-d", "-f", "-h", "-b", "-s", other, "-t", master)
    before = private_server.cells(master)
    window = private_server.show(master, "#{window_id}")
    private_server.run("resize-pane", "-t", made[0], "-x", "20")
    changed = private_server.cells(master)
    assert changed != before
    assert not splits.arrange(private_server.socket, window, master, made, LIMITS)
    assert private_server.cells(master) == changed


def test_a_window_that_changes_between_look_and_layout_is_looked_at_again(private_server: PrivateServer) -> None:
    master = private_server.start()
    made = create(private_server, master, 4)
    window = private_server.show(master, "#{window_id}")
    private_server.run("resize-pane", "-t", made[0], "-y", "30")
    real, changed = tmux_server.invoke, []

    def racing(argv: list[str]) -> object:
        if "if-shell" in argv and not changed:
            changed.append(True)
            private_server.run("kill-pane", "-t", made[1])
        return real(argv)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmux_server, "invoke", racing)
        assert splits.arrange(private_server.socket, window, master, made, LIMITS)
    assert changed
    heights = [h for _, h in sizes(private_server, [made[0], *made[2:]], master)]
    assert max(heights) - min(heights) <= 1


def test_a_window_that_changes_all_the_time_is_left_alone(private_server: PrivateServer) -> None:
    master = private_server.start()
    made = create(private_server, master, 2)
    window = private_server.show(master, "#{window_id}")
    private_server.run("resize-pane", "-t", made[0], "-y", "40")
    real = tmux_server.invoke

    def racing(argv: list[str]) -> object:
        if "if-shell" in argv:
            private_server.run("resize-pane", "-t", made[0], "-D", "1")
        return real(argv)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmux_server, "invoke", racing)
        assert not splits.arrange(private_server.socket, window, master, made, LIMITS)
    assert sizes(private_server, made, master)[0][1] == 43


def test_a_command_that_dies_at_once_after_the_release_is_still_inspectable(private_server: PrivateServer) -> None:
    master = private_server.start()
    name = private_server.socket.name
    stub = f'tmux -L {name} wait-for go; echo "it was me"; exec sh -c "exit 7"'
    (pane,) = splits.create_agents(private_server.socket, master, [], [agent(argv=("sh", "-c", stub))], LIMITS)
    tmux(private_server.socket).run("wait-for", "-S", "go")
    dead = ended(private_server)
    assert (dead.pane_id, dead.agent_id, dead.run_id, dead.epoch) == (pane, "a1", RUN, 1)
    assert (dead.dead_status, dead.dead_signal) == (7, None)
    assert "it was me" in panes.capture(private_server.socket, dead.pane_id, 10)


def test_a_program_ended_by_a_signal_shows_which(private_server: PrivateServer) -> None:
    master = private_server.start()
    stub = f"tmux -L {private_server.socket.name} wait-for go; kill -TERM $$"
    splits.create_agents(private_server.socket, master, [], [agent(argv=("sh", "-c", stub))], LIMITS)
    tmux(private_server.socket).run("wait-for", "-S", "go")
    dead = ended(private_server)
    assert (dead.dead_status, dead.dead_signal) == (None, 15)
