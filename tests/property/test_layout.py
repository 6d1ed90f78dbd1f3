"""What holds for every window: other panes keep their cells, nothing is lost, every agent gets its minimum."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from orchestrator.tmux.layout_string import Cell, parse, render
from orchestrator.tmux.window_layout import Border, CarvedLayout, LayoutLimits, NoRoom, PaneSize, carve

LIMITS = LayoutLimits()
READABLE = PaneSize(60, 12)
QUICK = settings(deadline=None)  # how long one example takes is the machine's matter


def split(cell: Cell, row: bool, at: int, pane: str) -> Cell:
    """What tmux makes of a leaf that is split, ``at`` cells from its start."""
    if row:
        parts = (
            replace(cell, width=at),
            Cell(cell.width - at - 1, cell.height, cell.x + at + 1, cell.y, pane=pane),
        )
    else:
        parts = (
            replace(cell, height=at),
            Cell(cell.width, cell.height - at - 1, cell.x, cell.y + at + 1, pane=pane),
        )
    return replace(cell, kind="row" if row else "column", pane="", children=parts)


def split_leaf(tree: Cell, target: str, row: bool, share: float, pane: str) -> Cell:
    if tree.kind == "pane":
        size = tree.width if row else tree.height
        return split(tree, row, max(1, min(size - 2, int(size * share))), pane) if size >= 3 else tree
    children: list[Cell] = []
    for child in tree.children:
        if any(leaf.pane == target for leaf in child.leaves()):
            changed = split_leaf(child, target, row, share, pane)
            children += changed.children if changed.kind == tree.kind else (changed,)
        else:
            children.append(child)
    return replace(tree, children=tuple(children))


@st.composite
def windows(draw: st.DrawFn, most: int = 7) -> Cell:
    tree = Cell(draw(st.integers(3, 260)), draw(st.integers(3, 90)), 0, 0, pane="%0")
    for number in range(1, draw(st.integers(1, most))):
        target = draw(st.sampled_from([leaf.pane for leaf in tree.leaves()]))
        tree = split_leaf(tree, target, draw(st.booleans()), draw(st.floats(0.05, 0.95)), f"%{number}")
    return tree


@dataclass
class Case:
    tree: Cell
    master: str
    agents: list[str]
    new: list[str]
    border: Border
    limits: LayoutLimits = field(default=LIMITS)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Windows in which agents have been carved before, moved about by the user, or both."""
    tree = draw(windows())
    border: Border = draw(st.sampled_from(["off", "top", "bottom"]))
    panes = [leaf.pane for leaf in tree.leaves()]
    master = draw(st.sampled_from(panes))
    agents = draw(st.lists(st.sampled_from(panes), unique=True, max_size=3))
    for number in range(draw(st.integers(0, 4))):
        plan = carve(tree, master, agents, LIMITS, new=[f"%{100 + number}"], border=border)
        if isinstance(plan, CarvedLayout):
            tree = plan.tree
            agents.append(f"%{100 + number}")
        if draw(st.booleans()):
            target = draw(st.sampled_from([leaf.pane for leaf in tree.leaves()]))
            tree = split_leaf(tree, target, draw(st.booleans()), draw(st.floats(0.1, 0.9)), f"%{200 + number}")
    new = [f"%{300 + number}" for number in range(draw(st.integers(0, 5)))]
    agents = [pane for pane in agents if pane != master]
    readable = draw(st.lists(st.sampled_from([*agents, *new]), unique=True)) if agents or new else []
    focus = draw(st.none() | st.sets(st.sampled_from([*panes, *new]), max_size=2))
    return Case(tree, master, agents, new, border, LayoutLimits(of=dict.fromkeys(readable, READABLE), focus=focus))


def planned(case: Case) -> CarvedLayout | NoRoom:
    return carve(case.tree, case.master, case.agents, case.limits, new=case.new, border=case.border)


def assert_whole(cell: Cell) -> None:
    """The rules by which tmux accepts a layout: children fill their parent with one line between them."""
    if cell.kind == "pane":
        assert cell.width >= 1
        assert cell.height >= 1
        return
    assert len(cell.children) > 1
    at = cell.x if cell.kind == "row" else cell.y
    for child in cell.children:
        if cell.kind == "row":
            assert (child.x, child.y, child.height) == (at, cell.y, cell.height)
            at += child.width + 1
        else:
            assert (child.x, child.y, child.width) == (cell.x, at, cell.width)
            at += child.height + 1
        assert_whole(child)
    assert at - 1 == (cell.x + cell.width if cell.kind == "row" else cell.y + cell.height)


@QUICK
@given(windows())
def test_a_window_read_back_is_the_same_window(tree: Cell) -> None:
    assert_whole(tree)
    assert parse(render(tree)) == tree


@QUICK
@given(st.one_of(st.text(), windows().map(render).flatmap(lambda text: st.sampled_from([text[:-1], text + "1"]))))
def test_what_is_no_layout_is_refused_with_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a tmux layout"):
        parse(text)


