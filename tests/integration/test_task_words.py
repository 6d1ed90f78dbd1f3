"""`orchestrator task add` in words and with attachments, on the real daemon and on the roster alone."""

import json
import os
import stat
import subprocess
import sys

import pytest

from orchestrator.base.errors import BadRequest, Conflict, OrchestratorError
from orchestrator.team.roster import attachments, delivery
from tests.support.team import Team

TASK = "t-1"


def queued(stage, agent_id):
    return [r["payload"] for r in stage.records(agent_id, "inbox") if r["type"] == "task"]


def folder(stage, agent_id, task_id=TASK):
    return stage.root / ".agents" / "agents" / agent_id / "artifacts" / "attachments" / task_id


def test_a_task_in_words_is_done_and_its_attachments_are_copied_once(stage):
    assert stage.cli("agent", "create", "builder", "--engine", "shell").returncode == 0
    line = 'cat "$ORCHESTRATOR_ATTACHMENTS/data.txt"'
    (stage.root / "data.txt").write_text("42 lines")
    words = ["task", "add", "builder", line, "--id", TASK, "--attach", "data.txt", "--title", "Show it", "--json"]
    done = stage.cli(*words, "--wait")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["agent_id"], answer["terminal"]["type"]) == ("builder", "result")
    assert "42 lines" in json.dumps(answer["terminal"]["payload"])
    assert [r["title"] for r in stage.records("builder", "inbox")] == ["Show it"]
    copy = folder(stage, "builder") / "data.txt"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    # Sent again, also after the source has changed: the same task with the files it was queued with.
    (stage.root / "data.txt").write_text("another content")
    again = stage.cli(*words)
    assert json.loads(again.stdout)["duplicate"] is True
    assert (copy.read_text(), [path.name for path in copy.parent.iterdir()]) == ("42 lines", ["data.txt"])
    assert len(queued(stage, "builder")) == 1


def test_a_refused_task_leaves_no_copies(stage):
    assert stage.cli("agent", "create", "builder", "--engine", "shell").returncode == 0
    (stage.root / "data.txt").write_text("x")
    attach = ["--attach", "data.txt", "--json"]
    for words, code in (
        (["builder", "x" * 300_000, "--id", TASK, *attach], "payload_too_large"),
        (["builder", "--payload", "[1]", "--id", TASK, *attach], "bad_argument"),
        (["builder", "true", "--id", "../t", *attach], "bad_id"),
        (["builder", "true", "--id", TASK, *attach, "--attach", "none.txt"], "bad_argument"),
        (["nobody", "true", "--id", TASK, *attach], "unknown_agent"),
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", "task", "add", *words[:1], *words[2:], "--file", "-"]
            if len(words[1]) > 200_000
            else [sys.executable, "-P", "-m", "orchestrator", "task", "add", *words],
            env=stage.env, cwd=stage.root, capture_output=True, text=True, input=words[1], timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, code), done.stdout
        assert not folder(stage, "builder").parent.exists()
    assert queued(stage, "builder") == []


# -- the copies, on the roster alone ----------------------------------------------------------------------------------

pytest_anyio = pytest.mark.anyio


@pytest.fixture
async def team(tmp_path):
    made = Team(tmp_path / "p", max_attachment_bytes=100)
    await made.agent()
    yield made
    made.close()


async def attach(team, *files, task_id=TASK):
    return await attachments.attach(team.roster, agent_id="a1", task_id=task_id, files=[str(file) for file in files])


def copies(team):
    home = team.roster.paths.artifacts("a1") / attachments.FOLDER
    return (
        sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()) if home.exists() else None
    )


@pytest_anyio
async def test_files_of_one_name_keep_apart_and_detach_removes_only_what_is_not_queued(team, tmp_path):
    for name in ("a/x.md", "b/x.md", "c/.env"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    answer = await attach(team, *(tmp_path / name for name in ("a/x.md", "b/x.md", "c/.env")))
    assert answer["attachments"] == [f"attachments/t-1/{name}" for name in ("x.md", "x-2.md", ".env")]
    assert copies(team) == ["t-1/.env", "t-1/x-2.md", "t-1/x.md"]
    await attachments.detach(team.roster, agent_id="a1", task_id=TASK)
    assert copies(team) is None
    await attach(team, tmp_path / "a" / "x.md")
    await delivery.enqueue(team.roster, "a1", task_id=TASK, payload={}, req="c:1")
    await attachments.detach(team.roster, agent_id="a1", task_id=TASK)
    assert copies(team) == ["t-1/x.md"]
    (tmp_path / "a" / "x.md").write_text("changed")
    await attach(team, tmp_path / "a" / "x.md")
    assert (team.roster.paths.artifacts("a1") / "attachments" / TASK / "x.md").read_text() == "a/x.md"


@pytest_anyio
async def test_what_is_too_large_or_no_file_is_refused_and_nothing_stays(team, tmp_path):
    good, large, pipe = tmp_path / "good", tmp_path / "large", tmp_path / "pipe"
    good.write_bytes(b"x" * 100)
    large.write_bytes(b"x" * 101)
    os.mkfifo(pipe)
    for bad, code in (
        (large, "payload_too_large"), (pipe, "bad_argument"), (tmp_path, "bad_argument"), ("/dev/zero", "bad_argument"),
        (tmp_path / "none", "bad_argument"), ("good", "bad_argument"), (tmp_path / "a\nb", "bad_argument"),
    ):  # fmt: skip
        with pytest.raises(OrchestratorError) as caught:
            await attach(team, good, bad)
        assert (caught.value.code, copies(team)) == (code, None), bad
    with pytest.raises(BadRequest):
        await attach(team, *[good] * (attachments.MAX_FILES + 1))


@pytest_anyio
@pytest.mark.parametrize("part", ["attachments", "attachments/t-1"])
async def test_a_link_that_an_agent_planted_is_never_followed(team, tmp_path, part):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / TASK).mkdir(parents=True)
    (elsewhere / TASK / "kept").write_text("the user's")
    link = team.roster.paths.artifacts("a1") / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere if part == "attachments" else elsewhere / TASK)
    file = tmp_path / "x"
    file.write_text("x")
    with pytest.raises(BadRequest) as caught:
        await attach(team, file)
    assert caught.value.code == "path_escape"
    await attachments.detach(team.roster, agent_id="a1", task_id=TASK)
    assert [path.name for path in elsewhere.rglob("*") if path.is_file()] == ["kept"]


@pytest_anyio
async def test_an_agent_that_has_ended_gets_no_files(team, tmp_path):
    file = tmp_path / "x"
    file.write_text("x")
    entry = team.roster.entry("a1")
    entry.state.life = "deleted"
    with pytest.raises(Conflict) as caught:
        await attach(team, file)
    assert (caught.value.code, copies(team)) == ("agent_ended", None)
