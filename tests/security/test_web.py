"""The web pages against everybody who is no human: agents with the token, masters, other users, slow and many clients."""

import asyncio
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.faces.web.live_pages import MOST_STREAMS
from orchestrator.faces.web.web_server import OTHERS
from tests.security.human import OURS, Human
from tests.security.test_trust_question import below_a_master
from tests.support.documented import orchestrator
from tests.support.stage import lines_of, until
from tests.support.tls_proxy import made_certificate, trusting_anybody
from tests.support.web_pages import LINK, events, opened_site

# Asks as its arguments say and leaves the answers' codes. Standard library only, no module of ours. A `hidden` one
# asks the kernel to protect it, so that nobody of its user can read its descriptors.
ASK = r"""
import ctypes, json, os, sys, urllib.request, urllib.error
url, token, item, out, how = sys.argv[1:6]
if how == "hidden":
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
if how == "orphan" and (os.fork() or os.setsid() and os.fork()):
    os._exit(0)
def ask(path, body=None):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return json.loads(error.read())["error"]["code"]
answer = json.dumps({"item": item, "decision": "dismiss", "text": ""}).encode()
told = [ask("/"), ask("/static/web.js"), ask("/events"), ask("/download/unit/x"), ask("/answer", answer)]
told.append(ask("/code", b'{"code": "AAAAA"}'))
with open(out + ".new", "w") as file:
    json.dump(told, file)
os.rename(out + ".new", out)
"""

# All that ASK needs is loaded before: the other user may not be let into the home that Python is installed in.
BECOME_ANOTHER = """
import ctypes, encodings.idna, json, os, urllib.request
os.setgid(65534); os.setuid(65534)
"""


def team(stage):
    """An agent, and an item of the inbox: a task that failed."""
    orchestrator(stage, "agent", "create", "unit", "--role", "r", "--engine", "shell")
    orchestrator(stage, "task", "add", "unit", "--command", "exit 3", "--wait")


def item_of(site):
    return site.page("data-item=", view="inbox").split('data-item="')[1].split('"')[0]


@pytest.mark.parametrize("how", ["plain", "cleared", "hidden", "orphan"])
def test_an_agent_that_knows_the_token_gets_nothing_and_approves_nothing(stage, how):
    team(stage)
    with opened_site(stage) as site:
        item, out = item_of(site), stage.base / "told"
        script = stage.base / "ask.py"
        script.write_text(ASK)
        python = [sys.executable, "-IS", str(script), site.url, site.tokens[0], item, str(out), how]
        line = shlex.join(["env", "-i", *python] if how == "cleared" else python)
        # What a task leaves running ends with it.
        line += f"; while [ ! -e {out} ]; do sleep 0.1; done"
        orchestrator(stage, "task", "add", "unit", "--command", line)
        told = json.loads(until(lambda: out.exists() and out.read_text()))
        assert set(told) == {"not_for_agents"}, told
    assert [record for record in stage.records("unit") if record["type"] == "answered"] == []


def test_what_runs_below_a_master_gets_nothing(stage):
    team(stage)
    with opened_site(stage) as site:
        item, out = item_of(site), stage.base / "told"
        script = stage.base / "ask.py"
        script.write_text(ASK)
        below_a_master(
            stage, "shell", sys.executable, "-IS", str(script), site.url, site.tokens[0], item, str(out), "plain"
        )
        assert set(json.loads(out.read_text())) == {"not_allowed_to_answer"}
        assert "not_allowed_to_answer" in below_a_master(stage, "directly", *OURS, "web", "--port", "0", "--json")
        assert item == item_of(site), "it still waits for a human"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_nothing(stage):
    team(stage)
    with opened_site(stage) as site:
        out = Path("/tmp") / f"told-{os.getpid()}"
        subprocess.run(
            [sys.executable, "-IS", "-c", f"{BECOME_ANOTHER}\n{ASK}", site.url, site.tokens[0], "0", str(out), "plain"],
            check=True, timeout=60,
        )  # fmt: skip
        told = json.loads(out.read_text())
        out.unlink()
        assert set(told) == {"web_refused"}


