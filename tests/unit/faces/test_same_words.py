"""The four faces of one snapshot: status, top, the web page and the resource have the same rows, order and words."""

import json
import re
from datetime import UTC, datetime
from html import unescape

import pytest

from orchestrator.core.model_usage import NO_MODEL
from orchestrator.engines.permission_requests import Asked
from orchestrator.faces.row_words import cost_text, totals_parts
from orchestrator.faces.status_lines import footer, status_lines
from orchestrator.faces.text_table import age
from orchestrator.faces.top.team_layout import agent_cells
from orchestrator.faces.web.page_parts import summary, team_page
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.snapshot_feed import SnapshotFeed
from orchestrator.team.people.snapshot_rows import RowFacts
from orchestrator.team.roster import delivery
from orchestrator.team.team_resources import TeamResources
from tests.support.team import Team

pytestmark = pytest.mark.anyio
ASKED = Asked("permission", "Bash", "rm -rf build/c1 && make", "asks to use Bash: rm -rf build/c1 && make")
USED = {"input": 900, "cached": 0, "output": 90, "requests": 3, "cost_usd": 0.41, "models": ["m"], "unknown": ""}


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Nobody:
    def check(self, _decision, _text):
        return None

    def decide(self, _decision, _text):
        return True


@pytest.fixture
async def scene(tmp_path):
    """A team in many states, its resource, and the moment at which all faces look."""
    team = Team(tmp_path)
    roster = team.roster
    approvals = Approvals(roster, DialogAnswers(None), ApprovalRules(tmp_path))
    feed = SnapshotFeed(
        roster, approvals, RowFacts(usage=lambda entry: USED if entry.agent_id == "c1" else None), "b1"
    )
    for name in ("c1", "w1", "unit", "idle", "new"):
        await team.agent(name, ready=name != "new")
    for name in ("c1", "w1", "unit"):
        await delivery.enqueue(roster, name, task_id=f"{name}-1", payload=f"make {name}", req=f"m:{name}", title="")
        await delivery.wait_for_command(roster, name, 1, timeout_s=0, age_s=0, req="w:1")
    await delivery.enqueue(roster, "w1", task_id="w1-2", payload="make more", req="m:more")
    await delivery.emit_event(
        roster, "unit", 1, kind="error", task_id="unit-1", payload={"error": "exit 2"}, done=None, req="e:1"
    )
    approvals.requested(roster.agents["c1"], "k", ASKED, Nobody(), dialog_meanwhile=True)
    await team.clock.advance(40.0)
    yield TeamResources(roster, feed), feed.whole(), team.clock.now()
    await approvals.close()
    team.close()


def plain(html):
    """What a person reads of the page, cell by cell."""
    text = re.sub(r"</(?:td|tr|h1|p|li|div)>", "\n", str(html))
    text = unescape(re.sub(r"<[^>]*>", " ", text))
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


async def test_all_faces_show_the_same_agents_in_the_same_order_with_the_same_words(scene):
    resources, snapshot, now = scene
    shown = json.loads((await resources.read("team://snapshot", None)).text)
    assert {k: v for k, v in shown.items() if k != "at"} == {k: v for k, v in snapshot.items() if k != "at"}
    rows = shown["agents"]
    order, words = [row["agent_id"] for row in rows], [row["state"] for row in rows]
    assert (order[0], set(order[1:3]), set(order[3:])) == ("c1", {"w1", "new"}, {"unit", "idle"})
    assert words[:1] == ["asks"]

    lines = [line.text for line in status_lines(rows, None, now)][1:]
    cells = [agent_cells(row, row["name"]) for row in rows]
    web = plain("\n".join(map(str, team_page(shown).slots["agents"].values())))
    for row, line, cell in zip(rows, lines, cells, strict=True):
        state = f"{cell.state.sign} {row['state']}"
        assert cell.state.word == row["state"]
        assert line.startswith(state)
        assert row["agent_id"] in line
        assert state in web
        task = cell.cells["task"].split(":")[0]
        assert task in line
        assert any(task in part for part in web)
        assert age(cell.since, now) in line
    assert [line for line in web if line in order] == order
    waits = rows[0]["waits_for"]["text"]
    assert waits == ASKED.line
    assert waits in lines[0]
    assert waits == cells[0].waits
    assert any(waits in part for part in web)


async def test_all_faces_show_the_same_totals(scene):
    _, snapshot, _ = scene
    parts = totals_parts(snapshot)
    assert parts == ["5 agents", "1 needs you", "2 busy", "2 idle", "1 ✕", "$0.41"]
    assert footer(snapshot["agents"], None) == " · ".join(parts)
    assert all(any(part in line for line in plain(summary(snapshot))) for part in parts)


async def test_the_inbox_is_the_same_as_that_of_the_snapshot(scene):
    resources, snapshot, _ = scene
    inbox = json.loads((await resources.read("team://inbox", None)).text)["inbox"]
    assert inbox == snapshot["inbox"]
    assert [item["kind"] for item in inbox] == ["permission", "error"]
    assert datetime.fromisoformat(inbox[0]["since"]).tzinfo == UTC


async def test_an_engine_without_a_model_costs_nothing_and_an_unknown_cost_is_a_dash():
    unknown = {**USED, "requests": 0, "cost_usd": None, "unknown": "its transcript was not found"}
    assert cost_text(USED) == "$0.41"
    assert cost_text(unknown) == "\u2013"
    assert cost_text({**unknown, "unknown": NO_MODEL}) == cost_text(None) == ""
