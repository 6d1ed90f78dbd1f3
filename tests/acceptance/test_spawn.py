"""Spawn runs through the MCP surface over stdio: what the Smart Spawn design promises (B4.1 to B4.43), mode by mode."""

import hashlib
import json
import re
import uuid
from pathlib import Path

import jsonschema
import pytest

from tests.support import spawn_stage
from tests.support.spawn_stage import code_of, create, do, ended, result, run, status, tool
from tests.support.stage import until

TOOLS = [
    "smartspawn_run_create",
    "smartspawn_run_status",
    "smartspawn_run_result",
    "smartspawn_run_cancel",
    "smartspawn_run_list",
    "smartspawn_artifact_get",
    "smartspawn_health",
]
STEPS = "1. Collect the facts about tea.\n2. Write an outline of them.\n3. Write the article."


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


@pytest.fixture
def wire(scene):
    return scene.connect()


def whole(wire, run_id, node_id):
    """An artifact, however many pieces it comes in."""
    text, at = "", 0
    while at is not None:
        answer = tool(wire, "artifact_get", run_id=run_id, node_id=node_id, offset=at)
        text, at = text + answer["content"], answer.get("next_offset")
    return text, answer["metadata"]


def prompts(fake):
    return [call.prompt for call in fake.calls()]


# -- the tools --------------------------------------------------------------------------------------------------


