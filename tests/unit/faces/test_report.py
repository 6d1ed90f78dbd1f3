"""A report says what happened, cannot be made to do anything, and opens in any browser."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.base.errors import Environment
from orchestrator.core.model_usage import NO_MODEL
from orchestrator.faces.amount_words import clock, dollars, duration, seconds_between, size, tokens
from orchestrator.faces.report import report_data
from orchestrator.faces.report.report_drawing import drawing
from orchestrator.faces.report.report_page import MARK, html
from orchestrator.faces.report.shown_texts import LEAST, MOST, limit_for, shown, text_of
from orchestrator.team.worktrees.commit_sizes import CommitSize
from tests.support.drawn_pages import seen
from tests.support.run_files import BEGIN, RunFiles, at

NOW = BEGIN + timedelta(seconds=1000)
TAGS = {
    "a", "article", "b", "bdi", "body", "code", "desc", "details", "g", "h1", "h2", "h3", "head", "html", "li", "meta", "p",
    "path", "pre", "rect", "span", "style", "summary", "svg", "table", "td", "text", "th", "title", "tr", "ul", "div",
}  # fmt: skip
NASTY = '</style></title><script>alert(1)</script><img src=x onerror="alert(1)">\'"&\x00\x1b[31m\u202e evil \u2066 🧨 한국어'


@pytest.fixture
def files(tmp_path):
    return RunFiles(tmp_path / "shop")


def made(files, **given):
    files.save()
    return report_data.report_of(files.paths.root, files.run_id, NOW, **given)


def history(files):
    """A task that was lost once, one that failed after a permission, one that still runs, one that waits."""
    agent = files.agent("c1", name="Cee", role="builds", engine="codex", model="gpt")
    agent.task("t1", 10, {"task": "Build it"})
    agent.out("exited", 18, reason="exit code 1", how="exit", code=1)
    agent.out("requeued", 20, task_id="t1", attempt=2, reason="exit code 1")
    agent.out("restarted", 25, reason="exited", epoch=2)
    agent.out("delivered", 30, task_id="t1", attempt=2, epoch=2)
    agent.end("t1", 40, payload={"summary": "Built", "artifact": "out.txt"}, attempt=2, epoch=2)
    agent.task("t2", 50, "Clean it")
    agent.out("blocked", 55, kind="permission", reason="Bash: make clean", epoch=2)
    who = {"face": "web", "user": "ann", "acts_as": "human"}
    agent.out("answered", 60, item="3f", kind="permission", decision="deny", who=who, epoch=2)
    agent.out("unblocked", 61, kind="permission", reason="it goes on", epoch=2)
    agent.end("t2", 70, "error", {"message": "not allowed"}, epoch=2)
    agent.task("t3", 80, "Test it")
    files.add(agent.inbox, "task", 90, task_id="t4", payload="Ship it", position=2)
    return agent


def test_the_values_say_what_happened(files):
    agent = history(files)
    folder = files.paths.artifacts("c1")
    folder.mkdir(parents=True)
    (folder / "out.txt").write_text("12345")
    values = made(files).values
    totals = values["totals"]
    assert (totals["agents"], totals["tasks"], totals["unfinished"], totals["attempts"], totals["requeued"]) == (
        1, 4, 2, 4, 1,
    )  # fmt: skip
    assert totals["finished"] == {"result": 1, "error": 1, "canceled": 0}
    assert (totals["waits"], totals["waited_s"], totals["launches"], totals["usage"]) == (1, 6.0, 2, None)
    first, second, third, fourth = values["tasks"]
    assert [attempt["how"] for attempt in first["attempts"]] == ["requeued", "result"]
    assert (first["waited_s"], first["ran_s"], first["request"]["text"]) == (1.0, 29.0, "task: Build it")
    path = f".agents/agents/{agent.agent_id}/artifacts/out.txt"
    assert first["artifacts"] == [{"path": path, "bytes": 5, "exists": True}]
    assert (second["state"], second["reason"]) == ("error", "not allowed")
    assert (third["state"], third["ended_at"], fourth["state"], fourth["attempts"]) == ("running", None, "queued", [])
    (wait,) = values["waits"]
    assert (wait["seconds"], wait["answer"], wait["by"]) == (6.0, "deny", "human, ann, web")
    assert (values["run"]["live"], values["run"]["seconds"], values["gaps"]) == (True, 1000.0, [])


def test_the_page_has_each_task_with_request_attempts_outcome_and_result(files):
    history(files)
    page = html(made(files))
    assert MARK in page[:1024]
    words = " ".join(" ".join(seen(page).words).split())
    for text in (
        "shop", "run-1", "Cee (c1)", "codex, gpt", "Build it", "Built", "exit code 1", "requeued", "not allowed", "Test it",
        "Ship it", "Bash: make clean", "deny by human, ann, web", "still live",
    ):  # fmt: skip
        assert text in words, text
    assert len(re.findall("<article ", page)) == 4
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


def test_the_hosts_of_agents_are_shown_in_their_order_if_the_run_has_any(files):
    history(files)
    assert ">hosts<" not in html(made(files))
    member = {"project": "shop", "agent": "w1", "home": "a", "host": "box-1", "fence": 1}
    agent = files.agent("w1", 1, fleet=member)
    agent.out("restarted", 95, reason="lost", epoch=2, fence=2, host="<b>", placed={})
    agent.out("restarted", 99, reason="exited", epoch=3)
    report = made(files)
    assert [row["hosts"] for row in report.values["agents"]] == [[], ["box-1", "<b>"]]
    assert ">hosts<" in html(report)
    assert "box-1, then &lt;b&gt;" in html(report)


def test_nothing_is_loaded_and_nothing_runs(files):
    history(files)
    page = html(made(files))
    parts = seen(page)
    assert parts.tags <= TAGS
    assert not {name for name in parts.attributes if name.startswith("on")} | parts.attributes & {"src", "srcset"}
    assert "default-src 'none'" in page
    assert set(re.findall(r"(?:https?:)?//[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "url(" not in page
    assert "@import" not in page


def test_text_of_strangers_in_every_field_stays_text(files):
    agent = files.agent("c1", name=NASTY, role=NASTY, engine=NASTY, model=NASTY)
    agent.task(NASTY, 10, {NASTY: NASTY, "task": NASTY}, title=NASTY)
    agent.out("blocked", 12, kind="permission", reason=NASTY)
    who = {"face": NASTY, "user": NASTY, "acts_as": NASTY}
    agent.out("answered", 13, item=NASTY, kind="permission", decision=NASTY, who=who)
    agent.out("unblocked", 14, kind="permission", reason=NASTY)
    agent.out("requeued", 15, task_id=NASTY, attempt=2, reason=NASTY)
    agent.out("delivered", 16, task_id=NASTY, attempt=2)
    agent.end(NASTY, 20, "error", {"message": NASTY, "artifacts": [NASTY]})
    files.logs[agent.outbox][-1]["by"] = NASTY
    agent.out("lost", 21, quarantined=NASTY)
    agent.out("exited", 22, reason=NASTY, how="exit")
    files.file["created_at"] = NASTY
    usage = {
        "input": 1,
        "cached": 0,
        "output": 1,
        "requests": 1,
        "cost_usd": None,
        "unknown": NASTY,
        "models": [NASTY],
    }
    page = html(made(files, usage_of=lambda *_: (usage, {NASTY: usage})))
    parts = seen(page)
    assert parts.tags <= TAGS
    assert not {name for name in parts.attributes if name.startswith("on")} | parts.attributes & {"src"}
    assert page.count("</style>") == 1
    assert not set(page) & set("\x00\x1b\u202e\u2066")
    assert "한국어" in page
    assert "🧨" in page


def test_secrets_are_masked_wherever_they_stand(files):
    secret = "sk-abcdefghijklmnopqrstuv0123456789"
    agent = files.agent("c1")
    agent.task("t1", 10, {"task": f"Use {secret}", "password": "hunter2hunter2"}, title=f"Use {secret}")
    agent.out("blocked", 12, kind="permission", reason=f"curl -H 'Authorization: Bearer {secret}'")
    agent.end(
        "t1", 20, "error", {"message": f"{secret} was refused", "api_key": "hunter2hunter2", "artifacts": [f"{secret}.txt"]}
    )  # fmt: skip
    files.paths.artifacts("c1").mkdir(parents=True)
    (files.paths.artifacts("c1") / f"{secret}.txt").write_text("")
    report = made(files)
    assert report.values["tasks"][0]["artifacts"][0]["exists"]
    for text in (html(report), repr(report.values)):
        assert secret not in text
        assert "hunter2" not in text


def test_a_secret_in_the_place_of_an_id_is_masked_on_the_page(files):
    secret = "ghp_" + "a1B2" * 9
    agent = files.agent("c1")
    agent.task(secret, 10, {})
    agent.end(secret, 20)
    agent.out("lost", 21, quarantined=f"/q/{secret}")
    assert secret not in html(made(files))


@pytest.mark.parametrize("cut_at", [-40, -20, -1, 0, 1])
def test_a_secret_that_the_cut_goes_through_is_masked(cut_at):
    secret = "ghp_" + "a1B2" * 9
    text = "x" * (1000 - 20 + cut_at) + " " + secret + " " + "y" * 9000
    assert "a1B2" not in shown(text_of(text), 1000)["text"]


def test_what_is_private_is_not_shown(files):
    agent = files.agent("c1")
    agent.task("t1", 10, {"command": "make secret-things", "private": True})
    agent.end("t1", 20, payload={"last_lines": ["the secret thing"]})
    report = made(files)
    assert "secret" not in html(report)
    assert "secret" not in repr(report.values["tasks"])
    assert "task show c1/t1" in html(report)


def test_a_payload_of_a_megabyte_is_cut_and_says_where_all_of_it_is(files):
    agent = files.agent("c1")
    agent.task("t1", 10, {"task": "word " * 210_000})
    agent.end("t1", 20, payload="short")
    report = made(files)
    request = report.values["tasks"][0]["request"]
    assert request["cut"]
    assert request["chars"] > 1_000_000
    assert len(request["text"]) <= MOST
    page = html(report)
    assert "orchestrator task show c1/t1" in page
    assert len(page) < 100_000


def test_many_texts_share_the_room_and_short_ones_stay_whole():
    assert limit_for([10, 20], 1000) == MOST
    assert limit_for([10, 10_000, 10_000], 10_010) == 5000
    assert limit_for([10_000] * 1000, 1000) == LEAST
    assert limit_for([], 5) == MOST


def test_a_thousand_tasks_with_long_texts_make_a_page_of_bounded_size(files):
    agents = [files.agent(f"c{n}") for n in range(20)]
    for number in range(1000):
        agent, begin = agents[number % 20], 10 + number // 20 * 10
        agent.task(f"t{number}", begin, {"task": "Do this now. " * 800})
        agent.end(f"t{number}", begin + 5, payload={"summary": "<Done> & gone. " * 800})
    report = made(files)
    page = html(report)
    assert page.count("<article ") == 1000
    assert len(page) < 6_000_000
    assert "content-visibility:auto" in page


def test_missing_records_are_declared_at_the_top_and_listed(files):
    agent = history(files)
    files.save()
    lines = agent.inbox.read_bytes().splitlines(keepends=True)
    agent.inbox.write_bytes(b"".join([b"damaged\n", *lines[1:]]))
    report = report_data.report_of(files.paths.root, "run-1", NOW)
    page = html(report)
    assert page.index('href="#gaps"') < page.index("Timeline")
    task = next(task for task in report.values["tasks"] if task["task_id"] == "t1")
    assert (task["request_known"], task["request"], task["state"]) == (False, None, "result")
    assert "Its request is among the missing records" in page


def test_tokens_and_cost_are_summed_and_what_is_unknown_is_said(files):
    history(files)
    files.agent("c2")
    known = {
        "input": 1000,
        "cached": 500,
        "output": 20,
        "requests": 3,
        "cost_usd": 1.25,
        "models": ["m"],
        "unknown": "",
    }
    nothing = dict.fromkeys(("input", "cached", "output", "requests"), 0)
    lost = {**nothing, "cost_usd": None, "unknown": "its transcript was not found"}
    free = {**nothing, "cost_usd": None, "unknown": NO_MODEL}
    files.agent("c3")
    usage = {"c3": (free, {}), "c1": (known, {"t1": known, None: known}), "c2": (lost, {})}
    report = made(files, usage_of=lambda agent_id, _engine: usage[agent_id])
    assert report.values["totals"]["usage"] == {
        "input": 1000, "cached": 500, "output": 20, "requests": 3, "cost_usd": 1.25, "cost_unknown": 1,
    }  # fmt: skip
    words = " ".join(seen(html(report)).words)
    assert "$1.25" in words
    assert "unknown of 1 agent" in words
    assert "its transcript was not found" in words
    report = made(files, usage_of=lambda *_: (free, {}))
    assert "no agent uses a model" in html(report)
    assert report.values["totals"]["usage"]["cost_usd"] is None
    assert made(files, usage_of=lambda *_: (None, {})).values["totals"]["usage"] is None


def test_the_cost_of_an_agent_whose_requests_were_not_counted_is_unknown_and_not_nothing(files):
    history(files)
    files.agent("c2")
    nothing = dict.fromkeys(("input", "cached", "output", "requests"), 0)
    report = made(files, usage_of=lambda *_: ({**nothing, "cost_usd": 0.0, "models": [], "unknown": ""}, {}))
    worked, new = report.values["agents"]
    assert (worked["usage"]["cost_usd"], bool(worked["usage"]["unknown"])) == (None, True)
    assert (new["usage"]["cost_usd"], new["usage"]["unknown"]) == (0.0, "")
    assert report.values["totals"]["usage"]["cost_unknown"] == 1


def test_spawn_runs_and_squads_of_that_time_are_listed_with_what_they_came_to(files):
    asked = []
    spawn = {
        "kind": "spawn", "id": "r1", "title": "say </td><b>yes", "status": "failed", "began": at(5), "ended": None,
        "done": 1, "failed": 2, "total": 3, "waves": 1, "cost_usd": 0.25, "reason": "sk-ant-api03-" + "x" * 40,
    }  # fmt: skip
    squad = {**spawn, "kind": "squad", "id": "s1", "waves": None, "cost_usd": None, "title": "tester", "reason": ""}

    def between(begin, end):
        asked.append(begin <= end)
        return [spawn, squad], "the home cannot be read"

    history(files)
    report = made(files, runs_between=between)
    assert asked == [True]
    assert [run["id"] for run in report.values["runs"]] == ["r1", "s1"]
    page = html(report)
    assert "1 of 3, 2 failed" in page and "$0.25" in page and "the home cannot be read" in page
    assert "<b>yes" not in page and "x" * 40 not in page


def test_waits_at_the_same_time_count_once_and_rules_not_at_all(files):
    agent = files.agent("c1")
    agent.out("blocked", 10, kind="permission", reason="a")
    agent.out("blocked", 20, kind="login", reason="b")
    agent.out("unblocked", 30, kind="permission", reason="it goes on")
    agent.out("unblocked", 50, kind="login", reason="it goes on")
    rule = {"face": "rule", "acts_as": "rule"}
    agent.out("answered", 60, item="a", kind="permission", decision="approve", who=rule, asked="Bash: ls")
    totals = made(files).values["totals"]
    assert (totals["waits"], totals["waited_s"]) == (2, 40.0)


def test_what_is_open_when_the_run_has_ended_lasts_until_its_end(files):
    agent = files.agent("c1")
    agent.task("t1", 10)
    agent.out("blocked", 20, kind="login", reason="log in")
    files.file["ended_at"] = at(100)
    values = made(files).values
    assert (values["totals"]["busy_s"], values["totals"]["waited_s"], values["run"]["seconds"]) == (89.0, 80.0, 100.0)
    assert (values["tasks"][0]["attempts"][0]["seconds"], values["waits"][0]["seconds"]) == (89.0, 80.0)


def test_a_run_without_agents_or_tasks_has_a_page(files):
    page = html(made(files))
    assert "This run has no agents." in page
    files.agent("c1")
    assert "No task was given in this run." in html(made(files))


@pytest.mark.parametrize(
    "begin", ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2030-01-01T00:00:00.000Z"]
)
def test_a_clock_that_was_wrong_does_no_harm(files, begin):
    agent = history(files)
    files.logs[agent.outbox][0]["at"] = begin
    files.logs[agent.outbox][4]["at"] = begin
    page = html(made(files))
    assert "NaN" not in page
    assert not re.search(r'width="-', page)


def test_the_drawing_of_a_team_at_rest_ends_with_its_last_record(files):
    agent = files.agent("c1")
    agent.task("t1", 10)
    agent.end("t1", 20)
    assert bar_of_result(files) > 500
    agent.task("t2", 30)
    assert bar_of_result(files) < 200, "what still runs goes on until now"


def bar_of_result(files):
    """How far right the first result begins."""
    report = made(files)
    return float(
        re.search(r'class="b-result" x="([\d.]+)"', drawing(report.timeline, report.values["made_at"], {}))[1]
    )


def test_a_task_has_what_was_committed_while_it_ran(files, monkeypatch):
    when = int((BEGIN + timedelta(seconds=15)).timestamp())
    sizes = {"c1": [CommitSize(when, frozenset({b"a", b"b"}), 10, 3)], "c2": None}

    def asked(_root, agent_id, _seconds):
        if agent_id == "c3":
            raise Environment("git_failed", "its branch is gone")
        return sizes[agent_id]

    monkeypatch.setattr(report_data, "commit_sizes", asked)
    for name in ("c1", "c2", "c3", "c4"):
        agent = files.agent(name, **({} if name == "c4" else {"worktree": {"path": "/", "branch": "b"}}))
        for number in (1, 2):
            agent.task(f"t{number}", 20 * number - 10)
            agent.end(f"t{number}", 20 * number)
    report = made(files)
    changes = {(task["agent_id"], task["task_id"]): task["changes"] for task in report.values["tasks"]}
    assert changes["c1", "t1"] == {"commits": 1, "files": 2, "added": 10, "removed": 3}
    assert changes["c1", "t2"] == {"commits": 0, "files": 0, "added": 0, "removed": 0}
    assert {changes[name, "t1"] for name in ("c2", "c3", "c4")} == {None}
    words = " ".join(seen(html(report)).words)
    assert "1 commit: 2 files, +10 -3" in words
    assert words.count("no commit") == 1


def test_a_foreign_worktree_is_not_asked_for(files, monkeypatch):
    asked = []
    monkeypatch.setattr(report_data, "look", lambda _root, agent_id, _seconds: asked.append(agent_id))
    files.agent("c1")
    files.agent("c2", worktree={"path": "/", "branch": "b", "base": "c", "tree": "/"})
    assert [agent["worktree"] for agent in made(files).values["agents"]] == [None, None]
    assert asked == ["c2"]
    monkeypatch.setattr(report_data, "GIT_S", 0.0)
    assert list(made(files).values["agents"][1]["worktree"]) == ["error"]
    monkeypatch.undo()
    assert made(files).values["agents"][1]["worktree"] is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 00 s"), (3599.6, "1 h 00 min"),
     (90061, "1 d 01 h")],
)  # fmt: skip
def test_durations_are_said_in_two_units(seconds, words):
    assert duration(seconds) == words


def test_words_for_what_is_no_time_no_money_and_no_size():
    assert clock(None) == "-"
    assert clock("soon") == "soon"
    assert seconds_between("soon", at(1)) is None
    assert seconds_between(at(5), at(1)) == 0.0
    assert seconds_between("2026-01-01T00:00:00", at(1)) is None
    assert (dollars(None), dollars(0), dollars(0.004), dollars(1.239)) == (
        "cost unknown",
        "$0.00",
        "$0.0040",
        "$1.24",
    )
    assert (size(None), size(1), size(2048), size(3 << 20)) == ("not there", "1 byte", "2.0 KiB", "3.0 MiB")
    assert tokens(None) == ""
    assert tokens({"requests": 0, "unknown": "this engine uses no model"}) == "this engine uses no model"
    assert clock(datetime.max.replace(tzinfo=UTC).isoformat())
