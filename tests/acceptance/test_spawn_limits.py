"""Spawn runs through the MCP surface: retries, limits, money, keys and what never leaves (B4.28 to B4.43, C34 to C40)."""

import json
import os
from decimal import Decimal

import pytest

from tests.support import spawn_stage
from tests.support.spawn_stage import KEY, code_of, create, do, ended, node, result, run, status, tool
from tests.support.stage import until


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


@pytest.fixture
def wire(scene):
    return scene.connect()


def events(wire, run_id, query=""):
    answer = wire.ask("resources/read", {"uri": f"smartspawn://run/{run_id}/events{query}"})
    (content,) = answer["result"]["contents"]
    return [json.loads(line) for line in content["text"].splitlines()]


# -- retries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 408}, {"status": 429}, {"status": 500}, {"status": 502}, {"status": 503},
        {"status": 402, "retry_after": 0}, {"error": 502, "where": "body"}, {"error": 429, "where": "choice"},
        {"error": 502, "where": "event"}, {"drop": True}, {"drop": True, "at": "mid"}, {"answer": ""},
        {"content": None}, {"nonsense": "cut"},
    ],
    ids=lambda fault: "-".join(f"{key}={value}" for key, value in fault.items()),
)  # fmt: skip
def test_what_can_pass_is_tried_again_after_a_pause_that_is_shown(scene, wire, fake, fault):
    fake.rule(times=1, per="all", **fault)
    run_id = create(wire)
    found = ended(wire, run_id)
    assert found["status"] == "completed"
    assert len(fake.calls()) == 2
    assert node(found, found["nodes"][0]["node_id"])["attempts"] == 2
    assert [one for one in events(wire, run_id) if "again in" in one["message"]]


@pytest.mark.parametrize("fault", [400, 401, 402, 403, 404])
def test_what_cannot_pass_is_not_tried_again_and_the_error_says_what_to_do(scene, wire, fake, fault):
    found = run(wire, do(status=fault, message="because"))
    assert found["status"] == "failed"
    assert len(fake.calls()) == 1
    assert all(word in found["failure"] for word in (str(fault), "because", "next:", fake.calls()[0].model))


@pytest.mark.parametrize("status_code", [403, 503])
def test_a_failure_names_its_node_and_model_its_attempts_and_the_next_step(scene, wire, fake, status_code):
    found = run(wire, do(status=status_code))
    (row,) = status(wire, found["run_id"])["nodes"]
    attempts = f"attempt {1 if status_code == 403 else 3} of 3"
    failure = found["failure"].removeprefix(row["node_id"])
    assert failure != found["failure"], "the node comes first"
    assert failure.removeprefix(": ").startswith(f"{fake.calls()[0].model}: "), "then the model"
    for error in (failure, row["error"]):
        assert all(word in error for word in (fake.calls()[0].model, attempts, "next: "))


def test_a_node_is_tried_three_times_at_most(scene, wire, fake):
    found = run(wire, do(status=500))
    assert found["status"] == "failed"
    assert len(fake.calls()) == 3
    assert "attempt 3 of 3" in found["failure"]


def test_a_node_that_waits_for_its_next_attempt_is_shown_as_retry_pending(scene, wire, fake):
    fake.rule(status=429, retry_after=600)
    run_id = create(wire)

    def pending():
        found = status(wire, run_id)
        rows = found["nodes"]
        return found if rows and rows[0]["status"] == "retry_pending" else None

    found = until(pending)
    assert found["status"] == "running"
    assert found["nodes"][0]["retry_at"] > found["updated_at"]
    assert "429" in found["nodes"][0]["error"]
    assert tool(wire, "run_cancel", run_id=run_id)["status"] in {"canceling", "canceled"}
    assert ended(wire, run_id)["nodes"][0]["status"] == "canceled"


def test_a_retry_after_beyond_the_runs_time_fails_at_once(scene, fake):
    wire = scene.connect(RUN_TIMEOUT_SECONDS="60")
    found = run(wire, do(status=429, retry_after=120))
    assert found["status"] == "failed"
    assert len(fake.calls()) == 1
    assert "run has left" in found["failure"]


