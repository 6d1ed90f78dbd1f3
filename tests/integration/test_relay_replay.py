"""The relay's table of states, and what it replays: a daemon that dies is never noticed by the client."""

import os

import pytest

from orchestrator.edge.project_location import PER_CONNECTION
from tests.fakes.relays import Bench, until

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    one = Bench(tmp_path, monkeypatch)
    yield one
    one.close()


def test_a_request_goes_to_a_daemon_the_relay_started_and_its_answer_comes_back(bench):
    one = bench.client()
    one.call(1, "effect", n=7)
    assert one.answer(1)["result"] == {"n": 7}
    assert bench.starts() == 1


def test_the_hello_says_who_connects_and_from_where(bench, monkeypatch):
    for name in PER_CONNECTION:
        monkeypatch.delenv(name, raising=False)
    env = {
        "TMUX": "/tmp/t,1,0", "TMUX_PANE": "%3", "STATE_MODE": "stateless", "OPENROUTER_API_KEY": "k", "SECRET": "no",
        "ORCHESTRATOR_AGENT_ID": "a1", "ORCHESTRATOR_AGENT_EPOCH": "2", "ORCHESTRATOR_AGENT_SECRET": "s",
    }  # fmt: skip
    sub = bench.root / "sub"
    sub.mkdir()
    one = bench.client("--toolsets", "team,gsd", env=env, cwd=sub)
    one.call(1, "effect")
    one.answer(1)
    [fact] = bench.effects("hello")
    said = fact["hello"]
    assert (said["proto"], said["kind"], said["boot"]) == (1, "relay", 1)
    assert said["project"] == str(bench.root)
    assert said["cwd"] == str(sub)
    assert said["toolsets"] == ["team", "gsd"]
    assert (said["tmux"], said["tmux_pane"]) == ("/tmp/t,1,0", "%3")
    assert said["env"] == {"STATE_MODE": "stateless", "OPENROUTER_API_KEY": "k"}
    assert said["agent"] == {"id": "a1", "epoch": 2, "secret": "s"}
    assert len(said["conn"]) == 16
    assert said["pids"][0] == os.getpid()
    assert 1 not in said["pids"]
    # What names a connection must not become the daemon's own.
    [start] = bench.effects("start")
    assert not ({*env} - {"SECRET"}) & {*start["env"]}


def test_an_agents_relay_offers_the_agents_toolset_only(bench):
    one = bench.client("--agent")
    one.call(1, "effect")
    one.answer(1)
    said = bench.effects("hello")[0]["hello"]
    assert said["toolsets"] == ["agent"]
    assert said["agent"] is None


@pytest.mark.parametrize("key", [7, "7", "relay-like#1", 'quo"te', 0, -1, "ü"])
def test_an_unanswered_request_is_sent_again_with_its_own_id_and_its_age(bench, key):
    one = bench.client()
    one.handshake()
    one.call(key, "hold", lives=1)
    until(lambda: bench.lines("tools/call"))
    bench.kill()
    assert one.answer(key)["result"] == {"starts": 2}
    again = bench.effects("hello")[-1]["hello"]
    [[sent, age_ms]] = again["pending"]
    assert (sent, type(sent)) == (key, type(key))
    assert age_ms >= 0
    assert again["boot"] == 2
    assert again["conn"] == bench.effects("hello")[0]["hello"]["conn"]
    assert [m["id"] for m in one.received if m.get("id") == key] == [key]


def test_a_number_and_a_string_of_the_same_digits_are_two_requests(bench):
    one = bench.client()
    one.call(7, "hold", lives=1)
    one.call("7", "hold", lives=1)
    until(lambda: len(bench.lines("tools/call")) == 2)
    bench.kill()
    one.answer(7)
    one.answer("7")  # a relay whose client has left waits for a slow daemon for a moment only
    assert sorted(repr(m["id"]) for m in one.rest()) == ["'7'", "7"]