def test_a_connection_of_spawn_runs_offers_the_seven_tools_of_the_design(scene, wire):
    listed = {one["name"]: one for one in wire.ask("tools/list")["result"]["tools"]}
    assert list(listed) == TOOLS
    for one in listed.values():
        jsonschema.Draft202012Validator.check_schema(one["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(one["outputSchema"])
    asked = listed["smartspawn_run_create"]["inputSchema"]
    assert asked["required"] == ["task", "mode"]
    assert {"task", "mode", "budget", "context", "collectiveCount", "role", "merge"} <= asked["properties"].keys()
    assert asked["properties"]["role"]["properties"].keys() == {"persona", "stack", "domain", "format", "guardrails"}
    assert asked["properties"]["merge"]["properties"]["style"]["enum"] == ["concise", "detailed", "decision"]
    assert listed["smartspawn_run_result"]["inputSchema"]["properties"].keys() >= {"run_id", "include_raw", "wait_ms"}


def test_other_connections_are_not_offered_spawn_runs(scene):
    wire = scene.stage.begun(scene.env)
    names = {one["name"] for one in wire.ask("tools/list")["result"]["tools"]}
    assert not names & set(TOOLS)
    templates = wire.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert not [one for one in templates if one["uriTemplate"].startswith("smartspawn:")]


def test_a_run_is_created_at_once_in_the_designs_shape_and_goes_on_by_itself(scene, wire, fake):
    fake.rule(hold="gate")
    answer = tool(wire, "run_create", task="Say it.", mode="single")
    assert answer.keys() == {"run_id", "status", "created_at", "estimated_steps"}
    assert uuid.UUID(answer["run_id"]).version == 4
    assert (answer["status"], answer["estimated_steps"]) == ("queued", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", answer["created_at"])
    until(lambda: fake.waiting("gate"))
    found = status(wire, answer["run_id"])
    assert (found["status"], found["progress"]["running_nodes"]) == ("running", 1)
    wire.close()  # nobody is connected, and the run goes on
    fake.release("gate")
    assert ended(scene.connect(), answer["run_id"])["status"] == "completed"


def test_the_status_of_a_run_has_the_designs_keys_and_says_what_each_node_has_cost(scene, wire, fake):
    found = ended(wire, create(wire, "Say it.", "collective", collectiveCount=2))
    assert {"run_id", "status", "progress", "last_event", "updated_at", "cost", "nodes", "models"} <= found.keys()
    assert {"total_nodes", "done_nodes", "running_nodes", "failed_nodes", "percent"} <= found["progress"].keys()
    assert found["progress"] | {"skipped_nodes": 0} == {
        "total_nodes": 3, "done_nodes": 3, "running_nodes": 0, "failed_nodes": 0, "skipped_nodes": 0, "percent": 100,
    }  # fmt: skip
    assert [one["node_id"] for one in found["nodes"]][-1] == "merged"
    assert all(one["usd"] > 0 and one["cost_source"] == "usage" for one in found["nodes"])
    assert sum(one["usd"] for one in found["nodes"]) == pytest.approx(found["cost"]["usd"])
    assert sum(one["usd"] for one in found["models"]) == pytest.approx(found["cost"]["usd"])
    assert float(fake.charged()) == pytest.approx(found["cost"]["usd"])
    assert found["cost"]["reserved_usd"] == 0
    assert found["cost"]["limit_usd"] == 5


def test_a_status_waits_for_a_change_and_names_the_wave_at_work(scene, wire, fake):
    fake.rule(hold="gate", on="task")
    run_id = create(wire, "Say it.", "collective", collectiveCount=2)
    until(lambda: fake.waiting("gate") == 2)
    found = status(wire, run_id)
    assert (found["current_wave"], found["progress"]["running_nodes"]) == (0, 2)
    waiting = wire.start("smartspawn_run_status", {"run_id": run_id, "wait_ms": 40_000})
    assert wire.answers(waiting) == []
    fake.release("gate")
    later = wire.outcome(wire.answer(waiting))
    assert later["progress"] != found["progress"] or later["last_event"] != found["last_event"]
    assert ended(wire, run_id)["status"] == "completed"


def test_a_result_waits_for_the_end_and_shows_the_merged_answer_first(scene, wire, fake):
    fake.rule(on="merge", answer="Tea it is.\n\n## Dissent\nOne would rather have coffee.")
    found = run(wire, "Tea or coffee?", "collective", collectiveCount=2)
    assert list(found)[:3] == ["run_id", "status", "merged_output"]
    assert found["status"] == "completed"
    assert found["merged_output"].startswith("Tea it is.")
    assert found["dissent"] == "One would rather have coffee."
    assert {"prompt_tokens", "completion_tokens", "usd_estimate"} <= found["cost"].keys()
    assert found["cost"]["usd_estimate"] == pytest.approx(float(fake.charged()))
    assert "raw_outputs" not in found
    kinds = {one["node_id"]: one["type"] for one in found["artifacts"]}
    assert kinds["plan"] == "plan"
    assert {"raw", "merged"} <= set(kinds.values())
    for one in found["artifacts"]:
        assert {"node_id", "path", "model", "status"} <= one.keys()
        assert Path(one["path"]).is_file()


def test_raw_outputs_come_on_request_cut_at_twelve_thousand_characters(scene, wire):
    found = run(wire, do(bytes=30_000))
    found = result(wire, found["run_id"], include_raw=True)
    (raw,) = found["raw_outputs"]
    assert len(raw["output"]) == 12_000
    assert raw["truncated"] is True


def test_every_raw_answer_is_kept_with_its_tokens_and_its_hash(scene, wire, fake):
    found = run(wire, "Say it.", "collective", collectiveCount=2)
    for row in scene.rows("SELECT * FROM artifacts WHERE run_id = ?", found["run_id"]):
        data = (scene.home / row["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (row["bytes"], row["sha256"])
    for call in fake.calls():
        kept = [scene.document(found["run_id"], one["node_id"]) for one in found["artifacts"] if one["type"] == "raw"]
        assert call.model in {one["model"] for one in kept}
    one = scene.document(found["run_id"], found["artifacts"][1]["node_id"])
    assert {"runId", "nodeId", "model", "task", "output", "tokens", "costUsd", "finishedAt"} <= one.keys()
    assert one["tokens"]["total"] == one["tokens"]["prompt"] + one["tokens"]["completion"]


def test_the_database_has_every_table_and_column_of_the_design(scene, wire):
    run(wire)
    design = {
        "runs": "id task mode budget context status created_at updated_at started_at finished_at error params_json",
        "nodes": "id run_id wave depends_on_json task model role_json status started_at finished_at tokens_prompt "
        "tokens_completion cost_usd error kind prompt meta_json retry_count max_retries",
        "events": "id run_id node_id level message ts",
        "artifacts": "id run_id node_id type path bytes sha256 created_at",
    }
    for table, columns in design.items():
        there = {row["name"] for row in scene.rows(f"PRAGMA table_info({table})")}
        assert set(columns.split()) <= there
    assert scene.rows("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    (node,) = scene.rows("SELECT * FROM nodes")
    assert node["id"].startswith(node["run_id"] + ":")
    assert node["cost_usd"] > 0


def test_an_artifact_is_read_by_node_merged_or_plan_and_by_the_original_tools_ids(scene, wire):
    run_id = run(wire, "Say it.", "collective", collectiveCount=2)["run_id"]
    first = status(wire, run_id)["nodes"][0]["node_id"]
    raw = tool(wire, "artifact_get", run_id=run_id, node_id=first)
    assert raw["artifact_type"] == "raw"
    assert {"model", "created_at", "bytes", "sha256"} <= raw["metadata"].keys()
    assert json.loads(raw["content"])["nodeId"] == first
    assert tool(wire, "artifact_get", run_id=run_id, node_id=f"{run_id}:{first}") == raw
    merged = tool(wire, "artifact_get", run_id=run_id, node_id="merged")
    assert merged["artifact_type"] == "merged"
    assert merged["metadata"]["path"].endswith("merged.md")
    plan = tool(wire, "artifact_get", run_id=run_id, node_id="plan")
    assert plan["artifact_type"] == "plan"
    assert json.loads(plan["content"])["planner"] == "local"
    assert code_of(tool(wire, "artifact_get", run_id=run_id, node_id="nobody")) == "unknown_artifact"
    assert code_of(tool(wire, "artifact_get", run_id=run_id, node_id="../../db.sqlite")) == "unknown_artifact"


def test_a_long_artifact_is_read_in_pieces_that_make_up_the_whole(scene, wire):
    found = run(wire, do(bytes=2_000_000))
    assert found["status"] == "completed"
    assert len(found["merged_output"]) < 100_000
    assert found["more"] is True
    text, told = whole(wire, found["run_id"], "merged")
    assert len(text.encode()) == told["bytes"] == 2_000_000
    assert hashlib.sha256(text.encode()).hexdigest() == told["sha256"]


def test_runs_are_listed_newest_first_by_status_and_up_to_a_limit(scene, wire):
    ids = [create(wire, f"Task {at}\nof many lines {'x' * 300}") for at in range(3)]
    for one in ids:
        assert ended(wire, one)["status"] == "completed"
    failed = run(wire, do(status=401))["run_id"]
    found = tool(wire, "run_list")["runs"]
    assert [one["run_id"] for one in found] == [failed, *reversed(ids)]
    assert all({"run_id", "task", "status", "created_at", "updated_at"} <= one.keys() for one in found)
    assert all(len(one["task"]) <= 200 and "\n" not in one["task"] for one in found)
    assert [one["run_id"] for one in tool(wire, "run_list", status="failed")["runs"]] == [failed]
    assert len(tool(wire, "run_list", limit=2)["runs"]) == 2
    assert code_of(tool(wire, "run_list", limit=0)) == "bad_argument"
    assert code_of(tool(wire, "run_list", status="done")) == "bad_argument"


def test_a_running_run_is_canceled_and_what_is_in_flight_is_called_off(scene, wire, fake):
    fake.rule(hang=True)
    run_id = create(wire, "Say it.", "collective")
    until(lambda: fake.waiting("hang") == 3)
    answer = tool(wire, "run_cancel", run_id=run_id)
    assert answer["status"] in {"canceling", "canceled"}
    found = ended(wire, run_id)
    assert found["status"] == "canceled"
    assert {one["status"] for one in found["nodes"]} == {"canceled"}
    until(lambda: len(fake.calls(how="closed")) == 3)
    again = tool(wire, "run_cancel", run_id=run_id)
    assert (code_of(again), again["error"]["status"]) == ("spawn_run_finished", "canceled")


def test_a_queued_run_is_canceled_at_once_and_never_runs(scene, fake):
    wire = scene.connect(MAX_PARALLEL_RUNS="1")
    fake.rule(hold="gate")
    first = create(wire, "The first.")
    until(lambda: fake.waiting("gate"))
    second = create(wire, "The second.")
    assert tool(wire, "run_cancel", run_id=second) == {"status": "canceled"}
    assert status(wire, second)["status"] == "canceled"
    fake.release("gate")
    assert ended(wire, first)["status"] == "completed"
    assert not [one for one in prompts(fake) if "second" in one]


def test_canceling_a_finished_run_is_a_conflict_that_names_its_outcome(scene, wire):
    done = run(wire)["run_id"]
    answer = tool(wire, "run_cancel", run_id=done)
    assert (answer["error"]["kind"], code_of(answer), answer["error"]["status"]) == (
        "Conflict", "spawn_run_finished", "completed",
    )  # fmt: skip
    assert status(wire, done)["status"] == "completed"


def test_health_has_the_five_booleans_and_says_why_one_is_false(scene, wire):
    found = tool(wire, "health")
    five = ["openrouter_configured", "smart_spawn_api_reachable", "db_writable", "artifact_storage_writable"]
    assert {name: found[name] for name in (*five, "worker_alive")} == {
        "openrouter_configured": True, "smart_spawn_api_reachable": False, "db_writable": True,
        "artifact_storage_writable": True, "worker_alive": True,
    }  # fmt: skip
    assert found["planner"] == "local"
    assert "smart_spawn_api_reachable" in found["reasons"]
    reached = tool(scene.connect(**scene.planned(), OPENROUTER_API_KEY=""), "health")
    assert (reached["smart_spawn_api_reachable"], reached["planner"]) == (True, "smart-spawn-api")
    assert reached["openrouter_configured"] is False


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "bad_argument"),
        ({"task": "", "mode": "single"}, "bad_argument"),
        ({"task": "  \n", "mode": "single"}, "bad_argument"),
        ({"task": "x", "mode": "many"}, "bad_argument"),
        ({"task": "x", "mode": "single", "budget": "none"}, "bad_argument"),
        ({"task": "x", "mode": "single", "collectiveCount": "3"}, "bad_argument"),
        ({"task": "x", "mode": "single", "collective_count": 3}, "bad_argument"),
        ({"task": "x", "mode": "single", "merge": {"style": "poem"}}, "bad_argument"),
        ({"task": "x", "mode": "single", "role": {"persona": 7}}, "bad_argument"),
        ({"task": "x", "mode": "single", "role": {"name": "x"}}, "bad_argument"),
        ({"task": "x", "mode": "single", "engine": "claude", "agent": "builder"}, "bad_argument"),
        ({"task": "x", "mode": "single", "engine": " , "}, "bad_argument"),
        ({"task": "x", "mode": "single", "engine": "no-such-engine"}, "unknown_engine"),
        ({"task": "x", "mode": "single", "agent": "nobody"}, "unknown_agent"),
        ({"task": "x" * 300_000, "mode": "single"}, "prompt_too_large"),
    ],
)
def test_a_bad_call_gets_a_coded_error_and_no_run(scene, wire, arguments, code):
    assert code_of(tool(wire, "run_create", **arguments)) == code
    assert tool(wire, "run_list")["runs"] == []


@pytest.mark.parametrize("name", ["run_status", "run_result", "run_cancel", "artifact_get"])
def test_an_unknown_run_is_told_by_its_code(wire, name):
    more = {"node_id": "merged"} if name == "artifact_get" else {}
    for run_id in ("nobody", "../../etc", "x" * 128):
        assert code_of(tool(wire, name, run_id=run_id, **more)) == "unknown_spawn_run"


# -- the modes --------------------------------------------------------------------------------------------------


def test_single_asks_one_model_once_and_its_answer_is_the_merged_one(scene, wire, fake):
    found = run(wire, do(answer="It is true."))
    assert (found["status"], found["merged_output"]) == ("completed", "It is true.")
    assert len(fake.calls()) == 1
    rows = status(wire, found["run_id"])["nodes"]
    assert [one["kind"] for one in rows] == ["task"]
    merged = tool(wire, "artifact_get", run_id=found["run_id"], node_id="merged")
    assert merged["content"] == "It is true."
    assert scene.file(found["run_id"], "merged.md").read_text() == "It is true."


@pytest.mark.parametrize(("asked", "asked_of"), [(None, 3), (1, 2), (2, 2), (5, 5), (50, 5)])
def test_collective_asks_two_to_five_models_at_once_and_merges(scene, fake, asked, asked_of):
    wire = scene.connect(MAX_PARALLEL_NODES_PER_RUN="8")
    fake.rule(hold="gate", on="task")
    more = {} if asked is None else {"collectiveCount": asked}
    answer = tool(wire, "run_create", task="Say it.", mode="collective", **more)
    assert answer["estimated_steps"] == asked_of + 1
    until(lambda: fake.waiting("gate") == asked_of)
    fake.release("gate")
    assert result(wire, answer["run_id"])["status"] == "completed"
    merges = [call for call in fake.calls() if call.merges]
    assert (len(merges), len(fake.calls())) == (1, asked_of + 1)
    peers = [call.model for call in fake.calls() if not call.merges]
    assert len(set(peers)) == len(peers)


def test_collective_goes_on_while_one_answer_remains_and_says_who_failed(scene, wire, fake):
    ids = {}

    def first_models():
        plan = tool(wire, "artifact_get", run_id=ids["run"], node_id="plan")
        return [one["model"] for one in json.loads(plan["content"])["nodes"]]

    fake.rule(hold="gate", on="task")
    ids["run"] = create(wire, "Say it.", "collective", collectiveCount=3)
    until(lambda: fake.waiting("gate") == 3)
    models = first_models()
    for model in models[:2]:
        fake.rules.insert(0, {"model": model, "status": 403})
    fake.release("gate")
    found = result(wire, ids["run"])
    # those that wait at the gate have chosen their rule already: a second run meets the new ones
    found = run(wire, "Say it again.", "collective", collectiveCount=3)
    assert found["status"] == "completed"
    rows = status(wire, found["run_id"])["nodes"]
    assert [one["status"] for one in rows].count("failed") == 2
    assert "without" in found["summary"]
    assert "403" in next(one["error"] for one in rows if one["status"] == "failed")


def test_collective_without_any_answer_fails_and_says_which_node_and_why(scene, wire):
    found = run(wire, do(status=403, message="not you"), "collective")
    assert (found["status"], found["merged_output"]) == ("failed", "")
    assert "403" in found["failure"]
    assert "not you" in found["failure"]
    assert "next:" in found["failure"]


def test_cascade_is_content_with_a_good_cheap_answer_and_pays_nobody_else(scene, wire, fake):
    found = run(wire, "Explain tea.", "cascade")
    assert found["status"] == "completed"
    assert len(fake.calls()) == 1
    rows = status(wire, found["run_id"])
    assert [one["status"] for one in rows["nodes"]] == ["completed", "skipped", "skipped"]
    assert "gate" in found["summary"]


@pytest.mark.parametrize(
    "cheap", [{"answer": "No."}, {"answer": "I'm sorry, but as an AI I cannot help with that. " * 20},
              {"finish": "length"}],
)  # fmt: skip
def test_cascade_asks_the_premium_model_when_the_cheap_answer_does_not_pass(scene, wire, fake, cheap):
    fake.rule(per="all", times=1, **cheap)
    found = run(wire, "Explain in detail how tea is grown, dried and sold.", "cascade")
    assert found["status"] == "completed"
    assert [call.merges for call in fake.calls()] == [False, False, True]
    first, second, _ = fake.calls()
    assert first.model != second.model
    rows = status(wire, found["run_id"])["nodes"]
    assert {one["status"] for one in rows} == {"completed"}


def test_cascade_falls_back_on_the_other_answer_when_one_model_fails(scene, wire, fake):
    fake.rule(per="all", times=1, status=403)
    found = run(wire, "Explain tea.", "cascade")
    assert found["status"] == "completed"
    assert "premium" in found["summary"]
    assert len(fake.calls()) == 2
    fake.forget()
    fake.rule(per="all", times=1, answer="No.")
    fake.rule(per="all", times=1, status=403)
    found = run(wire, "Explain coffee.", "cascade")
    assert (found["status"], found["merged_output"]) == ("completed", "No.")
    assert "did not pass" in found["summary"]


@pytest.mark.parametrize(("said", "calls"), [("PASS, it is sound", 2), ("FAIL: too thin", 4), ("Perhaps.", 2)])
def test_cascades_evaluator_has_the_second_word(scene, fake, said, calls):
    wire = scene.connect(CASCADE_EVALUATOR_MODEL="openai/gpt-4o-mini")
    fake.rule(match="PASS", on="task", answer=said)
    found = run(wire, "Explain tea.", "cascade")
    assert found["status"] == "completed"
    assert len(fake.calls()) == calls


def test_plan_runs_its_steps_one_by_one_each_with_the_answers_before_it(scene, wire, fake):
    answer = tool(wire, "run_create", task=STEPS, mode="plan")
    assert answer["estimated_steps"] == 4
    found = result(wire, answer["run_id"])
    assert found["status"] == "completed"
    assert fake.busiest == 1
    first, second, third, merge = fake.calls()
    assert first.digest in second.prompt
    assert second.digest in third.prompt
    assert merge.merges
    rows = status(wire, answer["run_id"])["nodes"]
    assert [one["wave"] for one in rows] == [0, 1, 2, 3]


def test_swarm_runs_what_it_can_at_once_and_waits_for_what_it_must(scene, fake):
    wire = scene.connect(MAX_PARALLEL_NODES_PER_RUN="8")
    fake.rule(hold="gate", on="task")
    task = "1. Research tea\n2. Research coffee\n3. Write the documentation of both"
    run_id = create(wire, task, "swarm")
    until(lambda: fake.waiting("gate") >= 1)
    plan = json.loads(tool(wire, "artifact_get", run_id=run_id, node_id="plan")["content"])
    first = [one["id"] for one in plan["nodes"] if one["wave"] == 0]
    until(lambda: fake.waiting("gate") == len(first))
    assert len({one["wave"] for one in plan["nodes"]}) > 1
    fake.release("gate")
    assert result(wire, run_id)["status"] == "completed"


def test_a_task_that_cannot_be_split_is_one_node_and_that_is_said(scene, wire, fake):
    for mode in ("plan", "swarm"):
        answer = tool(wire, "run_create", task="Say it.", mode=mode)
        assert answer["estimated_steps"] == 1
        found = result(wire, answer["run_id"])
        assert found["status"] == "completed"
        plan = json.loads(tool(wire, "artifact_get", run_id=answer["run_id"], node_id="plan")["content"])
        assert len(plan["nodes"]) == 1
        assert plan["notes"]


@pytest.mark.parametrize("mode", ["plan", "swarm"])
def test_a_failed_node_fails_those_behind_it_at_once_and_the_run_is_not_called_completed(scene, wire, fake, mode):
    fake.rule(match="Collect the facts", skip=0, times=1, status=403, per="all")
    task = "1. Collect the facts\n2. Then design it with the facts\n3. Then implement the design"
    found = run(wire, task, mode)
    assert found["status"] == "failed"
    rows = status(wire, found["run_id"])["nodes"]
    assert rows[0]["status"] == "failed"
    behind = [one for one in rows if one["node_id"] != rows[0]["node_id"] and one["needs"]]
    assert all(one["status"] == "failed" and one["error"].startswith("upstream failed") for one in behind)
    assert not [call for call in fake.calls() if call.merges]


def test_answers_are_merged_in_the_style_and_by_the_model_that_was_asked_for(scene, wire, fake):
    asked = []
    for style in ("concise", "detailed", "decision"):
        run(wire, "Say it.", "collective", merge={"style": style, "model": "openai/gpt-4o"})
        *peers, merge = fake.calls()[-4:]
        assert (merge.merges, merge.model) == (True, "openai/gpt-4o")
        assert all(call.digest in merge.prompt for call in peers)
        asked.append(merge.prompt)
    assert len(set(asked)) == 3
    run(wire, "Say it.", "collective", merge={"model": "openai/gpt-4o"})
    assert fake.calls()[-1].prompt == asked[1]  # detailed is what a collective is merged in by itself


def test_a_merge_that_is_silent_on_disagreement_gets_a_note_of_that(scene, wire, fake):
    fake.rule(on="merge", answer="Tea it is.")
    found = run(wire, "Tea or coffee?", "collective")
    assert found["merged_output"].startswith("Tea it is.")
    assert "issent" in found["merged_output"]


def test_a_role_of_the_project_or_words_of_the_caller_reach_every_node(scene, wire, fake):
    folder = scene.stage.root / ".agents" / "roles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tea-taster.md").write_text("You taste tea for a living.\n")
    run(wire, "Say it.", role={"persona": "tea-taster"})
    assert "You taste tea for a living." in fake.calls()[-1].system
    run(wire, "Say it.", role={"persona": "an old sailor", "stack": ["rope"], "guardrails": ["never swear"]})
    said = fake.calls()[-1].system
    assert all(word in said for word in ("an old sailor", "rope", "never swear"))


def test_context_reaches_every_node(scene, wire, fake):
    run(wire, "Say it.", "collective", context="The year is 1900.")
    assert all("The year is 1900." in call.prompt for call in fake.calls() if not call.merges)


# -- the planner ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["single", "collective", "cascade", "plan", "swarm"])
def test_every_mode_is_planned_by_the_smart_spawn_api_and_without_it(scene, fake, mode):
    for env, source in (
        (scene.planned(), "smart-spawn-api"),
        ({"SMART_SPAWN_API_URL": "http://127.0.0.1:9"}, "local"),
    ):
        wire = scene.connect(**env)
        found = run(wire, STEPS, mode)
        assert (found["status"], found["planner"]) == ("completed", source)
        plan = json.loads(tool(wire, "artifact_get", run_id=found["run_id"], node_id="plan")["content"])
        assert plan["planner"] == source
    assert all("authorization" not in call.headers for call in fake.calls("/api/*"))
    assert all(len(call.query.get("task", "")) <= 200 for call in fake.calls("/api/*"))


@pytest.mark.parametrize("dag", ["cycle", "self", "unknown", "ids", "duplicates", "many", "empty", "types"])
def test_a_malformed_plan_of_the_api_is_mended_or_replaced_and_that_is_said(scene, fake, dag):
    wire = scene.connect(**scene.planned(), MAX_PARALLEL_NODES_PER_RUN="20")
    fake.rule(path="/api/swarm", dag=dag)
    found = run(wire, STEPS, "swarm")
    assert found["status"] == "completed"
    plan = json.loads(whole(wire, found["run_id"], "plan")[0])
    assert plan["notes"] or dag == "many"
    assert len(plan["nodes"]) == 201 or dag != "many"
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", one["id"]) for one in plan["nodes"])
    inside = scene.file(found["run_id"])
    assert {path.parent for path in scene.home.rglob("*.json") if "artifacts" in path.parts} == {inside}