def test_an_answer_cut_at_the_limit_of_tokens_is_done_and_marked(scene, wire):
    found = run(wire, do(finish="length", answer="Half of a"))
    assert (found["status"], found["merged_output"]) == ("completed", "Half of a")
    assert "cut off" in found["summary"]
    rows = status(wire, found["run_id"])["nodes"]
    assert rows[0]["truncated"] is True
    assert scene.document(found["run_id"], rows[0]["node_id"])["truncated"] is True


@pytest.mark.parametrize("fault", [{"hang": True}, {"hang": True, "at": "mid"}, {"drip_ms": 200, "pieces": 600}])
def test_an_attempt_ends_when_the_nodes_time_is_over(scene, fake, fault):
    wire = scene.connect(NODE_TIMEOUT_SECONDS="2")
    fake.rule(times=1, per="all", **fault)
    found = ended(wire, create(wire))
    assert found["status"] == "completed"
    assert found["nodes"][0]["attempts"] == 2


def test_a_run_ends_when_its_time_is_over_with_what_there_is(scene, fake):
    wire = scene.connect(RUN_TIMEOUT_SECONDS="8", NODE_TIMEOUT_SECONDS="60")
    fake.rule(hang=True, skip=1, per="all")
    found = run(wire, "1. Collect facts.\n2. Then write them down.", "plan")
    assert found["status"] == "failed"
    assert "time is over" in found["failure"]
    assert fake.calls()[0].digest in found["merged_output"]
    assert "partial" in found["summary"]


# -- limits across runs -----------------------------------------------------------------------------------------


def test_no_more_nodes_of_a_run_are_in_flight_than_allowed(scene, fake):
    wire = scene.connect(MAX_PARALLEL_NODES_PER_RUN="2")
    fake.rule(hold="gate", on="task")
    run_id = create(wire, "Say it.", "collective", collectiveCount=5)
    until(lambda: fake.waiting("gate") == 2)
    fake.release("gate")
    assert ended(wire, run_id)["status"] == "completed"
    assert fake.busiest == 2


def test_no_more_runs_of_a_home_are_at_work_than_allowed_also_of_two_projects(scene, make_stage, fake):
    other = spawn_stage.Scene(spawn_stage.of_one_user(make_stage(), scene.stage), scene.home.parent, fake)
    assert other.home == scene.home
    fake.rule(hold="gate")
    wires = [scene.connect(), other.connect()]
    ids = [create(wires[at % 2], f"Task {at}.") for at in range(6)]
    until(lambda: fake.waiting("gate") == 2)
    running = [one for one in ids if status(wires[0], one)["status"] == "running"]
    assert len(running) == 2
    fake.release("gate")
    for one in ids:
        assert ended(wires[0], one)["status"] == "completed"
    assert fake.busiest == 2


def test_fifty_runs_at_once_are_all_done_in_their_order(scene, wire, fake):
    ids = [create(wire, f"Task {at}.") for at in range(50)]
    for one in ids:
        assert ended(wire, one)["status"] == "completed"
    assert len(fake.calls()) == 50
    started = [scene.rows("SELECT started_at FROM runs WHERE id = ?", one)[0]["started_at"] for one in ids]
    assert started == sorted(started)
    assert fake.busiest <= 2


# -- money ------------------------------------------------------------------------------------------------------


def test_a_cost_comes_from_the_answer_first_then_from_the_prices_then_from_the_reservation(scene, wire, fake):
    told = status(wire, run(wire)["run_id"])
    assert told["cost"]["sources"] == {"usage": 1}
    priced = status(wire, run(wire, do(cost=None))["run_id"])
    assert priced["cost"]["sources"] == {"prices": 1}
    assert priced["cost"]["usd"] > 0
    unknown = status(wire, run(wire, do(usage=None))["run_id"])
    assert unknown["cost"]["sources"] == {"reserved": 1}
    assert unknown["cost"]["usd"] == 0
    assert unknown["cost"]["maybe_charged_usd"] > priced["cost"]["usd"], "the reservation, and it is shown apart"
    assert unknown["nodes"][0]["maybe_charged_usd"] == unknown["cost"]["maybe_charged_usd"]
    assert "maybe_charged_usd" not in priced["cost"]


