"""The model API over real HTTP, against a server that does what it is told to."""

import asyncio
import contextlib
import json
import logging
import socket
from decimal import Decimal

import pytest

from orchestrator.base.clock import SystemClock
from orchestrator.base.errors import BadRequest
from orchestrator.spawn import openrouter
from orchestrator.spawn.run_data import Fault, NodeCall, Reply
from tests.fakes.openrouter import NONSENSE, Fake
from tests.support.stage import until

KEY = "sk-or-v1-0123456789abcdef"
LONG_S = 30.0
SHORT_S = 0.2


@pytest.fixture(scope="module")
def server():
    with Fake() as fake:
        yield fake


@pytest.fixture
def fake(server):
    server.forget()
    server.requests.clear()
    server.busiest = 0
    return server


def ask(fake, do=None, *, timeout_s=LONG_S, **more):
    prompt = more.pop("prompt", "Say it." if do is None else f"Say it.\nDO {json.dumps(do)}\n")
    facts = {
        "model": "openai/gpt-4o",
        "system": "You are terse.",
        "max_tokens": 500,
        "key": KEY,
        "base_url": fake.url,
    }
    return NodeCall("r", "n", 1, "t", prompt=prompt, timeout_s=timeout_s, **facts | more)


def fresh(*asks):
    """The outcomes of these calls, all made at once, by an API of their own."""

    async def body():
        api = openrouter.ModelApi(SystemClock())
        try:
            return await asyncio.gather(*(api.call(one) for one in asks))
        finally:
            await api.close()

    found = asyncio.run(body())
    return found[0] if len(found) == 1 else found


@pytest.fixture(scope="module")
def call():
    """Makes one call after the other, by one API for all: reading the certificates takes its time."""
    with asyncio.Runner() as runner:
        api = openrouter.ModelApi(SystemClock())
        yield lambda one: runner.run(asyncio.wait_for(api.call(one), LONG_S - 10))
        runner.run(api.close())


def test_a_call_sends_what_the_contract_says_and_reads_the_answer_with_its_cost(fake, call):
    found = call(ask(fake))
    (sent,) = fake.calls()
    assert isinstance(found, Reply)
    assert len(found.text) >= 600
    assert (found.finish_reason, found.model, found.cost) == ("stop", "openai/gpt-4o", fake.charged())
    assert sent.key == KEY
    assert (sent.headers["x-title"], sent.headers["accept-encoding"]) == ("orchestrator", "identity")
    assert sent.body == {
        "model": "openai/gpt-4o",
        "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Say it."}],
        "max_tokens": 500,
        "temperature": 0.2,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_no_system_prompt_and_no_key_are_left_out(fake, call):
    found = call(ask(fake, system="", key=""))
    (sent,) = fake.calls()
    assert [one["role"] for one in sent.body["messages"]] == ["user"]
    assert "authorization" not in sent.headers
    assert (found.code, found.retry) == ("401", False)


def test_text_that_is_no_unicode_is_sent_all_the_same(fake, call):
    assert isinstance(call(ask(fake, prompt="half \ud83d of it")), Reply)


GOOD = [
    ({"answer": "yes", "json": True}, "yes", "stop"),
    ({"answer": "yes", "json": True, "space": 4000}, "yes", "stop"),
    ({"answer": "yes", "json": True, "content_type": "text/event-stream"}, "yes", "stop"),
    ({"answer": "yes", "content_type": "application/json"}, "yes", "stop"),
    ({"answer": "yes", "comments": 3, "eol": "\r\n"}, "yes", "stop"),
    ({"answer": "yes", "eol": "\r", "pieces": 3}, "yes", "stop"),
    ({"answer": "yes", "finish": "length"}, "yes", "length"),
    ({"answer": "so far", "finish": "content_filter"}, "so far", "content_filter"),
    ({"content": [{"type": "text", "text": "yes"}]}, "yes", "stop"),
    ({"content": [{"type": "text", "text": "yes"}], "json": True}, "yes", "stop"),
    ({"answer": "yes", "drop": True, "at": "done"}, "yes", "stop"),
    ({"answer": "yes", "hang": True, "at": "done", "usage": None}, "yes", "stop"),
    ({"answer": "yes", "delay_ms": 1, "drip_ms": 1}, "yes", "stop"),
]


@pytest.mark.parametrize(("do", "text", "finish"), GOOD, ids=[json.dumps(one[0]) for one in GOOD])
def test_an_answer_is_read_in_whatever_form_it_comes(fake, call, monkeypatch, do, text, finish):
    if do.get("hang"):
        monkeypatch.setattr(openrouter, "USAGE_S", 0.05)
    found = call(ask(fake, do))
    assert (found.text, found.finish_reason) == (text, finish)


def fault(code, *, retry, after=None, reached=True, cost=None):
    return code, retry, after, reached, cost


