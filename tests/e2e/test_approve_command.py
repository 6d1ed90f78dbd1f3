"""Each of the four CLIs is answered by the command line alone: approve, deny, and the rule of approve --always."""

from __future__ import annotations

import json

import pytest

from tests.e2e import test_approvals_claude, test_approvals_codex, test_approvals_gemini, test_opencode
from tests.e2e.agent import QUICK, Agent
from tests.e2e.world import START_S
from tests.support.stage import until

SHELLS = {
    "claude": test_approvals_claude.shell,
    "codex": test_approvals_codex.shell,
    "gemini": test_approvals_gemini.shell,
    "opencode": test_opencode.bash,
}


def patient_world(make_world, kind, hold=""):
    """A world whose CLIs wait for people who answer by commands: no face is open."""
    world = make_world(kind, config=QUICK)
    if kind == "opencode":
        test_opencode.of_the_user(world)
    own = world.home / ".config/orchestrator/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"approvals.hold = 'always'\n{hold}")
    return world


@pytest.mark.parametrize("kind", SHELLS)
def test_a_human_answers_every_cli_by_the_command_line(make_world, kind):
    world = patient_world(make_world, kind)
    shell, agent = SHELLS[kind], Agent(world, "ada")

    def command(*words, code=0):
        done = world.orchestrator(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def item(text):
        def look():
            return next((one for one in command("inbox")["inbox"] if text in one["asked"]), None)

        return until(look, START_S)

    agent.give("t1", calls=[shell("touch one")], tell=True)
    asked = item("touch one")
    assert asked["tool"] and asked["cwd"] == str(world.root)
    assert "touch one" in world.orchestrator("inbox", asked["id"]).stdout
    assert command("approve", asked["id"])["decision"] == "approve"
    assert agent.end("t1")["type"] == "result" and (world.root / "one").exists()
    assert command("approve", asked["id"], code=3)["error"]["code"] == "item_over"

    agent.give("t2", calls=[shell("touch two")], tell=True)
    command("deny", item("touch two")["id"], "--reason", "use another name")
    assert "use another name" in str(agent.end("t2")["payload"]["told"])
    assert not (world.root / "two").exists()

    # A rule: the same is not asked again, anything else is, and what was removed is asked again.
    agent.give("t3", calls=[shell("touch three")], tell=True)
    rule = command("approve", item("touch three")["id"], "--always")["rule"]
    assert agent.end("t3")["type"] == "result"
    (listed,) = command("approvals", "list")["rules"]
    assert (listed["id"], listed["kind"], listed["text"]) == (rule, "command", "touch three")
    (world.root / "three").unlink()
    agent.give("t4", calls=[shell("touch three")], tell=True)
    assert agent.end("t4")["type"] == "result" and (world.root / "three").exists()
    agent.give("t5", calls=[shell("touch three four")], tell=True)
    command("deny", item("touch three four")["id"], "--reason", "no")
    agent.end("t5")
    assert not (world.root / "four").exists()
    command("approvals", "remove", rule)
    (world.root / "three").unlink()
    agent.give("t6", calls=[shell("touch three")], tell=True)
    command("approve", item("touch three")["id"])
    assert agent.end("t6")["type"] == "result" and (world.root / "three").exists()

    answered = [each for each in agent.records() if each["type"] == "answered"]
    assert [(each["decision"], each["who"]["acts_as"]) for each in answered] == [
        ("approve", "human"), ("deny", "human"), ("always", "human"), ("approve", "rule"), ("deny", "human"),
        ("approve", "human"),
    ]  # fmt: skip
    assert {each["who"]["face"] for each in answered} == {"cli", "rule"}
    assert command("inbox")["inbox"] == []
