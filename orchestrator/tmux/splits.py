"""Makes new panes and places them: the detached session, agents next to the master, even sizes. Acts on tmux only."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from orchestrator.base.errors import Environment
from orchestrator.tmux.command_words import literal, start_words
from orchestrator.tmux.layout_string import Cell, parse, render
from orchestrator.tmux.member_tags import TAGGED as MEMBERS
from orchestrator.tmux.member_tags import NewMemberPane
from orchestrator.tmux.panes import INFO, NewPane, PaneInfo, list_panes, parse_info, set_tags
from orchestrator.tmux.server_address import TmuxSocket, is_gone
from orchestrator.tmux.servers import tmux
from orchestrator.tmux.window_layout import Border, CarvedLayout, LayoutLimits, NoRoom, PaneSize, carve

HOME = "@orchestrator_home"
# A condition for tmux, of a window: no pane of it is zoomed or in a mode.
UNWATCHED = "#{&&:#{==:#{window_zoomed_flag},0},#{==:#{P:#{?pane_in_mode,1,}},}}"

# One split and its layout at a time per server: two plans made from the same picture would overlap.
_planning: defaultdict[TmuxSocket, threading.Lock] = defaultdict(threading.Lock)

PaneRequest = NewPane | NewMemberPane
"""A pane to be made: an agent's or a squad member's."""


@dataclass(frozen=True)
class _Window:
    """``members``: panes of squad members, which are part of the agents' region, whoever's they are."""

    window_id: str
    tree: Cell
    panes: list[str]
    members: list[str]
    border: Border
    layout: str
    zoomed: bool


def make_detached(
    socket: TmuxSocket, name: str, argv: Sequence[str], cwd: str, *, width: int = 220, height: int = 60
) -> PaneInfo:
    """The first pane of the detached session ``name``, which is created if it does not exist.

    Two callers at once get the same one. The pane runs ``argv`` and stays when that ends. Raises as
    `Tmux.run`.
    """
    name = name.replace(":", "_").replace(".", "_")
    create = [
        ["new-session", "-d", "-s", literal(name), "-x", str(width), "-y", str(height), *start_words(argv, cwd, {})],
        ["set-option", "-p", "-t", f"={name}:", HOME, "1"],
        ["set-option", "-p", "-t", f"={name}:", "remain-on-exit", "on"],
    ]
    for _ in range(3):
        home = _home(socket, name)
        if home is not None:
            return home
        try:
            tmux(socket).chain(*create)
        except Environment as error:
            # Another caller was first, or a server that was just ending took the call: look again.
            if "duplicate session" not in error.message and not error.facts.get("server_gone"):
                raise
    raise Environment("tmux_failed", f"tmux session {name} ended at once")


def find_detached(socket: TmuxSocket, name: str) -> PaneInfo | None:
    """The first pane of the detached session ``name``, None if there is none. Raises as `Tmux.run`."""
    return _home(socket, name.replace(":", "_").replace(".", "_"))


def end_detached(socket: TmuxSocket, name: str) -> None:
    """Close our own first pane of the detached session; the session ends unless the user put panes into it."""
    home = find_detached(socket, name)
    if home is not None:
        tmux(socket).guarded(home.pane_id, f"#{{{HOME}}}", ["kill-pane", "-t", home.pane_id])


def _home(socket: TmuxSocket, name: str) -> PaneInfo | None:
    layout = f"#{{?{HOME},1,0}} {INFO}"
    try:
        lines = tmux(socket).run("list-panes", "-s", "-t", f"={name}:", "-F", layout).split("\n")
    except Environment as error:
        if is_gone(error):
            return None
        raise
    ours = [line for line in lines if line.startswith("1 ")]
    return parse_info((ours or lines)[0][2:])


def create_agents(
    socket: TmuxSocket,
    master_pane: str,
    existing: Collection[str],
    wanted: Sequence[PaneRequest],
    limits: LayoutLimits,
    *,
    overflow: bool = False,
    window_id: str = "",
    opened: Callable[[str, Sequence[str]], None] = lambda _window_id, _panes: None,
) -> list[str | Environment]:
    """Make panes next to the master's in its window; returns a pane id or the error for each.

    Room is checked before anything changes: panes that do not fit are ``no_room`` or, with ``overflow``, go to
    further windows of the master's session. Every pane is tagged as soon as it exists; sizes are final when this
    returns. ``existing`` are the panes of existing agents, in any window; members' panes are found by their tag. If
    the master's pane is closed, the new panes join the agents in ``window_id``. ``opened`` is called for each further
    window, with all panes of the team, before it is divided. Raises as `Tmux.run`, fact ``missing`` if the window is
    gone too.
    """
    with _planning[socket]:
        team = _Team(master_pane, list(existing), limits, opened)
        there = {info.pane_id: info for info in list_panes(socket)}
        home = there.get(master_pane) or next((info for info in there.values() if info.window_id == window_id), None)
        target = home.pane_id if home is not None else master_pane
        outcome, refusal = _add(socket, target, team, wanted)
        if overflow and home is not None and len(outcome) < len(wanted):
            outcome += _add_elsewhere(socket, team, home, wanted[len(outcome) :])
        return outcome + [Environment("no_room", refusal) for _ in wanted[len(outcome) :]]


def room(
    socket: TmuxSocket,
    master_pane: str,
    existing: Collection[str],
    wanted: Sequence[PaneSize | None],
    limits: LayoutLimits,
    *,
    lines: bool = False,
) -> tuple[int, str]:
    """How many more agents of these minimum sizes fit next to the master now, and why not more.

    They fit in the order given; with ``lines`` once the window has border lines. Raises as `Tmux.run`.
    """
    team, window = _Team(master_pane, list(existing), limits), _window(socket, master_pane)
    if lines and window.border == "off":
        window = replace(window, border="top")
    _, fits, reason = _fit(window, team, wanted)
    return fits, reason


class _Team:
    """Whose panes may be moved; ``agents`` and the minimums in ``limits`` grow as panes are made."""

    def __init__(
        self,
        master_pane: str,
        agents: list[str],
        limits: LayoutLimits,
        opened: Callable[[str, Sequence[str]], None] = lambda _window_id, _panes: None,
    ) -> None:
        self.master_pane = master_pane
        self.agents = agents
        self.limits = limits
        self.opened = opened

    def add(self, pane_id: str, minimum: PaneSize | None) -> None:
        self.agents.append(pane_id)
        self.limits = _with(self.limits, {pane_id: minimum})


def _with(limits: LayoutLimits, minimums: Mapping[str, PaneSize | None]) -> LayoutLimits:
    return replace(limits, of={**limits.of, **{pane: size for pane, size in minimums.items() if size is not None}})


def _add(
    socket: TmuxSocket, target: str, team: _Team, wanted: Sequence[PaneRequest]
) -> tuple[list[str | Environment], str]:
    """Add as many as fit into the window of ``target``; the outcome of those, and why not more."""
    window = _window(socket, target)
    after, fits, refusal = _fit(window, team, [request.minimum for request in wanted])
    return (_split_all(socket, window.window_id, after, team, wanted[:fits]) if fits else []), refusal


def _fit(window: _Window, team: _Team, wanted: Sequence[PaneSize | None]) -> tuple[str, int, str]:
    """The pane to split first, how many of the wanted agents fit, and why not more."""
    refusal = ""
    for fits in range(len(wanted), 0, -1):
        new = {f"new{number}": size for number, size in enumerate(wanted[:fits])}
        plan = _plan(window, team, new)
        if isinstance(plan, CarvedLayout):
            return plan.after, fits, refusal
        width, height = _with(team.limits, new).minimum(f"new{fits - 1}")
        refusal = (
            f"{fits - 1} of {len(wanted)} new agents fit in this window of {window.tree.width}x{window.tree.height}, "
            f"where each needs at least {width}x{height}"
        )
    return "", 0, refusal


def _plan(
    window: _Window, team: _Team, new: Mapping[str, PaneSize | None] = MappingProxyType({})
) -> CarvedLayout | NoRoom:
    ours = [*team.agents, *window.members]
    limits = _with(team.limits, new)
    return carve(window.tree, team.master_pane, ours, limits, new=list(new), border=window.border)


def _split_all(
    socket: TmuxSocket, window_id: str, after: str, team: _Team, wanted: Sequence[PaneRequest]
) -> list[str | Environment]:
    outcome: list[str | Environment] = []
    for new in wanted:
        try:
            after = _split(socket, window_id, after, team, new)
            outcome.append(after)
        except Environment as error:
            outcome.append(error)
    _arrange(socket, window_id, team)
    return outcome


def _split(socket: TmuxSocket, window_id: str, after: str, team: _Team, new: PaneRequest) -> str:
    try:
        pane_id = _split_after(socket, window_id, after, new)
    except Environment as error:
        if error.code != "no_room":
            raise
        # Halving one pane again and again used it up: there is room once all are even.
        _arrange(socket, window_id, team)
        pane_id = _split_after(socket, window_id, after, new)
    return _tag(socket, pane_id, team, new)


def _split_after(socket: TmuxSocket, window_id: str, after: str, new: PaneRequest) -> str:
    window = _window(socket, window_id)
    # The size in the layout is right also while the window is zoomed, the pane's own is not.
    sizes = {cell.pane: cell for cell in window.tree.leaves()}
    cell = sizes.get(after)
    flags = ["-v" if cell and cell.width < 2 * cell.height else "-h"]
    if window.zoomed:
        # Only then: -Z would zoom a window that is not.
        flags.append("-Z")
    command = ["split-window", "-d", *flags, "-t", after, "-P", "-F", "#{pane_id}"]
    return tmux(socket).run(*command, *start_words(new.argv, new.cwd, new.env))


def _tag(socket: TmuxSocket, pane_id: str, team: _Team, new: PaneRequest) -> str:
    try:
        set_tags(socket, pane_id, new.tags)
    except Environment as error:
        if error.facts.get("missing"):
            raise Environment("launch_failed", f"the program of {new.whose} ended at once") from None
        raise
    team.add(pane_id, new.minimum)
    return pane_id


def _add_elsewhere(
    socket: TmuxSocket, team: _Team, home: PaneInfo, wanted: Sequence[PaneRequest]
) -> list[str | Environment]:
    """Put agents into the windows other than ``home``'s that hold some of the team, then into new windows."""
    every = {info.pane_id: info for info in list_panes(socket)}
    others = [every[pane_id].window_id for pane_id in team.agents if pane_id in every]
    outcome: list[str | Environment] = []
    for window_id in dict.fromkeys(others):
        if window_id != home.window_id and len(outcome) < len(wanted):
            team.opened(window_id, team.agents)
            outcome += _add(socket, window_id, team, wanted[len(outcome) :])[0]
    while len(outcome) < len(wanted):
        new = wanted[len(outcome)]
        # No -a: inserting after the master's window would renumber the user's windows.
        form = "#{pane_id} #{window_id}"
        command = ["new-window", "-d", "-n", "agents", "-t", f"{home.session_id}:", "-P", "-F", form]
        try:
            made = tmux(socket).run(*command, *start_words(new.argv, new.cwd, new.env))
            pane_id, window_id = made.split(" ")
            outcome.append(_tag(socket, pane_id, team, new))
            team.opened(window_id, team.agents)
        except Environment as error:
            outcome.append(error)
            continue
        outcome += _add(socket, pane_id, team, wanted[len(outcome) :])[0]
    return outcome