CLEAN = {"reached": False}
FAULTS = [
    *[({"status": one}, fault(str(one), retry=False, **CLEAN)) for one in (301, 307, 400, 401, 402, 403, 404, 413)],
    *[({"status": one}, fault(str(one), retry=True, **CLEAN)) for one in (408, 429, 500, 502, 503, 529)],
    ({"status": 402, "retry_after": 3}, fault("402", retry=True, after=3, **CLEAN)),
    *[
        ({"status": 429, "retry_after": 40, "via": via}, fault("429", retry=True, after=40, **CLEAN))
        for via in ("header", "date", "body", "headers", "reset")
    ],
    ({"status": 503, "retry_after": 40}, fault("503", retry=True, after=40, **CLEAN)),
    ({"status": 502, "nonsense": "html"}, fault("502", retry=True)),
    ({"status": 403, "nonsense": "html"}, fault("403", retry=False, **CLEAN)),
    ({"error": 502}, fault("502", retry=True)),
    ({"error": 403, "where": "body"}, fault("403", retry=False)),
    ({"error": 429, "where": "body", "retry_after": 9, "via": "body"}, fault("429", retry=True, after=9)),
    ({"error": 429, "where": "choice", "json": True, "cost": 0.01}, fault("429", retry=True, cost="0.01")),
    ({"error": 502, "where": "choice", "cost": 0.01}, fault("502", retry=True, cost="0.01")),
    ({"error": "server_error", "where": "event", "cost": 0.01}, fault("502", retry=True, cost="0.01")),
    ({"error": 400, "where": "event", "usage": None}, fault("400", retry=False)),
    ({"error": 502, "where": "event", "usage": None, "drop": True, "at": "done"}, fault("502", retry=True)),
    ({"error": 502, "where": "event", "usage": None, "hang": True, "at": "done"}, fault("502", retry=True)),
    ({"status": 401, "drop": True, "at": "headers"}, fault("401", retry=False, **CLEAN)),
    ({"status": 503, "drop": True, "at": "mid", "retry_after": 30}, fault("503", retry=True, after=30)),
    ({"answer": "yes", "json": True, "drop": True, "at": "mid"}, fault("network", retry=True)),
    ({"drop": True}, fault("network", retry=True)),
    ({"drop": True, "reset": True}, fault("network", retry=True)),
    ({"drop": True, "at": "headers"}, fault("network", retry=True)),
    ({"drop": True, "at": "mid"}, fault("network", retry=True)),
    ({"drop": True, "at": "mid", "reset": True}, fault("network", retry=True)),
    ({"drop": True, "at": "end"}, fault("network", retry=True)),
    ({"answer": "", "cost": 0.02}, fault("empty", retry=True, cost="0.02")),
    ({"content": None, "cost": 0.02, "json": True}, fault("empty", retry=True, cost="0.02")),
    ({"content": [], "cost": 0.02}, fault("empty", retry=True, cost="0.02")),
    ({"answer": "", "finish": "length", "cost": 0.02}, fault("empty", retry=True, cost="0.02")),
    ({"answer": "", "finish": "content_filter", "cost": 0}, fault("refused", retry=False, cost="0")),
    *[({"nonsense": one}, fault("nonsense", retry=False)) for one in sorted(NONSENSE.keys() - {"nothing", "cut"})],
    ({"nonsense": "cut"}, fault("nonsense", retry=True)),
    ({"nonsense": "nothing"}, fault("network", retry=True)),
    ({"body": "<html>log in</html>", "content_type": "text/event-stream"}, fault("nonsense", retry=False)),
]


@pytest.mark.parametrize(("do", "wanted"), FAULTS, ids=[json.dumps(one[0]) for one in FAULTS])
def test_a_fault_is_what_the_contract_says_it_is(fake, call, monkeypatch, do, wanted):
    if do.get("hang"):
        monkeypatch.setattr(openrouter, "USAGE_S", 0.05)
    found = call(ask(fake, do))
    assert isinstance(found, Fault)
    code, retry, wanted_after, reached, cost = wanted
    assert (found.code, found.retry, found.reached) == (code, retry, reached)
    assert found.cost == (None if cost is None else Decimal(cost))
    if wanted_after is None:
        assert found.retry_after_s is None
    else:
        # A date has whole seconds, and the clock goes on meanwhile.
        assert wanted_after - 10 < found.retry_after_s <= wanted_after


