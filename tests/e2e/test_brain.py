"""The scripted brain keeps the loop, misbehaves exactly as told, and answers a repeated request the same way."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.models.brain import Brain
from tests.e2e.models.faults import FAULTS
from tests.e2e.models.server import ModelServer
from tests.e2e.models.turn import KINDS, Call, Kind, Message, Reply, Result, Tool, Turn, error_of, value_of
from tests.e2e.stub import TOOLS, Stub
from tests.support.stage import BOUND_S, until

FIRST = 'You are agent a1. Begin now: call wait_for_command with agent_id "a1".'
AGAIN = "Stop hook feedback:\nYou are agent a1: call wait_for_command now."
STOP = {"kind": "stop"}


class Talker:
    """A CLI without a model: asks the brain, runs its calls at a stub, goes on as a turn-end hook would."""

    def __init__(self, brain: Brain, stub: Stub) -> None:
        self.brain = brain
        self.stub = stub
        self.tools = tuple(Tool(name=f"mcp__orchestrator__{tool['name']}") for tool in TOOLS)
        self.messages = [Message("user", FIRST)]
        self.rounds: list[str] = []  # one per model turn: what it called, joined by +, or its words in brackets

    def turn(self) -> Turn:
        return Turn("claude", "m", "rules", tuple(self.messages), self.tools)

    def step(self) -> Reply:
        reply = self.brain.answer(self.turn())
        calls = tuple(
            Call(call.name, call.arguments, id=f"{len(self.rounds)}.{i}") for i, call in enumerate(reply.calls)
        )
        self.messages.append(Message("assistant", reply.text, calls))
        self.rounds.append("+".join(self._name(call) for call in calls) or f"({reply.text})")
        if calls:
            self.messages.append(Message("user", "", results=tuple(self._result(call) for call in calls)))
        return reply

    def run(self, limit: int = 30) -> list[str]:
        while len(self.rounds) < limit:
            reply = self.step()
            if reply.text == "Goodbye.":
                break
            if not reply.calls:
                self.messages.append(Message("user", AGAIN))
        return self.rounds

    @staticmethod
    def _name(call: Call) -> str:
        if call.is_of("wait_for_command"):
            return "wait"
        stray = call.arguments.get("agent_id") != "a1" or call.arguments.get("task_id") == "not-mine"
        return f"{call.arguments.get('type', call.name)}{'!' if stray else ''}"

    def _result(self, call: Call) -> Result:
        name = call.name.removeprefix("mcp__orchestrator__")
        if name == call.name:
            return Result(call, f"Error: no such tool {name}", failed=True)
        text = json.dumps(self.stub.answer(name, call.arguments))
        return Result(call, text, value_of(text))


@pytest.fixture
def talker(tmp_path: Path) -> Callable[..., Talker]:
    """A conversation over these commands."""

    def make(*commands: dict[str, Any]) -> Talker:
        place = tmp_path / "commands.json"
        place.write_text(json.dumps(commands))
        return Talker(Brain(), Stub(place, "a1"))

    return make


def task(**payload: Any) -> dict[str, Any]:
    return {"kind": "task", "task_id": "t1", "payload": payload}


SEQUENCES = {
    "forget_ack": "wait result wait (Goodbye.)",
    "forget_terminal": "wait ack wait result wait (Goodbye.)",
    "never_terminal": "wait ack wait wait wait wait wait wait",
    "terminal_twice": "wait ack result result wait (Goodbye.)",
    "end_turn": "wait ack result (I have done the task.) wait (Goodbye.)",
    "plain_text": "wait (I will do that task right away.) wait ack result wait (Goodbye.)",
    "unknown_tool": "wait do_everything! ack result wait (Goodbye.)",
    "wrong_agent_id": "wait ack! ack result wait (Goodbye.)",
    "wrong_task_id": "wait ack result! result wait (Goodbye.)",
    "amnesia": "wait ack wait result wait (Goodbye.)",
    "parallel": "wait ack result+wait (Goodbye.)",
    "double_wait": "wait ack result wait+wait (Goodbye.)",
}


def test_every_fault_has_its_sequence() -> None:
    assert set(SEQUENCES) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows_once_and_the_next_task_is_done_well(talker: Callable[..., Talker], fault: str) -> None:
    second = {"kind": "task", "task_id": "t2", "payload": {"say": "y"}}
    one = talker(task(say="x"), STOP) if fault == "never_terminal" else talker(task(say="x"), STOP, second, STOP)
    one.brain.misbehave(fault, "a1")
    limit = 8 if fault == "never_terminal" else 30
    assert " ".join(one.run(limit)) == SEQUENCES[fault]
    if fault != "never_terminal":
        one.messages.append(Message("user", AGAIN))
        del one.rounds[:]
        assert " ".join(one.run()) == "wait ack result wait (Goodbye.)"


def test_a_fault_of_another_agent_does_nothing(talker: Callable[..., Talker]) -> None:
    one = talker(task(say="x"), STOP)
    one.brain.misbehave("forget_ack", "a2")
    assert " ".join(one.run()) == "wait ack result wait (Goodbye.)"


@pytest.mark.parametrize(
    ("payload", "kind", "said"),
    [
        ({"say": "x"}, "result", {"said": "x"}),
        ({"fail": "why"}, "error", {"code": "scripted", "message": "why"}),
        ({"else": 1}, "result", {"echo": {"else": 1}}),
        ({"calls": [{"name": "shell"}], "tell": True}, "result", {"told": ["Error: no such tool shell"]}),
    ],
)
def test_a_payload_decides_the_end(
    talker: Callable[..., Talker], payload: dict[str, Any], kind: str, said: dict[str, Any]
) -> None:
    one = talker(task(**payload), STOP)
    one.run()
    last = [call for message in one.messages for call in message.calls if call.arguments.get("type") == kind]
    assert [call.arguments["payload"] for call in last] == [said]
    assert last[0].arguments["done"] is True


def test_a_held_task_beats_until_its_gate_opens(talker: Callable[..., Talker]) -> None:
    one = talker(task(hold="door"), STOP)
    for _ in range(4):
        one.step()
    assert one.rounds == ["wait", "ack", "heartbeat", "heartbeat"]
    one.brain.open("door")
    assert one.run()[4:] == ["result", "wait", "(Goodbye.)"]


def test_a_cancel_ends_a_held_task(talker: Callable[..., Talker]) -> None:
    one = talker(task(hold="door"), STOP)
    for _ in range(3):
        one.step()
    one.stub.cancel = True
    assert one.run()[3:] == ["heartbeat", "canceled", "wait", "(Goodbye.)"]


def test_an_answer_that_says_park_ends_the_turn_and_a_word_to_wait_resumes(talker: Callable[..., Talker]) -> None:
    one = talker()
    assert [one.step().text, one.step().text] == ["", "Parked."]
    one.messages.append(Message("user", "good morning"))
    assert one.step().text == "You said: good morning"
    one.messages.append(Message("user", AGAIN))
    one.stub.commands = [task(say="x"), STOP]
    assert one.run()[3:] == ["wait", "ack", "result", "wait", "(Goodbye.)"]


def test_a_new_day_that_the_cli_tells_of_beside_a_result_is_no_word_of_the_user(
    talker: Callable[..., Talker],
) -> None:
    one = talker(task(calls=[{"name": "shell"}]), STOP)
    for _ in range(3):
        one.step()
    day = "<environment_context>\n  <current_date>2026-01-02</current_date>\n</environment_context>"
    one.messages[-1] = replace(one.messages[-1], text=day)
    assert one.run()[3:] == ["result", "wait", "(Goodbye.)"]


def test_an_agent_that_is_refused_for_ever_gives_up(talker: Callable[..., Talker]) -> None:
    one = talker(task(say="x"))
    one.stub.agent_id = "somebody-else"
    assert [said for said in one.run() if said.startswith("(I give up")] != []


def test_a_repeated_request_gets_the_same_reply(talker: Callable[..., Talker]) -> None:
    one = talker(task(say="x"), STOP)
    one.brain.misbehave("forget_ack")
    while one.rounds[-1:] != ["(Goodbye.)"]:
        assert one.brain.answer(one.turn()) == one.brain.answer(one.turn())
        one.step()


def test_a_master_plays_its_script_once_per_step() -> None:
    brain, seen = Brain(), []

    def lead() -> Any:
        seen.append((yield "agent_list", {}))
        seen.append((yield [("agent_get", {"agent_id": "a"}), ("agent_get", {"agent_id": "b"})]))
        seen.append((yield "Waiting."))
        return "Done with it."

    messages = [Message("user", f"please: {brain.script('lead', lead)}")]
    tools = (Tool("orchestrator_agent_list"), Tool("orchestrator_agent_get"))
    for expected, answer in [
        (["orchestrator_agent_list"], ['{"agents": []}']),
        (["orchestrator_agent_get"] * 2, ['{"n": 1}', "not found"]),
        ([], None),
        ([], None),
    ]:
        turn = Turn("opencode", "m", "", tuple(messages), tools)
        reply = brain.answer(turn)
        assert brain.answer(turn) == reply
        assert brain.who(turn) is None
        assert [call.name for call in reply.calls] == expected
        messages.append(Message("assistant", reply.text, reply.calls))
        results = [Result(c, a, value_of(a)) for c, a in zip(reply.calls, answer or [], strict=True)]
        messages.append(Message("user", "" if results else "go on", results=tuple(results)))
    assert seen == [{"agents": []}, [{"n": 1}, {"text": "not found"}], "go on"]
    assert reply.text == "Done with it."
    assert brain.masters.over("lead")


def test_what_a_script_raises_is_kept_for_the_test() -> None:
    brain = Brain()

    def lead() -> Any:
        answer = yield "agent_list", {}
        assert answer == {}, "not what I hoped for"

    messages = [Message("user", brain.script("lead", lead))]
    tools = (Tool("agent_list"),)
    (call,) = brain.answer(Turn("gemini", "m", "", tuple(messages), tools)).calls
    messages += [Message("assistant", calls=(call,)), Message("user", results=(Result(call, "x"),))]
    reply = brain.answer(Turn("gemini", "m", "", tuple(messages), tools))
    assert "My script failed" in reply.text
    assert ["not what I hoped for" in str(error) for error in brain.masters.errors()] == [True]


def test_a_tool_that_is_not_there_yet_is_tried_again_without_a_step() -> None:
    brain = Brain()
    messages = [Message("user", 'MASTER CALLS [["agent_list", {}]]')]
    tools: tuple[Tool, ...] = (Tool("ToolSearch"),)
    names = []
    for _ in range(4):
        reply = brain.answer(Turn("claude", "m", "", tuple(messages), tools))
        names += [call.name for call in reply.calls] or [reply.text]
        results = tuple(Result(call, "loaded") for call in reply.calls)
        messages += [Message("assistant", reply.text, reply.calls), Message("user", results=results)]
        if len(names) == 2:
            tools = (Tool("ToolSearch"), Tool("mcp__orchestrator__agent_list"))
    assert names == ["ToolSearch", "ToolSearch", "mcp__orchestrator__agent_list", "All calls are made."]


def one_shot(*said: Message, brain: Brain | None = None) -> Reply:
    tools = (Tool("todowrite"), Tool("write"), Tool("functions_shell", namespace="n"))
    return (brain or Brain()).answer(Turn("claude", "m", "", said, tools))


def test_a_one_shot_run_tells_what_it_heard_without_what_the_cli_adds() -> None:
    first = Message("user", "<system-reminder>\nfor you\n</system-reminder>\nThe word\nis mango.")
    assert one_shot(first).text == "I heard 1 prompt; now: The word"
    more = (first, Message("assistant", "Yes."), Message("user", "And now?"))
    assert one_shot(*more).text == "I heard 2 prompts; before: The word; now: And now?"


def test_the_last_prompt_of_a_one_shot_run_says_what_is_called_and_answered() -> None:
    brain = Brain()
    script = {"calls": [{"name": "write", "arguments": {"a": 1}}, {"name": "shell"}], "hold": "door", "say": "x"}
    said = [Message("user", f"# You are agent a1.\nNo SCRIPT: {{here}}, but SCRIPT: {json.dumps(script)} and more.")]
    assert brain.who(Turn("claude", "m", "", tuple(said))) is None
    for name, space in (("write", ""), ("functions_shell", "n")):
        reply = one_shot(*said, brain=brain)
        assert [(call.name, call.namespace) for call in reply.calls] == [(name, space)]
        said += [
            Message("assistant", "", reply.calls),
            Message("user", "a note", results=(Result(reply.calls[0], "ok"),)),
        ]
    assert one_shot(*said, brain=brain) == Reply("x", hold="door")
    again = (*said, Message("assistant", "x"), Message("user", 'SCRIPT: {"calls": [{"name": "write"}]}'))
    assert [call.name for call in one_shot(*again, brain=brain).calls] == ["write"]


BARE = '{"error": {"code": "replaced", "message": "m"}, "reminder": "r"}'
QUOTED = (
    'reported tool error for function call: {"name":"x","args":{"a":1}} with response: [{"error":'
    '{"content":[{"text":"{\\"error\\":{\\"code\\":\\"no_lease\\"}}"}]}}]'
)


@pytest.mark.parametrize(("shown", "code"), [(BARE, "replaced"), (QUOTED, "no_lease")])
def test_an_error_is_read_however_deep_it_is_quoted(shown: str, code: str) -> None:
    found = error_of(shown)
    assert found is not None
    assert found["error"]["code"] == code


def test_an_error_without_a_code_is_only_text() -> None:
    assert error_of('call {"name": "x", "args": {}} failed') is None


@pytest.mark.parametrize(
    "shown",
    [
        '{"a": 1}',
        '<untrusted_context>\n{"a": 1}\n</untrusted_context>',
        'Wall time: 0.1 seconds\nOutput:\n{"a": 1}',
        '{"result": "{\\"a\\": 1}"}',
        '{"a": 1}\n\n<system-reminder>\n5 tokens left\n</system-reminder>',
    ],
)
def test_an_answer_is_read_in_every_clis_form(shown: str) -> None:
    assert value_of(shown) == {"a": 1}


# -- the server ------------------------------------------------------------------------------------------------------

PATHS: dict[Kind, tuple[str, dict[str, Any]]] = {
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "contents": [{"role": "user", "parts": [{"text": FIRST}]}],
            "tools": [{"functionDeclarations": [{"name": "wait_for_command"}, {"name": "emit_event"}]}],
        },
    ),
    "claude": (
        "/v1/messages?beta=true",
        {
            "messages": [{"role": "user", "content": FIRST}],
            "tools": [{"name": "wait_for_command"}, {"name": "emit_event"}],
            "stream": True,
        },
    ),
    "codex": (
        "/v1/responses",
        {
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": FIRST}]}],
            "tools": [{"type": "namespace", "name": "n", "tools": [{"name": "wait_for_command"}, {"name": "emit_event"}]}],
            "stream": True,
        },
    ),
    "opencode": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": FIRST}],
            "tools": [{"function": {"name": "wait_for_command"}}, {"function": {"name": "emit_event"}}],
            "stream": True,
        },
    ),
}  # fmt: skip


def ask(server: ModelServer, kind: Kind) -> tuple[int, str, dict[str, str]]:
    path, body = PATHS[kind]
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_speaks_each_protocol_and_remembers(models: ModelServer, kind: Kind) -> None:
    status, said, _headers = ask(models, kind)
    assert status == 200
    assert "wait_for_command" in said
    (request,) = models.requests
    assert (request.kind, request.agent_id, request.side_call) == (kind, "a1", None)
    assert models.count("a1") == 1
    assert models.count("a2") == 0
    assert models.count(since=request.at) == 1
    assert models.count(since=request.at + 1e-6) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_trouble_hits_the_next_requests_and_ends(models: ModelServer, kind: Kind) -> None:
    models.brain.trouble(429, times=2, agent_id="a1", headers={"Retry-After": "7"})
    models.brain.trouble(529, times=None, agent_id="somebody-else")
    answers = [ask(models, kind) for _ in range(3)]
    assert [status for status, _said, _headers in answers] == [429, 429, 200]
    assert answers[0][2]["Retry-After"] == "7"
    assert json.loads(answers[0][1])["error"]["type"] == "rate_limit_error"


def test_a_hanging_request_ends_with_the_server_and_the_next_one_is_answered(models: ModelServer) -> None:
    models.brain.trouble(hang=True)
    outcome: list[BaseException] = []

    def hang() -> None:
        try:
            ask(models, "codex")
        except OSError as error:
            outcome.append(error)

    waiting = threading.Thread(target=hang)
    waiting.start()
    until(lambda: models.count() == 1)
    assert ask(models, "codex")[0] == 200
    assert waiting.is_alive()
    models.down()
    waiting.join(BOUND_S)
    assert len(outcome) == 1


def test_a_held_answer_is_remembered_at_once_and_comes_when_its_gate_opens(
    models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = PATHS["claude"]
    held = [{"role": "user", "content": 'SCRIPT: {"hold": "door", "say": "x"}'}]
    monkeypatch.setitem(PATHS, "claude", (path, {**body, "messages": held}))
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(ask(models, "claude")[1]))
    waiting.start()
    until(lambda: models.count() == 1)
    assert (said, waiting.is_alive()) == ([], True)
    models.brain.open("door")
    waiting.join(BOUND_S)
    assert '"text": "x"' in said[0]


def test_the_server_goes_down_and_comes_up_on_the_same_port(models: ModelServer) -> None:
    url = models.url
    models.down()
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask(models, "claude")
    models.up()
    assert models.url == url
    assert ask(models, "claude")[0] == 200