@pytest.mark.parametrize("version", LEGACY)
def test_a_handshake_is_repeated_to_a_new_daemon_and_not_shown_to_the_client(bench, version):
    one = bench.client()
    assert one.handshake(version)["result"]["protocolVersion"] == version
    one.call(1, "effect")
    one.answer(1)
    bench.kill()
    one.call(2, "effect")
    one.answer(2)
    first, again = bench.lines("initialize")
    assert first["id"] == "init"
    assert again["id"].startswith("relay#2.")
    assert again["params"] == first["params"]
    order = [fact["message"]["method"] for fact in bench.effects("line")]
    assert order[-3:] == ["initialize", "notifications/initialized", "tools/call"]
    assert [m["id"] for m in one.rest()] == ["init", 1, 2]


def test_a_modern_client_has_nothing_replayed(bench):
    one = bench.client()
    one.send(id=1, method="server/discover", params={})
    one.answer(1)
    one.send(id=2, method="subscriptions/listen", params={})
    one.answer(2)
    one.call(3, "hold", lives=1)
    until(lambda: bench.lines("tools/call"))
    bench.kill()
    one.answer(3)
    assert len(bench.lines("server/discover")) == 1
    assert len(bench.lines("subscriptions/listen")) == 1


def test_an_initialize_that_failed_is_not_repeated(bench):
    one = bench.client()
    one.send(id=1, method="initialize", params={"fail": True})
    assert one.answer(1)["error"]["code"] == -32022
    one.call(2, "hold", lives=1)
    until(lambda: bench.lines("tools/call"))
    bench.kill()
    one.answer(2)
    assert len(bench.lines("initialize")) == 1


def test_an_initialize_cut_off_by_a_crash_is_answered_once_by_the_next_daemon(bench):
    bench.behave(crash_starts=2)  # first: the relay starts a daemon at once, and the daemon reads it at its start
    one = bench.client()
    one.handshake()
    assert bench.starts() == 3
    assert [m["id"] for m in one.rest()] == ["init"]


def test_log_level_and_live_subscriptions_are_set_up_again(bench):
    one = bench.client()
    one.handshake()
    asked = [
        ("logging/setLevel", {"level": "info"}), ("logging/setLevel", {"level": "error"}),
        ("resources/subscribe", {"uri": "agent://a/outbox"}), ("resources/subscribe", {"uri": "agent://b/outbox"}),
        ("resources/unsubscribe", {"uri": "agent://a/outbox"}),
    ]  # fmt: skip
    for key, (method, params) in enumerate(asked):
        one.send(id=key, method=method, params=params)
        one.answer(key)
    before = len(bench.effects("line"))
    bench.kill()
    one.call("last", "effect")
    one.answer("last")
    replayed = [fact["message"] for fact in bench.effects("line")[before:]]
    assert [(m["method"], m.get("params")) for m in replayed[2:-1]] == [asked[1], asked[3]]
    assert all(m["id"].startswith("relay#") for m in replayed[2:-1])
    assert [m["id"] for m in one.rest()] == ["init", 0, 1, 2, 3, 4, "last"]


def test_a_daemon_that_introduces_itself_differently_makes_the_client_list_the_tools_again(bench):
    one = bench.client()
    one.handshake()
    bench.behave(version="2")
    bench.kill()
    one.call(1, "effect")
    one.answer(1)
    assert [m.get("method") for m in one.received] == [None, "notifications/tools/list_changed", None]
    bench.kill()
    one.call(2, "effect")
    one.answer(2)
    assert len(one.rest()) == 4


def test_a_request_canceled_while_no_daemon_runs_is_never_sent(bench):
    one = bench.client()
    one.call(1, "hold")
    until(lambda: bench.lines("tools/call"))
    (bench.run / "restarting").touch()
    (bench.run / "stopped").touch()
    bench.kill()
    one.send(method="notifications/cancelled", params={"requestId": 1})
    one.call(2, "effect")
    one.send(id=3, method="ping")
    until(lambda: one.unread() == 0)  # a relay that the machine has kept waiting could start a daemon first
    (bench.run / "stopped").unlink()
    one.answer(3)
    assert [m["id"] for m in bench.lines("tools/call")] == [1, 2]
    assert [m["id"] for m in one.rest()] == [2, 3]