def arrange(
    socket: TmuxSocket,
    window_id: str,
    master_pane: str,
    agents: Collection[str],
    limits: LayoutLimits,
    *,
    unless_watched: bool = False,
) -> bool:
    """Even out the agents' and members' panes of one window; everything else keeps its cell, focus and zoom.

    False if they keep the cells tmux gave them: no grid within the limits fits (the window was made
    smaller), the user keeps changing the window meanwhile, or its panes are in an order no layout can keep. With
    ``unless_watched`` also if a person has zoomed a pane of the window or is in copy mode there. Raises as
    `Tmux.run`, fact ``missing`` if the window is gone.
    """
    with _planning[socket]:
        return _arrange(socket, window_id, _Team(master_pane, list(agents), limits), unless_watched=unless_watched)


def _arrange(socket: TmuxSocket, window_id: str, team: _Team, *, unless_watched: bool = False) -> bool:
    for _ in range(3):
        window = _window(socket, window_id)
        if window.panes != [leaf.pane for leaf in window.tree.leaves()]:
            return False
        plan = _plan(window, team)
        if not isinstance(plan, CarvedLayout):
            return False
        if plan.tree == window.tree:
            return True
        # select-layout would resize the window to a stale picture of it, so it must still be the one we read.
        unchanged = (
            f"#{{==:#{{window_layout}} #{{window_zoomed_flag}},{literal(window.layout)} {int(window.zoomed)}}}"
        )
        if unless_watched:
            unchanged = f"#{{&&:{unchanged},{UNWATCHED}}}"
        change = [["select-layout", "-t", window_id, render(plan.tree)]]
        if window.zoomed:
            change.append(["resize-pane", "-Z", "-t", window_id])
        change.append(["display-message", "-p", "done"])
        if tmux(socket).guarded(window_id, unchanged, *change) == "done":
            return True
    return False


def _window(socket: TmuxSocket, target: str) -> _Window:
    form = f"#{{window_id}} #{{pane_id}} #{{pane-border-status}} #{{window_zoomed_flag}} #{{window_layout}} {MEMBERS}"
    lines = [line.split(" ") for line in tmux(socket).run("list-panes", "-t", target, "-F", form).split("\n")]
    window_id, _, status, zoomed, layout, _ = lines[0]
    try:
        tree = parse(layout)
    except ValueError as error:
        raise Environment("tmux_failed", f"this tmux describes its windows in an unknown way: {error}") from None
    border: Border = "top" if status == "top" else "bottom" if status == "bottom" else "off"
    every, members = [words[1] for words in lines], [words[1] for words in lines if words[5] == "1"]
    return _Window(window_id, tree, every, members, border, layout, zoomed == "1")
