"""A team of one agent of each real CLI: led by a real Gemini CLI; agents that ask the project, and that misbehave."""

from __future__ import annotations

import os
import signal
import time

import pytest

from orchestrator.base.toolsets import GSD_TOOLS
from tests.acceptance.test_ac2_queue import overlaps
from tests.acceptance.test_gsd import SHOP
from tests.e2e.conftest import scripted_models, worlds_of
from tests.e2e.models.turn import KINDS
from tests.e2e.world import START_S
from tests.support.gsd_trees import write
from tests.support.stage import TERMINAL, alive, lines_of, until

BOUND_S = 600.0
"""Four CLIs on a loaded machine, and one of them may need all the tries of a wake by paste."""

FAULTS = (
    "forget_ack", "forget_terminal", "terminal_twice", "end_turn", "plain_text", "unknown_tool", "wrong_agent_id",
    "wrong_task_id", "amnesia", "parallel", "double_wait",
)  # fmt: skip


def ends_of(records, task_id):
    """The terminal events of a task."""
    return [one for one in records if one.get("task_id") == task_id and one["type"] in TERMINAL]


def lead(seen, tasks):
    """What the master's model does: make the team, give ``tasks`` tasks to each, cancel one, wait for all, end them."""
    team = [{"name": kind, "role": "tester", "engine": kind} for kind in KINDS]
    made = yield "agents_create", {"agents": team, "ready_wait_ms": 110_000}
    seen["made"] = made
    for one in made["agents"]:
        while "error" not in one and not one["ready"]:
            meta = (yield "agent_get", {"agent_id": one["agent_id"], "wait_ms": 45_000})["meta"]
            one["ready"] = meta["status"] != "starting"
            if meta["status"] == "failed":
                one["error"] = meta
    if [one for one in made["agents"] if "error" in one]:
        return f"The team has done its work: {made}"
    seen["layout"] = seen["look"]()
    held = {"task_id": "held", "payload": {"hold": "never"}}
    yield [("task_enqueue", {"agent_id": kind, "task": held}) for kind in KINDS]
    for number in range(tasks):
        task = {"task_id": f"t{number}", "payload": {"say": f"word {number}", "progress": number % 2}}
        yield [("task_enqueue", {"agent_id": kind, "task": task}) for kind in KINDS]
    seen["canceled"] = yield [("task_cancel", {"agent_id": kind, "task_id": "held"}) for kind in KINDS]
    ended, seq = 0, 0
    while ended < len(KINDS) * (tasks + 1):
        page = yield "broadcast_read", {"since_seq": seq, "wait_ms": 45_000}
        seq = page["last_seq"]
        ended += sum(event["type"] in TERMINAL for event in page["events"])
    seen["listed"] = yield "agent_list", {}
    for kind in KINDS:
        seen[f"deleted {kind}"] = yield "agent_delete", {"agent_id": kind}
    return "The team has done its work."


