"""What holds for every window: other panes keep their cells, nothing is lost, every agent gets its minimum."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from orchestrator.tmux.window_layout import Border, CarvedLayout, Cell, LayoutLimits, NoRoom, carve, parse, render

LIMITS = LayoutLimits()
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
    return Case(tree, master, [pane for pane in agents if pane != master], new, border)


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
    plan = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
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
    plan = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
    if isinstance(plan, NoRoom):
        return
    before = {leaf.pane: leaf for leaf in case.tree.leaves()}
    for leaf in plan.tree.leaves():
        placed = leaf.pane in case.new or (leaf.pane in case.agents and leaf != before[leaf.pane])
        if placed:
            lost = (case.border == "top" and leaf.y == 0) or (
                case.border == "bottom" and leaf.y + leaf.height == plan.tree.height
            )
            assert leaf.width >= LIMITS.min_width
            assert leaf.height - lost >= LIMITS.min_height
        if leaf.pane == case.master and not set(case.agents) & set(before):
            old = before[case.master]
            assert leaf.width >= LIMITS.master_share * old.width
            assert leaf.height >= LIMITS.master_share * old.height


@settings(parent=QUICK, max_examples=200)
@given(cases())
def test_a_plan_carried_out_is_not_changed_by_evening_out_again(case: Case) -> None:
    once = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
    if isinstance(once, NoRoom):
        return
    agents = [*case.agents, *case.new]
    twice = carve(once.tree, case.master, agents, LIMITS, border=case.border)
    if isinstance(twice, CarvedLayout):
        again = carve(twice.tree, case.master, agents, LIMITS, border=case.border)
        assert isinstance(again, CarvedLayout)
        assert again.tree == twice.tree


def divided_among_strays(case: Case) -> bool:
    plan = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
    return isinstance(plan, CarvedLayout) and bool(case.new) and plan.after in case.agents and len(case.agents) > 1


def refused(case: Case) -> bool:
    plan = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
    return isinstance(plan, NoRoom) and case.tree.width > 60


def beside_others(case: Case) -> bool:
    plan = carve(case.tree, case.master, case.agents, LIMITS, new=case.new, border=case.border)
    others = {leaf.pane for leaf in case.tree.leaves()} - {case.master, *case.agents}
    return isinstance(plan, CarvedLayout) and len(case.new) > 1 and len(others) > 1


@pytest.mark.parametrize("reached", [divided_among_strays, refused, beside_others])
def test_the_generated_windows_reach_the_interesting_states(reached: Callable[[Case], bool]) -> None:
    found = find(cases(), reached, settings=settings(parent=QUICK, max_examples=3000), random=random.Random(7))
    assert reached(found)
