"""What every request to the web pages must pass; over the ASGI surface, with a site that holds one secret."""

import json

import pytest
from starlette.testclient import TestClient

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import BadRequest, Conflict
from orchestrator.faces.web.access_tokens import AccessTokens
from orchestrator.faces.web.bug_lines import BugLines
from orchestrator.faces.web.html_elements import Markup
from orchestrator.faces.web.live_pages import LivePages
from orchestrator.faces.web.local_peers import WebPeer
from orchestrator.faces.web.page_content import PageContent
from orchestrator.faces.web.request_guard import BODY_MAX
from orchestrator.faces.web.site_address import site_address
from orchestrator.faces.web.web_app import Site, web_app

SECRET = "the-secret-of-the-team"
OURS = "http://127.0.0.1:8750"


class Snapshots:
    def latest(self):
        return {"version": 1}

    def wait(self, number, timeout_s):
        return 1


class Source:
    def depends_on(self, request, snapshot, now):
        return 1

    def content(self, request, snapshot):
        return PageContent(Markup(f"<p>{SECRET}</p>"), {})


class World:
    """A site with two tokens; `answered` is what reached the daemon."""

    def __init__(self, root):
        self.tokens = AccessTokens()
        self.read, self.approve = self.tokens.issue("read"), self.tokens.issue("approve")
        self.answered = []
        self.peer = WebPeer("all")
        self.lines = []
        bugs = BugLines(self.lines.append)
        self.pages = LivePages(Snapshots(), Source(), SystemClock(), bugs)
        self.root = root

        async def judge(client, server, *, token):
            if self.peer is None:
                raise ZeroDivisionError(SECRET)
            return self.peer

        address = site_address("127.0.0.1", 8750, scheme="http")
        self.app = web_app(Site(root, self.pages, self.tokens, self.answer, address, judge, bugs))

    def answer(self, item, decision, text):
        self.answered.append((item, decision, text))
        if item == "bug":
            raise ZeroDivisionError(SECRET)
        if item == "old":
            raise Conflict("item_over", "over")
        return {"ok": True}

    def client(self, token=None, **headers):
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return TestClient(self.app, base_url=OURS, headers=given | headers)


@pytest.fixture
def world(tmp_path):
    found = World(tmp_path)
    found.pages._ended = True  # a stream ends after its first event, which the client waits for
    return found


DATA = ["/events", "/download/a/b.txt"]
SHELLS = [
    "/",
    "/inbox",
    "/agents/c1",
    "/timeline",
    "/runs",
    "/files",
    "/static/web.js",
    "/static/web.css",
    "/static/icon.svg",
]
ANSWER = {"item": "3f2a91bc", "decision": "approve", "text": ""}


def code(response):
    return response.json()["error"]["code"]


@pytest.mark.parametrize("path", SHELLS)
def test_a_shell_needs_no_token_and_holds_no_data(world, path):
    response = world.client().get(path)
    assert response.status_code == 200
    assert SECRET not in response.text and str(world.root) not in response.text
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("token", [None, "wrong", "Bearer", "a" * 5000])
def test_data_and_answers_need_a_token_that_was_issued(world, token):
    client = world.client(token)
    for path in DATA:
        assert (client.get(path).status_code, code(client.get(path))) == (401, "web_token")
    assert code(client.post("/answer", json=ANSWER)) == "web_token"
    assert world.answered == []


def test_a_token_counts_in_its_header_only(world):
    token = world.approve
    client = world.client()
    for response in (
        client.get(f"/events?t={token}"), client.get(f"/events?token={token}"),
        client.get("/events", headers={"Cookie": f"token={token}"}),
        client.get("/events", headers={"X-Token": token}),
        client.get("/events", headers=[("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]),
    ):  # fmt: skip
        assert code(response) == "web_token"


def test_a_token_that_reads_does_not_answer(world):
    response = world.client(world.read).post("/answer", json=ANSWER)
    assert (response.status_code, code(response), world.answered) == (403, "not_allowed_to_answer", [])
    assert '"scope": "read"' in world.client(world.read).get("/events").text


def test_a_token_that_approves_answers_and_hears_the_daemons_refusal(world):
    client = world.client(world.approve)
    assert client.post("/answer", json=ANSWER).json() == {"ok": True}
    assert world.answered == [("3f2a91bc", "approve", "")]
    response = client.post("/answer", json=ANSWER | {"item": "old"})
    assert (response.status_code, code(response)) == (409, "item_over")
    assert '"scope": "approve"' in client.get("/events").text


def test_a_peer_that_comes_from_an_agent_gets_nothing_even_with_a_token(world):
    world.peer = WebPeer("none", BadRequest("not_for_agents", "it runs in an agent"))
    client = world.client(world.approve)
    for path in [*SHELLS, *DATA]:
        assert (client.get(path).status_code, code(client.get(path))) == (403, "not_for_agents")
    assert code(client.post("/answer", json=ANSWER)) == "not_for_agents"
    assert world.answered == []


def test_a_peer_of_unknown_origin_reads_only(world):
    world.peer = WebPeer("read", BadRequest("origin_unknown", "unknown"))
    client = world.client(world.approve)
    assert '"scope": "read"' in client.get("/events").text
    assert code(client.post("/answer", json=ANSWER)) == "origin_unknown"
    assert world.answered == []


@pytest.mark.parametrize(
    "host", ["evil.example:8750", "127.0.0.1.nip.io:8750", "127.0.0.1", "127.0.0.1:80", "a@127.0.0.1:8750"]
)
def test_another_host_is_refused_also_for_the_shell(world, host):
    for path in ("/", "/events"):
        response = world.client(world.approve).get(path, headers={"Host": host})
        assert (response.status_code, code(response)) == (403, "web_refused")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:8750"},
        {"Origin": "https://127.0.0.1:8750"}, {"Origin": "http://127.0.0.1:3000"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"},
    ],
)  # fmt: skip
def test_a_request_of_another_site_is_refused(world, headers):
    client = world.client(world.approve, **headers)
    assert code(client.get("/events")) == "web_refused"
    assert code(client.post("/answer", json=ANSWER)) == "web_refused"
    assert world.answered == []


def test_a_link_from_anywhere_leads_to_the_shell_and_its_own_page_gets_data(world):
    assert world.client(**{"Sec-Fetch-Site": "cross-site"}).get("/").status_code == 200
    own = {"Origin": OURS, "Sec-Fetch-Site": "same-origin"}
    assert world.client(world.approve, **own).post("/answer", json=ANSWER).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; x", ""]
)
def test_an_answer_that_a_form_could_send_is_refused(world, kind):
    response = world.client(world.approve).post("/answer", content=json.dumps(ANSWER), headers={"Content-Type": kind})
    assert (code(response), world.answered) == ("web_refused", [])


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'"x"', b'{"item": 5}', b"[" * 50_000, b"\xff\xfe", b'{"item": {"a": 1}}']
)
def test_an_answer_that_is_none_is_refused(world, body):
    response = world.client(world.approve).post("/answer", content=body, headers={"Content-Type": "application/json"})
    assert (code(response), world.answered) == ("bad_argument", [])


