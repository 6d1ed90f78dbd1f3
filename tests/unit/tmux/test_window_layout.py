"""Layout strings of a real tmux 3.3a, and the plans for windows whose right answer can be said in a line."""

from __future__ import annotations

import pytest

from orchestrator.tmux.layout_string import Cell, checksum, parse, render
from orchestrator.tmux.window_layout import CarvedLayout, LayoutLimits, NoRoom, PaneSize, carve

LIMITS = LayoutLimits()
TWO_COLUMNS = "4c71,220x60,0,0{55x60,0,0,3,54x60,56,0,0,109x60,111,0[109x30,111,0,1,109x29,111,31,2]}"
NESTED = (
    "1f31,220x60,0,0{55x60,0,0,0,54x60,56,0,3,109x60,111,0"
    "[109x30,111,0{54x30,111,0,1,54x30,166,0,4},109x29,111,31,2]}"
)


def window(width: int, height: int) -> Cell:
    return Cell(width, height, 0, 0, pane="%0")


def named(count: int) -> list[str]:
    return [f"%{number + 10}" for number in range(count)]


def carved(*args: object, **kwargs: object) -> CarvedLayout:
    plan = carve(*args, **kwargs)  # type: ignore[arg-type]
    assert isinstance(plan, CarvedLayout), plan
    return plan


def cells(tree: Cell) -> dict[str, tuple[int, int, int, int]]:
    return {leaf.pane: (leaf.width, leaf.height, leaf.x, leaf.y) for leaf in tree.leaves()}


@pytest.mark.parametrize("text", [TWO_COLUMNS, NESTED])
def test_a_layout_of_tmux_is_written_back_byte_for_byte(text: str) -> None:
    assert render(parse(text)) == text


def test_the_checksum_is_the_one_tmux_prints() -> None:
    assert checksum(TWO_COLUMNS[5:]) == "4c71"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4c71",
        "4c72" + TWO_COLUMNS[4:],
        TWO_COLUMNS[:-1],
        TWO_COLUMNS + "}",
        "4c71;220x60,0,0,0",
        TWO_COLUMNS.replace("{", "[", 1),
        "zzzz,80x24,0,0<1>",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a tmux layout"):
        parse(text)


@pytest.mark.parametrize("border", ["off", "top", "bottom"])
def test_three_agents_fit_a_window_of_80x24(border: str) -> None:
    plan = carved(window(80, 24), "%0", [], LIMITS, new=named(3), border=border)
    sizes = cells(plan.tree)
    assert sizes["%0"] == (36, 24, 0, 0)
    assert [sizes[pane][0] for pane in named(3)] == [43, 43, 43]
    assert all(sizes[pane][1] - 1 >= 5 for pane in named(3))


def test_a_wide_window_gets_its_agents_on_the_right_as_even_as_can_be() -> None:
    sizes = cells(carved(window(220, 60), "%0", [], LIMITS, new=named(3)).tree)
    assert sizes == {
        "%0": (99, 60, 0, 0),
        "%10": (120, 20, 100, 0),
        "%11": (120, 19, 100, 21),
        "%12": (120, 19, 100, 41),
    }


def test_six_agents_of_a_wide_window_make_two_columns() -> None:
    sizes = cells(carved(window(220, 60), "%0", [], LIMITS, new=named(6)).tree)
    assert {sizes[pane][2] for pane in named(6)} == {100, 161}


def test_a_tall_window_gets_its_agents_below() -> None:
    sizes = cells(carved(window(90, 60), "%0", [], LIMITS, new=named(2)).tree)
    assert sizes["%0"] == (90, 27, 0, 0)
    assert {sizes[pane][3] for pane in named(2)} >= {28}


def test_a_window_too_low_for_a_column_on_the_right_takes_the_other_direction() -> None:
    # Wide enough to prefer "right", but 55 % of 48 columns are less than 30.
    sizes = cells(carved(window(48, 24), "%0", [], LIMITS, new=named(1)).tree)
    assert sizes["%10"][0] == 48


def test_the_border_row_of_the_top_panes_counts() -> None:
    assert isinstance(carve(window(60, 11), "%0", [], LIMITS, new=named(2)), CarvedLayout)
    assert isinstance(carve(window(60, 11), "%0", [], LIMITS, new=named(2), border="top"), NoRoom)