@pytest.mark.parametrize("cost", [-1, "much", 1e9, [], {}])
def test_a_cost_that_cannot_be_is_not_believed(scene, wire, cost):
    found = status(wire, run(wire, do(cost=cost))["run_id"])
    assert found["status"] == "completed"
    assert found["cost"]["sources"] == {"prices": 1}
    assert 0 < found["cost"]["usd"] < 1


def test_attempts_that_failed_count_too_and_nothing_counts_twice(scene, wire, fake):
    fake.rule(times=1, per="all", answer="")
    found = ended(wire, create(wire))
    assert len(fake.calls()) == 2
    assert Decimal(str(found["cost"]["usd"])) == pytest.approx(fake.charged())
    assert scene.spent(found["run_id"]) == pytest.approx(fake.charged())


def test_a_run_whose_first_node_does_not_fit_its_budget_fails_unpaid(scene, fake):
    wire = scene.connect(MAX_USD_PER_RUN="0.000001")
    found = run(wire)
    assert found["status"] == "failed"
    assert "budget" in found["failure"]
    assert fake.calls() == []


def test_a_run_that_reaches_its_budget_stops_softly_with_what_there_is(scene, fake):
    fake.prices["dear/model"] = ("0.00001", "0.00001", "0")
    env = {"MODEL_ALLOWLIST": "dear/*", "MAX_COMPLETION_TOKENS": "1000", "MAX_PARALLEL_NODES_PER_RUN": "1"}
    wire = scene.connect(MAX_USD_PER_RUN="0.05", **env)
    fake.rule(cost=0.02)
    found = run(wire, "1. Collect facts.\n2. Then write.\n3. Then check.\n4. Then print.", "plan")
    assert found["status"] == "completed"
    assert found["summary"].startswith("partial: budget")
    assert 0 < len(fake.calls()) < 5
    rows = status(wire, found["run_id"])
    assert "skipped" in {one["status"] for one in rows["nodes"]}
    assert rows["cost"]["usd"] <= 0.05
    assert found["merged_output"]


def test_the_sum_of_costs_and_reservations_never_passes_the_budget(scene, fake):
    fake.prices["dear/model"] = ("0", "0.00001", "0")
    env = {"MODEL_ALLOWLIST": "dear/*", "MAX_COMPLETION_TOKENS": "1000", "MAX_PARALLEL_NODES_PER_RUN": "8"}
    wire = scene.connect(MAX_USD_PER_RUN="0.035", **env)  # three reservations of 0.01, not four
    fake.rule(hold="gate", on="task")
    run_id = create(wire, "Say it.", "collective", collectiveCount=5)
    until(lambda: fake.waiting("gate") >= 2)
    found = status(wire, run_id)
    assert found["cost"]["usd"] + found["cost"]["reserved_usd"] <= 0.035
    assert fake.waiting("gate") <= 3
    fake.release("gate")
    assert ended(wire, run_id)["status"] == "completed"
    assert scene.spent(run_id) <= Decimal("0.035")


# -- models, lengths, redaction ---------------------------------------------------------------------------------


def test_only_models_that_are_allowed_are_asked_whatever_the_planner_says(scene, fake):
    for env in ({"MODEL_ALLOWLIST": "google/*"}, {"MODEL_DENYLIST": "openai/* anthropic/*,meta-llama/*"}):
        for planned in (scene.planned(), {}):
            before = len(fake.calls())
            found = run(scene.connect(**env, **planned), "Say it.", "cascade")
            assert found["status"] == "completed"
            for call in fake.calls()[before:]:
                assert not call.model.startswith(("openai/", "anthropic/", "meta-llama/"))


def test_a_model_that_is_named_and_not_allowed_is_refused_at_once(scene, fake):
    wire = scene.connect(MODEL_DENYLIST="openai/*")
    answer = tool(wire, "run_create", task="Say it.", mode="collective", merge={"model": "openai/gpt-4o"})
    assert code_of(answer) == "model_not_allowed"
    wire = scene.connect(MODEL_DENYLIST="openai/*", CASCADE_EVALUATOR_MODEL="openai/gpt-4o")
    assert code_of(tool(wire, "run_create", task="Say it.", mode="cascade")) == "model_not_allowed"
    nobody = run(scene.connect(MODEL_DENYLIST="*"), "Say it.")
    assert nobody["status"] == "failed"
    assert "MODEL_" in nobody["failure"] or "model" in nobody["failure"]
    assert fake.calls() == []