@pytest.mark.parametrize("place", ["start", "headers", "mid", "drip"])
def test_the_time_of_an_attempt_is_over_wherever_it_hangs_and_however_it_drips(fake, monkeypatch, place):
    bounds = []
    real = asyncio.timeout

    def noted(seconds):
        bounds.append(real(seconds))
        return bounds[-1]

    monkeypatch.setattr(asyncio, "timeout", noted)
    do = {"drip_ms": 20, "pieces": 1500} if place == "drip" else {"hang": True, "at": place}

    async def body():
        api = openrouter.ModelApi(SystemClock())
        task = asyncio.create_task(api.call(ask(fake, do)))
        there = (lambda: fake.calls() or None) if place == "drip" else lambda: fake.waiting("hang") or None
        await asyncio.to_thread(until, there, 20.0)
        assert bounds[0].when() > asyncio.get_running_loop().time()
        bounds[0].reschedule(asyncio.get_running_loop().time())
        found = await task
        await api.close()
        return found

    found = asyncio.run(body())
    assert (found.code, found.message) == ("timeout", "no whole answer within 30 s")
    assert (found.retry, found.reached, found.cost) == (True, True, None)
    until(lambda: fake.calls(how="closed") or None, 20.0)


@pytest.mark.parametrize(
    ("cost", "known"),
    [
        (0, "0"), (0.1, "0.1"), ("0.25", "0.25"), (None, None), (-1, None), ("-1", None), ("free", None),
        (1e9, None), (float("nan"), None), (float("inf"), None), ([1], None),
    ],
)  # fmt: skip
def test_an_odd_cost_is_unknown_and_the_answer_stands(fake, call, cost, known):
    fake.rule(cost=cost)
    found = call(ask(fake))
    assert isinstance(found, Reply)
    assert found.cost == (None if known is None else Decimal(known))
    assert found.prompt_tokens > 0


def test_a_server_that_is_not_there_was_not_reached(fake, call):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        found = call(ask(fake, base_url=f"http://127.0.0.1:{port}/v1"))
    assert (found.code, found.retry, found.reached) == ("network", True, False)


def test_a_server_that_never_takes_the_connection_was_not_reached(fake, call):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        with contextlib.ExitStack() as full:
            # The line of those who wait is full, so that not even the connection comes about.
            for _ in range(4):
                one = full.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(deaf.getsockname())
            found = call(ask(fake, base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout_s=SHORT_S))
    assert (found.code, found.retry, found.reached) == ("timeout", True, False)


def test_a_server_that_ends_ends_the_calls_that_hang_on_it():
    async def body():
        api = openrouter.ModelApi(SystemClock())
        with Fake() as other:
            other.rule(hang=True)
            tasks = [asyncio.create_task(api.call(ask(other, prompt=str(n)))) for n in range(5)]
            await asyncio.to_thread(until, lambda: other.waiting("hang") == 5 or None, 20.0)
        found = await asyncio.gather(*tasks)
        await api.close()
        return found, other

    found, other = asyncio.run(body())
    assert {(one.code, one.reached) for one in found} == {("network", True)}
    assert not other._thread.is_alive()
    assert [one.how for one in other.requests] == ["closed"] * 5


def test_a_2_mb_answer_is_read_and_one_beyond_the_limit_refused(fake, call, monkeypatch):
    do = {"bytes": 2_000_000, "pieces": 100}
    assert len(call(ask(fake, do)).text) == 2_000_000
    monkeypatch.setattr(openrouter, "ANSWER_BYTES", 1 << 20)
    for form in ({}, {"json": True}):
        found = call(ask(fake, do | form))
        assert (found.code, found.retry, found.reached) == ("nonsense", False, True)
        assert "larger" in found.message


def test_a_refusal_counts_as_one_however_much_is_said_of_it(fake, call, monkeypatch):
    monkeypatch.setattr(openrouter, "ANSWER_BYTES", 1 << 17)
    fake.rule(status=503, body="no " * (1 << 16))
    found = call(ask(fake))
    assert (found.code, found.retry, found.reached) == ("503", True, True)


def test_a_call_that_is_canceled_closes_its_connection(fake):
    async def body():
        api = openrouter.ModelApi(SystemClock())
        task = asyncio.create_task(api.call(ask(fake, {"hang": True, "at": "mid"})))
        await asyncio.to_thread(until, lambda: fake.waiting("hang") or None, 20.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(until, lambda: fake.calls(how="closed") or None, 20.0)
        await api.close()

    asyncio.run(body())


def test_calls_run_side_by_side_and_one_connection_serves_those_behind_each_other(fake, monkeypatch):
    monkeypatch.setattr(openrouter, "CLOSE_S", LONG_S)
    fake.rule(hold="gate")

    async def body():
        api = openrouter.ModelApi(SystemClock())
        tasks = [asyncio.create_task(api.call(ask(fake, prompt=str(n)))) for n in range(150)]
        await asyncio.to_thread(until, lambda: fake.waiting("gate") == 150 or None, 20.0)
        fake.release("gate")
        found = await asyncio.gather(*tasks)
        before = fake.accepted
        for n in range(5):
            await api.call(ask(fake, prompt=f"later {n}"))
        await api.close()
        return found, fake.accepted - before

    found, opened = asyncio.run(body())
    assert all(isinstance(one, Reply) for one in found)
    assert len({one.text for one in found}) == 150
    assert fake.busiest == 150
    assert opened == 0


def test_a_key_follows_no_redirect_and_a_cookie_goes_along_with_no_other_call(fake, call):
    with Fake() as other:
        fake.rule(status=307, headers={"Location": f"{other.url}/chat/completions", "Set-Cookie": "a=b; Path=/"})
        assert [call(ask(fake)).code, call(ask(fake)).code] == ["307", "307"]
        assert other.requests == []
    assert [one.headers.get("cookie") for one in fake.calls()] == [None, None]


def test_the_environments_proxy_is_not_asked_for_this_machine(fake, monkeypatch):
    with Fake() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.root)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert isinstance(fresh(ask(fake)), Reply)
        assert proxy.accepted == 0
        public = fresh(ask(fake, base_url="https://model.invalid/v1"))
        assert (public.code, proxy.accepted) == ("network", 1)


