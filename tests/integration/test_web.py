"""`orchestrator web` as a whole: a real server at a terminal, with a real daemon and agents."""

import json

from tests.support.documented import orchestrator
from tests.support.web_pages import events, opened_site


def test_the_pages_show_the_team_and_follow_it(stage):
    orchestrator(stage, "agent", "create", "unit", "--role", "r", "--engine", "shell")
    with opened_site(stage) as site:
        html = site.page(">unit<", view="team")
        assert "1 agent" in html
        orchestrator(stage, "task", "add", "unit", "--command", "echo done-$((1+1))", "--wait")
        assert "1/0" in site.page("1/0", view="team")
        assert "done-2" in site.page("done-2", view="agent", agent="unit", tab="result")
        assert "done-2" in site.page("done-2", view="agent", agent="unit", tab="log")
        assert "echo done" in site.page("echo done", view="agent", agent="unit", tab="task")
        for tab in ("screen", "diff", "records", "files"):
            site.page(f'data-key="{tab}"', view="agent", agent="unit", tab=tab)
        for view in ("inbox", "runs", "timeline", "files"):
            site.page("<h1>", view=view)
        with site.client() as client, client.stream("GET", "/events") as response:
            assert next(events(response)) == ("access", {"scope": "approve"})


def test_ctrl_c_ends_it_also_with_open_streams(stage):
    with opened_site(stage) as site, site.client() as client, client.stream("GET", "/events") as response:
        next(events(response))
        site.human.type("\x03")
        assert site.human.end() == 130


def test_a_failed_task_is_dismissed_from_the_page(stage):
    orchestrator(stage, "agent", "create", "unit", "--role", "r", "--engine", "shell")
    orchestrator(stage, "task", "add", "unit", "--command", "exit 3", "--wait")
    with opened_site(stage) as site, site.client() as client:
        html = site.page("data-item=", view="inbox")
        item = html.split('data-item="')[1].split('"')[0]
        answer = {"item": item, "decision": "dismiss", "text": ""}
        assert client.post("/answer", json=answer).json()["ok"] is True
        again = client.post("/answer", json=answer)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "item_over")
        assert client.post("/answer", json=answer | {"item": "00000000"}).json()["error"]["code"] == "unknown_item"
        site.page("Nothing waits for you.", view="inbox")
        assert json.dumps(stage.records("unit")).count('"face": "web"') == 1