def test_models_may_be_named_in_the_call_and_are_checked_at_once(scene, fake):
    wire = scene.connect(MODEL_DENYLIST="openai/*")
    two = ["google/gemini-2.5-flash", "openrouter/anthropic/claude-haiku-4.5"]
    found = run(wire, "Say it.", "collective", models=two)
    assert found["status"] == "completed"
    assert [call.model for call in fake.calls()][:2] == [two[0], "anthropic/claude-haiku-4.5"]
    assert len(status(wire, found["run_id"])["nodes"]) == 3, "as many answers as models, and the merge"
    before = len(fake.calls())
    for models, more, code in (
        (["openai/gpt-5"], {}, "model_not_allowed"),
        (["engine:claude"], {}, "bad_argument"),
        (["two words"], {}, "bad_argument"),
        ([" "], {}, "bad_argument"),
        ([], {}, "bad_argument"),
        (two * 9, {}, "bad_argument"),
        (two, {"agent": "builder"}, "bad_argument"),
    ):
        assert code_of(tool(wire, "run_create", task="Say it.", mode="single", models=models, **more)) == code
    openrouter = scene.connect(OPENROUTER_BASE_URL="https://openrouter.ai/api/v1")
    answer = tool(openrouter, "run_create", task="Say it.", mode="single", models=["gpt-5"])
    assert code_of(answer) == "bad_argument", "a model of OpenRouter has a provider"
    assert len(fake.calls()) == before


def test_prompts_and_answers_are_capped(scene, fake):
    wire = scene.connect(MAX_PROMPT_CHARS="5000", MAX_COMPLETION_TOKENS="77")
    fake.rule(bytes=4000)
    found = run(wire, "Say it.", "collective", collectiveCount=5)
    assert found["status"] == "completed"
    assert all(call.body["max_tokens"] == 77 for call in fake.calls())
    assert all(len(call.prompt) <= 5000 for call in fake.calls())
    assert code_of(tool(wire, "run_create", task="x" * 5001, mode="single")) == "prompt_too_large"


def test_artifacts_are_redacted_where_that_is_asked_for_and_left_alone_where_not(scene, fake):
    said = "Write to jane.doe@example.org or call +49 30 1234567."
    fake.rule(answer=said)
    plain = run(scene.connect())
    assert plain["merged_output"] == said
    redacted = run(scene.connect(REDACT_ARTIFACTS="true"), "What does jane.doe@example.org want?")
    assert "jane.doe" in fake.calls()[-1].prompt  # the model is asked what was asked
    assert "jane.doe" not in redacted["merged_output"]
    for path in scene.file(redacted["run_id"]).iterdir():
        assert "jane.doe" not in path.read_text()


# -- the key ----------------------------------------------------------------------------------------------------


def test_a_run_without_a_key_is_refused_at_once_and_says_where_a_key_goes(scene):
    wire = scene.connect(OPENROUTER_API_KEY="")
    answer = tool(wire, "run_create", task="Say it.", mode="single")
    assert code_of(answer) == "no_api_key"
    assert "OPENROUTER_API_KEY" in answer["error"]["next_step"]
    assert tool(wire, "run_list")["runs"] == []


def test_a_key_may_stand_in_a_file_of_the_home_that_is_the_users_alone(scene, fake):
    scene.home.mkdir(mode=0o700)
    path = scene.home / "openrouter.key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    wire = scene.connect(OPENROUTER_API_KEY="")
    assert run(wire)["status"] == "completed"
    assert fake.calls()[-1].key == KEY
    path.chmod(0o644)
    assert code_of(tool(wire, "run_create", task="Say it.", mode="single")) == "key_unsafe"