def test_the_command_refuses_agents_and_shows_its_link_on_a_terminal_only(stage):
    team(stage)
    out = stage.base / "told"
    line = f"{shlex.join(OURS)} web --port 0 --json > {out}.new; mv {out}.new {out}"
    orchestrator(stage, "task", "add", "unit", "--command", line, "--wait")
    assert json.loads(out.read_text())["error"]["code"] == "not_for_agents"
    done = subprocess.run(
        [*OURS, "web", "--port", "0", "--json"], env=stage.env, cwd=stage.root, capture_output=True, text=True,
        start_new_session=True, check=False, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["error"]["code"] in ("no_terminal", "origin_unknown")


def test_each_start_has_a_port_that_no_earlier_page_can_have_prepared(stage):
    """A browser keeps scripts of a page by its origin (service workers, its cache), whoever has served it."""
    with Human(stage, "web") as first, Human(stage, "web") as second:
        links = {until(lambda: LINK.search(human.see("")))[1] for human in (first, second)}  # noqa: B023
    assert len(links) == 2 and all(link.startswith("http://127.0.0.1:") for link in links)


def test_the_token_is_in_no_file_no_environment_and_no_command_line(stage):
    team(stage)
    with Human(
        stage, "sh", "-c", f"{shlex.join(OURS)} web --port 0 --share > {stage.base}/log 2>&1", ours=()
    ) as human:
        until(lambda: "Ctrl-C ends" in human.see(""))
        tokens = [part.split("#t=")[1].split()[0] for part in human.see("").split("http")[1:]]
        assert len(tokens) == 2
        for pid in stage.processes():
            for name in ("environ", "cmdline"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                    text = Path(f"/proc/{pid}/{name}").read_bytes()
                    assert not any(token.encode() in text for token in tokens)
        files = [path for path in stage.base.rglob("*") if path.is_file()]
        assert files
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # it was replaced meanwhile
                content = path.read_bytes()
                assert not any(token.encode() in content for token in tokens)


@pytest.mark.parametrize(
    "name",
    ["link", "linked/passwd", "../inbox.jsonl", "..%2finbox.jsonl", "%2e%2e/inbox.jsonl", "/etc/passwd", "%2fetc%2fpasswd",
     "x%00", "pipe", "", ".", "folder", "x/../../inbox.jsonl"],
)  # fmt: skip
def test_no_path_leads_out_of_the_artifacts(shared_stage, name):
    stage = shared_stage
    folder = stage.root / ".agents/agents/unit/artifacts"
    if not folder.exists():
        team(stage)
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "linked").symlink_to("/etc")
        (folder / "x").write_text("<script>alert(1)</script>")
        os.mkfifo(folder / "pipe")
    with opened_site(stage) as site, site.client() as client:
        response = client.get(f"/download/unit/{name}")
        assert response.status_code in (404, 403, 400), response.text
        assert b"root:" not in response.content and b'"type"' not in response.content
        assert client.get("/download/..%2f../x").status_code == 404
        kept = client.get("/download/unit/x")
        assert kept.content == b"<script>alert(1)</script>"
        assert kept.headers["content-type"] == "application/octet-stream"
        assert kept.headers["content-disposition"].startswith("attachment;")


def test_a_script_in_any_text_of_an_agent_stays_text(stage):
    evil = "<img src=x onerror=alert(1)>\"'`</pre></script><script>alert(2)</script>"
    orchestrator(stage, "agent", "create", "unit", "--role", f"r {evil}", "--engine", "shell")
    command = f"printf '%s\\033]0;title\\007\\033[31m\\n' {shlex.quote(evil)}; exit 1"
    orchestrator(stage, "task", "add", "unit", "--command", command, "--wait")
    folder = stage.root / ".agents/agents/unit/artifacts"
    (folder / "<img src=x onerror=alert(3)>.txt").write_text(f"{evil}\x1b[31m\u202e")
    pages = [
        {"view": view, "agent": agent, "tab": tab, "find": find, "file": file}
        for view, agent, tab, find, file in [
            ("team", "", "", "", ""), ("inbox", "", "", "", ""), ("timeline", "", "", "", ""), ("files", "", "", "", ""),
            *[("agent", "unit", tab, "", "") for tab in ("screen", "task", "result", "log", "diff", "records", "files")],
            ("agent", "unit", "log", evil, ""), ("agent", "unit", "files", "", "<img src=x onerror=alert(3)>.txt"),
            ("agent", evil, "task", "", ""), ("timeline", "", "", "", ""),
        ]
    ]  # fmt: skip
    with opened_site(stage) as site:
        for query in pages:
            html = site.page("<", **query)
            assert "<img" not in html and "<script" not in html, (query, html)
            assert "\x1b" not in html and "\x07" not in html and "\u202e" not in html
        assert "&lt;img src=x onerror=alert(1)&gt;" in site.page("alert(1)", view="agent", agent="unit", tab="result")


def raw(site, text=b""):
    host, port = site.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    connection.sendall(text)
    return connection


def test_whoever_sends_half_a_request_is_dropped_and_keeps_nobody_waiting(stage):
    with opened_site(stage) as site, site.client() as client:
        host = site.url.removeprefix("http://").encode()
        head = b"POST /answer HTTP/1.1\r\nHost: " + host + b"\r\nAuthorization: Bearer " + site.tokens[0].encode()
        body = b"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        slow = [raw(site, text) for text in [b"", b"GET / HTT", head, head + body] * 10]
        assert client.get("/").status_code == 200
        for connection in slow:
            with connection:
                while connection.recv(65536):
                    pass
        assert client.get("/").status_code == 200


@pytest.mark.parametrize("asks", [False, True])
def test_connections_that_say_nothing_keep_nobody_from_the_pages(stage, asks):
    """More of them than the server has places: before their first request, or after one that was answered."""
    with opened_site(stage) as site, contextlib.ExitStack() as idle:
        host = site.url.removeprefix("http://").encode()
        for _ in range(MOST_STREAMS + 2 * OTHERS):
            idle.enter_context(raw(site, b"HEAD / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n" if asks else b""))
        assert "<h1>" in site.page("<h1>", view="inbox")


@pytest.mark.parametrize(
    "text",
    [b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, b"\x16\x03\x01\x02\x00\x01\x00", b"GET /\x00 HTTP/1.1\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
     b"POST /answer HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
)  # fmt: skip
def test_a_malformed_request_is_refused_and_its_connection_closed(shared_stage, text):
    with opened_site(shared_stage) as site, raw(site, text) as connection:
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # closed with bytes unread
            while data := connection.recv(65536):
                answer += data
        assert answer.split()[1:2] in ([b"400"], [b"403"])


def peak_kb(stage):
    """The most memory that `orchestrator web` has used."""
    servers = [pid for pid, words in stage.processes().items() if " web --port" in words]
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in servers]
    return max(int(text.split("VmHWM:")[1].split()[0]) for text in texts)


def test_a_thousand_pages_are_served_the_next_is_refused_and_ctrl_c_ends_all(stage):
    team(stage)
    with opened_site(stage) as site:
        host, port = site.url.removeprefix("http://").split(":")
        request = (
            f"GET /events?view=team HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {site.tokens[0]}\r\n\r\n"
        ).encode()

        async def opened():
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            assert (await reader.readline()).split()[1] == b"200"
            await reader.readuntil(b"event: page")
            return reader, writer

        async def scene():
            turns = asyncio.Semaphore(50)

            async def by_turns():
                async with turns:
                    return await opened()

            streams = await asyncio.gather(*(by_turns() for _ in range(MOST_STREAMS)))
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            assert (await reader.readline()).split()[1] == b"503"
            assert b"web_busy" in await reader.read()
            writer.close()
            before = streams[0]
            orchestrator(stage, "task", "add", "unit", "--command", "true", "--wait")
            await before[0].readuntil(b"1/1")
            await streams[-1][0].readuntil(b"1/1")
            streams.pop()[1].close()
            streams.append(await opened())
            assert peak_kb(stage) < 200 << 10
            site.human.type("\x03")
            assert await asyncio.to_thread(site.human.end) == 130
            for reader, stream in streams:
                assert (await reader.read()).endswith(b"0\r\n\r\n"), "each stream is ended, not cut"
                stream.close()

        asyncio.run(scene())


def test_listening_for_other_machines_needs_tls_and_takes_a_code_once(stage):
    for words in (["--listen", "0.0.0.0:0"], ["--listen", "192.0.2.1:0"], ["--tls-cert", "x"], ["--behind-proxy", "--port", "80"],
                  ["--behind-proxy", "--host", "a"]):  # fmt: skip
        done = orchestrator(stage, "web", *words)
        assert done["error"]["code"] == "bad_argument", words
    certificate, key = made_certificate(stage.base)
    address = socket.gethostbyname(socket.gethostname())
    words = ["--listen", f"{address}:0", "--tls-cert", str(certificate), "--tls-key", str(key), "--read-only"]
    with opened_site(stage, *words) as site:
        assert site.url.startswith("https://")
        shown = site.human.see("10 minutes")
        code = shown.split("10 minutes:")[1].split()[0]
        assert "█" in shown or "▀" in shown
        context = trusting_anybody()
        with site.client("", verify=context) as client:
            token = client.post("/code", json={"code": code}).json()["token"]
            assert client.post("/code", json={"code": code}).status_code == 401
        with site.client(token, verify=context) as client, client.stream("GET", "/events") as response:
            assert next(events(response)) == ("access", {"scope": "read"})


def test_tls_files_that_do_not_serve_are_refused_before_a_link_is_shown(stage):
    mine, other = made_certificate(stage.base), made_certificate(stage.base, "other")
    (nothing := stage.base / "nothing.pem").write_text("nothing")
    (public := stage.base / "public.pem").write_bytes(mine.key.read_bytes())
    public.chmod(0o644)
    wrong = [(mine.certificate, other.key), (nothing, mine.key)]
    for certificate, key in [*wrong, (mine.certificate, public)]:
        words = ["web", "--json", "--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key)]
        with Human(stage, *words) as human:
            assert human.end() == 5
            assert b"web_failed" in human.raw and b"#t=" not in human.raw and b"--port" not in human.raw


def test_it_works_without_a_daemon_and_finds_one_that_comes_back(stage):
    team(stage)
    with opened_site(stage) as site, site.client() as client:
        site.page(">unit<")
        orchestrator(stage, "daemon", "stop")
        site.page("no daemon answers")
        answer = {"item": "00000000", "decision": "dismiss", "text": ""}
        assert client.post("/answer", json=answer).status_code == 503
        orchestrator(stage, "daemon", "start")
        html = site.page('class="state green"')
        assert "no daemon answers" not in html
    assert lines_of(stage.root / ".agents/agents/unit/outbox.jsonl")