def test_a_fifth_agent_in_80x24_has_no_room_and_the_reason_names_the_sizes() -> None:
    plan = carve(window(80, 24), "%0", [], LIMITS, new=named(5))
    assert isinstance(plan, NoRoom)
    assert "5 agent panes" in plan.reason
    assert "30x5" in plan.reason
    assert "80x24" in plan.reason


def test_a_single_agent_gets_no_more_than_the_master() -> None:
    sizes = cells(carved(window(220, 60), "%0", [], LIMITS, new=named(1)).tree)
    assert sizes["%0"][0] >= sizes["%10"][0]


def test_only_the_masters_cell_is_divided_and_the_new_leaves_follow_it() -> None:
    tree = parse(TWO_COLUMNS)
    plan = carved(tree, "%1", [], LIMITS, new=named(2))
    before, after = cells(tree), cells(plan.tree)
    assert {pane: after[pane] for pane in ("%3", "%0", "%2")} == {pane: before[pane] for pane in ("%3", "%0", "%2")}
    assert [leaf.pane for leaf in plan.tree.leaves()] == ["%3", "%0", "%1", "%10", "%11", "%2"]
    assert plan.after == "%1"


def test_a_division_in_the_direction_of_the_parent_is_merged_into_it_and_recognised_again() -> None:
    tree = parse(
        "a1b8,220x60,0,0{40x60,0,0,7,179x60,41,0,0}".replace(
            "a1b8", checksum("220x60,0,0{40x60,0,0,7,179x60,41,0,0}")
        )
    )
    first = carved(tree, "%0", [], LIMITS, new=["%10"])
    assert [child.kind for child in first.tree.children] == ["pane", "pane", "pane"]
    second = carved(first.tree, "%0", ["%10"], LIMITS, new=["%11"])
    assert cells(second.tree)["%7"] == (40, 60, 0, 0)
    assert cells(second.tree)["%0"][:2] == (81, 60)
    assert second.after == "%10"


def test_agents_stay_beside_a_master_whose_own_pane_the_user_has_split() -> None:
    three = carved(window(220, 60), "%0", [], LIMITS, new=named(3)).tree
    master, column = three.children[0], three.children[1]
    top = Cell(master.width, 30, 0, 0, pane="%0")
    user = Cell(master.width, 29, 0, 31, pane="%5")
    tree = Cell(220, 60, 0, 0, "row", children=(Cell(99, 60, 0, 0, "column", children=(top, user)), column))
    plan = carved(tree, "%0", named(3), LIMITS, new=["%20"])
    after = cells(plan.tree)
    assert after["%0"] == (99, 30, 0, 0)
    assert after["%5"] == (99, 29, 0, 31)
    assert {after[pane][2] for pane in [*named(3), "%20"]} == {100}
    assert plan.after == "%12"


def test_an_agent_the_user_put_before_the_master_shares_its_cell_and_the_masters_is_untouched() -> None:
    cells_before = (Cell(109, 60, 0, 0, pane="%10"), Cell(110, 60, 110, 0, pane="%0"))
    tree = Cell(220, 60, 0, 0, "row", children=cells_before)
    plan = carved(tree, "%0", ["%10"], LIMITS, new=["%11"])
    assert cells(plan.tree)["%0"] == (110, 60, 110, 0)
    assert [leaf.pane for leaf in plan.tree.leaves()] == ["%10", "%11", "%0"]


def test_evening_out_leaves_an_agent_before_the_master_in_its_own_cell() -> None:
    row = (Cell(60, 60, 0, 0, pane="%10"), Cell(40, 60, 61, 0, pane="%0"), Cell(118, 60, 102, 0, pane="%11"))
    tree = Cell(220, 60, 0, 0, "row", children=row)
    after = cells(carved(tree, "%0", ["%10", "%11"], LIMITS).tree)
    assert after == {"%10": (60, 60, 0, 0), "%0": (79, 60, 61, 0), "%11": (79, 60, 141, 0)}


def test_agents_left_behind_by_their_master_are_evened_out_among_themselves() -> None:
    column = (Cell(100, 40, 0, 0, pane="%10"), Cell(100, 9, 0, 41, pane="%11"))
    tree = Cell(100, 50, 0, 0, "column", children=column)
    assert [cell[1] for cell in cells(carved(tree, "%0", named(2), LIMITS).tree).values()] == [25, 24]


