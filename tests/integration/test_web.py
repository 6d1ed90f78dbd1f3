"""`orchestrator web` as a whole: a real server at a terminal, with a real daemon and agents."""

import json
import re
import socket

from orchestrator.faces.row_words import state_of, totals_parts
from orchestrator.faces.status_lines import task_text
from tests.support.documented import orchestrator
from tests.support.tls_proxy import TlsProxy, made_certificate, trusting_anybody
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


def test_the_page_status_and_the_resource_show_the_same_values_in_the_same_order_and_words(stage):
    for name in ("idle", "failed", "works"):
        orchestrator(stage, "agent", "create", name, "--role", "r", "--engine", "shell")
    orchestrator(stage, "task", "add", "failed", "--command", "exit 3", "--wait")
    orchestrator(stage, "task", "add", "works", "--command", "sleep 600")
    with opened_site(stage) as site:
        html = site.page("</span> busy<", view="team")  # of the daemon: files know no status
        inbox = site.page("data-item=", view="inbox")
    rows = re.findall(r'<tr role="row" data-key="([^"]+)".*?</tr>', html)
    status = orchestrator(stage, "status")
    resource = json.loads(
        stage.begun().ask("resources/read", {"uri": "team://snapshot"})["result"]["contents"][0]["text"]
    )
    assert rows == [row["agent_id"] for row in status["agents"]] == [row["agent_id"] for row in resource["agents"]]
    for row in status["agents"]:
        shown = re.search(rf'data-key="{row["agent_id"]}".*?</tr>', html)[0]
        word = state_of(row)
        assert f"{word.sign}</span> {word.word}<" in shown
        assert task_text(row) in shown
    for part in totals_parts(resource):
        assert f">{part}<" in html
    assert re.findall('data-item="([^"]+)"', inbox) == [item["id"] for item in resource["inbox"]]


def test_ctrl_c_ends_it_also_with_open_streams(stage):
    with opened_site(stage) as site, site.client() as client, client.stream("GET", "/events") as response:
        next(events(response))
        site.human.type("\x03")
        assert site.human.end() == 130


def test_a_proxy_with_tls_passes_on_pages_streams_and_answers(stage):
    orchestrator(stage, "agent", "create", "unit", "--role", "r", "--engine", "shell")
    orchestrator(stage, "task", "add", "unit", "--command", "exit 3", "--wait")
    proxy = TlsProxy(made_certificate(stage.base))
    with proxy.running(), socket.socket() as free:
        host, own = f"localhost:{proxy.port}", {"Origin": f"https://localhost:{proxy.port}"}
        free.bind(("127.0.0.1", 0))
        proxy.upstream = free.getsockname()[1]
        free.close()
        words = ("--listen", f"127.0.0.1:{proxy.upstream}", "--behind-proxy", "--host", host)
        with opened_site(stage, *words) as site, site.client(verify=trusting_anybody()) as client:
            assert site.url == f"https://{host}" and "█" in site.human.see("10 minutes")
            assert client.get("/").status_code == 200
            with client.stream("GET", "/events", params={"view": "inbox"}) as response:
                stream = events(response)
                assert next(stream) == ("access", {"scope": "approve"})
                slots = (value["slots"] for name, value in stream if name == "page")
                item = next(order for each in slots if (order := each.get("items", {}).get("order")))[0]
                answer = {"item": item, "decision": "dismiss", "text": ""}
                assert (
                    client.post("/answer", json=answer, headers={"Origin": "https://evil.example"}).status_code == 403
                )
                assert client.post("/answer", json=answer, headers=own).json()["ok"] is True
                assert any("Nothing waits" in json.dumps(value) for name, value in stream if name == "page")

            # What a proxy says of who asks, and for what, gives nothing and takes nothing.
            forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http",
                      "Forwarded": "for=203.0.113.9;host=evil.example;proto=http", "X-Real-IP": "203.0.113.9"}  # fmt: skip
            assert (
                client.get("/events", params={"view": "x"}, headers=forged).json()["error"]["code"] == "bad_argument"
            )

            # A proxy that puts its own idea of the host in place of the browser's is noticed at once.
            proxy.head = lambda head: head.replace(host.encode(), f"127.0.0.1:{proxy.upstream}".encode(), 1)
            assert client.get("/").json()["error"]["code"] == "web_refused"


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
