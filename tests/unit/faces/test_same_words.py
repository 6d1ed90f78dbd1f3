"""The four faces of one snapshot: status, top, the web page and the resource have the same rows, order and words."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import cycle
from typing import get_args

import pytest

from orchestrator.base.clock import rfc3339
from orchestrator.core.glyphs import OUTCOME, STATUS
from orchestrator.core.inbox_items import InboxItem, ItemKind
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.core.record_drafts import happened, inbox_draft
from orchestrator.engines.permission_requests import Asked
from orchestrator.faces import status_lines as status_module
from orchestrator.faces.inbox_lines import inbox_lines
from orchestrator.faces.row_words import cost_text, totals_parts
from orchestrator.faces.snapshot_client import offline_snapshot
from orchestrator.faces.status_lines import footer, status_lines
from orchestrator.faces.text_table import age, lines_of
from orchestrator.faces.top.item_texts import item_lines
from orchestrator.faces.top.team_layout import agent_cells
from orchestrator.faces.web.page_parts import inbox_page, summary, team_page
from orchestrator.team.people.approval_rules import ApprovalRules
from orchestrator.team.people.approvals import Approvals
from orchestrator.team.people.dialog_answers import DialogAnswers
from orchestrator.team.people.inbox_answers import InboxAnswers
from orchestrator.team.people.snapshot_feed import SnapshotFeed
from orchestrator.team.people.snapshot_rows import RowFacts, snapshot_row
from orchestrator.team.roster import delivery
from orchestrator.team.roster.agent_names import shown_names
from orchestrator.team.team_resources import TeamResources
from tests.support import top_team
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
    approvals = Approvals(roster, ApprovalRules(tmp_path))
    inbox = InboxAnswers(roster, approvals, DialogAnswers(None))
    feed = SnapshotFeed(roster, inbox, RowFacts(usage=lambda entry: USED if entry.agent_id == "c1" else None), "b1")
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


HOLDS_NOBODY = {"error", "conflict", "budget"}
KINDS = [kind for kind in get_args(ItemKind) if kind not in HOLDS_NOBODY]
ENDS = [None, *({"task_id": "t", "title": f"make {end}", "outcome": end, "reason": "why"} for end in OUTCOME)]
COSTS = [None, USED, {**USED, "requests": 0, "cost_usd": None, "unknown": NO_MODEL}, {**USED, "cost_usd": None}]
DIFFS = [None, {"files": 0, "added": 0, "removed": 0}, {"files": 2, "added": 1200, "removed": 7}]
COUNTS = [{}, {"result": 4, "error": 1, "canceled": 0}, {"result": 0, "error": 2, "canceled": 3}]
NOW = datetime(2026, 1, 3, tzinfo=UTC)


def many_rows():
    """An agent in each status, one for each kind of item, and each value of the other columns."""
    lasts, costs, diffs, counts = cycle(ENDS), cycle(COSTS), cycle(DIFFS), cycle(COUNTS)
    for number, (status, kind) in enumerate(
        [*((status, "") for status in STATUS), *(("busy", kind) for kind in KINDS)]
    ):
        at = rfc3339(NOW - timedelta(minutes=3 + 7 * number))
        works = status in ("busy", "blocked", "stalled")
        facts = {
            "status": status, "since": at, "finished": next(counts), "last_task": next(lasts), "queue_depth": number % 3,
            "running_task_id": "t" if works else None, "running_task_title": f"task {number}" if works else None,
            "attempt": 1 + number % 3 if works else None, "cancel_requested": works and number % 4 == 3,
            "name": "twin" if number in (4, 5) else f"agent {number}",
        }  # fmt: skip
        since = rfc3339(NOW - timedelta(seconds=5 + number))
        waits = [InboxItem("00000001", kind, "x", f"asks for {kind}", since)] if kind else []
        more = {"usage": next(costs), "diff": next(diffs)}
        yield snapshot_row(top_team.agent(f"a{number}", **facts), waits, **more)


def of_status(rows, monkeypatch):
    """The cells of `status`, as they go to the terminal."""
    drawn = []
    monkeypatch.setattr(
        status_module, "lines_of", lambda columns, width: drawn.append(columns) or lines_of(columns, width)
    )
    status_lines(rows, None, NOW, names=shown_names(rows))
    columns = {column.title: list(column.cells) for column in drawn[0]}
    for at in range(len(rows)):
        cell = {title: cells[at] for title, cells in columns.items()}
        ended = "/".join(cell[sign.sign] or "0" for sign in OUTCOME.values()).removesuffix("/0")
        yield (
            cell["STATE"], cell["AGENT"], cell["TASK"], cell["FOR"], cell["QUEUE"], ended, cell["DIFF"], cell["COST"]
        )  # fmt: skip


def of_top(rows):
    names = shown_names(rows)
    for row in rows:
        top = agent_cells(row, names[row["agent_id"]])
        cell, state = top.cells, f"{top.state.sign} {top.state.word}"
        task = cell["task"].removesuffix(": why")
        yield (
            state, cell["agent"], task, age(top.since, NOW), cell["queue"], cell["ended"], cell["diff"], cell["cost"]
        )  # fmt: skip


def of_web(rows):
    page = team_page({**top_team.snapshot(), "agents": rows})
    for html in page.slots["agents"].values():
        cell = dict(re.findall(r'<td[^>]* class="(\w+)"[^>]*>(.*?)</td>', str(html)))
        since = re.search(r'datetime="([^"]+)"', cell["for"])[1]
        title = re.search(r'class="task-title">(.*?)</span>', cell["task"])[1]
        cell = {name: " ".join(plain(part)) for name, part in cell.items()}
        yield (
            cell["state"], cell["agent"], " ".join(plain(title)), age(since, NOW), cell["queue"], cell["done"],
            cell["changes"], cell["cost"],
        )  # fmt: skip


async def test_every_cell_of_every_kind_of_row_is_the_same_in_all_faces(monkeypatch):
    rows = top_team.snapshot(list(many_rows()))["agents"]
    status, top, web = list(of_status(rows, monkeypatch)), list(of_top(rows)), list(of_web(rows))
    assert status == top == web
    assert [row[1] for row in top] == [shown_names(rows)[row["agent_id"]] for row in rows]
    assert {word for state, *_ in top for word in state.split()[1:]} == {
        "starting", "idle", "parked", "busy", "blocked", "stalled", "exited", "stopping", "failed", "deleted", "unknown",
        "asks", "login", "trust", "limit",
    }  # fmt: skip
    assert {row[7] for row in top} == {"", "$0.41", "\u2013"}
    assert {row[5] for row in top} == {"0/0", "4/1", "0/2/3"}
    assert {row[6] for row in top} == {"", "+1.2k\u22127"}
    assert {"a4", "a5"} < {row[1] for row in top}, "a name of two agents names neither"
    assert sum(row[2].startswith("attempt 2: ") for row in top) > 2
    assert [row["waits_for"]["text"] for row in rows if row["waits_for"]] == [
        agent_cells(row, "x").waits for row in rows if row["waits_for"]
    ]


async def test_all_faces_show_the_same_totals_of_every_kind_of_row():
    rows = list(many_rows())
    snapshot = top_team.snapshot(rows)
    parts = totals_parts(snapshot)
    assert footer(snapshot["totals"], None) == " · ".join(parts)
    assert all(any(part in line for line in plain(summary(snapshot))) for part in parts)
    assert "unknown" in parts[-1], "what is not known is said"


async def test_every_kind_of_item_has_the_same_words_in_all_inboxes():
    items = [
        top_team.item(f"{n:08x}", f"a{n}", kind, text=f"waits for {kind}", holds=kind not in HOLDS_NOBODY)
        for n, kind in enumerate(get_args(ItemKind))
    ]
    lines = inbox_lines(items, None, NOW)[1:]
    web = inbox_page(top_team.snapshot(inbox=items)).slots["items"]
    assert list(web) == [item["id"] for item in items]
    for item, line, html in zip(items, lines, web.values(), strict=True):
        assert line.split()[:3] == [item["id"], item["kind"], item["name"]]
        assert line.endswith(item["text"])
        words = plain(html)
        assert any(item["text"] in part for part in words)
        assert re.search(rf"Kind {item['kind']}\b", " ".join(words))
        top = item_lines(item)
        assert top[0] == [(item["text"], "bold")]


async def test_all_faces_show_the_same_totals(scene):
    _, snapshot, _ = scene
    parts = totals_parts(snapshot)
    assert parts == ["5 agents", "1 needs you", "2 busy", "2 unknown", "1 ✕", "$0.41"]
    assert footer(snapshot["totals"], None) == " · ".join(parts)
    assert all(any(part in line for line in plain(summary(snapshot))) for part in parts)


async def test_what_a_deleted_agent_did_and_cost_stays_in_the_totals_of_all_faces(tmp_path):
    team = Team(tmp_path)
    roster, used = team.roster, {"a": USED, "b": {**USED, "cost_usd": 1.0}}
    approvals = Approvals(roster, ApprovalRules(tmp_path))
    inbox = InboxAnswers(roster, approvals, DialogAnswers(None))
    feed = SnapshotFeed(roster, inbox, RowFacts(usage=lambda entry: used[entry.agent_id]), "b1")
    for name in used:
        entry = await team.agent(name)
        await delivery.enqueue(roster, name, task_id=f"{name}-1", payload="make", req=f"m:{name}")
        await delivery.wait_for_command(roster, name, 1, timeout_s=0, age_s=0, req="w:1")
        await delivery.emit_event(roster, name, 1, kind="result", task_id=None, payload=1, done=None, req="e:1")
    assert totals_parts(feed.whole()) == ["2 agents", "2 idle", "2 ✓", "$1.41"]
    for name, left in (("b", ["1 agent", "1 idle"]), ("a", ["0 agents"])):
        entry = roster.agents[name]
        at = rfc3339(team.clock.now())
        await roster.commit(entry, [inbox_draft(entry.state, "stop", at, "m:stop")])
        await roster.commit(entry, [happened(entry.state, "stopped", at, by="orchestrator", how="x")])
        await roster.commit(entry, [happened(entry.state, "deleted", at, by="orchestrator")])
        snapshot = feed.whole()
        parts = totals_parts(snapshot)
        assert parts == [*left, "2 ✓", "$1.41"]
        assert footer(snapshot["totals"], None) == " · ".join(parts)
        assert all(any(part in line for line in plain(summary(snapshot))) for part in parts)
        assert (
            totals_parts(json.loads((await TeamResources(roster, feed).read("team://snapshot", None)).text)) == parts
        )
        assert offline_snapshot(tmp_path)["totals"]["finished"] == snapshot["totals"]["finished"]
    # Another run begins: the figures of the one that is over are not its own.
    used["c"] = {**USED, "cost_usd": 0.1}
    (await team.agent("c")).state.spec["run_id"] = "run-20300101-000000-aaaaaa"
    assert totals_parts(feed.whole()) == ["1 agent", "1 unknown", "$0.10"]
    team.close()


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