@pytest.mark.parametrize("tasks", [5, pytest.param(10, marks=pytest.mark.slow)], ids=["twenty", "forty"])
def test_a_team_of_all_four_does_its_tasks_for_a_real_master_and_leaves_no_trace(make_world, tasks):
    world = make_world(config="ready_timeout_s = 240\n")
    before = {kind: world.snapshot(kind) for kind in KINDS}
    done = world.orchestrator("setup", "gemini")
    assert done.returncode == 0, done.stderr
    registered = world.snapshot("gemini")
    master = world.start("gemini", "--approval-mode", "yolo")
    window = master.show("#{window_id}")

    def look():
        form = "#{pane_id} #{window_id} #{@orchestrator_agent}"
        return [line.split(" ") for line in world.server.run("list-panes", "-a", "-F", form).split("\n")]

    seen = {"look": look}
    world.models.brain.script("lead", lambda: lead(seen, tasks))
    master.say("MASTER SCRIPT lead")
    master.shows("The team has done its work", BOUND_S)
    assert [one.get("error") for one in seen["made"]["agents"]] == [None] * len(KINDS), seen["made"]
    # AC1: one pane of the master's own window per agent, and none left in the end
    panes = {agent: (pane, where) for pane, where, agent in seen["layout"] if agent}
    assert set(panes) == set(KINDS) and {where for _, where in panes.values()} == {window}
    assert [pane for pane, *_ in look()] == [master.id]
    # AC2, AC3: as many results as tasks, in order, one at a time, exactly one end each
    for kind in KINDS:
        records = world.stage.records(kind)
        ends = [one for one in records if one["type"] in TERMINAL]
        assert [one["task_id"] for one in ends if one["task_id"] != "held"] == [f"t{n}" for n in range(tasks)], kind
        assert [one["payload"] for one in ends if one["task_id"] == "t3"] == [{"said": "word 3"}], kind
        assert overlaps(records) == [], kind
        assert sum(one["type"] == "ready" for one in records) == 1
        assert all(one["attempt"] == 1 for one in ends)
        # AC4: the one that held was canceled softly, by the agent itself or before it got it
        assert [one["type"] for one in ends_of(records, "held")] == ["canceled"], kind
        assert seen[f"deleted {kind}"]["status"] == "deleted"
    assert {row["status"] for row in seen["listed"]["agents"]} <= {"idle", "parked", "busy"}
    # A role without toolsets gives its agents their own two tools only.
    shown = [tool.name for kind in KINDS for one in world.models.select(kind) for tool in one.turn.tools]
    assert [name for name in shown if "gsd_" in name] == []
    # Nobody's own files have changed, but for what setup wrote.
    assert world.snapshot("gemini") == registered
    changed = {kind for kind in KINDS if kind != "gemini" and world.snapshot(kind) != before[kind]}
    assert changed == set()


@pytest.fixture(scope="module")
def team(own_world):
    """One agent of each CLI, led by a plain MCP client, for all tests below, which leave them without work.

    Their role gives them the gsd tools, and their project is one of GSD with an index. The last test kills them: it must stay the last.
    """
    with scripted_models() as models, worlds_of(own_world, models) as make_world:
        yield begin(
            make_world(config="redeliver_after_s = 0.5\npark_after = 1\nwait_cap_ms = 15000\nready_timeout_s = 240\n")
        )


def begin(world):
    """Make the team, and wait until each of them is ready."""
    write(world.root, SHOP)
    done = world.orchestrator("gsd", "index")
    assert done.returncode == 0, done.stderr
    boss = world.stage.begun()
    team = [{"name": kind, "role": "gsd-executor", "engine": kind} for kind in KINDS]
    made = boss.tool("agents_create", {"agents": team, "ready_wait_ms": 0})
    assert [one.get("error") for one in made["agents"]] == [None] * len(KINDS)
    world.boss = boss
    until(lambda: all("ready" in world.stage.types(kind) for kind in KINDS), START_S)
    return world


def give(world, kind, task_id, payload):
    """Queue a task."""
    task = {"task_id": task_id, "payload": payload}
    answer = world.boss.tool("task_enqueue", {"agent_id": kind, "task": task})
    assert "error" not in answer, answer


def outcomes(world, task_id, kinds=KINDS, bound_s=BOUND_S):
    """Wait until the task has ended at each; its terminal events by CLI. Fails with what the panes show."""

    def ended():
        return all(ends_of(world.stage.records(kind), task_id) for kind in kinds)

    try:
        until(ended, bound_s)
    except AssertionError:
        late = [kind for kind in kinds if not ends_of(world.stage.records(kind), task_id)]
        panes = {agent: pane for pane, agent in world.stage.tagged().items()}
        screens = [world.server.run("capture-pane", "-p", "-t", panes[kind]) for kind in late]
        tails = [[(r["type"], r.get("task_id")) for r in world.stage.records(kind)][-6:] for kind in late]
        metas = [world.boss.tool("agent_get", {"agent_id": kind})["meta"]["reason"] for kind in late]
        report = "\n".join(map(str, [*zip(late, tails, metas, strict=True), *screens]))
        raise AssertionError(f"{task_id} has not ended at {late}:\n{report}") from None
    return {kind: ends_of(world.stage.records(kind), task_id) for kind in kinds}