def test_two_groups_of_agents_are_each_evened_out_in_their_own_cells() -> None:
    user = Cell(20, 60, 100, 0, pane="%5")
    left = Cell(99, 60, 0, 0, "row", children=(Cell(20, 60, 0, 0, pane="%0"), Cell(78, 60, 21, 0, pane="%10")))
    right = Cell(
        99, 60, 121, 0, "column", children=(Cell(99, 9, 121, 0, pane="%11"), Cell(99, 50, 121, 10, pane="%12"))
    )
    tree = Cell(220, 60, 0, 0, "row", children=(*left.children, user, right))
    after = cells(carved(tree, "%0", named(3), LIMITS).tree)
    assert after["%0"] == (99, 30, 0, 0)
    assert after["%10"] == (99, 29, 0, 31)
    assert after["%5"] == (20, 60, 100, 0)
    assert [after[pane][1] for pane in ("%11", "%12")] == [30, 29]


def test_a_window_without_master_and_agents_has_no_room() -> None:
    assert isinstance(carve(window(220, 60), "%9", [], LIMITS, new=["%10"]), NoRoom)


def test_without_agents_nothing_is_changed() -> None:
    tree = parse(TWO_COLUMNS)
    assert carved(tree, "%0", [], LIMITS).tree == tree


# --- panes that need different sizes, one large pane, strips ----------------------------------------------

READABLE = PaneSize(60, 12)


def readable(panes: list[str], focus: set[str] | None = None) -> LayoutLimits:
    return LayoutLimits(of=dict.fromkeys(panes, READABLE), focus=focus)


@pytest.mark.parametrize(("size", "fits"), [((80, 24), 1), ((120, 40), 3), ((220, 60), 6)])
def test_panes_that_need_60x12_get_it_or_are_refused(size: tuple[int, int], fits: int) -> None:
    for count in (fits, fits + 1):
        plan = carve(window(*size), "%0", [], readable(named(count)), new=named(count))
        assert isinstance(plan, CarvedLayout) == (count == fits)
        if isinstance(plan, CarvedLayout):
            assert all(w >= 60 and h >= 12 for _, (w, h, _, _) in list(cells(plan.tree).items())[1:])


def test_small_panes_beside_one_that_needs_more_are_as_high_as_it() -> None:
    limits = readable(["%10"])
    sizes = cells(carved(window(120, 40), "%0", [], limits, new=named(3)).tree)
    assert all(sizes[pane][:2] >= READABLE for pane in named(3))


def test_a_focus_gives_one_pane_the_room_and_the_others_a_strip_in_their_order() -> None:
    panes = named(7)
    plan = carved(window(120, 40), "%0", [], readable(panes, {"%13"}), new=panes)
    sizes = cells(plan.tree)
    assert list(sizes) == ["%0", *panes]
    assert sizes["%13"][:2] == (65, 16)
    assert {sizes[pane][:2] for pane in panes if pane != "%13"} == {(65, 5), (32, 5)}


def test_what_fits_readably_is_even_also_with_a_focus() -> None:
    panes = named(3)
    with_focus = carved(window(120, 40), "%0", [], readable(panes, {"%11"}), new=panes)
    assert with_focus == carved(window(120, 40), "%0", [], readable(panes), new=panes)


def test_a_focus_elsewhere_makes_the_first_pane_large() -> None:
    panes = named(6)
    sizes = cells(carved(window(120, 40), "%0", [], readable(panes, {"%99"}), new=panes).tree)
    assert max(sizes, key=lambda pane: sizes[pane][1] if pane != "%0" else 0) == "%10"


def test_agents_are_evened_out_below_their_minimum_when_the_window_became_smaller() -> None:
    panes = named(4)
    tree = carved(window(80, 24), "%0", [], LIMITS, new=panes).tree
    lopsided = carved(window(220, 60), "%0", [], readable(panes), new=panes).tree
    assert cells(carved(tree, "%0", panes, readable(panes)).tree) == cells(tree)
    assert carved(lopsided, "%0", panes, readable(panes)).tree == lopsided


def test_an_agent_gets_the_row_that_it_needs_from_a_master_who_has_more_than_its_share() -> None:
    sizes = cells(carved(window(80, 24), "%0", [], readable(["%10"]), new=["%10"]).tree)
    assert (sizes["%0"][1], sizes["%10"][1]) == (11, 12)
