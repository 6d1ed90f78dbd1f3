"""What a word means among the agents of a project: living before deleted, this window before others."""

import pytest

from orchestrator.team.roster.agent_names import choose, near, shown_names, successor


def row(agent_id, name=None, *, status="idle", run="run-1", at=1):
    return {
        "agent_id": agent_id, "name": name or agent_id, "status": status, "run_id": run,
        "created_at": f"2026-01-01T00:00:{at:02d}.000Z",
    }  # fmt: skip


GONE = row("w01", status="deleted", at=1)
OLDER = row("w01-2", "w01", status="deleted", at=2)
LIVING = row("w01-13", "w01", at=3)


def meant(rows, word, run_id=None):
    choice = choose(rows, word, run_id)
    return None if choice is None else choice.agent_id


def test_a_name_means_the_living_agent_even_if_a_deleted_one_has_it_as_its_id():
    choice = choose([GONE, OLDER, LIVING], "w01")
    assert (choice.agent_id, choice.deleted, choice.hidden, choice.others) == ("w01-13", False, "w01", ())


def test_the_exact_id_of_a_living_agent_comes_before_the_name_of_another():
    rows = [row("w01", at=1), row("w01-2", "w01", at=2, run="run-2")]
    choice = choose(rows, "w01", "run-2")
    assert (choice.agent_id, choice.others) == ("w01", ("w01-2",))
    assert meant(rows, "w01-2", "run-1") == "w01-2"


def test_of_a_name_the_newest_of_this_windows_run_is_meant_else_the_newest():
    rows = [
        row("b-2", "b", run="run-1", at=1),
        row("b-3", "b", run="run-2", at=2),
        row("b-4", "b", run="run-2", at=2),
    ]
    assert [meant(rows, "b", run) for run in ("run-1", "run-2", None, "run-9")] == ["b-2", "b-4", "b-4", "b-4"]
    assert set(choose(rows, "b", "run-1").others) == {"b-3", "b-4"}


@pytest.mark.parametrize("status", ["failed", "stopping"])
def test_who_works_comes_before_who_does_not_and_both_before_the_deleted(status):
    over = row("b-3", "b", status=status, at=3)
    assert meant([row("b-2", "b", at=1), over], "b") == "b-2"
    assert meant([row("b", status="deleted"), over], "b") == "b-3"
    # Whose id was written is meant itself: it may be what shall be restarted.
    assert meant([row("b", status=status), row("b-2", "b", at=2)], "b") == "b"


def test_a_deleted_agent_is_meant_if_nobody_else_is_and_names_its_successor():
    choice = choose([GONE, OLDER], "w01")
    assert (choice.agent_id, choice.deleted, choice.successor) == ("w01-2", True, "")
    assert meant([GONE, OLDER], "id:w01") == "w01"
    assert meant([row("c-2", "c", status="deleted", at=1), row("c-3", "c", status="deleted", at=2)], "c") == "c-3"
    choice = choose([GONE, OLDER, LIVING], "w01-2")
    assert (choice.agent_id, choice.deleted, choice.successor) == ("w01-2", True, "w01-13")


def test_an_exact_id_can_be_written_so_that_no_name_counts():
    assert meant([GONE, LIVING], "id:w01") == "w01"
    assert meant([GONE, LIVING], "id:w01-13") == "w01-13"
    assert meant([row("w01-2", "w01")], "id:w01") is None


def test_a_name_is_also_written_in_ascii_or_in_its_own_letters():
    rows = [row("pruefer", "Prüfer", status="deleted"), row("pruefer-2", "Prüfer", at=2), row("agent", "빌더")]
    assert [meant(rows, word) for word in ("Prüfer", "pruefer", "빌더", "agent")] == [
        "pruefer-2", "pruefer-2", "agent", "agent",
    ]  # fmt: skip
    both = [row("b-2", "Builder", at=2), row("b-3", "builder", at=1)]
    assert [meant(both, word) for word in ("Builder", "builder")] == ["b-2", "b-3"]


@pytest.mark.parametrize("word", ["", "id:", "nobody", "../../etc", "\x1b[2J", "x" * 10_000])
def test_what_nobody_is_called_means_nobody(word):
    assert choose([GONE, LIVING], word) is None
    assert near([GONE, LIVING], word) == []


def test_people_see_the_name_where_it_means_that_agent_alone_and_else_the_id():
    assert shown_names([GONE, OLDER, LIVING]) == {"w01": "id:w01", "w01-2": "w01-2", "w01-13": "w01"}
    two = [row("b-2", "b"), row("b-3", "b"), row("c", "d"), row("d", "e"), row("x", "-rf"), row("y", "a\nb")]
    assert shown_names(two) == {"b-2": "b-2", "b-3": "b-3", "c": "c", "d": "e", "x": "x", "y": "y"}
    for rows in ([GONE, OLDER, LIVING], [GONE, OLDER], two):
        for agent_id, shown in shown_names(rows).items():
            assert meant(rows, shown) == agent_id, "what is shown can be written"


def test_a_wrong_word_gets_the_nearest_living_agents_and_deleted_ones_only_without_those():
    rows = [GONE, LIVING, row("builder"), row("builds", status="deleted")]
    assert near(rows, "wo1") == ["w01-13"]
    assert near(rows, "BUILDR") == ["builder"]
    assert near([GONE, row("unit")], "w02") == ["w01"]


def test_the_successor_of_an_agent_has_its_name_and_works():
    assert successor([GONE, OLDER, LIVING], GONE) == "w01-13"
    assert successor([GONE, row("w01-2", "w01", status="failed")], GONE) == ""
    assert successor([GONE, row("w01-2", "other")], GONE) == ""
