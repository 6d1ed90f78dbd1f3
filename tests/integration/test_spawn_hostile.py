"""Spawn runs and what nobody should send them: each answer is one a model can act on, and nothing is left behind."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.support import spawn_stage
from tests.support.spawn_stage import KEY, code_of, create, result, run, tool
from tests.support.stage import until


@pytest.fixture
def scene(shared_stage, tmp_path, fake):
    return spawn_stage.Scene(shared_stage, tmp_path, fake)


@pytest.fixture
def wire(scene):
    return scene.connect()


READERS = {
    "run_status": {}, "run_result": {"wait_ms": 60_000}, "run_cancel": {}, "artifact_get": {"node_id": "merged"},
}  # fmt: skip


@pytest.mark.parametrize(
    "run_id",
    ["", "../../etc/passwd", "a\0b", "%", "'; DROP TABLE runs; --", "\u202e\x1b[2J", "x" * 128, "x" * 100_000],
)
def test_a_run_that_is_none_is_told_as_such_and_at_once(wire, run_id):
    for name, more in READERS.items():
        assert code_of(tool(wire, name, run_id=run_id, **more)) in {"unknown_spawn_run", "bad_argument"}


def test_the_beginning_of_an_id_names_no_run(wire):
    run_id = run(wire)["run_id"]
    for name, more in READERS.items():
        assert code_of(tool(wire, name, run_id=run_id[:8], **more)) == "unknown_spawn_run"


@pytest.mark.parametrize(
    "node_id", ["../merged", "/etc/passwd", "merged\0", "..", "single.json", "\u202esingle", "x" * 256]
)
def test_an_artifact_that_is_none_is_told_with_those_that_are(wire, node_id):
    answer = tool(wire, "artifact_get", run_id=run(wire)["run_id"], node_id=node_id)
    assert code_of(answer) == "unknown_artifact"
    assert "merged" in json.dumps(answer)


@pytest.mark.parametrize(
    "more",
    [
        {"merge": {"model": "../../x"}}, {"merge": {"model": "m/\x1b[2J"}}, {"merge": {"model": "http://evil/x"}},
        {"count": 0}, {"count": 10**30}, {"engine": ","}, {"engine": "/bin/sh"}, {"engine": "claude;id"},
        {"agent": "../x"}, {"agent": "\0"}, {"engine": ",".join("abcdefghijklmnopq")},
        {"role": {"stack": ["x"] * 51}}, {"role": {"persona": "x" * 3000}}, {"task": " \n\t"}, {"task": ""},
        {"task": "x" * 300_000}, {"mode": "all"}, {"budget": "none"}, {"nobody": 1}, {"task": 7},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_in_a_create_is_refused_with_a_next_step_and_makes_no_run(scene, wire, more):
    answer = tool(wire, "run_create", **{"task": "Say yes.", "mode": "collective", **more})
    assert code_of(answer) not in {"internal", ""}
    assert answer["error"]["next_step"]
    assert len(json.dumps(answer)) < 4000
    assert tool(wire, "run_list") == {"runs": []}


@pytest.mark.parametrize(
    "text", ["a\0b", "\x1b[2J\x1b]0;x\x07", "\u202eabc\u2066", "\U0001f4a9" * 100, "\u0301" * 1000, "\r\n\x85\u2028"]
)
def test_any_text_goes_through_a_run_and_back_unchanged(scene, wire, fake, text):
    found = run(wire, f"Say {text} please", "collective")
    assert found["status"] == "completed"
    assert any(f"Say {text} please" in call.prompt for call in fake.calls())
    document = scene.document(found["run_id"], "collective-1")
    assert document["task"] == f"Say {text} please"


def test_half_a_character_in_a_task_is_refused_or_mended_never_a_bug(wire):
    answer = wire.tool("smartspawn_run_create", {"task": "Say \ud800", "mode": "single"})
    if "error" in answer:
        assert code_of(answer) == "bad_argument"
    else:
        assert result(wire, answer["run_id"])["status"] == "completed"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/v1", "https://user:pw@example.org/v1", "file:///etc/passwd", "https://", "ftp://127.0.0.1",
        "http://127.0.0.1@evil.example/v1", "http://127.0.0.1.evil.example/v1", "https://example.org/v1?x=1",
        "http://0x7f000001.evil.example/v1", "https://exa mple.org/", "http://localhost.evil.example/v1",
    ],
)  # fmt: skip
def test_a_server_to_which_no_key_may_go_is_refused_without_repeating_a_password(scene, url):
    wire = scene.connect(OPENROUTER_BASE_URL=url)
    answer = tool(wire, "run_create", task="Say yes.", mode="single")
    assert code_of(answer) == "bad_config"
    assert ":pw@" not in json.dumps(answer)
    health = tool(wire, "health")
    assert health["openrouter_configured"] is False
    assert "configuration" in health["reasons"]
    assert not scene.home.exists()


def test_a_changed_artifact_is_told_and_the_others_are_still_read(scene, wire):
    run_id = run(wire, mode="collective")["run_id"]
    file = scene.file(run_id, "collective-1.json")
    file.write_bytes(file.read_bytes() + b" ")
    link = scene.file(run_id, "collective-2.json")
    link.unlink()
    link.symlink_to("/etc/passwd")
    for node_id in ("collective-1", "collective-2"):
        answer = tool(wire, "artifact_get", run_id=run_id, node_id=node_id)
        assert code_of(answer) == "corrupt_home"
        assert "root:" not in json.dumps(answer)
    assert tool(wire, "artifact_get", run_id=run_id, node_id="merged")["content"]
    assert result(wire, run_id)["merged_output"]
    assert code_of(tool(wire, "run_result", run_id=run_id, include_raw=True)) == "corrupt_home"


def test_health_answers_where_all_is_broken(scene):
    scene.home.parent.mkdir(exist_ok=True)
    scene.home.write_text("a file")
    wire = scene.connect(SMART_SPAWN_API_URL="http://127.0.0.1:1/api", OPENROUTER_API_KEY="")
    health = tool(wire, "health")
    wanted = ("openrouter_configured", "db_writable", "artifact_storage_writable", "worker_alive")
    assert [health[name] for name in wanted] == [False] * 4
    assert health["smart_spawn_api_reachable"] is False
    assert set(health["reasons"]) >= {"openrouter_configured", "db_writable", "artifact_storage_writable"}


def test_the_key_stands_in_no_file_of_the_home_and_in_no_log(scene, wire, fake):
    fake.rule(times=1, per="all", status=401, message=f"bad key {KEY}")
    assert run(wire)["status"] == "failed"
    fake.forget()
    fake.rule(answer=f"Your key is {KEY}. " * 50)
    run(wire, mode="cascade")
    tool(wire, "health")
    places = [scene.home, scene.stage.root, scene.stage.run_base, scene.stage.home]
    for place in places:
        for file in place.rglob("*"):
            if file.is_file() and not file.is_symlink():
                assert KEY.encode() not in file.read_bytes(), file
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert KEY.encode() not in process.read_bytes()


def test_a_wait_of_any_length_is_answered(wire, fake):
    fake.rule(hold="gate", per="all")
    run_id = create(wire)
    until(lambda: fake.waiting("gate"))
    for wait_ms in (0, 1, 50):
        assert tool(wire, "run_result", run_id=run_id, wait_ms=wait_ms)["status"] == "running"
    for wait_ms in (-1, 10**12, 1.5, "1"):
        assert code_of(tool(wire, "run_status", run_id=run_id, wait_ms=wait_ms)) == "bad_argument"
    fake.release("gate")
    assert result(wire, run_id, wait_ms=86_400_000)["status"] == "completed"