def test_the_key_is_in_no_file_event_answer_or_log(scene, wire, fake):
    fake.rule(times=1, per="all", status=401, message=f"the key {KEY} is wrong")
    run(wire)
    fake.rule(answer=f"I was called with {KEY}.")
    found = run(wire)
    said = json.dumps([status(wire, one["run_id"]) for one in tool(wire, "run_list")["runs"]])
    said += json.dumps(found) + json.dumps(events(wire, found["run_id"]))
    assert KEY not in said
    kept = [path for path in scene.home.rglob("*") if path.is_file()]
    logs = list(scene.stage.run_base.rglob("log"))
    assert len(kept) >= 4
    assert logs
    for path in (*kept, *logs):
        assert KEY.encode() not in path.read_bytes(), path


def test_the_home_is_the_users_alone(scene, wire):
    run(wire)
    for path in (scene.home, *scene.home.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.stat().st_uid == os.geteuid()


def test_the_settings_of_a_run_are_those_it_was_created_with(scene, fake):
    fake.rule(hold="gate")
    first = create(scene.connect(MAX_COMPLETION_TOKENS="11"))
    second = create(scene.connect(MAX_COMPLETION_TOKENS="22"))
    until(lambda: fake.waiting("gate") == 2)
    fake.release("gate")
    for one in (first, second):
        assert ended(scene.connect(), one)["status"] == "completed"
    assert {call.body["max_tokens"] for call in fake.calls()} == {11, 22}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_PARALLEL_RUNS", "0"), ("MAX_PARALLEL_NODES_PER_RUN", "many"), ("MAX_USD_PER_RUN", "-1"),
        ("MAX_USD_PER_RUN", "nan"), ("NODE_TIMEOUT_SECONDS", "soon"), ("RUN_TIMEOUT_SECONDS", "0"),
        ("MAX_PROMPT_CHARS", "1e99"), ("MAX_COMPLETION_TOKENS", ""), ("REDACT_ARTIFACTS", "perhaps"),
        ("OPENROUTER_BASE_URL", "http://example.org/v1"), ("OPENROUTER_BASE_URL", "ftp://127.0.0.1"),
        ("SMART_SPAWN_API_URL", "nowhere"), ("SMART_SPAWN_MCP_HOME", "relative/path"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_and_nothing_is_created(scene, name, value):
    wire = scene.connect(**{name: value})
    answer = tool(wire, "run_create", task="Say it.", mode="single")
    if value == "":
        assert "error" not in answer
        return
    assert code_of(answer) == "bad_config"
    assert name in json.dumps(answer["error"])


# -- events -----------------------------------------------------------------------------------------------------


def test_the_events_of_a_run_are_a_resource_with_dense_numbers(scene, wire, fake):
    run_id = create(wire, "Say it.", "collective")
    ended(wire, run_id)
    found = events(wire, run_id)
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    assert all({"seq", "ts", "level", "node_id", "message"} <= one.keys() for one in found)
    assert events(wire, run_id, "?since_seq=3") == found[3:]
    assert events(wire, run_id, "?tail=2") == found[-2:]
    assert events(wire, run_id, "?since_seq=2&tail=1") == found[-1:]
    templates = wire.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert "smartspawn://run/{run_id}/events{?since_seq,tail}" in {one["uriTemplate"] for one in templates}
    for bad in ("?since_seq=-1", "?since_seq=x", "?tail=0"):
        assert "error" in wire.ask("resources/read", {"uri": f"smartspawn://run/{run_id}/events{bad}"})
    assert "error" in wire.ask("resources/read", {"uri": "smartspawn://run/nobody/events"})
    assert "error" in wire.ask("resources/read", {"uri": f"smartspawn://run/{run_id}/secrets"})


def test_a_subscriber_is_told_when_a_run_moves(scene, wire, fake):
    fake.rule(hold="gate")
    run_id = create(wire)
    uri = f"smartspawn://run/{run_id}/events"
    until(lambda: fake.waiting("gate"))
    wire.ask("resources/subscribe", {"uri": uri})
    fake.release("gate")
    until(lambda: [one for one in wire.told("notifications/resources/updated") if one["params"]["uri"] == uri])
    assert result(wire, run_id)["status"] == "completed"