def test_a_proxy_nobody_can_use_is_a_fault(fake, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://user:secret@proxy.invalid")
    found = fresh(ask(fake, base_url="https://model.invalid/v1"))
    assert (found.code, found.retry, found.reached) == ("network", False, False)
    assert "secret" not in found.message


@pytest.mark.parametrize("key", ["bad\nkey-of-mine", "schlüssel-of-mine", "nul\0-of-mine"])
def test_a_key_that_no_header_can_carry_is_refused_before_it_is_sent(fake, call, key):
    found = call(ask(fake, key=key))
    assert (found.code, found.retry, found.reached) == ("401", False, False)
    assert "mine" not in found.message
    assert fake.requests == []


def test_the_key_is_in_no_fault_no_log_and_no_repr(fake, caplog):
    caplog.set_level(logging.DEBUG)
    echo = f"bad key {KEY} in Authorization: Bearer {KEY}"
    asks = [
        ask(fake, {"status": 401, "message": echo}),
        ask(fake, {"error": 502, "message": echo, "where": "event"}),
        ask(fake, {"body": echo}),
        ask(fake, {"drop": True}),
        ask(fake, base_url="http://127.0.0.1:1"),
    ]
    found = fresh(*asks)
    assert all(isinstance(one, Fault) for one in found)
    assert not [one for one in caplog.records if one.name.startswith("http")]
    assert KEY not in repr(found) + repr(ask(fake)) + caplog.text
    assert "0123456789" not in repr(found) + caplog.text


def test_the_list_of_models_is_read_without_a_key(fake):
    async def body(url):
        api = openrouter.ModelApi(SystemClock())
        try:
            return await api.models(url)
        finally:
            await api.close()

    found = asyncio.run(body(fake.url))
    assert {one["id"]: one["pricing"]["prompt"] for one in found["data"]}["openrouter/auto"] == "-1"
    assert "authorization" not in fake.calls("/v1/models")[0].headers
    for kind, code in [("html", "nonsense"), ("list", "nonsense"), ("types", "nonsense"), ("cut", "nonsense")]:
        fake.forget()
        fake.rule(path="/v1/models", nonsense=kind)
        assert asyncio.run(body(fake.url)).code == code
    fake.forget()
    fake.rule(path="/v1/models", status=503)
    assert asyncio.run(body(fake.url)).code == "503"
    fake.forget()
    fake.rule(path="/v1/models", drop=True)
    assert asyncio.run(body(fake.url)).code == "network"
    assert asyncio.run(body("ftp://x")).code == "400"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://openrouter.ai/api/v1", "https://openrouter.ai:443"),
        ("HTTPS://OpenRouter.AI:443/other", "https://openrouter.ai:443"),
        ("https://a.b:8443", "https://a.b:8443"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
        ("http://localhost", "http://localhost:80"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_the_origin_of_a_url_has_one_form(url, found):
    assert openrouter.origin(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "", "openrouter.ai", "ftp://a.b", "https://", "https:///v1", "http://a.b/v1", "http://10.0.0.1", "http://0.0.0.0",
        "https://user:pass-of-mine@a.b", "https://a.b\\@c.d", "https://a.b:99999", "https://a.b:x", "https://[::1",
        "https://a b", "https://a.b/\nx", "https://a.b/v1?x=1", "https://a.b/#x", "https://ä.b", "file:///etc/passwd",
        "http://localhost.evil.com", "http://127.0.0.1.evil.com", "https://-",
    ],
)  # fmt: skip
def test_a_url_that_no_key_may_be_sent_to_is_refused(fake, call, url):
    with pytest.raises(BadRequest) as refused:
        openrouter.origin(url)
    assert refused.value.code == "bad_config"
    assert "mine" not in str(refused.value)
    if url:
        assert call(ask(fake, base_url=url)).reached is False