def test_a_request_canceled_before_the_crash_is_not_sent_again(bench):
    one = bench.client()
    one.call(1, "hold")
    one.send(method="notifications/cancelled", params={"requestId": 1})
    until(lambda: bench.lines("notifications/cancelled"))
    bench.kill()
    one.call(2, "effect")
    one.answer(2)
    assert [m["id"] for m in bench.lines("tools/call")] == [1, 2]


def test_other_notifications_of_the_gap_are_dropped(bench):
    one = bench.client()
    one.handshake()
    (bench.run / "stopped").touch()
    bench.kill()
    one.send(method="notifications/roots/list_changed")
    one.send(id=1, method="ping")
    until(lambda: one.unread() == 0)  # a relay that the machine has kept waiting could start a daemon first
    (bench.run / "stopped").unlink()
    one.answer(1)
    assert bench.lines("notifications/roots/list_changed") == []


def test_an_initialized_of_the_gap_is_remembered(bench):
    one = bench.client()
    one.send(id=1, method="initialize", params={"protocolVersion": "2025-06-18"})
    one.answer(1)
    (bench.run / "stopped").touch()
    bench.kill()
    one.send(method="notifications/initialized")
    one.send(id=2, method="ping")
    until(lambda: one.unread() == 0)  # a relay that the machine has kept waiting could start a daemon first
    (bench.run / "stopped").unlink()
    one.answer(2)
    assert [fact["message"]["method"] for fact in bench.effects("line")][1:] == [
        "initialize", "notifications/initialized", "ping",
    ]  # fmt: skip


def test_answers_nobody_waits_for_are_dropped(bench):
    one = bench.client()
    one.call(1, "twice")
    one.send(id=2, method="ping")
    one.answer(2)
    assert [(m["id"], m["result"]) for m in one.rest()] == [(1, {"n": 1}), (2, {})]


def test_half_an_answer_at_the_crash_never_reaches_the_client(bench):
    one = bench.client()
    one.call(1, "half")
    assert one.answer(1)["result"] == {"whole": True}
    assert len(bench.effects("hello")) == 2, "the rest of a dead daemon's line must not spoil the next one's hello"
    assert len(one.rest()) == 1


def test_an_answer_still_queued_when_the_daemon_dies_is_delivered(bench):
    one = bench.client()
    one.call(1, "bye")
    assert one.answer(1)["result"] == {"n": 1}
    assert len(bench.lines("tools/call")) == 1


def test_an_effect_whose_answer_was_lost_happens_once(bench):
    one = bench.client()
    one.call(1, "effect_then_die")
    assert one.answer(1)["result"] == {"again": True}
    assert len(bench.effects("effect")) == 1


def test_a_question_of_a_dead_daemon_is_withdrawn_and_a_late_reply_to_it_dropped(bench):
    one = bench.client()
    one.call(1, "ask")
    assert one.take()["id"] == "1:1"
    bench.kill()
    told = one.take()
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", "1:1")
    assert one.take()["id"] == "2:1"
    one.send(id="1:1", result={"action": "accept"})
    one.send(id="2:1", result={"action": "decline"})
    replies = until(lambda: [f["message"] for f in bench.effects("line") if "result" in f["message"]])
    assert [m["id"] for m in replies] == ["2:1"]


def test_thousands_of_bytes_of_noise_between_messages_do_not_reach_the_client(bench):
    one = bench.client()
    one.call(1, "noise")
    assert one.answer(1)["result"] == {"n": 1}
    one.call(2, "tell")
    one.answer(2)
    assert [m.get("method") for m in one.rest()] == [None, "notifications/progress", None]


def test_a_request_that_outlives_many_daemons_is_given_up(bench):
    one = bench.client(MAX_DEATHS=3)
    one.send(id=1, method="die/before", params={"times": 99})
    answer = one.answer(1)
    assert answer["error"]["data"]["error"]["code"] == "daemon_failed"
    assert bench.starts() in (3, 4)
    one.call(2, "effect")
    assert "result" in one.answer(2)