ASKED = {
    "gsd_blast_radius": {"file": "src/db.ts", "change_type": "signature_change"},
    "gsd_query_intel": {"query": "users", "include_blast_radius": True, "include_exports": True, "max_results": 3},
    "gsd_pre_edit_check": {"file": "src/db.ts"},
    "gsd_phase_relevant_files": {"phase_goal": "Users log in"},
    "gsd_codebase_patterns": {"query": "log in"},
    "gsd_similar_past_work": {"current_goal": "Users log in", "include_summaries": True},
    "gsd_verify_behavior": {"must_have": "Users log in"},
    "gsd_verify_artifact": {"must_exist": "src/db.ts", "check_type": "file"},
    "gsd_requirement_status": {"requirement_id": "AUTH-02"},
    "gsd_untraceable_requirements": {},
    "gsd_phase_status": {},
    "gsd_get_conventions": {},
}
"""A question of each of the twelve tools."""


@pytest.fixture(scope="module")
def asked(team):
    """What each CLI's agent tells of the answers to all twelve, and to one about a phase that is not there."""
    calls = [{"name": name, "arguments": given} for name, given in ASKED.items()]
    calls.append({"name": "gsd_phase_status", "arguments": {"phase": "99"}})
    for kind in KINDS:
        give(team, kind, "ask", {"calls": calls, "tell": True})
    return outcomes(team, "ask")


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_of_a_role_with_gsd_asks_the_project_by_its_own_cli(team, asked, kind):
    first = team.models.select(kind)[0]
    ours = [tool for tool in first.turn.tools if "orchestrator" in f"{tool.namespace}{tool.name}"]
    assert len(ours) == 2 + len(GSD_TOOLS)
    assert all(first.turn.tool(name) in ours for name in (*GSD_TOOLS, "wait_for_command", "emit_event"))
    assert all(name in first.turn.system for name in GSD_TOOLS)
    # Every answer has come through the CLI as the server gave it, without a question to anybody.
    (end,) = asked[kind]
    assert end["type"] == "result", end
    *told, lost = end["payload"]["told"]
    answers = dict(zip(ASKED, told, strict=True))
    assert {name: one for name, one in answers.items() if one.get("project_root") != str(team.root)} == {}
    assert [one["path"] for one in answers["gsd_blast_radius"]["details"]["directDependents"]] == ["src/api/auth.ts"]
    assert answers["gsd_requirement_status"]["status"] == "pending"
    assert lost["error"]["code"] == "unknown_phase"
    assert "blocked" not in team.stage.types(kind)


@pytest.mark.parametrize("everywhere", [pytest.param(True, marks=pytest.mark.slow), False])
def test_every_misbehaviour_of_a_model_ends_in_the_designed_outcome(team, everywhere):
    """Each at two of the CLIs, in turn, or ``everywhere``."""
    wrong = []
    for number, fault in enumerate(FAULTS):
        kinds = KINDS if everywhere else (KINDS[number % 4], KINDS[(number + 1) % 4])
        task_id = f"{fault}-everywhere" if everywhere else fault
        for kind in kinds:
            give(team, kind, task_id, {"say": fault, "misbehave": fault})
            give(team, kind, f"after-{task_id}", {"say": "after"})
        for task in (task_id, f"after-{task_id}"):
            for kind, ends in outcomes(team, task, kinds).items():
                if [one["type"] for one in ends] != ["result"] or ends[0]["payload"] not in (
                    {"said": fault},
                    {"said": "after"},
                ):
                    wrong.append((fault, task, kind, ends))
        for kind in kinds:
            records = team.stage.records(kind)
            again = [
                r for r in records if r["type"] == "delivered" and r["task_id"] == task_id and r.get("redelivered")
            ]
            if (fault == "forget_terminal") and not again:
                wrong.append((fault, "was not handed out once more", kind, records[-8:]))
            if overlaps(records):
                wrong.append((fault, "tasks overlap", kind, overlaps(records)))
    assert wrong == []
    assert not (team.root / ".agents/agents/not-claude").exists()