def test_a_request_that_says_its_length_twice_is_refused(world):
    """A proxy may read it in the other way, and take what follows for the next request."""
    response = world.client(world.approve).post(
        "/answer", json=ANSWER, headers={"Transfer-Encoding": "chunked", "Content-Length": "5"}
    )
    assert (code(response), world.answered) == ("web_refused", [])


def test_a_request_that_is_too_large_is_refused(world):
    response = world.client(world.approve).post("/answer", json=ANSWER | {"text": "x" * BODY_MAX})
    assert (code(response), world.answered) == ("web_refused", [])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_other_methods_are_refused(world, method):
    assert code(world.client(world.approve).request(method, "/events")) == "web_refused"


def test_every_answer_forbids_frames_other_origins_sniffing_and_keeping(world):
    for path in ("/", "/static/web.js", "/events", "/nothing", "/download/a/b"):
        for client in (world.client(), world.client(world.approve)):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert (
                "default-src 'none'" in policy
                and "script-src 'self';" in policy
                and "frame-ancestors 'none'" in policy
            )
            assert "unsafe" not in policy and "*" not in policy and "http" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers and "set-cookie" not in headers


def test_wrong_tokens_are_slowed_down_and_never_lock_the_owner_out(world):
    codes = [code(world.client("wrong").get("/events")) for _ in range(60)]
    assert codes[0] == "web_token" and codes[-1] == "web_busy"
    phone = TestClient(world.app, base_url=OURS, client=("192.168.1.9", 5000))
    assert code(phone.get("/events", headers={"Authorization": "Bearer wrong"})) == "web_token", "another machine's"
    assert world.client(world.approve).get("/events").status_code == 200


def test_a_code_is_exchanged_for_a_token_once(world):
    import time

    found = world.tokens.issue_code("read", time.monotonic())
    client = world.client()
    assert code(client.post("/code", json={"code": "WRONG"})) == "web_token"
    token = client.post("/code", json={"code": found}).json()["token"]
    assert world.client(token).get("/events").status_code == 200
    assert code(client.post("/code", json={"code": found})) == "web_token"
    assert code(world.client(Origin="http://evil.example").post("/code", json={"code": found})) == "web_refused"


@pytest.mark.parametrize("query", ["view=nothing", "view=agent&tab=nothing", "view=agent&agent=" + "x" * 501])
def test_a_page_that_does_not_exist_is_refused(world, query):
    assert code(world.client(world.read).get(f"/events?{query}")) == "bad_argument"


def test_a_bug_leaves_a_line_and_an_error_without_its_words(world):
    response = world.client(world.approve).post("/answer", json=ANSWER | {"item": "bug"})
    assert (response.status_code, code(response)) == (500, "internal")
    assert SECRET not in response.text and "Traceback" not in response.text
    assert "content-security-policy" in response.headers
    world.peer = None
    response = world.client(world.approve).get("/")
    assert (response.status_code, code(response)) == (500, "internal")
    assert "content-security-policy" in response.headers
    answers, judges = world.lines
    assert "ZeroDivisionError at orchestrator/faces/web/web_app.py:" in answers and SECRET not in answers + judges
    assert "ZeroDivisionError at orchestrator/faces/web/request_guard.py:" in judges


def test_a_stream_that_a_bug_ends_leaves_a_line(world, monkeypatch):
    async def broken(_request):
        yield b"event: page\n\n"
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(world.pages, "messages", broken)
    response = world.client(world.read).get("/events")
    assert response.status_code == 200 and SECRET not in response.text
    assert len(world.lines) == 1 and "ZeroDivisionError" in world.lines[0]


def test_the_page_after_the_last_place_is_refused_clearly(world):
    world.pages.streams = 1000
    response = world.client(world.read).get("/events")
    assert (response.status_code, code(response)) == (503, "web_busy")
    world.pages.streams = 0
    assert world.client(world.read).get("/events").status_code == 200
    assert world.pages.streams == 0
