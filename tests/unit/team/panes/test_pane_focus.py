"""Which agent gets the large pane of a window: who needs somebody, and no hopping about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.team.panes.pane_focus import Candidate, chosen


def blocked(pane: str, since: str) -> Candidate:
    return Candidate(pane, needs=True, busy=False, since=since)


def busy(pane: str, since: str) -> Candidate:
    return Candidate(pane, needs=False, busy=True, since=since)


def idle(pane: str, since: str = "") -> Candidate:
    return Candidate(pane, needs=False, busy=False, since=since)


@pytest.mark.parametrize(
    ("current", "candidates", "large"),
    [
        ("", [], ""),
        ("", [idle("%1"), idle("%2")], ""),
        ("%9", [idle("%1"), idle("%2")], ""),
        ("", [idle("%1", "09"), busy("%2", "01"), busy("%3", "02")], "%3"),
        ("", [busy("%1", "09"), blocked("%2", "02"), blocked("%3", "01")], "%3"),
        ("%1", [busy("%1", "01"), busy("%2", "09")], "%1"),
        ("%1", [idle("%1"), busy("%2", "09")], "%1"),
        ("%1", [busy("%1", "09"), blocked("%2", "01")], "%2"),
        ("%1", [blocked("%1", "09"), blocked("%2", "01")], "%1"),
        ("%9", [idle("%1"), busy("%2", "01")], "%2"),
    ],
)
def test_the_pane_that_needs_somebody_longest_is_large(current: str, candidates: list[Candidate], large: str) -> None:
    assert chosen(current, candidates) == large


@given(
    st.lists(
        st.builds(
            Candidate,
            st.sampled_from(["%1", "%2", "%3", "%4"]),
            st.booleans(),
            st.booleans(),
            st.text("019", max_size=2),
        ),
        unique_by=lambda candidate: candidate.pane_id,
    ),
    st.sampled_from(["", "%1", "%2", "%9"]),
)
def test_without_a_change_of_needs_the_choice_stays(candidates: list[Candidate], current: str) -> None:
    large = chosen(current, candidates)
    assert chosen(large, candidates) == large
    assert chosen(large, list(reversed(candidates))) == large
    if any(candidate.needs for candidate in candidates):
        assert next(candidate for candidate in candidates if candidate.pane_id == large).needs