@settings(parent=QUICK, max_examples=300)
@given(cases())
def test_every_plan_keeps_the_window_whole_and_the_users_panes_where_they_are(case: Case) -> None:
    plan = planned(case)
    if isinstance(plan, NoRoom):
        assert plan.reason
        return
    assert_whole(plan.tree)
    assert (plan.tree.width, plan.tree.height) == (case.tree.width, case.tree.height)
    before = {leaf.pane: leaf for leaf in case.tree.leaves()}
    after = {leaf.pane: leaf for leaf in plan.tree.leaves()}
    ours = {case.master, *case.agents, *case.new}
    assert {pane: cell for pane, cell in after.items() if pane not in ours} == {
        pane: cell for pane, cell in before.items() if pane not in ours
    }
    order = list(before)
    if case.new:
        at = order.index(plan.after) + 1
        order[at:at] = case.new
    assert list(after) == order


@settings(parent=QUICK, max_examples=300)
@given(cases())
def test_every_agent_that_is_placed_gets_its_minimum_and_the_master_its_share(case: Case) -> None:
    plan = planned(case)
    if isinstance(plan, NoRoom):
        return
    before = {leaf.pane: leaf for leaf in case.tree.leaves()}
    placed = [
        leaf
        for leaf in plan.tree.leaves()
        if leaf.pane in case.new or (leaf.pane in case.agents and leaf != before[leaf.pane])
    ]
    for leaf in placed:
        # In a strip, and without new agents also in a grid, a pane may get less than it needs to be read.
        least = case.limits.minimum(leaf.pane)
        if case.limits.focus is not None or not case.new:
            least = case.limits.strip(leaf.pane)
        assert inside(case, plan.tree, leaf).width >= least.width
        assert inside(case, plan.tree, leaf).height >= least.height
    old = before.get(case.master)
    for leaf in plan.tree.leaves():
        if leaf.pane == case.master and not set(case.agents) & set(before) and old is not None:
            assert leaf.width >= LIMITS.master_share * old.width
            assert leaf.height >= LIMITS.master_share * old.height


def inside(case: Case, tree: Cell, leaf: Cell) -> PaneSize:
    """The pane of a cell, without its border line."""
    lost = (case.border == "top" and leaf.y == 0) or (case.border == "bottom" and leaf.y + leaf.height == tree.height)
    return PaneSize(leaf.width, leaf.height - lost)


@settings(parent=QUICK, max_examples=300)
@given(cases(), st.integers(0, 9))
def test_where_agents_were_added_each_of_them_can_be_the_large_one(case: Case, at: int) -> None:
    case = replace(case, limits=replace(case.limits, focus=case.limits.focus or ()))
    once = planned(case)
    if isinstance(once, NoRoom) or not case.new:
        return
    large = case.new[at % len(case.new)]
    tree = carve(
        once.tree, case.master, [*case.agents, *case.new], replace(case.limits, focus={large}), border=case.border
    )
    assert isinstance(tree, CarvedLayout)
    cells = {leaf.pane: leaf for leaf in tree.tree.leaves()}
    assert list(cells) == [leaf.pane for leaf in once.tree.leaves()], "no pane changes its place"
    size = inside(case, tree.tree, cells[large])
    assert all(have >= need for have, need in zip(size, case.limits.minimum(large), strict=True))


@settings(parent=QUICK, max_examples=200)
@given(cases())
def test_a_plan_carried_out_is_not_changed_by_evening_out_again(case: Case) -> None:
    once = planned(case)
    if isinstance(once, NoRoom):
        return
    agents = [*case.agents, *case.new]
    twice = carve(once.tree, case.master, agents, case.limits, border=case.border)
    if isinstance(twice, CarvedLayout):
        again = carve(twice.tree, case.master, agents, case.limits, border=case.border)
        assert isinstance(again, CarvedLayout)
        assert again.tree == twice.tree


def divided_among_strays(case: Case) -> bool:
    plan = planned(case)
    return isinstance(plan, CarvedLayout) and bool(case.new) and plan.after in case.agents and len(case.agents) > 1


def refused(case: Case) -> bool:
    plan = planned(case)
    return isinstance(plan, NoRoom) and case.tree.width > 60


def beside_others(case: Case) -> bool:
    plan = planned(case)
    others = {leaf.pane for leaf in case.tree.leaves()} - {case.master, *case.agents}
    return isinstance(plan, CarvedLayout) and len(case.new) > 1 and len(others) > 1


def a_strip(case: Case) -> bool:
    plan = planned(case)
    if isinstance(plan, NoRoom) or not case.new:
        return False
    return isinstance(planned(replace(case, limits=replace(case.limits, focus=None))), NoRoom)


@pytest.mark.parametrize("reached", [divided_among_strays, refused, beside_others, a_strip])
def test_the_generated_windows_reach_the_interesting_states(reached: Callable[[Case], bool]) -> None:
    found = find(cases(), reached, settings=settings(parent=QUICK, max_examples=3000), random=random.Random(7))
    assert reached(found)
