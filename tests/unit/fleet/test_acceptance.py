"""What a host takes from other hosts: each row is one post against one `[fleet.accept]`."""

import pytest

from orchestrator.config.fleet_values import FleetAcceptance
from orchestrator.fleet.acceptance import refused

BODY = {"name": "w", "role": "builder", "engine": "shell", "policies": {}}
NOBODY = FleetAcceptance()
BOX = FleetAcceptance(hosts=["box"])
NARROW = FleetAcceptance(hosts=["box"], engines=["shell", "command"], roles=["builder"], commands={"build": "make"})
STARTING = ("create", "task", "restart")


def taken(accept, by_host="box", kind="create", **changed):
    return refused(accept, "here", by_host, kind, {**BODY, **changed}) == ""


@pytest.mark.parametrize("kind", STARTING)
@pytest.mark.parametrize(
    ("hosts", "by_host", "good"),
    [
        ([], "box", False), (["box"], "box", True), (["box"], "bo", False), (["box"], "boxer", False),
        (["a", "box"], "box", True), (["*"], "box", True), (["box"], "", False), (["*"], "", False),
        ([], "here", True), (["box"], "here", True),
    ],
)  # fmt: skip
def test_only_hosts_that_are_named_may_start_something_and_this_one_always_may(kind, hosts, by_host, good):
    assert taken(FleetAcceptance(hosts=hosts), by_host, kind) is good


@pytest.mark.parametrize("kind", ["cancel", "stop"])
@pytest.mark.parametrize("by_host", ["box", "other", "here"])
def test_what_ends_work_is_taken_from_everybody(kind, by_host):
    assert taken(NARROW, by_host, kind, engine="claude", role="r", approval="all")
    assert taken(NOBODY, by_host, kind, engine="command", command_name="unknown")


@pytest.mark.parametrize("kind", STARTING)
@pytest.mark.parametrize(
    ("engine", "good"), [("shell", True), ("claude", False), ("", False), (None, False), (["shell"], False)]
)
def test_only_engines_that_are_named(kind, engine, good):
    assert taken(NARROW, kind=kind, engine=engine) is good
    assert taken(BOX, kind=kind, engine=engine) is (engine in ("shell", "claude"))
    assert taken(NARROW, "here", kind, engine=engine)


@pytest.mark.parametrize("kind", STARTING)
@pytest.mark.parametrize(
    ("role", "good"), [("builder", True), ("other", False), ("", False), (None, False), (7, False)]
)
def test_only_roles_that_are_named(kind, role, good):
    assert taken(NARROW, kind=kind, role=role) is good
    assert taken(BOX, kind=kind, role=role) is (role in ("builder", "other"))
    assert taken(NARROW, "here", kind, role=role)


@pytest.mark.parametrize("kind", STARTING)
@pytest.mark.parametrize("most", ["ask", "edits", "all"])
@pytest.mark.parametrize("asked", [None, "", "ask", "edits", "all", "everything", ["all"]])
def test_no_more_approval_than_is_accepted(kind, most, asked):
    under = {"ask": (None, "", "ask"), "edits": (None, "", "ask", "edits"), "all": (None, "", "ask", "edits", "all")}
    accept = FleetAcceptance(hosts=["box"], approval=most)
    assert taken(accept, kind=kind, approval=asked) is (asked in under[most])
    assert taken(accept, "here", kind, approval=asked)


@pytest.mark.parametrize("by_host", ["box", "here"])
@pytest.mark.parametrize("kind", STARTING)
@pytest.mark.parametrize(
    ("names", "good"),
    [
        ({"command_name": "build"}, True),
        ({"command_name": "make"}, False),
        ({"command_name": ["build"]}, False),
        ({"command_name": ""}, False),
        ({}, False),
        ({"fleet": {"command_name": "build"}}, True),
        ({"fleet": {"command_name": "make"}}, False),
        ({"fleet": {}}, False),
        ({"fleet": "build"}, False),
        ({"command_name": "build", "fleet": {"command_name": "make"}}, False),
        ({"command_name": "make", "fleet": {"command_name": "build"}}, False),
    ],
)
def test_the_engine_command_runs_only_what_this_host_defines_also_for_itself(by_host, kind, names, good):
    assert taken(NARROW, by_host, kind, engine="command", **names) is good


def test_the_name_of_a_command_means_nothing_for_another_engine():
    assert taken(NARROW, engine="shell", command_name="unknown")


def test_by_default_nothing_is_taken_and_every_refusal_is_one_sentence():
    assert (NOBODY.hosts, NOBODY.approval, dict(NOBODY.commands)) == ([], "ask", {})
    for accept, changed in (
        (NOBODY, {}),
        (NARROW, {"engine": "x"}),
        (NARROW, {"role": "x\n\x1b[2J"}),
        (BOX, {"approval": "all"}),
    ):
        sentence = refused(accept, "here", "box", "create", {**BODY, **changed})
        assert sentence and sentence.isprintable()
