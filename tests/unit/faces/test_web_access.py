"""Who may come in to the web pages: tokens, codes, rates, addresses. All pure."""

import pytest

from orchestrator.base.errors import BadRequest
from orchestrator.faces.web.access_tokens import CODE_S, CODE_TRIES, AccessTokens
from orchestrator.faces.web.rate_limits import MOST_KEYS, RateLimit
from orchestrator.faces.web.site_address import listen_address, site_address


def test_a_token_has_256_bits_and_its_own_scope_and_is_kept_as_a_hash_only():
    tokens = AccessTokens()
    reading, approving = tokens.issue("read"), tokens.issue("approve")
    assert (tokens.scope_of(reading), tokens.scope_of(approving)) == ("read", "approve")
    assert len(reading) == 43 and reading != approving
    assert (
        tokens.scope_of(reading + "x") is None and tokens.scope_of("") is None and tokens.scope_of("\ud800") is None
    )
    assert reading not in repr(vars(tokens)) and approving not in repr(vars(tokens))


def test_a_code_is_exchanged_once_soon_and_after_few_tries():
    tokens = AccessTokens()
    assert tokens.exchange("ABCDE", 0.0) is None
    code = tokens.issue_code("read", 0.0)
    token = tokens.exchange(f"{code[:5]}-{code[5:].lower()}", 1.0)
    assert tokens.scope_of(token) == "read"
    assert tokens.exchange(code, 2.0) is None
    assert tokens.exchange(tokens.issue_code("read", 0.0), CODE_S) is None
    code = tokens.issue_code("approve", 0.0)
    assert [tokens.exchange("WRONG", 1.0) for _ in range(CODE_TRIES)] == [None] * CODE_TRIES
    assert tokens.exchange(code, 1.0) is None
    first, second = tokens.issue_code("read", 0.0), tokens.issue_code("read", 0.0)
    assert tokens.exchange(first, 1.0) is None
    assert tokens.exchange(second, 1.0) is not None


def test_a_rate_has_a_burst_fills_again_and_counts_each_key_by_itself():
    limit = RateLimit(rate=1.0, burst=2.0)
    assert [limit.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert limit.take("b", 0.0)
    assert [limit.take("a", 1.0), limit.take("a", 1.0)] == [True, False]
    assert not limit.take("a", 0.5), "a clock that goes back gives nothing"
    for number in range(MOST_KEYS + 10):
        limit.take(number, 2.0)
    assert len(limit._levels) == MOST_KEYS


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8750", True), ("localhost:8750", True), ("LocalHost:8750", True), ("[::1]:8750", True),
        ("127.0.0.1", False), ("127.0.0.1:8751", False), ("evil.example:8750", False), ("localhost.evil.example:8750", False),
        ("127.0.0.1.nip.io:8750", False), ("127.0.0.2:8750", False), ("0.0.0.0:8750", False), ("", False),
        ("localhost:8750 ", False), ("localhost:8750,evil", False), ("2130706433:8750", False), ("x" * 300, False),
    ],
)  # fmt: skip
def test_only_the_own_host_and_port_is_a_host(host, ours):
    assert site_address("127.0.0.1", 8750, scheme="http").is_host(host) is ours


def test_an_origin_is_that_of_the_host_that_was_asked():
    site = site_address("127.0.0.1", 8750, scheme="http")
    assert site.is_origin("http://localhost:8750", "localhost:8750")
    for origin in ("null", "https://localhost:8750", "http://localhost:3000", "http://127.0.0.1:8750", ""):
        assert not site.is_origin(origin, "localhost:8750")


def test_a_server_on_every_address_takes_numbers_with_its_port_and_no_name():
    site = site_address("0.0.0.0", 8750, scheme="https")
    assert site.is_host("192.168.1.5:8750") and site.is_host("[fe80::1]:8750")
    for host in ("evil.example:8750", "192.168.1.5", "192.168.1.5:80", "0.0.0.0:8750"):
        assert not site.is_host(host)


def test_a_further_name_is_a_host_as_it_was_given():
    site = site_address("127.0.0.1", 8750, scheme="https", names=["Team.example", "localhost:9000"])
    assert site.is_host("team.example") and site.is_host("localhost:9000") and not site.is_host("team.example:8750")
    for name in ("", "a b", "a/b", "a:b", "http://a", "a\nb"):
        with pytest.raises(BadRequest):
            site_address("127.0.0.1", 8750, scheme="http", names=[name])


def test_behind_a_proxy_only_the_hosts_that_were_named_are_asked_for():
    """A proxy that sends its own idea of a host shows it at the first page, not at the first answer."""
    site = site_address("0.0.0.0", 8750, scheme="http", names=["team.example:443"], behind_proxy=True)
    assert site.is_host("team.example") and site.is_origin("https://team.example", "team.example")
    for host in ("127.0.0.1:8750", "localhost:8750", "192.168.1.5:8750", "team.example:8750"):
        assert not site.is_host(host)


def test_the_default_port_may_be_left_out():
    assert site_address("192.168.1.5", 443, scheme="https").is_host("192.168.1.5")
    assert not site_address("192.168.1.5", 443, scheme="http").is_host("192.168.1.5")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("192.168.1.5:90", ("192.168.1.5", 90)), ("192.168.1.5", ("192.168.1.5", 8750)), ("[::]:90", ("::", 90)),
        ("::1", ("::1", 8750)), ("[::1]", ("::1", 8750)),
    ],
)  # fmt: skip
def test_a_listen_address_is_an_ip_address_with_a_port(text, meant):
    assert listen_address(text, 8750) == meant


@pytest.mark.parametrize(
    "text", ["", ":80", "localhost:80", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:70000", "1.2.3.4:-1", "::1:99999x"]
)
def test_another_listen_address_is_refused(text):
    with pytest.raises(BadRequest) as refused:
        listen_address(text, 8750)
    assert refused.value.code == "bad_argument"