def test_a_model_that_never_ends_its_task_is_blocked_and_said_so(team):
    for kind in KINDS:
        give(team, kind, "endless", {"say": "x", "misbehave": "never_terminal"})

    def statuses():
        rows = team.boss.tool("agent_list", {"scope": "all"})["agents"]
        return {row["agent_id"]: (row["status"], row["reason"]) for row in rows}

    def all_blocked():
        found = statuses()
        return found if all(status == "blocked" for status, _ in found.values()) else None

    found = until(all_blocked, BOUND_S)
    assert all("terminal" in reason or "report" in reason for _, reason in found.values()), found
    for kind in KINDS:
        assert "blocked" in team.stage.types(kind)

    def told():
        return {event["agent_id"] for event in broadcast(team) if event["type"] == "blocked"}

    until(lambda: told() == set(KINDS), BOUND_S)  # the broadcast is written behind the outbox
    for kind in KINDS:
        team.boss.tool("task_cancel", {"agent_id": kind, "task_id": "endless"})
    ends = outcomes(team, "endless")
    assert {kind: [one["type"] for one in found] for kind, found in ends.items()} == {k: ["canceled"] for k in KINDS}


def test_the_daemon_killed_while_all_four_wait_and_while_they_are_parked_loses_nothing(team):
    def waiting():
        return {row["status"] for row in team.boss.tool("agent_list", {"scope": "all"})["agents"]} <= {
            "idle",
            "parked",
        }

    until(waiting, BOUND_S)
    first = team.stage.kill_daemon()
    for kind in KINDS:
        give(team, kind, "one", {"say": "one"})
    assert {kind: [e["type"] for e in ends] for kind, ends in outcomes(team, "one").items()} == {
        kind: ["result"] for kind in KINDS
    }
    until(lambda: {row["status"] for row in rows(team)} == {"parked"}, BOUND_S)
    began = time.monotonic()
    assert team.stage.kill_daemon() != first
    until(lambda: team.stage.daemon() is not None)
    until(lambda: {row["status"] for row in rows(team)} == {"parked"}, BOUND_S)
    assert team.models.count(since=began) == 0, "a killed daemon costs no model turn"
    for kind in KINDS:
        give(team, kind, "two", {"say": "two"})
    outcomes(team, "two")
    for kind in KINDS:
        assert overlaps(team.stage.records(kind)) == []
        assert team.stage.types(kind).count("exited") == 0


def broadcast(world):
    """Every record of the team's broadcast."""
    [log] = (world.root / ".agents/run").glob("*/broadcast.jsonl")
    return lines_of(log)


def rows(world):
    """The rows of agent_list."""
    return world.boss.tool("agent_list", {"scope": "all"})["agents"]


def test_escape_during_a_wait_hands_the_pane_to_the_human_and_the_work_still_arrives(team):
    until(lambda: {row["status"] for row in rows(team)} <= {"idle", "parked"}, BOUND_S)
    panes = {agent: pane for pane, agent in team.stage.tagged().items()}
    for kind in KINDS:
        team.server.run("send-keys", "-t", panes[kind], "Escape")
    for kind in KINDS:
        give(team, kind, "after-escape", {"say": "after-escape"})
    ends = outcomes(team, "after-escape")
    assert {kind: [one["type"] for one in found] for kind, found in ends.items()} == {k: ["result"] for k in KINDS}


def test_a_cli_killed_in_the_middle_of_a_task_comes_back_with_its_session_and_ends_it(team):
    for kind in KINDS:
        give(team, kind, "long", {"hold": "gate", "say": "done"})

    def working(kind):
        return any(one["type"] == "ack" and one["task_id"] == "long" for one in team.stage.records(kind))

    until(lambda: all(working(kind) for kind in KINDS), BOUND_S)
    pids = {kind: team.boss.tool("agent_get", {"agent_id": kind})["meta"]["pid"] for kind in KINDS}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids.values()))
    team.models.brain.open("gate")
    ends = outcomes(team, "long")
    for kind in KINDS:
        types = team.stage.types(kind)
        assert (types.count("exited"), types.count("restarted"), types.count("requeued")) == (1, 1, 1), kind
        assert [(one["type"], one["attempt"], one["epoch"]) for one in ends[kind]] == [("result", 2, 2)], kind
        ready = [one for one in team.stage.records(kind) if one["type"] == "ready"]
        restarted = next(one for one in team.stage.records(kind) if one["type"] == "restarted")
        assert ready[0]["session"] and restarted["resume"] == ready[0]["session"], kind
        # The model remembers: its conversation of the new life holds the task it was given in the first.
        last = [request.turn for request in team.models.select(kind)][-1]
        assert any("attempt" in r.text for m in last.messages for r in m.results), kind
