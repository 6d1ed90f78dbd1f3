"""The words put before models: what render replaces, how long a reminder may be, what the prompt files promise."""

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core import prompts

FILES = Path(__file__).resolve().parents[3] / "prompts"
LOOP_VALUES = {
    "agent_id": "lint",
    "role": "linter",
    "artifacts": "/p/.agents/agents/lint/artifacts",
    "project": "/p",
}


def tokens(text: str) -> float:
    return len(text.split()) * 1.3


def test_render_replaces_known_names_only():
    assert prompts.render("{a} {b} {c}", {"a": "1", "b": "2"}) == "1 2 {c}"


def test_render_leaves_json_braces_untouched():
    text = '{"agent_id": "{agent_id}", "payload": {}, "x": {"y": [1]}}'
    assert json.loads(prompts.render(text, {"agent_id": "lint"})) == {
        "agent_id": "lint",
        "payload": {},
        "x": {"y": [1]},
    }


@given(st.text(), st.text())
def test_render_never_expands_a_value_again(first: str, second: str):
    assert prompts.render("{a}{b}", {"a": "{b}" + first, "b": second}) == "{b}" + first + second


def test_a_reminder_says_who_what_and_which_call_comes_next():
    idle = prompts.reminder("lint", None, False)
    busy = prompts.reminder("lint", "t-7", False)
    canceled = prompts.reminder("lint", "t-7", True)
    assert "lint" in idle
    assert "no task" in idle
    assert "t-7" in busy
    assert "emit_event" in busy
    assert "canceled" in canceled
    assert "t-7" in canceled
    assert all("wait_for_command" in text for text in (idle, busy, canceled))


def test_a_reminder_has_at_most_60_tokens():
    for task in (None, "t-1"):
        for canceled in (False, True):
            assert tokens(prompts.reminder("agent", task, canceled)) <= 60


def test_the_agents_prompt_is_filled_completely_and_its_json_examples_parse():
    text = prompts.render((FILES / "agent.md").read_text(), LOOP_VALUES)
    assert not re.search(r"\{(agent_id|role|artifacts|project)\}", text)
    block = text.split("```json")[1].split("```")[0].replace("\n ", " ")
    events = [json.loads(line) for line in block.strip().splitlines()]
    assert [event["type"] for event in events] == ["ack", "progress", "result", "error", "canceled"]
    assert all(event.get("done", False) is (event["type"] in {"result", "error", "canceled"}) for event in events)


def test_the_agents_prompt_holds_the_rules_the_requirements_name():
    text = prompts.render((FILES / "agent.md").read_text(), LOOP_VALUES)
    for word in (
        "wait_for_command",
        "first out",
        "cancel_requested",
        "redelivered",
        "reminder",
        LOOP_VALUES["artifacts"],
    ):
        assert word in text


def test_the_masters_prompt_names_every_master_tool_it_needs_with_arguments_that_parse():
    text = prompts.render((FILES / "lead_team.md").read_text(), {"project": "/p"})
    assert "{project}" not in text
    calls = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    decoder = json.JSONDecoder()
    seen = set()
    for block in calls:
        for found in re.finditer(r"^([a-z_]+) (?=\{)", block, re.MULTILINE):
            arguments, _ = decoder.raw_decode(block, found.end())
            assert isinstance(arguments, dict)
            seen.add(found[1])
    assert seen == {"agents_create", "task_enqueue", "broadcast_read", "task_cancel", "agent_delete"}
