"""Why an agent or a task is as it is: every word cited from the files, with and without a daemon."""

import json
import shutil
import subprocess
import sys

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.core import supervision
from orchestrator.team.recovery import explanation
from orchestrator.team.roster import delivery, offline_view
from orchestrator.team.roster.agent_views import meta_of
from tests.support.team import Team

pytestmark = pytest.mark.anyio


def cited(root, found):
    """The records behind the evidence, read as a human would: that line of that file."""
    records = []
    for one in found["evidence"]:
        lines = (root / one["file"]).read_text().splitlines()
        record = json.loads(lines[one["line"] - 1])
        assert (record["seq"], record["type"], record["at"]) == (one["seq"], one["type"], one["at"])
        records.append((record["type"], record.get("task_id")))
    return records


@pytest.fixture
async def team(tmp_path):
    """An agent that holds t1, has t2 behind it, and has ended t0; its logs in several files."""
    made = Team(tmp_path, segment_bytes=4096)
    await made.agent()
    for n in range(3):
        await delivery.enqueue(made.roster, "a1", task_id=f"t{n}", payload="x" * 1500, req=f"c:{n}")

    async def wait(n):
        return await delivery.wait_for_command(made.roster, "a1", 1, timeout_s=0, age_s=0, req=f"w:{n}")

    async def emit(n, kind):
        return await delivery.emit_event(
            made.roster, "a1", 1, kind=kind, task_id=None, payload="y" * 3000, done=None, req=f"e:{n}"
        )

    await wait(0)
    for n in range(3):
        await emit(n, "progress")
    await emit(4, "result")
    await wait(1)
    yield made
    made.close()


async def test_why_cites_the_records_that_prove_it_by_file_and_line(team, tmp_path):
    meta = meta_of(team.roster, team.roster.entry("a1"))
    found = explanation.of_agent(tmp_path, meta)
    assert [one["file"] for one in meta["evidence"]] == [one["file"] for one in found["evidence"]]
    assert (found["status"], found["task_id"]) == ("busy", "t1")
    assert cited(tmp_path, found) == [("delivered", "t1"), ("ready", None)]
    names = {one["file"].rsplit("/", 1)[1] for one in found["evidence"]}
    assert "outbox.000000000001.jsonl" in names, "the log is in several files, and the right one is named"


async def test_the_story_of_a_task_is_told_record_by_record(team, tmp_path):
    def meta(agent_id):
        return meta_of(team.roster, team.roster.entry(agent_id))

    ended = explanation.of_task(tmp_path, "t0", None, meta)
    assert (ended["status"], ended["agent_id"]) == ("result", "a1")
    assert "the agent in attempt 1" in ended["reason"]
    kinds = [kind for kind, _ in cited(tmp_path, ended)]
    assert kinds == ["task", "delivered", "progress", "progress", "progress", "result"]
    running = explanation.of_task(tmp_path, "t1", None, meta)
    assert (running["status"], running["agent"]["status"]) == ("running", "busy")
    queued = explanation.of_task(tmp_path, "t2", "a1", meta)
    assert (queued["status"], "place 2" in queued["reason"]) == ("queued", True)


async def test_a_task_that_a_human_has_canceled_in_the_pane_says_so(team, tmp_path):
    entry = team.roster.entry("a1")
    entry.state.policies["on_pane_closed"] = "cancel"
    gone = supervision.exited(
        entry.state, at="2026-01-01T00:00:00.000Z", how="pane_closed", reason="its pane was closed"
    )
    await team.roster.commit(entry, gone)
    told = explanation.of_task(tmp_path, "t1", None, lambda _agent: meta_of(team.roster, entry))
    assert (told["status"], "by a human in its pane" in told["reason"]) == ("canceled", True)


async def test_what_is_not_there_is_said_and_what_is_not_clear_is_asked(team, tmp_path):
    def meta(agent_id):
        return offline_view.agent(tmp_path, agent_id)

    with pytest.raises(BadRequest) as none:
        explanation.of_task(tmp_path, "t9", None, meta)
    assert none.value.code == "unknown_task"
    await team.agent("a2")
    await delivery.enqueue(team.roster, "a2", task_id="t1", payload=1, req="c:x")
    with pytest.raises(BadRequest) as both:
        explanation.of_task(tmp_path, "t1", None, meta)
    assert "a1/t1" in both.value.next_step
    assert explanation.of_task(tmp_path, "t1", "a2", meta)["agent_id"] == "a2"


async def test_the_command_works_on_files_alone(team, tmp_path):
    root = tmp_path.parent / f"{tmp_path.name}-copy"
    shutil.copytree(tmp_path, root)
    (root / ".agents" / "lock").unlink(missing_ok=True)

    def run(*words):
        return subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", "-C", str(root), "why", *words],
            capture_output=True, text=True, timeout=90, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path.parent),
            "ORCHESTRATOR_RUN_BASE": str(tmp_path.parent / "run")}, check=False,
        )  # fmt: skip

    told = run("a1", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["status"] == "unknown"
    shown = run("a1/t0")
    assert shown.returncode == 0
    assert ".agents/agents/a1/inbox" in shown.stdout
    assert "result" in shown.stdout
    assert run("nobody").returncode == 2
